//! The output of services, on its way to the host.

use init::frames;
use init::words::visible;
use zx::{Socket, Status};

use crate::link::Link;

/// The output of a service, split into lines.
pub struct Log {
    pub socket: Socket,
    pub name: String,
    line: Vec<u8>,
}

impl Log {
    pub fn new(socket: Socket, name: String) -> Log {
        Log { socket, name, line: Vec::new() }
    }

    /// Sends whole lines to the host; returns whether more can come.
    pub fn pass_on(&mut self, link: &Link) -> bool {
        let mut bytes = [0; 1024];
        let more = match self.socket.read(&mut bytes) {
            Ok(count) => {
                self.line.extend_from_slice(&bytes[..count]);
                true
            }
            Err(Status::SHOULD_WAIT) => true,
            Err(_) => false,
        };
        let whole = match self.line.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => end + 1,
            // The rest at the end of the output, or a line that is too long.
            None if !more || self.line.len() > frames::MAX_PAYLOAD => self.line.len(),
            None => 0,
        };
        for line in self.line[..whole].split_inclusive(|byte| *byte == b'\n') {
            let text = String::from_utf8_lossy(line);
            link.send_all(frames::STDERR, format!("{}: {}\n", self.name, visible(text.trim_end())).as_bytes());
        }
        self.line.drain(..whole);
        more
    }
}
