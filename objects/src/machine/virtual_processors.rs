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
pub enum RunnerState {
    /// It ran, and is now stopped.
    Running,
    /// It waits to send a message to its endpoint.
    Sending,
    /// Neither: it was stopped already, or waits for a reply.
    Idle,
}

/// Runners, which execute code for a thread; doorbells, which interrupt its receive; and upcalls.
pub trait VirtualProcessors {
    /// Whether there are runners and doorbells.
    fn has_virtual_processors(&self) -> bool {
        false
    }
    /// Creates a runner in an address space with a priority; it does not run yet. Its system calls and faults become
    /// messages to an endpoint that this system created, and the runner is stopped until the reply.
    fn runner_create(
        &mut self,
        _aspace: Aspace,
        _endpoint: MachineEndpoint,
        _priority: Priority,
    ) -> Result<MachineRunner, OutOfMemory> {
        Err(OutOfMemory)
    }
    /// Whether a reply to a runner can set all its registers, and [`Self::runner_hold`] reports its state.
    fn runs_foreign(&self) -> bool {
        false
    }
    /// Lets it run with these registers, whatever it was stopped by.
    fn runner_enter(&mut self, _runner: MachineRunner, _registers: &Registers) {}
    /// [`Self::runner_shares`] and [`Self::runner_enter`].
    fn runner_enter_sharing(&mut self, runner: MachineRunner, owner: MachineThread, registers: &Registers) {
        self.runner_shares(runner, owner);
        self.runner_enter(runner, registers);
    }
    /// Stops it wherever it is; a message that it is sending is withdrawn.
    fn runner_stop(&mut self, _runner: MachineRunner) {}
    /// Its run time in nanoseconds, as precisely as the machine knows; none if it does not.
    fn runner_runtime(&mut self, _runner: MachineRunner) -> Option<i64> {
        None
    }
    /// Its registers; the instruction pointer is at the instruction that stopped it.
    fn runner_registers(&mut self, _runner: MachineRunner) -> Registers {
        Registers::default()
    }
    /// Makes it use the floating-point and vector registers of `owner`, a thread with an occupied endpoint slot, until
    /// either ends, or `owner` shares them with another runner. Stops the runner that did so until now.
    fn runner_shares(&mut self, _runner: MachineRunner, _owner: MachineThread) {}
    /// Its debug registers; none if the machine does not keep them per thread.
    fn runner_debug(&mut self, _runner: MachineRunner) -> Option<DebugRegisters> {
        None
    }
    /// Sets them as [`super::Threads::thread_set_debug`] does. The runner must not be running.
    fn runner_set_debug(&mut self, _runner: MachineRunner, _registers: &DebugRegisters) {}
    /// Sets the registers with which it continues when it is released, whatever it was stopped by.
    fn runner_set_registers(&mut self, _runner: MachineRunner, _registers: &Registers) {}
    /// Stops it if it runs. A message that it is sending stays pending.
    fn runner_hold(&mut self, _runner: MachineRunner) -> RunnerState {
        RunnerState::Idle
    }
    /// Resumes it where it was stopped.
    fn runner_release(&mut self, _runner: MachineRunner) {}
    /// Sets its priority.
    fn runner_set_priority(&mut self, _runner: MachineRunner, _priority: Priority) {}
    /// Destroys it. Its address space may have been destroyed before; it has then executed no further instruction.
    fn runner_destroy(&mut self, _runner: MachineRunner) {}

    /// Creates a doorbell for a thread that has an occupied endpoint slot and no doorbell yet.
    fn doorbell_create(&mut self, _thread: MachineThread) -> Result<MachineDoorbell, OutOfMemory> {
        Err(OutOfMemory)
    }
    /// Interrupts the thread's current receive, or else its next one, once.
    fn doorbell_ring(&mut self, _doorbell: MachineDoorbell) {}
    /// Destroys a doorbell. Its thread may have ended before.
    fn doorbell_destroy(&mut self, _doorbell: MachineDoorbell) {}

    /// Whether the server is currently handling this thread's call.
    fn thread_calls(&self, _thread: MachineThread) -> bool {
        false
    }
    /// Stops a thread that is not in a call, and returns the registers with which it would continue.
    fn thread_interrupt(&mut self, _thread: MachineThread) -> Registers {
        Registers::default()
    }
    /// Resumes a thread stopped by [`Self::thread_interrupt`] with these registers.
    fn thread_divert(&mut self, _thread: MachineThread, _registers: &Registers) {}

    /// Maps a page for reading and writing by a thread's vDSO, outside of the range for programs; returns the address.
    fn thread_map_page(&mut self, _thread: MachineThread, _frame: Frame) -> Result<u64, OutOfMemory> {
        Err(OutOfMemory)
    }
    /// Unmaps such a page.
    fn thread_unmap_page(&mut self, _thread: MachineThread, _address: u64) {}
    /// Reads one of the words that a thread's vDSO keeps for itself in the page of its IPC buffer, at a byte offset.
    /// The program can change it at any time.
    fn thread_word(&self, _thread: MachineThread, _offset: usize) -> u64 {
        0
    }
    /// Sets such a word.
    fn thread_set_word(&mut self, _thread: MachineThread, _offset: usize, _value: u64) {}
}
