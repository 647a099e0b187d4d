//! What virtio's header says of a frame: a checksum that is not complete, and a large segment that the receiver takes as it
//! is.
//!
//! The header is the sender's, so it is checked: what it names must lie in the frame, and a kind of segment must fit the
//! frame's protocol. What the receiver has not negotiated does not reach it: the switch completes the checksum, and cuts
//! large segments (`cut.rs`).

use vhost_user::net;
use virtqueue::{Gone, Memory, Part};

use crate::frame::{HEAD, HEADER};

/// In the flags: the checksum is the sum of the pseudo header only.
const NEEDS_CSUM: u8 = 1;
/// Kinds of segments.
const GSO_NONE: u8 = 0;
const GSO_TCP4: u8 = 1;
const GSO_TCP6: u8 = 4;
/// Where Ethernet's type is, and where the protocol is in IPv4's header and in IPv6's.
const ETHERTYPE: usize = 12;
const PROTOCOL4: usize = 14 + 9;
const PROTOCOL6: usize = 14 + 6;
const TCP: u8 = 6;
/// Bytes that are summed at a time.
const CHUNK: usize = 1024;

/// What a driver has negotiated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offers {
    /// It sends frames whose checksum is not complete.
    pub sends_partial: bool,
    /// It sends large segments over IPv4, and over IPv6.
    pub sends_large: [bool; 2],
    /// It takes frames whose checksum is not complete.
    pub takes_partial: bool,
    /// It takes large segments over IPv4, and over IPv6.
    pub takes_large: [bool; 2],
}

impl Offers {
    /// All features of this kind.
    pub const FEATURES: u64 =
        net::CSUM | net::GUEST_CSUM | net::HOST_TSO4 | net::HOST_TSO6 | net::GUEST_TSO4 | net::GUEST_TSO6;

    /// What these features say. Large segments need checksums that are not complete.
    pub fn of(features: u64) -> Offers {
        let has = |feature: u64| features & feature != 0;
        let (sends_partial, takes_partial) = (has(net::CSUM), has(net::GUEST_CSUM));
        Offers {
            sends_partial,
            sends_large: [sends_partial && has(net::HOST_TSO4), sends_partial && has(net::HOST_TSO6)],
            takes_partial,
            takes_large: [takes_partial && has(net::GUEST_TSO4), takes_partial && has(net::GUEST_TSO6)],
        }
    }
}

/// What was asked for with a frame, checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// Where the sum begins, and where it is put behind that.
    pub(crate) partial: Option<(u16, u16)>,
    /// The version of IP (0: 4, 1: 6), bytes of all headers, and of a segment.
    pub(crate) large: Option<(usize, u16, u16)>,
}

impl Offload {
    /// Reads virtio's header, in front of the first bytes of a frame of `len` bytes. `None`: it lies.
    pub fn read(start: &[u8], len: usize, sender: &Offers) -> Option<Offload> {
        let mut offload = Offload::default();
        let [flags, kind, fields @ ..] = start.first_chunk::<10>()?;
        // A driver that has negotiated nothing of this need not set the header.
        if !sender.sends_partial {
            return Some(offload);
        }
        let word = |at: usize| u16::from_le_bytes([fields[at], fields[at + 1]]);
        let (header, size, sum_from, sum_at) = (word(0), word(2), word(4), word(6));
        if flags & NEEDS_CSUM != 0 {
            let end = usize::from(sum_from) + usize::from(sum_at) + 2;
            // The place of the sum is in the private bytes.
            if usize::from(sum_from) < 14 || end > len || end > HEAD {
                return None;
            }
            offload.partial = Some((sum_from, sum_at));
        }
        let frame = start.get(HEADER..)?;
        let kind_of = |version: usize, ethertype: [u8; 2], protocol: usize| {
            let fits = frame.get(ETHERTYPE..ETHERTYPE + 2) == Some(&ethertype) && frame.get(protocol) == Some(&TCP);
            (fits && sender.sends_large[version]).then_some(version)
        };
        let version = match *kind {
            GSO_NONE => return Some(offload),
            GSO_TCP4 => kind_of(0, [8, 0], PROTOCOL4)?,
            GSO_TCP6 => kind_of(1, [0x86, 0xdd], PROTOCOL6)?,
            _ => return None,
        };
        // Segments need a checksum, and headers in front of it.
        let (sum_from, _) = offload.partial?;
        let first = usize::from(sum_from) + 20;
        if size == 0 || usize::from(header) < first || usize::from(header) > len {
            return None;
        }
        offload.large = Some((version, header, size));
        Some(offload)
    }

    /// Whether a receiver takes the frame, perhaps after its checksum was completed.
    pub fn is_for(&self, receiver: &Offers) -> bool {
        self.large.is_none_or(|(version, ..)| receiver.takes_large[version])
    }

    /// Whether the checksum must be completed for a receiver.
    pub fn needs_sum(&self, receiver: &Offers) -> Option<(u16, u16)> {
        self.partial.filter(|_| !receiver.takes_partial)
    }

    /// The header for a receiver, without the number of buffers.
    pub fn header(&self, receiver: &Offers) -> [u8; 10] {
        let mut header = [0; 10];
        if let Some((from, at)) = self.partial.filter(|_| receiver.takes_partial) {
            header[0] = NEEDS_CSUM;
            header[6..8].copy_from_slice(&from.to_le_bytes());
            header[8..].copy_from_slice(&at.to_le_bytes());
        }
        if let Some((version, length, size)) = self.large {
            header[1] = if version == 0 { GSO_TCP4 } else { GSO_TCP6 };
            header[2..4].copy_from_slice(&length.to_le_bytes());
            header[4..6].copy_from_slice(&size.to_le_bytes());
        }
        header
    }
}

/// The checksum of the Internet over bytes that come in pieces.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    sum: u64,
    is_odd: bool,
}

impl Sum {
    fn add(&mut self, mut bytes: &[u8]) {
        if self.is_odd
            && let Some((byte, rest)) = bytes.split_first()
        {
            self.sum += u64::from(*byte);
            (self.is_odd, bytes) = (false, rest);
        }
        // Two words at a time: at the end the upper ones are added to the lower ones, and so are the carries. A frame is too
        // short for the sum to overflow.
        let (words, rest) = bytes.as_chunks::<4>();
        self.sum += words.iter().map(|bytes| u64::from(u32::from_be_bytes(*bytes))).sum::<u64>();
        for byte in rest {
            self.sum += if self.is_odd { u64::from(*byte) } else { u64::from(*byte) << 8 };
            self.is_odd = !self.is_odd;
        }
    }

    fn complement(mut self) -> u16 {
        while self.sum > 0xffff {
            self.sum = (self.sum & 0xffff) + (self.sum >> 16);
        }
        !(self.sum as u16)
    }
}

/// Completes the checksum of a frame, whose first bytes are private and whose rest is in the sender's memory. The place of
/// the sum holds that of the pseudo header. If the sender changes the rest afterwards, the sum is wrong, and the receiver
/// drops the frame.
///
/// # Errors
/// [`Gone`].
pub fn complete<M: Memory>(frame: &mut [u8], rest: &[Part], memory: &M, (from, at): (u16, u16)) -> Result<(), Gone> {
    let (from, at) = (usize::from(from), usize::from(from) + usize::from(at));
    let mut sum = Sum::default();
    sum.add(frame.get(from..).unwrap_or_default());
    let mut bytes = [0; CHUNK];
    for part in rest {
        let (mut place, mut left) = (part.at, part.len as usize);
        while left > 0 {
            let chunk = &mut bytes[..left.min(CHUNK)];
            memory.read(place, chunk)?;
            sum.add(chunk);
            place += chunk.len() as u64;
            left -= chunk.len();
        }
    }
    // A UDP checksum of zero would say that there is none.
    let value = match sum.complement() {
        0 => 0xffff,
        value => value,
    };
    if let Some(place) = frame.get_mut(at..at + 2) {
        place.copy_from_slice(&value.to_be_bytes());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use virtqueue::Plain;

    const ALL: Offers =
        Offers { sends_partial: true, sends_large: [true; 2], takes_partial: true, takes_large: [true; 2] };

    /// A header, and the first bytes of a frame of TCP.
    fn start(flags: u8, kind: u8, words: [u16; 4]) -> Vec<u8> {
        let mut bytes = vec![flags, kind];
        bytes.extend(words.into_iter().flat_map(u16::to_le_bytes));
        bytes.extend([0; 2 + HEAD]);
        let six = kind == GSO_TCP6;
        bytes[HEADER + ETHERTYPE..HEADER + ETHERTYPE + 2].copy_from_slice(if six { &[0x86, 0xdd] } else { &[8, 0] });
        bytes[HEADER + if six { PROTOCOL6 } else { PROTOCOL4 }] = TCP;
        bytes
    }

    #[test]
    fn headers_that_lie() {
        let read = |flags, kind, words| Offload::read(&start(flags, kind, words), 3000, &ALL);
        assert_eq!(read(0, 0, [9, 9, 9, 9]), Some(Offload::default()));
        let good = read(1, 1, [54, 1448, 34, 16]).unwrap();
        assert_eq!(good, Offload { partial: Some((34, 16)), large: Some((0, 54, 1448)) });
        assert_eq!(good.header(&ALL), [1, 1, 54, 0, 0xa8, 5, 34, 0, 16, 0]);
        assert!(read(1, 4, [74, 1428, 54, 16]).is_some());
        for words in [[54, 1448, 13, 16], [54, 1448, 111, 16], [54, 1448, u16::MAX, u16::MAX], [53, 1448, 34, 16]] {
            assert_eq!(read(1, 1, words), None, "{words:?}");
        }
        assert_eq!(read(1, 1, [3001, 1448, 34, 16]), None);
        assert_eq!(read(1, 1, [54, 0, 34, 16]), None);
        assert_eq!(read(0, 1, [54, 1448, 34, 16]), None);
        for kind in [2, 3, 5, 0x81, 0xff] {
            assert_eq!(read(1, kind, [54, 1448, 34, 16]), None, "{kind}");
        }
        // The protocol of the frame is another one.
        let mut other = start(1, 1, [54, 1448, 34, 16]);
        other[HEADER + PROTOCOL4] = 17;
        assert_eq!(Offload::read(&other, 3000, &ALL), None);
        // A short frame.
        assert_eq!(Offload::read(&start(1, 0, [0, 0, 34, 16]), 51, &ALL), None);
        assert!(Offload::read(&start(1, 0, [0, 0, 34, 16]), 52, &ALL).is_some());
    }

    #[test]
    fn what_was_not_negotiated() {
        let bytes = start(1, 1, [54, 1448, 34, 16]);
        assert_eq!(Offload::read(&bytes, 3000, &Offers::default()), Some(Offload::default()));
        let without_segments = Offers { sends_large: [false, true], ..ALL };
        assert_eq!(Offload::read(&bytes, 3000, &without_segments), None);
        let offload = Offload::read(&bytes, 3000, &ALL).unwrap();
        assert!(offload.is_for(&ALL) && !offload.is_for(&Offers { takes_large: [false, true], ..ALL }));
        assert_eq!(offload.needs_sum(&ALL), None);
        assert_eq!(offload.needs_sum(&Offers::default()), Some((34, 16)));
        // Without checksums there are no segments, whatever else was negotiated.
        assert_eq!(Offers::of(net::HOST_TSO4 | net::GUEST_TSO6), Offers::default());
    }

    /// The sum as it is defined.
    fn simple(bytes: &[u8]) -> u16 {
        let sum: u32 =
            bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        (sum & 0xffff) as u16 + (sum >> 16) as u16
    }

    proptest! {
        #[test]
        fn no_header_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..HEADER + HEAD), len in 14..66_000_usize) {
            let _ = Offload::read(&bytes, len, &ALL);
        }

        /// With the sum in its place, all bytes sum up to what a receiver expects.
        #[test]
        fn sums_are_complete(
            bytes in proptest::collection::vec(any::<u8>(), HEAD),
            rest in proptest::collection::vec(any::<u8>(), 0..2500),
            cut in 0..2500_usize,
        ) {
            let memory = Plain::new(4096);
            memory.write(7, &rest).unwrap();
            let cut = cut.min(rest.len());
            let part = |at: usize, len: usize| Part { at: 7 + at as u64, len: len as u32 };
            let mut frame = bytes.clone();
            complete(&mut frame, &[part(0, cut), part(cut, rest.len() - cut)], &memory, (34, 16)).unwrap();
            let all = [&frame[34..], &rest].concat();
            // The place held the sum of the pseudo header, which a receiver adds as well.
            let pseudo = [bytes[50], bytes[51]];
            prop_assert_eq!(simple(&[&all[..], &[0][..all.len() % 2], &pseudo].concat()), 0xffff);
        }
    }
}
