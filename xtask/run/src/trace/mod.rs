//! The output of `run --trace`: the system calls of a program and of its children.
//!
//! The server records calls (`objects/src/kernel/trace.rs`), and `init` sends the records over the host link. Here they
//! become lines for people ([`text`]) and a file that Perfetto opens ([`file`]). The words of a call are decoded with
//! the definitions in `abi/` alone ([`decode`]).

mod decode;
mod file;
mod text;

use std::collections::HashMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use fxt::Phase;
use fxt::read::{Event, Reader, Record, Value};

use xtask_common::words;

/// The requested output of a trace.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Lines for people: only calls of these nouns or names; all if the list is empty. `None`: no lines.
    pub lines: Option<Vec<String>>,
    /// The destination of the lines; by default standard error.
    pub output: Option<PathBuf>,
    /// A file for Perfetto.
    pub file: Option<PathBuf>,
}

impl Wanted {
    /// From the options of the command line; `None` if no trace is requested.
    ///
    /// # Errors
    /// The filter contains an unknown name.
    pub fn new(filter: Option<&str>, output: Option<PathBuf>, file: Option<PathBuf>) -> Result<Option<Wanted>> {
        if filter.is_none() && output.is_none() && file.is_none() {
            return Ok(None);
        }
        let names = || filter.unwrap_or_default().split(',').map(str::trim).filter(|name| !name.is_empty());
        for name in names() {
            if !abi::SYSCALLS.iter().any(|call| chosen(call, name)) {
                let mut nouns: Vec<&str> = abi::SYSCALLS.iter().map(|call| call.noun).collect();
                nouns.sort_unstable();
                nouns.dedup();
                bail!("--trace={name}: there is no such call or noun; nouns are {}", nouns.join(", "));
            }
        }
        // With only a file, no lines are requested.
        let lines = filter.is_some() || output.is_some();
        Ok(Some(Wanted { lines: lines.then(|| names().map(str::to_string).collect()), output, file }))
    }
}

fn chosen(call: &abi::SyscallInfo, name: &str) -> bool {
    call.noun == name || call.name == name.strip_prefix("zx_").unwrap_or(name)
}

/// The known objects: type and name, by koid.
#[derive(Debug, Default)]
struct Objects(HashMap<u64, (u8, String)>);

/// Maximum number of objects whose names are kept, and of threads with stored events; later ones have none.
const MOST: usize = 1 << 18;
/// Maximum length of a name; the server's names are shorter.
const NAME: usize = 64;

impl Objects {
    fn add(&mut self, koid: u64, kind: u8, mut name: String) {
        name.truncate(name.floor_char_boundary(NAME));
        if self.0.len() < MOST || self.0.contains_key(&koid) {
            self.0.insert(koid, (kind, name));
        }
    }

    fn name(&self, koid: u64) -> &str {
        self.0.get(&koid).map_or("", |(_, name)| name)
    }
}

/// A trace that is being received.
pub struct Trace {
    reader: Reader,
    objects: Objects,
    text: Option<text::Lines>,
    file: Option<file::Writer>,
    /// The arguments of calls that block, by thread.
    begun: HashMap<u64, Event>,
    calls: u64,
    lost: u64,
    problem: Option<String>,
}

impl Trace {
    /// Opens the output.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn new(wanted: &Wanted) -> Result<Trace> {
        let create = |path: &PathBuf| -> Result<BufWriter<File>> {
            Ok(BufWriter::new(File::create(path).with_context(|| format!("cannot write {}", path.display()))?))
        };
        let text = match (&wanted.lines, &wanted.output) {
            (Some(filter), Some(path)) => Some(text::Lines::new(Box::new(create(path)?), filter)),
            (Some(filter), None) => Some(text::Lines::new(Box::new(std::io::stderr()), filter)),
            (None, _) => None,
        };
        let file = wanted.file.as_ref().map(create).transpose()?.map(file::Writer::new).transpose()?;
        Ok(Trace {
            reader: Reader::default(),
            objects: Objects::default(),
            text,
            file,
            begun: HashMap::new(),
            calls: 0,
            lost: 0,
            problem: None,
        })
    }

    /// Takes a piece of the trace.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.problem.is_some() {
            return;
        }
        let taken = self.reader.push(bytes).map_err(anyhow::Error::from);
        let done = taken.and_then(|records| records.into_iter().try_for_each(|record| self.record(record)));
        self.problem = done.err().map(|error| format!("{error:#}"));
    }

    /// Ends the trace; returns messages about it.
    pub fn end(mut self) -> Vec<String> {
        let mut notes = Vec::new();
        let ended = self.text.as_mut().map_or(Ok(()), text::Lines::end);
        let ended = ended.and_then(|()| self.file.as_mut().map_or(Ok(()), file::Writer::end));
        let problem = self.problem.or_else(|| ended.err().map(|error| format!("{error:#}")));
        notes.extend(problem.map(|problem| format!("the trace is not whole: {problem}")));
        if self.lost > 0 {
            notes.push(format!(
                "the trace is not whole: {} of {} records were lost",
                self.lost,
                self.lost.saturating_add(self.calls)
            ));
        }
        notes
    }

    fn record(&mut self, record: Record) -> Result<()> {
        match record {
            Record::Ticks(_) => {}
            Record::Object { koid, kind, name, args } => {
                // A program chose this name itself.
                let name = words::visible(&name).into_owned();
                if let Some(file) = &mut self.file {
                    file.object(koid, kind, &name, &args)?;
                }
                self.objects.add(koid, kind, name);
            }
            Record::Event(event) if event.category == "kernel:syscall" => self.call(event)?,
            Record::Event(event) => {
                if event.name == "records lost"
                    && let Some((_, Value::U64(count))) = event.args.first()
                {
                    self.lost = self.lost.saturating_add(*count);
                }
                if let Some(text) = &mut self.text {
                    text.event(&event, &self.objects)?;
                }
                if let Some(file) = &mut self.file {
                    file.event(&event)?;
                }
            }
        }
        Ok(())
    }

    fn call(&mut self, event: Event) -> Result<()> {
        self.calls += u64::from(event.phase != Phase::Begin);
        let begun = match event.phase {
            Phase::End => self.begun.remove(&event.thread),
            _ => None,
        };
        let Some(call) = decode::Call::new(&event, begun.as_ref(), &self.objects) else {
            bail!("`{}` is no system call of this version", event.name)
        };
        if let Some(text) = &mut self.text {
            text.call(&event, &call, &self.objects)?;
        }
        if let Some(file) = &mut self.file {
            file.call(&event, &call)?;
        }
        if event.phase == Phase::Begin && (self.begun.len() < MOST || self.begun.contains_key(&event.thread)) {
            self.begun.insert(event.thread, event);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use fxt::write::{self, Text, Value as Written};
    use proptest::prelude::*;

    use super::*;

    /// A trace with all output, into temporary files.
    fn all() -> (Trace, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let wanted = Wanted {
            lines: Some(Vec::new()),
            output: Some(folder.path().join("lines")),
            file: Some(folder.path().join("file")),
        };
        (Trace::new(&wanted).unwrap(), folder)
    }

    fn number() -> impl Strategy<Value = u64> {
        prop_oneof![Just(0), Just(1), Just(i64::MAX as u64), Just(1 << 63), Just(u64::MAX), any::<u64>()]
    }

    /// An event of any call with any numbers as its arguments.
    fn event() -> impl Strategy<Value = Vec<u64>> {
        let numbers = proptest::collection::vec((number(), 0..4), 14);
        let phase =
            prop_oneof![Just(Phase::Begin), Just(Phase::End), Just(Phase::Instant), number().prop_map(Phase::Complete)];
        (0..abi::SYSCALLS.len(), number(), 0..3u64, numbers, phase).prop_map(|(call, time, thread, numbers, phase)| {
            let info = &abi::SYSCALLS[call];
            let mut words = Vec::new();
            let name = Text::Inline(info.name);
            let mut event = write::Event::new(&mut words, time, (1, thread), Text::Inline("kernel:syscall"), name);
            let names = info.args.iter().map(|arg| arg.name).chain(["result"]);
            for (name, (number, kind)) in names.zip(numbers) {
                let hex = "ff".repeat((number % 80) as usize);
                let value = match kind {
                    0 => Written::U64(number),
                    1 => Written::I64(number as i64),
                    2 => Written::Pointer(number),
                    _ => Written::Text(&hex),
                };
                event.arg(Text::Inline(name), value);
            }
            event.finish(phase);
            words
        })
    }

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    proptest! {
        #[test]
        fn no_numbers_make_it_panic(events in proptest::collection::vec(event(), 0..20)) {
            let (mut trace, _folder) = all();
            events.iter().for_each(|words| trace.push(&bytes(words)));
            prop_assert_eq!(trace.problem.as_deref(), None);
            trace.end();
        }
    }

    #[test]
    fn losses_without_number() {
        let (mut trace, _folder) = all();
        for _ in 0..3 {
            let mut words = Vec::new();
            let name = Text::Inline("records lost");
            let mut event = write::Event::new(&mut words, 0, (1, 2), Text::Inline("kernel"), name);
            event.arg(Text::Inline("count"), Written::U64(u64::MAX));
            event.finish(Phase::Instant);
            trace.push(&bytes(&words));
        }
        assert!(trace.end().iter().any(|note| note.contains("were lost")));
    }

    #[test]
    fn names_do_not_act_and_have_an_end() {
        let (mut trace, folder) = all();
        let mut words = Vec::new();
        for koid in 0..2 * MOST as u64 {
            words.clear();
            write::kernel_object(&mut words, koid, 1, Text::Inline("a\x1b[31m\nE init: b"), None);
            trace.push(&bytes(&words));
        }
        assert_eq!(trace.objects.0.len(), MOST);
        words.clear();
        let event = write::Event::new(&mut words, 0, (1, 2), Text::Inline("kernel"), Text::Inline("process ended"));
        event.finish(Phase::Instant);
        trace.push(&bytes(&words));
        trace.end();
        let lines = std::fs::read_to_string(folder.path().join("lines")).unwrap();
        assert_eq!(lines.lines().count(), 1);
        assert!(!lines.trim_end().contains(char::is_control), "{lines:?}");
    }
}
