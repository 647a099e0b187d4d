//! What a client can learn about its connection: the size of segments, and `TCP_INFO`.

use std::net::SocketAddr;

use network_protocol::{Error, Information, Kind, tcp_state};
use smoltcp::socket::tcp::{self, State};

use crate::card::ETHERNET_HEADER;
use crate::packets::Side;
use crate::ports::Id;
use crate::socket::{Body, Choices, Flow, Socket, Transport};
use crate::stack::{DataSockets, Stack};

/// Bytes of the headers of a segment: IPv4 and TCP, or IPv6 and TCP.
const HEADERS: [usize; 2] = [20 + 20, 40 + 20];
/// The size of segments of a socket without a connection, as on Linux.
const UNCONNECTED: u16 = 536;

impl<W: DataSockets> Stack<W> {
    /// Size of the longest IP packet of an interface in bytes.
    fn ip_mtu(&self, side: Side) -> usize {
        match (side, &self.card) {
            (Side::Loop, _) => self.local.wire.mtu(),
            (Side::Card, Some(card)) => card.link.wire.mtu() - ETHERNET_HEADER,
            (Side::Card, None) => 0,
        }
    }

    /// The longest segment that the peer was asked to send.
    fn receive_segment(&self, side: Side, peer: SocketAddr, choices: &Choices) -> usize {
        let longest = self.ip_mtu(side).saturating_sub(HEADERS[usize::from(peer.is_ipv6())]);
        choices.max_segment.map_or(longest, |limit| longest.min(limit.into()))
    }

    /// `TCP_MAXSEG`: the longest segment that is sent. A direct connection has none; the value is that of the loopback.
    pub(crate) fn max_segment(&mut self, id: Id) -> Result<u32, Error> {
        let socket = self.sockets.get(&id).ok_or(Error::Invalid)?;
        if socket.kind != Kind::Stream {
            return Err(Error::NoOption);
        }
        let choices = socket.choices;
        let Body::Flow(Flow { way: Transport::Packets | Transport::Direct(_), peer, .. }) = socket.body else {
            return Ok(choices.max_segment.unwrap_or(UNCONNECTED).into());
        };
        let side = self.packets.get(&id).map_or(Side::Loop, |packets| packets.side);
        let own = self.receive_segment(side, peer, &choices);
        let peers = self.packets.get_mut(&id).map(|packets| packets.socket::<tcp::Socket<'static>>());
        Ok(peers.map_or(own, |tcp| own.min(tcp.remote_max_segment_size())) as u32)
    }

    /// `TCP_INFO`.
    pub(crate) fn information(&mut self, id: Id) -> Result<Information, Error> {
        let socket = self.sockets.get(&id).ok_or(Error::Invalid)?;
        if socket.kind != Kind::Stream {
            return Err(Error::NoOption);
        }
        let state = match &socket.body {
            Body::Listener(_) => tcp_state::LISTEN,
            Body::Flow(Flow { way: Transport::Packets, .. }) => return self.information_of_packets(id),
            Body::Flow(Flow { way: Transport::Direct(_), .. }) => tcp_state::ESTABLISHED,
            Body::Flow(Flow { way: Transport::Waits(_), .. }) => tcp_state::SYN_SENT,
            Body::Flow(Flow { way: Transport::Gone, .. }) | Body::Fresh | Body::Datagrams(_) => tcp_state::CLOSED,
        };
        Ok(Information { state, ..Information::default() })
    }

    fn information_of_packets(&mut self, id: Id) -> Result<Information, Error> {
        let send_segment = self.max_segment(id)?;
        let Some(Socket { body: Body::Flow(Flow { peer, .. }), choices, .. }) = self.sockets.get(&id) else {
            return Err(Error::Invalid);
        };
        let (peer, choices) = (*peer, *choices);
        let side = self.packets.get(&id).ok_or(Error::Invalid)?.side;
        let (mtu, receive_segment) = (self.ip_mtu(side), self.receive_segment(side, peer, &choices));
        let tcp = self.packets.get_mut(&id).ok_or(Error::Invalid)?.socket::<tcp::Socket<'static>>();
        let known = tcp.information();
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let micros = |time: smoltcp::time::Duration| u32::try_from(time.total_micros()).unwrap_or(u32::MAX);
        Ok(Information {
            state: state(tcp.state()),
            timeouts: known.unanswered_timeouts,
            scales: known.window_scales,
            selective: known.remote_selective,
            retransmission_timeout: micros(known.retransmission_timeout),
            send_segment,
            receive_segment: number(receive_segment),
            in_flight: number(known.in_flight),
            round_trip: known.round_trip.map_or(0, micros),
            round_trip_variance: known.round_trip_variance.map_or(0, micros),
            congestion_window: number(known.congestion_window),
            retransmissions: known.retransmissions,
            unacknowledged: number(tcp.send_queue()),
            peer_window: number(known.remote_window),
            receive_space: number(tcp.recv_capacity()),
            mtu: number(tcp.path_mtu().map_or(mtu, |path| path.min(mtu))),
        })
    }
}

fn state(state: State) -> u8 {
    match state {
        State::Closed => tcp_state::CLOSED,
        State::Listen => tcp_state::LISTEN,
        State::SynSent => tcp_state::SYN_SENT,
        State::SynReceived => tcp_state::SYN_RECEIVED,
        State::Established => tcp_state::ESTABLISHED,
        State::FinWait1 => tcp_state::FIN_WAIT_1,
        State::FinWait2 => tcp_state::FIN_WAIT_2,
        State::CloseWait => tcp_state::CLOSE_WAIT,
        State::Closing => tcp_state::CLOSING,
        State::LastAck => tcp_state::LAST_ACK,
        State::TimeWait => tcp_state::TIME_WAIT,
    }
}
