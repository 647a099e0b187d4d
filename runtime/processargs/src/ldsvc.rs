//! The loader service's protocol, `fuchsia.ldsvc.Loader`: how a dynamic linker gets its libraries.
//!
//! A program starts with a channel to such a service. The dynamic linker requests each library by name and receives a
//! VMO. `Config` selects a subdirectory for the names that follow, `Clone` opens a second connection, `Done` ends this
//! one. The messages are FIDL messages, version 2 of the wire format: a header of 16 bytes (transaction, flags, magic,
//! ordinal), then the body in units of 8 bytes. A method's ordinal is computed from its name: the first 8 bytes of the
//! SHA-256 of `fuchsia.ldsvc/Loader.<Method>`, little-endian, with the top bit cleared.

use core::fmt;

/// Ends the connection. There is no answer.
pub const DONE: u64 = 0x63ba_6b76_d367_1001;
/// Requests a library.
pub const LOAD_OBJECT: u64 = 0x48c5_a151_d6df_2853;
/// Selects a configuration.
pub const CONFIG: u64 = 0x6a8a_1a14_6463_2841;
/// Opens another connection.
pub const CLONE: u64 = 0x57e6_43a9_ab6e_4c29;

/// Limit in bytes on the name of a library or configuration.
pub const MAX_NAME: usize = 1024;
/// Size in bytes of a buffer for any message of the protocol.
pub const MAX_MESSAGE: usize = HEADER + 16 + MAX_NAME;

const HEADER: usize = 16;
/// Wire format 2, no other flags, magic 1.
const FLAGS: [u8; 4] = [2, 0, 0, 1];
const PRESENT: u64 = u64::MAX;
const HANDLE_PRESENT: u32 = u32::MAX;

/// Why a message cannot be decoded or encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The length does not match the contents.
    BadLength,
    /// Not version 2 of the wire format, or a wrong magic.
    BadHeader,
    /// A method that the protocol does not have.
    UnknownMethod,
    /// A name that is absent, too long, or not UTF-8.
    BadName,
    /// The body names a handle and the message has none, or the other way round.
    BadHandle,
    /// The buffer is too small.
    NoRoom,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::BadLength => "a loader message of the wrong length",
            Error::BadHeader => "not a FIDL message of this wire format",
            Error::UnknownMethod => "the loader service has no such method",
            Error::BadName => "a library name that is too long or not UTF-8",
            Error::BadHandle => "a loader message with the wrong handles",
            Error::NoRoom => "the buffer is too small for a loader message",
        })
    }
}

impl core::error::Error for Error {}

/// A client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// Ends the connection. There is no answer.
    Done,
    /// Requests the library with this name.
    LoadObject(&'a str),
    /// Selects a subdirectory. With a `!` at the end, libraries are searched for only there.
    Config(&'a str),
    /// Opens another connection; the message's only handle is the server's end of its channel.
    Clone,
}

impl<'a> Request<'a> {
    /// Decodes a request that came with `handles` handles; also returns its transaction.
    ///
    /// # Errors
    /// [`Error`]; the server must close the connection.
    pub fn decode(bytes: &'a [u8], handles: usize) -> Result<(u32, Request<'a>), Error> {
        let (transaction, ordinal, body) = split_header(bytes)?;
        let request = match ordinal {
            DONE if body.is_empty() => Request::Done,
            DONE => return Err(Error::BadLength),
            LOAD_OBJECT => Request::LoadObject(read_name(body)?),
            CONFIG => Request::Config(read_name(body)?),
            CLONE => match <[u8; 8]>::try_from(body) {
                Ok([h0, h1, h2, h3, 0, 0, 0, 0]) if u32::from_le_bytes([h0, h1, h2, h3]) == HANDLE_PRESENT => {
                    Request::Clone
                }
                Ok(_) => return Err(Error::BadHandle),
                Err(_) => return Err(Error::BadLength),
            },
            _ => return Err(Error::UnknownMethod),
        };
        if handles != usize::from(matches!(request, Request::Clone)) {
            return Err(Error::BadHandle);
        }
        Ok((transaction, request))
    }

    /// Encodes the request; returns its length in bytes.
    ///
    /// # Errors
    /// [`Error::BadName`], [`Error::NoRoom`].
    pub fn encode(&self, transaction: u32, out: &mut [u8]) -> Result<usize, Error> {
        match self {
            Request::Done => write_message(transaction, DONE, &[], &[], out),
            Request::LoadObject(name) => write_named(transaction, LOAD_OBJECT, name, out),
            Request::Config(name) => write_named(transaction, CONFIG, name, out),
            Request::Clone => write_message(transaction, CLONE, &u64::from(HANDLE_PRESENT).to_le_bytes(), &[], out),
        }
    }
}

/// A server's answer: a status, and a VMO if a `LoadObject` succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// The request's method.
    pub ordinal: u64,
    /// A `zx_status_t`.
    pub status: i32,
    /// Whether the message's only handle is the library's VMO.
    pub has_object: bool,
}

impl Response {
    /// Decodes an answer that came with `handles` handles; also returns its transaction.
    ///
    /// # Errors
    /// [`Error`].
    pub fn decode(bytes: &[u8], handles: usize) -> Result<(u32, Response), Error> {
        let (transaction, ordinal, body) = split_header(bytes)?;
        let [s0, s1, s2, s3, h0, h1, h2, h3] = <[u8; 8]>::try_from(body).map_err(|_| Error::BadLength)?;
        let status = i32::from_le_bytes([s0, s1, s2, s3]);
        let has_object = match (ordinal, u32::from_le_bytes([h0, h1, h2, h3])) {
            (LOAD_OBJECT, HANDLE_PRESENT) => true,
            (LOAD_OBJECT | CONFIG | CLONE, 0) => false,
            (LOAD_OBJECT | CONFIG | CLONE, _) => return Err(Error::BadHandle),
            _ => return Err(Error::UnknownMethod),
        };
        if handles != usize::from(has_object) {
            return Err(Error::BadHandle);
        }
        Ok((transaction, Response { ordinal, status, has_object }))
    }

    /// Encodes the answer; returns its length in bytes.
    ///
    /// # Errors
    /// [`Error::NoRoom`].
    pub fn encode(&self, transaction: u32, out: &mut [u8]) -> Result<usize, Error> {
        let handle = if self.has_object { HANDLE_PRESENT } else { 0 };
        let body = u64::from(self.status.cast_unsigned()) | u64::from(handle) << 32;
        write_message(transaction, self.ordinal, &body.to_le_bytes(), &[], out)
    }
}

fn split_header(bytes: &[u8]) -> Result<(u32, u64, &[u8]), Error> {
    let (header, body) = bytes.split_at_checked(HEADER).ok_or(Error::BadLength)?;
    let transaction = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    if header[4] & 2 == 0 || header[7] != FLAGS[3] {
        return Err(Error::BadHeader);
    }
    Ok((transaction, long(header, 8), body))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

fn read_name(body: &[u8]) -> Result<&str, Error> {
    let (head, rest) = body.split_at_checked(16).ok_or(Error::BadLength)?;
    if long(head, 8) != PRESENT {
        return Err(Error::BadName);
    }
    let len = usize::try_from(long(head, 0)).unwrap_or(usize::MAX);
    if len > MAX_NAME {
        return Err(Error::BadName);
    }
    let (name, padding) = rest.split_at_checked(len).ok_or(Error::BadLength)?;
    if rest.len() != len.next_multiple_of(8) || padding.iter().any(|byte| *byte != 0) {
        return Err(Error::BadLength);
    }
    core::str::from_utf8(name).map_err(|_| Error::BadName)
}

fn write_named(transaction: u32, ordinal: u64, name: &str, out: &mut [u8]) -> Result<usize, Error> {
    if name.len() > MAX_NAME {
        return Err(Error::BadName);
    }
    let mut head = [0; 16];
    head[..8].copy_from_slice(&(name.len() as u64).to_le_bytes());
    head[8..].copy_from_slice(&PRESENT.to_le_bytes());
    write_message(transaction, ordinal, &head, name.as_bytes(), out)
}

fn write_message(transaction: u32, ordinal: u64, head: &[u8], tail: &[u8], out: &mut [u8]) -> Result<usize, Error> {
    let tail_at = HEADER + head.len();
    let end = tail_at + tail.len();
    let len = end.next_multiple_of(8);
    let out = out.get_mut(..len).ok_or(Error::NoRoom)?;
    out[..4].copy_from_slice(&transaction.to_le_bytes());
    out[4..8].copy_from_slice(&FLAGS);
    out[8..HEADER].copy_from_slice(&ordinal.to_le_bytes());
    out[HEADER..tail_at].copy_from_slice(head);
    out[tail_at..end].copy_from_slice(tail);
    out[end..].fill(0);
    Ok(len)
}
