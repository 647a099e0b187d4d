//! SIGCHLD, the one signal that comes from outside: a child of this process has ended.
//!
//! A thread of this library waits for the children and delivers the signal. It exists as soon as the program has a
//! handler for SIGCHLD; until then the library keeps only the children's koids.
//!
//! 1. libfdio tells of each process that it starts ([`__libc_child_started`]); of those of `posix_spawn`, that function
//!    tells when `waitpid` knows the child, so a handler finds each child whose signal comes.
//! 2. With the first handler, [`watch`] makes a port and the thread, and the port waits for the end of the children
//!    that there are. A child that has ended before gives no signal, as without a handler.
//! 3. From then on the port waits for each new child. If there is no memory for that, the thread tries again.
//! 4. The thread calls the handler, one call for each child. [`finish`] waits for the call's end, so a program that
//!    blocks the signal can rely on that no handler runs.
//!
//! Only children in the process's own job are found in step 2: those that a program has started in other jobs before it
//! has a handler give no signal.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

use abi::zx_port_packet_t;
use zx::{AsHandleRef, Duration, HandleRef, Info, MonotonicInstant, Port, Process, Rights, Signals, Status, Unowned};

use crate::errno::ENOMEM;
use crate::lock::Lock;
use crate::signal;
use crate::sys;
use crate::system;
use crate::thread::{self, Thread};

/// How many koids are kept before those of ended children are removed.
const FEW: usize = 64;
/// How long the thread waits before it tries again (3).
const AGAIN: Duration = Duration::from_millis(100);

/// The key of packets that only wake the thread.
const NOBODY: u64 = u64::MAX;

struct Children {
    /// Children that the port does not wait for.
    koids: Vec<u64>,
    /// With how many koids those of ended children are removed.
    many: usize,
    /// Those that it waits for, by the key of their packets.
    watched: BTreeMap<u64, Process>,
    next_key: u64,
    /// Made for the first handler, and never closed.
    port: Option<&'static Port>,
}

static CHILDREN: Lock<Children> =
    Lock::new(Children { koids: Vec::new(), many: FEW, watched: BTreeMap::new(), next_key: 0, port: None });
/// Held while a handler runs (4).
static RUNNING: Lock<()> = Lock::new(());
/// The library's thread.
static THREAD: AtomicPtr<Thread> = AtomicPtr::new(null_mut());

/// A process in this process's job.
fn find(koid: u64) -> Result<Process, Status> {
    let job = Unowned::<zx::Job>::from_raw(system::zx_job_default()).ok_or(Status::NOT_FOUND)?;
    job.get_child(koid, Rights::SAME_RIGHTS).map(Process::from)
}

impl Children {
    /// Has the port wait for a child (2, 3).
    fn watch(&mut self, port: &Port, process: Process) -> Result<(), Status> {
        let key = self.next_key;
        process.wait_async(port, key, Signals::TASK_TERMINATED, 0)?;
        self.next_key += 1;
        self.watched.insert(key, process);
        Ok(())
    }

    /// The same for all children whose koids are kept. Those that are gone have ended before.
    fn watch_all(&mut self, port: &Port) {
        let mut koids = core::mem::take(&mut self.koids);
        koids.retain(|&koid| match find(koid).and_then(|process| self.watch(port, process)) {
            Ok(()) => false,
            Err(status) => status == Status::NO_MEMORY,
        });
        self.koids = koids;
    }

    fn keep(&mut self, koid: u64) {
        if self.koids.len() >= self.many {
            self.koids.retain(|&koid| find(koid).is_ok());
            self.many = (2 * self.koids.len()).max(FEW);
        }
        self.koids.push(koid);
    }
}

/// A process that was started for the program (1).
#[unsafe(no_mangle)]
pub extern "C" fn __libc_child_started(process: sys::Handle) {
    let process = HandleRef::from_raw(process);
    let Ok(koid) = process.koid() else { return };
    let mut children = CHILDREN.lock();
    if let Some(port) = children.port {
        let own = process.duplicate_handle(Rights::SAME_RIGHTS).map(Process::from);
        if own.and_then(|own| children.watch(port, own)).is_ok() {
            return;
        }
        // The thread sleeps without a time limit while no koids are kept. If there is no memory for this either, it
        // tries again after the next child that it waits for.
        let _ = port.queue(&zx_port_packet_t { key: NOBODY, ..Default::default() });
    }
    children.keep(koid);
}

/// Begins to wait for children: the program has a handler (2).
///
/// # Errors
/// `ENOMEM`.
pub fn watch() -> Result<(), i32> {
    let mut children = CHILDREN.lock();
    if children.port.is_some() {
        return Ok(());
    }
    let port = Port::create().map_err(|_| ENOMEM)?;
    let port: &'static Port = alloc::boxed::Box::leak(alloc::boxed::Box::new(port));
    if !thread::service(waits, (&raw const *port).cast_mut().cast(), c"SIGCHLD") {
        return Err(ENOMEM);
    }
    children.port = Some(port);
    children.watch_all(port);
    Ok(())
}

/// Waits until no handler for SIGCHLD runs, unless this is its thread (4).
pub fn finish() {
    if thread::current() != THREAD.load(Ordering::Relaxed) {
        drop(RUNNING.lock());
    }
}

/// The library's thread.
extern "C" fn waits(port: *mut c_void) -> *mut c_void {
    THREAD.store(thread::current(), Ordering::Relaxed);
    // SAFETY: the port that `watch` made, which is never freed.
    let port = unsafe { &*port.cast::<Port>() };
    loop {
        let until = match CHILDREN.lock().koids.is_empty() {
            true => MonotonicInstant::INFINITE,
            false => MonotonicInstant::after(AGAIN),
        };
        let Ok(packet) = port.wait(until) else {
            CHILDREN.lock().watch_all(port);
            continue;
        };
        let ended = CHILDREN.lock().watched.remove(&packet.key);
        if let Some(process) = ended {
            let (koid, code) = (process.koid(), process.info().map(|info| info.return_code));
            drop(process);
            let _running = RUNNING.lock();
            signal::child_ended(koid.unwrap_or_default(), code.unwrap_or_default());
        }
    }
}
