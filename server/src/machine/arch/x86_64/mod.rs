//! The 64-bit x86 processors.

mod counter;
mod entropy;
pub mod fpu;
mod messages;
pub mod ports;
mod registers;
mod start;
mod strings;

pub use counter::counter;
pub use entropy::{generators, jitter};
pub use messages::message_address;
pub use registers::{
    answered, debug_from_words, debug_words, from_context, hidden_base, of_program, seen_by_program, user_context,
    with_hidden_base,
};
pub use start::crash;
pub use strings::{copy, zero_page};
