//! The first ordinary program: runs what the system was booted for, connects it with the host, shuts the system down.
//!
//! See the README for the files that it reads and the frames that it exchanges with the host. Threads: the main one
//! decides what runs; one reads the host link; one gives libraries; one connects programs with services and minds those;
//! for each program two carry its output and one its input.
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
