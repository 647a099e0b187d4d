//! Conformance programs: what the system calls promise, checked in the booted system.
fn main() {}
