//! What both sides of the network's tests know: the bytes of a transfer.
#![forbid(unsafe_code)]

use std::io::{self, Read};

use sha2::{Digest, Sha256};

/// Bytes of a transfer, the same ones each time.
pub fn bytes(len: usize) -> impl Iterator<Item = Vec<u8>> {
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut left = len;
    std::iter::from_fn(move || {
        let count = left.min(64 << 10);
        left -= count;
        let mut part = Vec::with_capacity(count + 8);
        while part.len() < count {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            part.extend_from_slice(&random.to_le_bytes());
        }
        part.truncate(count);
        (count > 0).then_some(part)
    })
}

fn hexadecimal(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads this many bytes; returns their SHA-256 in hexadecimal digits.
///
/// # Errors
/// The end comes early; errors of the reader.
pub fn digest(from: &mut impl Read, len: usize) -> io::Result<String> {
    let mut sum = Sha256::new();
    let mut part = vec![0; 64 << 10];
    let mut left = len;
    while left > 0 {
        let room = part.len().min(left);
        let count = from.read(&mut part[..room])?;
        if count == 0 {
            return Err(io::Error::other(format!("the end came {left} bytes early")));
        }
        sum.update(&part[..count]);
        left -= count;
    }
    Ok(hexadecimal(&sum.finalize()))
}
