//! Memory: VMOs, VMARs, pagers, and access to a program's memory.

pub mod aspace;
pub(crate) mod copy;
pub(crate) mod frames;
pub(crate) mod lookaside;
pub mod pager;
pub mod pressure;
pub mod tree_walk;
pub mod usermem;
pub mod vmar;
pub mod vmo;
