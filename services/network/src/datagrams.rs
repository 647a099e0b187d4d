//! Frames of datagrams that need no smoltcp, because they are of the usual form: UDP over IPv4 without options, whole, from
//! or to one machine. All others go the long way.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::ops::Range;

use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpAddress, checksum};

use crate::card::Card;
use crate::sums::{fold, sum};

/// Bytes of the headers: Ethernet, IPv4 and UDP.
pub(crate) const HEADERS: usize = 14 + 20 + 8;
/// Where IPv4's header and UDP's begin.
const IP: usize = 14;
const UDP: usize = 34;
/// The type of frames with IPv4 packets, then version 4 and the length of a header without options.
const PLAIN_IPV4: [u8; 3] = [8, 0, 0x45];
/// The number of UDP among IP's protocols.
const UDP_NUMBER: u8 = 17;
/// In the flags of IPv4: the packet must not be split. In what is there of a fragment: more follow, or an offset.
const WHOLE: [u8; 2] = [0x40, 0];
const FRAGMENT: u16 = 0x3fff;
/// For how long a [`Way`] is used before the neighbour's hardware address is asked for again.
const FRESH: Duration = Duration::from_millis(500);

/// How a socket's datagrams to one receiver leave over the card.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    to: SocketAddr,
    from: SocketAddrV4,
    receiver: SocketAddrV4,
    hops: u8,
    /// The neighbour's hardware address, and until when it is used.
    mac: EthernetAddress,
    until: Instant,
    /// Which addresses and routes the card had.
    version: u32,
}

/// The sum of UDP's pseudo-header and of `udp`, header and data; see [`sum`].
fn udp_sum(addresses: &[u8; 8], udp: &[u8]) -> u64 {
    let (protocol, len) = (u16::from(UDP_NUMBER).to_be(), (udp.len() as u16).to_be());
    sum(addresses) + u64::from(protocol) + u64::from(len) + u64::from(checksum::data(udp).to_be())
}

/// Reads a frame. Returns the sender, the receiver, and where the data is in the frame. `None`: it must go the long way.
pub(crate) fn read(frame: &[u8], mac: EthernetAddress) -> Option<(SocketAddr, SocketAddr, Range<usize>)> {
    let headers: &[u8; HEADERS] = frame.first_chunk()?;
    let number = |at: usize| u16::from_be_bytes([headers[at], headers[at + 1]]);
    let (total, udp_len) = (usize::from(number(IP + 2)), usize::from(number(UDP + 4)));
    let is_plain = headers[..6] == mac.0
        && headers[6] & 1 == 0
        && headers[12..15] == PLAIN_IPV4
        && number(IP + 6) & FRAGMENT == 0
        && headers[IP + 9] == UDP_NUMBER
        && udp_len >= HEADERS - UDP
        && total == udp_len + (UDP - IP)
        // There is a checksum.
        && number(UDP + 6) != 0;
    let (_, rest) = headers.split_first_chunk::<IP>()?;
    let header: &[u8; UDP - IP] = rest.first_chunk()?;
    if !is_plain || fold(sum(header)) != 0xffff {
        return None;
    }
    let udp = frame.get(UDP..IP + total)?;
    let addresses: &[u8; 8] = header.last_chunk()?;
    if fold(udp_sum(addresses, udp)) != 0xffff {
        return None;
    }
    let address = |at: usize, port: usize| {
        let ip = Ipv4Addr::new(headers[at], headers[at + 1], headers[at + 2], headers[at + 3]);
        SocketAddr::V4(SocketAddrV4::new(ip, number(port)))
    };
    Some((address(IP + 12, UDP), address(IP + 16, UDP + 2), HEADERS..IP + total))
}

/// Writes the headers of a frame, of which the data is there.
pub(crate) fn write(
    frame: &mut [u8],
    macs: [EthernetAddress; 2],
    from: SocketAddrV4,
    to: SocketAddrV4,
    hops: u8,
) -> Option<()> {
    let total = u16::try_from(frame.len().checked_sub(IP)?).ok()?;
    let udp_len = total.checked_sub((UDP - IP) as u16)?;
    let headers: &mut [u8; HEADERS] = frame.first_chunk_mut()?;
    headers[..6].copy_from_slice(&macs[1].0);
    headers[6..12].copy_from_slice(&macs[0].0);
    headers[12..15].copy_from_slice(&PLAIN_IPV4);
    headers[15] = 0;
    headers[16..18].copy_from_slice(&total.to_be_bytes());
    headers[18..20].copy_from_slice(&[0; 2]);
    headers[20..22].copy_from_slice(&WHOLE);
    headers[22..26].copy_from_slice(&[hops, UDP_NUMBER, 0, 0]);
    headers[26..30].copy_from_slice(&from.ip().octets());
    headers[30..34].copy_from_slice(&to.ip().octets());
    headers[34..36].copy_from_slice(&from.port().to_be_bytes());
    headers[36..38].copy_from_slice(&to.port().to_be_bytes());
    headers[38..40].copy_from_slice(&udp_len.to_be_bytes());
    headers[40..42].copy_from_slice(&[0; 2]);
    let header: [u8; UDP - IP] = *headers[IP..].first_chunk()?;
    headers[24..26].copy_from_slice(&(!fold(sum(&header))).to_ne_bytes());
    let addresses: &[u8; 8] = header.last_chunk()?;
    let sum = !fold(udp_sum(addresses, &frame[UDP..]));
    // 0 says that there is no checksum.
    frame[UDP + 6..HEADERS].copy_from_slice(&if sum == 0 { u16::MAX } else { sum }.to_ne_bytes());
    Some(())
}

impl Card {
    /// How datagrams leave, if the receiver's hardware address is known.
    pub(crate) fn way(
        &self,
        to: SocketAddr,
        from: SocketAddr,
        receiver: SocketAddr,
        hops: u8,
        now: Instant,
    ) -> Option<Way> {
        let (SocketAddr::V4(from), SocketAddr::V4(receiver)) = (from, receiver) else { return None };
        let to_all = self.network().and_then(|network| network.broadcast()) == Some(*receiver.ip());
        if to_all || !crate::card::is_usable(IpAddr::V4(*receiver.ip())) {
            return None;
        }
        let mac = self.link.interface.hardware_addr_for(&IpAddress::Ipv4(*receiver.ip()), now);
        let Some(HardwareAddress::Ethernet(mac)) = mac else { return None };
        Some(Way { to, from, receiver, hops, mac, until: now + FRESH, version: self.version })
    }

    /// Whether this is still the way to `to`.
    pub(crate) fn goes(&self, way: &Way, to: SocketAddr, now: Instant) -> bool {
        way.to == to && now < way.until && way.version == self.version
    }

    /// Sends a datagram, whose data is in `frame` behind [`HEADERS`] bytes. Returns false if it must go the long way: it is
    /// too long, or the card has no room.
    pub(crate) fn send_datagram(&mut self, way: &Way, frame: &mut [u8]) -> bool {
        let wire = &mut self.link.wire;
        frame.len() <= wire.mtu()
            && wire.has_room()
            && write(frame, [self.mac, way.mac], way.from, way.receiver, way.hops).is_some()
            && {
                wire.send_copy(frame);
                true
            }
    }
}
