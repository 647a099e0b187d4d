//! A call in progress: its caller, and the checked access to handles and memory.

use alloc::vec::Vec;

use abi::{Rights, Status, ZX_POL_ACTION_ALLOW};
use objects::containers::growth::Grows;
use objects::containers::slab::Key;
use objects::core::continuation::PAGE_WAIT;
use objects::core::continuation::Progress;
use objects::core::handle::{Handle, HandleValue};
use objects::core::noun::Noun;
use objects::core::wait::Waiting;
use objects::kernel::Caller;
use objects::machine::{Machine, MachineThread, ThreadKey};
use objects::memory::usermem::UserDestination;
use objects::task::process::Process;
use objects::task::thread::Thread;
use objects::{Id, Kernel};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::Answer;
use crate::user::{In, Out};

/// Most bytes that one call copies in or out of one buffer through the server's memory.
pub const MAX_COPY: usize = 64 * 1024;

/// See the module's description.
pub struct Cx<'a, M: Machine> {
    /// All objects.
    pub kernel: &'a mut Kernel<M>,
    /// The calling thread.
    pub thread: Id<Thread>,
    /// The process whose handle table the call uses. For shared processes this is the prototype ([`Cx::own_process`]).
    pub process: Id<Process>,
    /// The caller's address space.
    pub aspace: Key,
    machine: MachineThread,
    /// The condition (`ZX_POL_*`) whose action is due when the call is over; see [`crate::policy`].
    pub(crate) offence: Option<u32>,
    /// Arguments 5 to 8 after they have been read.
    pub(crate) extra: Option<[u64; 4]>,
    /// The call is made again after a wait for pages, or continues. Its arguments were valid the first time.
    pub(crate) restarted: bool,
    /// The progress of a call that continues ([`crate::long_call`]).
    pub(crate) progress: Option<Progress>,
}

/// A call's result, before it becomes an [`Answer`].
pub trait IntoAnswer {
    /// Converts it.
    fn into_answer(self) -> Answer;
}

impl IntoAnswer for Answer {
    fn into_answer(self) -> Answer {
        self
    }
}

impl IntoAnswer for Result<(), Status> {
    #[inline]
    fn into_answer(self) -> Answer {
        Answer::Done(i64::from(self.err().unwrap_or(Status::OK).0))
    }
}

impl IntoAnswer for Result<Waiting, Status> {
    fn into_answer(self) -> Answer {
        match self {
            Ok(Waiting::Blocked) => Answer::Blocked,
            Ok(Waiting::Over(status)) | Err(status) => Answer::Done(i64::from(status.0)),
        }
    }
}

impl IntoAnswer for Result<Answer, Status> {
    fn into_answer(self) -> Answer {
        self.unwrap_or_else(|status| Answer::Done(i64::from(status.0)))
    }
}

impl IntoAnswer for i64 {
    fn into_answer(self) -> Answer {
        Answer::Done(self)
    }
}

impl<'a, M: Machine> Cx<'a, M> {
    /// The call of a thread. None unless the thread exists, runs, and does not wait.
    #[inline]
    pub fn new(kernel: &'a mut Kernel<M>, key: ThreadKey) -> Option<Self> {
        let Caller { thread, process, aspace, machine } = kernel.caller(key.0)?;
        Some(Cx {
            kernel,
            thread,
            process,
            aspace,
            machine,
            offence: None,
            extra: None,
            restarted: false,
            progress: None,
        })
    }

    /// The process that the caller belongs to.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn own_process(&self) -> Result<Id<Process>, Status> {
        Ok(self.kernel.objects.get(self.thread)?.process)
    }

    /// Arguments 5 to 8. The program can change them at any time, so the server reads them once.
    pub(crate) fn extra_args(&mut self) -> [u64; 4] {
        let (kernel, thread) = (&self.kernel, self.machine);
        *self.extra.get_or_insert_with(|| kernel.machine.thread_extra_args(thread))
    }

    /// Whether the policy of the caller's job allows what a condition (`ZX_POL_*`) names.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    #[inline]
    pub fn may(&mut self, condition: u32) -> Result<(), Status> {
        match self.kernel.objects.get(self.process)?.policy.action(condition) {
            ZX_POL_ACTION_ALLOW => Ok(()),
            action => crate::policy::offends(self, condition, action),
        }
    }

    /// The object that a handle refers to, with the handle's rights. The object must be a `T`, and the handle must have
    /// all of `rights`.
    ///
    /// # Errors
    /// `BAD_HANDLE`, `WRONG_TYPE`, `ACCESS_DENIED`, in this order.
    #[inline]
    pub fn get_with_rights<T: Noun>(&self, value: HandleValue, rights: Rights) -> Result<(Id<T>, Rights), Status> {
        let (id, held) = self.kernel.handle_to(self.process, value)?;
        if !held.contains(rights) {
            return Err(Status::ACCESS_DENIED);
        }
        Ok((id, held))
    }

    /// The object that a handle refers to. The object must be a `T`, and the handle must have all of `rights`.
    ///
    /// # Errors
    /// As [`Cx::get_with_rights`].
    #[inline(always)]
    pub fn get<T: Noun>(&self, value: HandleValue, rights: Rights) -> Result<Id<T>, Status> {
        match self.kernel.known_handle_to(self.process, value, rights) {
            Some(id) => Ok(id),
            None => self.get_slow(value, rights),
        }
    }

    #[inline(never)]
    fn get_slow<T: Noun>(&self, value: HandleValue, rights: Rights) -> Result<Id<T>, Status> {
        Ok(self.get_with_rights(value, rights)?.0)
    }

    /// A handle to an object of any type, with all of `rights`.
    ///
    /// # Errors
    /// `BAD_HANDLE`, `ACCESS_DENIED`.
    #[inline]
    pub fn get_any(&self, value: HandleValue, rights: Rights) -> Result<Handle, Status> {
        let handle = self.kernel.handle(self.process, value)?;
        if !handle.rights.contains(rights) {
            return Err(Status::ACCESS_DENIED);
        }
        Ok(handle)
    }

    /// Reads one `T` from the program's memory.
    ///
    /// # Errors
    /// `INVALID_ARGS`, `NO_MEMORY`.
    #[inline]
    pub fn read<T: FromBytes + IntoBytes>(&mut self, from: In<T>) -> Result<T, Status> {
        let mut value = T::new_zeroed();
        self.kernel.copy_in(self.aspace, from.0, value.as_mut_bytes())?;
        Ok(value)
    }

    /// Writes one `T` to the program's memory.
    ///
    /// # Errors
    /// `INVALID_ARGS`, `NO_MEMORY`.
    #[inline]
    pub fn write<T: IntoBytes + Immutable>(&mut self, to: Out<T>, value: T) -> Result<(), Status> {
        self.kernel.copy_out(self.aspace, to.0, value.as_bytes())
    }

    /// The same, unless the program passed no address.
    ///
    /// # Errors
    /// As [`Cx::write`].
    #[inline]
    pub fn write_optional<T: IntoBytes + Immutable>(&mut self, to: Out<T>, value: T) -> Result<(), Status> {
        if to.is_null() { Ok(()) } else { self.write(to, value) }
    }

    /// Makes sure that a later [`Cx::fill`] succeeds. A call uses it before it does something that it cannot undo.
    ///
    /// # Errors
    /// As [`Cx::write`].
    #[inline(always)]
    pub fn place_optional<T>(&mut self, to: Out<T>) -> Result<UserDestination, Status> {
        if to.is_null() {
            Ok(UserDestination::NOWHERE)
        } else {
            self.kernel.user_place(self.aspace, to.0, size_of::<T>())
        }
    }

    /// Writes one value to a place in the program's memory that [`Cx::place_optional`] returned.
    ///
    /// # Errors
    /// As [`Cx::write`].
    #[inline(always)]
    pub fn fill<T: IntoBytes + Immutable>(&mut self, to: UserDestination, value: T) -> Result<(), Status> {
        self.kernel.fill_place(self.aspace, to, value.as_bytes())
    }

    /// Makes sure that a later write to this memory does not have to wait for a pager. Calls that cannot undo their
    /// work before the write use it. It ignores all other errors; the write finds them.
    ///
    /// # Errors
    /// [`PAGE_WAIT`].
    pub fn wait_out(&mut self, address: u64, len: usize) -> Result<(), Status> {
        match self.kernel.check_out(self.aspace, address, len) {
            Err(PAGE_WAIT) => Err(PAGE_WAIT),
            _ => Ok(()),
        }
    }

    /// As [`Cx::wait_out`], for a later read of this memory.
    ///
    /// # Errors
    /// As [`Cx::wait_out`].
    pub fn wait_in(&mut self, address: u64, len: usize) -> Result<(), Status> {
        match self.kernel.check_in(self.aspace, address, len) {
            Err(PAGE_WAIT) => Err(PAGE_WAIT),
            _ => Ok(()),
        }
    }

    /// Reads bytes from the program's memory, at most [`MAX_COPY`].
    ///
    /// # Errors
    /// `OUT_OF_RANGE`: too many. `INVALID_ARGS`, `NO_MEMORY`.
    #[inline(always)]
    pub fn read_bytes(&mut self, from: In<u8>, len: usize) -> Result<Vec<u8>, Status> {
        if len > MAX_COPY {
            return Err(Status::OUT_OF_RANGE);
        }
        let mut bytes = self.kernel.buffers.take(len)?;
        self.kernel.copy_in(self.aspace, from.0, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads `count` values from the program's memory.
    ///
    /// # Errors
    /// As [`Cx::read_bytes`].
    pub fn read_array<T: FromBytes + IntoBytes>(&mut self, from: In<T>, count: usize) -> Result<Vec<T>, Status> {
        let len = count.checked_mul(size_of::<T>()).filter(|&len| len <= MAX_COPY).ok_or(Status::OUT_OF_RANGE)?;
        debug_assert!(len <= MAX_COPY);
        let mut values = Vec::new();
        values.room_exact(count)?;
        for i in 0..count {
            values.push(self.read(from.nth(i))?);
        }
        Ok(values)
    }

    /// Writes bytes to the program's memory.
    ///
    /// # Errors
    /// `INVALID_ARGS`, `NO_MEMORY`.
    #[inline]
    pub fn write_bytes(&mut self, to: Out<u8>, bytes: &[u8]) -> Result<(), Status> {
        self.kernel.copy_out(self.aspace, to.0, bytes)
    }

    /// Gives the caller a handle to a new object and writes the handle's value to `out`. On an error the object is
    /// destroyed.
    ///
    /// # Errors
    /// `INVALID_ARGS`, `NO_MEMORY`.
    #[inline]
    pub fn hand_out<T: Noun>(&mut self, id: Id<T>, rights: Rights, out: Out<u32>) -> Result<(), Status> {
        let value = self.kernel.give_new(self.process, id, rights)?;
        self.write(out, value).inspect_err(|_| self.discard(value))
    }

    /// As [`Cx::hand_out`] for two objects: both handles or neither.
    ///
    /// # Errors
    /// As [`Cx::hand_out`].
    pub fn hand_out_pair<T: Noun>(
        &mut self,
        pair: (Id<T>, Id<T>),
        rights: Rights,
        out: (Out<u32>, Out<u32>),
    ) -> Result<(), Status> {
        let values = self.kernel.give_new_pair(self.process, [pair.0, pair.1], rights)?;
        let [first, second] = values;
        let written = self.write(out.0, first).and_then(|()| self.write(out.1, second));
        written.inspect_err(|_| values.into_iter().for_each(|value| self.discard(value)))
    }

    /// Raises a policy exception with `ZX_EXCP_POLICY_CODE_*` `code` after a call that ends with `answer`. A call that
    /// waits, or whose thread has ended, raises none.
    pub fn policy_exception(&mut self, code: u32, data: u32, answer: Answer) -> Answer {
        let result = match answer {
            Answer::Done(result) => result,
            Answer::Yield => i64::from(Status::OK.0),
            Answer::Blocked | Answer::Resume | Answer::Nothing => return answer,
        };
        self.kernel.exception_policy(self.thread, code, data, result);
        self.blocked_or_gone()
    }

    /// The answer to a call that found a queue full. The server treats the caller as a runaway and raises a policy
    /// exception. A process that asked for statuses ([`abi::HAFNON_PROP_PROCESS_OVERFLOW_STATUS`]) gets only `answer`.
    pub fn overflow(&mut self, code: u32, answer: Answer) -> Answer {
        if self.overflow_is_status() { answer } else { self.policy_exception(code, 0, answer) }
    }

    /// Whether the caller gets a status, not an exception, when a channel or port is full.
    pub fn overflow_is_status(&self) -> bool {
        self.kernel.objects.get(self.process).is_ok_and(|process| process.overflow_status)
    }

    /// The answer to a call that ends later: "blocked", or nothing if its thread has ended meanwhile.
    pub fn blocked_or_gone(&self) -> Answer {
        match self.kernel.objects.get(self.thread) {
            Ok(thread) if !thread.has_ended() => Answer::Blocked,
            _ => Answer::Nothing,
        }
    }

    /// Closes a new handle whose value could not be written to the caller.
    pub fn discard(&mut self, value: HandleValue) {
        if let Ok(handle) = self.kernel.take(self.process, value) {
            self.kernel.close(handle);
        }
    }
}
