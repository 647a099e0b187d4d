//! A split virtqueue for frames: each has a header of its own, which no client can reach, and a buffer.
//!
//! The device is not believed: what it says of a frame is checked against what it was given. A *slot* is a pair of
//! descriptors: the first one of the header, the second one of the buffer.

use core::sync::atomic::{Ordering, fence};
use std::vec;
use std::vec::Vec;

use virtio_drivers::transport::Transport;
use zx::{Bti, Result};

use super::{Interrupting, PAGE};
use crate::broken::Broken;
use crate::dma::Dma;
use crate::net::Queue;

/// Descriptors of a queue at most.
const MOST: u32 = 256;
/// Bytes of a descriptor: address, length, flags, next.
const DESCRIPTOR: usize = 16;
/// Flags of a descriptor.
const NEXT: u16 = 1;
const WRITE: u16 = 2;
/// Bytes of the header of a frame, and of its place.
const HEADER: usize = 12;
const PLACE: usize = 16;
/// In the flags of the available ring: the device sends no interrupts.
const NO_INTERRUPT: u16 = 1;
/// In the flags of the used ring: the device needs no notifications.
const NO_NOTIFY: u16 = 1;

/// A queue.
pub struct Ring {
    memory: Dma,
    number: u16,
    /// Number of descriptors, a power of two.
    size: u16,
    /// Whether each side says at which index it wants to be told of.
    event_index: bool,
    /// Slots that the device does not have.
    free: Vec<u16>,
    /// For each slot that the device has: the driver's number for it, and the length of its buffer.
    given: Vec<Option<(u16, u32)>>,
    /// The next index of the available ring, and the one at the last notification.
    available: u16,
    told: u16,
    /// The next index of the used ring.
    used: u16,
}

/// Where the parts of a queue of this size begin: the available ring, the used ring, the headers; and their end.
fn layout(size: u16) -> [usize; 4] {
    let size = usize::from(size);
    let available = DESCRIPTOR * size;
    let used = (available + 6 + 2 * size).next_multiple_of(PAGE);
    let headers = (used + 6 + 8 * size).next_multiple_of(PAGE);
    [available, used, headers, headers + size / 2 * PLACE]
}

impl Ring {
    /// Makes a queue, of which the device does not know yet. `receives`: the device writes headers and buffers.
    pub(super) fn new(
        transport: &mut Interrupting,
        bti: &Bti,
        number: u16,
        receives: bool,
        event_index: bool,
    ) -> Result<Ring> {
        let most = transport.max_queue_size(number).min(MOST);
        // The largest power of two; a queue that the device does not have has size 0.
        let size = if most < 2 { return Err(zx::Status::NOT_SUPPORTED) } else { 1_u16 << most.ilog2() };
        let [.., headers, end] = layout(size);
        let memory = Dma::new(bti, end)?;
        let address = memory.address();
        let slots = size / 2;
        let write = if receives { WRITE } else { 0 };
        for slot in 0..slots {
            let header = address + (headers + usize::from(slot) * PLACE) as u64;
            let at = usize::from(slot) * 2 * DESCRIPTOR;
            memory.write(at, header);
            memory.write(at + 8, HEADER as u32);
            memory.write(at + 12, NEXT | write);
            memory.write(at + 14, slot * 2 + 1);
            memory.write(at + DESCRIPTOR + 12, write);
        }
        Ok(Ring {
            memory,
            number,
            size,
            event_index,
            free: (0..slots).rev().collect(),
            given: vec![None; slots.into()],
            available: 0,
            told: 0,
            used: 0,
        })
    }

    /// Tells the device of the queue.
    pub(super) fn announce(&self, transport: &mut Interrupting) {
        let [available, used, ..] = layout(self.size).map(|offset| offset as u64);
        let address = self.memory.address();
        transport.queue_set(self.number, self.size.into(), address, address + available, address + used);
    }

    /// Gives the device a buffer, by its address for the device. Returns whether there was room. The device learns of it
    /// by [`Ring::tell`].
    fn give(&mut self, number: u16, address: u64, len: u32) -> bool {
        let Some(slot) = self.free.pop() else { return false };
        let [available, ..] = layout(self.size);
        let at = (usize::from(slot) * 2 + 1) * DESCRIPTOR;
        self.memory.write(at, address);
        self.memory.write(at + 8, len);
        self.given[usize::from(slot)] = Some((number, len));
        let index = usize::from(self.available % self.size);
        self.memory.write(available + 4 + 2 * index, slot * 2);
        self.available = self.available.wrapping_add(1);
        true
    }

    /// Tells the device of the buffers since the last time, if it wants to know.
    pub(super) fn tell(&mut self, transport: &mut Interrupting) {
        if self.told == self.available {
            return;
        }
        let [available, used, ..] = layout(self.size);
        // The device sees the buffers before the index.
        fence(Ordering::Release);
        self.memory.write(available + 2, self.available);
        // The device sees the index before this side looks whether it wants to be told.
        fence(Ordering::SeqCst);
        let wanted = if self.event_index {
            let event = self.memory.read::<u16>(used + 4 + 8 * usize::from(self.size));
            self.available.wrapping_sub(event).wrapping_sub(1) < self.available.wrapping_sub(self.told)
        } else {
            self.memory.read::<u16>(used) & NO_NOTIFY == 0
        };
        self.told = self.available;
        if wanted {
            transport.notify(self.number);
        }
    }

    /// Takes a buffer that the device has finished with: the driver's number for it, and how many bytes the device has
    /// written to header and buffer.
    ///
    /// # Errors
    /// What the device says is impossible.
    fn take(&mut self) -> core::result::Result<Option<(u16, u32)>, Broken> {
        let [_, used, ..] = layout(self.size);
        let index = self.memory.read::<u16>(used + 2);
        let waiting = index.wrapping_sub(self.used);
        if waiting == 0 {
            return Ok(None);
        }
        if usize::from(waiting) > self.given() {
            return Err(Broken::Buffer);
        }
        // This side sees the index before what it stands for.
        fence(Ordering::Acquire);
        let at = used + 4 + 8 * usize::from(self.used % self.size);
        let (id, written) = (self.memory.read::<u32>(at), self.memory.read::<u32>(at + 4));
        let slot = u16::try_from(id).ok().filter(|id| id % 2 == 0).ok_or(Broken::Buffer)? / 2;
        let (number, len) = self.given.get_mut(usize::from(slot)).and_then(Option::take).ok_or(Broken::Buffer)?;
        if u64::from(written) > u64::from(len) + HEADER as u64 {
            return Err(Broken::Length);
        }
        self.used = self.used.wrapping_add(1);
        self.free.push(slot);
        Ok(Some((number, written)))
    }

    /// Switches interrupts off.
    pub(super) fn be_quiet(&self) {
        let [available, ..] = layout(self.size);
        if self.event_index {
            // The index is as far away as possible.
            let event = available + 4 + 2 * usize::from(self.size);
            self.memory.write(event, self.used.wrapping_sub(1));
        } else {
            self.memory.write(available, NO_INTERRUPT);
        }
    }

    /// Switches interrupts on. Returns whether there are buffers that the device finished with before, for which there
    /// may be no interrupt.
    pub(super) fn be_loud(&self) -> bool {
        let [available, used, ..] = layout(self.size);
        if self.event_index {
            let event = available + 4 + 2 * usize::from(self.size);
            self.memory.write(event, self.used);
        } else {
            self.memory.write(available, 0_u16);
        }
        // The device sees this before this side looks for the last time.
        fence(Ordering::SeqCst);
        self.memory.read::<u16>(used + 2) != self.used
    }
}

impl Queue for Ring {
    fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    fn given(&self) -> usize {
        self.given.len() - self.free.len()
    }

    fn give_empty(&mut self, number: u16, address: u64, len: usize) -> bool {
        u32::try_from(len).is_ok_and(|len| self.give(number, address, len))
    }

    fn give_frame(&mut self, number: u16, address: u64, len: usize) -> bool {
        self.give_empty(number, address, len)
    }

    fn take_received(&mut self) -> core::result::Result<Option<(u16, usize)>, Broken> {
        // Without a header there is no frame.
        Ok(self.take()?.map(|(number, written)| (number, (written as usize).saturating_sub(HEADER))))
    }

    fn take_sent(&mut self) -> core::result::Result<Option<u16>, Broken> {
        Ok(self.take()?.map(|(number, _)| number))
    }
}
