//! The vDSO's entry points in x86-64 assembly (Intel syntax).
//!
//! An entry point moves its arguments from where C passes them (rdi rsi rdx rcx r8 r9 and the stack) to where a message
//! to the server has them: the first four in r10 r8 r9 r15, the others in the thread's IPC buffer, to which GS points.
//! The macro `enter_server` does the rest; it is beside the calls that are written by hand, in the vDSO's own source.

use std::fmt::Write as _;

use crate::model::{Support, Syscall, Via};

/// Byte offset from GS to the message's word `n` (the tag word comes first).
pub const fn buffer_word(n: usize) -> usize {
    8 + 8 * n
}

/// Generates all entry points, and for each call `NR_<NAME>` and the second name `_zx_<name>`.
pub fn assembly(calls: &[Syscall]) -> String {
    let mut out = String::new();
    for call in calls {
        let _ = writeln!(out, ".set NR_{}, {}", call.name.to_uppercase(), call.number);
    }
    for call in calls {
        match (call.via, &call.support) {
            (Via::Server, _) if !call.wrapper => server_call(&mut out, call),
            (Via::Vdso, Support::Unsupported(_)) => unsupported(&mut out, call),
            // Written by hand. If it is missing, the second name is undefined and the image does not link.
            _ => {}
        }
        let _ = writeln!(out, ".weak _zx_{0}\n.set _zx_{0}, zx_{0}", call.name);
    }
    out
}

fn begin(out: &mut String, call: &Syscall) {
    let _ = writeln!(out, "\nentry zx_{}", call.name);
}

fn end(out: &mut String, call: &Syscall) {
    let _ = writeln!(out, "end_entry zx_{}", call.name);
}

fn unsupported(out: &mut String, call: &Syscall) {
    begin(out, call);
    out.push_str("    mov eax, -2\n    ret\n");
    end(out, call);
}

fn server_call(out: &mut String, call: &Syscall) {
    begin(out, call);
    let args = call.args.len();
    // The server ignores registers without an argument, so they stay unchanged.
    out.push_str("    save_registers\n");
    let mut line = |text: &str| {
        let _ = writeln!(out, "    {text}");
    };
    if args >= 1 {
        line("mov r10, rdi");
    }
    if args >= 4 {
        line("mov r15, rcx");
    }
    if args >= 5 {
        line(&format!("mov gs:[{}], r8", buffer_word(4)));
    }
    if args >= 6 {
        line(&format!("mov gs:[{}], r9", buffer_word(5)));
    }
    for n in 6..args {
        // Above the stack pointer: the saved registers, the return address, then the arguments beyond the sixth.
        line(&format!("mov rax, [rsp + SAVED_BYTES + 8 + {}]", 8 * (n - 6)));
        line(&format!("mov gs:[{}], rax", buffer_word(n)));
    }
    if args >= 2 {
        line("mov r8, rsi");
    }
    if args >= 3 {
        line("mov r9, rdx");
    }
    line(&format!("enter_server NR_{}", call.name.to_uppercase()));
    if call.noreturn {
        // The server has ended the thread. If the call returned, the thread could not continue.
        line("ud2");
    } else {
        line("restore_registers");
        line("ret");
    }
    end(out, call);
}

/// Generates a table of strings for `zx_status_get_string`: `STATUS_LIMIT` offsets from `status_table`, indexed by the
/// negated status, and one more for all unknown values. Offsets instead of addresses, because the image has no
/// relocations.
pub fn status_strings(statuses: &[(&str, i32)]) -> String {
    let limit = statuses.iter().map(|(_, value)| value.unsigned_abs()).max().unwrap_or(0) + 1;
    let mut out = format!(".set STATUS_LIMIT, {limit}\n.balign 4\nstatus_table:\n");
    for index in 0..limit {
        match statuses.iter().find(|(_, value)| value.unsigned_abs() == index) {
            Some((name, _)) => {
                let _ = writeln!(out, ".long string_{name} - status_table");
            }
            None => out.push_str(".long string_unknown - status_table\n"),
        }
    }
    out.push_str(".long string_unknown - status_table\n");
    for (name, _) in statuses {
        let _ = writeln!(out, "string_{name}: .asciz \"{name}\"");
    }
    out.push_str("string_unknown: .asciz \"(UNKNOWN)\"\n");
    out
}
