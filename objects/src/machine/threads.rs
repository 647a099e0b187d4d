//! Threads of programs.

use super::{Aspace, DebugRegisters, FpuRegisters, Registers};
use crate::containers::growth::OutOfMemory;

/// A thread of execution.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MachineThread(pub u32);

/// The number by which the machine reports a thread's events; below 2^26, chosen by the objects.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ThreadKey(pub u32);

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

/// Threads, their registers and their calls.
///
/// A thread enters the server by a call or a fault, and is blocked until the server answers, wakes or resumes it.
pub trait Threads {
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
    /// Sets the registers of a stopped thread. If they move the thread elsewhere, a [`Self::thread_wake`] that it
    /// has not seen yet is dropped.
    fn thread_set_registers(&mut self, thread: MachineThread, registers: &Registers);
    /// The floating-point and vector registers of a stopped thread; none if the machine cannot read them.
    fn thread_fpu(&mut self, thread: MachineThread) -> Option<FpuRegisters>;
    /// Sets the floating-point and vector registers, if the machine can. They can replace those that it has.
    fn thread_set_fpu(&mut self, thread: MachineThread, registers: &FpuRegisters);
    /// The debug registers of a stopped thread; none if the machine does not keep them per thread.
    fn thread_debug(&mut self, thread: MachineThread) -> Option<DebugRegisters>;
    /// Sets the debug registers, which must be [valid](crate::arch::Breakpoints::valid), if the machine can.
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
    /// Sets the thread pointer of the calling thread or of a stopped one.
    fn thread_set_pointer(&mut self, thread: MachineThread, base: u64);
    /// Wakes a thread whose call was answered with "blocked": the call returns `result`.
    fn thread_wake(&mut self, thread: MachineThread, result: i64);
    /// Arguments 5 to 8 of a thread's current call. The program can change them at any time: read them once.
    fn thread_extra_args(&self, thread: MachineThread) -> [u64; 4];
}
