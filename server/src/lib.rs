//! The server: Zircon's system calls on any [`Machine`].
//!
//! A call arrives as a thread's number, the call's number and up to eight words ([`Server::call`]). The generated
//! [`dispatch`] turns the words into typed arguments and calls the function of that name in [`syscalls`]. That function
//! checks handles, rights and memory in Zircon's order, and lets [`objects`] do the work. The answer is a result or
//! "blocked". After "blocked", the event that ends the wait passes the result to [`Threads::thread_wake`](objects::machine::Threads::thread_wake).
//!
//! This library does not depend on seL4; only the binary beside it does.
#![no_std]
#![forbid(unsafe_code)]
// No input of a program may stop the system.
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
mod long_call;
mod page_wait;
mod policy;
mod start;
pub mod syscalls;
pub mod user;

use abi::{Memory, Status};
use objects::Kernel;
use objects::containers::failure_injection;
use objects::core::continuation::PAGE_WAIT;
use objects::core::continuation::{CALL_CONTINUES, Progress};
use objects::machine::{Fault, IrqKey, Machine, ThreadKey};

pub use start::{Boot, StartError};

/// How the machine answers a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The call is over, with this result.
    Done(i64),
    /// The call is over with `ZX_OK`, and other ready threads run first.
    Yield,
    /// The thread waits. [`Threads::thread_wake`](objects::machine::Threads::thread_wake) delivers the result later.
    Blocked,
    /// The fault has been served: the thread repeats the instruction.
    Resume,
    /// No answer: the thread has ended, or stays stopped.
    Nothing,
}

/// A Zircon system.
pub struct Server<M: Machine> {
    /// Its kernel objects.
    pub kernel: Kernel<M>,
}

impl<M: Machine> Server<M> {
    /// A thread made a system call. `args` are its first four words. The caller must call [`Server::settle`]
    /// afterwards.
    #[inline]
    pub fn call(&mut self, thread: ThreadKey, number: u32, args: &[u64; 4]) -> Answer {
        let Some(mut cx) = cx::Cx::new(&mut self.kernel, thread) else {
            return long_call::resume(&mut self.kernel, thread, number, args);
        };
        if cx.kernel.machine.fast_path_allowed() {
            make(&mut cx, number, args)
        } else {
            call_slow_path(&mut cx, number, args)
        }
    }

    /// A fault stopped a thread.
    pub fn fault(&mut self, thread: ThreadKey, fault: Fault) -> Answer {
        let answer = if self.kernel.failure_plan_is_set() {
            self.kernel.failure_plan_arm(thread.0);
            let answer = fault::handle(&mut self.kernel, thread, fault);
            failure_injection::arm(false);
            answer
        } else {
            fault::handle(&mut self.kernel, thread, fault)
        };
        self.settle();
        answer
    }

    /// The time set by [`Time::set_deadline`](objects::machine::Time::set_deadline) may have passed.
    pub fn timer(&mut self) {
        self.kernel.expire();
        self.settle();
    }

    /// A watched interrupt ([`Interrupts::irq_open`](objects::machine::Interrupts::irq_open)) arrived at time `timestamp`, as in [`Time::now`](objects::machine::Time::now).
    pub fn interrupt(&mut self, key: IrqKey, timestamp: i64) {
        self.kernel.interrupt(key, timestamp);
        self.settle();
    }

    /// Native components have ended, one bit for each.
    pub fn components_ended(&mut self, components: u64) {
        self.kernel.components_ended(components);
        self.settle();
    }

    /// Native components wait to become clients, one bit for each.
    pub fn components_join(&mut self, components: u64) {
        for number in (0..u64::BITS as u8).filter(|number| components >> number & 1 != 0) {
            // The same reserve as before a call.
            if self.kernel.heap_reserve().is_err() {
                self.kernel.machine.component_refuse(number);
            } else {
                component::join(&mut self.kernel, number);
                self.settle();
            }
        }
    }

    /// The host link has bytes to read, or room to write.
    pub fn serial(&mut self) {
        self.kernel.serial_ready();
        self.settle();
    }

    /// Carries out the work that the handled event has deferred. Returns whether there was any; if not, the event has
    /// not ended a wait either.
    #[inline]
    pub fn settle(&mut self) -> bool {
        let unsettled = self.kernel.is_unsettled();
        if unsettled && self.kernel.settling() {
            self.settle_now();
        }
        unsettled
    }

    /// As [`Server::settle`] after a call. Returns the call's answer, which the remaining work may delay, and whether
    /// there was work.
    #[inline]
    pub fn settle_call(&mut self, thread: ThreadKey, number: u32, answer: Answer) -> (Answer, bool) {
        let left = self.settle();
        (if left { self.ended(thread, number, answer) } else { answer }, left)
    }

    /// The answer to a call that has deferred work.
    #[cold]
    #[inline(never)]
    fn ended(&mut self, thread: ThreadKey, number: u32, answer: Answer) -> Answer {
        let answer = long_call::finish(&mut self.kernel, thread, number, answer);
        if !self.kernel.upcall_is_requested() {
            return answer;
        }
        let result = match answer {
            Answer::Done(result) => Some(result),
            Answer::Yield => Some(i64::from(Status::OK.0)),
            Answer::Blocked | Answer::Resume | Answer::Nothing => None,
        };
        if self.kernel.upcall_at_return(thread.0, result) { Answer::Nothing } else { answer }
    }

    #[inline(never)]
    fn settle_now(&mut self) {
        self.kernel.failure_plan_reap(Kernel::reap);
        if self.kernel.page_waits_done() {
            page_wait::resume(&mut self.kernel);
        }
    }
}

/// Makes a call and applies its caller's policy.
#[inline(always)]
fn make<M: Machine>(cx: &mut cx::Cx<'_, M>, number: u32, args: &[u64; 4]) -> Answer {
    match dispatch::dispatch(cx, number, args) {
        answer @ (Answer::Done(0..) | Answer::Blocked) if cx.offence.is_none() => answer,
        answer => unusual(cx, number, args, answer),
    }
}

/// The slow path before a call: memory is short, a failure injection plan is set, or calls are traced.
#[cold]
#[inline(never)]
fn call_slow_path<M: Machine>(cx: &mut cx::Cx<'_, M>, number: u32, args: &[u64; 4]) -> Answer {
    if cx.kernel.failure_plan_is_set() {
        cx.kernel.failure_plan_arm(cx.thread.object().index());
    }
    cx.kernel.reap_if_short();
    let answer = match has_memory(cx.kernel, number) {
        false => refuse_no_memory(cx, number, args),
        true if cx.kernel.trace_is_on() => traced(cx, number, args),
        true => make_here(cx, number, args),
    };
    failure_injection::arm(false);
    answer
}

/// Makes a saved call again, from its start or from where it stopped.
fn restart_call<M: Machine>(
    kernel: &mut Kernel<M>,
    key: ThreadKey,
    number: u32,
    args: [u64; 8],
    progress: Option<Progress>,
) -> Answer {
    let Some(mut cx) = cx::Cx::new(kernel, key) else { return Answer::Nothing };
    let [a, b, c, d, e, f, g, h] = args;
    cx.extra = Some([e, f, g, h]);
    cx.restarted = true;
    cx.progress = progress;
    let first = [a, b, c, d];
    if has_memory(cx.kernel, number) {
        make_here(&mut cx, number, &first)
    } else {
        refuse_no_memory(&mut cx, number, &first)
    }
}

/// The answer to a call for which there is not enough memory. If the call consumes a handle regardless of its result,
/// the caller loses the handle here as well.
fn refuse_no_memory<M: Machine>(cx: &mut cx::Cx<'_, M>, number: u32, args: &[u64; 4]) -> Answer {
    if let Some(call) = abi::syscall(number).filter(|call| call.args.iter().any(|arg| arg.consumed)) {
        let [a, b, c, d] = *args;
        let [e, f, g, h] = if call.args.len() > args.len() { cx.extra_args() } else { [0; 4] };
        syscalls::channel::consume_refused(cx, call, [a, b, c, d, e, f, g, h]);
    }
    Answer::Done(i64::from(Status::NO_MEMORY.0))
}

/// [`make`], not inlined, for calls off the fast path.
#[inline(never)]
fn make_here<M: Machine>(cx: &mut cx::Cx<'_, M>, number: u32, args: &[u64; 4]) -> Answer {
    make(cx, number, args)
}

/// Makes a call and traces it.
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

/// Handles a call that failed, waits, or violated a policy.
#[inline(never)]
fn unusual<M: Machine>(cx: &mut cx::Cx<'_, M>, number: u32, args: &[u64; 4], answer: Answer) -> Answer {
    match answer {
        // The call will be made again, and the policy applied then.
        Answer::Done(result) if result == i64::from(PAGE_WAIT.0) => page_wait::wait(cx, number, *args),
        Answer::Done(result) if result == i64::from(CALL_CONTINUES.0) => long_call::save(cx, number, *args),
        _ if policy::may_have_offended(cx, answer) => policy::judge(cx, number, *args, answer),
        _ => answer,
    }
}

/// Whether there is enough memory for a call, so that it cannot fail halfway. When the reserve is used up, calls that
/// create or queue something fail. Calls that keep no new memory continue while the last memory lasts, so a program
/// that uses up the memory only keeps others from creating more. Calls that free memory always pass.
fn has_memory<M: Machine>(kernel: &mut Kernel<M>, number: u32) -> bool {
    kernel.heap_reserve().is_ok() || reap_for_reserve(kernel) || without_reserve(kernel, number)
}

/// Runs the reaper until there is a reserve. Returns whether there is one.
#[cold]
#[inline(never)]
fn reap_for_reserve<M: Machine>(kernel: &mut Kernel<M>) -> bool {
    while kernel.reaper_slice() {
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
        Some(Memory::None) => kernel.machine.heap_last_reserve(),
        Some(Memory::Keeps) | None => false,
    }
}
