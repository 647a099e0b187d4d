//! Names of hosts: smoltcp's DNS socket asks the name servers over the card, in datagrams. [`crate::lookup_stream`] asks
//! again over TCP after a truncated answer.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

use network_protocol::{ADDRESSES, Addresses, Error, Name};
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

/// How long the answer for one kind of addresses waits for that for the other: some name servers do not answer for IPv6.
const OTHER: Duration = Duration::from_secs(2);

/// The lookups that wait for an answer.
#[derive(Default)]
pub(crate) struct Lookups {
    waiting: HashMap<LookupId, Lookup>,
    /// Connections to name servers.
    pub(crate) streams: Streams,
    last: LookupId,
}

impl Lookups {
    /// When [`Stack::looked_up`] will have something to do, if nothing comes.
    pub(crate) fn deadline(&self, now: Instant) -> Option<Instant> {
        let ends = self.waiting.values().filter_map(|lookup| lookup.answered_at).map(|at| at + OTHER);
        ends.filter(|at| *at > now).min()
    }

    /// All queries, with their lookups.
    pub(crate) fn queries(&self) -> Vec<(LookupId, QueryHandle)> {
        let each =
            self.waiting.iter().flat_map(|(id, lookup)| lookup.queries.iter().map(move |(query, _)| (*id, *query)));
        each.collect()
    }
}

/// The queries of a lookup, for IPv4 and perhaps for IPv6, and what they have found.
struct Lookup {
    queries: Vec<(QueryHandle, DnsQueryType)>,
    since: Instant,
    found: Vec<IpAddr>,
    /// When a name server has said first which addresses there are, or that there is no such name.
    answered_at: Option<Instant>,
    /// A query has no answer.
    is_unanswered: bool,
}

impl Lookup {
    /// Takes the results that are there. Returns whether the lookup is over. `failed`: the queries whose last server gave
    /// no valid answer.
    fn take(&mut self, dns: &mut dns::Socket<'static>, now: Instant, failed: impl Fn(QueryHandle) -> bool) -> bool {
        let Lookup { queries, since, found, answered_at, is_unanswered } = self;
        queries.retain(|(query, kind)| match dns.get_query_result(*query) {
            Err(GetQueryResultError::Pending) => true,
            // Without an answer, or with one that the name has no addresses of this kind: it may have others.
            Err(GetQueryResultError::Failed) => {
                *is_unanswered |= now - *since >= SILENCE || failed(*query);
                false
            }
            Ok(addresses) => {
                // A mapped address would be one of IPv4 that the name server gives for one of IPv6.
                let real = |ip: &IpAddr| ip.is_ipv6() == (*kind == DnsQueryType::Aaaa) && ip.to_canonical() == *ip;
                found.extend(addresses.iter().map(|address| IpAddr::from(*address)).filter(real));
                answered_at.get_or_insert(now);
                false
            }
        });
        if answered_at.is_some_and(|at| now - at >= OTHER) {
            queries.drain(..).for_each(|(query, _)| dns.cancel_query(query));
        }
        queries.is_empty()
    }

    /// The addresses in their order: what this says of one is least for the best. Both kinds have places.
    fn addresses(&self, rank: impl Fn(IpAddr) -> u8) -> Result<Addresses, Error> {
        let mut found = self.found.clone();
        found.sort_by_key(|ip| rank(*ip));
        for v6 in [true, false] {
            let of = |ip: &IpAddr| ip.is_ipv6() == v6;
            let others = found.iter().filter(|ip| !of(ip)).count().min(ADDRESSES / 2);
            let mut left = ADDRESSES - others;
            found.retain(|ip| !of(ip) || left.checked_sub(1).map(|less| left = less).is_some());
        }
        let is_known = self.answered_at.is_some() || !self.is_unanswered;
        Addresses::new(found).ok_or(if is_known { Error::NoName } else { Error::NoNameServer })
    }
}

impl<W: DataSockets> Stack<W> {
    /// Sets the name servers.
    pub(crate) fn set_name_servers(&mut self, servers: &[Ipv4Addr]) {
        self.name_servers = servers.iter().copied().filter(|server| is_usable((*server).into())).collect();
        self.update_name_servers();
    }

    /// Tells smoltcp the name servers. It asks three at most, those of IPv4 first.
    pub(crate) fn update_name_servers(&mut self) {
        let v4 = self.name_servers.iter().map(|server| IpAddress::from(*server));
        let servers: Vec<IpAddress> = v4.chain(self.name_servers_v6().into_iter().map(IpAddress::from)).collect();
        let packets = self.packets.entry(DNS);
        let packets = packets.or_insert_with(|| Packets::new(dns::Socket::new(&[], Vec::new()), Side::Card));
        packets.socket::<dns::Socket<'static>>().update_servers(&servers);
    }

    /// Begins to look up a name. [`Stack::looked_up`] tells the result.
    ///
    /// # Errors
    /// `NoNameServer`: there is none, or no link. `TooMany`, `NoName`.
    pub fn look_up(&mut self, name: Name<'_>) -> Result<LookupId, Error> {
        if self.lookups.waiting.len() >= LOOKUPS {
            return Err(Error::TooMany);
        }
        if !self.is_online() || self.name_servers.is_empty() && self.name_servers_v6().is_empty() {
            return Err(Error::NoNameServer);
        }
        // Addresses that cannot be reached are of no use.
        let v6 = self.has_far_v6().then_some(DnsQueryType::Aaaa);
        let (Some(packets), Some(card)) = (self.packets.get_mut(&DNS), &mut self.card) else {
            return Err(Error::NoNameServer);
        };
        let dns = packets.socket::<dns::Socket<'static>>();
        let mut queries = Vec::new();
        for kind in [DnsQueryType::A].into_iter().chain(v6) {
            match dns.start_query(card.link.interface.context(), name.as_str(), kind) {
                Ok(query) => queries.push((query, kind)),
                Err(_) => {
                    queries.into_iter().for_each(|(query, _)| dns.cancel_query(query));
                    return Err(Error::NoName);
                }
            }
        }
        let lookup = Lookup { queries, since: self.now, found: Vec::new(), answered_at: None, is_unanswered: false };
        self.lookups.last += 1;
        self.lookups.waiting.insert(self.lookups.last, lookup);
        self.send_packets(DNS);
        Ok(self.lookups.last)
    }

    /// Nobody waits for this lookup any more.
    pub fn cancel_lookup(&mut self, id: LookupId) {
        if let Some(lookup) = self.lookups.waiting.remove(&id)
            && let Some(packets) = self.packets.get_mut(&DNS)
        {
            let dns = packets.socket::<dns::Socket<'static>>();
            lookup.queries.into_iter().for_each(|(query, _)| dns.cancel_query(query));
        }
        self.end_stream_of(id);
    }

    /// No name server can be asked: [`Stack::looked_up`] tells that to all who wait.
    pub(crate) fn end_lookups(&mut self) {
        let Some(packets) = self.packets.get_mut(&DNS) else { return };
        let dns = packets.socket::<dns::Socket<'static>>();
        for lookup in self.lookups.waiting.values_mut() {
            lookup.is_unanswered |= !lookup.queries.is_empty();
            lookup.queries.drain(..).for_each(|(query, _)| dns.cancel_query(query));
        }
    }

    /// The results of lookups that have ended.
    pub fn looked_up(&mut self) -> Vec<(LookupId, Result<Addresses, Error>)> {
        if self.lookups.waiting.is_empty() {
            return Vec::new();
        }
        let Some(packets) = self.packets.get_mut(&DNS) else { return Vec::new() };
        let dns = packets.socket::<dns::Socket<'static>>();
        let now = self.now;
        let Lookups { waiting, streams, .. } = &mut self.lookups;
        let over = |(id, lookup): (&LookupId, &mut Lookup)| {
            lookup.take(dns, now, |query| streams.failed.contains(&(*id, query))).then_some(*id)
        };
        let ids: Vec<LookupId> = waiting.iter_mut().filter_map(over).collect();
        let rank = |ip| match ip {
            IpAddr::V6(ip) if self.suits_v6(ip) => 0,
            IpAddr::V4(_) => 1,
            IpAddr::V6(_) => 2,
        };
        let ended: Vec<_> =
            ids.iter().filter_map(|id| Some((*id, self.lookups.waiting.get(id)?.addresses(rank)))).collect();
        for (id, _) in &ended {
            self.lookups.waiting.remove(id);
            self.end_stream_of(*id);
        }
        ended
    }
}
