//! Joins segments of one connection that come in one behind the other, so that smoltcp handles them as one. Elsewhere that
//! is called GRO.
//!
//! Only segments that carry data and nothing else are joined: those of the usual form, with equal headers but for the
//! sequence number, the checksums and PSH, of equal length but for the last one. PSH ends what is joined, so its receiver
//! gets it no later. The joined segment has correct checksums, which nobody has to look at again, and the header of the
//! first one but for the length and PSH.

use smoltcp::wire::checksum;

use crate::sums::{fold, sum};

/// Where the headers of IPv4 and TCP begin.
const IP: usize = 14;
const TCP: usize = 34;
/// Bytes of the headers without TCP's options, and with those of ordinary segments.
const LEAST: usize = TCP + 20;
/// See [`LEAST`].
pub(crate) const HEAD: usize = LEAST + 12;
/// Bytes of a joined segment's frame at most.
pub(crate) const LONGEST: usize = IP + u16::MAX as usize;
/// The type of frames with IPv4 packets, then version 4 and the length of a header without options.
const PLAIN_IPV4: [u8; 3] = [8, 0, 0x45];
const TCP_NUMBER: u8 = 6;
/// The flags of a segment with data and nothing else: ACK, and perhaps PSH.
const ACK: u8 = 0x10;
const PSH: u8 = 8;
const FRAGMENT: u16 = 0x3fff;

fn number(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// A frame whose segment others can continue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joinable {
    /// Bytes of all headers.
    headers: usize,
    /// Bytes of data.
    data: usize,
    /// The sequence number.
    seq: u32,
    /// It has PSH.
    pushes: bool,
}

/// The last frame that came in: others can continue it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joined {
    headers: usize,
    /// Bytes of data of its first segment, and of all.
    first: usize,
    data: usize,
    /// The sequence number behind it.
    next: u32,
    /// The checksum of its data, in this machine's order of bytes. `None`: nobody has looked.
    sum: Option<u16>,
}

impl Joinable {
    /// Looks at the beginning of a frame of `len` bytes: [`HEAD`] bytes, or all of it. `None`: it is joined with no other.
    pub(crate) fn look(head: &[u8], len: usize) -> Option<Joinable> {
        let headers = TCP + usize::from(*head.get(TCP + 12)? >> 4) * 4;
        let flags = *head.get(TCP + 13)?;
        let data = len.checked_sub(headers)?;
        let is_plain = (LEAST..=head.len().min(HEAD)).contains(&headers)
            && head[12..15] == PLAIN_IPV4
            && usize::from(number(head, IP + 2)?) == len - IP
            && number(head, IP + 6)? & FRAGMENT == 0
            && head[IP + 9] == TCP_NUMBER
            && flags & !PSH == ACK
            && data > 0;
        let seq = u32::from_be_bytes(*head[TCP + 4..].first_chunk()?);
        is_plain.then_some(Joinable { headers, data, seq, pushes: flags & PSH != 0 })
    }

    /// What others can continue. `None`: nothing.
    pub(crate) fn alone(&self) -> Option<Joined> {
        let Joinable { headers, data, seq, pushes } = *self;
        (!pushes).then(|| Joined { headers, first: data, data, next: seq.wrapping_add(data as u32), sum: None })
    }

    /// Bytes of the headers and of the data.
    pub(crate) fn parts(&self) -> (usize, usize) {
        (self.headers, self.data)
    }
}

/// The sum of a segment's TCP header and pseudo-header, with `data` bytes behind them; see [`sum`].
fn tcp_sum(headers: &[u8], data: usize) -> Option<u64> {
    let (first, options): (&[u8; LEAST], _) = headers.split_first_chunk()?;
    let (addresses, tcp): (&[u8; 8], &[u8; 20]) = (first[IP + 12..].first_chunk()?, first.last_chunk()?);
    let options = if options.is_empty() { 0 } else { checksum::data(options).to_be() };
    let (protocol, len) = (u16::from(TCP_NUMBER).to_be(), ((headers.len() - TCP + data) as u16).to_be());
    Some(sum(addresses) + sum(tcp) + u64::from(options) + u64::from(protocol) + u64::from(len))
}

/// The sum of the IP header.
fn ip_sum(headers: &[u8]) -> Option<u64> {
    headers.get(IP..)?.first_chunk::<{ TCP - IP }>().map(sum)
}

/// Whether the checksums of a segment are right, the data's being `data_sum`.
fn is_right(headers: &[u8], data: usize, data_sum: u16) -> bool {
    ip_sum(headers).is_some_and(|sum| fold(sum) == u16::MAX)
        && tcp_sum(headers, data).is_some_and(|sum| fold(sum + u64::from(data_sum)) == u16::MAX)
}

impl Joined {
    /// Bytes of the frame.
    pub(crate) fn len(&self) -> usize {
        self.headers + self.data
    }

    /// Whether a segment whose headers begin with `head` continues `frame`.
    pub(crate) fn is_continued(&self, frame: &[u8], head: &[u8], by: &Joinable) -> bool {
        let fits = by.headers == self.headers
            && by.seq == self.next
            && by.data <= self.first
            && self.len() + by.data <= LONGEST;
        let (Some(a), Some(b)) = (frame.first_chunk::<LEAST>(), head.first_chunk::<LEAST>()) else { return false };
        // Of the IP header the length, the identification and the checksum differ; of the other the sequence number, the
        // checksum, and the flags: `Joinable` has looked at those.
        fits && a[..IP + 2] == b[..IP + 2]
            && a[IP + 6..IP + 10] == b[IP + 6..IP + 10]
            && a[IP + 12..TCP + 4] == b[IP + 12..TCP + 4]
            && a[TCP + 8..TCP + 13] == b[TCP + 8..TCP + 13]
            && a[TCP + 14..TCP + 16] == b[TCP + 14..TCP + 16]
            && a[TCP + 18..] == b[TCP + 18..]
            && (self.headers == LEAST || frame.get(LEAST..self.headers) == head.get(LEAST..self.headers))
    }

    /// Joins a segment, whose data lies behind `frame` already; `frame` ends with it. Returns what can continue both: itself
    /// with nothing behind it if it is the last.
    ///
    /// # Errors
    /// A checksum is wrong. `frame` is as it was.
    pub(crate) fn join(self, frame: &mut [u8], head: &[u8], by: &Joinable) -> Result<Option<Joined>, ()> {
        let (before, data) = frame.split_at_mut_checked(self.len()).ok_or(())?;
        let own_headers = head.get(..by.headers).ok_or(())?;
        let more = checksum::data(data).to_be();
        if !is_right(own_headers, data.len(), more) {
            return Err(());
        }
        let (headers, first) = before.split_at_mut(self.headers);
        let sum = match self.sum {
            Some(sum) => sum,
            None => {
                let sum = checksum::data(first).to_be();
                if !is_right(headers, first.len(), sum) {
                    return Err(());
                }
                sum
            }
        };
        // Behind an odd number of bytes, a word of the data is the halves of two.
        let sum = fold(u64::from(sum) + u64::from(if self.data.is_multiple_of(2) { more } else { more.swap_bytes() }));
        let all = self.data + by.data;
        let total = (self.headers - IP + all) as u16;
        headers[IP + 2..IP + 4].copy_from_slice(&total.to_be_bytes());
        headers[IP + 10..IP + 12].copy_from_slice(&[0; 2]);
        let ip = !fold(ip_sum(headers).ok_or(())?);
        headers[IP + 10..IP + 12].copy_from_slice(&ip.to_ne_bytes());
        headers[TCP + 13] |= if by.pushes { PSH } else { 0 };
        headers[TCP + 16..TCP + 18].copy_from_slice(&[0; 2]);
        let tcp = !fold(tcp_sum(headers, all).ok_or(())? + u64::from(sum));
        headers[TCP + 16..TCP + 18].copy_from_slice(&tcp.to_ne_bytes());
        let is_last = by.pushes || by.data < self.first;
        let next = self.next.wrapping_add(by.data as u32);
        Ok((!is_last).then_some(Joined { data: all, next, sum: Some(sum), ..self }))
    }
}
