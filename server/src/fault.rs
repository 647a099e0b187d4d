//! Faults: what a thread did that the processor could not do for it.
//!
//! A page fault on memory that is mapped is served: the page is committed and mapped. Everything else ends the
//! process, with a report on the console that says who, what and where.

use alloc::string::String;
use core::fmt::Write;

use abi::{Status, ZX_TASK_RETCODE_EXCEPTION_KILL, ZX_TASK_RETCODE_OOM_KILL};
use objects::aspace::describe;
use objects::debuglog::Level;
use objects::machine::{Fault, Machine, ThreadKey};
use objects::process::Process;
use objects::slab::Key;
use objects::thread::{Thread, ThreadState};
use objects::{Id, Kernel};

use crate::Answer;

/// Return addresses that a report shows at most.
const FRAMES: usize = 24;

/// Serves a fault or ends the process.
pub fn handle<M: Machine>(kernel: &mut Kernel<M>, key: ThreadKey, fault: Fault) -> Answer {
    let Some(thread) = kernel.thread_at(key.0) else { return Answer::Nothing };
    let Ok(t) = kernel.objects.get(thread) else { return Answer::Nothing };
    if t.state != ThreadState::Running || t.is_waiting() {
        // A thread that waits in a call cannot fault: the message is forged.
        return Answer::Nothing;
    }
    let process = t.process;
    let Ok(aspace) = kernel.aspace_of_thread(thread) else { return Answer::Nothing };
    let mut why = None;
    if let Fault::Page { address, write, execute, .. } = fault {
        // Serving a fault takes memory for the objects' own records, too.
        let served = match kernel.machine.heap_reserve() {
            Ok(()) => kernel.page_fault(aspace, address, write, execute),
            Err(_) => Err(Status::NO_MEMORY),
        };
        match served {
            Ok(()) => return Answer::Resume,
            Err(status) => why = Some(status),
        }
    }
    report(kernel, process, thread, aspace, &fault, why);
    let code = if why == Some(Status::NO_MEMORY) { ZX_TASK_RETCODE_OOM_KILL } else { ZX_TASK_RETCODE_EXCEPTION_KILL };
    kernel.process_kill(process, code);
    Answer::Nothing
}

/// Where an address is: the name of what is mapped there and the offset in it.
fn place<M: Machine>(kernel: &Kernel<M>, aspace: Key, address: u64, out: &mut String) {
    let Some(mapping) = kernel.aspace(aspace).and_then(|space| space.find(address)) else { return };
    let offset = mapping.named_offset + (address - mapping.base);
    let Ok(named) = kernel.objects.get(mapping.named) else { return };
    // Formatting into a String cannot fail.
    let _ = match named.name.as_str() {
        "" => write!(out, " (+0x{offset:x})"),
        name => write!(out, " ({name}+0x{offset:x})"),
    };
}

fn report<M: Machine>(
    kernel: &mut Kernel<M>,
    process: Id<Process>,
    thread: Id<Thread>,
    aspace: Key,
    fault: &Fault,
    why: Option<Status>,
) {
    let Ok((name, thread_name, machine)) = kernel
        .objects
        .get(thread)
        .and_then(|t| Ok((kernel.objects.get(process)?.name, t.name, t.machine().ok_or(Status::BAD_STATE)?)))
    else {
        return;
    };
    let registers = kernel.machine.thread_registers(machine);
    let (kind, at) = describe(fault);
    let (pid, tid) = (kernel.koid(process.object()), kernel.koid(thread.object()));
    let mut line = String::new();
    let _ = write!(line, "process '{name}' ({pid}), thread '{thread_name}' ({tid}): {kind} at 0x{at:x}");
    match why {
        Some(Status::NOT_FOUND) => line.push_str(", nothing is mapped there"),
        Some(Status::ACCESS_DENIED) => line.push_str(", not allowed there"),
        Some(Status::OUT_OF_RANGE) => line.push_str(", beyond the end of what is mapped"),
        Some(Status::NO_MEMORY) => line.push_str(", out of memory"),
        _ => {}
    }
    let (address, below) = match *fault {
        Fault::Page { address, .. } => (address, registers.rsp),
        _ => (0, 0),
    };
    // Stacks grow down into their guard page.
    if address != 0 && address.abs_diff(below) < 64 * 1024 && why == Some(Status::NOT_FOUND) {
        line.push_str(" (stack overflow)");
    }
    line.push_str("; the process is ended");
    kernel.log(Level::Error, "exception", pid, tid, line.as_bytes());

    line.clear();
    let _ = write!(line, "rip 0x{:x}", registers.rip);
    place(kernel, aspace, registers.rip, &mut line);
    let r = &registers;
    let _ = write!(line, "\nrsp {:#x} rbp {:#x} rflags {:#x} fs {:#x}", r.rsp, r.rbp, r.rflags, r.fs_base);
    let _ = write!(
        line,
        "\nrax {:#x} rbx {:#x} rcx {:#x} rdx {:#x} rsi {:#x} rdi {:#x}",
        r.rax, r.rbx, r.rcx, r.rdx, r.rsi, r.rdi
    );
    let _ = write!(line, "\nr8 {:#x} r9 {:#x} r10 {:#x} r11 {:#x}", r.r8, r.r9, r.r10, r.r11);
    let _ = write!(line, "\nr12 {:#x} r13 {:#x} r14 {:#x} r15 {:#x}", r.r12, r.r13, r.r14, r.r15);
    kernel.log(Level::Info, "exception", pid, tid, line.as_bytes());
    backtrace(kernel, aspace, registers.rbp, pid, tid);
}

/// Follows the frame pointers. They are the program's: each must lie above the last, and what is not mapped ends it.
fn backtrace<M: Machine>(kernel: &mut Kernel<M>, aspace: Key, frame: u64, pid: u64, tid: u64) {
    let mut line = String::new();
    let mut frame = frame;
    for n in 1..=FRAMES {
        let mut pair = [0; 16];
        if frame == 0 || !frame.is_multiple_of(8) || kernel.copy_in(aspace, frame, &mut pair).is_err() {
            break;
        }
        let (next, address) = pair.split_at(8);
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
        let (next, address) = (word(next), word(address));
        line.clear();
        let _ = write!(line, "#{n:<2} 0x{address:x}");
        place(kernel, aspace, address, &mut line);
        kernel.log(Level::Info, "exception", pid, tid, line.as_bytes());
        if next <= frame {
            break;
        }
        frame = next;
    }
}
