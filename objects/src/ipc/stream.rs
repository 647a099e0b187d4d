//! Streams: a VMO seen as a file, with a position that reads and writes move.
//!
//! What a stream reads ends with the content of the VMO (`content_size`), which all streams over it share. A write
//! beyond the end makes the content longer, and the VMO too, if it can be resized and the stream was made through a
//! handle that may. Bytes between the old end and what is written become zeroes.
//!
//! A read or write that may have to be made again from its start, because a page must be waited for, changes neither
//! position nor sizes before it has all pages. What it has copied by then, it copies again.
//!
//! One that is long is made in portions ([`crate::core::continuation`]), between which others may use the same stream or VMO. So
//! that each byte is read by one of those who read at the position, and none is written over by another who writes there
//! or at the end:
//! 1. The first portion settles the [`Run`]: where it begins and how long it is. If that is not all, the position, and at
//!    the end the content's end too, are moved behind it at once.
//! 2. Each portion copies as much as goes. What has been written is content from then on.
//! 3. The run ends early where memory is wanting, or where others have cut off the content up to where it has come. Then
//!    what was moved in 1 is moved back, if nobody has moved it since.
//!
//! What is to become zeroes before a write is zeroed before 1, in portions too: the content grows by them.

use alloc::boxed::Box;

use abi::{Signals, Status, ZX_STREAM_SEEK_ORIGIN_CURRENT, ZX_STREAM_SEEK_ORIGIN_END, ZX_STREAM_SEEK_ORIGIN_START};

use crate::containers::slab::Key;
use crate::core::continuation::COPIES;
use crate::core::continuation::PAGE_WAIT;
use crate::core::noun::Noun;
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::kernel::nouns::Body;
use crate::machine::Access;
use crate::machine::{Machine, PAGE};
use crate::memory::copy::Copied;
use crate::memory::vmo::{self, Vmo};

/// A stream.
pub struct Stream {
    /// What it reads and writes.
    pub vmo: Id<Vmo>,
    /// The position.
    pub seek: u64,
    /// What it was made for: `ZX_STREAM_MODE_READ`, `ZX_STREAM_MODE_WRITE`.
    pub mode: u32,
    /// Every write goes to the end.
    pub append: bool,
    /// It may resize the VMO.
    resizes: bool,
}

impl Noun for Stream {
    const TYPE: u32 = abi::ZX_OBJ_TYPE_STREAM;
}

/// A piece of a program's memory, as it says.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Where it begins.
    pub address: u64,
    /// Its bytes. All parts of a call have fewer than 2^64 together.
    pub len: u64,
}

/// Where a read or write takes place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Where {
    /// At the position, which moves.
    Position,
    /// At the end of the content, to where the position moves first.
    End,
    /// At an offset; the position stays.
    At(u64),
}

/// A read or write of more than goes in one portion, as it was settled when it began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// What it moves.
    pub moves: Moves,
    /// Where in the VMO it begins.
    pub offset: u64,
    /// How many bytes it is about.
    pub len: u64,
    /// How many are copied.
    pub done: u64,
}

/// What a run has moved behind itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moves {
    /// Nothing.
    Nothing,
    /// The stream's position.
    Position,
    /// The position and the content's end.
    End,
}

/// How far a read or write has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carried {
    /// It is over: so many bytes.
    Over(u64),
    /// It goes on.
    GoesOn(Run),
    /// It begins when the rest of what lies before it is zeroed.
    Begins,
}

/// A write that begins.
struct Begun {
    run: Run,
    /// The sizes of the VMO and of its content, if the VMO has grown for it.
    old: Option<(u64, u64)>,
}

impl Run {
    fn new(at: Where, offset: u64, len: u64) -> Self {
        let moves = match at {
            Where::Position => Moves::Position,
            Where::End => Moves::End,
            Where::At(_) => Moves::Nothing,
        };
        Run { moves, offset, len, done: 0 }
    }

    /// Where it ends. No VMO reaches further than this type.
    fn end(&self) -> u64 {
        self.offset.saturating_add(self.len)
    }

    /// Where it has come to.
    fn at(&self) -> u64 {
        self.offset.saturating_add(self.done)
    }
}

/// What a copy that stopped early means to the caller: bytes that were copied count, unless the call is made again.
fn result(done: u64, why: Result<(), Status>) -> Result<u64, Status> {
    match why {
        Err(PAGE_WAIT) => Err(PAGE_WAIT),
        Err(status) if done == 0 => Err(of_buffer(status)),
        _ => Ok(done),
    }
}

/// A buffer that is no memory of the caller's has another status in streams than elsewhere.
fn of_buffer(status: Status) -> Status {
    if status == Status::INVALID_ARGS { Status::NOT_FOUND } else { status }
}

/// The bytes of all parts.
fn total(parts: &[Part]) -> u64 {
    parts.iter().map(|part| part.len).fold(0, u64::saturating_add)
}

/// Copies `left` bytes of parts, from `skip` on, by what copies so many bytes at an address, which are so many bytes from
/// the first.
fn each_part(parts: &[Part], mut skip: u64, mut left: u64, mut copy: impl FnMut(u64, u64, u64) -> Copied) -> Copied {
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
    /// `stream_create`. `resizes`: it may resize the VMO, if that can be.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn stream_create(&mut self, vmo: Id<Vmo>, mode: u32, seek: u64, resizes: bool) -> Result<Id<Stream>, Status> {
        let append = mode & abi::ZX_STREAM_MODE_APPEND != 0;
        let mode = mode & (abi::ZX_STREAM_MODE_READ | abi::ZX_STREAM_MODE_WRITE);
        let id = self.create(Signals::NONE, Body::Stream(Box::new(Stream { vmo, seek, mode, append, resizes })))?;
        self.add_ref(vmo.object());
        Ok(id)
    }

    /// Sets whether every write goes to the end.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn stream_set_append(&mut self, id: Id<Stream>, append: bool) -> Result<(), Status> {
        self.objects.get_mut(id)?.append = append;
        Ok(())
    }

    /// `stream_seek`, but for the change: where the position would be.
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

    /// Moves the position.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn stream_seek(&mut self, id: Id<Stream>, position: u64) -> Result<(), Status> {
        self.objects.get_mut(id)?.seek = position;
        Ok(())
    }

    /// Reads into parts of a program's memory, in their order, or a portion of that; `run` if it has begun. At or beyond
    /// the end there is nothing.
    ///
    /// # Errors
    /// Only if nothing was read: `NOT_FOUND`: the first part is no memory of the program's. `NO_MEMORY`. Those of the
    /// VMO's source. [`PAGE_WAIT`].
    pub fn stream_read(
        &mut self,
        id: Id<Stream>,
        at: Where,
        aspace: Key,
        parts: &[Part],
        run: Option<Run>,
    ) -> Result<Carried, Status> {
        let stream = self.objects.get(id)?;
        let (named, position) = (stream.vmo, stream.seek);
        let end = self.vmo_content_size(named)?.min(self.vmo_size(named)?);
        let mut run = run.unwrap_or_else(|| {
            let offset = match at {
                Where::Position => position,
                Where::End => end,
                Where::At(offset) => offset,
            };
            // The same memory may be read into many times: not more at once than there is memory.
            let most = self.machine.memory().1;
            Run::new(at, offset, total(parts).min(end.saturating_sub(offset)).min(most))
        });
        let (vmo, from) = self.vmo_resolve(named, run.at().min(end))?;
        let left = self.stream_portion(vmo, &run)?.min(end.saturating_sub(run.at()));
        let (copied, why) = each_part(parts, run.done, left, |address, done, len| {
            self.vmo_to_user(vmo, from + done, aspace, address, len)
        });
        let begins = run.done == 0;
        run.done += copied;
        if why.is_ok() && run.done < run.len && run.at() < end {
            if begins {
                self.stream_move(id, &run, run.end())?;
            }
            return Ok(Carried::GoesOn(run));
        }
        self.stream_over(id, &run, begins, why)
    }

    /// Writes parts of a program's memory, in their order, or a portion of that; `run` if it has begun.
    ///
    /// # Errors
    /// Only if nothing was written: `FILE_BIG`: no VMO is so large. `OUT_OF_RANGE`: nor is there a number for the end of
    /// what is appended. `NO_SPACE`: the VMO is not so large, and cannot grow.
    /// `NOT_FOUND`: the first part is no memory of the program's. `NO_MEMORY`. Those of the VMO's source.
    /// [`PAGE_WAIT`].
    pub fn stream_write(
        &mut self,
        id: Id<Stream>,
        at: Where,
        aspace: Key,
        parts: &[Part],
        run: Option<Run>,
    ) -> Result<Carried, Status> {
        let named = self.objects.get(id)?.vmo;
        let begins = run.is_none();
        let (mut run, old) = match run {
            // Step 3: others have cut it off.
            Some(run) if self.vmo_content_size(named)? < run.at() => return self.stream_over(id, &run, false, Ok(())),
            Some(run) => (run, None),
            None => match self.stream_write_begins(id, at, aspace, parts)? {
                Some(Begun { run, old }) => (run, old),
                None => return Ok(Carried::Begins),
            },
        };
        let limit = run.end().min(self.vmo_size(named)?);
        let (vmo, to) = self.vmo_resolve(named, run.at().min(limit))?;
        let left = self.stream_portion(vmo, &run)?.min(limit.saturating_sub(run.at()));
        let (copied, why) = each_part(parts, run.done, left, |address, done, len| {
            self.user_to_vmo(vmo, to + done, aspace, address, len)
        });
        // What waits for its pager is made again, and needs the room: taken back, it would end the wait at once.
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
            return Ok(Carried::GoesOn(run));
        }
        self.stream_over(id, &run, begins, why)
    }

    /// Settles a write, and sees to it that there is room. None if the rest of what lies before it is to be zeroed first.
    fn stream_write_begins(
        &mut self,
        id: Id<Stream>,
        at: Where,
        aspace: Key,
        parts: &[Part],
    ) -> Result<Option<Begun>, Status> {
        let stream = self.objects.get(id)?;
        let (named, resizes) = (stream.vmo, stream.resizes);
        let (content, size) = (self.vmo_content_size(named)?, self.vmo_size(named)?);
        let offset = match at {
            Where::Position => stream.seek,
            Where::End => content,
            Where::At(offset) => offset,
        };
        let total = total(parts);
        let beyond = if at == Where::End { Status::OUT_OF_RANGE } else { Status::FILE_BIG };
        let end = offset.checked_add(total).ok_or(beyond)?;
        let grown = if end > size && total > 0 {
            match vmo::round_up(end) {
                Ok(grown) if resizes && self.objects.get(named)?.resizable => Some(grown),
                // What there is room for is written.
                _ if offset < size => None,
                Ok(_) => return Err(Status::NO_SPACE),
                Err(_) => return Err(Status::FILE_BIG),
            }
        } else {
            None
        };
        // What a larger VMO has beyond is zero already.
        if total > 0 && offset > content && self.vmo_content_zero_portion(named, offset.min(size))? {
            return Ok(None);
        }
        let Some(grown) = grown else {
            return Ok(Some(Begun { run: Run::new(at, offset, end.min(size).saturating_sub(offset)), old: None }));
        };
        let good = self.stream_check(named, (offset, size), aspace, parts)?;
        self.vmo_set_size(named, grown)?;
        self.vmo_note_content_size(named, content)?;
        Ok(Some(Begun { run: Run::new(at, offset, good), old: Some((size, content)) }))
    }

    /// Bytes of a run that are copied at once. What waits for its source's pages waits for all of them.
    fn stream_portion(&self, vmo: Id<Vmo>, run: &Run) -> Result<u64, Status> {
        let left = run.len.saturating_sub(run.done);
        Ok(if self.objects.get(vmo)?.source().is_some() { left } else { left.min(COPIES) })
    }

    /// Moves the position, if that is what a run does.
    fn stream_move(&mut self, id: Id<Stream>, run: &Run, to: u64) -> Result<(), Status> {
        if run.moves == Moves::Nothing { Ok(()) } else { self.stream_seek(id, to) }
    }

    /// The end of a run. What the first portion moved is moved to where the run has come, or back to be moved again
    /// (step 3).
    fn stream_over(
        &mut self,
        id: Id<Stream>,
        run: &Run,
        begins: bool,
        why: Result<(), Status>,
    ) -> Result<Carried, Status> {
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
        done.map(Carried::Over)
    }

    /// Before a VMO grows for a write: gets the pages from `offset` to its end at `size`, and sees how many bytes of the
    /// parts can be had, by whole parts. Of what is made in portions, each sees for itself.
    fn stream_check(
        &mut self,
        vmo: Id<Vmo>,
        (offset, size): (u64, u64),
        aspace: Key,
        parts: &[Part],
    ) -> Result<u64, Status> {
        let mut good = 0;
        // Memory that nobody has written has no end, but what is written takes some.
        let most = self.machine.memory().1;
        let (target, _) = self.vmo_resolve(vmo, 0)?;
        if total(parts) > COPIES && self.objects.get(target)?.source().is_none() {
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

    pub(crate) fn stream_end(&mut self, stream: Stream) {
        self.drop_ref(stream.vmo.object());
    }
}

#[cfg(test)]
impl<M: Machine> Kernel<M> {
    /// A whole read.
    pub(crate) fn stream_read_all(
        &mut self,
        id: Id<Stream>,
        at: Where,
        space: Key,
        parts: &[Part],
    ) -> Result<u64, Status> {
        self.all_portions(|k, run| k.stream_read(id, at, space, parts, run))
    }

    /// A whole write.
    pub(crate) fn stream_write_all(
        &mut self,
        id: Id<Stream>,
        at: Where,
        space: Key,
        parts: &[Part],
    ) -> Result<u64, Status> {
        self.all_portions(|k, run| k.stream_write(id, at, space, parts, run))
    }

    fn all_portions(
        &mut self,
        mut portion: impl FnMut(&mut Self, Option<Run>) -> Result<Carried, Status>,
    ) -> Result<u64, Status> {
        let mut run = None;
        loop {
            match portion(self, run)? {
                Carried::Over(done) => return Ok(done),
                Carried::GoesOn(begun) => run = Some(begun),
                Carried::Begins => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
