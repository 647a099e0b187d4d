//! How `init` itself reaches the services, and how it connects the programs that it starts to them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use zx::{Channel, Handle, Job, MonotonicInstant, Port, Rights, Status};

/// Prefix of a service's name or of a mounted file system's path: connect to it only if it runs.
pub const RUNNING: &str = "running:";
/// Maximum time for the file systems to write their data when the system ends.
const SETTLING: Duration = Duration::from_secs(30);
/// Maximum time for the network: more than the service lets its peers have.
const NETWORK: Duration = Duration::from_secs(5);
/// Key of the packet for new programs.
pub const NEW: u64 = 0;

/// A program that is about to start.
pub struct New {
    /// Its job. The program has ended when the job has.
    pub job: Job,
    /// The path of its file.
    pub path: String,
    /// The server end of its channel to the services.
    pub names: Channel,
    /// The server ends of its channels to the mounted file systems, by path.
    pub mounts: Vec<(String, Channel)>,
}

/// Programs that the services' thread does not know yet.
pub struct Starting {
    pub port: Port,
    new: Mutex<Vec<New>>,
}

impl Starting {
    pub fn new() -> zx::Result<Arc<Starting>> {
        Ok(Arc::new(Starting { port: Port::create()?, new: Mutex::new(Vec::new()) }))
    }

    /// Takes all of them.
    pub fn take(&self) -> Vec<New> {
        std::mem::take(&mut *self.new.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Gives programs that `init` starts access to the services.
pub struct Names {
    pub(super) starting: Arc<Starting>,
    /// The channel of `init` itself; it also reaches services that are not public.
    pub(super) private: Channel,
    pub(super) mounts: Vec<String>,
}

impl Names {
    /// Connects `handles` to a service, public or not.
    ///
    /// # Errors
    /// Errors of the server.
    pub fn connect(&self, name: &str, handles: impl IntoIterator<Item = Handle>) -> zx::Result<()> {
        self.private.write_handles(name.as_bytes(), handles)
    }

    /// Has everything sent that was written to connections over the network, and makes everything durable that was written
    /// to running file systems, because the system is about to end: the last close by a program may not have reached its
    /// service yet. Returns error messages.
    pub fn settle(&self) -> Vec<String> {
        let network = match self.settle_network() {
            // Without the service there are no connections.
            Ok(()) | Err(Status::PEER_CLOSED) => None,
            Err(status) => Some(format!("what was written to the network last may be lost: {status}")),
        };
        let deadline = MonotonicInstant::after(SETTLING.into());
        let failed = |mount: &String| match self.settle_one(mount, deadline) {
            // A file system that does not run has nothing to write.
            Ok(()) | Err(Status::PEER_CLOSED) => None,
            Err(status) => Some(format!("what was written to {mount} last may be lost: {status}")),
        };
        network.into_iter().chain(self.mounts.iter().filter_map(failed)).collect()
    }

    fn settle_network(&self) -> zx::Result<()> {
        let (ours, theirs) = Channel::create()?;
        let name = format!("{RUNNING}{}", network_protocol::SERVICE);
        self.private.write_handles(name.as_bytes(), [theirs.into_handle()])?;
        let request = network_protocol::Request::Settle.encode(0);
        let (deadline, mut answer) = (MonotonicInstant::after(NETWORK.into()), [0; network_protocol::LONGEST]);
        ours.call(deadline, request.as_bytes(), [], &mut answer, &mut []).map(drop)
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

    /// The name space of a new program with this job and this path of its file: paths and channels.
    ///
    /// # Errors
    /// Errors of the server.
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
