//! The ports of the description: whose address is whose, and who may send to whom.

use description::switch::{Port, PortKind};

/// A hardware address.
pub type Mac = [u8; 6];

/// The ports, by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ports {
    names: Vec<String>,
    kinds: Vec<PortKind>,
    /// A card's port has none, which is zero here.
    macs: Vec<Mac>,
    /// For each port, a bit for each port to which it may send.
    reaches: Vec<u64>,
}

/// Where a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Targets {
    /// To this port.
    One(usize),
    /// To the ports with these bits.
    Many(u64),
    /// No port has the address.
    Unknown,
    /// The rules do not allow it.
    Forbidden,
}

impl Ports {
    /// Limit on the ports.
    pub const MOST: usize = description::switch::PORTS;

    /// The ports of a description that was checked.
    pub fn new(ports: &[Port]) -> Ports {
        let bit = |name: &String| ports.iter().position(|port| port.name == *name).map_or(0, |at| 1_u64 << at);
        let reach = |(at, port): (usize, &Port)| {
            let others = !(1_u64 << at);
            match &port.sends_to {
                None => others,
                Some(names) => names.iter().map(bit).fold(0, |all, bit| all | bit) & others,
            }
        };
        let ports = &ports[..ports.len().min(Ports::MOST)];
        Ports {
            names: ports.iter().map(|port| port.name.clone()).collect(),
            kinds: ports.iter().map(|port| port.kind).collect(),
            macs: ports.iter().map(|port| port.mac).collect(),
            reaches: ports.iter().enumerate().map(reach).collect(),
        }
    }

    /// Number of ports.
    pub fn len(&self) -> usize {
        self.macs.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.macs.is_empty()
    }

    /// The port with this name.
    pub fn named(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known == name)
    }

    /// A port's name.
    pub fn name(&self, port: usize) -> &str {
        self.names.get(port).map_or("", String::as_str)
    }

    /// What is at a port.
    pub fn kind(&self, port: usize) -> PortKind {
        self.kinds.get(port).copied().unwrap_or_default()
    }

    /// The card's port.
    pub fn card(&self) -> Option<usize> {
        self.kinds.iter().position(|kind| *kind == PortKind::Card)
    }

    /// Whether frames from a port may have this source address (3): the port's own; from the card any that is no group's and
    /// no port's.
    pub fn may_send_as(&self, port: usize, source: Mac) -> bool {
        match self.kind(port) {
            PortKind::Guest | PortKind::Service => source == self.mac(port),
            PortKind::Card => source[0] & 1 == 0 && !self.macs.contains(&source),
        }
    }

    /// A port's address.
    pub fn mac(&self, port: usize) -> Mac {
        self.macs.get(port).copied().unwrap_or_default()
    }

    /// Where a frame from this port to this address goes (3).
    pub fn targets(&self, from: usize, destination: Mac) -> Targets {
        let reach = self.reaches.get(from).copied().unwrap_or(0);
        if destination[0] & 1 != 0 {
            // A group, or all.
            return Targets::Many(reach & ((1_u64 << self.macs.len().min(63)) - 1));
        }
        let may = |port: &usize| *port != from && reach & 1 << port != 0;
        match self.macs.iter().position(|mac| *mac == destination) {
            Some(port) if may(&port) => Targets::One(port),
            Some(port) if port == from => Targets::Unknown,
            Some(_) => Targets::Forbidden,
            // What no port has, the card's side may have.
            None => self.card().filter(may).map_or(Targets::Unknown, Targets::One),
        }
    }
}
