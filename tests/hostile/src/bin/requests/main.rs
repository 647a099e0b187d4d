//! The fuzzer of services: hostile clients send any request to every service, with handles to anything, and do not read
//! the answers.
//!
//! [`client`] is such a program: [`shapes`] makes the requests, [`objects`] the handles. The program `watch` checks the
//! consequences.
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
mod client;
#[cfg(target_os = "fuchsia")]
mod objects;
#[cfg(target_os = "fuchsia")]
mod run;
#[cfg(target_os = "fuchsia")]
mod shapes;

#[cfg(target_os = "fuchsia")]
fn main() -> std::process::ExitCode {
    use std::process::ExitCode;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--attack", requests, seed] => {
            numbers(requests, seed).map_or(ExitCode::from(2), |(requests, seed)| client::attack(requests, seed))
        }
        ["pause"] => run::pause(),
        [requests, seed] => {
            numbers(requests, seed).map_or(ExitCode::from(2), |(requests, seed)| run::drive(requests, seed))
        }
        _ => {
            eprintln!("requests: how many requests, and from which seed?");
            ExitCode::from(2)
        }
    }
}

#[cfg(target_os = "fuchsia")]
fn numbers(requests: &str, seed: &str) -> Option<(u64, u64)> {
    requests.parse().ok().zip(seed.parse().ok())
}

#[cfg(not(target_os = "fuchsia"))]
fn main() {
    eprintln!("requests: there is nothing to ask here");
}
