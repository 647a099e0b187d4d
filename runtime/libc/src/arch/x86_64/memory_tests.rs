//! Compares the assembly with Rust's own operations, at every alignment and around every size at which the code
//! changes.

use super::*;
use proptest::prelude::*;

/// Bytes that differ from their neighbours.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index * 7 + index / 256) as u8).collect()
}

#[test]
fn every_small_size_and_alignment_is_moved() {
    for len in (0..=200).chain([255, 256, 257, 1000, 4097]) {
        for (to, from) in [(0, 0), (1, 0), (0, 3), (7, 12), (40, 24), (24, 40), (64, 0), (0, 64), (100, 101)] {
            let mut memory = pattern(len + 128);
            let mut expected = memory.clone();
            expected.copy_within(from..from + len, to);
            let base = memory.as_mut_ptr();
            // SAFETY: both ranges are inside of the vector.
            let result = unsafe { memmove(base.add(to), base.add(from), len) };
            assert_eq!(result as usize - base as usize, to);
            assert!(memory == expected, "{len} bytes from {from} to {to}");
        }
    }
}

#[test]
fn every_small_size_and_alignment_is_filled() {
    for len in (0..=200).chain([255, 1000, 4097]) {
        for at in 0..17 {
            let mut memory = pattern(len + 32);
            let mut expected = memory.clone();
            expected[at..at + len].fill(0xa5);
            // SAFETY: the range is inside of the vector.
            unsafe { memset(memory.as_mut_ptr().add(at), 0x5a5, len) };
            assert!(memory == expected, "{len} bytes at {at}");
        }
    }
}

proptest! {
    #[test]
    fn moves_like_copy_within(len in 0usize..3000, to in 0usize..600, from in 0usize..600) {
        let mut memory = pattern(3600);
        let mut expected = memory.clone();
        expected.copy_within(from..from + len, to);
        let base = memory.as_mut_ptr();
        // SAFETY: both ranges are inside of the vector.
        unsafe { memmove(base.add(to), base.add(from), len) };
        prop_assert!(memory == expected);
    }

    #[test]
    fn copies_between_vectors(bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
        let mut copy = vec![0; bytes.len()];
        // SAFETY: both have this length.
        unsafe { memcpy(copy.as_mut_ptr(), bytes.as_ptr(), bytes.len()) };
        prop_assert_eq!(copy, bytes);
    }

    #[test]
    fn compares_like_slices(left in proptest::collection::vec(0u8..3, 0..80), at: prop::sample::Index, byte: u8) {
        let mut right = left.clone();
        if !right.is_empty() {
            let at = at.index(right.len());
            right[at] = byte;
        }
        // SAFETY: both have this length.
        let (order, equal) = unsafe {
            (memcmp(left.as_ptr(), right.as_ptr(), left.len()), bcmp(left.as_ptr(), right.as_ptr(), left.len()))
        };
        prop_assert_eq!(order.cmp(&0), left.cmp(&right));
        prop_assert_eq!(equal == 0, left == right);
    }

    #[test]
    fn finds_bytes_and_ends(mut bytes in proptest::collection::vec(0u8..6, 0..200), start in 0usize..20, byte in 0u8..6) {
        bytes.push(0);
        let part = &bytes[start.min(bytes.len() - 1)..];
        // SAFETY: the slice ends with a NUL, and has this length.
        let (len, found) = unsafe { (strlen(part.as_ptr()), memchr(part.as_ptr(), i32::from(byte), part.len())) };
        prop_assert_eq!(Some(len), part.iter().position(|&byte| byte == 0));
        let expected = part.iter().position(|&other| other == byte);
        prop_assert_eq!((!found.is_null()).then(|| found as usize - part.as_ptr() as usize), expected);
    }
}
