//! What stood before an attack, and must stand after it: one thing in each service.

use std::fs;
use std::net::{TcpListener, TcpStream};

use conformance::check::{Outcome, ensure};
use zx::{AsHandleRef, Channel, Duration, MonotonicInstant, Signals};

/// A file that nobody else has the name of.
const FILE: &str = "/tmp/witness";
/// What is in it.
const WORDS: &[u8] = b"what was written before";
/// How long a service may take to answer in the midst of an attack.
const PATIENCE: Duration = Duration::from_seconds(20);

/// See the module's description.
pub struct Witnesses {
    listener: TcpListener,
    loader: Channel,
    clock: Channel,
}

impl Witnesses {
    /// Makes them.
    pub fn new() -> Result<Witnesses, conformance::check::Failure> {
        fs::write(FILE, WORDS)?;
        Ok(Witnesses {
            listener: TcpListener::bind("127.0.0.1:0")?,
            loader: zx::startup::clone_loader_service()?,
            clock: zx::startup::connect("clock")?,
        })
    }

    /// Each is what it was.
    pub fn stand(&self) -> Outcome {
        ensure(fs::read(FILE)? == WORDS, "a file is not what it was")?;
        let here = TcpStream::connect(self.listener.local_addr()?)?;
        let (_there, peer) = self.listener.accept()?;
        ensure(here.local_addr()? == peer, "a listener gives another's connection")?;
        let ended = |channel: &Channel| channel.wait_one(Signals::CHANNEL_PEER_CLOSED, MonotonicInstant::ZERO).is_ok();
        ensure(!ended(&self.loader), "the loader's connection has ended")?;
        // The time of day.
        self.clock.write(&[0], [])?;
        let deadline = MonotonicInstant::after(PATIENCE);
        let size = self.clock.read_wait(&mut [0; 64], &mut [], deadline)?;
        ensure(size.bytes == 24, "the clock's answer is none")
    }
}
