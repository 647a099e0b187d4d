//! Reports to a debugger of the whole machine which images each process consists of, and where they are mapped.
//!
//! The debugger sets [`ATTACHED`] in the server's memory and sets a breakpoint at [`told`], which does nothing. The
//! rest of the system does not notice.

use alloc::string::String;
use core::fmt::Write;
use core::hint::black_box;
use core::sync::atomic::{AtomicBool, Ordering};

use objects::machine::Machine;

use crate::cx::Cx;

/// Whether a debugger is attached.
static ATTACHED: AtomicBool = AtomicBool::new(false);

/// The caller has mapped code: reports all images of its process.
pub fn code_mapped<M: Machine>(cx: &mut Cx<'_, M>) {
    // The compiler cannot see the debugger's store.
    if black_box(&ATTACHED).load(Ordering::Relaxed) {
        tell(cx);
    }
}

#[cold]
fn tell<M: Machine>(cx: &mut Cx<'_, M>) {
    let Ok(process) = cx.own_process() else { return };
    let Ok(name) = cx.kernel.objects.get(process).map(|process| process.name) else { return };
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "process {} {name}", cx.kernel.koid(process.object()));
    cx.kernel.modules(cx.aspace, |line| {
        text.push_str(line);
        text.push('\n');
    });
    told(&text);
}

/// The debugger's breakpoint is here; it reads the text.
#[inline(never)]
fn told(text: &str) {
    black_box(text);
}
