//! Streams: a VMO as a file, with a seek position.
//!
//! Reads end at the content size of the VMO (`content_size`), which all its streams share. A write beyond the end
//! extends the content, and also the VMO, if it is resizable and the stream was created with a handle that allows that.
//! Bytes between the old end and the write become zeroes.
//!
//! A read or write that may start over, because it must wait for a page, changes neither position nor sizes before all
//! its pages are present. Bytes copied before that are copied again.
//!
//! A long operation runs in slices ([`crate::core::continuation`]), between which other threads may use the same stream
//! or VMO. To ensure that each byte is read by only one of several readers at the position, and that writers at the
//! position or at the end do not overwrite each other:
//! 1. The first slice fixes the [`Run`]: its start and length. If more slices follow, it immediately moves the
//!    position, and for an append also the content's end, to the end of the run.
//! 2. Each slice copies as much as fits. Written bytes are content from then on.
//! 3. The run ends early if memory is missing, or if another thread cuts the content off below its progress. The values
//!    moved in 1 are then moved back, if no other thread has moved them since.
//!
//! Bytes before a write that must become zeroes are zeroed before 1, also in slices, and become content as they are
//! zeroed.

use alloc::boxed::Box;

use abi::{Signals, Status, ZX_STREAM_SEEK_ORIGIN_CURRENT, ZX_STREAM_SEEK_ORIGIN_END, ZX_STREAM_SEEK_ORIGIN_START};

use crate::containers::slab::Key;
use crate::core::continuation::PAGE_WAIT;
use crate::core::continuation::SLICE_COPY_BYTES;
use crate::core::noun::{Noun, ObjectOps};
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::Access;
use crate::machine::{Machine, PAGE};
use crate::memory::copy::CopyResult;
use crate::memory::vmo::{self, Vmo};

/// A stream.
pub struct Stream {
    /// The VMO that it reads and writes.
    pub vmo: Id<Vmo>,
    /// The seek position in bytes.
    pub seek: u64,
    /// Allowed operations: `ZX_STREAM_MODE_READ`, `ZX_STREAM_MODE_WRITE`.
    pub mode: u32,
    /// Every write is an append.
    pub append: bool,
    /// It may resize the VMO.
    resizes: bool,
}

impl Noun for Stream {
    const TYPE: u32 = abi::ZX_OBJ_TYPE_STREAM;
}

impl ObjectOps for Stream {
    #[inline(always)]
    fn destroyed<M: Machine>(self: Box<Self>, kernel: &mut Kernel<M>, _: Id<Self>) {
        kernel.drop_ref(self.vmo.object());
    }
}

/// A buffer in a program's memory, as the program gave it.
#[derive(Clone, Copy, Debug)]
pub struct UserBuffer {
    /// Start address.
    pub address: u64,
    /// Length in bytes. The sum over all buffers of a call is below 2^64.
    pub len: u64,
}

/// The offset of a read or write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamOffset {
    /// The position, which advances.
    Position,
    /// The end of the content; the position first moves there.
    End,
    /// An explicit offset; the position stays.
    At(u64),
}

/// A read or write in several slices, as fixed by the first one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The values that it moved.
    pub moves: Moves,
    /// Start offset in the VMO.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// Number of bytes copied.
    pub done: u64,
}

/// The values that a run has moved to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moves {
    /// None.
    Nothing,
    /// The stream's position.
    Position,
    /// The position and the content size.
    End,
}

/// Progress of a read or write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransferStep {
    /// Done; the number of bytes.
    Over(u64),
    /// More slices follow.
    GoesOn(Run),
    /// It begins when the rest of the bytes before it is zeroed.
    Begins,
}

/// A new write.
struct StartedWrite {
    run: Run,
    /// The previous sizes of the VMO and its content, if the VMO has grown for it.
    old: Option<(u64, u64)>,
}

impl Run {
    fn new(at: StreamOffset, offset: u64, len: u64) -> Self {
        let moves = match at {
            StreamOffset::Position => Moves::Position,
            StreamOffset::End => Moves::End,
            StreamOffset::At(_) => Moves::Nothing,
        };
        Run { moves, offset, len, done: 0 }
    }

    /// Its end. Saturates, since no VMO is that large.
    fn end(&self) -> u64 {
        self.offset.saturating_add(self.len)
    }

    /// The offset that it has reached.
    fn at(&self) -> u64 {
        self.offset.saturating_add(self.done)
    }
}

/// The result of a copy that ended early: copied bytes count, unless the call starts over.
fn result(done: u64, why: Result<(), Status>) -> Result<u64, Status> {
    match why {
        Err(PAGE_WAIT) => Err(PAGE_WAIT),
        Err(status) if done == 0 => Err(of_buffer(status)),
        _ => Ok(done),
    }
}

/// Streams report an invalid buffer with another status than other calls do.
fn of_buffer(status: Status) -> Status {
    if status == Status::INVALID_ARGS { Status::NOT_FOUND } else { status }
}

/// Total length of all buffers.
fn total(parts: &[UserBuffer]) -> u64 {
    parts.iter().map(|part| part.len).fold(0, u64::saturating_add)
}

/// Copies `left` bytes of the buffers, from position `skip` up. `copy` gets an address, a length, and the number of
/// bytes copied before.
fn each_part(
    parts: &[UserBuffer],
    mut skip: u64,
    mut left: u64,
    mut copy: impl FnMut(u64, u64, u64) -> CopyResult,
) -> CopyResult {
    let mut done = 0;
    for part in parts {
        let before = skip.min(part.len);
        skip -= before;
        let len = (part.len - before).min(left);
        let (copied, why) = if len > 0 { copy(part.address.wrapping_add(before), done, len) } else { (0, Ok(())) };
        done += copied;
        left -= copied;
        if why.is_err() || left == 0 {
            return (done, why);
        }
    }
    (done, Ok(()))
}

impl<M: Machine> Kernel<M> {
    /// `stream_create`. `resizes`: it may resize the VMO, if that is resizable.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn stream_create(&mut self, vmo: Id<Vmo>, mode: u32, seek: u64, resizes: bool) -> Result<Id<Stream>, Status> {
        let append = mode & abi::ZX_STREAM_MODE_APPEND != 0;
        let mode = mode & (abi::ZX_STREAM_MODE_READ | abi::ZX_STREAM_MODE_WRITE);
        let id = self.create(Signals::NONE, Box::new(Stream { vmo, seek, mode, append, resizes }))?;
        self.add_ref(vmo.object());
        Ok(id)
    }

    /// Sets whether every write is an append.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn stream_set_append(&mut self, id: Id<Stream>, append: bool) -> Result<(), Status> {
        self.objects.get_mut(id)?.append = append;
        Ok(())
    }

    /// The new position for `stream_seek`, without setting it.
    ///
    /// # Errors
    /// `INVALID_ARGS`: `whence` is unknown, or the position would be negative or too large.
    pub fn stream_target(&self, id: Id<Stream>, whence: u32, offset: i64) -> Result<u64, Status> {
        let stream = self.objects.get(id)?;
        let from = match whence {
            ZX_STREAM_SEEK_ORIGIN_START => 0,
            ZX_STREAM_SEEK_ORIGIN_CURRENT => stream.seek,
            ZX_STREAM_SEEK_ORIGIN_END => self.vmo_content_size(stream.vmo)?,
            _ => return Err(Status::INVALID_ARGS),
        };
        from.checked_add_signed(offset).ok_or(Status::INVALID_ARGS)
    }

    /// Sets the position.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn stream_seek(&mut self, id: Id<Stream>, position: u64) -> Result<(), Status> {
        self.objects.get_mut(id)?.seek = position;
        Ok(())
    }

    /// One slice of a read into buffers of a program, in their order; `run` is set after the first slice. At or beyond
    /// the end there is nothing to read.
    ///
    /// # Errors
    /// Only if nothing was read: `NOT_FOUND`: the first buffer is invalid. `NO_MEMORY`. Errors of the VMO's source.
    /// [`PAGE_WAIT`].
    pub fn stream_read(
        &mut self,
        id: Id<Stream>,
        at: StreamOffset,
        aspace: Key,
        parts: &[UserBuffer],
        run: Option<Run>,
    ) -> Result<TransferStep, Status> {
        let stream = self.objects.get(id)?;
        let (named, position) = (stream.vmo, stream.seek);
        let end = self.vmo_content_size(named)?.min(self.vmo_size(named)?);
        let mut run = run.unwrap_or_else(|| {
            let offset = match at {
                StreamOffset::Position => position,
                StreamOffset::End => end,
                StreamOffset::At(offset) => offset,
            };
            // A call may name the same buffer many times: limits the length to the total memory.
            let most = self.machine.memory().1;
            Run::new(at, offset, total(parts).min(end.saturating_sub(offset)).min(most))
        });
        let (vmo, from) = self.vmo_resolve(named, run.at().min(end))?;
        let left = self.stream_bytes_per_slice(vmo, &run)?.min(end.saturating_sub(run.at()));
        let (copied, why) = each_part(parts, run.done, left, |address, done, len| {
            self.vmo_to_user(vmo, from + done, aspace, address, len)
        });
        let begins = run.done == 0;
        run.done += copied;
        if why.is_ok() && run.done < run.len && run.at() < end {
            if begins {
                self.stream_move(id, &run, run.end())?;
            }
            return Ok(TransferStep::GoesOn(run));
        }
        self.stream_over(id, &run, begins, why)
    }

    /// One slice of a write from buffers of a program, in their order; `run` is set after the first slice.
    ///
    /// # Errors
    /// Only if nothing was written: `FILE_BIG`: beyond the maximum size of a VMO. `OUT_OF_RANGE`: the end of an append
    /// overflows. `NO_SPACE`: the VMO is too small and cannot grow. `NOT_FOUND`: the first buffer is invalid.
    /// `NO_MEMORY`. Errors of the VMO's source. [`PAGE_WAIT`].
    pub fn stream_write(
        &mut self,
        id: Id<Stream>,
        at: StreamOffset,
        aspace: Key,
        parts: &[UserBuffer],
        run: Option<Run>,
    ) -> Result<TransferStep, Status> {
        let named = self.objects.get(id)?.vmo;
        let begins = run.is_none();
        let (mut run, old) = match run {
            // Step 3: another thread has cut the content off.
            Some(run) if self.vmo_content_size(named)? < run.at() => return self.stream_over(id, &run, false, Ok(())),
            Some(run) => (run, None),
            None => match self.stream_write_begins(id, at, aspace, parts)? {
                Some(StartedWrite { run, old }) => (run, old),
                None => return Ok(TransferStep::Begins),
            },
        };
        let limit = run.end().min(self.vmo_size(named)?);
        let (vmo, to) = self.vmo_resolve(named, run.at().min(limit))?;
        let left = self.stream_bytes_per_slice(vmo, &run)?.min(limit.saturating_sub(run.at()));
        let (copied, why) = each_part(parts, run.done, left, |address, done, len| {
            self.user_to_vmo(vmo, to + done, aspace, address, len)
        });
        // A call that waits for its pager starts over and needs the room: shrinking the VMO again would end the wait at
        // once.
        if let Some((size, content)) = old
            && copied == 0
            && why.is_err()
            && why != Err(PAGE_WAIT)
        {
            self.vmo_set_size(named, size)?;
            self.vmo_note_content_size(named, content)?;
        }
        run.done += copied;
        let content = self.vmo_content_size(named)?;
        if run.done > 0 && why != Err(PAGE_WAIT) {
            // Step 2.
            self.vmo_note_content_size(named, content.max(run.at()))?;
        }
        if why.is_ok() && run.done < run.len && run.at() < limit {
            if begins {
                // Step 1.
                self.stream_move(id, &run, run.end())?;
                if run.moves == Moves::End {
                    self.vmo_note_content_size(named, limit)?;
                }
            }
            return Ok(TransferStep::GoesOn(run));
        }
        self.stream_over(id, &run, begins, why)
    }

    /// Starts a write and ensures room for it. None if the rest of the bytes before it must be zeroed first.
    fn stream_write_begins(
        &mut self,
        id: Id<Stream>,
        at: StreamOffset,
        aspace: Key,
        parts: &[UserBuffer],
    ) -> Result<Option<StartedWrite>, Status> {
        let stream = self.objects.get(id)?;
        let (named, resizes) = (stream.vmo, stream.resizes);
        let (content, size) = (self.vmo_content_size(named)?, self.vmo_size(named)?);
        let offset = match at {
            StreamOffset::Position => stream.seek,
            StreamOffset::End => content,
            StreamOffset::At(offset) => offset,
        };
        let total = total(parts);
        let beyond = if at == StreamOffset::End { Status::OUT_OF_RANGE } else { Status::FILE_BIG };
        let end = offset.checked_add(total).ok_or(beyond)?;
        let grown = if end > size && total > 0 {
            match vmo::round_up(end) {
                Ok(grown) if resizes && self.objects.get(named)?.resizable => Some(grown),
                // Writes as much as there is room for.
                _ if offset < size => None,
                Ok(_) => return Err(Status::NO_SPACE),
                Err(_) => return Err(Status::FILE_BIG),
            }
        } else {
            None
        };
        // The added part of a VMO that grows is zero already.
        if total > 0 && offset > content && self.vmo_content_zero_slice(named, offset.min(size))? {
            return Ok(None);
        }
        let Some(grown) = grown else {
            return Ok(Some(StartedWrite {
                run: Run::new(at, offset, end.min(size).saturating_sub(offset)),
                old: None,
            }));
        };
        let good = self.stream_check(named, (offset, size), aspace, parts)?;
        self.vmo_set_size(named, grown)?;
        self.vmo_note_content_size(named, content)?;
        Ok(Some(StartedWrite { run: Run::new(at, offset, good), old: Some((size, content)) }))
    }

    /// Number of bytes of a run to copy in one slice. A pager-backed VMO waits for all pages of the run at once.
    fn stream_bytes_per_slice(&self, vmo: Id<Vmo>, run: &Run) -> Result<u64, Status> {
        let left = run.len.saturating_sub(run.done);
        Ok(if self.objects.get(vmo)?.source().is_some() { left } else { left.min(SLICE_COPY_BYTES) })
    }

    /// Sets the position, if the run moves it.
    fn stream_move(&mut self, id: Id<Stream>, run: &Run, to: u64) -> Result<(), Status> {
        if run.moves == Moves::Nothing { Ok(()) } else { self.stream_seek(id, to) }
    }

    /// Ends a run: moves the values that the first slice moved to where the run actually ended (step 3).
    fn stream_over(
        &mut self,
        id: Id<Stream>,
        run: &Run,
        begins: bool,
        why: Result<(), Status>,
    ) -> Result<TransferStep, Status> {
        let done = result(run.done, why);
        if !begins {
            let stream = self.objects.get(id)?;
            let (named, position) = (stream.vmo, stream.seek);
            let to = if done.is_ok() { run.at() } else { run.offset };
            if position == run.end() {
                self.stream_move(id, run, to)?;
            }
            if run.moves == Moves::End && self.vmo_content_size(named)? == run.end() {
                self.vmo_note_content_size(named, to)?;
            }
        } else if done.is_ok() {
            self.stream_move(id, run, run.at())?;
        }
        done.map(TransferStep::Over)
    }

    /// Before a VMO grows for a write: commits the pages from `offset` to its current end at `size`, and returns how
    /// many bytes of the buffers are readable, in whole buffers. With slices, each slice checks for itself.
    fn stream_check(
        &mut self,
        vmo: Id<Vmo>,
        (offset, size): (u64, u64),
        aspace: Key,
        parts: &[UserBuffer],
    ) -> Result<u64, Status> {
        let mut good = 0;
        // Memory that was never written can be read without limit, but writing it takes memory.
        let most = self.machine.memory().1;
        let (target, _) = self.vmo_resolve(vmo, 0)?;
        if total(parts) > SLICE_COPY_BYTES && self.objects.get(target)?.source().is_none() {
            return Ok(total(parts).min(most));
        }
        for part in parts {
            let len = part.len.min(most - good);
            match self.check_in(aspace, part.address, len as usize) {
                Ok(()) => good += len,
                Err(status) if good == 0 || status == PAGE_WAIT => return Err(of_buffer(status)),
                Err(_) => break,
            }
        }
        for page in offset / PAGE..size / PAGE {
            self.vmo_page(target, page, Access::Write)?;
        }
        Ok(good)
    }
}

#[cfg(test)]
impl<M: Machine> Kernel<M> {
    /// A complete read.
    pub(crate) fn stream_read_all(
        &mut self,
        id: Id<Stream>,
        at: StreamOffset,
        space: Key,
        parts: &[UserBuffer],
    ) -> Result<u64, Status> {
        self.all_slices(|k, run| k.stream_read(id, at, space, parts, run))
    }

    /// A complete write.
    pub(crate) fn stream_write_all(
        &mut self,
        id: Id<Stream>,
        at: StreamOffset,
        space: Key,
        parts: &[UserBuffer],
    ) -> Result<u64, Status> {
        self.all_slices(|k, run| k.stream_write(id, at, space, parts, run))
    }

    fn all_slices(
        &mut self,
        mut slice: impl FnMut(&mut Self, Option<Run>) -> Result<TransferStep, Status>,
    ) -> Result<u64, Status> {
        let mut run = None;
        loop {
            match slice(self, run)? {
                TransferStep::Over(done) => return Ok(done),
                TransferStep::GoesOn(begun) => run = Some(begun),
                TransferStep::Begins => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
