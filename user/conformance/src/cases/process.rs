//! Processes: from creation to the end.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use abi::Status;
use zx::{AsHandleRef, Channel, Info, Rights, Signals};

use super::{cases, late, raw, soon, without};
use crate::check::{Failure, Outcome, ensure, equal, fails, gives};
use crate::tiny::{self, KILLED, SPIN, Tiny};

cases! {
    "process.create.not_started" => create_not_started,
    "process.create.rights" => create_rights,
    "process.create.options" => create_options,
    "process.create.root_vmar" => create_root_vmar,
    "process.start.runs" => start_runs,
    "process.start.twice" => start_twice,
    "process.start.thread_of_another" => start_thread_of_another,
    "process.start.moves_the_handle" => start_moves_the_handle,
    "process.exit.return_codes" => exit_return_codes,
    "process.exit.ends_all_threads" => exit_ends_all_threads,
    "process.kill.running" => kill_running,
    "process.kill.not_started" => kill_not_started,
    "process.kill.twice" => kill_twice,
    "process.kill.rights" => kill_rights,
    "process.kill.closes_handles" => kill_closes_handles,
    "process.info.flags" => info_flags,
    "process.info.start_time" => info_start_time,
    "process.info.threads" => info_threads,
    "process.memory.read_and_write" => memory_read_and_write,
    "process.memory.not_mapped" => memory_not_mapped,
    "process.memory.rights" => memory_rights,
    "process.pipes.echo" => pipes_echo,
    "process.many.one_after_another" => many_one_after_another,
}

/// Runs this program as a child; gives its return code.
pub fn child(arguments: &[&str]) -> Result<i64, Failure> {
    let mut command = command(arguments);
    let status = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?.wait()?;
    Ok(i64::from(status.code().ok_or("the code has more than 32 bits")?))
}

fn command(arguments: &[&str]) -> Command {
    let program = std::env::args().next().unwrap_or_else(|| "/boot/bin/conformance".to_owned());
    let mut command = Command::new(program);
    command.arg("--child").args(arguments);
    command
}

fn create_not_started() -> Outcome {
    let tiny = Tiny::new(SPIN)?;
    let info = tiny.process.info()?;
    equal((info.flags, info.return_code), (0, 0))?;
    equal(tiny.process.signals()? & Signals::TASK_TERMINATED, Signals::NONE)
}

fn create_rights() -> Outcome {
    let job = zx::startup::job_default().ok_or("there is no job")?;
    let weak = zx::Job::from(without(&*job, Rights::MANAGE_PROCESS | Rights::WRITE)?);
    fails(weak.create_process("no"), Status::ACCESS_DENIED)
}

fn create_options() -> Outcome {
    let job = zx::startup::job_default().ok_or("there is no job")?;
    let mut out = [0_u32; 2];
    let [a, b] = &mut out;
    let status = raw!(zx_process_create, job.raw_handle(), b"x".as_ptr(), 1, 0x80, &raw mut *a, &raw mut *b);
    gives(status, Status::INVALID_ARGS)
}

fn create_root_vmar() -> Outcome {
    let tiny = Tiny::new(SPIN)?;
    let (theirs, ours) = (tiny.vmar.info()?, zx::startup::vmar_root_self().info()?);
    equal((theirs.base, theirs.len), (ours.base, ours.len))?;
    ensure(theirs.base > 0 && theirs.len > 1 << 40, "the address space is small")
}

fn start_runs() -> Outcome {
    let tiny = tiny::spinning()?;
    let info = tiny.process.info()?;
    ensure(info.flags & abi::ZX_INFO_PROCESS_FLAG_STARTED != 0, "it is not started")?;
    tiny.process.kill()?;
    equal(tiny.end()?, KILLED)
}

fn start_twice() -> Outcome {
    let tiny = tiny::spinning()?;
    let result = tiny.start(None, 0);
    tiny.process.kill()?;
    ensure(result.is_err(), "it started again")
}

fn start_thread_of_another() -> Outcome {
    let (one, other) = (Tiny::new(SPIN)?, Tiny::new(SPIN)?);
    let words = [one.process.raw_handle(), other.thread.raw_handle()];
    let status = raw!(zx_process_start, words[0], words[1], one.entry, one.stack, 0, 0);
    gives(status, Status::ACCESS_DENIED)
}

fn start_moves_the_handle() -> Outcome {
    let (ours, theirs) = Channel::create()?;
    let raw = theirs.raw_handle();
    let tiny = Tiny::new(SPIN)?;
    tiny.start(Some(theirs.into_handle()), 0)?;
    fails(zx::HandleRef::from_raw(raw).check_valid(), Status::BAD_HANDLE)?;
    equal(ours.signals()?, Signals::WRITABLE)?;
    tiny.process.kill()?;
    tiny.end()?;
    ours.wait_one(Signals::PEER_CLOSED, late())?;
    Ok(())
}

fn exit_return_codes() -> Outcome {
    for code in [0, 1, 7, 255, 256, -1, i32::MAX, i32::MIN] {
        equal(child(&["exit", &code.to_string()])?, i64::from(code))?;
    }
    Ok(())
}

fn exit_ends_all_threads() -> Outcome {
    equal(child(&["threads"])?, 5)
}

fn kill_running() -> Outcome {
    let mut sleeper = command(&["sleep"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    equal(sleeper.try_wait()?.map(|status| status.to_string()), None)?;
    sleeper.kill()?;
    equal(sleeper.wait()?.code().map(i64::from), Some(KILLED))
}

fn kill_not_started() -> Outcome {
    let tiny = Tiny::new(SPIN)?;
    tiny.process.kill()?;
    equal(tiny.end()?, KILLED)?;
    ensure(tiny.start(None, 0).is_err(), "a dead process started")
}

fn kill_twice() -> Outcome {
    let tiny = tiny::spinning()?;
    tiny.process.kill()?;
    tiny.end()?;
    tiny.process.kill().map_err(Into::into)
}

fn kill_rights() -> Outcome {
    let tiny = Tiny::new(SPIN)?;
    let weak = zx::Process::from(without(&tiny.process, Rights::DESTROY)?);
    fails(weak.kill(), Status::ACCESS_DENIED)
}

fn kill_closes_handles() -> Outcome {
    let mut child = command(&["sleep"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut output = child.stdout.take().ok_or("there is no pipe")?;
    child.kill()?;
    let mut text = Vec::new();
    // Its end of the pipe is closed, so this ends.
    output.read_to_end(&mut text)?;
    child.wait()?;
    equal(text, Vec::new())
}

fn info_flags() -> Outcome {
    let tiny = tiny::spinning()?;
    tiny.process.kill()?;
    tiny.end()?;
    let flags = tiny.process.info()?.flags;
    let expected = abi::ZX_INFO_PROCESS_FLAG_STARTED | abi::ZX_INFO_PROCESS_FLAG_EXITED;
    equal(flags & expected, expected)
}

fn info_start_time() -> Outcome {
    let before = zx::MonotonicInstant::now();
    let tiny = tiny::spinning()?;
    let after = zx::MonotonicInstant::now();
    let start = zx::MonotonicInstant(tiny.process.info()?.start_time);
    tiny.process.kill()?;
    ensure(before <= start && start <= after, "it is not the time of the start")
}

fn info_threads() -> Outcome {
    let tiny = tiny::spinning()?;
    let mut koids = [0; 4];
    let size = tiny.process.get_info_koids(abi::ZX_INFO_PROCESS_THREADS, &mut koids)?;
    tiny.process.kill()?;
    equal((size.actual, size.avail, koids[0]), (1, 1, tiny::koid(&tiny.thread)?))
}

fn memory_read_and_write() -> Outcome {
    let tiny = Tiny::new(&[0xeb, 0xfe, 1, 2, 3])?;
    let mut bytes = [0; 5];
    equal(tiny.process.read_memory(tiny.entry, &mut bytes)?, 5)?;
    equal(bytes, [0xeb, 0xfe, 1, 2, 3])?;
    let place = tiny.stack - 64;
    equal(tiny.process.write_memory(place, b"written")?, 7)?;
    let mut bytes = [0; 7];
    tiny.process.read_memory(place, &mut bytes)?;
    equal(&bytes, b"written")
}

fn memory_not_mapped() -> Outcome {
    let tiny = Tiny::new(SPIN)?;
    fails(tiny.process.read_memory(0x5000_0000, &mut [0; 8]), Status::NO_MEMORY)?;
    fails(tiny.process.write_memory(0x5000_0000, &[0; 8]), Status::NO_MEMORY)
}

fn memory_rights() -> Outcome {
    let tiny = Tiny::new(SPIN)?;
    let blind = zx::Process::from(without(&tiny.process, Rights::READ)?);
    fails(blind.read_memory(tiny.entry, &mut [0; 8]), Status::ACCESS_DENIED)?;
    let mute = zx::Process::from(without(&tiny.process, Rights::WRITE)?);
    fails(mute.write_memory(tiny.stack - 64, &[0; 8]), Status::ACCESS_DENIED)
}

fn pipes_echo() -> Outcome {
    const SIZE: usize = 600_000;
    let mut child = command(&["echo"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().ok_or("there is no pipe")?;
    let mut output = child.stdout.take().ok_or("there is no pipe")?;
    let sent: Vec<u8> = (0..SIZE).map(|index| (index / 99) as u8).collect();
    let copy = sent.clone();
    let writer = std::thread::spawn(move || input.write_all(&copy));
    let mut received = Vec::new();
    output.read_to_end(&mut received)?;
    writer.join().map_err(|_| "the writer panicked")??;
    ensure(child.wait()?.success(), "the child failed")?;
    ensure(received == sent, "what came back is changed")
}

fn many_one_after_another() -> Outcome {
    for _ in 0..200 {
        tiny::dies(&[0x0f, 0x0b])?;
    }
    fails(zx::Event::create()?.wait_one(Signals::USER_0, soon(1)), Status::TIMED_OUT)
}
