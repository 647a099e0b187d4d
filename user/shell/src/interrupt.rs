//! Ctrl-C: ends what the shell runs, and not the shell.

use init::given;
use zx::{AsHandleRef, Event, Info, MonotonicInstant, Process, Rights, Signals};

/// Listens to the user's wish in a thread of its own, where `init` gave this shell the means.
pub fn listen() {
    let Some(event) = zx::startup::take(given::KIND, given::INTERRUPT).map(Event::from) else { return };
    let listen = move || {
        while event.wait_one(Signals::USER_0, MonotonicInstant::INFINITE).is_ok() {
            let _ = event.signal(Signals::USER_0, Signals::NONE);
            end_children();
        }
    };
    let _ = std::thread::Builder::new().name("interrupt".to_owned()).spawn(listen);
}

/// Ends all processes of this shell's job but its own.
fn end_children() {
    let Some(job) = zx::startup::job_default() else { return };
    let own = zx::startup::process_self().koid();
    let mut koids = vec![0; 256];
    let Ok(size) = job.get_info_koids(abi::ZX_INFO_JOB_PROCESSES, &mut koids) else { return };
    for koid in koids.into_iter().take(size.actual).filter(|koid| Ok(*koid) != own) {
        if let Ok(process) = job.get_child(koid, Rights::SAME_RIGHTS) {
            let _ = Process::from(process).kill();
        }
    }
}
