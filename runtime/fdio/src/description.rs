//! Open descriptions: `open` creates one, and duplicates of a descriptor share it, with its position and flags.

use core::ffi::c_int;
use core::sync::atomic::{AtomicI32, AtomicI64, Ordering};

use file_protocol::Kind;
use sync::Lock;
use zx::{Duration, MonotonicInstant};

use crate::c::{
    CHANGEABLE, EBADF, EINVAL, EISDIR, ESPIPE, O_ACCMODE, O_APPEND, O_NONBLOCK, O_PATH, O_RDONLY, O_SYNC, O_WRONLY,
    Result,
};
use crate::object::{Object, reset_if_unread};

/// An open description.
pub struct Description {
    /// The object that it refers to.
    pub object: Object,
    /// `O_*` flags: the access mode, whether writes are durable, and the flags that `F_SETFL` can change.
    flags: AtomicI32,
    /// File position of the next read.
    position: Lock<u64>,
    /// Timeout of reads in nanoseconds; 0 means no timeout. Only sockets have timeouts.
    read_timeout: AtomicI64,
    /// Timeout of writes, likewise.
    write_timeout: AtomicI64,
}

/// The deadline of a wait that begins now.
fn until(timeout: &AtomicI64) -> MonotonicInstant {
    match timeout.load(Ordering::Relaxed) {
        0 => MonotonicInstant::INFINITE,
        nanos => MonotonicInstant::after(Duration::from_nanos(nanos)),
    }
}

impl Drop for Description {
    fn drop(&mut self) {
        match &self.object {
            Object::Socket { socket, is_socket: true } => reset_if_unread(socket),
            Object::Unix(socket) => socket.reset_if_unread(),
            _ => {}
        }
    }
}

impl Description {
    /// Opens an object with the access mode and status flags among `flags`.
    pub fn new(object: Object, flags: c_int) -> Description {
        Description {
            object,
            flags: AtomicI32::new(flags & (O_ACCMODE | O_SYNC | CHANGEABLE)),
            position: Lock::new(0),
            read_timeout: AtomicI64::new(0),
            write_timeout: AtomicI64::new(0),
        }
    }

    /// The deadline of a read that begins now.
    pub fn read_until(&self) -> MonotonicInstant {
        if self.waits() { until(&self.read_timeout) } else { MonotonicInstant::ZERO }
    }

    /// The deadline of a write that begins now.
    pub fn write_until(&self) -> MonotonicInstant {
        if self.waits() { until(&self.write_timeout) } else { MonotonicInstant::ZERO }
    }

    /// The timeout of reads or of writes in nanoseconds; 0 means no timeout.
    pub fn timeout(&self, reading: bool) -> &AtomicI64 {
        if reading { &self.read_timeout } else { &self.write_timeout }
    }

    /// The `O_*` flags that `F_GETFL` returns.
    pub fn flags(&self) -> c_int {
        self.flags.load(Ordering::Relaxed)
    }

    /// Changes the flags that `F_SETFL` can change.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn set_flags(&self, flags: c_int) -> Result<()> {
        let old = self.flags();
        if let Object::Remote(file) = &self.object
            && (old ^ flags) & O_APPEND != 0
        {
            file.set_append(flags & O_APPEND != 0)?;
        }
        self.flags.store(old & !CHANGEABLE | flags & CHANGEABLE, Ordering::Relaxed);
        Ok(())
    }

    /// Whether calls block.
    pub fn waits(&self) -> bool {
        self.flags() & O_NONBLOCK == 0
    }

    fn check_access(&self, refused: c_int) -> Result<()> {
        let mode = self.flags() & O_ACCMODE;
        if mode == refused || mode & O_PATH != 0 { Err(EBADF) } else { Ok(()) }
    }

    /// Reads at the position and advances it.
    ///
    /// # Errors
    /// `EBADF`: open for writing only. See [`Object::read`].
    pub fn read(&self, bytes: &mut [u8]) -> Result<usize> {
        self.check_access(O_WRONLY)?;
        match &self.object {
            Object::File(file) => {
                let mut position = self.position.lock();
                let len = file.read_at(*position, bytes)?;
                *position += len as u64;
                Ok(len)
            }
            object => object.read(bytes, 0, self.read_until()),
        }
    }

    /// Reads at `position`, without use of the description's position.
    ///
    /// # Errors
    /// `ESPIPE`: the object has no positions. See [`Description::read`].
    pub fn read_at(&self, position: u64, bytes: &mut [u8]) -> Result<usize> {
        self.check_access(O_WRONLY)?;
        match &self.object {
            Object::File(file) => file.read_at(position, bytes),
            Object::Remote(file) if file.opened.kind == Kind::File => file.read(Some(position), bytes),
            Object::Device(device) => Ok(device.read(bytes)),
            Object::Directory { .. } | Object::Remote(_) => Err(EISDIR),
            _ => Err(ESPIPE),
        }
    }

    /// Writes.
    ///
    /// # Errors
    /// `EBADF`: open for reading only. See [`Object::write`].
    pub fn write(&self, bytes: &[u8]) -> Result<usize> {
        self.check_access(O_RDONLY)?;
        self.durable(self.object.write(bytes, self.write_until())?)
    }

    /// Waits until what was written is durable, if the description demands that (`O_SYNC`, `O_DSYNC`).
    fn durable(&self, written: usize) -> Result<usize> {
        if self.flags() & O_SYNC != 0
            && let Object::Remote(file) = &self.object
        {
            file.sync()?;
        }
        Ok(written)
    }

    /// Writes at `position`, without use of the description's position.
    ///
    /// # Errors
    /// `ESPIPE`: the object has no positions. See [`Description::write`].
    pub fn write_at(&self, position: u64, bytes: &[u8]) -> Result<usize> {
        self.check_access(O_RDONLY)?;
        match &self.object {
            Object::Remote(file) if file.opened.kind == Kind::File => self.durable(file.write(Some(position), bytes)?),
            Object::Device(_) => Ok(bytes.len()),
            _ => Err(ESPIPE),
        }
    }

    /// Moves the position and returns the new one.
    ///
    /// # Errors
    /// `ESPIPE`: the object has no positions. `EINVAL`: the position would be before the start.
    pub fn seek(&self, offset: i64, whence: c_int) -> Result<u64> {
        let size = match &self.object {
            Object::File(file) => file.size,
            Object::Remote(file) => return file.seek(offset, u8::try_from(whence).map_err(|_| EINVAL)?),
            Object::Device(_) => return Ok(0),
            Object::Directory { .. } => u64::MAX >> 1,
            _ => return Err(ESPIPE),
        };
        let mut position = self.position.lock();
        let base = match whence {
            0 => 0,
            1 => *position,
            2 => size,
            _ => return Err(EINVAL),
        };
        let new = base.checked_add_signed(offset).filter(|new| *new <= i64::MAX as u64).ok_or(EINVAL)?;
        *position = new;
        Ok(new)
    }
}
