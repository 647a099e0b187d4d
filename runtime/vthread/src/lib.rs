//! Threads of a program's own on one virtual processor.
//!
//! They take turns on one thread of the system's, which owns the virtual processor: no kernel is entered to switch from one to the other.
//! A timer that is bound to the virtual processor preempts them ([`Threads`]); what must not be preempted disables events,
//! which is a store ([`Threads::quietly`]). On that [`Mutex`] and [`Condition`] are built.
//!
//! To the system and to `std` all of them are one thread. They share its thread-locals; where one waits in a call of the system's, all do;
//! and a lock that is not this library's is no lock between them: who is preempted while it holds one, as inside of the allocator, leaves
//! the others waiting for ever. So whatever is for one thread at a time is used with events disabled.
#![no_std]

extern crate alloc;

mod lock;
#[cfg(feature = "probe")]
pub mod probe;
mod queue;
mod switch;

pub use lock::{Condition, Guard, Mutex};

use alloc::boxed::Box;
use alloc::vec;
use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::mem::offset_of;
use core::ptr;

use abi::{ZX_PKT_TYPE_SIGNAL_ONE, hafnon_vproc_state_t};
use zx::{AsHandleRef, Duration, Events, MonotonicInstant, Port, Result, Signals, Timer, Vectors, VirtualProcessor};

use queue::Queue;

/// Bytes of a thread's stack, in pieces of 16.
const STACK: usize = (64 << 10) / 16;
/// The same for upcalls.
const UPCALLS_STACK: usize = (16 << 10) / 16;
/// The key of the timer's packets.
const TICK: u64 = 0;

/// What a thread runs; it is told whose thread it is.
type Body = Box<dyn FnMut(*const ())>;

/// A thread.
#[repr(C)]
struct Thread {
    /// Where its registers are, while it does not run: see [`switch`].
    registers: *const u64,
    /// The next in the queue that it is in.
    next: *mut Thread,
    threads: *const Inner,
    /// What [`Thread::registers`] is if it was preempted: enough to come to [`switch::preempted`].
    frame: [u64; switch::REGISTERS],
    /// What it was preempted in.
    saved: hafnon_vproc_state_t,
    vectors: Vectors,
    stack: Box<[u128]>,
    body: Option<Body>,
}

/// The threads of a virtual processor, while [`run`] runs.
pub struct Threads<'env> {
    inner: Inner,
    env: PhantomData<&'env mut &'env ()>,
}

struct Inner {
    events: Events,
    state: UnsafeCell<State>,
}

/// What is looked at with events disabled only.
struct State {
    current: *mut Thread,
    ready: Queue,
    /// Those that have ended, for those to come.
    ended: Queue,
    /// Threads that have not ended, but for the first.
    alive: usize,
    /// The first thread waits until no other is left.
    finishing: *mut Thread,
    upcalls_top: u64,
    port: Port,
    timer: Timer,
    quantum: Duration,
    preemptions: u64,
}

/// Runs threads on a virtual processor: first this one, which is told how to make others, then all until the last has ended. While others are
/// ready, one that runs is preempted about each quantum.
///
/// # Errors
/// `NO_MEMORY`.
///
/// # Safety
/// What the threads use that is not theirs alone, and not this library's, they use in [`Threads::quietly`]: the allocator, the streams of
/// `std`, locks, thread-locals. Their stacks of 64 KiB are enough for them.
pub unsafe fn run<'env, T>(
    processor: &VirtualProcessor<'_>,
    quantum: Duration,
    first: impl FnOnce(&Threads<'env>) -> T,
) -> Result<T> {
    let (port, timer) = (Port::create()?, Timer::create(0)?);
    processor.handle().bind(&port)?;
    let events = processor.events();
    let mut upcalls = vec![0; UPCALLS_STACK];
    let mut thread = Thread::new(Box::default());
    let state = State {
        current: &raw mut *thread,
        ready: Queue::new(),
        ended: Queue::new(),
        alive: 0,
        finishing: ptr::null_mut(),
        upcalls_top: 0,
        port,
        timer,
        quantum,
        preemptions: 0,
    };
    let threads = Threads { inner: Inner { events, state: UnsafeCell::new(state) }, env: PhantomData };
    let inner = &raw const threads.inner;
    thread.threads = inner;
    events.set_vectors(&raw mut thread.vectors);
    // SAFETY: the stack and all else is there until events are disabled for good, by what `ending` does below.
    let top = unsafe { events.set_handler(&mut upcalls, switch::upcall, inner.cast_mut().cast()) };
    threads.inner.state().upcalls_top = top;
    threads.inner.state().set_timer();
    let ending = Ending(&threads.inner);
    threads.inner.enable();
    let result = first(&threads);
    drop(ending);
    Ok(result)
}

/// Lets all threads come to their end, and disables events.
struct Ending<'i>(&'i Inner);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let Ending(inner) = *self;
        inner.events.disable();
        let state = inner.state();
        if state.alive > 0 {
            state.finishing = state.current;
            inner.block();
        }
        // An event that was meant for the threads is nobody's.
        inner.events.take();
        let _ = inner.state().timer.cancel();
        while let Some(ended) = inner.state().ended.pop() {
            // SAFETY: made by `spawn`, and in no other queue.
            drop(unsafe { Box::from_raw(ended) });
        }
    }
}

impl<'env> Threads<'env> {
    /// Makes a thread, which may be preempted at any instruction, as all are.
    ///
    /// # Panics
    /// Without memory.
    pub fn spawn(&self, body: impl FnOnce(&Threads<'env>) + Send + 'env) {
        self.quietly(|| {
            let mut body = Some(body);
            let body: Box<dyn FnMut(*const ()) + 'env> = Box::new(move |threads: *const ()| {
                // SAFETY: what `begun` gives, which lives until all threads have ended.
                let threads = unsafe { &*threads.cast::<Threads<'env>>() };
                body.take().into_iter().for_each(|body| body(threads));
            });
            // SAFETY: it is run before `run` returns, which is before 'env is over.
            let body = unsafe { core::mem::transmute::<Box<dyn FnMut(*const ()) + 'env>, Body>(body) };
            let state = self.inner.state();
            let thread = state.ended.pop().unwrap_or_else(|| Box::into_raw(Thread::new(vec![0; STACK].into())));
            state.alive += 1;
            // SAFETY: it is in no queue, and nobody else's.
            unsafe { (*thread).prepare(&self.inner, body) };
            state.ready.push(thread);
        });
    }

    /// Lets another thread run that is ready, if there is one; this one comes behind all others.
    #[inline]
    pub fn yield_now(&self) {
        let inner = &self.inner;
        inner.events.disable();
        let state = inner.state();
        if let Some(next) = state.ready.pop() {
            state.ready.push(state.current);
            inner.switch(next);
        }
        inner.enable();
    }

    /// Does something in which no thread is preempted: it does not wait for any.
    #[inline]
    pub fn quietly<T>(&self, what: impl FnOnce() -> T) -> T {
        let events = self.inner.events;
        if !events.are_enabled() {
            return what();
        }
        events.disable();
        let result = what();
        self.inner.enable();
        result
    }

    /// How often a thread was preempted.
    pub fn preemptions(&self) -> u64 {
        self.quietly(|| self.inner.state().preemptions)
    }
}

impl Thread {
    fn new(stack: Box<[u128]>) -> Box<Thread> {
        Box::new(Thread {
            registers: ptr::null(),
            next: ptr::null_mut(),
            threads: ptr::null(),
            frame: [0; switch::REGISTERS],
            saved: hafnon_vproc_state_t::default(),
            vectors: Vectors::INITIAL,
            stack,
            body: None,
        })
    }

    /// Has it begin with a body when it is switched to.
    fn prepare(&mut self, threads: *const Inner, body: Body) {
        (self.threads, self.body) = (threads, Some(body));
        let this = &raw mut *self;
        let words = self.stack.as_mut_ptr_range().end.cast::<u64>();
        // SAFETY: the top of its stack.
        let registers = unsafe { words.sub(switch::REGISTERS) };
        // SAFETY: the same; nobody else knows it.
        unsafe { registers.cast::<[u64; switch::REGISTERS]>().write(switch::first(switch::begin, this, 0)) };
        self.registers = registers;
    }
}

impl Inner {
    /// The state; for who has disabled events, until something is switched to.
    #[inline(always)]
    #[allow(clippy::mut_from_ref, reason = "events are disabled, so nobody else has one")]
    fn state(&self) -> &mut State {
        // SAFETY: one thread of the system's, upcalls are disabled, and no caller keeps it over a switch.
        unsafe { &mut *self.state.get() }
    }

    /// Enables events, and takes one that is pending.
    #[inline(always)]
    fn enable(&self) {
        if self.events.enable() {
            self.taken_here();
        }
    }

    /// An event was found pending when events were enabled.
    #[cold]
    #[inline(never)]
    fn taken_here(&self) {
        loop {
            self.events.disable();
            if self.look()
                && let Some(next) = self.state().ready.pop()
            {
                let state = self.state();
                state.ready.push(state.current);
                state.preemptions += 1;
                self.switch(next);
            }
            if !self.events.enable() {
                return;
            }
        }
    }

    /// Goes on with another thread; returns when this one is gone on with.
    #[inline(always)]
    fn switch(&self, next: *mut Thread) {
        let current = self.becomes(next);
        // SAFETY: both are threads; the one that runs is left in no place but here, the other in one that it can go on from.
        unsafe { switch::switch(current, next) };
    }

    /// Another thread is the one that runs. Gives the one that was.
    #[inline(always)]
    fn becomes(&self, next: *mut Thread) -> *mut Thread {
        let current = core::mem::replace(&mut self.state().current, next);
        // SAFETY: a place in it.
        self.events.set_vectors(unsafe { &raw mut (*next).vectors });
        current
    }

    /// Lets others run until this thread, which is in no queue or in one that somebody will take it from, is ready and its turn has come.
    fn block(&self) {
        let current = self.state().current;
        let next = loop {
            if let Some(next) = self.state().ready.pop() {
                break next;
            }
            self.events.wait();
            self.look();
        };
        if next != current {
            self.switch(next);
        }
    }

    /// Takes an event, if there is one. Says whether a thread has had its time.
    fn look(&self) -> bool {
        if !self.events.take() {
            return false;
        }
        let state = self.state();
        let (mut tick, mut fired) = (false, false);
        while let Ok(packet) = state.port.wait(MonotonicInstant::ZERO) {
            tick |= packet.key == TICK;
            fired |= packet.type_ == ZX_PKT_TYPE_SIGNAL_ONE;
        }
        if fired {
            state.set_timer();
        }
        tick
    }

    /// A thread has run to its end; events are disabled.
    fn end(&self) -> ! {
        let state = self.state();
        state.alive -= 1;
        state.ended.push(state.current);
        if state.alive == 0 && !state.finishing.is_null() {
            state.ready.push(state.finishing);
        }
        self.block();
        // Nobody takes it from among the ended but for another life, which begins anew.
        unreachable!()
    }
}

impl State {
    /// The next preemption. Without memory for it the threads run on, until something else lets others run.
    fn set_timer(&self) {
        let set = self.timer.set(MonotonicInstant::after(self.quantum), Duration::from_nanos(0));
        let _ = set.and_then(|()| self.timer.wait_async(&self.port, TICK, Signals::TIMER_SIGNALED, 0));
    }
}

const _: () = assert!(offset_of!(Thread, registers) == 0);
const _: () = assert!(offset_of!(Threads<'static>, inner) == 0);
