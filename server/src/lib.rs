//! The server: Zircon's system calls over whatever [`Machine`] there is.
//!
//! A call comes in as a thread's number, the call's number and up to eight words ([`Server::call`]); the generated
//! [`dispatch`] turns the words into typed arguments and calls the function of that name in [`syscalls`], which checks
//! handles, rights and memory in Zircon's order and asks [`objects`] to do the work. The answer is a result or
//! "blocked"; in the second case whatever ends the wait hands the result to [`Machine::thread_wake`].
//!
//! This library knows nothing of seL4; the binary beside it does.
#![no_std]
#![forbid(unsafe_code)]
// Nothing that a program says may stop the system.
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, clippy::indexing_slicing)
)]

extern crate alloc;

mod component;
pub mod cx;
mod debugger;
pub mod dispatch;
mod fault;
mod paged;
mod policy;
mod portions;
mod start;
pub mod syscalls;
pub mod user;

use abi::{Memory, Status};
use objects::Kernel;
use objects::machine::{Fault, IrqKey, Machine, ThreadKey};
use objects::portions::{GOES_ON, Progress};
use objects::refusal;
use objects::vmo::PAGE_WAIT;

pub use start::{Boot, StartError};

/// What the machine is to tell a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The call is over: its result.
    Done(i64),
    /// The call is over with `ZX_OK`, and other threads that are ready come first.
    Yield,
    /// The thread waits; [`Machine::thread_wake`] brings the result.
    Blocked,
    /// The fault is dealt with: the thread repeats the instruction.
    Resume,
    /// Nothing: the thread is gone, or stays where it is.
    Nothing,
}

/// A Zircon system.
pub struct Server<M: Machine> {
    /// Its kernel objects.
    pub kernel: Kernel<M>,
}

impl<M: Machine> Server<M> {
    /// A thread made a system call; `args` are its first four words. What that leaves behind is for [`Server::settle`].
    #[inline]
    pub fn call(&mut self, thread: ThreadKey, number: u32, args: &[u64; 4]) -> Answer {
        let Some(mut cx) = cx::Cx::new(&mut self.kernel, thread) else {
            return portions::go_on(&mut self.kernel, thread, number, args);
        };
        if cx.kernel.machine.calm() { make(&mut cx, number, args) } else { attended(&mut cx, number, args) }
    }

    /// A thread was stopped by a fault.
    pub fn fault(&mut self, thread: ThreadKey, fault: Fault) -> Answer {
        let answer = if self.kernel.is_refusing() {
            self.kernel.refusal_heed(thread.0);
            let answer = fault::handle(&mut self.kernel, thread, fault);
            refusal::heed(false);
            answer
        } else {
            fault::handle(&mut self.kernel, thread, fault)
        };
        self.settle();
        answer
    }

    /// The time asked for by [`Machine::set_deadline`] may have come.
    pub fn timer(&mut self) {
        self.kernel.expire();
        self.settle();
    }

    /// An interrupt came that is being watched ([`Machine::irq_open`]); `timestamp` is when, as in [`Machine::now`].
    pub fn interrupt(&mut self, key: IrqKey, timestamp: i64) {
        self.kernel.interrupt(key, timestamp);
        self.settle();
    }

    /// Native components have ended, a bit for each.
    pub fn components_ended(&mut self, components: u64) {
        self.kernel.components_ended(components);
        self.settle();
    }

    /// Native components wait to become clients, a bit for each.
    pub fn components_join(&mut self, components: u64) {
        for number in (0..u64::BITS as u8).filter(|number| components >> number & 1 != 0) {
            // As before a call, which would make no less.
            if self.kernel.heap_reserve().is_err() {
                self.kernel.machine.component_refuse(number);
            } else {
                component::join(&mut self.kernel, number);
                self.settle();
            }
        }
    }

    /// The host link has bytes, or room.
    pub fn serial(&mut self) {
        self.kernel.serial_ready();
        self.settle();
    }

    /// Carries out what the event that has been dealt with leaves behind. Says whether there was something; if not, it
    /// has not ended a wait either.
    #[inline]
    pub fn settle(&mut self) -> bool {
        let unsettled = self.kernel.is_unsettled();
        if unsettled && self.kernel.settling() {
            self.settle_now();
        }
        unsettled
    }

    /// The same after a call: its answer, which may have to wait, and whether there was something.
    #[inline]
    pub fn settle_call(&mut self, thread: ThreadKey, number: u32, answer: Answer) -> (Answer, bool) {
        let left = self.settle();
        (if left { self.ended(thread, number, answer) } else { answer }, left)
    }

    /// The answer to a call that has left something behind.
    #[cold]
    #[inline(never)]
    fn ended(&mut self, thread: ThreadKey, number: u32, answer: Answer) -> Answer {
        let answer = portions::ended(&mut self.kernel, thread, number, answer);
        if !self.kernel.upcall_is_asked() {
            return answer;
        }
        let result = match answer {
            Answer::Done(result) => Some(result),
            Answer::Yield => Some(i64::from(Status::OK.0)),
            Answer::Blocked | Answer::Resume | Answer::Nothing => None,
        };
        if self.kernel.vproc_answered(thread.0, result) { Answer::Nothing } else { answer }
    }

    #[inline(never)]
    fn settle_now(&mut self) {
        self.kernel.refusal_of_ends(Kernel::reap);
        if self.kernel.page_waits_over() {
            paged::go_on(&mut self.kernel);
        }
    }
}

/// Makes a call and does what its caller's policy says of it.
#[inline(always)]
fn make<M: Machine>(cx: &mut cx::Cx<'_, M>, number: u32, args: &[u64; 4]) -> Answer {
    match dispatch::dispatch(cx, number, args) {
        answer @ (Answer::Done(0..) | Answer::Blocked) if cx.offence.is_none() => answer,
        answer => unusual(cx, number, args, answer),
    }
}

/// A call before which something is to be done: memory for it is short or refused by plan, or calls are traced.
#[cold]
#[inline(never)]
fn attended<M: Machine>(cx: &mut cx::Cx<'_, M>, number: u32, args: &[u64; 4]) -> Answer {
    if cx.kernel.is_refusing() {
        cx.kernel.refusal_heed(cx.thread.object().index());
    }
    cx.kernel.left_if_short();
    let answer = match has_memory(cx.kernel, number) {
        false => unmade(cx, number, args),
        true if cx.kernel.trace_is_on() => traced(cx, number, args),
        true => make_here(cx, number, args),
    };
    refusal::heed(false);
    answer
}

/// Makes a call that was noted: from its start, or from where it was.
fn again<M: Machine>(
    kernel: &mut Kernel<M>,
    key: ThreadKey,
    number: u32,
    args: [u64; 8],
    progress: Option<Progress>,
) -> Answer {
    let Some(mut cx) = cx::Cx::new(kernel, key) else { return Answer::Nothing };
    let [a, b, c, d, e, f, g, h] = args;
    cx.extra = Some([e, f, g, h]);
    cx.again = true;
    cx.progress = progress;
    let first = [a, b, c, d];
    if has_memory(cx.kernel, number) { make_here(&mut cx, number, &first) } else { unmade(&mut cx, number, &first) }
}

/// A call that is not made for want of memory. Handles that it consumes leave the caller all the same.
fn unmade<M: Machine>(cx: &mut cx::Cx<'_, M>, number: u32, args: &[u64; 4]) -> Answer {
    if let Some(call) = abi::syscall(number).filter(|call| call.args.iter().any(|arg| arg.consumed)) {
        let [a, b, c, d] = *args;
        let [e, f, g, h] = if call.args.len() > args.len() { cx.extra_args() } else { [0; 4] };
        syscalls::channel::consume_unmade(cx, call, [a, b, c, d, e, f, g, h]);
    }
    Answer::Done(i64::from(Status::NO_MEMORY.0))
}

/// [`make`] for calls that are not in a hurry.
#[inline(never)]
fn make_here<M: Machine>(cx: &mut cx::Cx<'_, M>, number: u32, args: &[u64; 4]) -> Answer {
    make(cx, number, args)
}

/// A call while calls are traced.
fn traced<M: Machine>(cx: &mut cx::Cx<'_, M>, number: u32, args: &[u64; 4]) -> Answer {
    let [a, b, c, d] = *args;
    let has_more = abi::syscall(number).is_some_and(|call| call.args.len() > args.len());
    let [e, f, g, h] = if has_more { cx.extra_args() } else { [0; 4] };
    let wanted = cx.kernel.trace_enter(cx.thread, number, [a, b, c, d, e, f, g, h]);
    let answer = make_here(cx, number, args);
    if wanted {
        let result = match answer {
            Answer::Done(result) => Some(result),
            Answer::Yield => Some(i64::from(Status::OK.0)),
            Answer::Blocked | Answer::Resume | Answer::Nothing => None,
        };
        cx.kernel.trace_leave(cx.thread, answer == Answer::Blocked, result);
    }
    answer
}

/// What becomes of a call that failed, waits, or went against a policy.
#[inline(never)]
fn unusual<M: Machine>(cx: &mut cx::Cx<'_, M>, number: u32, args: &[u64; 4], answer: Answer) -> Answer {
    match answer {
        // It will be made again, and be judged then.
        Answer::Done(result) if result == i64::from(PAGE_WAIT.0) => paged::wait(cx, number, *args),
        Answer::Done(result) if result == i64::from(GOES_ON.0) => portions::pause(cx, number, *args),
        _ if policy::may_have_offended(cx, answer) => policy::judge(cx, number, *args, answer),
        _ => answer,
    }
}

/// Whether there is the memory that a call needs, so that it cannot fail half way. When the reserve is gone, what makes
/// or queues something is refused; what keeps nothing goes on while the rest lasts, so that whoever uses the memory up
/// stops others only from making more; and what gives memory back is always let through.
fn has_memory<M: Machine>(kernel: &mut Kernel<M>, number: u32) -> bool {
    kernel.heap_reserve().is_ok() || when_less_is_left(kernel) || without_reserve(kernel, number)
}

/// Whether there is a reserve after all, when enough of what has ended has come back.
#[cold]
#[inline(never)]
fn when_less_is_left<M: Machine>(kernel: &mut Kernel<M>) -> bool {
    while kernel.left_portion() {
        if kernel.heap_reserve().is_ok() {
            return true;
        }
    }
    false
}

#[cold]
#[inline(never)]
fn without_reserve<M: Machine>(kernel: &mut Kernel<M>, number: u32) -> bool {
    match abi::syscall(number).map(|call| call.memory) {
        Some(Memory::Frees) => true,
        Some(Memory::None) => kernel.machine.heap_rest(),
        Some(Memory::Keeps) | None => false,
    }
}
