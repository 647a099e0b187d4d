//! The shell inside the system.
fn main() {}
