//! Runners: seL4 threads that run the code of virtual processors.
//!
//! A runner has no IPC buffer, and its capability space holds one capability: the fault endpoint, which belongs to its
//! virtual processor. The runner does not know where that capability is: the slot and the CNode's guard are chosen at
//! random, 22 bits together. So a runner can do nothing but run; its faults, exceptions and system calls are messages
//! to the endpoint (`docs/virtual-processors.md`).

use alloc::vec::Vec;

use objects::arch::{DebugRegisters, Registers, UserRegisters};
use objects::containers::growth::{Grows, OutOfMemory};
use objects::machine::{
    Aspace, EndpointUse, Frame, MachineDoorbell, MachineEndpoint, MachineRunner, MachineThread, Priority, Random as _,
    RunnerState,
};

use super::Sel4;
use super::arch::{hidden_base, with_hidden_base};
use super::memory::Unit;
use super::memory::thread_objects::ThreadObjects;
use super::sys::{self, Object, THREAD_BITS};

/// Random bits in a guard: as many as every supported kernel accepts.
const GUARD_BITS: u32 = 18;

/// One runner.
struct Runner {
    made_of: ThreadObjects,
    /// The base that it was given, for kernels that do not report it.
    base: u64,
}

/// A notification that is bound to a thread.
struct Doorbell {
    unit: Unit,
    /// The capability to signal it, with [`DOORBELL_BADGE`] as badge.
    slot: u64,
}

/// The badge that is received when a doorbell was rung. Messages of runners have badge 0.
const DOORBELL_BADGE: u64 = 1;

/// A list of entries with numbers.
struct NumberedList<T> {
    list: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for NumberedList<T> {
    fn default() -> Self {
        NumberedList { list: Vec::new(), free: Vec::new() }
    }
}

impl<T> NumberedList<T> {
    fn room(&mut self) -> Result<(), OutOfMemory> {
        if self.free.is_empty() {
            self.list.room(1)?;
            self.free.room(self.list.len() + 1)?;
        }
        Ok(())
    }

    /// Adds an entry, for which there is room.
    fn add(&mut self, one: T) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.list[number as usize] = Some(one);
                number
            }
            None => {
                self.list.push(Some(one));
                self.list.len() as u32 - 1
            }
        }
    }

    fn get(&self, number: u32) -> Option<&T> {
        self.list.get(number as usize)?.as_ref()
    }

    fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.list.get_mut(number as usize)?.as_mut()
    }

    fn take(&mut self, number: u32) -> Option<T> {
        let one = self.list.get_mut(number as usize)?.take()?;
        self.free.push(number);
        Some(one)
    }
}

/// All runners and doorbells.
#[derive(Default)]
pub struct Runners {
    runners: NumberedList<Runner>,
    doorbells: NumberedList<Doorbell>,
}

impl Runners {
    fn tcb(&self, runner: MachineRunner) -> Option<u64> {
        self.runners.get(runner.0).map(|runner| runner.made_of.tcb)
    }
}

impl Sel4 {
    pub(super) fn make_runner(
        &mut self,
        aspace: Aspace,
        endpoint: MachineEndpoint,
        priority: Priority,
    ) -> Result<MachineRunner, OutOfMemory> {
        self.runners.runners.room()?;
        let made_of = self.memory.thread_objects()?;
        let filled = self.fill_runner(made_of, aspace, endpoint, priority);
        filled.inspect_err(|_| self.memory.thread_objects_free(made_of))?;
        Ok(MachineRunner(self.runners.runners.add(Runner { made_of, base: 0 })))
    }

    fn fill_runner(
        &mut self,
        objects: ThreadObjects,
        aspace: Aspace,
        endpoint: MachineEndpoint,
        priority: Priority,
    ) -> Result<(), OutOfMemory> {
        let MachineEndpoint::Own(number) = endpoint else { return Err(OutOfMemory) };
        let endpoint = self.endpoints.slot(number).ok_or(OutOfMemory)?;
        let mut lot = [0; 4];
        self.random(&mut lot);
        let lot = u64::from(u32::from_le_bytes(lot));
        let (slot, guard) = (lot % (1 << THREAD_BITS), lot >> THREAD_BITS & ((1 << GUARD_BITS) - 1));
        let program = self.program(aspace).ok_or(OutOfMemory)?;
        // A runner may outlive its address space, and must not end up in the next process's address space.
        program.unfit = true;
        let vspace = program.space.vspace;
        let for_what = EndpointUse { call: true, send: true, receive: false };
        sys::mint_own(objects.cnode, slot, endpoint, 0, for_what)
            .and_then(|()| sys::runner_configure(objects.tcb, objects.cnode, (guard, slot), vspace, priority))
            .map_err(|_| OutOfMemory)
    }

    /// Sets a runner's registers, and lets it run if asked to; with `shares` it uses that thread's vector registers.
    pub(super) fn write_runner(
        &mut self,
        runner: MachineRunner,
        registers: &Registers,
        resume: bool,
        shares: Option<MachineThread>,
    ) {
        let owner = shares.and_then(|owner| self.threads.tcb_of_native(owner));
        if let Some(runner) = self.runners.runners.get_mut(runner.0) {
            let registers = UserRegisters::new(*registers);
            runner.base = hidden_base(&registers);
            sys::write_foreign(runner.made_of.tcb, &registers, resume, owner);
        }
    }

    pub(super) fn share_with_runner(&self, runner: MachineRunner, owner: MachineThread) {
        if let (Some(tcb), Some(owner)) = (self.runners.tcb(runner), self.threads.tcb_of_native(owner)) {
            sys::share_fpu(tcb, owner);
        }
    }

    pub(super) fn hold_runner(&self, runner: MachineRunner) -> RunnerState {
        self.runners.tcb(runner).map_or(RunnerState::Idle, sys::hold)
    }

    pub(super) fn release_runner(&self, runner: MachineRunner) {
        self.runners.tcb(runner).into_iter().for_each(sys::resume);
    }

    pub(super) fn prioritise_runner(&self, runner: MachineRunner, priority: Priority) {
        self.runners.tcb(runner).into_iter().for_each(|tcb| sys::set_priority(tcb, priority, false));
    }

    pub(super) fn stop_runner(&mut self, runner: MachineRunner) {
        self.runners.tcb(runner).into_iter().for_each(sys::suspend);
    }

    pub(super) fn runtime_of_runner(&self, runner: MachineRunner) -> Option<i64> {
        sys::runtime(self.runners.tcb(runner)?)
    }

    pub(super) fn registers_of_runner(&self, runner: MachineRunner) -> Registers {
        let Some(runner) = self.runners.runners.get(runner.0) else { return Registers::default() };
        let registers = sys::read_registers(runner.made_of.tcb).unwrap_or_default();
        with_hidden_base(registers, runner.base)
    }

    pub(super) fn debug_of_runner(&self, runner: MachineRunner) -> Option<DebugRegisters> {
        sys::read_debug(self.runners.tcb(runner)?)
    }

    pub(super) fn set_debug_of_runner(&self, runner: MachineRunner, registers: &DebugRegisters) {
        self.runners.tcb(runner).into_iter().for_each(|tcb| sys::write_debug(tcb, registers));
    }

    pub(super) fn end_runner(&mut self, runner: MachineRunner) {
        if let Some(gone) = self.runners.runners.take(runner.0) {
            self.memory.thread_objects_free(gone.made_of);
        }
    }

    pub(super) fn make_doorbell(&mut self, thread: MachineThread) -> Result<MachineDoorbell, OutOfMemory> {
        self.runners.doorbells.room()?;
        let tcb = self.threads.tcb_of_native(thread).ok_or(OutOfMemory)?;
        let slot = self.memory.slot_alloc()?;
        let made = self.memory.unit_object(Object::Notification).and_then(|(unit, doorbell)| {
            sys::bind_doorbell(tcb, doorbell, slot, DOORBELL_BADGE).map_err(|_| {
                self.memory.unit_free(unit);
                OutOfMemory
            })?;
            Ok(Doorbell { unit, slot })
        });
        let doorbell = made.inspect_err(|_| self.memory.slot_free(slot))?;
        Ok(MachineDoorbell(self.runners.doorbells.add(doorbell)))
    }

    pub(super) fn ring_doorbell(&self, doorbell: MachineDoorbell) {
        self.runners.doorbells.get(doorbell.0).into_iter().for_each(|doorbell| sys::signal(doorbell.slot));
    }

    pub(super) fn destroy_doorbell(&mut self, doorbell: MachineDoorbell) {
        if let Some(gone) = self.runners.doorbells.take(doorbell.0) {
            self.memory.unit_free(gone.unit);
            self.memory.slot_free(gone.slot);
        }
    }
}

impl objects::machine::VirtualProcessors for Sel4 {
    fn has_virtual_processors(&self) -> bool {
        true
    }

    fn runner_create(
        &mut self,
        aspace: Aspace,
        endpoint: MachineEndpoint,
        priority: Priority,
    ) -> Result<MachineRunner, OutOfMemory> {
        self.with_all(|machine| machine.make_runner(aspace, endpoint, priority))
    }

    fn runs_foreign(&self) -> bool {
        sel4::RUNS_FOREIGN
    }

    fn runner_enter(&mut self, runner: MachineRunner, registers: &Registers) {
        self.write_runner(runner, registers, true, None);
    }

    fn runner_enter_sharing(&mut self, runner: MachineRunner, owner: MachineThread, registers: &Registers) {
        self.write_runner(runner, registers, true, Some(owner));
    }

    fn runner_stop(&mut self, runner: MachineRunner) {
        self.stop_runner(runner);
    }

    fn runner_runtime(&mut self, runner: MachineRunner) -> Option<i64> {
        self.runtime_of_runner(runner)
    }

    fn runner_registers(&mut self, runner: MachineRunner) -> Registers {
        self.registers_of_runner(runner)
    }

    fn runner_shares(&mut self, runner: MachineRunner, owner: MachineThread) {
        self.share_with_runner(runner, owner);
    }

    fn runner_debug(&mut self, runner: MachineRunner) -> Option<DebugRegisters> {
        self.debug_of_runner(runner)
    }

    fn runner_set_debug(&mut self, runner: MachineRunner, registers: &DebugRegisters) {
        self.set_debug_of_runner(runner, registers);
    }

    fn runner_set_registers(&mut self, runner: MachineRunner, registers: &Registers) {
        self.stop_runner(runner);
        self.write_runner(runner, registers, false, None);
    }

    fn runner_hold(&mut self, runner: MachineRunner) -> RunnerState {
        self.hold_runner(runner)
    }

    fn runner_release(&mut self, runner: MachineRunner) {
        self.release_runner(runner);
    }

    fn runner_set_priority(&mut self, runner: MachineRunner, priority: Priority) {
        self.prioritise_runner(runner, priority);
    }

    fn runner_destroy(&mut self, runner: MachineRunner) {
        self.end_runner(runner);
    }

    fn doorbell_create(&mut self, thread: MachineThread) -> Result<MachineDoorbell, OutOfMemory> {
        self.with_all(|machine| machine.make_doorbell(thread))
    }

    fn doorbell_ring(&mut self, doorbell: MachineDoorbell) {
        self.ring_doorbell(doorbell);
    }

    fn doorbell_destroy(&mut self, doorbell: MachineDoorbell) {
        self.destroy_doorbell(doorbell);
    }

    fn thread_calls(&self, thread: MachineThread) -> bool {
        self.threads.calls(thread)
    }

    fn thread_interrupt(&mut self, thread: MachineThread) -> Registers {
        self.threads.interrupt(thread)
    }

    fn thread_divert(&mut self, thread: MachineThread, registers: &Registers) {
        self.threads.divert(thread, registers);
    }

    fn thread_map_page(&mut self, thread: MachineThread, frame: Frame) -> Result<u64, OutOfMemory> {
        let aspace = self.threads.aspace(thread).ok_or(OutOfMemory)?;
        self.with_all(|machine| machine.hidden_map(Aspace(aspace), frame)).map(|(address, _)| address)
    }

    fn thread_unmap_page(&mut self, thread: MachineThread, address: u64) {
        self.threads.aspace(thread).into_iter().for_each(|aspace| self.hidden_unmap(Aspace(aspace), address));
    }

    fn thread_word(&self, thread: MachineThread, offset: usize) -> u64 {
        self.threads.word(thread, offset)
    }

    fn thread_set_word(&mut self, thread: MachineThread, offset: usize, value: u64) {
        self.threads.set_word(thread, offset, value);
    }
}
