//! Long calls: steps 2, 4 and 5 of the protocol in [`objects::core::continuation`].

use abi::{Rights, Status};
use objects::containers::failure_injection;
use objects::core::continuation::{ContinuationState, Progress};
use objects::core::handle::HandleValue;
use objects::core::noun::Noun;
use objects::machine::{Machine, ThreadKey};
use objects::task::process::Process;
use objects::{Id, Kernel, ObjectId};

use crate::cx::Cx;
use crate::{Answer, call_slow_path, restart_call};

/// The subject of a call that runs in slices.
pub struct SlicedCall<T> {
    /// The object.
    pub object: Id<T>,
    /// A second object, if the call needs one.
    pub with: Option<ObjectId>,
    /// The rights of the handle to the object when the call began.
    pub rights: Rights,
    /// The work done so far; 0 when the call begins.
    pub done: u64,
    /// Other state that the call keeps between slices.
    pub state: ContinuationState,
}

impl<T> SlicedCall<T> {
    /// A call on this object begins.
    pub fn begins(object: Id<T>, rights: Rights) -> Self {
        SlicedCall { object, with: None, rights, done: 0, state: ContinuationState::default() }
    }
}

impl<M: Machine> Cx<'_, M> {
    /// The subject of a call that may run in slices: the object that the handle refers to, or (step 4) the one that it
    /// referred to when the call began.
    ///
    /// # Errors
    /// As [`Cx::get_with_rights`].
    pub fn sliced_call<T: Noun>(&mut self, value: HandleValue, rights: Rights) -> Result<SlicedCall<T>, Status> {
        match self.progress.take() {
            Some(Progress { object, with, rights, done, state }) => {
                Ok(SlicedCall { object: self.kernel.objects.typed(object)?, with, rights, done, state })
            }
            None => {
                let (object, rights) = self.get_with_rights(value, rights)?;
                Ok(SlicedCall::begins(object, rights))
            }
        }
    }

    /// As [`Cx::sliced_call`] for a call without a handle: it works on the caller's process.
    pub fn sliced_call_on_process(&mut self) -> SlicedCall<Process> {
        match self.progress.take() {
            Some(Progress { with, rights, done, state, .. }) => {
                SlicedCall { object: self.process, with, rights, done, state }
            }
            None => SlicedCall::begins(self.process, Rights::NONE),
        }
    }

    /// As [`Cx::sliced_call`] for a call on two objects.
    ///
    /// # Errors
    /// As [`Cx::sliced_call`], first for `value`.
    pub fn sliced_call_on_two<T: Noun, U: Noun>(
        &mut self,
        (value, rights): (HandleValue, Rights),
        (other, other_rights): (HandleValue, Rights),
    ) -> Result<(SlicedCall<T>, Id<U>), Status> {
        let mut work = self.sliced_call::<T>(value, rights)?;
        let other = match work.with {
            Some(with) => self.kernel.objects.typed(with)?,
            None => self.get::<U>(other, other_rights)?,
        };
        work.with = Some(other.object());
        Ok((work, other))
    }

    /// The end of a slice: the call is over, or continues (step 1) with `more` as the work done so far.
    ///
    /// # Errors
    /// [`CALL_CONTINUES`](objects::core::continuation::CALL_CONTINUES).
    pub fn end_slice<T: Noun>(&mut self, work: &SlicedCall<T>, more: Option<u64>) -> Result<(), Status> {
        let SlicedCall { with, rights, state, .. } = *work;
        let object = work.object.object();
        more.map_or(Ok(()), |done| Err(self.kernel.continue_call(Progress { object, with, rights, done, state })))
    }
}

impl<M: Machine> Cx<'_, M> {
    /// Delays a call until the reaper has no deferred work. For calls that report which objects exist; the call must
    /// not have changed anything yet.
    ///
    /// # Errors
    /// [`CALL_CONTINUES`](objects::core::continuation::CALL_CONTINUES).
    pub fn await_reaper(&mut self) -> Result<(), Status> {
        self.progress = None;
        let object = self.process.object();
        if self.kernel.reaper_has_work() {
            return Err(self.kernel.continue_call(Progress::new(object, Rights::NONE, 0)));
        }
        Ok(())
    }

    /// Passes on the result of a call that has changed nothing. If it failed for lack of memory and the reaper has
    /// deferred work, the call is made again when some of that work is done.
    ///
    /// # Errors
    /// As `made`, and [`CALL_CONTINUES`](objects::core::continuation::CALL_CONTINUES).
    pub fn or_retry_after_reaper<T>(&mut self, made: Result<T, Status>) -> Result<T, Status> {
        self.progress = None;
        let object = self.process.object();
        match made {
            Err(Status::NO_MEMORY) if self.kernel.reaper_has_work() => {
                Err(self.kernel.continue_call(Progress::new(object, Rights::NONE, 0)))
            }
            made => made,
        }
    }
}

/// A call is complete. If it has released more objects than one slice of the reaper destroys, it is answered when they
/// are destroyed.
#[cold]
#[inline(never)]
pub fn finish<M: Machine>(kernel: &mut Kernel<M>, key: ThreadKey, number: u32, answer: Answer) -> Answer {
    if !kernel.reaper_delays_answer() {
        return answer;
    }
    let (Answer::Done(result), Some(thread)) = (answer, kernel.caller(key.0)) else { return answer };
    match kernel.continuation_await_reaper(thread.thread, number, result) {
        Ok(()) => Answer::Blocked,
        Err(_) => answer,
    }
}

/// Step 2: saves the call.
#[cold]
pub fn save<M: Machine>(cx: &mut Cx<'_, M>, number: u32, args: [u64; 4]) -> Answer {
    let [a, b, c, d] = args;
    // A call that has not read arguments 5 to 8 does not have them.
    let [e, f, g, h] = cx.extra.unwrap_or_default();
    match cx.kernel.continuation_save(cx.thread, number, [a, b, c, d, e, f, g, h]) {
        Ok(()) => Answer::Blocked,
        Err(status) => Answer::Done(i64::from(status.0)),
    }
}

/// Step 4: a thread that cannot make calls makes one. This is valid only for a thread in the middle of this long call.
#[cold]
#[inline(never)]
pub fn resume<M: Machine>(kernel: &mut Kernel<M>, key: ThreadKey, number: u32, args: &[u64; 4]) -> Answer {
    let Some(thread) = kernel.thread_at(key.0) else { return Answer::Nothing };
    let Some(continuation) = kernel.continuation_take(thread) else { return Answer::Nothing };
    if continuation.number != number {
        // Step 5C.
        kernel.serial_written(thread);
        let Some(mut cx) = Cx::new(kernel, key) else { return Answer::Nothing };
        return call_slow_path(&mut cx, number, args);
    }
    if continuation.progress.done == 0 {
        kernel.reaper_slice();
    }
    if let Some(result) = continuation.result {
        let more = kernel.reaper_has_visible_work() && kernel.continuation_await_reaper(thread, number, result).is_ok();
        return if more { Answer::Blocked } else { Answer::Done(result) };
    }
    if kernel.failure_plan_is_set() {
        kernel.failure_plan_arm(key.0);
    }
    let answer = restart_call(kernel, key, number, continuation.args, Some(continuation.progress));
    failure_injection::arm(false);
    match answer {
        Answer::Done(result) => kernel.continuation_finish(thread, result),
        Answer::Yield => kernel.continuation_finish(thread, i64::from(Status::OK.0)),
        Answer::Blocked | Answer::Resume | Answer::Nothing => {}
    }
    answer
}
