//! The kernel's console: standard error.

use core::cell::UnsafeCell;
use core::ffi::c_int;

use rump_logic::Mutex;
use rump_logic::line::Line;

use crate::c;
use crate::locks::Futexes;

struct Console {
    lock: Mutex,
    line: UnsafeCell<Line>,
}

// SAFETY: the line is accessed only while the lock is held.
unsafe impl Sync for Console {}

static CONSOLE: Console = Console { lock: Mutex::internal(), line: UnsafeCell::new(Line::new()) };

const STANDARD_ERROR: c_int = 2;

/// Writes what it can: a console that takes nothing more does not stop the kernel.
fn write(mut bytes: &[u8]) {
    while !bytes.is_empty() {
        // SAFETY: the bytes are ours.
        let written = unsafe { c::write(STANDARD_ERROR, bytes.as_ptr().cast(), bytes.len()) };
        match usize::try_from(written) {
            Ok(count @ 1..) => bytes = bytes.get(count..).unwrap_or_default(),
            _ => return,
        }
    }
}

fn with(work: impl FnOnce(&mut Line)) {
    CONSOLE.lock.enter::<Futexes>(0);
    // SAFETY: the lock is held.
    work(unsafe { &mut *CONSOLE.line.get() });
    CONSOLE.lock.exit::<Futexes>();
}

fn put(line: &mut Line, bytes: &[u8]) {
    for byte in bytes {
        if line.push(*byte) {
            write(line.take());
        }
    }
}

/// Prints a message of the library.
pub fn say(parts: &[&str]) {
    with(|line| parts.iter().for_each(|part| put(line, part.as_bytes())));
}

/// Prints the rest of a line.
pub fn flush() {
    with(|line| write(line.take()));
}

/// Adds a character to the console's line.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_putchar(character: c_int) {
    // A character is a byte.
    with(|line| put(line, &[character.to_ne_bytes()[0]]));
}

/// The end of `rumpuser_dprintf`, which is in C: the text, cut to fit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_hafnon_print(text: *const u8, len: usize) {
    // SAFETY: the caller's text of this length.
    let text = unsafe { core::slice::from_raw_parts(text, len) };
    with(|line| put(line, text));
}
