//! The table of descriptors.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ffi::c_int;

use crate::c::{EBADF, EINVAL, EMFILE, Result};
use crate::description::Description;
use crate::lock::Lock;

/// Descriptors are below this: the message to a child has 16 bits for one.
const LIMIT: usize = 1 << 16;

struct Slot {
    description: Arc<Description>,
    close_on_exec: bool,
}

static TABLE: Lock<Vec<Option<Slot>>> = Lock::new(Vec::new());

/// What a descriptor refers to.
///
/// # Errors
/// `EBADF`.
pub fn get(fd: c_int) -> Result<Arc<Description>> {
    with(fd, |slot| slot.description.clone())
}

/// Whether a descriptor shall not be in a started process.
///
/// # Errors
/// `EBADF`.
pub fn close_on_exec(fd: c_int) -> Result<bool> {
    with(fd, |slot| slot.close_on_exec)
}

/// Sets whether a descriptor shall not be in a started process.
///
/// # Errors
/// `EBADF`.
pub fn set_close_on_exec(fd: c_int, value: bool) -> Result<()> {
    with(fd, |slot| slot.close_on_exec = value)
}

fn with<T>(fd: c_int, look: impl FnOnce(&mut Slot) -> T) -> Result<T> {
    let index = usize::try_from(fd).map_err(|_| EBADF)?;
    TABLE.lock().get_mut(index).and_then(Option::as_mut).map(look).ok_or(EBADF)
}

/// Gives a description the lowest free descriptor from `lowest` on.
///
/// # Errors
/// `EMFILE`, `EINVAL` for a `lowest` that no descriptor can be.
pub fn add(description: Arc<Description>, lowest: c_int, close_on_exec: bool) -> Result<usize> {
    let lowest = usize::try_from(lowest).ok().filter(|lowest| *lowest < LIMIT).ok_or(EINVAL)?;
    let mut table = TABLE.lock();
    let free = table.iter().enumerate().skip(lowest).find(|(_, slot)| slot.is_none()).map(|(index, _)| index);
    let index = free.unwrap_or(table.len().max(lowest));
    if index >= LIMIT {
        return Err(EMFILE);
    }
    if index >= table.len() {
        table.resize_with(index + 1, || None);
    }
    table[index] = Some(Slot { description, close_on_exec });
    Ok(index)
}

/// Gives a description a chosen descriptor, closing what it was.
///
/// # Errors
/// `EBADF` for a number that no descriptor can be.
pub fn put(description: Arc<Description>, fd: c_int, close_on_exec: bool) -> Result<usize> {
    let index = usize::try_from(fd).ok().filter(|index| *index < LIMIT).ok_or(EBADF)?;
    let old = {
        let mut table = TABLE.lock();
        if index >= table.len() {
            table.resize_with(index + 1, || None);
        }
        table[index].replace(Slot { description, close_on_exec })
    };
    // Outside the lock: the last reference closes a handle.
    drop(old);
    Ok(index)
}

/// Takes a descriptor out of the table.
///
/// # Errors
/// `EBADF`.
pub fn remove(fd: c_int) -> Result<Arc<Description>> {
    let index = usize::try_from(fd).map_err(|_| EBADF)?;
    let slot = TABLE.lock().get_mut(index).and_then(Option::take);
    slot.map(|slot| slot.description).ok_or(EBADF)
}

/// Whether a descriptor is in use.
pub fn in_use(fd: c_int) -> bool {
    with(fd, |_| ()).is_ok()
}
