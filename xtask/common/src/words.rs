//! Untrusted text for people: the system's messages, and names that programs in it have chosen.
//!
//! A control character could move the cursor, change colours, or begin a line that seems to come from another source.
//! So it is shown escaped (`\u{1b}`). A program's own output is not such text: it is passed on unchanged.

use std::borrow::Cow;
use std::io::Write as _;

/// Whether a character has an effect other than being shown.
fn acts(c: char) -> bool {
    // In addition to control characters: line and paragraph separators, and characters that change the direction of the
    // text.
    let directs = matches!(c, '\u{061c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() && c != '\t' || directs
}

/// A text of one line, with active characters escaped.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(acts) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if acts(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown.into()
}

/// The same for a text of several lines: newlines stay.
pub fn visible_lines(text: &str) -> Cow<'_, str> {
    if !text.contains(|c| acts(c) && c != '\n') {
        return text.into();
    }
    text.split('\n').map(visible).collect::<Vec<_>>().join("\n").into()
}

/// Prints text on standard error, one line or several. If standard error is closed, the error is ignored.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", visible_lines(text));
}

/// Assembles lines from pieces. A line that is too long to keep is cut.
#[derive(Debug, Default)]
pub struct Lines(Vec<u8>);

impl Lines {
    /// Maximum length of a line in bytes.
    pub const LONGEST: usize = 16 << 10;

    /// Takes a piece; passes each complete line to `line`, without its newline.
    pub fn push(&mut self, piece: &[u8], mut line: impl FnMut(&str)) {
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = part.strip_suffix(b"\n").map_or((part, false), |text| (text, true));
            let mut rest = text;
            while self.0.len() + rest.len() > Lines::LONGEST {
                let (now, later) = rest.split_at(Lines::LONGEST - self.0.len());
                self.0.extend_from_slice(now);
                self.give(&mut line);
                rest = later;
            }
            self.0.extend_from_slice(rest);
            if ends {
                self.give(&mut line);
            }
        }
    }

    /// Ends the input; passes an incomplete last line.
    pub fn end(&mut self, mut line: impl FnMut(&str)) {
        if !self.0.is_empty() {
            self.give(&mut line);
        }
    }

    fn give(&mut self, line: &mut impl FnMut(&str)) {
        line(String::from_utf8_lossy(&self.0).trim_end_matches('\r'));
        self.0.clear();
    }
}

/// The last lines of a text.
pub fn tail(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn control_characters_are_escaped() {
        for (text, shown) in [
            ("plain, with\ta tab and ä", "plain, with\ta tab and ä"),
            ("\x1b[31mred", "\\u{1b}[31mred"),
            ("a\nE init", "a\\nE init"),
            ("a\rb", "a\\rb"),
            ("\u{9b}2J\x7f", "\\u{9b}2J\\u{7f}"),
            ("\u{202e}txt", "\\u{202e}txt"),
        ] {
            assert_eq!(visible(text), shown);
        }
        assert_eq!(visible_lines("a\nb\x1bc\n"), "a\nb\\u{1b}c\n");
    }

    #[test]
    fn an_endless_line_is_cut() {
        let (mut lines, mut count) = (Lines::default(), 0);
        for _ in 0..100 {
            lines.push(&[b'x'; 4000], |line| {
                assert_eq!(line.len(), Lines::LONGEST);
                count += 1;
            });
            assert!(lines.0.capacity() <= 4 * Lines::LONGEST);
        }
        assert_eq!(count, 400_000 / Lines::LONGEST);
    }

    proptest! {
        #[test]
        fn nothing_that_is_shown_acts(text in any::<String>()) {
            prop_assert!(!visible(&text).contains(acts));
        }

        #[test]
        fn pieces_do_not_matter(text in "[a-c\n]{0,200}", size in 1usize..50) {
            let (mut lines, mut found) = (Lines::default(), Vec::new());
            text.as_bytes().chunks(size).for_each(|piece| lines.push(piece, |line| found.push(line.to_string())));
            lines.end(|line| found.push(line.to_string()));
            prop_assert_eq!(found, text.lines().collect::<Vec<_>>());
        }
    }
}
