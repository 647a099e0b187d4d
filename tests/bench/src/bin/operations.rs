//! What single operations cost, by name: see the module [`operations`].
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
#[path = "../operations/mod.rs"]
mod operations;

#[cfg(target_os = "fuchsia")]
fn main() -> std::process::ExitCode {
    operations::main()
}

#[cfg(not(target_os = "fuchsia"))]
fn main() {
    eprintln!("operations: runs in the system only; see ./hafnon bench");
}
