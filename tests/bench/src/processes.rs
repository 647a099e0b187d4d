//! Five hundred processes, each with a page of code, a stack and a sleeping thread.

use zx::{AsHandleRef, Event, Job, MonotonicInstant, Process, Rights, Signals, Thread, Vmo};

use crate::meter::Meter;

/// Many more than the few processes that can reuse the kept paging structures of ended ones.
const COUNTS: [usize; 4] = [50, 100, 200, 500];
const CODE: usize = 0x100_0000;
const STACK: usize = 0x200_0000;
const PAGE: usize = 4096;

/// Machine code that sleeps for ever: the system call as the vDSO makes it, and its wait for the answer.
fn sleep() -> Vec<u8> {
    let mut code = vec![0x49, 0xba]; // mov r10, for ever
    code.extend(i64::MAX.to_le_bytes());
    code.extend([0x48, 0x89, 0xe3]); // mov rbx, rsp
    code.push(0xbe); // mov esi, tag
    code.extend((abi::nr::NANOSLEEP << 12 | 4).to_le_bytes());
    code.extend([0x48, 0xc7, 0xc2, 0xff, 0xff, 0xff, 0xff]); // mov rdx, -1
    code.extend([0xbf, 0x01, 0x00, 0x00, 0x00]); // mov edi, 1
    code.extend([0x0f, 0x05]); // syscall
    code.extend([0x48, 0xc7, 0xc2, 0xfb, 0xff, 0xff, 0xff]); // mov rdx, -5
    code.extend([0xbf, 0x03, 0x00, 0x00, 0x00]); // mov edi, 3
    code.extend([0x0f, 0x05]); // syscall
    code.extend([0xeb, 0xfe]); // jmp .
    code
}

struct Sleeper {
    process: Process,
    thread: Thread,
    entry: usize,
    stack: usize,
}

fn create(job: &Job, code: &Vmo) -> zx::Result<Sleeper> {
    let (read_execute, read_write) =
        (abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_EXECUTE, abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_WRITE);
    let (process, vmar) = job.create_process("sleeper")?;
    let entry = vmar.map(read_execute | abi::ZX_VM_SPECIFIC, CODE, code, 0, PAGE)?;
    let stack = vmar.map(read_write | abi::ZX_VM_SPECIFIC, STACK, &Vmo::create(PAGE as u64, 0)?, 0, PAGE)?;
    let thread = process.create_thread("sleeper")?;
    Ok(Sleeper { process, thread, entry, stack: stack + PAGE - 8 })
}

/// Starts the process and waits until its thread sleeps.
fn start(sleeper: &Sleeper, event: &Event) -> zx::Result<()> {
    let handle = event.duplicate_handle(Rights::SAME_RIGHTS)?;
    sleeper.process.start(&sleeper.thread, sleeper.entry, sleeper.stack, handle, 0)?;
    zx::thread_legacy_yield()
}

fn end(sleeper: Sleeper) -> zx::Result<()> {
    sleeper.process.kill()?;
    sleeper.process.wait_one(Signals::TASK_TERMINATED, MonotonicInstant::INFINITE_PAST).map(drop)
}

pub fn run(meter: &mut Meter) -> zx::Result<()> {
    let job = zx::startup::job_default().ok_or(zx::Status::NOT_FOUND)?;
    let event = Event::create()?;
    let code = Vmo::create(PAGE as u64, 0)?;
    code.write(&sleep(), 0)?;
    let code = code.replace_as_executable(None)?;
    // seL4 clears unused memory in large pieces. This round uses all memory that the measurement needs, so that none is
    // cleared there.
    let [.., most] = COUNTS;
    let warm: Vec<Sleeper> = (0..most).map(|_| create(&job, &code)).collect::<Result<_, _>>()?;
    warm.iter().try_for_each(|sleeper| start(sleeper, &event))?;
    warm.into_iter().try_for_each(end)?;
    for count in COUNTS {
        let mut all: Vec<Sleeper> = Vec::with_capacity(count);
        let before = meter.memory();
        meter.cost("create", count, count, || {
            (0..count).try_for_each(|_| create(&job, &code).map(|sleeper| all.push(sleeper)))
        })?;
        meter.cost("start", count, count, || all.iter().try_for_each(|sleeper| start(sleeper, &event)))?;
        meter.object("process", count, before);
        meter.cost("kill", count, count, || all.into_iter().try_for_each(end))?;
    }
    Ok(())
}
