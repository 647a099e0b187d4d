//! Large segments are cut for receivers that do not take them, as a network card does it (TCP segmentation offload).

use virtqueue::Part;

use crate::frame::{Frame, HEAD, HEADER};

/// Segments that a frame is cut into at most: 64 KiB of the smallest usual size, 536 bytes. A frame that says it has more is
/// dropped.
const MOST: usize = 128;

const IP: usize = 14;
/// Where the length and the identification of IPv4's header are, and its checksum.
const LENGTH4: usize = IP + 2;
const IDENTIFICATION: usize = IP + 4;
const SUM4: usize = IP + 10;
/// Where the length of what follows IPv6's header is, and that header's length.
const LENGTH6: usize = IP + 4;
const HEADER6: usize = 40;
/// Where the addresses are, and their length.
const ADDRESSES4: (usize, usize) = (IP + 12, 8);
const ADDRESSES6: (usize, usize) = (IP + 8, 32);
const TCP: u32 = 6;
/// In TCP's header: the sequence number, its own length, flags and the checksum.
const SEQUENCE: usize = 4;
const DATA_OFFSET: usize = 12;
const FLAGS: usize = 13;
const SUM: u16 = 16;
/// Flags of the last segment only: FIN and PSH. Of the first one only: CWR.
const LAST: u8 = 0x09;
const FIRST: u8 = 0x80;

/// Adds 16-bit words, with carries.
fn sum(bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<2>();
    words.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum::<u32>()
        + rest.first().map_or(0, |byte| u32::from(*byte) << 8)
}

fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// How a frame is cut: all of it is in its private bytes, and has been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cuts {
    /// Version of IP (0: 4, 1: 6).
    version: usize,
    /// Bytes of all headers.
    header: usize,
    /// Where TCP's header begins.
    tcp: usize,
    /// Bytes of data in each segment but the last.
    size: usize,
    /// Number of segments.
    pub count: u32,
}

impl Frame {
    /// How the frame is cut. `None`: it cannot be.
    pub fn cuts(&self) -> Option<Cuts> {
        let (version, header, size) = self.offload.large?;
        let (tcp, at) = self.offload.partial?;
        let (header, size, tcp) = (usize::from(header), usize::from(size), usize::from(tcp));
        let bytes = self.start.get(HEADER..self.started)?.get(..header)?;
        let ip = if version == 0 { usize::from(bytes[IP] & 15) * 4 } else { HEADER6 };
        // The headers are what they seem to be: IP's without extensions, then TCP's, then data.
        let of_tcp = usize::from(bytes.get(tcp + DATA_OFFSET)? >> 4) * 4;
        let is_whole = ip >= 20 && IP + ip == tcp && tcp + of_tcp == header && of_tcp >= 20 && at == SUM;
        let data = self.len.checked_sub(header)?;
        let count = data.div_ceil(size);
        let fits = header + size.min(data) - IP <= usize::from(u16::MAX);
        (is_whole && fits && (1..=MOST).contains(&count)).then_some(Cuts {
            version,
            header,
            tcp,
            size,
            count: count as u32,
        })
    }

    /// Makes a segment of this frame.
    pub fn segment(&self, cuts: &Cuts, index: u32, into: &mut Frame) {
        let Cuts { version, header, tcp, size, count } = *cuts;
        let from = index as usize * size;
        let data = size.min((self.len - header).saturating_sub(from));
        self.range(header + from, data, header, into);
        into.start[..HEADER].fill(0);
        into.start[HEADER..HEADER + header].copy_from_slice(&self.start[HEADER..HEADER + header]);
        into.len = header + data;
        into.offload = self.offload;
        into.offload.large = None;
        let bytes = &mut into.start[HEADER..HEADER + header];
        let put = |bytes: &mut [u8], at: usize, value: u16| bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
        let behind_ip = header - tcp + data;
        // The lengths fit: that was checked.
        let addresses = if version == 0 {
            let identification = u16::from_be_bytes([bytes[IDENTIFICATION], bytes[IDENTIFICATION + 1]]);
            put(bytes, LENGTH4, (tcp - IP + behind_ip) as u16);
            put(bytes, IDENTIFICATION, identification.wrapping_add(index as u16));
            put(bytes, SUM4, 0);
            let of_header = !fold(sum(&bytes[IP..tcp]));
            put(bytes, SUM4, of_header);
            ADDRESSES4
        } else {
            put(bytes, LENGTH6, behind_ip as u16);
            ADDRESSES6
        };
        let sequence = bytes[tcp + SEQUENCE..].first_chunk().copied().map_or(0, u32::from_be_bytes);
        bytes[tcp + SEQUENCE..][..4].copy_from_slice(&sequence.wrapping_add(from as u32).to_be_bytes());
        bytes[tcp + FLAGS] &= if index + 1 == count { !0 } else { !LAST };
        bytes[tcp + FLAGS] &= if index == 0 { !0 } else { !FIRST };
        // The sum of the pseudo header: the rest is summed for receivers that do not do it.
        let pseudo = fold(sum(&bytes[addresses.0..][..addresses.1]) + TCP + behind_ip as u32);
        put(bytes, tcp + usize::from(SUM), pseudo);
    }

    /// Puts a range of this frame's bytes behind `behind` private ones of another frame.
    fn range(&self, from: usize, len: usize, behind: usize, into: &mut Frame) {
        let private = self.started - HEADER;
        let here = len.min(private.saturating_sub(from)).min(HEAD - behind.min(HEAD));
        let to = HEADER + behind;
        if here > 0 {
            into.start[to..to + here].copy_from_slice(&self.start[HEADER + from..HEADER + from + here]);
        }
        into.started = to + here;
        into.rest.clear();
        // What comes before `skip` bytes of the rest is not in the range.
        let (mut skip, mut left) = ((from + here).saturating_sub(private), len - here);
        for part in &self.rest {
            let len = part.len as usize;
            if skip >= len {
                skip -= len;
                continue;
            }
            let count = left.min(len - skip);
            if count > 0 {
                into.rest.push(Part { at: part.at + skip as u64, len: count as u32 });
            }
            (skip, left) = (0, left - count);
        }
    }
}
