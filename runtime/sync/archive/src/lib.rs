//! `libsync.a`: the functions of `sync` by their C names, in an archive that C programs link.
#![cfg_attr(target_os = "fuchsia", no_std)]

pub use sync::c::*;

/// The archive has no Rust program around it. Nothing in it panics; a panic would end the process.
#[cfg(target_os = "fuchsia")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    sync::c::crash()
}
