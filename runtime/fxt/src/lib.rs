//! Fuchsia's trace format (FXT), as far as the kernel's trace needs it: the format of `zx_ktrace_read`, which Perfetto
//! can open.
//!
//! A trace is a sequence of *records* of 64-bit words; the first word holds the record's type and length. *String
//! records* define frequent names, and later records refer to them by index. An *event* is something that a thread did,
//! with a time, a category, a name and up to 15 named arguments. *Kernel object* records define names and types of the
//! objects that events refer to by koid.
//!
//! [`write`] encodes records, [`read`] decodes them.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod read;
pub mod write;

/// The first record of every trace.
pub const MAGIC: u64 = 0x0016_5478_4604_0010;
/// Limit on the arguments of an event.
pub const MAX_ARGS: usize = 15;
/// Limit in bytes on a string within a record.
pub const MAX_TEXT: usize = 1024;

/// Types of records.
pub(crate) mod kind {
    pub const METADATA: u64 = 0;
    pub const INITIALIZATION: u64 = 1;
    pub const STRING: u64 = 2;
    pub const THREAD: u64 = 3;
    pub const EVENT: u64 = 4;
    pub const KERNEL_OBJECT: u64 = 7;
}

/// Types of arguments.
pub(crate) mod arg {
    pub const NULL: u64 = 0;
    pub const I32: u64 = 1;
    pub const U32: u64 = 2;
    pub const I64: u64 = 3;
    pub const U64: u64 = 4;
    pub const DOUBLE: u64 = 5;
    pub const STRING: u64 = 6;
    pub const POINTER: u64 = 7;
    pub const KOID: u64 = 8;
    pub const BOOL: u64 = 9;
}

/// Phase of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// A point in time.
    Instant,
    /// Begin of a duration.
    Begin,
    /// End of the duration that the same thread began last.
    End,
    /// A complete duration; the value is its end time.
    Complete(u64),
    /// Begin of a flow between threads; the value is its number.
    FlowBegin(u64),
    /// End of a flow.
    FlowEnd(u64),
}

impl Phase {
    pub(crate) fn parts(self) -> (u64, Option<u64>) {
        match self {
            Phase::Instant => (0, None),
            Phase::Begin => (2, None),
            Phase::End => (3, None),
            Phase::Complete(end) => (4, Some(end)),
            Phase::FlowBegin(number) => (8, Some(number)),
            Phase::FlowEnd(number) => (10, Some(number)),
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use alloc::string::ToString;
    use alloc::vec;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::read::{Reader, Record, Value as Found};
    use super::write::{Event, Text, Value, kernel_object, magic, provider, string, ticks_per_second};
    use super::*;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn texts_without_end_are_not_held() {
        let mut reader = read::Reader::default();
        let text = "x".repeat(MAX_TEXT);
        let mut give = |index: u16| {
            let mut words = Vec::new();
            write::string(&mut words, index, &text);
            reader.push(&bytes(&words)).is_ok()
        };
        // An index can be redefined without limit, but the memory for all indices together is limited.
        assert!((0..10_000).all(|_| give(1)));
        let held = (1..0x7fff).take_while(|index| give(*index)).count();
        assert!(held * MAX_TEXT <= 4 << 20, "{held}");
        // A string that is longer than any that the writer writes.
        let long = [kind::STRING | 1 << 16 | 2000 << 32 | 251 << 4].into_iter().chain([0; 250]);
        assert!(read::Reader::default().push(&bytes(&long.collect::<Vec<u64>>())).is_err());
    }

    #[test]
    fn written_data_is_read() {
        let mut out = Vec::new();
        magic(&mut out);
        provider(&mut out, 1, "kernel");
        ticks_per_second(&mut out, 1_000_000_000);
        string(&mut out, 1, "kernel:syscall");
        kernel_object(&mut out, 1100, 2, Text::Inline("main"), Some((Text::Inline("process"), 1097)));
        let mut event = Event::new(&mut out, 5, (1097, 1100), Text::Index(1), Text::Inline("zx_nanosleep"));
        event.arg(Text::Inline("deadline"), Value::I64(-3));
        event.arg(Text::Inline("word"), Value::U32(7));
        event.arg(Text::Inline("text"), Value::Text("hello, world"));
        event.arg(Text::Inline("handle"), Value::Koid(1101));
        event.finish(Phase::Complete(9));
        let records = Reader::default().push(&bytes(&out)).unwrap();
        assert_eq!(records[0], Record::Ticks(1_000_000_000));
        let Record::Object { koid: 1100, kind: 2, name, args } = &records[1] else { panic!("{records:?}") };
        assert_eq!((name.as_str(), args.as_slice()), ("main", [("process".to_string(), Found::Koid(1097))].as_slice()));
        let Record::Event(event) = &records[2] else { panic!("{records:?}") };
        assert_eq!((event.time, event.process, event.thread, event.phase), (5, 1097, 1100, Phase::Complete(9)));
        assert_eq!((event.category.as_str(), event.name.as_str()), ("kernel:syscall", "zx_nanosleep"));
        let expected = vec![
            ("deadline".to_string(), Found::I64(-3)),
            ("word".to_string(), Found::U64(7)),
            ("text".to_string(), Found::Text("hello, world".to_string())),
            ("handle".to_string(), Found::Koid(1101)),
        ];
        assert_eq!(event.args, expected);
        assert_eq!(records.len(), 3);
    }

    #[test]
    fn no_more_arguments_than_the_format_has() {
        let mut out = Vec::new();
        let mut event = Event::new(&mut out, 0, (1, 2), Text::Inline("c"), Text::Inline("n"));
        (0..40).for_each(|n| event.arg(Text::Inline("a"), Value::U64(n)));
        event.finish(Phase::Instant);
        let records = Reader::default().push(&bytes(&out)).unwrap();
        let Record::Event(event) = &records[0] else { panic!("{records:?}") };
        assert_eq!(event.args.len(), MAX_ARGS);
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(cuts in proptest::collection::vec(0usize..400, 0..8)) {
            let mut out = Vec::new();
            for n in 0..4 {
                string(&mut out, n + 1, "name");
                let mut event = Event::new(&mut out, u64::from(n), (1, 2), Text::Index(n + 1), Text::Inline("abcdefghi"));
                event.arg(Text::Index(1), Value::Text("some text"));
                event.finish(Phase::Begin);
            }
            let bytes = bytes(&out);
            let whole = Reader::default().push(&bytes).unwrap();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let mut reader = Reader::default();
            let pieces: Vec<Record> = cuts.windows(2).flat_map(|w| reader.push(&bytes[w[0]..w[1]]).unwrap()).collect();
            prop_assert_eq!(pieces, whole);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = Reader::default().push(&bytes);
        }
    }
}
