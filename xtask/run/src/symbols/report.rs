//! The server's reports of unhandled exceptions: turns the console's lines with images and addresses into a backtrace
//! with names.
//!
//! A report consists of several lines (`objects/src/task/exception_report.rs`): the thread, the exception and its
//! address; the registers; then for each image `module BASE NAME BUILD-ID`; then for each frame `#N ADDRESS
//! (NAME+OFFSET)`, the first with the address of the instruction itself, the others with return addresses. The last
//! line is `end`. The root task's report of a server or a component (`root/src/report.rs`) is shorter: its first line
//! names the program, and the frames have the addresses of its file.

use super::{Files, SERVER, Symbols, component, frame};

/// Maximum number of images of a report, and maximum size of its text in bytes. The server prints fewer.
const MODULES: usize = 256;
const LONGEST: usize = 64 << 10;

/// The function in which `std` begins the program's own code; frames below it are rarely of interest.
const BEGINNING: &str = "__rust_begin_short_backtrace";

/// Parses the console's lines; see the description of the module.
pub struct Reports {
    symbols: Symbols,
    /// Also show the frames below `main`.
    full: bool,
    modules: Vec<(u64, String)>,
    /// For a report of the root task: the stand-in for the build id.
    whose: String,
    text: String,
    done: bool,
}

impl Reports {
    /// For programs that are among these files.
    pub fn new(files: Files, full: bool) -> Reports {
        let (symbols, whose) = (Symbols::new(files), String::new());
        Reports { symbols, full, modules: Vec::new(), whose, text: String::new(), done: false }
    }

    /// Takes a line of the console, without its time; returns the text to show when a report is complete.
    pub fn line(&mut self, line: &str) -> Option<String> {
        if let Some(line) = line.strip_prefix("E root: ") {
            return self.line_of_root(line);
        }
        let line = line.strip_prefix("I exception: ")?;
        if let Some(module) = line.strip_prefix("module ") {
            let (base, name_and_id) = module.split_once(' ')?;
            let id = name_and_id.rsplit(' ').next().unwrap_or_default();
            if self.modules.len() < MODULES {
                self.modules.push((number(base)?, id.to_string()));
            }
        } else if let Some(place) = line.strip_prefix('#') {
            let (n, rest) = place.split_once(' ')?;
            self.frame(n, rest.trim_start());
        } else if line == "end" {
            return self.end();
        }
        None
    }

    fn line_of_root(&mut self, line: &str) -> Option<String> {
        if line == "end of the report" {
            return self.end();
        }
        match line.split_once(" \"") {
            Some(("server", _)) => self.whose = SERVER.into(),
            Some(("component", rest)) => self.whose = component(rest.split_once('"')?.0),
            _ => {}
        }
        let (n, rest) = line.trim_start().strip_prefix('#')?.split_once(' ')?;
        self.modules = vec![(0, self.whose.clone())];
        self.frame(n, rest.trim_start());
        None
    }

    fn end(&mut self) -> Option<String> {
        self.modules.clear();
        self.done = false;
        let text = std::mem::take(&mut self.text);
        (!text.is_empty()).then(|| format!("stack backtrace:\n{text}"))
    }

    fn frame(&mut self, n: &str, rest: &str) {
        let address = rest.split(' ').next().and_then(number);
        let (Some(address), false) = (address, self.done || self.text.len() > LONGEST) else { return };
        // A return address points after the call, possibly into another function.
        let instruction = if n == "0" { address } else { address.saturating_sub(1) };
        let module = self.modules.iter().filter(|(base, _)| *base <= instruction).max_by_key(|(base, _)| *base);
        let places = module.map(|(base, id)| self.symbols.find(id, instruction - base)).unwrap_or_default();
        if places.is_empty() {
            self.text.push_str(&format!("{n:>4}: {rest}\n"));
        } else {
            self.text.push_str(&frame(n, &places));
        }
        if !self.full && places.iter().any(|place| place.function.contains(BEGINNING)) {
            self.done = true;
        }
    }
}

fn number(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use object::{Object, ObjectSymbol};

    use super::*;

    #[test]
    fn a_report_without_names() {
        let mut reports = Reports::new(Files::default(), false);
        for line in [
            "E exception: process 'a' (1), thread 'b' (2): page fault (read) at 0x0; the process is ended",
            "I exception: rip 0x1010 (a+0x10)",
            "I exception: module 0x1000 a abcdef",
            "I exception: #0  0x1010 (a+0x10)",
            "I kernel: something else",
            "I exception: #1  0x2000",
        ] {
            assert_eq!(reports.line(line), None, "{line}");
        }
        let text = reports.line("I exception: end").unwrap();
        assert_eq!(text, "stack backtrace:\n   0: 0x1010 (a+0x10)\n   1: 0x2000\n");
        assert_eq!(reports.line("I exception: end"), None);
    }

    #[test]
    fn a_report_of_the_root_task() {
        let mut reports = Reports::new(Files::default(), false);
        for line in ["E root: server \"main\" read from 0x0 at 0x10", "E root:   #0  0x10", "E root:   #1  0x20"] {
            assert_eq!(reports.line(line), None, "{line}");
        }
        let text = reports.line("E root: end of the report").unwrap();
        assert_eq!(text, "stack backtrace:\n   0: 0x10\n   1: 0x20\n");
    }

    #[test]
    fn a_report_of_a_component_has_its_names() {
        let program = std::env::current_exe().unwrap();
        let bytes = std::fs::read(&program).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let names = |name: &str| name.contains("a_report_of_a_component_has_its_names");
        let symbol = file.symbols().find(|symbol| symbol.size() > 0 && symbol.name().is_ok_and(names)).unwrap();
        let files = Files { components: vec![("store".into(), program)], ..Files::default() };
        let report = |first: &str| {
            let mut reports = Reports::new(files.clone(), false);
            reports.line(first);
            reports.line(&format!("E root:   #0  {:#x}", symbol.address()));
            reports.line("E root: end of the report").unwrap()
        };
        assert!(names(&report("E root: component \"store\" wrote to 0x0 at 0x10")));
        // A report of any other program is ignored.
        for first in
            ["component \"other\" wrote to 0x0 at 0x10", "server \"store\" wrote to 0x0 at 0x10", "component \"store"]
        {
            assert!(!names(&report(&format!("E root: {first}"))), "{first}");
        }
    }

    #[test]
    fn a_report_without_end_is_not_kept() {
        let mut reports = Reports::new(Files::default(), true);
        for n in 0..100_000 {
            reports.line(&format!("I exception: module {n:#x} a abcdef"));
            reports.line(&format!("I exception: #{n}  {n:#x} (a+0x1)"));
        }
        assert!(reports.modules.len() <= MODULES && reports.text.len() < 2 * LONGEST);
    }

    proptest::proptest! {
        #[test]
        fn no_numbers_make_it_panic(
            lines in proptest::collection::vec((0..4, proptest::prelude::any::<u64>(), proptest::prelude::any::<bool>()), 0..20),
        ) {
            let mut reports = Reports::new(Files::default(), true);
            for (kind, n, extreme) in lines {
                let n = if extreme { u64::MAX - n % 2 } else { n };
                reports.line(&match kind {
                    0 => format!("I exception: module {n:#x} a abcdef"),
                    1 => format!("I exception: #{n} {n:#x}"),
                    2 => format!("E root:   #{n} {n:#x}"),
                    _ => "I exception: end".into(),
                });
            }
        }
    }

    #[test]
    fn damaged_lines_do_nothing() {
        let mut reports = Reports::new(Files::default(), true);
        for line in [
            "",
            "I exception: ",
            "I exception: #",
            "I exception: #0",
            "I exception: #x y",
            "I exception: module",
            "I exception: module zz",
        ] {
            assert_eq!(reports.line(line), None, "{line}");
        }
    }
}
