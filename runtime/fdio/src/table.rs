//! The table of descriptors.
//!
//! When a descriptor is given to a child process, it is closed, but its number is not reused at once. `std` closes a
//! descriptor that it was told to hand over (`Stdio::from(file)`) a second time when its `Command` goes out of scope.
//! If another thread had received the number by then, `std` would close that thread's descriptor. So the number stays
//! *given away* until that second close, or until [`GIVEN_AWAY`] other numbers have been given away after it, because
//! `std` does not close the ends of its own pipes twice.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ffi::c_int;

use sync::Lock;

use crate::c::{EBADF, EINVAL, EMFILE, Result};
use crate::description::Description;
use crate::object::Object;

/// Descriptors are below this limit: the start message has 16 bits for a descriptor.
const LIMIT: usize = 1 << 16;
const BITS: usize = u64::BITS as usize;
/// How many numbers stay reserved for a second close.
const GIVEN_AWAY: usize = 256;

enum Slot {
    Free,
    Open {
        description: Arc<Description>,
        close_on_exec: bool,
    },
    /// Given away; the value is the sequence number of that.
    Given(u64),
}

struct Table {
    slots: Vec<Slot>,
    /// Bitmap of slots that are not free, for finding a free one quickly.
    taken: Vec<u64>,
    /// Numbers that were given away, the oldest first, each with the sequence number in its slot.
    given: VecDeque<(usize, u64)>,
    count: u64,
}

static TABLE: Lock<Table> = Lock::new(Table { slots: Vec::new(), taken: Vec::new(), given: VecDeque::new(), count: 0 });

impl Table {
    fn slot(&mut self, fd: c_int) -> Result<&mut Slot> {
        usize::try_from(fd).ok().and_then(|index| self.slots.get_mut(index)).ok_or(EBADF)
    }

    /// Sets a slot; returns its previous content.
    fn set(&mut self, index: usize, slot: Slot) -> Slot {
        if index >= self.slots.len() {
            self.slots.resize_with(index + 1, || Slot::Free);
            self.taken.resize(self.slots.len().div_ceil(BITS), 0);
        }
        let bit = 1 << (index % BITS);
        match slot {
            Slot::Free => self.taken[index / BITS] &= !bit,
            _ => self.taken[index / BITS] |= bit,
        }
        core::mem::replace(&mut self.slots[index], slot)
    }

    /// The lowest free slot from `lowest` on, or the index after the last slot.
    fn free(&self, lowest: usize) -> usize {
        let mut word = lowest / BITS;
        // Treat slots before `lowest` as taken.
        let mut below = (1 << (lowest % BITS)) - 1;
        while let Some(taken) = self.taken.get(word) {
            let free = !(taken | below);
            if free != 0 {
                return word * BITS + free.trailing_zeros() as usize;
            }
            (word, below) = (word + 1, 0);
        }
        lowest.max(word * BITS)
    }
}

/// The open description of a descriptor.
///
/// # Errors
/// `EBADF`.
pub fn get(fd: c_int) -> Result<Arc<Description>> {
    match TABLE.lock().slot(fd)? {
        Slot::Open { description, .. } => Ok(description.clone()),
        _ => Err(EBADF),
    }
}

/// Whether a descriptor is closed in started processes. Succeeds also for a number that was given away: `std` asks
/// before it closes.
///
/// # Errors
/// `EBADF`.
pub fn close_on_exec(fd: c_int) -> Result<bool> {
    match TABLE.lock().slot(fd)? {
        Slot::Open { close_on_exec, .. } => Ok(*close_on_exec),
        Slot::Given(_) => Ok(true),
        Slot::Free => Err(EBADF),
    }
}

/// Sets whether a descriptor is closed in started processes.
///
/// # Errors
/// `EBADF`.
pub fn set_close_on_exec(fd: c_int, value: bool) -> Result<()> {
    match TABLE.lock().slot(fd)? {
        Slot::Open { close_on_exec, .. } => {
            *close_on_exec = value;
            Ok(())
        }
        _ => Err(EBADF),
    }
}

/// Adds a description at the lowest free descriptor from `lowest` on.
///
/// # Errors
/// `EMFILE`: no descriptor is free. `EINVAL`: `lowest` is not a valid descriptor.
pub fn add(description: Arc<Description>, lowest: c_int, close_on_exec: bool) -> Result<usize> {
    let lowest = usize::try_from(lowest).ok().filter(|lowest| *lowest < LIMIT).ok_or(EINVAL)?;
    let mut table = TABLE.lock();
    let index = table.free(lowest);
    if index >= LIMIT {
        return Err(EMFILE);
    }
    table.set(index, Slot::Open { description, close_on_exec });
    Ok(index)
}

/// Stores a description at a chosen descriptor, which is closed first if it is open.
///
/// # Errors
/// `EBADF`: not a valid descriptor.
pub fn put(description: Arc<Description>, fd: c_int, close_on_exec: bool) -> Result<usize> {
    let index = usize::try_from(fd).ok().filter(|index| *index < LIMIT).ok_or(EBADF)?;
    let old = TABLE.lock().set(index, Slot::Open { description, close_on_exec });
    // Drop outside the lock: the last reference closes a handle.
    drop(old);
    Ok(index)
}

/// Removes a descriptor from the table.
///
/// # Errors
/// `EBADF`.
pub fn close(fd: c_int) -> Result<()> {
    let mut table = TABLE.lock();
    table.slot(fd)?;
    let old = table.set(fd as usize, Slot::Free);
    drop(table);
    match old {
        Slot::Free => Err(EBADF),
        // The description is dropped after the lock is released.
        Slot::Open { .. } | Slot::Given(_) => Ok(()),
    }
}

/// Removes a descriptor from the table and returns its description, for another process.
///
/// # Errors
/// `EBADF`.
pub fn give_away(fd: c_int) -> Result<Arc<Description>> {
    let mut table = TABLE.lock();
    let number = table.count;
    let slot = table.slot(fd)?;
    let description = match core::mem::replace(slot, Slot::Free) {
        Slot::Open { description, .. } => description,
        other => {
            *slot = other;
            return Err(EBADF);
        }
    };
    *slot = Slot::Given(number);
    table.count += 1;
    table.given.push_back((fd as usize, number));
    if table.given.len() > GIVEN_AWAY
        && let Some((index, number)) = table.given.pop_front()
        && let Some(slot) = table.slots.get_mut(index)
        && matches!(slot, Slot::Given(held) if *held == number)
    {
        table.set(index, Slot::Free);
    }
    Ok(description)
}

/// Notifies file systems of all writes whose notification is pending.
pub fn send_touched() {
    let open: Vec<Arc<Description>> = {
        let table = TABLE.lock();
        let files = table.slots.iter().filter_map(|slot| match slot {
            Slot::Open { description, .. } if matches!(description.object, Object::Remote(_)) => Some(description),
            _ => None,
        });
        files.cloned().collect()
    };
    for description in open {
        if let Object::Remote(file) = &description.object {
            file.send_touched();
        }
    }
}

/// Whether a descriptor is open.
pub fn in_use(fd: c_int) -> bool {
    get(fd).is_ok()
}
