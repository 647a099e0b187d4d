//! The report of a server's end: what happened, where, the registers, and the calls that led there.

use core::ptr;

use sel4::bootinfo::INIT_VSPACE;
use sel4::{Caching, Fault, Received, Rights};
use server_boot::layout::{STACK_GUARD, STACK_TOP};

use crate::console::error;
use crate::instance::Instance;
use crate::memory::Memory;

const PAGE: u64 = 4096;
/// Frames of the stack that are shown.
const DEPTH: usize = 32;

/// Writes the report.
pub fn server_died(memory: &mut Memory, instance: &Instance, received: &Received) {
    let name = instance.name();
    match Fault::decode(received) {
        Fault::Page { ip, address, fetch, code } => {
            let what = match (fetch, code & 2 != 0) {
                (true, _) => "fetched an instruction from",
                (false, true) => "wrote to",
                (false, false) => "read from",
            };
            let hint =
                if (STACK_GUARD..STACK_GUARD + PAGE).contains(&address) { " (the stack overflowed)" } else { "" };
            error!("server {name:?} {what} {address:#x} at {ip:#x}{hint}");
        }
        Fault::Exception { ip, number, code, .. } => {
            let what = match number {
                0 => "divided by zero",
                6 => "met an undefined instruction (a panic ends so)",
                13 => "broke a protection rule",
                _ => "raised a processor exception",
            };
            error!("server {name:?} {what} at {ip:#x} (exception {number}, code {code:#x})");
        }
        Fault::UnknownSyscall(registers) => {
            error!("server {name:?} made an unknown kernel call at {:#x}", registers.ip)
        }
        Fault::Cap { ip, address, .. } => error!("server {name:?} used no capability, {address:#x}, at {ip:#x}"),
        Fault::Other(info) => error!("server {name:?} sent a strange fault message, label {}", info.label()),
    }
    let Ok(r) = instance.tcb().read_registers(true) else { return };
    error!("  rip {:016x}  rsp {:016x}  rbp {:016x}  flags {:x}", r.rip, r.rsp, r.rbp, r.rflags);
    error!("  rax {:016x}  rbx {:016x}  rcx {:016x}  rdx {:016x}", r.rax, r.rbx, r.rcx, r.rdx);
    error!("  rsi {:016x}  rdi {:016x}  r8  {:016x}  r9  {:016x}", r.rsi, r.rdi, r.r8, r.r9);
    error!("  r10 {:016x}  r11 {:016x}  r12 {:016x}  r13 {:016x}", r.r10, r.r11, r.r12, r.r13);
    error!("  r14 {:016x}  r15 {:016x}", r.r14, r.r15);
    let mut frame = r.rbp;
    for _ in 0..DEPTH {
        let Some(return_address) = word(memory, instance, frame.wrapping_add(8)) else { return };
        error!("  called from {return_address:#x}");
        match word(memory, instance, frame) {
            // Frames go up the stack; anything else is no frame.
            Some(next) if next > frame => frame = next,
            _ => return,
        }
    }
}

/// A word of the server's stack.
fn word(memory: &mut Memory, instance: &Instance, address: u64) -> Option<u64> {
    if !(STACK_GUARD + PAGE..STACK_TOP).contains(&address) || !address.is_multiple_of(8) {
        return None;
    }
    let offset = address - STACK_GUARD - PAGE;
    let page = memory.again(*instance.stack.get((offset / PAGE) as usize)?).ok()?;
    let at = memory.own_address(PAGE);
    memory.map(page, INIT_VSPACE, at, Rights::READ, Caching::WriteBack).ok()?;
    // SAFETY: the page has just been mapped there, and the word lies within it.
    Some(unsafe { ptr::with_exposed_provenance::<u64>((at + offset % PAGE) as usize).read_volatile() })
}
