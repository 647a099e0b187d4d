//! Watches services while hostile programs ([`requests`](../requests)) send them any requests.
//!
//! The hostile programs run beside this program, one after another, each started by `init`; their output is this
//! program's input. [`witnesses`] from before must survive, a neighbour must make progress, and after the end of all
//! hostile programs, jobs, threads, handles, messages and memory of the whole system must be what they were: [`watch`].
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
mod watch;
#[cfg(target_os = "fuchsia")]
mod witnesses;

#[cfg(target_os = "fuchsia")]
fn main() -> std::process::ExitCode {
    use std::process::ExitCode;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--child", name] if *name == hostile::neighbour::SERVED => hostile::neighbour::work_served(),
        ["--child", name] if *name == hostile::served::NOTHING => ExitCode::from(hostile::served::CODE),
        [] => watch::watch(),
        _ => {
            eprintln!("watch: there is nothing to be said to this program");
            ExitCode::from(2)
        }
    }
}

#[cfg(not(target_os = "fuchsia"))]
fn main() {
    eprintln!("watch: there is nothing to see here");
}
