//! The services of the system: looks them up by name, starts and supervises them.
//!
//! Every program has a channel to this module, `/svc`. A message on it is a name and one end of a channel. That end is
//! sent to the program that provides the service; if there is none, it is closed. A name that begins with a slash is
//! the path of a file system. The empty name asks for another such channel.
//!
//! A service is started on the first request for it, and again on a request after it has died. So no unused service
//! runs, and one that dies at its start does not restart in a loop. Its death is reported on the host's standard error.
//! If it dies too often, it is not restarted for a while. A service without a sign of life for long is killed.
//!
//! File systems: 1. each program starts with a channel for each of them, whose other end waits here. 2. The first
//! message on the channel wakes this end, unread. 3. The end is sent to the service as a client, and the service reads
//! the message.
//!
//! Each channel belongs to a program, and so does each client that comes through it; the service gets the program's
//! identity with the client. When a program's job has ended, its channels here are closed, and the services that had
//! clients of it are notified. A service can have rules for programs: a program without it finds its channel closed, and
//! with other clients the service gets the rule, which is bytes that only the service understands.
//!
//! This thread never blocks on a program or service. Only a limited number of a program's clients may be on their way
//! to a service. When a program asks for more, its channel is not read until the service has taken some. A client that
//! cannot be sent is closed.

mod known;
mod log;
mod names;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use description::services::{Access as Gets, Service};
use service::message::USES;
use service::{ChannelEnds, End, Ledger, Program};
use zx::{AsHandleRef, Channel, Handle, Info, Job, MonotonicInstant, Signals, Status};

use crate::link::Link;
use crate::make::Maker;
use crate::tasks::Tasks;
use known::{Known, Liveness};
use log::Log;
pub use names::Names;
use names::{NEW, New, RUNNING, Starting};

/// Maximum size of a request in bytes: a name and words for the service.
const LONGEST: usize = service::message::WORDS;
/// Maximum number of channels that wait here: fewer than a port can wait for.
const CHANNELS: u64 = 40_000;
/// Maximum number of them per program, including everything it started.
const OF_A_PROGRAM: u64 = 1000;
/// Time between two checks of the services.
const LOOK: Duration = Duration::from_secs(5);

/// Starts the thread that provides the services to everything that `init` starts.
///
/// # Errors
/// A message for the user.
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
    let starting = Starting::new().map_err(step("a port"))?;
    let mut services = Services {
        starting: starting.clone(),
        link,
        maker,
        job,
        resource,
        known: services.into_iter().map(Known::new).collect(),
        programs: HashMap::new(),
        clients: HashMap::new(),
        waiting: HashMap::new(),
        logs: HashMap::new(),
        channels: Ledger::new(CHANNELS, OF_A_PROGRAM),
        ends: ChannelEnds::default(),
        resumed: VecDeque::new(),
        next: NEW,
    };
    let (private, ours) = Channel::create().map_err(step("a channel"))?;
    let access = Access { program: Program::INIT, may: ConnectScope::All };
    services.add_client(ours.into_handle(), access).map_err(step("a channel"))?;
    let run = move || services.run();
    thread::Builder::new().name("services".to_owned()).spawn(run).map_err(|error| error.to_string())?;
    Ok(Names { starting, private, mounts })
}

/// The rights of a channel's client, and its program.
#[derive(Clone, Copy)]
struct Access {
    program: Program,
    may: ConnectScope,
}

/// The services to which a client may connect.
#[derive(Clone, Copy)]
enum ConnectScope {
    /// `init`: all services.
    All,
    /// The channel that a program was started with: public services, and those whose description names the program.
    Named,
    /// Channels that a program derived from it, for its children: public services only.
    Public,
    /// A service, by its index: only services that it uses, public or not.
    Service(usize),
}

/// A channel on which a program asks for services by name.
struct Client {
    channel: End,
    access: Access,
    /// A request that cannot be carried out yet. No further request is read until then.
    held: Option<Request>,
}

/// A client to send to a service.
struct Request {
    service: usize,
    words: String,
    handles: Vec<Handle>,
}

/// An end of a channel without any message so far.
struct Waiting {
    channel: End,
    /// The file system that it is for.
    service: usize,
    program: Program,
}

/// A running program.
struct Running {
    program: Program,
    /// Held until its end, on which a packet waits.
    _job: Job,
    /// The path of its file.
    path: String,
}

struct Services {
    starting: Arc<Starting>,
    link: &'static Link,
    maker: Arc<Maker>,
    /// Each run of a service has its own job below this one.
    job: Job,
    resource: Option<&'static zx::Resource>,
    known: Vec<Known>,
    /// By the key of their packets, like the next three.
    programs: HashMap<u64, Running>,
    clients: HashMap<u64, Client>,
    waiting: HashMap<u64, Waiting>,
    logs: HashMap<u64, Log>,
    /// Counts clients and waiting channels per program.
    channels: Ledger,
    ends: ChannelEnds,
    /// Channels that waited for a service and can continue.
    resumed: VecDeque<u64>,
    next: u64,
}

impl Services {
    fn run(&mut self) {
        let mut look = MonotonicInstant::after(LOOK.into());
        loop {
            // Without a running service there is nothing to check.
            let runs = self.known.iter().any(|known| known.running.is_some());
            match self.starting.port.wait(if runs { look } else { MonotonicInstant::INFINITE }) {
                Ok(packet) => self.packet(packet.key),
                Err(Status::TIMED_OUT) => {}
                Err(status) => return self.link.complain(&format!("services are not served any more: {status}")),
            }
            // Each of them either waits for its service again or is handled.
            while let Some(key) = self.resumed.pop_front() {
                self.go_on(key);
            }
            if runs && MonotonicInstant::now() >= look {
                self.look();
                look = MonotonicInstant::after(LOOK.into());
            }
        }
    }

    fn packet(&mut self, key: u64) {
        if key == NEW {
            for new in self.starting.take() {
                // If it cannot be served, its channels are closed, and the program sees that.
                let _ = self.begin(new);
            }
        } else if let Some(running) = self.programs.remove(&key) {
            self.ended(running.program);
        } else if let Some(mut log) = self.logs.remove(&key) {
            if log.pass_on(self.link) && self.wait(&log.socket, key).is_ok() {
                self.logs.insert(key, log);
            }
        } else if let Some(index) = self.known.iter().position(|known| known.keys.0 == key) {
            self.died(index);
        } else if let Some(index) = self.known.iter().position(|known| known.keys.1 == key) {
            self.heard(index, key);
        } else {
            self.go_on(key);
        }
    }

    fn key(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn wait(&self, object: &impl AsHandleRef, key: u64) -> zx::Result<()> {
        // These two signals have the same bits for channels and sockets.
        object.wait_async(&self.starting.port, key, Signals::CHANNEL_READABLE | Signals::CHANNEL_PEER_CLOSED, 0)
    }

    /// Registers a program that is about to start.
    fn begin(&mut self, New { job, path, names, mounts }: New) -> zx::Result<()> {
        let (key, program) = (self.key(), Program(job.koid()?));
        job.wait_async(&self.starting.port, key, Signals::JOB_TERMINATED, 0)?;
        self.programs.insert(key, Running { program, _job: job, path });
        self.add_client(names.into_handle(), Access { program, may: ConnectScope::Named })?;
        for (mount, channel) in mounts {
            if let Some(service) = self.mounted(&mount) {
                self.add_waiting(channel.into_handle(), service, program)?;
            }
        }
        Ok(())
    }

    /// A program or a run of a service has ended: removes everything that belongs to it, here and in the services.
    fn ended(&mut self, program: Program) {
        self.clients.retain(|_, client| client.access.program != program);
        self.waiting.retain(|_, waiting| waiting.program != program);
        self.channels.ended(program);
        self.known.iter_mut().for_each(|known| known.tell_end(program));
    }

    fn add_client(&mut self, handle: Handle, access: Access) -> zx::Result<()> {
        let (channel, key) = self.add(handle, access.program)?;
        self.clients.insert(key, Client { channel, access, held: None });
        Ok(())
    }

    fn add_waiting(&mut self, handle: Handle, service: usize, program: Program) -> zx::Result<()> {
        let (channel, key) = self.add(handle, program)?;
        self.waiting.insert(key, Waiting { channel, service, program });
        Ok(())
    }

    fn add(&mut self, handle: Handle, program: Program) -> zx::Result<(End, u64)> {
        let (channel, key) = (self.ends.take(handle)?, self.key());
        self.wait(&channel, key)?;
        if self.channels.take(program, 1) { Ok((channel, key)) } else { Err(Status::NO_RESOURCES) }
    }

    /// A channel has a message, or the service it waited for is available.
    fn go_on(&mut self, key: u64) {
        if let Some(mut client) = self.clients.remove(&key) {
            let program = client.access.program;
            // A client that breaks the rules is disconnected, like one that has closed its channel.
            let Ok(held) = self.serve(&mut client) else { return self.channels.give(program, 1) };
            match held {
                Some(request) => {
                    self.known[request.service].clients.park(program, key);
                    client.held = Some(request);
                }
                None if self.wait(&client.channel, key).is_err() => return self.channels.give(program, 1),
                None => {}
            }
            self.clients.insert(key, client);
        } else if let Some(waiting) = self.waiting.remove(&key) {
            self.woken(key, waiting);
        }
    }

    /// Carries out the held request, or reads one; returns the request if it must be held.
    fn serve(&mut self, client: &mut Client) -> zx::Result<Option<Request>> {
        let request = match client.held.take() {
            Some(held) => held,
            None => match self.read(client)? {
                Some(request) => request,
                None => return Ok(None),
            },
        };
        if !self.known[request.service].clients.has_room(client.access.program) {
            return Ok(Some(request));
        }
        self.connect_or_complain(request, client.access.program);
        Ok(None)
    }

    /// Reads one request; returns it if it is for a service.
    fn read(&mut self, client: &Client) -> zx::Result<Option<Request>> {
        let mut bytes = [0; LONGEST];
        let mut handles = [None, None];
        let size = match client.channel.read(&mut bytes, &mut handles) {
            Ok(size) => size,
            Err((Status::SHOULD_WAIT, _)) => return Ok(None),
            Err((status, _)) => return Err(status),
        };
        let name = std::str::from_utf8(&bytes[..size.bytes]).map_err(|_| Status::INVALID_ARGS)?;
        let mut handles: Vec<Handle> = handles.into_iter().flatten().collect();
        let access = client.access;
        if name.is_empty() {
            let may = if matches!(access.may, ConnectScope::Named) { ConnectScope::Public } else { access.may };
            // If it cannot be served, its channel is closed, and the client sees that.
            for handle in handles {
                let _ = self.add_client(handle, Access { may, ..access });
            }
            return Ok(None);
        }
        if let Some(mount) = name.strip_prefix(RUNNING).filter(|_| matches!(access.may, ConnectScope::All)) {
            let named = || self.known.iter().position(|known| known.service.name == mount);
            let service = self.mounted(mount).or_else(named).filter(|service| self.known[*service].running.is_some());
            return Ok(service.map(|service| Request { service, words: String::new(), handles }));
        }
        if name.starts_with('/') && !matches!(access.may, ConnectScope::Service(_)) {
            if let (Some(service), Some(handle)) = (self.mounted(name), handles.pop()) {
                // Step 1.
                let _ = self.add_waiting(handle, service, access.program);
            }
            return Ok(None);
        }
        let name = self.used(access, name).unwrap_or(name);
        let (service, words) = name.split_once('/').unwrap_or((name, ""));
        // If there is none, the client sees its channel close.
        let service = self.known.iter().position(|known| known.service.name == service);
        let service = service.filter(|service| self.may(access, *service) && self.may_say(access, name));
        Ok(service.map(|service| Request { service, words: words.to_owned(), handles }))
    }

    /// What a service means that asks for one that it uses by its number.
    fn used(&self, access: Access, name: &str) -> Option<&str> {
        let ConnectScope::Service(of) = access.may else { return None };
        let number: usize = name.strip_prefix(USES)?.parse().ok()?;
        self.known[of].service.uses.get(number).map(String::as_str)
    }

    fn mounted(&self, path: &str) -> Option<usize> {
        self.known.iter().position(|known| known.service.mount.as_deref() == Some(path))
    }

    /// Whether a service may say these words: if its description has some for a service that it uses, only those.
    fn may_say(&self, access: Access, name: &str) -> bool {
        let ConnectScope::Service(of) = access.may else { return true };
        let service = name.split('/').next();
        self.known[of].service.uses.iter().any(|used| used == name || service == Some(used))
    }

    fn may(&self, access: Access, index: usize) -> bool {
        let service = &self.known[index].service;
        let is_given = || self.gets(index, access.program) != &Gets::Nothing;
        match access.may {
            ConnectScope::All => true,
            ConnectScope::Service(of) => {
                let mut uses = self.known[of].service.uses.iter();
                uses.any(|used| used.split('/').next() == Some(&service.name))
            }
            ConnectScope::Public => service.public && is_given(),
            ConnectScope::Named => {
                let name = self.name(access.program);
                (service.public || service.programs.iter().any(|program| Some(program.as_str()) == name)) && is_given()
            }
        }
    }

    /// The name in the image's `bin` of a program that `init` started.
    fn name(&self, program: Program) -> Option<&str> {
        self.path(program)?.strip_prefix("/boot/bin/")
    }

    fn path(&self, program: Program) -> Option<&str> {
        self.programs.values().find(|running| running.program == program).map(|running| running.path.as_str())
    }

    /// What a program gets of a service, which rules of the description can limit. Rules do not apply to `init` and
    /// to services, which get what the description says that they use.
    fn gets(&self, index: usize, program: Program) -> &Gets {
        if program == Program::INIT || self.known.iter().any(|known| known.program == program) {
            return &Gets::All;
        }
        let elsewhere = || self.path(program)?.strip_prefix("/boot/");
        self.known[index].service.access(self.name(program).or_else(elsewhere))
    }

    /// 2. Step 2: the waiting channel has a message, or has closed.
    fn woken(&mut self, key: u64, waiting: Waiting) {
        let Waiting { service, program, .. } = waiting;
        if waiting.channel.wait_one(Signals::CHANNEL_READABLE, MonotonicInstant(0)).is_err() {
            return self.channels.give(program, 1);
        }
        if !self.known[service].clients.has_room(program) {
            self.known[service].clients.park(program, key);
            self.waiting.insert(key, waiting);
            return;
        }
        // Step 3.
        self.channels.give(program, 1);
        let request = Request { service, words: String::new(), handles: vec![waiting.channel.into_handle()] };
        self.connect_or_complain(request, program);
    }

    /// Sends a client's ends to a service; prints a message if the service is not available.
    fn connect_or_complain(&mut self, mut request: Request, program: Program) {
        if let Err(reason) = self.connect(request.service, program, &request.words, &mut request.handles) {
            // The message is printed before the handles are closed, because a program that sees them close may end the
            // system. It is printed once per problem, not per request.
            if !std::mem::replace(&mut self.known[request.service].complained, true) {
                self.link.complain(&reason);
            }
        }
    }

    /// Sends a client's ends to a service, with words for it. Starts the service if it does not run.
    fn connect(
        &mut self,
        index: usize,
        program: Program,
        words: &str,
        handles: &mut Vec<Handle>,
    ) -> Result<(), String> {
        let rule = match self.gets(index, program) {
            Gets::Nothing => return Ok(()),
            Gets::All => Vec::new(),
            Gets::Part(rule) => rule.clone(),
        };
        if self.known[index].running.as_ref().is_some_and(|running| exited(&running.process)) {
            self.died(index);
        }
        if self.known[index].running.is_none() {
            let start = self.start(index);
            start
                .map_err(|reason| format!("the service {} does not start: {reason}", self.known[index].service.name))?;
        }
        self.known[index].send(program, (&rule, words), handles.drain(..));
        Ok(())
    }

    fn start(&mut self, index: usize) -> Result<(), String> {
        self.known[index].count_start()?;
        let service = self.known[index].service.clone();
        let job = self.service_job(&service).map_err(|status| format!("its job: {status}"))?;
        let program = Program(job.koid().map_err(|status| format!("its job: {status}"))?);
        // It asks for the services that it uses as this one.
        self.known[index].program = program;
        let started = self.start_in(index, &service, program, &job);
        if started.is_err() {
            self.ended(program);
            let _ = job.kill();
        }
        started
    }

    fn start_in(&mut self, index: usize, service: &Service, program: Program, job: &Job) -> Result<(), String> {
        let failed = |status: Status| status.to_string();
        // Services use only services that come before them in the description, so the recursion ends.
        let mut connections = Vec::new();
        for used in &service.uses {
            let (name, words) = used.split_once('/').unwrap_or((used, ""));
            let known = self.known.iter().position(|known| known.service.name == name);
            let known = known.ok_or_else(|| format!("this machine has no {name}"))?;
            let (ours, theirs) = Channel::create().map_err(failed)?;
            self.connect(known, program, words, &mut vec![theirs.into_handle()])?;
            connections.push(ours);
        }
        let names = self.names_of(index, program).map_err(|status| format!("its name space: {status}"))?;
        let job = job.duplicate(zx::Rights::SAME_RIGHTS).map_err(failed)?;
        let (running, socket) = self.maker.start_service(job, service, connections, names, self.resource)?;
        let (key, words_key, log_key) = (self.key(), self.key(), self.key());
        running.process.wait_async(&self.starting.port, key, Signals::TASK_TERMINATED, 0).map_err(failed)?;
        self.wait(&running.clients, words_key).map_err(failed)?;
        if self.wait(&socket, log_key).is_ok() {
            self.logs.insert(log_key, Log::new(socket, service.name.clone()));
        }
        self.link.event(&["service", &service.name, "started"]);
        self.known[index].began(running, program, (key, words_key));
        Ok(())
    }

    /// The channel with which a service connects again to services that it uses and that have ended; `None` for a
    /// service that uses none.
    fn names_of(&mut self, index: usize, program: Program) -> zx::Result<Option<Channel>> {
        if self.known[index].service.uses.is_empty() {
            return Ok(None);
        }
        let (ours, theirs) = Channel::create()?;
        self.add_client(ours.into_handle(), Access { program, may: ConnectScope::Service(index) })?;
        Ok(Some(theirs))
    }

    /// A job for one run of a service.
    fn service_job(&self, service: &Service) -> zx::Result<Job> {
        let job = self.job.create_child()?;
        job.set_name(&service.name)?;
        if let Some(bytes) = service.memory {
            job.set_property(abi::HAFNON_PROP_JOB_MEMORY_LIMIT, &bytes.to_le_bytes())?;
        }
        Ok(job)
    }

    /// A service has sent a message to `init`.
    fn heard(&mut self, index: usize, key: u64) {
        let known = &mut self.known[index];
        match known.heard() {
            Ok(freed) => self.resumed.extend(freed),
            // If the service has ended, its own packet reports that.
            Err(Status::PEER_CLOSED) => return,
            Err(status) => {
                self.link.complain(&format!("the service {} says what no service says: {status}", known.service.name));
                return self.end(index);
            }
        }
        let waits = self.known[index].running.as_ref().map(|running| self.wait(&running.clients, key));
        if waits.is_some_and(|waits| waits.is_err()) {
            self.end(index);
        }
    }

    /// Asks the services for a sign of life. A service without one for long waits for something that never happens, or
    /// computes without end, and does not do its work. It is killed.
    fn look(&mut self) {
        for index in 0..self.known.len() {
            if self.known[index].look() == Liveness::Dead {
                let name = &self.known[index].service.name;
                self.link.complain(&format!("the service {name} gives no sign of life any more: it is ended"));
                self.end(index);
            }
        }
    }

    /// Kills a service's run. Its own packet reports the end.
    fn end(&self, index: usize) {
        if let Some(running) = &self.known[index].running {
            let _ = running.process.kill();
        }
    }

    /// Reports a service's end and forgets the run. Its clients' channels were closed with it.
    fn died(&mut self, index: usize) {
        let program = self.known[index].program;
        let Some((running, held)) = self.known[index].ended() else { return };
        // Clients that waited for it may ask for its next run.
        self.resumed.extend(held);
        self.ended(program);
        let _ = running.job.kill();
        let code = running.process.info().map_or(0, |info| info.return_code);
        let name = self.known[index].service.name.clone();
        self.link.event(&["service", &name, "ended", &code.to_string()]);
        self.link.complain(&format!("the service {name} ended ({code}); it starts again when it is needed"));
    }
}

fn exited(process: &zx::Process) -> bool {
    process.info().is_ok_and(|info| info.flags & abi::ZX_INFO_PROCESS_FLAG_EXITED != 0)
}
