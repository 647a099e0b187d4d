//! The kernel's trace of one program and of what it starts, on its way to the host.
//!
//! The file `config/trace` asks for it. A thread takes what has been recorded and sends it, a little later than it
//! happened; at the program's end the rest follows. Nothing of init itself is traced, so sending records makes none.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use init::frames;
use zx::{Job, Resource, Status};

use crate::link::Link;

/// How long records wait at most, while there are few.
const PAUSE: Duration = Duration::from_millis(5);

/// What can trace.
#[derive(Clone, Copy)]
pub struct Tracer {
    pub link: &'static Link,
    pub resource: &'static Resource,
}

/// A trace that runs.
pub struct Running {
    tracer: Tracer,
    over: Arc<AtomicBool>,
    sender: JoinHandle<()>,
}

impl Tracer {
    /// Traces what will run in a job, from now on.
    ///
    /// # Errors
    /// The kernel or this process has no memory for it.
    pub fn start(self, job: &Job) -> zx::Result<Running> {
        zx::ktrace_start(self.resource, job)?;
        let over = Arc::new(AtomicBool::new(false));
        let seen = over.clone();
        let sender = thread::Builder::new().name("trace".to_owned()).spawn(move || self.send(&seen));
        Ok(Running { tracer: self, over, sender: sender.map_err(|_| Status::NO_MEMORY)? })
    }

    fn send(self, over: &AtomicBool) {
        let mut bytes = [0; frames::MAX_PAYLOAD];
        loop {
            let last = over.load(Ordering::Acquire);
            match zx::ktrace_read(self.resource, &mut bytes) {
                Ok(0) if last => return,
                Ok(0) => thread::sleep(PAUSE),
                Ok(count) => self.link.send(frames::TRACE, &bytes[..count]),
                Err(status) => return self.link.complain(&format!("the trace cannot be read: {status}")),
            }
        }
    }
}

impl Running {
    /// Ends it; what was recorded has been sent then.
    pub fn end(self) {
        let _ = zx::ktrace_control(self.tracer.resource, abi::KTRACE_ACTION_STOP);
        self.over.store(true, Ordering::Release);
        let _ = self.sender.join();
        let _ = zx::ktrace_control(self.tracer.resource, abi::KTRACE_ACTION_REWIND);
    }
}
