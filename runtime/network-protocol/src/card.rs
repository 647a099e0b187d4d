//! The state of the network card.

use core::net::Ipv4Addr;

/// Limit on the name servers.
const NAME_SERVERS: usize = 3;
/// Bytes of an encoded state.
pub(crate) const CARD_STATE: usize = 64;

/// The state of the network card, and numbers of frames since the service began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardState {
    /// The hardware address.
    pub mac: [u8; 6],
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
}

impl CardState {
    /// Encodes it. An address that is not there is 0.0.0.0.
    pub(crate) fn to_bytes(self) -> [u8; CARD_STATE] {
        let mut bytes = [0; CARD_STATE];
        bytes[..6].copy_from_slice(&self.mac);
        bytes[6..8].copy_from_slice(&self.mtu.to_le_bytes());
        let (address, prefix) = self.address.unwrap_or((Ipv4Addr::UNSPECIFIED, 0));
        bytes[8] = prefix;
        let servers = self.name_servers;
        let addresses = [Some(address), self.gateway, servers[0], servers[1], servers[2]];
        for (place, address) in bytes[12..32].chunks_exact_mut(4).zip(addresses) {
            place.copy_from_slice(&address.unwrap_or(Ipv4Addr::UNSPECIFIED).octets());
        }
        for (place, count) in
            bytes[32..].chunks_exact_mut(8).zip([self.received, self.sent, self.ignored, self.no_room])
        {
            place.copy_from_slice(&count.to_le_bytes());
        }
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
            mtu: u16::from_le_bytes([bytes[6], bytes[7]]),
            address: address(0).map(|ip| (ip, bytes[8])),
            gateway: address(1),
            name_servers: [address(2), address(3), address(4)],
            received: count(0),
            sent: count(1),
            ignored: count(2),
            no_room: count(3),
        }
    }
}
