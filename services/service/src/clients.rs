//! The channel from `init`: new clients, and ends of programs.

use zx::{Channel, Handle, Result, Status};

use crate::Program;
use crate::message::{HEAD, RULE, ToInit, ToService, WORDS};

/// Type of the start handles that are channels (`PA_USER1`): the channel of clients, then the services that it uses.
const CHANNELS: u32 = 0xf1;

/// The channel on which a service receives its clients.
#[derive(Debug)]
pub struct Clients(pub Channel);

/// A client: words for the service, and ends of channels and sockets. The client holds the other ends.
#[derive(Debug)]
pub struct Client {
    /// The words after the service's name. The client chooses them.
    pub words: String,
    /// The description's rule for the client's program. Empty: there is none.
    pub rule: Vec<u8>,
    /// Its handles. The client determines the type of the objects: [`crate::ChannelEnds`] and [`crate::socket`] check it.
    pub handles: Vec<Handle>,
    /// The client's program.
    pub program: Program,
}

/// An event from `init`.
#[derive(Debug)]
pub enum Event {
    /// A new client.
    Client(Client),
    /// A program of which there was a client has ended, with everything that it started. The service frees what belongs
    /// to it, because no process can ask for it any more. The program's number is not reused.
    Ended(Program),
}

impl Clients {
    /// Takes the channel. From now on, writing to a full channel or port returns a status to this process: its clients
    /// can fill them, and must not be able to get this process killed.
    ///
    /// # Errors
    /// A message for the log: this process was not started as a service.
    pub fn take() -> std::result::Result<Clients, String> {
        let statuses = zx::startup::process_self().set_overflow_status(true);
        statuses.map_err(|status| format!("full queues cannot be made statuses: {status}"))?;
        let channel =
            zx::startup::take(CHANNELS, 0).ok_or("this is a service: `init` starts it, from the system description")?;
        Ok(Clients(Channel::from(channel)))
    }

    /// The next event from `init`, without waiting. It answers the pings of `init`: a service that calls this whenever
    /// its channel is readable is alive.
    ///
    /// A call reads one message. The next one may be later than the end of another channel that waits in the service's
    /// port, so it must not be handled before a wait for it has put a packet behind that.
    ///
    /// # Errors
    /// `SHOULD_WAIT`: there is no message, or it was a ping; `PEER_CLOSED`: no more events can come.
    pub fn next(&self) -> Result<Event> {
        let mut bytes = [0; HEAD + RULE + WORDS];
        let mut handles = [None, None];
        let size = self.0.read(&mut bytes, &mut handles).map_err(|(status, _)| status)?;
        match ToService::from_bytes(&bytes[..size.bytes]).ok_or(Status::IO_DATA_INTEGRITY)? {
            ToService::Client { program, rule, words } => {
                self.0.write(&ToInit::Taken(program).to_bytes(), [])?;
                let words = String::from_utf8_lossy(words).into_owned();
                let (rule, handles) = (rule.to_vec(), handles.into_iter().flatten().collect());
                Ok(Event::Client(Client { words, rule, handles, program }))
            }
            ToService::Ended(program) => Ok(Event::Ended(program)),
            ToService::Ping => {
                self.0.write(&ToInit::Alive.to_bytes(), [])?;
                Err(Status::SHOULD_WAIT)
            }
        }
    }
}

/// Takes the connection to the service with this index among those that this one uses.
///
/// # Errors
/// `NOT_FOUND`.
pub fn uses(index: u16) -> Result<Channel> {
    zx::startup::take(CHANNELS, index + 1).map(Channel::from).ok_or(Status::NOT_FOUND)
}

/// Connects again to the service with this index, which has ended. If there is none, the channel closes.
///
/// # Errors
/// As [`zx::startup::connect`].
pub fn uses_again(index: u16) -> Result<Channel> {
    zx::startup::connect(&format!("{}{index}", crate::message::USES))
}
