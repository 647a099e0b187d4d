//! Power.

/// How to stop the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Power {
    /// Switch off.
    Off,
    /// Start again.
    Reboot,
}

/// The power switch.
pub trait PowerSwitch {
    /// Stops the machine; returns only if it cannot.
    fn power(&mut self, how: Power);
}
