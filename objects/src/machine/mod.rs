//! The machine below the objects, as they see it.
//!
//! Objects use pages, address spaces, threads and time through a [`Machine`], which implements them: on seL4 in the
//! server, in plain memory for tests on the host ([`crate::fake::FakeMachine`]). All identifiers are small numbers that
//! the machine assigns. The objects never invent one, and return each exactly once.
//!
//! No method blocks and none may panic on any argument that the objects can pass.

pub(crate) mod port_grants;
pub mod user_registers;

use crate::containers::growth::OutOfMemory;
use abi::Status;

/// Bytes in a page.
pub const PAGE_SIZE: usize = 4096;
/// [`PAGE_SIZE`] as the type of addresses and offsets.
pub const PAGE: u64 = PAGE_SIZE as u64;
/// Bytes in a large page.
pub const LARGE_PAGE: u64 = 2 << 20;
/// Pages in a large page.
pub const LARGE_PAGES: u64 = LARGE_PAGE / PAGE;

/// The lowest address that a program can map. It is Zircon's on x86-64, and below the usual load addresses of programs
/// that are linked at fixed addresses.
pub const USER_BASE: u64 = 0x20_0000;
/// The first address above the range that a program can map, as in Zircon. The last page below 2^47 stays unused.
pub const USER_TOP: u64 = (1 << 47) - PAGE;
/// Start of the range of each address space in which the machine keeps its own pages, up to [`KEPT_END`]. Programs'
/// mappings never lie in it, and no system call changes the mappings there.
pub const KEPT: u64 = 0x7ff0_0000_0000;
/// End of the range that starts at [`KEPT`].
pub const KEPT_END: u64 = KEPT + (1 << 30);
/// Start of the upper half, which shared processes have in common, as in Zircon.
pub const USER_HALF: u64 = 0x4000_0000_0000;
/// The lowest address that a native component can map as a client of this system. Addresses below belong to the
/// component itself.
pub const COMPONENT_BASE: u64 = 0x80_0000_0000;

/// One page of memory, owned by the code that allocated it; or one page of device memory, which has no owner
/// ([`Frame::is_device`]).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Frame(pub u32);

impl Frame {
    /// The lowest number of a page of device memory. Numbers of ordinary memory are dense and start at 0.
    pub const DEVICE: u32 = 1 << 31;

    /// Whether this is a page of device memory. Such a page is never freed, and the server cannot read, write, zero or
    /// copy it.
    #[inline]
    pub const fn is_device(self) -> bool {
        self.0 >= Frame::DEVICE
    }
}

/// An address space.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Aspace(pub u32);

/// A thread of execution.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MachineThread(pub u32);

/// The kernel's thread that runs a virtual processor's code in one address space.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MachineRunner(pub u32);

/// Interrupts a thread's receive on an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MachineDoorbell(pub u32);

/// The number by which the machine reports a thread's events; below 2^26, chosen by the objects.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ThreadKey(pub u32);

/// The access for which a page is needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Reading.
    Read,
    /// Writing.
    Write,
}

/// Access that a mapping allows. A mapping without any access is not made at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Perm {
    /// Loads.
    pub read: bool,
    /// Stores.
    pub write: bool,
    /// Instruction fetches.
    pub execute: bool,
}

/// Caching of accesses through a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Cache {
    /// Cached, as for ordinary memory.
    #[default]
    Cached,
    /// Uncached.
    Uncached,
    /// Uncached and strongly ordered, for device registers.
    UncachedDevice,
    /// Write-combining, for frame buffers.
    WriteCombining,
}

/// Why a device's memory or interrupt is not available. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceError {
    /// It does not exist, or this system may not give it out: the system itself or another instance uses it.
    Denied,
    /// It is in use already.
    Taken,
    /// The machine already watches as many as it can.
    NoneLeft,
    /// There is not enough memory for it.
    OutOfMemory,
}

impl From<DeviceError> for Status {
    fn from(error: DeviceError) -> Status {
        match error {
            DeviceError::Denied => Status::ACCESS_DENIED,
            DeviceError::Taken => Status::ALREADY_EXISTS,
            DeviceError::NoneLeft => Status::NO_RESOURCES,
            DeviceError::OutOfMemory => Status::NO_MEMORY,
        }
    }
}

impl From<OutOfMemory> for DeviceError {
    fn from(_: OutOfMemory) -> Self {
        DeviceError::OutOfMemory
    }
}

/// A page of device memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceFrame {
    /// Its number.
    pub frame: Frame,
    /// It may be mapped for writing.
    pub writable: bool,
}

/// The source of an interrupt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IrqSource {
    /// An input of the machine's interrupt controllers, counted through all of them.
    Pin {
        /// Its number.
        number: u32,
        /// Level-triggered: the device holds the level until it is served. Otherwise edge-triggered.
        level: bool,
        /// Active on the low level or the falling edge.
        active_low: bool,
    },
    /// A message that a device writes.
    Message {
        /// One of the vectors of a [`MsiBlock`].
        vector: u32,
    },
}

/// An interrupt that is being watched.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Irq(pub u32);

/// The number by which the machine reports an interrupt; chosen by the objects.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct IrqKey(pub u32);

/// Vectors for message-signalled interrupts. A device raises vector `first + i` when it writes the value `data + i` to
/// `address`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MsiBlock {
    /// The first vector.
    pub first: u32,
    /// The number of vectors, a power of two.
    pub count: u32,
    /// The physical address that a device is to write to.
    pub address: u64,
    /// The value for the first vector, a multiple of `count`, so that a device may set the low bits.
    pub data: u32,
}

/// An endpoint of the kernel below.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum MachineEndpoint {
    /// Created by this system.
    Own(u32),
    /// Offered by a native component.
    Found {
        /// The component's number.
        component: u8,
        /// The number of the offer within the component.
        offer: u8,
        /// The component's life in which it was looked up.
        life: u32,
    },
}

/// What a capability to an endpoint allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EndpointUse {
    /// To send and receive a reply.
    pub call: bool,
    /// To send.
    pub send: bool,
    /// To receive.
    pub receive: bool,
}

/// Why an endpoint is not available. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndpointError {
    /// No component offers it.
    NotFound,
    /// The component that offered it has ended.
    Away,
    /// There is not enough memory for it.
    OutOfMemory,
}

impl From<OutOfMemory> for EndpointError {
    fn from(_: OutOfMemory) -> Self {
        EndpointError::OutOfMemory
    }
}

/// Width of an access to an I/O port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortWidth {
    /// 1.
    Byte,
    /// 2.
    Word,
    /// 4.
    Long,
}

impl PortWidth {
    /// The width in bytes.
    pub const fn bytes(self) -> u16 {
        match self {
            PortWidth::Byte => 1,
            PortWidth::Word => 2,
            PortWidth::Long => 4,
        }
    }

    /// The value that a read from a port without a device returns.
    pub const fn all_ones(self) -> u32 {
        u32::MAX >> (32 - 8 * self.bytes())
    }
}

impl Perm {
    /// Whether this allows every access that `other` allows.
    pub fn allows(self, other: Perm) -> bool {
        self.read >= other.read && self.write >= other.write && self.execute >= other.execute
    }
}

/// The state in which [`Machine::runner_hold`] found a runner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Runs {
    /// It ran, and is now stopped.
    Did,
    /// It waits to send a message to its endpoint.
    Tells,
    /// Neither: it was stopped already, or waits for a reply.
    Not,
}

/// Whether an address is a valid instruction pointer or FS base for a thread.
pub const fn canonical(address: u64) -> bool {
    address >> 47 == 0
}

/// The general registers of a thread, named as in `zx_thread_state_general_regs_t`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)]
pub struct Registers {
    pub rax: u64,
    pub rbx: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    pub rbp: u64,
    pub rsp: u64,
    pub r8: u64,
    pub r9: u64,
    pub r10: u64,
    pub r11: u64,
    pub r12: u64,
    pub r13: u64,
    pub r14: u64,
    pub r15: u64,
    pub rip: u64,
    pub rflags: u64,
    pub fs_base: u64,
    /// 0 where the kernel below reserves GS.
    pub gs_base: u64,
}

/// Builds a struct of general registers from another one: copies the fields that have the same names in all such
/// structs, and sets the remaining fields as given.
#[macro_export]
macro_rules! general_registers {
    ($from:expr => $to:ident { $($rest:tt)* }) => {
        $to {
            rax: $from.rax,
            rbx: $from.rbx,
            rcx: $from.rcx,
            rdx: $from.rdx,
            rsi: $from.rsi,
            rdi: $from.rdi,
            rbp: $from.rbp,
            rsp: $from.rsp,
            r8: $from.r8,
            r9: $from.r9,
            r10: $from.r10,
            r11: $from.r11,
            r12: $from.r12,
            r13: $from.r13,
            r14: $from.r14,
            r15: $from.r15,
            fs_base: $from.fs_base,
            gs_base: $from.gs_base,
            $($rest)*
        }
    };
}

/// The x87 and vector registers of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FpuRegisters {
    /// x87: control word.
    pub fcw: u16,
    /// x87: status word.
    pub fsw: u16,
    /// x87: abridged tag word: one bit per register, set if it is in use.
    pub ftw: u8,
    /// x87: last opcode.
    pub fop: u16,
    /// x87: last instruction.
    pub fip: u64,
    /// x87: last operand.
    pub fdp: u64,
    /// x87: the register stack, 80 bits each.
    pub st: [[u64; 2]; 8],
    /// MXCSR, control and status of the vector unit.
    pub mxcsr: u32,
    /// Mask of the bits that [`FpuRegisters::mxcsr`] may have set.
    pub mxcsr_mask: u32,
    /// The vector registers, 256 bits each.
    pub ymm: [[u64; 4]; 16],
}

impl FpuRegisters {
    /// The state at a thread's start.
    pub const INITIAL: FpuRegisters = FpuRegisters {
        fcw: 0x37f,
        fsw: 0,
        ftw: 0,
        fop: 0,
        fip: 0,
        fdp: 0,
        st: [[0; 2]; 8],
        mxcsr: 0x1f80,
        mxcsr_mask: 0xffff,
        ymm: [[0; 4]; 16],
    };
}

/// The debug registers of a thread: up to four breakpoints, each on execution or on data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DebugRegisters {
    /// DR0 to DR3: the addresses.
    pub addresses: [u64; 4],
    /// DR6: a bit for each breakpoint that the last debug exception was for, and bit 14 for a single step.
    pub status: u64,
    /// DR7: which breakpoints are enabled, for which accesses, and for how many bytes.
    pub control: u64,
}

impl DebugRegisters {
    /// The bits of DR6 that are always set.
    pub const STATUS_FIXED: u64 = 0xffff_0ff0;
    /// The bits of DR7 that are always set here: the reserved one, and two that ask for exact breakpoints.
    pub const CONTROL_FIXED: u64 = 0x700;
    /// The bits of DR7 that a program sets: enabling, accesses, lengths.
    pub const CONTROL_SET: u64 = 0xffff_00ff;

    /// The bits of DR7 that enable breakpoints.
    pub const ENABLED: u64 = 0xff;

    /// Whether a program may have these breakpoints. All addresses must be user addresses. An enabled breakpoint must
    /// be for execution with a length of one byte, or for data that is aligned to its length.
    pub fn valid(&self) -> bool {
        self.addresses.iter().enumerate().all(|(n, &address)| {
            let enabled = self.control >> (2 * n) & 3 != 0;
            let length = match self.control >> (18 + 4 * n) & 3 {
                0 => 1,
                1 => 2,
                2 => 8,
                _ => 4,
            };
            let possible = match self.control >> (16 + 4 * n) & 3 {
                0 => length == 1,
                // I/O ports.
                2 => false,
                _ => address.is_multiple_of(length),
            };
            address < USER_TOP && (possible || !enabled)
        })
    }
}

/// The fault that stopped a thread, as the thread's message reports it. The machine has decoded the message but cannot
/// vouch for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A memory access that no mapping allows.
    Page {
        /// The address accessed.
        address: u64,
        /// The address of the faulting instruction.
        ip: u64,
        /// The access was a store.
        write: bool,
        /// The access was an instruction fetch.
        execute: bool,
    },
    /// A processor exception.
    Exception {
        /// The processor's vector (0 divide error, 6 undefined instruction, 13 general protection, ...).
        vector: u64,
        /// The processor's error code, 0 where the vector has none.
        code: u64,
        /// The address of the instruction.
        ip: u64,
    },
    /// A `syscall` instruction that is none of the kernel's calls.
    Syscall {
        /// The address of the instruction.
        ip: u64,
    },
}

/// Nanoseconds since the start are `(counter + offset) * numerator / denominator`, rounded down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conversion {
    /// Frequency of the counter, in Hz.
    pub per_second: u64,
    /// Added to the raw counter, modulo 2^64.
    pub offset: u64,
    /// Numerator of the formula.
    pub numerator: u32,
    /// Denominator of the formula; not 0.
    pub denominator: u32,
}

/// Scheduling priority: a runnable thread of the highest priority runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Priority(pub u8);

impl Priority {
    /// The priority of a new thread.
    pub const DEFAULT: Priority = Priority(16);
    /// For threads with a deadline profile: above all others; the highest there is.
    pub const DEADLINE: Priority = Priority(32);
}

impl Default for Priority {
    fn default() -> Self {
        Priority::DEFAULT
    }
}

/// How to stop the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Power {
    /// Switch off.
    Off,
    /// Start again.
    Reboot,
}

/// Usage of the machine's own resources, without those that it keeps for reuse.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Held {
    /// Pages allocated.
    pub frames: u64,
    /// Memory blocks that kernel objects are made of.
    pub units: u64,
    /// Capability slots allocated one by one.
    pub slots: u64,
}

/// The interface that the objects need from the machine.
pub trait Machine {
    // --- memory ---

    /// Allocates a zeroed page.
    fn frame_alloc(&mut self) -> Result<Frame, OutOfMemory>;
    /// Allocates `count` zeroed pages, at least 1, with consecutive numbers and physical addresses. The first address
    /// is a multiple of 2^`align_log2`. Returns the first page. Each page is freed separately, in any order. Each
    /// aligned group of [`LARGE_PAGES`] pages is a large page.
    fn frames_contiguous(&mut self, count: u32, align_log2: u8) -> Result<Frame, OutOfMemory>;
    /// The physical address of a page of ordinary or device memory.
    fn frame_address(&self, frame: Frame) -> u64;
    /// Frees a page, which must not be mapped anywhere. Not for pages of device memory.
    fn frame_free(&mut self, frame: Frame);
    /// Copies out of a page. The caller keeps `offset + out.len()` within the page; the machine copies nothing beyond
    /// the page, and nothing from a page of device memory.
    fn frame_read(&self, frame: Frame, offset: usize, out: &mut [u8]);
    /// Copies into a page, with the same bounds.
    fn frame_write(&mut self, frame: Frame, offset: usize, data: &[u8]);
    /// Zeroes a part of a page, with the same bounds.
    fn frame_zero(&mut self, frame: Frame, offset: usize, len: usize);
    /// Copies a part of a page into another page or within the same page, where the ranges may overlap. The same bounds
    /// hold for both.
    fn frame_move(&mut self, from: Frame, from_offset: usize, to: Frame, to_offset: usize, len: usize);
    /// Copies a whole page.
    fn frame_copy(&mut self, from: Frame, to: Frame);
    /// Bytes of memory in use, and bytes of memory in total.
    fn memory(&self) -> (u64, u64);
    /// Bytes of the memory in use that the heap has taken, and how many of them are free within the heap.
    fn heap(&self) -> (u64, u64) {
        (0, 0)
    }
    /// Current usage, with which tests check that everything is returned.
    fn held(&self) -> Held;
    /// Whether no work is due before the next call: memory for small allocations is available, and
    /// [`Machine::force_slow_path`] is off.
    fn fast_path_allowed(&self) -> bool;
    /// Turns on or off that [`Machine::fast_path_allowed`] returns false.
    fn force_slow_path(&mut self, on: bool);
    /// Ensures that the objects' own small allocations cannot fail until the next call of this method.
    fn heap_reserve(&mut self) -> Result<(), OutOfMemory>;
    /// Whether, although [`Machine::heap_reserve`] fails, enough memory is left for the small allocations of one more
    /// call that keeps next to no memory afterwards.
    fn heap_last_reserve(&mut self) -> bool;

    // --- address spaces ---

    /// Creates an empty address space.
    fn aspace_create(&mut self) -> Result<Aspace, OutOfMemory>;
    /// Destroys an address space with all its mappings; the frames stay. No thread is in it any more.
    fn aspace_destroy(&mut self, aspace: Aspace);
    /// Bytes that an address space takes beyond an empty one: for its page tables, and for each mapping of a page that
    /// is mapped more than once, including the page of zeroes.
    fn aspace_bytes(&self, _aspace: Aspace) -> u64 {
        0
    }
    /// Maps a page at a page-aligned address and replaces any mapping there. All mappings of a page should have the
    /// same caching.
    fn map(&mut self, aspace: Aspace, address: u64, frame: Frame, perm: Perm, cache: Cache) -> Result<(), OutOfMemory>;
    /// How many of `pages` pages from an address up can be unmapped or changed for at most the cost of `most` mapped
    /// pages; at least one.
    fn stretch(&self, aspace: Aspace, address: u64, pages: u64, most: u32) -> u64;
    /// Unmaps as many pages from an address up as [`Machine::stretch`] returns; returns their number.
    fn unmap_some(&mut self, aspace: Aspace, address: u64, pages: u64, most: u32) -> u64 {
        let some = self.stretch(aspace, address, pages, most);
        self.unmap(aspace, address, some);
        some
    }
    /// Maps pages at consecutive addresses, like [`Machine::map`]; fastest where nothing is mapped. After an error,
    /// some of the first ones may be mapped.
    fn map_run(
        &mut self,
        aspace: Aspace,
        address: u64,
        frames: &[Frame],
        perm: Perm,
        cache: Cache,
    ) -> Result<(), OutOfMemory> {
        let mut pages = frames.iter().zip((address..).step_by(PAGE_SIZE));
        pages.try_for_each(|(frame, at)| self.map(aspace, at, *frame, perm, cache))
    }
    /// Whether the machine can tell which pages were written: see [`Machine::written`].
    fn knows_written(&self) -> bool {
        false
    }
    /// Which of `pages` pages (at most 64) from an address up the program has written since they were mapped there: a
    /// bitmap, lowest page first. A page that is not mapped counts as not written.
    fn written(&mut self, _aspace: Aspace, _address: u64, _pages: u32) -> u64 {
        0
    }
    /// Whether a page belongs to an aligned group of [`LARGE_PAGES`] pages that can be mapped as one large page. The
    /// group stays so until one of its pages is mapped separately, which costs as much as mapping some hundred pages.
    fn frame_is_large(&self, _frame: Frame) -> bool {
        false
    }
    /// Maps a large page at an address that is a multiple of [`LARGE_PAGE`] and replaces any mappings in its range. All
    /// small pages of the large page must belong to the mapping.
    fn map_large(
        &mut self,
        _aspace: Aspace,
        _address: u64,
        _first: Frame,
        _perm: Perm,
        _cache: Cache,
    ) -> Result<(), OutOfMemory> {
        Err(OutOfMemory)
    }
    /// Unmaps `pages` pages from a page-aligned address up and skips those that are not mapped. The cost depends only
    /// on the number of mapped pages, not on the length of the range. A mapped large page that the range touches may be
    /// unmapped as a whole.
    fn unmap(&mut self, aspace: Aspace, address: u64, pages: u64);
    /// Removes write and execute access that `within` does not allow from the mapped pages in a range. Costs no more
    /// than [`Machine::unmap`]. A mapped large page that the range touches may lose the access as a whole.
    fn protect(&mut self, aspace: Aspace, address: u64, pages: u64, within: Perm);

    // --- threads ---

    /// Creates a thread that does not run yet.
    fn thread_create(&mut self, aspace: Aspace, key: ThreadKey, name: &str) -> Result<MachineThread, OutOfMemory>;
    /// Sets the registers of a thread that has not run yet, and starts it. Vector state is the initial one.
    fn thread_start(&mut self, thread: MachineThread, registers: &Registers);
    /// Destroys a thread in any state.
    fn thread_destroy(&mut self, thread: MachineThread);
    /// Suspends a thread wherever it is.
    fn thread_suspend(&mut self, thread: MachineThread);
    /// Makes a thread whose call was not answered repeat the call, unless it is suspended.
    fn thread_restart_call(&mut self, thread: MachineThread);
    /// Resumes a suspended thread, or one stopped by an unanswered fault; the faulting instruction is repeated.
    fn thread_resume(&mut self, thread: MachineThread);
    /// The registers of a thread that is stopped or blocked in a call.
    fn thread_registers(&mut self, thread: MachineThread) -> Registers;
    /// Sets the registers of a stopped thread. If they move the thread elsewhere, a [`Machine::thread_wake`] that it
    /// has not seen yet is dropped.
    fn thread_set_registers(&mut self, thread: MachineThread, registers: &Registers);
    /// The x87 and vector registers of a stopped thread; none if the machine cannot read them.
    fn thread_fpu(&mut self, thread: MachineThread) -> Option<FpuRegisters>;
    /// Sets the x87 and vector registers, if the machine can. The caller must clear reserved bits of MXCSR.
    fn thread_set_fpu(&mut self, thread: MachineThread, registers: &FpuRegisters);
    /// The debug registers of a stopped thread; none if the machine does not keep them per thread.
    fn thread_debug(&mut self, thread: MachineThread) -> Option<DebugRegisters>;
    /// Sets the debug registers, which must be [`DebugRegisters::valid`], if the machine can.
    fn thread_set_debug(&mut self, thread: MachineThread, registers: &DebugRegisters);
    /// Whether the machine keeps debug registers per thread.
    fn has_debug(&self) -> bool;
    /// Run time of a thread in nanoseconds, as precisely as the machine knows; none if it does not.
    fn thread_runtime(&mut self, thread: MachineThread) -> Option<i64>;
    /// Number of timer ticks during which this kernel itself was running; constant where the machine does not count
    /// them.
    fn own_ticks(&self) -> u64;
    /// Length of such a tick in nanoseconds; none if the machine does not count them.
    fn own_tick(&self) -> Option<u64>;
    /// Whether the trap flag in a thread's flags makes it stop after the next instruction.
    fn can_step(&self) -> bool;
    /// Whether the registers of a thread in a system call show its own stack pointer.
    fn keeps_stack_pointer(&self) -> bool;
    /// Sets a thread's priority, at most [`Priority::DEADLINE`]. A new thread has [`Priority::DEFAULT`].
    fn thread_set_priority(&mut self, thread: MachineThread, priority: Priority);
    /// Turns on or off that a thread runs before all other threads of its priority, but after those of higher ones.
    fn thread_prefer(&mut self, thread: MachineThread, preferred: bool);
    /// Sets the FS base of the calling thread or of a stopped one.
    fn thread_set_fs_base(&mut self, thread: MachineThread, base: u64);
    /// Wakes a thread whose call was answered with "blocked": the call returns `result`.
    fn thread_wake(&mut self, thread: MachineThread, result: i64);
    /// Arguments 5 to 8 of a thread's current call. The program can change them at any time: read them once.
    fn thread_extra_args(&self, thread: MachineThread) -> [u64; 4];

    // --- endpoints of the kernel below ---

    /// Creates an endpoint.
    fn endpoint_create(&mut self) -> Result<MachineEndpoint, OutOfMemory>;
    /// Finds the endpoint that a native component offers under a name. It need not be returned.
    fn endpoint_find(&mut self, name: &[u8]) -> Result<MachineEndpoint, EndpointError>;
    /// Destroys an endpoint that this system created. No thread's slot holds it any more.
    fn endpoint_destroy(&mut self, endpoint: MachineEndpoint);
    /// Puts a capability to an endpoint into an empty slot of a thread, numbered from
    /// [`abi::HAFNON_ENDPOINT_SLOTS_FROM`]. The receiver sees the badge. Only endpoints that this system created allow
    /// receiving.
    fn endpoint_mint(
        &mut self,
        endpoint: MachineEndpoint,
        thread: MachineThread,
        slot: u8,
        badge: u32,
        for_what: EndpointUse,
    ) -> Result<(), EndpointError>;
    /// Empties such a slot, if it is not empty already. The thread's operations through it then fail.
    fn endpoint_unmint(&mut self, thread: MachineThread, slot: u8);

    // --- virtual processors ---

    /// Creates a runner in an address space with a priority; it does not run yet. Its system calls and faults become
    /// messages to an endpoint that this system created, and the runner is stopped until the reply.
    fn runner_create(
        &mut self,
        aspace: Aspace,
        endpoint: MachineEndpoint,
        priority: Priority,
    ) -> Result<MachineRunner, OutOfMemory>;
    /// Whether a reply to a runner can set all its registers, and [`Machine::runner_hold`] reports its state.
    fn runs_foreign(&self) -> bool;
    /// Lets it run with these registers, whatever it was stopped by.
    fn runner_enter(&mut self, runner: MachineRunner, registers: &Registers);
    /// Stops it wherever it is; a message that it is sending is withdrawn.
    fn runner_stop(&mut self, runner: MachineRunner);
    /// Its run time in nanoseconds, as precisely as the machine knows; none if it does not.
    fn runner_runtime(&mut self, runner: MachineRunner) -> Option<i64>;
    /// Its registers; the instruction pointer is at the instruction that stopped it.
    fn runner_registers(&mut self, runner: MachineRunner) -> Registers;
    /// Makes it use the x87 and vector registers of `owner`, a thread with an occupied endpoint slot, until either
    /// ends, or `owner` shares them with another runner.
    fn runner_shares(&mut self, runner: MachineRunner, owner: MachineThread);
    /// Its debug registers; none if the machine does not keep them per thread.
    fn runner_debug(&mut self, runner: MachineRunner) -> Option<DebugRegisters>;
    /// Sets them as [`Machine::thread_set_debug`] does. The runner must not be running.
    fn runner_set_debug(&mut self, runner: MachineRunner, registers: &DebugRegisters);
    /// Sets the registers with which it continues when it is released, whatever it was stopped by.
    fn runner_set_registers(&mut self, runner: MachineRunner, registers: &Registers);
    /// Stops it if it runs. A message that it is sending stays pending.
    fn runner_hold(&mut self, runner: MachineRunner) -> Runs;
    /// Resumes it where it was stopped.
    fn runner_release(&mut self, runner: MachineRunner);
    /// Sets its priority.
    fn runner_set_priority(&mut self, runner: MachineRunner, priority: Priority);
    /// Destroys it. Its address space may have been destroyed before; it has then executed no further instruction.
    fn runner_destroy(&mut self, runner: MachineRunner);

    /// Creates a doorbell for a thread that has an occupied endpoint slot and no doorbell yet.
    fn doorbell_create(&mut self, thread: MachineThread) -> Result<MachineDoorbell, OutOfMemory>;
    /// Interrupts the thread's current receive, or else its next one, once.
    fn doorbell_ring(&mut self, doorbell: MachineDoorbell);
    /// Destroys a doorbell. Its thread may have ended before.
    fn doorbell_destroy(&mut self, doorbell: MachineDoorbell);

    /// Whether the server is currently handling this thread's call.
    fn thread_calls(&self, thread: MachineThread) -> bool;
    /// Stops a thread that is not in a call, and returns the registers with which it would continue.
    fn thread_interrupt(&mut self, thread: MachineThread) -> Registers;
    /// Resumes a thread stopped by [`Machine::thread_interrupt`] with these registers.
    fn thread_divert(&mut self, thread: MachineThread, registers: &Registers);

    /// Maps a page for reading and writing by a thread's vDSO, outside of the range for programs; returns the address.
    fn thread_map_page(&mut self, thread: MachineThread, frame: Frame) -> Result<u64, OutOfMemory>;
    /// Unmaps such a page.
    fn thread_unmap_page(&mut self, thread: MachineThread, address: u64);
    /// Reads one of the words that a thread's vDSO keeps for itself in the page of its IPC buffer, at a byte offset.
    /// The program can change it at any time.
    fn thread_word(&self, thread: MachineThread, offset: usize) -> u64;
    /// Sets such a word.
    fn thread_set_word(&mut self, thread: MachineThread, offset: usize, value: u64);

    // --- native components as clients ---

    /// Takes over the address space, and with it the thread, of a component that waits to become a client; returns the
    /// component's name, padded with zeroes. The first [`Machine::thread_create`] in that address space returns the
    /// waiting thread. When it is started, it receives the value of `rdi`. If the thread or the address space is
    /// destroyed before that, it receives an error. Afterwards its calls fail.
    fn component_take(&mut self, component: u8) -> Result<(Aspace, [u8; 32]), OutOfMemory>;
    /// Answers such a component that there is no memory for it.
    fn component_refuse(&mut self, component: u8);

    // --- devices ---

    /// The page of device memory at a page-aligned physical address. The same address always has the same frame number.
    /// It need not be returned. `Denied` also if the address is ordinary memory.
    fn device_frame(&mut self, address: u64) -> Result<DeviceFrame, DeviceError>;
    /// Whether [`Machine::device_frame`] would succeed for all `pages` pages from an address up, and if so, whether all
    /// of them are writable. Allocates nothing; cheap for any number of pages.
    fn device_range(&self, address: u64, pages: u64) -> Result<bool, DeviceError>;
    /// Reads four bytes of a device's page at a multiple of four; none on failure. Slow; meant for device accesses that
    /// the server makes on a program's behalf.
    fn device_read(&mut self, frame: Frame, offset: usize) -> Option<u32>;
    /// Writes four bytes likewise; says whether it succeeded.
    fn device_write(&mut self, frame: Frame, offset: usize, value: u32) -> bool;
    /// Watches an interrupt: `Server::interrupt` is called with `key` when it comes. An interrupt comes at most once
    /// until it is acknowledged: a level-triggered pin stays masked until [`Machine::irq_ack`]; the machine itself
    /// acknowledges the others when they come. `Taken`: the pin or vector is watched already.
    fn irq_open(&mut self, source: IrqSource, key: IrqKey) -> Result<Irq, DeviceError>;
    /// Allows an interrupt that has come to come again. Harmless where no acknowledgement is needed.
    fn irq_ack(&mut self, irq: Irq);
    /// Stops watching an interrupt. It is no longer delivered, not even if it came before and was not reported yet.
    fn irq_close(&mut self, irq: Irq);
    /// Allocates `count` vectors for messages, a power of two up to 32. `Denied`: more than the machine ever has.
    fn msi_alloc(&mut self, count: u32) -> Result<MsiBlock, DeviceError>;
    /// Frees vectors, none of which is watched any more. The caller has made sure that the device no longer sends.
    fn msi_free(&mut self, block: MsiBlock);
    /// The number of pins of the machine's interrupt controllers, and the number of vectors for messages.
    fn irq_counts(&self) -> (u32, u32);
    /// Whether programs may use all `count` I/O ports from `first` up.
    fn ports_usable(&self, first: u16, count: u32) -> bool;
    /// Reads from an I/O port; returns all ones for an unusable one.
    fn port_read(&mut self, port: u16, width: PortWidth) -> u32;
    /// Writes to an I/O port; ignored for an unusable one.
    fn port_write(&mut self, port: u16, width: PortWidth, value: u32);

    // --- time, random numbers, console, power ---

    /// Nanoseconds since the start.
    fn now(&self) -> i64;
    /// The raw counter behind [`Machine::now`], as programs read it.
    fn ticks(&self) -> i64;
    /// The conversion from the raw counter to [`Machine::now`], so that programs compute the same nanosecond.
    fn conversion(&self) -> Conversion;
    /// Nanoseconds from the UNIX epoch (1970) to the zero of [`Machine::now`].
    fn utc_offset(&self) -> i64;
    /// Requests a timer event not before `deadline` (nanoseconds as in [`Machine::now`]). The earliest requested
    /// deadline counts; an event that comes too early is harmless.
    fn set_deadline(&mut self, deadline: i64);
    /// Fills `out` with unpredictable bytes.
    fn random(&mut self, out: &mut [u8]);
    /// Adds entropy to the source of [`Machine::random`].
    fn add_entropy(&mut self, data: &[u8]);
    /// Writes text to the console.
    fn console_write(&mut self, text: &[u8]);
    /// Queues bytes for the host link; returns how many were queued, possibly 0.
    fn serial_write(&mut self, data: &[u8]) -> usize;
    /// Takes bytes received over the host link; returns how many, possibly 0.
    fn serial_read(&mut self, out: &mut [u8]) -> usize;
    /// Stops the machine; returns only if it cannot.
    fn power(&mut self, how: Power);
}
