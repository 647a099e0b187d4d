//! Checksums of headers (RFC 1071). smoltcp's function is for much data; these take few instructions for headers, whose
//! sizes the compiler knows.

/// The sum of a header's words, in this machine's order of bytes, with the carries above it.
pub(crate) fn sum<const N: usize>(bytes: &[u8; N]) -> u64 {
    bytes.as_chunks::<4>().0.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum()
}

/// The checksum of such a sum, before the complement, in this machine's order.
pub(crate) fn fold(sum: u64) -> u16 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}
