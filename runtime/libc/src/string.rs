//! Strings and characters (the "C" locale): `str*`, `mem*` beyond [`crate::memory`], `is*`, `to*`.

use crate::errno::{self, EINVAL, ERANGE};
use crate::malloc::malloc;
use crate::memory::{memcmp, memcpy, strlen};
use core::cell::Cell;
use core::ffi::{c_char, c_int, c_void};
use core::ptr::null_mut;

/// The bytes of a C string, without its NUL.
unsafe fn bytes<'a>(text: *const c_char) -> &'a [u8] {
    // SAFETY: a C string, as every caller's contract says.
    unsafe { core::slice::from_raw_parts(text.cast(), strlen(text.cast())) }
}

fn at(text: *const c_char, index: usize) -> *mut c_char {
    text.cast_mut().wrapping_add(index)
}

unsafe fn compare(left: *const c_char, right: *const c_char, limit: usize, map: fn(u8) -> u8) -> c_int {
    for index in 0..limit {
        // SAFETY: up to the strings' ends, or the limit.
        let (a, b) = unsafe { (map(*left.add(index) as u8), map(*right.add(index) as u8)) };
        if a != b {
            return c_int::from(a) - c_int::from(b);
        }
        if a == 0 {
            break;
        }
    }
    0
}

fn same(byte: u8) -> u8 {
    byte
}

fn lower(byte: u8) -> u8 {
    byte.to_ascii_lowercase()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn strcmp(left: *const c_char, right: *const c_char) -> c_int {
    // SAFETY: C strings by contract.
    unsafe { compare(left, right, usize::MAX, same) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn strncmp(left: *const c_char, right: *const c_char, limit: usize) -> c_int {
    // SAFETY: C strings by contract.
    unsafe { compare(left, right, limit, same) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn strcoll(left: *const c_char, right: *const c_char) -> c_int {
    // SAFETY: C strings by contract.
    unsafe { strcmp(left, right) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn strcasecmp(left: *const c_char, right: *const c_char) -> c_int {
    // SAFETY: C strings by contract.
    unsafe { compare(left, right, usize::MAX, lower) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn strncasecmp(left: *const c_char, right: *const c_char, limit: usize) -> c_int {
    // SAFETY: C strings by contract.
    unsafe { compare(left, right, limit, lower) }
}

/// The string's length, at most `limit`; nothing beyond that is read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strnlen(text: *const c_char, limit: usize) -> usize {
    let mut len = 0;
    // SAFETY: up to the string's end, or the limit.
    while len < limit && unsafe { *text.add(len) } != 0 {
        len += 1;
    }
    len
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn stpcpy(to: *mut c_char, from: *const c_char) -> *mut c_char {
    // SAFETY: a C string, and room for it, by contract.
    unsafe {
        let len = strlen(from.cast());
        memcpy(to.cast(), from.cast(), len + 1);
        to.add(len)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn strcpy(to: *mut c_char, from: *const c_char) -> *mut c_char {
    // SAFETY: as `stpcpy`.
    unsafe { stpcpy(to, from) };
    to
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn strncpy(to: *mut c_char, from: *const c_char, size: usize) -> *mut c_char {
    // SAFETY: a C string, and room for `size` bytes, by contract.
    unsafe {
        let len = strnlen(from, size);
        memcpy(to.cast(), from.cast(), len);
        core::ptr::write_bytes(to.add(len), 0, size - len);
    }
    to
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn strcat(to: *mut c_char, from: *const c_char) -> *mut c_char {
    // SAFETY: C strings, and room for both, by contract.
    unsafe { stpcpy(to.add(strlen(to.cast())), from) };
    to
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn strncat(to: *mut c_char, from: *const c_char, limit: usize) -> *mut c_char {
    // SAFETY: C strings, and room, by contract.
    unsafe {
        let (end, len) = (to.add(strlen(to.cast())), strnlen(from, limit));
        memcpy(end.cast(), from.cast(), len);
        *end.add(len) = 0;
    }
    to
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn strlcpy(to: *mut c_char, from: *const c_char, size: usize) -> usize {
    // SAFETY: a C string, and room for `size` bytes, by contract.
    unsafe {
        let len = strlen(from.cast());
        if size > 0 {
            let take = len.min(size - 1);
            memcpy(to.cast(), from.cast(), take);
            *to.add(take) = 0;
        }
        len
    }
}

/// The first such byte, or (`strchrnul`) the end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strchrnul(text: *const c_char, byte: c_int) -> *mut c_char {
    // SAFETY: a C string by contract.
    let text_bytes = unsafe { bytes(text) };
    at(text, text_bytes.iter().position(|&other| other == byte as u8).unwrap_or(text_bytes.len()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn strchr(text: *const c_char, byte: c_int) -> *mut c_char {
    // SAFETY: a C string by contract; the result points into it or to its end.
    unsafe {
        let found = strchrnul(text, byte);
        if *found as u8 == byte as u8 { found } else { null_mut() }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn strrchr(text: *const c_char, byte: c_int) -> *mut c_char {
    // SAFETY: a C string by contract; its NUL can be searched too.
    let with_nul = unsafe { core::slice::from_raw_parts(text.cast::<u8>(), strlen(text.cast()) + 1) };
    with_nul.iter().rposition(|&other| other == byte as u8).map_or(null_mut(), |index| at(text, index))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn memrchr(data: *const c_void, byte: c_int, len: usize) -> *mut c_void {
    if len == 0 {
        return null_mut();
    }
    // SAFETY: the caller's range.
    let range = unsafe { core::slice::from_raw_parts(data.cast::<u8>(), len) };
    let found = range.iter().rposition(|&other| other == byte as u8);
    found.map_or(null_mut(), |index| data.cast_mut().wrapping_byte_add(index))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn memmem(data: *const c_void, len: usize, find: *const c_void, size: usize) -> *mut c_void {
    if size == 0 {
        return data.cast_mut();
    }
    for index in 0..(len + 1).saturating_sub(size) {
        // SAFETY: within the caller's ranges.
        if unsafe { memcmp(data.cast::<u8>().add(index), find.cast(), size) } == 0 {
            return data.cast_mut().wrapping_byte_add(index);
        }
    }
    null_mut()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn strstr(text: *const c_char, find: *const c_char) -> *mut c_char {
    // SAFETY: C strings by contract.
    unsafe { memmem(text.cast(), strlen(text.cast()), find.cast(), strlen(find.cast())).cast() }
}

unsafe fn span(text: *const c_char, set: *const c_char, inside: bool) -> usize {
    // SAFETY: C strings by contract.
    let (text, set) = unsafe { (bytes(text), bytes(set)) };
    text.iter().position(|byte| set.contains(byte) != inside).unwrap_or(text.len())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn strspn(text: *const c_char, set: *const c_char) -> usize {
    // SAFETY: C strings by contract.
    unsafe { span(text, set, true) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn strcspn(text: *const c_char, set: *const c_char) -> usize {
    // SAFETY: C strings by contract.
    unsafe { span(text, set, false) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn strpbrk(text: *const c_char, set: *const c_char) -> *mut c_char {
    // SAFETY: C strings by contract.
    unsafe {
        let index = strcspn(text, set);
        if *text.add(index) == 0 { null_mut() } else { at(text, index) }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn strtok_r(text: *mut c_char, set: *const c_char, rest: *mut *mut c_char) -> *mut c_char {
    // SAFETY: C strings and the caller's place, by contract.
    unsafe {
        let text = if text.is_null() { *rest } else { text };
        if text.is_null() {
            return null_mut();
        }
        let start = text.add(strspn(text, set));
        if *start == 0 {
            *rest = null_mut();
            return null_mut();
        }
        let end = start.add(strcspn(start, set));
        *rest = if *end == 0 { null_mut() } else { end.add(1) };
        *end = 0;
        start
    }
}

/// Where `strtok` goes on; a program that uses it from two threads gets what it asks for.
struct Rest(Cell<*mut c_char>);

// SAFETY: the contract of `strtok` puts the race on the caller.
unsafe impl Sync for Rest {}

static REST: Rest = Rest(Cell::new(null_mut()));

#[unsafe(no_mangle)]
pub unsafe extern "C" fn strtok(text: *mut c_char, set: *const c_char) -> *mut c_char {
    // SAFETY: as `strtok_r`.
    unsafe { strtok_r(text, set, REST.0.as_ptr()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn strndup(text: *const c_char, limit: usize) -> *mut c_char {
    // SAFETY: a C string by contract; the block has room.
    unsafe {
        let len = strnlen(text, limit);
        let copy = malloc(len + 1).cast::<u8>();
        if !copy.is_null() {
            memcpy(copy, text.cast(), len);
            *copy.add(len) = 0;
        }
        copy.cast()
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn strdup(text: *const c_char) -> *mut c_char {
    // SAFETY: a C string by contract.
    unsafe { strndup(text, usize::MAX) }
}

#[unsafe(no_mangle)]
pub extern "C" fn strerror(error: c_int) -> *mut c_char {
    errno::text(error).as_ptr().cast_mut()
}

/// The message for an error number, in the caller's buffer. Gives an error number (POSIX).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strerror_r(error: c_int, buffer: *mut c_char, size: usize) -> c_int {
    let text = errno::text(error).to_bytes();
    if size == 0 {
        return ERANGE;
    }
    let take = text.len().min(size - 1);
    // SAFETY: room for `size` bytes by contract.
    unsafe {
        memcpy(buffer.cast(), text.as_ptr(), take);
        *buffer.add(take) = 0;
    }
    match (take < text.len(), text == b"Unknown error") {
        (true, _) => ERANGE,
        (_, true) => EINVAL,
        _ => 0,
    }
}

macro_rules! classes {
    ($($name:ident => $test:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(character: c_int) -> c_int {
            let test: fn(&u8) -> bool = $test;
            c_int::from(u8::try_from(character).is_ok_and(|byte| test(&byte)))
        }
    )*};
}

classes! {
    isalnum => u8::is_ascii_alphanumeric;
    isalpha => u8::is_ascii_alphabetic;
    isascii => u8::is_ascii;
    isblank => |byte| matches!(byte, b' ' | b'\t');
    iscntrl => u8::is_ascii_control;
    isdigit => u8::is_ascii_digit;
    isgraph => u8::is_ascii_graphic;
    islower => u8::is_ascii_lowercase;
    isprint => |byte| matches!(byte, b' '..=b'~');
    ispunct => u8::is_ascii_punctuation;
    isspace => |byte| matches!(byte, b' ' | b'\t'..=b'\r');
    isupper => u8::is_ascii_uppercase;
    isxdigit => u8::is_ascii_hexdigit;
}

#[unsafe(no_mangle)]
pub extern "C" fn tolower(character: c_int) -> c_int {
    u8::try_from(character).map_or(character, |byte| c_int::from(byte.to_ascii_lowercase()))
}

#[unsafe(no_mangle)]
pub extern "C" fn toupper(character: c_int) -> c_int {
    u8::try_from(character).map_or(character, |byte| c_int::from(byte.to_ascii_uppercase()))
}
