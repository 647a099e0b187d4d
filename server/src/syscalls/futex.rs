//! Futexes.

use abi::{Rights, Status};
use objects::Id;
use objects::core::handle::{HandleValue, INVALID};
use objects::core::wait::Waiting;
use objects::machine::Machine;
use objects::task::futex::{AT_ONCE, NewOwner, Requeue, RequeueProgress};
use objects::task::thread::{Thread, ThreadState};

use crate::cx::Cx;
use crate::user::{In, Out};

/// The thread that a caller names as a futex's owner: a started thread of the caller's own process.
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

/// Waits until the thread is woken, if the word has the expected value.
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
    // The word is checked first: a caller whose word has changed does not care whether the owner has ended meanwhile.
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
    if count > AT_ONCE {
        return wake_many(cx, word, count);
    }
    cx.kernel.futex_wake(cx.aspace, word.0, count, NewOwner::Nobody).map(drop)
}

/// Wakes many threads, in slices.
#[inline(never)]
fn wake_many<M: Machine>(cx: &mut Cx<'_, M>, word: In<i32>, count: u32) -> Result<(), Status> {
    let mut work = cx.sliced_call_on_process();
    let left = match work.done {
        0 => cx.kernel.futex_wake(cx.aspace, word.0, count, NewOwner::Nobody)?,
        _ => cx.kernel.futex_wake_more(cx.aspace, word.0, work.state[0] as u32)?,
    };
    work.state[0] = left.into();
    let done = work.done + u64::from(AT_ONCE);
    cx.end_slice(&work, (left != 0).then_some(done))
}

/// Wakes one thread and makes it the owner.
pub fn futex_wake_single_owner<M: Machine>(cx: &mut Cx<'_, M>, word: In<i32>) -> Result<(), Status> {
    if word.is_null() {
        return Err(Status::INVALID_ARGS);
    }
    cx.kernel.futex_wake(cx.aspace, word.0, 1, NewOwner::Woken).map(drop)
}

/// The owner that a requeue sets for its second futex. The words are checked first, as in [`futex_wait`].
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

/// Wakes some threads and moves others to another futex, in slices if they are many.
fn requeue<M: Machine>(
    cx: &mut Cx<'_, M>,
    (word, to): (In<i32>, In<i32>),
    expected: i32,
    counts: RequeueProgress,
    new_owner: HandleValue,
    first_owner: NewOwner,
) -> Result<(), Status> {
    let mut work = cx.sliced_call_on_process();
    let what = |owner| Requeue { from: word.0, to: to.0, owner };
    let left = if work.done == 0 {
        let owner = requeue_owner(cx, word, expected, to, new_owner)?;
        work.with = owner.map(Id::object);
        cx.kernel.futex_requeue(cx.aspace, what(owner), expected as u32, counts, first_owner)?
    } else {
        let owner = work.with.map(|owner| cx.kernel.objects.typed(owner)).transpose()?;
        let [wakes, moves, ..] = work.state.map(|word| word as u32);
        cx.kernel.futex_requeue_more(cx.aspace, what(owner), RequeueProgress { wakes, moves })?
    };
    (work.state[0], work.state[1]) = (left.wakes.into(), left.moves.into());
    let done = work.done + u64::from(AT_ONCE);
    cx.end_slice(&work, (left.wakes != 0 || left.moves != 0).then_some(done))
}

/// Wakes some threads and moves others to another futex.
pub fn futex_requeue<M: Machine>(
    cx: &mut Cx<'_, M>,
    word: In<i32>,
    wakes: u32,
    expected: i32,
    to: In<i32>,
    moves: u32,
    new_owner: HandleValue,
) -> Result<(), Status> {
    requeue(cx, (word, to), expected, RequeueProgress { wakes, moves }, new_owner, NewOwner::Nobody)
}

/// Wakes one thread, makes it the owner, and moves others to another futex.
pub fn futex_requeue_single_owner<M: Machine>(
    cx: &mut Cx<'_, M>,
    word: In<i32>,
    expected: i32,
    to: In<i32>,
    moves: u32,
    new_owner: HandleValue,
) -> Result<(), Status> {
    requeue(cx, (word, to), expected, RequeueProgress { wakes: 1, moves }, new_owner, NewOwner::Woken)
}

/// Returns the koid of a futex's owner.
pub fn futex_get_owner<M: Machine>(cx: &mut Cx<'_, M>, word: In<i32>, out: Out<u64>) -> Result<(), Status> {
    let koid = cx.kernel.futex_get_owner(cx.aspace, word.0)?;
    cx.write_optional(out, koid)
}
