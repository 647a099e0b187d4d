//! The layer below the protocols: the loopback device. It delivers every sent frame, in order.
//!
//! It implements smoltcp's [`Device`], as the driver of a network card will. In addition, the stack inspects the next
//! frame before smoltcp takes it, to find its receiver.

use std::collections::VecDeque;

use smoltcp::phy::{self, ChecksumCapabilities, Device, DeviceCapabilities, Medium};
use smoltcp::time::Instant;

/// Maximum size of a frame in bytes: the maximum of IP's length field.
const MTU: usize = 65_535;
/// Number of buffers that are kept for the next frames.
const SPARE: usize = 16;

/// The loopback device.
#[derive(Debug, Default)]
pub struct Wire {
    frames: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
}

impl Wire {
    /// The frame that comes in next.
    pub fn next(&self) -> Option<&[u8]> {
        self.frames.front().map(Vec::as_slice)
    }

    /// Drops the next frame.
    pub fn lose(&mut self) {
        self.frames.pop_front();
    }
}

impl Device for Wire {
    type RxToken<'a> = Received<'a>;
    type TxToken<'a> = PendingFrame<'a>;

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = MTU;
        // Memory does not corrupt data, so no checksums are needed.
        capabilities.checksum = ChecksumCapabilities::ignored();
        capabilities
    }

    fn receive(&mut self, _now: Instant) -> Option<(Received<'_>, PendingFrame<'_>)> {
        let frame = self.frames.pop_front()?;
        // An immediate answer is small.
        let answer = PendingFrame { frames: &mut self.frames, buffer: Vec::new() };
        Some((Received { frame, spare: &mut self.spare }, answer))
    }

    fn transmit(&mut self, _now: Instant) -> Option<PendingFrame<'_>> {
        let buffer = self.spare.pop().unwrap_or_default();
        Some(PendingFrame { frames: &mut self.frames, buffer })
    }
}

/// A frame that came in.
#[derive(Debug)]
pub struct Received<'a> {
    frame: Vec<u8>,
    spare: &'a mut Vec<Vec<u8>>,
}

impl phy::RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, take: F) -> R {
        let result = take(&self.frame);
        if self.spare.len() < SPARE {
            self.spare.push(self.frame);
        }
        result
    }
}

/// A frame to be sent.
#[derive(Debug)]
pub struct PendingFrame<'a> {
    frames: &'a mut VecDeque<Vec<u8>>,
    buffer: Vec<u8>,
}

impl phy::TxToken for PendingFrame<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, fill: F) -> R {
        let mut frame = self.buffer;
        frame.resize(len, 0);
        let result = fill(&mut frame);
        self.frames.push_back(frame);
        result
    }
}
