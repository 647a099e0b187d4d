//! Registers on the exit to user mode: however a program sets its own RIP, a thread continues at a canonical address.
//! With any other address, some processors fault in the kernel, on the program's stack. QEMU's processors fault in the
//! program, so these cases check the value.

use std::thread;
use std::time::Duration;

use abi::{hafnon_vproc_run_t, hafnon_vproc_state_t, nr, zx_thread_state_general_regs_t};
use conformance::caught_exception::catch;
use conformance::check::{Case, Failure, Outcome, ensure};
use conformance::test_process::{OwnJob, SPIN, TestProcess, code};
use hostile::hand::{Hand, Hands, Message, MoveResult, entry};
use hostile::neighbour::Neighbour;
use zx::{AsHandleRef, MonotonicInstant, Signals, Status, Thread, VirtualProcessor, map_runs};

pub fn cases() -> Vec<Case> {
    vec![
        crate::case("tamper.registers.dropped_fault", dropped_fault),
        crate::case("tamper.registers.written_in_call", written_in_call),
        crate::case("tamper.registers.started", started),
        crate::case("tamper.registers.exceptions", exceptions),
        crate::case("tamper.registers.base_set", base_set),
        crate::case("tamper.registers.processors", processors),
    ]
}

/// The last user addresses, from which the two bytes of a call or the length of an instruction lead to a non-canonical
/// one.
const LAST: [u64; 4] = [(1 << 47) - 1, (1 << 47) - 2, (1 << 47) - 3, (1 << 47) - 15];
/// Long enough for a thread to make progress, and short enough to wait for.
const SOON: zx::Duration = zx::Duration::from_millis(20);

fn soon() -> u64 {
    MonotonicInstant::after(SOON).0 as u64
}

/// Whether an address is canonical: its upper bits are all equal.
fn is_canonical(address: u64) -> bool {
    (address << 16) as i64 >> 16 == address as i64
}

/// Checks that a stopped thread has canonical registers.
fn is_fit(thread: &Thread, what: &str) -> Outcome {
    let registers: zx_thread_state_general_regs_t = thread.registers()?;
    for address in [registers.rip, registers.fs_base, registers.gs_base] {
        ensure(is_canonical(address), &format!("{what}: {address:#x} is no address"))?;
    }
    ensure(registers.rflags & 0x13_3202 == 0x202, &format!("{what}: flags {:#x}", registers.rflags))
}

/// Waits until the thread has stopped by an exception.
fn stands(hand: &mut Hand, what: &str) -> Outcome {
    let mut happened = hand.finish()?;
    for _ in 0..50 {
        if !matches!(happened, MoveResult::Kept) {
            break;
        }
        happened = hand.finish()?;
    }
    ensure(matches!(happened, MoveResult::Exception(..)), &format!("{what}: {happened:?}"))?;
    is_fit(&hand.thread, what)
}

/// The thread sends a waiting call without waiting for the answer, and jumps to an unmapped address. The server drops
/// the fault, because it takes the thread for waiting. Then the wait ends, and the server answers at the address where
/// the thread is.
fn dropped_fault(_: &mut Neighbour) -> Outcome {
    for to in LAST {
        let (hands, mut hand) = Hands::new()?;
        let sleep = Message::call(nr::NANOSLEEP, [soon(), 0, 0, 0]);
        hand.send_away(&Message { number: entry::NB_SEND, ..sleep }, to)?;
        stands(&mut hand, &format!("gone to {to:#x}"))?;
        hand.fetch()?;
        hand.is_well()?;
        hands.end()?;
    }
    Ok(())
}

fn suspended(thread: &Thread) -> Result<zx::Suspend, Failure> {
    let token = thread.suspend()?;
    thread.wait_one(Signals::THREAD_SUSPENDED, MonotonicInstant::after(zx::Duration::from_seconds(5)))?;
    Ok(token)
}

/// A thread that waits in a call gets such an address; the wait ends before or after it is resumed.
fn written_in_call(_: &mut Neighbour) -> Outcome {
    for to in LAST {
        for ends_before in [false, true] {
            let (hands, mut hand) = Hands::new()?;
            hand.send_in(&Message::call(nr::NANOSLEEP, [soon(), 0, 0, 0]))?;
            let token = suspended(&hand.thread)?;
            let mut registers: zx_thread_state_general_regs_t = hand.thread.registers()?;
            registers.rip = to;
            hand.thread.set_registers(&registers)?;
            is_fit(&hand.thread, "as written")?;
            if ends_before {
                thread::sleep(Duration::from_nanos(SOON.0 as u64 * 2));
            }
            drop(token);
            stands(&mut hand, &format!("written {to:#x}, ends before: {ends_before}"))?;
            hand.fetch()?;
            hand.is_well()?;
            hands.end()?;
        }
    }
    Ok(())
}

/// Threads and processes that start at such an address.
fn started(_: &mut Neighbour) -> Outcome {
    for at in LAST {
        let job = OwnJob::new()?;
        let mut tiny = TestProcess::in_job(&job, SPIN)?;
        let channel = tiny.process.create_exception_channel(0)?;
        tiny.entry = at as usize;
        tiny.start(None, 0)?;
        let first = catch(&channel)?;
        is_fit(&tiny.thread, "a process's first thread")?;
        let next = tiny.process.create_thread("tiny")?;
        let fs_base = (1 << 47) - 8;
        let words = [u64::from(next.raw_handle()), at, tiny.stack as u64, 0, 0, fs_base, 0];
        let status = zx::probe::call(zx::sys::zx_thread_start_regs as *const () as usize, &words);
        conformance::check::gives(Status(status as i32), Status::OK)?;
        let second = catch(&channel)?;
        is_fit(&next, "a further thread")?;
        job.kill()?;
        drop((first, second));
        tiny.end()?;
    }
    Ok(())
}

/// A thread is sent from its exception to such an address, again and again.
fn exceptions(_: &mut Neighbour) -> Outcome {
    for to in LAST {
        let (hands, mut hand) = Hands::new()?;
        for round in 0..3 {
            hand.send_away(&Message::call(nr::HANDLE_CLOSE, [0; 4]), to)?;
            stands(&mut hand, &format!("{to:#x}, round {round}"))?;
            hand.go_on()?;
            stands(&mut hand, &format!("{to:#x}, round {round}, again"))?;
            hand.fetch()?;
        }
        hand.is_well()?;
        hands.end()?;
    }
    Ok(())
}

/// The FS base of a stopped thread is set to such an address.
fn base_set(_: &mut Neighbour) -> Outcome {
    for to in LAST {
        let (hands, mut hand) = Hands::new()?;
        hand.send_away(&Message::call(nr::HANDLE_CLOSE, [0; 4]), to)?;
        stands(&mut hand, "gone")?;
        for base in [0, (1 << 47) - 1, 1 << 47, 0xffff_7fff_ffff_ffff, 1 << 63, u64::MAX] {
            let mut registers: zx_thread_state_general_regs_t = hand.thread.registers()?;
            registers.fs_base = base;
            let _ = hand.thread.set_registers(&registers);
            is_fit(&hand.thread, &format!("FS at {base:#x}"))?;
        }
        hand.fetch()?;
        hand.is_well()?;
        hands.end()?;
    }
    Ok(())
}

/// The code of a virtual processor is entered and answered with such addresses: invalid states are refused, or become
/// valid.
fn processors(_: &mut Neighbour) -> Outcome {
    const CODE: u64 = 0x100_0000;
    const READ_EXECUTE: u32 = abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_EXECUTE;
    let edges = [1 << 47, 0x7fff_ffff_ffff, 0xffff_7fff_ffff_ffff, 0xffff_8000_0000_0000, 1 << 63, u64::MAX];
    let job = OwnJob::new()?;
    let (process, vmar) = job.create_process("domain")?;
    // `syscall; ud2`
    let bytes = code(&[0x0f, 0x05, 0x0f, 0x0b])?;
    map_runs(
        &vmar,
        &bytes,
        &[hafnon_vproc_run_t { address: CODE, offset: 0, len: 4096, options: READ_EXECUTE, reserved: 0 }],
    )?;
    let root = zx::startup::vmar_root_self();
    let mut processor = VirtualProcessor::create(&root)?;
    let good = hafnon_vproc_state_t { ip: CODE, flags: 0x202, ..Default::default() };
    for edge in LAST.into_iter().chain(edges) {
        for answers in [false, true] {
            let states = [
                hafnon_vproc_state_t { ip: edge, ..good },
                hafnon_vproc_state_t { fs_base: edge, ..good },
                hafnon_vproc_state_t { gs_base: edge, ..good },
                hafnon_vproc_state_t { flags: u64::MAX, ..good },
            ];
            for state in states {
                if answers {
                    *processor.state() = good;
                    processor.enter(&process)?;
                }
                *processor.state() = state;
                let exit = if answers { processor.resume() } else { processor.enter(&process) };
                if exit.is_err() {
                    continue;
                }
                // The full state of the stop, whatever part of it the exit has reported.
                processor.fill_state()?;
                let seen = *processor.state();
                for address in [seen.ip, seen.fs_base, seen.gs_base] {
                    ensure(is_canonical(address), &format!("{exit:?} of {state:x?}: {address:#x} is no address"))?;
                }
                ensure(seen.flags & 0x3200 == 0x200, &format!("{exit:?}: flags {:#x}", seen.flags))?;
            }
        }
    }
    Ok(())
}
