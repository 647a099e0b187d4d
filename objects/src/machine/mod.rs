//! The computer beneath the objects, as they see it.
//!
//! Objects know pages, address spaces, threads and time, but not how they are made. A [`Machine`] makes them: over
//! seL4 in the server, in plain memory for the tests on the host ([`crate::fake::FakeMachine`]). All identifiers are
//! small numbers that the machine gives out; the objects never invent one, and give each back exactly once.
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

/// The lowest address that a program can map: Zircon's on this processor, and below where programs for fixed addresses mostly begin.
pub const USER_BASE: u64 = 0x20_0000;
/// The first address above what a program can map: Zircon's. The last page below 2^47 is nobody's.
pub const USER_TOP: u64 = (1 << 47) - PAGE;
/// Where the machine keeps its own pages in an address space, up to [`KEPT_END`]. Nothing else is mapped there, and no call changes what
/// is.
pub const KEPT: u64 = 0x7ff0_0000_0000;
/// The end of that.
pub const KEPT_END: u64 = KEPT + (1 << 30);
/// Where the half begins that shared processes have in common, as in Zircon.
pub const USER_HALF: u64 = 0x4000_0000_0000;
/// The lowest address that a native component can map, if it is a client of this system: what lies below is its own.
pub const COMPONENT_BASE: u64 = 0x80_0000_0000;

/// One page of memory, owned by whoever asked for it; or one page of a device, which nobody owns
/// ([`Frame::is_device`]).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Frame(pub u32);

impl Frame {
    /// The lowest number of a page of device memory. Those of memory are dense and start at 0.
    pub const DEVICE: u32 = 1 << 31;

    /// Whether this is a page of device memory: such a page is never freed, and cannot be read, written, zeroed or
    /// copied by the server.
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

/// What runs the code of a virtual processor in an address space.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MachineRunner(pub u32);

/// What ends a thread's receiving from an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MachineBell(pub u32);

/// What a thread is called in the events that it causes; below 2^26, chosen by the objects.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ThreadKey(pub u32);

/// What a page is wanted for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// To look at it.
    Read,
    /// To change it.
    Write,
}

/// What a mapping allows. A mapping that allows nothing is not made at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Perm {
    /// Loads.
    pub read: bool,
    /// Stores.
    pub write: bool,
    /// Instruction fetches.
    pub execute: bool,
}

/// How the processor caches what goes through a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Cache {
    /// As memory is.
    #[default]
    Cached,
    /// Not at all.
    Uncached,
    /// Not at all, and in order: for the registers of devices.
    UncachedDevice,
    /// Writes are collected: for frame buffers.
    WriteCombining,
}

/// Why something of a device cannot be had. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceError {
    /// It is not there, or not this system's to give: the system itself or another one uses it.
    Denied,
    /// Somebody has it already.
    Taken,
    /// All that the machine can watch at a time are in use.
    NoneLeft,
    /// There is no memory left for what it takes.
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

/// Where an interrupt comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IrqSource {
    /// An input of the machine's interrupt controllers, counted through all of them.
    Pin {
        /// Its number.
        number: u32,
        /// It is triggered by a level, which its device holds until it has been served, not by an edge.
        level: bool,
        /// By the low level or the falling edge.
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

/// What an interrupt is called when it comes; chosen by the objects.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct IrqKey(pub u32);

/// Vectors for message-signalled interrupts. Vector `first + i` comes when a device writes the value `data + i` to
/// `address`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MsiBlock {
    /// The first vector.
    pub first: u32,
    /// How many, a power of two.
    pub count: u32,
    /// The physical address that a device is to write to.
    pub address: u64,
    /// The value for the first vector, a multiple of `count`, so that a device may set the low bits.
    pub data: u32,
}

/// An endpoint of the kernel beneath.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum MachineEndpoint {
    /// The system's own.
    Own(u32),
    /// One that a native component offers.
    Found {
        /// Which component.
        component: u8,
        /// Which of what it offers.
        offer: u8,
        /// In which of its lives.
        life: u32,
    },
}

/// What a capability to an endpoint is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EndpointUse {
    /// To send, and to be answered.
    pub call: bool,
    /// To send.
    pub send: bool,
    /// To receive.
    pub receive: bool,
}

/// Why an endpoint cannot be had. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndpointError {
    /// Nobody offers it.
    NotFound,
    /// Who offered it has ended.
    Away,
    /// There is no memory left for what it takes.
    OutOfMemory,
}

impl From<OutOfMemory> for EndpointError {
    fn from(_: OutOfMemory) -> Self {
        EndpointError::OutOfMemory
    }
}

/// How many bytes an access to an I/O port moves.
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
    /// As a number.
    pub const fn bytes(self) -> u16 {
        match self {
            PortWidth::Byte => 1,
            PortWidth::Word => 2,
            PortWidth::Long => 4,
        }
    }

    /// What a read from a port without a device gives.
    pub const fn all_ones(self) -> u32 {
        u32::MAX >> (32 - 8 * self.bytes())
    }
}

impl Perm {
    /// Whether it allows all that another one does.
    pub fn allows(self, other: Perm) -> bool {
        self.read >= other.read && self.write >= other.write && self.execute >= other.execute
    }
}

/// What a runner did when it was to be held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Runs {
    /// It ran, and was stopped.
    Did,
    /// It waits to tell its endpoint something.
    Tells,
    /// Neither: it was stopped before, or waits for an answer.
    Not,
}

/// Whether an address can be where a thread runs, or its FS base.
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
    /// 0 where the kernel keeps GS for itself.
    pub gs_base: u64,
}

/// A record of general registers out of another one: those whose fields have the same names in all of them, and what else there is.
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
    /// x87: tag word, abridged: one bit a register, set if it is in use.
    pub ftw: u8,
    /// x87: last opcode.
    pub fop: u16,
    /// x87: last instruction.
    pub fip: u64,
    /// x87: last operand.
    pub fdp: u64,
    /// x87: the register stack, 80 bits each.
    pub st: [[u64; 2]; 8],
    /// Control and status of the vector unit.
    pub mxcsr: u32,
    /// Bits that [`FpuRegisters::mxcsr`] may have.
    pub mxcsr_mask: u32,
    /// The vector registers, 256 bits each.
    pub ymm: [[u64; 4]; 16],
}

impl FpuRegisters {
    /// What a thread starts with.
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

/// What a thread was stopped by, as it says: the machine has decoded it but cannot vouch for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A memory access that no mapping allowed.
    Page {
        /// The address accessed.
        address: u64,
        /// The instruction that did it.
        ip: u64,
        /// A store.
        write: bool,
        /// An instruction fetch.
        execute: bool,
    },
    /// A processor exception: vector number and error code as the processor gives them.
    Exception {
        /// The processor's vector (0 divide error, 6 undefined instruction, 13 general protection, ...).
        vector: u64,
        /// The processor's error code, 0 where there is none.
        code: u64,
        /// The instruction.
        ip: u64,
    },
    /// A `syscall` instruction that is not one of the kernel's calls.
    Syscall {
        /// The instruction.
        ip: u64,
    },
}

/// Nanoseconds since the start are `(counter + offset) * numerator / denominator`, rounded down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conversion {
    /// Counts per second.
    pub per_second: u64,
    /// Added to the raw counter, modulo 2^64.
    pub offset: u64,
    /// See above.
    pub numerator: u32,
    /// See above; not 0.
    pub denominator: u32,
}

/// How urgent a thread is: of those that can run, one with the highest priority does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Priority(pub u8);

impl Priority {
    /// What a thread starts with.
    pub const DEFAULT: Priority = Priority(16);
    /// Before all that have none but a priority; the highest there is.
    pub const DEADLINE: Priority = Priority(32);
}

impl Default for Priority {
    fn default() -> Self {
        Priority::DEFAULT
    }
}

/// How the machine is to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Power {
    /// Switch off.
    Off,
    /// Start again.
    Reboot,
}

/// What is in use of the machine's own things. What it keeps for later use is not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Held {
    /// Pages given out.
    pub frames: u64,
    /// Pieces of memory that kernel objects are made of.
    pub units: u64,
    /// Capability slots that are taken one by one.
    pub slots: u64,
}

/// What the objects ask of the computer.
pub trait Machine {
    // --- memory ---

    /// A page of zeroes.
    fn frame_alloc(&mut self) -> Result<Frame, OutOfMemory>;
    /// `count` pages of zeroes, at least 1, whose numbers and physical addresses follow each other; the first address
    /// is a multiple of 2^`align_log2`. Returns the first. Each is given back by itself, in any order. Those that are
    /// aligned to large pages, and as many, are large pages.
    fn frames_contiguous(&mut self, count: u32, align_log2: u8) -> Result<Frame, OutOfMemory>;
    /// The physical address of a page, of memory or of a device.
    fn frame_address(&self, frame: Frame) -> u64;
    /// Gives a page back. It is mapped nowhere any more. Not for pages of devices.
    fn frame_free(&mut self, frame: Frame);
    /// Copies out of a page. The caller keeps `offset + out.len()` within the page; what lies beyond is not copied, and
    /// nothing from a device's page.
    fn frame_read(&self, frame: Frame, offset: usize, out: &mut [u8]);
    /// Copies into a page, under the same bounds.
    fn frame_write(&mut self, frame: Frame, offset: usize, data: &[u8]);
    /// Zeroes a part of a page, under the same bounds.
    fn frame_zero(&mut self, frame: Frame, offset: usize, len: usize);
    /// Copies a part of a page into another, or within the same one, where they may overlap. The same bounds hold for
    /// both.
    fn frame_move(&mut self, from: Frame, from_offset: usize, to: Frame, to_offset: usize, len: usize);
    /// Copies a whole page.
    fn frame_copy(&mut self, from: Frame, to: Frame);
    /// Bytes of memory that are in use, and that there are in all.
    fn memory(&self) -> (u64, u64);
    /// Bytes of the memory in use that the heap has taken, and those of them that hold nothing.
    fn heap(&self) -> (u64, u64) {
        (0, 0)
    }
    /// What is in use, to see that everything comes back.
    fn held(&self) -> Held;
    /// Whether nothing is to be done before a call: memory for small allocations is there, and [`Machine::attend`] was
    /// not asked for.
    fn calm(&self) -> bool;
    /// From now on, or no longer, [`Machine::calm`] says no.
    fn attend(&mut self, on: bool);
    /// Makes sure that the objects' own small allocations until the next call of this method cannot fail.
    fn heap_reserve(&mut self) -> Result<(), OutOfMemory>;
    /// Whether, though [`Machine::heap_reserve`] fails, enough is left for the small allocations of one more call that
    /// keeps next to nothing when it is over.
    fn heap_rest(&mut self) -> bool;

    // --- address spaces ---

    /// An empty address space.
    fn aspace_create(&mut self) -> Result<Aspace, OutOfMemory>;
    /// Ends an address space: all its mappings go, the frames stay. No thread lives in it any more.
    fn aspace_destroy(&mut self, aspace: Aspace);
    /// Bytes that an address space takes beyond what every one does: for its tables, and for each mapping of a page that
    /// is mapped elsewhere, too, be it the page of zeroes.
    fn aspace_bytes(&self, _aspace: Aspace) -> u64 {
        0
    }
    /// Maps a page at a page-aligned address, in place of whatever was mapped there. All mappings of a page should be
    /// cached alike.
    fn map(&mut self, aspace: Aspace, address: u64, frame: Frame, perm: Perm, cache: Cache) -> Result<(), OutOfMemory>;
    /// How many pages from an address on, of so many, can be unmapped or changed with no more work than `most` that are mapped
    /// make; at least one.
    fn stretch(&self, aspace: Aspace, address: u64, pages: u64, most: u32) -> u64;
    /// Unmaps so many of the pages from an address on as [`Machine::stretch`] says; gives their number.
    fn unmap_some(&mut self, aspace: Aspace, address: u64, pages: u64, most: u32) -> u64 {
        let some = self.stretch(aspace, address, pages, most);
        self.unmap(aspace, address, some);
        some
    }
    /// Maps pages side by side from an address on, as [`Machine::map`]; fastest where nothing is mapped. On an error some of
    /// the first are.
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
    /// Whether the machine knows which pages were written: see [`Machine::written`].
    fn knows_written(&self) -> bool {
        false
    }
    /// Which of so many pages (at most 64) from an address on a program has written since they were mapped there: a bit
    /// for each, from the lowest on. What is not mapped was not written.
    fn written(&mut self, _aspace: Aspace, _address: u64, _pages: u32) -> u64 {
        0
    }
    /// Whether a page is one of [`LARGE_PAGES`] that can be mapped together: those around it whose numbers begin with a
    /// multiple of that. It stays so until one of them is mapped by itself, which costs as much as some hundred pages.
    fn frame_is_large(&self, _frame: Frame) -> bool {
        false
    }
    /// Maps a large page, all of whose pages belong there, at an address that is a multiple of [`LARGE_PAGE`], in place
    /// of whatever was mapped in its range.
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
    /// Unmaps `pages` pages from a page-aligned address on; those not mapped are passed over. Costs no more than what
    /// is mapped there, however long the range. Of a large page that is mapped, more may be unmapped than the range.
    fn unmap(&mut self, aspace: Aspace, address: u64, pages: u64);
    /// Takes what `within` does not allow, of writing and executing, from the pages that are mapped in a range. Costs no more
    /// than [`Machine::unmap`]. Of a large page that is mapped, all of it may lose it.
    fn protect(&mut self, aspace: Aspace, address: u64, pages: u64, within: Perm);

    // --- threads ---

    /// A thread that does not run yet.
    fn thread_create(&mut self, aspace: Aspace, key: ThreadKey, name: &str) -> Result<MachineThread, OutOfMemory>;
    /// Sets the registers of a thread that has not run yet, and lets it run. Vector state is the initial one.
    fn thread_start(&mut self, thread: MachineThread, registers: &Registers);
    /// Ends a thread, wherever it is.
    fn thread_destroy(&mut self, thread: MachineThread);
    /// Stops a thread where it is.
    fn thread_suspend(&mut self, thread: MachineThread);
    /// Has a thread whose call was not answered make it again, if it is not suspended.
    fn thread_again(&mut self, thread: MachineThread);
    /// Lets a suspended thread, or one stopped by a fault that was not answered, go on; a faulting instruction is
    /// repeated.
    fn thread_resume(&mut self, thread: MachineThread);
    /// The registers of a thread that is stopped or waits in a call.
    fn thread_registers(&mut self, thread: MachineThread) -> Registers;
    /// Sets the registers of a thread that is stopped. If it shall go on elsewhere, a [`Machine::thread_wake`] that it
    /// has not noticed yet is forgotten.
    fn thread_set_registers(&mut self, thread: MachineThread, registers: &Registers);
    /// The x87 and vector registers of a thread that is stopped; none if the machine does not give them.
    fn thread_fpu(&mut self, thread: MachineThread) -> Option<FpuRegisters>;
    /// Sets them, where the machine gives them. Reserved bits of MXCSR are the caller's to keep out.
    fn thread_set_fpu(&mut self, thread: MachineThread, registers: &FpuRegisters);
    /// Nanoseconds for which a thread has run, as well as the machine knows; none if it does not.
    fn thread_runtime(&mut self, thread: MachineThread) -> Option<i64>;
    /// Ticks that have found this kernel itself at work; the same for ever where the machine does not count them.
    fn own_ticks(&self) -> u64;
    /// Nanoseconds of such a tick; none if the machine does not count them.
    fn own_tick(&self) -> Option<u64>;
    /// Whether a thread stops after the next instruction when the trap flag is among the flags that it is given.
    fn can_step(&self) -> bool;
    /// Whether a thread that is found in a system call is shown with its own stack pointer.
    fn keeps_stack_pointer(&self) -> bool;
    /// Sets a thread's priority, at most [`Priority::DEADLINE`]. It starts with [`Priority::DEFAULT`].
    fn thread_set_priority(&mut self, thread: MachineThread, priority: Priority);
    /// From now on, or no longer, a thread comes before all others of its priority, but after those of a higher one.
    fn thread_prefer(&mut self, thread: MachineThread, preferred: bool);
    /// Sets the FS base of a thread: of the one whose call is being handled, or of a stopped one.
    fn thread_set_fs_base(&mut self, thread: MachineThread, base: u64);
    /// Ends the wait of a thread whose call was answered with "blocked": the call returns `result`.
    fn thread_wake(&mut self, thread: MachineThread, result: i64);
    /// Arguments 5 to 8 of the call that a thread has made. They may change at any time: read them once.
    fn thread_extra_args(&self, thread: MachineThread) -> [u64; 4];

    // --- endpoints of the kernel beneath ---

    /// An endpoint.
    fn endpoint_create(&mut self) -> Result<MachineEndpoint, OutOfMemory>;
    /// The endpoint that a native component offers under a name. It needs no giving back.
    fn endpoint_find(&mut self, name: &[u8]) -> Result<MachineEndpoint, EndpointError>;
    /// Ends an endpoint of the system's own. It stands in no slot any more.
    fn endpoint_destroy(&mut self, endpoint: MachineEndpoint);
    /// Puts a capability to an endpoint into an empty slot of a thread, from [`abi::HAFNON_ENDPOINT_SLOTS_FROM`] on. Who
    /// receives sees the badge. To receive is only for endpoints of the system's own.
    fn endpoint_mint(
        &mut self,
        endpoint: MachineEndpoint,
        thread: MachineThread,
        slot: u8,
        badge: u32,
        for_what: EndpointUse,
    ) -> Result<(), EndpointError>;
    /// Empties such a slot, if it is not empty already. Whatever the thread does through it fails.
    fn endpoint_unmint(&mut self, thread: MachineThread, slot: u8);

    // --- virtual processors ---

    /// Something that runs code in an address space, of a priority, and does not run yet. Whatever it does but run is a message
    /// to an endpoint of the system's own, and holds it until it is answered there.
    fn runner_create(
        &mut self,
        aspace: Aspace,
        endpoint: MachineEndpoint,
        priority: Priority,
    ) -> Result<MachineRunner, OutOfMemory>;
    /// Whether a runner can be given all registers at each answer, and [`Machine::runner_hold`] tells.
    fn runs_foreign(&self) -> bool;
    /// Lets it run with these registers, whatever holds it.
    fn runner_enter(&mut self, runner: MachineRunner, registers: &Registers);
    /// Stops it where it is; a message that it is in is withdrawn.
    fn runner_stop(&mut self, runner: MachineRunner);
    /// Nanoseconds for which it has run, as well as the machine knows; none if it does not.
    fn runner_runtime(&mut self, runner: MachineRunner) -> Option<i64>;
    /// Its registers; the instruction is the one that holds it.
    fn runner_registers(&mut self, runner: MachineRunner) -> Registers;
    /// It computes with the x87 and vector registers of a thread, into one of whose slots something was put, until either ends. The thread does so
    /// with no other runner.
    fn runner_shares(&mut self, runner: MachineRunner, owner: MachineThread);
    /// Sets the registers with which it goes on when it is released, whatever holds it.
    fn runner_set_registers(&mut self, runner: MachineRunner, registers: &Registers);
    /// Stops it if it runs. A message that it is in stays.
    fn runner_hold(&mut self, runner: MachineRunner) -> Runs;
    /// Lets it go on where it was stopped.
    fn runner_release(&mut self, runner: MachineRunner);
    /// Sets its priority.
    fn runner_set_priority(&mut self, runner: MachineRunner, priority: Priority);
    /// Ends it. Its address space may have ended before: then it cannot have executed any further instruction.
    fn runner_destroy(&mut self, runner: MachineRunner);

    /// A bell for a thread into one of whose slots something was put; it has none yet.
    fn bell_create(&mut self, thread: MachineThread) -> Result<MachineBell, OutOfMemory>;
    /// Ends the thread's receiving; if it does not receive, the next one, once.
    fn bell_ring(&mut self, bell: MachineBell);
    /// Takes the bell away. Its thread may have ended before.
    fn bell_destroy(&mut self, bell: MachineBell);

    /// Whether it is a thread's call that is being handled.
    fn thread_calls(&self, thread: MachineThread) -> bool;
    /// Stops a thread that neither stands nor waits in a call, and tells the registers with which it goes on.
    fn thread_interrupt(&mut self, thread: MachineThread) -> Registers;
    /// Lets a thread that was stopped so go on with these.
    fn thread_divert(&mut self, thread: MachineThread, registers: &Registers);

    /// Maps a page in a thread's address space for its vDSO, to read and write, where no program maps; tells the address.
    fn thread_show(&mut self, thread: MachineThread, frame: Frame) -> Result<u64, OutOfMemory>;
    /// Unmaps it.
    fn thread_hide(&mut self, thread: MachineThread, address: u64);
    /// A word of those that a thread's vDSO keeps for itself, at an offset in the page of its IPC buffer. The program can change it at any time.
    fn thread_word(&self, thread: MachineThread, offset: usize) -> u64;
    /// Sets it.
    fn thread_set_word(&mut self, thread: MachineThread, offset: usize, value: u64);

    // --- native components as clients ---

    /// Takes over the address space of a component that waits to become a client, and with it its thread; tells its name, padded
    /// with zeroes. The first thread that is created in it is that one. It waits, and is told what stands in `rdi` when it is
    /// started, or of the failure when it, or the address space, is destroyed before that; afterwards its calls fail.
    fn component_take(&mut self, component: u8) -> Result<(Aspace, [u8; 32]), OutOfMemory>;
    /// Tells such a component that there is no memory for it.
    fn component_refuse(&mut self, component: u8);

    // --- devices ---

    /// The page of device memory at a page-aligned physical address, with the same number each time. It needs no giving
    /// back. `Denied` also where there is memory, not a device.
    fn device_frame(&mut self, address: u64) -> Result<DeviceFrame, DeviceError>;
    /// Whether all `pages` pages from an address on can be had by [`Machine::device_frame`], and if so, whether all of
    /// them may be written. Takes none, and costs little however many they are.
    fn device_range(&self, address: u64, pages: u64) -> Result<bool, DeviceError>;
    /// Reads four bytes of a device's page at a multiple of four; none if that cannot be. Slow: for what a device must be
    /// told on a program's behalf.
    fn device_read(&mut self, frame: Frame, offset: usize) -> Option<u32>;
    /// Writes four bytes likewise; says whether it did.
    fn device_write(&mut self, frame: Frame, offset: usize, value: u32) -> bool;
    /// Watches an interrupt: `Server::interrupt` is called with `key` when it comes. Interrupts come at most once
    /// until they are acknowledged: a pin triggered by level stays shut until [`Machine::irq_ack`]; the others are
    /// acknowledged by the machine as they come. `Taken`: that pin or vector is being watched.
    fn irq_open(&mut self, source: IrqSource, key: IrqKey) -> Result<Irq, DeviceError>;
    /// Lets an interrupt that has come come again. Harmless where that is not needed.
    fn irq_ack(&mut self, irq: Irq);
    /// No longer watches it. It does not come any more, not even if it came before and was not told yet.
    fn irq_close(&mut self, irq: Irq);
    /// `count` vectors for messages, a power of two up to 32. `Denied`: more than there can ever be.
    fn msi_alloc(&mut self, count: u32) -> Result<MsiBlock, DeviceError>;
    /// Gives vectors back, of which none is watched any more. Whoever wrote them into a device has taken care that it
    /// does not send any longer.
    fn msi_free(&mut self, block: MsiBlock);
    /// How many pins the machine's interrupt controllers have, and how many vectors for messages there are.
    fn irq_counts(&self) -> (u32, u32);
    /// Whether programs may use all the `count` I/O ports from `first` on.
    fn ports_usable(&self, first: u16, count: u32) -> bool;
    /// Reads from an I/O port; all ones from one that cannot be used.
    fn port_read(&mut self, port: u16, width: PortWidth) -> u32;
    /// Writes to an I/O port; nothing happens at one that cannot be used.
    fn port_write(&mut self, port: u16, width: PortWidth, value: u32);

    // --- time, chance, the outside ---

    /// Nanoseconds since the start.
    fn now(&self) -> i64;
    /// The raw counter behind [`Machine::now`], as a program reads it.
    fn ticks(&self) -> i64;
    /// How [`Machine::now`] follows from the raw counter, so that programs come to the same nanosecond.
    fn conversion(&self) -> Conversion;
    /// Nanoseconds from 1970 to the start of [`Machine::now`].
    fn utc_offset(&self) -> i64;
    /// Asks for a timer event not before `deadline` (nanoseconds as in [`Machine::now`]). The earliest one asked for
    /// counts; an event that comes too early is harmless.
    fn set_deadline(&mut self, deadline: i64);
    /// Fills `out` with bytes that nobody can foresee.
    fn random(&mut self, out: &mut [u8]);
    /// Adds to what [`Machine::random`] draws from.
    fn add_entropy(&mut self, data: &[u8]);
    /// Writes text to the console.
    fn console_write(&mut self, text: &[u8]);
    /// Queues bytes for the host link; returns how many it took, which may be none.
    fn serial_write(&mut self, data: &[u8]) -> usize;
    /// Takes bytes that came over the host link; returns how many, which may be none.
    fn serial_read(&mut self, out: &mut [u8]) -> usize;
    /// Stops the machine; returns only if it cannot.
    fn power(&mut self, how: Power);
}
