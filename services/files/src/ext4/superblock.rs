//! The superblock, and a way to write it that no torn write can spoil.
//!
//! The superblock is two sectors of 512 bytes, and a disk promises one whole. Its checksum lies at the end of the second sector: if the
//! first is new and the second is old, the checksum is wrong, and neither Linux nor `e2fsck -p` takes the image. So the new first sector is
//! made to fit the old second one. A CRC is linear: for each wanted sum there is one value of any four bytes in a row that gives it. ext4
//! has four bytes that nobody reads ([`SPARE`]). The whole writing:
//!
//! 1. [`fit`] sets those bytes such that the checksum on the disk is right for the new first sector and the old rest.
//! 2. The first sector is written, and the disk flushes.
//! 3. If the rest differs, it is written with its own checksum, and the disk flushes. It is one sector, too.

use std::ops::Range;

use rsext4::crc32c::{crc32c_append, crc32c_init};

/// Where the superblock lies on the disk, in bytes.
pub(super) const SUPERBLOCK: Range<u64> = 1024..2048;
/// Bytes of its first sector.
pub(super) const FIRST: usize = 512;
/// Where the flag lies that says that the journal is needed: a byte, and the bit in it.
pub(super) const NEEDS_RECOVERY: (usize, u8) = (96, 4);
/// Where the checksum lies, of all before it.
const CHECKSUM: usize = 1020;
/// Where the flag lies that says that there is one, in the fourth byte of features that old kernels may ignore for reading.
const HAS_CHECKSUM: (usize, u8) = (101, 4);
/// `s_algorithm_usage_bitmap`: it belongs to compression, which no version of ext4 has.
const SPARE: Range<usize> = 200..204;
/// The number that a superblock has, and where.
const MAGIC: (usize, [u8; 2]) = (56, 0xef53_u16.to_le_bytes());
/// The polynomial of CRC-32C, its lowest power in the highest bit.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// Whether these bytes are a superblock's.
pub(super) fn is_superblock(bytes: &[u8]) -> bool {
    bytes[MAGIC.0..].starts_with(&MAGIC.1)
}

/// The same, and it has a checksum, which is right.
pub(super) fn is_whole(bytes: &[u8]) -> bool {
    is_superblock(bytes) && has_checksum(bytes) && checksum(bytes) == sum(&bytes[..CHECKSUM])
}

/// Gives a superblock the checksum that is right for it, if it has one.
pub(super) fn seal(bytes: &mut [u8]) {
    if has_checksum(bytes) {
        let sum = sum(&bytes[..CHECKSUM]);
        bytes[CHECKSUM..].copy_from_slice(&sum.to_le_bytes());
    }
}

/// Step 1: sets the spare bytes of a superblock such that its checksum is right.
pub(super) fn fit(bytes: &mut [u8]) {
    // What the checksum has to be behind the spare bytes, from its end backwards; and before them, from the start.
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

/// The state of the CRC eight bits earlier, where these were zero.
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
