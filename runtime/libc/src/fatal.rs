//! Saying why a process cannot go on, before or after there is a standard error stream.
//!
//! While a program is being loaded there are no descriptors yet, but the handles for them wait in the main start
//! message: the message is read, and the sentence goes to what would have become descriptor 2, else descriptor 1, else to
//! the system's debug log.

use crate::{c, start, sys};
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use processargs::{HandleInfo, Message, PA_FD};

/// The exit code of a program that could not be started, as shells use it.
const CANNOT_START: i64 = 127;

/// One line of text, cut at its end.
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

/// The bootstrap channel while the main message has not been read from it.
static PENDING: AtomicU32 = AtomicU32::new(sys::HANDLE_INVALID);

/// Names the channel from which the main message is still to come (0 = it has been read).
pub fn set_pending(bootstrap: sys::Handle) {
    PENDING.store(bootstrap, Ordering::Relaxed);
}

/// There is a main thread, with its own `errno`, which writing to a descriptor needs.
static THREADED: AtomicBool = AtomicBool::new(false);

/// From now on there is a main thread.
pub fn set_threaded() {
    THREADED.store(true, Ordering::Relaxed);
}

/// Says `text` on one line of standard error, or in the debug log.
pub fn report(text: core::fmt::Arguments) {
    let line = line(text);
    let bytes = &line.bytes[..line.len];
    if PENDING.load(Ordering::Relaxed) != sys::HANDLE_INVALID {
        if write_to_future_stderr(bytes) {
            return;
        }
    } else if THREADED.load(Ordering::Relaxed) && !crate::malloc::is_busy() && c::write_all(2, bytes) {
        // Writing may allocate. A bug found inside the allocator is told in the log only, rather than never.
        return;
    }
    log(bytes);
}

/// Says a line in the debug log.
fn log(bytes: &[u8]) {
    let mut log = sys::HANDLE_INVALID;
    // SAFETY: valid pointers; the log takes lines without their end.
    unsafe {
        if sys::zx_debuglog_create(sys::HANDLE_INVALID, 0, &mut log) == sys::OK {
            sys::zx_debuglog_write(log, 0, bytes.as_ptr().cast(), bytes.len() - 1);
            sys::zx_handle_close(log);
        }
    }
}

/// Says why the program cannot be started, and ends the process.
pub fn cannot_start(text: core::fmt::Arguments) -> ! {
    report(text);
    // SAFETY: ends the process.
    unsafe { sys::zx_process_exit(CANNOT_START) }
}

/// [`cannot_start`] while there is no main thread, but its message has been read.
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

/// Writes to what is to become descriptor 2, else descriptor 1.
fn write_to_descriptor(message: &Message, handles: &[sys::Handle], bytes: &[u8]) -> bool {
    for descriptor in [2, 1] {
        for (info, &handle) in message.handles().zip(handles) {
            if !serves_as(info, descriptor) {
                continue;
            }
            let mut actual = 0;
            // SAFETY: valid buffer; a handle that is no socket is refused.
            let status = unsafe { sys::zx_socket_write(handle, 0, bytes.as_ptr().cast(), bytes.len(), &mut actual) };
            if status == sys::OK {
                return true;
            }
        }
    }
    false
}

/// The flag that makes one handle serve as descriptors 0, 1 and 2.
const USE_FOR_STDIO: u16 = 0x8000;

fn serves_as(info: HandleInfo, descriptor: u16) -> bool {
    info.kind == PA_FD && (info.arg == descriptor || info.arg & USE_FOR_STDIO != 0)
}
