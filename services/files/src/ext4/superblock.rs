//! The superblock, and a way to write it that survives torn writes.
//!
//! The superblock is two sectors of 512 bytes, and a disk writes only one sector atomically. Its checksum is at the end
//! of the second sector. If the first sector is new and the second is old, the checksum is wrong, and neither Linux nor
//! `e2fsck -p` accepts the image. So the new first sector is made to match the old second sector. A CRC is linear: for
//! each wanted checksum there is exactly one value of any four consecutive bytes that gives it. ext4 has four unused
//! bytes ([`SPARE`]). The steps of a write:
//!
//! 1. [`fit`] sets those bytes so that the checksum on the disk is right for the new first sector and the old rest.
//! 2. The first sector is written and flushed.
//! 3. If the rest differs, it is written with its own checksum and flushed. It is one sector, too.

use std::ops::Range;

use rsext4::crc32c::{crc32c_append, crc32c_init};

/// Position of the superblock on the disk, in bytes.
pub(super) const SUPERBLOCK: Range<u64> = 1024..2048;
/// Size of its first sector in bytes.
pub(super) const FIRST: usize = 512;
/// Position of the flag "journal needed": byte and bit.
pub(super) const NEEDS_RECOVERY: (usize, u8) = (96, 4);
/// Position of the checksum, which covers all bytes before it.
const CHECKSUM: usize = 1020;
/// Position of the flag "has a checksum", byte and bit, in the read-only compatible features.
const HAS_CHECKSUM: (usize, u8) = (101, 4);
/// `s_algorithm_usage_bitmap`. It belongs to compression, which no version of ext4 has.
const SPARE: Range<usize> = 200..204;
/// The magic number of a superblock, and its position.
const MAGIC: (usize, [u8; 2]) = (56, 0xef53_u16.to_le_bytes());
/// The polynomial of CRC-32C in reflected bit order.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// Whether these bytes are a superblock.
pub(super) fn is_superblock(bytes: &[u8]) -> bool {
    bytes[MAGIC.0..].starts_with(&MAGIC.1)
}

/// The same, with a checksum that is right.
pub(super) fn is_whole(bytes: &[u8]) -> bool {
    is_superblock(bytes) && has_checksum(bytes) && checksum(bytes) == sum(&bytes[..CHECKSUM])
}

/// Updates the checksum of a superblock, if it has one.
pub(super) fn seal(bytes: &mut [u8]) {
    if has_checksum(bytes) {
        let sum = sum(&bytes[..CHECKSUM]);
        bytes[CHECKSUM..].copy_from_slice(&sum.to_le_bytes());
    }
}

/// Step 1: sets the spare bytes of a superblock so that its checksum is right.
pub(super) fn fit(bytes: &mut [u8]) {
    // The CRC state that is needed after the spare bytes, computed backwards from the end; and the state before them,
    // computed from the start.
    let behind =
        bytes[SPARE.end..CHECKSUM].iter().rev().fold(checksum(bytes), |sum, byte| back(sum) ^ u32::from(*byte));
    let spare = sum(&bytes[..SPARE.start]) ^ SPARE.fold(behind, |sum, _| back(sum));
    bytes[SPARE].copy_from_slice(&spare.to_le_bytes());
}

fn has_checksum(bytes: &[u8]) -> bool {
    bytes[HAS_CHECKSUM.0] & HAS_CHECKSUM.1 != 0
}

fn checksum(bytes: &[u8]) -> u32 {
    bytes[CHECKSUM..].first_chunk().map_or(0, |told| u32::from_le_bytes(*told))
}

fn sum(bytes: &[u8]) -> u32 {
    crc32c_append(crc32c_init(), bytes)
}

/// The CRC state before eight zero bits.
fn back(sum: u32) -> u32 {
    (0..8).fold(sum, |sum, _| if sum >> 31 == 0 { sum << 1 } else { (sum ^ POLYNOMIAL) << 1 | 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spare_bytes_make_any_checksum_right() {
        let mut bytes = [0; 1024];
        let mut random = 1_u64;
        for _ in 0..200 {
            for byte in &mut bytes {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *byte = (random >> 56) as u8;
            }
            bytes[MAGIC.0..MAGIC.0 + 2].copy_from_slice(&MAGIC.1);
            bytes[HAS_CHECKSUM.0] |= HAS_CHECKSUM.1;
            let before = bytes;
            assert!(!is_whole(&bytes));
            fit(&mut bytes);
            assert!(is_whole(&bytes));
            bytes[SPARE].copy_from_slice(&before[SPARE]);
            assert_eq!(bytes, before);
        }
    }
}
