//! The report of the end of a server or a component: the fault, the registers, the last system calls, and a backtrace.

use sel4::{Fault, Page, Received, Tcb};
use server_boot::layout::STACK_GUARD;
use server_boot::record::{CALLS, decode};

use crate::arch;
use crate::console::error;
use crate::memory::Memory;
use crate::server::PAGE;

/// Maximum number of stack frames in the backtrace.
const DEPTH: usize = 32;
/// Number of calls that are shown.
const SHOWN: u64 = 12;

/// The subject of a report.
pub struct ReportSubject<'a> {
    /// `server` or `component`.
    pub kind: &'static str,
    /// Its name.
    pub name: &'a str,
    /// Its thread.
    pub tcb: Tcb,
    /// The pages of its stack, from the lowest up.
    pub stack: &'a [Page],
    /// The page in which a server records its calls.
    pub record: Option<Page>,
}

/// Writes the report.
pub fn died(memory: &mut Memory, who: &ReportSubject<'_>, received: &Received) {
    let ReportSubject { kind, name, .. } = who;
    match Fault::decode(received) {
        Fault::Page { ip, address, fetch, code } => {
            let what = match (fetch, arch::is_write(code)) {
                (true, _) => "fetched an instruction from",
                (false, true) => "wrote to",
                (false, false) => "read from",
            };
            let hint =
                if (STACK_GUARD..STACK_GUARD + PAGE).contains(&address) { " (the stack overflowed)" } else { "" };
            error!("{kind} {name:?} {what} {address:#x} at {ip:#x}{hint}");
        }
        Fault::Exception { ip, number, code, .. } => {
            let what = arch::exception_name(number);
            error!("{kind} {name:?} {what} at {ip:#x} (exception {number}, code {code:#x})");
        }
        Fault::UnknownSyscall(registers) => {
            error!("{kind} {name:?} made an unknown kernel call at {:#x}", registers.ip)
        }
        Fault::Cap { ip, address, .. } => error!("{kind} {name:?} used no capability, {address:#x}, at {ip:#x}"),
        Fault::Other(info) => error!("{kind} {name:?} sent a strange fault message, label {}", info.label()),
    }
    let Ok(r) = who.tcb.read_registers(true) else { return };
    arch::report(&r);
    if let Some(record) = who.record {
        last_calls(memory, record);
    }
    backtrace(memory, who.stack, arch::ip(&r), arch::frame_pointer(&r));
    error!("end of the report");
}

/// Prints a backtrace of addresses; the host tool adds the names (`xtask/run/src/symbols/report.rs`).
fn backtrace(memory: &mut Memory, stack: &[Page], ip: u64, mut frame: u64) {
    error!("  #0  {ip:#x}");
    for n in 1..DEPTH {
        let Some(return_address) = word(memory, stack, frame.wrapping_add(8)) else { return };
        error!("  #{n}  {return_address:#x}");
        match word(memory, stack, frame) {
            // Frames go up the stack; any other value is no frame.
            Some(next) if next > frame => frame = next,
            _ => return,
        }
    }
}

/// The system calls that a server handled last, most recent first.
fn last_calls(memory: &mut Memory, record: Page) {
    let Ok(words) = memory.read(record) else { return };
    let count = words[0];
    for i in 1..=count.min(CALLS).min(SHOWN) {
        let (number, thread) = decode(words[1 + ((count - i) % CALLS) as usize]);
        let call = abi::syscall(number);
        let name = call.map_or("(no such call)", |call| call.name);
        let when = if i == 1 { "last call" } else { "before" };
        error!("  {when}: zx_{name} ({number}) of thread {thread}");
    }
}

/// A word of a stack. The stacks of servers and components begin at the same address behind the guard.
fn word(memory: &mut Memory, stack: &[Page], address: u64) -> Option<u64> {
    if !address.is_multiple_of(8) {
        return None;
    }
    let offset = address.checked_sub(STACK_GUARD + PAGE)?;
    let page = *stack.get((offset / PAGE) as usize)?;
    memory.read(page).ok()?.get((offset % PAGE / 8) as usize).copied()
}

const _: () = assert!(STACK_GUARD == component_boot::layout::STACK_GUARD);
