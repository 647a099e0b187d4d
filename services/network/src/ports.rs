//! The addresses and ports of sockets.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use chacha20::ChaCha20Rng;
use network_protocol::{Error, Kind};
use rand_core::Rng;
use rustc_hash::FxBuildHasher;

/// A socket's number.
pub type Id = u64;

/// A table by numbers that this service counts. Its hash is not secret, though clients choose by what they close which
/// numbers stay: with 4096 sockets at most, that is harmless.
pub type Numbered<T> = HashMap<u64, T, FxBuildHasher>;

/// The two addresses of a connection: this side's, and the peer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends(pub SocketAddr, pub SocketAddr);

/// The hash takes one piece of bytes: for each number apart, it costs five times as much, in each segment.
impl Hash for Ends {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut bytes = [0; 36];
        let mut len = 0;
        for address in [self.0, self.1] {
            let mut put = |part: &[u8]| {
                if let Some(place) = bytes.get_mut(len..len + part.len()) {
                    place.copy_from_slice(part);
                }
                len += part.len();
            };
            match address.ip() {
                IpAddr::V4(ip) => put(&ip.octets()),
                IpAddr::V6(ip) => put(&ip.octets()),
            }
            put(&address.port().to_ne_bytes());
        }
        state.write(bytes.get(..len).unwrap_or(&bytes));
    }
}

/// The range of ephemeral ports, as on Linux.
const FIRST: u16 = 32_768;
const LAST: u16 = 60_999;

/// One socket's binding to an address.
#[derive(Clone, Copy, Debug)]
pub struct Binding {
    /// The socket.
    pub id: Id,
    /// Its address.
    pub address: SocketAddr,
    /// An IPv6 socket on all addresses that also takes IPv4.
    pub both: bool,
    /// It shares the address with other bindings that allow it.
    pub reuse: bool,
    /// It listens.
    pub listens: bool,
}

impl Binding {
    /// Whether it receives traffic to `ip`.
    pub fn takes(&self, ip: IpAddr) -> bool {
        match self.address.ip() {
            own if own == ip => true,
            IpAddr::V4(own) => own.is_unspecified() && ip.is_ipv4(),
            IpAddr::V6(own) => own.is_unspecified() && (ip.is_ipv6() || self.both),
        }
    }

    fn overlaps(&self, other: &Binding) -> bool {
        self.takes(other.address.ip()) || other.takes(self.address.ip())
    }
}

/// All bindings.
#[derive(Debug)]
pub struct Ports {
    /// The hash is not secret: a program's ports are far fewer than what many equal hashes would take.
    bindings: HashMap<(Kind, u16), Vec<Binding>, FxBuildHasher>,
    random: ChaCha20Rng,
    /// Number of changes of the bindings.
    changes: u64,
}

impl Ports {
    /// Without bindings; `random` determines the ephemeral ports.
    pub fn new(random: ChaCha20Rng) -> Ports {
        Ports { bindings: HashMap::default(), random, changes: 0 }
    }

    /// Whether there are none.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.bindings.is_empty()
    }

    /// Number of changes of the bindings.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// A number that nobody can predict.
    pub fn random(&mut self) -> u64 {
        self.random.next_u64()
    }

    /// Binds a socket; port 0 selects a free port: the first one from a random port on, so that nobody can predict it
    /// (RFC 6056, algorithm 1). Returns the port.
    ///
    /// # Errors
    /// `AddressInUse`.
    pub fn bind(&mut self, kind: Kind, mut binding: Binding) -> Result<u16, Error> {
        if binding.address.port() != 0 {
            return self.bind_to(kind, binding);
        }
        // The ports are far fewer than the numbers, so each is as likely as any other.
        let start = FIRST + (self.random.next_u64() % u64::from(LAST - FIRST + 1)) as u16;
        for port in (start..=LAST).chain(FIRST..start) {
            if !self.bindings.contains_key(&(kind, port)) {
                binding.address.set_port(port);
                return self.bind_to(kind, binding);
            }
        }
        Err(Error::AddressInUse)
    }

    fn bind_to(&mut self, kind: Kind, binding: Binding) -> Result<u16, Error> {
        let port = binding.address.port();
        let here = self.bindings.entry((kind, port)).or_default();
        let share = |other: &Binding| match kind {
            Kind::Stream => other.reuse && binding.reuse && !other.listens && !binding.listens,
            Kind::Datagram => other.reuse && binding.reuse,
            Kind::Echo => false,
        };
        // An identifier belongs to one socket, whatever its address.
        let meets = |other: &Binding| kind == Kind::Echo || other.overlaps(&binding);
        if here.iter().any(|other| meets(other) && !share(other)) {
            return Err(Error::AddressInUse);
        }
        here.push(binding);
        self.changes += 1;
        Ok(port)
    }

    /// Marks a socket as listening.
    ///
    /// # Errors
    /// `AddressInUse`: another socket that shares the address already listens.
    pub fn listen(&mut self, id: Id, port: u16) -> Result<(), Error> {
        let here = self.bindings.entry((Kind::Stream, port)).or_default();
        let own = here.iter().position(|binding| binding.id == id).ok_or(Error::Invalid)?;
        let binding = here[own];
        if here.iter().any(|other| other.id != id && other.listens && other.overlaps(&binding)) {
            return Err(Error::AddressInUse);
        }
        here[own].listens = true;
        Ok(())
    }

    /// Removes a socket's binding.
    pub fn free(&mut self, kind: Kind, id: Id, port: u16) {
        self.changes += 1;
        if let Some(here) = self.bindings.get_mut(&(kind, port)) {
            here.retain(|binding| binding.id != id);
            if here.is_empty() {
                self.bindings.remove(&(kind, port));
            }
        }
    }

    /// The bindings of a port.
    pub fn at(&self, kind: Kind, port: u16) -> &[Binding] {
        self.bindings.get(&(kind, port)).map_or(&[], Vec::as_slice)
    }

    /// The listener of an address: one bound to this address takes precedence over one bound to all addresses.
    pub fn listener(&self, to: SocketAddr) -> Option<Id> {
        let here = self.at(Kind::Stream, to.port()).iter().filter(|binding| binding.listens && binding.takes(to.ip()));
        here.max_by_key(|binding| !binding.address.ip().is_unspecified()).map(|binding| binding.id)
    }
}

/// Whether it is a broadcast address.
pub fn is_broadcast(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V4(ip) if ip.is_broadcast() || ip == Ipv4Addr::new(127, 255, 255, 255))
}

/// The effective destination: IPv4-mapped addresses become IPv4, and the unspecified address becomes loopback.
pub fn target(to: SocketAddr) -> SocketAddr {
    let to = network_protocol::canonical(to);
    match to.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), to.port()),
        IpAddr::V6(ip) if ip.is_unspecified() => SocketAddr::new(Ipv6Addr::LOCALHOST.into(), to.port()),
        // Scope and flow label are irrelevant here.
        ip => SocketAddr::new(ip, to.port()),
    }
}
