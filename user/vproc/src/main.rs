//! Events of virtual processors, on every instruction and at random against a model.
//!
//! Cases `events.steps.*` have an event fall on each instruction in turn of what enables events, enters an upcall, leaves it, and
//! switches threads; `events.random.*` have timers, kicks and packets fall wherever they do.
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
mod fuchsia {
    mod random;
    mod steps;

    use std::process::ExitCode;

    use conformance::Program;
    use conformance::check::Case;

    fn cases() -> Vec<Case> {
        vec![
            Case::new("events.random.owner", random::owner),
            Case::new("events.random.threads", random::threads),
            Case::new("events.steps.pending", steps::pending),
            Case::new("events.steps.switch", steps::switch),
            Case::new("events.steps.upcall", steps::upcall),
            Case::new("events.steps.upcall_within", steps::upcall_within),
        ]
    }

    pub fn main() -> ExitCode {
        let child = |_: &[String]| ExitCode::from(2);
        Program { name: "vproc", cases, known: &[], child }.main()
    }
}

#[cfg(target_os = "fuchsia")]
fn main() -> std::process::ExitCode {
    fuchsia::main()
}

#[cfg(not(target_os = "fuchsia"))]
fn main() {
    println!("this is a program for the system");
}
