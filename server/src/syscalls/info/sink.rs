//! Where the records of a topic go.
//!
//! Every topic is an array of records, most of them of length one. As many whole records as fit are written; `actual`
//! is how many, `avail` how many there are. Records are written as they are made, so that no array, however long, needs
//! memory of the kernel's own.

use abi::Status;
use objects::Kernel;
use objects::machine::Machine;
use zerocopy::{Immutable, IntoBytes};

use crate::cx::Cx;
use crate::user::Out;

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

    /// A topic of many records. `next` makes the one at a position and moves the position on. Where `avail` is not
    /// known beforehand, the records that do not fit are counted.
    ///
    /// Writing a record can commit pages of the caller's memory but changes no list that a position may point into.
    ///
    /// # Errors
    /// Those of `next`; `INVALID_ARGS`, `NO_MEMORY`.
    pub fn many<M: Machine, P, T: IntoBytes + Immutable>(
        &self,
        cx: &mut Cx<'_, M>,
        avail: Option<usize>,
        mut position: P,
        next: impl Fn(&Kernel<M>, &mut P) -> Result<Option<T>, Status>,
    ) -> Result<(), Status> {
        let room = self.size / self.record_size::<T>().max(1);
        let mut actual = 0;
        while actual < room {
            let Some(record) = next(cx.kernel, &mut position)? else { break };
            self.put(cx, actual, &record)?;
            actual += 1;
        }
        let avail = match avail {
            Some(avail) => avail,
            None => {
                let mut avail = actual;
                while actual == room && next(cx.kernel, &mut position)?.is_some() {
                    avail += 1;
                }
                avail
            }
        };
        self.counts(cx, actual, avail)
    }
}
