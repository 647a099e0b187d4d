//! The host's side of a serial port of the machine: two named pipes that QEMU opens.
//!
//! It uses pipes instead of a socket, because QEMU writes byte by byte. Linux charges hundreds of bytes of socket
//! buffer for each byte. So some 300 of them fill a socket, and then the port blocks until the host has read, and a
//! machine that counts instructions would depend on the host's speed. A pipe holds as many bytes as its capacity, here
//! one megabyte.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Result, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, fcntl_getfl, fcntl_setfl, mkfifoat};
use rustix::pipe::fcntl_setpipe_size;

/// The maximum that an ordinary user may request, in bytes.
const ROOM: usize = 1 << 20;

/// The pipes of a port that QEMU has not opened yet.
#[derive(Debug)]
pub struct Waiting {
    from: File,
    to: PathBuf,
}

/// The two directions of a port.
#[derive(Debug)]
pub struct Line {
    from: File,
    to: File,
    timeout: Option<Duration>,
}

impl Waiting {
    /// Creates the pipes in a folder. QEMU's option for them is `-chardev pipe,path=NAME`.
    ///
    /// # Errors
    /// They exist already, or cannot be created.
    pub fn make(folder: &Path, name: &str) -> Result<Waiting> {
        let path = |end| folder.join(format!("{name}.{end}"));
        for end in ["in", "out"] {
            mkfifoat(CWD, path(end), Mode::RUSR | Mode::WUSR)?;
        }
        // A nonblocking open does not wait for the other end.
        let from = nonblocking().read(true).open(path("out"))?;
        // A user with very many pipes gets a smaller capacity, which is usually enough.
        let _ = fcntl_setpipe_size(&from, ROOM);
        Ok(Waiting { from, to: path("in") })
    }

    /// The port, once QEMU has opened it.
    ///
    /// # Errors
    /// `WouldBlock`: QEMU has not opened it yet.
    pub fn open(&self) -> Result<Line> {
        let to = nonblocking().write(true).open(&self.to).map_err(|error| match error.raw_os_error() {
            Some(code) if code == rustix::io::Errno::NXIO.raw_os_error() => ErrorKind::WouldBlock.into(),
            _ => error,
        })?;
        fcntl_setfl(&to, fcntl_getfl(&to)? - OFlags::NONBLOCK)?;
        Ok(Line { from: self.from.try_clone()?, to, timeout: None })
    }
}

fn nonblocking() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    options
}

impl Line {
    /// Another handle to the same port; bytes that one reads are lost to the others.
    ///
    /// # Errors
    /// Too many files are open.
    pub fn try_clone(&self) -> Result<Line> {
        Ok(Line { from: self.from.try_clone()?, to: self.to.try_clone()?, timeout: self.timeout })
    }

    /// From now on, a read fails with `TimedOut` if no byte arrives for this long.
    pub fn set_read_timeout(&mut self, timeout: Duration) {
        self.timeout = Some(timeout);
    }
}

impl Read for Line {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        // Before QEMU has opened its end, a read would report the end of the port. So this polls for bytes, or for the
        // close of the last writer.
        let timeout = self.timeout.map(Timespec::try_from).transpose().map_err(std::io::Error::other)?;
        let mut ports = [PollFd::new(&self.from, PollFlags::IN)];
        if poll(&mut ports, timeout.as_ref())? == 0 {
            return Err(ErrorKind::TimedOut.into());
        }
        self.from.read(buffer)
    }
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.to.write(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Opens the pipes as QEMU does.
    fn other_end(folder: &Path) -> (File, File) {
        let open = |name| OpenOptions::new().read(true).write(true).open(folder.join(name)).unwrap();
        (open("port.in"), open("port.out"))
    }

    #[test]
    fn bytes_go_both_ways_until_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let waiting = Waiting::make(folder.path(), "port").unwrap();
        assert_eq!(waiting.open().unwrap_err().kind(), ErrorKind::WouldBlock);
        let (mut input, mut output) = other_end(folder.path());
        let mut line = waiting.open().unwrap();
        output.write_all(b"abc").unwrap();
        let mut buffer = [0; 8];
        assert_eq!(line.read(&mut buffer).unwrap(), 3);
        line.write_all(b"de").unwrap();
        assert_eq!(input.read(&mut buffer).unwrap(), 2);
        line.set_read_timeout(Duration::from_millis(1));
        assert_eq!(line.read(&mut buffer).unwrap_err().kind(), ErrorKind::TimedOut);
        drop((input, output));
        assert_eq!(line.read(&mut buffer).unwrap(), 0);
        assert_eq!(line.write_all(b"f").unwrap_err().kind(), ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_port_that_is_not_open_yet_has_not_ended() {
        let folder = tempfile::tempdir().unwrap();
        let waiting = Waiting::make(folder.path(), "port").unwrap();
        // QEMU opens the pipe for input first.
        let input = OpenOptions::new().read(true).write(true).open(folder.path().join("port.in")).unwrap();
        let mut line = waiting.open().unwrap();
        line.set_read_timeout(Duration::from_millis(1));
        assert_eq!(line.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::TimedOut);
        drop(input);
    }

    /// The bytes of a crash report are written one at a time, without a reader.
    #[test]
    fn writers_do_not_wait_for_the_reader() {
        let folder = tempfile::tempdir().unwrap();
        let waiting = Waiting::make(folder.path(), "port").unwrap();
        let (_input, output) = other_end(folder.path());
        let _line = waiting.open().unwrap();
        fcntl_setfl(&output, OFlags::NONBLOCK).unwrap();
        let taken = (0..60_000).take_while(|_| (&output).write(b"x").is_ok()).count();
        assert_eq!(taken, 60_000);
    }
}
