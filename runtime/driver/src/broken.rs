//! What a driver says of a device that it cannot believe.

/// The device does what no working device does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// It returns a buffer that it does not have.
    Buffer,
    /// It reports more bytes than fit.
    Length,
    /// Its registers cannot be read.
    Registers,
    /// It does not stop.
    Running,
}

impl core::fmt::Display for Broken {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Broken::Buffer => "the card is broken: it returns a buffer that it does not have",
            Broken::Length => "the card is broken: it reports more bytes than fit in the buffer",
            Broken::Registers => "the card is broken: its registers cannot be read",
            Broken::Running => "the card is broken: it does not stop",
        })
    }
}
