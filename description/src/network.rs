//! Rules about the network: the addresses and ports that a program may reach, and where it may listen.
//!
//! People write them as text ([`Rule::parse`]). `init` gives the network service the encoded rule of a program with each
//! of the program's connections, so the program cannot change it. The service asks the rule before it acts.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::string::{String, ToString};
use std::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::Error;

/// Limit on the ranges of a rule, in each of its two lists.
pub const RANGES: usize = 32;

/// What a program may do with the network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Where it may connect to and send to.
    connect: Vec<Reach>,
    /// Where it may listen and bind.
    listen: Vec<Reach>,
    /// It may look up names.
    names: bool,
}

/// Addresses and ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Reach {
    /// An address, and how many of its bits count. `None`: all addresses.
    prefix: Option<(IpAddr, u8)>,
    /// The first port.
    first: u16,
    /// The last port.
    last: u16,
}

impl Rule {
    /// Makes a rule of its texts. Each is `PORTS` (in `listen` only), or `ADDRESS:PORTS`. The address is `10.0.2.7`,
    /// `10.0.2.0/24`, `[2001:db8::/32]` or `*`; the ports are `80`, `8000-8100` or `*`.
    ///
    /// # Errors
    /// Which text is wrong, and why.
    pub fn parse(connect: &[impl AsRef<str>], listen: &[impl AsRef<str>], names: bool) -> Result<Rule, String> {
        let told = |what: &str, text: &str| {
            let parsed = match (what, text.rsplit_once(':')) {
                ("listen", None) => ports(text).map(|(first, last)| Reach { prefix: None, first, last }),
                (_, Some((address, text))) => {
                    prefix(address).and_then(|prefix| ports(text).map(|(first, last)| Reach { prefix, first, last }))
                }
                _ => Err("it needs a port after a `:`, or `:*`".to_string()),
            };
            parsed.map_err(|why| std::format!("{what} `{text}`: {why}"))
        };
        let all = |what: &'static str, texts: Vec<&str>| -> Result<Vec<Reach>, String> {
            if texts.len() > RANGES {
                return Err(std::format!("{what}: {RANGES} ranges at most"));
            }
            texts.into_iter().map(|text| told(what, text)).collect()
        };
        let connect = all("connect", connect.iter().map(AsRef::as_ref).collect())?;
        let listen = all("listen", listen.iter().map(AsRef::as_ref).collect())?;
        Ok(Rule { connect, listen, names })
    }

    /// Encodes it as a part of a service's ([`crate::services::Access::Part`]).
    ///
    /// # Errors
    /// [`Error::Malformed`] if it cannot be written.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        postcard::to_extend(self, Vec::new()).map_err(|_| Error::Malformed)
    }

    /// Decodes it.
    ///
    /// # Errors
    /// [`Error::Malformed`].
    pub fn decode(bytes: &[u8]) -> Result<Rule, Error> {
        match postcard::take_from_bytes(bytes) {
            Ok((rule @ Rule { .. }, [])) if rule.connect.len() <= RANGES && rule.listen.len() <= RANGES => Ok(rule),
            _ => Err(Error::Malformed),
        }
    }

    /// Whether the program may connect to, or send to, an address and port.
    pub fn reaches(&self, to: SocketAddr) -> bool {
        self.connect.iter().any(|range| range.has(to.ip(), to.port()))
    }

    /// Whether it may join the multicast group with this address: it may send there, to some port.
    pub fn reaches_group(&self, group: IpAddr) -> bool {
        self.connect.iter().any(|range| range.has_address(group))
    }

    /// Whether it may send there what has no ports: echo requests. All ports are allowed there, by `*`, which has port 0, too.
    pub fn reaches_host(&self, to: IpAddr) -> bool {
        self.connect.iter().any(|range| range.has_address(to) && range.first == 0 && range.last == u16::MAX)
    }

    /// Whether it may listen, or bind a socket, at this local address.
    pub fn listens(&self, at: SocketAddr) -> bool {
        self.listen.iter().any(|range| range.has(at.ip(), at.port()))
    }

    /// Whether it may look up names.
    pub fn looks_up(&self) -> bool {
        self.names
    }
}

impl Reach {
    fn has(&self, ip: IpAddr, port: u16) -> bool {
        (self.first..=self.last).contains(&port) && self.has_address(ip)
    }

    fn has_address(&self, ip: IpAddr) -> bool {
        match (self.prefix, ip) {
            (None, _) => true,
            (Some((IpAddr::V4(net), bits)), IpAddr::V4(ip)) => {
                (net.to_bits() ^ ip.to_bits()).checked_shr(32 - u32::from(bits.min(32))).is_none_or(|rest| rest == 0)
            }
            (Some((IpAddr::V6(net), bits)), IpAddr::V6(ip)) => {
                (net.to_bits() ^ ip.to_bits()).checked_shr(128 - u32::from(bits.min(128))).is_none_or(|rest| rest == 0)
            }
            _ => false,
        }
    }
}

/// An address with or without the length of a prefix; `None` for all.
fn prefix(text: &str) -> Result<Option<(IpAddr, u8)>, String> {
    if text == "*" {
        return Ok(None);
    }
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let (address, bits) = match inner.unwrap_or(text).split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (inner.unwrap_or(text), None),
    };
    let wrong = || "an address is like 10.0.2.7, 10.0.2.0/24, [2001:db8::/32] or *".to_string();
    let ip = match inner {
        Some(_) => IpAddr::V6(address.parse::<Ipv6Addr>().map_err(|_| wrong())?),
        None => IpAddr::V4(address.parse::<Ipv4Addr>().map_err(|_| wrong())?),
    };
    let most = if ip.is_ipv4() { 32 } else { 128 };
    let bits = match bits {
        None => most,
        Some(bits) => bits.parse().ok().filter(|bits| *bits <= most).ok_or_else(wrong)?,
    };
    // A mapped address would never match: the service sees it as IPv4.
    if matches!(ip, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some()) {
        return Err("write an IPv4 address without the prefix of IPv6".to_string());
    }
    Ok(Some((ip, bits)))
}

fn ports(text: &str) -> Result<(u16, u16), String> {
    if text == "*" {
        return Ok((0, u16::MAX));
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse::<u16>(), last.parse::<u16>()) {
        (Ok(first), Ok(last)) if first > 0 && first <= last => Ok((first, last)),
        _ => Err("ports are like 80, 8000-8100 or *, from 1 to 65535".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::PART;
    use proptest::prelude::*;

    fn rule(connect: &[&str], listen: &[&str]) -> Rule {
        Rule::parse(connect, listen, false).unwrap()
    }

    fn reaches(connect: &str, to: &str) -> bool {
        rule(&[connect], &[]).reaches(to.parse().unwrap())
    }

    #[test]
    fn prefixes_and_ports() {
        assert!(reaches("10.0.2.0/24:443", "10.0.2.255:443"));
        assert!(!reaches("10.0.2.0/24:443", "10.0.3.0:443"));
        assert!(!reaches("10.0.2.0/24:443", "10.0.2.7:444"));
        // Bits behind the prefix do not count.
        assert!(reaches("10.0.2.9/24:443", "10.0.2.7:443"));
        assert!(reaches("10.0.2.7:1-65535", "10.0.2.7:1") && !reaches("10.0.2.7:1-65535", "10.0.2.8:1"));
        assert!(reaches("0.0.0.0/0:*", "255.255.255.255:0") && !reaches("0.0.0.0/0:*", "[::1]:1"));
        assert!(reaches("[::/0]:*", "[ffff::1]:65535") && !reaches("[::/0]:*", "1.2.3.4:1"));
        assert!(reaches("[2001:db8::/33]:7", "[2001:db8:7fff::1]:7"));
        assert!(!reaches("[2001:db8::/33]:7", "[2001:db8:8000::1]:7"));
        assert!(reaches("[::1]:8000-8100", "[::1]:8100") && !reaches("[::1]:8000-8100", "[::1]:8101"));
        assert!(reaches("*:443", "[::1]:443") && reaches("*:443", "1.2.3.4:443") && !reaches("*:443", "1.2.3.4:80"));
        let nothing = Rule::default();
        assert!(!nothing.reaches("127.0.0.1:1".parse().unwrap()) && !nothing.looks_up());
        assert!(!nothing.listens("0.0.0.0:0".parse().unwrap()));
    }

    #[test]
    fn listeners_groups_and_hosts() {
        let rule = rule(&["239.1.0.0/16:5353", "10.0.2.2:*"], &["80", "127.0.0.1:8000-8100"]);
        let listens = |at: &str| rule.listens(at.parse().unwrap());
        assert!(listens("0.0.0.0:80") && listens("[::]:80") && listens("127.0.0.1:8000"));
        assert!(!listens("0.0.0.0:8000") && !listens("127.0.0.1:81") && !listens("0.0.0.0:0"));
        let ip = |text: &str| text.parse().unwrap();
        assert!(rule.reaches_group(ip("239.1.2.3")) && !rule.reaches_group(ip("239.2.2.3")));
        assert!(rule.reaches_host(ip("10.0.2.2")) && !rule.reaches_host(ip("239.1.2.3")));
    }

    #[test]
    fn mistakes_are_named() {
        let error = |connect: &[&str], listen: &[&str]| Rule::parse(connect, listen, true).unwrap_err();
        assert!(error(&["10.0.2.7"], &[]).contains("connect `10.0.2.7`: it needs a port"));
        for text in ["10.0.2:80", "10.0.2.0/33:80", "::1:80", "[::1/129]:80", "[10.0.0.1]:80", "host:80", ":80"] {
            assert!(error(&[text], &[]).contains("an address is like"), "{text}");
        }
        for text in ["*:0", "*:", "*:70000", "*:9-8", "*:http"] {
            assert!(error(&[text], &[]).contains("ports are like"), "{text}");
        }
        assert!(error(&["[::ffff:1.2.3.4]:80"], &[]).contains("without the prefix"));
        assert!(error(&[], &["http"]).contains("listen `http`"));
        assert!(error(&["*:1"; RANGES + 1], &[]).contains("32 ranges at most"));
    }

    #[test]
    fn the_longest_rule_fits() {
        let long = ["[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65534-65535"; RANGES];
        let bytes = rule(&long, &long).encode().unwrap();
        assert!(bytes.len() <= PART, "{} bytes", bytes.len());
        assert_eq!(Rule::decode(&bytes), Ok(rule(&long, &long)));
        assert!(!Rule::default().encode().unwrap().is_empty());
        assert!(Rule::decode(&bytes[1..]).is_err() && Rule::decode(&[&bytes[..], &[0]].concat()).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(rule) = Rule::decode(&bytes) {
                let _ = rule.reaches((Ipv4Addr::LOCALHOST, 1).into()) || rule.listens((Ipv6Addr::LOCALHOST, 1).into());
            }
        }
    }
}
