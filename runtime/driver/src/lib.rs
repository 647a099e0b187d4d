//! What drivers cannot do in safe code, as small safe types.
//!
//! A driver is an ordinary program; its right to a part of the machine is a handle, and these types are made from such
//! handles.

mod ports;

pub use ports::Ports;
