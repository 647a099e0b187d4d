//! What the root task and a server agree on.
//!
//! The root task builds a server out of four things, all described here so that neither side guesses:
//!
//! 1. an **address space** ([`layout`]): the image, a stack, an IPC buffer, the facts ([`BootInfo`]), the
//!    timer's registers, a buffer for boot files, and the paging structures of two empty regions, the heap's and the
//!    window's, that the server fills itself;
//! 2. a **capability space** ([`cspace`]) of two levels: a root CNode whose first slots hold single capabilities, and
//!    leaf CNodes that the server makes as it needs slots;
//! 3. **memory** as untyped capabilities, listed in the boot page;
//! 4. **devices** that its programs may drive: device memory as untypeds, ranges of I/O ports, both listed in the boot
//!    pages; interrupts by asking for them;
//! 5. an **endpoint** to the root task that serves the boot file and interrupts ([`service`]).
//!
//! A pointer into the capability space is `root slot << LEAF_BITS | slot in the leaf`. A capability that stands in
//! the root CNode itself is found one step sooner, so whatever is used in each call stands there.
#![no_std]
#![forbid(unsafe_code)]

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Where things stand in a server's address space. Addresses in bytes.
pub mod layout {
    /// The first page of the stack's region; it stays unmapped, so that an overflow faults.
    pub const STACK_GUARD: u64 = 0x1000_0000;
    /// Bytes of stack above the guard.
    pub const STACK_SIZE: u64 = 256 << 10;
    /// The end of the stack.
    pub const STACK_TOP: u64 = STACK_GUARD + 4096 + STACK_SIZE;
    /// The server's IPC buffer.
    pub const IPC_BUFFER: u64 = 0x1010_0000;
    /// The pages of facts, read-only.
    pub const BOOT_INFO: u64 = 0x1010_2000;
    /// How many they are.
    pub const BOOT_INFO_PAGES: usize = 2;
    /// The HPET's registers.
    pub const HPET: u64 = 0x1010_4000;
    /// The page in which the server notes what it does ([`super::record`]).
    pub const RECORD: u64 = 0x1010_5000;
    /// A page for the server's own use, under the same page table; nothing is mapped there.
    pub const SCRATCH: u64 = 0x1010_6000;
    /// The boot-file buffer, one large page, read-only.
    pub const BOOT_FILE: u64 = 0x1020_0000;
    /// The window: chunk `c` of memory is seen at `WINDOW + c * CHUNK`.
    pub const WINDOW: u64 = 0x80_0000_0000;
    /// The heap, which grows by whole chunks.
    pub const HEAP: u64 = 0x100_0000_0000;
    /// Bytes for which the root task prepares the heap's paging structures.
    pub const HEAP_LIMIT: u64 = 1 << 30;
    /// Bytes in a chunk, the unit in which a server takes memory: a large page.
    pub const CHUNK: u64 = 2 << 20;
    /// Binary logarithm of [`CHUNK`].
    pub const CHUNK_BITS: u8 = 21;
}

/// Where capabilities stand.
pub mod cspace {
    /// Slots in a leaf CNode, as a binary logarithm.
    pub const LEAF_BITS: u8 = 10;
    /// Slots in a leaf CNode.
    pub const LEAF_SLOTS: u64 = 1 << LEAF_BITS;

    /// The server's TCB.
    pub const TCB: u64 = 1;
    /// The server's address space.
    pub const VSPACE: u64 = 3;
    /// The endpoint on which the server receives; unbadged, all rights.
    pub const ENDPOINT: u64 = 5;
    /// The root task's service endpoint, see [`super::service`].
    pub const ROOT: u64 = 6;
    /// The server's bound notification; unbadged.
    pub const NOTIFICATION: u64 = 7;
    /// Interrupt of the server's comparator of the HPET.
    pub const IRQ_TIMER: u64 = 8;
    /// Interrupt of the host link.
    pub const IRQ_LINK: u64 = 9;
    /// I/O ports of the console.
    pub const PORT_CONSOLE: u64 = 10;
    /// I/O ports of the host link.
    pub const PORT_LINK: u64 = 11;
    /// I/O ports of the real-time clock.
    pub const PORT_RTC: u64 = 12;
    /// I/O port that ends the emulator.
    pub const PORT_EXIT: u64 = 13;
    /// I/O ports of ACPI's power management.
    pub const PORT_ACPI: u64 = 14;
    /// I/O port of the reset control register; with [`super::FLAG_PCI`] all of PCI's configuration ports, among which it
    /// is.
    pub const PORT_RESET: u64 = 15;

    /// The endpoint that hears of the server's own faults.
    pub const FAULT: u64 = 16;

    /// The leaf that holds the untypeds of the boot page, in its order: memory from slot 0, device memory from
    /// [`DEVICES_AT`], I/O ports from [`PORTS_AT`].
    pub const SOURCES_LEAF: u64 = 17;
    /// See [`SOURCES_LEAF`].
    pub const DEVICES_AT: u64 = super::MAX_SOURCES as u64;
    /// See [`SOURCES_LEAF`].
    pub const PORTS_AT: u64 = DEVICES_AT + super::MAX_DEVICES as u64;
    /// The timer's page, to be mapped for reading only, if the boot page tells its address.
    pub const TIMER_PAGE: u64 = leaf_slot(SOURCES_LEAF, LEAF_SLOTS - 2);
    /// The most pools of numbers for address spaces that a server has.
    pub const ASID_POOLS: u64 = 4;
    /// A pool of numbers for address spaces; there is at least the first.
    pub const fn asid_pool(number: u64) -> u64 {
        leaf_slot(SOURCES_LEAF, LEAF_SLOTS - 2 - ASID_POOLS + number)
    }
    /// The first of the leaves for the untypeds of the chunks; the root task makes as many as there can be chunks.
    pub const CHUNK_CAPS_LEAF: u64 = 18;
    /// The leaf for the heap's pages.
    pub const HEAP_LEAF: u64 = 63;
    /// The first leaf whose slots the server hands out one by one.
    pub const LOOSE_LEAF: u64 = 64;

    /// A pointer to slot `index` of the leaf at root slot `leaf`.
    pub const fn leaf_slot(leaf: u64, index: u64) -> u64 {
        leaf << LEAF_BITS | index
    }

    /// A pointer to a capability that stands in the root CNode itself.
    pub const fn root_slot(slot: u64) -> u64 {
        slot << LEAF_BITS
    }

    /// Pointer to the root CNode itself, without a guard, so that a path is root slot and leaf slot alone. It stands in a
    /// leaf: a look-up that meets a CNode before its bits are used up goes on through it.
    pub const SELF: u64 = leaf_slot(SOURCES_LEAF, LEAF_SLOTS - 1);

    /// The leaves for slots that are handed out in a run, the last of the lower half.
    pub const STRIP_LEAVES: u64 = 16;
    /// Leaves whose slots are handed out one by one for each chunk: a slot for about 256 bytes of memory, so that what a
    /// program shows of memory that others show, too, can be paid for in memory. Leaves stay once they are made, so there are no
    /// more: all of them take an eighth of the memory.
    const LOOSE_LEAVES: u64 = 7;
    /// With so many, pointers to slots have 28 bits.
    const ROOT_BITS: u8 = 18;

    /// The root CNode's size (binary logarithm of its slots) for so many chunks: its upper half holds a leaf for each
    /// chunk, its lower half everything else.
    pub const fn root_bits(chunks: u64) -> u8 {
        let mut bits = 10;
        while bits < ROOT_BITS && 1u64 << (bits - 1) < LOOSE_LEAF + STRIP_LEAVES + chunks * LOOSE_LEAVES {
            bits += 1;
        }
        while 1u64 << (bits - 1) < chunks {
            bits += 1;
        }
        bits
    }

    /// Slots that can be handed out one by one with a root CNode of a size.
    pub const fn loose_slots(root_bits: u8) -> u64 {
        ((1 << (root_bits - 1)) - LOOSE_LEAF - STRIP_LEAVES) * LEAF_SLOTS
    }
}

/// The root task's service. Requests are calls on [`cspace::ROOT`]; replies carry the status as their label
/// ([`service::OK`] or an error) and their values in message registers.
pub mod service {
    /// Request: the boot file's size. Reply: bytes in register 0.
    pub const SIZE: u64 = 1;
    /// Request: read into the buffer; register 0 holds the offset, 1 the length, at most [`super::layout::CHUNK`].
    /// Reply: the bytes read in register 0.
    pub const READ: u64 = 2;
    /// Request: take an interrupt; register 0 holds a pointer to an empty slot of the server's, register 1 which
    /// one ([`Interrupt`]). It is given up by deleting the capability.
    pub const INTERRUPT: u64 = 3;
    /// Request: take note that the first process runs.
    pub const RUNNING: u64 = 4;
    /// Request: find the endpoint that a component offers; registers 0 to 3 hold its name, padded with zeroes. Reply: what
    /// it is called in [`MINT`] in register 0.
    pub const FIND: u64 = 5;
    /// Request: a capability to such an endpoint; register 0 holds what it is called, 1 a pointer to an empty slot of the
    /// server's, 2 the badge, below 2^20, 3 whether it is to call ([`TO_CALL`]) and not just to send.
    pub const MINT: u64 = 6;
    /// See [`MINT`].
    pub const TO_CALL: u64 = 1;
    /// Request: what [`super::NEWS_BADGE`] tells of. Reply: in register 0 a bit for each component that has ended since the last
    /// one, and [`WAITING`] places above it one for each that waits to become a client.
    pub const NEWS: u64 = 7;
    /// See [`NEWS`].
    pub const WAITING: u64 = 32;
    /// Request: take over a component that waits to become a client; register 0 holds its number, 1 to 3 pointers to empty
    /// slots of the server's, for its thread, its address space, and its capability space. Reply: its name, padded with zeroes, in all
    /// registers. Where a slot is 0 or cannot be used, the component is told that it cannot be one.
    pub const CLIENT: u64 = 8;
    /// Done.
    pub const OK: u64 = 0;
    /// There is no boot file, or no device to read it from.
    pub const NOT_FOUND: u64 = 1;
    /// The request names what is not there.
    pub const BAD_REQUEST: u64 = 2;
    /// The device reported an error.
    pub const IO: u64 = 3;
    /// The interrupt is in use.
    pub const TAKEN: u64 = 4;
    /// The component is away.
    pub const AWAY: u64 = 5;

    /// An endpoint of a component, as [`FIND`] tells it.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Offered {
        /// The component's number.
        pub component: u8,
        /// The number of the name among those that it offers.
        pub offer: u8,
        /// Which of its lives.
        pub life: u32,
    }

    impl Offered {
        /// As a word.
        pub const fn encode(self) -> u64 {
            (self.life as u64) << 16 | (self.offer as u64) << 8 | self.component as u64
        }

        /// From a word.
        pub const fn decode(word: u64) -> Self {
            Offered { component: word as u8, offer: (word >> 8) as u8, life: (word >> 16) as u32 }
        }
    }

    const MESSAGE: u64 = 1 << 32;
    const LEVEL: u64 = 1 << 16;
    const ACTIVE_LOW: u64 = 1 << 17;

    /// What [`INTERRUPT`] can ask for.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Interrupt {
        /// A pin of the first I/O APIC.
        Pin {
            /// Its number.
            pin: u8,
            /// Triggered by level.
            level: bool,
            /// By the low level or the falling edge.
            active_low: bool,
        },
        /// A vector for messages.
        Message {
            /// Its number among the vectors that the kernel gives out.
            vector: u8,
        },
    }

    impl Interrupt {
        /// As a word of a request.
        pub const fn encode(self) -> u64 {
            match self {
                Interrupt::Message { vector } => MESSAGE | vector as u64,
                Interrupt::Pin { pin, level, active_low } => {
                    pin as u64 | if level { LEVEL } else { 0 } | if active_low { ACTIVE_LOW } else { 0 }
                }
            }
        }

        /// What a word asks for.
        pub const fn decode(word: u64) -> Self {
            let low = word as u8;
            if word & MESSAGE != 0 {
                return Interrupt::Message { vector: low };
            }
            Interrupt::Pin { pin: low, level: word & LEVEL != 0, active_low: word & ACTIVE_LOW != 0 }
        }
    }
}

/// What a server notes for the report of its end: the calls that it handled last. In the page at [`layout::RECORD`] stands
/// how many calls there have been, then a ring of them.
pub mod record {
    /// Words in the ring, a power of two.
    pub const CALLS: u64 = 32;

    /// A call as the ring has it.
    #[inline(always)]
    pub const fn encode(number: u32, thread: u32) -> [u32; 2] {
        [number, thread]
    }

    /// Number and thread of a call.
    pub const fn decode(word: u64) -> (u32, u32) {
        (word as u32, (word >> 32) as u32)
    }
}

/// How the machine is left when the last server has died, as the emulator's exit port takes it (QEMU ends with
/// `value * 2 + 1`).
pub const EXIT_SERVER_DIED: u8 = 0x21;
/// How the machine is left when the root task could not start the system.
pub const EXIT_ROOT_FAILED: u8 = 0x22;

/// Marks a boot page of this layout.
pub const MAGIC: u64 = u64::from_le_bytes(*b"HAFNON\0\x03");
/// Untypeds that fit in the boot page.
pub const MAX_SOURCES: usize = 128;

/// Pieces of device memory that fit in the boot page.
pub const MAX_DEVICES: usize = 256;
/// Ranges of I/O ports that fit in the boot page.
pub const MAX_PORTS: usize = 32;
/// The badge of the signal to the server's notification that there is something to be asked for by [`service::NEWS`].
pub const NEWS_BADGE: u64 = 1 << 27 | 1 << 2;
/// Added to a vector that the kernel gives out to make the processor's, which a device writes.
pub const VECTOR_BASE: u64 = 48;

/// Memory or device memory: one untyped capability.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Source {
    /// Physical address.
    pub address: u64,
    /// Binary logarithm of its bytes; of memory, at least [`layout::CHUNK_BITS`].
    pub bits: u64,
}

/// I/O ports from one to another, both included: one capability.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Ports {
    /// The first.
    pub first: u16,
    /// The last.
    pub last: u16,
}

/// The boot page.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct BootInfo {
    /// [`MAGIC`].
    pub magic: u64,
    /// Binary logarithm of the root CNode's slots.
    pub root_bits: u64,
    /// Chunks in all sources together.
    pub chunks: u64,
    /// Chunks of heap that are mapped already.
    pub heap_chunks: u64,
    /// Counter of the processor at some moment early in the start.
    pub tsc: u64,
    /// Counter of the HPET at the same moment.
    pub hpet: u64,
    /// Entry of the [`Source`] list that are used.
    pub sources: u64,
    /// Bits: see the `FLAG_` constants.
    pub flags: u64,
    /// The server's comparator of the HPET.
    pub comparator: u64,
    /// The I/O APIC's pin of its interrupt.
    pub timer_pin: u64,
    /// The first port of the console; 0: there is none.
    pub console: u64,
    /// The first port of the host link; 0: there is none.
    pub link: u64,
    /// Least important message that goes to the console: 0 debug, 1 info, 2 warning, 3 error.
    pub log_level: u64,
    /// The instance's name, padded with zeroes.
    pub name: [u8; 32],
    /// Physical address of the timer's registers, if programs may see them; otherwise 0.
    pub timer_page: u64,
    /// Pins of the I/O APIC that programs may have: bit `n` for pin `n`.
    pub pins: u64,
    /// The first vector for messages.
    pub first_message: u64,
    /// How many there are.
    pub messages: u64,
    /// Entries of [`BootInfo::device`] that are used.
    pub devices: u64,
    /// Entries of [`BootInfo::port`] that are used.
    pub ports: u64,
    /// I/O ports for programs; number `i` stands in slot [`cspace::PORTS_AT`]` + i`.
    pub port: [Ports; MAX_PORTS],
    /// The untypeds, smallest first; number `i` stands in slot `i` of [`cspace::SOURCES_LEAF`].
    pub source: [Source; MAX_SOURCES],
    /// Device memory; number `i` stands in slot [`cspace::DEVICES_AT`]` + i`.
    pub device: [Source; MAX_DEVICES],
}

/// The power ports are there.
pub const FLAG_POWER: u64 = 1;
/// Programs may use PCI's configuration ports.
pub const FLAG_PCI: u64 = 2;
/// Programs may use the real-time clock's ports.
pub const FLAG_RTC: u64 = 4;

const _: () = assert!(size_of::<BootInfo>() <= 4096 * layout::BOOT_INFO_PAGES);
const _: () =
    assert!(cspace::leaf_slot(cspace::SOURCES_LEAF, cspace::PORTS_AT + MAX_PORTS as u64) <= cspace::asid_pool(0));
