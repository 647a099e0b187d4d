//! The card's link: whether the cable is in, and what is asked anew when it is in again, as it may lead to another network.
//!
//! While there is no link, the card has no room for frames, so connections wait. What has no receiver that waits for it is
//! lost, as on Linux: datagrams and echo requests. Addresses and routes stay.

use smoltcp::socket::dhcpv4;
use smoltcp::time::Duration;

use crate::card::DHCP;
use crate::packets::{Packets, Side};
use crate::ports::Id;
use crate::stack::{DataSockets, Stack};

/// How long the address from before stays when no DHCP server answers: a switch may take 50 seconds before it passes
/// frames on.
const KEPT: Duration = Duration::from_secs(60);

/// How often a connection that waits for a link looks whether its time is over.
pub(crate) const LIMITS: Duration = Duration::from_secs(30);

impl<W: DataSockets> Stack<W> {
    /// The card's link has come or gone, or is as before.
    pub fn set_online(&mut self, online: bool) {
        let Some(card) = self.card.as_mut().filter(|card| card.online != online) else { return };
        card.online = online;
        if !online {
            card.link.wire.set_room(0);
            self.lose_waiting_datagrams();
            self.end_lookups();
            // Their limits of time go on.
            let waiting: Vec<Id> = self.card.iter().flat_map(|card| card.in_line.all()).collect();
            waiting.into_iter().for_each(|id| self.touch_packets(id));
            return;
        }
        // Neighbours may be others, also those of datagrams.
        card.link.interface.update_ip_addrs(|_| {});
        card.version = card.version.wrapping_add(1);
        if self.packets.contains_key(&DHCP) {
            self.ask_dhcp();
            self.dhcp_waits = self.card_network().map(|_| self.now + KEPT);
        }
        self.ask_routers();
        self.report_again();
    }

    /// Datagrams and echo requests that wait for the card are lost.
    pub(crate) fn lose_waiting_datagrams(&mut self) {
        let waiting: Vec<Id> =
            self.packets.iter().filter(|(_, packets)| packets.datagrams.is_some()).map(|(id, _)| *id).collect();
        for id in waiting {
            self.drop_packets(id);
            self.touch(id);
        }
    }

    /// Whether frames can leave over the card.
    pub(crate) fn is_online(&self) -> bool {
        self.card.as_ref().is_some_and(|card| card.online)
    }

    /// Asks DHCP servers for an address.
    pub(crate) fn ask_dhcp(&mut self) {
        self.drop_packets(DHCP);
        let mut packets = Packets::new(dhcpv4::Socket::new(), Side::Card);
        packets.set_timer(Some(self.now), DHCP, &mut self.timers);
        self.packets.insert(DHCP, packets);
    }

    /// The turn of the DHCP client: takes what the servers have said.
    pub(crate) fn pump_dhcp(&mut self) {
        let online = self.is_online();
        let Some(packets) = self.packets.get_mut(&DHCP) else { return };
        let event = packets.socket::<dhcpv4::Socket<'static>>().poll();
        // The client asks again every ten seconds, but not without a link.
        let is_over = online && self.dhcp_waits.is_some_and(|until| until <= self.now);
        let set = match event {
            Some(dhcpv4::Event::Configured(config)) => {
                Some((Some(config.address), config.router, config.dns_servers.iter().copied().collect()))
            }
            None if is_over => Some((None, None, Vec::new())),
            None => None,
            // A new client begins so, also one that asks anew.
            Some(dhcpv4::Event::Deconfigured) if self.dhcp_waits.is_some() && !is_over => None,
            Some(dhcpv4::Event::Deconfigured) => Some((None, None, Vec::new())),
        };
        if let Some((address, gateway, servers)) = set {
            self.dhcp_waits = None;
            self.set_address(address, gateway);
            self.set_name_servers(&servers);
        }
        self.send_packets(DHCP);
    }
}
