//! The kernel's information for the root task about the machine, and the initial capabilities.

use core::slice;

use crate::family::boot;
use crate::{
    AsidControl, AsidPool, CNode, CPtr, IoPortControl, IrqControl, Page, Tcb, Untyped, VSpace, generated::config,
};

/// The root task's own thread.
pub const INIT_TCB: Tcb = Tcb::new(1);
/// The root of its CSpace, of 2^[`BootInfo::cnode_size_bits`] slots. Its addresses resolve all 64 bits.
pub const INIT_CNODE: CNode = CNode::new(2);
/// Its address space.
pub const INIT_VSPACE: VSpace = VSpace::new(3);
/// The authority over interrupts.
pub const IRQ_CONTROL: IrqControl = IrqControl::new(4);
/// The authority to make ASID pools.
pub const ASID_CONTROL: AsidControl = AsidControl::new(5);
/// The pool of the root task's own ASID; it has room for more.
pub const INIT_ASID_POOL: AsidPool = AsidPool::new(6);
/// The authority over I/O ports.
pub const IO_PORT_CONTROL: IoPortControl = IoPortControl::new(7);
/// The authority over scheduling domains. There is only one such capability, so its holder is trusted.
pub const DOMAIN: CPtr = CPtr(11);
/// The page that holds the boot information.
pub const BOOT_INFO_PAGE: Page = Page::new(9);
/// The page of its IPC buffer.
pub const INIT_IPC_BUFFER: Page = Page::new(10);

/// A range of slots of the root task's CSpace: from `start` on, below `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotRange {
    /// The first.
    pub start: u64,
    /// The first one behind the range.
    pub end: u64,
}

impl SlotRange {
    /// Number of slots.
    pub fn len(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Whether the range is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The addresses of its slots.
    pub fn iter(&self) -> impl Iterator<Item = CPtr> + use<> {
        (self.start..self.end).map(CPtr)
    }
}

/// A piece of memory that the root task was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UntypedDesc {
    /// The capability.
    pub cap: Untyped,
    /// Its physical address.
    pub address: u64,
    /// Binary logarithm of its size in bytes; it is aligned to its size.
    pub size_bits: u8,
    /// Whether it is not RAM: it can only become pages, and is not zeroed.
    pub is_device: bool,
}

/// The boot information.
#[derive(Debug, Clone, Copy)]
pub struct BootInfo(*const u8);

impl BootInfo {
    /// # Safety
    /// `address` must be what the kernel passed to the root task, and its pages must stay mapped.
    pub const unsafe fn new(address: *const u8) -> Self {
        Self(address)
    }

    /// Its address.
    pub fn as_ptr(&self) -> *const u8 {
        self.0
    }

    fn word(&self, offset: usize) -> u64 {
        // SAFETY: the kernel fills a whole page, and all offsets that are used lie within the structure.
        unsafe { self.0.add(offset).cast::<u64>().read_unaligned() }
    }

    fn byte(&self, offset: usize) -> u8 {
        // SAFETY: as in `word`.
        unsafe { self.0.add(offset).read() }
    }

    fn range(&self, offset: usize) -> SlotRange {
        SlotRange { start: self.word(offset), end: self.word(offset + 8) }
    }

    /// The number of processors that the kernel runs on.
    pub fn nodes(&self) -> u64 {
        self.word(16)
    }

    /// The root task's IPC buffer.
    pub fn ipc_buffer(&self) -> *mut u64 {
        self.word(32) as *mut u64
    }

    /// The empty slots.
    pub fn empty(&self) -> SlotRange {
        self.range(40)
    }

    /// The pages of the root task's image, in the order of their addresses.
    pub fn user_image_pages(&self) -> SlotRange {
        self.range(72)
    }

    /// The paging structures of the root task's address space.
    pub fn user_image_paging(&self) -> SlotRange {
        self.range(88)
    }

    /// The pages behind this one that contain further chunks.
    pub fn extra_pages(&self) -> SlotRange {
        self.range(120)
    }

    /// Binary logarithm of the number of slots of [`INIT_CNODE`].
    pub fn cnode_size_bits(&self) -> u8 {
        self.byte(136)
    }

    /// The memory that the root task was given.
    pub fn untypeds(&self) -> impl Iterator<Item = UntypedDesc> + use<> {
        let info = *self;
        let slots = self.range(boot::UNTYPED_SLOTS);
        // The list has this capacity, whatever the range says.
        let count = slots.len().min(config::MAX_NUM_BOOTINFO_UNTYPED_CAPS) as usize;
        (0..count).map(move |i| {
            let at = boot::UNTYPED_LIST + i * boot::UNTYPED_STRIDE;
            UntypedDesc {
                cap: Untyped::new(slots.start + i as u64),
                address: info.word(at),
                size_bits: info.byte(at + boot::UNTYPED_SIZE_BITS),
                is_device: info.byte(at + boot::UNTYPED_IS_DEVICE) != 0,
            }
        })
    }

    /// Further chunks from the kernel: their kinds and their bytes.
    pub fn chunks(&self) -> impl Iterator<Item = (u64, &[u8])> {
        const HEADER: usize = 16;
        const PAGE: usize = 4096;
        let length = self.word(0) as usize;
        let mut offset = 0;
        core::iter::from_fn(move || {
            if offset + HEADER > length {
                return None;
            }
            let (kind, size) = (self.word(PAGE + offset), self.word(PAGE + offset + 8) as usize);
            if size < HEADER || size > length - offset {
                return None;
            }
            // SAFETY: the kernel maps `length` bytes behind the first page; the chunk lies within them and nothing
            // writes there.
            let bytes = unsafe { slice::from_raw_parts(self.0.add(PAGE + offset + HEADER), size - HEADER) };
            offset += size;
            Some((kind, bytes))
        })
    }

    fn chunk(&self, kind: u64) -> Option<&[u8]> {
        self.chunks().find(|(k, _)| *k == kind).map(|(_, bytes)| bytes)
    }

    /// The frequency of the time-stamp counter in MHz, as the kernel measured it.
    pub fn tsc_mhz(&self) -> Option<u64> {
        const TSC_FREQUENCY: u64 = 5;
        let mhz = match boot::TSC_MHZ {
            Some(offset) => self.word(offset) & 0xffff_ffff,
            None => {
                let bytes = self.chunk(TSC_FREQUENCY)?.first_chunk::<4>()?;
                u32::from_le_bytes(*bytes).into()
            }
        };
        (mhz != 0).then_some(mhz)
    }

    /// The ACPI root pointer, if the kernel provides it. 5.0.0 does not.
    pub fn acpi_rsdp(&self) -> Option<&[u8]> {
        const ACPI_RSDP: u64 = 3;
        self.chunk(ACPI_RSDP)
    }
}
