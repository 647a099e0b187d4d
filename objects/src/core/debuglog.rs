//! The debug log: text records from the kernel and programs, kept for readers and shown on the console.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use abi::{Signals, Status};

use crate::containers::growth::Grows;
use crate::containers::name::Name;
use crate::core::noun::{Noun, ObjectOps};
use crate::core::object::{Id, ObjectId};
use crate::kernel::Kernel;
use crate::machine::Machine;

/// Maximum length of a record's text.
pub const MAX_TEXT: usize = 216;
/// Number of records kept for readers.
const KEPT: usize = 512;

/// Severity of a record; its letter is shown on the console.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Level {
    /// Details for debugging.
    #[default]
    Debug,
    /// Normal operation.
    Info,
    /// Unexpected.
    Warning,
    /// A failure.
    Error,
}

impl Level {
    fn letter(self) -> char {
        match self {
            Level::Debug => 'D',
            Level::Info => 'I',
            Level::Warning => 'W',
            Level::Error => 'E',
        }
    }

    /// Numeric severity, as in `zx_log_record_t`.
    pub fn severity(self) -> u8 {
        match self {
            Level::Debug => 0x20,
            Level::Info => 0x30,
            Level::Warning => 0x40,
            Level::Error => 0x50,
        }
    }
}

/// The writer of a record. On the console a program's lines begin with its koid and the kernel's lines never do, so a
/// program cannot imitate another writer, whatever its name and text.
#[derive(Clone, Copy)]
pub enum LogWriter {
    /// The kernel, on this subject.
    Kernel(&'static str),
    /// A program.
    Program {
        /// Its name.
        name: Name,
        /// Koid of its process.
        process: u64,
        /// Koid of the writing thread.
        thread: u64,
    },
}

impl core::fmt::Display for LogWriter {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            LogWriter::Kernel(matter) => f.write_str(matter),
            LogWriter::Program { name, process, thread } => write!(f, "{process}:{thread}> {name}"),
        }
    }
}

/// A record.
#[derive(Clone)]
pub struct Record {
    /// Sequence number; a gap means that records were dropped.
    pub sequence: u64,
    /// Nanoseconds as in [`Time::now`](crate::machine::Time::now).
    pub time: i64,
    /// Severity.
    pub level: Level,
    /// Koid of the process that wrote it; 0 for the kernel.
    pub process: u64,
    /// Koid of the thread that wrote it; 0 for the kernel.
    pub thread: u64,
    /// The text, as it was written.
    pub text: Vec<u8>,
}

/// All records kept.
#[derive(Default)]
pub struct Log {
    records: VecDeque<Record>,
    sequence: u64,
    readers: Vec<ObjectId>,
    /// Minimum severity for the console.
    console: Level,
}

/// A handle's view of the log.
pub struct Debuglog {
    /// It was created with `ZX_LOG_FLAG_READABLE`.
    pub readable: bool,
    next: u64,
}

impl Noun for Debuglog {
    const TYPE: u32 = abi::ZX_OBJ_TYPE_DEBUGLOG;
}

impl ObjectOps for Debuglog {
    const OWNS_NOTHING: bool = true;
}

impl<M: Machine> Kernel<M> {
    /// `debuglog_create`.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn debuglog_create(&mut self, readable: bool) -> Result<Id<Debuglog>, Status> {
        let first = self.log.records.front().map_or(self.log.sequence, |r| r.sequence);
        let signals = if readable && !self.log.records.is_empty() { Signals::LOG_READABLE } else { Signals::NONE };
        let id: Id<Debuglog> = self.create(signals, Box::new(Debuglog { readable, next: first }))?;
        if readable {
            self.log
                .readers
                .room(1)
                .map_err(|_| Status::NO_MEMORY)
                .inspect_err(|_| self.reaper_enqueue(id.object()))?;
            self.log.readers.push(id.object());
        }
        Ok(id)
    }

    /// Sets the minimum severity for the console; initially all records are shown.
    pub fn set_console_level(&mut self, level: Level) {
        self.log.console = level;
    }

    /// Writes a record to the log, and as one or more lines to the console.
    pub fn log(&mut self, level: Level, who: LogWriter, text: &[u8]) {
        let (process, thread) = match who {
            LogWriter::Kernel(_) => (0, 0),
            LogWriter::Program { process, thread, .. } => (process, thread),
        };
        let time = self.machine.now();
        let mut line = String::new();
        let shown = level >= self.log.console;
        for part in text.split(|&b| b == b'\n').filter(|part| shown && !part.is_empty()) {
            line.clear();
            let us = time / 1000;
            // Writing to a String cannot fail; memory for it is reserved before each call.
            let _ = write!(line, "[{:3}.{:06}] {} {who}: ", us / 1_000_000, us % 1_000_000, level.letter());
            for &byte in part {
                line.push(if byte == b'\t' || (0x20..0x7f).contains(&byte) { byte as char } else { '?' });
            }
            line.push_str("\r\n");
            self.machine.console_write(line.as_bytes());
        }
        let kept = text.get(..text.len().min(MAX_TEXT)).unwrap_or_default();
        if self.log.records.len() >= KEPT {
            self.log.records.pop_front();
        }
        if self.log.records.room(1).is_ok() {
            let sequence = self.log.sequence;
            self.log.records.push_back(Record { sequence, time, level, process, thread, text: kept.to_vec() });
            self.log.sequence += 1;
        }
        let readers = core::mem::take(&mut self.log.readers);
        let mut alive = Vec::new();
        for reader in readers {
            if self.objects.any(reader).is_ok() {
                self.signal(reader, Signals::NONE, Signals::LOG_READABLE);
                if alive.room(1).is_ok() {
                    alive.push(reader);
                }
            }
        }
        self.log.readers = alive;
    }

    /// The next record for a reader.
    ///
    /// # Errors
    /// `SHOULD_WAIT`: there is none.
    pub fn debuglog_read(&mut self, id: Id<Debuglog>) -> Result<Record, Status> {
        let next = self.objects.get(id)?.next;
        let first = self.log.records.front().map_or(self.log.sequence, |r| r.sequence);
        let at = next.max(first);
        let record = self.log.records.get((at - first) as usize).cloned();
        match record {
            Some(record) => {
                self.objects.get_mut(id)?.next = at + 1;
                if at + 1 >= self.log.sequence {
                    self.signal(id.object(), Signals::LOG_READABLE, Signals::NONE);
                }
                Ok(record)
            }
            None => {
                self.signal(id.object(), Signals::LOG_READABLE, Signals::NONE);
                Err(Status::SHOULD_WAIT)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeMachine;

    /// Whatever a program's name and text, each line begins with the time, a severity and its koid.
    #[test]
    fn a_program_speaks_as_itself() {
        let mut kernel = Kernel::new(FakeMachine::new(100)).unwrap();
        kernel.set_console_level(Level::Debug);
        for name in ["a\n[1.0] E init", "exception", "\x1b[31;1mkernel\x1b[0m", ""] {
            kernel.machine.console.clear();
            let who = LogWriter::Program { name: Name::new(name.as_bytes()), process: 5, thread: 6 };
            let text = b"module 0x0 a\r\n[1.0] E exception: b\n\x1b[2Jc\xff";
            kernel.log(Level::Info, who, text);
            let lines: Vec<&str> = kernel.machine.console.split_terminator("\r\n").collect();
            assert_eq!(lines.len(), 3);
            for line in lines {
                let (time, rest) = line.split_once("] ").unwrap();
                assert!(time.starts_with('[') && rest.starts_with("I 5:6> "), "{line:?}");
                assert!(!line.contains(char::is_control), "{line:?}");
            }
        }
    }

    #[test]
    fn no_program_can_imitate_the_kernels_records() {
        let mut kernel = Kernel::new(FakeMachine::new(100)).unwrap();
        let reader = kernel.debuglog_create(true).unwrap();
        kernel.add_handle(reader.object());
        kernel.log(Level::Error, LogWriter::Kernel("exception"), b"x");
        let who = LogWriter::Program { name: Name::default(), process: 5, thread: 6 };
        kernel.log(Level::Info, who, b"\0\xff\n");
        let [first, second] = [(); 2].map(|()| kernel.debuglog_read(reader).unwrap());
        assert_eq!((first.process, first.thread), (0, 0));
        // The bytes are unchanged: readers identify the writer by the koid.
        assert_eq!((second.process, second.thread, second.text.as_slice()), (5, 6, &b"\0\xff\n"[..]));
    }
}
