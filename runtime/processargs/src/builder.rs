//! Builds a message.

use alloc::vec::Vec;
use core::fmt;

use crate::{HEADER_SIZE, HandleInfo, MAX_BYTES, MAX_HANDLES, PROTOCOL, VERSION};

/// Why a message cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// The message would exceed [`MAX_BYTES`]: arguments and environment are too long or too many.
    TooLong,
    /// More than [`MAX_HANDLES`] handles.
    TooManyHandles,
    /// A string contains a NUL.
    NulInString,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BuildError::TooLong => "arguments and environment are too long",
            BuildError::TooManyHandles => "too many handles",
            BuildError::NulInString => "an argument or environment string has a NUL inside",
        })
    }
}

impl core::error::Error for BuildError {}

/// Collects the parts of a message.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    handles: Vec<HandleInfo>,
    args: Part,
    environ: Part,
    names: Part,
    bad_string: bool,
}

#[derive(Clone, Debug, Default)]
struct Part {
    bytes: Vec<u8>,
    count: u32,
}

impl Part {
    fn push(&mut self, string: &[u8]) {
        self.bytes.extend_from_slice(string);
        self.bytes.push(0);
        self.count = self.count.saturating_add(1);
    }
}

impl Builder {
    /// A message without parts.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Adds the next handle's purpose. The caller sends the handles in the same order.
    pub fn handle(&mut self, info: HandleInfo) -> &mut Builder {
        self.handles.push(info);
        self
    }

    /// Adds an argument; the first is the program's name.
    pub fn arg(&mut self, arg: &[u8]) -> &mut Builder {
        self.bad_string |= arg.contains(&0);
        self.args.push(arg);
        self
    }

    /// Adds an environment string, `KEY=VALUE`.
    pub fn env(&mut self, entry: &[u8]) -> &mut Builder {
        self.bad_string |= entry.contains(&0);
        self.environ.push(entry);
        self
    }

    /// Adds a name.
    pub fn name(&mut self, name: &[u8]) -> &mut Builder {
        self.bad_string |= name.contains(&0);
        self.names.push(name);
        self
    }

    /// Number of handles added.
    pub fn handle_count(&self) -> usize {
        self.handles.len()
    }

    /// Encodes the message.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build(&self) -> Result<Vec<u8>, BuildError> {
        if self.bad_string {
            return Err(BuildError::NulInString);
        }
        if self.handles.len() > MAX_HANDLES {
            return Err(BuildError::TooManyHandles);
        }
        let args_off = HEADER_SIZE + self.handles.len() * 4;
        let environ_off = args_off + self.args.bytes.len();
        let names_off = environ_off + self.environ.bytes.len();
        let end = names_off + self.names.bytes.len();
        if end > MAX_BYTES {
            return Err(BuildError::TooLong);
        }
        let words = [
            PROTOCOL,
            VERSION,
            HEADER_SIZE as u32,
            args_off as u32,
            self.args.count,
            environ_off as u32,
            self.environ.count,
            names_off as u32,
            self.names.count,
        ];
        let mut bytes = Vec::with_capacity(end);
        for word in words.into_iter().chain(self.handles.iter().map(|info| info.to_word())) {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        for part in [&self.args, &self.environ, &self.names] {
            bytes.extend_from_slice(&part.bytes);
        }
        Ok(bytes)
    }
}
