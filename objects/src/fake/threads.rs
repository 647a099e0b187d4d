//! Threads of the fake machine.

use super::{FakeMachine, FakeThread, ask};
use crate::arch::{Breakpoints as _, GeneralRegisters as _, VectorRegisters as _};
use crate::containers::failure_injection::MemoryRequest;
use crate::containers::growth::OutOfMemory;
use crate::machine::{Aspace, DebugRegisters, FpuRegisters, MachineThread, Priority, Registers, ThreadKey, Threads};

impl Threads for FakeMachine {
    fn thread_create(&mut self, aspace: Aspace, key: ThreadKey, _: &str) -> Result<MachineThread, OutOfMemory> {
        ask(MemoryRequest::Unit)?;
        self.next_thread += 1;
        self.threads.insert(self.next_thread, FakeThread { aspace: aspace.0, key: key.0, ..FakeThread::default() });
        Ok(MachineThread(self.next_thread))
    }

    fn thread_start(&mut self, thread: MachineThread, registers: &Registers) {
        let thread = self.threads.get_mut(&thread.0).expect("thread in use");
        thread.started = true;
        thread.registers = *registers;
    }

    fn thread_destroy(&mut self, thread: MachineThread) {
        assert!(self.threads.remove(&thread.0).is_some(), "thread destroyed twice");
        self.endpoints.minted.retain(|(number, _), _| *number != thread.0);
    }

    fn thread_suspend(&mut self, thread: MachineThread) {
        let thread = self.threads.get_mut(&thread.0).expect("thread in use");
        assert!(!thread.stopped, "thread stopped twice");
        thread.stopped = true;
    }

    fn thread_restart_call(&mut self, thread: MachineThread) {
        self.threads.get_mut(&thread.0).expect("thread in use").again += 1;
    }

    fn thread_resume(&mut self, thread: MachineThread) {
        let thread = self.threads.get_mut(&thread.0).expect("thread in use");
        assert!(thread.stopped, "thread resumed that runs");
        thread.stopped = false;
        thread.started = true;
    }

    fn thread_registers(&mut self, thread: MachineThread) -> Registers {
        self.threads[&thread.0].registers
    }

    fn thread_set_registers(&mut self, thread: MachineThread, registers: &Registers) {
        self.threads.get_mut(&thread.0).expect("thread in use").registers = *registers;
    }

    fn thread_fpu(&mut self, thread: MachineThread) -> Option<FpuRegisters> {
        Some(self.threads[&thread.0].fpu.unwrap_or(FpuRegisters::INITIAL))
    }

    fn thread_set_fpu(&mut self, thread: MachineThread, registers: &FpuRegisters) {
        self.threads.get_mut(&thread.0).expect("thread in use").fpu = Some(*registers);
    }

    fn thread_debug(&mut self, thread: MachineThread) -> Option<DebugRegisters> {
        Some(self.threads[&thread.0].debug)
    }

    fn thread_set_debug(&mut self, thread: MachineThread, registers: &DebugRegisters) {
        assert!(registers.valid(), "breakpoints that no thread may have");
        self.threads.get_mut(&thread.0).expect("thread in use").debug = *registers;
    }

    fn has_debug(&self) -> bool {
        true
    }

    fn thread_runtime(&mut self, thread: MachineThread) -> Option<i64> {
        Some(self.threads[&thread.0].runtime)
    }

    fn own_ticks(&self) -> u64 {
        self.own_ticks
    }

    fn own_tick(&self) -> Option<u64> {
        Some(2_000_000)
    }

    fn can_step(&self) -> bool {
        true
    }

    fn keeps_stack_pointer(&self) -> bool {
        !self.loses_stack_pointer
    }

    fn thread_set_priority(&mut self, thread: MachineThread, priority: Priority) {
        self.threads.get_mut(&thread.0).expect("thread in use").priority = priority;
    }

    fn thread_prefer(&mut self, thread: MachineThread, preferred: bool) {
        self.threads.get_mut(&thread.0).expect("thread in use").preferred = preferred;
    }

    fn thread_set_pointer(&mut self, thread: MachineThread, base: u64) {
        self.threads.get_mut(&thread.0).expect("thread in use").registers.set_thread_pointer(base);
    }

    fn thread_wake(&mut self, thread: MachineThread, result: i64) {
        self.threads.get_mut(&thread.0).expect("thread in use").woken.push(result);
    }

    fn thread_extra_args(&self, thread: MachineThread) -> [u64; 4] {
        self.threads[&thread.0].extra
    }
}
