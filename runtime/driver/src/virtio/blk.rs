//! A virtio disk.
//!
//! The crate `virtio-drivers` implements the protocol. A request has three parts that the device reads and writes: a
//! header, the data, and a status byte. The data lies in a [`Dma`] that the driver may share with a client; the driver
//! neither copies nor reads it. Header and status byte are small; the driver copies them to and from a page that the
//! device can access.

use core::ptr::NonNull;
use core::sync::atomic::{Ordering, fence};
use std::boxed::Box;
use std::string::{String, ToString};
use std::vec::Vec;

use virtio_drivers::device::blk::{BlkReq, BlkResp, SECTOR_SIZE, VirtIOBlk};
use zx::Bti;

use super::{Config, Interrupting, Memory, PROCESS, locked};
use crate::dma::{Dma, Window};

/// Block size in bytes.
pub const BLOCK: usize = SECTOR_SIZE;
/// Limit on requests in flight: the size of the crate's queue.
pub const MOST_REQUESTS: usize = 16;

/// A request in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token(u16);

/// A request that the device is processing.
struct Pending {
    write: bool,
    /// The data, in a [`Dma`] buffer.
    data: NonNull<[u8]>,
    /// Header and status. Their address in this process must not change until the request is complete.
    small: Box<(BlkReq, BlkResp)>,
}

/// A virtio disk.
pub struct Disk {
    device: VirtIOBlk<Memory, Interrupting>,
    /// Requests in flight, indexed by the queue's tokens.
    pending: [Option<Pending>; MOST_REQUESTS],
}

// SAFETY: the pointers point to mappings of the process, and are used only through `&mut Disk`.
unsafe impl Send for Disk {}

impl Disk {
    /// Resets the device and initialises it.
    ///
    /// # Errors
    /// A sentence for the log.
    pub fn new(config: impl Config, windows: Vec<Window>, bti: &Bti) -> Result<Disk, String> {
        let transport = super::open(config, windows, bti)?;
        let mut device = VirtIOBlk::new(transport).map_err(|error| error.to_string())?;
        device.enable_interrupts();
        Ok(Disk { device, pending: [const { None }; MOST_REQUESTS] })
    }

    /// Number of blocks.
    pub fn blocks(&self) -> u64 {
        self.device.capacity()
    }

    /// Whether the disk is read-only.
    pub fn read_only(&self) -> bool {
        self.device.readonly()
    }

    /// Number of requests in flight.
    pub fn under_way(&self) -> usize {
        self.pending.iter().flatten().count()
    }

    /// Registers a buffer for data. It must exist until [`Disk::forget`].
    pub fn learn(&mut self, buffer: &Dma) {
        if let Some(process) = PROCESS.get() {
            locked(&process.buffers).push((buffer.mapped().addr().get(), buffer.len(), buffer.address()));
        }
    }

    /// Unregisters a buffer. No request in flight may use it.
    pub fn forget(&mut self, buffer: &Dma) {
        if let Some(process) = PROCESS.get() {
            locked(&process.buffers).retain(|(at, ..)| *at != buffer.mapped().addr().get());
        }
    }

    /// Submits a read or write of `blocks` blocks from `block` on, to or from `buffer` at `offset`. Returns `None` if
    /// too many requests are in flight or a range is invalid.
    pub fn submit(&mut self, write: bool, block: u64, blocks: u32, buffer: &Dma, offset: usize) -> Option<Token> {
        let len = (blocks as usize).checked_mul(BLOCK)?;
        let in_buffer = offset.checked_add(len)? <= buffer.len();
        let on_disk = block.checked_add(blocks.into())? <= self.blocks();
        if blocks == 0 || !in_buffer || !on_disk || self.under_way() == MOST_REQUESTS {
            return None;
        }
        // SAFETY: the range is inside the buffer's mapping, as checked above.
        let data = NonNull::slice_from_raw_parts(unsafe { buffer.mapped().add(offset) }, len);
        let mut small = Box::new((BlkReq::default(), BlkResp::default()));
        let (request, response) = (&mut small.0, &mut small.1);
        let block = usize::try_from(block).ok()?;
        // SAFETY: `pending` keeps the small parts at their address, and callers of `learn` keep the buffer; this
        // process does not access either until the request is complete. (The crate uses the slice of data only as an
        // address.)
        let token = unsafe {
            match write {
                true => self.device.write_blocks_nb(block, request, data.as_ref(), response),
                false => self.device.read_blocks_nb(block, request, &mut *data.as_ptr(), response),
            }
        };
        let token = token.ok()?;
        *self.pending.get_mut(usize::from(token))? = Some(Pending { write, data, small });
        Some(Token(token))
    }

    /// Takes a completed request and whether it succeeded; `None` if no request is complete.
    pub fn done(&mut self) -> Option<(Token, bool)> {
        // The crate has told the device at which request to interrupt. The device must see that before the driver looks
        // for more completed requests; otherwise a request that completes in between would raise no interrupt and go
        // unnoticed.
        fence(Ordering::SeqCst);
        let token = self.device.peek_used()?;
        let Pending { write, data, mut small } = self.pending.get_mut(usize::from(token))?.take()?;
        let (request, response) = (&small.0, &mut small.1);
        // SAFETY: these are the parts that the request was submitted with.
        let result = unsafe {
            match write {
                true => self.device.complete_write_blocks(token, request, data.as_ref(), response),
                false => self.device.complete_read_blocks(token, request, &mut *data.as_ptr(), response),
            }
        };
        Some((Token(token), result.is_ok()))
    }

    /// Makes the device write its cache to the disk, and waits for that. Returns `None` while requests are in flight.
    pub fn flush(&mut self) -> Option<bool> {
        (self.under_way() == 0).then(|| self.device.flush().is_ok())
    }
}
