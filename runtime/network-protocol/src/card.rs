//! The state of the network card.

use core::net::{Ipv4Addr, Ipv6Addr};

/// Maximum number of name servers, of IPv4 and of IPv6.
pub const NAME_SERVERS: usize = 3;
/// Maximum number of IPv6 addresses: the link-local one, and others.
pub const ADDRESSES_V6: usize = 6;
/// Bytes of the part of a state for IPv4, and of an IPv6 address.
const V4: usize = 64;
const IP: usize = 16;
/// Bytes of an encoded state.
pub(crate) const CARD_STATE: usize = V4 + ADDRESSES_V6 + (ADDRESSES_V6 + 1 + NAME_SERVERS) * IP;

/// The state of the network card, and numbers of frames since the service began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardState {
    /// The hardware address.
    pub mac: [u8; 6],
    /// Whether it has a link.
    pub online: bool,
    /// Size of the longest IP packet in bytes.
    pub mtu: u16,
    /// The address and the length of its network's prefix in bits, once there is one.
    pub address: Option<(Ipv4Addr, u8)>,
    /// The router to other networks.
    pub gateway: Option<Ipv4Addr>,
    /// The name servers, up to three.
    pub name_servers: [Option<Ipv4Addr>; NAME_SERVERS],
    /// Frames that came in.
    pub received: u64,
    /// Frames that went out.
    pub sent: u64,
    /// Frames that came in and were ignored: they were not for this machine, not well-formed, or from an address that
    /// cannot be another machine's.
    pub ignored: u64,
    /// Connection requests and datagrams that came in and for which there was no room.
    pub no_room: u64,
    /// What it has of IPv6.
    pub v6: CardStateV6,
}

/// What the network card has of IPv6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CardStateV6 {
    /// The addresses and the lengths of their networks' prefixes in bits, the link-local one first.
    pub addresses: [Option<(Ipv6Addr, u8)>; ADDRESSES_V6],
    /// The router to other networks.
    pub gateway: Option<Ipv6Addr>,
    /// The name servers, up to three.
    pub name_servers: [Option<Ipv6Addr>; NAME_SERVERS],
}

impl CardStateV6 {
    /// Encodes it. An address that is not there is `::`.
    fn to_bytes(self, bytes: &mut [u8]) {
        let (prefixes, ips) = bytes.split_at_mut(ADDRESSES_V6);
        let addresses = self.addresses.map(|address| address.unwrap_or((Ipv6Addr::UNSPECIFIED, 0)));
        for (place, (_, prefix)) in prefixes.iter_mut().zip(addresses) {
            *place = prefix;
        }
        let others = [self.gateway].into_iter().chain(self.name_servers);
        let all = addresses.iter().map(|(ip, _)| *ip).chain(others.map(|ip| ip.unwrap_or(Ipv6Addr::UNSPECIFIED)));
        for (place, ip) in ips.chunks_exact_mut(IP).zip(all) {
            place.copy_from_slice(&ip.octets());
        }
    }

    /// Decodes it.
    fn from_bytes(bytes: &[u8]) -> CardStateV6 {
        let (prefixes, ips) = bytes.split_at(ADDRESSES_V6);
        let (ips, _) = ips.as_chunks::<IP>();
        let ip = |at: usize| ips.get(at).map(|octets| Ipv6Addr::from(*octets)).filter(|ip| !ip.is_unspecified());
        CardStateV6 {
            addresses: core::array::from_fn(|at| Some((ip(at)?, prefixes[at]))),
            gateway: ip(ADDRESSES_V6),
            name_servers: core::array::from_fn(|at| ip(ADDRESSES_V6 + 1 + at)),
        }
    }
}

impl CardState {
    /// Encodes it. An address that is not there is 0.0.0.0.
    pub(crate) fn to_bytes(self) -> [u8; CARD_STATE] {
        let mut bytes = [0; CARD_STATE];
        bytes[..6].copy_from_slice(&self.mac);
        bytes[6..8].copy_from_slice(&self.mtu.to_le_bytes());
        let (address, prefix) = self.address.unwrap_or((Ipv4Addr::UNSPECIFIED, 0));
        (bytes[8], bytes[9]) = (prefix, self.online.into());
        let servers = self.name_servers;
        let addresses = [Some(address), self.gateway, servers[0], servers[1], servers[2]];
        for (place, address) in bytes[12..32].chunks_exact_mut(4).zip(addresses) {
            place.copy_from_slice(&address.unwrap_or(Ipv4Addr::UNSPECIFIED).octets());
        }
        for (place, count) in
            bytes[32..V4].chunks_exact_mut(8).zip([self.received, self.sent, self.ignored, self.no_room])
        {
            place.copy_from_slice(&count.to_le_bytes());
        }
        self.v6.to_bytes(&mut bytes[V4..]);
        bytes
    }

    /// Decodes it.
    pub(crate) fn from_bytes(bytes: &[u8; CARD_STATE]) -> CardState {
        let address = |index: usize| {
            let at = 12 + 4 * index;
            let ip = Ipv4Addr::new(bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]);
            (!ip.is_unspecified()).then_some(ip)
        };
        let count = |index: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&bytes[32 + 8 * index..40 + 8 * index]);
            u64::from_le_bytes(eight)
        };
        CardState {
            mac: [bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5]],
            online: bytes[9] != 0,
            mtu: u16::from_le_bytes([bytes[6], bytes[7]]),
            address: address(0).map(|ip| (ip, bytes[8])),
            gateway: address(1),
            name_servers: [address(2), address(3), address(4)],
            received: count(0),
            sent: count(1),
            ignored: count(2),
            no_room: count(3),
            v6: CardStateV6::from_bytes(&bytes[V4..]),
        }
    }
}
