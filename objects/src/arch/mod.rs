//! Processor architectures: registers and their kin.
//!
//! The objects only carry registers. What they ask about them is in the traits below, and the folder of an architecture
//! answers: `x86_64` is the only one so far. Nothing outside such folders names a register (`check.architecture`).
//! [`Native`] is the architecture that this crate is compiled for.

mod port_width;
#[cfg(target_arch = "x86_64")]
pub mod x86_64;

use core::fmt;

use abi::{
    Status, hafnon_vproc_state_t, zx_restricted_state_t, zx_thread_state_debug_regs_t, zx_thread_state_fp_regs_t,
    zx_thread_state_general_regs_t, zx_thread_state_vector_regs_t, zx_x86_64_exc_data_t as exc_data_t,
};

pub use port_width::PortWidth;
#[cfg(target_arch = "x86_64")]
pub use x86_64::{X86_64 as Native, layout};

/// The general registers of a thread.
pub type Registers = <Native as Architecture>::Registers;
/// The floating-point and vector registers of a thread.
pub type FpuRegisters = <Native as Architecture>::FpuRegisters;
/// The debug registers of a thread.
pub type DebugRegisters = <Native as Architecture>::DebugRegisters;
/// General registers that are safe to load for user mode.
pub type UserRegisters = <Native as Architecture>::UserRegisters;
/// An instruction that uses an I/O port.
pub type PortInstruction = <Native as Architecture>::PortInstruction;

/// An architecture: its kinds of registers, and what its exceptions mean.
pub trait Architecture {
    /// General registers.
    type Registers: GeneralRegisters;
    /// Floating-point and vector registers.
    type FpuRegisters: VectorRegisters;
    /// Debug registers.
    type DebugRegisters: Breakpoints;
    /// General registers that are safe to load for user mode.
    type UserRegisters: From<Self::Registers>;
    /// An instruction that uses an I/O port.
    type PortInstruction: PortAccess<Self::Registers>;
    /// The processor's vector for a page fault.
    const PAGE_FAULT: u64;

    /// Whether an address can be an instruction pointer or a thread pointer of a program.
    fn is_user_address(address: u64) -> bool;
    /// Whether a program may set its thread pointer to this value.
    fn can_be_pointer(base: u64) -> bool;
    /// The `ZX_EXCP_*` of a processor exception.
    fn exception_kind(vector: u64) -> u32;
    /// What programs see of a processor exception that is no page fault.
    fn exception_data(vector: u64, code: u64) -> exc_data_t;
    /// What programs see of a page fault at an address: whether the page is mapped, and the access.
    fn page_fault_data(address: u64, mapped: bool, write: bool, execute: bool) -> exc_data_t;
    /// What the processor's code for a page fault says.
    fn page_fault_access(code: u64) -> PageFaultAccess;
    /// The address of a page fault, from what programs see of it.
    fn page_fault_address(data: &exc_data_t) -> u64;
    /// Words for people about a page fault's access.
    fn page_fault_name(data: &exc_data_t) -> &'static str;
    /// Words for people about an exception of kind `ZX_EXCP_GENERAL`.
    fn exception_name(data: &exc_data_t) -> &'static str;
    /// Whether an exception can be the use of an I/O port by a program.
    fn can_be_port_access(vector: u64, code: u64) -> bool;
}

/// What the processor says about a page fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageFaultAccess {
    /// The access came from user mode.
    pub user: bool,
    /// It was a store.
    pub write: bool,
    /// It was an instruction fetch, if the processor tells.
    pub execute: bool,
}

/// Offset of a word that the vDSO keeps behind a thread's IPC buffer, and its value.
pub type KeptWord = (usize, u64);

/// General registers.
pub trait GeneralRegisters: Copy + Eq + Default + fmt::Debug {
    /// The registers with which a thread starts: flags as after a call, and 0 for everything that is not given.
    fn initial(ip: u64, sp: u64, arguments: [u64; 2]) -> Self;
    /// The thread pointer.
    fn thread_pointer(&self) -> u64;
    /// Sets the thread pointer.
    fn set_thread_pointer(&mut self, base: u64);
    /// Sets the register that the ABI of programs reserves.
    fn set_reserved(&mut self, value: u64);
    /// The instruction pointer.
    fn ip(&self) -> u64;
    /// The stack pointer.
    fn sp(&self) -> u64;
    /// The first argument of a function.
    fn first_argument(&self) -> u64;
    /// The frame pointer.
    fn frame_pointer(&self) -> u64;
    /// The result of a system call.
    fn result(&self) -> i64;
    /// Sets the result of a system call.
    fn set_result(&mut self, result: i64);
    /// The registers of a thread on a kernel that does not keep the stack pointer of a thread in a call: with the stack
    /// pointer that the vDSO saved, if the thread is at the vDSO's entry to the kernel. `read` reads a program's code,
    /// and says whether it succeeded.
    fn with_saved_sp(self, read: impl FnMut(u64, &mut [u8]) -> bool) -> Self;
    /// Goes to the instruction after a system call.
    fn skip_call(&mut self);
    /// Ends a system call that is none: the thread continues behind the instruction with a result. Returns the number
    /// of the call.
    fn refuse_call(&mut self, result: Status) -> u32;
    /// Whether the thread stops after the next instruction.
    fn steps(&self) -> bool;
    /// Makes the thread stop after each instruction, or not.
    fn set_steps(&mut self, steps: bool);
    /// The registers at the start of an upcall that interrupts a thread with these registers.
    fn upcall(&self, ip: u64, sp: u64) -> Self;
    /// Writes them for people.
    ///
    /// # Errors
    /// Those of `out`.
    fn describe(&self, out: &mut impl fmt::Write) -> fmt::Result;

    /// `ZX_THREAD_STATE_GENERAL_REGS`.
    fn state(&self) -> zx_thread_state_general_regs_t;
    /// Sets them from a program's `ZX_THREAD_STATE_GENERAL_REGS`.
    ///
    /// # Errors
    /// `INVALID_ARGS`: an address that a program cannot have. `NOT_SUPPORTED`: a register that belongs to the system.
    fn set_state(&mut self, new: &zx_thread_state_general_regs_t) -> Result<(), Status>;
    /// A register that the architecture has in `zx_thread_read_state` by itself; none for other kinds.
    fn single(&self, kind: u32) -> Option<u64>;
    /// Sets such a register.
    ///
    /// # Errors
    /// `INVALID_ARGS`: another kind, or as for [`Self::set_state`].
    fn set_single(&mut self, kind: u32, value: u64) -> Result<(), Status>;
    /// The state of a virtual processor; none if the code cannot have it.
    fn of_vproc(state: &hafnon_vproc_state_t) -> Option<Self>;
    /// As state of a virtual processor.
    fn to_vproc(&self) -> hafnon_vproc_state_t;
    /// The state of restricted mode; none if the code cannot have it.
    fn of_restricted(state: &zx_restricted_state_t) -> Option<Self>;
    /// As state of restricted mode.
    fn to_restricted(&self) -> zx_restricted_state_t;
    /// Registers that the vDSO keeps for restricted mode, because the code cannot change them.
    fn kept(&self) -> [KeptWord; 2];
    /// With the registers that a kernel may not report, from the words of [`Self::kept`]. `word` reads one.
    fn with_kept(self, word: impl Fn(usize) -> u64) -> Self;
}

/// Floating-point and vector registers.
pub trait VectorRegisters: Copy + Eq + fmt::Debug {
    /// The state at a thread's start.
    const INITIAL: Self;
    /// Whether a thread that has the registers `found` can have these.
    fn can_replace(&self, found: &Self) -> bool;
    /// `ZX_THREAD_STATE_FP_REGS`.
    fn floating(&self) -> zx_thread_state_fp_regs_t;
    /// Sets them from a program's `ZX_THREAD_STATE_FP_REGS`.
    fn set_floating(&mut self, new: &zx_thread_state_fp_regs_t);
    /// `ZX_THREAD_STATE_VECTOR_REGS`.
    fn vector(&self) -> zx_thread_state_vector_regs_t;
    /// Sets them from a program's `ZX_THREAD_STATE_VECTOR_REGS`. Registers that the processor does not have are
    /// ignored.
    fn set_vector(&mut self, new: &zx_thread_state_vector_regs_t);
}

/// Debug registers.
pub trait Breakpoints: Copy + Eq + Default + fmt::Debug {
    /// From a program's `ZX_THREAD_STATE_DEBUG_REGS`.
    fn of_state(state: &zx_thread_state_debug_regs_t) -> Self;
    /// `ZX_THREAD_STATE_DEBUG_REGS`.
    fn state(&self) -> zx_thread_state_debug_regs_t;
    /// With the bits that are always set.
    fn shown(self) -> Self;
    /// With the bits that are always set, and without those that a program cannot set. The status is that of `before`.
    fn settled(&self, before: &Self) -> Self;
    /// Whether a program may have these breakpoints.
    fn valid(&self) -> bool;
    /// Whether a breakpoint is enabled.
    fn enabled(&self) -> bool;
    /// With the status of `other`: which breakpoints the last debug exception was for.
    fn with_status_of(self, other: &Self) -> Self;
}

/// What an instruction does with a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortOperation {
    /// Port to register.
    In,
    /// Register to port.
    Out,
    /// Port to memory.
    InMemory,
    /// Memory to port.
    OutMemory,
}

/// An instruction that uses an I/O port.
pub trait PortAccess<R>: Sized {
    /// Maximum length of an instruction in bytes.
    const LONGEST: usize;
    /// Decodes the instruction at the start of `code`, if it uses a port.
    fn decode(code: &[u8]) -> Option<Self>;
    /// What it does.
    fn operation(&self) -> PortOperation;
    /// The width of one element.
    fn width(&self) -> PortWidth;
    /// The port.
    fn port(&self, registers: &R) -> u16;
    /// The value that it writes to the port.
    fn value(&self, registers: &R) -> u32;
    /// Sets the value that it read from the port.
    fn set_value(&self, registers: &mut R, value: u32);
    /// Number of elements in memory still to move.
    fn count(&self, registers: &R) -> u64;
    /// Address of the next element in memory; none if it cannot be known.
    fn address(&self, registers: &R) -> Option<u64>;
    /// Updates the registers after one element in memory was moved.
    fn advance(&self, registers: &mut R);
    /// Updates the registers after the operation: goes to the next instruction, or repeats this one.
    fn finish(&self, registers: &mut R);
}
