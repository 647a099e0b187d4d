//! Containers and small values that know nothing of the kernel: storage by number, lists, maps, names.

pub mod failure_injection;
pub mod growth;
pub(crate) mod inline_map;
pub(crate) mod interval_map;
pub mod list;
pub mod name;
pub mod slab;
