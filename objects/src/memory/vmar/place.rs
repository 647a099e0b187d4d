//! Choosing an address in a VMAR.
//!
//! Addresses are chosen at random, in two steps that keep the number of page tables low:
//!
//! - Each VMAR gets a random *start* in its first quarter when it is created. Its entropy in bits is the logarithm of
//!   the number of pages, less two: 33 bits for the root of an address space. In a VMAR of more than 32 TiB, the start
//!   is above its first TiB, which is left to programs with addresses of their own.
//! - Each mapping or VMAR goes to the first free place from a random point among the 256 pages (or multiples of its
//!   alignment) above a *hint*: 8 bits of entropy, fewer where little is free. At first the hint is the start. Later it
//!   is the last place where the random point itself was occupied, or a lower place that has been freed since. So
//!   consecutive mappings are within a megabyte or two of each other, in random order, and one address does not reveal
//!   the next; and usually the first try finds room.
//! - If there is no room from there up, and for all large mappings, the random points are above the lowest free place
//!   from the VMAR's start up, or else from its base up. Large ones are aligned to 2 MiB, where their own page tables
//!   begin.

use abi::Status;

use super::Vmar;
use super::children::FreeRangeSearch;
use crate::containers::slab::Key;
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::{KEPT, KEPT_END, Machine, PAGE};

/// From this length up, mappings are aligned to it if possible: it is the range of one lowest-level page table.
const LARGE: u64 = 2 << 20;

/// A VMAR that is longer than [`FIXED_FROM`] leaves this much to programs that choose addresses: Linux as a program, at
/// 1.5 GiB, met another mapping in one of 4,000 starts.
const FIXED: u64 = 1 << 40;
const FIXED_FROM: u64 = 32 << 40;

/// A requested place in a VMAR.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Any free address with this alignment, ending at most `limit` bytes from the VMAR's base.
    Anywhere {
        /// A power of two, at least a page.
        align: u64,
        /// Offset of the end, if it is limited.
        limit: Option<u64>,
    },
    /// At an offset, which must be free.
    At(u64),
    /// At an offset; replaces the mappings there.
    Over(u64),
}

/// A stock of random bytes; each choice takes one.
#[derive(Default)]
pub(crate) struct RandomBytes {
    stock: [u8; 32],
    left: usize,
}

impl RandomBytes {
    #[inline]
    fn draw(&mut self, machine: &mut impl Machine) -> u8 {
        if self.left == 0 {
            self.refill(machine);
        }
        self.left -= 1;
        self.stock.get(self.left).copied().unwrap_or(0)
    }

    #[inline(never)]
    fn refill(&mut self, machine: &mut impl Machine) {
        machine.random(&mut self.stock);
        self.left = self.stock.len();
    }
}

impl Vmar {
    /// A mapping or VMAR that began at an address was removed.
    pub(super) fn has_room_at(&mut self, base: u64) {
        if base >= self.start {
            self.hint = self.hint.min(base);
        }
    }

    /// A random one of the lowest free places: the first from `lot` places above the lowest.
    fn draw(&mut self, mut room: FreeRangeSearch, lot: u8) -> Option<u64> {
        let (lowest, end) = self.children.first_fit(&room)?;
        room.from = lowest.saturating_add(u64::from(lot).saturating_mul(room.align));
        if room.from.checked_add(room.len).is_some_and(|last| last <= end.min(room.limit)) {
            return Some(room.from);
        }
        let drawn = self.children.first_fit(&room);
        Some(drawn.map_or(lowest, |(at, _)| at))
    }

    /// The first free place from a random point above the hint.
    fn draw_at_hint(&mut self, room: &FreeRangeSearch, lot: u8) -> Option<u64> {
        let hint = self.hint.checked_next_multiple_of(room.align)?;
        let from = hint.checked_add(u64::from(lot).checked_mul(room.align)?)?;
        if from.checked_add(room.len)? > room.limit {
            return None;
        }
        if !self.children.is_free(from, room.len) {
            let (at, _) = self.children.first_fit(&FreeRangeSearch { from, ..*room })?;
            self.hint = at;
            return Some(at);
        }
        Some(from)
    }

    /// A free place for `len` bytes below `limit`, from the start up, or else from the base up.
    fn find_room(&mut self, len: u64, align: u64, limit: u64, lot: u8) -> Option<u64> {
        let limit = limit.min(self.end());
        // Above the machine's own range there is little space: only mappings at explicit addresses use it.
        let limit = if self.is_root() { limit.min(KEPT) } else { limit };
        let (start, base) = (self.start, self.base);
        if len < LARGE
            && let Some(at) = self.draw_at_hint(&FreeRangeSearch { len, align, from: start, limit }, lot)
        {
            return Some(at);
        }
        let aligned = if len >= LARGE { align.max(LARGE) } else { align };
        let tries = [(start, aligned), (base, aligned), (start, align), (base, align)];
        let tries = if aligned == align { tries.get(..2) } else { tries.get(..) };
        tries?.iter().find_map(|&(from, align)| self.draw(FreeRangeSearch { len, align, from, limit }, lot))
    }
}

impl<M: Machine> Kernel<M> {
    /// The random start for a new VMAR.
    pub(super) fn vmar_start(&mut self, aspace: Key, base: u64, len: u64) -> u64 {
        let fixed = if len > FIXED_FROM { FIXED } else { 0 };
        let choices = (len / 4 - fixed) / PAGE;
        if choices == 0 {
            return base;
        }
        let mut bytes = [0; 8];
        if choices > 1 << 16 {
            self.machine.random(&mut bytes);
        } else {
            bytes = [self.lot(aspace), self.lot(aspace), 0, 0, 0, 0, 0, 0];
        }
        base + fixed + u64::from_le_bytes(bytes) % choices * PAGE
    }

    fn lot(&mut self, aspace: Key) -> u8 {
        self.aspaces.get_mut(aspace).map_or(0, |space| space.lots.draw(&mut self.machine))
    }

    /// Resolves a place for `len` bytes to an address and an address space.
    ///
    /// # Errors
    /// `BAD_STATE`: the VMAR is destroyed. `INVALID_ARGS`: not within it. `ALREADY_EXISTS`, `NO_RESOURCES`: no room.
    /// `ACCESS_DENIED`: it would replace the machine's own pages.
    pub(super) fn vmar_place(&mut self, id: Id<Vmar>, place: Place, len: u64) -> Result<(u64, Key), Status> {
        let (_, aspace) = self.vmar_alive(id)?;
        let vmar = self.objects.get_mut(id)?;
        match place {
            Place::Anywhere { align, limit } => {
                let lot = self.aspaces.get_mut(aspace).map_or(0, |space| space.lots.draw(&mut self.machine));
                let limit = match limit {
                    None => vmar.end(),
                    Some(limit) => vmar.base.checked_add(limit).ok_or(Status::INVALID_ARGS)?,
                };
                vmar.find_room(len, align, limit, lot).map(|at| (at, aspace)).ok_or(Status::NO_RESOURCES)
            }
            Place::At(offset) | Place::Over(offset) => {
                let base = vmar.base.checked_add(offset).ok_or(Status::INVALID_ARGS)?;
                if !offset.is_multiple_of(PAGE) || !vmar.covers(base, len) {
                    return Err(Status::INVALID_ARGS);
                }
                let is_kept = vmar.is_root() && base < KEPT_END && base + len > KEPT;
                if matches!(place, Place::At(_)) && (is_kept || !vmar.children.is_free(base, len)) {
                    return Err(Status::ALREADY_EXISTS);
                }
                if is_kept {
                    return Err(Status::ACCESS_DENIED);
                }
                Ok((base, aspace))
            }
        }
    }
}
