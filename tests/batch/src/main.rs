//! Runs the host's programs, several at once, each in a job of its own, until the host closes the link.
//!
//! One port waits for everything: orders, output, space for input, ends of processes. The library describes the
//! protocol.
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
mod mailbox;
#[cfg(target_os = "fuchsia")]
mod program;
#[cfg(target_os = "fuchsia")]
mod run;

#[cfg(target_os = "fuchsia")]
fn main() {
    if let Err(reason) = run::run() {
        eprintln!("batch: {reason}");
        std::process::exit(1);
    }
}

#[cfg(not(target_os = "fuchsia"))]
fn main() {
    eprintln!("batch: this program runs on Hafnon");
    std::process::exit(2);
}
