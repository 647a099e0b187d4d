//! Buffer descriptors (5).

/// Size of a descriptor in bytes.
pub const DESCRIPTOR: usize = 40;
/// Where [`Descriptor::data_length`] and the two flags lie, as words.
pub const DATA_LENGTH_AT: usize = 28;
/// See [`DATA_LENGTH_AT`].
pub const INBOUND_FLAGS_AT: usize = 32;
/// See [`DATA_LENGTH_AT`].
pub const RETURN_FLAGS_AT: usize = 36;
/// The type of an Ethernet frame (`frame_type`).
pub const FRAME_ETHERNET: u8 = 1;
/// In [`Descriptor::return_flags`]: the frame was not sent.
pub const TX_ERROR: u32 = 1;

/// A descriptor, as it lies in the VMO. All numbers are little-endian.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// Type of the frame: [`FRAME_ETHERNET`].
    pub frame_type: u8,
    /// Number of further descriptors of the frame. This version knows none.
    pub chain_length: u8,
    /// The next descriptor of the frame.
    pub nxt: u16,
    /// Type of additional information. This version knows none.
    pub info_type: u32,
    /// Number of the port, and how often it was used.
    pub port_id: [u8; 2],
    /// Number of the VMO of the frame. This version knows one.
    pub vmo_id: u8,
    /// For the client; the device leaves it alone.
    pub client_opaque: [u8; 4],
    /// Where the buffer begins in the VMO, in bytes.
    pub offset: u64,
    /// Bytes before the frame's first byte.
    pub head_length: u16,
    /// Bytes behind the frame's last byte.
    pub tail_length: u16,
    /// Length of the frame in bytes; of a free buffer, the room for one.
    pub data_length: u32,
    /// Flags from the client to the device (tx), or from the device to the client (rx).
    pub inbound_flags: u32,
    /// Flags that the device returns (tx).
    pub return_flags: u32,
}

/// A range of bytes in the VMO of frames, inside one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Where it begins, in bytes.
    pub offset: usize,
    /// Its length in bytes.
    pub len: usize,
}

/// Which rule a client broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A number of no descriptor, or of one that the device has.
    Number,
    /// A type, a chain, additional information or a VMO that this version does not know.
    Unknown,
    /// A buffer beyond the end of the VMO, or over the border of two pages.
    Place,
    /// A frame that is too short or too long.
    Length,
}

/// Size of a page in bytes.
const PAGE: usize = 4096;

impl Descriptor {
    /// Encodes it.
    pub fn to_bytes(&self) -> [u8; DESCRIPTOR] {
        let mut bytes = [0; DESCRIPTOR];
        bytes[0] = self.frame_type;
        bytes[1] = self.chain_length;
        bytes[2..4].copy_from_slice(&self.nxt.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.info_type.to_le_bytes());
        bytes[8..10].copy_from_slice(&self.port_id);
        bytes[10] = self.vmo_id;
        bytes[12..16].copy_from_slice(&self.client_opaque);
        bytes[16..24].copy_from_slice(&self.offset.to_le_bytes());
        bytes[24..26].copy_from_slice(&self.head_length.to_le_bytes());
        bytes[26..28].copy_from_slice(&self.tail_length.to_le_bytes());
        bytes[DATA_LENGTH_AT..32].copy_from_slice(&self.data_length.to_le_bytes());
        bytes[INBOUND_FLAGS_AT..36].copy_from_slice(&self.inbound_flags.to_le_bytes());
        bytes[RETURN_FLAGS_AT..].copy_from_slice(&self.return_flags.to_le_bytes());
        bytes
    }

    /// Decodes it. Any bytes are a descriptor; [`Descriptor::buffer`] checks what it says.
    pub fn from_bytes(bytes: &[u8; DESCRIPTOR]) -> Descriptor {
        let two = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let four = |at: usize| u32::from(two(at)) | u32::from(two(at + 2)) << 16;
        Descriptor {
            frame_type: bytes[0],
            chain_length: bytes[1],
            nxt: two(2),
            info_type: four(4),
            port_id: [bytes[8], bytes[9]],
            vmo_id: bytes[10],
            client_opaque: [bytes[12], bytes[13], bytes[14], bytes[15]],
            offset: u64::from(four(16)) | u64::from(four(20)) << 32,
            head_length: two(24),
            tail_length: two(26),
            data_length: four(DATA_LENGTH_AT),
            inbound_flags: four(INBOUND_FLAGS_AT),
            return_flags: four(RETURN_FLAGS_AT),
        }
    }

    /// The frame's place in a VMO of `vmo` bytes, if the frame has from `least` to `most` bytes.
    ///
    /// # Errors
    /// Which rule the descriptor breaks.
    pub fn buffer(&self, vmo: usize, least: usize, most: usize) -> Result<Buffer, Fault> {
        if self.frame_type != FRAME_ETHERNET || self.chain_length != 0 || self.info_type != 0 || self.vmo_id != 0 {
            return Err(Fault::Unknown);
        }
        let len = usize::try_from(self.data_length).map_err(|_| Fault::Length)?;
        if len < least || len > most {
            return Err(Fault::Length);
        }
        let start = usize::try_from(self.offset).ok().and_then(|at| at.checked_add(usize::from(self.head_length)));
        let offset = start.ok_or(Fault::Place)?;
        let end = offset.checked_add(len).filter(|end| *end <= vmo).ok_or(Fault::Place)?;
        if len == 0 || offset / PAGE != (end - 1) / PAGE {
            return Err(Fault::Place);
        }
        Ok(Buffer { offset, len })
    }
}
