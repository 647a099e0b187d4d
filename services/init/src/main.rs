//! The first ordinary program. It runs the programs that the system was booted for, connects them with the host, and
//! shuts the system down.
//!
//! The README describes the files that it reads and the frames that it exchanges with the host. Its threads: the main
//! thread decides what runs; one reads the host link; one is the loader service; one connects programs with services
//! and supervises the services; each program has two for its output and one for its input.
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
mod boot;
#[cfg(target_os = "fuchsia")]
mod console;
#[cfg(target_os = "fuchsia")]
mod link;
#[cfg(target_os = "fuchsia")]
mod loader;
#[cfg(target_os = "fuchsia")]
mod make;
#[cfg(target_os = "fuchsia")]
mod runner;
#[cfg(target_os = "fuchsia")]
mod services;
#[cfg(target_os = "fuchsia")]
mod session;
#[cfg(target_os = "fuchsia")]
mod tasks;
#[cfg(target_os = "fuchsia")]
mod tour;
#[cfg(target_os = "fuchsia")]
mod trace;

#[cfg(target_os = "fuchsia")]
fn main() {
    session::main();
}

#[cfg(not(target_os = "fuchsia"))]
fn main() {
    eprintln!("init: this program is the first of a Hafnon system; it has nothing to do elsewhere");
    std::process::exit(2);
}
