//! Kicks out of restricted mode, and other events for a thread in it: suspend tokens, the process's end, waits for
//! pages.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use abi::{
    Status, ZX_EXCEPTION_CHANNEL_DEBUGGER, ZX_EXCP_THREAD_EXITING, ZX_EXCP_THREAD_STARTING, zx_restricted_state_t,
    zx_thread_state_general_regs_t,
};
use zx::{AsHandleRef, Exception, MonotonicInstant, Reason, Rights, Signals, Thread, sys};

use super::process::command;
use super::restricted::{Code, PAGE, READ_WRITE, ROOT, SYSCALLS, Shared, after_call, bind, enters, state, this};
use super::{cases, without};
use crate::check::{Failure, Outcome, ensure, equal, fails, gives};
use crate::pager_vmo::{Supplier, content};
use crate::test_process::SPIN;

cases! {
    "restricted.kick.arguments" => kick_arguments,
    "restricted.kick.before" => kick_before,
    "restricted.kick.starting_and_exiting" => kick_starting_and_exiting,
    "restricted.kick.running" => kick_running,
    "restricted.kick.suspended" => kick_suspended,
    "restricted.kick.calls" => kick_calls,
    "restricted.thread.suspended" => thread_suspended,
    "restricted.thread.registers" => thread_registers,
    "restricted.thread.suspended_often" => thread_suspended_often,
    "restricted.thread.process_ends" => process_ends,
    "restricted.fault.paged" => fault_paged,
}

fn kick_arguments() -> Outcome {
    let (thread, function) = (this()?, sys::zx_restricted_kick as *const ());
    let kick = |handle: u64, options| zx::Status(zx::probe::call(function as usize, &[handle, options]) as i32);
    for options in [1, 2, 0xffff_ffff] {
        gives(kick(thread.raw_handle().into(), options), Status::INVALID_ARGS)?;
    }
    gives(kick(zx::startup::process_self().raw_handle().into(), 0), Status::WRONG_TYPE)?;
    gives(kick(0, 0), Status::BAD_HANDLE)?;
    fails(Thread::from(without(&thread, Rights::MANAGE_THREAD)?).restricted_kick(), Status::ACCESS_DENIED)?;
    let ended = thread::spawn(this).join().map_err(|_| "it panicked")??;
    ended.wait_one(Signals::THREAD_TERMINATED, MonotonicInstant::INFINITE)?;
    fails(ended.restricted_kick(), Status::BAD_STATE)
}

/// A thread that is kicked outside of restricted mode, with or without bound state, returns from its next entry at
/// once, however often it was kicked. No code runs, and the state is not changed.
fn kick_before() -> Outcome {
    let code = Code::new(SYSCALLS)?;
    let thread = this()?;
    thread.restricted_kick()?;
    let mut restricted = bind()?;
    let given = state(1, code.ip());
    for n in 0..4 {
        equal(enters(&mut restricted, given)?, (Reason::Kick, given))?;
        equal(enters(&mut restricted, given)?, (Reason::Syscall, after_call(given)))?;
        equal(enters(&mut restricted, given)?, (Reason::Syscall, after_call(given)))?;
        (0..=n).try_for_each(|_| thread.restricted_kick())?;
    }
    // The kick stays pending when other state is bound.
    let mut restricted = bind()?;
    equal(enters(&mut restricted, given)?, (Reason::Kick, given))?;
    thread.restricted_kick()?;
    drop(restricted);
    let mut restricted = bind()?;
    // An invalid state is reported before the pending kick.
    *restricted.state() = zx_restricted_state_t { ip: u64::MAX, ..given };
    fails(restricted.enter(), Status::BAD_STATE)?;
    equal(enters(&mut restricted, zx_restricted_state_t::default())?.0, Reason::Kick)?;
    equal(enters(&mut restricted, given)?.0, Reason::Syscall)
}

/// A thread that has not started can be kicked; a thread that is exiting cannot.
fn kick_starting_and_exiting() -> Outcome {
    let debugger = zx::startup::process_self().create_exception_channel(ZX_EXCEPTION_CHANNEL_DEBUGGER)?;
    let next = || Exception::receive(&debugger, MonotonicInstant::INFINITE);
    let other = thread::spawn(|| -> Outcome {
        let mut restricted = bind()?;
        equal(enters(&mut restricted, zx_restricted_state_t::default())?.0, Reason::Kick)
    });
    let (exception, info) = next()?;
    equal(info.type_, ZX_EXCP_THREAD_STARTING)?;
    exception.thread()?.restricted_kick()?;
    drop(exception);
    let (exception, info) = next()?;
    equal(info.type_, ZX_EXCP_THREAD_EXITING)?;
    let kicked = exception.thread()?.restricted_kick();
    drop(exception);
    fails(kicked, Status::BAD_STATE)?;
    other.join().unwrap_or(Err("it panicked".into()))
}

/// `mov dword ptr [rdi], 1; inc rsi; jmp .`
const STORES_ONE: &[u8] = &[0xc7, 0x07, 1, 0, 0, 0, 0x48, 0xff, 0xc6, 0xeb, 0xfe];

fn kick_running() -> Outcome {
    let (code, shared, thread) = (Code::new(STORES_ONE)?, Shared::new(1)?, this()?);
    let mut restricted = bind()?;
    for n in 0..20 {
        shared.set(0, 0)?;
        thread::scope(|scope| {
            let kicker = scope.spawn(|| -> Outcome {
                shared.await_word(0)?;
                if n % 2 == 0 {
                    thread::sleep(Duration::from_millis(1));
                }
                Ok(thread.restricted_kick()?)
            });
            let given = zx_restricted_state_t { rdi: shared.address(), ..state(n, code.ip()) };
            let (reason, seen) = enters(&mut restricted, given)?;
            equal(reason, Reason::Kick)?;
            equal(zx_restricted_state_t { ip: given.ip, rsi: given.rsi, flags: given.flags, ..seen }, given)?;
            ensure([(6, 0), (9, 1)].contains(&(seen.ip - given.ip, seen.rsi - given.rsi)), "it stands elsewhere")?;
            kicker.join().unwrap_or(Err("it panicked".into()))
        })?;
    }
    Ok(())
}

/// Suspends a thread.
fn suspended(thread: &Thread) -> Result<zx::Suspend, Failure> {
    let token = thread.suspend()?;
    thread.wait_one(Signals::THREAD_SUSPENDED, MonotonicInstant::INFINITE)?;
    Ok(token)
}

/// `lock inc dword ptr [rdi]; L: cmp dword ptr [rsi], 0; je L; syscall`
const AWAITS: &[u8] = &[0xf0, 0xff, 0x07, 0x83, 0x3e, 0x00, 0x74, 0xfb, 0x0f, 0x05];

/// A thread that is suspended in restricted mode and then kicked returns with the kick, and makes no system call
/// before.
fn kick_suspended() -> Outcome {
    let (code, shared, thread) = (Code::new(AWAITS)?, Shared::new(1)?, this()?);
    let mut restricted = bind()?;
    for n in 0..20 {
        shared.set(0, 0)?;
        shared.set(64, 0)?;
        thread::scope(|scope| {
            let kicker = scope.spawn(|| -> Outcome {
                shared.await_word(0)?;
                let token = suspended(&thread)?;
                thread.restricted_kick()?;
                drop(token);
                shared.set(64, 1)
            });
            let given =
                zx_restricted_state_t { rdi: shared.address(), rsi: shared.address() + 64, ..state(n, code.ip()) };
            equal(enters(&mut restricted, given)?.0, Reason::Kick)?;
            kicker.join().unwrap_or(Err("it panicked".into()))
        })?;
    }
    Ok(())
}

/// Kicks between system calls, faults and exceptions: none is lost or reported twice. `L: inc rbx; syscall; inc rbx;
/// ud2; jmp L`
fn kick_calls() -> Outcome {
    const KICKS: u64 = 200;
    let code = Code::new(&[0x48, 0xff, 0xc3, 0x0f, 0x05, 0x48, 0xff, 0xc3, 0x0f, 0x0b, 0xeb, 0xf4])?;
    let (thread, seen) = (this()?, AtomicU64::new(0));
    let mut restricted = bind()?;
    thread::scope(|scope| {
        let kicker = scope.spawn(|| -> Outcome {
            for n in 0..KICKS {
                while seen.load(Ordering::SeqCst) < n {
                    thread::yield_now();
                }
                thread.restricted_kick()?;
            }
            Ok(())
        });
        let (mut told, mut kicks) = (0, 0);
        *restricted.state() = zx_restricted_state_t { ip: code.ip(), ..Default::default() };
        while kicks < KICKS || told < 1000 {
            match restricted.enter()? {
                Reason::Kick => {
                    kicks += 1;
                    seen.store(kicks, Ordering::SeqCst);
                    continue;
                }
                Reason::Syscall => equal((told % 2, restricted.state().ip), (0, code.ip() + 5))?,
                Reason::Exception => {
                    equal((told % 2, restricted.state().ip), (1, code.ip() + 8))?;
                    restricted.state().ip += 2;
                }
            }
            told += 1;
            equal(restricted.state().rbx, told)?;
        }
        equal(kicks, KICKS)?;
        kicker.join().unwrap_or(Err("it panicked".into()))
    })
}

/// `L: inc qword ptr [rdi]; cmp dword ptr [rsi], 0; je L; syscall`
const COUNTS: &[u8] = &[0x48, 0xff, 0x07, 0x83, 0x3e, 0x00, 0x74, 0xf8, 0x0f, 0x05];

/// The code does not run while a token suspends the thread.
fn thread_suspended() -> Outcome {
    let (code, shared, thread) = (Code::new(COUNTS)?, Shared::new(1)?, this()?);
    let mut restricted = bind()?;
    thread::scope(|scope| {
        let other = scope.spawn(|| -> Outcome {
            for _ in 0..10 {
                let before = shared.word(0)?;
                while shared.word(0)? == before {
                    thread::yield_now();
                }
                let token = suspended(&thread)?;
                let stands = shared.word(0)?;
                thread::sleep(Duration::from_millis(15));
                equal(shared.word(0)?, stands)?;
                drop(token);
            }
            shared.set(64, 1)
        });
        let given = zx_restricted_state_t { rdi: shared.address(), rsi: shared.address() + 64, ..state(2, code.ip()) };
        let (reason, seen) = enters(&mut restricted, given)?;
        let told = other.join().unwrap_or(Err("it panicked".into()));
        told.and_then(|()| equal((reason, seen.r14), (Reason::Syscall, given.r14)))
    })
}

/// The registers of a thread in restricted mode are those of the code, and can be set.
fn thread_registers() -> Outcome {
    let (code, shared, thread) = (Code::new(COUNTS)?, Shared::new(1)?, this()?);
    let mut restricted = bind()?;
    let given = zx_restricted_state_t {
        rdi: shared.address(),
        rsi: shared.address() + 64,
        fs_base: 0x1000,
        gs_base: 0x2000,
        ..state(2, code.ip())
    };
    thread::scope(|scope| {
        let other = scope.spawn(|| -> Outcome {
            shared.await_word(0)?;
            let token = suspended(&thread)?;
            let mut registers: zx_thread_state_general_regs_t = thread.registers()?;
            equal((registers.rdi, registers.r15, registers.fs_base), (given.rdi, given.r15, given.fs_base))?;
            equal(registers.gs_base, given.gs_base)?;
            ensure((given.ip..given.ip + COUNTS.len() as u64).contains(&registers.rip), "it is elsewhere")?;
            (registers.rip, registers.r15, registers.fs_base) = (given.ip + 8, 77, 0x3000);
            thread.set_registers(&registers)?;
            drop(token);
            Ok(())
        });
        let (reason, seen) = enters(&mut restricted, given)?;
        other.join().unwrap_or(Err("it panicked".into()))?;
        equal((reason, seen.ip, seen.r15), (Reason::Syscall, given.ip + 10, 77))?;
        equal((seen.fs_base, seen.gs_base), (0x3000, given.gs_base))
    })
}

/// Suspensions between system calls: no call is lost or repeated, whatever the thread is doing.
fn thread_suspended_often() -> Outcome {
    // `L: inc rbx; syscall; jmp L`
    let code = Code::new(&[0x48, 0xff, 0xc3, 0x0f, 0x05, 0xeb, 0xf9])?;
    let (thread, over) = (this()?, AtomicU64::new(0));
    let mut restricted = bind()?;
    thread::scope(|scope| {
        let other = scope.spawn(|| -> Outcome {
            for n in 0..300 {
                drop(suspended(&thread)?);
                thread::sleep(Duration::from_micros(n * 7 % 100));
            }
            over.store(1, Ordering::SeqCst);
            Ok(())
        });
        *restricted.state() = zx_restricted_state_t { ip: code.ip(), ..Default::default() };
        let mut calls = 0;
        while over.load(Ordering::SeqCst) == 0 {
            equal(restricted.enter()?, Reason::Syscall)?;
            calls += 1;
            equal(restricted.state().rbx, calls)?;
        }
        other.join().unwrap_or(Err("it panicked".into()))
    })
}

/// Runs in the child of [`process_ends`]: one of its threads stays in restricted mode; the child exits or is killed.
pub fn child(how: &str) -> i32 {
    let (begins, begun) = std::sync::mpsc::channel();
    let runs = move || -> Outcome {
        let code = Code::new(SPIN)?;
        let mut restricted = bind()?;
        println!("begins");
        let _ = begins.send(());
        enters(&mut restricted, state(1, code.ip())).map(drop)
    };
    if how == "exits" {
        thread::spawn(runs);
        let _ = begun.recv();
        thread::sleep(Duration::from_millis(20));
        return 7;
    }
    i32::from(runs().is_err())
}

/// A process ends in restricted mode in the same way as outside of it.
fn process_ends() -> Outcome {
    for how in ["exits", "is-killed", "exits", "is-killed"] {
        let mut child = command(&["restricted", how]).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        equal(line.as_str(), "begins\n")?;
        if how == "exits" {
            equal(child.wait()?.code(), Some(7))?;
        } else {
            thread::sleep(Duration::from_millis(5));
            child.kill()?;
            child.wait()?;
        }
    }
    // This process can still enter restricted mode.
    let code = Code::new(SYSCALLS)?;
    equal(enters(&mut bind()?, state(1, code.ip()))?.0, Reason::Syscall)
}

/// The thread waits for a page that a pager supplies, and the code does not notice it. `mov rbx, [rax]; syscall`
fn fault_paged() -> Outcome {
    let (code, supplier) = (Code::new(&[0x48, 0x8b, 0x18, 0x0f, 0x05])?, Supplier::new()?);
    let paged = supplier.vmo(1, 4, 0)?;
    let map = ROOT.map_here(READ_WRITE, &paged.vmo, 0, 4 * PAGE as usize)?;
    thread::scope(|scope| {
        let reader = scope.spawn(|| -> Outcome {
            let mut restricted = bind()?;
            let given = zx_restricted_state_t { rax: map.address() as u64 + 2 * PAGE, ..state(1, code.ip()) };
            let (reason, seen) = enters(&mut restricted, given)?;
            equal((reason, seen.rbx, seen.r15), (Reason::Syscall, content(2), given.r15))
        });
        supplier.asked_to_read(&paged, 2, 1)?;
        supplier.supply(&paged, 2, 1)?;
        reader.join().unwrap_or(Err("it panicked".into()))
    })
}
