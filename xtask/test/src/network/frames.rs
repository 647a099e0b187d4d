//! Frames that the tests make: connection requests in the name of others, and answers of a name server.

use xtask_run::wire::{ETHERNET, IP, UDP, UDP_NUMBER, frame, reply, sum};

const HEADERS: usize = ETHERNET + IP + UDP;
/// Number of TCP in IPv4's header.
const TCP_NUMBER: u8 = 6;

/// The first bytes of the hardware addresses of multicast groups, the first byte of such groups' addresses, and the last
/// byte of a member's addresses.
const GROUPS: [u8; 3] = [1, 0, 0x5e];
const GROUP: u8 = 239;
const MEMBER: u8 = 99;

/// The first byte of the addresses of machines that are not there.
const NOBODY: u8 = 198;

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
    frame.get(12..14) == Some(&[8, 0]) && frame.get(ETHERNET + 16) == Some(&NOBODY)
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

/// The answers to a question: two that are forged, then the right one. The host `host` has an alias with the address
/// 10.0.2.99, and the name of any other host does not exist. The host `silent` gets no answer.
pub fn answers(question: &[u8]) -> Vec<Vec<u8>> {
    let query = &question[HEADERS..];
    let label = query.get(13..13 + usize::from(query[12])).unwrap_or_default().to_ascii_lowercase();
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
            right.extend([0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 10, 0, 2, 99]);
        }
        b"silent" => return Vec::new(),
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
