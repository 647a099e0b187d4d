//! The fake machine: plain memory, for tests on the host. It counts its resources and records what it did.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::Cell;

use crate::containers::failure_injection::{MemoryRequest, should_fail};
use crate::containers::growth::OutOfMemory;
use crate::machine::{
    Aspace, Cache, Conversion, DebugRegisters, DeviceError, DeviceFrame, EndpointError, EndpointUse, FpuRegisters,
    Frame, Held, Irq, IrqKey, IrqSource, LARGE_PAGE, LARGE_PAGES, Machine, MachineDoorbell, MachineEndpoint,
    MachineRunner, MachineThread, MsiBlock, PAGE, PAGE_SIZE, Perm, PortWidth, Power, Priority, Registers, Runs,
    ThreadKey,
};

mod check;
mod devices;
mod endpoints;

pub use devices::{FakeDevices, FakeIrq};
pub use endpoints::FakeEndpoints;

/// The physical address of frame 0. It is high, so that no test confuses addresses and numbers, and highly aligned.
const MEMORY: u64 = 1 << 40;

/// State and history of a thread of the fake machine.
#[derive(Default, Debug)]
pub struct FakeThread {
    /// Its address space.
    aspace: u32,
    /// The number in its events.
    pub key: u32,
    /// It was started.
    pub started: bool,
    /// It is stopped, or was given registers and never resumed since.
    pub stopped: bool,
    /// Results of its blocked calls that ended, in order.
    pub woken: Vec<i64>,
    /// Its priority.
    pub priority: Priority,
    /// It is preferred to others of its priority.
    pub preferred: bool,
    /// Its registers.
    pub registers: Registers,
    /// Its run time in nanoseconds.
    pub runtime: i64,
    /// Its x87 and vector registers, once they were set.
    pub fpu: Option<FpuRegisters>,
    /// Its debug registers.
    pub debug: DebugRegisters,
    /// Arguments 5 to 8 of its next call.
    pub extra: [u64; 4],
    /// How often it was made to repeat its call.
    pub again: u32,
}

/// Applies the failure injection plan to a request.
fn ask(want: MemoryRequest) -> Result<(), OutOfMemory> {
    if should_fail(want) { Err(OutOfMemory) } else { Ok(()) }
}

/// Run time of each runner, in nanoseconds.
pub const RUNNER_RAN: i64 = 1_000;

/// See the module's description.
#[derive(Default)]
pub struct FakeMachine {
    frames: Vec<Option<Box<[u8; PAGE_SIZE]>>>,
    free: Vec<u32>,
    /// Maximum number of frames allocated at the same time.
    pub limit: usize,
    /// There is no heap memory.
    pub full: bool,
    /// Even so, there is enough for calls that keep nothing.
    pub rest: bool,
    /// Mapped pages, by address space and address.
    pub mapped: BTreeMap<u32, BTreeMap<u64, (Frame, Perm)>>,
    /// Those with other caching than ordinary memory, by address space and address.
    pub caches: BTreeMap<(u32, u64), Cache>,
    /// Endpoints of the kernel below.
    pub endpoints: FakeEndpoints,
    /// Runners, and whether they run.
    pub runners: BTreeMap<u32, bool>,
    /// With which runner a thread shares its vector registers.
    pub shares: BTreeMap<u32, u32>,
    /// The debug registers of runners that were given any.
    pub runner_debug: BTreeMap<u32, DebugRegisters>,
    next_runner: u32,
    /// Doorbells, and how often each was rung.
    pub doorbells: BTreeMap<u32, u32>,
    next_doorbell: u32,
    /// The opposite of [`Machine::keeps_stack_pointer`].
    pub loses_stack_pointer: bool,
    /// Pages mapped for a thread's vDSO, by thread and address.
    pub shown: BTreeMap<(u32, u64), Frame>,
    words: BTreeMap<(u32, usize), u64>,
    /// The thread whose call is being handled.
    pub caller: Option<MachineThread>,
    /// Device memory, interrupts, I/O ports.
    pub devices: FakeDevices,
    /// The first frames of large pages.
    pub large: BTreeSet<u32>,
    /// How often a large page was split.
    pub splits: usize,
    /// Mappings of large pages, by address space and address.
    large_mapped: BTreeSet<(u32, u64)>,
    aspaces: u32,
    /// Threads, by number.
    pub threads: BTreeMap<u32, FakeThread>,
    next_thread: u32,
    /// The time.
    pub time: i64,
    /// How much the time advances with each reading.
    pub pace: i64,
    /// Ticks during which the kernel worked.
    pub own_ticks: u64,
    looked: Cell<i64>,
    /// Requested deadlines.
    pub deadlines: BTreeSet<i64>,
    seed: u64,
    /// Console output.
    pub console: String,
    /// Host link output.
    pub sent: Vec<u8>,
    /// Host link input that was not read yet.
    pub received: VecDeque<u8>,
    /// Number of bytes that the host link accepts before it is full.
    pub serial_room: usize,
    /// How the machine was stopped.
    pub power: Option<Power>,
}

impl FakeMachine {
    /// A machine with `limit` frames.
    pub fn new(limit: usize) -> Self {
        FakeMachine { limit, serial_room: usize::MAX, seed: 1, ..FakeMachine::default() }
    }

    /// Number of allocated frames.
    pub fn frames_in_use(&self) -> usize {
        self.frames.len() - self.free.len()
    }
}

impl FakeMachine {
    /// Splits a large page and removes its mappings.
    fn split(&mut self, first: u32) {
        self.large.remove(&first);
        self.splits += 1;
        let shows = |(space, at): &(u32, u64)| self.mapped[space].get(at).is_some_and(|(frame, _)| frame.0 == first);
        let gone: Vec<_> = self.large_mapped.iter().copied().filter(shows).collect();
        gone.into_iter().for_each(|(space, at)| self.unmap(Aspace(space), at, LARGE_PAGES));
    }
}

impl Machine for FakeMachine {
    fn frame_alloc(&mut self) -> Result<Frame, OutOfMemory> {
        ask(MemoryRequest::Frame)?;
        if self.frames_in_use() >= self.limit {
            return Err(OutOfMemory);
        }
        let zero = Some(Box::new([0; PAGE_SIZE]));
        // Freed frames of a large page are reused singly only when no other frame is left: the page is split then.
        let small = self.free.iter().rposition(|&n| !self.frame_is_large(Frame(n)));
        let none = small.is_none() && self.frames.len() < self.limit;
        match small.or_else(|| self.free.len().checked_sub(1).filter(|_| !none)).map(|at| self.free.remove(at)) {
            Some(n) => {
                if self.frame_is_large(Frame(n)) {
                    self.split(n - n % LARGE_PAGES as u32);
                }
                self.frames[n as usize] = zero;
                Ok(Frame(n))
            }
            None => {
                self.frames.push(zero);
                Ok(Frame(self.frames.len() as u32 - 1))
            }
        }
    }

    fn frames_contiguous(&mut self, count: u32, align_log2: u8) -> Result<Frame, OutOfMemory> {
        ask(MemoryRequest::Frame)?;
        if self.limit - self.frames_in_use() < count as usize {
            return Err(OutOfMemory);
        }
        let step = 1usize << align_log2.saturating_sub(12).min(28);
        let fits = |first: &usize| self.frames.iter().skip(*first).take(count as usize).all(Option::is_none);
        let first = (0..=self.frames.len() + step).step_by(step).find(fits).expect("there is room at the end");
        while self.frames.len() < first + count as usize {
            self.free.push(self.frames.len() as u32);
            self.frames.push(None);
        }
        for n in first..first + count as usize {
            self.frames[n] = Some(Box::new([0; PAGE_SIZE]));
        }
        self.free.retain(|n| self.frames[*n as usize].is_none());
        let pages = LARGE_PAGES as usize;
        if step >= pages && (count as usize).is_multiple_of(pages) {
            self.large.extend((first..first + count as usize).step_by(pages).map(|n| n as u32));
        }
        Ok(Frame(first as u32))
    }

    fn frame_address(&self, frame: Frame) -> u64 {
        if frame.is_device() { self.devices.address(frame) } else { MEMORY + u64::from(frame.0) * PAGE }
    }

    fn frame_free(&mut self, frame: Frame) {
        assert!(self.frames[frame.0 as usize].take().is_some(), "frame {frame:?} freed twice");
        let mapped = self.mapped.values().any(|space| space.values().any(|(f, _)| *f == frame));
        assert!(!mapped, "frame {frame:?} freed while it is mapped");
        self.free.push(frame.0);
        let first = frame.0 - frame.0 % LARGE_PAGES as u32;
        if (first..first + LARGE_PAGES as u32).all(|n| self.frames.get(n as usize).is_none_or(Option::is_none)) {
            self.large.remove(&first);
        }
    }

    fn frame_read(&self, frame: Frame, offset: usize, out: &mut [u8]) {
        let page = self.frames[frame.0 as usize].as_ref().expect("frame in use");
        out.copy_from_slice(&page[offset..offset + out.len()]);
    }

    fn frame_write(&mut self, frame: Frame, offset: usize, data: &[u8]) {
        let page = self.frames[frame.0 as usize].as_mut().expect("frame in use");
        page[offset..offset + data.len()].copy_from_slice(data);
    }

    fn frame_zero(&mut self, frame: Frame, offset: usize, len: usize) {
        let page = self.frames[frame.0 as usize].as_mut().expect("frame in use");
        page[offset..offset + len].fill(0);
    }

    fn frame_move(&mut self, from: Frame, from_offset: usize, to: Frame, to_offset: usize, len: usize) {
        let part =
            self.frames[from.0 as usize].as_ref().expect("frame in use")[from_offset..from_offset + len].to_vec();
        self.frame_write(to, to_offset, &part);
    }

    fn frame_copy(&mut self, from: Frame, to: Frame) {
        let page = *self.frames[from.0 as usize].as_ref().expect("frame in use").as_ref();
        self.frame_write(to, 0, &page);
    }

    fn memory(&self) -> (u64, u64) {
        (self.frames_in_use() as u64 * PAGE, self.limit as u64 * PAGE)
    }

    fn held(&self) -> Held {
        Held { frames: self.frames_in_use() as u64, units: 0, slots: 0 }
    }

    /// Never, so that each call's request counts.
    fn fast_path_allowed(&self) -> bool {
        false
    }

    fn force_slow_path(&mut self, _on: bool) {}

    fn heap_reserve(&mut self) -> Result<(), OutOfMemory> {
        ask(MemoryRequest::Reserve)?;
        if self.full { Err(OutOfMemory) } else { Ok(()) }
    }

    fn heap_last_reserve(&mut self) -> bool {
        self.rest
    }

    fn aspace_create(&mut self) -> Result<Aspace, OutOfMemory> {
        ask(MemoryRequest::Unit)?;
        self.aspaces += 1;
        self.mapped.insert(self.aspaces, BTreeMap::new());
        Ok(Aspace(self.aspaces))
    }

    fn aspace_destroy(&mut self, aspace: Aspace) {
        assert!(self.mapped.remove(&aspace.0).is_some(), "address space destroyed twice");
        assert!(self.threads.values().all(|thread| thread.aspace != aspace.0), "a thread lives in the address space");
        self.caches.retain(|&(space, _), _| space != aspace.0);
    }

    fn map(&mut self, aspace: Aspace, address: u64, frame: Frame, perm: Perm, cache: Cache) -> Result<(), OutOfMemory> {
        ask(MemoryRequest::Slot)?;
        assert_eq!(address % PAGE, 0);
        assert!(!frame.is_device() || !perm.write || self.devices.writable(frame), "device page mapped for writing");
        let known = self.mapped[&aspace.0].get(&address) == Some(&(frame, perm));
        let large = address / LARGE_PAGE * LARGE_PAGE;
        if self.frame_is_large(frame) && !(known && self.large_mapped.contains(&(aspace.0, large))) {
            self.split(frame.0 - frame.0 % LARGE_PAGES as u32);
        }
        if self.large_mapped.contains(&(aspace.0, large)) && !known {
            self.unmap(aspace, large, LARGE_PAGES);
        }
        match cache {
            Cache::Cached => self.caches.remove(&(aspace.0, address)),
            other => self.caches.insert((aspace.0, address), other),
        };
        self.mapped.get_mut(&aspace.0).expect("address space in use").insert(address, (frame, perm));
        Ok(())
    }

    fn knows_written(&self) -> bool {
        true
    }

    /// A page with a non-zero byte counts as written.
    fn written(&mut self, aspace: Aspace, address: u64, pages: u32) -> u64 {
        let mapped = |at: u64| self.mapped.get(&aspace.0).and_then(|pages| pages.get(&at)).map(|(frame, _)| *frame);
        let holds = |frame| {
            let mut page = [0; PAGE_SIZE];
            self.frame_read(frame, 0, &mut page);
            page != [0; PAGE_SIZE]
        };
        let bits = (0..u64::from(pages)).filter(|i| mapped(address + i * PAGE).is_some_and(holds));
        bits.fold(0, |written, i| written | 1 << i)
    }

    fn frame_is_large(&self, frame: Frame) -> bool {
        self.large.contains(&(frame.0 - frame.0 % LARGE_PAGES as u32))
    }

    fn map_large(
        &mut self,
        aspace: Aspace,
        address: u64,
        first: Frame,
        perm: Perm,
        cache: Cache,
    ) -> Result<(), OutOfMemory> {
        assert_eq!(address % LARGE_PAGE, 0);
        assert!(self.large.contains(&first.0), "no large page");
        self.unmap(aspace, address, LARGE_PAGES);
        let space = self.mapped.get_mut(&aspace.0).expect("address space in use");
        for i in 0..LARGE_PAGES {
            space.insert(address + i * PAGE, (Frame(first.0 + i as u32), perm));
            if cache != Cache::Cached {
                self.caches.insert((aspace.0, address + i * PAGE), cache);
            }
        }
        self.large_mapped.insert((aspace.0, address));
        Ok(())
    }

    fn unmap(&mut self, aspace: Aspace, address: u64, pages: u64) {
        // Large pages are affected as a whole.
        let end = address.saturating_add(pages.saturating_mul(PAGE));
        let larges = (aspace.0, address.saturating_sub(LARGE_PAGE - PAGE))..(aspace.0, end);
        while let Some(&(space, large)) = self.large_mapped.range(larges.clone()).next() {
            self.large_mapped.remove(&(space, large));
            self.unmap(aspace, large, LARGE_PAGES);
        }
        let space = self.mapped.get_mut(&aspace.0).expect("address space in use");
        let kept = |at: u64| at < address || (at - address) / PAGE >= pages;
        space.retain(|&at, _| kept(at));
        self.caches.retain(|&(space, at), _| space != aspace.0 || kept(at));
    }

    fn stretch(&self, aspace: Aspace, address: u64, pages: u64, most: u32) -> u64 {
        let all = self.mapped[&aspace.0].range(address..).nth(most.max(1) as usize - 1);
        all.map_or(pages, |(at, _)| ((at - address) / PAGE + 1).min(pages))
    }

    fn protect(&mut self, aspace: Aspace, address: u64, pages: u64, within: Perm) {
        let end = address.saturating_add(pages.saturating_mul(PAGE));
        let large = |at: u64| self.large_mapped.contains(&(aspace.0, at / LARGE_PAGE * LARGE_PAGE));
        let first = if large(address) { address / LARGE_PAGE * LARGE_PAGE } else { address };
        let end = if large(end - 1) { end.next_multiple_of(LARGE_PAGE) } else { end };
        let space = self.mapped.get_mut(&aspace.0).expect("address space in use");
        for (_, (_, perm)) in space.range_mut(first..end) {
            perm.write &= within.write;
            perm.execute &= within.execute;
        }
    }

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

    fn thread_set_fs_base(&mut self, thread: MachineThread, base: u64) {
        self.threads.get_mut(&thread.0).expect("thread in use").registers.fs_base = base;
    }

    fn thread_wake(&mut self, thread: MachineThread, result: i64) {
        self.threads.get_mut(&thread.0).expect("thread in use").woken.push(result);
    }

    fn thread_extra_args(&self, thread: MachineThread) -> [u64; 4] {
        self.threads[&thread.0].extra
    }

    fn endpoint_create(&mut self) -> Result<MachineEndpoint, OutOfMemory> {
        ask(MemoryRequest::Unit)?;
        self.endpoints.create()
    }

    fn endpoint_find(&mut self, name: &[u8]) -> Result<MachineEndpoint, EndpointError> {
        self.endpoints.find(name)
    }

    fn endpoint_destroy(&mut self, endpoint: MachineEndpoint) {
        self.endpoints.destroy(endpoint);
    }

    fn endpoint_mint(
        &mut self,
        endpoint: MachineEndpoint,
        thread: MachineThread,
        slot: u8,
        badge: u32,
        for_what: EndpointUse,
    ) -> Result<(), EndpointError> {
        ask(MemoryRequest::Slot)?;
        assert!(self.threads.contains_key(&thread.0), "thread in use");
        self.endpoints.mint(endpoint, (thread.0, slot), badge, for_what)
    }

    fn endpoint_unmint(&mut self, thread: MachineThread, slot: u8) {
        self.endpoints.minted.remove(&(thread.0, slot));
    }

    fn runner_create(&mut self, _: Aspace, _: MachineEndpoint, _: Priority) -> Result<MachineRunner, OutOfMemory> {
        ask(MemoryRequest::Unit)?;
        self.next_runner += 1;
        self.runners.insert(self.next_runner, false);
        Ok(MachineRunner(self.next_runner))
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

    fn runner_debug(&mut self, runner: MachineRunner) -> Option<DebugRegisters> {
        assert!(self.runners.contains_key(&runner.0), "runner in use");
        Some(self.runner_debug.get(&runner.0).copied().unwrap_or_default())
    }

    fn runner_set_debug(&mut self, runner: MachineRunner, registers: &DebugRegisters) {
        assert!(self.runners.contains_key(&runner.0) && registers.valid(), "breakpoints that no runner may have");
        self.runner_debug.insert(runner.0, *registers);
    }

    fn runs_foreign(&self) -> bool {
        true
    }

    fn runner_set_registers(&mut self, runner: MachineRunner, _: &Registers) {
        self.runner_stop(runner);
    }

    fn runner_shares(&mut self, runner: MachineRunner, owner: MachineThread) {
        assert!(self.runners.contains_key(&runner.0) && self.threads.contains_key(&owner.0), "both in use");
        self.shares.insert(owner.0, runner.0);
    }

    fn runner_hold(&mut self, runner: MachineRunner) -> Runs {
        let runs = self.runners.get_mut(&runner.0).expect("runner in use");
        if core::mem::take(runs) { Runs::Did } else { Runs::Not }
    }

    fn runner_release(&mut self, runner: MachineRunner) {
        *self.runners.get_mut(&runner.0).expect("runner in use") = true;
    }

    fn runner_set_priority(&mut self, runner: MachineRunner, _: Priority) {
        assert!(self.runners.contains_key(&runner.0), "runner in use");
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

    fn doorbell_destroy(&mut self, doorbell: MachineDoorbell) {
        assert!(self.doorbells.remove(&doorbell.0).is_some(), "bell destroyed twice");
    }

    fn component_take(&mut self, component: u8) -> Result<(Aspace, [u8; 32]), OutOfMemory> {
        if !self.endpoints.waiting.remove(&component) {
            return Err(OutOfMemory);
        }
        let mut name = [0; 32];
        name[..9].copy_from_slice(b"component");
        Ok((self.aspace_create()?, name))
    }

    fn component_refuse(&mut self, component: u8) {
        self.endpoints.waiting.remove(&component);
    }

    fn device_frame(&mut self, address: u64) -> Result<DeviceFrame, DeviceError> {
        self.devices.frame(address)
    }

    fn device_range(&self, address: u64, pages: u64) -> Result<bool, DeviceError> {
        self.devices.range(address, pages)
    }

    fn device_read(&mut self, frame: Frame, offset: usize) -> Option<u32> {
        self.devices.read(frame, offset)
    }

    fn device_write(&mut self, frame: Frame, offset: usize, value: u32) -> bool {
        self.devices.write(frame, offset, value)
    }

    fn irq_open(&mut self, source: IrqSource, key: IrqKey) -> Result<Irq, DeviceError> {
        self.devices.irq_open(source, key)
    }

    fn irq_ack(&mut self, irq: Irq) {
        self.devices.irq_ack(irq);
    }

    fn irq_close(&mut self, irq: Irq) {
        self.devices.irq_close(irq);
    }

    fn msi_alloc(&mut self, count: u32) -> Result<MsiBlock, DeviceError> {
        self.devices.msi_alloc(count)
    }

    fn msi_free(&mut self, block: MsiBlock) {
        self.devices.msi_free(block);
    }

    fn irq_counts(&self) -> (u32, u32) {
        (devices::PINS, devices::VECTORS)
    }

    fn ports_usable(&self, first: u16, count: u32) -> bool {
        self.devices.ports_usable(first, count)
    }

    fn port_read(&mut self, port: u16, width: PortWidth) -> u32 {
        self.devices.port_read(port, width)
    }

    fn port_write(&mut self, port: u16, width: PortWidth, value: u32) {
        self.devices.port_write(port, width, value);
    }

    fn now(&self) -> i64 {
        self.looked.update(|looked| looked + self.pace);
        self.time + self.looked.get()
    }

    fn ticks(&self) -> i64 {
        self.time
    }

    fn conversion(&self) -> Conversion {
        Conversion { per_second: 1_000_000_000, offset: 0, numerator: 1, denominator: 1 }
    }

    fn utc_offset(&self) -> i64 {
        0
    }

    fn set_deadline(&mut self, deadline: i64) {
        self.deadlines.insert(deadline);
    }

    fn random(&mut self, out: &mut [u8]) {
        for byte in out {
            self.seed = self.seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            *byte = (self.seed >> 56) as u8;
        }
    }

    fn add_entropy(&mut self, _: &[u8]) {}

    fn console_write(&mut self, text: &[u8]) {
        self.console.push_str(&String::from_utf8_lossy(text));
    }

    fn serial_write(&mut self, data: &[u8]) -> usize {
        let taken = data.len().min(self.serial_room);
        self.serial_room -= taken;
        self.sent.extend_from_slice(&data[..taken]);
        taken
    }

    fn serial_read(&mut self, out: &mut [u8]) -> usize {
        let taken = out.len().min(self.received.len());
        for (to, from) in out.iter_mut().zip(self.received.drain(..taken)) {
            *to = from;
        }
        taken
    }

    fn power(&mut self, how: Power) {
        self.power = Some(how);
    }
}
