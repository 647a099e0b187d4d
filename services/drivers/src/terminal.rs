//! The line discipline of a serial line: echo, line editing, history, and the two special keys.
//!
//! The user's terminal must understand three commands: backspace, cursor left (`ESC [ n D`) and erase to the end of the
//! line (`ESC [ K`). One character takes one column.

/// Number of lines in the history.
const HISTORY: usize = 100;
/// Maximum length of a line in characters. Further characters ring the bell.
const LONGEST: usize = 4000;

/// The result of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Typed {
    /// A complete line, including its newline.
    Line(Vec<u8>),
    /// The user wants the program to end (Ctrl-C).
    Interrupt,
    /// The input ends (Ctrl-D at the start of a line).
    End,
}

/// State of parsing an escape sequence from the keyboard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Escape {
    #[default]
    None,
    /// After ESC.
    Began,
    /// After `ESC [` or `ESC O`, with the number so far.
    Number(u8),
}

/// The line that is being typed, and the history.
#[derive(Clone, Debug, Default)]
pub struct Terminal {
    line: Vec<char>,
    /// Cursor position, in characters from the line's start.
    at: usize,
    /// Bytes of an incomplete character.
    partial: Vec<u8>,
    escape: Escape,
    history: Vec<Vec<char>>,
    /// Index of the history line that is shown; the history's length for the new line.
    shown: usize,
    /// The new line, while a history line is shown.
    kept: Vec<char>,
    /// The last byte was the CR of a CR LF.
    returned: bool,
}

impl Terminal {
    /// Handles a byte from the keyboard; appends what the terminal must show to `echo`.
    pub fn key(&mut self, byte: u8, echo: &mut Vec<u8>) -> Option<Typed> {
        if self.escape != Escape::None {
            self.command(byte, echo);
            return None;
        }
        let returned = core::mem::replace(&mut self.returned, byte == b'\r');
        match byte {
            b'\n' if returned => {}
            b'\r' | b'\n' => return Some(Typed::Line(self.enter(echo))),
            3 => {
                self.clear();
                echo.extend_from_slice(b"^C\r\n");
                return Some(Typed::Interrupt);
            }
            4 if self.line.is_empty() => return Some(Typed::End),
            4 => self.delete(echo),
            8 | 0x7f => self.backspace(echo),
            1 => self.go(0, echo),
            5 => self.go(self.line.len(), echo),
            2 => self.go(self.at.saturating_sub(1), echo),
            6 => self.go(self.at + 1, echo),
            11 => {
                self.line.truncate(self.at);
                echo.extend_from_slice(b"\x1b[K");
            }
            21 => self.cut(0, echo),
            23 => self.cut(self.word_start(), echo),
            16 => self.recall(self.shown.wrapping_sub(1), echo),
            14 => self.recall(self.shown + 1, echo),
            0x1b => self.escape = Escape::Began,
            b'\t' => self.insert(' ', echo),
            0..0x20 => {}
            0x20..0x80 => self.insert(char::from(byte), echo),
            0x80.. => self.part(byte, echo),
        }
        None
    }

    /// Converts a program's output for the terminal: lines end with CR and LF.
    pub fn output(bytes: &[u8], out: &mut Vec<u8>) {
        for &byte in bytes {
            if byte == b'\n' {
                out.push(b'\r');
            }
            out.push(byte);
        }
    }

    /// Discards the line that is being typed.
    fn clear(&mut self) {
        self.line.clear();
        self.partial.clear();
        (self.at, self.shown) = (0, self.history.len());
    }

    fn enter(&mut self, echo: &mut Vec<u8>) -> Vec<u8> {
        echo.extend_from_slice(b"\r\n");
        let text: String = self.line.iter().chain(&['\n']).collect();
        if !self.line.is_empty() && self.history.last() != Some(&self.line) {
            if self.history.len() == HISTORY {
                self.history.remove(0);
            }
            self.history.push(core::mem::take(&mut self.line));
        }
        self.clear();
        text.into_bytes()
    }

    /// Handles a byte of a multi-byte character.
    fn part(&mut self, byte: u8, echo: &mut Vec<u8>) {
        self.partial.push(byte);
        match core::str::from_utf8(&self.partial) {
            Ok(text) => {
                let char = text.chars().next();
                self.partial.clear();
                char.into_iter().for_each(|char| self.insert(char, echo));
            }
            Err(error) if error.error_len().is_none() => {}
            Err(_) => self.partial.clear(),
        }
    }

    /// Handles a byte of an escape sequence: the arrows, Home, End, Delete.
    fn command(&mut self, byte: u8, echo: &mut Vec<u8>) {
        let escape = core::mem::take(&mut self.escape);
        let Escape::Number(number) = escape else {
            if matches!(byte, b'[' | b'O') {
                self.escape = Escape::Number(0);
            }
            return;
        };
        match byte {
            b'0'..=b'9' => self.escape = Escape::Number(number.saturating_mul(10).saturating_add(byte - b'0')),
            // A modifier follows. It is ignored.
            b';' => self.escape = Escape::Number(0),
            b'A' => self.recall(self.shown.wrapping_sub(1), echo),
            b'B' => self.recall(self.shown + 1, echo),
            b'C' => self.go(self.at + 1, echo),
            b'D' => self.go(self.at.saturating_sub(1), echo),
            b'H' => self.go(0, echo),
            b'F' => self.go(self.line.len(), echo),
            b'~' if matches!(number, 1 | 7) => self.go(0, echo),
            b'~' if matches!(number, 4 | 8) => self.go(self.line.len(), echo),
            b'~' if number == 3 => self.delete(echo),
            _ => {}
        }
    }

    fn insert(&mut self, char: char, echo: &mut Vec<u8>) {
        if self.line.len() >= LONGEST {
            echo.push(7);
            return;
        }
        self.line.insert(self.at, char);
        self.show_from(self.at, echo);
        self.at += 1;
        left(self.line.len() - self.at, echo);
    }

    fn backspace(&mut self, echo: &mut Vec<u8>) {
        if self.at > 0 {
            self.cut(self.at - 1, echo);
        }
    }

    fn delete(&mut self, echo: &mut Vec<u8>) {
        if self.at < self.line.len() {
            self.line.remove(self.at);
            self.show_from(self.at, echo);
            echo.extend_from_slice(b"\x1b[K");
            left(self.line.len() - self.at, echo);
        }
    }

    /// Removes the characters between `start` and the cursor.
    fn cut(&mut self, start: usize, echo: &mut Vec<u8>) {
        left(self.at - start, echo);
        self.line.drain(start..self.at);
        self.at = start;
        self.show_from(start, echo);
        echo.extend_from_slice(b"\x1b[K");
        left(self.line.len() - start, echo);
    }

    /// Start of the word before the cursor.
    fn word_start(&self) -> usize {
        let before = self.line[..self.at].iter().rposition(|char| *char != ' ').unwrap_or(0);
        self.line[..before].iter().rposition(|char| *char == ' ').map_or(0, |blank| blank + 1)
    }

    fn go(&mut self, to: usize, echo: &mut Vec<u8>) {
        let to = to.min(self.line.len());
        if to < self.at {
            left(self.at - to, echo);
        } else {
            // Writing the same characters again moves the cursor on any terminal.
            echo.extend(self.line[self.at..to].iter().collect::<String>().into_bytes());
        }
        self.at = to;
    }

    /// Shows another line of the history, or the new line again.
    fn recall(&mut self, which: usize, echo: &mut Vec<u8>) {
        if which > self.history.len() {
            return;
        }
        if self.shown == self.history.len() {
            self.kept = self.line.clone();
        }
        self.shown = which;
        left(self.at, echo);
        self.line = self.history.get(which).unwrap_or(&self.kept).clone();
        self.at = self.line.len();
        self.show_from(0, echo);
        echo.extend_from_slice(b"\x1b[K");
    }

    fn show_from(&self, start: usize, echo: &mut Vec<u8>) {
        echo.extend(self.line[start..].iter().collect::<String>().into_bytes());
    }
}

/// Moves the cursor left.
fn left(columns: usize, echo: &mut Vec<u8>) {
    match columns {
        0 => {}
        1 => echo.push(8),
        _ => echo.extend_from_slice(format!("\x1b[{columns}D").as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A simulated terminal with one line, with the commands that [`Terminal`] uses.
    #[derive(Default)]
    struct Screen {
        cells: Vec<char>,
        at: usize,
    }

    impl Screen {
        fn show(&mut self, bytes: &[u8]) {
            let text = core::str::from_utf8(bytes).expect("whole characters");
            let mut chars = text.chars();
            while let Some(char) = chars.next() {
                match char {
                    '\u{8}' => self.at = self.at.checked_sub(1).expect("left of the line's start"),
                    '\u{1b}' => {
                        assert_eq!(chars.next(), Some('['));
                        let mut number = String::new();
                        match chars.by_ref().find(|c| {
                            if c.is_ascii_digit() {
                                number.push(*c)
                            }
                            !c.is_ascii_digit()
                        }) {
                            Some('K') => self.cells.truncate(self.at),
                            Some('D') => self.at = self.at.checked_sub(number.parse().unwrap()).expect("left of it"),
                            other => panic!("unknown command {other:?}"),
                        }
                    }
                    '\r' => self.at = 0,
                    '\n' => *self = Screen::default(),
                    '\u{7}' => {}
                    char => {
                        if self.at < self.cells.len() {
                            self.cells[self.at] = char
                        } else {
                            self.cells.push(char)
                        }
                        self.at += 1;
                    }
                }
            }
        }
    }

    fn typed(keys: &[u8]) -> Vec<Typed> {
        let (mut terminal, mut echo) = (Terminal::default(), Vec::new());
        keys.iter().filter_map(|key| terminal.key(*key, &mut echo)).collect()
    }

    fn line(text: &str) -> Typed {
        Typed::Line(text.as_bytes().to_vec())
    }

    #[test]
    fn lines_are_edited() {
        assert_eq!(typed(b"ls bin\r"), [line("ls bin\n")]);
        assert_eq!(typed(b"lx\x7fs\r\nx\n"), [line("ls\n"), line("x\n")]);
        assert_eq!(typed(b"bc\x01a\x05d\r"), [line("abcd\n")]);
        assert_eq!(typed(b"one two\x17three\r"), [line("one three\n")]);
        assert_eq!(typed(b"nothing\x15all\r"), [line("all\n")]);
        assert_eq!(typed(b"ab\x1b[D\x1b[3~c\r"), [line("ac\n")]);
        assert_eq!(typed("hä\u{7f}é\r".as_bytes()), [line("hé\n")]);
    }

    #[test]
    fn the_history_is_walked() {
        assert_eq!(typed(b"a\rb\rnew\x1b[A\x1b[A\r"), [line("a\n"), line("b\n"), line("a\n")]);
        assert_eq!(typed(b"a\rnew\x1b[A\x1b[B!\r"), [line("a\n"), line("new!\n")]);
        assert_eq!(typed(b"\x1b[A\x1b[Bx\r"), [line("x\n")]);
    }

    #[test]
    fn keys_with_a_meaning() {
        assert_eq!(typed(b"half\x03\x04"), [Typed::Interrupt, Typed::End]);
        assert_eq!(typed(b"a\x04\r"), [line("a\n")]);
    }

    #[test]
    fn output_ends_lines_with_both() {
        let mut out = Vec::new();
        Terminal::output(b"a\nb\n", &mut out);
        assert_eq!(out, b"a\r\nb\r\n");
    }

    proptest! {
        /// After any input, the screen shows the line and the cursor in it.
        #[test]
        fn the_screen_shows_the_line(keys in proptest::collection::vec(
            prop_oneof![
                4 => "[a-z ä€]".prop_map(|key| key.into_bytes()),
                1 => (0u8..0x20).prop_filter("ends", |key| ![3, 0x1b].contains(key)).prop_map(|key| vec![key]),
                1 => Just(vec![0x7f]),
                2 => "[ABCDHF]".prop_map(|key| format!("\x1b[{key}").into_bytes()),
                1 => Just(b"\x1b[3~".to_vec()),
            ], 0..80)) {
            let (mut terminal, mut screen) = (Terminal::default(), Screen::default());
            for byte in keys.into_iter().flatten() {
                let mut echo = Vec::new();
                let _ = terminal.key(byte, &mut echo);
                screen.show(&echo);
                prop_assert_eq!(&screen.cells, &terminal.line);
                prop_assert_eq!(screen.at, terminal.at);
            }
        }

        #[test]
        fn no_bytes_make_it_panic(keys in proptest::collection::vec(any::<u8>(), 0..300)) {
            typed(&keys);
        }
    }
}
