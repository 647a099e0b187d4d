//! The server's trace of one program and its children, on its way to the host.
//!
//! The file `config/trace` requests it. A thread reads recorded events and sends them a little later. At the program's
//! end the rest follows. `init` itself is not traced, so sending records creates none.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use init::frames;
use zx::{Job, Resource, Status};

use crate::link::Link;

/// Maximum delay of records when there are few.
const PAUSE: Duration = Duration::from_millis(5);

/// The parts that tracing needs.
#[derive(Clone, Copy)]
pub struct Tracer {
    pub link: &'static Link,
    pub resource: &'static Resource,
}

/// A running trace.
pub struct Running {
    tracer: Tracer,
    over: Arc<AtomicBool>,
    sender: JoinHandle<()>,
}

impl Tracer {
    /// Traces everything that runs in a job, from now on.
    ///
    /// # Errors
    /// The server or this process is out of memory.
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
    /// Ends the trace, after all records have been sent.
    pub fn end(self) {
        let _ = zx::ktrace_control(self.tracer.resource, abi::KTRACE_ACTION_STOP);
        self.over.store(true, Ordering::Release);
        let _ = self.sender.join();
        let _ = zx::ktrace_control(self.tracer.resource, abi::KTRACE_ACTION_REWIND);
    }
}
