//! Processes from creation to end.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use abi::Status;
use zx::{AsHandleRef, Channel, Info, Rights, Signals};

use super::{cases, late, raw, soon, without};
use crate::check::{Failure, Outcome, ensure, equal, fails, gives};
use crate::puppet::{Puppet, function};
use crate::test_process::{self, KILLED, OwnJob, SPIN, TestProcess};

cases! {
    "process.create.not_started" => create_not_started,
    "process.create.rights" => create_rights,
    "process.create.options" => create_options,
    "process.create.root_vmar" => create_root_vmar,
    "process.create.name_empty" => create_name_empty,
    "process.create.name_is_cut" => create_name_is_cut,
    "process.create.root_vmar_stays" => create_root_vmar_stays,
    "process.start.runs" => start_runs,
    "process.start.makes_calls" => start_makes_calls,
    "process.start.no_handle" => start_no_handle,
    "process.start.no_handle_makes_calls" => start_no_handle_makes_calls,
    "process.start.refused" => start_refused,
    "process.start.rights" => start_rights,
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
    "process.kill.by_its_thread" => kill_by_its_thread,
    "process.kill.handle_cycle" => kill_handle_cycle,
    "process.kill.handle_cycle_of_two" => kill_handle_cycle_of_two,
    "process.kill.while_created" => kill_while_created,
    "process.handles.of_the_process_closed" => handles_of_the_process_closed,
    "process.handles.of_the_thread_closed" => handles_of_the_thread_closed,
    "process.handles.never_started" => handles_never_started,
    "process.wait_async.on_itself" => wait_async_on_itself,
    "process.info.flags" => info_flags,
    "process.property.hw_trace_context_id" => property_hw_trace_context_id,
    "process.info.start_time" => info_start_time,
    "process.info.threads" => info_threads,
    "process.memory.read_and_write" => memory_read_and_write,
    "process.memory.not_mapped" => memory_not_mapped,
    "process.memory.rights" => memory_rights,
    "process.memory.vdso" => memory_vdso,
    "process.memory.arguments" => memory_arguments,
    "process.memory.up_to_the_end" => memory_up_to_the_end,
    "process.memory.dead" => memory_dead,
    "process.pipes.echo" => pipes_echo,
    "process.many.one_after_another" => many_one_after_another,
}

/// Runs this program as a child; returns its return code.
pub fn child(arguments: &[&str]) -> Result<i64, Failure> {
    let mut command = command(arguments);
    let status = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?.wait()?;
    Ok(i64::from(status.code().ok_or("the code has more than 32 bits")?))
}

/// The command that runs this program as a child.
pub fn command(arguments: &[&str]) -> Command {
    let program = std::env::args().next().unwrap_or_else(|| "/boot/bin/conformance".to_owned());
    let mut command = Command::new(program);
    command.arg("--child").args(arguments);
    command
}

fn create_not_started() -> Outcome {
    let tiny = TestProcess::new(SPIN)?;
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
    let tiny = TestProcess::new(SPIN)?;
    let (theirs, ours) = (tiny.vmar.info()?, zx::startup::vmar_root_self().info()?);
    equal((theirs.base, theirs.len), (ours.base, ours.len))?;
    ensure(theirs.base > 0 && theirs.len > 1 << 40, "the address space is small")
}

fn start_runs() -> Outcome {
    let tiny = test_process::spinning()?;
    let info = tiny.process.info()?;
    ensure(info.flags & abi::ZX_INFO_PROCESS_FLAG_STARTED != 0, "it is not started")?;
    tiny.process.kill()?;
    equal(tiny.end()?, KILLED)
}

fn start_twice() -> Outcome {
    let tiny = test_process::spinning()?;
    let result = tiny.start(None, 0);
    tiny.process.kill()?;
    ensure(result.is_err(), "it started again")
}

fn start_thread_of_another() -> Outcome {
    let (one, other) = (TestProcess::new(SPIN)?, TestProcess::new(SPIN)?);
    let words = [one.process.raw_handle(), other.thread.raw_handle()];
    let status = raw!(zx_process_start, words[0], words[1], one.entry, one.stack, 0, 0);
    gives(status, Status::ACCESS_DENIED)
}

fn start_moves_the_handle() -> Outcome {
    let (ours, theirs) = Channel::create()?;
    let raw = theirs.raw_handle();
    let tiny = TestProcess::new(SPIN)?;
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
    let tiny = TestProcess::new(SPIN)?;
    tiny.process.kill()?;
    equal(tiny.end()?, KILLED)?;
    ensure(tiny.start(None, 0).is_err(), "a dead process started")
}

fn kill_twice() -> Outcome {
    let tiny = test_process::spinning()?;
    tiny.process.kill()?;
    tiny.end()?;
    tiny.process.kill().map_err(Into::into)
}

fn kill_rights() -> Outcome {
    let tiny = TestProcess::new(SPIN)?;
    let weak = zx::Process::from(without(&tiny.process, Rights::DESTROY)?);
    fails(weak.kill(), Status::ACCESS_DENIED)
}

fn kill_closes_handles() -> Outcome {
    let mut child = command(&["sleep"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut output = child.stdout.take().ok_or("there is no pipe")?;
    child.kill()?;
    let mut text = Vec::new();
    // The child's end of the pipe is closed, so the read ends.
    output.read_to_end(&mut text)?;
    child.wait()?;
    equal(text, Vec::new())
}

fn info_flags() -> Outcome {
    let tiny = test_process::spinning()?;
    tiny.process.kill()?;
    tiny.end()?;
    let flags = tiny.process.info()?.flags;
    let expected = abi::ZX_INFO_PROCESS_FLAG_STARTED | abi::ZX_INFO_PROCESS_FLAG_EXITED;
    equal(flags & expected, expected)
}

fn info_start_time() -> Outcome {
    let before = zx::MonotonicInstant::now();
    let tiny = test_process::spinning()?;
    let after = zx::MonotonicInstant::now();
    let start = zx::MonotonicInstant(tiny.process.info()?.start_time);
    tiny.process.kill()?;
    ensure(before <= start && start <= after, "it is not the time of the start")
}

fn info_threads() -> Outcome {
    let tiny = test_process::spinning()?;
    let mut koids = [0; 4];
    let size = tiny.process.get_info_koids(abi::ZX_INFO_PROCESS_THREADS, &mut koids)?;
    tiny.process.kill()?;
    equal((size.actual, size.avail, koids[0]), (1, 1, test_process::koid(&tiny.thread)?))
}

fn memory_read_and_write() -> Outcome {
    let tiny = TestProcess::new(&[0xeb, 0xfe, 1, 2, 3])?;
    let mut bytes = [0; 5];
    equal(tiny.process.read_memory(tiny.entry, &mut bytes)?, 5)?;
    equal(bytes, [0xeb, 0xfe, 1, 2, 3])?;
    let place = tiny.stack - 64;
    equal(tiny.process.write_memory(place, b"written")?, 7)?;
    let mut bytes = [0; 7];
    tiny.process.read_memory(place, &mut bytes)?;
    equal(&bytes, b"written")?;
    // The same through a handle to this process, across pages; the VMO shows the written bytes.
    let (current, own) = (zx::startup::process_self(), zx::startup::vmar_root_self());
    let vmo = zx::Vmo::create(3 * 4096, 0)?;
    let perm = abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_WRITE;
    let mapping = own.map_here(perm, &vmo, 0, 3 * 4096)?;
    let pattern = |factor: usize| (0..3 * 4096).map(|n: usize| ((n * factor) >> 3) as u8).collect::<Vec<_>>();
    vmo.write(&pattern(7), 0)?;
    let mut bytes = vec![0; 3 * 4096];
    equal(current.read_memory(mapping.address(), &mut bytes)?, 3 * 4096)?;
    equal(&bytes, &pattern(7))?;
    equal(current.write_memory(mapping.address(), &pattern(11))?, 3 * 4096)?;
    vmo.read(&mut bytes, 0)?;
    equal(bytes, pattern(11))
}

fn memory_not_mapped() -> Outcome {
    let tiny = TestProcess::new(SPIN)?;
    // An empty region of the other process, and a region of this process that is mapped only in part.
    let can = abi::ZX_VM_CAN_MAP_READ | abi::ZX_VM_CAN_MAP_WRITE | abi::ZX_VM_CAN_MAP_SPECIFIC;
    let (_empty, empty) = tiny.vmar.allocate(can, 0, 4096)?;
    let own = zx::startup::vmar_root_self();
    let (region, base) = own.allocate(can, 0, 4 * 4096)?;
    let perm = abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_WRITE | abi::ZX_VM_SPECIFIC;
    region.map(perm, 4096, &zx::Vmo::create(4096, 0)?, 0, 4096)?;
    let current = zx::startup::process_self();
    let places: [(&zx::Process, usize); 6] = [
        (&tiny.process, 0x5000_0000),
        (&tiny.process, 0),
        (&tiny.process, empty),
        (&current, 0),
        (&current, base),
        (&current, base + 2 * 4096),
    ];
    for (process, place) in places {
        fails(process.read_memory(place, &mut [0; 64]), Status::NO_MEMORY)?;
        fails(process.write_memory(place, &[0; 64]), Status::NO_MEMORY)?;
    }
    equal(current.write_memory(base + 4096, &[7; 64])?, 64)?;
    region.destroy()?;
    Ok(())
}

fn memory_rights() -> Outcome {
    let tiny = TestProcess::new(SPIN)?;
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
        test_process::dies(&[0x0f, 0x0b])?;
    }
    fails(zx::Event::create()?.wait_one(Signals::USER_0, soon(1)), Status::TIMED_OUT)
}

fn job() -> Result<zx::Job, Failure> {
    Ok(zx::startup::job_default().ok_or("there is no job")?.create_child()?)
}

fn create_name_empty() -> Outcome {
    let (process, _vmar) = job()?.create_process("")?;
    equal(process.get_name()?, [0; 32])?;
    let (mut handle, mut vmar) = (0_u32, 0_u32);
    let status = raw!(zx_process_create, job()?.raw_handle(), 0, 0, 0, &raw mut handle, &raw mut vmar);
    gives(status, Status::OK)?;
    drop((zx::Handle::from_raw(handle), zx::Handle::from_raw(vmar)));
    Ok(())
}

fn create_name_is_cut() -> Outcome {
    let long = "0123456789012345678901234567890123456789";
    let (process, _vmar) = job()?.create_process(long)?;
    let name = process.get_name()?;
    equal((&name[..31], name[31]), (&long.as_bytes()[..31], 0))
}

fn create_root_vmar_stays() -> Outcome {
    let tiny = TestProcess::new(SPIN)?;
    fails(tiny.vmar.destroy(), Status::NOT_SUPPORTED)?;
    fails(zx::startup::vmar_root_self().destroy(), Status::NOT_SUPPORTED)?;
    // `ZX_INFO_PROCESS_MAPS` lists its content: the address space, the root VMAR, code and stack.
    let size = tiny.process.get_info_records::<abi::zx_info_maps_t>(abi::ZX_INFO_PROCESS_MAPS, &mut [])?;
    equal(size.avail, 4)?;
    tiny.start(None, 0)?;
    fails(tiny.process.wait_one(Signals::TASK_TERMINATED, soon(10)), Status::TIMED_OUT)?;
    tiny.process.kill()?;
    equal(tiny.end()?, KILLED)
}

fn start_makes_calls() -> Outcome {
    // A process without libraries runs, creates objects of its own, and ends with its own return code.
    let puppet = Puppet::new(&job()?)?;
    let room = puppet.room(64)?;
    gives(puppet.call(function!(zx_event_create), &[0, room])?, Status::OK)?;
    let event = u64::from(puppet.word(64)?);
    gives(puppet.call(function!(zx_object_signal), &[event, 0, 1 << 24])?, Status::OK)?;
    gives(puppet.call(function!(zx_handle_close), &[event])?, Status::OK)?;
    gives(puppet.call(function!(zx_handle_close), &[event])?, Status::BAD_HANDLE)?;
    puppet.post(function!(zx_process_exit), &[42])?;
    equal(puppet.tiny.end()?, 42)
}

fn start_no_handle() -> Outcome {
    let tiny = TestProcess::new(SPIN)?;
    let token = tiny.thread.suspend()?;
    tiny.start(None, 7)?;
    tiny.thread.wait_one(Signals::THREAD_SUSPENDED, late())?;
    let registers: abi::zx_thread_state_general_regs_t = tiny.thread.registers()?;
    equal((registers.rdi, registers.rsi), (0, 7))?;
    drop(token);
    tiny.process.kill()?;
    equal(tiny.end()?, KILLED)
}

fn start_no_handle_makes_calls() -> Outcome {
    // `jmp rsi`: the process begins with the call that ends it; its missing handle is the return code.
    let tiny = TestProcess::new(&[0xff, 0xe6])?;
    let exit = function!(zx_process_exit).wrapping_add(tiny.map_vdso()?);
    tiny.start(None, exit as usize)?;
    equal(tiny.process.wait_one(Signals::TASK_TERMINATED, late())?, Signals::TASK_TERMINATED)?;
    equal(tiny.process.info()?.return_code, 0)
}

/// Calls `process_start` with `argument`, which the call must consume.
fn consumes(words: [u64; 4], argument: zx::Handle, expected: Status) -> Outcome {
    let raw = argument.into_raw();
    gives(raw!(zx_process_start, words[0], words[1], words[2], words[3], raw, 0), expected)?;
    fails(zx::HandleRef::from_raw(raw).check_valid(), Status::BAD_HANDLE)
}

fn start_refused() -> Outcome {
    let (tiny, other) = (TestProcess::new(SPIN)?, TestProcess::new(SPIN)?);
    let (channel, _peer) = Channel::create()?;
    let (process, thread) = (u64::from(tiny.process.raw_handle()), u64::from(tiny.thread.raw_handle()));
    let (entry, stack) = (tiny.entry as u64, tiny.stack as u64);
    let event = || Ok::<_, Failure>(zx::Event::create()?.into_handle());
    consumes([0, thread, entry, stack], event()?, Status::BAD_HANDLE)?;
    consumes([process, 0, entry, stack], event()?, Status::BAD_HANDLE)?;
    consumes([thread, thread, entry, stack], event()?, Status::WRONG_TYPE)?;
    consumes([process, process, entry, stack], event()?, Status::WRONG_TYPE)?;
    consumes([u64::from(channel.raw_handle()), thread, entry, stack], event()?, Status::WRONG_TYPE)?;
    consumes([process, u64::from(other.thread.raw_handle()), entry, stack], event()?, Status::ACCESS_DENIED)?;
    for entry in [1 << 47, 0xffff_8000_0000_0000, u64::MAX] {
        consumes([process, thread, entry, stack], event()?, Status::INVALID_ARGS)?;
    }
    // The server checks whether the thread belongs to the process before it checks the address.
    let strange = u64::from(other.thread.raw_handle());
    consumes([process, strange, u64::MAX, stack], event()?, Status::ACCESS_DENIED)?;
    gives(raw!(zx_process_start, process, thread, entry, stack, 0xffff_fff0_u32, 0), Status::BAD_HANDLE)?;
    // The failed calls changed nothing: the process starts.
    equal(tiny.process.info()?.flags, 0)?;
    equal(tiny.thread.info()?.state, abi::ZX_THREAD_STATE_NEW)?;
    tiny.start(Some(event()?), 0)?;
    consumes([process, thread, entry, stack], event()?, Status::BAD_STATE)?;
    // It cannot be started again with a new thread either, at any address.
    let second = tiny.process.create_thread("second")?;
    for place in [entry, 0] {
        consumes([process, u64::from(second.raw_handle()), place, 0], event()?, Status::BAD_STATE)?;
    }
    equal(second.info()?.state, abi::ZX_THREAD_STATE_NEW)?;
    tiny.process.kill()?;
    equal(tiny.end()?, KILLED)?;
    consumes([process, thread, entry, stack], event()?, Status::BAD_STATE)
}

fn start_rights() -> Outcome {
    let tiny = TestProcess::new(SPIN)?;
    let words =
        |process: u32, thread: u32| [u64::from(process), u64::from(thread), tiny.entry as u64, tiny.stack as u64];
    let event = || Ok::<_, Failure>(zx::Event::create()?.into_handle());
    let weak = without(&tiny.process, Rights::WRITE)?;
    consumes(words(weak.raw_handle(), tiny.thread.raw_handle()), event()?, Status::ACCESS_DENIED)?;
    let weak = without(&tiny.thread, Rights::WRITE)?;
    consumes(words(tiny.process.raw_handle(), weak.raw_handle()), event()?, Status::ACCESS_DENIED)?;
    let stays = without(&zx::Event::create()?, Rights::TRANSFER)?;
    consumes(words(tiny.process.raw_handle(), tiny.thread.raw_handle()), stays, Status::ACCESS_DENIED)?;
    equal(tiny.process.info()?.flags, 0)
}

fn kill_by_its_thread() -> Outcome {
    // A thread cannot be killed: its process continues. A process ends when its only thread exits.
    let tiny = test_process::spinning()?;
    gives(raw!(zx_task_kill, tiny.thread.raw_handle()), Status::WRONG_TYPE)?;
    fails(tiny.process.wait_one(Signals::TASK_TERMINATED, soon(10)), Status::TIMED_OUT)?;
    tiny.process.kill()?;
    equal(tiny.end()?, KILLED)?;
    let puppet = Puppet::new(&job()?)?;
    puppet.post(function!(zx_thread_exit), &[])?;
    equal(puppet.tiny.end()?, 0)?;
    equal(puppet.tiny.thread.info()?.state, abi::ZX_THREAD_STATE_DEAD)
}

fn kill_handle_cycle() -> Outcome {
    // A process holds one end of a channel. The other end lies in a message to the process itself, and a message in
    // that channel holds handles to the process and its thread.
    let puppet = Puppet::new(&job()?)?;
    let (witness, far) = zx::EventPair::create()?;
    let (first, second) = Channel::create()?;
    let process = puppet.tiny.process.duplicate_handle(Rights::SAME_RIGHTS)?;
    let thread = puppet.tiny.thread.duplicate_handle(Rights::SAME_RIGHTS)?;
    let (third, fourth) = Channel::create()?;
    first.write(b"", [process, thread, far.into_handle(), third.into_handle()])?;
    fourth.write(b"", [first.into_handle()])?;
    puppet.give(second.into_handle())?;
    puppet.give(fourth.into_handle())?;
    equal(witness.signals()? & Signals::PEER_CLOSED, Signals::NONE)?;
    puppet.tiny.process.kill()?;
    equal(puppet.tiny.end()?, KILLED)?;
    witness.wait_one(Signals::PEER_CLOSED, late())?;
    Ok(())
}

fn kill_handle_cycle_of_two() -> Outcome {
    // Each of two processes holds one end of a channel; the messages in it hold the handles to the other process and
    // its thread. No other handles exist: only their job can end them.
    let job = OwnJob::new()?;
    let (one, other) = (Puppet::new(&job)?, Puppet::new(&job)?);
    let watched = [&one, &other].map(|puppet| puppet.tiny.thread.duplicate(Rights::SAME_RIGHTS));
    let (witness, far) = zx::EventPair::create()?;
    let (first, second) = Channel::create()?;
    let of = |puppet: &Puppet| -> Result<[zx::Handle; 2], Failure> {
        let tiny = &puppet.tiny;
        Ok([tiny.process.duplicate_handle(Rights::SAME_RIGHTS)?, tiny.thread.duplicate_handle(Rights::SAME_RIGHTS)?])
    };
    first.write(b"", of(&one)?)?;
    second.write(b"", of(&other)?)?;
    second.write(b"", [far.into_handle()])?;
    one.give(first.into_handle())?;
    other.give(second.into_handle())?;
    drop((one, other));
    let [one, other] = watched;
    let (one, other) = (one?, other?);
    for thread in [&one, &other] {
        fails(thread.wait_one(Signals::THREAD_TERMINATED, soon(10)), Status::TIMED_OUT)?;
    }
    drop(one);
    fails(other.wait_one(Signals::THREAD_TERMINATED, soon(10)), Status::TIMED_OUT)?;
    equal((job.processes(&mut [0; 3])?.avail, witness.signals()? & Signals::PEER_CLOSED), (2, Signals::NONE))?;
    job.kill()?;
    other.wait_one(Signals::THREAD_TERMINATED, late())?;
    witness.wait_one(Signals::PEER_CLOSED, late())?;
    equal(job.processes(&mut [0; 3])?.avail, 0)
}

fn kill_while_created() -> Outcome {
    // Threads fill a job with processes while it is killed, many times.
    for round in 0..12_u64 {
        let job = job()?;
        let makers: Vec<_> = (0..3)
            .map(|_| {
                let job = job.duplicate(Rights::SAME_RIGHTS)?;
                Ok::<_, Failure>(std::thread::spawn(move || {
                    let mut made = Vec::new();
                    for _ in 0..100 {
                        let Ok(tiny) = TestProcess::in_job(&job, SPIN) else { break };
                        let started = tiny.start(None, 0).is_ok();
                        made.push(tiny);
                        if !started {
                            break;
                        }
                    }
                    made
                }))
            })
            .collect::<Result<_, _>>()?;
        std::thread::sleep(std::time::Duration::from_millis(round));
        job.kill()?;
        fails(job.create_process("late"), Status::BAD_STATE)?;
        for maker in makers {
            for tiny in maker.join().map_err(|_| "a thread panicked")? {
                equal(tiny.end()?, KILLED)?;
            }
        }
        job.wait_one(Signals::TASK_TERMINATED, late())?;
    }
    Ok(())
}

/// `inc qword [rsi]; jmp` back to it.
const COUNT: &[u8] = &[0x48, 0xff, 0x06, 0xeb, 0xfb];

/// A process that counts in memory that it shares with this one.
fn counting() -> Result<(TestProcess, zx::Vmo), Failure> {
    let tiny = TestProcess::new(COUNT)?;
    let memory = zx::Vmo::create(4096, 0)?;
    let perm = abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_WRITE;
    let address = tiny.vmar.map(perm, 0, &memory, 0, 4096)?;
    tiny.start(None, address)?;
    counts(&memory)?;
    Ok((tiny, memory))
}

fn counts(memory: &zx::Vmo) -> Outcome {
    let read = || {
        let mut word = [0; 8];
        memory.read(&mut word, 0).map(|()| u64::from_le_bytes(word))
    };
    let before = read()?;
    for _ in 0..1000 {
        if read()? != before {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    Err("it does not run".into())
}

fn handles_of_the_process_closed() -> Outcome {
    let job = job()?;
    let (tiny, memory) = counting()?;
    let koid = test_process::koid(&tiny.process)?;
    let TestProcess { process, thread, vmar, .. } = tiny;
    drop((process, vmar));
    counts(&memory)?;
    equal(thread.info()?.state, abi::ZX_THREAD_STATE_RUNNING)?;
    drop(thread);
    // No handle to its objects exists, and it runs. Its parent can find it by its koid.
    counts(&memory)?;
    let parent = zx::startup::job_default().ok_or("there is no job")?;
    let process = zx::Process::from(parent.get_child(koid, Rights::SAME_RIGHTS)?);
    process.kill()?;
    process.wait_one(Signals::TASK_TERMINATED, late())?;
    drop(job);
    equal(process.info()?.return_code, KILLED)
}

fn handles_of_the_thread_closed() -> Outcome {
    let (tiny, memory) = counting()?;
    let koid = test_process::koid(&tiny.thread)?;
    let TestProcess { process, thread, .. } = tiny;
    drop(thread);
    counts(&memory)?;
    equal(process.thread(koid)?.info()?.state, abi::ZX_THREAD_STATE_RUNNING)?;
    process.kill()?;
    process.wait_one(Signals::TASK_TERMINATED, late())?;
    Ok(())
}

fn handles_never_started() -> Outcome {
    // A process that can no longer be started is removed from its job.
    let job = job()?;
    let (process, vmar) = job.create_process("never")?;
    let thread = process.create_thread("never")?;
    let mut koids = [0; 2];
    equal(job.processes(&mut koids)?.actual, 1)?;
    drop((process, vmar));
    equal(job.processes(&mut koids)?.actual, 0)?;
    equal(thread.info()?.state, abi::ZX_THREAD_STATE_DEAD)
}

fn wait_async_on_itself() -> Outcome {
    // A process waits through a port for its own end, and ends.
    let puppet = Puppet::new(&job()?)?;
    let port = puppet.give(zx::Port::create()?.into_handle())?;
    let process = puppet.give(puppet.tiny.process.duplicate_handle(Rights::SAME_RIGHTS)?)?;
    let signals = u64::from(Signals::TASK_TERMINATED.bits());
    let wait = || puppet.call(function!(zx_object_wait_async), &[process, port, 1, signals, 0]);
    // The wait is added and cancelled many times while other threads query the process.
    for _ in 0..200 {
        gives(wait()?, Status::OK)?;
        puppet.post(function!(zx_port_cancel), &[port, process, 1])?;
        let size = puppet.tiny.process.get_info_records::<abi::zx_info_vmo_t>(abi::ZX_INFO_PROCESS_VMOS, &mut [])?;
        ensure(size.avail > 2, "its memory is not told")?;
        equal(puppet.result()?.map(|status| Status(status as i32)), Some(Status::OK))?;
    }
    gives(puppet.call(function!(zx_port_cancel), &[port, process, 1])?, Status::NOT_FOUND)?;
    gives(wait()?, Status::OK)?;
    puppet.post(function!(zx_process_exit), &[9])?;
    equal(puppet.tiny.end()?, 9)
}

fn property_hw_trace_context_id() -> Outcome {
    // As in a Zircon without debugging calls: seL4 does not tell where page tables are.
    let property = abi::ZX_PROP_PROCESS_HW_TRACE_CONTEXT_ID;
    let refused = |process: &zx::Process| -> Outcome {
        // The size of the buffer does not matter.
        for size in [1, 8] {
            fails(process.get_property(property, &mut vec![0; size]), Status::NOT_SUPPORTED)?;
        }
        // The property cannot be set on any process.
        fails(process.set_property(property, &[0; 8]), Status::INVALID_ARGS)
    };
    refused(&zx::startup::process_self())?;
    let tiny = TestProcess::new(SPIN)?;
    refused(&tiny.process)?;
    tiny.start(None, 0)?;
    refused(&tiny.process)?;
    tiny.process.kill()?;
    equal(tiny.end()?, KILLED)?;
    refused(&tiny.process)
}

fn memory_vdso() -> Outcome {
    // The vDSO is shared by all processes: none can write it, in any process.
    let puppet = Puppet::new(&job()?)?;
    let property = abi::ZX_PROP_PROCESS_VDSO_BASE_ADDRESS;
    for process in [&puppet.tiny.process, &*zx::startup::process_self()] {
        let base = process.get_property_u64(property)? as usize;
        for at in [base, base + 0x1000, base + abi::VDSO_CODE_START, base + abi::VDSO_CODE_START + 64] {
            let mut bytes = [0; 16];
            equal(process.read_memory(at, &mut bytes)?, 16)?;
            fails(process.write_memory(at, &bytes), Status::ACCESS_DENIED)?;
            fails(process.write_memory(at, &[0xcc; 4]), Status::ACCESS_DENIED)?;
            let mut after = [0; 16];
            process.read_memory(at, &mut after)?;
            equal(after, bytes)?;
        }
    }
    puppet.tiny.process.kill()?;
    equal(puppet.tiny.end()?, KILLED)
}

fn memory_arguments() -> Outcome {
    let tiny = TestProcess::new(SPIN)?;
    let (process, entry) = (tiny.process.raw_handle(), tiny.entry);
    let (mut buffer, mut actual) = ([0_u8; 8], 77_usize);
    let bytes = buffer.as_mut_ptr() as u64;
    let sizes = [0, (64 << 20) + 1, usize::MAX];
    for size in sizes {
        let status = raw!(zx_process_read_memory, process, entry, bytes, size, &raw mut actual);
        gives(status, Status::INVALID_ARGS)?;
        let status = raw!(zx_process_write_memory, process, entry, bytes, size, &raw mut actual);
        gives(status, Status::INVALID_ARGS)?;
    }
    gives(raw!(zx_process_read_memory, process, entry, 0, 8, &raw mut actual), Status::INVALID_ARGS)?;
    gives(raw!(zx_process_write_memory, process, entry, 0, 8, &raw mut actual), Status::INVALID_ARGS)?;
    gives(raw!(zx_process_read_memory, process, entry, 8, 8, &raw mut actual), Status::INVALID_ARGS)?;
    gives(raw!(zx_process_write_memory, process, entry, 8, 8, &raw mut actual), Status::INVALID_ARGS)?;
    // The server checks the sizes before the handle.
    gives(raw!(zx_process_read_memory, 0, entry, bytes, 0, &raw mut actual), Status::INVALID_ARGS)?;
    gives(raw!(zx_process_read_memory, 0, entry, bytes, 8, &raw mut actual), Status::BAD_HANDLE)?;
    let thread = tiny.thread.raw_handle();
    gives(raw!(zx_process_write_memory, thread, entry, bytes, 8, &raw mut actual), Status::WRONG_TYPE)?;
    equal((buffer, actual), ([0; 8], 77))
}

fn memory_up_to_the_end() -> Outcome {
    let tiny = TestProcess::new(SPIN)?;
    let end = tiny.entry + 4096;
    let mut bytes = [0; 64];
    equal(tiny.process.read_memory(end - 10, &mut bytes)?, 10)?;
    equal(tiny.process.write_memory(end - 10, b"0123456789abcdef")?, 10)?;
    equal(tiny.process.read_memory(end - 10, &mut bytes)?, 10)?;
    equal(&bytes[..10], b"0123456789")?;
    fails(tiny.process.read_memory(end, &mut bytes), Status::NO_MEMORY)?;
    fails(tiny.process.read_memory(usize::MAX - 3, &mut bytes), Status::NO_MEMORY)
}

fn memory_dead() -> Outcome {
    let tiny = test_process::spinning()?;
    tiny.process.kill()?;
    tiny.end()?;
    fails(tiny.process.read_memory(tiny.entry, &mut [0; 8]), Status::BAD_STATE)?;
    fails(tiny.process.write_memory(tiny.entry, &[0; 8]), Status::BAD_STATE)
}
