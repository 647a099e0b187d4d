//! Every allocation fails once.
//!
//! A *scene* ([`scenes`]) makes every kind of object and does with it what takes memory. An [`actor`] plays it, a process in
//! a job of its own. The kernel refuses memory to that job by a plan (`zx_debug_send_command` with `refuse`): of one kind,
//! first the first request, then the second, and so on, until there are no more. Each time
//!
//! 1. the actor is told `ZX_ERR_NO_MEMORY` by one of its calls, or ends by a page fault that could not be served, or has
//!    noticed nothing because what failed was only a favour; what it sees otherwise is a failure of the case;
//! 2. everything that the scene used has come back, by the kernel's own counts;
//! 3. who is not of the actor's job notices nothing.
//!
//! Two cases for each scene and kind: in `NAME.KIND` one request is refused, in `NAME.KIND-on` all that follow it in the
//! same call are, too, so that what the server tries instead is refused as well. Of many requests these cases refuse every
//! n-th one; those named `every-allocation` refuse each.
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
mod actor;
#[cfg(target_os = "fuchsia")]
mod scenes;
#[cfg(target_os = "fuchsia")]
mod sweep;

#[cfg(target_os = "fuchsia")]
fn main() -> std::process::ExitCode {
    use std::process::ExitCode;

    let child = |arguments: &[String]| match arguments {
        [name] if name == hostile::neighbour::NAME => hostile::neighbour::work(false),
        [name] if name == scenes::NOTHING => ExitCode::SUCCESS,
        [scene] => actor::act(scene),
        _ => ExitCode::from(2),
    };
    conformance::Program { name: "allocations", cases: sweep::cases, known: &[], child }.main()
}

#[cfg(not(target_os = "fuchsia"))]
fn main() {
    eprintln!("allocations: there is nothing to refuse here");
}
