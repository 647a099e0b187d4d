//! User-level threads on one virtual processor.
//!
//! All of them run on one Zircon thread, which owns the virtual processor. A switch between them enters no kernel. A
//! timer that is bound to the virtual processor preempts them ([`Threads`]). Code that must not be preempted disables
//! events, which costs one store ([`Threads::quietly`]). [`Mutex`] and [`Condition`] are built on that.
//!
//! To the server and to `std`, all of them are one thread. They share its thread-locals. If one of them blocks in a
//! system call, all of them are blocked. A lock from another library does not exclude them from each other: if a thread
//! is preempted while it holds such a lock, for example inside the allocator, the others wait for it forever. So code
//! that only one thread at a time may run must disable events.
#![no_std]

extern crate alloc;

mod arch;
mod lock;
#[cfg(feature = "probe")]
pub mod probe;
mod queue;

pub use lock::{Condition, Guard, Mutex};

use alloc::boxed::Box;
use alloc::vec;
use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::mem::offset_of;
use core::ptr;

use abi::{ZX_PKT_TYPE_SIGNAL_ONE, hafnon_vproc_state_t};
use zx::{AsHandleRef, Duration, Events, MonotonicInstant, Port, Result, Signals, Timer, Vectors, VirtualProcessor};

use arch::switch;
use queue::Queue;

/// Size of a thread's stack, in units of 16 bytes.
const STACK: usize = (64 << 10) / 16;
/// Size of the upcalls' stack, in units of 16 bytes.
const UPCALLS_STACK: usize = (16 << 10) / 16;
/// Key of the timer's packets.
const TICK: u64 = 0;

/// Body of a thread. Its argument points to the [`Threads`] that the thread belongs to.
type Body = Box<dyn FnMut(*const ())>;

/// A user-level thread.
#[repr(C)]
struct Thread {
    /// Address of its saved registers while it does not run: see [`switch`].
    registers: *const u64,
    /// The next thread in its queue.
    next: *mut Thread,
    threads: *const Inner,
    /// If it was preempted, [`Thread::registers`] points here: enough state to reach [`switch::preempted`].
    frame: [u64; switch::REGISTERS],
    /// Its state at the preemption.
    saved: hafnon_vproc_state_t,
    vectors: Vectors,
    stack: Box<[u128]>,
    body: Option<Body>,
}

/// The threads of a virtual processor, during [`run`].
pub struct Threads<'env> {
    inner: Inner,
    env: PhantomData<&'env mut &'env ()>,
}

struct Inner {
    events: Events,
    state: UnsafeCell<State>,
}

/// State that is accessed only with events disabled.
struct State {
    current: *mut Thread,
    ready: Queue,
    /// Ended threads, for reuse.
    ended: Queue,
    /// Number of threads that have not ended, without the first.
    alive: usize,
    /// The first thread, while it waits for all others to end.
    finishing: *mut Thread,
    upcalls_top: u64,
    port: Port,
    timer: Timer,
    quantum: Duration,
    preemptions: u64,
}

/// Runs threads on a virtual processor: first `first` in the calling thread, which can spawn others, then all until the
/// last has ended. While other threads are ready, the running thread is preempted after about one `quantum`.
///
/// # Errors
/// `NO_MEMORY`.
///
/// # Safety
/// The threads use all shared state that is not this library's inside [`Threads::quietly`]: the allocator, the streams
/// of `std`, locks, thread-locals. Their stacks of 64 KiB are large enough.
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
    // SAFETY: the stack and everything else exists until `ending` below disables events for good.
    let top = unsafe { events.set_handler(&mut upcalls, switch::upcall, inner.cast_mut().cast()) };
    threads.inner.state().upcalls_top = top;
    threads.inner.state().set_timer();
    let ending = Ending(&threads.inner);
    threads.inner.enable();
    let result = first(&threads);
    drop(ending);
    Ok(result)
}

/// Waits for all threads to end, and disables events.
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
        // Drop a pending event: there are no threads left to handle it.
        inner.events.take();
        let _ = inner.state().timer.cancel();
        while let Some(ended) = inner.state().ended.pop() {
            // SAFETY: `spawn` made it, and it is in no other queue.
            drop(unsafe { Box::from_raw(ended) });
        }
    }
}

impl<'env> Threads<'env> {
    /// Creates a thread. Like all threads, it can be preempted at any instruction.
    ///
    /// # Panics
    /// If there is no memory.
    pub fn spawn(&self, body: impl FnOnce(&Threads<'env>) + Send + 'env) {
        self.quietly(|| {
            let mut body = Some(body);
            let body: Box<dyn FnMut(*const ()) + 'env> = Box::new(move |threads: *const ()| {
                // SAFETY: `begun` passes this pointer; it is valid until all threads have ended.
                let threads = unsafe { &*threads.cast::<Threads<'env>>() };
                body.take().into_iter().for_each(|body| body(threads));
            });
            // SAFETY: the body runs before `run` returns, so before 'env ends.
            let body = unsafe { core::mem::transmute::<Box<dyn FnMut(*const ()) + 'env>, Body>(body) };
            let state = self.inner.state();
            let thread = state.ended.pop().unwrap_or_else(|| Box::into_raw(Thread::new(vec![0; STACK].into())));
            state.alive += 1;
            // SAFETY: the thread is in no queue, and nothing else uses it.
            unsafe { (*thread).prepare(&self.inner, body) };
            state.ready.push(thread);
        });
    }

    /// Lets another ready thread run, if there is one; the calling thread goes to the end of the queue.
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

    /// Runs `what` without preemption of the thread. `what` must not wait for other threads.
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

    /// Number of preemptions.
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

    /// Sets the body with which the thread begins at the first switch to it.
    fn prepare(&mut self, threads: *const Inner, body: Body) {
        (self.threads, self.body) = (threads, Some(body));
        let this = &raw mut *self;
        let words = self.stack.as_mut_ptr_range().end.cast::<u64>();
        // SAFETY: the words at the top of the thread's stack.
        let registers = unsafe { words.sub(switch::REGISTERS) };
        // SAFETY: the same; nothing else refers to them.
        unsafe { registers.cast::<[u64; switch::REGISTERS]>().write(switch::first(switch::begin, this, 0)) };
        self.registers = registers;
    }
}

impl Inner {
    /// The state. Only for a caller that has disabled events, and not across a switch.
    #[inline(always)]
    #[allow(clippy::mut_from_ref, reason = "events are disabled, so nobody else has one")]
    fn state(&self) -> &mut State {
        // SAFETY: there is one Zircon thread, upcalls are disabled, and no caller keeps the reference across a switch.
        unsafe { &mut *self.state.get() }
    }

    /// Enables events, and handles one that is pending.
    #[inline(always)]
    fn enable(&self) {
        if self.events.enable() {
            self.taken_here();
        }
    }

    /// Handles an event that was pending when events were enabled.
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

    /// Switches to another thread; returns when this one is resumed.
    #[inline(always)]
    fn switch(&self, next: *mut Thread) {
        let current = self.becomes(next);
        // SAFETY: both are threads. The current one is saved here, and `next` was saved in a state from which it can
        // resume.
        unsafe { switch::switch(current, next) };
    }

    /// Makes `next` the current thread; returns the previous one.
    #[inline(always)]
    fn becomes(&self, next: *mut Thread) -> *mut Thread {
        let current = core::mem::replace(&mut self.state().current, next);
        // SAFETY: a field of the thread.
        self.events.set_vectors(unsafe { &raw mut (*next).vectors });
        current
    }

    /// Runs other threads until this one is ready and its turn comes. This thread is in a queue of waiters, or in none;
    /// another thread makes it ready.
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

    /// Takes an event, if there is one. Returns whether the current thread's time slice is over.
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

    /// Ends the current thread, with events disabled.
    fn end(&self) -> ! {
        let state = self.state();
        state.alive -= 1;
        state.ended.push(state.current);
        if state.alive == 0 && !state.finishing.is_null() {
            state.ready.push(state.finishing);
        }
        self.block();
        // A thread that leaves the queue of ended threads begins anew, and does not return here.
        unreachable!()
    }
}

impl State {
    /// Sets the next preemption. If there is no memory for it, the threads run without preemption until the next set.
    fn set_timer(&self) {
        let set = self.timer.set(MonotonicInstant::after(self.quantum), Duration::from_nanos(0));
        let _ = set.and_then(|()| self.timer.wait_async(&self.port, TICK, Signals::TIMER_SIGNALED, 0));
    }
}

const _: () = assert!(offset_of!(Thread, registers) == 0);
const _: () = assert!(offset_of!(Threads<'static>, inner) == 0);
