//! The console, and the link to the host.

/// Text for people, and a stream of bytes to and from the host tool. Nothing here waits.
pub trait Console {
    /// Writes text to the console.
    fn console_write(&mut self, text: &[u8]);
    /// Queues bytes for the host link; returns how many were queued, possibly 0.
    fn serial_write(&mut self, data: &[u8]) -> usize;
    /// Takes bytes received over the host link; returns how many, possibly 0.
    fn serial_read(&mut self, out: &mut [u8]) -> usize;
}
