//! Streams: a VMO seen as a file, with a position that reads and writes move.
//!
//! What a stream reads ends with the content of the VMO (`content_size`), which all streams over it share. A write
//! beyond the end makes the content longer, and the VMO too, if it can be resized and the stream was made through a
//! handle that may. Bytes between the old end and what is written become zeroes.
//!
//! A read or write that may have to be made again from its start, because a page must be waited for, changes neither
//! position nor sizes before it has all pages. What it has copied by then, it copies again.

use alloc::boxed::Box;

use abi::{Signals, Status, ZX_STREAM_SEEK_ORIGIN_CURRENT, ZX_STREAM_SEEK_ORIGIN_END, ZX_STREAM_SEEK_ORIGIN_START};

use crate::kernel::Kernel;
use crate::machine::{Machine, PAGE};
use crate::object::{Body, Id};
use crate::slab::Key;
use crate::vmo::{self, Access, PAGE_WAIT, Vmo};

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

    /// Reads into parts of a program's memory, in their order; tells how many bytes. At or beyond the end there are
    /// none.
    ///
    /// # Errors
    /// Only if nothing was read: `NOT_FOUND`: the first part is no memory of the program's. `NO_MEMORY`. Those of the
    /// VMO's source. [`PAGE_WAIT`].
    pub fn stream_read(&mut self, id: Id<Stream>, at: Where, aspace: Key, parts: &[Part]) -> Result<u64, Status> {
        let stream = self.objects.get(id)?;
        let end = self.vmo_content_size(stream.vmo)?.min(self.vmo_size(stream.vmo)?);
        let offset = match at {
            Where::Position => stream.seek,
            Where::End => end,
            Where::At(offset) => offset,
        };
        let (vmo, from) = self.vmo_resolve(stream.vmo, offset.min(end))?;
        // The same memory may be read into many times: not more at once than there is memory.
        let most = self.machine.memory().1;
        let (mut done, mut left, mut why) = (0, end.saturating_sub(offset).min(most), Ok(()));
        for part in parts {
            let copied;
            (copied, why) = self.vmo_to_user(vmo, from + done, aspace, part.address, part.len.min(left));
            done += copied;
            left -= copied;
            if why.is_err() {
                break;
            }
        }
        let done = result(done, why)?;
        if at == Where::Position {
            self.stream_seek(id, offset + done)?;
        }
        Ok(done)
    }

    /// Writes parts of a program's memory, in their order; tells how many bytes.
    ///
    /// # Errors
    /// Only if nothing was written: `FILE_BIG`: no VMO is so large. `NO_SPACE`: the VMO is not, and cannot grow.
    /// `NOT_FOUND`: the first part is no memory of the program's. `NO_MEMORY`. Those of the VMO's source.
    /// [`PAGE_WAIT`].
    pub fn stream_write(&mut self, id: Id<Stream>, at: Where, aspace: Key, parts: &[Part]) -> Result<u64, Status> {
        let stream = self.objects.get(id)?;
        let (named, resizes) = (stream.vmo, stream.resizes);
        let (content, size) = (self.vmo_content_size(named)?, self.vmo_size(named)?);
        let offset = match at {
            Where::Position => stream.seek,
            Where::End => content,
            Where::At(offset) => offset,
        };
        let total: u64 = parts.iter().map(|part| part.len).sum();
        let end = offset.checked_add(total).ok_or(Status::FILE_BIG)?;
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
        if total > 0 && offset > content {
            // What a larger VMO has beyond is zero already.
            self.vmo_zero(named, content, offset.min(size).saturating_sub(content))?;
        }
        let mut limit = end.min(size);
        if let Some(grown) = grown {
            limit = offset + self.stream_check(named, (offset, size), aspace, parts)?;
            self.vmo_set_size(named, grown)?;
            self.vmo_note_content_size(named, content)?;
        }
        let (mut done, mut left, mut why) = (0, limit.saturating_sub(offset), Ok(()));
        let (vmo, to) = self.vmo_resolve(named, offset.min(limit))?;
        for part in parts {
            let copied;
            (copied, why) = self.user_to_vmo(vmo, to + done, aspace, part.address, part.len.min(left));
            done += copied;
            left -= copied;
            if why.is_err() {
                break;
            }
        }
        // What waits for its pager is made again, and needs the room: taken back, it would end the wait at once.
        if done == 0 && why.is_err() && why != Err(PAGE_WAIT) && grown.is_some() {
            self.vmo_set_size(named, size)?;
            self.vmo_note_content_size(named, content)?;
        }
        let done = result(done, why)?;
        if done > 0 {
            self.vmo_note_content_size(named, content.max(offset + done))?;
        }
        if !matches!(at, Where::At(_)) {
            self.stream_seek(id, offset + done)?;
        }
        Ok(done)
    }

    /// Before a VMO grows for a write: gets the pages from `offset` to its end at `size`, and sees how many bytes of the
    /// parts can be had, by whole parts.
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
        for part in parts {
            let len = part.len.min(most - good);
            match self.check_in(aspace, part.address, len as usize) {
                Ok(()) => good += len,
                Err(status) if good == 0 || status == PAGE_WAIT => return Err(of_buffer(status)),
                Err(_) => break,
            }
        }
        let (vmo, _) = self.vmo_resolve(vmo, 0)?;
        for page in offset / PAGE..size / PAGE {
            self.vmo_page(vmo, page, Access::Write)?;
        }
        Ok(good)
    }

    pub(crate) fn stream_end(&mut self, stream: Stream) {
        self.drop_ref(stream.vmo.object());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeMachine;
    use crate::machine::{Perm, USER_BASE};
    use crate::name::Name;
    use crate::vmar::{MapRequest, Place};
    use abi::{ZX_STREAM_MODE_READ, ZX_STREAM_MODE_WRITE};
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    const PAGES: u64 = 4;

    /// What a program may do, in bytes up to some pages.
    #[derive(Clone, Debug)]
    enum Op {
        Read(Option<u64>, Vec<u64>),
        Write(Option<u64>, bool, Vec<u64>, u8),
        Seek(u32, i64),
        Content(u64),
    }

    fn op() -> impl Strategy<Value = Op> {
        let place = || 0..5 * PAGE;
        let lens = || proptest::collection::vec(0..PAGE + 100, 0..4);
        prop_oneof![
            (proptest::option::of(place()), lens()).prop_map(|(at, lens)| Op::Read(at, lens)),
            (proptest::option::of(place()), any::<bool>(), lens(), any::<u8>())
                .prop_map(|(at, end, lens, fill)| Op::Write(at, end, lens, fill)),
            (0u32..3, -9000i64..9000).prop_map(|(whence, offset)| Op::Seek(whence, offset)),
            place().prop_map(Op::Content),
        ]
    }

    proptest! {
        /// Against a vector of bytes that is the content, and a position.
        #[test]
        fn behaves_as_a_file(resizable: bool, ops in proptest::collection::vec(op(), 1..40)) {
            let mut kernel = Kernel::new(FakeMachine::new(1000)).unwrap();
            let job = kernel.root_job().unwrap();
            let (process, root) = kernel.process_create(job, Name::default()).unwrap();
            let buffer = kernel.vmo_create(PAGES * PAGE, false).unwrap();
            let rw = Perm { read: true, write: true, execute: false };
            let request = MapRequest { vmo: buffer, offset: 0, len: PAGES * PAGE, perm: rw, max: rw, fixed: false };
            kernel.vmar_map(root, Place::At(0), request).unwrap();
            let aspace = kernel.objects.get(process).unwrap().aspace.unwrap();
            let vmo = kernel.vmo_create(2 * PAGE, resizable).unwrap();
            let both = ZX_STREAM_MODE_READ | ZX_STREAM_MODE_WRITE;
            let stream = kernel.stream_create(vmo, both, 0, true).unwrap();
            let (mut content, mut position) = (vec![0u8; 2 * PAGE as usize], 0u64);
            let parts = |lens: &[u64]| {
                let mut address = USER_BASE;
                let part = |&len: &u64| {
                    address += len;
                    Part { address: address - len, len }
                };
                lens.iter().map(part).collect::<Vec<_>>()
            };
            for op in ops {
                match op {
                    Op::Read(at, lens) => {
                        let total: u64 = lens.iter().sum();
                        let place = at.map_or(Where::Position, Where::At);
                        let from = at.unwrap_or(position);
                        let expected = total.min((content.len() as u64).saturating_sub(from));
                        prop_assert_eq!(kernel.stream_read(stream, place, aspace, &parts(&lens)), Ok(expected));
                        let mut seen = vec![0; expected as usize];
                        kernel.copy_in(aspace, USER_BASE, &mut seen).unwrap();
                        let from = (from as usize).min(content.len());
                        prop_assert_eq!(&seen, &content[from..from + expected as usize]);
                        if at.is_none() {
                            position += expected;
                        }
                    }
                    Op::Write(at, end, lens, fill) => {
                        let total: u64 = lens.iter().sum();
                        let data: Vec<u8> = (0..total).map(|i| fill.wrapping_add(i as u8)).collect();
                        kernel.copy_out(aspace, USER_BASE, &data).unwrap();
                        let place = match at {
                            Some(at) => Where::At(at),
                            None if end => Where::End,
                            None => Where::Position,
                        };
                        let from = match place {
                            Where::At(at) => at,
                            Where::End => content.len() as u64,
                            Where::Position => position,
                        };
                        let size = kernel.objects.get(vmo).unwrap().size;
                        let fits = if resizable { total } else { total.min(size.saturating_sub(from)) };
                        let wrote = kernel.stream_write(stream, place, aspace, &parts(&lens));
                        if fits == 0 && total > 0 {
                            prop_assert_eq!(wrote, Err(Status::NO_SPACE));
                            continue;
                        }
                        prop_assert_eq!(wrote, Ok(fits));
                        let (from, fits) = (from as usize, fits as usize);
                        if fits > 0 {
                            content.resize(content.len().max(from + fits), 0);
                            content[from..from + fits].copy_from_slice(&data[..fits]);
                        }
                        if at.is_none() {
                            position = (from + fits) as u64;
                        }
                    }
                    Op::Seek(whence, offset) => {
                        let base = [0, position, content.len() as u64][whence as usize];
                        let expected = base.checked_add_signed(offset).ok_or(Status::INVALID_ARGS);
                        let target = kernel.stream_target(stream, whence, offset);
                        prop_assert_eq!(target, expected);
                        if let Ok(target) = target {
                            kernel.stream_seek(stream, target).unwrap();
                            position = target;
                        }
                    }
                    Op::Content(size) => {
                        if kernel.vmo_set_content_size(vmo, size).is_ok() {
                            content.resize(size as usize, 0);
                        }
                    }
                }
                let (s, v) = (kernel.objects.get(stream).unwrap(), kernel.objects.get(vmo).unwrap());
                prop_assert_eq!((s.seek, v.content_size), (position, content.len() as u64));
                prop_assert!(v.content_size <= v.size);
            }
            kernel.doom(stream.object());
            kernel.reap();
            prop_assert!(kernel.objects.get(vmo).is_err(), "the stream let go of its VMO");
        }
    }
}
