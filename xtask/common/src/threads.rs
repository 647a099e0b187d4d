//! The threads of this tool: only this module starts threads.
//!
//! Each thread has a name and a watcher. Without a watcher, a panic of a thread would go unnoticed, and a thread that
//! waits for it would wait for ever. The watcher is notified of the panic and ends what depends on the thread.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use anyhow::{Context as _, Result};

/// The variable that names a thread that fails as soon as it runs, for tests.
pub const TRIAL: &str = "HAFNON_FAILING_THREAD";

/// A thread has panicked. The panic's message is on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed(pub &'static str);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hafnon's own thread `{}` failed; that is a mistake in hafnon, please report it", self.0)
    }
}

impl std::error::Error for Failed {}

/// Is called when a thread fails.
#[derive(Clone)]
pub struct Watcher(Arc<dyn Fn(Failed) + Send + Sync>);

/// A running thread.
#[derive(Debug)]
pub struct Thread<T> {
    name: &'static str,
    handle: JoinHandle<Option<T>>,
}

impl Watcher {
    /// A watcher that calls this function when a thread fails.
    pub fn new(told: impl Fn(Failed) + Send + Sync + 'static) -> Watcher {
        Watcher(Arc::new(told))
    }

    /// A watcher that does nothing, for threads whose end is visible otherwise, for example by a closed channel.
    pub fn none() -> Watcher {
        Watcher::new(|_| {})
    }

    /// Starts a thread.
    ///
    /// # Errors
    /// The operating system cannot create a thread.
    pub fn start<T: Send + 'static>(
        &self,
        name: &'static str,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Thread<T>> {
        let watcher = self.clone();
        let run = move || {
            let body = AssertUnwindSafe(|| {
                if std::env::var_os(TRIAL).is_some_and(|failing| failing == name) {
                    panic!("this thread fails because {TRIAL} says so");
                }
                body()
            });
            let result = catch_unwind(body);
            if result.is_err() {
                (watcher.0)(Failed(name));
            }
            result.ok()
        };
        #[expect(clippy::disallowed_methods, reason = "this is the one place")]
        let handle = Builder::new().name(name.into()).spawn(run);
        let handle = handle.with_context(|| format!("cannot start the thread `{name}`"))?;
        Ok(Thread { name, handle })
    }
}

impl<T> Thread<T> {
    /// Waits for its end.
    ///
    /// # Errors
    /// It has panicked.
    pub fn join(self) -> Result<T, Failed> {
        self.handle.join().ok().flatten().ok_or(Failed(self.name))
    }
}

/// Runs the main thread's work; a panic there becomes an error.
///
/// # Errors
/// As `body`, or it panics.
pub fn main<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    let failed = |_: Box<dyn Any + Send>| Err(Failed("main").into());
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(failed)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_thread_that_fails_is_told_of() {
        let (sender, told) = channel();
        let watcher = Watcher::new(move |failed| sender.send(failed).unwrap());
        let thread = watcher.start("sample", || -> u8 { panic!("on purpose") }).unwrap();
        assert_eq!(told.recv(), Ok(Failed("sample")));
        assert_eq!(thread.join(), Err(Failed("sample")));
        assert_eq!(watcher.start("sample", || 7).unwrap().join(), Ok(7));
        assert!(told.try_recv().is_err());
    }

    #[test]
    fn a_panic_of_the_main_thread_is_an_error() {
        assert!(main(|| -> Result<()> { panic!("on purpose") }).unwrap_err().is::<Failed>());
        assert_eq!(main(|| Ok(1)).unwrap(), 1);
    }
}
