//! Code below or beside the server: virtual processors, restricted mode, native endpoints and components.

pub mod component;
pub mod vproc;
