//! Decodes an untrusted message.

use core::fmt;

use crate::{HEADER_SIZE, HandleInfo, MAX_HANDLES, PROTOCOL, VERSION};

/// Why a message cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Shorter than its header.
    Truncated,
    /// Not a processargs message.
    BadProtocol,
    /// Another version of the protocol.
    BadVersion,
    /// More handles than a message can carry.
    TooManyHandles,
    /// The array of handle purposes is outside of the message.
    BadHandles,
    /// Arguments, environment or names are outside of the message or not terminated.
    BadStrings,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::Truncated => "the message is truncated",
            Error::BadProtocol => "not a processargs message",
            Error::BadVersion => "a processargs message of another version",
            Error::TooManyHandles => "more handles than a message can carry",
            Error::BadHandles => "the handle words lie outside the message",
            Error::BadStrings => "a string lies outside the message",
        })
    }
}

impl core::error::Error for Error {}

/// A checked message.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    handle_words: &'a [u8],
    args: Strings<'a>,
    environ: Strings<'a>,
    names: Strings<'a>,
}

impl<'a> Message<'a> {
    /// Checks a message that came with `handles` handles.
    ///
    /// # Errors
    /// An [`Error`] that says what is wrong with the message.
    pub fn parse(bytes: &'a [u8], handles: usize) -> Result<Message<'a>, Error> {
        let mut words = [0u32; HEADER_SIZE / 4];
        let header = bytes.get(..HEADER_SIZE).ok_or(Error::Truncated)?;
        for (word, bytes) in words.iter_mut().zip(header.chunks_exact(4)) {
            *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        let [protocol, version, handles_off, args_off, args_num, env_off, env_num, names_off, names_num] = words;
        if protocol != PROTOCOL {
            return Err(Error::BadProtocol);
        }
        if version != VERSION {
            return Err(Error::BadVersion);
        }
        if handles > MAX_HANDLES {
            return Err(Error::TooManyHandles);
        }
        let handle_words =
            part(bytes, handles_off).and_then(|part| part.get(..handles * 4)).ok_or(Error::BadHandles)?;
        Ok(Message {
            handle_words,
            args: Strings::parse(bytes, args_off, args_num)?,
            environ: Strings::parse(bytes, env_off, env_num)?,
            names: Strings::parse(bytes, names_off, names_num)?,
        })
    }

    /// The purpose of each handle, in the order of the handles.
    pub fn handles(&self) -> impl ExactSizeIterator<Item = HandleInfo> + 'a {
        self.handle_words
            .chunks_exact(4)
            .map(|word| HandleInfo::from_word(u32::from_le_bytes([word[0], word[1], word[2], word[3]])))
    }

    /// The index of the first handle with this purpose.
    pub fn find(&self, info: HandleInfo) -> Option<usize> {
        self.handles().position(|other| other == info)
    }

    /// The arguments, the program's name first.
    pub fn args(&self) -> Strings<'a> {
        self.args
    }

    /// The environment, `KEY=VALUE` each.
    pub fn environ(&self) -> Strings<'a> {
        self.environ
    }

    /// The names, which handles refer to by index.
    pub fn names(&self) -> Strings<'a> {
        self.names
    }
}

/// Iterator over strings, without their NULs.
#[derive(Clone, Copy, Debug)]
pub struct Strings<'a> {
    rest: &'a [u8],
    left: usize,
}

impl<'a> Strings<'a> {
    fn parse(bytes: &'a [u8], offset: u32, count: u32) -> Result<Strings<'a>, Error> {
        let left = count as usize;
        if left == 0 {
            return Ok(Strings { rest: &[], left });
        }
        let rest = part(bytes, offset).ok_or(Error::BadStrings)?;
        // Each string has at least one byte, so the search ends with the message, however many strings the header
        // claims.
        let mut nuls = rest.iter().enumerate().filter(|(_, byte)| **byte == 0).map(|(at, _)| at);
        let last = nuls.nth(left - 1).ok_or(Error::BadStrings)?;
        Ok(Strings { rest: &rest[..=last], left })
    }
}

impl<'a> Iterator for Strings<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let end = self.rest.iter().position(|byte| *byte == 0)?;
        let (string, rest) = self.rest.split_at(end);
        self.rest = &rest[1..];
        self.left = self.left.saturating_sub(1);
        Some(string)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Strings<'_> {}

fn part(bytes: &[u8], offset: u32) -> Option<&[u8]> {
    bytes.get(offset as usize..)
}
