//! Interrupts.

use super::DeviceError;

/// The source of an interrupt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IrqSource {
    /// An input of the machine's interrupt controllers, counted through all of them.
    Pin {
        /// Its number.
        number: u32,
        /// Level-triggered: the device holds the level until it is served. Otherwise edge-triggered.
        level: bool,
        /// Active on the low level or the falling edge.
        active_low: bool,
    },
    /// A message that a device writes.
    Message {
        /// One of the vectors of a [`super::MsiBlock`].
        vector: u32,
    },
}

/// An interrupt that is being watched.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Irq(pub u32);

/// The number by which the machine reports an interrupt; chosen by the objects.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct IrqKey(pub u32);

/// Interrupts that programs watch.
pub trait Interrupts {
    /// Watches an interrupt: `Server::interrupt` is called with `key` when it comes. An interrupt comes at most once
    /// until it is acknowledged: a level-triggered pin stays masked until [`Self::irq_ack`]; the machine itself
    /// acknowledges the others when they come. `Taken`: the pin or vector is watched already.
    fn irq_open(&mut self, source: IrqSource, key: IrqKey) -> Result<Irq, DeviceError>;
    /// Allows an interrupt that has come to come again. Harmless where no acknowledgement is needed.
    fn irq_ack(&mut self, irq: Irq);
    /// Stops watching an interrupt. It is no longer delivered, not even if it came before and was not reported yet.
    fn irq_close(&mut self, irq: Irq);
    /// The number of pins of the machine's interrupt controllers, and the number of vectors for messages.
    fn irq_counts(&self) -> (u32, u32);
}
