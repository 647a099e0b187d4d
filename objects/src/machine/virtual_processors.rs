//! Optional: what virtual processors and restricted mode need.

use super::{Aspace, DebugRegisters, Frame, MachineEndpoint, MachineThread, Priority, Registers};
use crate::containers::growth::OutOfMemory;

/// The kernel's thread that runs a virtual processor's code in one address space.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MachineRunner(pub u32);

/// Interrupts a thread's receive on an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MachineDoorbell(pub u32);

/// The state in which [`super::VirtualProcessors::runner_hold`] found a runner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Runs {
    /// It ran, and is now stopped.
    Did,
    /// It waits to send a message to its endpoint.
    Tells,
    /// Neither: it was stopped already, or waits for a reply.
    Not,
}

/// Runners, which execute code for a thread; doorbells, which interrupt its receive; and upcalls.
pub trait VirtualProcessors {
    /// Creates a runner in an address space with a priority; it does not run yet. Its system calls and faults become
    /// messages to an endpoint that this system created, and the runner is stopped until the reply.
    fn runner_create(
        &mut self,
        aspace: Aspace,
        endpoint: MachineEndpoint,
        priority: Priority,
    ) -> Result<MachineRunner, OutOfMemory>;
    /// Whether a reply to a runner can set all its registers, and [`Self::runner_hold`] reports its state.
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
    /// ends. `owner` shares them with no other runner.
    fn runner_shares(&mut self, runner: MachineRunner, owner: MachineThread);
    /// Its debug registers; none if the machine does not keep them per thread.
    fn runner_debug(&mut self, runner: MachineRunner) -> Option<DebugRegisters>;
    /// Sets them as [`super::Threads::thread_set_debug`] does. The runner must not be running.
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
    /// Resumes a thread stopped by [`Self::thread_interrupt`] with these registers.
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
}
