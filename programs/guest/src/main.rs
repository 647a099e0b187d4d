//! A small kernel as a program: it runs static Linux programs, each process in a sub-domain of one virtual processor
//! (`docs/virtual-processors.md`), and handles their system calls, faults and exceptions itself.
//!
//! `guest [--must=COUNT,…] [--trace] PROGRAM [ARGUMENT…]` exits with the program's code. If a counter that `--must`
//! names is zero (`counts`), the code is 98. With `--trace`, each call, fault and signal is reported on standard error.
//!
//! It implements demand paging and copy-on-write (`space`), preemptive processes (`kernel`), signals (`signal`), and
//! the calls that the programs of `xtask/test/programs/guest*.sh` make (`calls`). Every other call fails with `ENOSYS`.
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
