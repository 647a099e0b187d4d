//! The kernel's console: standard error.

use core::ffi::c_int;

use rump_logic::line::Line;

use crate::c;
use crate::locks::Locked;

static LINE: Locked<Line> = Locked::new(Line::new());

const STANDARD_ERROR: c_int = 2;

/// Writes what it can. It waits for a reader that takes nothing more; an error ends it.
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

fn put(line: &mut Line, bytes: &[u8]) {
    for byte in bytes {
        if line.push(*byte) {
            write(line.take());
        }
    }
}

/// Prints a message of the library.
pub fn say(parts: &[&str]) {
    LINE.with(|line| parts.iter().for_each(|part| put(line, part.as_bytes())));
}

/// Prints the rest of a line.
pub fn flush() {
    LINE.with(|line| write(line.take()));
}

/// Adds a character to the console's line.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_putchar(character: c_int) {
    // A character is a byte.
    LINE.with(|line| put(line, &[character.to_ne_bytes()[0]]));
}

/// The end of `rumpuser_dprintf`, which is in C: the text, cut to fit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rumpuser_hafnon_print(text: *const u8, len: usize) {
    // SAFETY: the caller's text of this length.
    let text = unsafe { core::slice::from_raw_parts(text, len) };
    LINE.with(|line| put(line, text));
}
