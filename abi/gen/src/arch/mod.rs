//! What is written for one processor.

mod x86_64;

pub use x86_64::stubs;
