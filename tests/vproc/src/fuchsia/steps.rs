//! An event on each instruction in turn.
//!
//! The owner repeats a short piece of work between two undefined instructions. Another thread handles its exceptions
//! and single-steps it: at the n-th step it makes an event and lets the owner run on. So the event is reported, or
//! stays pending, exactly before that instruction. n begins at 1 and ends where the work does. The work is the same
//! each time, so in the end each of its instructions has had an event before it.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use abi::{
    HAFNON_VPROC_EVENTS_OFFSET, ZX_EXCEPTION_STATE_HANDLED, ZX_EXCP_HW_BREAKPOINT, ZX_EXCP_UNDEFINED_INSTRUCTION,
    hafnon_vproc_events_t, zx_thread_state_general_regs_t,
};
use conformance::check::{Failure, Outcome, ensure, equal};
use zx::probe::undefined_instruction;
use zx::probe::upcalls::{enable, hold, with_upcalls};
use zx::{Channel, Events, Exception, MonotonicInstant, Rights, Thread, VirtualProcessor};

const TRAP: u64 = 0x100;
/// A step at which [`hold`] has filled all registers.
const HOLDS: u64 = 60;
/// More steps than any piece of work has.
const MOST: u64 = 5_000;

/// What the stepper has to know about the owner.
struct Owner {
    thread: Thread,
    /// The address of the page of its virtual processor.
    page: usize,
}

/// Steps through an owner's work.
struct Stepper {
    owner: Owner,
    channel: Channel,
    over: &'static AtomicBool,
}

/// Events besides the one that a run tests.
#[derive(Clone, Copy, Default)]
struct Others {
    /// Before this step.
    at: Option<u64>,
    /// At the step after the first event has been taken: the upcall is in progress, and its resume finds another event
    /// pending.
    when_taken: bool,
}

/// Results of a series of runs.
#[derive(Default)]
struct Found {
    /// The instructions of the last run, which had no event of its own.
    walked: BTreeSet<u64>,
    /// The instructions that had an event before them.
    hit: BTreeSet<u64>,
    runs: u64,
    /// Events that must be seen: those that were made while none was pending.
    events: u64,
}

impl Stepper {
    fn word(&self, offset: usize) -> u64 {
        let at = self.owner.page + HAFNON_VPROC_EVENTS_OFFSET as usize + offset;
        u64::from_le_bytes(std::array::from_fn(|i| zx::probe::read(at + i)))
    }

    fn go(&self, exception: &Exception, change: impl FnOnce(&mut zx_thread_state_general_regs_t)) -> zx::Result<()> {
        let mut state = self.owner.thread.registers()?;
        change(&mut state);
        self.owner.thread.set_registers(&state)?;
        exception.set_state(ZX_EXCEPTION_STATE_HANDLED)
    }

    /// Waits for the beginning or the end of the work. Ignores a step that is left from before.
    fn mark(&self, then: impl FnOnce(&mut zx_thread_state_general_regs_t)) -> zx::Result<()> {
        loop {
            let (exception, info) = Exception::receive(&self.channel, MonotonicInstant::INFINITE)?;
            if info.type_ == ZX_EXCP_UNDEFINED_INSTRUCTION {
                return self.go(&exception, |state| {
                    state.rip += 2;
                    then(state);
                });
            }
            self.go(&exception, |state| state.rflags &= !TRAP)?;
        }
    }

    /// One run: makes an event before the n-th step, and those of `others` that come earlier, by `event`. Returns
    /// whether there was such a step.
    fn run(
        &self,
        n: u64,
        mut others: Others,
        found: &mut Found,
        event: &impl Fn() -> zx::Result<()>,
    ) -> Result<bool, Failure> {
        let pending = || self.word(std::mem::offset_of!(hafnon_vproc_events_t, pending)) != 0;
        let make = |found: &mut Found| -> zx::Result<()> {
            found.events += u64::from(!pending());
            event()
        };
        let mut was_pending = false;
        self.mark(|state| state.rflags |= TRAP)?;
        found.runs += 1;
        found.walked.clear();
        for step in 1.. {
            let (exception, info) = Exception::receive(&self.channel, MonotonicInstant::INFINITE)?;
            let end = info.type_ == ZX_EXCP_UNDEFINED_INSTRUCTION;
            ensure(end || info.type_ == ZX_EXCP_HW_BREAKPOINT, &format!("an exception of type {:#x}", info.type_))?;
            ensure(step < MOST, "it comes to no end")?;
            if end {
                self.go(&exception, |state| (state.rip, state.rflags) = (state.rip + 2, state.rflags & !TRAP))?;
                return Ok(false);
            }
            let state: zx_thread_state_general_regs_t = self.owner.thread.registers()?;
            found.walked.insert(state.rip);
            if step == n {
                found.hit.insert(state.rip);
                make(found)?;
                self.go(&exception, |state| state.rflags &= !TRAP)?;
                break;
            }
            let taken = was_pending && !pending();
            if others.at == Some(step) || (others.when_taken && taken) {
                others.when_taken &= !taken;
                make(found)?;
            }
            was_pending = pending();
            exception.set_state(ZX_EXCEPTION_STATE_HANDLED)?;
        }
        self.mark(|state| state.rflags &= !TRAP)?;
        Ok(true)
    }

    /// All runs. Afterwards asks the owner to end.
    fn runs(self, others: Others, event: impl Fn() -> zx::Result<()>) -> Result<(Found, (u64, u64)), Failure> {
        let mut found = Found::default();
        let mut n = 1;
        while self.run(n, others, &mut found, &event)? {
            n += 1;
        }
        let range = (
            self.word(std::mem::offset_of!(hafnon_vproc_events_t, resume_from)),
            self.word(std::mem::offset_of!(hafnon_vproc_events_t, resume_to)),
        );
        self.over.store(true, SeqCst);
        self.mark(|_| ())?;
        Ok((found, range))
    }
}

/// What an owner's thread sends to its stepper, and the signal that the stepper is ready to handle its exceptions.
type Meeting = (Sender<Owner>, Receiver<()>);

fn meet(processor: &VirtualProcessor<'_>, (sender, ready): &Meeting) -> Outcome {
    let thread = zx::startup::thread_self().duplicate(Rights::SAME_RIGHTS)?;
    let page = std::ptr::from_ref(processor.page()).addr();
    sender.send(Owner { thread, page }).map_err(|_| "nobody steps")?;
    ready.recv().map_err(|_| "nobody steps".into())
}

/// The stepper of an owner that is still to come.
fn stepper(owner: &Receiver<Owner>, ready: &Sender<()>, over: &'static AtomicBool) -> Result<Stepper, Failure> {
    let owner = owner.recv().map_err(|_| "there is no owner")?;
    let channel = owner.thread.create_exception_channel(0)?;
    ready.send(()).map_err(|_| "the owner has ended")?;
    Ok(Stepper { owner, channel, over })
}

/// Checks that each executed instruction has had an event before it, and the instructions of the resume's range as
/// well.
fn each_was_hit(found: &Found, (from, to): (u64, u64), within: usize) -> Outcome {
    let missed: Vec<_> = found.walked.difference(&found.hit).collect();
    ensure(missed.is_empty(), &format!("no event fell on {missed:x?}"))?;
    let resumes = found.hit.range(from..to).count();
    eprintln!(
        "{} instructions, {} in the resume, {} runs, {} events",
        found.hit.len(),
        resumes,
        found.runs,
        found.events
    );
    ensure(resumes >= within, &format!("{resumes} instructions of the resume were hit"))
}

/// Events on the instructions of enable, of the upcall that another event causes, and of its return.
fn upcalls(others: Others, within: usize) -> Outcome {
    static OVER: AtomicBool = AtomicBool::new(false);
    OVER.store(false, SeqCst);
    let root = zx::startup::vmar_root_self();
    let processor = VirtualProcessor::create(&root)?;
    let vproc = processor.handle().duplicate(Rights::SAME_RIGHTS)?;
    let (sender, owner) = mpsc::channel();
    let (ready, begins) = mpsc::channel();
    let once = AtomicU64::new(1);
    thread::scope(|scope| {
        let steps = scope.spawn(move || stepper(&owner, &ready, &OVER)?.runs(others, || vproc.kick()));
        meet(&processor, &(sender, begins))?;
        let (seen, kept) = (Cell::new(0_u64), Cell::new(0));
        let event = |_: Events| seen.set(seen.get() + 1);
        with_upcalls(processor.events(), &event, |events| {
            loop {
                // Each run begins without a pending event, like the last one.
                while events.take() {
                    event(events);
                }
                undefined_instruction();
                if OVER.load(SeqCst) {
                    break;
                }
                enable(events, &event);
                kept.set(kept.get() | hold(&once));
                events.disable();
                undefined_instruction();
            }
        });
        let (found, range) = steps.join().map_err(|_| "the stepper panicked")??;
        equal(kept.get(), 0)?;
        equal(seen.get(), found.events)?;
        each_was_hit(&found, range, within)
    })
}

pub fn upcall() -> Outcome {
    upcalls(Others { at: Some(HOLDS), ..Others::default() }, 5)
}

/// The same with another event after the upcall has taken the first, so that the resume finds it pending.
pub fn upcall_within() -> Outcome {
    upcalls(Others { at: Some(HOLDS), when_taken: true }, 8)
}

/// Events that are enabled while one is pending already.
pub fn pending() -> Outcome {
    upcalls(Others { at: Some(1), ..Others::default() }, 0)
}

/// Preemption on the instructions of a switch from one thread to another, and of a thread's preemption and its return.
pub fn switch() -> Outcome {
    static OVER: AtomicBool = AtomicBool::new(false);
    OVER.store(false, SeqCst);
    let root = zx::startup::vmar_root_self();
    let processor = VirtualProcessor::create(&root)?;
    let (sender, owner) = mpsc::channel();
    let (ready, begins) = mpsc::channel();
    let (give_ticks, ticks) = mpsc::channel();
    let once = AtomicU64::new(1);
    let (begun, done) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        let steps = scope.spawn(move || {
            let ticks: vthread::probe::Ticks = ticks.recv().map_err(|_| "there are no threads")?;
            stepper(&owner, &ready, &OVER)?.runs(Others { at: Some(2 * HOLDS), ..Others::default() }, || ticks.tick())
        });
        let quantum = zx::Duration::from_seconds(10_000);
        let (kept, turns) = vthread::probe::run(&processor, quantum, |threads| {
            let sent = threads.ticks().map(|ticks| give_ticks.send(ticks));
            ensure(sent.is_ok_and(|sent| sent.is_ok()), "nobody takes the ticks")?;
            meet(&processor, &(sender, begins))?;
            threads.spawn(|threads| {
                while !OVER.load(SeqCst) {
                    begun.fetch_add(1, SeqCst);
                    threads.yield_now();
                    done.fetch_add(1, SeqCst);
                }
            });
            let (mut kept, mut turns) = (0, true);
            loop {
                // Each run begins without a tick, and with the other thread inside its yield to this one.
                threads.yield_now();
                threads.yield_now();
                undefined_instruction();
                if OVER.load(SeqCst) {
                    break;
                }
                threads.yield_now();
                kept |= hold(&once);
                undefined_instruction();
                let (begun, done) = (begun.load(SeqCst), done.load(SeqCst));
                turns &= done <= begun && begun <= done + 1;
            }
            Ok::<_, Failure>((kept, turns))
        })??;
        let (found, range) = steps.join().map_err(|_| "the stepper panicked")??;
        equal(kept, 0)?;
        ensure(turns && begun.load(SeqCst) > found.runs / 2, "the other thread lost a turn")?;
        equal(begun.load(SeqCst), done.load(SeqCst))?;
        each_was_hit(&found, range, 5)
    })
}
