//! Socket options.

use std::net::Ipv4Addr;

use network_protocol::{CARD, Choice, ERROR, Error, Family, Kind, LOOPBACK};
use smoltcp::socket::tcp;

use crate::packets::Side;
use crate::ports::Id;
use crate::socket::{BUFFERS, Body, End, Flow, Phase, Socket, Transport};
use crate::stack::{DataSockets, Stack};
use crate::tcp::{apply, limit_attempt};

/// Capacity of a data socket: the buffer size of datagrams and of direct connections, which cannot be changed.
const HELD: u32 = 256 << 10;
/// The limits on the size of segments that a client can set, as on Linux.
const SEGMENTS: std::ops::RangeInclusive<u32> = 88..=32_767;

impl<W: DataSockets> Stack<W> {
    pub(crate) fn set_choice(&mut self, id: Id, choice: Choice, value: u32) -> Result<(), Error> {
        if choice == Choice::MulticastInterface {
            return self.set_group_interface(id, Ipv4Addr::from_bits(value));
        }
        if choice == Choice::MulticastInterfaceV6 {
            return self.set_group_interface_v6(id, value);
        }
        let socket = self.sockets.get_mut(&id).ok_or(Error::Invalid)?;
        let on = value != 0;
        let hops = u8::try_from(value).map_err(|_| Error::Invalid);
        let seconds = if (1..=32_767).contains(&value) { Ok(value) } else { Err(Error::Invalid) };
        let choices = &mut socket.choices;
        match choice {
            Choice::NoDelay => choices.no_delay = on,
            Choice::KeepAlive => choices.keep_alive = on,
            Choice::KeepIdle => choices.keep_idle = seconds?,
            Choice::KeepInterval => choices.keep_interval = seconds?,
            Choice::KeepCount => choices.keep_count = seconds?.min(127),
            Choice::Linger => choices.linger = value,
            Choice::Ttl => {
                choices.ttl = hops.and_then(|hops| if hops == 0 { Err(Error::Invalid) } else { Ok(hops) })?
            }
            Choice::Hops => choices.hops = hops?,
            Choice::ReuseAddress => choices.reuse = on,
            // Distribution of incoming traffic among several sockets is not implemented.
            Choice::ReusePort if on => return Err(Error::NotSupported),
            Choice::ReusePort => {}
            Choice::Broadcast => choices.broadcast = on,
            Choice::OnlyV6 if socket.bound.is_some() => return Err(Error::Invalid),
            // ICMP is another protocol over IPv4.
            Choice::OnlyV6 if socket.kind == Kind::Echo && !on => return Err(Error::Invalid),
            Choice::OnlyV6 => choices.only_v6 = on,
            Choice::MulticastLoop => choices.loop_v4 = on,
            Choice::MulticastLoopV6 => choices.loop_v6 = on,
            Choice::MulticastTtl => choices.group_ttl = hops?,
            Choice::MulticastHops => choices.group_hops = hops?,
            // There is one size.
            Choice::ReceiveBuffer | Choice::SendBuffer if socket.kind != Kind::Stream => {}
            Choice::MaxSegment if socket.kind != Kind::Stream => return Err(Error::NoOption),
            // A connection has its buffers from its beginning, and a listener says in its answers what they are. On other
            // systems a program may set their sizes at any time, and many do.
            Choice::ReceiveBuffer | Choice::SendBuffer if !matches!(socket.body, Body::Fresh) => {}
            Choice::MaxSegment if !matches!(socket.body, Body::Fresh) => return Err(Error::Invalid),
            Choice::ReceiveBuffer => choices.receive_buffer = value.clamp(*BUFFERS.start(), *BUFFERS.end()),
            Choice::SendBuffer => choices.send_buffer = value.clamp(*BUFFERS.start(), *BUFFERS.end()),
            Choice::MaxSegment if value == 0 => choices.max_segment = None,
            Choice::MaxSegment if SEGMENTS.contains(&value) => choices.max_segment = Some(value as u16),
            Choice::MaxSegment => return Err(Error::Invalid),
            Choice::Error
            | Choice::Accepting
            | Choice::Protocol
            | Choice::MulticastInterface
            | Choice::MulticastInterfaceV6 => return Err(Error::NoOption),
        }
        if let Socket { body: Body::Flow(Flow { way: Transport::Packets, peer, phase, .. }), choices, .. } = socket
            && let Some(packets) = self.packets.get_mut(&id)
        {
            let tcp = packets.socket::<tcp::Socket<'static>>();
            apply(tcp, choices, *peer);
            if matches!(phase, Phase::Connecting(_) | Phase::Arriving(_)) {
                limit_attempt(tcp);
            }
            self.touch(id);
        }
        Ok(())
    }

    pub(crate) fn choice(&mut self, id: Id, choice: Choice) -> Result<u32, Error> {
        let socket = self.sockets.get_mut(&id).ok_or(Error::Invalid)?;
        let choices = &socket.choices;
        Ok(match choice {
            Choice::Error => match socket.error.take() {
                Some(error) => {
                    socket.end.tell(ERROR, 0);
                    error as u32
                }
                None => 0,
            },
            Choice::NoDelay => choices.no_delay.into(),
            Choice::KeepAlive => choices.keep_alive.into(),
            Choice::KeepIdle => choices.keep_idle,
            Choice::KeepInterval => choices.keep_interval,
            Choice::KeepCount => choices.keep_count,
            Choice::Linger => choices.linger,
            Choice::Ttl => choices.ttl.into(),
            Choice::Hops => choices.hops.into(),
            Choice::ReuseAddress => choices.reuse.into(),
            Choice::ReusePort => 0,
            Choice::Broadcast => choices.broadcast.into(),
            Choice::OnlyV6 => choices.only_v6.into(),
            Choice::MulticastLoop => choices.loop_v4.into(),
            Choice::MulticastLoopV6 => choices.loop_v6.into(),
            Choice::MulticastTtl => choices.group_ttl.into(),
            Choice::MulticastHops => choices.group_hops.into(),
            Choice::Accepting => matches!(socket.body, Body::Listener(_)).into(),
            Choice::ReceiveBuffer if in_packets(socket) => choices.receive_buffer,
            Choice::SendBuffer if in_packets(socket) => choices.send_buffer,
            Choice::ReceiveBuffer | Choice::SendBuffer => HELD,
            Choice::MaxSegment => return self.max_segment(id),
            Choice::MulticastInterface => {
                let chosen = choices.group_interface;
                return Ok(self.group_interface(chosen).to_bits());
            }
            Choice::MulticastInterfaceV6 => match choices.group_interface {
                None => 0,
                Some(Side::Loop) => LOOPBACK,
                Some(Side::Card) => CARD,
            },
            Choice::Protocol => match (socket.kind, socket.family) {
                (Kind::Stream, _) => 6,
                (Kind::Datagram, _) => 17,
                (Kind::Echo, Family::V4) => 1,
                (Kind::Echo, Family::V6) => 58,
            },
        })
    }
}

/// Whether it is a connection in packets, or can become one.
fn in_packets<E>(socket: &Socket<E>) -> bool {
    match &socket.body {
        Body::Fresh | Body::Listener(_) => true,
        Body::Flow(flow) => flow.way == Transport::Packets,
        Body::Datagrams(_) => false,
    }
}
