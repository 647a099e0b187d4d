//! Writes a trace as a file in Fuchsia's format, which Perfetto opens: processes and threads with their names, and a
//! slice for each call from its begin to its end, with its decoded arguments.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};

use anyhow::{Context, Result};
use fxt::Phase;
use fxt::read::{Event, Value as Read};
use fxt::write::{self, Text, Value};

use super::decode::Call;

/// Types of objects that Perfetto has names for.
const PROCESS: u8 = 1;
const THREAD: u8 = 2;

/// See the description of the module.
pub struct Writer {
    out: BufWriter<File>,
    words: Vec<u64>,
    /// A thread of each process, to which events of the process are attached.
    threads: HashMap<u64, u64>,
}

impl Writer {
    /// Creates a writer to this file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn new(out: BufWriter<File>) -> Result<Writer> {
        let mut writer = Writer { out, words: Vec::new(), threads: HashMap::new() };
        write::magic(&mut writer.words);
        write::provider(&mut writer.words, 1, "hafnon");
        write::ticks_per_second(&mut writer.words, 1_000_000_000);
        writer.put()?;
        Ok(writer)
    }

    /// Records the name of an object.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn object(&mut self, koid: u64, kind: u8, name: &str, args: &[(String, Read)]) -> Result<()> {
        let process = args.iter().find_map(|(_, value)| if let Read::Koid(koid) = value { Some(*koid) } else { None });
        let of = process.map(|koid| (Text::Inline("process"), koid));
        if kind == PROCESS || kind == THREAD {
            write::kernel_object(&mut self.words, koid, kind, Text::Inline(name), of);
        }
        self.put()
    }

    /// Records a call.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn call(&mut self, event: &Event, call: &Call) -> Result<()> {
        if self.threads.len() < super::MOST {
            self.threads.entry(event.process).or_insert(event.thread);
        }
        let name = format!("zx_{}", call.info.name);
        let place = (event.process, event.thread);
        let (category, name) = (Text::Inline(&event.category), Text::Inline(&name));
        let mut made = write::Event::new(&mut self.words, event.time, place, category, name);
        for (name, text) in &call.args {
            made.arg(Text::Inline(name), Value::Text(text));
        }
        if let Some(result) = &call.result {
            made.arg(Text::Inline("result"), Value::Text(result));
        }
        made.finish(event.phase);
        self.put()
    }

    /// Records another event.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn event(&mut self, event: &Event) -> Result<()> {
        let thread = self.threads.get(&event.process).copied().unwrap_or(event.thread);
        let (category, name) = (Text::Inline(&event.category), Text::Inline(&event.name));
        let mut made = write::Event::new(&mut self.words, event.time, (event.process, thread), category, name);
        for (name, value) in &event.args {
            match value {
                Read::U64(value) => made.arg(Text::Inline(name), Value::U64(*value)),
                Read::I64(value) => made.arg(Text::Inline(name), Value::I64(*value)),
                _ => {}
            }
        }
        made.finish(Phase::Instant);
        self.put()
    }

    /// Ends the trace.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn end(&mut self) -> Result<()> {
        self.out.flush().context("cannot write the trace's file")
    }

    fn put(&mut self) -> Result<()> {
        let bytes: Vec<u8> = self.words.drain(..).flat_map(u64::to_le_bytes).collect();
        self.out.write_all(&bytes).context("cannot write the trace's file")
    }
}
