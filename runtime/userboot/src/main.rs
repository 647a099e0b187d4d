//! The first process: starts `bin/init` from BOOTFS.
//!
//! The server maps this image and the vDSO itself. There is no loader service, no library and no dynamic linker yet. So
//! userboot is one position-independent image that [relocates itself](start) and [finds the vDSO's calls](vdso) by
//! name. After that it works like any program that starts another: it reads its start message, finds `bin/init` in the
//! BOOTFS image, starts it with the handles that the system's first real program needs, and serves as its loader
//! service, with `lib/<name>` from the image, until init ends.
//!
//! The system cannot run without init. If init cannot be started, or ends without having powered off the machine,
//! userboot writes that to the kernel's log and powers off the machine itself.
#![cfg_attr(target_os = "fuchsia", no_std, no_main)]

#[cfg(target_os = "fuchsia")]
extern crate alloc;

#[cfg(target_os = "fuchsia")]
mod arch;
#[cfg(target_os = "fuchsia")]
mod boot;
#[cfg(target_os = "fuchsia")]
mod heap;
#[cfg(target_os = "fuchsia")]
mod log;
#[cfg(target_os = "fuchsia")]
mod start;
#[cfg(target_os = "fuchsia")]
mod vdso;

#[cfg(not(target_os = "fuchsia"))]
fn main() {
    eprintln!("userboot runs as the first process of the system only");
}
