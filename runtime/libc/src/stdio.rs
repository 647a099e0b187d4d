//! Streams: `stdin`, `stdout`, `stderr` and the `printf` family.
//!
//! Streams write to libfdio's descriptors; `stdout` keeps up to a line, `stderr` nothing. There is no `fopen` yet.

use crate::errno::{self, EBADF, EIO, EOVERFLOW};
use crate::fmt::{Sink, format};
use crate::loader;
use crate::lock::Lock;
use crate::memory::{memcpy, strlen};
use crate::varargs::VaList;
use crate::variadic;
use alloc::vec::Vec;
use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

/// Bytes kept for `stdout` at most.
const LINE: usize = 1024;
const EOF: c_int = -1;

/// `FILE`.
pub struct Stream {
    descriptor: c_int,
    state: Lock<State>,
}

struct State {
    kept: [u8; LINE],
    len: usize,
    failed: bool,
    ended: bool,
}

impl Stream {
    const fn new(descriptor: c_int) -> Self {
        Self { descriptor, state: Lock::new(State { kept: [0; LINE], len: 0, failed: false, ended: false }) }
    }
}

static STDIN: Stream = Stream::new(0);
static STDOUT: Stream = Stream::new(1);
static STDERR: Stream = Stream::new(2);

/// A pointer to a stream, as a C variable.
#[repr(transparent)]
pub struct StreamPointer(*const Stream);

// SAFETY: streams are `Sync` by their locks, and the pointers never change.
unsafe impl Sync for StreamPointer {}

#[unsafe(no_mangle)]
pub static stdin: StreamPointer = StreamPointer(&raw const STDIN);
#[unsafe(no_mangle)]
pub static stdout: StreamPointer = StreamPointer(&raw const STDOUT);
#[unsafe(no_mangle)]
pub static stderr: StreamPointer = StreamPointer(&raw const STDERR);

type Write = unsafe extern "C" fn(c_int, *const c_void, usize) -> isize;
type Read = unsafe extern "C" fn(c_int, *mut c_void, usize) -> isize;

/// The address of a function of libfdio, looked up once; 0 = looked for in vain.
fn descriptor_function(name: &[u8], kept: &AtomicUsize) -> Option<usize> {
    const ABSENT: usize = 1;
    match kept.load(Ordering::Relaxed) {
        0 => {
            let found = loader::find_global(name);
            kept.store(found.unwrap_or(ABSENT), Ordering::Relaxed);
            found
        }
        ABSENT => None,
        found => Some(found),
    }
}

/// Writes all of `bytes` to a descriptor.
pub fn write_all(descriptor: c_int, mut bytes: &[u8]) -> Result<(), ()> {
    static WRITE: AtomicUsize = AtomicUsize::new(0);
    let Some(write) = descriptor_function(b"write", &WRITE) else {
        errno::set(EBADF);
        return Err(());
    };
    // SAFETY: libfdio's `write` has this type.
    let write = unsafe { core::mem::transmute::<usize, Write>(write) };
    while !bytes.is_empty() {
        // SAFETY: a valid buffer.
        let written = unsafe { write(descriptor, bytes.as_ptr().cast(), bytes.len()) };
        match usize::try_from(written) {
            Ok(written) if written > 0 => bytes = bytes.get(written..).unwrap_or(&[]),
            Ok(_) => {
                errno::set(EIO);
                return Err(());
            }
            Err(_) => return Err(()),
        }
    }
    Ok(())
}

fn read_some(descriptor: c_int, buffer: &mut [u8]) -> isize {
    static READ: AtomicUsize = AtomicUsize::new(0);
    match descriptor_function(b"read", &READ) {
        // SAFETY: libfdio's `read` has this type; a valid buffer.
        Some(read) => unsafe {
            core::mem::transmute::<usize, Read>(read)(descriptor, buffer.as_mut_ptr().cast(), buffer.len())
        },
        None => errno::fail(EBADF) as isize,
    }
}

impl State {
    fn flush(&mut self, descriptor: c_int) -> bool {
        let len = core::mem::take(&mut self.len);
        let done = write_all(descriptor, &self.kept[..len]).is_ok();
        self.failed |= !done;
        done
    }

    fn put(&mut self, descriptor: c_int, bytes: &[u8]) -> bool {
        if descriptor != 1 {
            let done = write_all(descriptor, bytes).is_ok();
            self.failed |= !done;
            return done;
        }
        // Everything up to the last line's end goes out now.
        let end = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let (now, later) = bytes.split_at(end);
        if !now.is_empty() {
            if self.len + now.len() <= LINE {
                self.keep(now);
                if !self.flush(descriptor) {
                    return false;
                }
            } else if !self.flush(descriptor) || write_all(descriptor, now).is_err() {
                self.failed = true;
                return false;
            }
        }
        if self.len + later.len() > LINE && !self.flush(descriptor) {
            return false;
        }
        if later.len() > LINE {
            return write_all(descriptor, later).is_ok();
        }
        self.keep(later);
        true
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.kept[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

fn put(stream: *const Stream, bytes: &[u8]) -> bool {
    // SAFETY: one of the three streams, as the callers' contract says.
    let stream = unsafe { &*stream };
    stream.state.lock().put(stream.descriptor, bytes)
}

/// Writes what `stdout` keeps.
pub fn flush_all() {
    // At exit another thread may hold the stream for ever; then there is nothing to be done.
    if STDOUT.state.lock().len > 0 {
        STDOUT.state.lock().flush(1);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fflush(stream: *const Stream) -> c_int {
    let streams = if stream.is_null() { &raw const STDOUT } else { stream };
    // SAFETY: a stream, as the contract says.
    let stream = unsafe { &*streams };
    let mut state = stream.state.lock();
    if state.len == 0 || state.flush(stream.descriptor) { 0 } else { EOF }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fwrite(data: *const c_void, size: usize, count: usize, stream: *const Stream) -> usize {
    let Some(len) = size.checked_mul(count).filter(|&len| len > 0) else { return 0 };
    // SAFETY: the caller's buffer.
    let bytes = unsafe { core::slice::from_raw_parts(data.cast(), len) };
    if put(stream, bytes) { count } else { 0 }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fread(data: *mut c_void, size: usize, count: usize, stream: *const Stream) -> usize {
    let Some(len) = size.checked_mul(count).filter(|&len| len > 0) else { return 0 };
    // SAFETY: a stream and the caller's buffer, as the contract says.
    let (stream, bytes) = unsafe { (&*stream, core::slice::from_raw_parts_mut(data.cast::<u8>(), len)) };
    let mut done = 0;
    while done < len {
        match read_some(stream.descriptor, &mut bytes[done..]) {
            0 => {
                stream.state.lock().ended = true;
                break;
            }
            read if read < 0 => {
                stream.state.lock().failed = true;
                break;
            }
            read => done += read as usize,
        }
    }
    done / size
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fgetc(stream: *const Stream) -> c_int {
    let mut byte = 0u8;
    // SAFETY: one byte of room.
    if unsafe { fread((&raw mut byte).cast(), 1, 1, stream) } == 1 { c_int::from(byte) } else { EOF }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn getc(stream: *const Stream) -> c_int {
    // SAFETY: as `fgetc`.
    unsafe { fgetc(stream) }
}

#[unsafe(no_mangle)]
pub extern "C" fn getchar() -> c_int {
    // SAFETY: a stream.
    unsafe { fgetc(&raw const STDIN) }
}

/// Reads a line of at most `size - 1` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fgets(buffer: *mut c_char, size: c_int, stream: *const Stream) -> *mut c_char {
    let room = usize::try_from(size).unwrap_or(0).saturating_sub(1);
    let mut len = 0;
    // SAFETY: the caller's buffer has room for `size` bytes.
    unsafe {
        while len < room {
            let byte = fgetc(stream);
            if byte == EOF {
                break;
            }
            *buffer.add(len) = byte as c_char;
            len += 1;
            if byte == c_int::from(b'\n') {
                break;
            }
        }
        if len == 0 {
            return core::ptr::null_mut();
        }
        *buffer.add(len) = 0;
    }
    buffer
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferror(stream: *const Stream) -> c_int {
    // SAFETY: a stream, as the contract says.
    c_int::from(unsafe { &*stream }.state.lock().failed)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn feof(stream: *const Stream) -> c_int {
    // SAFETY: a stream, as the contract says.
    c_int::from(unsafe { &*stream }.state.lock().ended)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn clearerr(stream: *const Stream) {
    // SAFETY: a stream, as the contract says.
    let mut state = unsafe { &*stream }.state.lock();
    (state.failed, state.ended) = (false, false);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fileno(stream: *const Stream) -> c_int {
    // SAFETY: a stream, as the contract says.
    unsafe { &*stream }.descriptor
}

unsafe fn c_bytes<'a>(text: *const c_char) -> &'a [u8] {
    // SAFETY: a C string, as the caller says.
    unsafe { core::slice::from_raw_parts(text.cast(), strlen(text.cast())) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fputs(text: *const c_char, stream: *const Stream) -> c_int {
    // SAFETY: a C string by contract.
    if put(stream, unsafe { c_bytes(text) }) { 0 } else { EOF }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn puts(text: *const c_char) -> c_int {
    let out = &raw const STDOUT;
    // SAFETY: a C string by contract.
    if put(out, unsafe { c_bytes(text) }) && put(out, b"\n") { 0 } else { EOF }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fputc(byte: c_int, stream: *const Stream) -> c_int {
    if put(stream, &[byte as u8]) { c_int::from(byte as u8) } else { EOF }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn putc(byte: c_int, stream: *const Stream) -> c_int {
    // SAFETY: as `fputc`.
    unsafe { fputc(byte, stream) }
}

#[unsafe(no_mangle)]
pub extern "C" fn putchar(byte: c_int) -> c_int {
    if put(&raw const STDOUT, &[byte as u8]) { c_int::from(byte as u8) } else { EOF }
}

/// Says on standard error what `errno` means.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perror(prefix: *const c_char) {
    // SAFETY: the calling thread's `errno`; null or a C string by contract.
    let (text, prefix) = unsafe {
        let text = errno::text(*errno::__errno_location());
        (text, if prefix.is_null() { &[][..] } else { c_bytes(prefix) })
    };
    let err = &raw const STDERR;
    if !prefix.is_empty() {
        put(err, prefix);
        put(err, b": ");
    }
    put(err, text.to_bytes());
    put(err, b"\n");
}

/// A stream as the target of formatting. Pieces are collected, so that `stderr` gets few writes.
struct ToStream {
    stream: *const Stream,
    kept: Vec<u8>,
    failed: bool,
}

impl Sink for ToStream {
    fn put(&mut self, bytes: &[u8]) {
        if self.kept.try_reserve(bytes.len()).is_ok() {
            self.kept.extend_from_slice(bytes);
        } else {
            self.failed = true;
        }
    }
}

fn counted(count: usize) -> c_int {
    c_int::try_from(count).unwrap_or_else(|_| errno::fail(EOVERFLOW))
}

unsafe fn print(stream: *const Stream, text: *const c_char, args: *mut VaList) -> c_int {
    let mut out = ToStream { stream, kept: Vec::new(), failed: false };
    // SAFETY: format and arguments by contract.
    let count = unsafe { format(&mut out, c_bytes(text), &mut *args) };
    if !out.failed && put(out.stream, &out.kept) { counted(count) } else { EOF }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfprintf(stream: *const Stream, text: *const c_char, args: *mut VaList) -> c_int {
    // SAFETY: passed on.
    unsafe { print(stream, text, args) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn vprintf(text: *const c_char, args: *mut VaList) -> c_int {
    // SAFETY: passed on.
    unsafe { print(&raw const STDOUT, text, args) }
}

/// A buffer of fixed size as the target of formatting: what does not fit is only counted.
struct ToBuffer {
    at: *mut u8,
    room: usize,
}

impl Sink for ToBuffer {
    fn put(&mut self, bytes: &[u8]) {
        let take = bytes.len().min(self.room);
        if take > 0 {
            // SAFETY: there is room for them.
            unsafe { memcpy(self.at, bytes.as_ptr(), take) };
            self.at = self.at.wrapping_add(take);
            self.room -= take;
        }
    }
}

/// Formats into at most `size` bytes, the NUL included; gives the length that it would have had.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vsnprintf(buffer: *mut c_char, size: usize, text: *const c_char, args: *mut VaList) -> c_int {
    let mut out = ToBuffer { at: buffer.cast(), room: size.saturating_sub(1) };
    // SAFETY: buffer, format and arguments by contract.
    unsafe {
        let count = format(&mut out, c_bytes(text), &mut *args);
        if size > 0 {
            *out.at = 0;
        }
        counted(count)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn vsprintf(buffer: *mut c_char, text: *const c_char, args: *mut VaList) -> c_int {
    // SAFETY: the caller vouches for the room; the size must not wrap the address space.
    unsafe { vsnprintf(buffer, usize::MAX - buffer as usize, text, args) }
}

/// Formats into a new block, stored in `out`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vasprintf(out: *mut *mut c_char, text: *const c_char, args: *mut VaList) -> c_int {
    let mut whole = ToStream { stream: core::ptr::null(), kept: Vec::new(), failed: false };
    // SAFETY: format and arguments by contract; the block has room for text and NUL.
    unsafe {
        let count = format(&mut whole, c_bytes(text), &mut *args);
        let block = crate::malloc::malloc(count + 1).cast::<u8>();
        if whole.failed || block.is_null() {
            return errno::fail(errno::ENOMEM);
        }
        memcpy(block, whole.kept.as_ptr(), count);
        *block.add(count) = 0;
        *out = block.cast();
        counted(count)
    }
}

/// Formats to a descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vdprintf(descriptor: c_int, text: *const c_char, args: *mut VaList) -> c_int {
    let mut out = ToStream { stream: core::ptr::null(), kept: Vec::new(), failed: false };
    // SAFETY: format and arguments by contract.
    let count = unsafe { format(&mut out, c_bytes(text), &mut *args) };
    if !out.failed && write_all(descriptor, &out.kept).is_ok() { counted(count) } else { EOF }
}

variadic!(printf(1, "rsi") => vprintf);
variadic!(fprintf(2, "rdx") => vfprintf);
variadic!(sprintf(2, "rdx") => vsprintf);
variadic!(snprintf(3, "rcx") => vsnprintf);
variadic!(asprintf(2, "rdx") => vasprintf);
variadic!(dprintf(2, "rdx") => vdprintf);
