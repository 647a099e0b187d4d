//! Redirections: the descriptors of a command while it runs.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use brush_parser::ast::{IoFileRedirectKind, IoFileRedirectTarget, IoRedirect};

use crate::state::{Shell, Stop, reason};

/// Open files by descriptor.
pub type Fds = BTreeMap<u32, Arc<File>>;

/// Creates a pipe: its reading end and its writing end.
///
/// # Errors
/// Errors of the system.
pub fn pipe() -> io::Result<(Arc<File>, Arc<File>)> {
    let (reader, writer) = io::pipe()?;
    Ok((Arc::new(File::from(OwnedFd::from(reader))), Arc::new(File::from(OwnedFd::from(writer)))))
}

/// A file that is at its end.
///
/// # Errors
/// Errors of the system.
pub fn nothing() -> io::Result<Arc<File>> {
    pipe().map(|(reader, _)| reader)
}

impl Shell {
    /// Applies redirections to this shell's descriptors; returns the previous ones.
    ///
    /// # Errors
    /// A file cannot be opened; a message has been printed, and the descriptors are unchanged.
    pub fn redirect<'a>(&mut self, redirections: impl IntoIterator<Item = &'a IoRedirect>) -> Result<Fds, Stop> {
        let before = self.fds.clone();
        for redirection in redirections {
            if let Err(stop) = self.redirect_one(redirection) {
                self.fds = before;
                return Err(stop);
            }
        }
        Ok(before)
    }

    fn redirect_one(&mut self, redirection: &IoRedirect) -> Result<(), Stop> {
        match redirection {
            IoRedirect::File(fd, kind, target) => self.redirect_file(*fd, kind, target),
            IoRedirect::HereDocument(fd, document) => {
                let text = match document.requires_expansion {
                    true => self.here_document(&document.doc.value)?,
                    false => document.doc.value.clone(),
                };
                self.text_input(*fd, text)
            }
            IoRedirect::HereString(fd, word) => {
                let text = self.text(&word.value)?;
                self.text_input(*fd, text + "\n")
            }
            IoRedirect::OutputAndError(word, append) => {
                let path = self.text(&word.value)?;
                let kind = if *append { IoFileRedirectKind::Append } else { IoFileRedirectKind::Write };
                let file = self.open(&path, &kind)?;
                self.fds.insert(1, file.clone());
                self.fds.insert(2, file);
                Ok(())
            }
        }
    }

    fn redirect_file(
        &mut self,
        fd: Option<i32>,
        kind: &IoFileRedirectKind,
        target: &IoFileRedirectTarget,
    ) -> Result<(), Stop> {
        let input = matches!(
            kind,
            IoFileRedirectKind::Read | IoFileRedirectKind::ReadAndWrite | IoFileRedirectKind::DuplicateInput
        );
        let fd = fd.map_or(if input { Ok(0) } else { Ok(1) }, u32::try_from);
        let fd = fd.map_err(|_| self.refused("redirection", "no descriptor has that number"))?;
        match target {
            IoFileRedirectTarget::Filename(word) => {
                let path = self.text(&word.value)?;
                let file = self.open(&path, kind)?;
                self.fds.insert(fd, file);
                Ok(())
            }
            IoFileRedirectTarget::Fd(other) => self.duplicate(fd, &other.to_string()),
            IoFileRedirectTarget::Duplicate(word) => {
                let other = self.text(&word.value)?;
                self.duplicate(fd, &other)
            }
            IoFileRedirectTarget::ProcessSubstitution(..) => {
                Err(self.refused("redirection", "process substitution is not supported"))
            }
        }
    }

    fn duplicate(&mut self, fd: u32, other: &str) -> Result<(), Stop> {
        if other == "-" {
            self.fds.remove(&fd);
            return Ok(());
        }
        let (number, close) = match other.strip_suffix('-') {
            Some(number) => (number, true),
            None => (other, false),
        };
        let number = number.parse().ok();
        match number.and_then(|number| self.fds.get(&number).cloned()) {
            Some(file) => {
                self.fds.insert(fd, file);
                if let Some(number) = number.filter(|number| close && *number != fd) {
                    self.fds.remove(&number);
                }
                Ok(())
            }
            None => Err(self.refused(other, "there is no such descriptor")),
        }
    }

    fn open(&mut self, path: &str, kind: &IoFileRedirectKind) -> Result<Arc<File>, Stop> {
        let full = self.path(path);
        let mut options = OpenOptions::new();
        match kind {
            IoFileRedirectKind::Read | IoFileRedirectKind::DuplicateInput => options.read(true),
            IoFileRedirectKind::Append => options.append(true).create(true),
            IoFileRedirectKind::ReadAndWrite => options.read(true).write(true).create(true).truncate(false),
            IoFileRedirectKind::Write | IoFileRedirectKind::Clobber | IoFileRedirectKind::DuplicateOutput => {
                options.write(true).create(true).truncate(true)
            }
        };
        if path.is_empty() {
            return Err(self.refused("redirection", "an empty path names no file"));
        }
        options.open(full).map(Arc::new).map_err(|error| self.refused(path, &reason(&error)))
    }

    /// Provides a text as input, however long it is.
    fn text_input(&mut self, fd: Option<i32>, text: String) -> Result<(), Stop> {
        let made = pipe().and_then(|(reader, writer)| {
            // If the command closes the pipe early, the write fails and the thread ends.
            let write = move || _ = writer.as_ref().write_all(text.as_bytes());
            std::thread::Builder::new().name("here".to_owned()).spawn(write)?;
            Ok(reader)
        });
        let reader = made.map_err(|error| self.refused("here-document", &reason(&error)))?;
        self.fds.insert(fd.and_then(|fd| u32::try_from(fd).ok()).unwrap_or(0), reader);
        Ok(())
    }

    fn refused(&self, what: &str, problem: &str) -> Stop {
        self.complain(what, problem);
        Stop::Abort(1)
    }
}
