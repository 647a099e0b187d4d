//! Values that cross the interface.

use proptest::prelude::*;

use crate::bio::{self, BioQueue, Operation, SLOTS};
use crate::error::{self, E2BIG, EINVAL, EIO, ENAMETOOLONG, ENOENT, ENOSPC, ENXIO};
use crate::line::Line;
use crate::{file, parameter, time};

#[test]
fn sizes() {
    let known: [(&[u8], u64); 7] = [
        (b"0", 0),
        (b"4096", 4096),
        (b"3m", 3 << 20),
        (b"64K", 65536),
        (b"2g", 2 << 30),
        (b"1G", 1 << 30),
        (b"007k", 7168),
    ];
    for (text, bytes) in known {
        assert_eq!(parameter::bytes(text), Some(bytes));
    }
    let wrong: [&[u8]; 9] =
        [b"", b"m", b"-1", b"3mb", b"1.5g", b" 3m", b"3 m", b"18446744073709551616", b"18446744073709551615k"];
    for text in wrong {
        assert_eq!(parameter::bytes(text), None, "{text:?}");
    }
}

#[test]
fn cpus_and_shares() {
    assert_eq!(parameter::cpus(None), 1);
    assert_eq!(parameter::cpus(Some(b"4")), 4);
    for wrong in [b"0".as_slice(), b"33", b"x", b""] {
        assert_eq!(parameter::cpus(Some(wrong)), 1);
    }
    assert_eq!(parameter::share_of_job(u64::MAX, 5), None);
    assert_eq!(parameter::share_of_job(1000, 200), Some(600));
    assert_eq!(parameter::share_of_job(1000, 2000), Some(0));
}

#[test]
fn answers() {
    let mut buffer = [9; 4];
    assert_eq!(parameter::answer(None, &mut buffer), Err(ENOENT));
    assert_eq!(parameter::answer(Some(b"four"), &mut buffer), Err(E2BIG));
    assert_eq!(buffer, [9; 4]);
    assert_eq!(parameter::answer(Some(b"abc"), &mut buffer), Ok(()));
    assert_eq!(&buffer, b"abc\0");
    assert_eq!(parameter::answer(Some(b""), &mut []), Err(E2BIG));
}

/// The numbers that file and socket calls give most.
#[test]
fn errors() {
    for (here, there) in
        [(0, 0), (2, 2), (11, 35), (35, 11), (36, 63), (38, 78), (39, 66), (95, 45), (110, 60), (111, 61)]
    {
        assert_eq!(error::from_libc(here), there);
    }
    for unknown in [-1, 41, 1000, i32::MIN, i32::MAX] {
        assert_eq!(error::from_libc(unknown), EIO);
    }
}

#[test]
fn names_and_modes() {
    assert_eq!(file::name(b""), Err(ENOENT));
    assert_eq!(file::name(&[b'a'; 1024]), Err(ENAMETOOLONG));
    assert_eq!(file::name(b"disk:"), Err(ENXIO));
    assert_eq!(file::name(b"/disk:"), Ok(()));
    let mode = file::mode(2 | 4 | 16).unwrap();
    assert!(mode.reads && mode.writes && mode.creates && !mode.excludes);
    assert!(!file::mode(1).unwrap().reads && !file::mode(0).unwrap().writes);
    assert!(file::mode(12).unwrap().excludes);
    for wrong in [3, 32, -1] {
        assert_eq!(file::mode(wrong), Err(EINVAL));
    }
    assert_eq!([0o040_755, 0o100_644, 0o060_000, 0o020_666, 0o140_000, 0].map(file::kind), [1, 2, 3, 4, 0, 0]);
    assert_eq!([file::closed(EIO, 0), file::closed(ENOSPC, 0), file::closed(EINVAL, 0)], [EIO, ENOSPC, 0]);
    assert_eq!(file::closed(EIO, 9), 9);
    assert_eq!(file::shared(0o100_644, 7), Ok(7));
    assert_eq!([file::shared(0o040_755, 7), file::shared(0o100_644, -1)], [Err(EINVAL); 2]);
}

#[test]
fn operations() {
    assert_eq!(bio::operation(1, 512, 0), Ok(Operation::Read));
    assert_eq!(bio::operation(2, 1024, 512), Ok(Operation::Write { through: false }));
    assert_eq!(bio::operation(6, 0, 1 << 40), Ok(Operation::Write { through: true }));
    for (raw, len, offset) in
        [(0, 512, 0), (3, 512, 0), (1, 511, 0), (1, 512, 1), (1, 512, -512), (2, usize::MAX & !511, 0)]
    {
        assert_eq!(bio::operation(raw, len, offset), Err(EINVAL));
    }
    assert_eq!(bio::operation(1, 512, i64::MAX & !511), Err(EINVAL));
}

#[test]
fn times() {
    assert_eq!(time::nanoseconds(1, 5), 1_000_000_005);
    assert_eq!(time::nanoseconds(-1, 0), 0);
    assert_eq!(time::nanoseconds(i64::MAX, i64::MAX), i64::MAX);
    assert_eq!(time::deadline(10, 0, 5), 15);
    assert_eq!(time::deadline(i64::MAX, 1, 0), i64::MAX);
    assert_eq!(time::parts(3_000_000_007), (3, 7));
    assert_eq!(time::parts(-1), (0, 0));
}

#[test]
fn lines() {
    let mut line = Line::new();
    assert!(!line.push(b'a'));
    assert!(line.push(b'\n'));
    assert_eq!(line.take(), b"a\n");
    assert_eq!(line.take(), b"");
    let full = (0..1000).position(|_| line.push(b'x')).unwrap();
    assert_eq!(line.take().len(), full + 1);
}

proptest! {
    #[test]
    fn digits_are_the_number(number: u64) {
        let mut to = [0; 20];
        let digits = parameter::digits(number, &mut to);
        prop_assert_eq!(parameter::number(digits), Some(number));
    }

    #[test]
    fn any_text_is_a_size_or_not(text: std::vec::Vec<u8>) {
        let _ = (parameter::bytes(&text), parameter::is_name(&text), file::name(&text));
    }

    #[test]
    fn requests_keep_their_order(steps in prop::collection::vec(any::<bool>(), 1..600)) {
        let mut queue = BioQueue::new();
        let mut model = std::collections::VecDeque::new();
        for (number, pushes) in steps.into_iter().enumerate() {
            if pushes {
                let pushed = queue.push(number);
                prop_assert_eq!(pushed.is_ok(), model.len() < SLOTS);
                if pushed.is_ok() {
                    model.push_back(number);
                }
            } else {
                prop_assert_eq!(queue.pop(), model.pop_front());
            }
        }
    }
}
