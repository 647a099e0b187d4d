//! The dynamic linker: finds, maps and binds the program and the libraries that it needs.
//!
//! [`elf`], [`symbols`] and [`reloc`] implement the format and do not trust the file; they run on any machine and are
//! tested on the host. [`service`] requests files from the loader service, [`map`] maps them, [`tls`] lays out
//! thread-local variables, [`link`] keeps the list of modules and performs the steps in order, [`api`] is the interface
//! for C programs (`dl_iterate_phdr`, `dladdr`, `dlopen`...).

pub mod elf;
pub mod reloc;
pub mod symbols;

#[cfg(target_os = "fuchsia")]
mod api;
#[cfg(target_os = "fuchsia")]
mod link;
#[cfg(target_os = "fuchsia")]
mod map;
#[cfg(target_os = "fuchsia")]
mod service;
#[cfg(target_os = "fuchsia")]
mod tls;

#[cfg(target_os = "fuchsia")]
pub use link::{
    Present, System, environ_cell, finalise, find_global, initialise, link_program, program_stack, system_at,
};
#[cfg(target_os = "fuchsia")]
pub use map::Mapped;
#[cfg(target_os = "fuchsia")]
pub use service::set_channel;
#[cfg(target_os = "fuchsia")]
pub use tls::{BootResolver, init_static_tls, static_tls};

#[cfg(test)]
mod tests;
