//! Where the records of a topic go.
//!
//! Every topic is an array of records, most of them of length one. As many whole records as fit are written; `actual`
//! is how many, `avail` how many there are. Records are written as they are made, so that no array, however long, needs
//! memory of the kernel's own, and a long one is made in portions ([`objects::core::continuation`]). What is told changes between two of
//! them, so what comes or goes meanwhile may be among it or not; what is there all the time is told once.

use abi::Status;
use objects::Kernel;
use objects::core::continuation;
use objects::core::continuation::Portion;
use objects::core::noun::Noun;
use objects::machine::Machine;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::cx::Cx;
use crate::portions::Work;
use crate::user::{In, Out};

/// The last four arguments of `object_get_info`.
#[derive(Clone, Copy)]
pub struct Sink {
    /// Where the records go.
    pub buffer: Out<u8>,
    /// Bytes there.
    pub size: usize,
    /// Where the number of records written goes.
    pub actual: Out<usize>,
    /// Where the number of records that there are goes.
    pub avail: Out<usize>,
    /// Bytes of a record that are wanted: older versions of a topic are the beginning of the newest.
    pub cut: Option<usize>,
}

impl Sink {
    /// The same for an older version of a topic, whose records are the first `bytes` bytes of the newest one's.
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

    /// Writes the counts of a topic that is done.
    fn counts<M: Machine>(&self, cx: &mut Cx<'_, M>, actual: usize, avail: usize) -> Result<(), Status> {
        cx.write_optional(self.actual, actual)?;
        cx.write_optional(self.avail, avail)
    }

    /// A topic of one record.
    ///
    /// # Errors
    /// `BUFFER_TOO_SMALL`: it does not fit; the counts are told all the same. `INVALID_ARGS`, `NO_MEMORY`.
    pub fn one<M: Machine, T: IntoBytes + Immutable>(&self, cx: &mut Cx<'_, M>, record: T) -> Result<(), Status> {
        if self.size < self.record_size::<T>() {
            self.counts(cx, 0, 1)?;
            return Err(Status::BUFFER_TOO_SMALL);
        }
        self.put(cx, 0, &record)?;
        self.counts(cx, 1, 1)
    }

    /// A topic of many records, of which `list` says what is at a place. The call works on what is listed, and goes on from the
    /// place where it stopped.
    ///
    /// Writing a record can commit pages of the caller's memory but changes nothing that a place may point into.
    ///
    /// # Errors
    /// Those of `list`; `INVALID_ARGS`, `NO_MEMORY`; [`GOES_ON`](objects::core::continuation::GOES_ON).
    pub fn many<M: Machine, N: Noun, L: Lists<M>>(
        &self,
        cx: &mut Cx<'_, M>,
        mut work: Work<N>,
        list: &L,
    ) -> Result<(), Status> {
        let room = self.size / self.record_size::<L::Record>().max(1);
        let mut place = L::Place::of(&work.kept);
        // One more than have been come upon.
        let mut found = work.done.max(1) as usize - 1;
        let mut portion = cx.kernel.portion();
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
            cx.kernel.worked(L::WORK);
            if cx.kernel.portion_over(&mut portion) {
                work.kept = place.words();
                return cx.worked(&work, Some(found as u64 + 1));
            }
        }
    }

    /// A topic of one record that is summed up over many things, in the place where it goes to: so it may be of any size, and
    /// be made in portions. Who changes it there meanwhile is told what is wrong, and is the only one. `add` adds what is at a place and
    /// moves the place on, and says whether there was anything.
    ///
    /// # Errors
    /// As [`Sink::one`]; those of `add`; [`GOES_ON`](objects::core::continuation::GOES_ON).
    pub fn sum<M: Machine, N: Noun, T: FromBytes + IntoBytes + Immutable>(
        &self,
        cx: &mut Cx<'_, M>,
        work: &Work<N>,
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
        let mut portion = Portion::default();
        while add(cx.kernel, place, &mut record)? {
            place += 1;
            if cx.kernel.portion_over(&mut portion) {
                self.put(cx, 0, &record)?;
                return cx.worked(work, Some(place));
            }
        }
        self.put(cx, 0, &record)
    }
}

/// What a step through a list comes upon.
pub enum Step<T> {
    /// This.
    Record(T),
    /// Nothing that is told.
    Nothing,
    /// Its end.
    End,
}

/// A place in a list, which is kept while the call stands still.
pub trait Kept {
    /// The place that was kept; of zeroes the first.
    fn of(words: &continuation::Kept) -> Self;

    /// What is to be kept of it.
    fn words(&self) -> continuation::Kept;
}

/// In a table.
impl Kept for usize {
    fn of(words: &continuation::Kept) -> usize {
        words[0] as usize
    }

    fn words(&self) -> continuation::Kept {
        [*self as u64, 0, 0, 0, 0, 0, 0]
    }
}

/// A list of which a topic tells.
pub trait Lists<M: Machine> {
    /// Where in it.
    type Place: Kept;
    /// What is told.
    type Record: IntoBytes + Immutable;
    /// How much a step is, in ends of small objects.
    const WORK: u32;

    /// Takes a step, and moves the place on.
    ///
    /// # Errors
    /// What is told of is there no more.
    fn next(&self, kernel: &Kernel<M>, place: &mut Self::Place) -> Result<Step<Self::Record>, Status>;

    /// How many there are, where that is known without going through them.
    fn len(&self, kernel: &Kernel<M>) -> Option<usize>;
}
