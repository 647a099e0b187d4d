//! Half-open connections: requests that came over the card, and were answered, but whose peer has not shown yet that it
//! gets our answers. Anybody can send any number of such requests in the name of others, so they cost little. Steps of
//! a connection; the code refers to these numbers:
//!
//! 1. A SYN comes. Its listener has room. The table keeps a [`Record`], and the answer (SYN and ACK) goes out.
//! 2. Until the peer answers, the answer is repeated after [`TIMES`]. A repeated SYN is answered again.
//! 3. The peer acknowledges our sequence number, which nobody else can know. Now the connection gets a socket with a
//!    smoltcp socket. That is given the sequence number of our answer and the SYN of step 1, as the record describes it,
//!    and is told that the answer was sent. Then it is given the segment that came.
//! 4. The record goes: after step 3, with a reset of the peer's, after the last repetition, or as the oldest one when
//!    there are too many.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{EthernetAddress, TcpControl};

use crate::segments::{Options, Segment, Short};

/// Maximum number of half-open connections. A record takes 88 bytes, with IPv6 as with IPv4. With the table by addresses
/// they take 2 MiB.
pub const MOST: usize = 14_336;
/// When an answer is repeated, counted from the request, and, as the last one, when the record goes.
const TIMES: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(3), Duration::from_secs(7), Duration::from_secs(15)];

/// The peer, and the address here.
type Key = (Short, Short);

/// A record's place in the order of arrival. It distinguishes a record from an earlier one with the same addresses.
type Number = u32;

/// A request, and our answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    /// When the request came.
    since: Instant,
    key: Key,
    mac: EthernetAddress,
    seq: i32,
    our_seq: i32,
    max_segment: u16,
    scale: Option<u8>,
    selective: bool,
    offer: Offer,
}

/// All half-open connections.
#[derive(Debug, Default)]
pub struct HalfOpen {
    /// By half of the hash of their addresses: the table has twice the places that it uses. Nobody outside can tell two
    /// addresses with the same one; of such two, the later one counts.
    numbers: HashMap<u32, Number>,
    hasher: RandomState,
    /// In the order of their arrival, with gaps where a record is gone. The first one has the number `first`.
    records: VecDeque<Option<Record>>,
    first: Number,
    /// For each of [`TIMES`], the first record for which it is not over. So nothing else is kept for a repetition.
    next: [Number; TIMES.len()],
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
        if let Some(record) = self.record(syn)
            && record.seq == syn.seq
        {
            return answer(record, ours.mac);
        }
        // A request with other numbers takes the place of an earlier one.
        self.remove(syn);
        let record = Record {
            since: now,
            key: syn.ends(),
            mac: syn.macs[0],
            seq: syn.seq,
            our_seq,
            max_segment: syn.options.max_segment.unwrap_or(0),
            scale: syn.options.scale,
            selective: syn.options.selective,
            offer: ours.offer,
        };
        let number = self.first.wrapping_add(self.records.len() as Number);
        self.numbers.insert(self.hash(&record.key), number);
        self.records.push_back(Some(record));
        while self.records.len() > MOST {
            self.forget(self.first);
        }
        answer(&record, ours.mac)
    }

    /// The segment's connection is half-open.
    pub fn has(&self, segment: &Segment) -> bool {
        self.record(segment).is_some()
    }

    /// Step 3, first part: whether the segment acknowledges our answer. Returns the SYN of step 1, our sequence
    /// number, and what our answer said.
    pub fn acknowledged(&self, segment: &Segment) -> Option<(Segment, i32, Offer)> {
        let record = self.record(segment)?;
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
        if self.record(segment).is_some()
            && let Some(number) = self.numbers.get(&self.hash(&segment.ends()))
        {
            self.forget(*number);
        }
    }

    /// These addresses are not the card's any more.
    pub fn lose(&mut self, is_lost: impl Fn(IpAddr) -> bool) {
        let mut numbers = Vec::new();
        for (at, record) in self.records.iter().enumerate() {
            if record.is_some_and(|record| is_lost(record.key.1.0)) {
                numbers.push(self.first.wrapping_add(at as Number));
            }
        }
        numbers.into_iter().for_each(|number| self.forget(number));
    }

    /// Step 4, for a reset: it counts only with the next sequence number.
    pub fn reset(&mut self, segment: &Segment) {
        if self.record(segment).is_some_and(|record| segment.seq == record.seq.wrapping_add(1)) {
            self.remove(segment);
        }
    }

    /// Step 2: the next answer that is due. After the last one the record goes.
    pub fn next_due(&mut self, mac: EthernetAddress, now: Instant) -> Option<Segment> {
        for (stage, after) in TIMES.into_iter().enumerate() {
            while let Some((number, place)) = self.at_time(stage) {
                if place.is_some_and(|record| record.since + after > now) {
                    break;
                }
                self.next[stage] = number.wrapping_add(1);
                match place {
                    Some(record) if stage + 1 < TIMES.len() => return Some(answer(&record, mac)),
                    Some(_) => self.forget(number),
                    None => {}
                }
            }
        }
        None
    }

    /// When [`HalfOpen::next_due`] must be called.
    pub fn deadline(&self) -> Option<Instant> {
        let mut first: Option<Instant> = None;
        for (stage, after) in TIMES.into_iter().enumerate() {
            let Some((number, _)) = self.at_time(stage) else { continue };
            // There are as many gaps as records went since then.
            let mut behind = self.records.range(number.wrapping_sub(self.first) as usize..);
            if let Some(record) = behind.find_map(Option::as_ref) {
                let at = record.since + after;
                first = Some(first.map_or(at, |first| first.min(at)));
            }
        }
        first
    }

    /// The first place, with its number, for which one of [`TIMES`] is not over.
    fn at_time(&self, stage: usize) -> Option<(Number, Option<Record>)> {
        let next = *self.next.get(stage)?;
        // Those before the first one are gone.
        let is_gone = (next.wrapping_sub(self.first) as i32) < 0;
        let number = if is_gone { self.first } else { next };
        Some((number, *self.records.get(number.wrapping_sub(self.first) as usize)?))
    }

    /// Number of half-open connections.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    fn hash(&self, key: &Key) -> u32 {
        self.hasher.hash_one(key) as u32
    }

    /// The record of a segment's connection.
    fn record(&self, segment: &Segment) -> Option<&Record> {
        let key = segment.ends();
        let number = self.numbers.get(&self.hash(&key))?;
        let record = self.records.get(number.wrapping_sub(self.first) as usize)?.as_ref();
        record.filter(|record| record.key == key)
    }

    /// A record goes, and with it the gaps at the beginning.
    fn forget(&mut self, number: Number) {
        if let Some(place) = self.records.get_mut(number.wrapping_sub(self.first) as usize)
            && let Some(record) = place.take()
        {
            let hash = self.hash(&record.key);
            if self.numbers.get(&hash) == Some(&number) {
                self.numbers.remove(&hash);
            }
        }
        while let Some(None) = self.records.front() {
            self.records.pop_front();
            self.first = self.first.wrapping_add(1);
        }
    }
}

fn answer(record: &Record, mac: EthernetAddress) -> Segment {
    let (peer, here) = record.key;
    Segment {
        macs: [mac, record.mac],
        from: here.into(),
        to: peer.into(),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The bound of [`MOST`] in memory: the table has a power of two of places of which seven eighths can be used, with a
    /// byte more for each, and twice as many because records come and go. The queue has at most twice the room that it needs.
    #[test]
    fn records_take_two_megabytes() {
        let places = 2 * (MOST * 8 / 7).next_power_of_two();
        let table = places * (size_of::<(u32, Number)>() + 1);
        let queue = MOST.next_power_of_two() * size_of::<Option<Record>>();
        assert!(size_of::<Record>() <= 88, "{}", size_of::<Record>());
        assert!(table + queue <= 2 << 20, "{table} + {queue}");
    }

    fn request(number: u32, seq: i32) -> Segment {
        Segment {
            macs: [EthernetAddress([2, 0, 0, 0, 0, 9]); 2],
            from: (std::net::Ipv4Addr::from_bits(number), 1000).into(),
            to: (std::net::Ipv4Addr::new(192, 0, 2, 1), 80).into(),
            seq,
            ack: None,
            control: TcpControl::Syn,
            window: 1000,
            options: Options::default(),
            len: 0,
        }
    }

    /// Each answer is repeated three times, in whatever order records go, and nothing is left.
    #[test]
    fn answers_are_repeated() {
        let mac = EthernetAddress([2, 0, 0, 0, 0, 1]);
        let offer = Offer { window: 1000, max_segment: 1460, scale: 0 };
        for gone in [|_| false, |number: u32| number.is_multiple_of(3), |number| number < 50, |number| number > 50] {
            let mut table =
                HalfOpen { first: u32::MAX - 20, next: [u32::MAX - 20; TIMES.len()], ..HalfOpen::default() };
            let start = Instant::from_secs(10);
            for number in 0..100 {
                let at = start + Duration::from_millis(number.into());
                table.syn(&request(number, 7), Ours { mac, offer }, number as i32, at);
            }
            (0..100).filter(|number| gone(*number)).for_each(|number| table.remove(&request(number, 7)));
            let mut seen = vec![Vec::new(); 100];
            for millis in 0..20_000 {
                let now = start + Duration::from_millis(millis);
                while let Some(answer) = table.next_due(mac, now) {
                    seen[answer.seq as usize].push(millis - answer.seq as u64);
                }
                assert!(table.deadline().is_none_or(|at| at > now));
            }
            for (number, times) in seen.iter().enumerate() {
                let expected: &[u64] = if gone(number as u32) { &[] } else { &[1000, 3000, 7000] };
                assert_eq!(times, expected, "{number}");
            }
            assert!(table.records.is_empty() && table.numbers.is_empty() && table.deadline().is_none());
        }
    }
}
