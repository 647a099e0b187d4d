//! The channel from `init`: clients, and the ends of programs.

use zx::{Channel, Handle, Result, Status};

use crate::Program;
use crate::message::{HEAD, ToInit, ToService, WORDS};

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
    /// Its handles. What kind of objects they are the client has chosen: [`crate::Ends`] and [`crate::socket`] look.
    pub handles: Vec<Handle>,
    /// The program that it is of.
    pub program: Program,
}

/// What `init` tells.
#[derive(Debug)]
pub enum Event {
    /// There is a client.
    Client(Client),
    /// A program of which there was a client has ended, with all that it started. What the service has of it is let go of:
    /// nobody is there any more who could ask for it. Its number does not come again.
    Ended(Program),
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

    /// What `init` tells next, without waiting. It gives the signs of life that `init` asks for: a service that comes here
    /// whenever its channel is readable is alive.
    ///
    /// # Errors
    /// `SHOULD_WAIT`; `PEER_CLOSED`: there will be no more.
    pub fn next(&self) -> Result<Event> {
        let mut bytes = [0; HEAD + WORDS];
        let mut handles = [None, None];
        loop {
            let size = self.0.read(&mut bytes, &mut handles).map_err(|(status, _)| status)?;
            match ToService::from_bytes(&bytes[..size.bytes]).ok_or(Status::IO_DATA_INTEGRITY)? {
                ToService::Client { program, words } => {
                    self.0.write(&ToInit::Taken(program).to_bytes(), [])?;
                    let words = String::from_utf8_lossy(words).into_owned();
                    return Ok(Event::Client(Client {
                        words,
                        handles: handles.into_iter().flatten().collect(),
                        program,
                    }));
                }
                ToService::Ended(program) => return Ok(Event::Ended(program)),
                ToService::Ping => self.0.write(&ToInit::Alive.to_bytes(), [])?,
            }
        }
    }
}

/// Takes the connection to the service that stands at this place among those that the driver uses.
///
/// # Errors
/// `NOT_FOUND`.
pub fn uses(index: u16) -> Result<Channel> {
    zx::startup::take(CHANNELS, index + 1).map(Channel::from).ok_or(Status::NOT_FOUND)
}
