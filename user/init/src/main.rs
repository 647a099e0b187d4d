//! The first ordinary program: runs what the system was booted for.
fn main() {}
