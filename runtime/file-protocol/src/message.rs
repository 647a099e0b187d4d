//! Messages as bytes.

use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::{Error, MESSAGE_MAX, Result};

/// Bytes of the transaction's number.
const NUMBER: usize = 4;

/// Writes a message: its number, what it says, its data.
///
/// # Errors
/// [`Error::TooLong`]: no message is so long.
pub fn encode(number: u32, what: &impl Serialize, data: &[u8]) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(NUMBER + 64 + data.len());
    bytes.extend_from_slice(&number.to_le_bytes());
    let mut bytes = postcard::to_extend(what, bytes).map_err(|_| Error::TooLong)?;
    bytes.extend_from_slice(data);
    if bytes.len() > MESSAGE_MAX { Err(Error::TooLong) } else { Ok(bytes) }
}

/// Reads a message behind its number: what it says, and its data.
///
/// # Errors
/// [`Error::Invalid`] for bytes that are none.
pub fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<(T, &'a [u8])> {
    let rest = bytes.get(NUMBER..).ok_or(Error::Invalid)?;
    postcard::take_from_bytes(rest).map_err(|_| Error::Invalid)
}

/// The transaction's number of a message.
pub fn transaction(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk::<NUMBER>().map(|number| u32::from_le_bytes(*number))
}

/// A buffer for any message.
pub fn buffer() -> Vec<u8> {
    vec![0; MESSAGE_MAX]
}
