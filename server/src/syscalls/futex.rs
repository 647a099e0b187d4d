//! Futexes.

use abi::{Rights, Status};
use objects::Id;
use objects::futex::NewOwner;
use objects::handle::{HandleValue, INVALID};
use objects::machine::Machine;
use objects::thread::{Thread, ThreadState};
use objects::wait::Waiting;

use crate::cx::Cx;
use crate::user::{In, Out};

/// The thread that a caller names as a futex's owner: one of its own process that has been started.
fn owner<M: Machine>(cx: &Cx<'_, M>, value: HandleValue) -> Result<Option<Id<Thread>>, Status> {
    if value == INVALID {
        return Ok(None);
    }
    let thread = cx.get::<Thread>(value, Rights::NONE)?;
    let t = cx.kernel.objects.get(thread)?;
    if t.holder() != cx.process || t.state == ThreadState::Initial {
        return Err(Status::INVALID_ARGS);
    }
    Ok((t.state == ThreadState::Running).then_some(thread))
}

/// Waits until it is woken, if the word has the value that is expected.
pub fn futex_wait<M: Machine>(
    cx: &mut Cx<'_, M>,
    word: In<i32>,
    expected: i32,
    new_owner: HandleValue,
    deadline: i64,
) -> Result<Waiting, Status> {
    if word.is_null() || !word.0.is_multiple_of(4) {
        return Err(Status::INVALID_ARGS);
    }
    // The word comes first: who finds it changed does not care about an owner that may have gone meanwhile.
    if new_owner != INVALID && cx.read(word)? != expected {
        return Err(Status::BAD_STATE);
    }
    let owner = owner(cx, new_owner)?;
    cx.kernel.futex_wait(cx.thread, word.0, expected as u32, owner, deadline)
}

/// Wakes some threads.
pub fn futex_wake<M: Machine>(cx: &mut Cx<'_, M>, word: In<i32>, count: u32) -> Result<(), Status> {
    if word.is_null() {
        return Err(Status::INVALID_ARGS);
    }
    cx.kernel.futex_wake(cx.aspace, word.0, count, NewOwner::Nobody)
}

/// Wakes one thread and makes it the owner.
pub fn futex_wake_single_owner<M: Machine>(cx: &mut Cx<'_, M>, word: In<i32>) -> Result<(), Status> {
    if word.is_null() {
        return Err(Status::INVALID_ARGS);
    }
    cx.kernel.futex_wake(cx.aspace, word.0, 1, NewOwner::Woken)
}

/// The owner that a requeue gives to its second futex. The words come first, as in [`futex_wait`].
fn requeue_owner<M: Machine>(
    cx: &mut Cx<'_, M>,
    word: In<i32>,
    expected: i32,
    to: In<i32>,
    new_owner: HandleValue,
) -> Result<Option<Id<Thread>>, Status> {
    if !word.0.is_multiple_of(4) || !to.0.is_multiple_of(4) || to.is_null() || word.0 == to.0 {
        return Err(Status::INVALID_ARGS);
    }
    if cx.read(word)? != expected {
        return Err(Status::BAD_STATE);
    }
    owner(cx, new_owner)
}

/// Wakes some threads and moves others to another futex.
pub fn futex_requeue<M: Machine>(
    cx: &mut Cx<'_, M>,
    word: In<i32>,
    wake_count: u32,
    expected: i32,
    to: In<i32>,
    move_count: u32,
    new_owner: HandleValue,
) -> Result<(), Status> {
    let owner = requeue_owner(cx, word, expected, to, new_owner)?;
    cx.kernel.futex_requeue(cx.aspace, word.0, wake_count, expected as u32, to.0, move_count, owner, NewOwner::Nobody)
}

/// Wakes one thread, makes it the owner, and moves others to another futex.
pub fn futex_requeue_single_owner<M: Machine>(
    cx: &mut Cx<'_, M>,
    word: In<i32>,
    expected: i32,
    to: In<i32>,
    move_count: u32,
    new_owner: HandleValue,
) -> Result<(), Status> {
    let owner = requeue_owner(cx, word, expected, to, new_owner)?;
    cx.kernel.futex_requeue(cx.aspace, word.0, 1, expected as u32, to.0, move_count, owner, NewOwner::Woken)
}

/// The number of a futex's owner.
pub fn futex_get_owner<M: Machine>(cx: &mut Cx<'_, M>, word: In<i32>, out: Out<u64>) -> Result<(), Status> {
    let koid = cx.kernel.futex_get_owner(cx.aspace, word.0)?;
    cx.write_optional(out, koid)
}
