//! Where something goes that may go anywhere in a VMAR.
//!
//! Addresses are drawn by lot, in two steps that keep page tables few:
//!
//! - Each VMAR draws a *start* in its first quarter when it is made: as many bits that nobody can foresee as the logarithm
//!   of its pages, less two. For the root of an address space that is 33.
//! - Each mapping or VMAR made in it goes to the first place where it fits from a point on that is drawn among the 256
//!   pages (or multiples of its alignment) above the lowest free place: 8 bits, fewer where little is free. If there is
//!   none from the VMAR's start on, its base is. So what is made one after the other lies within a megabyte or two of
//!   each other, in no order, and whoever knows one address does not know the next. Large ones go by 2 MiB, where their
//!   own page tables begin.

use abi::Status;

use super::Vmar;
use super::children::Room;
use crate::kernel::Kernel;
use crate::machine::{Machine, PAGE};
use crate::object::Id;
use crate::slab::Key;

/// From this length on, what can lie anywhere lies at a multiple of it: what one of the lowest page tables covers.
const LARGE: u64 = 2 << 20;

/// Where something is to go in a VMAR.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Anywhere, aligned, ending at most so many bytes from the VMAR's start.
    Anywhere {
        /// A power of two, at least a page.
        align: u64,
        /// Offset of the end, if it is limited.
        limit: Option<u64>,
    },
    /// At an offset, if there is room.
    At(u64),
    /// At an offset, in place of whatever is mapped there.
    Over(u64),
}

/// Random bytes in stock, since each draw needs one.
#[derive(Default)]
pub(crate) struct Lots {
    stock: [u8; 32],
    left: usize,
}

impl Vmar {
    /// One of the lowest places for a room: the first from a point on that is drawn, so many places above the lowest.
    fn draw(&self, mut room: Room, lot: u8) -> Option<u64> {
        let (lowest, end) = self.children.first_fit(self.base, self.end(), &room)?;
        room.from = lowest.saturating_add(u64::from(lot).saturating_mul(room.align));
        if room.from.checked_add(room.len).is_some_and(|last| last <= end.min(room.limit)) {
            return Some(room.from);
        }
        let drawn = self.children.first_fit(self.base, self.end(), &room);
        Some(drawn.map_or(lowest, |(at, _)| at))
    }

    /// A place for `len` bytes below `limit`, from the start on, or else anywhere.
    fn find_room(&self, len: u64, align: u64, limit: u64, lot: u8) -> Option<u64> {
        let limit = limit.min(self.end());
        let aligned = if len >= LARGE { align.max(LARGE) } else { align };
        let tries = [(self.start, aligned), (self.base, aligned), (self.start, align), (self.base, align)];
        let tries = if aligned == align { tries.get(..2) } else { tries.get(..) };
        tries?.iter().find_map(|&(from, align)| self.draw(Room { len, align, from, limit }, lot))
    }
}

impl<M: Machine> Kernel<M> {
    /// Where the search for room starts in a new VMAR.
    pub(super) fn vmar_start(&mut self, aspace: Key, base: u64, len: u64) -> u64 {
        let choices = len / 4 / PAGE;
        if choices == 0 {
            return base;
        }
        let mut bytes = [0; 8];
        if choices > 1 << 16 {
            self.machine.random(&mut bytes);
        } else {
            bytes = [self.lot(aspace), self.lot(aspace), 0, 0, 0, 0, 0, 0];
        }
        base + u64::from_le_bytes(bytes) % choices * PAGE
    }

    fn lot(&mut self, aspace: Key) -> u8 {
        let Some(space) = self.aspaces.get_mut(aspace) else { return 0 };
        let lots = &mut space.lots;
        if lots.left == 0 {
            self.machine.random(&mut lots.stock);
            lots.left = lots.stock.len();
        }
        lots.left -= 1;
        lots.stock.get(lots.left).copied().unwrap_or(0)
    }

    /// The address that a place means for `len` bytes.
    ///
    /// # Errors
    /// `BAD_STATE`: the VMAR is destroyed. `INVALID_ARGS`: not within it. `ALREADY_EXISTS`, `NO_RESOURCES`: no room.
    pub(super) fn vmar_place(&mut self, id: Id<Vmar>, place: Place, len: u64) -> Result<u64, Status> {
        let (_, aspace) = self.vmar_alive(id)?;
        match place {
            Place::Anywhere { align, limit } => {
                let lot = self.lot(aspace);
                let vmar = self.objects.get(id)?;
                let limit = match limit {
                    None => vmar.end(),
                    Some(limit) => vmar.base.checked_add(limit).ok_or(Status::INVALID_ARGS)?,
                };
                vmar.find_room(len, align, limit, lot).ok_or(Status::NO_RESOURCES)
            }
            Place::At(offset) | Place::Over(offset) => {
                let vmar = self.objects.get(id)?;
                let base = vmar.base.checked_add(offset).ok_or(Status::INVALID_ARGS)?;
                if !offset.is_multiple_of(PAGE) || !vmar.covers(base, len) {
                    return Err(Status::INVALID_ARGS);
                }
                if matches!(place, Place::At(_)) && !vmar.children.is_free(base, len) {
                    return Err(Status::ALREADY_EXISTS);
                }
                Ok(base)
            }
        }
    }
}
