//! Jobs, processes and threads: their lives, exceptions, scheduling, and accounts.

pub mod account;
pub(crate) mod call_stack_pointer;
pub mod exception;
pub(crate) mod exception_report;
pub(crate) mod fair_scheduling;
pub mod futex;
pub mod job;
pub mod policy;
pub mod process;
pub mod profile;
pub mod shared_process;
pub mod suspend_token;
pub mod thread;
