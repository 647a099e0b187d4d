//! Reports why a process cannot continue, even before standard error exists.
//!
//! While a program is being loaded, it has no descriptors yet; the handles for them are in the main start message. So
//! this module reads that message and writes the text to the handle for descriptor 2, else for descriptor 1, else to
//! the kernel's debug log.

use crate::{c, start, sys};
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use processargs::{HandleInfo, Message, PA_FD};

/// Exit code of a program that could not be started, as in shells.
const CANNOT_START: i64 = 127;

/// A line of text; text beyond its size is cut off.
struct Line {
    bytes: [u8; 400],
    len: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let room = &mut self.bytes[self.len..];
        let take = text.len().min(room.len());
        room[..take].copy_from_slice(&text.as_bytes()[..take]);
        self.len += take;
        Ok(())
    }
}

fn line(text: core::fmt::Arguments) -> Line {
    let mut line = Line { bytes: [0; 400], len: 0 };
    let _ = line.write_fmt(text);
    line.len = line.len.min(line.bytes.len() - 1);
    line.bytes[line.len] = b'\n';
    line.len += 1;
    line
}

/// The bootstrap channel, as long as the main message has not been read from it.
static PENDING: AtomicU32 = AtomicU32::new(sys::HANDLE_INVALID);

/// Sets the channel that the main message will come from (0: it has been read).
pub fn set_pending(bootstrap: sys::Handle) {
    PENDING.store(bootstrap, Ordering::Relaxed);
}

/// Whether the main thread exists. Writing to a descriptor needs it, because it needs the thread's `errno`.
static THREADED: AtomicBool = AtomicBool::new(false);

/// Marks that the main thread exists.
pub fn set_threaded() {
    THREADED.store(true, Ordering::Relaxed);
}

/// Writes `text` as one line to standard error, or to the debug log.
pub fn report(text: core::fmt::Arguments) {
    let line = line(text);
    let bytes = &line.bytes[..line.len];
    if PENDING.load(Ordering::Relaxed) != sys::HANDLE_INVALID {
        if write_to_future_stderr(bytes) {
            return;
        }
    } else if THREADED.load(Ordering::Relaxed) && !crate::malloc::is_busy() && c::write_all(2, bytes) {
        // A write can allocate. So a bug that is found inside the allocator is reported only in the log.
        return;
    }
    log(bytes);
}

/// Writes a line to the debug log.
fn log(bytes: &[u8]) {
    let mut log = sys::HANDLE_INVALID;
    // SAFETY: valid pointers; lines in the log have no newline.
    unsafe {
        if sys::zx_debuglog_create(sys::HANDLE_INVALID, 0, &mut log) == sys::OK {
            sys::zx_debuglog_write(log, 0, bytes.as_ptr().cast(), bytes.len() - 1);
            sys::zx_handle_close(log);
        }
    }
}

/// Reports why the program cannot be started, and ends the process.
pub fn cannot_start(text: core::fmt::Arguments) -> ! {
    report(text);
    // SAFETY: ends the process.
    unsafe { sys::zx_process_exit(CANNOT_START) }
}

/// Like [`cannot_start`], before the main thread exists, with its message already read.
pub fn cannot_start_with(message: &Message, handles: &[sys::Handle], text: core::fmt::Arguments) -> ! {
    let line = line(text);
    let bytes = &line.bytes[..line.len];
    if !write_to_descriptor(message, handles, bytes) {
        log(bytes);
    }
    // SAFETY: ends the process.
    unsafe { sys::zx_process_exit(CANNOT_START) }
}

fn write_to_future_stderr(bytes: &[u8]) -> bool {
    let bootstrap = PENDING.swap(sys::HANDLE_INVALID, Ordering::Relaxed);
    let Some((message, handles)) = start::read_message(bootstrap) else { return false };
    let Ok(message) = Message::parse(message, handles.len()) else { return false };
    write_to_descriptor(&message, handles, bytes)
}

/// Writes to the handle for descriptor 2, else to that for descriptor 1.
fn write_to_descriptor(message: &Message, handles: &[sys::Handle], bytes: &[u8]) -> bool {
    for descriptor in [2, 1] {
        for (info, &handle) in message.handles().zip(handles) {
            if !serves_as(info, descriptor) {
                continue;
            }
            let mut actual = 0;
            // SAFETY: a valid buffer; the call fails for a handle that is not a socket.
            let status = unsafe { sys::zx_socket_write(handle, 0, bytes.as_ptr().cast(), bytes.len(), &mut actual) };
            if status == sys::OK {
                return true;
            }
        }
    }
    false
}

/// Flag that makes one handle serve as descriptors 0, 1 and 2.
const USE_FOR_STDIO: u16 = 0x8000;

fn serves_as(info: HandleInfo, descriptor: u16) -> bool {
    info.kind == PA_FD && (info.arg == descriptor || info.arg & USE_FOR_STDIO != 0)
}
