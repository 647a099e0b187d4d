//! Signals as in the C standard: those that a program raises itself, and SIGCHLD.
//!
//! No other signal comes from outside: no process sends one, and no fault or timer causes one. `raise` calls the
//! program's handler, or performs the default action, before it returns. A thread of this library delivers SIGCHLD
//! ([`children`](crate::children)); no call of another thread ends early for it (`EINTR`). Functions that would need a signal to reach another
//! thread, or to wait for one, fail with `ENOSYS`, so that a program that depends on them notices.

use core::ffi::c_long;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::c::{__c_ignore_children, __c_wait_status};
use crate::children;
use crate::errno::{self, EINVAL, ENOSYS, ESRCH};
use crate::exit;
use crate::lock::Lock;
use crate::thread::{self, Thread};

/// Number of bits of a `sigset_t` in use; the structure is larger.
const SIGNALS: i32 = 64;

/// Size of a `sigset_t` in words.
const WORDS: usize = 16;

/// A set of signals, as C programs hold it.
#[repr(C)]
pub struct SignalSet {
    words: [u64; WORDS],
}

/// The mask that `sigprocmask` and `pthread_sigmask` set: one for the whole process, because no signal is specific to a
/// thread.
static MASK: AtomicU64 = AtomicU64::new(0);

/// Three numbers below `SIGRTMIN` that C libraries reserve; programs cannot use them as signals.
const RESERVED: core::ops::RangeInclusive<i32> = 32..=34;

/// All signals.
const EVERY: u64 = !(0b111 << 31);

fn bit(signal: i32) -> Option<u64> {
    ((1..=SIGNALS).contains(&signal) && !RESERVED.contains(&signal)).then(|| 1 << (signal - 1))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigemptyset(set: *mut SignalSet) -> i32 {
    // SAFETY: the caller's set, by contract.
    unsafe { (*set).words = [0; WORDS] };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigfillset(set: *mut SignalSet) -> i32 {
    // SAFETY: as above.
    unsafe { (*set).words = [0; WORDS] };
    // SAFETY: as above.
    unsafe { (*set).words[0] = EVERY };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaddset(set: *mut SignalSet, signal: i32) -> i32 {
    let Some(bit) = bit(signal) else { return errno::fail(EINVAL) };
    // SAFETY: as above.
    unsafe { (*set).words[0] |= bit };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigdelset(set: *mut SignalSet, signal: i32) -> i32 {
    let Some(bit) = bit(signal) else { return errno::fail(EINVAL) };
    // SAFETY: as above.
    unsafe { (*set).words[0] &= !bit };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigismember(set: *const SignalSet, signal: i32) -> i32 {
    let Some(bit) = bit(signal) else { return errno::fail(EINVAL) };
    // SAFETY: as above.
    i32::from(unsafe { (*set).words[0] } & bit != 0)
}

/// `struct sigaction`: the action for a signal.
#[repr(C)]
pub struct Action {
    handler: usize,
    mask: SignalSet,
    flags: i32,
    restorer: usize,
}

/// This library's copy of an action.
#[derive(Clone, Copy)]
struct SavedAction {
    handler: usize,
    mask: u64,
    flags: i32,
}

impl SavedAction {
    /// Replaces the action for a signal. The caller has the lock of all actions.
    fn set(&mut self, signal: i32, new: SavedAction) {
        *self = new;
        if signal == SIGCHLD {
            __c_ignore_children(new.handler == IGNORE || new.flags & NO_ZOMBIES != 0);
        }
    }
}

const DEFAULT: usize = 0;
const IGNORE: usize = 1;
/// `SA_NOCLDWAIT`
const NO_ZOMBIES: i32 = 2;
const WITH_INFORMATION: i32 = 4;
const RESTART: i32 = 0x1000_0000;
const NOT_BLOCKED: i32 = 0x4000_0000;
const ONCE: i32 = 0x8000_0000_u32 as i32;

static ACTIONS: Lock<[SavedAction; SIGNALS as usize]> =
    Lock::new([SavedAction { handler: DEFAULT, mask: 0, flags: 0 }; SIGNALS as usize]);
/// Signals that were raised while they were blocked.
static PENDING: AtomicU64 = AtomicU64::new(0);

const ABORT: i32 = 6;
/// A child has ended.
pub const SIGCHLD: i32 = 17;
const KILL: i32 = 9;
const TERMINATE: i32 = 15;

fn index(signal: i32) -> usize {
    (signal - 1) as usize
}

/// What `siginfo_t` says of a signal.
#[derive(Clone, Copy)]
struct Cause {
    /// `si_code`
    code: i32,
    process: i32,
    status: i32,
}

/// The last child that has ended, until a handler learns of it.
static CHILD: Lock<Option<Cause>> = Lock::new(None);

/// Delivers SIGCHLD for a child with this koid and return code.
pub fn child_ended(koid: u64, code: i64) {
    const EXITED: i32 = 1;
    const KILLED: i32 = 2;
    let told = __c_wait_status(code);
    let (code, status) = if told & 0x7f != 0 { (KILLED, told & 0x7f) } else { (EXITED, told >> 8 & 0xff) };
    *CHILD.lock() = Some(Cause { code, process: (koid & 0x7fff_ffff) as i32, status });
    let bit = 1 << index(SIGCHLD);
    PENDING.fetch_or(bit, Ordering::SeqCst);
    // Another thread may unblock the signal now; one of both takes it. The mask stays as it is: other threads may change
    // it while the handler runs, and this thread delivers one signal at a time.
    if MASK.load(Ordering::SeqCst) & bit == 0 && PENDING.fetch_and(!bit, Ordering::SeqCst) & bit != 0 {
        act(SIGCHLD, |_| {});
    }
}

/// Performs a signal's action now, on the calling thread.
fn deliver(signal: i32) -> i32 {
    let Some(bit) = bit(signal) else { return errno::fail(EINVAL) };
    let before = MASK.load(Ordering::Relaxed);
    if before & bit != 0 && signal != KILL {
        PENDING.fetch_or(bit, Ordering::SeqCst);
        return 0;
    }
    let done = act(signal, |kept| {
        let itself = if kept.flags & NOT_BLOCKED != 0 { 0 } else { bit };
        MASK.fetch_or(kept.mask | itself, Ordering::Relaxed);
    });
    set_mask(before);
    done
}

/// Performs a signal's action. Calls `block` before a handler of the program.
fn act(signal: i32, block: impl FnOnce(&SavedAction)) -> i32 {
    let kept = {
        let mut actions = ACTIONS.lock();
        let entry = &mut actions[index(signal)];
        let kept = *entry;
        if kept.flags & ONCE != 0 {
            entry.handler = DEFAULT;
        }
        kept
    };
    match kept.handler {
        DEFAULT => return by_default(signal),
        IGNORE => return 0,
        _ => {}
    }
    block(&kept);
    // SAFETY: the program's own function, of the type that its flags say.
    unsafe {
        if kept.flags & WITH_INFORMATION != 0 {
            let child = if signal == SIGCHLD { CHILD.lock().take() } else { None };
            // Raised by a thread.
            let raised = || Cause { code: -6, process: crate::system::getpid(), status: 0 };
            let cause = child.unwrap_or_else(raised);
            // `siginfo_t`: number, error, code, sender, user, status.
            let mut information = [0i32; 32];
            (information[0], information[2]) = (signal, cause.code);
            (information[4], information[6]) = (cause.process, cause.status);
            let handler: extern "C" fn(i32, *mut i32, *mut u8) = core::mem::transmute(kept.handler);
            handler(signal, information.as_mut_ptr(), core::ptr::null_mut());
        } else {
            let handler: extern "C" fn(i32) = core::mem::transmute(kept.handler);
            handler(signal);
        }
    }
    0
}

/// Sets the mask, and delivers pending signals that are not blocked: another thread may block them meanwhile.
fn set_mask(mask: u64) {
    MASK.store(mask, Ordering::SeqCst);
    while let ready @ 1.. = PENDING.load(Ordering::SeqCst) & !MASK.load(Ordering::SeqCst) {
        let bit = 1 << ready.trailing_zeros();
        if PENDING.fetch_and(!bit, Ordering::SeqCst) & bit != 0 {
            deliver(ready.trailing_zeros() as i32 + 1);
        }
    }
}

fn by_default(signal: i32) -> i32 {
    match signal {
        // SIGCHLD, SIGCONT, SIGURG, SIGWINCH: ignored by default.
        17 | 18 | 23 | 28 => 0,
        // A process cannot stop itself and wait for another process to continue it.
        19..=22 => errno::fail(ENOSYS),
        // Signals that report a fault.
        3..=8 | 11 | 24 | 25 | 31 => exit::crash(),
        _ => exit::_exit(128 + signal),
    }
}

/// Runs the program's handler for SIGABRT before the process aborts.
pub fn before_abort() {
    if ACTIONS.lock()[index(ABORT)].handler > IGNORE {
        MASK.fetch_and(!(1 << index(ABORT)), Ordering::Relaxed);
        deliver(ABORT);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaction(signal: i32, new: *const Action, old: *mut Action) -> i32 {
    if bit(signal).is_none() || (!new.is_null() && matches!(signal, KILL | 19)) {
        return errno::fail(EINVAL);
    }
    // SAFETY: null, or the caller's object.
    let handles = unsafe { new.as_ref() }.is_some_and(|new| new.handler > IGNORE);
    if signal == SIGCHLD
        && handles
        && let Err(error) = children::watch()
    {
        return errno::fail(error);
    }
    let mut actions = ACTIONS.lock();
    let entry = &mut actions[index(signal)];
    let before = *entry;
    // SAFETY: null, or the caller's objects.
    unsafe {
        if let Some(new) = new.as_ref() {
            entry.set(signal, SavedAction { handler: new.handler, mask: new.mask.words[0], flags: new.flags });
        }
        if !old.is_null() {
            let mut mask = SignalSet { words: [0; WORDS] };
            mask.words[0] = before.mask;
            old.write(Action { handler: before.handler, mask, flags: before.flags, restorer: 0 });
        }
    }
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn signal(signal: i32, handler: usize) -> usize {
    if bit(signal).is_none() || matches!(signal, KILL | 19) {
        return errno::fail(EINVAL) as usize;
    }
    if signal == SIGCHLD
        && handler > IGNORE
        && handler != usize::MAX
        && let Err(error) = children::watch()
    {
        return errno::fail(error) as usize;
    }
    let mut actions = ACTIONS.lock();
    let entry = &mut actions[index(signal)];
    let before = entry.handler;
    entry.set(signal, SavedAction { handler, mask: 0, flags: RESTART });
    before
}

#[unsafe(no_mangle)]
pub extern "C" fn raise(signal: i32) -> i32 {
    deliver(signal)
}

/// Sends a signal: to this process, like [`raise`]; to a child of `posix_spawn`, only to kill it.
#[unsafe(no_mangle)]
pub extern "C" fn kill(process: i32, signal: i32) -> i32 {
    if process == crate::system::getpid() {
        return if signal == 0 { 0 } else { deliver(signal) };
    }
    // SAFETY: the arguments are numbers.
    let ended = |really: bool| match unsafe { crate::c::__c_kill_child(process, really) } {
        true => 0,
        false => errno::fail(ESRCH),
    };
    match signal {
        0 => ended(false),
        KILL | TERMINATE => ended(true),
        _ => errno::fail(ENOSYS),
    }
}

/// Sends a signal to the calling thread, like [`raise`]; other threads cannot be reached.
#[unsafe(no_mangle)]
pub extern "C" fn pthread_kill(thread: *mut Thread, signal: i32) -> i32 {
    match signal {
        0 => 0,
        _ if bit(signal).is_none() => EINVAL,
        _ if thread == thread::current() => {
            deliver(signal);
            0
        }
        _ => ENOSYS,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn sigaltstack(_new: *const u8, _old: *mut u8) -> i32 {
    errno::fail(ENOSYS)
}

/// The signals that were raised while they were blocked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigpending(set: *mut SignalSet) -> i32 {
    // SAFETY: the caller's set, by contract.
    unsafe {
        sigemptyset(set);
        (*set).words[0] = PENDING.load(Ordering::Relaxed);
    }
    0
}

/// `sigsetjmp` and `siglongjmp` read and set the mask through this function.
#[unsafe(no_mangle)]
unsafe extern "C" fn __on_SYS_rt_sigprocmask(
    how: i32,
    new: *const SignalSet,
    old: *mut [u64; 1],
    _size: usize,
) -> c_long {
    let mut before = SignalSet { words: [0; WORDS] };
    // SAFETY: a jump buffer holds 64 bits of a mask; this reads and writes no more.
    unsafe {
        if !old.is_null() {
            pthread_sigmask(how, core::ptr::null(), &mut before);
            (*old)[0] = before.words[0];
        }
        c_long::from(-pthread_sigmask(how, new, core::ptr::null_mut()))
    }
}

/// Changes the mask; returns an error number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_sigmask(how: i32, new: *const SignalSet, old: *mut SignalSet) -> i32 {
    let before = MASK.load(Ordering::Relaxed);
    let mut changed = None;
    if !new.is_null() {
        // SAFETY: the caller's set, by contract.
        let given = unsafe { (*new).words[0] };
        let after = match how {
            0 => before | given,
            1 => before & !given,
            2 => given,
            _ => return EINVAL,
        };
        changed = Some(after);
    }
    if !old.is_null() {
        // SAFETY: as above.
        unsafe { sigemptyset(old) };
        // SAFETY: as above.
        unsafe { (*old).words[0] = before };
    }
    if let Some(mask) = changed {
        set_mask(mask);
        let child = 1 << index(SIGCHLD);
        if mask & !before & child != 0 {
            children::finish();
        }
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigprocmask(how: i32, new: *const SignalSet, old: *mut SignalSet) -> i32 {
    // SAFETY: the caller guarantees the conditions of `pthread_sigmask`.
    match unsafe { pthread_sigmask(how, new, old) } {
        0 => 0,
        error => errno::fail(error),
    }
}
