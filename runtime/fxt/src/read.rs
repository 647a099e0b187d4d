//! Decodes records as they arrive.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::{MAX_TEXT, Phase, arg, kind};

/// A record.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// Ticks per second of the trace's times.
    Ticks(u64),
    /// A kernel object's type and name.
    Object {
        /// Its koid.
        koid: u64,
        /// `ZX_OBJ_TYPE_*`.
        kind: u8,
        /// Its name.
        name: String,
        /// Its arguments.
        args: Vec<(String, Value)>,
    },
    /// An event of a thread.
    Event(Event),
}

/// An event of a thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Time in ticks.
    pub time: u64,
    /// The process's koid.
    pub process: u64,
    /// The thread's koid.
    pub thread: u64,
    /// Category.
    pub category: String,
    /// Name.
    pub name: String,
    /// Arguments.
    pub args: Vec<(String, Value)>,
    /// Phase.
    pub phase: Phase,
}

/// The value of an argument.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Null, or a type that this reader does not decode.
    None,
    /// An unsigned number.
    U64(u64),
    /// A signed number.
    I64(i64),
    /// A string.
    Text(String),
    /// An address.
    Pointer(u64),
    /// A koid.
    Koid(u64),
}

/// The bytes are not a valid trace. Nothing after them can be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

impl core::fmt::Display for Damaged {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the trace is damaged")
    }
}

impl core::error::Error for Damaged {}

/// Limit in bytes on all indexed strings together.
const MOST: usize = 4 << 20;

/// Decodes records from pieces of any size. Its memory is bounded for any input, and a piece yields records of at most
/// a few hundred times the piece's size.
#[derive(Debug, Default)]
pub struct Reader {
    pending: Vec<u8>,
    strings: BTreeMap<u64, String>,
    /// Total length of all indexed strings in bytes.
    held: usize,
    threads: BTreeMap<u64, (u64, u64)>,
}

impl Reader {
    /// Adds a piece and returns the records that are now complete.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn push(&mut self, piece: &[u8]) -> Result<Vec<Record>, Damaged> {
        self.pending.extend_from_slice(piece);
        let bytes = core::mem::take(&mut self.pending);
        let mut found = Vec::new();
        let mut rest = bytes.as_slice();
        while let Some(header) = rest.first_chunk::<8>() {
            let length = (u64::from_le_bytes(*header) >> 4 & 0xfff) as usize * 8;
            if length == 0 {
                return Err(Damaged);
            }
            let Some((record, after)) = rest.split_at_checked(length) else { break };
            let words = record.chunks_exact(8).map(|chunk| chunk.try_into().map_or(0, u64::from_le_bytes));
            found.extend(self.record(&words.collect::<Vec<u64>>())?);
            rest = after;
        }
        self.pending = rest.to_vec();
        Ok(found)
    }

    fn record(&mut self, words: &[u64]) -> Result<Option<Record>, Damaged> {
        let mut words = Words(words);
        let header = words.next()?;
        match header & 0xf {
            kind::INITIALIZATION => Ok(Some(Record::Ticks(words.next()?))),
            kind::STRING => {
                let length = (header >> 32 & 0x7fff) as usize;
                // Limit the length here, because many short records can refer to the string.
                if length > MAX_TEXT {
                    return Err(Damaged);
                }
                let text = words.text(length)?;
                self.held += text.len();
                let before = self.strings.insert(header >> 16 & 0x7fff, text);
                self.held -= before.map_or(0, |text| text.len());
                if self.held > MOST { Err(Damaged) } else { Ok(None) }
            }
            kind::THREAD => {
                let thread = (words.next()?, words.next()?);
                self.threads.insert(header >> 16 & 0xff, thread);
                Ok(None)
            }
            kind::KERNEL_OBJECT => {
                let koid = words.next()?;
                let name = self.text(header >> 24 & 0xffff, &mut words)?;
                let args = self.args((header >> 40 & 0xf) as usize, &mut words)?;
                Ok(Some(Record::Object { koid, kind: (header >> 16 & 0xff) as u8, name, args }))
            }
            kind::EVENT => self.event(header, &mut words),
            // Metadata and unknown types: skip the record by its length.
            kind::METADATA.. => Ok(None),
        }
    }

    fn event(&mut self, header: u64, words: &mut Words<'_>) -> Result<Option<Record>, Damaged> {
        let time = words.next()?;
        let (process, thread) = match header >> 24 & 0xff {
            0 => (words.next()?, words.next()?),
            index => *self.threads.get(&index).ok_or(Damaged)?,
        };
        let category = self.text(header >> 32 & 0xffff, words)?;
        let name = self.text(header >> 48, words)?;
        let args = self.args((header >> 20 & 0xf) as usize, words)?;
        let phase = match header >> 16 & 0xf {
            0 => Phase::Instant,
            2 => Phase::Begin,
            3 => Phase::End,
            4 => Phase::Complete(words.next()?),
            8 => Phase::FlowBegin(words.next()?),
            10 => Phase::FlowEnd(words.next()?),
            _ => return Ok(None),
        };
        Ok(Some(Record::Event(Event { time, process, thread, category, name, args, phase })))
    }

    fn args(&self, count: usize, words: &mut Words<'_>) -> Result<Vec<(String, Value)>, Damaged> {
        (0..count)
            .map(|_| {
                let header = *words.0.first().ok_or(Damaged)?;
                let length = (header >> 4 & 0xfff) as usize;
                let mut inner = Words(words.0.get(1..length).ok_or(Damaged)?);
                words.0 = words.0.get(length..).ok_or(Damaged)?;
                let name = self.text(header >> 16 & 0xffff, &mut inner)?;
                let value = match header & 0xf {
                    arg::NULL | arg::DOUBLE => Value::None,
                    arg::I32 => Value::I64(i64::from((header >> 32) as i32)),
                    arg::U32 => Value::U64(header >> 32),
                    arg::I64 => Value::I64(inner.next()? as i64),
                    arg::U64 => Value::U64(inner.next()?),
                    arg::STRING => Value::Text(self.text(header >> 32 & 0xffff, &mut inner)?),
                    arg::POINTER => Value::Pointer(inner.next()?),
                    arg::KOID => Value::Koid(inner.next()?),
                    arg::BOOL => Value::U64(header >> 32 & 1),
                    _ => Value::None,
                };
                Ok((name, value))
            })
            .collect()
    }

    /// The string that a 16-bit reference stands for.
    fn text(&self, reference: u64, words: &mut Words<'_>) -> Result<String, Damaged> {
        match reference {
            0 => Ok(String::new()),
            index if index & 0x8000 == 0 => self.strings.get(&index).cloned().ok_or(Damaged),
            inline => words.text((inline & 0x7fff) as usize),
        }
    }
}

struct Words<'a>(&'a [u64]);

impl Words<'_> {
    fn next(&mut self) -> Result<u64, Damaged> {
        let (first, rest) = self.0.split_first().ok_or(Damaged)?;
        self.0 = rest;
        Ok(*first)
    }

    fn text(&mut self, length: usize) -> Result<String, Damaged> {
        let (text, rest) = self.0.split_at_checked(length.div_ceil(8)).ok_or(Damaged)?;
        self.0 = rest;
        let bytes: Vec<u8> = text.iter().flat_map(|word| word.to_le_bytes()).take(length).collect();
        Ok(String::from_utf8_lossy(&bytes).to_string())
    }
}
