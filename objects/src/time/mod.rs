//! Time: deadlines, timers and clocks.

pub mod clock;
pub(crate) mod deadline;
pub mod timer;
