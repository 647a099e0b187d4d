//! Encodes records: appends their words to a vector.

use alloc::vec::Vec;

use crate::{MAGIC, MAX_ARGS, MAX_TEXT, Phase, arg, kind};

/// A name or string in a record.
#[derive(Clone, Copy, Debug)]
pub enum Text<'a> {
    /// The index (1 to 32767) of an earlier string record.
    Index(u16),
    /// The string itself; cut to [`MAX_TEXT`] bytes.
    Inline(&'a str),
}

impl Text<'_> {
    fn reference(self) -> u64 {
        match self {
            Text::Index(index) => u64::from(index & 0x7fff),
            Text::Inline("") => 0,
            Text::Inline(text) => 0x8000 | cut(text).len() as u64,
        }
    }

    fn put(self, out: &mut Vec<u64>) {
        if let Text::Inline(text) = self {
            padded(out, cut(text).as_bytes());
        }
    }
}

/// The value of an argument.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// An unsigned 32-bit number.
    U32(u32),
    /// A signed 64-bit number.
    I64(i64),
    /// An unsigned 64-bit number.
    U64(u64),
    /// A string.
    Text(&'a str),
    /// An address.
    Pointer(u64),
    /// A koid.
    Koid(u64),
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

fn padded(out: &mut Vec<u64>, bytes: &[u8]) {
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
        out.push(u64::from_le_bytes(word));
    }
}

/// Stores the length of the record that begins at `start` in its first word.
fn close(out: &mut [u64], start: usize) {
    let words = (out.len() - start) as u64;
    if let Some(header) = out.get_mut(start) {
        *header |= words << 4;
    }
}

/// The first record of a trace.
pub fn magic(out: &mut Vec<u64>) {
    out.push(MAGIC);
}

/// Names the provider of the records that follow.
pub fn provider(out: &mut Vec<u64>, number: u32, name: &str) {
    const INFO: u64 = 1;
    const SECTION: u64 = 2;
    let (start, name) = (out.len(), name.get(..name.len().min(255)).unwrap_or_default());
    let number = u64::from(number) << 20;
    out.push(kind::METADATA | INFO << 16 | number | (name.len() as u64) << 52);
    padded(out, name.as_bytes());
    close(out, start);
    out.push(kind::METADATA | 1 << 4 | SECTION << 16 | number);
}

/// Sets the ticks per second of the trace's times.
pub fn ticks_per_second(out: &mut Vec<u64>, ticks: u64) {
    out.extend([kind::INITIALIZATION | 2 << 4, ticks]);
}

/// Defines an indexed string.
pub fn string(out: &mut Vec<u64>, index: u16, text: &str) {
    let (start, text) = (out.len(), cut(text));
    out.push(kind::STRING | u64::from(index & 0x7fff) << 16 | (text.len() as u64) << 32);
    padded(out, text.as_bytes());
    close(out, start);
}

/// Names an object of the type `ZX_OBJ_TYPE_*`; for a thread, `of` is its process.
pub fn kernel_object(out: &mut Vec<u64>, koid: u64, object_type: u8, name: Text<'_>, of: Option<(Text<'_>, u64)>) {
    let start = out.len();
    let args = u64::from(of.is_some());
    out.push(kind::KERNEL_OBJECT | u64::from(object_type) << 16 | name.reference() << 24 | args << 40);
    out.push(koid);
    name.put(out);
    if let Some((name, koid)) = of {
        argument(out, name, Value::Koid(koid));
    }
    close(out, start);
}

/// Appends an argument of an event.
pub fn argument(out: &mut Vec<u64>, name: Text<'_>, value: Value<'_>) {
    let start = out.len();
    let (kind, short) = match value {
        Value::U32(value) => (arg::U32, u64::from(value)),
        Value::I64(_) => (arg::I64, 0),
        Value::U64(_) => (arg::U64, 0),
        Value::Text(text) => (arg::STRING, Text::Inline(text).reference()),
        Value::Pointer(_) => (arg::POINTER, 0),
        Value::Koid(_) => (arg::KOID, 0),
    };
    out.push(kind | name.reference() << 16 | short << 32);
    name.put(out);
    match value {
        Value::U32(_) => {}
        Value::I64(value) => out.push(value as u64),
        Value::U64(value) | Value::Pointer(value) | Value::Koid(value) => out.push(value),
        Value::Text(text) => Text::Inline(text).put(out),
    }
    close(out, start);
}

/// An event that is being encoded.
#[derive(Debug)]
pub struct Event<'a> {
    out: &'a mut Vec<u64>,
    start: usize,
    args: usize,
}

impl<'a> Event<'a> {
    /// Begins an event of a thread (koids of its process and of the thread) at a time.
    pub fn new(
        out: &'a mut Vec<u64>,
        time: u64,
        (process, thread): (u64, u64),
        category: Text<'_>,
        name: Text<'_>,
    ) -> Event<'a> {
        let start = out.len();
        out.push(kind::EVENT | category.reference() << 32 | name.reference() << 48);
        out.extend([time, process, thread]);
        category.put(out);
        name.put(out);
        Event { out, start, args: 0 }
    }

    /// Adds an argument; drops it if the event has [`MAX_ARGS`] already.
    pub fn arg(&mut self, name: Text<'_>, value: Value<'_>) {
        if self.args < MAX_ARGS {
            argument(self.out, name, value);
            self.args += 1;
        }
    }

    /// Adds `count` arguments that [`argument`] has encoded.
    pub fn made_args(&mut self, words: &[u64], count: usize) {
        if self.args + count <= MAX_ARGS {
            self.out.extend_from_slice(words);
            self.args += count;
        }
    }

    /// Completes the event.
    pub fn finish(self, phase: Phase) {
        let (number, extra) = phase.parts();
        self.out.extend(extra);
        if let Some(header) = self.out.get_mut(self.start) {
            *header |= number << 16 | (self.args as u64) << 20;
        }
        close(self.out, self.start);
    }
}
