//! A session of the system: reads the configuration, runs the programs that it names, ends the system.

use std::fs;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use init::config::{self, Command, Mode, Test};
use init::frames;

use zx::Socket;

use crate::boot::Boot;
use crate::console::Console;
use crate::link::Link;
use crate::make::Maker;
use crate::runner::{Connection, End, Observer, Runner};
use crate::tasks::Tasks;
use crate::trace::Tracer;
use crate::{loader, services, tour};

/// The return code when a program could not be started or configured, as in shells.
const NOT_STARTED: i64 = 127;

/// Maximum number of starts of the shell, if its console fails.
const SHELLS: u32 = 5;

const SHELL: &str = "/boot/bin/sh";

/// Runs the system from its configuration to its end.
pub fn main() {
    let link: &'static Link = Box::leak(Box::new(Link::new()));
    let tasks: &'static Tasks = Box::leak(Box::new(Tasks::new()));
    let resource = zx::startup::resource().and_then(|resource| resource.duplicate(zx::Rights::SAME_RIGHTS).ok());
    let resource = resource.map(|resource| &*Box::leak(Box::new(resource)));
    // Programs write to channels of this process and may let them fill up. With this property, a full queue returns a
    // status and does not kill this process.
    let statuses = zx::startup::process_self().set_overflow_status(true);
    let result = statuses.map_err(|status| io::Error::other(format!("full queues cannot be made statuses: {status}")));
    let result = result.and_then(|()| session(link, tasks, resource));
    let code = result.unwrap_or_else(|error| {
        link.complain(&error.to_string());
        NOT_STARTED
    });
    link.send(frames::EXIT, &code.to_le_bytes());
    if let Some(resource) = resource {
        let _ = zx::system_powerctl(resource, abi::ZX_SYSTEM_POWERCTL_SHUTDOWN);
    }
    // Without the right to shut down, nothing else works either. The host has received the EXIT frame and stops the
    // machine.
}

fn session(link: &'static Link, tasks: &'static Tasks, resource: Option<&'static zx::Resource>) -> io::Result<i64> {
    let boot = Arc::new(Boot::take().map_err(|status| io::Error::other(format!("the boot files: {status}")))?);
    let loader = loader::serve(boot.clone());
    if let Err(status) = &loader {
        link.complain(&format!("libraries come from the starter of the system still: {status}"));
    }
    match resource {
        Some(resource) => {
            // From now on, no other program can write to the link.
            if let Err(status) = zx::debug_send_command(resource, "link") {
                link.complain(&format!("other programs can write to the host, too: {status}"));
            }
            link.receive(resource, tasks)?;
        }
        None => link.complain("there is no root resource: no input, no shutdown"),
    }
    let environment = config::environment(&optional("/boot/config/env")?).map_err(io::Error::other)?;
    let trusted = config::strings("config/trusted", &optional("/boot/config/trusted")?).map_err(io::Error::other)?;
    let endpoints =
        config::strings("config/endpoints", &optional("/boot/config/endpoints")?).map_err(io::Error::other)?;
    let mode = read("/boot/config/mode")?;
    let mode = Mode::parse(&String::from_utf8_lossy(&mode)).map_err(io::Error::other)?;
    let maker = Arc::new(Maker::new(boot, loader.ok()).map_err(io::Error::other)?);
    let mut runner = Runner {
        link,
        tasks,
        maker,
        environment,
        trusted,
        endpoints,
        root: resource,
        names: None,
        resource: None,
        tracer: None,
    };
    if fs::exists("/boot/config/trace").is_ok_and(|asked| asked) {
        runner.tracer = resource.map(|resource| Tracer { link, resource });
    }
    if mode == Mode::Test {
        // A test may do anything with the machine: it has the root resource, and no services run.
        runner.resource = resource;
    } else {
        let services = description::services::decode(&read("/boot/config/services")?).map_err(io::Error::other)?;
        match services::serve(services, link, tasks, runner.maker.clone(), resource) {
            Ok(names) => runner.names = Some(Arc::new(names)),
            Err(reason) => link.complain(&format!("there are no services: {reason}")),
        }
    }
    let code = match mode {
        Mode::Run => run(&runner),
        Mode::Tour => Ok(tour::run(&runner)),
        Mode::Shell => Ok(shell(&runner)),
        Mode::TourThenShell => match tour::run(&runner) {
            code if tasks.ending() => Ok(code),
            _ => Ok(shell(&runner)),
        },
        Mode::Test => test(&runner),
    };
    if let Some(names) = &runner.names {
        names.settle().iter().for_each(|failed| link.complain(failed));
    }
    code
}

fn read(path: &str) -> io::Result<Vec<u8>> {
    fs::read(path).map_err(|error| io::Error::other(format!("{path}: {error}")))
}

fn optional(path: &str) -> io::Result<Vec<u8>> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other.map_err(|error| io::Error::other(format!("{path}: {error}"))),
    }
}

fn run(runner: &Runner) -> io::Result<i64> {
    let command = Command::parse(&read("/boot/config/run")?).map_err(io::Error::other)?;
    let mut connection = Connection { input: true, ..Connection::default() };
    let beside = beside()?;
    if !beside.is_empty() {
        connection.from = Some(run_beside(runner, beside)?);
    }
    Ok(code(runner, &command, runner.run(&command, &connection)))
}

/// The programs that run beside the main one, one after the other: `config/beside/0` and so on.
fn beside() -> io::Result<Vec<Command>> {
    let mut commands = Vec::new();
    loop {
        let file = optional(&format!("/boot/config/beside/{}", commands.len()))?;
        if file.is_empty() {
            return Ok(commands);
        }
        commands.push(Command::parse(&file).map_err(io::Error::other)?);
    }
}

/// Runs programs beside another one, whose input is their output. The input ends when they have ended.
fn run_beside(runner: &Runner, commands: Vec<Command>) -> io::Result<Arc<Socket>> {
    let (input, output) = Socket::create(0).map_err(|status| io::Error::other(format!("a socket: {status}")))?;
    let (runner, output) = (runner.clone(), Arc::new(output));
    let run = move || {
        for command in commands {
            let connection = Connection { beside: Some(output.clone()), ..Connection::default() };
            code(&runner, &command, runner.run(&command, &connection));
        }
        // Ends the output even if a process still holds this socket.
        let _ = output.set_disposition(abi::ZX_SOCKET_DISPOSITION_WRITE_DISABLED, 0);
    };
    thread::Builder::new().name("beside".to_owned()).spawn(run)?;
    Ok(Arc::new(input))
}

fn shell(runner: &Runner) -> i64 {
    let command = Command::new(SHELL, &[]);
    for _ in (0..SHELLS).take_while(|_| !runner.tasks.ending()) {
        let Some(console) =
            runner.names.as_ref().and_then(|names| Console::connect(names, runner.link, runner.tasks).ok())
        else {
            break;
        };
        runner.link.event(&["console"]);
        let connection = Connection { shell: true, console: Some(console.socket.clone()), ..Connection::default() };
        let end = runner.run(&command, &connection);
        drop(connection);
        if !console.lost() {
            console.drain();
            return code(runner, &command, end);
        }
        // The shell ended because its console failed: both are started again.
    }
    runner.link.event(&["no-console"]);
    let connection = Connection { input: true, shell: true, ..Connection::default() };
    code(runner, &command, runner.run(&command, &connection))
}

/// The return code of a program; prints the reason if there is none.
fn code(runner: &Runner, command: &Command, end: End) -> i64 {
    match end {
        End::Returned(code) => code,
        End::TimedOut(_) => abi::ZX_TASK_RETCODE_SYSCALL_KILL,
        End::NotStarted(reason) => {
            runner.link.complain(&format!("{}: {reason}", command.program));
            NOT_STARTED
        }
    }
}

fn test(runner: &Runner) -> io::Result<i64> {
    let list =
        String::from_utf8(read("/boot/config/tests")?).map_err(|_| io::Error::other("config/tests is not UTF-8"))?;
    let tests = config::tests(&list).map_err(io::Error::other)?;
    let failed = tests.iter().filter(|test| !run_test(runner, test)).count();
    Ok(i64::from(failed > 0))
}

fn run_test(runner: &Runner, test: &Test) -> bool {
    let link = runner.link;
    link.event(&["begin", &test.name, &test.command.program]);
    let start = Instant::now();
    let connection = Connection {
        timeout: Some(test.timeout),
        observer: Some(case_observer(link, test.name.clone())),
        ..Connection::default()
    };
    let end = runner.run(&test.command, &connection);
    if let End::Returned(code) = end {
        link.event(&["end", &test.name, &code.to_string(), &start.elapsed().as_millis().to_string()]);
    }
    match verdict(test.expect, &end) {
        Ok(()) => {
            link.event(&["case", &test.name, "ok"]);
            true
        }
        Err(detail) => {
            link.event(&["case", &test.name, "failed", &detail]);
            false
        }
    }
}

fn verdict(expect: Option<i64>, end: &End) -> Result<(), String> {
    match (end, expect) {
        (End::Returned(_), None) => Ok(()),
        (End::Returned(code), Some(expected)) if *code == expected => Ok(()),
        (End::Returned(code), Some(expected)) => Err(format!("returned {code}, expected {expected}")),
        (End::TimedOut(time), _) => Err(format!("timed out after {} ms", rounded(*time))),
        (End::NotStarted(reason), _) => Err(format!("not started: {reason}")),
    }
}

fn rounded(time: Duration) -> u128 {
    time.as_millis()
}

/// Converts the `case` lines of a program's output into events.
fn case_observer(link: &'static Link, test: String) -> Observer {
    let line = Mutex::new(Vec::new());
    Arc::new(move |bytes| {
        let mut line = line.lock().unwrap_or_else(PoisonError::into_inner);
        for byte in bytes {
            match byte {
                b'\n' => {
                    case_event(link, &test, &String::from_utf8_lossy(&line));
                    line.clear();
                }
                // No line of interest is longer, so the rest of a longer line is not stored.
                _ if line.len() < frames::MAX_PAYLOAD => line.push(*byte),
                _ => {}
            }
        }
    })
}

fn case_event(link: &Link, test: &str, line: &str) {
    let mut words = line.splitn(4, ' ');
    if words.next() != Some("case") {
        return;
    }
    let (Some(case), Some(result)) = (words.next(), words.next()) else { return };
    let name = format!("{test}/{case}");
    match (result, words.next()) {
        ("ok", _) => link.event(&["case", &name, "ok"]),
        ("failed", detail) => link.event(&["case", &name, "failed", detail.unwrap_or_default()]),
        _ => {}
    }
}
