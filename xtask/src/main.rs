//! The host side: set-up, build, image, QEMU.
fn main() {}
