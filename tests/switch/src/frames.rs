//! Frames that tell who sent them, which one they are, and whether a byte of them has changed.

/// Addresses, type, source, sequence; and the sum behind all.
const HEAD: usize = 14 + 1 + 8;
const SUM: usize = 4;
/// Frames from this length on tell it.
pub const TELLING: usize = HEAD + SUM;

/// The polynomial of CRC-32C, its bits reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let (mut value, mut bit) = (at as u32, 0);
        while bit < 8 {
            value = value >> 1 ^ if value & 1 != 0 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        table[at] = value;
        at += 1;
    }
    table
};

/// CRC-32C.
pub fn sum(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, byte| sum >> 8 ^ TABLE[((sum ^ u32::from(*byte)) & 0xff) as usize])
}

/// Random numbers (splitmix64).
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }
}

/// Makes a frame of this length.
pub fn make(to: [u8; 6], from: [u8; 6], source: u8, sequence: u64, len: usize) -> Vec<u8> {
    let mut frame = Vec::with_capacity(len);
    frame.extend(to);
    frame.extend(from);
    frame.extend([0x88, 0xb5]);
    if len < TELLING {
        frame.resize(len, 0x55);
        return frame;
    }
    frame.push(source);
    frame.extend(sequence.to_le_bytes());
    frame.extend((0..len - TELLING).map(|at| (at as u64 ^ sequence) as u8));
    let sum = sum(&frame);
    frame.extend(sum.to_le_bytes());
    frame
}

/// What a frame tells: its source and its sequence. `None`: it is too short.
///
/// # Panics
/// A byte of it has changed.
pub fn read(frame: &[u8]) -> Option<(u8, u64)> {
    if frame.len() < TELLING {
        return None;
    }
    let (rest, end) = frame.split_at(frame.len() - SUM);
    assert_eq!(sum(rest).to_le_bytes(), end, "a frame has changed");
    Some((rest[14], u64::from_le_bytes(*rest[15..].first_chunk()?)))
}
