//! Tests on the host: locks between threads, and values with random input.

mod host;
mod locks;
mod pages;
mod values;
