//! An attacker: a process of a few instructions whose threads make the calls that are laid out for them.
//!
//! The process is not trusted and decides nothing; this program draws the calls, and survives whatever they do. The
//! steps:
//!
//! 1. A thread is stopped at an undefined instruction, in an exception whose handler is this program.
//! 2. The handler lays out a batch of calls in memory that both see: for each the function in the vDSO and eight
//!    arguments. Then it resumes the thread at the loop that makes them.
//! 3. The thread makes one call after another, writes the results, and reaches the next undefined instruction.
//! 4. A call may not return: it faults, waits, or ends the thread. After a fault the handler sends the thread to the
//!    next call; it suspends a thread that waits too long and sends it there, too ([`Attacker::fetch`]).
//! 5. A process that has ended, or whose threads are lost, is replaced by a new one. A thread is lost if it is fetched
//!    again and again without stopping: its process may hold a token that keeps it suspended.

use abi::{Rights, ZX_EXCEPTION_STATE_THREAD_EXIT, zx_thread_state_general_regs_t};
use conformance::caught_exception::CaughtException;
use conformance::check::Failure;
use conformance::test_process::{OwnJob, TestProcess, koid};
use hostile::Dice;
use zx::{AsHandleRef, Channel, Duration, Handle, Info, Job, Mapping, MonotonicInstant, Signals, Vmo};

use crate::code::{self, BACK, DONE, NEXT, Piece};
use crate::grammar::{CELLS, KnownHandle, NamedHandle, Places, ROOM, View};

/// Calls in a batch.
pub const BATCH: usize = 64;
/// Threads of a process that are driven; the last one is the partner of the others.
pub const THREADS: usize = 3;
/// The partner's number.
pub const PARTNER: usize = THREADS - 1;
/// How often a thread is sent on within a batch before it is given up: more often than a batch has calls. A thread
/// whose call loop has been overwritten can return from the same call for ever.
const SENDS: u32 = 4 * BATCH as u32;
/// How often a thread is fetched in a row before it is given up: more often than a batch has waiting calls.
const FETCHES: u32 = 2 * BATCH as u32;
const RECORD: usize = 128;
/// Offset in a record, in bytes.
const RESULT: usize = 72;
const CELL: usize = 80;
/// The result of a call that has not returned.
const OPEN: u64 = 0x0123_4567_89ab_cdef;
const PAGE: usize = 4096;
/// Pages of a thread's records.
const RECORD_PAGES: usize = BATCH * RECORD / PAGE;
/// Pages of memory that all calls use; the last ones are the calls' rooms.
const ARENA_PAGES: usize = 48;
/// Bytes in which a thread keeps results for later calls: its slots.
const SLOTS: usize = PAGE;
/// Bytes of records and slots.
const NOTES: usize = THREADS * (RECORD_PAGES * PAGE + SLOTS);
/// Offset of the feed's handle in the arena; the handles that arrive through the feed follow it.
const FED: usize = 64;
const ROOM_PAGES: usize = THREADS * BATCH * ROOM as usize / PAGE;

const _: () = assert!(CELL + CELLS as usize * 8 <= RECORD && BATCH * RECORD == RECORD_PAGES * PAGE);

/// Attackers choose the addresses of their memory, so that hints can name some of it.
const READ_WRITE: u32 = abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_WRITE;

/// A call to make.
pub struct PreparedCall {
    /// Its index in the table of calls; none for something else that a thread does in between.
    pub call: Option<usize>,
    /// The function that is called.
    pub function: Function,
    /// Its arguments.
    pub words: [u64; 8],
    /// The content of its room.
    pub room: Vec<u8>,
}

/// What a thread can be made to do.
#[derive(Clone, Copy)]
pub enum Function {
    /// A system call: its address, as this program has it in its vDSO.
    Call(u64),
    /// A piece of the attacker's own code.
    Own(Piece),
}

/// A thread of an attacker.
struct Worker {
    thread: zx::Thread,
    koid: u64,
    stopped: Option<CaughtException>,
    /// Its current batch, and since when.
    batch: Vec<Option<usize>>,
    since: MonotonicInstant,
    /// How often the attacker stopped it since it last stopped by itself.
    fetched: u32,
    /// How often it was sent to its next call since it got its batch.
    sent: u32,
    /// It is lost.
    lost: bool,
}

/// The result of a call.
pub struct CallResult {
    /// Its index in the table.
    pub call: usize,
    /// Its result, if it has returned.
    pub result: Option<u64>,
}

/// See the module's description.
pub struct Attacker<'v> {
    tiny: TestProcess,
    job: OwnJob,
    /// The channel on which its exceptions arrive.
    pub exceptions: Channel,
    workers: Vec<Worker>,
    records: Mapping<'v>,
    arena: Mapping<'v>,
    /// The address of the records in the attacker.
    records_there: u64,
    arena_there: u64,
    slide: u64,
    /// The channel through which it gets handles while it lives.
    feed: Channel,
    stack: u64,
    /// What it holds.
    pub view: View,
    /// Batches until its mappings are read again.
    maps_in: u32,
    /// Batches until it is killed.
    pub lives: u64,
    /// The call by which it tries to exhaust something.
    pub greed: Option<usize>,
}

/// What an exception meant.
pub enum ExceptionMeaning {
    /// A worker has finished its batch, or the rest of it must wait for the next batch.
    Ready(usize),
    /// Nothing to do.
    Nothing,
}

impl<'v> Attacker<'v> {
    /// Creates one in a job of its own below `job`, with these handles in addition to the usual ones.
    pub fn new(
        job: &Job,
        vmar: &'v zx::Vmar,
        mut gifts: Vec<(NamedHandle, Handle)>,
        handles: Vec<Handle>,
        dice: &mut Dice,
    ) -> Result<Attacker<'v>, Failure> {
        let job = OwnJob::below(job)?;
        let tiny = TestProcess::in_job(&job, &code::all())?;
        let slide = tiny.map_vdso()?;
        let records = Vmo::create(NOTES as u64, 0)?;
        let arena = Vmo::create((ARENA_PAGES * PAGE) as u64, 0)?;
        let records_there = tiny.vmar.map(READ_WRITE, 0, &records, 0, NOTES)? as u64;
        let arena_there = tiny.vmar.map(READ_WRITE, 0, &arena, 0, ARENA_PAGES * PAGE)? as u64;
        let exceptions = tiny.process.create_exception_channel(0)?;

        let everything = |object: &dyn AsHandleRef| object.duplicate_handle(Rights::SAME_RIGHTS);
        gifts.push((NamedHandle::Process, everything(&tiny.process)?));
        gifts.push((NamedHandle::Job, everything(&*job)?));
        gifts.push((NamedHandle::Vmar, everything(&tiny.vmar)?));
        gifts.push((NamedHandle::Thread, everything(&tiny.thread)?));
        let (feed, theirs) = Channel::create()?;
        let named: Vec<NamedHandle> = gifts.iter().map(|gift| gift.0).collect();
        let count = (gifts.len() + handles.len() + 1) as u64;
        let all = gifts.into_iter().map(|gift| gift.1).chain(handles).chain([everything(&arena)?]);
        feed.write_handles(b"handles!", all)?;
        tiny.start(Some(theirs.into_handle()), 0)?;

        let root = vmar;
        let mut attacker = Attacker {
            job,
            exceptions,
            workers: Vec::new(),
            records: root.map_here(READ_WRITE, &records, 0, NOTES)?,
            arena: root.map_here(READ_WRITE, &arena, 0, ARENA_PAGES * PAGE)?,
            records_there,
            arena_there,
            slide,
            feed,
            stack: tiny.stack as u64 & !0xfff,
            view: View::default(),
            maps_in: 0,
            lives: 10 + dice.below(100),
            greed: None,
            tiny,
        };
        let entry = attacker.tiny.entry as u64;
        let exit = zx::sys::address("thread_exit").unwrap_or_default() as u64;
        // Addresses from which a thread stops soon: threads share the processor in time slices, and a thread that never
        // stops would use whole ones.
        attacker.view.code = [entry, entry + DONE, exit.wrapping_add(slide)];
        attacker.view.vector = entry + BACK.place();
        attacker.view.restricted = entry + code::RESTRICTED.place();
        attacker.view.process = koid(&attacker.tiny.process)?;
        attacker.view.arena = (arena_there, ((ARENA_PAGES - ROOM_PAGES) * PAGE) as u64);
        let first = attacker.tiny.thread.duplicate(Rights::SAME_RIGHTS)?;
        attacker.take_on(first)?;
        for _ in 1..THREADS {
            let thread = attacker.tiny.process.create_thread("attacker")?;
            thread.start(attacker.tiny.entry, attacker.tiny.stack, 0, 0)?;
            attacker.take_on(thread)?;
        }
        // The first thread's first call receives the handles.
        let channel = attacker.workers[0].thread.registers::<zx_thread_state_general_regs_t>()?.rdi;
        let (bytes, places) = (arena_there, arena_there + FED as u64);
        let words = [channel, 0, bytes, places, 8, count, places + 512, places + 520];
        let function = Function::Call(zx::sys::address("channel_read").unwrap_or_default() as u64);
        attacker.post(0, vec![PreparedCall { call: None, function, words, room: Vec::new() }])?;
        attacker.await_ready(0)?;
        attacker.view.gifts.push((NamedHandle::Feed, channel as u32));
        for (n, gift) in named.into_iter().enumerate() {
            let mut value = [0; 4];
            attacker.arena.read(FED + 4 * n, &mut value)?;
            attacker.view.gifts.push((gift, u32::from_le_bytes(value)));
        }
        Ok(attacker)
    }

    /// Makes a new thread a worker, which stops at its first instruction.
    fn take_on(&mut self, thread: zx::Thread) -> Result<(), Failure> {
        let koid = koid(&thread)?;
        let since = MonotonicInstant::now();
        self.workers.push(Worker {
            thread,
            koid,
            stopped: None,
            batch: Vec::new(),
            since,
            fetched: 0,
            sent: 0,
            lost: false,
        });
        self.await_ready(self.workers.len() - 1)
    }

    fn await_ready(&mut self, worker: usize) -> Result<(), Failure> {
        while self.workers[worker].stopped.is_none() {
            self.exceptions
                .wait_one(Signals::CHANNEL_READABLE, MonotonicInstant::after(Duration::from_seconds(5)))
                .map_err(|status| format!("a new attacker does not come to its first stop: {status}"))?;
            self.receive(&mut Dice::new(0))?;
        }
        Ok(())
    }

    /// The number of workers.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Whether the attacker has ended.
    pub fn has_ended(&self) -> bool {
        let terminated = self.tiny.process.signals().is_ok_and(|all| all.contains(Signals::TASK_TERMINATED));
        terminated || self.workers.iter().all(|worker| worker.lost)
    }

    /// Where a call's own memory is in the attacker.
    pub fn places(&self, worker: usize, n: usize) -> Places {
        let number = worker * BATCH + n;
        let rooms = self.arena_there + ((ARENA_PAGES - ROOM_PAGES) * PAGE) as u64;
        let slots = self.records_there + (THREADS * RECORD_PAGES * PAGE) as u64;
        Places {
            record: self.records_there + (number * RECORD) as u64,
            cells: self.records_there + (number * RECORD + CELL) as u64,
            room: rooms + number as u64 * ROOM,
            slots: slots + (worker * SLOTS) as u64,
            partner: slots + (PARTNER * SLOTS) as u64,
        }
    }

    /// Whether a worker's slot has a handle that is still valid.
    pub fn has(&self, worker: usize, slot: u64) -> bool {
        let mut value = [0; 4];
        let at = THREADS * RECORD_PAGES * PAGE + worker * SLOTS + 8 * slot as usize;
        // This program's own mapping can always be read.
        let _ = self.records.read(at, &mut value);
        self.view.handles.iter().any(|held| held.value == u32::from_le_bytes(value))
    }

    /// Reads what the attacker holds.
    pub fn look(&mut self) {
        self.view.now = MonotonicInstant::now().0;
        let mut handles = [abi::zx_info_handle_extended_t::default(); 512];
        let size = self.tiny.process.get_info_records(abi::ZX_INFO_HANDLE_TABLE, &mut handles);
        self.view.handles.clear();
        let count = size.map_or(0, |size| size.actual).min(handles.len());
        let held = |h: &abi::zx_info_handle_extended_t| KnownHandle {
            value: h.handle_value,
            kind: h.type_,
            rights: Rights::from_bits_retain(h.rights),
        };
        self.view.handles.extend(handles[..count].iter().map(held));
        if self.maps_in == 0 {
            self.maps_in = 8;
            let mut maps = [abi::zx_info_maps_t::default(); 64];
            let size = self.tiny.process.get_info_records(abi::ZX_INFO_PROCESS_MAPS, &mut maps);
            let count = size.map_or(0, |size| size.actual).min(maps.len());
            self.view.maps = maps[..count].iter().skip(1).map(|map| (map.base as u64, map.size as u64)).collect();
        }
        self.maps_in -= 1;
    }

    /// Step 2.
    pub fn post(&mut self, which: usize, batch: Vec<PreparedCall>) -> Result<(), Failure> {
        let first = which * BATCH;
        let rooms = (ARENA_PAGES - ROOM_PAGES) * PAGE;
        // For a return from restricted mode, which has only the record's address.
        let begin = self.records_there + (first * RECORD) as u64;
        let back = [OPEN, begin + (batch.len() * RECORD) as u64, self.stack - which as u64 * PAGE as u64];
        for (n, laid) in batch.iter().enumerate() {
            let mut record = [0; CELL + 16];
            let function = match laid.function {
                Function::Own(piece) => self.tiny.entry as u64 + piece.place(),
                Function::Call(address) => address.wrapping_add(self.slide),
            };
            for (place, word) in [function].iter().chain(&laid.words).chain(&back).enumerate() {
                record[place * 8..place * 8 + 8].copy_from_slice(&word.to_le_bytes());
            }
            self.records.write((first + n) * RECORD, &record)?;
            if !laid.room.is_empty() {
                let room = &laid.room[..laid.room.len().min(ROOM as usize)];
                self.arena.write(rooms + (first + n) * ROOM as usize, room)?;
            }
        }
        let (entry, stack) = (self.tiny.entry as u64, self.stack);
        let worker = &mut self.workers[which];
        let count = batch.len();
        worker.batch = batch.into_iter().map(|laid| laid.call).collect();
        worker.since = MonotonicInstant::now();
        worker.sent = 0;
        send(worker, |registers| {
            registers.r12 = begin;
            registers.r13 = begin + (count * RECORD) as u64;
            registers.rsp = stack - which as u64 * PAGE as u64;
            registers.rip = entry + NEXT;
            registers.rflags &= KEPT;
        });
        Ok(())
    }

    /// The results of a worker's batch.
    pub fn collect(&mut self, which: usize) -> Vec<CallResult> {
        let first = which * BATCH;
        let batch = std::mem::take(&mut self.workers[which].batch);
        let mut made = Vec::new();
        for (n, call) in batch.into_iter().enumerate() {
            let mut bytes = [0; 8];
            // This program's own mapping can always be read.
            let _ = self.records.read((first + n) * RECORD + RESULT, &mut bytes);
            let result = u64::from_le_bytes(bytes);
            let result = (result != OPEN).then_some(result);
            if let Some(call) = call {
                made.push(CallResult { call, result });
            }
            if result.is_none() && self.workers[which].stopped.is_none() {
                // The thread ended in this call; the calls behind it were not made.
                break;
            }
        }
        made
    }

    /// The next exception: steps 3 and 4.
    pub fn receive(&mut self, dice: &mut Dice) -> Result<ExceptionMeaning, Failure> {
        let Ok((exception, info)) = zx::Exception::receive(&self.exceptions, MonotonicInstant::ZERO) else {
            return Ok(ExceptionMeaning::Nothing);
        };
        let Some(which) = self.workers.iter().position(|worker| worker.koid == info.tid) else {
            // A thread that the attacker has created itself. In one of eight cases the attacker decides what happens to
            // it.
            if !dice.one_in(8) {
                let _ = exception.set_state(ZX_EXCEPTION_STATE_THREAD_EXIT);
            }
            if dice.one_in(2) {
                let _ = self.feed.write_handles(b"exception", [Handle::from(exception)]);
            }
            return Ok(ExceptionMeaning::Nothing);
        };
        let entry = self.tiny.entry as u64;
        let worker = &mut self.workers[which];
        worker.stopped = Some(CaughtException { exception, info });
        worker.fetched = 0;
        let Ok(registers) = worker.thread.registers::<zx_thread_state_general_regs_t>() else {
            worker.lost = true;
            return Ok(ExceptionMeaning::Nothing);
        };
        if worker.batch.is_empty() || registers.rip == entry + DONE || registers.rip == entry {
            return Ok(ExceptionMeaning::Ready(which));
        }
        worker.sent += 1;
        if worker.sent > SENDS {
            worker.lost = true;
            return Ok(ExceptionMeaning::Nothing);
        }
        if info.type_ == abi::ZX_EXCP_POLICY_ERROR {
            // Its call is over when this thread is.
            send(worker, |_| {});
            return Ok(ExceptionMeaning::Nothing);
        }
        Ok(if self.skip(which, &registers) { ExceptionMeaning::Nothing } else { ExceptionMeaning::Ready(which) })
    }

    /// Sends a stopped worker to the call after the one that it was in; returns whether there is one.
    fn skip(&mut self, which: usize, registers: &zx_thread_state_general_regs_t) -> bool {
        let begin = self.records_there + (which * BATCH * RECORD) as u64;
        let end = begin + (self.workers[which].batch.len() * RECORD) as u64;
        let next = registers.r12.wrapping_add(RECORD as u64);
        // Other threads may have changed its registers.
        if next < begin || next >= end || !(next - begin).is_multiple_of(RECORD as u64) {
            return false;
        }
        let (entry, stack) = (self.tiny.entry as u64, self.stack);
        send(&mut self.workers[which], |registers| {
            registers.r12 = next;
            registers.r13 = end;
            registers.rsp = stack - which as u64 * PAGE as u64;
            registers.rip = entry + NEXT;
            registers.rflags &= KEPT;
        });
        true
    }

    /// Fetches the workers that have not stopped since a moment: their calls wait, or seem to.
    pub fn fetch(&mut self, before: MonotonicInstant) {
        for which in 0..self.workers.len() {
            let worker = &self.workers[which];
            if worker.lost || worker.stopped.is_some() || worker.since > before {
                continue;
            }
            if !self.fetch_one(which) {
                self.workers[which].lost = true;
            }
        }
    }

    fn fetch_one(&mut self, which: usize) -> bool {
        let worker = &mut self.workers[which];
        worker.since = MonotonicInstant::now();
        // Its own process may hold a token that keeps it suspended, and never close it.
        worker.fetched += 1;
        if worker.fetched > FETCHES {
            return false;
        }
        let Ok(token) = worker.thread.suspend() else { return false };
        let deadline = MonotonicInstant::after(Duration::from_millis(2));
        let Ok(signals) = worker.thread.wait_one(Signals::THREAD_SUSPENDED | Signals::TASK_TERMINATED, deadline) else {
            // It is stopped by an exception that has arrived meanwhile, or that another handler has.
            return self.exceptions.signals().is_ok_and(|all| all.contains(Signals::CHANNEL_READABLE));
        };
        if signals.contains(Signals::TASK_TERMINATED) {
            return false;
        }
        let Ok(mut registers) = worker.thread.registers::<zx_thread_state_general_regs_t>() else { return false };
        let begin = self.records_there + (which * BATCH * RECORD) as u64;
        let end = begin + (self.workers[which].batch.len() * RECORD) as u64;
        let next = registers.r12.wrapping_add(RECORD as u64).clamp(begin, end);
        registers.r12 = begin + (next - begin) / RECORD as u64 * RECORD as u64;
        registers.r13 = end;
        registers.rsp = self.stack - which as u64 * PAGE as u64;
        registers.rip = self.tiny.entry as u64 + NEXT;
        registers.rflags &= KEPT;
        let set = self.workers[which].thread.set_registers(&registers).is_ok();
        drop(token);
        set
    }

    /// From now on the attacker mostly makes one call, closes no handle, and may use `memory` bytes.
    pub fn be_greedy(&mut self, call: Option<usize>, memory: u64) -> Result<(), Failure> {
        self.job.set_property(abi::HAFNON_PROP_JOB_MEMORY_LIMIT, &memory.to_le_bytes())?;
        self.greed = call;
        Ok(())
    }

    /// Kills its job.
    pub fn kill(&self) {
        let _ = self.job.kill();
    }
}

/// The flags that a thread keeps when it is resumed: without single steps, direction flag and alignment checks.
const KEPT: u64 = !0x4_0500;

/// Resumes a stopped worker with changed registers. If that fails, it has ended, or another handler controls it.
fn send(worker: &mut Worker, change: impl FnOnce(&mut zx_thread_state_general_regs_t)) {
    let Some(stopped) = worker.stopped.take() else { return };
    let registers = worker.thread.registers::<zx_thread_state_general_regs_t>();
    let set = registers.and_then(|mut registers| {
        change(&mut registers);
        worker.thread.set_registers(&registers)
    });
    worker.lost |= set.and_then(|()| stopped.handled()).is_err();
}
