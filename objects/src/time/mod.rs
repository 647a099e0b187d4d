//! Time: deadlines, and the objects that show it.

pub mod clock;
pub(crate) mod deadline;
pub mod timer;
