//! An attacker: a process of a few instructions whose threads make the calls that are laid out for them.
//!
//! Nothing of it is trusted, and it decides nothing; whoever draws the calls is outside of it and stays whole whatever
//! they do. It goes so:
//!
//! 1. A thread stands at an undefined instruction, in an exception whose handler is this program.
//! 2. The handler lays out a batch of calls in memory that both see: for each the function in the vDSO and eight
//!    arguments. Then it lets the thread go on at the loop that makes them.
//! 3. The thread makes one call after another, writes the results, and comes to the next undefined instruction.
//! 4. A call may not come back: it faults, waits, or ends the thread. After a fault the handler sends the thread to the next
//!    call; a thread that waits too long is suspended and sent there, too ([`Attacker::fetch`]).
//! 5. A process that has ended, or whose threads cannot be had any more, is replaced by a new one. A thread that is
//!    fetched again and again without coming to a stop is such a one: its process may hold what keeps it suspended.

use abi::{Rights, ZX_EXCEPTION_STATE_THREAD_EXIT, zx_thread_state_general_regs_t};
use conformance::caught::Caught;
use conformance::check::Failure;
use conformance::tiny::{OwnJob, Tiny, koid};
use hostile::Dice;
use zx::{AsHandleRef, Channel, Duration, Handle, Info, Job, Mapping, MonotonicInstant, Signals, Vmo};

use crate::code::{self, BACK, DONE, NEXT, Piece};
use crate::grammar::{CELLS, Gift, Held, Places, ROOM, View};

/// Calls of a batch.
pub const BATCH: usize = 64;
/// Threads of a process that are driven: the last one is the partner of the others.
pub const THREADS: usize = 3;
/// Its number.
pub const PARTNER: usize = THREADS - 1;
/// How often a thread is sent on within a batch before it is given up: more often than a batch has calls. One that has changed the code that
/// makes its calls, or has it changed, can come back from the same one for ever.
const SENDS: u32 = 4 * BATCH as u32;
/// How often a thread is fetched in a row before it is given up: more often than a batch has calls that wait.
const FETCHES: u32 = 2 * BATCH as u32;
const RECORD: usize = 128;
/// Places in a record, in bytes.
const RESULT: usize = 72;
const CELL: usize = 80;
/// The result of a call that has not come back.
const OPEN: u64 = 0x0123_4567_89ab_cdef;
const PAGE: usize = 4096;
/// Pages of a thread's records.
const RECORD_PAGES: usize = BATCH * RECORD / PAGE;
/// Pages of memory that all calls use; the last ones are the rooms.
const ARENA_PAGES: usize = 48;
/// Bytes of what a thread keeps from one call for later ones: its slots.
const SLOTS: usize = PAGE;
/// Pages of records and slots.
const NOTES: usize = THREADS * (RECORD_PAGES * PAGE + SLOTS);
/// Where the feed's handle lies in the arena, and behind it what comes by it.
const FED: usize = 64;
const ROOM_PAGES: usize = THREADS * BATCH * ROOM as usize / PAGE;

const _: () = assert!(CELL + CELLS as usize * 8 <= RECORD && BATCH * RECORD == RECORD_PAGES * PAGE);

/// Attackers have addresses of their own choice for their memory, so that hints can name some of it.
const READ_WRITE: u32 = abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_WRITE;

/// A call to make.
pub struct Laid {
    /// Its place in the table of calls; none for something else that a thread does in between.
    pub call: Option<usize>,
    /// What is called.
    pub function: Function,
    /// Its arguments.
    pub words: [u64; 8],
    /// What is in its room.
    pub room: Vec<u8>,
}

/// What a thread can be sent to do.
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
    stopped: Option<Caught>,
    /// What it was given to do, and since when.
    batch: Vec<Option<usize>>,
    since: MonotonicInstant,
    /// How often it was fetched since it last came by itself.
    fetched: u32,
    /// How often it was sent on since it got its batch.
    sent: u32,
    /// It cannot be had any more.
    lost: bool,
}

/// What became of a call.
pub struct Made {
    /// Its place in the table.
    pub call: usize,
    /// Its result, if it has come back.
    pub result: Option<u64>,
}

/// See the module's description.
pub struct Attacker<'v> {
    tiny: Tiny,
    job: OwnJob,
    /// Where its exceptions come.
    pub exceptions: Channel,
    workers: Vec<Worker>,
    records: Mapping<'v>,
    arena: Mapping<'v>,
    /// The same in the attacker.
    records_there: u64,
    arena_there: u64,
    slide: u64,
    /// By what it gets handles while it lives.
    feed: Channel,
    stack: u64,
    /// What it has.
    pub view: View,
    /// Batches until its mappings are asked for again.
    maps_in: u32,
    /// Batches until it is killed.
    pub lives: u64,
    /// The call by which it tries to use something up.
    pub greed: Option<usize>,
}

/// What an exception meant.
pub enum Came {
    /// A worker has ended its batch, or what is left of it must wait for the next.
    Ready(usize),
    /// Nothing to do.
    Nothing,
}

impl<'v> Attacker<'v> {
    /// Makes one in a job of its own below `job`, with these handles beside the usual.
    pub fn new(
        job: &Job,
        vmar: &'v zx::Vmar,
        mut gifts: Vec<(Gift, Handle)>,
        handles: Vec<Handle>,
        dice: &mut Dice,
    ) -> Result<Attacker<'v>, Failure> {
        let job = OwnJob::below(job)?;
        let tiny = Tiny::in_job(&job, &code::all())?;
        let slide = tiny.map_vdso()?;
        let records = Vmo::create(NOTES as u64, 0)?;
        let arena = Vmo::create((ARENA_PAGES * PAGE) as u64, 0)?;
        let records_there = tiny.vmar.map(READ_WRITE, 0, &records, 0, NOTES)? as u64;
        let arena_there = tiny.vmar.map(READ_WRITE, 0, &arena, 0, ARENA_PAGES * PAGE)? as u64;
        let exceptions = tiny.process.create_exception_channel(0)?;

        let everything = |object: &dyn AsHandleRef| object.duplicate_handle(Rights::SAME_RIGHTS);
        gifts.push((Gift::Process, everything(&tiny.process)?));
        gifts.push((Gift::Job, everything(&*job)?));
        gifts.push((Gift::Vmar, everything(&tiny.vmar)?));
        gifts.push((Gift::Thread, everything(&tiny.thread)?));
        let (feed, theirs) = Channel::create()?;
        let named: Vec<Gift> = gifts.iter().map(|gift| gift.0).collect();
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
        // Places from which a thread comes back soon: the processor is shared by turns, and who never ends takes whole ones.
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
        // The first call of the first thread takes the handles.
        let channel = attacker.workers[0].thread.registers::<zx_thread_state_general_regs_t>()?.rdi;
        let (bytes, places) = (arena_there, arena_there + FED as u64);
        let words = [channel, 0, bytes, places, 8, count, places + 512, places + 520];
        let function = Function::Call(zx::sys::address("channel_read").unwrap_or_default() as u64);
        attacker.post(0, vec![Laid { call: None, function, words, room: Vec::new() }])?;
        attacker.await_ready(0)?;
        attacker.view.gifts.push((Gift::Feed, channel as u32));
        for (n, gift) in named.into_iter().enumerate() {
            let mut value = [0; 4];
            attacker.arena.read(FED + 4 * n, &mut value)?;
            attacker.view.gifts.push((gift, u32::from_le_bytes(value)));
        }
        Ok(attacker)
    }

    /// A new thread is a worker, which stands at its start.
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

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Whether it is over.
    pub fn has_ended(&self) -> bool {
        let terminated = self.tiny.process.signals().is_ok_and(|all| all.contains(Signals::TASK_TERMINATED));
        terminated || self.workers.iter().all(|worker| worker.lost)
    }

    /// Where a call's own memory is, in the attacker.
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

    /// Whether a worker's slot has a handle that is still there.
    pub fn has(&self, worker: usize, slot: u64) -> bool {
        let mut value = [0; 4];
        let at = THREADS * RECORD_PAGES * PAGE + worker * SLOTS + 8 * slot as usize;
        // This program's own mapping: it can always be read.
        let _ = self.records.read(at, &mut value);
        self.view.handles.iter().any(|held| held.value == u32::from_le_bytes(value))
    }

    /// Looks at what it has.
    pub fn look(&mut self) {
        self.view.now = MonotonicInstant::now().0;
        let mut handles = [abi::zx_info_handle_extended_t::default(); 512];
        let size = self.tiny.process.get_info_records(abi::ZX_INFO_HANDLE_TABLE, &mut handles);
        self.view.handles.clear();
        let count = size.map_or(0, |size| size.actual).min(handles.len());
        let held = |h: &abi::zx_info_handle_extended_t| Held {
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
    pub fn post(&mut self, which: usize, batch: Vec<Laid>) -> Result<(), Failure> {
        let first = which * BATCH;
        let rooms = (ARENA_PAGES - ROOM_PAGES) * PAGE;
        // For who comes back from restricted mode, without anything but the record's address.
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

    /// What has become of a worker's batch.
    pub fn collect(&mut self, which: usize) -> Vec<Made> {
        let first = which * BATCH;
        let batch = std::mem::take(&mut self.workers[which].batch);
        let mut made = Vec::new();
        for (n, call) in batch.into_iter().enumerate() {
            let mut bytes = [0; 8];
            // This program's own mapping: it can always be read.
            let _ = self.records.read((first + n) * RECORD + RESULT, &mut bytes);
            let result = u64::from_le_bytes(bytes);
            let result = (result != OPEN).then_some(result);
            if let Some(call) = call {
                made.push(Made { call, result });
            }
            if result.is_none() && self.workers[which].stopped.is_none() {
                // It ended in this call; those behind it were not made.
                break;
            }
        }
        made
    }

    /// The next exception: steps 3 and 4.
    pub fn receive(&mut self, dice: &mut Dice) -> Result<Came, Failure> {
        let Ok((exception, info)) = zx::Exception::receive(&self.exceptions, MonotonicInstant::ZERO) else {
            return Ok(Came::Nothing);
        };
        let Some(which) = self.workers.iter().position(|worker| worker.koid == info.tid) else {
            // A thread that it has made itself. What becomes of it is sometimes its own to decide.
            if !dice.one_in(8) {
                let _ = exception.set_state(ZX_EXCEPTION_STATE_THREAD_EXIT);
            }
            if dice.one_in(2) {
                let _ = self.feed.write_handles(b"exception", [Handle::from(exception)]);
            }
            return Ok(Came::Nothing);
        };
        let entry = self.tiny.entry as u64;
        let worker = &mut self.workers[which];
        worker.stopped = Some(Caught { exception, info });
        worker.fetched = 0;
        let Ok(registers) = worker.thread.registers::<zx_thread_state_general_regs_t>() else {
            worker.lost = true;
            return Ok(Came::Nothing);
        };
        if worker.batch.is_empty() || registers.rip == entry + DONE || registers.rip == entry {
            return Ok(Came::Ready(which));
        }
        worker.sent += 1;
        if worker.sent > SENDS {
            worker.lost = true;
            return Ok(Came::Nothing);
        }
        if info.type_ == abi::ZX_EXCP_POLICY_ERROR {
            // Its call is over when this is.
            send(worker, |_| {});
            return Ok(Came::Nothing);
        }
        Ok(if self.skip(which, &registers) { Came::Nothing } else { Came::Ready(which) })
    }

    /// Sends a worker that stands to the call behind the one that it was in; says whether there is one.
    fn skip(&mut self, which: usize, registers: &zx_thread_state_general_regs_t) -> bool {
        let begin = self.records_there + (which * BATCH * RECORD) as u64;
        let end = begin + (self.workers[which].batch.len() * RECORD) as u64;
        let next = registers.r12.wrapping_add(RECORD as u64);
        // Others may have changed its registers.
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

    /// Fetches the workers that have not come back since a moment: a call waits, or is taken for waiting.
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
        // Its own process may hold a token that keeps it suspended; nobody would ever let that go.
        worker.fetched += 1;
        if worker.fetched > FETCHES {
            return false;
        }
        let Ok(token) = worker.thread.suspend() else { return false };
        let deadline = MonotonicInstant::after(Duration::from_millis(2));
        let Ok(signals) = worker.thread.wait_one(Signals::THREAD_SUSPENDED | Signals::TASK_TERMINATED, deadline) else {
            // It stands at an exception that has come meanwhile, or that others have.
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

    /// From now on it mostly makes one call, and lets go of nothing; of memory it may have so much.
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

/// Flags with which a thread goes on: it neither steps nor goes backwards, and aligns nothing.
const KEPT: u64 = !0x4_0500;

/// Lets a worker that stands go on, with registers changed. If it cannot be, it has ended, or others have a hand in it.
fn send(worker: &mut Worker, change: impl FnOnce(&mut zx_thread_state_general_regs_t)) {
    let Some(stopped) = worker.stopped.take() else { return };
    let registers = worker.thread.registers::<zx_thread_state_general_regs_t>();
    let set = registers.and_then(|mut registers| {
        change(&mut registers);
        worker.thread.set_registers(&registers)
    });
    worker.lost |= set.and_then(|()| stopped.handled()).is_err();
}
