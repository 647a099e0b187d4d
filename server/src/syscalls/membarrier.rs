//! Barriers for all threads of a process at once.
//!
//! There is one processor. No other thread runs while one makes a call, and each was stopped between two instructions
//! with all its stores visible to whoever runs next; so what these calls promise holds once they are made. Instructions
//! are fetched anew after the return from the kernel, which serializes.

use objects::machine::Machine;

use crate::Answer;
use crate::cx::Cx;

/// Comes back when every running thread of the process has passed a memory barrier.
pub fn membarrier_sync_process_data<M: Machine>(_: &mut Cx<'_, M>) -> Answer {
    Answer::Done(0)
}

/// Comes back when every running thread of the process has passed a barrier for instructions.
pub fn membarrier_sync_process_insn<M: Machine>(_: &mut Cx<'_, M>) -> Answer {
    Answer::Done(0)
}
