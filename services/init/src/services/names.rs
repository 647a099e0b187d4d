//! How `init` itself reaches the services, and how it connects the programs that it starts.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use zx::{Channel, Handle, Job, MonotonicInstant, Port, Rights, Status};

/// Before a mounted file system's path: connect to it only if it runs.
pub const RUNNING: &str = "running:";
/// How long the file systems may take to write what they have, at the system's end.
const SETTLING: Duration = Duration::from_secs(30);
/// Of the packet that tells of new programs.
pub const NEW: u64 = 0;

/// A program that is about to start.
pub struct New {
    /// Which it is; its end is the program's.
    pub job: Job,
    /// The path of its file.
    pub path: String,
    /// Its channel to here.
    pub names: Channel,
    /// Its channels to the mounted file systems, by their paths.
    pub mounts: Vec<(String, Channel)>,
}

/// The programs that the services have not been told of yet.
pub struct Starting {
    pub port: Port,
    new: Mutex<Vec<New>>,
}

impl Starting {
    pub fn new() -> zx::Result<Arc<Starting>> {
        Ok(Arc::new(Starting { port: Port::create()?, new: Mutex::new(Vec::new()) }))
    }

    /// Takes all.
    pub fn take(&self) -> Vec<New> {
        std::mem::take(&mut *self.new.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// How programs that `init` starts reach the services.
pub struct Names {
    pub(super) starting: Arc<Starting>,
    /// Of `init` itself; it reaches services that are not public, too.
    pub(super) private: Channel,
    pub(super) mounts: Vec<String>,
}

impl Names {
    /// Connects `handles` to a service, be it public or not.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn connect(&self, name: &str, handles: impl IntoIterator<Item = Handle>) -> zx::Result<()> {
        self.private.write_handles(name.as_bytes(), handles)
    }

    /// Has everything stay that was written to the file systems that run, since the system is about to end: what a program
    /// closed last may not have got to its file system yet. Gives what went wrong.
    pub fn settle(&self) -> Vec<String> {
        let deadline = MonotonicInstant::after(SETTLING.into());
        let failed = |mount: &String| match self.settle_one(mount, deadline) {
            // One that does not run has nothing to settle.
            Ok(()) | Err(Status::PEER_CLOSED) => None,
            Err(status) => Some(format!("what was written to {mount} last may be lost: {status}")),
        };
        self.mounts.iter().filter_map(failed).collect()
    }

    fn settle_one(&self, mount: &str, deadline: MonotonicInstant) -> zx::Result<()> {
        let (ours, theirs) = Channel::create()?;
        self.private.write_handles(format!("{RUNNING}{mount}").as_bytes(), [theirs.into_handle()])?;
        let sync = file_protocol::encode(0, &file_protocol::Request::Sync, &[]).map_err(|_| Status::INTERNAL)?;
        let mut answer = [0; 256];
        let size = ours.call(deadline, &sync, [], &mut answer, &mut [])?;
        let answer = file_protocol::decode::<file_protocol::Result<file_protocol::Answer>>(&answer[..size.bytes]);
        match answer {
            Ok((Ok(_), _)) => Ok(()),
            _ => Err(Status::IO),
        }
    }

    /// The name space of a new program, which runs in this job and has its file at this path: paths and channels.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn entries(&self, job: &Job, path: &str) -> zx::Result<Vec<(&str, Channel)>> {
        let (ours, names) = Channel::create()?;
        let mut entries = vec![("/svc", ours)];
        let mut mounts = Vec::new();
        for path in &self.mounts {
            let (ours, theirs) = Channel::create()?;
            entries.push((path, ours));
            mounts.push((path.clone(), theirs));
        }
        let new = New { job: job.duplicate(Rights::SAME_RIGHTS)?, path: path.to_owned(), names, mounts };
        self.starting.new.lock().unwrap_or_else(PoisonError::into_inner).push(new);
        self.starting.port.queue(&abi::zx_port_packet_t { key: NEW, ..Default::default() })?;
        Ok(entries)
    }
}
