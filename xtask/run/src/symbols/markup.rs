//! Replaces the backtraces of `std`, which are Fuchsia's symbolizer markup, by names in a stream.
//!
//! 1. `{{{reset:begin}}}` begins a backtrace.
//! 2. `{{{module:ID:NAME:elf:BUILD-ID}}}` names an image; `{{{mmap:START:SIZE:load:ID:FLAGS:ADDRESS}}}` gives the
//!    address of one of its segments.
//! 3. `{{{bt:N:ADDRESS}}}` is a frame, which is shown by name. Its address is that of the instruction after the call.
//! 4. `{{{reset:end}}}` ends the backtrace.
//!
//! Other lines pass unchanged, at once. A line of markup is held back until its end arrives, and only as long as it can
//! still be markup.

use std::collections::BTreeMap;

use super::{Files, Symbols, frame};

/// Prefixes of lines of markup.
const TAGS: [&str; 4] = ["{{{reset:", "{{{module:", "{{{mmap:", "{{{bt:"];
/// Maximum length of a line of markup.
const LONGEST: usize = 4096;
/// Maximum number of images, and of their segments, between two `reset`: real programs have fewer. Later ones pass
/// unchanged.
const MOST: usize = 1024;

/// A segment of an image in memory.
struct Mapping {
    start: u64,
    size: u64,
    module: u64,
    address: u64,
}

struct Module {
    name: String,
    id: String,
}

/// The filter of a stream; see the description of the module.
pub struct Filter {
    symbols: Symbols,
    modules: BTreeMap<u64, Module>,
    mappings: Vec<Mapping>,
    /// The beginning of a line that may be markup.
    held: Vec<u8>,
    /// Whether the next byte begins a line.
    fresh: bool,
}

impl Filter {
    /// A filter for a stream whose images are among these files.
    pub fn new(files: Files) -> Filter {
        Filter {
            symbols: Symbols::new(files),
            modules: BTreeMap::new(),
            mappings: Vec::new(),
            held: Vec::new(),
            fresh: true,
        }
    }

    /// Takes some bytes; returns those that can be shown now.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        // The fast path: usually there is no markup.
        if self.held.is_empty() && !bytes.windows(3).any(|three| three == b"{{{") {
            self.fresh = bytes.last().map_or(self.fresh, |&last| last == b'\n');
            return bytes.to_vec();
        }
        let mut out = Vec::with_capacity(bytes.len());
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            if self.held.is_empty() && !(self.fresh && line.starts_with(b"{{{")) {
                out.extend_from_slice(line);
            } else {
                self.held.extend_from_slice(line);
                self.settle(&mut out);
            }
            self.fresh = line.ends_with(b"\n");
        }
        out
    }

    /// Ends the stream; returns bytes that are still held back.
    pub fn end(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }

    /// Handles the line that is held back.
    fn settle(&mut self, out: &mut Vec<u8>) {
        let whole = self.held.ends_with(b"\n");
        let possible = TAGS.iter().any(|tag| {
            let length = tag.len().min(self.held.len());
            tag.as_bytes()[..length] == self.held[..length]
        });
        if possible && !whole && self.held.len() < LONGEST {
            return;
        }
        let line = std::mem::take(&mut self.held);
        let element =
            std::str::from_utf8(&line).ok().and_then(|text| text.trim_end().strip_prefix("{{{")?.strip_suffix("}}}"));
        match element.filter(|_| possible).and_then(|element| self.element(element)) {
            Some(shown) => out.extend_from_slice(shown.as_bytes()),
            None => out.extend_from_slice(&line),
        }
    }

    /// The text for an element; `None` if it is unknown.
    fn element(&mut self, element: &str) -> Option<String> {
        let fields: Vec<&str> = element.split(':').collect();
        match *fields.as_slice() {
            ["reset", ..] => {
                self.modules.clear();
                self.mappings.clear();
                Some(String::new())
            }
            ["module", number, name, "elf", id] => {
                let number = parse(number)?;
                if self.modules.len() >= MOST && !self.modules.contains_key(&number) {
                    return None;
                }
                self.modules.insert(number, Module { name: name.into(), id: id.to_lowercase() });
                Some(String::new())
            }
            ["mmap", start, size, "load", module, _, address] if self.mappings.len() < MOST => {
                let [start, size, module, address] = [start, size, module, address].map(parse);
                self.mappings.push(Mapping { start: start?, size: size?, module: module?, address: address? });
                Some(String::new())
            }
            ["bt", number, address, ..] if number.parse::<u32>().is_ok() => Some(self.frame(number, parse(address)?)),
            _ => None,
        }
    }

    fn frame(&mut self, number: &str, address: u64) -> String {
        // All numbers come from the program. If a sum of them overflows, no mapping matches.
        let call = address.saturating_sub(1);
        let inside = |mapping: &Mapping| {
            let offset = call.checked_sub(mapping.start).filter(|offset| *offset < mapping.size)?;
            Some((self.modules.get(&mapping.module)?, mapping.address.checked_add(offset)?))
        };
        let Some((module, inside)) = self.mappings.iter().find_map(inside) else {
            return format!("{number:>4}: {address:#x}\n");
        };
        match self.symbols.find(&module.id, inside).as_slice() {
            [] => format!("{number:>4}: {address:#x} ({}+{:#x})\n", called(&module.name), inside.saturating_add(1)),
            places => frame(number, places),
        }
    }
}

/// `std` does not name the program itself.
fn called(name: &str) -> &str {
    if name.is_empty() { "the program" } else { name }
}

fn parse(number: &str) -> Option<u64> {
    match number.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(pieces: &[&[u8]]) -> String {
        let mut filter = Filter::new(Files::default());
        let mut out: Vec<u8> = pieces.iter().flat_map(|piece| filter.push(piece)).collect();
        out.extend(filter.end());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_is_no_markup_passes_at_once() {
        let mut filter = Filter::new(Files::default());
        for text in ["{", "{{", "\n{{{", "abc{{{bt:0:0x1}}}\n", "{{{ template }}}\n", "{{{symbol:x}}}\n"] {
            let passed = filter.push(text.as_bytes());
            let ends_unsure = text.ends_with("{{{");
            assert_eq!(passed == text.as_bytes(), !ends_unsure, "{text:?}");
            assert_eq!(filter.end().is_empty(), !ends_unsure);
        }
        assert_eq!(filter.push(b"> {{{"), b"> {{{");
    }

    #[test]
    fn frames_without_names_keep_their_place() {
        let text = all(&[
            b"stack backtrace:\n{{{reset:begin}}}\n{{{module:0x0::elf:",
            b"aa}}}\n{{{module:0x1:libc.so:elf:bb}}}\n{{{mmap:0x1000:0x1000:load:0x0:rx:0x0}}}\n",
            b"{{{mmap:0x8000:0x1000:load:0x1:rx:0x100}}}\n{{{bt:0:0x1010}}}\n{{{bt:1:0x8010}}}\n{{{bt:12:0x9}}}\n{{{reset:end}}}\nnote\n",
        ]);
        let expected =
            "stack backtrace:\n   0: 0x1010 (the program+0x10)\n   1: 0x8010 (libc.so+0x110)\n  12: 0x9\nnote\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn damaged_markup_is_shown_as_it_is() {
        for text in
            ["{{{bt:0:zz}}}\n", "{{{bt:x:0x1}}}\n", "{{{bt:0}}}\n", "{{{mmap:1:2}}}\n", "{{{bt:0:0x1}}\n", "{{{module:"]
        {
            assert_eq!(all(&[text.as_bytes()]), text);
        }
        let long = format!("{{{{{{bt:0:{}", "1".repeat(2 * LONGEST));
        assert_eq!(all(&[long.as_bytes()]), long);
    }

    /// A number in markup, often an extreme one.
    fn number() -> impl Strategy<Value = String> {
        let extreme = prop_oneof![Just(0), Just(1), Just(0x1000), Just(i64::MAX as u64), Just(u64::MAX), any::<u64>()];
        (extreme, any::<bool>()).prop_map(|(n, hex)| if hex { format!("{n:#x}") } else { n.to_string() })
    }

    /// A line of markup with valid syntax.
    fn element() -> impl Strategy<Value = String> {
        prop_oneof![
            Just("{{{reset:begin}}}\n".to_string()),
            number().prop_map(|n| format!("{{{{{{module:{n}:name:elf:aa}}}}}}\n")),
            (number(), number(), number(), number()).prop_map(|(start, size, module, address)| format!(
                "{{{{{{mmap:{start}:{size}:load:{module}:rx:{address}}}}}}}\n"
            )),
            (0u32.., number()).prop_map(|(n, address)| format!("{{{{{{bt:{n}:{address}}}}}}}\n")),
        ]
    }

    /// An input that once made a thread of this tool panic.
    #[test]
    fn a_module_at_the_end_of_all_addresses() {
        let text = "{{{reset:begin}}}\n{{{module:0:x:elf:aa}}}\n\
                    {{{mmap:0x0:0xffffffffffffffff:load:0:rx:0xffffffffffffffff}}}\n{{{bt:0:0x1000}}}\n";
        assert_eq!(all(&[text.as_bytes()]), "   0: 0x1000\n");
        let text = "{{{module:0:x:elf:aa}}}\n{{{mmap:0x1000:0x10:load:0:rx:0xffffffffffffffff}}}\n{{{bt:0:0x1001}}}\n";
        assert_eq!(all(&[text.as_bytes()]), "   0: 0x1001 (x+0xffffffffffffffff)\n");
    }

    #[test]
    fn images_without_end_are_not_kept() {
        let mut filter = Filter::new(Files::default());
        for n in 0..3 * MOST {
            filter.push(format!("{{{{{{module:{n}:x:elf:{n}}}}}}}\n{{{{{{mmap:{n}:1:load:0:rx:0}}}}}}\n").as_bytes());
        }
        assert_eq!((filter.modules.len(), filter.mappings.len()), (MOST, MOST));
    }

    proptest! {
        #[test]
        fn no_numbers_make_it_panic(lines in proptest::collection::vec(element(), 0..12)) {
            all(&[lines.concat().as_bytes()]);
        }

        #[test]
        fn other_bytes_stay_as_they_are(
            pieces in proptest::collection::vec(proptest::collection::vec(prop_oneof![Just(b'{'), Just(b'\n'), Just(b'b'), any::<u8>()], 0..40), 0..12),
        ) {
            let mut filter = Filter::new(Files::default());
            let mut out: Vec<u8> = pieces.iter().flat_map(|piece| filter.push(piece)).collect();
            out.extend(filter.end());
            prop_assert_eq!(out, pieces.concat());
        }
    }
}
