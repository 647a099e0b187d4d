//! Names of hosts from the service's arguments, as `/etc/hosts` has them elsewhere. They come before the name servers.

use std::collections::HashMap;
use std::net::IpAddr;

use network_protocol::{Addresses, Name};

/// The hosts that the arguments name.
#[derive(Clone, Debug, Default)]
pub struct Hosts(HashMap<String, Vec<IpAddr>>);

impl Hosts {
    /// Takes an argument `host=NAME=192.0.2.7` or `host=NAME=2001:db8::7`. A name can come several times, with other addresses. Returns whether it
    /// was such an argument.
    ///
    /// # Errors
    /// A sentence for the log.
    pub fn add(&mut self, argument: &str) -> Result<bool, String> {
        let Some(text) = argument.strip_prefix("host=") else { return Ok(false) };
        let wrong = || format!("`{argument}` is no host with an address");
        let (name, ip) = text.split_once('=').ok_or_else(wrong)?;
        let name = Name::new(name).ok_or_else(wrong)?;
        let ip: IpAddr = ip.parse().map_err(|_| wrong())?;
        if ip.to_canonical() != ip {
            return Err(wrong());
        }
        self.0.entry(name.as_str().to_ascii_lowercase()).or_default().push(ip);
        Ok(true)
    }

    /// The addresses of a host, if the arguments name it.
    pub fn find(&self, name: Name<'_>) -> Option<Addresses> {
        Addresses::new(self.0.get(&name.as_str().to_ascii_lowercase())?.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_addresses() {
        let mut hosts = Hosts::default();
        for argument in [
            "host=Files.example=192.0.2.7",
            "host=files.example=192.0.2.8",
            "host=other.=192.0.2.9",
            "host=files.example=2001:db8::7",
        ] {
            assert_eq!(hosts.add(argument), Ok(true));
        }
        let find = |name: &str| hosts.find(Name::new(name).unwrap()).map(|found| found.as_slice().to_vec());
        let ip = |last: u8| IpAddr::from([192, 0, 2, last]);
        let v6: IpAddr = "2001:db8::7".parse().unwrap();
        assert_eq!(find("FILES.example."), Some(vec![ip(7), ip(8), v6]));
        assert_eq!(find("other"), Some(vec![ip(9)]));
        assert_eq!(find("example"), None);
    }

    #[test]
    fn other_arguments() {
        let mut hosts = Hosts::default();
        assert_eq!(hosts.add("dhcp"), Ok(false));
        for wrong in [
            "host=",
            "host=name",
            "host==192.0.2.7",
            "host=a b=192.0.2.7",
            "host=name=::ffff:1.2.3.4",
            "host=name=192.0.2",
        ] {
            assert!(hosts.add(wrong).is_err(), "{wrong}");
        }
    }
}
