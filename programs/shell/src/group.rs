//! A group: the commands that are killed together, that is, those of one foreground line or of one background job.
//!
//! The processes of a group are in their own job. Builtins check from time to time whether their group has been killed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A group.
pub struct Group {
    ended: AtomicBool,
    /// `None`: its processes are in the shell's own job.
    #[cfg(target_os = "fuchsia")]
    job: Option<zx::Job>,
    id: u64,
}

/// The group that Ctrl-C kills.
static FOREGROUND: Mutex<Option<Arc<Group>>> = Mutex::new(None);

impl Group {
    /// The group of a shell that does not separate its commands.
    pub fn own() -> Arc<Group> {
        Arc::new(Group {
            ended: AtomicBool::new(false),
            #[cfg(target_os = "fuchsia")]
            job: None,
            id: 0,
        })
    }

    /// A separate group.
    pub fn new() -> Arc<Group> {
        #[cfg(target_os = "fuchsia")]
        {
            use zx::Info;
            let job = zx::startup::job_default().and_then(|job| job.create_child().ok());
            let id = job.as_ref().and_then(|job| job.koid().ok()).unwrap_or_default();
            Arc::new(Group { ended: AtomicBool::new(false), job, id })
        }
        #[cfg(not(target_os = "fuchsia"))]
        {
            static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
            Arc::new(Group { ended: AtomicBool::new(false), id: NEXT.fetch_add(1, Ordering::Relaxed) })
        }
    }

    /// Its number: the koid of its job.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The job of its processes, if it is not the shell's.
    #[cfg(target_os = "fuchsia")]
    pub fn job(&self) -> Option<&zx::Job> {
        self.job.as_ref()
    }

    /// Kills all of it.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
        #[cfg(target_os = "fuchsia")]
        if let Some(job) = &self.job {
            let _ = job.kill();
        }
    }

    /// Whether it has been killed.
    pub fn ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}

/// Makes a group the one that Ctrl-C kills; returns the previous one.
pub fn set_foreground(group: Option<Arc<Group>>) -> Option<Arc<Group>> {
    std::mem::replace(&mut *FOREGROUND.lock().unwrap_or_else(PoisonError::into_inner), group)
}

/// Kills the foreground when the user wants it, if `init` gave this shell the event; returns whether it did.
#[cfg(target_os = "fuchsia")]
pub fn listen() -> bool {
    use init::start_handles;
    use zx::{AsHandleRef, Event, MonotonicInstant, Signals};

    let Some(event) = zx::startup::take(start_handles::KIND, start_handles::INTERRUPT).map(Event::from) else {
        return false;
    };
    let listen = move || {
        while event.wait_one(Signals::USER_0, MonotonicInstant::INFINITE).is_ok() {
            let _ = event.signal(Signals::USER_0, Signals::NONE);
            let group = FOREGROUND.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(group) = group {
                group.end();
            }
        }
    };
    std::thread::Builder::new().name("interrupt".to_owned()).spawn(listen).is_ok()
}

/// On the host, the terminal does this.
#[cfg(not(target_os = "fuchsia"))]
pub fn listen() -> bool {
    use std::io::IsTerminal;
    std::io::stdin().is_terminal()
}
