//! Streams: a seek position over a VMO.

use crate::handle::object;
use crate::{AsHandleRef, Handle, Result, Vmo, check, sys};

object! {
    /// A seek position over a VMO.
    Stream
}

impl Stream {
    /// Opens a VMO as a stream at `seek`. Options: `ZX_STREAM_MODE_*`.
    ///
    /// # Errors
    /// `ACCESS_DENIED`, `INVALID_ARGS`, `NO_MEMORY`.
    pub fn create(options: u32, vmo: &Vmo, seek: u64) -> Result<Stream> {
        let mut out = 0;
        // SAFETY: `out` has room for one handle.
        check(unsafe { sys::zx_stream_create(options, vmo.raw_handle(), seek, &mut out) })?;
        Ok(Stream(Handle::from_call(out)?))
    }

    /// Reads at the position and advances it; returns the number of bytes, 0 at the end.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn read(&self, bytes: &mut [u8]) -> Result<usize> {
        self.readv([bytes])
    }

    /// Reads at the position into several buffers and advances it; returns the number of bytes.
    ///
    /// # Errors
    /// As [`Stream::read`]; `INVALID_ARGS`: too many buffers.
    pub fn readv<const N: usize>(&self, buffers: [&mut [u8]; N]) -> Result<usize> {
        let (mut vectors, mut actual) = (outputs(buffers), 0);
        // SAFETY: each element is valid for its length.
        check(unsafe { sys::zx_stream_readv(self.raw_handle(), 0, vectors.as_mut_ptr(), vectors.len(), &mut actual) })?;
        Ok(actual)
    }

    /// Reads at an offset into several buffers; the position does not change.
    ///
    /// # Errors
    /// As [`Stream::readv`].
    pub fn readv_at<const N: usize>(&self, offset: u64, buffers: [&mut [u8]; N]) -> Result<usize> {
        let (mut vectors, mut actual) = (outputs(buffers), 0);
        // SAFETY: each element is valid for its length.
        check(unsafe {
            sys::zx_stream_readv_at(self.raw_handle(), 0, offset, vectors.as_mut_ptr(), vectors.len(), &mut actual)
        })?;
        Ok(actual)
    }

    /// Writes at the position and advances it; returns the number of bytes.
    ///
    /// # Errors
    /// `ACCESS_DENIED`, `NO_SPACE`, `FILE_BIG`, `NO_MEMORY`.
    pub fn write(&self, bytes: &[u8]) -> Result<usize> {
        self.writev(0, [bytes])
    }

    /// Writes several buffers at the position, or with `ZX_STREAM_APPEND` at the end, and advances the position;
    /// returns the number of bytes.
    ///
    /// # Errors
    /// As [`Stream::write`]; `INVALID_ARGS`: an unknown option, or too many buffers.
    pub fn writev<const N: usize>(&self, options: u32, buffers: [&[u8]; N]) -> Result<usize> {
        let (vectors, mut actual) = (inputs(buffers), 0);
        // SAFETY: each element is valid for its length and only read.
        check(unsafe {
            sys::zx_stream_writev(self.raw_handle(), options, vectors.as_ptr(), vectors.len(), &mut actual)
        })?;
        Ok(actual)
    }

    /// Writes several buffers at an offset; the position does not change.
    ///
    /// # Errors
    /// As [`Stream::writev`].
    pub fn writev_at<const N: usize>(&self, offset: u64, buffers: [&[u8]; N]) -> Result<usize> {
        let (vectors, mut actual) = (inputs(buffers), 0);
        // SAFETY: each element is valid for its length and only read.
        check(unsafe {
            sys::zx_stream_writev_at(self.raw_handle(), 0, offset, vectors.as_ptr(), vectors.len(), &mut actual)
        })?;
        Ok(actual)
    }

    /// Moves the position and returns the new one; `whence` is 0 from the start, 1 from the position, 2 from the end.
    ///
    /// # Errors
    /// `INVALID_ARGS`.
    pub fn seek(&self, whence: u32, offset: i64) -> Result<u64> {
        let mut now = 0;
        // SAFETY: `now` has room for one number.
        check(unsafe { sys::zx_stream_seek(self.raw_handle(), whence, offset, &mut now) })?;
        Ok(now)
    }
}

/// Converts buffers to be filled to the calls' format.
fn outputs<const N: usize>(buffers: [&mut [u8]; N]) -> [sys::zx_iovec_t; N] {
    buffers.map(|bytes| sys::zx_iovec_t { buffer: bytes.as_mut_ptr().cast(), capacity: bytes.len() })
}

/// Converts buffers that are only read to the calls' format.
pub(crate) fn inputs<const N: usize>(buffers: [&[u8]; N]) -> [sys::zx_iovec_t; N] {
    buffers.map(|bytes| sys::zx_iovec_t { buffer: bytes.as_ptr().cast_mut().cast(), capacity: bytes.len() })
}
