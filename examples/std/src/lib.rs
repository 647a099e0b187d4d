//! The support for std: a table, and code shared by its tests.
#![forbid(unsafe_code)]

pub mod table;
