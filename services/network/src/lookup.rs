//! Names of hosts: smoltcp's DNS socket asks the name servers over the card, in datagrams. [`crate::lookup_stream`] asks
//! again over TCP after a truncated answer.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

use network_protocol::{Addresses, Error, Name};
use smoltcp::socket::dns::{self, GetQueryResultError, QueryHandle};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{DnsQueryType, IpAddress};

use crate::card::is_usable;
use crate::lookup_stream::Streams;
use crate::packets::{Packets, Side};
use crate::ports::Id;
use crate::stack::{DataSockets, Stack};

/// The number of the DNS client among the smoltcp sockets. Sockets of programs have greater ones.
pub(crate) const DNS: Id = 1;
/// The UDP port of name servers.
pub(crate) const DNS_SERVER: u16 = 53;
/// Maximum number of lookups at a time.
pub const LOOKUPS: usize = 64;
/// Time after which smoltcp gives up when no server answers. A failure before that is an answer.
const SILENCE: Duration = Duration::from_secs(9);

/// The number of a lookup.
pub type LookupId = u64;

/// The lookups that wait for an answer.
#[derive(Default)]
pub(crate) struct Lookups {
    waiting: HashMap<LookupId, (QueryHandle, Instant)>,
    /// Connections to name servers.
    pub(crate) streams: Streams,
    last: LookupId,
}

impl Lookups {
    /// All of them, with their queries.
    pub(crate) fn queries(&self) -> Vec<(LookupId, QueryHandle)> {
        self.waiting.iter().map(|(id, (query, _))| (*id, *query)).collect()
    }
}

impl<W: DataSockets> Stack<W> {
    /// Sets the name servers.
    pub(crate) fn set_name_servers(&mut self, servers: &[Ipv4Addr]) {
        self.name_servers = servers.iter().copied().filter(|server| is_usable((*server).into())).collect();
        let servers: Vec<IpAddress> = self.name_servers.iter().map(|server| (*server).into()).collect();
        let packets = self.packets.entry(DNS);
        let packets = packets.or_insert_with(|| Packets::new(dns::Socket::new(&[], Vec::new()), Side::Card));
        packets.socket::<dns::Socket<'static>>().update_servers(&servers);
    }

    /// Begins to look up a name. [`Stack::looked_up`] tells the result.
    ///
    /// # Errors
    /// `NoNameServer`: there is none. `TooMany`, `NoName`.
    pub fn look_up(&mut self, name: Name<'_>) -> Result<LookupId, Error> {
        if self.lookups.waiting.len() >= LOOKUPS {
            return Err(Error::TooMany);
        }
        let (Some(packets), Some(card)) = (self.packets.get_mut(&DNS), &mut self.card) else {
            return Err(Error::NoNameServer);
        };
        if self.name_servers.is_empty() {
            return Err(Error::NoNameServer);
        }
        let dns = packets.socket::<dns::Socket<'static>>();
        let query = dns.start_query(card.link.interface.context(), name.as_str(), DnsQueryType::A);
        let query = query.map_err(|_| Error::NoName)?;
        self.lookups.last += 1;
        self.lookups.waiting.insert(self.lookups.last, (query, self.now));
        self.send_packets(DNS);
        Ok(self.lookups.last)
    }

    /// Nobody waits for this lookup any more.
    pub fn cancel_lookup(&mut self, id: LookupId) {
        if let Some((query, _)) = self.lookups.waiting.remove(&id)
            && let Some(packets) = self.packets.get_mut(&DNS)
        {
            packets.socket::<dns::Socket<'static>>().cancel_query(query);
        }
        self.end_stream_of(id);
    }

    /// The results of lookups that have ended.
    pub fn looked_up(&mut self) -> Vec<(LookupId, Result<Addresses, Error>)> {
        if self.lookups.waiting.is_empty() {
            return Vec::new();
        }
        let Some(packets) = self.packets.get_mut(&DNS) else { return Vec::new() };
        let dns = packets.socket::<dns::Socket<'static>>();
        let mut ended = Vec::new();
        for (id, (query, since)) in &self.lookups.waiting {
            let result = match dns.get_query_result(*query) {
                Err(GetQueryResultError::Pending) => continue,
                Err(GetQueryResultError::Failed)
                    if self.now - *since >= SILENCE || self.lookups.streams.failed.contains(id) =>
                {
                    Err(Error::NoNameServer)
                }
                Err(GetQueryResultError::Failed) => Err(Error::NoName),
                Ok(found) => {
                    let v4 = found.iter().filter_map(|address| match IpAddr::from(*address) {
                        IpAddr::V4(ip) => Some(ip),
                        IpAddr::V6(_) => None,
                    });
                    Addresses::new(v4).ok_or(Error::NoName)
                }
            };
            ended.push((*id, result));
        }
        for (id, _) in &ended {
            self.lookups.waiting.remove(id);
            self.end_stream_of(*id);
        }
        ended
    }
}
