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
        // SAFETY: `out` is one handle's place.
        check(unsafe { sys::zx_stream_create(options, vmo.raw_handle(), seek, &mut out) })?;
        Ok(Stream(Handle::from_call(out)?))
    }

    /// Reads at the position and moves it; gives the number of bytes, 0 at the end.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn read(&self, bytes: &mut [u8]) -> Result<usize> {
        let mut actual = 0;
        let mut vector = sys::zx_iovec_t { buffer: bytes.as_mut_ptr().cast(), capacity: bytes.len() };
        // SAFETY: one element that is valid for its length.
        check(unsafe { sys::zx_stream_readv(self.raw_handle(), 0, &mut vector, 1, &mut actual) })?;
        Ok(actual)
    }

    /// Writes at the position and moves it; gives the number of bytes.
    ///
    /// # Errors
    /// `ACCESS_DENIED`, `NO_SPACE`.
    pub fn write(&self, bytes: &[u8]) -> Result<usize> {
        let mut actual = 0;
        let vector = sys::zx_iovec_t { buffer: bytes.as_ptr().cast_mut().cast(), capacity: bytes.len() };
        // SAFETY: one element that is valid for its length and only read.
        check(unsafe { sys::zx_stream_writev(self.raw_handle(), 0, &vector, 1, &mut actual) })?;
        Ok(actual)
    }

    /// Moves the position; `whence` is 0 from the start, 1 from here, 2 from the end. Gives the new one.
    ///
    /// # Errors
    /// `INVALID_ARGS`.
    pub fn seek(&self, whence: u32, offset: i64) -> Result<u64> {
        let mut now = 0;
        // SAFETY: `now` is one number's place.
        check(unsafe { sys::zx_stream_seek(self.raw_handle(), whence, offset, &mut now) })?;
        Ok(now)
    }
}
