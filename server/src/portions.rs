//! Long calls: steps 2, 4 and 5 of the protocol in [`objects::core::continuation`].

use abi::{Rights, Status};
use objects::containers::failure_injection;
use objects::core::continuation::{Kept, Progress};
use objects::core::handle::HandleValue;
use objects::core::noun::Noun;
use objects::machine::{Machine, ThreadKey};
use objects::task::process::Process;
use objects::{Id, Kernel, ObjectId};

use crate::cx::Cx;
use crate::{Answer, again, attended};

/// The subject of a call that runs in slices.
pub struct Work<T> {
    /// The object.
    pub object: Id<T>,
    /// A second object, if the call needs one.
    pub with: Option<ObjectId>,
    /// The rights of the handle to the object when the call began.
    pub rights: Rights,
    /// The work done so far; 0 when the call begins.
    pub done: u64,
    /// Other state that the call keeps between slices.
    pub kept: Kept,
}

impl<T> Work<T> {
    /// A call on this object begins.
    pub fn begins(object: Id<T>, rights: Rights) -> Self {
        Work { object, with: None, rights, done: 0, kept: Kept::default() }
    }
}

impl<M: Machine> Cx<'_, M> {
    /// The subject of a call that may run in slices: the object that the handle refers to, or (step 4) the one that it
    /// referred to when the call began.
    ///
    /// # Errors
    /// As [`Cx::get_with_rights`].
    pub fn work_on<T: Noun>(&mut self, value: HandleValue, rights: Rights) -> Result<Work<T>, Status> {
        match self.progress.take() {
            Some(Progress { object, with, rights, done, kept }) => {
                Ok(Work { object: self.kernel.objects.typed(object)?, with, rights, done, kept })
            }
            None => {
                let (object, rights) = self.get_with_rights(value, rights)?;
                Ok(Work::begins(object, rights))
            }
        }
    }

    /// As [`Cx::work_on`] for a call without a handle: it works on the caller's process.
    pub fn work_of_process(&mut self) -> Work<Process> {
        match self.progress.take() {
            Some(Progress { with, rights, done, kept, .. }) => Work { object: self.process, with, rights, done, kept },
            None => Work::begins(self.process, Rights::NONE),
        }
    }

    /// As [`Cx::work_on`] for a call on two objects.
    ///
    /// # Errors
    /// As [`Cx::work_on`], first for `value`.
    pub fn work_on_both<T: Noun, U: Noun>(
        &mut self,
        (value, rights): (HandleValue, Rights),
        (other, other_rights): (HandleValue, Rights),
    ) -> Result<(Work<T>, Id<U>), Status> {
        let mut work = self.work_on::<T>(value, rights)?;
        let other = match work.with {
            Some(with) => self.kernel.objects.typed(with)?,
            None => self.get::<U>(other, other_rights)?,
        };
        work.with = Some(other.object());
        Ok((work, other))
    }

    /// The end of a slice: the call is over, or continues (step 1) with `goes_on` as the work done so far.
    ///
    /// # Errors
    /// [`GOES_ON`](objects::core::continuation::GOES_ON).
    pub fn worked<T: Noun>(&mut self, work: &Work<T>, goes_on: Option<u64>) -> Result<(), Status> {
        let Work { with, rights, kept, .. } = *work;
        let object = work.object.object();
        goes_on.map_or(Ok(()), |done| Err(self.kernel.goes_on(Progress { object, with, rights, done, kept })))
    }
}

impl<M: Machine> Cx<'_, M> {
    /// Delays a call until the reaper's backlog is empty, for a call that reports what exists and has done nothing yet.
    ///
    /// # Errors
    /// [`GOES_ON`](objects::core::continuation::GOES_ON).
    pub fn when_nothing_is_left(&mut self) -> Result<(), Status> {
        self.progress = None;
        let object = self.process.object();
        if self.kernel.is_left() {
            return Err(self.kernel.goes_on(Progress::new(object, Rights::NONE, 0)));
        }
        Ok(())
    }

    /// Passes on the result of a call that has changed nothing. If it failed for lack of memory and the reaper has a
    /// backlog, the call is made again when the backlog is smaller.
    ///
    /// # Errors
    /// As `made`, and [`GOES_ON`](objects::core::continuation::GOES_ON).
    pub fn or_when_less_is_left<T>(&mut self, made: Result<T, Status>) -> Result<T, Status> {
        self.progress = None;
        let object = self.process.object();
        match made {
            Err(Status::NO_MEMORY) if self.kernel.is_left() => {
                Err(self.kernel.goes_on(Progress::new(object, Rights::NONE, 0)))
            }
            made => made,
        }
    }
}

/// A call is over. If it ended more objects than one slice destroys, it is answered when they are destroyed.
#[cold]
#[inline(never)]
pub fn ended<M: Machine>(kernel: &mut Kernel<M>, key: ThreadKey, number: u32, answer: Answer) -> Answer {
    if !kernel.ends_go_on() {
        return answer;
    }
    let (Answer::Done(result), Some(thread)) = (answer, kernel.caller(key.0)) else { return answer };
    match kernel.going_ends(thread.thread, number, result) {
        Ok(()) => Answer::Blocked,
        Err(_) => answer,
    }
}

/// Step 2: saves the call.
#[cold]
pub fn pause<M: Machine>(cx: &mut Cx<'_, M>, number: u32, args: [u64; 4]) -> Answer {
    let [a, b, c, d] = args;
    // A call that has not read arguments 5 to 8 does not have them.
    let [e, f, g, h] = cx.extra.unwrap_or_default();
    match cx.kernel.going_begin(cx.thread, number, [a, b, c, d, e, f, g, h]) {
        Ok(()) => Answer::Blocked,
        Err(status) => Answer::Done(i64::from(status.0)),
    }
}

/// Step 4: a thread that is not in the state to make calls makes one. This is valid only for a thread in the middle of
/// this long call.
#[cold]
#[inline(never)]
pub fn go_on<M: Machine>(kernel: &mut Kernel<M>, key: ThreadKey, number: u32, args: &[u64; 4]) -> Answer {
    let Some(thread) = kernel.thread_at(key.0) else { return Answer::Nothing };
    let Some(going) = kernel.going_take(thread) else { return Answer::Nothing };
    if going.number != number {
        // Step 5C.
        kernel.serial_written(thread);
        let Some(mut cx) = Cx::new(kernel, key) else { return Answer::Nothing };
        return attended(&mut cx, number, args);
    }
    if going.progress.done == 0 {
        kernel.left_portion();
    }
    if let Some(result) = going.result {
        let goes_on = kernel.is_left_to_see() && kernel.going_ends(thread, number, result).is_ok();
        return if goes_on { Answer::Blocked } else { Answer::Done(result) };
    }
    if kernel.is_refusing() {
        kernel.refusal_heed(key.0);
    }
    let answer = again(kernel, key, number, going.args, Some(going.progress));
    failure_injection::heed(false);
    match answer {
        Answer::Done(result) => kernel.going_over(thread, result),
        Answer::Yield => kernel.going_over(thread, i64::from(Status::OK.0)),
        Answer::Blocked | Answer::Resume | Answer::Nothing => {}
    }
    answer
}
