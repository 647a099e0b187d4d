//! The first process: starts `bin/init` from BOOTFS.
//!
//! The server maps this image and the vDSO itself; there is no loader yet, no library, not even a dynamic linker. So
//! userboot is one position-independent image that [relocates itself](start) and [finds the vDSO's calls](vdso) by
//! name. Its work is then that of any program that starts another: it reads its message, finds `bin/init` in the BOOTFS
//! image, starts it with the handles that the system's first real program wants, and is its loader service, handing out
//! `lib/<name>` from the image, as long as init lives.
//!
//! Without init there is no system: when it cannot be started, or ends without having switched the machine off, userboot
//! says so in the kernel's log and switches the machine off itself.
#![cfg_attr(target_os = "fuchsia", no_std, no_main)]

#[cfg(target_os = "fuchsia")]
extern crate alloc;

#[cfg(target_os = "fuchsia")]
mod boot;
#[cfg(target_os = "fuchsia")]
mod heap;
#[cfg(target_os = "fuchsia")]
mod log;
#[cfg(target_os = "fuchsia")]
mod memory;
#[cfg(target_os = "fuchsia")]
mod start;
#[cfg(target_os = "fuchsia")]
mod vdso;

#[cfg(not(target_os = "fuchsia"))]
fn main() {
    eprintln!("userboot runs as the first process of the system only");
}
