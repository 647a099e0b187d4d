//! A guest's memory: VMOs that its program has sent.
//!
//! A page of it that the switch has accessed costs the switch a record of the mapping, also if the guest has paid for no
//! page there. So the switch keeps [`MOST_PAGES`] of a guest's pages mapped at most, and then maps the guest's memory anew.

use std::cell::{Cell, RefCell};

use net_switch::{GuestMemory, Side};
use vhost_user::Region as Described;
use virtqueue::{Gone, Memory};
use zx::{CopyFault, Handle, Info, Region, Rights, Status, Vmo};

use crate::mode::{Access, Mode};

/// The most memory of one guest, and the widest range of addresses that its regions may be spread over.
const MOST: u64 = 4 << 30;
const WIDEST: u64 = 64 << 30;
/// Bytes that the modes for measurements map or copy at a time.
const WINDOW: usize = 128 << 10;
const PAGE: u64 = 4096;
/// Pages of a guest that are mapped at a time: 256 MiB.
const MOST_PAGES: u32 = 65_536;
/// Pages that are known to be mapped, a power of two.
const KNOWN: usize = 1024;

/// What a VMO must not be: its pages could change or go in ways that its owner does not pay for, or that wait for a program.
const REFUSED: u32 = abi::ZX_INFO_VMO_RESIZABLE
    | abi::ZX_INFO_VMO_PAGER_BACKED
    | abi::ZX_INFO_VMO_IS_COW_CLONE
    | abi::ZX_INFO_VMO_DISCARDABLE;

/// A region and its VMO.
#[derive(Debug)]
struct Part {
    start: u64,
    len: u64,
    vmo: Vmo,
    offset: u64,
}

/// The memory.
#[derive(Debug)]
pub struct SharedMemory {
    /// The lowest address of the guest's, and the length of the range.
    base: u64,
    len: u64,
    words: bool,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// All of it is mapped in a range of addresses of its own, at the same distances as in the guest. What is between its
    /// regions is not mapped, and accesses to it fail.
    Mapped(Mapped),
    Called(Vec<Part>),
    Remapped(Vec<Part>, RefCell<Region>),
}

/// Memory that is mapped, and how much of it was accessed.
#[derive(Debug)]
struct Mapped {
    region: Region,
    parts: Vec<Part>,
    base: u64,
    /// By the lower bits of its number, the last page that was accessed, plus one.
    known: Box<[Cell<u32>; KNOWN]>,
    /// Pages that may be mapped: those that were accessed and not known.
    pages: Cell<u32>,
}

impl Mapped {
    fn new(parts: Vec<Part>, base: u64, len: u64) -> Result<Mapped, Status> {
        let region = Region::new(len as usize)?;
        let mapped =
            Mapped { region, parts, base, known: Box::new([const { Cell::new(0) }; KNOWN]), pages: Cell::new(0) };
        mapped.map()?;
        Ok(mapped)
    }

    /// Where a part is in the region.
    fn place(&self, part: &Part) -> usize {
        (part.start - self.base) as usize
    }

    fn map(&self) -> Result<(), Status> {
        let map = |part: &Part| self.region.map(self.place(part), &part.vmo, part.offset, part.len as usize);
        self.parts.iter().try_for_each(map)
    }

    /// The region, for an access to this range.
    #[inline]
    fn region(&self, offset: usize, len: usize) -> Result<&Region, Gone> {
        let (first, last) = (offset / PAGE as usize, (offset + len.saturating_sub(1)) / PAGE as usize);
        for page in first..=last {
            // The range has 2^24 pages at most.
            let number = page as u32 + 1;
            if self.known[page % KNOWN].replace(number) != number {
                self.count_page()?;
            }
        }
        Ok(&self.region)
    }

    #[cold]
    fn count_page(&self) -> Result<(), Gone> {
        self.pages.set(self.pages.get() + 1);
        if self.pages.get() > MOST_PAGES { self.map_anew() } else { Ok(()) }
    }

    fn map_anew(&self) -> Result<(), Gone> {
        self.known.iter().for_each(|known| known.set(0));
        self.pages.set(0);
        let unmap = |part: &Part| self.region.unmap(self.place(part), part.len as usize);
        self.parts.iter().try_for_each(unmap).and_then(|()| self.map()).map_err(|_| Gone)
    }
}

/// Takes a VMO that a guest sent.
fn checked(handle: Handle, described: &Described) -> Result<Vmo, Status> {
    let vmo = service::memory(handle, Rights::READ | Rights::WRITE | Rights::MAP)?;
    let info: abi::zx_info_vmo_t = vmo.info_record(abi::ZX_INFO_VMO)?;
    let is_ordinary =
        info.flags & REFUSED == 0 && info.flags & abi::ZX_INFO_VMO_TYPE_PAGED != 0 && info.parent_koid == 0;
    if !is_ordinary {
        return Err(Status::NOT_SUPPORTED);
    }
    match described.offset.checked_add(described.size) {
        Some(end) if end <= info.size_bytes => Ok(vmo),
        _ => Err(Status::OUT_OF_RANGE),
    }
}

impl SharedMemory {
    /// Maps these regions, of which each has a VMO.
    ///
    /// # Errors
    /// `NOT_SUPPORTED`: one is not an ordinary VMO. `OUT_OF_RANGE`: a region is beyond the end of its VMO, or there is too
    /// much. `NO_MEMORY`, `ACCESS_DENIED`, `WRONG_TYPE`.
    pub fn new(regions: &[Described], handles: Vec<Handle>, mode: &Mode) -> Result<SharedMemory, Status> {
        let base = regions.iter().map(|region| region.guest_address).min().ok_or(Status::INVALID_ARGS)?;
        let end = regions.iter().map(Described::end).max().ok_or(Status::INVALID_ARGS)?;
        let sum = regions.iter().try_fold(0_u64, |sum, region| sum.checked_add(region.size));
        let len = end - base;
        if len > WIDEST || sum.is_none_or(|sum| sum > MOST) || handles.len() != regions.len() {
            return Err(Status::OUT_OF_RANGE);
        }
        let mut parts = Vec::with_capacity(regions.len());
        for (described, handle) in regions.iter().zip(handles) {
            let vmo = checked(handle, described)?;
            parts.push(Part { start: described.guest_address, len: described.size, vmo, offset: described.offset });
        }
        let kind = match mode.access {
            Access::Mapped => Kind::Mapped(Mapped::new(parts, base, len)?),
            Access::Call => Kind::Called(parts),
            Access::Remap => Kind::Remapped(parts, RefCell::new(Region::new(WINDOW)?)),
        };
        Ok(SharedMemory { base, len, words: mode.words, kind })
    }

    /// The offset of an address, behind which so many bytes are in the range.
    #[inline]
    fn offset(&self, at: u64, len: usize) -> Result<usize, Gone> {
        if self.holds(at, len as u64) { Ok((at - self.base) as usize) } else { Err(Gone) }
    }
}

/// The VMO in which a range is, and where.
fn find(parts: &[Part], at: u64, len: usize) -> Result<(&Vmo, u64), Gone> {
    let end = at.checked_add(len as u64).ok_or(Gone)?;
    let part = parts.iter().find(|part| part.start <= at && end <= part.start + part.len).ok_or(Gone)?;
    Ok((&part.vmo, part.offset + (at - part.start)))
}

/// Maps a range, does something with its offset in the window, and unmaps it.
fn mapped<T>(
    parts: &[Part],
    window: &Region,
    (at, len): (u64, usize),
    access: impl FnOnce(usize) -> Result<T, Status>,
) -> Result<T, Gone> {
    let (vmo, offset) = find(parts, at, len)?;
    let first = offset / PAGE * PAGE;
    let pages = (offset + len as u64 - first).next_multiple_of(PAGE) as usize;
    if pages > window.len() {
        return Err(Gone);
    }
    window.map(0, vmo, first, pages).map_err(|_| Gone)?;
    let done = access((offset - first) as usize);
    window.unmap(0, pages).map_err(|_| Gone)?;
    done.map_err(|_| Gone)
}

impl Memory for SharedMemory {
    #[inline]
    fn holds(&self, at: u64, len: u64) -> bool {
        at.checked_sub(self.base).and_then(|offset| offset.checked_add(len)).is_some_and(|end| end <= self.len)
    }

    #[inline]
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Gone> {
        match &self.kind {
            Kind::Mapped(mapped) => {
                let offset = self.offset(at, into.len())?;
                mapped.region(offset, into.len())?.read(offset, into).map_err(|_| Gone)
            }
            Kind::Called(parts) => {
                let (vmo, offset) = find(parts, at, into.len())?;
                vmo.read(into, offset).map_err(|_| Gone)
            }
            Kind::Remapped(parts, window) => {
                let window = window.borrow();
                mapped(parts, &window, (at, into.len()), |offset| window.read(offset, into))
            }
        }
    }

    #[inline]
    fn write(&self, at: u64, from: &[u8]) -> Result<(), Gone> {
        match &self.kind {
            Kind::Mapped(mapped) => {
                let offset = self.offset(at, from.len())?;
                mapped.region(offset, from.len())?.write(offset, from).map_err(|_| Gone)
            }
            Kind::Called(parts) => {
                let (vmo, offset) = find(parts, at, from.len())?;
                vmo.write(from, offset).map_err(|_| Gone)
            }
            Kind::Remapped(parts, window) => {
                let window = window.borrow();
                mapped(parts, &window, (at, from.len()), |offset| window.write(offset, from))
            }
        }
    }

    #[inline]
    fn load(&self, at: u64) -> Result<u16, Gone> {
        match &self.kind {
            Kind::Mapped(mapped) => {
                let offset = self.offset(at, 2)?;
                mapped.region(offset, 2)?.load(offset).map_err(|_| Gone)
            }
            Kind::Called(_) => {
                let mut bytes = [0; 2];
                self.read(at, &mut bytes)?;
                Ok(u16::from_le_bytes(bytes))
            }
            Kind::Remapped(parts, window) => {
                let window = window.borrow();
                mapped(parts, &window, (at, 2), |offset| window.load(offset))
            }
        }
    }

    #[inline]
    fn store(&self, at: u64, value: u16) -> Result<(), Gone> {
        match &self.kind {
            Kind::Mapped(mapped) => {
                let offset = self.offset(at, 2)?;
                mapped.region(offset, 2)?.store(offset, value).map_err(|_| Gone)
            }
            Kind::Called(_) => self.write(at, &value.to_le_bytes()),
            Kind::Remapped(parts, window) => {
                let window = window.borrow();
                mapped(parts, &window, (at, 2), |offset| window.store(offset, value))
            }
        }
    }
}

impl GuestMemory for SharedMemory {
    fn copy_to(&self, at: u64, to: &Self, to_at: u64, len: usize) -> Result<(), Side> {
        match (&self.kind, &to.kind) {
            (Kind::Mapped(from), Kind::Mapped(mapped)) => {
                let offset = self.offset(at, len).map_err(|Gone| Side::Sender)?;
                let to_offset = to.offset(to_at, len).map_err(|Gone| Side::Receiver)?;
                let from = from.region(offset, len).map_err(|Gone| Side::Sender)?;
                let region = mapped.region(to_offset, len).map_err(|Gone| Side::Receiver)?;
                from.copy(offset, region, to_offset, len, self.words).map_err(|fault| match fault {
                    CopyFault::From => Side::Sender,
                    CopyFault::To => Side::Receiver,
                })
            }
            (Kind::Remapped(parts, window), Kind::Remapped(to_parts, to_window)) => {
                let (window, to_window) = (window.borrow(), to_window.borrow());
                let mut gone = Side::Sender;
                let copied = mapped(parts, &window, (at, len), |offset| {
                    let copied = mapped(to_parts, &to_window, (to_at, len), |to_offset| {
                        window.copy(offset, &to_window, to_offset, len, self.words).map_err(|_| Status::BAD_STATE)
                    });
                    if copied.is_err() {
                        gone = Side::Receiver;
                    }
                    copied.map_err(|Gone| Status::BAD_STATE)
                });
                copied.map_err(|Gone| gone)
            }
            _ => {
                let mut done = 0;
                let mut bytes = [0; 2048];
                while done < len {
                    let part = &mut bytes[..(len - done).min(2048)];
                    self.read(at + done as u64, part).map_err(|Gone| Side::Sender)?;
                    to.write(to_at + done as u64, part).map_err(|Gone| Side::Receiver)?;
                    done += part.len();
                }
                Ok(())
            }
        }
    }
}
