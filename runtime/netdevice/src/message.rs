//! The messages on a client's channel (1, 2).

use crate::DEPTH;

/// Size of a request in bytes.
pub const REQUEST: usize = 16;
/// Size of an answer in bytes.
pub const ANSWER: usize = 64;

const INFO: u32 = 1;
const OPEN: u32 = 2;
const WATCH_STATUS: u32 = 3;

/// In the flags of the port's status: there is a link (`StatusFlags.ONLINE`).
const ONLINE: u8 = 1;

/// A client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// What is the device (1)?
    Info,
    /// Opens a session (2), with this many descriptors. Carries the VMO of descriptors and the VMO of frames.
    Open {
        /// Number of descriptors, from 1 to [`DEPTH`].
        descriptor_count: u16,
        /// The device passes frames to all hardware addresses on, not only those to its own and to groups.
        promiscuous: bool,
    },
    /// Waits until the status of the port is another one than the client knows (7).
    WatchStatus,
}

impl Request {
    /// Encodes it with the number of the call, which the answer repeats.
    pub fn to_bytes(self, transaction: u32) -> [u8; REQUEST] {
        let (kind, count, mode) = match self {
            Request::Info => (INFO, 0, 0),
            Request::Open { descriptor_count, promiscuous } => (OPEN, descriptor_count.into(), promiscuous.into()),
            Request::WatchStatus => (WATCH_STATUS, 0, 0),
        };
        let mut bytes = [0; REQUEST];
        put(&mut bytes, 0, transaction);
        put(&mut bytes, 4, kind);
        put(&mut bytes, 8, count);
        put(&mut bytes, 12, mode);
        bytes
    }

    /// Decodes it, with the number of the call. `None`: it is none.
    pub fn from_bytes(bytes: &[u8]) -> Option<(u32, Request)> {
        let bytes: &[u8; REQUEST] = bytes.try_into().ok()?;
        let request = match (get(bytes, 4), get(bytes, 8), get(bytes, 12)) {
            (INFO, 0, 0) => Request::Info,
            (WATCH_STATUS, 0, 0) => Request::WatchStatus,
            (OPEN, count, mode @ 0..=1) => {
                let count = u16::try_from(count).ok().filter(|count| (1..=DEPTH).contains(&usize::from(*count)))?;
                Request::Open { descriptor_count: count, promiscuous: mode == 1 }
            }
            _ => return None,
        };
        Some((get(bytes, 0), request))
    }
}

/// A device and its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// The hardware address.
    pub mac: [u8; 6],
    /// Whether the port has a link.
    pub online: bool,
    /// Number of buffers that the device uses at most to receive.
    pub rx_depth: u16,
    /// Number of frames that the device takes at most before it has sent them.
    pub tx_depth: u16,
    /// Size of the longest frame in bytes, with its Ethernet header.
    pub max_frame_length: u32,
    /// Smallest buffer to receive, in bytes.
    pub min_rx_buffer_length: u32,
    /// Shortest frame that the device sends, in bytes.
    pub min_tx_buffer_length: u32,
    /// Size of the largest VMO of frames in bytes.
    pub max_vmo_length: u32,
}

/// Encodes the answer to a call: a status of Zircon's, and with `OK` the device's information.
pub fn encode_answer(transaction: u32, status: i32, info: &Info) -> [u8; ANSWER] {
    let mut bytes = [0; ANSWER];
    put(&mut bytes, 0, transaction);
    put(&mut bytes, 4, status.cast_unsigned());
    bytes[8..14].copy_from_slice(&info.mac);
    bytes[14] = if info.online { ONLINE } else { 0 };
    put(&mut bytes, 16, u32::from(info.rx_depth) | u32::from(info.tx_depth) << 16);
    put(&mut bytes, 20, info.max_frame_length);
    put(&mut bytes, 24, info.min_rx_buffer_length);
    put(&mut bytes, 28, info.min_tx_buffer_length);
    put(&mut bytes, 32, info.max_vmo_length);
    bytes
}

/// Decodes an answer: its status, and the device's information. `None`: it is none.
pub fn decode_answer(bytes: &[u8]) -> Option<(i32, Info)> {
    let bytes: &[u8; ANSWER] = bytes.try_into().ok()?;
    let depths = get(bytes, 16);
    let info = Info {
        mac: *bytes[8..14].first_chunk()?,
        online: bytes[14] & ONLINE != 0,
        rx_depth: depths as u16,
        tx_depth: (depths >> 16) as u16,
        max_frame_length: get(bytes, 20),
        min_rx_buffer_length: get(bytes, 24),
        min_tx_buffer_length: get(bytes, 28),
        max_vmo_length: get(bytes, 32),
    };
    Some((get(bytes, 4).cast_signed(), info))
}

fn put(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn get(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
