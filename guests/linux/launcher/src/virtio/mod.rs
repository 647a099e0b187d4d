//! The device's side of Linux' virtio devices. The path of a request (`virtio.c` in the overlay has Linux' side):
//!
//! 1. Linux' driver puts a request into the ring of the device's queue, and kicks: [`Virtio::kick`] wakes the device's
//!    thread. Linux goes on meanwhile.
//! 2. The thread takes the request ([`Queue::take`]), which checks all of it: each address and length is of Linux' own
//!    memory, and each chain ends.
//! 3. The device carries it out ([`Device::handle`]), and the thread puts the answer into the ring.
//! 4. If the driver wants an interrupt, the device is put into the set of those that want one. If the set was empty, the
//!    port gets a packet. So there is one packet at most.
//! 5. When Linux handles the packet, it takes the set ([`Virtio::interrupts`]), and its drivers take the answers.
//!
//! A ring that makes no sense stops its device until Linux resets it.

pub mod block;
pub mod queue;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;

use vm_memory::VolatileSlice;

use queue::{Broken, Chain, Queue, SIZE};

/// The feature that a device follows version 1 of the standard.
pub const VERSION_1: u64 = 1 << 32;
/// How many devices there can be: the set of those that want to interrupt has a bit for each.
pub const DEVICES: usize = 32;

/// Status: the driver has started its queues.
const DRIVER_OK: u8 = 4;
/// Status: the device has stopped.
const NEEDS_RESET: u8 = 64;

/// A kind of device. It has one queue.
pub trait Device: Send {
    /// The kind (`VIRTIO_ID_*`).
    fn id(&self) -> u32;
    /// The features that it offers.
    fn features(&self) -> u64;
    /// Its configuration, which does not change.
    fn config(&self) -> &[u8];
    /// Carries out a request; returns how many bytes it has written to it.
    ///
    /// # Errors
    /// The request makes no sense.
    fn handle(&mut self, memory: &VolatileSlice<'_>, chain: &Chain) -> Result<u32, Broken>;
}

struct State {
    device: Box<dyn Device>,
    status: u8,
    queue: Option<Queue>,
}

struct Slot {
    state: Mutex<State>,
    thread: OnceLock<Thread>,
    id: u32,
    features: u64,
    config: Vec<u8>,
}

impl Slot {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All devices. Their numbers come from Linux: what is not there has no features, queues or configuration.
pub struct Virtio {
    slots: Vec<Slot>,
    wanting: AtomicU32,
    tell: Box<dyn Fn() + Send + Sync>,
}

impl Virtio {
    /// With these devices, at most [`DEVICES`]; `tell` interrupts Linux.
    pub fn new(devices: Vec<Box<dyn Device>>, tell: Box<dyn Fn() + Send + Sync>) -> Virtio {
        let slot = |device: Box<dyn Device>| Slot {
            id: device.id(),
            features: device.features(),
            config: device.config().to_vec(),
            state: Mutex::new(State { device, status: 0, queue: None }),
            thread: OnceLock::new(),
        };
        Virtio { slots: devices.into_iter().take(DEVICES).map(slot).collect(), wanting: AtomicU32::new(0), tell }
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.slots.len() as u32
    }

    fn slot(&self, device: u32) -> Option<&Slot> {
        self.slots.get(device as usize)
    }

    /// The kind of a device; 0 is none.
    pub fn id(&self, device: u32) -> u32 {
        self.slot(device).map_or(0, |slot| slot.id)
    }

    /// What it offers.
    pub fn features(&self, device: u32) -> u64 {
        self.slot(device).map_or(0, |slot| slot.features)
    }

    /// Whether a driver can use these features.
    pub fn accept(&self, device: u32, features: u64) -> bool {
        features & !self.features(device) == 0 && features & VERSION_1 != 0
    }

    /// The device's status.
    pub fn status(&self, device: u32) -> u8 {
        self.slot(device).map_or(0, |slot| slot.state().status)
    }

    /// Changes it; 0 resets the device. Returns when the device does nothing that the new status forbids.
    pub fn set_status(&self, device: u32, status: u8) {
        let Some(slot) = self.slot(device) else { return };
        let mut state = slot.state();
        if status == 0 {
            state.queue = None;
        }
        state.status = status;
    }

    /// A byte of its configuration.
    pub fn config(&self, device: u32, offset: u32) -> u8 {
        self.slot(device).and_then(|slot| slot.config.get(offset as usize).copied()).unwrap_or(0)
    }

    /// The most entries of a queue; 0: there is no such queue.
    pub fn queue_size(&self, device: u32, queue: u32) -> u32 {
        if self.slot(device).is_some() && queue == 0 { SIZE.into() } else { 0 }
    }

    /// Starts a device's queue. It is used when the driver's status says so.
    pub fn queue_start(&self, device: u32, index: u32, queue: Option<Queue>) -> bool {
        let (Some(slot), Some(queue), 0) = (self.slot(device), queue, index) else { return false };
        slot.state().queue = Some(queue);
        true
    }

    /// Step 1.
    pub fn kick(&self, device: u32) {
        if let Some(thread) = self.slot(device).and_then(|slot| slot.thread.get()) {
            thread.unpark();
        }
    }

    /// Step 5.
    pub fn interrupts(&self) -> u32 {
        self.wanting.swap(0, Ordering::AcqRel)
    }

    /// Serves a device, on a thread of its own, for ever.
    #[cfg(target_os = "fuchsia")]
    pub fn serve(&self, device: u32, memory: &VolatileSlice<'_>) {
        let Some(slot) = self.slot(device) else { return };
        let _ = slot.thread.set(std::thread::current());
        loop {
            while self.step(device, memory) {}
            std::thread::park();
        }
    }

    /// Steps 2 to 4 for one request; returns whether there may be another.
    fn step(&self, device: u32, memory: &VolatileSlice<'_>) -> bool {
        let Some(slot) = self.slot(device) else { return false };
        let mut state = slot.state();
        if state.status & (DRIVER_OK | NEEDS_RESET) != DRIVER_OK {
            return false;
        }
        let State { device: kind, status, queue: Some(queue) } = &mut *state else { return false };
        match request(&mut **kind, queue, memory) {
            Ok(Done::Nothing) => return false,
            Ok(Done::Quietly) => {}
            Ok(Done::Wants) => {
                if self.wanting.fetch_or(1 << device, Ordering::AcqRel) == 0 {
                    (self.tell)();
                }
            }
            Err(Broken) => {
                *status |= NEEDS_RESET;
                eprintln!("linux: virtio device {device} has stopped: its ring makes no sense");
                return false;
            }
        }
        true
    }
}

/// What became of a request.
enum Done {
    /// There was none.
    Nothing,
    /// The driver wants no interrupt.
    Quietly,
    /// The driver wants one.
    Wants,
}

fn request(device: &mut dyn Device, queue: &mut Queue, memory: &VolatileSlice<'_>) -> Result<Done, Broken> {
    let mut chain = queue.take(memory)?;
    if chain.is_none() {
        // From here on the driver kicks; what it has put there just before is seen by the second look.
        queue.want_kicks(memory, true)?;
        chain = queue.take(memory)?;
    }
    let Some(chain) = chain else { return Ok(Done::Nothing) };
    queue.want_kicks(memory, false)?;
    let written = device.handle(memory, &chain)?;
    queue.answer(memory, &chain, written)?;
    Ok(if queue.wants_interrupt(memory)? { Done::Wants } else { Done::Quietly })
}

#[cfg(test)]
mod tests;
