//! The root task's own memory and slots.
//!
//! Memory comes as untypeds; each hands out its bytes from the bottom up. The root task takes what it needs from the
//! smallest untyped that has room. Untypeds that it has not touched and that hold at least one chunk go to the
//! instances. Slots are handed out in order. Nothing is ever returned here, because everything lives as long as the
//! system: an instance that is built again reuses its own memory ([`crate::resource_pool`]).

use core::ptr;

use sel4::bootinfo::{INIT_CNODE, INIT_VSPACE, SlotRange};
use sel4::{BootInfo, CNode, CPtr, Caching, ObjectType, Page, Rights, Untyped};
use server_boot::layout::{CHUNK, CHUNK_BITS};

use crate::arch::ports;
use crate::cspace;
use crate::error::{Context, Error};
use crate::make::{ObjectMaker, own_slot};

/// Maximum number of untypeds: those of the kernel, and those that splitting adds.
const MAX: usize = 512;

/// First address of the root task's own mappings: above its image, below the first gibibyte.
const OWN: u64 = 0x2000_0000;
/// Where it temporarily maps a page of an instance.
const SCRATCH: u64 = OWN;
const PAGE: u64 = 4096;

#[derive(Clone, Copy)]
struct Piece {
    cap: Untyped,
    address: u64,
    bits: u8,
    used: u64,
    device: bool,
    given: bool,
}

/// See the module's description.
pub struct Memory {
    pieces: [Option<Piece>; MAX],
    next_slot: u64,
    end_slot: u64,
    next_own: u64,
    /// For the second capability of a page that is read.
    scratch_slot: u64,
}

/// A piece that goes to an instance. The capability stays here; the instance gets a child of it.
#[derive(Clone, Copy)]
pub struct InstanceUntyped {
    /// The capability.
    pub cap: Untyped,
    /// Its physical address.
    pub address: u64,
    /// Binary logarithm of its size in bytes.
    pub bits: u8,
}

impl Memory {
    /// Takes over the untypeds that the kernel lists, and moves to a CNode with more slots.
    pub fn new(boot: &BootInfo) -> Result<Self, Error> {
        let slots = boot.empty();
        // The slots for I/O ports come first.
        let first = slots.start + ports::SLOTS;
        let mut memory = Memory {
            pieces: [None; MAX],
            next_slot: first + 1,
            end_slot: slots.end,
            next_own: SCRATCH + PAGE,
            scratch_slot: first,
        };
        for (place, untyped) in memory.pieces.iter_mut().zip(boot.untypeds()) {
            *place = Some(Piece {
                cap: untyped.cap,
                address: untyped.address,
                bits: untyped.size_bits,
                used: 0,
                device: untyped.is_device,
                given: false,
            });
        }
        let cnode = CNode(memory.make(ObjectType::CNode(cspace::BITS))?);
        // The measurement maps its own image in another address space.
        let image = boot.user_image_pages();
        let stays = if cfg!(feature = "measure") { SlotRange { end: image.start, ..image } } else { image };
        // The last slot holds the new CNode's own capability, which is not needed there.
        cspace::move_to(cnode, cnode.cptr().0, stays)?;
        memory.end_slot = 1 << cspace::BITS;
        Ok(memory)
    }

    /// Allocates this many adjacent empty slots; returns the first.
    pub fn slots(&mut self, count: u64) -> Result<u64, Error> {
        if count > self.end_slot - self.next_slot {
            return Err(Error::OutOfSlots);
        }
        self.next_slot += count;
        Ok(self.next_slot - count)
    }

    /// Slots and bytes that are in use, including those of instances.
    pub fn taken(&self) -> (u64, u64) {
        let bytes = |piece: &Piece| if piece.given { 1 << piece.bits } else { piece.used };
        (self.next_slot, self.pieces.iter().flatten().filter(|piece| !piece.device).map(bytes).sum())
    }

    /// Number of chunks in untouched pieces.
    pub fn untouched_chunks(&self) -> u64 {
        self.pieces.iter().flatten().filter(|piece| piece.untouched()).map(|piece| (1 << piece.bits) / CHUNK).sum()
    }

    /// The page of a device at a physical address. The rest of the same untyped is cut into pieces that stay in the
    /// list, so that other devices can be reached later.
    pub fn device_page(&mut self, address: u64) -> Result<Page, Error> {
        let holds = |p: &Piece| p.device && !p.given && p.address <= address && address - p.address < 1 << p.bits;
        let index = self.pieces.iter().position(|p| p.as_ref().is_some_and(holds));
        let index = index.ok_or(Error::Device("device memory at that address"))?;
        let Some(piece) = self.pieces[index] else { return Err(Error::OutOfMemory) };
        self.pieces[index] = Some(Piece { given: true, ..piece });
        let mut at = piece.address;
        // First the largest aligned pieces before the page, then the page, then the largest aligned pieces up to the
        // end.
        self.cut(&piece, &mut at, address)?;
        let slot = self.slot()?;
        piece.cap.retype(ObjectType::Page, INIT_CNODE, 0, 0, slot, 1).context("a device's page")?;
        at += 4096;
        self.cut(&piece, &mut at, piece.address + (1 << piece.bits))?;
        Ok(Page::new(slot))
    }

    /// Cuts a piece from `at` to `end`.
    fn cut(&mut self, piece: &Piece, at: &mut u64, end: u64) -> Result<(), Error> {
        while *at < end {
            let bits = at.trailing_zeros().min((end - *at).ilog2()).min(47) as u8;
            let slot = self.slot()?;
            piece.cap.retype(ObjectType::Untyped(bits), INIT_CNODE, 0, 0, slot, 1).context("dividing memory")?;
            self.add(Piece { cap: Untyped::new(slot), address: *at, bits, given: false, used: 0, ..*piece })?;
            *at += 1 << bits;
        }
        Ok(())
    }

    /// Gives away a piece of device memory that lies between two addresses, both included; none if none is left.
    pub fn device_gift(&mut self, first: u64, last: u64) -> Result<Option<InstanceUntyped>, Error> {
        let end = |p: &Piece| p.address + ((1 << p.bits) - 1);
        let meets = |p: &Piece| p.device && !p.given && p.address <= last && first <= end(p);
        loop {
            let Some(i) = self.pieces.iter().position(|p| p.as_ref().is_some_and(meets)) else { return Ok(None) };
            let Some(piece) = self.pieces[i] else { return Ok(None) };
            self.pieces[i] = Some(Piece { given: true, ..piece });
            if first <= piece.address && end(&piece) <= last {
                return Ok(Some(InstanceUntyped { cap: piece.cap, address: piece.address, bits: piece.bits }));
            }
            let mut at = piece.address;
            for _ in 0..2 {
                let half = at + (1 << (piece.bits - 1));
                self.cut(&piece, &mut at, half)?;
            }
        }
    }

    fn add(&mut self, piece: Piece) -> Result<(), Error> {
        let place = self.pieces.iter_mut().find(|place| place.is_none()).ok_or(Error::OutOfMemory)?;
        *place = Some(piece);
        Ok(())
    }

    /// Gives away an untouched piece of at most `chunks` chunks: the largest of these. If all pieces are larger, cuts
    /// the smallest in two until one fits.
    pub fn gift(&mut self, chunks: u64) -> Result<InstanceUntyped, Error> {
        loop {
            let pieces = || self.pieces.iter().enumerate().filter_map(|(i, p)| p.map(|p| (i, p)));
            let untouched = || pieces().filter(|(_, p)| p.untouched());
            let fits = |p: &Piece| (1 << p.bits) / CHUNK <= chunks;
            if let Some((i, piece)) = untouched().filter(|(_, p)| fits(p)).max_by_key(|(_, p)| p.bits) {
                self.pieces[i] = Some(Piece { given: true, ..piece });
                return Ok(InstanceUntyped { cap: piece.cap, address: piece.address, bits: piece.bits });
            }
            let (i, piece) = untouched().min_by_key(|(_, p)| p.bits).ok_or(Error::MemoryShare)?;
            self.pieces[i] = Some(Piece { given: true, ..piece });
            let mut at = piece.address;
            for _ in 0..2 {
                let half = at + (1 << (piece.bits - 1));
                self.cut(&piece, &mut at, half)?;
            }
        }
    }

    /// A free address range in the root task's address space, of `size` bytes and aligned to `size`.
    pub fn own_address(&mut self, size: u64) -> u64 {
        let address = self.next_own.next_multiple_of(size);
        self.next_own = address + size;
        address
    }

    /// Maps a page into the root task's address space.
    pub fn map_own(&mut self, page: Page, size: u64, caching: Caching) -> Result<u64, Error> {
        let address = self.own_address(size);
        self.map(page, INIT_VSPACE, address, Rights::READ_WRITE, caching)?;
        Ok(address)
    }

    /// Writes bytes to a page that is not mapped.
    pub fn fill(&mut self, page: Page, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        self.map(page, INIT_VSPACE, SCRATCH, Rights::READ_WRITE, Caching::WriteBack)?;
        let to = ptr::with_exposed_provenance_mut::<u8>(SCRATCH as usize + offset);
        // SAFETY: the page is mapped there for writing, nothing else is, and the callers keep `offset` and `bytes`
        // within it.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        page.unmap().context("unmapping a page")
    }

    /// Reads the words of a page that is mapped elsewhere.
    pub fn read(&mut self, page: Page) -> Result<[u64; (PAGE / 8) as usize], Error> {
        let slot = own_slot(self.scratch_slot);
        slot.copy_from(own_slot(page.cptr().0), Rights::ALL).context("copying a capability")?;
        let again = Page::new(self.scratch_slot);
        self.map(again, INIT_VSPACE, SCRATCH, Rights::READ, Caching::WriteBack)?;
        // SAFETY: the page is mapped there, and holds this many words.
        let words =
            unsafe { ptr::with_exposed_provenance::<[u64; (PAGE / 8) as usize]>(SCRATCH as usize).read_volatile() };
        slot.delete().context("deleting a capability")?;
        Ok(words)
    }
}

impl ObjectMaker for Memory {
    fn slot(&mut self) -> Result<u64, Error> {
        self.slots(1)
    }

    fn make(&mut self, object: ObjectType) -> Result<CPtr, Error> {
        let slot = self.slot()?;
        let size = 1u64 << object.size_bits();
        let fits = |piece: &Piece| {
            !piece.device && !piece.given && piece.used.next_multiple_of(size) + size <= 1 << piece.bits
        };
        let smallest = self.pieces.iter_mut().flatten().filter(|piece| fits(piece)).min_by_key(|piece| piece.bits);
        let piece = smallest.ok_or(Error::OutOfMemory)?;
        piece.cap.retype(object, INIT_CNODE, 0, 0, slot, 1).context("making an object")?;
        piece.used = piece.used.next_multiple_of(size) + size;
        Ok(CPtr(slot))
    }
}

impl Piece {
    fn untouched(&self) -> bool {
        !self.device && !self.given && self.used == 0 && self.bits >= CHUNK_BITS
    }
}
