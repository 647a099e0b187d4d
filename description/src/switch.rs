//! The ports of a switch: which hardware address each has, and to which others it may send.
//!
//! People write them in `system.toml`. The host tool checks them ([`check`]), gives them to the switch as arguments
//! ([`Port::to_argument`]), and gives each program the names of its ports as its part of the service ([`Grant`]). So
//! neither a guest nor its program can choose an address or a neighbour.

use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::Error;

/// Limit on the ports of a switch.
pub const PORTS: usize = 32;
/// Limit on the length of a port's name.
pub const NAME: usize = 32;

/// What is at a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PortKind {
    /// A guest's network device, by vhost-user.
    #[default]
    Guest,
    /// The TCP/IP service, for which the port is a network card (crate `netdevice`).
    Service,
    /// The network card of the machine: all addresses that no other port has.
    Card,
}

impl PortKind {
    /// All kinds, with their names in descriptions and arguments.
    const ALL: [(PortKind, &str); 3] =
        [(PortKind::Guest, "guest"), (PortKind::Service, "service"), (PortKind::Card, "card")];
}

/// A port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its name: letters, digits and `-`.
    pub name: String,
    /// What is at it.
    pub kind: PortKind,
    /// Its hardware address; of a card's port, zero.
    pub mac: [u8; 6],
    /// The ports to which it may send. `None`: all.
    pub sends_to: Option<Vec<String>>,
}

/// Reads a hardware address, such as `02:00:00:00:00:01`.
fn mac(text: &str) -> Option<[u8; 6]> {
    let mut parts = text.split(':');
    let mut mac = [0; 6];
    for byte in &mut mac {
        let part = parts.next().filter(|part| part.len() == 2 && part.bytes().all(|c| c.is_ascii_hexdigit()))?;
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(mac)
}

/// Checks the name of a port.
///
/// # Errors
/// It is none.
pub fn check_name(name: &str) -> Result<(), String> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if name.is_empty() || name.len() > NAME || !name.chars().all(is_of_name) {
        return Err(format!("`{name}` is no name of a port: letters, digits and `-`, {NAME} at most"));
    }
    Ok(())
}

impl Port {
    /// Makes a port of its texts. A card's port has no address.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(
        name: &str,
        kind: PortKind,
        address: Option<&str>,
        sends_to: Option<Vec<String>>,
    ) -> Result<Port, String> {
        check_name(name)?;
        let address = match (kind, address) {
            (PortKind::Card, None) => return Ok(Port { name: name.to_string(), kind, mac: [0; 6], sends_to }),
            (PortKind::Card, Some(_)) => return Err("the port of a card has no address of its own".to_string()),
            (_, address) => address.unwrap_or_default(),
        };
        let mac =
            mac(address).ok_or_else(|| format!("`{address}` is no hardware address, such as 02:00:00:00:00:01"))?;
        if mac[0] & 1 != 0 || mac == [0; 6] {
            return Err(format!("`{address}` is the address of a group, or of nobody"));
        }
        Ok(Port { name: name.to_string(), kind, mac, sends_to })
    }

    /// The argument for the switch.
    pub fn to_argument(&self) -> String {
        let mac: Vec<String> = self.mac.iter().map(|byte| format!("{byte:02x}")).collect();
        let to = self.sends_to.as_ref().map_or_else(String::new, |names| format!(",to={}", names.join("+")));
        let kind = PortKind::ALL.iter().find(|(kind, _)| *kind == self.kind).map_or("", |(_, name)| name);
        match self.kind {
            PortKind::Guest => format!("port={},mac={}{to}", self.name, mac.join(":")),
            PortKind::Service => format!("port={},kind={kind},mac={}{to}", self.name, mac.join(":")),
            PortKind::Card => format!("port={},kind={kind}{to}", self.name),
        }
    }

    /// Reads an argument. `None`: it is not about a port.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn from_argument(text: &str) -> Option<Result<Port, String>> {
        let text = text.strip_prefix("port=")?;
        let mut parts = text.split(',');
        let (name, mut kind, mut address, mut to) = (parts.next().unwrap_or_default(), PortKind::Guest, None, None);
        for part in parts {
            match part.split_once('=') {
                Some(("mac", text)) => address = Some(text),
                Some(("kind", text)) => match PortKind::ALL.iter().find(|(_, name)| *name == text) {
                    Some((known, _)) => kind = *known,
                    None => return Some(Err(format!("`{text}` is no kind of port"))),
                },
                Some(("to", text)) => {
                    to = Some(text.split('+').filter(|name| !name.is_empty()).map(str::to_string).collect());
                }
                _ => return Some(Err(format!("`{part}` says nothing of a port"))),
            }
        }
        Some(Port::new(name, kind, address, to))
    }
}

/// Checks the ports of a switch together.
///
/// # Errors
/// Two have one name or one address, two are a card's, one may send to a port that does not exist, or there are too many.
pub fn check(ports: &[Port]) -> Result<(), String> {
    if ports.len() > PORTS {
        return Err(format!("{PORTS} ports at most"));
    }
    for (at, port) in ports.iter().enumerate() {
        for other in &ports[..at] {
            if other.name == port.name {
                return Err(format!("two ports are named `{}`", port.name));
            }
            if port.kind == PortKind::Card && other.kind == PortKind::Card {
                return Err(format!("ports `{}` and `{}` are both the card's", other.name, port.name));
            }
            if other.mac == port.mac {
                return Err(format!("ports `{}` and `{}` have one address", other.name, port.name));
            }
        }
        for name in port.sends_to.iter().flatten() {
            if !ports.iter().any(|other| other.name == *name) {
                return Err(format!("port `{}` sends to `{name}`, and no port has that name", port.name));
            }
        }
    }
    Ok(())
}

/// The ports that a program may have: its part of the service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Their names.
    pub ports: Vec<String>,
}

impl Grant {
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
    pub fn decode(bytes: &[u8]) -> Result<Grant, Error> {
        match postcard::take_from_bytes(bytes) {
            Ok((grant @ Grant { .. }, [])) if grant.ports.len() <= PORTS => Ok(grant),
            _ => Err(Error::Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::PART;
    use proptest::prelude::*;
    use std::vec;

    fn port(name: &str, mac: &str, to: Option<&[&str]>) -> Result<Port, String> {
        let to = to.map(|names| names.iter().map(ToString::to_string).collect());
        Port::new(name, PortKind::Guest, Some(mac), to)
    }

    #[test]
    fn mistakes_are_named() {
        let good = port("a-1", "02:00:00:00:00:0a", None).unwrap();
        assert_eq!(good.mac, [2, 0, 0, 0, 0, 10]);
        for name in ["", "a b", "a/b", "a,b", "a+b", "ä", &"a".repeat(NAME + 1)] {
            assert!(port(name, "02:00:00:00:00:0a", None).unwrap_err().contains("no name"), "{name}");
        }
        for mac in
            ["", "2:0:0:0:0:a", "02:00:00:00:00", "02:00:00:00:00:0a:01", "02:00:00:00:00:+1", "02-00-00-00-00-0a"]
        {
            assert!(port("a", mac, None).unwrap_err().contains("no hardware address"), "{mac}");
        }
        for mac in ["03:00:00:00:00:01", "ff:ff:ff:ff:ff:ff", "00:00:00:00:00:00"] {
            assert!(port("a", mac, None).unwrap_err().contains("of a group, or of nobody"), "{mac}");
        }
        let of = |name, mac| port(name, mac, None).unwrap();
        let (a, b) = (of("a", "02:00:00:00:00:01"), of("b", "02:00:00:00:00:02"));
        assert_eq!(check(&[a.clone(), b.clone()]), Ok(()));
        assert!(check(&[a.clone(), of("a", "02:00:00:00:00:02")]).unwrap_err().contains("named `a`"));
        assert!(check(&[a.clone(), of("b", "02:00:00:00:00:01")]).unwrap_err().contains("have one address"));
        let to = port("c", "02:00:00:00:00:03", Some(&["a", "x"])).unwrap();
        assert!(check(&[a, b, to]).unwrap_err().contains("sends to `x`"));
        let many: Vec<Port> = (0..=PORTS as u8)
            .map(|at| Port { name: format!("p{at}"), kind: PortKind::Guest, mac: [2, 0, 0, 0, 0, at], sends_to: None })
            .collect();
        assert!(check(&many).unwrap_err().contains("32 ports at most"));
        let card = |name, mac| Port::new(name, PortKind::Card, mac, None);
        assert!(card("x", Some("02:00:00:00:00:01")).unwrap_err().contains("no address of its own"));
        assert!(Port::new("x", PortKind::Service, None, None).unwrap_err().contains("no hardware address"));
        let both = [card("x", None).unwrap(), card("y", None).unwrap()];
        assert!(check(&both).unwrap_err().contains("both the card's"));
    }

    #[test]
    fn arguments() {
        for to in [None, Some(vec![]), Some(vec!["a"]), Some(vec!["a", "b-2"])] {
            let port = port("p", "02:00:00:00:00:0a", to.as_deref()).unwrap();
            assert_eq!(Port::from_argument(&port.to_argument()), Some(Ok(port)));
        }
        for (kind, mac) in [(PortKind::Service, Some("02:00:00:00:00:0a")), (PortKind::Card, None)] {
            let port = Port::new("p", kind, mac, Some(vec!["a".to_string()])).unwrap();
            assert_eq!(Port::from_argument(&port.to_argument()), Some(Ok(port)));
        }
        assert!(Port::from_argument("port=a,kind=b").unwrap().unwrap_err().contains("no kind"));
        assert_eq!(Port::from_argument("verbose"), None);
        assert!(Port::from_argument("port=a,mtu=9").unwrap().unwrap_err().contains("says nothing"));
    }

    #[test]
    fn the_longest_grant_fits() {
        let grant = Grant { ports: vec!["x".repeat(NAME); PORTS] };
        let bytes = grant.encode().unwrap();
        assert!(bytes.len() <= PART);
        assert_eq!(Grant::decode(&bytes), Ok(grant));
        assert!(!Grant::default().encode().unwrap().is_empty());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Grant::decode(&bytes);
            let _ = Port::from_argument(&String::from_utf8_lossy(&bytes));
        }
    }
}
