//! The system calls, one file per noun. Each function has its call's name and takes its arguments, typed.
//!
//! A function checks in Zircon's order (options, handles, types, rights, then memory) and changes nothing before
//! everything that can be checked has been. If something fails that could not be checked beforehand, such as a write to
//! the caller's memory, the function undoes its changes, except where Zircon specifies that handles are consumed.

pub mod bti;
pub mod channel;
pub mod clock;
pub mod counter;
pub mod cprng;
pub mod debug;
pub mod debuglog;
pub mod endpoint;
pub mod event;
pub mod eventpair;
pub mod exception;
pub mod fifo;
pub mod futex;
pub mod handle;
pub mod info;
pub mod interrupt;
pub mod iob;
pub mod iommu;
pub mod ioports;
pub mod job;
pub mod ktrace;
pub mod membarrier;
pub mod msi;
pub mod object;
pub mod pager;
pub mod pci;
pub mod pmt;
pub mod port;
pub mod process;
pub mod profile;
pub mod property;
pub mod resource;
pub mod restricted;
pub mod socket;
pub mod stream;
pub mod system;
pub mod task;
pub mod test;
pub mod thread;
pub mod timer;
pub mod vmar;
pub mod vmo;
pub mod vproc;
