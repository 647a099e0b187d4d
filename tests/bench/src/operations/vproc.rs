//! Virtual processors: stops of code in other address spaces and in the owner's own, and the way back to the code.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use abi::{hafnon_vproc_run_t, hafnon_vproc_state_t, zx_thread_state_general_regs_t};
use zx::probe::{counter, undefined_instruction, upcalls};
use zx::{
    Duration, Exception, Exit, MonotonicInstant, Process, Reason, Restricted, Rights, VirtualProcessor, Vmar, Vmo,
    map_runs,
};

use super::sampler::Suite;

const TIMES: usize = 1_000;
const FAULTS: usize = 500;
const KICKS: usize = 200;
const PAGE: u64 = 4096;
const CODE: u64 = 0x100_0000;
const DATA: u64 = 0x200_0000;
const READ_WRITE: u32 = abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_WRITE;
const READ_EXECUTE: u32 = abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_EXECUTE;

pub fn run(suite: &mut Suite) -> zx::Result<()> {
    const OWN: [&str; 6] =
        ["vproc_syscall", "vproc_fault_map", "vproc_intra", "vproc_kick", "vproc_upcall", "vproc_thread_switch"];
    exception_channel(suite)?;
    restricted(suite)?;
    if !suite.wants(&OWN) {
        return Ok(());
    }
    let root = zx::startup::vmar_root_self();
    let mut processor = VirtualProcessor::create(&root)?;
    syscall(suite, &mut processor)?;
    fault_map(suite, &mut processor)?;
    intra(suite, &mut processor, &root)?;
    kick(suite, &mut processor)?;
    upcall(suite, &processor)?;
    thread_switch(suite, &processor)
}

fn executable(bytes: &[u8]) -> zx::Result<Vmo> {
    let code = Vmo::create(PAGE, 0)?;
    code.write(bytes, 0)?;
    code.replace_as_executable(None)
}

/// An address space with this code.
fn domain(bytes: &[u8]) -> zx::Result<(Process, Vmar)> {
    let (process, vmar) = zx::startup::job_default().ok_or(zx::Status::NOT_FOUND)?.create_process("domain")?;
    map_runs(&vmar, &executable(bytes)?, &[page(CODE, 0, READ_EXECUTE)])?;
    Ok((process, vmar))
}

fn page(address: u64, offset: u64, options: u32) -> hafnon_vproc_run_t {
    hafnon_vproc_run_t { address, offset, len: PAGE, options, reserved: 0 }
}

fn begin(processor: &mut VirtualProcessor<'_>, process: &Process, ip: u64) -> zx::Result<Exit> {
    *processor.state() = hafnon_vproc_state_t { ip, rax: DATA, flags: 0x202, ..Default::default() };
    processor.enter(process)
}

fn expect(exit: Exit, expected: Exit) -> zx::Result<()> {
    if exit == expected { Ok(()) } else { Err(zx::Status::BAD_STATE) }
}

/// `syscall; jmp .-2`: from one system call through its answer to the next.
fn syscall(suite: &mut Suite, processor: &mut VirtualProcessor<'_>) -> zx::Result<()> {
    let (process, _vmar) = domain(&[0x0f, 0x05, 0xeb, 0xfc])?;
    expect(begin(processor, &process, CODE)?, Exit::Syscall)?;
    suite.measure(["vproc_syscall"], TIMES, |[call]| {
        processor.state().rax = 7;
        expect(call.time(|| processor.resume())?, Exit::Syscall)
    })
}

/// `mov [rax], rax; add rax, 4096; jmp .-9`: the owner maps the page, and the code faults on the next one.
fn fault_map(suite: &mut Suite, processor: &mut VirtualProcessor<'_>) -> zx::Result<()> {
    let code = [0x48, 0x89, 0x00, 0x48, 0x05, 0x00, 0x10, 0x00, 0x00, 0xeb, 0xf5];
    let memory = Vmo::create(FAULTS as u64 * PAGE, 0)?;
    memory.op_range(abi::ZX_VMO_OP_COMMIT, 0, FAULTS as u64 * PAGE)?;
    let mut samples = suite.samples();
    // The second round reuses the memory of the page tables that the first allocated.
    for _ in 0..2 {
        samples = suite.samples();
        let (process, vmar) = domain(&code)?;
        expect(begin(processor, &process, CODE)?, Exit::PageFault(DATA))?;
        for n in 0..FAULTS as u64 {
            let (at, offset) = (DATA + n * PAGE, (n * 7 % FAULTS as u64) * PAGE);
            let exit = samples.time(|| {
                map_runs(&vmar, &memory, &[page(at, offset, READ_WRITE)])?;
                processor.resume()
            })?;
            expect(exit, Exit::PageFault(at + PAGE))?;
        }
        process.kill()?;
    }
    suite.report("vproc_fault_map", samples);
    Ok(())
}

/// `ud2; jmp .-2` in the owner's address space: the owner answers each exception by resuming after the instruction.
fn intra(suite: &mut Suite, processor: &mut VirtualProcessor<'_>, root: &Vmar) -> zx::Result<()> {
    let code = executable(&[0x0f, 0x0b, 0xeb, 0xfc])?;
    let map = root.map_here(READ_EXECUTE, &code, 0, PAGE as usize)?;
    let ip = map.address() as u64;
    map_runs(root, &code, &[page(ip, 0, READ_EXECUTE)])?;
    expect(begin(processor, &zx::startup::process_self(), ip)?, Exit::Exception(6))?;
    suite.measure(["vproc_intra"], TIMES, |[exception]| {
        processor.state().ip = ip + 2;
        expect(exception.time(|| processor.resume())?, Exit::Exception(6))
    })
}

/// `syscall; jmp .-2` in restricted mode: from normal mode there and back.
fn restricted(suite: &mut Suite) -> zx::Result<()> {
    if !suite.wants(&["restricted_enter_exit"]) {
        return Ok(());
    }
    let root = zx::startup::vmar_root_self();
    let map = root.map_here(READ_EXECUTE, &executable(&[0x0f, 0x05, 0xeb, 0xfc])?, 0, PAGE as usize)?;
    let mut restricted = match Restricted::bind(&root) {
        // The kernel does not support it.
        Err(zx::Status::NOT_SUPPORTED) => return Ok(()),
        bound => bound?,
    };
    restricted.state().ip = map.address() as u64;
    suite.measure(["restricted_enter_exit"], TIMES, |[enter]| match enter.time(|| restricted.enter())? {
        Reason::Syscall => Ok(()),
        _ => Err(zx::Status::BAD_STATE),
    })
}

/// An exception of another thread: read from its channel and answered, until the thread raises the next one.
fn exception_channel(suite: &mut Suite) -> zx::Result<()> {
    if !suite.wants(&["exception_channel"]) {
        return Ok(());
    }
    let (sender, thread) = mpsc::channel();
    let (begin, begins) = mpsc::channel::<()>();
    let runs = std::thread::spawn(move || {
        let sent = sender.send(zx::startup::thread_self().duplicate(Rights::SAME_RIGHTS));
        if sent.is_ok() && begins.recv().is_ok() {
            undefined_instruction();
        }
    });
    let thread = thread.recv().map_err(|_| zx::Status::BAD_STATE)??;
    let channel = thread.create_exception_channel(0)?;
    begin.send(()).map_err(|_| zx::Status::BAD_STATE)?;
    let handle = || {
        let (exception, _) = Exception::receive(&channel, MonotonicInstant::INFINITE)?;
        exception.set_state(abi::ZX_EXCEPTION_STATE_HANDLED)
    };
    suite.measure(["exception_channel"], TIMES, |[exception]| exception.time(handle))?;
    let (exception, _) = Exception::receive(&channel, MonotonicInstant::INFINITE)?;
    let mut registers: zx_thread_state_general_regs_t = thread.registers()?;
    registers.rip += 2;
    thread.set_registers(&registers)?;
    exception.set_state(abi::ZX_EXCEPTION_STATE_HANDLED)?;
    drop(exception);
    runs.join().map_err(|_| zx::Status::BAD_STATE)
}

/// A thread kicks code that computes, and then waits: from before the call until the owner has the code's state.
fn kick(suite: &mut Suite, processor: &mut VirtualProcessor<'_>) -> zx::Result<()> {
    let (process, _vmar) = domain(&[0xeb, 0xfe])?;
    let vproc = processor.handle().duplicate(Rights::SAME_RIGHTS)?;
    let (kicked, (turn, turns)) = (&AtomicU64::new(0), mpsc::channel::<()>());
    thread::scope(|scope| {
        let kicker = scope.spawn(move || -> zx::Result<()> {
            while turns.recv().is_ok() {
                // Waits until the code computes, at some moment of its time slice.
                thread::sleep(std::time::Duration::from_micros(2_300));
                kicked.store(counter(), Ordering::Relaxed);
                vproc.kick()?;
            }
            Ok(())
        });
        let measured = suite.measure(["vproc_kick"], KICKS, |[kick]| {
            turn.send(()).map_err(|_| zx::Status::BAD_STATE)?;
            expect(begin(processor, &process, CODE)?, Exit::Kick)?;
            kick.between(kicked.load(Ordering::Relaxed), counter());
            Ok(())
        });
        drop(turn);
        kicker.join().unwrap_or(Err(zx::Status::INTERNAL))?;
        measured
    })
}

/// The thread kicks itself with events enabled.
fn upcall(suite: &mut Suite, processor: &VirtualProcessor<'_>) -> zx::Result<()> {
    let upcalls = Cell::new(0_u64);
    let event = |_: zx::Events| upcalls.set(upcalls.get() + 1);
    upcalls::with_upcalls(processor.events(), &event, |events| {
        upcalls::enable(events, &event);
        suite.measure(["vproc_upcall"], TIMES, |[upcall]| {
            let before = upcalls.get();
            upcall.time(|| processor.handle().kick())?;
            if upcalls.get() == before + 1 { Ok(()) } else { Err(zx::Status::BAD_STATE) }
        })
    })
}

/// Two threads yield to each other: from one's yield until the other's yield returns.
fn thread_switch(suite: &mut Suite, processor: &VirtualProcessor<'_>) -> zx::Result<()> {
    let (arrived, over) = (AtomicU64::new(0), AtomicBool::new(false));
    vthread::probe::run(processor, Duration::from_seconds(1_000), |threads| {
        threads.spawn(|threads| {
            while !over.load(Ordering::Relaxed) {
                threads.yield_now();
                arrived.store(counter(), Ordering::Relaxed);
            }
        });
        // From here on the other thread is inside a yield to this one.
        threads.yield_now();
        let measured = suite.measure(["vproc_thread_switch"], TIMES, |[switch]| {
            let start = counter();
            threads.yield_now();
            switch.between(start, arrived.load(Ordering::Relaxed));
            Ok(())
        });
        over.store(true, Ordering::Relaxed);
        measured
    })?
}
