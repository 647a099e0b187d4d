//! The vDSO's entry points in x86-64 assembly (Intel syntax).
//!
//! An entry point moves its arguments from where C leaves them (rdi rsi rdx rcx r8 r9 and the stack) to where a
//! message to the server has them: the first four in r10 r8 r9 r15, the others in the thread's IPC buffer, which GS
//! points to. The macro `enter_server` does the rest; it stands with the calls that are written by hand, in the
//! vDSO's own source.

use std::fmt::Write as _;

use crate::model::{Support, Syscall, Via};

/// Bytes from GS to the message's word `n` (a word for the tag comes first).
pub const fn buffer_word(n: usize) -> usize {
    8 + 8 * n
}

/// All entry points, and for each call `NR_<NAME>` and the second name `_zx_<name>`.
pub fn assembly(calls: &[Syscall]) -> String {
    let mut out = String::new();
    for call in calls {
        let _ = writeln!(out, ".set NR_{}, {}", call.name.to_uppercase(), call.number);
    }
    for call in calls {
        match (call.via, &call.support) {
            (Via::Server, _) if !call.wrapper => server_call(&mut out, call),
            (Via::Vdso, Support::Unsupported(_)) => unsupported(&mut out, call),
            // Written by hand; if it is not, the second name has nothing to stand for and the image does not link.
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
    // Whatever else a register holds is of no interest to the server, so registers without an argument stay as they
    // are.
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
        // Above the stack pointer: what was saved, the return address, then the arguments beyond the sixth.
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
        // The server ended the thread; if it did not, nothing sensible can follow.
        line("ud2");
    } else {
        line("restore_registers");
        line("ret");
    }
    end(out, call);
}

/// A table of strings for `zx_status_get_string`: `STATUS_LIMIT` offsets from `status_table`, indexed by the negated
/// status, and one more for all that are unknown. Offsets instead of addresses, because the image has no relocations.
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
