//! Events of virtual processors: on every instruction, and at random against a model.
//!
//! Cases `vproc.steps.*` make an event before each instruction in turn of the code that enables events, enters an
//! upcall, returns from it, and switches threads. Cases `vproc.random.*` make timers, kicks, packets and suspensions at
//! random, for as many steps as the image says.
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
mod fuchsia {
    mod domains;
    mod model;
    mod plan;
    mod steps;
    mod threads;

    use std::process::ExitCode;

    use conformance::Program;
    use conformance::check::Case;
    use plan::planned;

    fn cases() -> Vec<Case> {
        vec![
            Case::new("vproc.random.domains", planned(domains::domains)),
            Case::new("vproc.random.threads", planned(threads::threads)),
            Case::new("vproc.steps.pending", steps::pending),
            Case::new("vproc.steps.switch", steps::switch),
            Case::new("vproc.steps.upcall", steps::upcall),
            Case::new("vproc.steps.upcall_within", steps::upcall_within),
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
