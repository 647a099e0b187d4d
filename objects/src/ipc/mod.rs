//! Communication: channels, sockets, FIFOs, event pairs, streams and IOBuffers.

pub mod buffer_pool;
pub mod channel;
pub mod eventpair;
pub mod fifo;
pub mod iob;
pub(crate) mod ring_buffer;
pub mod socket;
pub mod stream;
