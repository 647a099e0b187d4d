//! The console: the user's terminal on a serial port, through the driver of that port.
//!
//! A session is a socket, which is the program's standard input, output and error, and a channel. On the channel, the
//! driver reports once that the session has begun, and later each time that the user wants the program to end. It
//! closes the channel when the session is over and all output has been sent.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use zx::{AsHandleRef, Channel, MonotonicInstant, Signals, Socket};

use crate::link::Link;
use crate::services::Names;
use crate::tasks::Tasks;

/// The name of the driver's service.
const SERVICE: &str = "console";
/// Maximum time for the driver's start, and for the last output.
const PATIENCE: Duration = Duration::from_secs(5);

/// A session at the console.
pub struct Console {
    /// The program's end.
    pub socket: Arc<Socket>,
    session: Arc<Channel>,
}

impl Console {
    /// Connects to the console.
    ///
    /// # Errors
    /// There is no console, its driver does not start, or there is no memory.
    pub fn connect(names: &Names, link: &'static Link, tasks: &'static Tasks) -> zx::Result<Console> {
        let (socket, theirs) = Socket::create(0)?;
        let (session, other) = Channel::create()?;
        names.connect(SERVICE, [theirs.into(), other.into()])?;
        session.read_wait(&mut [0], &mut [], MonotonicInstant::after(PATIENCE.into()))?;
        let session = Arc::new(session);
        let watched = session.clone();
        let watch = move || {
            let mut byte = [0; 1];
            while watched.read_wait(&mut byte, &mut [], MonotonicInstant::INFINITE).is_ok() {
                let what = tasks.interrupt();
                link.event(&["interrupted", &what]);
            }
        };
        let _ = thread::Builder::new().name("console".to_owned()).spawn(watch);
        Ok(Console { socket: Arc::new(socket), session })
    }

    /// Whether the driver has ended. While this process holds the socket, the driver does not end the session.
    pub fn lost(&self) -> bool {
        self.session.wait_one(Signals::CHANNEL_PEER_CLOSED, MonotonicInstant(0)).is_ok()
    }

    /// Waits until all output of an ended program has been sent.
    pub fn drain(self) {
        drop(self.socket);
        let deadline = MonotonicInstant::after(PATIENCE.into());
        let _ = self.session.wait_one(Signals::CHANNEL_PEER_CLOSED, deadline);
    }
}
