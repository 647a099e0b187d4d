//! The dynamic linker: finds, maps and binds the program and the libraries that it needs.
//!
//! [`elf`], [`symbols`] and [`reloc`] know the format and trust nothing in it; they run on any machine and are tested
//! there. [`service`] gets files from the loader service, [`map`] puts them into memory, [`tls`] lays out thread-local
//! variables, [`link`] keeps the list of modules and does it all in order, [`api`] is what C programs see of it
//! (`dl_iterate_phdr`, `dladdr`, `dlopen`...).

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
pub use link::{Present, environ_cell, finalise, find_global, initialise, link_program, program_stack};
#[cfg(target_os = "fuchsia")]
pub use map::Mapped;
#[cfg(target_os = "fuchsia")]
pub use service::set_channel;
#[cfg(target_os = "fuchsia")]
pub use tls::{BootResolver, init_static_tls, static_tls};

#[cfg(test)]
mod tests;
