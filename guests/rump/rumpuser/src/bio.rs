//! Block I/O: a thread of the kernel's own carries out requests, one after the other.

use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};

use rump_logic::bio::{self, Operation};
use rump_logic::error::{EAGAIN, EIO};
use rump_logic::{BioQueue, Condition, Futex};

use crate::arch::current;
use crate::locks::{Futexes, Locked};
use crate::{c, kernel, threads};

/// The kernel's function that learns the result: its argument, bytes, error.
type Done = unsafe extern "C" fn(*mut c_void, usize, c_int);

#[derive(Clone, Copy)]
struct Request {
    fd: c_int,
    /// What to do, or why nothing is done.
    operation: Result<Operation, c_int>,
    data: *mut c_void,
    len: usize,
    offset: i64,
    done: Done,
    arg: *mut c_void,
}

// SAFETY: the pointers are the kernel's: to memory that it leaves alone until the request is done, and an argument for the
// kernel.
unsafe impl Send for Request {}

struct State {
    queue: BioQueue<Request>,
    has_worker: bool,
}

static STATE: Locked<State> = Locked::new(State { queue: BioQueue::new(), has_worker: false });
/// A request has come.
static WORK: Condition = Condition::new();
/// There is room for one.
static ROOM: Condition = Condition::new();
/// The kernel's thread that carries out requests.
static WORKER: AtomicUsize = AtomicUsize::new(0);

/// Repeats `try_it` with the lock until it gives something, and sleeps in between.
fn until<T>(condition: &Condition, mut try_it: impl FnMut(&mut State) -> Option<T>) -> T {
    loop {
        let tried = STATE.with(|state| try_it(state).ok_or_else(|| condition.ticket()));
        match tried {
            Ok(found) => return found,
            Err(ticket) => {
                let _ = condition.sleep::<Futexes>(ticket, Futexes::FOREVER);
                condition.leave();
            }
        }
    }
}

/// Begins a transfer. The kernel's function `done` learns its end, from a thread with a rump CPU, and wrong arguments,
/// too. If too many requests wait, so does this call, without the rump CPU.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_bio(
    fd: c_int,
    operation: c_int,
    data: *mut c_void,
    len: usize,
    offset: i64,
    done: Done,
    arg: *mut c_void,
) {
    let operation = bio::operation(operation, len, offset);
    let request = Request { fd, operation, data, len, offset, done, arg };
    let has_worker = STATE.with(|state| core::mem::replace(&mut state.has_worker, true));
    if !has_worker && threads::start(work, ptr::null_mut(), ptr::null(), false).is_err() {
        STATE.with(|state| state.has_worker = false);
        refuse(&request);
        // Other threads may have counted on that one.
        while let Some(other) = STATE.with(|state| state.queue.pop()) {
            ROOM.signal::<Futexes>();
            refuse(&other);
        }
        return;
    }
    if STATE.with(|state| state.queue.push(request).is_err()) {
        // The worker is in `done` of an earlier request, and nobody else makes room.
        if current() == WORKER.load(Ordering::Relaxed) {
            let (moved, error) = kernel::outside(|| carry_out(&request));
            // SAFETY: the kernel's function and argument; the caller has a rump CPU.
            return unsafe { done(arg, moved, error) };
        }
        kernel::outside(|| until(&ROOM, |state| state.queue.push(request).ok()));
    }
    WORK.signal::<Futexes>();
}

/// Answers a request that nobody carries out. The caller has a rump CPU, as the worker has.
fn refuse(request: &Request) {
    // SAFETY: the kernel's function and argument.
    unsafe { (request.done)(request.arg, 0, EAGAIN) };
}

/// The thread.
unsafe extern "C" fn work(_: *mut c_void) -> *mut c_void {
    let error = kernel::become_thread();
    if error != 0 {
        c::die("the kernel has no thread for block I/O");
    }
    loop {
        let request = until(&WORK, |state| state.queue.pop());
        ROOM.signal::<Futexes>();
        let (moved, error) = carry_out(&request);
        kernel::take(kernel::NO_LOCKS, ptr::null_mut());
        WORKER.store(current(), Ordering::Relaxed);
        // SAFETY: the kernel's function and argument; the thread is one of the kernel's and has a rump CPU.
        unsafe { (request.done)(request.arg, moved, error) };
        kernel::release(ptr::null_mut());
    }
}

/// Moves all bytes, or as many as there are; returns their number and an error.
fn carry_out(request: &Request) -> (usize, c_int) {
    let operation = match request.operation {
        Ok(operation) => operation,
        Err(error) => return (0, error),
    };
    let mut moved = 0;
    while moved < request.len {
        // SAFETY: inside of the caller's memory, which is the request's until it is done.
        let place = unsafe { request.data.byte_add(moved) };
        let (rest, offset) = (request.len - moved, request.offset.saturating_add_unsigned(moved as u64));
        // SAFETY: as above.
        let result = unsafe {
            match operation {
                Operation::Read => c::pread(request.fd, place, rest, offset),
                Operation::Write { .. } => c::pwrite(request.fd, place, rest, offset),
            }
        };
        match usize::try_from(result) {
            Ok(0) if operation == Operation::Read => break,
            Ok(0) => return (moved, EIO),
            Ok(count) => moved += count.min(rest),
            Err(_) => return (moved, c::last_error()),
        }
    }
    // SAFETY: no memory involved.
    if operation == (Operation::Write { through: true }) && unsafe { c::fsync(request.fd) } != 0 {
        return (moved, c::last_error());
    }
    (moved, 0)
}
