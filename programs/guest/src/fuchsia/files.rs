//! Open files: the guest's own input and output, read-only files of the underlying system, and pipes.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::rc::Rc;

use super::linux::{Result, Stop, errno, fails};

/// Capacity of a pipe in bytes.
const PIPE: usize = 64 << 10;
/// Maximum number of open files of a process.
pub const MOST: usize = 64;

/// The state of a pipe.
#[derive(Default)]
pub struct Pipe {
    bytes: RefCell<VecDeque<u8>>,
    readers: Cell<usize>,
    writers: Cell<usize>,
}

/// An open file.
pub enum File {
    Input,
    Output,
    Errors,
    Null,
    Regular { data: Rc<[u8]>, at: Cell<u64> },
    PipeOut(Rc<Pipe>),
    PipeIn(Rc<Pipe>),
}

/// Creates a pipe; returns its reading end and its writing end.
pub fn pipe() -> (File, File) {
    let pipe = Rc::new(Pipe::default());
    pipe.readers.set(1);
    pipe.writers.set(1);
    (File::PipeOut(pipe.clone()), File::PipeIn(pipe))
}

impl Drop for File {
    fn drop(&mut self) {
        match self {
            File::PipeOut(pipe) => pipe.readers.set(pipe.readers.get() - 1),
            File::PipeIn(pipe) => pipe.writers.set(pipe.writers.get() - 1),
            _ => {}
        }
    }
}

impl File {
    /// Reads bytes; returns 0 at the end.
    pub fn read(&self, bytes: &mut [u8]) -> Result<usize> {
        match self {
            File::Input => io::stdin().read(bytes).or(fails(errno::EBADF)),
            File::Null => Ok(0),
            File::Regular { data, at } => {
                let rest = data.get(at.get() as usize..).unwrap_or_default();
                let len = rest.len().min(bytes.len());
                bytes[..len].copy_from_slice(&rest[..len]);
                at.set(at.get() + len as u64);
                Ok(len)
            }
            File::PipeOut(pipe) => {
                let mut there = pipe.bytes.borrow_mut();
                if there.is_empty() && pipe.writers.get() != 0 && !bytes.is_empty() {
                    return Err(Stop::Wait);
                }
                let len = there.len().min(bytes.len());
                bytes.iter_mut().zip(there.drain(..len)).for_each(|(to, byte)| *to = byte);
                Ok(len)
            }
            File::Output | File::Errors | File::PipeIn(_) => fails(errno::EBADF),
        }
    }

    /// Writes some bytes.
    pub fn write(&self, bytes: &[u8]) -> Result<usize> {
        let all = |written: io::Result<()>| written.map(|()| bytes.len()).or(fails(errno::EBADF));
        match self {
            File::Output => all(io::stdout().write_all(bytes).and_then(|()| io::stdout().flush())),
            File::Errors => all(io::stderr().write_all(bytes)),
            File::Null => Ok(bytes.len()),
            File::PipeIn(pipe) => {
                if pipe.readers.get() == 0 {
                    return fails(errno::EPIPE);
                }
                let mut there = pipe.bytes.borrow_mut();
                let len = (PIPE - there.len()).min(bytes.len());
                // Writes of at most 4096 bytes are atomic.
                if len == 0 && !bytes.is_empty() || len < bytes.len() && bytes.len() <= 4096 {
                    return Err(Stop::Wait);
                }
                there.extend(&bytes[..len]);
                Ok(len)
            }
            File::Input | File::Regular { .. } | File::PipeOut(_) => fails(errno::EBADF),
        }
    }

    /// Moves the file position.
    pub fn seek(&self, offset: i64, from: u64) -> Result<u64> {
        let File::Regular { data, at } = self else { return fails(errno::ESPIPE) };
        let base = match from {
            0 => 0,
            1 => at.get(),
            2 => data.len() as u64,
            _ => return fails(errno::EINVAL),
        };
        let Some(to) = base.checked_add_signed(offset) else { return fails(errno::EINVAL) };
        at.set(to);
        Ok(to)
    }

    /// Mode (kind and permissions), and size.
    pub fn mode(&self) -> (u32, u64) {
        match self {
            File::Regular { data, .. } => (0o100_644, data.len() as u64),
            File::Null => (0o020_666, 0),
            File::Input | File::Output | File::Errors | File::PipeOut(_) | File::PipeIn(_) => (0o010_600, 0),
        }
    }

    /// Access mode, as `O_…`.
    pub fn way(&self) -> u64 {
        match self {
            File::Input | File::Regular { .. } | File::PipeOut(_) => 0,
            File::Output | File::Errors | File::PipeIn(_) => 1,
            File::Null => 2,
        }
    }
}

/// A process's open files by descriptor, each with its close-on-exec flag.
#[derive(Clone)]
pub struct Files(Vec<Option<(Rc<File>, bool)>>);

impl Files {
    /// Standard input, output and error of the guest.
    pub fn new() -> Files {
        Files([File::Input, File::Output, File::Errors].map(|file| Some((Rc::new(file), false))).into())
    }

    /// The file of a descriptor.
    pub fn get(&self, number: u64) -> Result<Rc<File>> {
        match self.slot(number) {
            Some((file, _)) => Ok(file.clone()),
            None => fails(errno::EBADF),
        }
    }

    fn slot(&self, number: u64) -> Option<&(Rc<File>, bool)> {
        self.0.get(usize::try_from(number).ok()?)?.as_ref()
    }

    /// Adds a file at the first free descriptor from `from` on.
    pub fn add(&mut self, file: Rc<File>, from: u64, closes: bool) -> Result<u64> {
        let free = (from..MOST as u64).find(|number| self.slot(*number).is_none());
        let Some(number) = free else { return fails(errno::EMFILE) };
        self.put(number, Some((file, closes)))?;
        Ok(number)
    }

    /// Replaces or closes the file of a descriptor.
    pub fn put(&mut self, number: u64, file: Option<(Rc<File>, bool)>) -> Result<()> {
        let Some(number) = usize::try_from(number).ok().filter(|number| *number < MOST) else {
            return fails(errno::EBADF);
        };
        if self.0.len() <= number {
            self.0.resize_with(number + 1, || None);
        }
        self.0[number] = file;
        Ok(())
    }

    /// The close-on-exec flag of a descriptor.
    pub fn closes(&mut self, number: u64) -> Result<&mut bool> {
        let slot = usize::try_from(number).ok().and_then(|number| self.0.get_mut(number)?.as_mut());
        slot.map(|(_, closes)| closes).ok_or(Stop::Errno(errno::EBADF))
    }

    /// Closes files with the close-on-exec flag.
    pub fn keep(&mut self) {
        self.0.iter_mut().filter(|slot| matches!(slot, Some((_, true)))).for_each(|slot| *slot = None);
    }
}
