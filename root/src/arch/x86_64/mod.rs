//! 64-bit x86 processors.

mod counter;
mod exceptions;
pub mod ports;
mod registers;

pub use counter::tsc;
#[cfg(feature = "measure")]
pub use counter::{count_down, tsc_in_order};
pub use exceptions::{exception_name, is_write};
pub use registers::{at_start, frame_pointer, ip, report, with_ip, without_bases};
