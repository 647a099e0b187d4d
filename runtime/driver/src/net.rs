//! What all network cards have in common.

use crate::broken::Broken;
use crate::dma::Pinned;

/// Frames that a direction has in flight at most.
pub const MOST_FRAMES: usize = 128;

/// Frames in flight from which on a card says when it has sent them. Fewer wait for the next event.
pub(crate) const MUCH: usize = 32;

/// A network card. Its frames lie in memory of a client, which the card reads and writes directly. A frame that it has is
/// named by the driver's number for it.
pub trait NetworkCard {
    /// The smallest buffer to receive, in bytes.
    const MIN_RX_BUFFER: usize;

    /// The hardware address.
    fn mac(&self) -> [u8; 6];

    /// Whether there is a link.
    fn online(&self) -> bool;

    /// Starts the card. Frames lie in `frames` until [`NetworkCard::close`].
    ///
    /// # Errors
    /// `NO_MEMORY`; `IO`: the card does not start. The memory is given back, unless the card does not stop either.
    fn open(&mut self, frames: Pinned) -> zx::Result<()>;

    /// Stops the card, and gives the memory of the frames back.
    ///
    /// # Errors
    /// `IO`: the card does not stop. The memory stays pinned.
    fn close(&mut self) -> zx::Result<()>;

    /// Gives the card a buffer for a frame, at `offset` in the memory of frames. Returns whether there was room.
    fn receive(&mut self, number: u16, offset: usize, len: usize) -> bool;

    /// Gives the card a frame to send. Returns whether there was room.
    fn send(&mut self, number: u16, offset: usize, len: usize) -> bool;

    /// Whether the card takes one more buffer to receive.
    fn can_receive(&self) -> bool;

    /// Whether the card takes one more frame to send.
    fn can_send(&self) -> bool;

    /// Tells the card of what it was given.
    fn tell(&mut self);

    /// Takes a frame that came in: the number of its buffer, and its length. With length 0 there is no frame in it.
    ///
    /// # Errors
    /// The card is broken.
    fn received(&mut self) -> Result<Option<(u16, usize)>, Broken>;

    /// Takes a buffer whose frame was sent: its number.
    ///
    /// # Errors
    /// The card is broken.
    fn sent(&mut self) -> Result<Option<u16>, Broken>;

    /// Switches interrupts off.
    fn be_quiet(&mut self);

    /// Switches interrupts on: for frames that come in, and while much is being sent for buffers that become free.
    /// Returns whether there is something for which there may be no interrupt.
    ///
    /// # Errors
    /// The card is broken.
    fn be_loud(&mut self) -> Result<bool, Broken>;
}
