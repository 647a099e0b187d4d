//! Encoding and decoding of messages.

use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::{Error, MESSAGE_MAX, Result};

/// Size in bytes of the transaction's number.
const NUMBER: usize = 4;

/// Encodes a message: transaction number, request or answer, data.
///
/// # Errors
/// [`Error::TooLong`]: the message would exceed the limit.
pub fn encode(number: u32, what: &impl Serialize, data: &[u8]) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(NUMBER + 64 + data.len());
    bytes.extend_from_slice(&number.to_le_bytes());
    let mut bytes = postcard::to_extend(what, bytes).map_err(|_| Error::TooLong)?;
    bytes.extend_from_slice(data);
    if bytes.len() > MESSAGE_MAX { Err(Error::TooLong) } else { Ok(bytes) }
}

/// Decodes a message after its transaction number: request or answer, and data.
///
/// # Errors
/// [`Error::Invalid`]: not a valid message.
pub fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<(T, &'a [u8])> {
    let rest = bytes.get(NUMBER..).ok_or(Error::Invalid)?;
    postcard::take_from_bytes(rest).map_err(|_| Error::Invalid)
}

/// The transaction number of a message.
pub fn transaction(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk::<NUMBER>().map(|number| u32::from_le_bytes(*number))
}

/// A buffer with room for any message.
pub fn buffer() -> Vec<u8> {
    vec![0; MESSAGE_MAX]
}
