//! Rules: what a program may do with the network, if the system's description limits it.
//!
//! `init` gives the service a program's rule with each of the program's connections. Each socket has the rule of the
//! program that opened it, and keeps it when another program gets the socket; an accepted connection has its listener's.
//! The checks follow those of the address's form and come before everything that other programs or hosts could notice.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;

use description::network::Rule;
use network_protocol::{Error, Family, Kind};

use crate::ports::Id;
use crate::socket::Socket;
use crate::stack::{DataSockets, Stack};

/// A program's rule; `None`: it may do everything.
pub type ProgramRule = Option<Rc<Rule>>;

/// `Denied` unless it is allowed.
fn allowed(is_allowed: bool) -> Result<(), Error> {
    if is_allowed { Ok(()) } else { Err(Error::Denied) }
}

impl<W: DataSockets> Stack<W> {
    /// Sets the rule of a socket that was just opened.
    pub fn set_rule(&mut self, id: Id, rule: ProgramRule) {
        self.heard = None;
        if let Some(socket) = self.sockets.get_mut(&id) {
            socket.rule = rule;
        }
    }
}

impl<E> Socket<E> {
    /// Checks that it may connect or send to an address, which [`crate::ports::target`] has made.
    pub(crate) fn check_reach(&self, to: SocketAddr) -> Result<(), Error> {
        let Some(rule) = &self.rule else { return Ok(()) };
        allowed(match self.kind {
            Kind::Echo => rule.reaches_host(to.ip()),
            Kind::Stream | Kind::Datagram => rule.reaches(to),
        })
    }

    /// Checks that it may join a multicast group.
    pub(crate) fn check_group(&self, group: IpAddr) -> Result<(), Error> {
        allowed(self.rule.as_ref().is_none_or(|rule| rule.reaches_group(group)))
    }

    /// Checks that it may bind a local address. Any port is allowed (0): [`Socket::check_listen`] and
    /// [`Socket::may_hear`] see which one it was. An identifier of echo requests is no port.
    pub(crate) fn check_bind(&self, at: SocketAddr) -> Result<(), Error> {
        if self.kind == Kind::Echo || at.port() == 0 { Ok(()) } else { self.check_listen(at) }
    }

    /// Checks that it may listen at a local address.
    pub(crate) fn check_listen(&self, at: SocketAddr) -> Result<(), Error> {
        let Some(rule) = &self.rule else { return Ok(()) };
        // All addresses of IPv6 include those of IPv4.
        let both = at.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) && self.family == Family::V6 && !self.choices.only_v6;
        let v4 = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), at.port());
        allowed(rule.listens(at) && (!both || rule.listens(v4)))
    }

    /// Whether it may receive a datagram: at a port where the program may listen, or from where it may send to.
    pub(crate) fn may_hear(&self, from: SocketAddr) -> bool {
        self.check_reach(from).is_ok()
            || self.kind != Kind::Echo && self.local.is_some_and(|at| self.check_listen(at).is_ok())
    }
}
