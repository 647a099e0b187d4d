//! A page that the root task, the driver and the second component share, and that no other thread may reach.

use crate::world::{FIELD, read, write};

/// Its address in all three.
pub const SHARED: u64 = FIELD + 0x1f_f000;

/// Slots of the driver's table.
pub const SLOTS: u64 = 256;
pub const SLOT_BITS: u8 = 8;

/// A word of the page.
#[derive(Clone, Copy)]
#[repr(u64)]
pub enum Word {
    /// Steps that the driver has begun.
    Steps,
    /// The state of its random numbers.
    Chance,
    /// Number of rounds.
    Round,
    /// How often the second component has checked its memory and registers, and whether they were wrong.
    Looks,
    Wrong,
    /// Invocations that succeeded.
    Done,
    /// Kind and slot of the object in the last step, to find out why the machine hangs.
    Last,
    /// From here on: the kinds of the capabilities in the table, a byte each.
    Kinds,
}

impl Word {
    fn address(self) -> u64 {
        SHARED + self as u64 * 8
    }

    /// Reads it.
    pub fn get(self) -> u64 {
        read(self.address())
    }

    /// Sets it.
    pub fn set(self, word: u64) {
        write(self.address(), word);
    }
}

/// The kind of the capability in a slot, as far as the driver knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Kind {
    Nothing,
    Untyped,
    Tcb,
    Endpoint,
    Notification,
    CNode,
    Page,
    LargePage,
    PageTable,
    PageDirectory,
    Pdpt,
    VSpace,
    AsidControl,
    AsidPool,
    IrqControl,
    IrqHandler,
    IoPort,
}

/// All of them.
pub const KINDS: [Kind; 17] = [
    Kind::Nothing,
    Kind::Untyped,
    Kind::Tcb,
    Kind::Endpoint,
    Kind::Notification,
    Kind::CNode,
    Kind::Page,
    Kind::LargePage,
    Kind::PageTable,
    Kind::PageDirectory,
    Kind::Pdpt,
    Kind::VSpace,
    Kind::AsidControl,
    Kind::AsidPool,
    Kind::IrqControl,
    Kind::IrqHandler,
    Kind::IoPort,
];

fn place(slot: u64) -> *mut u8 {
    (Word::Kinds.address() + slot) as *mut u8
}

/// The kind of the capability in a slot.
pub fn kind(slot: u64) -> Kind {
    // SAFETY: the page is mapped in every caller's address space, and a slot's byte lies within it.
    let number = if slot < SLOTS { unsafe { place(slot).read_volatile() } } else { 0 };
    KINDS.get(number as usize).copied().unwrap_or(Kind::Nothing)
}

/// Sets the kind of the capability in a slot.
pub fn set_kind(slot: u64, kind: Kind) {
    if slot < SLOTS {
        // SAFETY: as above.
        unsafe { place(slot).write_volatile(kind as u8) };
    }
}
