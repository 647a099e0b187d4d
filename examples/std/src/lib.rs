//! What of std works: a table, and what its tests have in common.
#![forbid(unsafe_code)]

pub mod table;
