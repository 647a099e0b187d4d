//! Threads: made by hand with a few instructions, and those of `std`.

use std::thread;

use abi::Status;
use zx::{AsHandleRef, Info, Signals, Vmo};

use super::asleep::until;
use super::{cases, late, raw, without};
use crate::check::{Outcome, ensure, equal, fails, gives};
use crate::puppet::{Puppet, function};
use crate::test_process;

cases! {
    "thread.create.new" => create_new,
    "thread.create.options" => create_options,
    "thread.create.name_is_cut" => create_name_is_cut,
    "thread.create.name_empty" => create_name_empty,
    "thread.create.refused" => create_refused,
    "thread.start.runs_and_exits" => start_runs_and_exits,
    "thread.start.rights" => start_rights,
    "thread.start.zero_entry" => start_zero_entry,
    "thread.start.of_an_unstarted_process" => start_of_an_unstarted_process,
    "thread.start.of_a_dead_process" => start_of_a_dead_process,
    "thread.start.addresses" => start_addresses,
    "thread.exit.last_of_a_process" => exit_last_of_a_process,
    "thread.handles.closed" => handles_closed,
    "thread.handles.closed_unstarted" => handles_closed_unstarted,
    "thread.start.twice" => start_twice,
    "thread.start.bad_entry" => start_bad_entry,
    "thread.std.own_koids" => std_own_koids,
    "thread.std.many" => std_many,
    "thread.std.names" => std_names,
    "thread.info.states" => info_states,
    "thread.info.affinity" => info_affinity,
    "thread.info.no_task_stats" => info_no_task_stats,
}

const READ_WRITE: u32 = abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_WRITE;

fn create_new() -> Outcome {
    let thread = zx::startup::process_self().create_thread("new")?;
    equal(thread.info()?.state, abi::ZX_THREAD_STATE_NEW)?;
    equal(thread.basic_info()?.related_koid, zx::startup::process_self().koid()?)
}

fn create_options() -> Outcome {
    let process = zx::startup::process_self().raw_handle();
    let mut out = 0_u32;
    gives(raw!(zx_thread_create, process, b"x".as_ptr(), 1, 1, &raw mut out), Status::INVALID_ARGS)
}

fn create_name_is_cut() -> Outcome {
    let long = "0123456789012345678901234567890123456789";
    let thread = zx::startup::process_self().create_thread(long)?;
    let name = thread.get_name()?;
    equal((&name[..31], name[31]), (&long.as_bytes()[..31], 0))
}

/// A thread of this process that stores the number 42 where its first argument points and calls its second one.
fn start_runs_and_exits() -> Outcome {
    // mov dword [rdi], 42; call rsi
    let code = test_process::code(&[0xc7, 0x07, 42, 0, 0, 0, 0xff, 0xd6])?;
    let vmar = zx::startup::vmar_root_self();
    let code = vmar.map_here(abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_EXECUTE, &code, 0, 4096)?;
    let memory = Vmo::create(8192, 0)?;
    let memory = vmar.map_here(READ_WRITE, &memory, 0, 8192)?;
    let thread = zx::startup::process_self().create_thread("by hand")?;
    let exit = zx::sys::zx_thread_exit as *const () as usize;
    thread.start(code.address(), memory.address() + 8192, memory.address(), exit)?;
    thread.wait_one(Signals::THREAD_TERMINATED, late())?;
    equal(thread.info()?.state, abi::ZX_THREAD_STATE_DEAD)?;
    let mut value = [0; 4];
    memory.read(0, &mut value)?;
    equal(u32::from_le_bytes(value), 42)
}

fn start_twice() -> Outcome {
    let current = zx::startup::thread_self().raw_handle();
    gives(raw!(zx_thread_start, current, 0x100_0000, 0, 0, 0), Status::BAD_STATE)
}

fn start_bad_entry() -> Outcome {
    let process = test_process::TestProcess::new(test_process::SPIN)?;
    for entry in [0x0000_8000_0000_0000_u64, 0xffff_8000_0000_0000, u64::MAX] {
        let handles = [process.process.raw_handle(), process.thread.raw_handle()];
        let status = raw!(zx_process_start, handles[0], handles[1], entry, process.stack, 0, 0);
        gives(status, Status::INVALID_ARGS)?;
    }
    Ok(())
}

fn std_own_koids() -> Outcome {
    let koid = || zx::startup::thread_self().koid();
    let others: Vec<_> = (0..4).map(|_| thread::spawn(koid)).collect();
    let mut koids = vec![koid()?];
    for other in others {
        koids.push(other.join().map_err(|_| "a thread panicked")??);
    }
    koids.sort_unstable();
    koids.dedup();
    equal(koids.len(), 5)
}

fn std_many() -> Outcome {
    for _ in 0..4 {
        let threads: Vec<_> = (0..64_u64).map(|number| thread::spawn(move || number * number)).collect();
        let mut sum = 0;
        for thread in threads {
            sum += thread.join().map_err(|_| "a thread panicked")?;
        }
        equal(sum, (0..64).map(|number| number * number).sum())?;
    }
    Ok(())
}

fn std_names() -> Outcome {
    let named = thread::Builder::new().name("a name".to_owned()).spawn(|| zx::startup::thread_self().get_name())?;
    let name = named.join().map_err(|_| "the thread panicked")??;
    ensure(name.starts_with(b"a name\0"), "the system does not know the name")
}

fn info_states() -> Outcome {
    let (sender, receiver) = std::sync::mpsc::channel();
    let event = zx::Event::create()?;
    let twin = event.duplicate(zx::Rights::SAME_RIGHTS)?;
    let waiter = thread::spawn(move || {
        let _ = sender.send(zx::startup::thread_self().duplicate_handle(zx::Rights::SAME_RIGHTS));
        twin.wait_one(Signals::USER_0, late())
    });
    let handle = zx::Thread::from(receiver.recv().map_err(|_| "the thread is gone")??);
    until(handle.raw_handle(), &[abi::ZX_THREAD_STATE_BLOCKED_WAIT_ONE])?;
    let state = handle.info()?.state;
    event.signal(Signals::NONE, Signals::USER_0)?;
    waiter.join().map_err(|_| "the thread panicked")??;
    equal(state, abi::ZX_THREAD_STATE_BLOCKED_WAIT_ONE)?;
    equal(zx::startup::thread_self().info()?.state, abi::ZX_THREAD_STATE_RUNNING)?;
    handle.wait_one(Signals::THREAD_TERMINATED, late())?;
    equal(handle.info()?.state, abi::ZX_THREAD_STATE_DEAD)
}

fn create_name_empty() -> Outcome {
    let process = zx::startup::process_self();
    equal(process.create_thread("")?.get_name()?, [0; 32])?;
    let mut out = 0_u32;
    gives(raw!(zx_thread_create, process.raw_handle(), 0, 0, 0, &raw mut out), Status::OK)?;
    drop(zx::Handle::from_raw(out));
    // A null name is an error of its own.
    gives(raw!(zx_thread_create, process.raw_handle(), 0, 4, 0, &raw mut out), Status::INVALID_ARGS)
}

fn create_refused() -> Outcome {
    let tiny = test_process::TestProcess::new(test_process::SPIN)?;
    let mut out = 0_u32;
    let name = b"x".as_ptr();
    gives(raw!(zx_thread_create, 0, name, 1, 0, &raw mut out), Status::BAD_HANDLE)?;
    gives(raw!(zx_thread_create, tiny.thread.raw_handle(), name, 1, 0, &raw mut out), Status::WRONG_TYPE)?;
    let weak = zx::Process::from(without(&tiny.process, zx::Rights::MANAGE_THREAD)?);
    fails(weak.create_thread("x"), Status::ACCESS_DENIED)?;
    gives(raw!(zx_thread_create, tiny.process.raw_handle(), name, 1, 0, 8), Status::INVALID_ARGS)?;
    tiny.process.kill()?;
    tiny.end()?;
    fails(tiny.process.create_thread("late"), Status::BAD_STATE)
}

fn start_rights() -> Outcome {
    let tiny = test_process::spinning()?;
    let thread = tiny.process.create_thread("second")?;
    let weak = zx::Thread::from(without(&thread, zx::Rights::MANAGE_THREAD)?);
    fails(weak.start(tiny.entry, tiny.stack, 0, 0), Status::ACCESS_DENIED)?;
    equal(thread.info()?.state, abi::ZX_THREAD_STATE_NEW)?;
    gives(raw!(zx_thread_start, 0, tiny.entry, tiny.stack, 0, 0), Status::BAD_HANDLE)?;
    gives(raw!(zx_thread_start, tiny.process.raw_handle(), tiny.entry, tiny.stack, 0, 0), Status::WRONG_TYPE)?;
    thread.start(tiny.entry, tiny.stack, 0, 0)?;
    fails(thread.start(tiny.entry, tiny.stack, 0, 0), Status::BAD_STATE)?;
    tiny.process.kill()?;
    equal(tiny.end()?, test_process::KILLED)
}

fn start_zero_entry() -> Outcome {
    // 0 is a valid start address; the thread faults if nothing is mapped there.
    let tiny = test_process::spinning()?;
    let thread = tiny.process.create_thread("second")?;
    thread.start(0, tiny.stack, 0, 0)?;
    equal(tiny.end()?, test_process::EXCEPTION)?;
    // The same for the first thread, without a stack, and with the thread's own handle as the argument.
    let tiny = test_process::TestProcess::new(test_process::SPIN)?;
    let process = tiny.process.raw_handle();
    let thread = tiny.thread.duplicate(zx::Rights::SAME_RIGHTS)?.into_handle().into_raw();
    gives(raw!(zx_process_start, process, thread, 0, 0, thread, 0), Status::OK)?;
    equal(tiny.end()?, test_process::EXCEPTION)?;
    fails(zx::HandleRef::from_raw(thread).check_valid(), Status::BAD_HANDLE)
}

fn start_of_an_unstarted_process() -> Outcome {
    // Only `process_start` starts the first thread.
    let tiny = test_process::TestProcess::new(test_process::SPIN)?;
    fails(tiny.thread.start(tiny.entry, tiny.stack, 0, 0), Status::BAD_STATE)?;
    fails(tiny.thread.start(1, 1, 1, 1), Status::BAD_STATE)?;
    equal(tiny.thread.info()?.state, abi::ZX_THREAD_STATE_NEW)?;
    equal(tiny.process.info()?.flags, 0)?;
    tiny.start(None, 0)?;
    tiny.process.kill()?;
    equal(tiny.end()?, test_process::KILLED)
}

fn start_of_a_dead_process() -> Outcome {
    let tiny = test_process::spinning()?;
    let thread = tiny.process.create_thread("second")?;
    tiny.process.kill()?;
    tiny.end()?;
    fails(thread.start(tiny.entry, tiny.stack, 0, 0), Status::BAD_STATE)?;
    equal(thread.info()?.state, abi::ZX_THREAD_STATE_DEAD)
}

fn start_addresses() -> Outcome {
    let tiny = test_process::spinning()?;
    let thread = tiny.process.create_thread("second")?.into_handle();
    let raw = thread.raw_handle();
    for address in [1_u64 << 47, 0xffff_7fff_ffff_ffff, 0xffff_8000_0000_0000, u64::MAX] {
        gives(raw!(zx_thread_start, raw, address, tiny.stack, 0, 0), Status::INVALID_ARGS)?;
        let entry = tiny.entry;
        gives(raw!(zx_thread_start_regs, raw, entry, tiny.stack, 0, 0, address, 0), Status::INVALID_ARGS)?;
    }
    equal(zx::Thread::from(thread).info()?.state, abi::ZX_THREAD_STATE_NEW)?;
    tiny.process.kill()?;
    equal(tiny.end()?, test_process::KILLED)
}

fn exit_last_of_a_process() -> Outcome {
    // When one thread exits, the process continues; when the last one exits, the process ends with return code 0.
    let job = zx::startup::job_default().ok_or("there is no job")?;
    let puppet = Puppet::new(&job)?;
    let other = puppet.tiny.process.create_thread("second")?;
    let token = other.suspend()?;
    // The second thread is suspended and never executes an instruction, but it counts.
    other.start(puppet.tiny.entry, puppet.tiny.stack, 0, 0)?;
    puppet.post(function!(zx_thread_exit), &[])?;
    puppet.tiny.thread.wait_one(Signals::THREAD_TERMINATED, late())?;
    fails(puppet.tiny.process.wait_one(Signals::TASK_TERMINATED, super::soon(10)), Status::TIMED_OUT)?;
    equal(other.info()?.state, abi::ZX_THREAD_STATE_SUSPENDED)?;
    puppet.tiny.process.kill()?;
    equal(puppet.tiny.end()?, test_process::KILLED)?;
    drop(token);
    let puppet = Puppet::new(&job)?;
    puppet.post(function!(zx_thread_exit), &[])?;
    equal(puppet.tiny.end()?, 0)
}

fn handles_closed() -> Outcome {
    // inc qword [rsi]; jmp back: a thread continues to count after its handle is closed.
    let tiny = test_process::TestProcess::new(&[0x48, 0xff, 0x06, 0xeb, 0xfb])?;
    let word = tiny.stack - 64;
    tiny.start(None, word)?;
    let thread = tiny.process.create_thread("detached")?;
    let koid = test_process::koid(&thread)?;
    thread.start(tiny.entry, tiny.stack, 0, word - 64)?;
    drop(thread);
    let count = || {
        let mut bytes = [0; 8];
        tiny.process.read_memory(word - 64, &mut bytes).map(|_| u64::from_le_bytes(bytes))
    };
    let before = count()?;
    let limit = late();
    while count()? == before {
        ensure(zx::MonotonicInstant::now() < limit, "it does not run")?;
        thread::sleep(std::time::Duration::from_millis(2));
    }
    // The process still lists the thread.
    equal(tiny.process.thread(koid)?.info()?.state, abi::ZX_THREAD_STATE_RUNNING)?;
    tiny.process.kill()?;
    equal(tiny.end()?, test_process::KILLED)
}

fn handles_closed_unstarted() -> Outcome {
    // A thread that was never started is destroyed with its last handle.
    let tiny = test_process::TestProcess::new(test_process::SPIN)?;
    let koid = test_process::koid(&tiny.process.create_thread("never")?)?;
    fails(tiny.process.thread(koid), Status::NOT_FOUND)
}

fn info_affinity() -> Outcome {
    // The mask has the one processor, for running threads and for others.
    let tiny = test_process::TestProcess::new(test_process::SPIN)?;
    let mut mask = [0; 8];
    mask[0] = 1;
    equal(tiny.thread.info()?.cpu_affinity_mask.mask, mask)?;
    equal(zx::startup::thread_self().info()?.cpu_affinity_mask.mask, mask)?;
    // A dead thread has an empty mask.
    tiny.process.kill()?;
    tiny.end()?;
    equal(tiny.thread.info()?.cpu_affinity_mask.mask, [0; 8])
}

fn info_no_task_stats() -> Outcome {
    // Memory belongs to a process, not to a thread.
    let mut bytes = [0; 128];
    fails(zx::startup::thread_self().get_info(abi::ZX_INFO_TASK_STATS, &mut bytes), Status::WRONG_TYPE)
}
