//! A program from its start to the last byte of its output.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use init::config;
use init::frames;
use init::program;
use zx::{AsHandleRef, Channel, HandleRef, MonotonicInstant, Signals, Socket, Status};

use crate::link::Link;
use crate::tasks::Tasks;

/// Sees the standard output of a program go by.
pub type Observer = Arc<dyn Fn(&[u8]) + Send + Sync>;

/// How a program is connected.
#[derive(Default, Clone)]
pub struct Connection {
    /// It gets the host's input; otherwise its input is empty.
    pub input: bool,
    /// An INTERRUPT spares it, and what it started outlives no interrupt: the shell.
    pub spared: bool,
    /// It is killed after this time.
    pub timeout: Option<Duration>,
    /// Sees its output too.
    pub observer: Option<Observer>,
    /// Its input and output are this socket, and not the host link's.
    pub console: Option<Arc<Socket>>,
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// By itself or because it was killed.
    Returned(i64),
    /// By init, at its timeout.
    TimedOut(Duration),
    /// It never ran, for this reason.
    NotStarted(String),
}

/// What is needed to run programs.
#[derive(Clone, Copy)]
pub struct Runner {
    pub link: &'static Link,
    pub tasks: &'static Tasks,
    pub environment: &'static [(String, String)],
    /// Reaches all services, where there are drivers.
    pub services: Option<&'static Channel>,
}

impl Runner {
    /// Runs a program to its end and sends everything that it writes.
    pub fn run(&self, command: &config::Command, connection: &Connection) -> End {
        let mut child = match self.start(command, connection) {
            Ok(child) => child,
            Err(reason) => {
                self.link.event(&["not-started", &command.program, &reason]);
                return End::NotStarted(reason);
            }
        };
        self.link.event(&["started", &command.program]);
        let spared = if connection.spared { self.tasks.keep(handle(&child)) } else { None };
        if let Some(input) = child.stdin.take()
            && connection.input
        {
            self.feed(input);
        }
        let output = child.stdout.take().map(|pipe| self.pump("stdout", frames::STDOUT, pipe, connection));
        let errors = child.stderr.take().map(|pipe| self.pump("stderr", frames::STDERR, pipe, connection));
        let end = wait(&mut child, connection.timeout);
        if let Some(koid) = spared {
            self.tasks.forget(koid);
        }
        // What the program left running would hold its output open.
        self.tasks.kill_foreground();
        let end = match (end, child.wait()) {
            (Some(end), _) => end,
            (None, Ok(status)) => End::Returned(return_code(status)),
            (None, Err(error)) => End::NotStarted(format!("its end cannot be seen: {error}")),
        };
        for pump in [output, errors].into_iter().flatten().flatten() {
            let _ = pump.join();
        }
        end
    }

    fn start(&self, command: &config::Command, connection: &Connection) -> Result<Child, String> {
        let mut file = File::open(&command.program).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => "there is no such program".to_owned(),
            _ => format!("it cannot be opened: {error}"),
        })?;
        program::check(&mut file, |library| Path::new("/boot/lib").join(library).exists())?;
        let mut start = Command::new(&command.program);
        start.args(&command.arguments).env_clear();
        start.envs(self.environment.iter().map(|(key, value)| (key, value)));
        if let Some((columns, rows)) = self.link.window() {
            start.env("COLUMNS", columns.to_string()).env("LINES", rows.to_string());
        }
        match &connection.console {
            Some(socket) => {
                let stream = || descriptor(socket).map_err(|status| format!("the console: {status}"));
                start.stdin(stream()?).stdout(stream()?).stderr(stream()?);
            }
            None => {
                start.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            }
        }
        start.spawn().map_err(|error| not_started(&error))
    }

    /// Gives the program the host's input until one of them ends.
    fn feed(&self, mut pipe: ChildStdin) {
        let link = self.link;
        let claim = link.stdin.claim();
        let feed = move || {
            let mut open = true;
            let mut taken = 0;
            while let Some(bytes) = link.stdin.take(claim, frames::MAX_PAYLOAD) {
                // What a program that has closed its input does not read is gone, as with a pipe.
                open = open && pipe.write_all(&bytes).is_ok();
                taken += bytes.len();
                if taken >= init::stdin::WINDOW / 4 || bytes.len() < frames::MAX_PAYLOAD {
                    link.event(&["stdin", &taken.to_string()]);
                    taken = 0;
                }
            }
        };
        let _ = thread::Builder::new().name("stdin".to_owned()).spawn(feed);
    }

    /// Sends what comes out of a pipe until its end.
    fn pump(
        &self,
        name: &str,
        kind: u8,
        mut pipe: impl Read + Send + 'static,
        connection: &Connection,
    ) -> Option<JoinHandle<()>> {
        let link = self.link;
        let observer = connection.observer.clone().filter(|_| kind == frames::STDOUT);
        let pump = move || {
            let mut bytes = [0; frames::MAX_PAYLOAD];
            loop {
                match pipe.read(&mut bytes) {
                    Ok(0) => return,
                    Ok(length) => {
                        link.send(kind, &bytes[..length]);
                        if let Some(observer) = &observer {
                            observer(&bytes[..length]);
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => {
                        link.complain(&format!("a program's output was lost: {error}"));
                        return;
                    }
                }
            }
        };
        thread::Builder::new().name(name.to_owned()).spawn(pump).ok()
    }
}

fn descriptor(socket: &Socket) -> zx::Result<OwnedFd> {
    zx::startup::descriptor(socket.duplicate(zx::Rights::SAME_RIGHTS)?.into())
}

fn handle(child: &Child) -> HandleRef<'static> {
    // On this system the id of a child is the handle to its process.
    HandleRef::from_raw(child.id())
}

/// Waits for the end of the program, or kills it at its timeout.
fn wait(child: &mut Child, timeout: Option<Duration>) -> Option<End> {
    let deadline = timeout.map_or(MonotonicInstant::INFINITE, |timeout| MonotonicInstant::after(timeout.into()));
    let start = Instant::now();
    match handle(child).wait_one(Signals::TASK_TERMINATED, deadline) {
        Err(status) if status == Status::TIMED_OUT => {
            let _ = child.kill();
            Some(End::TimedOut(start.elapsed()))
        }
        _ => None,
    }
}

/// The whole return code; what the standard library gives as a number has 32 bits only.
fn return_code(status: std::process::ExitStatus) -> i64 {
    let text = status.to_string();
    text.rsplit(' ').next().and_then(|code| code.parse().ok()).unwrap_or(i64::from(status.code().unwrap_or(-1)))
}

fn not_started(error: &io::Error) -> String {
    let Some(status) = error.raw_os_error().filter(|code| *code < 0).map(Status) else {
        return error.to_string();
    };
    if status == Status::NO_MEMORY {
        return "there is not enough memory for it".to_owned();
    }
    format!("starting it gave {status}")
}
