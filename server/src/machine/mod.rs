//! The machine beneath the objects, on seL4.
//!
//! | part | content |
//! |---|---|
//! | [`chunks`] | memory in pieces of 2 MiB |
//! | [`memory`] | pages and kernel objects from chunks, capability slots, the window |
//! | [`idle`] | pool of ended address spaces and threads for reuse |
//! | [`heap`] | the allocator for the objects' own data |
//! | [`aspace`] | address spaces of programs |
//! | [`thread`] | threads of programs, and the protocol between them and the server |
//! | [`clock`] | time |
//! | [`devices`] | device memory and I/O ports for programs |
//! | [`endpoints`] | seL4 endpoints for programs |
//! | [`runners`] | threads that run the code of virtual processors |
//! | [`components`] | native components as clients |
//! | [`interrupts`] | interrupts for programs |
//! | [`serial`] | console, host link, date, power |
//! | [`random`] | random numbers |
//! | [`bootfile`] | the boot file, from the root task |
//! | [`log`] | lines on the console |
//! | [`record`] | the last calls, for the report when the server dies |
//! | [`run`] | the start, and the event loop |
//! | [`sys`] | the kernel's operations as used here |
//! | [`single`] | the cell for global state |
//!
//! Three things keep the fast path short. The server sees every page of every program through its window, so it finds a
//! program's memory by an addition. The capabilities that each call uses are in the first level of the capability
//! space. And a call that only touches objects does not involve the machine: the event loop calls the library at once.

pub mod aspace;
pub mod bootfile;
pub mod chunks;
pub mod clock;
mod components;
pub mod devices;
pub mod endpoints;
pub mod fpu;
pub mod heap;
mod idle;
pub mod interrupts;
pub mod log;
pub mod memory;
pub mod random;
mod record;
pub mod run;
pub mod runners;
pub mod serial;
pub mod single;
pub mod sys;
pub mod thread;

use alloc::vec::Vec;
use core::arch::asm;
use core::ptr;

use objects::containers::growth::{Grows, OutOfMemory};
use objects::machine::{
    Aspace, Cache, Conversion, DebugRegisters, DeviceError, DeviceFrame, EndpointError, EndpointUse, FpuRegisters,
    Frame, Held, Irq, IrqKey, IrqSource, KEPT, KEPT_END, Machine, MachineDoorbell, MachineEndpoint, MachineRunner,
    MachineThread, MsiBlock, PAGE, PAGE_SIZE, Perm, PortWidth, Power, Priority, Registers, Runs, ThreadKey, USER_TOP,
};
use server_boot::cspace::{IRQ_LINK, IRQ_TIMER, root_slot};
use server_boot::{BootInfo, FLAG_POWER};

use aspace::{Space, Tables};
use clock::Clock;
use components::Parts;
use devices::Devices;
use endpoints::Endpoints;
use idle::{IDLE_SPACES, IDLE_THREADS};
use interrupts::Interrupts;
use memory::Memory;
use objects::containers::failure_injection::{MemoryRequest, should_fail};
use random::Random;
use runners::Runners;
use serial::Link;
use thread::{Buffer, Threads};

/// Notification bit: the alarm fired.
pub const SIGNAL_TIMER: u64 = 1;
/// Notification bit: the host link has bytes, or room.
pub const SIGNAL_LINK: u64 = 2;
/// Notification bit: the root task has events.
pub const SIGNAL_COMPONENTS: u64 = server_boot::COMPONENT_EVENTS_BADGE & !thread::NOTIFICATION;

/// Maximum number of the server's own pages in an address space: IPC buffers, and pages that the vDSO uses. They are
/// mapped from [`KEPT`] on.
const KEPT_PAGES: u32 = ((KEPT_END - KEPT) / PAGE) as u32;

/// The parts of a range below and above the server's own pages. The second part is mostly empty.
#[inline]
fn parts(address: u64, pages: u64) -> [(u64, u64); 2] {
    let end = address.saturating_add(pages.saturating_mul(PAGE));
    if end <= KEPT { [(address, end), (0, 0)] } else { [(address, KEPT), (address.max(KEPT_END), end.min(USER_TOP))] }
}

/// One address space, with what the machine keeps in it.
struct Program {
    space: Space,
    /// Freed places for the server's own pages, and the next place that was never used.
    free_places: Vec<u32>,
    next_place: u32,
    /// Idle threads, at most [`IDLE_THREADS`].
    idle: [Option<MachineThread>; IDLE_THREADS],
    /// The capabilities of a component, if it is one.
    component: Option<Parts>,
    /// It cannot be reused for another process.
    unfit: bool,
}

impl Program {
    fn new(space: Space, component: Option<Parts>) -> Program {
        Program {
            space,
            free_places: Vec::new(),
            next_place: 0,
            idle: [None; IDLE_THREADS],
            unfit: component.is_some(),
            component,
        }
    }
}

/// The machine.
pub struct Sel4 {
    memory: Memory,
    tables: Tables,
    programs: Vec<Option<Program>>,
    free_programs: Vec<u32>,
    /// Idle address spaces: those of ended processes, with nothing in them but idle threads.
    idle_programs: [Option<u32>; IDLE_SPACES],
    threads: Threads,
    endpoints: Endpoints,
    runners: Runners,
    clock: Clock,
    random: Random,
    link: Link,
    devices: Devices,
    interrupts: Interrupts,
    flags: u64,
}

impl Sel4 {
    /// Takes over what the root task prepared. The heap must be initialised.
    pub fn new(boot: &BootInfo) -> Result<Self, OutOfMemory> {
        let mut memory = Memory::new(boot.chunks, boot.root_bits as u8)?;
        let devices = Devices::new(boot, &mut memory)?;
        let mut machine = Sel4 {
            memory,
            tables: Tables::default(),
            programs: Vec::new(),
            free_programs: Vec::new(),
            idle_programs: [None; IDLE_SPACES],
            threads: Threads::default(),
            endpoints: Endpoints::default(),
            runners: Runners::default(),
            clock: Clock::new(boot),
            random: Random::new(),
            link: Link::new(),
            devices,
            interrupts: Interrupts::new(boot)?,
            flags: boot.flags,
        };
        machine.listen(root_slot(IRQ_TIMER), SIGNAL_TIMER)?;
        if boot.link != 0 {
            machine.listen(root_slot(IRQ_LINK), SIGNAL_LINK)?;
            machine.link.open(boot.link as u16);
        }
        let slot = machine.memory.slot_alloc()?;
        sys::mint_notification(slot, server_boot::COMPONENT_EVENTS_BADGE).map_err(|_| OutOfMemory)?;
        machine.interrupts.own_notification(SIGNAL_COMPONENTS, slot);
        if let Some(seconds) = serial::date() {
            machine.clock.set_date(seconds);
        }
        Ok(machine)
    }

    fn listen(&mut self, irq: u64, signal: u64) -> Result<(), OutOfMemory> {
        let slot = self.memory.slot_alloc()?;
        let listening = sys::mint_notification(slot, thread::NOTIFICATION | signal);
        listening.and_then(|()| sys::irq_listen(irq, slot)).map_err(|_| OutOfMemory)?;
        self.interrupts.own_notification(signal, slot);
        Ok(())
    }

    /// Programs' interrupts in a badge.
    pub fn interrupts_of_badge(badge: u64) -> impl Iterator<Item = Irq> {
        Interrupts::of_badge(badge)
    }

    /// A program's interrupt arrived: returns its key, if it is still watched.
    pub fn interrupt_came(&self, irq: Irq) -> Option<IrqKey> {
        self.interrupts.came(irq)
    }

    /// Handles the alarm's interrupt.
    pub fn timer_fired(&mut self) {
        self.clock.fired();
        sys::irq_ack(root_slot(IRQ_TIMER));
    }

    /// Handles the host link's interrupt.
    pub fn link_interrupt(&mut self) {
        // The acknowledgement comes first: the line is edge-triggered, so bytes that arrive while the port is served
        // must raise a new interrupt.
        sys::irq_ack(root_slot(IRQ_LINK));
        self.link.interrupt();
    }

    /// Sets the thread whose call is being handled.
    #[inline]
    pub fn set_caller(&mut self, caller: Option<ThreadKey>) {
        self.threads.set_caller(caller);
    }

    /// The answer that the last kernel entry of the event delivers: the TCB, and the message.
    #[inline]
    pub fn take_late(&mut self) -> Option<(u64, sel4::Message)> {
        self.threads.take_late()
    }

    /// The thread that a badge identifies.
    #[inline(always)]
    pub fn thread_of(&self, badge: u64) -> ThreadKey {
        self.threads.key_of(badge)
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Copies `len` bytes from the server's memory to the start of a page.
    fn frame_fill(&mut self, frame: Frame, from: usize, len: usize) {
        let to = ptr::with_exposed_provenance_mut::<u8>(Memory::address(frame) as usize);
        // SAFETY: the boot-file buffer is mapped for reading, the page for writing, and they are disjoint.
        unsafe { ptr::copy_nonoverlapping(ptr::with_exposed_provenance::<u8>(from), to, len.min(PAGE_SIZE)) };
    }

    #[cold]
    fn heap_refill(&mut self) -> Result<(), OutOfMemory> {
        if should_fail(MemoryRequest::Reserve) {
            return Err(OutOfMemory);
        }
        if heap::starved() {
            heap::collected(self.memory.release_one());
        }
        if heap::reserve() || (self.memory.release_one() && heap::reserve()) { Ok(()) } else { Err(OutOfMemory) }
    }

    fn program(&mut self, aspace: Aspace) -> Option<&mut Program> {
        self.programs.get_mut(aspace.0 as usize)?.as_mut()
    }

    /// Maps a new IPC buffer into an address space.
    fn buffer_make(&mut self, aspace: Aspace) -> Result<Buffer, OutOfMemory> {
        let frame = self.memory.frame_alloc()?;
        let mapped = self.hidden_map(aspace, frame).inspect_err(|_| self.memory.frame_free(frame));
        mapped.map(|(address, mapping)| Buffer { frame, address, mapping })
    }

    /// Maps a page of the server's own; returns the address, and the capability that maps it.
    fn hidden_map(&mut self, aspace: Aspace, frame: Frame) -> Result<(u64, u64), OutOfMemory> {
        let place = {
            let program = self.program(aspace).ok_or(OutOfMemory)?;
            // Makes sure that a freed place finds room in the list.
            let reserve = program.next_place as usize + 1 - program.free_places.len();
            program.free_places.room(reserve)?;
            match program.free_places.pop() {
                Some(place) => place,
                None if program.next_place == KEPT_PAGES => return Err(OutOfMemory),
                None => {
                    program.next_place += 1;
                    program.next_place - 1
                }
            }
        };
        let address = KEPT + u64::from(place) * PAGE;
        let perm = Perm { read: true, write: true, execute: false };
        let (memory, tables) = (&mut self.memory, &mut self.tables);
        let program = self.programs[aspace.0 as usize].as_ref().ok_or(OutOfMemory)?;
        let mapped = program.space.map(memory, tables, address, frame, perm, Cache::Cached);
        let mapping = mapped.and_then(|()| program.space.mapping(tables, address).ok_or(OutOfMemory));
        if mapping.is_err()
            && let Some(program) = self.program(aspace)
        {
            program.free_places.push(place);
        }
        mapping.map(|mapping| (address, mapping))
    }

    fn hidden_unmap(&mut self, aspace: Aspace, address: u64) {
        if let Some(program) = &mut self.programs[aspace.0 as usize] {
            program.space.unmap(&mut self.memory, &mut self.tables, address, address + PAGE);
            program.free_places.push(((address - KEPT) / PAGE) as u32);
        }
    }

    fn buffer_end(&mut self, aspace: Aspace, buffer: Buffer) {
        self.hidden_unmap(aspace, buffer.address);
        self.memory.frame_free(buffer.frame);
    }
}

/// The part of a range that lies within a page: its address, and its length. For a device's page the length is 0,
/// because the window does not show it.
#[inline]
fn within(frame: Frame, offset: usize, len: usize) -> (usize, usize) {
    if frame.is_device() {
        return (ptr::dangling::<u8>().addr(), 0);
    }
    let offset = offset.min(PAGE_SIZE);
    (Memory::address(frame) as usize + offset, len.min(PAGE_SIZE - offset))
}

/// Whether a range lies within a page that the window shows. Callers ask for no others. If the length is a constant,
/// the compiler evaluates most of this.
#[inline(always)]
fn has(frame: Frame, offset: usize, len: usize) -> bool {
    !frame.is_device() && len <= PAGE_SIZE && offset <= PAGE_SIZE - len
}

/// Copies bytes: 4 or 8 bytes by one move, other lengths by the processor's string instructions.
///
/// # Safety
/// As for [`ptr::copy_nonoverlapping`].
#[inline(always)]
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: it copies exactly the caller's bytes: `len / 8` words and `len % 8` bytes. The direction flag is clear,
    // as the calling convention requires.
    unsafe {
        match len {
            4 => to.cast::<u32>().write_unaligned(from.cast::<u32>().read_unaligned()),
            8 => to.cast::<u64>().write_unaligned(from.cast::<u64>().read_unaligned()),
            _ => asm!(
                "rep movsq",
                "mov ecx, {rest:e}",
                "rep movsb",
                rest = in(reg) len % 8,
                inout("rcx") len / 8 => _,
                inout("rsi") from => _,
                inout("rdi") to => _,
                options(nostack, preserves_flags),
            ),
        }
    }
}

impl Machine for Sel4 {
    fn frame_alloc(&mut self) -> Result<Frame, OutOfMemory> {
        self.with_all(|machine| machine.memory.frame_alloc())
    }

    fn frames_contiguous(&mut self, count: u32, align_log2: u8) -> Result<Frame, OutOfMemory> {
        self.with_all(|machine| machine.memory.frames_contiguous(count, align_log2))
    }

    fn frame_address(&self, frame: Frame) -> u64 {
        self.memory.physical(frame)
    }

    fn frame_free(&mut self, frame: Frame) {
        self.memory.frame_free(frame);
    }

    #[inline(always)]
    fn frame_read(&self, frame: Frame, offset: usize, out: &mut [u8]) {
        if has(frame, offset, out.len()) {
            let from = ptr::with_exposed_provenance::<u8>(Memory::address(frame) as usize + offset);
            // SAFETY: the bytes lie within a page that the window shows; `out` is not in the window. No program runs
            // while the server runs.
            unsafe { copy(from, out.as_mut_ptr(), out.len()) };
        }
    }

    #[inline(always)]
    fn frame_write(&mut self, frame: Frame, offset: usize, data: &[u8]) {
        if has(frame, offset, data.len()) {
            let to = ptr::with_exposed_provenance_mut::<u8>(Memory::address(frame) as usize + offset);
            // SAFETY: as in `frame_read`.
            unsafe { copy(data.as_ptr(), to, data.len()) };
        }
    }

    fn frame_zero(&mut self, frame: Frame, offset: usize, len: usize) {
        let (to, len) = within(frame, offset, len);
        // SAFETY: as in `frame_read`.
        unsafe { ptr::write_bytes(ptr::with_exposed_provenance_mut::<u8>(to), 0, len) };
    }

    fn frame_move(&mut self, from: Frame, from_offset: usize, to: Frame, to_offset: usize, len: usize) {
        let (from, len) = within(from, from_offset, len);
        let (to, len) = within(to, to_offset, len);
        // SAFETY: as in `frame_read`, for both pages; they may be the same.
        unsafe { ptr::copy(ptr::with_exposed_provenance::<u8>(from), ptr::with_exposed_provenance_mut::<u8>(to), len) };
    }

    fn frame_copy(&mut self, from: Frame, to: Frame) {
        if from != to && !from.is_device() && !to.is_device() {
            self.frame_fill(to, Memory::address(from) as usize, PAGE_SIZE);
        }
    }

    fn memory(&self) -> (u64, u64) {
        self.memory.bytes()
    }

    fn heap(&self) -> (u64, u64) {
        heap::bytes()
    }

    fn held(&self) -> Held {
        self.held_by_others()
    }

    #[inline(always)]
    fn fast_path_allowed(&self) -> bool {
        heap::ample()
    }

    fn force_slow_path(&mut self, on: bool) {
        heap::force_slow_path(on);
    }

    #[inline(always)]
    fn heap_reserve(&mut self) -> Result<(), OutOfMemory> {
        if heap::ample() { Ok(()) } else { self.heap_refill() }
    }

    fn heap_last_reserve(&mut self) -> bool {
        !should_fail(MemoryRequest::Reserve) && heap::last_reserve()
    }

    fn aspace_create(&mut self) -> Result<Aspace, OutOfMemory> {
        match self.space_reuse() {
            Some(aspace) => Ok(aspace),
            None => self.with_all(Self::space_make),
        }
    }

    fn aspace_destroy(&mut self, aspace: Aspace) {
        self.space_end(aspace);
    }

    fn aspace_bytes(&self, aspace: Aspace) -> u64 {
        let program = self.programs.get(aspace.0 as usize).and_then(Option::as_ref);
        program.map_or(0, |program| program.space.bytes(&self.memory))
    }

    fn map(&mut self, aspace: Aspace, address: u64, frame: Frame, perm: Perm, cache: Cache) -> Result<(), OutOfMemory> {
        self.with_all(|machine| {
            let program = machine.programs.get(aspace.0 as usize).and_then(Option::as_ref).ok_or(OutOfMemory)?;
            program.space.map(&mut machine.memory, &mut machine.tables, address, frame, perm, cache)
        })
    }

    fn map_run(
        &mut self,
        aspace: Aspace,
        address: u64,
        frames: &[Frame],
        perm: Perm,
        cache: Cache,
    ) -> Result<(), OutOfMemory> {
        let program = self.programs.get(aspace.0 as usize).and_then(Option::as_ref).ok_or(OutOfMemory)?;
        program.space.map_run(&mut self.memory, &mut self.tables, address, frames, perm, cache)
    }

    fn knows_written(&self) -> bool {
        sel4::KNOWS_WRITTEN
    }

    fn written(&mut self, aspace: Aspace, address: u64, pages: u32) -> u64 {
        let program = self.programs.get(aspace.0 as usize).and_then(Option::as_ref);
        program.map_or(0, |program| program.space.written(&self.memory, &self.tables, address, pages.min(64)))
    }

    fn frame_is_large(&self, frame: Frame) -> bool {
        self.memory.is_large(frame)
    }

    fn map_large(
        &mut self,
        aspace: Aspace,
        address: u64,
        first: Frame,
        perm: Perm,
        cache: Cache,
    ) -> Result<(), OutOfMemory> {
        let program = self.programs.get(aspace.0 as usize).and_then(Option::as_ref).ok_or(OutOfMemory)?;
        program.space.map_large(&mut self.memory, &mut self.tables, address, first, perm, cache)
    }

    fn unmap(&mut self, aspace: Aspace, address: u64, pages: u64) {
        if let Some(program) = self.programs.get(aspace.0 as usize).and_then(Option::as_ref) {
            for (start, end) in parts(address, pages).into_iter().filter(|(start, end)| start < end) {
                program.space.unmap(&mut self.memory, &mut self.tables, start, end);
            }
        }
    }

    fn unmap_some(&mut self, aspace: Aspace, address: u64, pages: u64, most: u32) -> u64 {
        let Self { programs, memory, tables, .. } = self;
        let Some(program) = programs.get(aspace.0 as usize).and_then(Option::as_ref) else { return pages };
        for (start, end) in parts(address, pages).into_iter().filter(|(start, end)| start < end) {
            let stop = program.space.unmap_some(memory, tables, start, end, most);
            if stop < end {
                return (stop.saturating_sub(address) / PAGE).max(1);
            }
        }
        pages
    }

    fn stretch(&self, aspace: Aspace, address: u64, pages: u64, most: u32) -> u64 {
        let Some((start, end)) = parts(address, pages).into_iter().find(|(start, end)| start < end) else {
            return pages;
        };
        let program = self.programs.get(aspace.0 as usize).and_then(Option::as_ref);
        let stop = program.map_or(end, |program| program.space.stretch(&self.tables, start, end, most));
        (stop.saturating_sub(address) / PAGE).max(1)
    }

    fn protect(&mut self, aspace: Aspace, address: u64, pages: u64, within: Perm) {
        if let Some(program) = self.programs.get(aspace.0 as usize).and_then(Option::as_ref) {
            for (start, end) in parts(address, pages).into_iter().filter(|(start, end)| start < end) {
                program.space.protect(&mut self.memory, &mut self.tables, (start, end), within);
            }
        }
    }

    fn thread_create(&mut self, aspace: Aspace, key: ThreadKey, _name: &str) -> Result<MachineThread, OutOfMemory> {
        match self.thread_reuse(aspace, key) {
            Some(thread) => Ok(thread),
            None => self.with_all(|machine| machine.thread_make(aspace, key)),
        }
    }

    fn thread_start(&mut self, thread: MachineThread, registers: &Registers) {
        self.threads.start(thread, registers);
    }

    fn thread_destroy(&mut self, thread: MachineThread) {
        self.thread_end(thread);
    }

    fn thread_suspend(&mut self, thread: MachineThread) {
        self.threads.suspend(thread);
    }

    fn thread_restart_call(&mut self, thread: MachineThread) {
        self.threads.restart_call(thread);
    }

    fn thread_resume(&mut self, thread: MachineThread) {
        self.threads.resume(thread);
    }

    fn thread_registers(&mut self, thread: MachineThread) -> Registers {
        self.threads.registers(thread)
    }

    fn thread_set_registers(&mut self, thread: MachineThread, registers: &Registers) {
        self.threads.set_registers(thread, registers);
    }

    fn thread_fpu(&mut self, thread: MachineThread) -> Option<FpuRegisters> {
        self.threads.fpu(thread)
    }

    fn thread_set_fpu(&mut self, thread: MachineThread, registers: &FpuRegisters) {
        self.threads.set_fpu(thread, registers);
    }

    fn thread_debug(&mut self, thread: MachineThread) -> Option<DebugRegisters> {
        self.threads.debug(thread)
    }

    fn thread_set_debug(&mut self, thread: MachineThread, registers: &DebugRegisters) {
        self.threads.set_debug(thread, registers);
    }

    fn has_debug(&self) -> bool {
        sel4::HAS_DEBUG_REGISTERS
    }

    fn thread_runtime(&mut self, thread: MachineThread) -> Option<i64> {
        self.threads.runtime(thread)
    }

    #[inline(always)]
    fn own_ticks(&self) -> u64 {
        sel4::ipc::ticks()
    }

    fn own_tick(&self) -> Option<u64> {
        sel4::TELLS_TICKS.then_some(sel4::config::TIMER_TICK_MS * 1_000_000)
    }

    fn can_step(&self) -> bool {
        sel4::KEEPS_TRAP_FLAG
    }

    #[inline]
    fn keeps_stack_pointer(&self) -> bool {
        sel4::KEEPS_STACK_POINTER
    }

    fn thread_set_priority(&mut self, thread: MachineThread, priority: Priority) {
        self.threads.set_priority(thread, priority);
    }

    fn thread_prefer(&mut self, thread: MachineThread, preferred: bool) {
        self.threads.prefer(thread, preferred);
    }

    fn thread_set_fs_base(&mut self, thread: MachineThread, base: u64) {
        self.threads.set_fs_base(thread, base);
    }

    fn thread_wake(&mut self, thread: MachineThread, result: i64) {
        self.threads.wake(thread, result);
    }

    #[inline]
    fn thread_extra_args(&self, thread: MachineThread) -> [u64; 4] {
        self.threads.extra_args(thread)
    }

    fn endpoint_create(&mut self) -> Result<MachineEndpoint, OutOfMemory> {
        self.with_all(Self::own_endpoint)
    }

    fn endpoint_find(&mut self, name: &[u8]) -> Result<MachineEndpoint, EndpointError> {
        self.find_endpoint(name)
    }

    fn endpoint_destroy(&mut self, endpoint: MachineEndpoint) {
        self.end_endpoint(endpoint);
    }

    fn endpoint_mint(
        &mut self,
        endpoint: MachineEndpoint,
        thread: MachineThread,
        slot: u8,
        badge: u32,
        for_what: EndpointUse,
    ) -> Result<(), EndpointError> {
        self.mint(endpoint, thread, slot, badge, for_what)
    }

    fn endpoint_unmint(&mut self, thread: MachineThread, slot: u8) {
        self.threads.empty_slot(thread, slot);
    }

    fn runner_create(
        &mut self,
        aspace: Aspace,
        endpoint: MachineEndpoint,
        priority: Priority,
    ) -> Result<MachineRunner, OutOfMemory> {
        self.with_all(|machine| machine.make_runner(aspace, endpoint, priority))
    }

    fn runner_enter(&mut self, runner: MachineRunner, registers: &Registers) {
        self.write_runner(runner, registers, true);
    }

    fn runs_foreign(&self) -> bool {
        sel4::RUNS_FOREIGN
    }

    fn runner_debug(&mut self, runner: MachineRunner) -> Option<DebugRegisters> {
        self.debug_of_runner(runner)
    }

    fn runner_set_debug(&mut self, runner: MachineRunner, registers: &DebugRegisters) {
        self.set_debug_of_runner(runner, registers);
    }

    fn runner_set_registers(&mut self, runner: MachineRunner, registers: &Registers) {
        self.stop_runner(runner);
        self.write_runner(runner, registers, false);
    }

    fn runner_shares(&mut self, runner: MachineRunner, owner: MachineThread) {
        self.share_with_runner(runner, owner);
    }

    fn runner_hold(&mut self, runner: MachineRunner) -> Runs {
        self.hold_runner(runner)
    }

    fn runner_release(&mut self, runner: MachineRunner) {
        self.release_runner(runner);
    }

    fn runner_set_priority(&mut self, runner: MachineRunner, priority: Priority) {
        self.prioritise_runner(runner, priority);
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

    fn runner_destroy(&mut self, runner: MachineRunner) {
        self.end_runner(runner);
    }

    fn doorbell_create(&mut self, thread: MachineThread) -> Result<MachineDoorbell, OutOfMemory> {
        self.with_all(|machine| machine.make_doorbell(thread))
    }

    fn doorbell_ring(&mut self, doorbell: MachineDoorbell) {
        self.ring_doorbell(doorbell);
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

    fn doorbell_destroy(&mut self, doorbell: MachineDoorbell) {
        self.destroy_doorbell(doorbell);
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

    fn component_take(&mut self, component: u8) -> Result<(Aspace, [u8; 32]), OutOfMemory> {
        self.take_component(component)
    }

    fn component_refuse(&mut self, component: u8) {
        self.refuse_component(component);
    }

    fn device_frame(&mut self, address: u64) -> Result<DeviceFrame, DeviceError> {
        self.devices.frame(&mut self.memory, address)
    }

    fn device_range(&self, address: u64, pages: u64) -> Result<bool, DeviceError> {
        self.devices.range(address, pages)
    }

    fn device_read(&mut self, frame: Frame, offset: usize) -> Option<u32> {
        self.devices.read(&mut self.memory, frame, offset)
    }

    fn device_write(&mut self, frame: Frame, offset: usize, value: u32) -> bool {
        self.devices.write(&mut self.memory, frame, offset, value)
    }

    fn irq_open(&mut self, source: IrqSource, key: IrqKey) -> Result<Irq, DeviceError> {
        self.interrupts.open(&mut self.memory, source, key)
    }

    fn irq_ack(&mut self, irq: Irq) {
        self.interrupts.ack(irq);
    }

    fn irq_close(&mut self, irq: Irq) {
        self.interrupts.close(&mut self.memory, irq);
    }

    fn msi_alloc(&mut self, count: u32) -> Result<MsiBlock, DeviceError> {
        self.interrupts.msi_alloc(count)
    }

    fn msi_free(&mut self, block: MsiBlock) {
        self.interrupts.msi_free(block);
    }

    fn irq_counts(&self) -> (u32, u32) {
        self.interrupts.counts()
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

    #[inline]
    fn now(&self) -> i64 {
        self.clock.now()
    }

    #[inline]
    fn ticks(&self) -> i64 {
        clock::tsc() as i64
    }

    fn conversion(&self) -> Conversion {
        self.clock.conversion()
    }

    fn utc_offset(&self) -> i64 {
        self.clock.utc_offset()
    }

    fn set_deadline(&mut self, deadline: i64) {
        self.clock.set_alarm(deadline);
    }

    fn random(&mut self, out: &mut [u8]) {
        self.random.fill(out);
    }

    fn add_entropy(&mut self, data: &[u8]) {
        self.random.add(data);
    }

    fn console_write(&mut self, text: &[u8]) {
        serial::console_write(text);
    }

    fn serial_write(&mut self, data: &[u8]) -> usize {
        self.link.write(data)
    }

    fn serial_read(&mut self, out: &mut [u8]) -> usize {
        self.link.read(out)
    }

    fn power(&mut self, how: Power) {
        self.link.flush();
        if self.flags & FLAG_POWER != 0 {
            match how {
                Power::Off => serial::power_off(),
                Power::Reboot => serial::reboot(),
            }
        }
    }
}
