//! What a service was started with: its clients, as they come, and its connections to the services that it uses.
//!
//! `init` starts a service when somebody needs it. It gives it one channel, on which each message is a client: words for
//! the service, and the ends of channels or sockets whose other ends the client holds. What is spoken on those is
//! the service's own affair. A client of a file system has one end, a connection to its root.
#![forbid(unsafe_code)]
#![cfg(target_os = "fuchsia")]

use zx::{Channel, Handle, MonotonicInstant, Result, Status};

/// Kind of the start handles that are channels (`PA_USER1`): the clients, then the services that it uses.
const CHANNELS: u32 = 0xf1;

/// The clients of a service, as they come.
#[derive(Debug)]
pub struct Clients(pub Channel);

/// A client: words for the service, and the ends of channels and sockets that the client holds the others of.
#[derive(Debug)]
pub struct Client {
    /// What stood behind the service's name.
    pub words: String,
    /// Its handles.
    pub handles: Vec<Handle>,
}

impl Clients {
    /// Takes them. From here on a full channel or port is a status for this process: its clients decide what is full, and must not
    /// be able to end it.
    ///
    /// # Errors
    /// A sentence for the log: this was not started as a service.
    pub fn take() -> std::result::Result<Clients, String> {
        let statuses = zx::startup::process_self().set_overflow_status(true);
        statuses.map_err(|status| format!("full queues cannot be made statuses: {status}"))?;
        let channel =
            zx::startup::take(CHANNELS, 0).ok_or("this is a service: `init` starts it, from the system description")?;
        Ok(Clients(Channel::from(channel)))
    }

    /// The next client, without waiting.
    ///
    /// # Errors
    /// `SHOULD_WAIT`; `PEER_CLOSED`: there will be no more.
    pub fn next(&self) -> Result<Client> {
        let mut words = [0; 256];
        let mut handles = [None, None];
        let size = self.0.read(&mut words, &mut handles).map_err(|(status, _)| status)?;
        Ok(client(&words[..size.bytes], handles))
    }

    /// Waits for the next client.
    ///
    /// # Errors
    /// `PEER_CLOSED`: there will be no more.
    pub fn wait(&self) -> Result<Client> {
        let mut words = [0; 256];
        let mut handles = [None, None];
        let size = self.0.read_wait(&mut words, &mut handles, MonotonicInstant::INFINITE)?;
        Ok(client(&words[..size.bytes], handles))
    }
}

fn client(words: &[u8], handles: [Option<Handle>; 2]) -> Client {
    Client { words: String::from_utf8_lossy(words).into_owned(), handles: handles.into_iter().flatten().collect() }
}

/// Takes the connection to the service that stands at this place among those that the driver uses.
///
/// # Errors
/// `NOT_FOUND`.
pub fn uses(index: u16) -> Result<Channel> {
    zx::startup::take(CHANNELS, index + 1).map(Channel::from).ok_or(Status::NOT_FOUND)
}
