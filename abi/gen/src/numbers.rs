//! Rust source for the `abi` crate: the numbers and the table.

use std::fmt::Write as _;

use crate::model::{Dir, Memory, Support, Syscall, Via};

/// Generates `pub mod nr` with a constant for each call, and `pub const SYSCALLS` with an entry for each.
pub fn rust(calls: &[Syscall]) -> String {
    let mut out = String::from("/// The number of each call, as the vDSO passes it to the server.\npub mod nr {\n");
    for call in calls {
        let _ = writeln!(
            out,
            "    /// `zx_{}`\n    pub const {}: u32 = {};",
            call.name,
            call.name.to_uppercase(),
            call.number
        );
    }
    out.push_str("}\n\n/// Every call, sorted by number.\npub const SYSCALLS: &[SyscallInfo] = &[\n");
    for call in calls {
        entry(&mut out, call);
    }
    out.push_str("];\n");
    out
}

fn entry(out: &mut String, call: &Syscall) {
    let via = match call.via {
        Via::Server => "Via::Server",
        Via::Vdso => "Via::Vdso",
    };
    let support = match &call.support {
        Support::Supported => "Support::Supported".to_owned(),
        Support::Partial(note) => format!("Support::Partial({note:?})"),
        Support::Unsupported(note) => format!("Support::Unsupported({note:?})"),
    };
    let memory = match call.memory {
        Memory::Keeps => "Memory::Keeps",
        Memory::None => "Memory::None",
        Memory::Frees => "Memory::Frees",
    };
    let _ = write!(
        out,
        "    SyscallInfo {{ name: {:?}, noun: {:?}, nr: {}, via: {via}, blocking: {}, noreturn: {}, returns: {:?}, \
         support: {support}, memory: {memory}, args: &[",
        call.name, call.noun, call.number, call.blocking, call.noreturn, call.returns
    );
    for arg in &call.args {
        let dir = match arg.dir {
            None => "None",
            Some(Dir::In) => "Some(Dir::In)",
            Some(Dir::Out) => "Some(Dir::Out)",
            Some(Dir::InOut) => "Some(Dir::InOut)",
        };
        let _ = write!(
            out,
            "ArgInfo {{ name: {:?}, ty: {:?}, dir: {dir}, len: {:?}, optional: {}, consumed: {} }}, ",
            arg.name, arg.ty, arg.len, arg.optional, arg.consumed
        );
    }
    out.push_str("], rights: &[");
    for right in &call.rights {
        let needs = right
            .needs
            .iter()
            .fold("crate::Rights::NONE".to_owned(), |all, one| format!("{all}.union(crate::Rights::{one})"));
        let _ = write!(
            out,
            "RightInfo {{ arg: {:?}, object: {:?}, needs: {needs}, more: {} }}, ",
            right.arg, right.object, right.more
        );
    }
    out.push_str("], errors: &[");
    for error in &call.errors {
        let _ = write!(out, "crate::Status::{}, ", error.status);
    }
    out.push_str("] },\n");
}
