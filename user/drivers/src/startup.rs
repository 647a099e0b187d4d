//! What a driver was started with.

use std::iter::Peekable;

use zx::{Channel, Handle, MonotonicInstant, Resource, Result, Status};

/// Kind of the start handles that are resources (`PA_USER0`), in the order of the system description.
const RESOURCES: u32 = 0xf0;
/// Kind of those that are channels (`PA_USER1`): its clients, then the services that it uses.
const CHANNELS: u32 = 0xf1;

/// Takes the resources, in the order of the system description: ports, interrupts, memory, facilities.
pub fn resources() -> Peekable<impl Iterator<Item = Resource>> {
    (0..).map_while(|index| zx::startup::take(RESOURCES, index)).map(Resource::from).peekable()
}

/// Takes the next resource, which must be of this kind (`ZX_RSRC_KIND_*`).
///
/// # Errors
/// A sentence for the log.
pub fn expect(
    resources: &mut Peekable<impl Iterator<Item = Resource>>,
    kind: u32,
    what: &str,
) -> std::result::Result<Resource, String> {
    resources.next_if(|resource| is(resource, kind)).ok_or_else(|| format!("it was not given {what}"))
}

/// Whether a resource is of this kind.
pub fn is(resource: &Resource, kind: u32) -> bool {
    resource.info().is_ok_and(|info| info.kind == kind)
}

/// The clients of a driver, as they come.
#[derive(Debug)]
pub struct Clients(pub Channel);

/// A client: words for the driver, and the ends of channels and sockets that the client holds the others of.
#[derive(Debug)]
pub struct Client {
    /// What stood behind the service's name.
    pub words: String,
    /// Its handles.
    pub handles: Vec<Handle>,
}

impl Clients {
    /// Takes them.
    ///
    /// # Errors
    /// A sentence for the log: this was not started as a driver.
    pub fn take() -> std::result::Result<Clients, String> {
        let channel =
            zx::startup::take(CHANNELS, 0).ok_or("this is a driver: it is started from the system description")?;
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
pub fn service(index: u16) -> Result<Channel> {
    zx::startup::take(CHANNELS, index + 1).map(Channel::from).ok_or(Status::NOT_FOUND)
}
