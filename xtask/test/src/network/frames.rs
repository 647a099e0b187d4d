//! Frames that the tests make: connection requests in the name of others, and answers of a name server.

use xtask_run::wire::{ETHERNET, IP, UDP, UDP_NUMBER, frame, reply, sum};

const HEADERS: usize = ETHERNET + IP + UDP;
/// Number of TCP in IPv4's header.
const TCP_NUMBER: u8 = 6;

/// Number of ICMPv6 in IPv6's header.
const ICMPV6: u8 = 58;

/// The type of questions for IPv6 addresses.
const AAAA: u8 = 28;

/// The first bytes of the hardware addresses of multicast groups, the first byte of such groups' addresses, and the last
/// byte of a member's addresses.
const GROUPS: [u8; 3] = [1, 0, 0x5e];
const GROUP: u8 = 239;
const MEMBER: u8 = 99;

/// The first byte of the addresses of machines that are not there, and the second one of their identifiers in IPv6.
pub const NOBODY: u8 = 198;

/// A connection request to port 7 of the machine that `like` is for, from a machine that is not there. `None`: `like` is
/// no frame with TCP.
pub fn request(like: &[u8], sender: u64) -> Option<Vec<u8>> {
    if like.get(ETHERNET + 9) != Some(&TCP_NUMBER) {
        return None;
    }
    let to: [u8; 4] = *like.get(ETHERNET + 16..)?.first_chunk()?;
    let [a, b, c, d, e, ..] = sender.to_le_bytes();
    let from = [NOBODY, 18 + a % 2, b, c];
    let mut segment = vec![d | 4, e, 0, 7];
    segment.extend(((sender >> 32) as u32).to_be_bytes());
    segment.extend([0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0]);
    let len = (segment.len() as u16).to_be_bytes();
    let check = sum(&[&from, &to, &[0, TCP_NUMBER], &len, &segment]);
    segment[16..18].copy_from_slice(&check);
    Some(frame(like.get(..12)?, TCP_NUMBER, from, to, &segment))
}

/// Whether this frame is for a machine that is not there, in whose name there was a request.
pub fn is_for_nobody(frame: &[u8]) -> bool {
    match frame.get(12..14) {
        Some([8, 0]) => frame.get(ETHERNET + 16) == Some(&NOBODY),
        Some([0x86, 0xdd]) => frame.get(ETHERNET + 32..ETHERNET + 34) == Some(&[0, NOBODY]),
        _ => false,
    }
}

/// A connection request over IPv6 to port 7 of the machine that `like` is for, and a neighbour's question for that machine,
/// both from machines that are not there. `None`: `like` is no frame with TCP.
pub fn requests_v6(like: &[u8], sender: u64) -> Option<[Vec<u8>; 2]> {
    if like.get(ETHERNET + 9) != Some(&TCP_NUMBER) {
        return None;
    }
    let mac: [u8; 6] = *like.first_chunk()?;
    let [a, b, c, d, e, f] = mac;
    let own = |prefix: [u8; 2]| [&prefix[..], &[0; 6], &[a ^ 2, b, c, 0xff, 0xfe, d, e, f]].concat();
    let random = sender.to_be_bytes();
    // Of the same network, and of another one.
    let prefix =
        if sender.is_multiple_of(2) { [0xfe, 0xc0, 0, 0, 0, 0, 0, 0] } else { [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0] };
    let from = [&prefix[..], &[0, NOBODY], &random[..6]].concat();
    let segment =
        [&[random[6] | 4, random[7], 0, 7], &random[..4], &[0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0]].concat();
    let request = frame_v6(like.get(..12)?, (TCP_NUMBER, 64, 16), &from, &own([0xfe, 0xc0]), segment);
    let from = [&[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, NOBODY][..], &random[..6]].concat();
    let target = own([0xfe, 0x80]);
    // With the hardware address of the one that asks.
    let question = [&[135, 0, 0, 0, 0, 0, 0, 0][..], &target, &[1, 1], like.get(6..12)?].concat();
    Some([request, frame_v6(like.get(..12)?, (ICMPV6, 255, 2), &from, &target, question)])
}

/// A frame with an IPv6 packet. `is` has the payload's protocol, the hop limit, and where the payload has its sum.
fn frame_v6(macs: &[u8], is: (u8, u8, usize), from: &[u8], to: &[u8], mut payload: Vec<u8>) -> Vec<u8> {
    let (protocol, hops, sum_at) = is;
    let len = (payload.len() as u16).to_be_bytes();
    let check = sum(&[from, to, &len, &[0, protocol], &payload]);
    payload[sum_at..sum_at + 2].copy_from_slice(&check);
    [macs, &[0x86, 0xdd, 0x60, 0, 0, 0, len[0], len[1], protocol, hops], from, to, &payload].concat()
}

/// Whether this is a question for a name.
pub fn is_question(frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&[8, 0])
        && frame.get(ETHERNET + 9) == Some(&UDP_NUMBER)
        && frame.get(ETHERNET + IP + 2..ETHERNET + IP + 4) == Some(&[0, 53])
        && frame.len() > HEADERS + 12
}

/// What another host says in a multicast group when this frame is a datagram to one: to the same group and port.
pub fn answer_in_group(said: &[u8]) -> Option<Vec<u8>> {
    if said.get(12..14)? == [0x86, 0xdd] {
        return answer_in_group_v6(said);
    }
    let ip = said.get(ETHERNET..)?;
    let to: [u8; 4] = *ip.get(16..)?.first_chunk()?;
    let is_group = said.get(..3) == Some(&GROUPS) && to[0] == GROUP && ip.get(9) == Some(&UDP_NUMBER);
    let ports = ip.get(IP..IP + 4).filter(|_| is_group)?;
    let data = b"I am";
    let len = ((UDP + data.len()) as u16).to_be_bytes();
    let macs = [said.get(..6)?, said.get(6..11)?, &[MEMBER]].concat();
    // A sum of zero says that there is none.
    let datagram = [ports, &len, &[0, 0], data].concat();
    Some(frame(&macs, UDP_NUMBER, [10, 0, 2, MEMBER], to, &datagram))
}

/// The same over IPv6.
fn answer_in_group_v6(said: &[u8]) -> Option<Vec<u8>> {
    let to: &[u8; 16] = said.get(ETHERNET + 24..)?.first_chunk()?;
    let is_group = said[..2] == [0x33, 0x33] && to[0] == 0xff && said.get(ETHERNET + 6) == Some(&UDP_NUMBER);
    let ports = said.get(ETHERNET + 40..ETHERNET + 44).filter(|_| is_group)?;
    let data = b"I am";
    let len = ((UDP + data.len()) as u16).to_be_bytes();
    let macs = [said.get(..6)?, said.get(6..11)?, &[MEMBER]].concat();
    let from = [&[0xfe, 0x80][..], &[0; 13], &[MEMBER]].concat();
    Some(frame_v6(&macs, (UDP_NUMBER, 1, 6), &from, to, [ports, &len, &[0, 0], data].concat()))
}

/// Whether this is a segment of a connection to a name server.
pub fn is_to_name_server(frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&[8, 0])
        && frame.get(ETHERNET + 9) == Some(&TCP_NUMBER)
        && frame.get(ETHERNET + IP + 2..ETHERNET + IP + 4) == Some(&[0, 53])
}

/// Flags of a segment.
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// What a name server sends when this segment comes, over a connection of which it remembers nothing: it takes all, and
/// answers a question, which is in one segment, in two. The host `long` has the address 10.0.2.98; the connection that
/// asks for any other ends at once.
pub fn name_server_says(segment: &[u8]) -> Option<Vec<Vec<u8>>> {
    let ip = segment.get(ETHERNET..)?;
    let end = usize::from(u16::from_be_bytes([*ip.get(2)?, *ip.get(3)?]));
    let tcp = ip.get(IP..end)?;
    let data = tcp.get(usize::from(*tcp.get(12)? >> 4) * 4..)?;
    let flags = *tcp.get(13)?;
    let word = |at: usize| Some(u32::from_be_bytes(*tcp.get(at..)?.first_chunk()?));
    let (seq, ack) = (word(4)?, word(8)?);
    let next = seq.wrapping_add(data.len() as u32 + u32::from(flags & (FIN | SYN) != 0));
    let says = |ack: u32, flags: u8, data: &[u8]| say(segment, [ack, next], flags, data);
    match flags {
        _ if flags & RST != 0 => Some(Vec::new()),
        _ if flags & SYN != 0 => Some(vec![says(7, SYN | ACK, &[])?]),
        _ if flags & FIN != 0 => Some(vec![says(ack, FIN | ACK, &[])?]),
        _ if data.is_empty() => Some(Vec::new()),
        _ => {
            let query = data.get(2..)?;
            if label(query) != b"long" {
                return Some(vec![says(ack, RST | ACK, &[])?]);
            }
            let mut answer = query.to_vec();
            (answer[2], answer[3]) = (0x81, 0x80);
            // It has no address of IPv6.
            if !query.ends_with(&[0, AAAA, 0, 1]) {
                answer[7] = 1;
                answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 10, 0, 2, 98]);
            }
            let answer = [&(answer.len() as u16).to_be_bytes()[..], &answer].concat();
            let (first, second) = answer.split_at(1);
            Some(vec![says(ack, ACK, first)?, says(ack.wrapping_add(1), ACK, second)?])
        }
    }
}

/// A segment back to where this one came from, with these numbers.
fn say(to: &[u8], [seq, ack]: [u32; 2], flags: u8, data: &[u8]) -> Option<Vec<u8>> {
    let ip = to.get(ETHERNET..)?;
    let (there, here): ([u8; 4], [u8; 4]) = (*ip.get(12..)?.first_chunk()?, *ip.get(16..)?.first_chunk()?);
    let ports = [ip.get(IP + 2..IP + 4)?, ip.get(IP..IP + 2)?].concat();
    let numbers = [seq.to_be_bytes(), ack.to_be_bytes()].concat();
    let mut segment = [&ports[..], &numbers, &[0x50, flags, 0x20, 0, 0, 0, 0, 0], data].concat();
    let len = (segment.len() as u16).to_be_bytes();
    let check = sum(&[&here, &there, &[0, TCP_NUMBER], &len, &segment]);
    segment[16..18].copy_from_slice(&check);
    let macs = [to.get(6..12)?, to.get(..6)?].concat();
    Some(frame(&macs, TCP_NUMBER, here, there, &segment))
}

/// The first label of a question's name.
fn label(query: &[u8]) -> Vec<u8> {
    let len = query.get(12).map_or(0, |len| usize::from(*len));
    query.get(13..13 + len).unwrap_or_default().to_ascii_lowercase()
}

/// The answers to a question: two that are forged, then the right one. The host `host` has an alias with the addresses
/// 10.0.2.99 and fec0::99, `far` the addresses 10.0.2.98 and 2001:db8::98, and the name of any other host does not exist.
/// The host `silent` gets no answer. The answers for `long` and for `reset` are truncated.
pub fn answers(question: &[u8]) -> Vec<Vec<u8>> {
    let query = &question[HEADERS..];
    let label = label(query);
    let is_v6 = query.ends_with(&[0, AAAA, 0, 1]);
    let address = |network: [u8; 4], last: [u8; 2]| match is_v6 {
        true => [&[0, AAAA, 0, 1, 0, 0, 0, 9, 0, 16][..], &network, &[0; 10], &[0, last[0]]].concat(),
        false => vec![0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 10, 0, 2, last[1]],
    };
    let mut right = query.to_vec();
    (right[2], right[3]) = (0x81, 0x80);
    match label.as_slice() {
        b"host" => {
            // An alias for the name of the question, and the alias' address.
            right[7] = 2;
            let alias = right.len() as u16 + 12;
            right.extend([0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 9, 0, 7]);
            right.extend(b"\x05alias\x00");
            right.extend((0xc000 | alias).to_be_bytes());
            right.extend(address([0xfe, 0xc0, 0, 0], [0x99, 99]));
        }
        b"far" => {
            right[7] = 1;
            right.extend([0xc0, 12]);
            right.extend(address([0x20, 0x01, 0x0d, 0xb8], [0x98, 98]));
        }
        b"silent" => return Vec::new(),
        b"long" | b"reset" => {
            right[2] |= 2;
            right[7] = 1;
            right.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 10, 0, 2, 66]);
        }
        _ => right[3] |= 3,
    }
    let forged = |byte: usize| {
        let mut other = right.clone();
        other[byte] ^= 1;
        if let Some(last) = other.last_mut() {
            *last = 66;
        }
        other
    };
    // Another number, and another question.
    [forged(0), forged(13), right.clone()].map(|answer| reply(question, &answer)).into()
}
