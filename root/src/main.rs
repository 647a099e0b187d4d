//! The root task: the first program, to which the kernel hands everything.
//!
//! 1. It looks at what there is: memory, devices, the system description that it carries.
//! 2. For each instance ([`instance`]) in the description it builds a server ([`server`]): address space, capability
//!    space, the image, devices. Then it divides what memory it has not touched among them, hands over the devices that
//!    their programs may drive ([`devices`]), and lets them run. What an instance gets is its [`estate`] for good.
//!    Beside them it starts the components ([`component`]), programs for the bare kernel.
//! 3. From then on it serves ([`serve`]): the boot files, whose device could reach all memory and therefore stays here,
//!    interrupts, and the end of a server or a component, which it reports ([`report`]) and answers with another life
//!    ([`supervise`]).
//!
//! It has no heap. What it needs it allocates once, from the smallest pieces of memory ([`memory`]), because the kernel
//! clears a piece whole when it is first cut.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod component;
#[cfg(target_os = "none")]
mod console;
#[cfg(target_os = "none")]
mod cspace;
#[cfg(target_os = "none")]
mod devices;
#[cfg(target_os = "none")]
mod elf;
#[cfg(target_os = "none")]
mod error;
#[cfg(target_os = "none")]
mod estate;
#[cfg(target_os = "none")]
mod fwcfg;
#[cfg(target_os = "none")]
mod hpet;
#[cfg(target_os = "none")]
mod instance;
#[cfg(target_os = "none")]
mod make;
#[cfg(all(target_os = "none", feature = "measure"))]
mod measure;
#[cfg(target_os = "none")]
mod memory;
#[cfg(target_os = "none")]
mod ports;
#[cfg(target_os = "none")]
mod report;
#[cfg(target_os = "none")]
mod serve;
#[cfg(target_os = "none")]
mod server;
#[cfg(target_os = "none")]
mod start;
#[cfg(target_os = "none")]
mod supervise;
#[cfg(target_os = "none")]
mod watch;
#[cfg(target_os = "none")]
mod world;

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("the root task runs on seL4 only");
}
