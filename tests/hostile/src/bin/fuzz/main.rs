//! The fuzzer of system calls: hostile processes make any call with any arguments, in several threads each. Meanwhile
//! their memory is overwritten, handles move between them, and they are killed in the middle of it.
//!
//! [`attacker`] describes how they are driven, [`grammar`] how calls are drawn, and [`recipes`] what is done for calls
//! that need something before them. Everything follows from one seed: in a machine that counts instructions, the seed
//! repeats a run exactly, which the digest over all results shows.
//!
//! A run passes only if every call was reached, enough of them succeeded, the neighbours found nothing wrong and made
//! progress, and everything came back in the end. Otherwise the exit code is 1.
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
mod attacker;
#[cfg(target_os = "fuchsia")]
mod code;
#[cfg(target_os = "fuchsia")]
mod counts;
#[cfg(target_os = "fuchsia")]
mod drawing;
#[cfg(target_os = "fuchsia")]
mod grammar;
#[cfg(target_os = "fuchsia")]
mod recipes;
#[cfg(target_os = "fuchsia")]
mod run;
#[cfg(target_os = "fuchsia")]
mod supplies;

#[cfg(target_os = "fuchsia")]
fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--child", name] if *name == hostile::neighbour::CALM => hostile::neighbour::work_calmly(),
        ["--work", calls, seed] => {
            numbers(calls, seed).map_or(std::process::ExitCode::from(2), |(calls, seed)| run::work(calls, seed))
        }
        [calls, seed] => {
            numbers(calls, seed).map_or(std::process::ExitCode::from(2), |(calls, seed)| run::supervise(calls, seed))
        }
        _ => {
            eprintln!("fuzz: how many calls, and from which seed?");
            std::process::ExitCode::from(2)
        }
    }
}

#[cfg(target_os = "fuchsia")]
fn numbers(calls: &str, seed: &str) -> Option<(u64, u64)> {
    calls.parse().ok().zip(seed.parse().ok())
}

#[cfg(not(target_os = "fuchsia"))]
fn main() {
    eprintln!("fuzz: there is nothing to attack here");
}
