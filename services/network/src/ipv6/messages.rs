//! Messages of neighbour discovery (RFC 4861) and of multicast listeners (MLDv2, RFC 3810) that the stack makes itself,
//! and advertisements of routers.

use std::net::Ipv6Addr;

use smoltcp::time::Duration;
use smoltcp::wire::{EthernetAddress, Icmpv6Packet};

/// All machines, all routers, and the routers of MLDv2.
pub(crate) const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
const LISTENERS_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);

/// Numbers of the protocols that follow an IPv6 header.
const HOP_BY_HOP: u8 = 0;
const ICMPV6: u8 = 58;
/// The hop limit of messages that no router passes on.
const FRESH: u8 = 255;

/// Types of options.
const PREFIX: u8 = 3;
const NAME_SERVERS: u8 = 25;

/// Maximum number of prefixes, and of name servers, that one advertisement brings.
const ITEMS: usize = 16;

/// The group in which machines with this address are asked for its owner.
pub(crate) fn solicited_node(ip: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = ip.octets();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), u16::from_be_bytes([b, c]))
}

/// A frame with an ICMPv6 message to a group.
fn frame(mac: EthernetAddress, from: Ipv6Addr, to: Ipv6Addr, hops: u8, extension: &[u8], message: &[u8]) -> Vec<u8> {
    let mut message = message.to_vec();
    Icmpv6Packet::new_unchecked(&mut message[..]).fill_checksum(&from, &to);
    let [.., a, b, c, d] = to.octets();
    let len = ((extension.len() + message.len()) as u16).to_be_bytes();
    let next = if extension.is_empty() { ICMPV6 } else { HOP_BY_HOP };
    let mut bytes = vec![0x33, 0x33, a, b, c, d];
    bytes.extend(mac.0);
    bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0, len[0], len[1], next, hops]);
    bytes.extend(from.octets());
    bytes.extend(to.octets());
    bytes.extend(extension);
    bytes.extend(message);
    bytes
}

/// Asks whether another machine has this address, before this one takes it.
pub(crate) fn probe(mac: EthernetAddress, ip: Ipv6Addr) -> Vec<u8> {
    let message = [&[135, 0, 0, 0, 0, 0, 0, 0][..], &ip.octets()].concat();
    frame(mac, Ipv6Addr::UNSPECIFIED, solicited_node(ip), FRESH, &[], &message)
}

/// Says to all that this machine has the address.
pub(crate) fn claim(mac: EthernetAddress, ip: Ipv6Addr) -> Vec<u8> {
    // The flag says that it overrides what others have of it.
    let message = [&[136, 0, 0, 0, 0x20, 0, 0, 0][..], &ip.octets(), &[2, 1], &mac.0].concat();
    frame(mac, ip, ALL_NODES, FRESH, &[], &message)
}

/// Asks the routers for an advertisement. Without an own address, it tells no hardware address.
pub(crate) fn router_solicitation(mac: EthernetAddress, own: Option<Ipv6Addr>) -> Vec<u8> {
    let mut message = vec![133, 0, 0, 0, 0, 0, 0, 0];
    if own.is_some() {
        message.extend([1, 1]);
        message.extend(mac.0);
    }
    frame(mac, own.unwrap_or(Ipv6Addr::UNSPECIFIED), ALL_ROUTERS, FRESH, &[], &message)
}

/// What a report says of a group. The numbers are those of MLDv2: all sources are heard, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Record {
    /// It is heard.
    Is = 2,
    /// It is not heard any more.
    Leaves = 3,
    /// It is heard from now on.
    Joins = 4,
}

/// Tells the routers about groups.
pub(crate) fn report(mac: EthernetAddress, own: Option<Ipv6Addr>, records: &[(Record, Ipv6Addr)]) -> Vec<u8> {
    let mut message = vec![143, 0, 0, 0, 0, 0, 0, records.len() as u8];
    for (record, group) in records {
        message.extend([*record as u8, 0, 0, 0]);
        message.extend(group.octets());
    }
    // Routers look at a packet with this option.
    let alert = [ICMPV6, 0, 5, 2, 0, 0, 1, 0];
    frame(mac, own.unwrap_or(Ipv6Addr::UNSPECIFIED), LISTENERS_ROUTERS, 1, &alert, &message)
}

/// How long something is valid. `None`: for ever.
pub(crate) type Lifetime = Option<Duration>;

/// A prefix of addresses that a router advertises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefix {
    pub ip: Ipv6Addr,
    /// Its length in bits.
    pub len: u8,
    /// Its addresses are on this network.
    pub on_link: bool,
    /// Machines may make addresses of it.
    pub autonomous: bool,
    pub valid: Lifetime,
    pub preferred: Lifetime,
}

/// What a router says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Advertisement {
    /// How long it is a default router. Zero: it is none.
    pub router: Duration,
    pub prefixes: Vec<Prefix>,
    pub name_servers: Vec<(Ipv6Addr, Lifetime)>,
}

impl Advertisement {
    /// Parses an ICMPv6 message of this type. `None`: an option has no length, or does not fit.
    pub(crate) fn parse(message: &[u8]) -> Option<Advertisement> {
        let (head, mut rest) = message.split_first_chunk::<16>()?;
        let router = Duration::from_secs(u16::from_be_bytes([head[6], head[7]]).into());
        let mut told = Advertisement { router, prefixes: Vec::new(), name_servers: Vec::new() };
        while let [kind, units, ..] = *rest {
            let len = usize::from(units) * 8;
            if len == 0 {
                return None;
            }
            let (option, after) = rest.split_at_checked(len)?;
            rest = after;
            match (kind, units) {
                (PREFIX, 4) if told.prefixes.len() < ITEMS => told.prefixes.extend(prefix(option)),
                (NAME_SERVERS, 3..) => {
                    let (lifetime, (ips, _)) = (lifetime(&option[4..])?, option[8..].as_chunks::<16>());
                    let room = ITEMS - told.name_servers.len();
                    told.name_servers.extend(ips.iter().take(room).map(|octets| (Ipv6Addr::from(*octets), lifetime)));
                }
                _ => {}
            }
        }
        rest.is_empty().then_some(told)
    }
}

fn prefix(option: &[u8]) -> Option<Prefix> {
    Some(Prefix {
        ip: Ipv6Addr::from(*option.get(16..)?.first_chunk::<16>()?),
        len: option[2],
        on_link: option[3] & 0x80 != 0,
        autonomous: option[3] & 0x40 != 0,
        valid: lifetime(&option[4..])?,
        preferred: lifetime(&option[8..])?,
    })
}

/// Seconds; all ones mean for ever.
fn lifetime(bytes: &[u8]) -> Option<Lifetime> {
    Some(match u32::from_be_bytes(*bytes.first_chunk::<4>()?) {
        u32::MAX => None,
        seconds => Some(Duration::from_secs(seconds.into())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_do_not_fit() {
        let head = [134, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0];
        let parse = |options: &[u8]| Advertisement::parse(&[&head, options].concat());
        let none =
            Some(Advertisement { router: Duration::from_secs(0x708), prefixes: Vec::new(), name_servers: Vec::new() });
        assert_eq!(parse(&[]), none);
        // An unknown one, a prefix of another length, servers without a server.
        for odd in [[200, 1], [PREFIX, 1], [NAME_SERVERS, 1]] {
            assert_eq!(parse(&[&odd[..], &[0; 6]].concat()), none);
        }
        for wrong in [&[PREFIX][..], &[PREFIX, 0], &[PREFIX, 4], &[1, 1, 0, 0, 0, 0, 0], &[1, 1, 0, 0, 0, 0, 0, 0, 9]] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
        // No more than there is room for.
        let servers = [&[NAME_SERVERS, 41, 0, 0, 0, 0, 0, 9][..], &[7; 40 * 8]].concat();
        assert_eq!(parse(&servers).unwrap().name_servers.len(), ITEMS);
        assert_eq!(parse(&[&servers[..], &servers].concat()).unwrap().name_servers.len(), ITEMS);
    }

    #[test]
    fn groups_of_addresses() {
        let ip: Ipv6Addr = "2001:db8::5054:ff:fe12:3456".parse().unwrap();
        assert_eq!(solicited_node(ip), "ff02::1:ff12:3456".parse::<Ipv6Addr>().unwrap());
    }
}
