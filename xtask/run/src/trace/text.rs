//! Writes a trace as lines, one per call, as `strace` does.
//!
//! The line of a call that blocks stays open as long as nothing else must be written. Otherwise it ends with
//! `<unfinished ...>`, and its result follows with `<... NAME resumed>`.

use std::io::Write;

use anyhow::{Context, Result};
use fxt::Phase;
use fxt::read::{Event, Value};

use super::decode::{Call, duration};
use super::{Objects, chosen};

/// See the description of the module.
pub struct Lines {
    out: Box<dyn Write + Send>,
    filter: Vec<String>,
    /// The thread whose call's line is open.
    open: Option<u64>,
}

impl Lines {
    /// Creates a writer to `out`, for the calls that `filter` names.
    pub fn new(out: Box<dyn Write + Send>, filter: &[String]) -> Lines {
        Lines { out, filter: filter.to_vec(), open: None }
    }

    /// Writes a call, or its begin or end.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn call(&mut self, event: &Event, call: &Call, objects: &Objects) -> Result<()> {
        if !self.filter.is_empty() && !self.filter.iter().any(|name| chosen(call.info, name)) {
            return Ok(());
        }
        let args: Vec<String> = call.args.iter().map(|(name, text)| format!("{name}: {text}")).collect();
        let head = format!("{} zx_{}({}", who(event, objects), call.info.name, args.join(", "));
        let end = match event.phase {
            Phase::Complete(end) => end,
            _ => event.time,
        };
        let time = duration(end.saturating_sub(call.start) as i64);
        let result = match (&call.result, call.info.returns) {
            (Some(result), _) => format!(" = {result} <{time}>"),
            (None, "void") if !call.info.noreturn => format!(" <{time}>"),
            (None, _) => " = ?".into(),
        };
        match event.phase {
            Phase::Begin => {
                self.finish_line()?;
                self.put(&head)?;
                self.open = Some(event.thread);
                Ok(())
            }
            Phase::End if self.open == Some(event.thread) => {
                self.open = None;
                let more: String = written(call).iter().map(|text| format!(", {text}")).collect();
                self.put(&format!("{more}){result}\n"))
            }
            Phase::End => {
                let (who, more) = (who(event, objects), written(call).join(", "));
                self.line(&format!("{who} <... zx_{} resumed>{more}){result}", call.info.name))
            }
            _ => self.line(&format!("{head}){result}")),
        }
    }

    /// Writes another event.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn event(&mut self, event: &Event, objects: &Objects) -> Result<()> {
        let value = match event.args.first() {
            Some((_, Value::I64(value))) => value.to_string(),
            Some((_, Value::U64(value))) => value.to_string(),
            _ => String::new(),
        };
        match event.name.as_str() {
            "process ended" => {
                let name = objects.name(event.process);
                self.line(&format!("[{name} {}] +++ ended with {value} +++", event.process))
            }
            "records lost" => self.line(&format!("--- {value} calls are missing here ---")),
            _ => Ok(()),
        }
    }

    /// Ends the trace.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn end(&mut self) -> Result<()> {
        self.finish_line()?;
        self.out.flush().context("cannot write the trace")
    }

    fn line(&mut self, text: &str) -> Result<()> {
        self.finish_line()?;
        self.put(&format!("{text}\n"))
    }

    fn finish_line(&mut self) -> Result<()> {
        if self.open.take().is_some() { self.put(" <unfinished ...>\n") } else { Ok(()) }
    }

    fn put(&mut self, text: &str) -> Result<()> {
        self.out.write_all(text.as_bytes()).context("cannot write the trace")
    }
}

/// The arguments that were not known when a call began: its outputs.
fn written(call: &Call) -> Vec<String> {
    let is_out = |name: &str| call.info.args.iter().any(|arg| arg.name == name && arg.dir == Some(abi::Dir::Out));
    call.args.iter().filter(|(name, _)| is_out(name)).map(|(name, text)| format!("{name}: {text}")).collect()
}

/// Process and thread of an event.
fn who(event: &Event, objects: &Objects) -> String {
    let (process, thread) = (objects.name(event.process), objects.name(event.thread));
    let thread = if thread.is_empty() { String::new() } else { format!(" {thread}") };
    format!("[{process} {}{thread} {}]", event.process, event.thread)
}
