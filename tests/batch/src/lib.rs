//! Many programs in one boot: the protocol between the host and the program `batch` in the system.
//!
//! The host link carries 200 KB a second, and a test program has megabytes. So a program travels on a disk that host
//! and machine share, the *mailbox*, and only messages about it use the link:
//!
//! 1. `batch` starts and reports the size of the mailbox: [`BatchMessage::Ready`].
//! 2. The host writes a *parcel* anywhere into the mailbox: a BOOTFS image of the program ([`PROGRAM`]) and of its
//!    start parameters ([`START`]). It sends the parcel's place with a number for the program: [`Order::Run`]. A folder
//!    that many programs use (a package's files, the programs built from it) has a parcel of its own, which `batch`
//!    keeps: [`Order::Keep`].
//! 3. `batch` reads the parcel into memory and reports that: [`BatchMessage::Fetched`]. The host may then reuse the place.
//! 4. The program runs as a process in a job of its own; the host may run several at once. The program sees its own
//!    file, the package's folder and the package's other programs at the host's paths, and an empty `/tmp`. All of that
//!    is its own, in memory, and created at first access. `batch` sends its output ([`BatchMessage::Output`],
//!    [`BatchMessage::Errors`]); the host sends its input ([`Order::Input`]), and each [`BatchMessage::InputTaken`] gives the host
//!    credit for more.
//! 5. The program ends, or `batch` kills it at its time limit or at [`Order::Kill`]. `batch` kills the rest of its job,
//!    sends what is still in its pipes, and then sends [`BatchMessage::Ended`].
//!
//! Each message is its length (u32, little endian) followed by that many bytes of postcard. Orders come on `batch`'s
//! standard input; its own messages go to its standard output.
#![forbid(unsafe_code)]

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The directory of a parcel that contains the program, under its own name.
pub const PROGRAM: &str = "program";
/// The directory of a parcel that contains a package's files or programs.
pub const FILES: &str = "files";
/// The path of a [`Start`] in a parcel.
pub const START: &str = "start";
/// The service that provides the mailbox.
pub const MAILBOX: &str = "disk";
/// The number of parcels with files that are kept.
pub const KEPT: usize = 4;
/// For each program, the most bytes of input that the host may have sent and the program has not taken.
pub const CREDIT: usize = 64 << 10;
/// No message is longer.
const LONGEST: usize = 1 << 20;

/// The start parameters of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// The process's name.
    pub name: String,
    /// All arguments, beginning with the program's name.
    pub args: Vec<String>,
    /// Its environment, each as `KEY=VALUE`.
    pub env: Vec<String>,
    /// Whether it has an input; otherwise its input is `/dev/null`.
    pub input: bool,
    /// The directory in which it sees its own file: the host's directory.
    pub place: String,
    /// Directories of its own that are empty at the start.
    pub empty: Vec<String>,
    /// A directory with a copy of the package's files: the number of the parcel ([`Order::Keep`]), and the path.
    pub files: Option<(u32, String)>,
    /// The same with other programs that were built from the package.
    pub programs: Option<(u32, String)>,
}

impl Start {
    /// Its bytes in a parcel.
    ///
    /// # Errors It cannot be serialised.
    pub fn encode(&self) -> Result<Vec<u8>, postcard::Error> {
        postcard::to_stdvec(self)
    }

    /// Reads it from a parcel's bytes.
    ///
    /// # Errors The bytes are invalid.
    pub fn decode(bytes: &[u8]) -> Result<Start, postcard::Error> {
        postcard::from_bytes(bytes)
    }
}

/// A message from the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Run a program.
    Run {
        /// The program's number.
        id: u32,
        /// The parcel's offset in the mailbox in bytes, a multiple of a block.
        at: u64,
        /// The parcel's size in bytes.
        size: u64,
        /// `batch` kills the program after this many milliseconds.
        limit: Option<u64>,
    },
    /// Keep a parcel with a directory's files for later programs. It replaces the oldest of [`KEPT`] parcels.
    Keep {
        /// The parcel's number.
        id: u32,
        /// Its offset in the mailbox in bytes.
        at: u64,
        /// Its size in bytes.
        size: u64,
    },
    /// Input for a program; no bytes mean the end of the input.
    Input {
        /// The program's number.
        id: u32,
        /// The input.
        bytes: Vec<u8>,
    },
    /// Kill a program.
    Kill {
        /// The program's number.
        id: u32,
    },
}

/// A message from `batch`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BatchMessage {
    /// `batch` is ready for orders.
    Ready {
        /// Size of the mailbox in bytes.
        room: u64,
    },
    /// A parcel is in memory.
    Fetched {
        /// The program's number.
        id: u32,
    },
    /// A program took input.
    InputTaken {
        /// The program's number.
        id: u32,
        /// The number of bytes.
        count: usize,
    },
    /// A program wrote to its standard output.
    Output {
        /// The program's number.
        id: u32,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// A program wrote to its standard error.
    Errors {
        /// The program's number.
        id: u32,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// A program has ended, and nothing of it is left.
    Ended {
        /// The program's number.
        id: u32,
        /// How it ended.
        end: End,
    },
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// With this return code (Zircon's codes for killed processes are negative).
    Returned(i64),
    /// Killed at its time limit.
    TimedOut,
    /// It was not started, for this reason.
    NotStarted(String),
}

/// A message's bytes on the link.
///
/// # Errors It cannot be serialised.
pub fn encode(message: &impl Serialize) -> Result<Vec<u8>, postcard::Error> {
    let mut bytes = vec![0; 4];
    bytes = postcard::to_extend(message, bytes)?;
    let length = u32::try_from(bytes.len() - 4).map_err(|_| postcard::Error::SerializeBufferFull)?;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    Ok(bytes)
}

/// Assembles messages from the pieces that arrive.
#[derive(Debug, Default)]
pub struct Decoder {
    pending: Vec<u8>,
}

impl Decoder {
    /// Adds a piece.
    pub fn push(&mut self, piece: &[u8]) {
        self.pending.extend_from_slice(piece);
    }

    /// The next message, if it is complete.
    ///
    /// # Errors The bytes are no message; nothing after them can be trusted.
    pub fn message<T: DeserializeOwned>(&mut self) -> Result<Option<T>, postcard::Error> {
        let Some(length) = self.pending.first_chunk() else { return Ok(None) };
        let end = 4 + u32::from_le_bytes(*length) as usize;
        if end > LONGEST {
            return Err(postcard::Error::DeserializeBadEncoding);
        }
        let Some(message) = self.pending.get(4..end) else { return Ok(None) };
        let message = postcard::from_bytes(message)?;
        self.pending.drain(..end);
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_do_not_matter(
            texts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..8),
            size in 1usize..500,
        ) {
            let said: Vec<BatchMessage> =
                (0..).zip(texts).map(|(id, bytes)| BatchMessage::Output { id, bytes }).collect();
            let bytes: Vec<u8> = said.iter().flat_map(|message| encode(message).unwrap()).collect();
            let mut decoder = Decoder::default();
            let mut found = Vec::new();
            for piece in bytes.chunks(size) {
                decoder.push(piece);
                while let Some(message) = decoder.message::<BatchMessage>().unwrap() {
                    found.push(message);
                }
            }
            prop_assert_eq!(found, said);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut decoder = Decoder::default();
            decoder.push(&bytes);
            while let Ok(Some(_)) = decoder.message::<Order>() {}
        }
    }
}
