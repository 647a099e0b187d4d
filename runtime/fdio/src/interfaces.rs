//! The network interfaces by name and number: the loopback, and the card if the machine has one.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use network_protocol::{CARD, CardState, LOOPBACK};

/// Limit on a name in bytes, with its NUL (`IF_NAMESIZE`).
pub const NAME_SIZE: usize = 16;

const IFF_UP: u32 = 0x1;
const IFF_BROADCAST: u32 = 0x2;
const IFF_LOOPBACK: u32 = 0x8;
const IFF_RUNNING: u32 = 0x40;
const IFF_MULTICAST: u32 = 0x1000;

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// The address.
    pub ip: IpAddr,
    /// The network's mask.
    pub mask: IpAddr,
    /// The address of all machines of the network.
    pub broadcast: Option<IpAddr>,
}

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name, shorter than [`NAME_SIZE`].
    pub name: &'static str,
    /// Its number.
    pub index: u32,
    /// Its flags (`IFF_UP` and its kin).
    pub flags: u32,
    /// Its addresses. A card without an address yet has none.
    pub addresses: Vec<InterfaceAddress>,
}

/// All interfaces of a machine with this card.
pub fn all(card: Option<&CardState>) -> Vec<Interface> {
    let loopback = Interface {
        name: "lo",
        index: LOOPBACK,
        flags: IFF_UP | IFF_RUNNING | IFF_LOOPBACK,
        addresses: alloc::vec![
            InterfaceAddress { ip: Ipv4Addr::LOCALHOST.into(), mask: mask(8).into(), broadcast: None },
            InterfaceAddress {
                ip: Ipv6Addr::LOCALHOST.into(),
                mask: Ipv6Addr::from_bits(u128::MAX).into(),
                broadcast: None
            },
        ],
    };
    let card = card.map(|card| Interface {
        name: "net0",
        index: CARD,
        flags: IFF_UP | IFF_BROADCAST | IFF_MULTICAST | if card.online { IFF_RUNNING } else { 0 },
        addresses: {
            let v4 = card.address.map(|(ip, prefix)| of_card(ip, prefix));
            let v6 = card.v6.addresses.iter().flatten();
            v4.into_iter().chain(v6.map(|(ip, prefix)| of_card_v6(*ip, *prefix))).collect()
        },
    });
    core::iter::once(loopback).chain(card).collect()
}

fn of_card(ip: Ipv4Addr, prefix: u8) -> InterfaceAddress {
    let mask = mask(prefix);
    // A network of one or two machines has no such address (RFC 3021).
    let broadcast = (prefix < 31).then(|| Ipv4Addr::from_bits(ip.to_bits() | !mask.to_bits()).into());
    InterfaceAddress { ip: ip.into(), mask: mask.into(), broadcast }
}

fn of_card_v6(ip: Ipv6Addr, prefix: u8) -> InterfaceAddress {
    let mask = u128::MAX.checked_shl(128_u32.saturating_sub(prefix.into())).unwrap_or(0);
    InterfaceAddress { ip: ip.into(), mask: Ipv6Addr::from_bits(mask).into(), broadcast: None }
}

/// The number of the interface with this name or this number in digits, as in `fe80::1%net0`. `None`: there is none.
pub fn scope(text: &str) -> Option<u32> {
    match text {
        "lo" => Some(LOOPBACK),
        "net0" => Some(CARD),
        number => number.parse().ok().filter(|number| *number != 0),
    }
}

/// The name of an interface by its number.
pub fn name_of_scope(index: u32) -> Option<&'static str> {
    match index {
        LOOPBACK => Some("lo"),
        CARD => Some("net0"),
        _ => None,
    }
}

fn mask(prefix: u8) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::MAX.checked_shl(32_u32.saturating_sub(prefix.into())).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use network_protocol::CardStateV6;

    use super::*;

    fn card(address: Option<(Ipv4Addr, u8)>) -> CardState {
        CardState {
            mac: [2, 0, 0, 0, 0, 1],
            online: true,
            mtu: 1500,
            address,
            gateway: None,
            name_servers: [None; 3],
            received: 0,
            sent: 0,
            ignored: 0,
            no_room: 0,
            v6: CardStateV6::default(),
        }
    }

    #[test]
    fn without_a_card_there_is_the_loopback() {
        let found = all(None);
        assert_eq!(found.iter().map(|one| (one.name, one.index)).collect::<Vec<_>>(), [("lo", 1)]);
        let its: Vec<_> = found[0].addresses.iter().map(|one| (one.ip.to_string(), one.mask.to_string())).collect();
        let text = |ip: &str, mask: &str| (ip.to_owned(), mask.to_owned());
        let ones = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
        assert_eq!(its, [text("127.0.0.1", "255.0.0.0"), text("::1", ones)]);
    }

    #[test]
    fn a_card_has_mask_and_broadcast_address() {
        let found = all(Some(&card(Some((Ipv4Addr::new(192, 0, 2, 77), 26)))));
        assert_eq!((found[1].name, found[1].index), ("net0", 2));
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let wanted =
            InterfaceAddress { ip: ip("192.0.2.77"), mask: ip("255.255.255.192"), broadcast: Some(ip("192.0.2.127")) };
        assert_eq!(found[1].addresses, [wanted]);
    }

    #[test]
    fn a_card_runs_while_it_has_a_link() {
        let state = card(None);
        assert_eq!(all(Some(&state))[1].flags & IFF_RUNNING, IFF_RUNNING);
        assert_eq!(all(Some(&CardState { online: false, ..state }))[1].flags & (IFF_UP | IFF_RUNNING), IFF_UP);
    }

    #[test]
    fn networks_of_all_sizes() {
        let of = |prefix: u8| all(Some(&card(Some((Ipv4Addr::new(10, 1, 2, 3), prefix)))))[1].addresses[0];
        assert_eq!((of(0).mask.to_string(), of(0).broadcast), ("0.0.0.0".to_owned(), Some(Ipv4Addr::BROADCAST.into())));
        assert_eq!((of(31).mask.to_string(), of(31).broadcast), ("255.255.255.254".to_owned(), None));
        assert_eq!((of(32).mask.to_string(), of(32).broadcast), ("255.255.255.255".to_owned(), None));
        // The service is trusted, but no value of its makes this panic.
        assert_eq!(of(255).mask.to_string(), "255.255.255.255");
    }

    #[test]
    fn a_card_has_ipv6() {
        let ip = |text: &str| text.parse::<Ipv6Addr>().unwrap();
        let mut state = card(None);
        state.v6.addresses[..2].copy_from_slice(&[Some((ip("fe80::1"), 64)), Some((ip("2001:db8::5"), 0))]);
        let found = &all(Some(&state))[1].addresses;
        let of = |at: usize| (found[at].ip, found[at].mask, found[at].broadcast);
        assert_eq!(of(0), (ip("fe80::1").into(), ip("ffff:ffff:ffff:ffff::").into(), None));
        assert_eq!(of(1), (ip("2001:db8::5").into(), ip("::").into(), None));
    }

    #[test]
    fn scopes() {
        assert_eq!(["net0", "2", "lo", "9"].map(scope), [Some(CARD), Some(CARD), Some(LOOPBACK), Some(9)]);
        assert_eq!(["", "0", "eth0", "-1", "4294967296"].map(scope), [None; 5]);
        assert!(all(Some(&card(None))).iter().all(|one| name_of_scope(one.index) == Some(one.name)));
    }

    #[test]
    fn a_card_without_an_address_is_there() {
        let found = all(Some(&card(None)));
        assert_eq!((found[1].name, found[1].addresses.len()), ("net0", 0));
        assert!(found.iter().all(|one| one.name.len() < NAME_SIZE));
    }
}
