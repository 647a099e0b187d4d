//! The runner's side: runs one program in the keeper's machine.

use std::env;
use std::fs::File;
use std::io::{IsTerminal, Read};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use ::batch::{BatchMessage, CREDIT, Decoder, End, Start};
use anyhow::{Context, Result, bail};

use super::{Request, StdinMessage, next, send};
use crate::link::exit_code;
use crate::session::console::ProgramStream;
use crate::symbols::Files;
use xtask_build::cargo::PROGRAM_TARGET;
use xtask_common::threads::Watcher;
use xtask_common::ui::Ui;

/// The amount of input that was sent and not taken yet.
#[derive(Debug, Default)]
struct InputCredit {
    used: Mutex<usize>,
    less: Condvar,
}

/// Makes the keeper at `socket` run a program; returns this process' exit code. `names` resolves names in backtraces.
///
/// # Errors
/// The keeper does not exist.
pub fn run(
    ui: &Ui,
    socket: &Path,
    program: &Path,
    args: Vec<String>,
    env: Vec<(String, String)>,
    limit: Option<Duration>,
    names: Option<Files>,
) -> Result<u8> {
    let mut stream = UnixStream::connect(socket).context("the machine's keeper is gone")?;
    let name = program.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    // Cargo starts tests in their package's folder.
    let current = env::current_dir().ok().map(|folder| format!("PWD={}", folder.display()));
    let built = built_folder(program);
    let start = Start {
        args: [program.to_string_lossy().into_owned()].into_iter().chain(args).collect(),
        env: env.into_iter().map(|(key, value)| format!("{key}={value}")).chain(current).collect(),
        input: has_input(),
        name,
        place: program.parent().unwrap_or(Path::new("/")).to_string_lossy().into_owned(),
        empty: [Some("/tmp".into()), built.and_then(tests_folder)].into_iter().flatten().collect(),
        files: None,
        programs: None,
    };
    let folder = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let input = start.input;
    send(
        &mut stream,
        &Request { program: program.to_path_buf(), start, folder, built: built.map(Path::to_path_buf), limit },
    )?;
    let credit = Arc::new(InputCredit::default());
    if input {
        let (stream, credit) = (stream.try_clone().context("cannot share a socket")?, credit.clone());
        // The keeper kills the program when its runner closes the connection.
        let closed = stream.try_clone().context("cannot share a socket")?;
        let watcher = Watcher::new(move |_| drop(closed.shutdown(Shutdown::Both)));
        watcher.start("input", move || pump_input(stream, &credit))?;
    }
    let mut decoder = Decoder::default();
    let (mut output, mut errors) = (ProgramStream::new(names.clone()), ProgramStream::new(names));
    loop {
        match next(&mut stream, &mut decoder)? {
            Some(BatchMessage::Output { bytes, .. }) => {
                if output.write(std::io::stdout(), &bytes).is_err() {
                    return Ok(141);
                }
            }
            // The program continues if standard error cannot be written.
            Some(BatchMessage::Errors { bytes, .. }) => drop(errors.write(std::io::stderr(), &bytes)),
            Some(BatchMessage::InputTaken { count, .. }) => credit.taken(count),
            Some(BatchMessage::Ended { end, .. }) => {
                let _ = errors.end(std::io::stderr());
                let written = output.end(std::io::stdout());
                return Ok(if written.is_ok() { code(ui, &end, limit) } else { 141 });
            }
            Some(BatchMessage::Ready { .. } | BatchMessage::Fetched { .. }) => {}
            None => bail!("the machine's keeper ended"),
        }
    }
}

/// The folder in which cargo built this program, for example `debug` in the target folder.
fn built_folder(program: &Path) -> Option<&Path> {
    program.ancestors().find(|folder| folder.parent().is_some_and(|above| above.ends_with(PROGRAM_TARGET)))
}

/// The folder for files of integration tests, whose path cargo gives them at compile time: `tmp` in cargo's target
/// directory.
fn tests_folder(built: &Path) -> Option<String> {
    Some(built.parent()?.parent()?.join("tmp").to_string_lossy().into_owned())
}

fn code(ui: &Ui, end: &End, limit: Option<Duration>) -> u8 {
    match end {
        End::Returned(code) => exit_code(*code),
        End::TimedOut => {
            let limit = limit.unwrap_or_default().as_secs_f64();
            ui.note(&format!("the program did not end within {limit} s; it was killed"));
            124
        }
        End::NotStarted(why) => {
            ui.note(why);
            125
        }
    }
}

/// Whether standard input may be meant for the program: a pipe or a file. A terminal is for the user.
fn has_input() -> bool {
    let stdin = std::io::stdin();
    let null = File::open("/dev/null").and_then(|null| rustix::fs::fstat(null.as_fd()).map_err(Into::into));
    let same = |null: rustix::fs::Stat| {
        rustix::fs::fstat(stdin.as_fd()).is_ok_and(|ours| (ours.st_dev, ours.st_ino) == (null.st_dev, null.st_ino))
    };
    !stdin.is_terminal() && !null.is_ok_and(same)
}

fn pump_input(mut stream: UnixStream, credit: &InputCredit) {
    let mut buffer = [0; 4096];
    let mut stdin = std::io::stdin().lock();
    loop {
        let count = match stdin.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => 0,
        };
        credit.use_up(count);
        if send(&mut stream, &StdinMessage(buffer[..count].to_vec())).is_err() || count == 0 {
            return;
        }
    }
}

impl InputCredit {
    fn use_up(&self, count: usize) {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let none = |used: &mut usize| used.saturating_add(count) > CREDIT;
        *self.less.wait_while(used, none).unwrap_or_else(PoisonError::into_inner) += count;
    }

    fn taken(&self, count: usize) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        *used = used.saturating_sub(count);
        self.less.notify_all();
    }
}
