//! Connections in TIME-WAIT: they have ended, and a late segment of the peer's may come. A socket of smoltcp's would be
//! far larger than what is left to do: to acknowledge the peer's end again, so that the peer does not wait for it.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{EthernetAddress, TcpControl};

use crate::segments::{Options, Segment, Short};

/// Maximum number of connections in TIME-WAIT; the oldest one ends early. They take 3 MiB.
const MOST: usize = 16_384;
/// How long a connection stays, as on Linux.
pub const STAY: Duration = Duration::from_secs(60);

/// The peer, and the address here.
type Key = (Short, Short);

/// All of them.
#[derive(Debug, Default)]
pub struct TimeWait {
    /// The next sequence numbers of this side and of the peer, and when the connection leaves.
    records: HashMap<Key, (i32, i32, Instant)>,
    order: VecDeque<(Instant, Key)>,
}

impl TimeWait {
    /// A connection has ended. `next` are the next sequence numbers of this side and of the peer.
    pub fn add(&mut self, peer: SocketAddr, here: SocketAddr, next: (i32, i32), now: Instant) {
        self.expire(now);
        if self.order.len() >= MOST
            && let Some((at, key)) = self.order.pop_front()
        {
            self.leave(key, at);
        }
        let until = now + STAY;
        let key = key(peer, here);
        self.records.insert(key, (next.0, next.1, until));
        self.order.push_back((until, key));
    }

    /// A segment of an ended connection. Returns the answer to it, if it is to be answered.
    pub fn answer(&self, segment: &Segment, mac: EthernetAddress) -> Option<Segment> {
        let (seq, next, _) = self.records.get(&segment.ends())?;
        // A reset must not end this state early (RFC 1337), and a bare acknowledgement is not answered.
        let says = segment.len > 0 || matches!(segment.control, TcpControl::Fin | TcpControl::Syn);
        (says && segment.control != TcpControl::Rst).then_some(Segment {
            macs: [mac, segment.macs[0]],
            from: segment.to,
            to: segment.from,
            seq: *seq,
            ack: Some(*next),
            control: TcpControl::None,
            window: u16::MAX,
            options: Options::default(),
            len: 0,
        })
    }

    /// Whether the segment's connection is here.
    pub fn has(&self, segment: &Segment) -> bool {
        self.records.contains_key(&segment.ends())
    }

    /// Whether a SYN begins a new connection: it is beyond the old one's numbers. The old one then leaves.
    pub fn gives_way(&mut self, syn: &Segment) -> bool {
        let key = syn.ends();
        let Some((_, next, _)) = self.records.get(&key) else { return true };
        let later = syn.seq.wrapping_sub(*next) > 0;
        if later {
            self.records.remove(&key);
        }
        later
    }

    /// This side connects again with the same addresses. Its next initial sequence number is beyond the old ones.
    pub fn remove(&mut self, peer: SocketAddr, here: SocketAddr) {
        self.records.remove(&key(peer, here));
    }

    /// Connections that have been here long enough leave. Nothing waits for that, so it needs no timer.
    pub fn expire(&mut self, now: Instant) {
        while let Some((at, key)) = self.order.front().copied()
            && at <= now
        {
            self.order.pop_front();
            self.leave(key, at);
        }
    }

    fn leave(&mut self, key: Key, until: Instant) {
        if self.records.get(&key).is_some_and(|(.., at)| *at == until) {
            self.records.remove(&key);
        }
    }
}

fn key(peer: SocketAddr, here: SocketAddr) -> Key {
    ((peer.ip(), peer.port()), (here.ip(), here.port()))
}
