//! The root task: the first program, which gets everything from the kernel.
//!
//! 1. It examines memory, devices, and the system description that it embeds.
//! 2. For each instance ([`instance`]) in the description it builds a server ([`server`]): address space, capability
//!    space, the image, devices. Then it divides all untouched memory among the servers, hands over the devices that
//!    their programs may drive ([`devices`]), and starts the servers. What an instance gets is its [`resource_pool`]
//!    permanently. It also starts the components ([`component`]), programs directly on seL4.
//! 3. From then on it serves requests ([`serve`]): the boot files, because their device could reach all memory and
//!    therefore stays here, and interrupts. When a server or a component ends, it reports that ([`report`]) and starts
//!    the next life ([`supervise`]).
//!
//! It has no heap. It allocates what it needs once, from the smallest pieces of memory ([`memory`]), because the kernel
//! clears a whole piece when it is first cut.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod arch;
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
mod report;
#[cfg(target_os = "none")]
mod resource_pool;
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
