//! The services of the system by name, and the programs behind them.
//!
//! Every program has a channel to here, `/svc`. A message on it is a name and one end of a channel: the end goes on to the
//! program that offers the service; where there is none, it is closed. A name that begins with a slash is the path of a
//! file system. The empty name asks for another such channel.
//!
//! A service is started when somebody needs it, and again when somebody needs it after it has died. So nothing is started
//! that nobody uses, and one that dies at its start is not started over and over by itself. Its death is told on the host's
//! standard error; one that dies too often is let be for a while.
//!
//! File systems: 1. each program starts with a channel for each of them, whose other end waits here. 2. The first message on
//! the channel wakes this end, unread. 3. The end goes to the service as a client, and the service reads the message.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use description::services::Service;
use init::frames;
use init::words::visible;
use zx::{AsHandleRef, Channel, Handle, Job, MonotonicInstant, Port, Signals, Status};

use crate::link::Link;
use crate::make::{Maker, Running};
use crate::tasks::Tasks;

/// No request is longer: a name and words for the service.
const LONGEST: usize = 256;
/// How often a service may be started within [`WHILE`].
const STARTS: usize = 10;
/// The time in which starts are counted.
const WHILE: Duration = Duration::from_secs(60);
/// How many channels a program and all that it started may have waiting here.
const CHANNELS: usize = 1000;

/// How programs that `init` starts reach the services.
pub struct Names {
    /// Ends sent here are of a program of its own.
    public: Channel,
    /// Reaches services that are not public, too.
    private: Channel,
    mounts: Vec<String>,
}

/// Before a mounted file system's path: connect to it only if it runs.
const RUNNING: &str = "running:";

/// How long the file systems may take to write what they have, at the system's end.
const SETTLING: Duration = Duration::from_secs(30);

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
        ours.call(deadline, &sync, [], &mut [0; 256], &mut []).map(drop)
    }

    /// The name space of a new program: paths and channels.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn entries(&self) -> zx::Result<Vec<(&str, Channel)>> {
        let mounts = self.mounts.iter().map(|path| (path.as_str(), path.as_str()));
        std::iter::once(("/svc", ""))
            .chain(mounts)
            .map(|(path, name)| {
                let (ours, theirs) = Channel::create()?;
                self.public.write_handles(name.as_bytes(), [theirs.into_handle()])?;
                Ok((path, ours))
            })
            .collect()
    }
}

/// Becomes the services of all that `init` starts.
///
/// # Errors
/// A sentence for the user.
pub fn serve(
    services: Vec<Service>,
    link: &'static Link,
    tasks: &'static Tasks,
    maker: Arc<Maker>,
    resource: Option<&'static zx::Resource>,
) -> Result<Names, String> {
    let step = |what: &'static str| move |status: Status| format!("{what}: {status}");
    let root = zx::startup::job_default().ok_or("there is no job for services")?;
    let job = root.create_child().map_err(step("a job for services"))?;
    job.set_name("services").map_err(step("a job for services"))?;
    tasks.keep(job.as_handle_ref());
    let mounts = services.iter().filter_map(|service| service.mount.clone()).collect();
    let known = |service| Known { service, running: None, key: 0, starts: VecDeque::new() };
    let mut services = Services {
        port: Port::create().map_err(step("a port"))?,
        link,
        maker,
        job,
        resource,
        known: services.into_iter().map(known).collect(),
        clients: HashMap::new(),
        waiting: HashMap::new(),
        logs: HashMap::new(),
        next: 0,
    };
    let (public, ours) = Channel::create().map_err(step("a channel"))?;
    services.add_client(ours, Access { private: false, program: None, service: None }).map_err(step("a channel"))?;
    let (private, ours) = Channel::create().map_err(step("a channel"))?;
    services.add_client(ours, Access { private: true, program: None, service: None }).map_err(step("a channel"))?;
    let run = move || services.run();
    thread::Builder::new().name("services".to_owned()).spawn(run).map_err(|error| error.to_string())?;
    Ok(Names { public, private, mounts })
}

/// A service of the description.
struct Known {
    service: Service,
    running: Option<Running>,
    /// Of the packet that tells its end.
    key: u64,
    /// When it was started last.
    starts: VecDeque<Instant>,
}

/// What those at the other end of a channel may do.
#[derive(Clone, Copy)]
struct Access {
    /// Connect to services that are not public.
    private: bool,
    /// The program that it began with; `None`: `init`, for a program of its own each time.
    program: Option<u64>,
    /// A service, by its place: it may connect to those that it uses, public or not, and to no others.
    service: Option<usize>,
}

struct Client {
    channel: Channel,
    access: Access,
}

/// An end of a channel on which nobody has said anything yet.
struct Waiting {
    channel: Channel,
    /// The file system that it is for.
    service: usize,
    program: Option<u64>,
}

/// What a service says, line by line.
struct Log {
    socket: zx::Socket,
    name: String,
    line: Vec<u8>,
}

struct Services {
    port: Port,
    link: &'static Link,
    maker: Arc<Maker>,
    /// Each service has a job of its own below this.
    job: Job,
    resource: Option<&'static zx::Resource>,
    known: Vec<Known>,
    /// By the key of their packets, as are the next two.
    clients: HashMap<u64, Client>,
    waiting: HashMap<u64, Waiting>,
    logs: HashMap<u64, Log>,
    next: u64,
}

impl Services {
    fn run(&mut self) {
        while let Ok(packet) = self.port.wait(MonotonicInstant::INFINITE) {
            if let Some(client) = self.clients.remove(&packet.key) {
                // A client that breaks the rules is cut off, as one that has gone.
                if self.request(&client).is_ok() && self.wait(&client.channel, packet.key).is_ok() {
                    self.clients.insert(packet.key, client);
                }
            } else if let Some(waiting) = self.waiting.remove(&packet.key) {
                self.woken(waiting);
            } else if let Some(mut log) = self.logs.remove(&packet.key) {
                if log.pass_on(self.link) && self.wait(&log.socket, packet.key).is_ok() {
                    self.logs.insert(packet.key, log);
                }
            } else if let Some(index) = self.known.iter().position(|known| known.key == packet.key) {
                self.died(index);
            }
        }
    }

    fn key(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn wait(&self, object: &impl AsHandleRef, key: u64) -> zx::Result<()> {
        // Channels and sockets have the same bits for these two.
        object.wait_async(&self.port, key, Signals::CHANNEL_READABLE | Signals::CHANNEL_PEER_CLOSED, 0)
    }

    /// Whether a program may have one more channel here.
    fn has_room(&self, program: Option<u64>) -> bool {
        let clients = self.clients.values().map(|client| client.access.program);
        let waiting = self.waiting.values().map(|waiting| waiting.program);
        program.is_none() || clients.chain(waiting).filter(|of| *of == program).count() < CHANNELS
    }

    fn add_client(&mut self, channel: Channel, access: Access) -> zx::Result<()> {
        if !self.has_room(access.program) {
            return Err(Status::NO_RESOURCES);
        }
        let key = self.key();
        self.wait(&channel, key)?;
        self.clients.insert(key, Client { channel, access });
        Ok(())
    }

    /// Reads one request and carries it out.
    fn request(&mut self, client: &Client) -> zx::Result<()> {
        let mut bytes = [0; LONGEST];
        let mut handles = [None, None];
        let size = match client.channel.read(&mut bytes, &mut handles) {
            Ok(size) => size,
            Err((Status::SHOULD_WAIT, _)) => return Ok(()),
            Err((status, _)) => return Err(status),
        };
        let name = std::str::from_utf8(&bytes[..size.bytes]).map_err(|_| Status::INVALID_ARGS)?;
        let mut handles: Vec<Handle> = handles.into_iter().flatten().collect();
        let access = client.access;
        if name.is_empty() {
            for handle in handles {
                let program = access.program.unwrap_or_else(|| self.key());
                self.add_client(Channel::from(handle), Access { program: Some(program), ..access })?;
            }
            return Ok(());
        }
        if let Some(mount) = name.strip_prefix(RUNNING).filter(|_| access.private) {
            let mounted = self.known.iter().position(|known| known.service.mount.as_deref() == Some(mount));
            if let Some(service) = mounted.filter(|service| self.known[*service].running.is_some()) {
                self.connect_or_complain(service, "", &mut handles);
            }
            return Ok(());
        }
        if name.starts_with('/') && access.service.is_none() {
            let mounted = self.known.iter().position(|known| known.service.mount.as_deref() == Some(name));
            if let (Some(service), Some(handle)) = (mounted, handles.pop())
                && self.has_room(access.program)
            {
                // 1.
                let (channel, key) = (Channel::from(handle), self.key());
                self.wait(&channel, key)?;
                self.waiting.insert(key, Waiting { channel, service, program: access.program });
            }
            return Ok(());
        }
        let (service, words) = name.split_once('/').unwrap_or((name, ""));
        let known = self.known.iter().position(|known| known.service.name == service);
        let may = |index: &usize| match access.service {
            Some(of) => self.known[of].service.uses.iter().any(|used| used.split('/').next() == Some(service)),
            None => access.private || self.known[*index].service.public,
        };
        // Where there is none, whoever asked sees it on the channel.
        if let Some(index) = known.filter(may) {
            self.connect_or_complain(index, words, &mut handles);
        }
        Ok(())
    }

    /// 2. What waited has a message or has gone.
    fn woken(&mut self, waiting: Waiting) {
        let Waiting { channel, service, .. } = waiting;
        if channel.wait_one(Signals::CHANNEL_READABLE, MonotonicInstant(0)).is_ok() {
            // 3.
            self.connect_or_complain(service, "", &mut vec![channel.into_handle()]);
        }
    }

    fn connect_or_complain(&mut self, index: usize, words: &str, handles: &mut Vec<Handle>) {
        if let Err(reason) = self.connect(index, words, handles) {
            // Before the handles are closed: whoever sees that may end the system.
            self.link.complain(&reason);
        }
    }

    /// Hands a client's ends to a service, with words for it. Starts it if it does not run.
    fn connect(&mut self, index: usize, words: &str, handles: &mut Vec<Handle>) -> Result<(), String> {
        if self.known[index].running.as_ref().is_some_and(|running| ended(&running.process)) {
            self.died(index);
        }
        if self.known[index].running.is_none() {
            let start = self.start(index);
            start
                .map_err(|reason| format!("the service {} does not start: {reason}", self.known[index].service.name))?;
        }
        if let Some(running) = &self.known[index].running {
            // A service that ended meanwhile is told of by its own packet.
            let _ = running.clients.write_handles(words.as_bytes(), handles.drain(..));
        }
        Ok(())
    }

    fn start(&mut self, index: usize) -> Result<(), String> {
        let starts = &mut self.known[index].starts;
        starts.retain(|at| at.elapsed() < WHILE);
        if starts.len() >= STARTS {
            return Err(format!("it was started {STARTS} times within {} s; wait, and try again", WHILE.as_secs()));
        }
        starts.push_back(Instant::now());
        // Services use only those that stand above them, so this ends.
        let service = self.known[index].service.clone();
        let mut connections = Vec::new();
        for used in &service.uses {
            let (name, words) = used.split_once('/').unwrap_or((used, ""));
            let known = self.known.iter().position(|known| known.service.name == name);
            let known = known.ok_or_else(|| format!("this machine has no {name}"))?;
            let (ours, theirs) = Channel::create().map_err(|status| status.to_string())?;
            self.connect(known, words, &mut vec![theirs.into_handle()])?;
            connections.push(ours);
        }
        let job = self.service_job(&service).map_err(|status| format!("its job: {status}"))?;
        let names = self.names_of(index).map_err(|status| format!("its name space: {status}"))?;
        let (running, socket) = self.maker.start_service(&job, &service, connections, names, self.resource)?;
        let (key, log_key) = (self.key(), self.key());
        let waits = running.process.wait_async(&self.port, key, Signals::TASK_TERMINATED, 0);
        waits.map_err(|status| status.to_string())?;
        if self.wait(&socket, log_key).is_ok() {
            self.logs.insert(log_key, Log { socket, name: service.name.clone(), line: Vec::new() });
        }
        self.link.event(&["service", &service.name, "started"]);
        let known = &mut self.known[index];
        (known.running, known.key) = (Some(running), key);
        Ok(())
    }

    /// By what a service connects again to those that it uses, should they have ended; nothing for one that uses none.
    fn names_of(&mut self, index: usize) -> zx::Result<Option<Channel>> {
        if self.known[index].service.uses.is_empty() {
            return Ok(None);
        }
        let (ours, theirs) = Channel::create()?;
        let program = Some(self.key());
        self.add_client(ours, Access { private: false, program, service: Some(index) })?;
        Ok(Some(theirs))
    }

    /// A job for one run of a service; it is gone with the service's process.
    fn service_job(&self, service: &Service) -> zx::Result<Job> {
        let job = self.job.create_child()?;
        job.set_name(&service.name)?;
        if let Some(bytes) = service.memory {
            job.set_property(abi::HAFNON_PROP_JOB_MEMORY_LIMIT, &bytes.to_le_bytes())?;
        }
        Ok(job)
    }

    /// Tells of a service's end and forgets it; its clients' channels ended with it.
    fn died(&mut self, index: usize) {
        let known = &mut self.known[index];
        known.key = 0;
        let Some(running) = known.running.take() else { return };
        let code = running.process.info().map_or(0, |info| info.return_code);
        let name = known.service.name.clone();
        self.link.event(&["service", &name, "ended", &code.to_string()]);
        self.link.complain(&format!("the service {name} ended ({code}); it starts again when it is needed"));
    }
}

fn ended(process: &zx::Process) -> bool {
    process.info().is_ok_and(|info| info.flags & abi::ZX_INFO_PROCESS_FLAG_EXITED != 0)
}

impl Log {
    /// Sends whole lines to the host; says whether more may come.
    fn pass_on(&mut self, link: &Link) -> bool {
        let mut bytes = [0; 1024];
        let more = match self.socket.read(&mut bytes) {
            Ok(count) => {
                self.line.extend_from_slice(&bytes[..count]);
                true
            }
            Err(Status::SHOULD_WAIT) => true,
            Err(_) => false,
        };
        let whole = match self.line.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => end + 1,
            // The last words, and lines that are none.
            None if !more || self.line.len() > frames::MAX_PAYLOAD => self.line.len(),
            None => 0,
        };
        for line in self.line[..whole].split_inclusive(|byte| *byte == b'\n') {
            let text = String::from_utf8_lossy(line);
            link.send_all(frames::STDERR, format!("{}: {}\n", self.name, visible(text.trim_end())).as_bytes());
        }
        self.line.drain(..whole);
        more
    }
}
