//! Runs a program, from its start to the last byte of its output.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use init::program;
use init::{config, frames, start_handles};
use processargs::{HandleInfo, PA_FD, PA_NS_DIR, PA_RESOURCE, PA_USER0};
use zx::{AsHandleRef, Event, Handle, Job, MonotonicInstant, Process, Rights, Signals, Socket, Status, Vmo};

use crate::link::Link;
use crate::make::{Maker, Strings};
use crate::services::Names;
use crate::tasks::Tasks;
use crate::trace::{self, Tracer};

const _: () = assert!(start_handles::KIND == PA_USER0 as u32);

/// Receives a copy of a program's standard output.
pub type Observer = Arc<dyn Fn(&[u8]) + Send + Sync>;

/// How a program is connected.
#[derive(Default, Clone)]
pub struct Connection {
    /// It gets the host's input; otherwise its input is empty.
    pub input: bool,
    /// An INTERRUPT is reported to it instead of killing it: it is a shell.
    pub shell: bool,
    /// It is killed after this time.
    pub timeout: Option<Duration>,
    /// Receives a copy of its output.
    pub observer: Option<Observer>,
    /// Its input and output are this socket instead of the host link.
    pub console: Option<Arc<Socket>>,
    /// Its input comes from this socket: from a program that runs beside it.
    pub from: Option<Arc<Socket>>,
    /// It runs beside another program, and its output goes to this socket. Its end does not end the other program.
    pub beside: Option<Arc<Socket>>,
}

impl Connection {
    /// The socket that becomes this descriptor of the program, if it is not connected to the host link.
    fn given(&self, fd: usize) -> Option<&Arc<Socket>> {
        let own = match fd {
            0 => &self.from,
            1 => &self.beside,
            _ => &None,
        };
        self.console.as_ref().or(own.as_ref())
    }
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// By itself, or it was killed by another program.
    Returned(i64),
    /// `init` killed it at its timeout.
    TimedOut(Duration),
    /// It never ran, for this reason.
    NotStarted(String),
}

/// What running programs needs.
#[derive(Clone)]
pub struct Runner {
    pub link: &'static Link,
    pub tasks: &'static Tasks,
    pub maker: Arc<Maker>,
    pub environment: Vec<(String, String)>,
    /// Paths of the programs that may inspect and kill all tasks.
    pub trusted: Vec<String>,
    /// Names of the programs that may use endpoints of native components.
    pub endpoints: Vec<String>,
    /// The root resource, from which some programs get a part.
    pub root: Option<&'static zx::Resource>,
    /// The services, where they are available.
    pub names: Option<Arc<Names>>,
    /// For programs that may do anything with the machine: tests.
    pub resource: Option<&'static zx::Resource>,
    /// Traces each program and its children, if tracing was requested.
    pub tracer: Option<Tracer>,
}

/// A running program, and the other ends of its input and output.
struct Child {
    process: Process,
    job: Job,
    input: Option<Arc<Socket>>,
    output: Option<Arc<Socket>>,
    errors: Option<Arc<Socket>>,
    trace: Option<trace::Running>,
}

/// A started process, the other ends of its descriptors, and its trace.
type Started = (Process, [Option<Socket>; 3], Option<trace::Running>);

impl Runner {
    /// Runs a program to its end and sends its output.
    pub fn run(&self, command: &config::Command, connection: &Connection) -> End {
        let child = match self.start(command, connection) {
            Ok(child) => child,
            Err(reason) => {
                self.tasks.set_shell(None);
                self.link.event(&["not-started", &command.program, &reason]);
                return End::NotStarted(reason);
            }
        };
        self.link.event(&["started", &command.program]);
        if let Some(input) = &child.input
            && connection.input
        {
            self.feed(input.clone());
        }
        let pump = |name: &str, kind: u8, socket: &Option<Arc<Socket>>| {
            socket.as_ref().and_then(|socket| self.pump(name, kind, socket.clone(), connection))
        };
        let output = pump("stdout", frames::STDOUT, &child.output);
        let errors = pump("stderr", frames::STDERR, &child.errors);
        let end = wait(&child.process, connection.timeout);
        self.tasks.set_shell(None);
        // Killing the job ends the processes that the program left running, and with them all that may write.
        if connection.beside.is_some() {
            let _ = child.job.kill();
        } else {
            self.tasks.kill_foreground();
        }
        // Other programs may hold duplicates of its sockets. They must not keep the run from ending. Output that is
        // already written is still read.
        for socket in child.output.iter().chain(&child.errors) {
            let _ = socket.set_disposition(0, abi::ZX_SOCKET_DISPOSITION_WRITE_DISABLED);
        }
        if let Some(input) = &child.input {
            let _ = input.set_disposition(abi::ZX_SOCKET_DISPOSITION_WRITE_DISABLED, 0);
        }
        if let Some(trace) = child.trace {
            trace.end();
        }
        for pump in [output, errors].into_iter().flatten() {
            let _ = pump.join();
        }
        end
    }

    fn start(&self, command: &config::Command, connection: &Connection) -> Result<Child, String> {
        if self.tasks.ending() {
            return Err("the system is ending".to_owned());
        }
        let path = command.program.as_str();
        let mut file = File::open(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => "there is no such program".to_owned(),
            _ => format!("it cannot be opened: {error}"),
        })?;
        program::check(&mut file, |library| Path::new("/boot/lib").join(library).exists())?;
        let in_image = path.strip_prefix("/boot/").ok_or("only programs in /boot can be started first")?;
        let step = |what: &'static str| move |status: Status| format!("{what}: {status}");
        let executable = self.maker.boot.open(in_image).map_err(step("it cannot be opened"))?;
        let name = path.rsplit('/').next().unwrap_or(path);
        let job = self.tasks.job(name, self.resource.is_some()).map_err(step("its job"))?;
        match self.start_in(&job, (path, name), executable, command, connection) {
            Ok((process, ends, trace)) => {
                let [input, output, errors] = ends.map(|end| end.map(Arc::new));
                Ok(Child { process, job, input, output, errors, trace })
            }
            Err(reason) => {
                // The job is empty. Killing it makes services drop the program's resources.
                if self.resource.is_none() {
                    let _ = job.kill();
                }
                Err(reason)
            }
        }
    }

    fn start_in(
        &self,
        job: &Job,
        (path, name): (&str, &str),
        executable: Vmo,
        command: &config::Command,
        connection: &Connection,
    ) -> Result<Started, String> {
        let step = |what: &'static str| move |status: Status| format!("{what}: {status}");
        let mut strings = Strings { environment: self.variables(), ..Strings::default() };
        strings.arguments = [&command.program].into_iter().chain(&command.arguments).map(String::as_str).collect();
        let mut handles = self.maker.usual(job)?;
        if let Some(names) = &self.names {
            for (index, (path, channel)) in (0..).zip(names.entries(job, path).map_err(step("its name space"))?) {
                strings.names.push(path);
                handles.push((HandleInfo::with_arg(PA_NS_DIR, index), channel.into()));
            }
        }
        if let Some(resource) = self.resource {
            let resource = resource.duplicate_handle(Rights::SAME_RIGHTS).map_err(step("the root resource"))?;
            handles.push((HandleInfo::new(PA_RESOURCE), resource));
        }
        handles.extend(self.extras(path, connection).map_err(step("what it is trusted with"))?);
        let mut ends = [None, None, None];
        for (fd, end) in (0..).zip(&mut ends) {
            let handle: Handle = match connection.given(usize::from(fd)) {
                Some(socket) => socket.duplicate_handle(Rights::SAME_RIGHTS).map_err(step("the console"))?,
                None => {
                    let (ours, theirs) = Socket::create(0).map_err(step("a socket"))?;
                    *end = Some(ours);
                    theirs.into()
                }
            };
            handles.push((HandleInfo::with_arg(PA_FD, fd), handle));
        }
        let trace = self.tracer.map(|tracer| tracer.start(job)).transpose().map_err(step("its trace"))?;
        match self.maker.start(job, name, executable, &strings, handles) {
            Ok(process) => Ok((process, ends, trace)),
            Err(reason) => {
                trace.into_iter().for_each(trace::Running::end);
                Err(reason)
            }
        }
    }

    fn variables(&self) -> Vec<String> {
        let mut variables: Vec<String> = self.environment.iter().map(|(key, value)| format!("{key}={value}")).collect();
        if !self.environment.iter().any(|(key, _)| key == "PATH") {
            variables.push("PATH=/boot/bin".to_owned());
        }
        if let Some((columns, rows)) = self.link.window() {
            variables.extend([format!("COLUMNS={columns}"), format!("LINES={rows}")]);
        }
        variables
    }

    /// The additional handles of some programs: [`given`].
    fn extras(&self, path: &str, connection: &Connection) -> zx::Result<Vec<(HandleInfo, Handle)>> {
        let mut extras = Vec::new();
        if self.trusted.iter().any(|trusted| trusted == path) {
            extras.push((HandleInfo::with_arg(PA_USER0, start_handles::TASKS), self.tasks.all()?.into()));
            if let Some(root) = self.root {
                let base = abi::ZX_RSRC_SYSTEM_INFO_BASE;
                let statistics = root.create_child(abi::ZX_RSRC_KIND_SYSTEM, base, 1, "statistics")?;
                // Reading them takes no right, so the program can make neither copies nor further resources.
                let statistics = statistics.duplicate_handle(Rights::TRANSFER)?;
                extras.push((HandleInfo::with_arg(PA_USER0, start_handles::STATISTICS), statistics));
            }
        }
        if let Some(root) = self.root
            && self.endpoints.iter().any(|program| path.rsplit('/').next() == Some(program))
        {
            let base = abi::HAFNON_RSRC_SYSTEM_ENDPOINT_BASE;
            let endpoints = root.create_child(abi::ZX_RSRC_KIND_SYSTEM, base, 1, "endpoints")?;
            extras.push((HandleInfo::with_arg(PA_USER0, start_handles::ENDPOINTS), endpoints.into()));
        }
        if connection.shell {
            let event = Event::create()?;
            extras.push((
                HandleInfo::with_arg(PA_USER0, start_handles::INTERRUPT),
                event.duplicate_handle(Rights::BASIC | Rights::SIGNAL)?,
            ));
            self.tasks.set_shell(Some(event));
        }
        Ok(extras)
    }

    /// Feeds the host's input to the program until the input or the program ends.
    fn feed(&self, input: Arc<Socket>) {
        let link = self.link;
        let claim = link.stdin.claim();
        let feed = move || {
            let mut open = true;
            let mut taken = 0;
            while let Some(bytes) = link.stdin.take(claim, frames::MAX_PAYLOAD) {
                // Input that a program does not read after closing its input is lost, as with a pipe.
                open = open && write_all(&input, &bytes).is_ok();
                taken += bytes.len();
                if taken >= init::stdin::WINDOW / 4 || bytes.len() < frames::MAX_PAYLOAD {
                    link.event(&["stdin", &taken.to_string()]);
                    taken = 0;
                }
            }
            // Passes the end of the host's input on. This end of the socket stays open while the program runs.
            let _ = input.set_disposition(abi::ZX_SOCKET_DISPOSITION_WRITE_DISABLED, 0);
        };
        let _ = thread::Builder::new().name("stdin".to_owned()).spawn(feed);
    }

    /// Sends a program's output until its end.
    fn pump(&self, name: &str, kind: u8, socket: Arc<Socket>, connection: &Connection) -> Option<JoinHandle<()>> {
        let link = self.link;
        let observer = connection.observer.clone().filter(|_| kind == frames::STDOUT);
        let pump = move || {
            let mut bytes = [0; frames::MAX_PAYLOAD];
            loop {
                match read(&socket, &mut bytes) {
                    Ok(0) => return,
                    Ok(length) => {
                        link.send(kind, &bytes[..length]);
                        if let Some(observer) = &observer {
                            observer(&bytes[..length]);
                        }
                    }
                    Err(status) => {
                        link.complain(&format!("a program's output was lost: {status}"));
                        return;
                    }
                }
            }
        };
        thread::Builder::new().name(name.to_owned()).spawn(pump).ok()
    }
}

/// Reads available bytes, or waits for some; returns 0 when all writers have closed their ends.
fn read(socket: &Socket, bytes: &mut [u8]) -> zx::Result<usize> {
    loop {
        match socket.read(bytes) {
            Err(Status::SHOULD_WAIT) => {
                let some = Signals::SOCKET_READABLE | Signals::SOCKET_PEER_CLOSED | Signals::SOCKET_PEER_WRITE_DISABLED;
                socket.wait_one(some, MonotonicInstant::INFINITE)?;
            }
            Err(Status::PEER_CLOSED | Status::BAD_STATE) => return Ok(0),
            result => return result,
        }
    }
}

fn write_all(socket: &Socket, mut bytes: &[u8]) -> zx::Result<()> {
    while !bytes.is_empty() {
        match socket.write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Status::SHOULD_WAIT) => {
                let room = Signals::SOCKET_WRITABLE | Signals::SOCKET_PEER_CLOSED | Signals::SOCKET_WRITE_DISABLED;
                socket.wait_one(room, MonotonicInstant::INFINITE)?;
            }
            Err(status) => return Err(status),
        }
    }
    Ok(())
}

/// Waits for the end of the program, or kills it at its timeout.
fn wait(process: &Process, timeout: Option<Duration>) -> End {
    let deadline = timeout.map_or(MonotonicInstant::INFINITE, |timeout| MonotonicInstant::after(timeout.into()));
    let start = Instant::now();
    match process.wait_one(Signals::TASK_TERMINATED, deadline) {
        Err(Status::TIMED_OUT) => {
            let _ = process.kill();
            End::TimedOut(start.elapsed())
        }
        _ => match process.info() {
            Ok(info) => End::Returned(info.return_code),
            Err(status) => End::NotStarted(format!("its end cannot be seen: {status}")),
        },
    }
}
