//! Writes the records of a topic.
//!
//! Every topic is an array of records; most arrays have length one. As many whole records as fit are written; `actual`
//! is their number, `avail` the number of records that exist. Records are written as they are made, so no array,
//! however long, needs memory of the server, and a long array is made in slices ([`objects::core::continuation`]). The
//! listed objects change between two slices: an entry that appears or disappears meanwhile may be listed or not; an
//! entry that exists all the time is listed once.

use abi::Status;
use objects::Kernel;
use objects::core::continuation;
use objects::core::continuation::SliceTimer;
use objects::core::noun::Noun;
use objects::machine::Machine;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::cx::Cx;
use crate::long_call::SlicedCall;
use crate::user::{In, Out};

/// The last four arguments of `object_get_info`.
#[derive(Clone, Copy)]
pub struct Sink {
    /// Destination of the records.
    pub buffer: Out<u8>,
    /// Size of the buffer, in bytes.
    pub size: usize,
    /// Destination of the number of records written.
    pub actual: Out<usize>,
    /// Destination of the number of records that exist.
    pub avail: Out<usize>,
    /// Number of bytes of each record that are written: an older version of a topic is the beginning of the newest.
    pub cut: Option<usize>,
}

impl Sink {
    /// For an older version of a topic, whose records are the first `bytes` bytes of the newest version's.
    pub fn cut(self, bytes: usize) -> Self {
        Sink { cut: Some(bytes), ..self }
    }

    fn record_size<T>(&self) -> usize {
        self.cut.unwrap_or(size_of::<T>())
    }

    fn put<M: Machine, T: IntoBytes + Immutable>(
        &self,
        cx: &mut Cx<'_, M>,
        n: usize,
        record: &T,
    ) -> Result<(), Status> {
        let size = self.record_size::<T>();
        let bytes = record.as_bytes().get(..size).ok_or(Status::INTERNAL)?;
        let offset = n.checked_mul(size).ok_or(Status::INVALID_ARGS)?;
        cx.write_bytes(self.buffer.nth(offset), bytes)
    }

    /// Writes the counts of a finished topic.
    fn counts<M: Machine>(&self, cx: &mut Cx<'_, M>, actual: usize, avail: usize) -> Result<(), Status> {
        cx.write_optional(self.actual, actual)?;
        cx.write_optional(self.avail, avail)
    }

    /// Writes a topic of one record.
    ///
    /// # Errors
    /// `BUFFER_TOO_SMALL`: it does not fit; the counts are written nevertheless. `INVALID_ARGS`, `NO_MEMORY`.
    pub fn one<M: Machine, T: IntoBytes + Immutable>(&self, cx: &mut Cx<'_, M>, record: T) -> Result<(), Status> {
        if self.size < self.record_size::<T>() {
            self.counts(cx, 0, 1)?;
            return Err(Status::BUFFER_TOO_SMALL);
        }
        self.put(cx, 0, &record)?;
        self.counts(cx, 1, 1)
    }

    /// Writes a topic of few records.
    ///
    /// # Errors
    /// `INVALID_ARGS`, `NO_MEMORY`.
    pub fn array<M: Machine, T: IntoBytes + Immutable>(&self, cx: &mut Cx<'_, M>, records: &[T]) -> Result<(), Status> {
        let room = self.size / self.record_size::<T>().max(1);
        for (n, record) in records.iter().take(room).enumerate() {
            self.put(cx, n, record)?;
        }
        self.counts(cx, records.len().min(room), records.len())
    }

    /// Writes a topic of many records. `list` returns the record at a place. The call works on the listed object, and
    /// continues at the place where it stopped.
    ///
    /// Writing a record can commit pages of the caller's memory but does not change anything that a place may point
    /// into.
    ///
    /// # Errors
    /// Those of `list`; `INVALID_ARGS`, `NO_MEMORY`; [`CALL_CONTINUES`](objects::core::continuation::CALL_CONTINUES).
    pub fn many<M: Machine, N: Noun, L: ReportedList<M>>(
        &self,
        cx: &mut Cx<'_, M>,
        mut work: SlicedCall<N>,
        list: &L,
    ) -> Result<(), Status> {
        let room = self.size / self.record_size::<L::Record>().max(1);
        let mut place = L::Position::of(&work.state);
        // The progress is one more than the number of records found.
        let mut found = work.done.max(1) as usize - 1;
        let mut slice = cx.kernel.slice_begin();
        loop {
            let full = found >= room;
            if full && let Some(avail) = list.len(cx.kernel) {
                return self.counts(cx, room, avail.max(room));
            }
            match list.next(cx.kernel, &mut place)? {
                Step::Record(record) => {
                    if !full {
                        self.put(cx, found, &record)?;
                    }
                    found += 1;
                }
                Step::Nothing => {}
                Step::End => return self.counts(cx, found.min(room), found),
            }
            cx.kernel.slice_add_work(L::WORK);
            if cx.kernel.slice_over(&mut slice) {
                work.state = place.words();
                return cx.end_slice(&work, Some(found as u64 + 1));
            }
        }
    }

    /// Writes a topic of one record that is a sum over many entries. It is summed up in the caller's buffer, so it may
    /// have any size and be made in slices. A program that changes the buffer meanwhile harms only itself. `add` adds
    /// the entry at a place and returns whether there was one.
    ///
    /// # Errors
    /// As [`Sink::one`]; those of `add`; [`CALL_CONTINUES`](objects::core::continuation::CALL_CONTINUES).
    pub fn sum<M: Machine, N: Noun, T: FromBytes + IntoBytes + Immutable>(
        &self,
        cx: &mut Cx<'_, M>,
        work: &SlicedCall<N>,
        add: impl Fn(&Kernel<M>, u64, &mut T) -> Result<bool, Status>,
    ) -> Result<(), Status> {
        let mut record = T::new_zeroed();
        if work.done == 0 {
            self.one(cx, record)?;
            record = T::new_zeroed();
        } else {
            record = cx.read(In::new(self.buffer.0))?;
        }
        let mut place = work.done;
        let mut slice = SliceTimer::default();
        while add(cx.kernel, place, &mut record)? {
            place += 1;
            if cx.kernel.slice_over(&mut slice) {
                self.put(cx, 0, &record)?;
                return cx.end_slice(work, Some(place));
            }
        }
        self.put(cx, 0, &record)
    }
}

/// The result of one step through a list.
pub enum Step<T> {
    /// A record.
    Record(T),
    /// No record at this place.
    Nothing,
    /// The end of the list.
    End,
}

/// A place in a list, which is saved between slices.
pub trait ListPosition {
    /// Restores a saved place; zeroes give the first place.
    fn of(words: &continuation::ContinuationState) -> Self;

    /// The place in the form in which it is saved.
    fn words(&self) -> continuation::ContinuationState;
}

/// An index into a table.
impl ListPosition for usize {
    fn of(words: &continuation::ContinuationState) -> usize {
        words[0] as usize
    }

    fn words(&self) -> continuation::ContinuationState {
        [*self as u64, 0, 0, 0, 0, 0, 0]
    }
}

/// A list that a topic reports.
pub trait ReportedList<M: Machine> {
    /// A place in the list.
    type Position: ListPosition;
    /// The record of an entry.
    type Record: IntoBytes + Immutable;
    /// The cost of a step, in destructions of small objects.
    const WORK: u32;

    /// Takes a step, and moves the place on.
    ///
    /// # Errors
    /// The listed object no longer exists.
    fn next(&self, kernel: &Kernel<M>, place: &mut Self::Position) -> Result<Step<Self::Record>, Status>;

    /// The number of entries, if it is known without a walk.
    fn len(&self, kernel: &Kernel<M>) -> Option<usize>;
}
