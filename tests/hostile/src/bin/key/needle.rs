//! What is searched for: pieces of the key, and of what HMAC makes of it.

use conformance::check::Outcome;

/// The pads that HMAC adds to a key before it hashes it: memory then contains the key in that form.
const PADS: [u8; 3] = [0, 0x36, 0x5c];
/// Bytes in a piece.
const PIECE: usize = 8;
/// Pieces in a key of 32 bytes.
const PIECES: usize = 32 / PIECE;
/// The pieces are stored under this mask, so that the search does not find this program's own memory.
const MASK: u64 = 0xa5c3_5a3c_9669_f00d;

/// Any aligned eight bytes of a key, at any address.
pub struct Needle {
    pieces: [u64; PADS.len() * PIECES],
    /// Whether a piece begins with this byte.
    begins: [bool; 256],
}

impl Needle {
    /// The needle for a key.
    pub fn of(key: &[u8; 32]) -> Needle {
        let mut needle = Needle { pieces: [0; _], begins: [false; 256] };
        let padded = PADS.into_iter().flat_map(|pad| key.map(|byte| byte ^ pad));
        let padded: Vec<u8> = padded.collect();
        for (place, piece) in needle.pieces.iter_mut().zip(padded.as_chunks::<PIECE>().0) {
            *place = u64::from_le_bytes(*piece) ^ MASK;
            needle.begins[usize::from(piece[0])] = true;
        }
        needle
    }

    /// Whether the bytes contain a piece.
    pub fn is_in(&self, bytes: &[u8]) -> bool {
        bytes.windows(PIECE).any(|window| {
            self.begins[usize::from(window[0])]
                && window.try_into().is_ok_and(|piece| self.pieces.contains(&(u64::from_le_bytes(piece) ^ MASK)))
        })
    }

    /// Fails if the bytes contain a piece.
    #[track_caller]
    pub fn is_absent(&self, bytes: &[u8], what: impl FnOnce() -> String) -> Outcome {
        if self.is_in(bytes) { Err(format!("a piece of the key is in {}", what()).into()) } else { Ok(()) }
    }
}
