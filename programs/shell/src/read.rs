//! The source of commands: a text, a file, or a user's lines.

use std::fs;
use std::io::{self, BufReader};

use brush_parser::ast::Program;
use brush_parser::{ParseError, Parser};

use crate::expand::parser_options;
use crate::group::{self, Group};
use crate::state::{Run, Shell, Stop, reason};

/// Maximum length of a line; longer ones are refused.
const LONGEST: usize = 1 << 20;

fn parse(text: &str) -> Result<Program, ParseError> {
    Parser::new(BufReader::new(text.as_bytes()), &parser_options()).parse_program()
}

/// Whether more lines could complete the program.
fn is_unfinished(error: &ParseError) -> bool {
    match error {
        ParseError::ParsingAtEndOfInput => true,
        ParseError::Tokenizing { inner, .. } => inner.is_incomplete(),
        ParseError::ParsingNear(_) => false,
    }
}

impl Shell {
    /// Parses a text.
    ///
    /// # Errors
    /// It cannot be parsed; a message has been printed.
    pub fn parse(&self, text: &str) -> Result<Program, Stop> {
        parse(text).map_err(|error| {
            self.error_line(&format!("sh: {error}"));
            Stop::Abort(2)
        })
    }

    /// Runs a text in this shell.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn evaluate_text(&mut self, who: &str, text: &str) -> Run {
        let program = self.parse(text)?;
        // Without any command the status is 0.
        self.status = if program.complete_commands.is_empty() { 0 } else { self.status };
        self.deeper(who, |shell| shell.program(&program))
    }

    /// Runs a file; returns its status.
    pub fn file(&mut self, path: &str) -> i64 {
        match fs::read(self.path(path)) {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                self.finish(|shell| shell.evaluate_text(path, &text))
            }
            Err(error) => {
                self.complain(path, &reason(&error));
                if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 }
            }
        }
    }

    /// Runs standard input line by line, up to its end or `exit`; returns the status.
    pub fn lines(&mut self) -> i64 {
        let interactive = self.options.interactive;
        let mut text = String::new();
        loop {
            if interactive {
                self.report_jobs();
                self.prompt(text.is_empty());
            }
            let end = match self.line() {
                Some(line) => {
                    text.push_str(&line);
                    text.push('\n');
                    false
                }
                None => true,
            };
            if end && text.is_empty() {
                if interactive {
                    self.error_line("");
                }
                return self.finish(|shell| Ok(shell.status));
            }
            if text.len() > LONGEST {
                self.complain("input", "this command is too long");
                text.clear();
                self.status = 2;
                continue;
            }
            let program = match parse(&text) {
                Ok(program) => program,
                Err(error) if is_unfinished(&error) && !end => continue,
                Err(error) => {
                    self.error_line(&format!("sh: {error}"));
                    self.status = 2;
                    text.clear();
                    if interactive && !end {
                        continue;
                    }
                    return self.finish(|_| Ok(2));
                }
            };
            text.clear();
            if interactive {
                self.group = Group::new();
                group::set_foreground(Some(self.group.clone()));
            }
            let result = self.program(&program);
            group::set_foreground(None);
            match result {
                Ok(status) => self.status = status,
                Err(Stop::Exit(status)) => return self.finish(|_| Ok(status)),
                Err(Stop::Abort(status)) if !interactive => return self.finish(|_| Ok(status)),
                Err(Stop::Abort(status) | Stop::Return(status)) => self.status = status,
                Err(Stop::Break(_) | Stop::Continue(_)) => {}
            }
        }
    }

    fn prompt(&mut self, first: bool) {
        let name = if first { "PS1" } else { "PS2" };
        let text = self.get(name).unwrap_or("hafnon$ ").to_owned();
        let text = self.text(&text).unwrap_or(text);
        self.out(text);
    }

    /// Reads a line without its end, byte by byte, because the following input may be for a program.
    fn line(&self) -> Option<String> {
        let mut bytes = Vec::new();
        loop {
            match self.byte().flatten() {
                Some(b'\n') => break,
                Some(byte) => bytes.push(byte),
                None if bytes.is_empty() => return None,
                None => break,
            }
        }
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}
