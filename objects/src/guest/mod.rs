//! Code below or beside the server: virtual processors and native components.

pub mod component;
pub mod vproc;
