//! What all objects share: identity, handles, signals, waits, ports and accounts.

pub mod account;
pub mod continuation;
pub mod counter;
pub mod debuglog;
pub mod event;
pub mod handle;
pub mod noun;
pub mod object;
pub mod port;
pub(crate) mod sole_waiter;
pub mod wait;
