//! Block I/O: requests that wait for the thread that carries them out.

use crate::error::EINVAL;

/// The largest number of requests that wait.
pub const SLOTS: usize = 64;
/// Bytes of a sector.
const SECTOR: u64 = 512;
/// The largest request in bytes.
const LARGEST: usize = 64 << 20;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// From the file.
    Read,
    /// To the file.
    Write {
        /// It is on the medium when the request is done.
        through: bool,
    },
}

/// The operation of a request with the interface's number.
///
/// # Errors
/// `EINVAL`: the number is unknown, or length and offset are not those of whole sectors.
pub fn operation(raw: i32, len: usize, offset: i64) -> Result<Operation, i32> {
    let start = u64::try_from(offset).map_err(|_| EINVAL)?;
    let is_whole = len.is_multiple_of(SECTOR as usize) && start.is_multiple_of(SECTOR);
    if !is_whole || len > LARGEST || start > i64::MAX as u64 - LARGEST as u64 {
        return Err(EINVAL);
    }
    match raw {
        1 | 5 => Ok(Operation::Read),
        2 => Ok(Operation::Write { through: false }),
        6 => Ok(Operation::Write { through: true }),
        _ => Err(EINVAL),
    }
}

/// Requests in their order.
#[derive(Debug)]
pub struct BioQueue<T> {
    slots: [Option<T>; SLOTS],
    first: usize,
    len: usize,
}

impl<T: Copy> BioQueue<T> {
    /// No requests.
    pub const fn new() -> BioQueue<T> {
        BioQueue { slots: [None; SLOTS], first: 0, len: 0 }
    }

    /// Adds a request.
    ///
    /// # Errors
    /// There is no room; the request comes back.
    pub fn push(&mut self, request: T) -> Result<(), T> {
        if self.len == SLOTS {
            return Err(request);
        }
        self.slots[(self.first + self.len) % SLOTS] = Some(request);
        self.len += 1;
        Ok(())
    }

    /// Takes the oldest request.
    pub fn pop(&mut self) -> Option<T> {
        let request = self.slots[self.first].take()?;
        self.first = (self.first + 1) % SLOTS;
        self.len -= 1;
        Some(request)
    }
}

impl<T: Copy> Default for BioQueue<T> {
    fn default() -> BioQueue<T> {
        BioQueue::new()
    }
}
