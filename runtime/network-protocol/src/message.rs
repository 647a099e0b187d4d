//! Encoding and decoding of messages. Decoding accepts any bytes and returns a message or `None`.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use crate::{Addresses, CardState, Choice, Error, Family, HEADER, Information, Kind, LONGEST, Name, Request};

/// A message that is being encoded. Its first four bytes are the transaction's number, which `zx_channel_call` sets.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    bytes: [u8; LONGEST],
    len: usize,
}

impl Message {
    fn new(transaction: u32, number: u32) -> Message {
        let mut message = Message { bytes: [0; LONGEST], len: 0 };
        message.word(transaction);
        message.word(number);
        message
    }

    fn put(&mut self, bytes: &[u8]) {
        // Always fits: the longest message has two words and a name.
        if let Some(place) = self.bytes.get_mut(self.len..self.len + bytes.len()) {
            place.copy_from_slice(bytes);
            self.len += bytes.len();
        }
    }

    fn word(&mut self, word: u32) {
        self.put(&word.to_le_bytes());
    }

    /// The bytes to send.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn word(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*word))
    }

    fn address(&mut self) -> Option<SocketAddr> {
        let (header, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        decode_address(header)
    }

    fn ip_v6(&mut self) -> Option<Ipv6Addr> {
        let (octets, rest) = self.0.split_first_chunk::<16>()?;
        self.0 = rest;
        Some(Ipv6Addr::from(*octets))
    }

    fn card(&mut self) -> Option<CardState> {
        let (state, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(CardState::from_bytes(state))
    }

    fn information(&mut self) -> Option<Information> {
        let (state, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(Information::from_bytes(state))
    }

    /// The rest, if it is addresses.
    fn addresses(&mut self) -> Option<Addresses> {
        let (addresses, rest) = self.0.as_chunks::<16>();
        self.0 = rest;
        let found = Addresses::new(addresses.iter().map(|octets| Ipv6Addr::from(*octets).to_canonical()))?;
        (found.as_slice().len() == addresses.len()).then_some(found)
    }

    /// Returns `value` if no bytes are left over.
    fn end<T>(&self, value: T) -> Option<T> {
        self.0.is_empty().then_some(value)
    }
}

fn encode_address(address: SocketAddr) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    let (family, port) = (if address.is_ipv4() { 4u16 } else { 6 }, address.port());
    bytes[0..2].copy_from_slice(&family.to_le_bytes());
    bytes[2..4].copy_from_slice(&port.to_le_bytes());
    match address {
        SocketAddr::V4(address) => bytes[12..16].copy_from_slice(&address.ip().octets()),
        SocketAddr::V6(address) => {
            bytes[4..8].copy_from_slice(&address.flowinfo().to_le_bytes());
            bytes[8..12].copy_from_slice(&address.scope_id().to_le_bytes());
            bytes[12..28].copy_from_slice(&address.ip().octets());
        }
    }
    bytes
}

fn decode_address(bytes: &[u8; HEADER]) -> Option<SocketAddr> {
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let (family, port) = (u16::from_le_bytes([bytes[0], bytes[1]]), u16::from_le_bytes([bytes[2], bytes[3]]));
    match family {
        4 => {
            let ip = Ipv4Addr::new(bytes[12], bytes[13], bytes[14], bytes[15]);
            let rest_is_zero = word(4) == 0 && word(8) == 0 && bytes[16..].iter().all(|byte| *byte == 0);
            rest_is_zero.then_some(SocketAddr::V4(SocketAddrV4::new(ip, port)))
        }
        6 => {
            let mut octets = [0; 16];
            octets.copy_from_slice(&bytes[12..28]);
            Some(SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::from(octets), port, word(4), word(8))))
        }
        _ => None,
    }
}

/// The header of a datagram (6) to or from `address`. Without an address, the destination is the connected peer.
pub fn encode_header(address: Option<SocketAddr>) -> [u8; HEADER] {
    address.map_or([0; HEADER], encode_address)
}

/// Splits a datagram (6) into its header's address, if it has one, and its data.
pub fn decode_header(datagram: &[u8]) -> Option<(Option<SocketAddr>, &[u8])> {
    let (header, bytes) = datagram.split_first_chunk::<HEADER>()?;
    if header.iter().all(|byte| *byte == 0) {
        return Some((None, bytes));
    }
    Some((Some(decode_address(header)?), bytes))
}

impl<'a> Request<'a> {
    fn number(&self) -> u32 {
        match self {
            Request::Open(..) => 1,
            Request::Clone => 2,
            Request::Bind(_) => 3,
            Request::Connect { .. } => 4,
            Request::Listen(_) => 5,
            Request::Accept => 6,
            Request::LocalAddress => 7,
            Request::PeerAddress => 8,
            Request::Set(..) => 9,
            Request::Get(_) => 10,
            Request::Prepare(_) => 11,
            Request::Lookup(_) => 12,
            Request::Card => 13,
            Request::Information => 14,
            Request::Group { .. } => 15,
            Request::Settle => 16,
            Request::CountErrors => 17,
            Request::GroupV6 { .. } => 18,
        }
    }

    /// Encodes the request.
    pub fn encode(&self, transaction: u32) -> Message {
        let mut message = Message::new(transaction, self.number());
        match *self {
            Request::Open(family, kind) => {
                message.word(if family == Family::V4 { 4 } else { 6 });
                message.word(match kind {
                    Kind::Stream => 1,
                    Kind::Datagram => 2,
                    Kind::Echo => 3,
                });
            }
            Request::Bind(address) | Request::Prepare(address) => message.put(&encode_address(address)),
            Request::Connect { to, wait } => {
                message.put(&encode_address(to));
                message.word(wait.into());
            }
            Request::Listen(backlog) => message.word(backlog),
            Request::Set(choice, value) => {
                message.word(choice as u32);
                message.word(value);
            }
            Request::Get(choice) => message.word(choice as u32),
            Request::Group { join, group, interface } => {
                message.word(join.into());
                message.word(group.to_bits());
                message.word(interface.to_bits());
            }
            Request::GroupV6 { join, group, interface } => {
                message.word(join.into());
                message.put(&group.octets());
                message.word(interface);
            }
            Request::Lookup(name) => message.put(name.as_str().as_bytes()),
            Request::Clone | Request::Accept | Request::LocalAddress | Request::PeerAddress => {}
            Request::Card | Request::Information | Request::Settle | Request::CountErrors => {}
        }
        message
    }

    /// Decodes a message: its transaction number, and its request if that is valid.
    pub fn decode(bytes: &'a [u8]) -> Option<(u32, Option<Request<'a>>)> {
        let mut reader = Reader(bytes);
        let transaction = reader.word()?;
        Some((transaction, Request::decode_body(reader)))
    }

    fn decode_body(mut reader: Reader<'a>) -> Option<Request<'a>> {
        let request = match reader.word()? {
            1 => {
                let family = match reader.word()? {
                    4 => Family::V4,
                    6 => Family::V6,
                    _ => return None,
                };
                let kind = match reader.word()? {
                    1 => Kind::Stream,
                    2 => Kind::Datagram,
                    3 => Kind::Echo,
                    _ => return None,
                };
                Request::Open(family, kind)
            }
            2 => Request::Clone,
            3 => Request::Bind(reader.address()?),
            4 => {
                let to = reader.address()?;
                let wait = match reader.word()? {
                    0 => false,
                    1 => true,
                    _ => return None,
                };
                Request::Connect { to, wait }
            }
            5 => Request::Listen(reader.word()?),
            6 => Request::Accept,
            7 => Request::LocalAddress,
            8 => Request::PeerAddress,
            9 => Request::Set(Choice::from_number(reader.word()?)?, reader.word()?),
            10 => Request::Get(Choice::from_number(reader.word()?)?),
            11 => Request::Prepare(reader.address()?),
            12 => Request::Lookup(Name::from_bytes(core::mem::take(&mut reader.0))?),
            13 => Request::Card,
            14 => Request::Information,
            15 => {
                let join = match reader.word()? {
                    0 => false,
                    1 => true,
                    _ => return None,
                };
                let (group, interface) = (Ipv4Addr::from_bits(reader.word()?), Ipv4Addr::from_bits(reader.word()?));
                Request::Group { join, group, interface }
            }
            16 => Request::Settle,
            17 => Request::CountErrors,
            18 => {
                let join = match reader.word()? {
                    0 => false,
                    1 => true,
                    _ => return None,
                };
                Request::GroupV6 { join, group: reader.ip_v6()?, interface: reader.word()? }
            }
            _ => return None,
        };
        reader.end(request)
    }
}

/// A successful answer of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Success without a value.
    Done,
    /// An address.
    Address(SocketAddr),
    /// The value of an option.
    Value(u32),
    /// The addresses of a host.
    Addresses(Addresses),
    /// The state of the network card.
    Card(CardState),
    /// What the service knows about a TCP socket.
    Information(Information),
}

impl Reply {
    /// Encodes an answer.
    pub fn encode(transaction: u32, answer: Result<Reply, Error>) -> Message {
        let mut message = Message::new(transaction, answer.as_ref().err().map_or(0, |error| *error as u32));
        match answer {
            Ok(Reply::Address(address)) => {
                message.word(1);
                message.put(&encode_address(address));
            }
            Ok(Reply::Value(value)) => {
                message.word(2);
                message.word(value);
            }
            Ok(Reply::Addresses(addresses)) => {
                message.word(3);
                // IPv4 as mapped addresses.
                for address in addresses.as_slice() {
                    message.put(&match address {
                        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
                        IpAddr::V6(ip) => ip.octets(),
                    });
                }
            }
            Ok(Reply::Card(state)) => {
                message.word(4);
                message.put(&state.to_bytes());
            }
            Ok(Reply::Information(information)) => {
                message.word(5);
                message.put(&information.to_bytes());
            }
            Ok(Reply::Done) | Err(_) => {}
        }
        message
    }

    /// Decodes an answer; `None` if it is invalid.
    pub fn decode(bytes: &[u8]) -> Option<Result<Reply, Error>> {
        let mut reader = Reader(bytes);
        let _transaction = reader.word()?;
        match reader.word()? {
            0 if reader.0.is_empty() => Some(Ok(Reply::Done)),
            0 => {
                let reply = match reader.word()? {
                    1 => Reply::Address(reader.address()?),
                    2 => Reply::Value(reader.word()?),
                    3 => Reply::Addresses(reader.addresses()?),
                    4 => Reply::Card(reader.card()?),
                    5 => Reply::Information(reader.information()?),
                    _ => return None,
                };
                reader.end(Ok(reply))
            }
            number => reader.end(Err(Error::from_number(number)?)),
        }
    }
}

/// Converts an IPv4-mapped IPv6 address to IPv4; returns other addresses unchanged.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// The address as an IPv6 socket sees it: IPv4 addresses become mapped addresses.
pub fn mapped(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) => SocketAddr::new(ip.to_ipv6_mapped().into(), address.port()),
        IpAddr::V6(_) => address,
    }
}
