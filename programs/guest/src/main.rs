//! A small kernel as a program: it runs static Linux programs, each process in a sub-domain of one virtual processor
//! (`docs/virtual-processors.md`), and answers their system calls, faults and exceptions itself.
//!
//! `guest [--must=COUNT,…] [--trace] PROGRAM [ARGUMENT…]` ends with the program's code. What `--must` names must have happened
//! (`counts`), or the code is 98. With `--trace` each call, fault and signal is told on standard error.
//!
//! What it has of a kernel: memory that comes when it is touched and is copied when it is written (`space`), processes that are
//! preempted (`kernel`), signals (`signal`), and those calls that the programs of `xtask/programs/guest*.sh` make
//! (`calls`). Everything else is answered with `ENOSYS`.
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
mod fuchsia {
    mod calls;
    mod counts;
    mod files;
    mod kernel;
    mod linux;
    mod memory;
    mod program;
    mod signal;
    mod space;
    mod task;
    mod vector;

    pub use kernel::main;
}

#[cfg(target_os = "fuchsia")]
fn main() -> std::process::ExitCode {
    fuchsia::main()
}

#[cfg(not(target_os = "fuchsia"))]
fn main() {
    eprintln!("guest: runs in the system only; see ./hafnon test vproc.guest");
}
