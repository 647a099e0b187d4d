//! Where the parts of a thread's memory are, and what separates them.

use std::sync::mpsc;
use std::thread;

use libc_probe::pthread::{
    pthread_attr_getguardsize, pthread_attr_getstack, pthread_attr_t, pthread_getattr_np, pthread_self,
};
use libc_probe::stack::{overflow, stack_pointer, thread_pointer, unsafe_stack_pointer};

use super::asleep::joined;
use super::cases;
use crate::check::{Failure, Outcome, ensure, equal};
use crate::test_process::EXCEPTION;

cases! {
    "stack.parts.main" => parts_main,
    "stack.parts.thread" => parts_thread,
    "stack.guard.nothing_there" => guard_nothing_there,
    "stack.guard.main_overflows" => guard_main_overflows,
    "stack.guard.thread_overflows" => guard_thread_overflows,
}

/// The calling thread's stack: lowest address, size, and size of the guard below.
fn own_stack() -> Result<(usize, usize, usize), Failure> {
    let (attr, mut stack, mut size, mut guard) = (pthread_attr_t::new(), 0, 0, 0);
    equal(pthread_getattr_np(pthread_self(), &attr), 0)?;
    equal(pthread_attr_getstack(&attr, &mut stack, &mut size), 0)?;
    equal(pthread_attr_getguardsize(&attr, &mut guard), 0)?;
    Ok((stack, size, guard))
}

/// Whether memory is mapped at an address of this process.
fn mapped(address: usize) -> bool {
    zx::startup::process_self().read_memory(address, &mut [0]).is_ok()
}

/// The addresses of the parts of one thread's memory; checks that they are in the right places.
fn parts() -> Result<[usize; 3], Failure> {
    let (stack, size, _) = own_stack()?;
    let (safe, second, pointer) = (stack_pointer(), unsafe_stack_pointer(), thread_pointer());
    let own = |address: usize| stack <= address && address < stack + size;
    ensure(own(safe), "the stack is elsewhere")?;
    // Code built for two stacks puts variables whose address is taken on the second one: a buffer overflow there must
    // not reach the first.
    ensure(!own(second - 1) && !own(pointer), "the parts are not apart")?;
    equal(second % 16, 0)?;
    let value = 0_u8;
    ensure(own(std::hint::black_box(std::ptr::from_ref(&value).addr())), "a variable is not on the stack")?;
    ensure(mapped(safe) && mapped(second - 1) && mapped(pointer), "a part is not mapped")?;
    thread_local!(static VARIABLE: u8 = const { 1 });
    let variable = VARIABLE.with(|variable| std::ptr::from_ref(variable).addr());
    ensure(variable < pointer && pointer - variable < 1 << 20, "a thread-local variable is elsewhere")?;
    ensure(!own(variable), "a thread-local variable is on the stack")?;
    Ok([safe, second, pointer])
}

fn parts_main() -> Outcome {
    parts().map(drop)
}

fn parts_thread() -> Outcome {
    // The threads live at the same time, so that none reuses the memory of one that has ended.
    let (go, wait) = mpsc::channel::<()>();
    let other = thread::spawn(move || {
        let found = parts();
        let _ = wait.recv();
        found
    });
    let mine = parts()?;
    let third = joined(thread::spawn(parts))??;
    drop(go);
    let theirs = joined(other)??;
    let mut all = [mine, theirs, third].concat();
    all.sort_unstable();
    ensure(all.windows(2).all(|pair| pair[1] - pair[0] >= 4096), "two threads share a part")
}

fn guard_nothing_there() -> Outcome {
    let check = || -> Outcome {
        let (stack, size, guard) = own_stack()?;
        ensure(guard >= 4096, "there is no guard")?;
        ensure(mapped(stack) && mapped(stack + size - 1), "the stack is not mapped")?;
        ensure(!mapped(stack - 1) && !mapped(stack - guard), "something is below the stack")?;
        // The second stack has a guard of its own.
        ensure(!mapped(stack + size) && !mapped(stack + size + guard - 1), "something is above the stack")
    };
    check()?;
    joined(thread::spawn(check))?
}

fn guard_main_overflows() -> Outcome {
    equal(super::process::child(&["stack", "main"])?, EXCEPTION)
}

fn guard_thread_overflows() -> Outcome {
    equal(super::process::child(&["stack", "thread"])?, EXCEPTION)
}

/// Runs in a child process, which ends in it.
pub fn child(which: &str) -> i32 {
    match which {
        "main" => overflow(0) as i32,
        _ => joined(thread::spawn(|| overflow(0))).map_or(1, |depth| depth as i32),
    }
}
