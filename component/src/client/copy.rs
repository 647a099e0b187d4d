//! Copying to and from the window, where pages may be missing.
//!
//! 1. One piece of code copies, between two addresses that the root task knows ([`CATCH_FROM`], [`CATCH_TO`]). If it
//!    faults on a missing page, the root task makes it continue at the second address. The number of bytes left shows
//!    that this happened.
//! 2. The component asks the server to bring the page in, or, for writing, to give the mapping its own copy.
//! 3. If the page is missing again, the component asks the server to copy the bytes in it.

use core::sync::atomic::Ordering;

use abi::{Status, ZX_VMAR_OP_COMMIT, ZX_VMAR_OP_PREFETCH, nr};

use super::FACTS;
use super::call::{Call, enter};
use crate::arch::copy::copy;
pub use crate::arch::copy::{CATCH_FROM, CATCH_TO};

const PAGE: u64 = 4096;

/// An address as a number.
pub fn address(place: *const u8) -> u64 {
    place.expose_provenance() as u64
}

/// As [`read`], for pages that the server has mapped for calls: fails if they are gone.
pub fn pass(to: u64, from: u64, len: usize) -> Result<(), Status> {
    // SAFETY: the callers are in this module's parent, and pass one address in the window and one of their own memory.
    if unsafe { copy(to, from, len) } == 0 { Ok(()) } else { Err(Status::PEER_CLOSED) }
}

/// Copies bytes out of the window.
///
/// # Errors
/// The reason why a page is not available.
pub fn read(from: u64, bytes: &mut [u8]) -> Result<(), Status> {
    let to = bytes.as_mut_ptr().expose_provenance() as u64;
    go_on(
        from,
        bytes.len(),
        |done, len| {
            // SAFETY: the bytes are the caller's.
            unsafe { copy(to + done, from + done, len) }
        },
        |done, len| by_server(nr::PROCESS_READ_MEMORY, from + done, to + done, len, true),
        ZX_VMAR_OP_PREFETCH,
    )
}

/// Copies bytes into the window.
///
/// # Errors
/// As [`read`].
pub fn write(to: u64, bytes: &[u8]) -> Result<(), Status> {
    let from = bytes.as_ptr().expose_provenance() as u64;
    go_on(
        to,
        bytes.len(),
        |done, len| {
            // SAFETY: the bytes are the caller's.
            unsafe { copy(to + done, from + done, len) }
        },
        |done, len| by_server(nr::PROCESS_WRITE_MEMORY, to + done, from + done, len, false),
        ZX_VMAR_OP_COMMIT,
    )
}

/// Steps 1 to 3, repeated until all bytes are copied.
fn go_on(
    window: u64,
    len: usize,
    copy: impl Fn(u64, usize) -> usize,
    by_server: impl Fn(u64, usize) -> Result<(), Status>,
    bring: u32,
) -> Result<(), Status> {
    let mut done = 0;
    // The page that was brought in last.
    let mut brought = None;
    while done < len {
        done = len - copy(done as u64, len - done);
        if done == len {
            break;
        }
        if !FACTS.connected.load(Ordering::Relaxed) {
            return Err(Status::PEER_CLOSED);
        }
        let at = window + done as u64;
        let page = at / PAGE * PAGE;
        if brought == Some(page) {
            let part = (page + PAGE - at).min((len - done) as u64) as usize;
            by_server(done as u64, part)?;
            done += part;
        } else {
            brought = Some(page);
            let vmar = FACTS.vmar.load(Ordering::Relaxed);
            let status = enter(nr::VMAR_OP_RANGE, &[vmar, bring.into(), page, PAGE, 0, 0]);
            if status == i64::from(Status::PEER_CLOSED.0) {
                return Err(Status::PEER_CLOSED);
            }
        }
    }
    Ok(())
}

/// Step 3.
fn by_server(number: u32, window: u64, own: u64, len: usize, back: bool) -> Result<(), Status> {
    let mut call = Call::new();
    let mut actual = 0u64;
    call.value(FACTS.process.load(Ordering::Relaxed));
    call.value(window);
    call.pointer(core::ptr::with_exposed_provenance_mut(own as usize), len, back);
    call.value(len as u64);
    call.pointer((&raw mut actual).cast(), size_of_val(&actual), true);
    match call.make(number) {
        0 if actual == len as u64 => Ok(()),
        0 => Err(Status::NO_MEMORY),
        status => Err(Status(status as i32)),
    }
}
