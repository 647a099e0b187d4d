//! Runners and doorbells of the fake machine.

use super::{FakeMachine, RUNNER_RAN, ask};
use crate::arch::Breakpoints as _;
use crate::containers::failure_injection::MemoryRequest;
use crate::containers::growth::OutOfMemory;
use crate::machine::{
    Aspace, DebugRegisters, Frame, MachineDoorbell, MachineEndpoint, MachineRunner, MachineThread, Priority, Registers,
    RunnerState, Threads, VirtualProcessors,
};

impl VirtualProcessors for FakeMachine {
    fn has_virtual_processors(&self) -> bool {
        !self.is_bare
    }

    fn runner_create(&mut self, _: Aspace, _: MachineEndpoint, _: Priority) -> Result<MachineRunner, OutOfMemory> {
        ask(MemoryRequest::Unit)?;
        self.next_runner += 1;
        self.runners.insert(self.next_runner, false);
        Ok(MachineRunner(self.next_runner))
    }

    fn runs_foreign(&self) -> bool {
        !self.is_bare
    }

    fn runner_enter(&mut self, runner: MachineRunner, _: &Registers) {
        *self.runners.get_mut(&runner.0).expect("runner in use") = true;
    }

    fn runner_stop(&mut self, runner: MachineRunner) {
        *self.runners.get_mut(&runner.0).expect("runner in use") = false;
    }

    fn runner_runtime(&mut self, runner: MachineRunner) -> Option<i64> {
        assert!(self.runners.contains_key(&runner.0), "runner in use");
        Some(RUNNER_RAN)
    }

    fn runner_registers(&mut self, runner: MachineRunner) -> Registers {
        assert!(self.runners.contains_key(&runner.0), "runner in use");
        Registers::default()
    }

    fn runner_shares(&mut self, runner: MachineRunner, owner: MachineThread) {
        assert!(self.runners.contains_key(&runner.0) && self.threads.contains_key(&owner.0), "both in use");
        let before = self.shares.insert(owner.0, runner.0).filter(|before| *before != runner.0);
        if let Some(runs) = before.and_then(|before| self.runners.get_mut(&before)) {
            *runs = false;
        }
    }

    fn runner_debug(&mut self, runner: MachineRunner) -> Option<DebugRegisters> {
        assert!(self.runners.contains_key(&runner.0), "runner in use");
        Some(self.runner_debug.get(&runner.0).copied().unwrap_or_default())
    }

    fn runner_set_debug(&mut self, runner: MachineRunner, registers: &DebugRegisters) {
        assert!(self.runners.contains_key(&runner.0) && registers.valid(), "breakpoints that no runner may have");
        self.runner_debug.insert(runner.0, *registers);
    }

    fn runner_set_registers(&mut self, runner: MachineRunner, _: &Registers) {
        self.runner_stop(runner);
    }

    fn runner_hold(&mut self, runner: MachineRunner) -> RunnerState {
        let runs = self.runners.get_mut(&runner.0).expect("runner in use");
        if core::mem::take(runs) { RunnerState::Running } else { RunnerState::Idle }
    }

    fn runner_release(&mut self, runner: MachineRunner) {
        *self.runners.get_mut(&runner.0).expect("runner in use") = true;
    }

    fn runner_set_priority(&mut self, runner: MachineRunner, _: Priority) {
        assert!(self.runners.contains_key(&runner.0), "runner in use");
    }

    fn runner_destroy(&mut self, runner: MachineRunner) {
        assert!(self.runners.remove(&runner.0).is_some(), "runner destroyed twice");
        self.runner_debug.remove(&runner.0);
    }

    fn doorbell_create(&mut self, thread: MachineThread) -> Result<MachineDoorbell, OutOfMemory> {
        ask(MemoryRequest::Unit)?;
        assert!(self.threads.contains_key(&thread.0), "thread in use");
        self.next_doorbell += 1;
        self.doorbells.insert(self.next_doorbell, 0);
        Ok(MachineDoorbell(self.next_doorbell))
    }

    fn doorbell_ring(&mut self, doorbell: MachineDoorbell) {
        *self.doorbells.get_mut(&doorbell.0).expect("bell in use") += 1;
    }

    fn doorbell_destroy(&mut self, doorbell: MachineDoorbell) {
        assert!(self.doorbells.remove(&doorbell.0).is_some(), "bell destroyed twice");
    }

    fn thread_calls(&self, thread: MachineThread) -> bool {
        self.caller == Some(thread)
    }

    fn thread_interrupt(&mut self, thread: MachineThread) -> Registers {
        self.thread_suspend(thread);
        self.threads[&thread.0].registers
    }

    fn thread_divert(&mut self, thread: MachineThread, registers: &Registers) {
        self.thread_set_registers(thread, registers);
        self.thread_resume(thread);
    }

    fn thread_map_page(&mut self, thread: MachineThread, frame: Frame) -> Result<u64, OutOfMemory> {
        ask(MemoryRequest::Slot)?;
        assert!(self.threads.contains_key(&thread.0), "thread in use");
        let address = (0..).find(|&address| !self.shown.contains_key(&(thread.0, address))).ok_or(OutOfMemory)?;
        self.shown.insert((thread.0, address), frame);
        Ok(address)
    }

    fn thread_unmap_page(&mut self, thread: MachineThread, address: u64) {
        assert!(self.shown.remove(&(thread.0, address)).is_some(), "hidden twice");
    }

    fn thread_word(&self, thread: MachineThread, offset: usize) -> u64 {
        self.words.get(&(thread.0, offset)).copied().unwrap_or(0)
    }

    fn thread_set_word(&mut self, thread: MachineThread, offset: usize, value: u64) {
        self.words.insert((thread.0, offset), value);
    }
}
