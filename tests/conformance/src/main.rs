//! Conformance: checks in the booted system what the system calls promise.
//!
//! A **case** states one promise and fails if the system breaks it. Cases are named `group.call.what` and run in a
//! worker process that a supervisor starts. A case that crashes its process or never ends therefore fails alone. The
//! README has the command line and the lines that the program prints.
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
mod cases;
#[cfg(target_os = "fuchsia")]
mod pager_vmo;
#[cfg(target_os = "fuchsia")]
mod prober;
#[cfg(target_os = "fuchsia")]
mod puppet;
#[cfg(target_os = "fuchsia")]
mod sweep;

use std::process::ExitCode;

use conformance::check;
use conformance::check::Case;
#[cfg(target_os = "fuchsia")]
use conformance::{caught_exception, census, counter, refused, test_process};

#[cfg(target_os = "fuchsia")]
fn all() -> Vec<Case> {
    cases::all()
}

#[cfg(target_os = "fuchsia")]
use cases::KNOWN;

#[cfg(not(target_os = "fuchsia"))]
const KNOWN: &[(&str, &str)] = &[("host.case.known", "there to try what becomes of it")];

/// The host has no system calls to check; these cases are enough to test the supervisor.
#[cfg(not(target_os = "fuchsia"))]
fn all() -> Vec<Case> {
    let case = |name: &str, run: fn() -> check::Outcome| Case::new(name, run);
    vec![
        case("host.case.succeeds", || Ok(())),
        case("host.case.fails", || Err("it was asked to".into())),
        case("host.case.panics", || panic!("it was asked to")),
        case("host.case.aborts", || std::process::abort()),
        case("host.case.hangs", || {
            loop {
                std::thread::park();
            }
        }),
        case("host.case.last", || Ok(())),
    ]
}

fn main() -> ExitCode {
    conformance::Program { name: "conformance", cases: all, known: KNOWN, child }.main()
}

/// A byte of the program that nothing may write; a child returns it as its exit code.
pub static MARK: u8 = 7;

/// Runs in a process that a case started as its child.
fn child(arguments: &[String]) -> ExitCode {
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["exit", code] => std::process::exit(code.parse().unwrap_or(2)),
        ["abort"] => std::process::abort(),
        ["mark"] => std::process::exit((*std::hint::black_box(&MARK)).into()),
        ["echo"] => match std::io::copy(&mut std::io::stdin(), &mut std::io::stdout()) {
            Ok(_) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        #[cfg(target_os = "fuchsia")]
        ["pthread", "exit-main"] => cases::pthread::child_that_leaves_main(),
        #[cfg(target_os = "fuchsia")]
        ["stack", which] => std::process::exit(cases::stack::child(which)),
        #[cfg(target_os = "fuchsia")]
        ["shared", what] => std::process::exit(cases::process_shared::child(what)),
        #[cfg(target_os = "fuchsia")]
        ["restricted", how] => std::process::exit(cases::restricted_kick::child(how)),
        #[cfg(target_os = "fuchsia")]
        ["vproc", "many"] => std::process::exit(cases::vproc_scale::child()),
        #[cfg(target_os = "fuchsia")]
        ["vproc", how] => std::process::exit(cases::vproc_hostile::child(how)),
        #[cfg(target_os = "fuchsia")]
        ["sync", how] => std::process::exit(cases::sync::child(how)),
        ["sleep"] => loop {
            std::thread::park();
        },
        ["threads"] => {
            for _ in 0..4 {
                std::thread::spawn(|| {
                    loop {
                        std::hint::spin_loop();
                    }
                });
            }
            std::process::exit(5)
        }
        _ => ExitCode::from(2),
    }
}
