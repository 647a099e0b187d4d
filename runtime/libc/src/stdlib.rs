//! Numbers from strings, sorting, searching, pseudo-random numbers.

use crate::errno::{self, EINVAL, ERANGE};
use core::ffi::{c_char, c_int, c_long, c_ulong, c_void};
use core::sync::atomic::{AtomicU64, Ordering};

/// A number as written: sign, magnitude (saturated), whether it was too large, and how many bytes it took (0 = none).
struct Parsed {
    negative: bool,
    magnitude: u64,
    overflow: bool,
    used: usize,
}

unsafe fn parse(text: *const c_char, base: c_int) -> Option<Parsed> {
    let byte = |index: usize| {
        // SAFETY: a C string by contract; nothing is read after its NUL.
        unsafe { *text.add(index) as u8 }
    };
    if base != 0 && !(2..=36).contains(&base) {
        return None;
    }
    let mut at = 0;
    while matches!(byte(at), b' ' | b'\t'..=b'\r') {
        at += 1;
    }
    let negative = byte(at) == b'-';
    if matches!(byte(at), b'-' | b'+') {
        at += 1;
    }
    let digit = |index: usize, base: u32| char::from(byte(index)).to_digit(base);
    let mut base = base as u32;
    let prefixed = byte(at) == b'0' && matches!(byte(at + 1), b'x' | b'X') && digit(at + 2, 16).is_some();
    if (base == 0 || base == 16) && prefixed {
        base = 16;
        at += 2;
    } else if base == 0 {
        base = if byte(at) == b'0' { 8 } else { 10 };
    }
    let mut parsed = Parsed { negative, magnitude: 0, overflow: false, used: 0 };
    while let Some(digit) = digit(at, base) {
        let next = parsed.magnitude.checked_mul(u64::from(base)).and_then(|value| value.checked_add(u64::from(digit)));
        match next {
            Some(value) => parsed.magnitude = value,
            None => parsed.overflow = true,
        }
        at += 1;
        parsed.used = at;
    }
    Some(parsed)
}

unsafe fn finish(text: *const c_char, end: *mut *mut c_char, base: c_int) -> Option<Parsed> {
    // SAFETY: a C string, and null or a place for the end, by contract.
    unsafe {
        let parsed = parse(text, base);
        if !end.is_null() {
            *end = text.cast_mut().wrapping_add(parsed.as_ref().map_or(0, |parsed| parsed.used));
        }
        if parsed.is_none() {
            errno::set(EINVAL);
        }
        parsed
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn strtol(text: *const c_char, end: *mut *mut c_char, base: c_int) -> c_long {
    // SAFETY: passed on.
    let Some(parsed) = (unsafe { finish(text, end, base) }) else { return 0 };
    let limit = i64::MAX as u64 + u64::from(parsed.negative);
    if parsed.overflow || parsed.magnitude > limit {
        errno::set(ERANGE);
        return if parsed.negative { i64::MIN } else { i64::MAX };
    }
    if parsed.negative { (parsed.magnitude as i64).wrapping_neg() } else { parsed.magnitude as i64 }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn strtoul(text: *const c_char, end: *mut *mut c_char, base: c_int) -> c_ulong {
    // SAFETY: passed on.
    let Some(parsed) = (unsafe { finish(text, end, base) }) else { return 0 };
    if parsed.overflow {
        errno::set(ERANGE);
        return u64::MAX;
    }
    if parsed.negative { parsed.magnitude.wrapping_neg() } else { parsed.magnitude }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn strtoll(text: *const c_char, end: *mut *mut c_char, base: c_int) -> i64 {
    // SAFETY: passed on.
    unsafe { strtol(text, end, base) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn strtoull(text: *const c_char, end: *mut *mut c_char, base: c_int) -> u64 {
    // SAFETY: passed on.
    unsafe { strtoul(text, end, base) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoi(text: *const c_char) -> c_int {
    // SAFETY: passed on.
    unsafe { strtol(text, core::ptr::null_mut(), 10) as c_int }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn atol(text: *const c_char) -> c_long {
    // SAFETY: passed on.
    unsafe { strtol(text, core::ptr::null_mut(), 10) }
}

/// A decimal floating-point number (or `inf`, `nan`); hexadecimal ones are not read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strtod(text: *const c_char, end: *mut *mut c_char) -> f64 {
    // SAFETY: a C string by contract.
    let all = unsafe { core::ffi::CStr::from_ptr(text) }.to_bytes();
    let start = all.iter().position(|byte| !matches!(byte, b' ' | b'\t'..=b'\r')).unwrap_or(all.len());
    // The longest run of characters that a number can have, then shorter until it is one.
    let candidate = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    let length = all[start..].iter().position(|byte| !candidate(byte)).unwrap_or(all.len() - start).min(800);
    let found = (1..=length).rev().find_map(|len| {
        let number = core::str::from_utf8(&all[start..start + len]).ok()?;
        Some((number.parse::<f64>().ok()?, start + len))
    });
    let (value, used) = found.unwrap_or((0.0, 0));
    if !end.is_null() {
        // SAFETY: the caller's place for the end.
        unsafe { *end = text.cast_mut().wrapping_add(used) };
    }
    if value.is_infinite() && !all[start..].iter().any(|byte| matches!(byte, b'i' | b'I')) {
        errno::set(ERANGE);
    }
    value
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn atof(text: *const c_char) -> f64 {
    // SAFETY: passed on.
    unsafe { strtod(text, core::ptr::null_mut()) }
}

#[unsafe(no_mangle)]
pub extern "C" fn abs(value: c_int) -> c_int {
    value.wrapping_abs()
}

#[unsafe(no_mangle)]
pub extern "C" fn labs(value: c_long) -> c_long {
    value.wrapping_abs()
}

type Compare = unsafe extern "C" fn(*const c_void, *const c_void) -> c_int;

/// Sorts in place (heap sort: no recursion, no extra memory).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsort(data: *mut c_void, count: usize, size: usize, compare: Compare) {
    let base = data.cast::<u8>();
    let element = |index: usize| base.wrapping_add(index * size);
    // SAFETY: elements of the caller's array; its function compares them.
    let less = |a: usize, b: usize| unsafe { compare(element(a).cast(), element(b).cast()) } < 0;
    // SAFETY: two elements of the array, byte by byte.
    let swap = |a: usize, b: usize| unsafe {
        if a != b {
            core::ptr::swap_nonoverlapping(element(a), element(b), size);
        }
    };
    let sift = |mut root: usize, end: usize| loop {
        let mut child = 2 * root + 1;
        if child >= end {
            return;
        }
        if child + 1 < end && less(child, child + 1) {
            child += 1;
        }
        if !less(root, child) {
            return;
        }
        swap(root, child);
        root = child;
    };
    for root in (0..count / 2).rev() {
        sift(root, count);
    }
    for end in (1..count).rev() {
        swap(0, end);
        sift(0, end);
    }
}

/// An element of a sorted array that equals `key`, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bsearch(
    key: *const c_void,
    data: *const c_void,
    count: usize,
    size: usize,
    compare: Compare,
) -> *mut c_void {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        let element = data.wrapping_byte_add(middle * size);
        // SAFETY: an element of the caller's array; its function compares it.
        match unsafe { compare(key, element) } {
            0 => return element.cast_mut(),
            order if order < 0 => high = middle,
            _ => low = middle + 1,
        }
    }
    core::ptr::null_mut()
}

static SEED: AtomicU64 = AtomicU64::new(1);

#[unsafe(no_mangle)]
pub extern "C" fn srand(seed: u32) {
    SEED.store(u64::from(seed), Ordering::Relaxed);
}

/// A pseudo-random number, 31 bits, reproducible from the seed.
#[unsafe(no_mangle)]
pub extern "C" fn rand() -> c_int {
    let step = |seed: u64| seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let before = SEED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |seed| Some(step(seed))).unwrap_or(0);
    (step(before) >> 33) as c_int
}

/// Random bytes from the system.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getentropy(buffer: *mut c_void, size: usize) -> c_int {
    if size > 256 {
        return errno::fail(errno::EIO);
    }
    // SAFETY: the caller's buffer.
    unsafe { crate::sys::zx_cprng_draw(buffer, size) };
    0
}
