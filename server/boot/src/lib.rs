//! The contract between the root task and a server.
//!
//! The root task builds a server from five things. This crate defines them for both sides:
//!
//! 1. an **address space** ([`layout`]): the image, a stack, an IPC buffer, the boot pages ([`BootInfo`]), the timer's
//!    registers, a buffer for boot files, and the paging structures of two empty regions, the heap and the window. The
//!    server fills these two regions itself;
//! 2. a **capability space** ([`cspace`]) of two levels: a root CNode whose first slots hold single capabilities, and
//!    leaf CNodes that the server creates when it needs slots;
//! 3. **memory** as untyped capabilities, listed in the boot pages;
//! 4. **devices** that the server's programs may drive: device memory as untypeds, and ranges of I/O ports, both listed
//!    in the boot pages. The server requests interrupts from the root task;
//! 5. an **endpoint** to the root task, which serves the boot file and interrupts ([`service`]).
//!
//! A pointer into the capability space is `root slot << LEAF_BITS | slot in the leaf`. The kernel finds a capability in
//! the root CNode one step sooner, so the capabilities that every call uses are there.
#![no_std]
#![forbid(unsafe_code)]

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The layout of a server's address space. Addresses in bytes.
pub mod layout {
    /// The guard page below the stack. It stays unmapped, so a stack overflow faults.
    pub const STACK_GUARD: u64 = 0x1000_0000;
    /// Bytes of stack above the guard.
    pub const STACK_SIZE: u64 = 256 << 10;
    /// The end of the stack.
    pub const STACK_TOP: u64 = STACK_GUARD + 4096 + STACK_SIZE;
    /// The server's IPC buffer.
    pub const IPC_BUFFER: u64 = 0x1010_0000;
    /// The boot pages, read-only.
    pub const BOOT_INFO: u64 = 0x1010_2000;
    /// Number of boot pages.
    pub const BOOT_INFO_PAGES: usize = 2;
    /// The HPET's registers.
    pub const HPET: u64 = 0x1010_4000;
    /// The page in which the server records its last calls ([`super::record`]).
    pub const RECORD: u64 = 0x1010_5000;
    /// A page address for the server's own use, under the same page table. The root task maps nothing there.
    pub const SCRATCH: u64 = 0x1010_6000;
    /// The boot-file buffer, one large page, read-only.
    pub const BOOT_FILE: u64 = 0x1020_0000;
    /// The window: the server sees chunk `c` of memory at `WINDOW + c * CHUNK`.
    pub const WINDOW: u64 = 0x80_0000_0000;
    /// The heap. It grows by whole chunks.
    pub const HEAP: u64 = 0x100_0000_0000;
    /// Bytes for which the root task prepares the heap's paging structures.
    pub const HEAP_LIMIT: u64 = 1 << 30;
    /// Bytes in a chunk, the unit in which a server takes memory. A chunk has the size of a large page.
    pub const CHUNK: u64 = 2 << 20;
    /// Binary logarithm of [`CHUNK`].
    pub const CHUNK_BITS: u8 = 21;
}

/// The layout of a server's capability space.
pub mod cspace {
    /// Binary logarithm of the number of slots in a leaf CNode.
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
    /// Handler of the interrupt of the server's HPET comparator.
    pub const IRQ_TIMER: u64 = 8;
    /// Handler of the host link's interrupt.
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
    /// I/O port of the reset control register. With [`super::FLAG_PCI`] the capability covers all PCI configuration
    /// ports, which include that register.
    pub const PORT_RESET: u64 = 15;

    /// The endpoint that receives the server's own faults.
    pub const FAULT: u64 = 16;

    /// The leaf that holds the untypeds of the boot pages, in the same order: memory from slot 0, device memory from
    /// [`DEVICES_AT`], I/O ports from [`PORTS_AT`].
    pub const SOURCES_LEAF: u64 = 17;
    /// See [`SOURCES_LEAF`].
    pub const DEVICES_AT: u64 = super::MAX_SOURCES as u64;
    /// See [`SOURCES_LEAF`].
    pub const PORTS_AT: u64 = DEVICES_AT + super::MAX_DEVICES as u64;
    /// The timer's page, for read-only mappings. Present if the boot pages give its address.
    pub const TIMER_PAGE: u64 = leaf_slot(SOURCES_LEAF, LEAF_SLOTS - 2);
    /// Maximum number of ASID pools of a server.
    pub const ASID_POOLS: u64 = 4;
    /// Pointer to an ASID pool. Pool 0 always exists.
    pub const fn asid_pool(number: u64) -> u64 {
        leaf_slot(SOURCES_LEAF, LEAF_SLOTS - 2 - ASID_POOLS + number)
    }
    /// First leaf for the untypeds of the chunks. The root task creates as many such leaves as the number of chunks
    /// requires.
    pub const CHUNK_CAPS_LEAF: u64 = 18;
    /// The leaf for the heap's pages.
    pub const HEAP_LEAF: u64 = 63;
    /// First leaf whose slots the server allocates one by one.
    pub const LOOSE_LEAF: u64 = 64;

    /// A pointer to slot `index` of the leaf at root slot `leaf`.
    pub const fn leaf_slot(leaf: u64, index: u64) -> u64 {
        leaf << LEAF_BITS | index
    }

    /// A pointer to a capability in the root CNode itself.
    pub const fn root_slot(slot: u64) -> u64 {
        slot << LEAF_BITS
    }

    /// Pointer to the root CNode itself, without a guard, so that a path consists of root slot and leaf slot only. The
    /// capability is in a leaf: a look-up that reaches a CNode with bits left continues in that CNode.
    pub const SELF: u64 = leaf_slot(SOURCES_LEAF, LEAF_SLOTS - 1);

    /// Leaves for slots that are allocated in strips, the last leaves of the lower half.
    pub const STRIP_LEAVES: u64 = 16;
    /// Leaves per chunk whose slots are allocated one by one. They give a slot for about 256 bytes of memory, so that
    /// the memory charge for a further mapping of a shared page also bounds the slots. Leaves are never freed, so there
    /// are not more: all leaves together take an eighth of the memory.
    const LOOSE_LEAVES: u64 = 7;
    /// With this size, pointers to slots have 28 bits.
    const ROOT_BITS: u8 = 18;

    /// The root CNode's size for a number of chunks, as the binary logarithm of its slots. The upper half holds one
    /// leaf for each chunk, the lower half holds everything else.
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

    /// Slots that can be allocated one by one if the root CNode has this size.
    pub const fn loose_slots(root_bits: u8) -> u64 {
        ((1 << (root_bits - 1)) - LOOSE_LEAF - STRIP_LEAVES) * LEAF_SLOTS
    }
}

/// The root task's service. Requests are calls on [`cspace::ROOT`]; replies carry the status as their label
/// ([`service::OK`] or an error) and their values in message registers.
pub mod service {
    /// Request: the boot file's size. Reply: bytes in register 0.
    pub const SIZE: u64 = 1;
    /// Request: read into the buffer. Register 0 holds the offset, register 1 the length, at most
    /// [`super::layout::CHUNK`]. Reply: the bytes read in register 0.
    pub const READ: u64 = 2;
    /// Request: get an interrupt. Register 0 holds a pointer to an empty slot of the server, register 1 the interrupt
    /// ([`Interrupt`]). The server gives the interrupt up by deleting the capability.
    pub const INTERRUPT: u64 = 3;
    /// Request: report that the first process runs.
    pub const RUNNING: u64 = 4;
    /// Request: find the endpoint that a component offers. Registers 0 to 3 hold its name, padded with zeroes. Reply:
    /// its number for [`MINT`] in register 0.
    pub const FIND: u64 = 5;
    /// Request: mint a capability to such an endpoint. Register 0 holds the number from [`FIND`], register 1 a pointer
    /// to an empty slot of the server, register 2 the badge, below 2^20, register 3 whether the capability is for calls
    /// ([`TO_CALL`]) and not only for sends.
    pub const MINT: u64 = 6;
    /// See [`MINT`].
    pub const TO_CALL: u64 = 1;
    /// Request: get the events that [`super::COMPONENT_EVENTS_BADGE`] announces. Reply: in register 0 one bit for each
    /// component that has ended since the last request, and [`WAITING`] bits above it one bit for each component that
    /// waits to become a client.
    pub const COMPONENT_EVENTS: u64 = 7;
    /// See [`COMPONENT_EVENTS`].
    pub const WAITING: u64 = 32;
    /// Request: take over a component that waits to become a client. Register 0 holds its number; registers 1 to 3 hold
    /// pointers to empty slots of the server for its thread, its address space, and its capability space. Reply: its
    /// name, padded with zeroes, in all registers. If a slot is 0 or cannot be used, the root task tells the component
    /// that it cannot become a client.
    pub const CLIENT: u64 = 8;
    /// Done.
    pub const OK: u64 = 0;
    /// There is no boot file, or no device to read it from.
    pub const NOT_FOUND: u64 = 1;
    /// The request names an object that does not exist.
    pub const BAD_REQUEST: u64 = 2;
    /// The device reported an error.
    pub const IO: u64 = 3;
    /// The interrupt is in use.
    pub const TAKEN: u64 = 4;
    /// The component is not running.
    pub const AWAY: u64 = 5;

    /// An endpoint of a component, as [`FIND`] returns it.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Offered {
        /// The component's number.
        pub component: u8,
        /// Index of the name among those that the component offers.
        pub offer: u8,
        /// The component's life in which it offered the endpoint.
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

    /// An interrupt that [`INTERRUPT`] can request.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Interrupt {
        /// A pin of the first I/O APIC.
        Pin {
            /// Its number.
            pin: u8,
            /// Level-triggered, not edge-triggered.
            level: bool,
            /// Active on the low level or the falling edge.
            active_low: bool,
        },
        /// A vector for message-signalled interrupts.
        Message {
            /// Its number among the vectors that the kernel hands out.
            vector: u8,
        },
    }

    impl Interrupt {
        /// Encodes it for a request.
        pub const fn encode(self) -> u64 {
            match self {
                Interrupt::Message { vector } => MESSAGE | vector as u64,
                Interrupt::Pin { pin, level, active_low } => {
                    pin as u64 | if level { LEVEL } else { 0 } | if active_low { ACTIVE_LOW } else { 0 }
                }
            }
        }

        /// Decodes a request's word.
        pub const fn decode(word: u64) -> Self {
            let low = word as u8;
            if word & MESSAGE != 0 {
                return Interrupt::Message { vector: low };
            }
            Interrupt::Pin { pin: low, level: word & LEVEL != 0, active_low: word & ACTIVE_LOW != 0 }
        }
    }
}

/// The server's record of its last calls, for the root task's report when the server dies. The page at
/// [`layout::RECORD`] holds the total number of calls, then a ring of the last calls.
pub mod record {
    /// Words in the ring, a power of two.
    pub const CALLS: u64 = 32;

    /// A call in the ring's format.
    #[inline(always)]
    pub const fn encode(number: u32, thread: u32) -> [u32; 2] {
        [number, thread]
    }

    /// Number and thread of a call in the ring.
    pub const fn decode(word: u64) -> (u32, u32) {
        (word as u32, (word >> 32) as u32)
    }
}

/// Exit code when the last server has died, for the emulator's exit port (QEMU exits with `value * 2 + 1`).
pub const EXIT_SERVER_DIED: u8 = 0x21;
/// Exit code when the root task cannot start the system.
pub const EXIT_ROOT_FAILED: u8 = 0x22;

/// Identifies a boot page of this layout.
pub const MAGIC: u64 = u64::from_le_bytes(*b"HAFNON\0\x03");
/// Maximum number of untypeds in the boot pages.
pub const MAX_SOURCES: usize = 128;

/// Maximum number of pieces of device memory in the boot pages.
pub const MAX_DEVICES: usize = 256;
/// Maximum number of I/O port ranges in the boot pages.
pub const MAX_PORTS: usize = 32;
/// Badge of the signal to the server's notification that announces events for [`service::COMPONENT_EVENTS`].
pub const COMPONENT_EVENTS_BADGE: u64 = 1 << 27 | 1 << 2;
/// Difference between the processor's vector, which a device writes, and the vector that the kernel hands out.
pub const VECTOR_BASE: u64 = 48;

/// Memory or device memory: one untyped capability.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Source {
    /// Physical address.
    pub address: u64,
    /// Binary logarithm of its size in bytes. For memory it is at least [`layout::CHUNK_BITS`].
    pub bits: u64,
}

/// A range of I/O ports, both ends included: one capability.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Ports {
    /// The first.
    pub first: u16,
    /// The last.
    pub last: u16,
}

/// The boot pages.
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
    /// The processor's time-stamp counter at a moment early in the start.
    pub tsc: u64,
    /// The HPET's counter at the same moment.
    pub hpet: u64,
    /// Number of used entries of [`BootInfo::source`].
    pub sources: u64,
    /// Bits: see the `FLAG_` constants.
    pub flags: u64,
    /// The server's comparator of the HPET.
    pub comparator: u64,
    /// The I/O APIC pin of its interrupt.
    pub timer_pin: u64,
    /// First I/O port of the console, or 0 without a console.
    pub console: u64,
    /// First I/O port of the host link, or 0 without a host link.
    pub link: u64,
    /// Lowest severity that goes to the console: 0 debug, 1 info, 2 warning, 3 error.
    pub log_level: u64,
    /// The instance's name, padded with zeroes.
    pub name: [u8; 32],
    /// Physical address of the timer's registers if programs may read them, otherwise 0.
    pub timer_page: u64,
    /// I/O APIC pins that programs may use: bit `n` stands for pin `n`.
    pub pins: u64,
    /// First vector for message-signalled interrupts.
    pub first_message: u64,
    /// Number of these vectors.
    pub messages: u64,
    /// Number of used entries of [`BootInfo::device`].
    pub devices: u64,
    /// Number of used entries of [`BootInfo::port`].
    pub ports: u64,
    /// I/O ports for programs. The capability of entry `i` is in slot [`cspace::PORTS_AT`]` + i`.
    pub port: [Ports; MAX_PORTS],
    /// The untypeds, smallest first. The capability of entry `i` is in slot `i` of [`cspace::SOURCES_LEAF`].
    pub source: [Source; MAX_SOURCES],
    /// Device memory. The capability of entry `i` is in slot [`cspace::DEVICES_AT`]` + i`.
    pub device: [Source; MAX_DEVICES],
}

/// The server has the power management ports.
pub const FLAG_POWER: u64 = 1;
/// Programs may use PCI's configuration ports.
pub const FLAG_PCI: u64 = 2;
/// Programs may use the real-time clock's ports.
pub const FLAG_RTC: u64 = 4;

const _: () = assert!(size_of::<BootInfo>() <= 4096 * layout::BOOT_INFO_PAGES);
const _: () =
    assert!(cspace::leaf_slot(cspace::SOURCES_LEAF, cspace::PORTS_AT + MAX_PORTS as u64) <= cspace::asid_pool(0));
