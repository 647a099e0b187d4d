//! Threads: made by hand out of a few instructions, and std's.

use std::thread;

use abi::Status;
use zx::{AsHandleRef, Info, Signals, Vmo};

use super::{cases, late, raw};
use crate::check::{Outcome, ensure, equal, gives};
use crate::tiny;

cases! {
    "thread.create.new" => create_new,
    "thread.create.options" => create_options,
    "thread.create.name_is_cut" => create_name_is_cut,
    "thread.start.runs_and_exits" => start_runs_and_exits,
    "thread.start.twice" => start_twice,
    "thread.start.bad_entry" => start_bad_entry,
    "thread.std.own_koids" => std_own_koids,
    "thread.std.many" => std_many,
    "thread.std.names" => std_names,
    "thread.info.states" => info_states,
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
    let code = tiny::code(&[0xc7, 0x07, 42, 0, 0, 0, 0xff, 0xd6])?;
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
    let process = tiny::Tiny::new(tiny::SPIN)?;
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
    thread::sleep(std::time::Duration::from_millis(30));
    let state = handle.info()?.state;
    event.signal(Signals::NONE, Signals::USER_0)?;
    waiter.join().map_err(|_| "the thread panicked")??;
    equal(state, abi::ZX_THREAD_STATE_BLOCKED_WAIT_ONE)?;
    equal(zx::startup::thread_self().info()?.state, abi::ZX_THREAD_STATE_RUNNING)?;
    handle.wait_one(Signals::THREAD_TERMINATED, late())?;
    equal(handle.info()?.state, abi::ZX_THREAD_STATE_DEAD)
}
