//! The card's IPv6 addresses, routers and name servers: as configured, or as routers advertise them (RFC 4862, RFC 8106).
//! This has neither sockets nor frames: it is told what comes, and tells what is to be sent.
//!
//! An address is made of a prefix and of the card's hardware address (RFC 4291, appendix A). A random identifier would be
//! another one after each boot: the service has no place for a secret that outlives it. An address counts only when
//! nobody has said for a second that it is taken.
//!
//! Whoever is on the network can advertise, so everything has a bound, and what came first stays. Of the default routers the
//! first one is used that answers (RFC 4861, 6.3.6): one that was asked for its hardware address in vain is passed over, until
//! it is heard of again, or all are.

use std::cmp::Reverse;
use std::net::Ipv6Addr;
use std::ops::Range;

use network_protocol::{ADDRESSES_V6, NAME_SERVERS, is_link_local};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::EthernetAddress;

use super::Plan;
use super::messages::{Advertisement, Lifetime, Prefix};
use crate::card::is_usable;
use crate::groups::is_near_group;

/// Maximum number of default routers.
const ROUTERS: usize = 4;
/// How long an answer to the question for an address may take.
const PROBE: Duration = Duration::from_secs(1);
/// Time between two questions for routers, and their number.
const SOLICITATION: Duration = Duration::from_secs(4);
const SOLICITATIONS: u8 = 3;
/// How long programs that start with the machine wait for a router.
const PATIENCE: Duration = Duration::from_secs(2);
/// No advertisement brings the end of an address nearer than this: it may be forged.
const TWO_HOURS: Duration = Duration::from_secs(7200);

/// A time. `None`: never.
type Until = Option<Instant>;

/// Whether an address can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nobody was asked yet.
    Fresh,
    /// Others may say until this time that it is theirs.
    Tentative(Instant),
    /// It is this machine's.
    Assigned,
    /// It is another machine's.
    Taken,
}

/// An address.
#[derive(Clone, Copy, Debug)]
struct Address {
    ip: Ipv6Addr,
    /// Length of its prefix in bits.
    len: u8,
    /// The prefix' addresses are on this network.
    on_link: bool,
    preferred: Until,
    valid: Until,
    state: State,
}

/// A default router.
#[derive(Clone, Copy, Debug)]
struct Router {
    ip: Ipv6Addr,
    /// It is one until then.
    until: Until,
    /// When it was passed over, because it did not answer.
    silent: Option<Instant>,
}

/// What is to be done.
#[derive(Debug, Default)]
pub(crate) struct Todo {
    /// Others are asked for these addresses.
    pub probes: Vec<Ipv6Addr>,
    /// Routers are asked to advertise.
    pub solicits: bool,
    /// Addresses, routers or name servers are others now.
    pub changed: bool,
}

/// All of it.
#[derive(Debug)]
pub(crate) struct Autoconf {
    identifier: u64,
    /// The link-local one comes first.
    addresses: Vec<Address>,
    routers: Vec<Router>,
    servers: Vec<(Ipv6Addr, Until)>,
    /// How many of the routers and of the name servers are configured. They come first, and no advertisement changes them.
    configured: [usize; 2],
    /// Advertisements count.
    listens: bool,
    /// How often routers are still asked, and when next.
    asks: Option<(u8, Instant)>,
    /// Until then a router may advertise before programs start.
    patience: Until,
}

impl Autoconf {
    pub(crate) fn new(mac: EthernetAddress, plan: &Plan, now: Instant) -> Autoconf {
        let [a, b, c, d, e, f] = mac.0;
        let identifier = u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f]);
        let local = Ipv6Addr::from_bits(0xfe80 << 112 | u128::from(identifier));
        let forever = |ip, len| Address { ip, len, on_link: true, preferred: None, valid: None, state: State::Fresh };
        let own = plan.addresses.iter().map(|(ip, len)| forever(*ip, *len));
        let listens = plan.addresses.is_empty();
        let routers: Vec<_> = plan.gateway.into_iter().map(|ip| Router { ip, until: None, silent: None }).collect();
        let servers: Vec<_> = plan.name_servers.iter().take(NAME_SERVERS).map(|ip| (*ip, None)).collect();
        Autoconf {
            identifier,
            addresses: [forever(local, 64)].into_iter().chain(own).take(ADDRESSES_V6).collect(),
            configured: [routers.len(), servers.len()],
            routers,
            servers,
            listens,
            asks: listens.then_some((SOLICITATIONS, now)),
            patience: listens.then_some(now + PATIENCE),
        }
    }

    /// The link has come again: routers are asked again.
    pub(crate) fn ask_again(&mut self, now: Instant) {
        self.routers.iter_mut().for_each(|router| router.silent = None);
        if self.listens {
            self.asks = Some((SOLICITATIONS, now));
        }
    }

    /// Does what is due. The caller has room to send.
    pub(crate) fn tend(&mut self, now: Instant) -> Todo {
        let mut todo = Todo::default();
        for address in &mut self.addresses {
            match address.state {
                State::Fresh => {
                    address.state = State::Tentative(now + PROBE);
                    todo.probes.push(address.ip);
                }
                State::Tentative(until) if until <= now => {
                    address.state = State::Assigned;
                    todo.changed = true;
                }
                _ => {}
            }
        }
        let is_over = |until: &Until| until.is_some_and(|until| until <= now);
        let before = self.addresses.len() + self.routers.len() + self.servers.len();
        self.addresses.retain(|address| !is_over(&address.valid));
        self.routers.retain(|router| !is_over(&router.until));
        self.servers.retain(|(_, until)| !is_over(until));
        todo.changed |= before != self.addresses.len() + self.routers.len() + self.servers.len();
        if is_over(&self.patience) {
            self.patience = None;
        }
        if let Some((left, at)) = self.asks
            && at <= now
        {
            todo.solicits = true;
            self.asks = (left > 1).then(|| (left - 1, now + SOLICITATION));
        }
        todo
    }

    /// When [`Autoconf::tend`] must be called.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let states = self.addresses.iter().filter_map(|address| match address.state {
            State::Fresh => Some(Instant::ZERO),
            State::Tentative(until) => Some(until),
            State::Assigned | State::Taken => None,
        });
        let ends = self.addresses.iter().filter_map(|address| address.valid);
        let routers = self.routers.iter().map(|router| router.until);
        let others = routers.chain(self.servers.iter().map(|(_, until)| *until)).flatten();
        let asks = self.asks.map(|(_, at)| at);
        states.chain(ends).chain(others).chain(asks).chain(self.patience).min()
    }

    /// Nothing more is expected for programs that start with the machine.
    pub(crate) fn is_settled(&self) -> bool {
        let waits = |address: &Address| matches!(address.state, State::Fresh | State::Tentative(_));
        self.patience.is_none() && !self.addresses.iter().any(waits)
    }

    /// A router advertises. Returns whether something has changed.
    pub(crate) fn advertised(&mut self, router: Ipv6Addr, told: &Advertisement, now: Instant) -> bool {
        if !self.listens {
            return false;
        }
        let servers = self.configured[1];
        let mut changed = self.router_says(router, told.router, now);
        for prefix in &told.prefixes {
            changed |= self.add_prefix(prefix, now);
        }
        // A router that leaves says nothing of the others (RFC 4861, 6.3.7).
        let has_address = |prefix: &Prefix| self.addresses.iter().any(|address| address.ip == self.address_in(prefix));
        if told.router > Duration::ZERO || told.prefixes.iter().any(has_address) {
            (self.asks, self.patience) = (None, None);
        }
        for (server, lifetime) in told.name_servers.iter().filter(|(server, _)| is_usable((*server).into())) {
            changed |= update(&mut self.servers, servers..NAME_SERVERS, *server, *lifetime, now);
        }
        changed
    }

    /// A router is one for this time. Returns whether another one is to be used now.
    fn router_says(&mut self, ip: Ipv6Addr, lifetime: Duration, now: Instant) -> bool {
        let before = self.gateway();
        let at = self.routers.iter().position(|router| router.ip == ip);
        let told = Router { ip, until: Some(now + lifetime), silent: None };
        match at {
            Some(at) if at < self.configured[0] => {}
            Some(at) if lifetime == Duration::ZERO => drop(self.routers.remove(at)),
            Some(at) => self.routers[at] = told,
            None if lifetime == Duration::ZERO => {}
            None if self.routers.len() < ROUTERS => self.routers.push(told),
            // Whoever was first stays, unless it does not answer.
            None => {
                if let Some(place) = self.routers.iter_mut().find(|router| router.silent.is_some()) {
                    *place = told;
                }
            }
        }
        before != self.gateway()
    }

    /// The router that is used did not answer. Returns whether another one is to be used now.
    pub(crate) fn pass_over(&mut self, ip: Ipv6Addr, now: Instant) -> bool {
        if let Some(router) = self.routers.iter_mut().find(|router| router.ip == ip) {
            router.silent = Some(now);
        }
        self.gateway() != Some(ip)
    }

    /// A neighbour has said that it is there. Returns whether another router is to be used now.
    pub(crate) fn is_there(&mut self, ip: Ipv6Addr) -> bool {
        let before = self.gateway();
        if let Some(router) = self.routers.iter_mut().find(|router| router.ip == ip) {
            router.silent = None;
        }
        before != self.gateway()
    }

    /// The address of this machine in a network.
    fn address_in(&self, prefix: &Prefix) -> Ipv6Addr {
        Ipv6Addr::from_bits(prefix.ip.to_bits() >> 64 << 64 | u128::from(self.identifier))
    }

    /// RFC 4862, 5.5.3. A new address waits for [`Autoconf::tend`]. Returns whether the network of an address is another
    /// one now.
    fn add_prefix(&mut self, prefix: &Prefix, now: Instant) -> bool {
        let ip = self.address_in(prefix);
        let outlives = prefix.preferred.is_none() && prefix.valid.is_some()
            || prefix.preferred.zip(prefix.valid).is_some_and(|(preferred, valid)| preferred > valid);
        if !prefix.autonomous || prefix.len != 64 || is_link_local(ip) || !is_usable(ip.into()) || outlives {
            return false;
        }
        let end = |lifetime: Lifetime| lifetime.map(|time| now + time);
        if let Some(address) = self.addresses.iter_mut().find(|address| address.ip == ip) {
            address.preferred = end(prefix.preferred);
            let changed = prefix.on_link && !address.on_link;
            address.on_link |= prefix.on_link;
            let left = address.valid.map(|until| if until > now { until - now } else { Duration::ZERO });
            address.valid = match (prefix.valid, left) {
                (None, _) => None,
                (Some(time), _) if time > TWO_HOURS => Some(now + time),
                (Some(time), Some(left)) if time > left => Some(now + time),
                (Some(_), Some(left)) if left <= TWO_HOURS => address.valid,
                (Some(_), _) => Some(now + TWO_HOURS),
            };
            return changed;
        }
        if self.addresses.len() < ADDRESSES_V6 && prefix.valid != Some(Duration::ZERO) {
            self.addresses.push(Address {
                ip,
                len: prefix.len,
                on_link: prefix.on_link,
                preferred: end(prefix.preferred),
                valid: end(prefix.valid),
                state: State::Fresh,
            });
        }
        false
    }

    /// Another machine says that it has this address, or wants it at the same time. Returns whether the address was
    /// about to be this machine's.
    pub(crate) fn taken(&mut self, ip: Ipv6Addr) -> bool {
        let address = self.addresses.iter_mut().find(|address| address.ip == ip);
        match address {
            Some(address) if matches!(address.state, State::Tentative(_)) => {
                address.state = State::Taken;
                true
            }
            _ => false,
        }
    }

    /// The addresses that are this machine's: none if another machine has the same link-local address, and so the same
    /// hardware address.
    fn assigned(&self) -> impl Iterator<Item = &Address> {
        let is_alone = self.addresses.first().is_some_and(|local| local.state != State::Taken);
        self.addresses.iter().filter(move |address| is_alone && address.state == State::Assigned)
    }

    /// The same, with the lengths of their prefixes.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = (Ipv6Addr, u8)> {
        self.assigned().map(|address| (address.ip, address.len))
    }

    /// The addresses, with the lengths of the prefixes that are on this network.
    pub(crate) fn networks(&self) -> impl Iterator<Item = (Ipv6Addr, u8)> {
        self.assigned().map(|address| (address.ip, if address.on_link { address.len } else { 128 }))
    }

    /// All addresses that others may ask for, also those that are not this machine's yet.
    pub(crate) fn wanted(&self) -> impl Iterator<Item = Ipv6Addr> {
        self.addresses.iter().filter(|address| address.state != State::Taken).map(|address| address.ip)
    }

    pub(crate) fn owns(&self, ip: Ipv6Addr) -> bool {
        self.assigned().any(|address| address.ip == ip)
    }

    /// The link-local address.
    pub(crate) fn link_local(&self) -> Option<Ipv6Addr> {
        self.assigned().map(|address| address.ip).find(|ip| is_link_local(*ip))
    }

    /// Whether the address is another machine's on this network.
    pub(crate) fn is_on_link(&self, ip: Ipv6Addr) -> bool {
        let shares = |(own, len): (Ipv6Addr, u8)| common(own, ip) >= u32::from(len);
        let is_router = || self.routers.iter().any(|router| router.ip == ip);
        !self.owns(ip) && (self.networks().any(shares) || is_router())
    }

    /// The router to other networks: the first one that was not passed over; if all were, the one for which that is longest
    /// ago.
    pub(crate) fn gateway(&self) -> Option<Ipv6Addr> {
        self.routers.iter().min_by_key(|router| router.silent).map(|router| router.ip)
    }

    /// The name servers.
    pub(crate) fn servers(&self) -> impl Iterator<Item = Ipv6Addr> {
        self.servers.iter().map(|(ip, _)| *ip)
    }

    /// The address for packets to `to` (of RFC 6724, the rules 1 to 3, 6 and 8). `None`: none can reach it.
    pub(crate) fn source(&self, to: Ipv6Addr, now: Instant) -> Option<Ipv6Addr> {
        // A group beyond the network is reached from a link-local address if there is no other.
        let is_near = is_link_local(to) || is_near_group(to);
        let has_far = self.assigned().any(|address| !is_link_local(address.ip));
        let is_near = is_near || to.is_multicast() && !has_far;
        let able = self.assigned().filter(|address| is_link_local(address.ip) == is_near);
        let rank = |address: &&Address| {
            let is_preferred = address.preferred.is_none_or(|until| until > now);
            let is_alike = kind(address.ip) == kind(to);
            // Behind the prefix, a resemblance says nothing.
            let common = common(address.ip, to).min(address.len.into());
            (address.ip == to, is_preferred, is_alike, common)
        };
        // The first of the best ones.
        able.min_by_key(|address| Reverse(rank(address))).map(|address| address.ip)
    }

    /// Whether there is a way to this address.
    pub(crate) fn reaches(&self, to: Ipv6Addr, now: Instant) -> bool {
        self.source(to, now).is_some() && (self.is_on_link(to) || !is_link_local(to) && self.gateway().is_some())
    }
}

/// Adds an item, sets its end, or, with no time left, removes it. Those before `places` stay as they are, and there are
/// none behind. Returns whether it has come or gone.
fn update(
    items: &mut Vec<(Ipv6Addr, Until)>,
    places: Range<usize>,
    ip: Ipv6Addr,
    lifetime: Lifetime,
    now: Instant,
) -> bool {
    let at = items.iter().position(|(known, _)| *known == ip);
    let until = lifetime.map(|time| now + time);
    match at {
        Some(at) if at < places.start => false,
        Some(at) if lifetime == Some(Duration::ZERO) => {
            items.remove(at);
            true
        }
        Some(at) => {
            items[at].1 = until;
            false
        }
        None if lifetime != Some(Duration::ZERO) && items.len() < places.end => {
            items.push((ip, until));
            true
        }
        None => false,
    }
}

/// Number of bits that are the same at the beginning.
fn common(one: Ipv6Addr, other: Ipv6Addr) -> u32 {
    (one.to_bits() ^ other.to_bits()).leading_zeros()
}

/// What an address is good for. Between two kinds there is seldom a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    LinkLocal,
    /// fec0::/10, which QEMU's user network still has.
    SiteLocal,
    /// fc00::/7
    UniqueLocal,
    Global,
}

pub(crate) fn kind(ip: Ipv6Addr) -> Kind {
    match ip.segments()[0] {
        0xfe80..=0xfebf => Kind::LinkLocal,
        0xfec0..=0xfeff => Kind::SiteLocal,
        0xfc00..=0xfdff => Kind::UniqueLocal,
        _ => Kind::Global,
    }
}
