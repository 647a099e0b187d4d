//! Sockets (streams or datagrams of bytes) and FIFOs (small queues of elements of equal size).

use core::mem::MaybeUninit;

use crate::handle::object;
use crate::{AsHandleRef, Handle, Result, check, sys};

object! {
    /// One end of a socket.
    Socket
}

impl Socket {
    /// Makes a socket; options are `ZX_SOCKET_STREAM` (0) or `ZX_SOCKET_DATAGRAM`.
    ///
    /// # Errors
    /// `INVALID_ARGS`: an option is unknown. `NO_MEMORY`.
    pub fn create(options: u32) -> Result<(Socket, Socket)> {
        let (mut a, mut b) = (0, 0);
        // SAFETY: `a` and `b` have room for one handle each.
        check(unsafe { sys::zx_socket_create(options, &mut a, &mut b) })?;
        Ok((Socket(Handle::from_call(a)?), Socket(Handle::from_call(b)?)))
    }

    /// Writes as many bytes as fit, without waiting; returns the number of bytes written.
    ///
    /// # Errors
    /// `SHOULD_WAIT`: it is full. `PEER_CLOSED`. `BAD_STATE`: writing is disabled.
    pub fn write(&self, bytes: &[u8]) -> Result<usize> {
        let mut actual = 0;
        // SAFETY: the buffer is valid for its length.
        check(unsafe { sys::zx_socket_write(self.raw_handle(), 0, bytes.as_ptr().cast(), bytes.len(), &mut actual) })?;
        Ok(actual)
    }

    /// Reads without waiting; returns the number of bytes. Options: `ZX_SOCKET_PEEK`.
    ///
    /// # Errors
    /// `SHOULD_WAIT`: it is empty. `PEER_CLOSED`: it is empty and will stay so.
    pub fn read_with(&self, options: u32, bytes: &mut [u8]) -> Result<usize> {
        // SAFETY: the call only writes to the buffer.
        let place = unsafe { core::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len()) };
        self.read_uninit(options, place).map(|bytes| bytes.len())
    }

    /// The same into memory with any content; returns what was read.
    ///
    /// # Errors
    /// As [`Socket::read_with`].
    pub fn read_uninit<'b>(&self, options: u32, place: &'b mut [MaybeUninit<u8>]) -> Result<&'b mut [u8]> {
        let mut actual = 0;
        // SAFETY: the buffer is valid for its length.
        check(unsafe {
            sys::zx_socket_read(self.raw_handle(), options, place.as_mut_ptr().cast(), place.len(), &mut actual)
        })?;
        let len = actual.min(place.len());
        // SAFETY: the call has written these bytes.
        Ok(unsafe { core::slice::from_raw_parts_mut(place.as_mut_ptr().cast(), len) })
    }

    /// Reads without waiting; returns the number of bytes.
    ///
    /// # Errors
    /// As [`Socket::read_with`].
    pub fn read(&self, bytes: &mut [u8]) -> Result<usize> {
        self.read_with(0, bytes)
    }

    /// Enables or disables writing on this end and on the peer (`ZX_SOCKET_DISPOSITION_*`).
    ///
    /// # Errors
    /// `INVALID_ARGS`, `BAD_STATE`.
    pub fn set_disposition(&self, disposition: u32, peer_disposition: u32) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_socket_set_disposition(self.raw_handle(), disposition, peer_disposition) })
    }
}

object! {
    /// One end of a FIFO.
    Fifo
}

impl Fifo {
    /// Makes a FIFO of `count` elements of `size` bytes in each direction.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`: it exceeds 4096 bytes. `NO_MEMORY`.
    pub fn create(count: usize, size: usize) -> Result<(Fifo, Fifo)> {
        let (mut a, mut b) = (0, 0);
        // SAFETY: `a` and `b` have room for one handle each.
        check(unsafe { sys::zx_fifo_create(count, size, 0, &mut a, &mut b) })?;
        Ok((Fifo(Handle::from_call(a)?), Fifo(Handle::from_call(b)?)))
    }

    /// Writes whole elements of `size` bytes from `bytes`; returns the number of elements written.
    ///
    /// # Errors
    /// `SHOULD_WAIT`, `PEER_CLOSED`. `OUT_OF_RANGE`: another element size.
    pub fn write(&self, size: usize, bytes: &[u8]) -> Result<usize> {
        let mut actual = 0;
        let count = bytes.len().checked_div(size).unwrap_or(0);
        // SAFETY: the buffer holds `count` elements of `size` bytes.
        check(unsafe { sys::zx_fifo_write(self.raw_handle(), size, bytes.as_ptr().cast(), count, &mut actual) })?;
        Ok(actual)
    }

    /// Reads whole elements of `size` bytes into `bytes`; returns their number.
    ///
    /// # Errors
    /// `SHOULD_WAIT`, `PEER_CLOSED`. `OUT_OF_RANGE`: another element size.
    pub fn read(&self, size: usize, bytes: &mut [u8]) -> Result<usize> {
        let mut actual = 0;
        let count = bytes.len().checked_div(size).unwrap_or(0);
        // SAFETY: there is room for `count` elements of `size` bytes.
        check(unsafe { sys::zx_fifo_read(self.raw_handle(), size, bytes.as_mut_ptr().cast(), count, &mut actual) })?;
        Ok(actual)
    }
}
