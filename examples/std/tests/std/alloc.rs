//! Memory.

use crate::roles::{child, text};

/// A value as large as a page, at a page's alignment.
#[repr(align(4096))]
#[derive(Clone)]
struct Page([u8; 4096]);

#[repr(align(65536))]
struct Large([u8; 16]);

pub fn alignments() {
    let mut pages = Vec::new();
    for number in 0..200u8 {
        pages.push(Page([number; 4096]));
        pages.shrink_to_fit();
    }
    assert_eq!(pages.as_ptr().addr() % 4096, 0);
    assert!(pages.iter().zip(0..).all(|(page, number)| page.0.iter().all(|byte| *byte == number)));
    let large: Vec<Box<Large>> = (0..4).map(|_| Box::new(Large([7; 16]))).collect();
    assert!(large.iter().all(|one| std::ptr::from_ref(&**one).addr() % (64 << 10) == 0 && one.0 == [7; 16]));
    let zeroed = vec![0u64; 8 << 20];
    assert!(zeroed.iter().all(|word| *word == 0));
}

pub fn too_much_is_an_error() {
    assert!(Vec::<u8>::new().try_reserve(1 << 45).is_err());
    assert!(Vec::<u8>::new().try_reserve(usize::MAX).is_err());
}

pub fn too_much_ends_the_process() {
    let output = child("grow").output().unwrap();
    assert!(!output.status.success() && output.status.code() != Some(101), "{}", output.status);
    assert!(text(&output.stderr).contains("memory allocation of 35184372088832 bytes failed"));
}
