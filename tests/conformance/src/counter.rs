//! A thread of the lowest priority that counts: it gets what all others leave of the processor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::{self, JoinHandle};

use abi::{ZX_PRIORITY_LOWEST, ZX_PROFILE_INFO_FLAG_PRIORITY, zx_profile_info_t};
use zx::{Profile, Resource};

use crate::check::Failure;

#[derive(Debug, Default)]
struct State {
    count: AtomicU64,
    over: AtomicBool,
}

/// The thread. It ends with this value.
#[derive(Debug)]
pub struct Counter {
    state: Arc<State>,
    thread: Option<JoinHandle<zx::Result<()>>>,
}

impl Counter {
    /// Starts the thread. It counts once it has the lowest priority.
    ///
    /// # Errors
    /// There is no thread or profile to be had; `root` is not the root resource.
    pub fn start(root: &Resource) -> Result<Counter, Failure> {
        let parameters = [ZX_PRIORITY_LOWEST as u64, 0, 0];
        let lowest = zx_profile_info_t { flags: ZX_PROFILE_INFO_FLAG_PRIORITY, parameters, ..Default::default() };
        let profile = Profile::create(root, 0, &lowest)?;
        let state = Arc::new(State::default());
        let its = state.clone();
        let thread = thread::Builder::new().spawn(move || -> zx::Result<()> {
            zx::startup::thread_self().set_profile(&profile, 0)?;
            while !its.over.load(SeqCst) {
                its.count.fetch_add(1, SeqCst);
            }
            Ok(())
        });
        Ok(Counter { state, thread: Some(thread.map_err(|error| error.to_string())?) })
    }

    /// How far it has counted.
    pub fn count(&self) -> u64 {
        self.state.count.load(SeqCst)
    }

    /// Ends the thread, and waits for its end.
    ///
    /// # Errors
    /// It failed.
    pub fn stop(mut self) -> Result<(), Failure> {
        self.state.over.store(true, SeqCst);
        match self.thread.take() {
            Some(thread) => Ok(thread.join().map_err(|_| "the thread that counts panicked")??),
            None => Ok(()),
        }
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.state.over.store(true, SeqCst);
    }
}
