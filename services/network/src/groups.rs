//! Multicast groups: who has joined which, and what routers are told (IGMPv2, RFC 2236; `ipv6` tells them by MLDv2).
//!
//! A membership is a socket's, for one group at one interface. A socket receives the datagrams of the groups that it has
//! joined itself, and of no others. While the card has members of a group, the service reports the group when the first
//! one joins, once more after a second, and when a router asks. When the last one leaves, it tells the routers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use network_protocol::{CARD, Error, Family, Kind, LOOPBACK};
use service::Program;
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{EthernetAddress, IgmpPacket, Ipv4Packet};

use crate::packets::Side;
use crate::ports::Id;
use crate::socket::{Body, Datagrams, End, Socket, WriteOutcome};
use crate::stack::{DataSockets, Stack, shown};
use crate::udp::hears;

/// Maximum number of memberships.
pub const MEMBERSHIPS: u64 = 1024;
/// Maximum number of memberships of one program.
pub const MEMBERSHIPS_OF_PROGRAM: u64 = 256;
/// Maximum number of memberships of one socket, as on Linux.
pub const GROUPS_OF_SOCKET: usize = 20;
/// Maximum number of members of one group: a datagram is written to each of them in one step.
pub const MEMBERS: usize = 64;
/// Maximum number of members of one group that belong to one program.
pub const MEMBERS_OF_PROGRAM: usize = MEMBERS / 4;
/// Time after which a new group is reported again.
const AGAIN: Duration = Duration::from_secs(1);
/// The longest time after which a query is answered, if it names none.
const LONGEST: Duration = Duration::from_secs(10);

/// The groups of all machines and of all routers.
const ALL: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
const ALL_V6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 2);
/// Types of messages.
pub(crate) const REPORT: u8 = 0x16;
const LEAVE: u8 = 0x17;

/// A group at an interface.
pub type Membership = (IpAddr, Side);

/// The members of a group at an interface.
#[derive(Debug, Default)]
struct Members {
    ids: Vec<(Id, Program)>,
    /// When the group is reported next.
    due: Option<Instant>,
}

/// All groups.
#[derive(Debug, Default)]
pub struct Groups {
    all: BTreeMap<Membership, Members>,
    /// Those that are reported next, in order: looking for one costs the same, however many groups there are.
    due: BTreeSet<(Instant, Membership)>,
}

impl Groups {
    /// When a report is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The members of a group.
    fn members(&self, membership: Membership) -> &[(Id, Program)] {
        self.all.get(&membership).map_or(&[], |members| &members.ids)
    }

    /// The IPv4 groups that routers are told of.
    fn reported(&self) -> Vec<Membership> {
        self.all.keys().filter(|membership| told(**membership).is_some()).copied().collect()
    }

    /// The same over IPv6. Those of all machines and of one machine are not told.
    fn reported_v6(&self) -> impl Iterator<Item = Ipv6Addr> {
        self.all.keys().filter_map(|membership| match membership {
            (IpAddr::V6(group), Side::Card) if *group != ALL_V6 && scope(*group) > HERE => Some(*group),
            _ => None,
        })
    }

    /// Sets when a group is reported next.
    fn set_due(&mut self, membership: Membership, at: Option<Instant>) {
        let Some(members) = self.all.get_mut(&membership) else { return };
        if let Some(before) = std::mem::replace(&mut members.due, at) {
            self.due.remove(&(before, membership));
        }
        self.due.extend(at.map(|at| (at, membership)));
    }
}

/// The scope of an IPv6 group: how far its datagrams go.
fn scope(group: Ipv6Addr) -> u16 {
    group.segments()[0] & 0xf
}

/// The scope of groups within a machine, and the widest one of a network.
const HERE: u16 = 1;
const LINK: u16 = 2;

/// Whether datagrams to an IPv6 group stay on the network.
pub(crate) fn is_near_group(group: Ipv6Addr) -> bool {
    group.is_multicast() && scope(group) <= LINK
}

/// The group, if routers are told of it by IGMP.
fn told((group, side): Membership) -> Option<Ipv4Addr> {
    match group {
        IpAddr::V4(group) if side == Side::Card && group != ALL => Some(group),
        _ => None,
    }
}

impl<W: DataSockets> Stack<W> {
    /// Adds a socket to a group, or removes it. The interface is told by its address; 0.0.0.0 means the card.
    pub(crate) fn set_group(&mut self, id: Id, join: bool, group: Ipv4Addr, interface: Ipv4Addr) -> Result<(), Error> {
        let group = IpAddr::V4(group);
        if join {
            self.sockets.get(&id).ok_or(Error::Invalid)?.check_group(group)?;
        }
        let side = self.interface(interface)?;
        self.change_group(id, join, (group, side))
    }

    /// The same over IPv6. The interface is told by its number; 0 means the card.
    pub(crate) fn set_group_v6(&mut self, id: Id, join: bool, group: Ipv6Addr, interface: u32) -> Result<(), Error> {
        let group = IpAddr::V6(group);
        if join {
            self.sockets.get(&id).ok_or(Error::Invalid)?.check_group(group)?;
        }
        let side = self.interface_v6(interface)?;
        self.change_group(id, join, (group, side))
    }

    fn change_group(&mut self, id: Id, join: bool, membership: Membership) -> Result<(), Error> {
        let (group, side) = membership;
        let Some(Socket { program, family, kind: Kind::Datagram, body: Body::Datagrams(datagrams), .. }) =
            self.sockets.get_mut(&id)
        else {
            return Err(Error::NoOption);
        };
        if (*family == Family::V4) != group.is_ipv4() {
            return Err(Error::NoOption);
        }
        if !group.is_multicast() {
            return Err(Error::Invalid);
        }
        let at = datagrams.groups.iter().position(|one| *one == membership);
        match (join, at) {
            (true, Some(_)) => Err(Error::AddressInUse),
            (false, None) => Err(Error::AddressNotAvailable),
            (false, Some(at)) => {
                datagrams.groups.remove(at);
                let program = *program;
                self.leave(id, program, membership);
                Ok(())
            }
            (true, None) => {
                let members = self.groups.members(membership);
                let of_program = members.iter().filter(|member| member.1 == *program).count();
                if datagrams.groups.len() >= GROUPS_OF_SOCKET
                    || members.len() >= MEMBERS
                    || of_program >= MEMBERS_OF_PROGRAM
                {
                    return Err(Error::TooMany);
                }
                if !self.memberships.take(*program, 1) {
                    return Err(Error::TooMany);
                }
                datagrams.groups.push(membership);
                let members = self.groups.all.entry(membership).or_default();
                members.ids.push((id, *program));
                if members.ids.len() > 1 {
                    return Ok(());
                }
                if let Some(group) = told(membership) {
                    self.groups.set_due(membership, Some(self.now + AGAIN));
                    self.tell_routers(REPORT, group, group);
                } else if group.is_ipv6() && side == Side::Card {
                    self.tell_groups_v6();
                }
                Ok(())
            }
        }
    }

    /// A socket leaves all its groups.
    pub(crate) fn leave_all(&mut self, id: Id) {
        let Some(Socket { program, body: Body::Datagrams(datagrams), .. }) = self.sockets.get_mut(&id) else { return };
        let (program, groups) = (*program, std::mem::take(&mut datagrams.groups));
        groups.into_iter().for_each(|membership| self.leave(id, program, membership));
    }

    fn leave(&mut self, id: Id, program: Program, membership: Membership) {
        self.memberships.give(program, 1);
        let Some(members) = self.groups.all.get_mut(&membership) else { return };
        members.ids.retain(|member| member.0 != id);
        if members.ids.is_empty() {
            self.groups.set_due(membership, None);
            self.groups.all.remove(&membership);
            if let Some(group) = told(membership) {
                self.tell_routers(LEAVE, group, ROUTERS);
            } else if membership.0.is_ipv6() && membership.1 == Side::Card {
                self.tell_groups_v6();
            }
        }
    }

    /// The interface with this address.
    fn interface(&self, address: Ipv4Addr) -> Result<Side, Error> {
        let card = self.card_network();
        match card {
            Some((own, _)) if address.is_unspecified() || address == own => Ok(Side::Card),
            _ if address.is_loopback() => Ok(Side::Loop),
            _ => Err(Error::AddressNotAvailable),
        }
    }

    /// The interface with this number.
    fn interface_v6(&self, number: u32) -> Result<Side, Error> {
        match number {
            LOOPBACK => Ok(Side::Loop),
            0 | CARD if self.source_v6(ALL_V6).is_some() => Ok(Side::Card),
            _ => Err(Error::AddressNotAvailable),
        }
    }

    /// Tells the card's IPv6 which groups have members.
    pub(crate) fn tell_groups_v6(&mut self) {
        let groups = self.groups.reported_v6().collect();
        self.set_groups_v6(groups);
    }

    /// Sets the interface for datagrams to groups over IPv6; 0 restores the default.
    pub(crate) fn set_group_interface_v6(&mut self, id: Id, number: u32) -> Result<(), Error> {
        let chosen = if number == 0 { None } else { Some(self.interface_v6(number)?) };
        let socket = self.sockets.get_mut(&id).filter(|socket| socket.family == Family::V6).ok_or(Error::NoOption)?;
        socket.choices.group_interface = chosen;
        Ok(())
    }

    /// Sets the interface for datagrams to groups; 0.0.0.0 restores the default.
    pub(crate) fn set_group_interface(&mut self, id: Id, address: Ipv4Addr) -> Result<(), Error> {
        let chosen = if address.is_unspecified() { None } else { Some(self.interface(address)?) };
        let socket = self.sockets.get_mut(&id).ok_or(Error::Invalid)?;
        socket.choices.group_interface = chosen;
        Ok(())
    }

    /// The address of the interface that the option `IP_MULTICAST_IF` chose.
    pub(crate) fn group_interface(&self, chosen: Option<Side>) -> Ipv4Addr {
        match (chosen, self.card_network()) {
            (Some(Side::Loop), _) => Ipv4Addr::LOCALHOST,
            (Some(Side::Card), Some((own, _))) => own,
            _ => Ipv4Addr::UNSPECIFIED,
        }
    }

    /// The interface over which a socket's datagrams to a group leave: the one that the address names, or that its client
    /// chose, or that of its own address, or the card. `scope` is the number of the first; 0: it names none.
    pub(crate) fn side_of_groups(&self, socket: &Socket<W::End>, group: IpAddr, scope: u32) -> Option<Side> {
        let chosen = match scope {
            0 => socket.choices.group_interface,
            LOOPBACK => Some(Side::Loop),
            CARD => Some(Side::Card),
            _ => return None,
        };
        let side = match socket.local {
            _ if chosen.is_some() => chosen?,
            Some(local) if local.ip().is_loopback() => Side::Loop,
            _ => Side::Card,
        };
        (side == Side::Loop || self.group_source(group, side).is_some()).then_some(side)
    }

    /// The sender's address of datagrams to a group, if the socket has none.
    pub(crate) fn group_source(&self, group: IpAddr, side: Side) -> Option<IpAddr> {
        match (group, side) {
            (IpAddr::V4(_), Side::Loop) => Some(Ipv4Addr::LOCALHOST.into()),
            (IpAddr::V6(_), Side::Loop) => Some(Ipv6Addr::LOCALHOST.into()),
            (IpAddr::V4(_), Side::Card) => self.card_network().map(|(own, _)| own.into()),
            // Those within a machine do not leave over a card.
            (IpAddr::V6(group), Side::Card) => self.source_v6(group).filter(|_| scope(group) > HERE).map(IpAddr::V6),
        }
    }

    /// Gives a datagram to all members of a group that have its port. Its header's place is at the beginning. Returns
    /// the number of these members.
    pub(crate) fn give_to_group(
        &mut self,
        from: SocketAddr,
        to: (IpAddr, u16),
        side: Side,
        datagram: &mut [u8],
    ) -> usize {
        let takes = |id: &Id| {
            let Some(socket) = self.sockets.get(id) else { return false };
            let Socket { bound, local: Some(local), .. } = socket else { return false };
            *bound == Some(to.1) && (local.ip().is_unspecified() || local.ip() == to.0) && socket.may_hear(from)
        };
        let members = self.groups.members((to.0, side)).iter().map(|member| member.0);
        let members: Vec<Id> = members.filter(takes).collect();
        for id in &members {
            let Some(Socket { end, family, choices, body: Body::Datagrams(Datagrams { peer, .. }), .. }) =
                self.sockets.get_mut(id)
            else {
                continue;
            };
            if !hears(*family, choices, from) || peer.is_some_and(|peer| peer != from) {
                continue;
            }
            let header = network_protocol::encode_header(Some(shown(*family, from)));
            datagram[..header.len()].copy_from_slice(&header);
            // If the reader has no room, the datagram is dropped, as on any network.
            if end.give(datagram) != WriteOutcome::Bytes(datagram.len())
                && let (Side::Card, Some(card)) = (side, &mut self.card)
            {
                card.counts.no_room += 1;
            }
        }
        members.len()
    }

    /// Gives the datagram to a group in the card's next frame to the members, and drops the frame.
    pub(crate) fn deliver_to_group(&mut self, from: SocketAddr, to: (IpAddr, u16), data: std::ops::Range<usize>) {
        let header = network_protocol::HEADER;
        let bytes = self.card.as_ref().and_then(|card| card.link.wire.next()).and_then(|frame| frame.get(data));
        let mut scratch = std::mem::take(&mut self.scratch);
        let given = bytes.is_some_and(|bytes| {
            scratch.get_mut(header..header + bytes.len()).is_some_and(|place| {
                place.copy_from_slice(bytes);
                true
            })
        });
        let len = header + bytes.map_or(0, <[u8]>::len);
        let has_members = given && self.give_to_group(from, to, Side::Card, &mut scratch[..len]) > 0;
        self.scratch = scratch;
        if has_members { self.lose_frame() } else { self.ignore_frame() }
    }

    /// A router asks who is in a group, or in which groups this machine is. The answer comes at a random time, so that
    /// not all machines answer at once.
    pub(crate) fn asked_for_groups(&mut self, group: Option<Ipv4Addr>, within: Duration) {
        let within = if within == Duration::ZERO { LONGEST } else { within.min(LONGEST) };
        let asked = match group {
            Some(ALL) => Vec::new(),
            Some(group) => vec![(IpAddr::V4(group), Side::Card)],
            None => self.groups.reported(),
        };
        for membership in asked {
            let Some(members) = self.groups.all.get(&membership) else { continue };
            // Another query hastens a report only if it leaves less time.
            if members.due.is_some_and(|due| due <= self.now + within) {
                continue;
            }
            let delay = Duration::from_micros(self.ports.random() % within.total_micros().max(1));
            self.groups.set_due(membership, Some(self.now + delay));
        }
    }

    /// The card has another address: its groups are reported from that one.
    pub(crate) fn report_again(&mut self) {
        for membership in self.groups.reported() {
            self.groups.set_due(membership, Some(self.now));
        }
    }

    /// Reports the groups that are due.
    pub(crate) fn report_groups(&mut self) {
        while let Some((at, membership)) = self.groups.due.first().copied()
            && at <= self.now
        {
            self.groups.set_due(membership, None);
            if let Some(group) = told(membership) {
                self.tell_routers(REPORT, group, group);
            }
        }
    }

    fn tell_routers(&mut self, kind: u8, group: Ipv4Addr, to: Ipv4Addr) {
        let Some((own, _)) = self.card_network() else { return };
        if let Some(card) = &mut self.card {
            let frame = message(card.mac, own, kind, group, to);
            card.link.wire.send(frame);
        }
    }
}

/// A frame with a message of IGMP. Its IP header has the option that makes routers look at it.
pub(crate) fn message(mac: EthernetAddress, from: Ipv4Addr, kind: u8, group: Ipv4Addr, to: Ipv4Addr) -> Vec<u8> {
    let [_, b, c, d] = to.octets();
    let mut header = vec![0x46, 0xc0, 0, 32, 0, 0, 0x40, 0, 1, 2, 0, 0];
    header.extend(from.octets());
    header.extend(to.octets());
    header.extend([0x94, 4, 0, 0]);
    Ipv4Packet::new_unchecked(&mut header[..]).fill_checksum();
    let mut igmp = [&[kind, 0, 0, 0][..], &group.octets()].concat();
    IgmpPacket::new_unchecked(&mut igmp[..]).fill_checksum();
    [&[1, 0, 0x5e, b & 0x7f, c, d][..], &mac.0, &[8, 0], &header, &igmp].concat()
}
