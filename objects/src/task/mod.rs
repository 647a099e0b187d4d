//! Jobs, processes and threads: their lives, exceptions, scheduling, endpoints and restricted mode.

pub(crate) mod blocking;
pub(crate) mod call_stack_pointer;
pub(crate) mod channel_call;
pub mod endpoint;
pub mod exception;
pub(crate) mod exception_report;
pub(crate) mod fair_scheduling;
pub mod futex;
pub mod job;
pub(crate) mod job_account;
pub(crate) mod kernel_time;
pub(crate) mod long_call;
pub mod page_wait;
pub mod policy;
pub mod process;
pub mod profile;
pub mod restricted;
pub mod shared_process;
pub mod suspend_token;
pub mod thread;
pub(crate) mod wait;
