//! Memory barriers for all threads of a process at once.
//!
//! There is one processor. While one thread makes a call, no other thread runs, and each was stopped between two
//! instructions with all its stores visible to the thread that runs next. So the guarantees of these calls hold as soon
//! as they are made. The return from the kernel is serialising, so instructions are fetched anew.

use objects::machine::Machine;

use crate::Answer;
use crate::cx::Cx;

/// Returns when every running thread of the process has passed a memory barrier.
pub fn membarrier_sync_process_data<M: Machine>(_: &mut Cx<'_, M>) -> Answer {
    Answer::Done(0)
}

/// Returns when every running thread of the process has passed an instruction barrier.
pub fn membarrier_sync_process_insn<M: Machine>(_: &mut Cx<'_, M>) -> Answer {
    Answer::Done(0)
}
