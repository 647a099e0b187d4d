//! The host link: frames over the debug line, which only this process uses.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use init::frames::{self, Decoder, Frame};
use init::stdin::Stdin;
use init::words::visible;
use zx::Resource;

use crate::tasks::Tasks;

/// This end of the link. Frames from several threads are sent whole and in the order of the calls.
pub struct Link {
    /// Bytes of the frame being sent; the lock is held until they are on the line.
    line: Mutex<Vec<u8>>,
    /// Columns in the upper half, rows in the lower; zero while unknown.
    window: AtomicU32,
    /// Input from the host for the foreground program.
    pub stdin: Stdin,
}

impl Link {
    pub fn new() -> Self {
        Self { line: Mutex::new(Vec::new()), window: AtomicU32::new(0), stdin: Stdin::default() }
    }

    /// Sends one frame. An error of the line is ignored, because there is no other way to report it.
    pub fn send(&self, kind: u8, payload: &[u8]) {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        line.clear();
        frames::encode(kind, payload, &mut line);
        let _ = zx::debug_write(&line);
    }

    /// Sends bytes as frames of the maximum length.
    pub fn send_all(&self, kind: u8, bytes: &[u8]) {
        for piece in bytes.chunks(frames::MAX_PAYLOAD) {
            self.send(kind, piece);
        }
    }

    /// Sends an event. Tabs separate the fields, so tabs in a field are replaced.
    pub fn event(&self, fields: &[&str]) {
        let clean: Vec<String> = fields.iter().map(|field| field.replace(['\t', '\n', '\r'], " ")).collect();
        let text = clean.join("\t");
        let end = text.floor_char_boundary(frames::MAX_PAYLOAD);
        self.send(frames::EVENT, &text.as_bytes()[..end]);
    }

    /// Prints a line of `init`'s own on the host's standard output.
    pub fn say(&self, text: &str) {
        self.send_all(frames::STDOUT, format!("{text}\n").as_bytes());
    }

    /// Prints a line of `init`'s own on the host's standard error.
    pub fn complain(&self, text: &str) {
        self.send_all(frames::STDERR, format!("init: {}\n", visible(text)).as_bytes());
    }

    /// Columns and rows of the host's terminal, if they are known.
    pub fn window(&self) -> Option<(u32, u32)> {
        match self.window.load(Ordering::Relaxed) {
            0 => None,
            size => Some((size >> 16, size & 0xffff)),
        }
    }

    /// Receives frames in a separate thread for as long as the system runs.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub fn receive(&'static self, resource: &'static Resource, tasks: &'static Tasks) -> io::Result<()> {
        let receive = move || {
            let mut decoder = Decoder::default();
            let mut bytes = [0; 1024];
            loop {
                match zx::debug_read(resource, &mut bytes) {
                    Ok(0) => thread::sleep(Duration::from_millis(5)),
                    Ok(length) => decoder.push(&bytes[..length]).into_iter().for_each(|frame| self.take(frame, tasks)),
                    Err(status) => {
                        // Without the line no input can arrive, so programs read the end of their input.
                        self.complain(&format!("the host link cannot be read: {status}"));
                        self.stdin.end();
                        return;
                    }
                }
            }
        };
        thread::Builder::new().name("host-link".to_owned()).spawn(receive).map(drop)
    }

    fn take(&self, frame: Frame, tasks: &Tasks) {
        match (frame.kind, frame.payload.as_slice()) {
            (frames::STDIN, []) => self.stdin.end(),
            (frames::STDIN, bytes) => self.stdin.put(bytes),
            (frames::WINDOW_SIZE, &[c0, c1, r0, r1]) => {
                let (columns, rows) = (u16::from_le_bytes([c0, c1]), u16::from_le_bytes([r0, r1]));
                self.window.store(u32::from(columns) << 16 | u32::from(rows), Ordering::Relaxed);
            }
            (frames::INTERRUPT, _) => {
                let what = tasks.interrupt();
                self.event(&["interrupted", &what]);
            }
            (frames::END, _) => {
                self.event(&["ending"]);
                tasks.end();
            }
            // The host may be newer and know more types.
            _ => {}
        }
    }
}
