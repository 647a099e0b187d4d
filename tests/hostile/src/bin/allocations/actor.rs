//! The process that plays scenes: its own side, and the sweep's side.
//!
//! 1. The sweep starts it with a channel, in a job of its own, and receives that job's exceptions.
//! 2. For each play the sweep sends a word; the actor plays the scene and answers with the result.
//! 3. If the actor, or a process that it has started, ends by an exception, the sweep decides what that means.

use std::process::ExitCode;

use abi::{PA_USER0, Status, ZX_EXCP_FATAL_PAGE_FAULT};
use conformance::check::Failure;
use conformance::test_process::OwnJob;
use zx::spawn::Spawn;
use zx::{AsHandleRef, Channel, Exception, Info, MonotonicInstant, Process, Signals};

use crate::scenes;

/// How long a play may take: many times longer than any play takes.
const PATIENCE: zx::Duration = zx::Duration::from_seconds(20);
/// Most bytes of an answer.
const ANSWER: usize = 512;
/// The exit code of a Rust process whose main thread has panicked.
const PANIC: i64 = 101;

/// The actor's own side: plays a scene whenever the sweep asks for it.
pub fn act(scene: &str) -> ExitCode {
    let Some(scene) = scenes::ALL.iter().find(|(name, _)| *name == scene) else { return ExitCode::from(2) };
    let Some(channel) = zx::startup::take(PA_USER0, 0).map(Channel::from) else { return ExitCode::from(2) };
    loop {
        // Requests for memory may fail in the actor's messages to the sweep, too.
        let mut word = [0; 8];
        match channel.read_wait(&mut word, &mut [], MonotonicInstant::INFINITE) {
            Ok(_) => {}
            Err(Status::NO_MEMORY) => continue,
            Err(_) => return ExitCode::SUCCESS,
        }
        let answer = match (scene.1)() {
            Ok(()) => String::new(),
            Err(failure) => failure.to_string(),
        };
        while channel.write(&answer.as_bytes()[..answer.len().min(ANSWER)], []) == Err(Status::NO_MEMORY) {}
    }
}

/// The result of a play.
pub enum SceneResult {
    /// The scene was played to its end.
    Whole,
    /// A call failed for lack of memory, and the scene ended with that error.
    Refused,
    /// The actor has ended, because a request failed where no call can report it, or because its library does not
    /// handle the error.
    Ended,
    /// Any other result: a failure of the case.
    Wrong(String),
}

/// An actor, as the sweep sees it.
pub struct Actor {
    job: OwnJob,
    process: Process,
    channel: Channel,
    exceptions: Channel,
    /// The koid of its job, whose memory requests fail.
    pub koid: u64,
}

impl Actor {
    /// Step 1.
    pub fn start(scene: &str) -> Result<Actor, Failure> {
        let program = std::env::args().next().ok_or("this program does not know its name")?;
        let job = OwnJob::new()?;
        let exceptions = job.create_exception_channel(0)?;
        let (channel, theirs) = Channel::create()?;
        let mut spawn = Spawn::file(&program);
        spawn.arg(&program).arg("--child").arg(scene).job(&job).handle(PA_USER0, theirs.into());
        let process = spawn.start().map_err(|(status, text)| format!("{status}: {text}"))?;
        let koid = conformance::test_process::koid(&*job)?;
        Ok(Actor { job, process, channel, exceptions, koid })
    }

    /// Step 2.
    pub fn play(&self) -> Result<SceneResult, Failure> {
        self.channel.write(b"play", [])?;
        let deadline = MonotonicInstant::after(PATIENCE);
        loop {
            let mut items = [
                wait_item(&self.channel, Signals::CHANNEL_READABLE),
                wait_item(&self.exceptions, Signals::CHANNEL_READABLE),
                wait_item(&self.process, Signals::TASK_TERMINATED),
            ];
            match zx::wait_many(&mut items, deadline) {
                Ok(()) => {}
                Err(Status::TIMED_OUT) => return Ok(SceneResult::Wrong("it does not end".into())),
                Err(status) => return Err(status.into()),
            }
            let [answer, exception, end] = items.map(|item| item.waitfor & item.pending != 0);
            if exception {
                if let Some(played) = self.excepted()? {
                    return Ok(played);
                }
            } else if answer {
                let mut bytes = [0; ANSWER];
                let size = self.channel.read(&mut bytes, &mut []).map_err(|(status, _)| status)?;
                let text = String::from_utf8_lossy(&bytes[..size.bytes]).into_owned();
                return Ok(match text.as_str() {
                    "" => SceneResult::Whole,
                    text if text.contains("NO_MEMORY") => SceneResult::Refused,
                    _ => SceneResult::Wrong(text),
                });
            } else if end {
                return Ok(match self.process.info()?.return_code {
                    abi::ZX_TASK_RETCODE_OOM_KILL | PANIC => SceneResult::Ended,
                    code => SceneResult::Wrong(format!("it ended with {code}")),
                });
            }
        }
    }

    /// Step 3.
    fn excepted(&self) -> Result<Option<SceneResult>, Failure> {
        let (exception, info) = Exception::receive(&self.exceptions, MonotonicInstant::INFINITE_PAST)?;
        // The scene may have ended the thread by now.
        let Ok(report) = exception.thread().and_then(|thread| thread.exception_report()) else { return Ok(None) };
        let context = report.context;
        let process = exception.process()?;
        let own = info.pid == self.process.koid()?;
        process.kill()?;
        let want = info.type_ == ZX_EXCP_FATAL_PAGE_FAULT && context.synth_code as i32 == Status::NO_MEMORY.0;
        // If the kernel did not report the lack of memory, the program's own library did: it aborts.
        let library = info.type_ == abi::ZX_EXCP_UNDEFINED_INSTRUCTION || info.type_ == abi::ZX_EXCP_SW_BREAKPOINT;
        Ok(match own {
            _ if !want && !library => Some(SceneResult::Wrong(format!(
                "exception {:#x} with {}, address {:#x}, in {}",
                info.type_,
                Status(context.synth_code as i32),
                context.arch.cr2,
                if own { "the actor" } else { "a process that it started" }
            ))),
            true => Some(SceneResult::Ended),
            // An exception of a process that the actor has started: the scene must notice it.
            false => None,
        })
    }

    /// Whether the actor can still play. Requests of one of its ending threads can fail after the play.
    pub fn is_there(&self) -> Result<bool, Failure> {
        Ok(!self.process.signals()?.contains(Signals::TASK_TERMINATED))
    }

    /// Ends the actor and everything that it has started.
    pub fn end(self) -> Result<(), Failure> {
        let deadline = MonotonicInstant::after(PATIENCE);
        self.job.kill()?;
        self.process.wait_one(Signals::TASK_TERMINATED, deadline)?;
        self.job.wait_one(Signals::JOB_NO_CHILDREN, deadline)?;
        Ok(())
    }
}

fn wait_item(object: &impl AsHandleRef, signals: Signals) -> abi::zx_wait_item_t {
    abi::zx_wait_item_t { handle: object.raw_handle(), waitfor: signals.bits(), pending: 0 }
}
