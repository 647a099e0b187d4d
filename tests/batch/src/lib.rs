//! Many programs in one boot: what the host and the program `batch` inside say to each other.
//!
//! The host link carries 200 KB a second, and a test program has megabytes. So a program travels on a disk that host and
//! machine share, the *mailbox*, and only words about it go over the link:
//!
//! 1. `batch` starts, and says how much room the mailbox has: [`Said::Ready`].
//! 2. The host writes a *parcel* anywhere into the mailbox: a BOOTFS image of the program ([`PROGRAM`]) and of how to
//!    start it ([`START`]). It says where it lies: [`Order::Run`], with a number by which both know the program from then on.
//!    A folder that many programs see (a package's files, the programs built from it) has a parcel of its own, which is
//!    kept: [`Order::Keep`].
//! 3. `batch` reads the parcel into memory and says so: [`Said::Fetched`]; the place is free for others.
//! 4. The program runs: a process in a job of its own, several at once if the host likes. It sees its own file, the
//!    package's folder and the package's other programs where the host has them, and an empty `/tmp`; all of that is in
//!    memory, its own, and made when it is first looked at. Its output goes out ([`Said::Output`], [`Said::Errors`]), the host's input goes in ([`Order::Input`], answered by [`Said::InputTaken`],
//!    which gives the host credit).
//! 5. It ends, or is killed at its limit or by [`Order::Kill`]. The rest of its job is killed, what is still in its pipes
//!    goes out, then [`Said::Ended`].
//!
//! Each message is its length (u32, little endian) and as many bytes of postcard. The orders are `batch`'s standard input, what
//! it says is its standard output.
#![forbid(unsafe_code)]

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The folder of a parcel in which the program lies, under its own name.
pub const PROGRAM: &str = "program";
/// The folder of a parcel with a package's files, or its programs.
pub const FILES: &str = "files";
/// The path of a [`Start`] in a parcel.
pub const START: &str = "start";
/// The service that is the mailbox.
pub const MAILBOX: &str = "disk";
/// How many parcels with files are kept.
pub const KEPT: usize = 4;
/// How many bytes of input the host may have sent that were not taken yet, for each program.
pub const CREDIT: usize = 64 << 10;
/// No message is longer.
const LONGEST: usize = 1 << 20;

/// How a program is started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// The process's name.
    pub name: String,
    /// All arguments; the first is what it is called.
    pub args: Vec<String>,
    /// Its environment, `KEY=VALUE` each.
    pub env: Vec<String>,
    /// Whether it has an input; otherwise that is `/dev/null`.
    pub input: bool,
    /// The folder in which it sees its own file: that of the host.
    pub place: String,
    /// Folders that are its own, and empty at the start.
    pub empty: Vec<String>,
    /// A folder with the package's files that it has a copy of: the number of its parcel ([`Order::Keep`]), and its path.
    pub files: Option<(u32, String)>,
    /// The same with programs that were built from the package beside this one.
    pub programs: Option<(u32, String)>,
}

impl Start {
    /// As it lies in a parcel.
    ///
    /// # Errors
    /// Only for what cannot be serialised at all.
    pub fn encode(&self) -> Result<Vec<u8>, postcard::Error> {
        postcard::to_stdvec(self)
    }

    /// From a parcel.
    ///
    /// # Errors
    /// The bytes are none.
    pub fn decode(bytes: &[u8]) -> Result<Start, postcard::Error> {
        postcard::from_bytes(bytes)
    }
}

/// What the host wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Run a program.
    Run {
        /// Its number.
        id: u32,
        /// Where in the mailbox its parcel lies, in bytes; a multiple of a block's.
        at: u64,
        /// How long that is.
        size: u64,
        /// It is killed after this many milliseconds.
        limit: Option<u64>,
    },
    /// Keep a parcel with the files of a folder for programs to come, in the place of the oldest of [`KEPT`].
    Keep {
        /// Its number.
        id: u32,
        /// Where it lies.
        at: u64,
        /// How long it is.
        size: u64,
    },
    /// Input for a program; without bytes: its end.
    Input {
        /// The program's number.
        id: u32,
        /// The input.
        bytes: Vec<u8>,
    },
    /// End a program.
    Kill {
        /// Its number.
        id: u32,
    },
}

/// What `batch` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Said {
    /// Orders can come.
    Ready {
        /// Bytes of the mailbox.
        room: u64,
    },
    /// A parcel is in memory.
    Fetched {
        /// The program's number.
        id: u32,
    },
    /// A program took input.
    InputTaken {
        /// Its number.
        id: u32,
        /// How many bytes.
        count: usize,
    },
    /// A program wrote to its standard output.
    Output {
        /// Its number.
        id: u32,
        /// What it wrote.
        bytes: Vec<u8>,
    },
    /// A program wrote to its standard error.
    Errors {
        /// Its number.
        id: u32,
        /// What it wrote.
        bytes: Vec<u8>,
    },
    /// A program is over, and nothing is left of it.
    Ended {
        /// Its number.
        id: u32,
        /// How.
        end: End,
    },
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// With this return code (Zircon's: killed ones have codes below 0).
    Returned(i64),
    /// At its limit.
    TimedOut,
    /// It never began, for this reason.
    NotStarted(String),
}

/// A message as it travels.
///
/// # Errors
/// Only for what cannot be serialised at all.
pub fn encode(message: &impl Serialize) -> Result<Vec<u8>, postcard::Error> {
    let mut bytes = vec![0; 4];
    bytes = postcard::to_extend(message, bytes)?;
    let length = u32::try_from(bytes.len() - 4).map_err(|_| postcard::Error::SerializeBufferFull)?;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    Ok(bytes)
}

/// Puts messages together from the pieces that arrive.
#[derive(Debug, Default)]
pub struct Decoder {
    pending: Vec<u8>,
}

impl Decoder {
    /// Takes a piece.
    pub fn push(&mut self, piece: &[u8]) {
        self.pending.extend_from_slice(piece);
    }

    /// The next message, if all of it is there.
    ///
    /// # Errors
    /// The bytes are no message: nothing after them can be trusted.
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
            let said: Vec<Said> =
                (0..).zip(texts).map(|(id, bytes)| Said::Output { id, bytes }).collect();
            let bytes: Vec<u8> = said.iter().flat_map(|message| encode(message).unwrap()).collect();
            let mut decoder = Decoder::default();
            let mut found = Vec::new();
            for piece in bytes.chunks(size) {
                decoder.push(piece);
                while let Some(message) = decoder.message::<Said>().unwrap() {
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
