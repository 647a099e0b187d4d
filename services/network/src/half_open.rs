//! Half-open connections: requests that came over the card, and were answered, but whose peer has not shown yet that it
//! gets our answers. Anybody can send any number of such requests in the name of others, so they cost little. Steps of
//! a connection; the code refers to these numbers:
//!
//! 1. A SYN comes. Its listener has room. The table keeps a [`Record`], and the answer (SYN and ACK) goes out.
//! 2. Until the peer answers, the answer is repeated at [`REPEATS`]. A repeated SYN is answered again.
//! 3. The peer acknowledges our sequence number, which nobody else can know. Now the connection gets a socket with a
//!    smoltcp socket. That is given the sequence number of our answer and the SYN of step 1, as the record describes it,
//!    and is told that the answer was sent. Then it is given the segment that came.
//! 4. The record goes: after step 3, with a reset of the peer's, after the last repetition, or as the oldest one when
//!    there are too many.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddrV4;

use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{EthernetAddress, TcpControl};

use crate::segments::{Options, Segment};

/// Maximum number of half-open connections. With two entries in the queues of repetitions they take 3 MiB.
pub const MOST: usize = 16_384;
/// Times between an answer, its repetitions, and the end of the record.
const REPEATS: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4), Duration::from_secs(8)];

/// The peer, and the address here.
type Key = (SocketAddrV4, SocketAddrV4);

/// A request, and our answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    mac: EthernetAddress,
    seq: i32,
    our_seq: i32,
    max_segment: u16,
    scale: Option<u8>,
    selective: bool,
    offer: Offer,
    /// Distinguishes this record in the queues from an earlier one with the same addresses.
    number: u32,
}

/// All half-open connections.
#[derive(Debug, Default)]
pub struct HalfOpen {
    records: HashMap<Key, Record>,
    /// In the order of their times: what is to be repeated, for each repetition.
    repeats: [VecDeque<(Instant, Key, u32)>; REPEATS.len()],
    /// In the order of their arrival.
    order: VecDeque<(Key, u32)>,
    last: u32,
}

/// What our answers say.
#[derive(Clone, Copy, Debug)]
pub struct Ours {
    /// The card's hardware address.
    pub mac: EthernetAddress,
    /// What the listener's options say.
    pub offer: Offer,
}

/// What our answers say about a listener's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The receive window.
    pub window: u16,
    /// The largest segment in bytes.
    pub max_segment: u16,
    /// The window scale, where the peer has one.
    pub scale: u8,
}

impl HalfOpen {
    /// Step 1, or 2 for a SYN that comes again. Returns the answer.
    pub fn syn(&mut self, syn: &Segment, ours: Ours, our_seq: i32, now: Instant) -> Segment {
        let key = (syn.from, syn.to);
        if let Some(record) = self.records.get(&key)
            && record.seq == syn.seq
        {
            return answer(key, record, ours.mac);
        }
        self.last = self.last.wrapping_add(1);
        let record = Record {
            mac: syn.macs[0],
            seq: syn.seq,
            our_seq,
            max_segment: syn.options.max_segment.unwrap_or(0),
            scale: syn.options.scale,
            selective: syn.options.selective,
            offer: ours.offer,
            number: self.last,
        };
        self.records.insert(key, record);
        self.order.push_back((key, self.last));
        self.repeats[0].push_back((now + REPEATS[0], key, self.last));
        while self.order.len() > MOST {
            if let Some((key, number)) = self.order.pop_front() {
                self.forget(key, number);
            }
        }
        // Those of records that are gone are at the front.
        while self.repeats[0].len() > 2 * MOST {
            self.repeats[0].pop_front();
        }
        answer(key, &record, ours.mac)
    }

    /// The segment's connection is half-open.
    pub fn has(&self, segment: &Segment) -> bool {
        self.records.contains_key(&(segment.from, segment.to))
    }

    /// Step 3, first part: whether the segment acknowledges our answer. Returns the SYN of step 1, our sequence
    /// number, and what our answer said.
    pub fn acknowledged(&self, segment: &Segment) -> Option<(Segment, i32, Offer)> {
        let record = self.records.get(&(segment.from, segment.to))?;
        let follows = segment.seq == record.seq.wrapping_add(1) && segment.ack == Some(record.our_seq.wrapping_add(1));
        if !follows || matches!(segment.control, TcpControl::Rst | TcpControl::Syn) {
            return None;
        }
        let max_segment = (record.max_segment > 0).then_some(record.max_segment);
        let options = Options { max_segment, scale: record.scale, selective: record.selective };
        let syn = Segment {
            seq: record.seq,
            ack: None,
            control: TcpControl::Syn,
            // The window of a segment is not scaled before the connection is open, and the next segment tells it.
            window: segment.window,
            options,
            len: 0,
            ..*segment
        };
        Some((syn, record.our_seq, record.offer))
    }

    /// Step 4: the connection has a socket, or its peer has reset it.
    pub fn remove(&mut self, segment: &Segment) {
        self.records.remove(&(segment.from, segment.to));
    }

    /// Step 4, for a reset: it counts only with the next sequence number.
    pub fn reset(&mut self, segment: &Segment) {
        let record = self.records.get(&(segment.from, segment.to));
        if record.is_some_and(|record| segment.seq == record.seq.wrapping_add(1)) {
            self.remove(segment);
        }
    }

    /// Step 2: the answers that are due. After the last one the record goes.
    pub fn due(&mut self, mac: EthernetAddress, now: Instant) -> Vec<Segment> {
        let mut answers = Vec::new();
        for stage in 0..REPEATS.len() {
            while let Some((at, key, number)) = self.repeats[stage].front().copied()
                && at <= now
            {
                self.repeats[stage].pop_front();
                let Some(record) = self.records.get(&key).filter(|record| record.number == number) else { continue };
                match self.repeats.get_mut(stage + 1) {
                    Some(next) => {
                        answers.push(answer(key, record, mac));
                        next.push_back((now + REPEATS[stage + 1], key, number));
                    }
                    None => self.forget(key, number),
                }
            }
        }
        // What is no more is dropped from the order, too.
        while let Some((key, number)) = self.order.front()
            && self.records.get(key).is_none_or(|record| record.number != *number)
        {
            self.order.pop_front();
        }
        answers
    }

    /// When [`HalfOpen::due`] must be called.
    pub fn deadline(&self) -> Option<Instant> {
        self.repeats.iter().filter_map(|queue| queue.front().map(|(at, ..)| *at)).min()
    }

    /// Number of half-open connections.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    fn forget(&mut self, key: Key, number: u32) {
        if self.records.get(&key).is_some_and(|record| record.number == number) {
            self.records.remove(&key);
        }
    }
}

fn answer((peer, here): Key, record: &Record, mac: EthernetAddress) -> Segment {
    Segment {
        macs: [mac, record.mac],
        from: here,
        to: peer,
        seq: record.our_seq,
        ack: Some(record.seq.wrapping_add(1)),
        control: TcpControl::Syn,
        window: record.offer.window,
        options: Options {
            max_segment: Some(record.offer.max_segment),
            scale: record.scale.map(|_| record.offer.scale),
            selective: record.selective,
        },
        len: 0,
    }
}
