//! Hostile code in virtual processors, and owners that end or interfere with each other. The owner gets every event as
//! what it is, and the next program runs as if nothing had happened.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use abi::hafnon_vproc_state_t;
use zx::probe::upcalls::{enable, with_upcalls};
use zx::{Events, Exit, Rights, Status, VirtualProcessor, Vmo, map_runs};

use super::cases;
use super::process::command;
use super::vproc::{
    CODE, DATA, Domain, FLAGS, PAGE, READ, READ_EXECUTE, READ_WRITE, SYSCALLS, enter, processor, run, state,
};
use crate::check::{Failure, Outcome, ensure, equal, fails};
use crate::refused::REFUSED;
use crate::test_process::{SPIN, code};

cases! {
    "vproc.hostile.registers" => registers,
    "vproc.hostile.flags" => flags,
    "vproc.hostile.modifying" => modifying,
    "vproc.hostile.jumps" => jumps,
    "vproc.hostile.interrupts" => interrupts,
    "vproc.hostile.instructions" => instructions,
    "vproc.hostile.stacks" => stacks,
    "vproc.hostile.destroyed" => destroyed,
    "vproc.hostile.owner_killed" => owner_killed,
    "vproc.hostile.two_owners" => two_owners,
}

/// Values that an implementation could mistake for something else.
const PATTERNS: [u64; 12] = [
    0,
    1,
    4,
    0x1000,
    CODE,
    0xffff_ffff,
    1 << 47,
    0x7fff_ffff_ffff,
    0xffff_8000_0000_0000,
    0xffff_ffff_8000_0000,
    1 << 63,
    u64::MAX,
];

/// The general registers except `rcx` and `r11`, which `syscall` changes.
fn general(state: &mut hafnon_vproc_state_t) -> [&mut u64; 14] {
    let s = state;
    [
        &mut s.rax, &mut s.rbx, &mut s.rdx, &mut s.rsi, &mut s.rdi, &mut s.rbp, &mut s.r8, &mut s.r9, &mut s.r10,
        &mut s.r12, &mut s.r13, &mut s.r14, &mut s.r15, &mut s.rsp,
    ]
}

/// The processor still runs code correctly.
fn still_runs(processor: &mut VirtualProcessor<'_>) -> Outcome {
    let domain = Domain::new(SYSCALLS)?;
    let given = state(0x51);
    *processor.state() = given;
    equal(processor.enter(&domain.process)?, Exit::Syscall)?;
    let ip = CODE + 2;
    equal(*processor.state(), hafnon_vproc_state_t { ip, rcx: ip, r11: given.flags, ..given })
}

/// Each register gets each value, together with each of seL4's own system call numbers, both when the code is entered
/// and when it is resumed by a reply.
fn registers() -> Outcome {
    let (mut processor, domain) = (processor()?, Domain::new(SYSCALLS)?);
    let (after, numbers) = (CODE + 2, -16_i64..=2);
    for number in numbers.map(|number| number as u64) {
        for place in 0..14 {
            for pattern in PATTERNS {
                let mut given = hafnon_vproc_state_t { rdx: number, ..state(number << 8) };
                *general(&mut given)[place] = pattern;
                let seen = hafnon_vproc_state_t { ip: after, rcx: after, r11: given.flags, ..given };
                *processor.state() = given;
                equal(processor.enter(&domain.process)?, Exit::Syscall)?;
                equal(*processor.state(), seen)?;
                *processor.state() = hafnon_vproc_state_t { ip: CODE, ..given };
                equal(processor.resume()?, Exit::Syscall)?;
                equal(*processor.state(), seen)?;
            }
        }
    }
    // All registers at once.
    for pattern in PATTERNS {
        let mut given = state(0);
        general(&mut given).into_iter().for_each(|register| *register = pattern);
        *processor.state() = given;
        equal(processor.enter(&domain.process)?, Exit::Syscall)?;
        let seen = hafnon_vproc_state_t { ip: after, rcx: after, r11: given.flags, ..given };
        equal(*processor.state(), seen)?;
    }
    still_runs(&mut processor)
}

/// Code never gets a flag that programs may not have, and interrupts stay on.
fn flags() -> Outcome {
    const TRAP: u64 = 1 << 8;
    const INTERRUPTS: u64 = 1 << 9;
    /// The I/O privilege level and the virtual-8086 flags.
    const FORBIDDEN: u64 = 3 << 12 | 1 << 17 | 3 << 19;
    let (mut processor, domain) = (processor()?, Domain::new(SYSCALLS)?);
    for given in (0..64).map(|n| 1 << n).chain([0, !TRAP, FORBIDDEN]) {
        for answers in [false, true] {
            *processor.state() = hafnon_vproc_state_t { flags: if answers { FLAGS } else { given }, ..state(3) };
            let mut exit = processor.enter(&domain.process)?;
            if answers {
                equal(exit, Exit::Syscall)?;
                (processor.state().ip, processor.state().flags) = (CODE, given);
                exit = processor.resume()?;
            }
            let wanted = if given & TRAP != 0 { [Exit::Syscall, Exit::Exception(1)] } else { [Exit::Syscall; 2] };
            ensure(wanted.contains(&exit), &format!("{exit:?} with flags {given:#x}"))?;
            let seen = processor.state().flags;
            ensure(seen & FORBIDDEN == 0 && seen & INTERRUPTS != 0, &format!("flags {seen:#x} of {given:#x}"))?;
        }
    }
    // The code sets the flags itself: `push rbx; popf; in al, dx`.
    let domain = Domain::new(&[0x53, 0x9d, 0xec])?;
    let stack = Vmo::create(PAGE, 0)?;
    map_runs(&domain.vmar, &stack, &[run(DATA, 0, PAGE, READ_WRITE)])?;
    for given in [3 << 12, 1 << 14, 1 << 17, 1 << 18, !TRAP] {
        *processor.state() = hafnon_vproc_state_t { rbx: given, rsp: DATA + PAGE, ..state(3) };
        equal((given, processor.enter(&domain.process)?), (given, Exit::Exception(13)))?;
    }
    still_runs(&mut processor)
}

/// Code that modifies itself, and code that its owner modifies while it is stopped.
fn modifying() -> Outcome {
    const ALL: u32 = READ_WRITE | READ_EXECUTE;
    let mut processor = processor()?;
    // `L: mov byte ptr [rip + 2], bl; jmp M; M: (a byte, nop); syscall; jmp L`
    let bytes = [0x88, 0x1d, 0x02, 0, 0, 0, 0xeb, 0x00, 0x90, 0x0f, 0x05, 0xeb, 0xf3];
    let domain = Domain::new(&[])?;
    let memory = code(&bytes)?;
    map_runs(&domain.vmar, &memory, &[run(DATA, 0, PAGE, ALL)])?;
    for (byte, exit, behind) in [
        (0x90, Exit::Syscall, 11),
        (0xcc, Exit::Exception(3), 9),
        (0xf4, Exit::Exception(13), 8),
        (0xf8, Exit::Syscall, 11),
        (0x06, Exit::Exception(6), 8),
    ] {
        *processor.state() = hafnon_vproc_state_t { ip: DATA, rbx: byte, ..state(1) };
        equal((byte, processor.enter(&domain.process)?), (byte, exit))?;
        equal((byte, processor.state().ip), (byte, DATA + behind))?;
    }
    // The code overwrites its whole page and then executes zeroes: `lea rdi, [rip]; mov ecx, 4096; xor eax, eax; rep
    // stosb`.
    let wipes = [0x48, 0x8d, 0x3d, 0, 0, 0, 0, 0xb9, 0, 0x10, 0, 0, 0x31, 0xc0, 0xf3, 0xaa];
    let memory = code(&wipes)?;
    map_runs(&domain.vmar, &memory, &[run(DATA, 0, PAGE, ALL)])?;
    *processor.state() = hafnon_vproc_state_t { ip: DATA, ..state(1) };
    ensure(matches!(processor.enter(&domain.process)?, Exit::PageFault(_)), "it did not come to the page's end")?;
    // The owner writes it through the VMO, between two instructions.
    let memory = code(&[0x0f, 0x05, 0x90, 0xeb, 0xfb])?;
    map_runs(&domain.vmar, &memory, &[run(CODE, 0, PAGE, READ_EXECUTE)])?;
    equal(enter(&mut processor, &domain)?, Exit::Syscall)?;
    equal(processor.resume()?, Exit::Syscall)?;
    memory.write(&[0xcc], 2)?;
    equal(processor.resume()?, Exit::Exception(3))?;
    memory.write(&[0x90], 2)?;
    equal(processor.resume()?, Exit::Syscall)?;
    still_runs(&mut processor)
}

/// To unmapped, kernel and non-canonical addresses: by jumps, returns, and the state itself.
fn jumps() -> Outcome {
    let mut processor = processor()?;
    // `jmp rax`, and behind it `push rax; ret`
    let domain = Domain::new(&[0xff, 0xe0, 0x50, 0xc3])?;
    let stack = Vmo::create(PAGE, 0)?;
    map_runs(&domain.vmar, &stack, &[run(DATA, 0, PAGE, READ_WRITE)])?;
    let nowhere = [0, 0x1000, CODE - 1, CODE + PAGE, DATA - PAGE, 0x7fff_ffff_f000, 0x7fff_ffff_ffff];
    let kernel = [0xffff_8000_0000_0000, 0xffff_ffff_8000_0000, 0xffff_ffff_8010_0000, 0xffff_ff80_0000_0000, !0];
    let none = [1 << 47, 0x8000_0000_1000, 0xffff_7fff_ffff_ffff, 1 << 63];
    for to in nowhere.into_iter().chain(kernel).chain(none) {
        for from in [CODE, CODE + 2] {
            *processor.state() = hafnon_vproc_state_t { ip: from, rax: to, rsp: DATA + PAGE, ..state(2) };
            let exit = processor.enter(&domain.process)?;
            let wanted = matches!(exit, Exit::PageFault(at) if at == to) || exit == Exit::Exception(13);
            ensure(wanted, &format!("{exit:?} by a jump to {to:#x}"))?;
            // The same again on each resume.
            if let Exit::PageFault(_) = exit {
                equal(processor.resume()?, exit)?;
                processor.fill_state()?;
                equal((processor.state().ip, processor.state().rax), (to, to))?;
            }
        }
        // By the reply to a system call.
        let calls = Domain::new(SYSCALLS)?;
        equal(enter(&mut processor, &calls)?, Exit::Syscall)?;
        processor.state().ip = to;
        let exit = processor.resume()?;
        ensure(matches!(exit, Exit::PageFault(_) | Exit::Exception(13)), &format!("{exit:?} at {to:#x}"))?;
    }
    still_runs(&mut processor)
}

/// The first number whose software interrupt is reported as a system call.
const OF_OTHERS: u64 = 158;

/// `int n; syscall` for all numbers.
fn interrupts() -> Outcome {
    let bytes: Vec<u8> = (0..=255).flat_map(|n| [0xcd, n, 0x0f, 0x05]).collect();
    let (mut processor, domain) = (processor()?, Domain::new(&bytes)?);
    for n in 0..256 {
        let ip = CODE + n * 4;
        let given = hafnon_vproc_state_t { ip, ..state(n << 20) };
        *processor.state() = given;
        let exit = processor.enter(&domain.process)?;
        let (at, code) = (processor.state().ip, processor.page().code);
        match exit {
            // Programs may use the breakpoint interrupt.
            Exit::Exception(3) => equal((n, at), (3, ip + 2))?,
            // seL4 reports these as unknown system calls.
            Exit::Syscall if (OF_OTHERS..255).contains(&n) => equal((n, at), (n, ip + 2))?,
            // The number of spurious interrupts has no effect: the code stops at the `syscall` behind it.
            Exit::Syscall if n == 255 => equal(at, ip + 4)?,
            // Refused, with an error code that names the number; QEMU gives twice the value of a real processor.
            Exit::Exception(13) => {
                equal((n, at, code & 7), (n, ip, 2))?;
                ensure([n, 2 * n].contains(&(code >> 3)), &format!("code {code:#x} of number {n}"))?;
            }
            other => equal((n, other), (n, Exit::Exception(13)))?,
        }
        processor.state().ip = ip + 2;
        equal((n, processor.resume()?), (n, Exit::Syscall))?;
        let seen = hafnon_vproc_state_t { ip: ip + 4, rcx: ip + 4, r11: given.flags, ..given };
        equal(*processor.state(), seen)?;
    }
    Ok(())
}

/// Instructions that programs may not execute.
fn instructions() -> Outcome {
    let mut processor = processor()?;
    let stack = Vmo::create(PAGE, 0)?;
    for (name, bytes) in REFUSED {
        let domain = Domain::new(bytes)?;
        map_runs(&domain.vmar, &stack, &[run(DATA, 0, PAGE, READ_WRITE)])?;
        // Null and invalid selectors and vectors, too.
        for rax in [0, 8, 0xffff_ffff] {
            *processor.state() = hafnon_vproc_state_t { rax, rsp: DATA + 64, ..state(9) };
            let exit = processor.enter(&domain.process)?;
            ensure(matches!(exit, Exit::Exception(_) | Exit::PageFault(_)), &format!("{exit:?} by {name}"))?;
        }
    }
    still_runs(&mut processor)
}

/// Stacks across a page boundary, in unmapped memory and in the kernel: `push rbx; pop rcx; syscall`.
fn stacks() -> Outcome {
    let (mut processor, domain) = (processor()?, Domain::new(&[0x53, 0x59, 0x0f, 0x05])?);
    let stack = Vmo::create(PAGE, 0)?;
    map_runs(&domain.vmar, &stack, &[run(DATA, 0, PAGE, READ_WRITE)])?;
    for rsp in [DATA + PAGE, DATA + PAGE - 1, DATA + 9, DATA + 1003] {
        *processor.state() = hafnon_vproc_state_t { rsp, ..state(4) };
        equal((rsp, processor.enter(&domain.process)?), (rsp, Exit::Syscall))?;
        equal(processor.state().rsp, rsp)?;
    }
    for rsp in PATTERNS.into_iter().chain([DATA, DATA + 3, DATA + PAGE + 1, DATA + PAGE + 8]) {
        let given = hafnon_vproc_state_t { rsp, ..state(4) };
        *processor.state() = given;
        let exit = processor.enter(&domain.process)?;
        let wanted = matches!(exit, Exit::PageFault(_) | Exit::Exception(12 | 13));
        ensure(wanted, &format!("{exit:?} with the stack at {rsp:#x}"))?;
        // The instruction has changed nothing.
        processor.fill_state()?;
        equal(*processor.state(), given)?;
    }
    still_runs(&mut processor)
}

/// A sub-domain is destroyed while its code spins, makes calls, or faults, at various moments.
fn destroyed() -> Outcome {
    let mut processor = processor()?;
    for (bytes, moments) in [(SPIN, 4), (SYSCALLS, 20), (&[0x48, 0x8b, 0x00], 20)] {
        for moment in 0..moments {
            let domain = Domain::new(bytes)?;
            let process = domain.process.duplicate(Rights::SAME_RIGHTS)?;
            let killer = thread::spawn(move || {
                thread::sleep(Duration::from_micros(moment * 700));
                process.kill()
            });
            // The code reads at 8, where nothing is mapped.
            *processor.state() = hafnon_vproc_state_t { rax: 8, ..state(moment) };
            let mut exit = processor.enter(&domain.process);
            while matches!(exit, Ok(Exit::Syscall | Exit::PageFault(8))) {
                exit = processor.resume();
            }
            // The next instruction faults, or the sub-domain had been destroyed before it was entered.
            match exit {
                Ok(Exit::PageFault(at)) => ensure((CODE..CODE + 4).contains(&at), &format!("a fault at {at:#x}"))?,
                other => fails(other, Status::BAD_STATE)?,
            }
            killer.join().map_err(|_| "it panicked")??;
            fails(processor.enter(&domain.process), Status::BAD_STATE)?;
        }
    }
    still_runs(&mut processor)
}

/// The owner kicks itself and gets upcalls, or one upcall that never ends.
fn upcalls_for_ever(processor: &VirtualProcessor<'_>, stays: bool) -> Outcome {
    let event = |_: Events| {
        if stays {
            println!("it begins");
            loop {
                std::hint::spin_loop();
            }
        }
    };
    if !stays {
        println!("it begins");
    }
    with_upcalls(processor.events(), &event, |events| {
        enable(events, &event);
        loop {
            processor.handle().kick()?;
        }
    })
}

/// Runs in a child that owns a virtual processor, until it is killed.
pub fn child(how: &str) -> i32 {
    let work = || -> Outcome {
        let mut processor = processor()?;
        if how == "upcall" || how == "upcalls" {
            upcalls_for_ever(&processor, how == "upcall")?;
        }
        let domains = [Domain::new(if how == "waits" { SPIN } else { SYSCALLS })?, Domain::new(SYSCALLS)?];
        println!("it begins");
        if how == "maps" {
            let memory = Vmo::create(256 * PAGE, 0)?;
            loop {
                map_runs(&domains[0].vmar, &memory, &[run(DATA, 0, 256 * PAGE, READ_WRITE)])?;
                map_runs(&domains[0].vmar, &memory, &[run(DATA, 0, 256 * PAGE, 0)])?;
            }
        }
        let mut turn = 0;
        loop {
            turn += 1;
            enter(&mut processor, &domains[if how == "turns" { turn % 2 } else { 0 }])?;
            for _ in 0..turn % 50 {
                processor.resume()?;
            }
        }
    };
    match work() {
        Ok(()) => 0,
        Err(failure) => {
            println!("{failure}");
            1
        }
    }
}

/// The owner is killed while it waits for its code, while the code makes calls, between two sub-domains, while it maps
/// memory, in an upcall, and in a sequence of upcalls. Its resources must be freed, which the leak check behind the
/// cases counts.
fn owner_killed() -> Outcome {
    for how in ["waits", "calls", "turns", "maps", "upcall", "upcalls"] {
        for moment in 0..4 {
            let mut child = command(&["vproc", how]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
            let mut output = BufReader::new(child.stdout.take().ok_or("it has no output")?);
            let mut line = String::new();
            output.read_line(&mut line)?;
            equal(line.as_str(), "it begins\n")?;
            thread::sleep(Duration::from_micros(moment * 2300));
            child.kill()?;
            equal(child.wait()?.success(), false)?;
            line.clear();
            output.read_line(&mut line)?;
            equal((how, line.as_str()), (how, ""))?;
        }
    }
    still_runs(&mut processor()?)
}

/// `L: inc rbx; mov [rsi], rbx; mov rcx, [rsi]; mov r9, [rdi]; syscall; jmp L`
const SHARES: &[u8] = &[0x48, 0xff, 0xc3, 0x48, 0x89, 0x1e, 0x48, 0x8b, 0x0e, 0x4c, 0x8b, 0x0f, 0x0f, 0x05, 0xeb, 0xf0];

/// Two owners in one sub-domain: each counts on a page of its own and reads a page that both map and unmap all the
/// time. Neither loses a step or gets the other's.
fn two_owners() -> Outcome {
    const CALLS: u64 = 400;
    const SHARED: u64 = DATA + 16 * PAGE;
    let domain = Domain::new(SHARES)?;
    let memory = Vmo::create(4 * PAGE, 0)?;
    memory.write(&77_u64.to_le_bytes(), 0)?;
    let ended = AtomicBool::new(false);
    let owner = |number: u64| -> Outcome {
        let mut processor = processor()?;
        let own = DATA + number * PAGE;
        *processor.state() =
            hafnon_vproc_state_t { ip: CODE, rsi: own, rdi: SHARED, r12: number, flags: FLAGS, ..Default::default() };
        let mut exit = processor.enter(&domain.process)?;
        let (mut calls, mut faults) = (0, 0);
        while calls < CALLS {
            exit = match exit {
                Exit::PageFault(at) if at == own => {
                    map_runs(&domain.vmar, &memory, &[run(own, (number + 1) * PAGE, PAGE, READ_WRITE)])?;
                    processor.resume()?
                }
                Exit::PageFault(SHARED) => {
                    faults += 1;
                    map_runs(&domain.vmar, &memory, &[run(SHARED, 0, PAGE, READ)])?;
                    processor.resume()?
                }
                Exit::Syscall => {
                    calls += 1;
                    let seen = *processor.state();
                    equal((seen.rbx, seen.r9, seen.r12), (calls, 77, number))?;
                    map_runs(&domain.vmar, &memory, &[run(SHARED, 0, PAGE, 0)])?;
                    if calls % 8 == number {
                        thread::yield_now();
                    }
                    processor.resume()?
                }
                other => return equal(other, Exit::Syscall),
            };
        }
        ensure(faults >= 1, "nothing was ever missing")?;
        // Then the sub-domain is destroyed while both use it.
        if ended.swap(true, Ordering::SeqCst) {
            domain.process.kill()?;
        }
        loop {
            exit = match exit {
                Exit::Syscall => processor.resume()?,
                Exit::PageFault(at) if (CODE..CODE + PAGE).contains(&at) => break,
                Exit::PageFault(at) if at == own || at == SHARED => match map_runs(
                    &domain.vmar,
                    &memory,
                    &[run(at, if at == own { (number + 1) * PAGE } else { 0 }, PAGE, READ_WRITE)],
                ) {
                    Ok(()) | Err(Status::BAD_STATE) => processor.resume()?,
                    Err(status) => return Err(Failure::from(status)),
                },
                other => return equal(other, Exit::Syscall),
            };
        }
        fails(processor.enter(&domain.process), Status::BAD_STATE)
    };
    thread::scope(|scope| {
        let owners = [0, 1].map(|number| scope.spawn(move || owner(number)));
        owners.into_iter().try_for_each(|owner| owner.join().unwrap_or(Err("it panicked".into())))
    })
}
