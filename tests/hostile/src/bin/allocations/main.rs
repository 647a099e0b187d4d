//! Every allocation fails once.
//!
//! A *scene* ([`scenes`]) creates every kind of object and uses it in ways that take memory. An [`actor`] plays it: a
//! process in a job of its own. A failure injection plan (`zx_debug_send_command` with `refuse`) makes memory requests
//! of that job fail: of one kind, first the first request, then the second, and so on, until there are no more. Each
//! time
//!
//! 1. a call of the actor returns `ZX_ERR_NO_MEMORY`, or the actor ends by a page fault that could not be served, or it
//!    notices nothing because the memory was optional; any other result is a failure of the case;
//! 2. everything that the scene used has come back, by the server's own counts;
//! 3. processes outside of the actor's job notice nothing.
//!
//! There are two cases for each scene and kind: in `NAME.KIND` one request fails; in `NAME.KIND-on` all later requests
//! of the same call fail, too, and so does whatever the server tries instead. If there are many requests, these cases
//! let every n-th fail; cases named `every-allocation` let each fail.
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
