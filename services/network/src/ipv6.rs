//! IPv6 on the network card: its addresses and routes, and what neighbours and routers say.

mod autoconf;
mod listener;
mod messages;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};
use std::ops::Range;

use network_protocol::{ADDRESSES_V6, CardStateV6};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{IpAddress, IpCidr, Ipv6Cidr};

use crate::card::{Card, is_usable};
use crate::stack::{DataSockets, Stack};
use autoconf::Autoconf;
use listener::Listener;
use messages::Advertisement;

/// How the card gets its IPv6 addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// It gets none.
    pub off: bool,
    /// The addresses and the lengths of their networks' prefixes in bits. Without them, routers tell the prefixes.
    pub addresses: Vec<(Ipv6Addr, u8)>,
    /// The router to other networks.
    pub gateway: Option<Ipv6Addr>,
    /// The name servers.
    pub name_servers: Vec<Ipv6Addr>,
}

impl Plan {
    /// Takes an argument of the service: `ipv6=off`, `address=2001:db8::5/64`, `gateway=2001:db8::1` or
    /// `name-server=2001:db8::3`. Returns whether it was such an argument.
    ///
    /// # Errors
    /// A sentence for the log.
    pub fn take(&mut self, argument: &str) -> Result<bool, String> {
        let Some((key, text)) = argument.split_once('=') else { return Ok(false) };
        let wrong = || format!("`{argument}` is no argument of this service");
        let ip = |text: &str| text.parse().ok().filter(|ip| is_usable(IpAddr::V6(*ip))).ok_or_else(wrong);
        match key {
            "ipv6" if text == "off" => self.off = true,
            "ipv6" => return Err(wrong()),
            "address" if text.contains(':') => {
                let (address, len) = text.split_once('/').ok_or_else(wrong)?;
                let len = len.parse().ok().filter(|len| *len <= 128).ok_or_else(wrong)?;
                if self.addresses.len() + 1 >= ADDRESSES_V6 {
                    return Err(format!("`{argument}` is one address too many"));
                }
                self.addresses.push((ip(address)?, len));
            }
            "gateway" if text.contains(':') => self.gateway = Some(ip(text)?),
            "name-server" if text.contains(':') => self.name_servers.push(ip(text)?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// How often a router is asked for its hardware address, a second apart, before the next one is used (RFC 4861, 10).
const QUESTIONS: u8 = 3;

/// The frames that may be due at once: for each address a question, two reports of groups, a question for routers.
pub(crate) const ROOM: usize = ADDRESSES_V6 + 3;

/// The card's IPv6.
#[derive(Debug)]
pub(crate) struct V6 {
    autoconf: Autoconf,
    listener: Listener,
    /// The groups that programs have joined.
    groups: BTreeSet<Ipv6Addr>,
    /// When [`Stack::tend_ipv6`] must be called. It is asked for with each packet, so it is kept.
    due: Option<Instant>,
    /// Something was due, and the card had no room.
    pub starved: bool,
}

impl V6 {
    fn new(autoconf: Autoconf) -> V6 {
        let mut v6 = V6 { autoconf, listener: Listener::default(), groups: BTreeSet::new(), due: None, starved: false };
        v6.changed();
        v6
    }

    /// The groups that are heard: those in which others ask for the card's addresses, and those that programs have joined.
    fn heard(&self) -> BTreeSet<Ipv6Addr> {
        self.autoconf.wanted().map(messages::solicited_node).chain(self.groups.iter().copied()).collect()
    }

    /// Something has changed, so something else may be due.
    fn changed(&mut self) {
        self.due = self.autoconf.deadline().into_iter().chain(self.listener.deadline()).min();
    }
}

impl Card {
    /// Whether an IPv6 address is the card's.
    pub(crate) fn owns_v6(&self, ip: Ipv6Addr) -> bool {
        self.v6.as_ref().is_some_and(|v6| v6.autoconf.owns(ip))
    }

    /// Whether packets to an IPv6 address leave over the card.
    pub(crate) fn reaches_v6(&self, ip: Ipv6Addr, now: Instant) -> bool {
        is_usable(ip.into()) && self.v6.as_ref().is_some_and(|v6| v6.autoconf.reaches(ip, now))
    }
}

impl<W: DataSockets> Stack<W> {
    /// Gives the card IPv6, if there is a card and it has none yet.
    pub fn enable_ipv6(&mut self, plan: &Plan) {
        if let Some(card) = &mut self.card
            && card.v6.is_none()
            && !plan.off
        {
            card.v6 = Some(V6::new(Autoconf::new(card.mac, plan, self.now)));
            self.tell_groups_v6();
        }
    }

    /// The link has come again: routers and switches may be others.
    pub(crate) fn ask_routers(&mut self) {
        if let Some(Card { v6: Some(v6), .. }) = &mut self.card {
            v6.autoconf.ask_again(self.now);
            v6.listener.tell_again(self.now);
            v6.changed();
        }
    }

    /// Whether the card has all IPv6 addresses that it gets soon, or gets none.
    pub fn ipv6_is_settled(&self) -> bool {
        let v6 = self.card.as_ref().and_then(|card| card.v6.as_ref());
        v6.is_none_or(|v6| v6.autoconf.is_settled())
    }

    /// The card's IPv6 addresses and the lengths of their networks' prefixes in bits.
    pub fn card_addresses_v6(&self) -> Vec<(Ipv6Addr, u8)> {
        let v6 = self.card.as_ref().and_then(|card| card.v6.as_ref());
        v6.map_or_else(Vec::new, |v6| v6.autoconf.addresses().collect())
    }

    pub(crate) fn card_state_v6(&self) -> CardStateV6 {
        let mut state = CardStateV6::default();
        let Some(v6) = self.card.as_ref().and_then(|card| card.v6.as_ref()) else { return state };
        for (place, address) in state.addresses.iter_mut().zip(v6.autoconf.addresses()) {
            *place = Some(address);
        }
        state.gateway = v6.autoconf.gateway();
        for (place, server) in state.name_servers.iter_mut().zip(v6.autoconf.servers()) {
            *place = Some(server);
        }
        state
    }

    /// The name servers that the card reaches over IPv6.
    pub(crate) fn name_servers_v6(&self) -> Vec<Ipv6Addr> {
        let Some(card) = &self.card else { return Vec::new() };
        let servers = card.v6.iter().flat_map(|v6| v6.autoconf.servers());
        servers.filter(|server| card.reaches_v6(*server, self.now)).collect()
    }

    /// Whether there is a way to machines of other networks over IPv6.
    pub(crate) fn has_far_v6(&self) -> bool {
        /// An address of the documentation, so one of nobody's, that stands for all.
        const FAR: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
        self.card.as_ref().is_some_and(|card| card.reaches_v6(FAR, self.now))
    }

    /// Whether an IPv6 address is better than one of IPv4: there is a way to it, and both ends are of the same kind.
    pub(crate) fn suits_v6(&self, to: Ipv6Addr) -> bool {
        let is_reached = self.card.as_ref().is_some_and(|card| card.reaches_v6(to, self.now));
        is_reached && self.source_v6(to).is_some_and(|from| autoconf::kind(from) == autoconf::kind(to))
    }

    /// The card's address for packets to this one.
    pub(crate) fn source_v6(&self, to: Ipv6Addr) -> Option<Ipv6Addr> {
        self.card.as_ref()?.v6.as_ref()?.autoconf.source(to, self.now)
    }

    /// Sends what is due, and takes addresses that nobody else has.
    pub(crate) fn tend_ipv6(&mut self) {
        let Some(card) = &mut self.card else { return };
        let Some(v6) = &mut card.v6 else { return };
        if v6.due.is_none_or(|at| at > self.now) {
            return;
        }
        // A question that was never sent gets no answer.
        v6.starved = card.link.wire.room() < ROOM;
        if v6.starved {
            return;
        }
        let todo = v6.autoconf.tend(self.now);
        let own = v6.autoconf.link_local();
        v6.listener.set(v6.heard(), self.now);
        // Switches learn of a group before the question in it.
        let reports = v6.listener.due(self.now).into_iter().map(|records| messages::report(card.mac, own, &records));
        let probes = todo.probes.iter().map(|ip| messages::probe(card.mac, *ip));
        let asks = todo.solicits.then(|| messages::router_solicitation(card.mac, own));
        reports.chain(probes).chain(asks).for_each(|frame| card.link.wire.send(frame));
        v6.changed();
        if todo.changed {
            self.apply_ipv6();
        }
    }

    /// When [`Stack::tend_ipv6`] must be called. While the card has no room, the time does not matter.
    pub(crate) fn ipv6_deadline(&self) -> Option<Instant> {
        self.card.as_ref()?.v6.as_ref().filter(|v6| !v6.starved)?.due
    }

    /// Tells smoltcp the addresses and the router, and the name servers.
    fn apply_ipv6(&mut self) {
        let Some(card) = &mut self.card else { return };
        let Some(v6) = &card.v6 else { return };
        let networks: Vec<(Ipv6Addr, u8)> = v6.autoconf.networks().collect();
        let gateway = v6.autoconf.gateway();
        let interface = &mut card.link.interface;
        let networks: Vec<IpCidr> =
            networks.into_iter().map(|(ip, len)| IpCidr::Ipv6(Ipv6Cidr::new(ip, len))).collect();
        // With other addresses smoltcp forgets all neighbours, which an advertisement alone must not cause.
        let before = interface.ip_addrs().iter().filter(|cidr| matches!(cidr, IpCidr::Ipv6(_)));
        let mut lost = Vec::new();
        if !before.clone().eq(&networks) {
            let is_kept = |cidr: &&IpCidr| networks.iter().any(|kept| kept.address() == cidr.address());
            lost.extend(before.filter(|cidr| !is_kept(cidr)).map(|cidr| IpAddr::from(cidr.address())));
            interface.update_ip_addrs(|addresses| {
                addresses.retain(|cidr| matches!(cidr, IpCidr::Ipv4(_)));
                // smoltcp has room for eight.
                for cidr in networks {
                    let _ = addresses.push(cidr);
                }
            });
        }
        interface.routes_mut().remove_default_ipv6_route();
        if let Some(gateway) = gateway {
            // The same.
            let _ = interface.routes_mut().add_default_ipv6_route(gateway);
        }
        self.lose_addresses(&lost);
        self.update_name_servers();
    }

    /// A socket waits for a neighbour's hardware address. If it is the router's, which was asked for [`QUESTIONS`] times, the
    /// next router is used.
    pub(crate) fn check_router(&mut self) {
        let Some(Card { link, v6: Some(v6), .. }) = &mut self.card else { return };
        let Some(router) = v6.autoconf.gateway() else { return };
        let hop = IpAddress::Ipv6(router);
        if link.interface.unanswered_questions(&hop, self.now) < QUESTIONS {
            return;
        }
        // It is asked again when it is its turn again.
        link.interface.forget_neighbor(&hop);
        if v6.autoconf.pass_over(router, self.now) {
            self.apply_ipv6();
        }
    }

    /// The card's next frame is a router's advertisement.
    pub(crate) fn router_advertises(&mut self, from: Ipv6Addr, message: Range<usize>) {
        let Some(Card { link, v6: Some(v6), .. }) = &mut self.card else { return self.ignore_frame() };
        let told = link.wire.next().and_then(|frame| frame.get(message)).and_then(Advertisement::parse);
        let Some(told) = told else { return self.ignore_frame() };
        // Its own advertisement would make this machine its router.
        let is_news = !v6.autoconf.owns(from) && v6.autoconf.advertised(from, &told, self.now);
        v6.changed();
        if is_news {
            self.apply_ipv6();
        }
        self.lose_frame();
    }

    /// The card's next frame is a neighbour's question for the owner of an address, or an answer. Returns whether
    /// smoltcp is to handle it.
    pub(crate) fn neighbor_says(
        &mut self,
        from: Ipv6Addr,
        target: Ipv6Addr,
        advertises: bool,
        is_like_own: bool,
    ) -> bool {
        let Some(Card { link, v6: Some(v6), mac, .. }) = &mut self.card else {
            self.ignore_frame();
            return false;
        };
        let wants_it = from.is_unspecified() && !advertises;
        // A question of this machine's own may come back. One for an address that it has already is another's.
        if (wants_it && !is_like_own || advertises) && v6.autoconf.taken(target) {
            v6.changed();
            self.apply_ipv6();
        } else if wants_it && v6.autoconf.owns(target) {
            link.wire.send(messages::claim(*mac, target));
        } else {
            // Nobody outside this network has a say, and nobody says where this machine is.
            let is_due = if advertises { v6.autoconf.is_on_link(target) } else { v6.autoconf.owns(target) };
            if is_due && is_usable(from.into()) && v6.autoconf.is_on_link(from) {
                if advertises && v6.autoconf.is_there(target) {
                    self.apply_ipv6();
                }
                return true;
            }
            self.ignore_frame();
            return false;
        }
        self.lose_frame();
        false
    }

    /// Programs have joined these groups, and no others.
    pub(crate) fn set_groups_v6(&mut self, groups: BTreeSet<Ipv6Addr>) {
        if let Some(Card { v6: Some(v6), .. }) = &mut self.card {
            v6.groups = groups;
            v6.listener.set(v6.heard(), self.now);
            v6.changed();
        }
    }

    /// A router asks who hears a group.
    pub(crate) fn asked_for_groups_v6(&mut self, group: Option<Ipv6Addr>, within: Duration) {
        let random = self.ports.random();
        if let Some(Card { v6: Some(v6), .. }) = &mut self.card {
            v6.listener.asked(group, within, random, self.now);
            v6.changed();
        }
    }
}
