//! Memory that devices access by DMA, and device memory (MMIO).

use core::ptr::NonNull;
use std::vec;
use std::vec::Vec;

use abi::{ZX_BTI_CONTIGUOUS, ZX_BTI_PERM_READ, ZX_BTI_PERM_WRITE, ZX_VM_PERM_READ, ZX_VM_PERM_WRITE};
use zx::{Bti, Pmt, Result, Status, Vmo};

use crate::net::Frames;

/// Page size in bytes.
pub const PAGE: usize = 4096;

/// Maps a whole VMO into this process until the process ends.
fn map(vmo: &Vmo, len: usize) -> Result<NonNull<u8>> {
    let root = zx::startup::vmar_root_self();
    let address = root.map(ZX_VM_PERM_READ | ZX_VM_PERM_WRITE, 0, vmo, 0, len)?;
    NonNull::new(core::ptr::with_exposed_provenance_mut(address)).ok_or(Status::INTERNAL)
}

/// Contiguous memory for DMA: pinned, so that its physical address does not change, and mapped. Dropping it unpins the
/// memory; the device must not access it after that.
#[derive(Debug)]
pub struct Dma {
    vmo: Vmo,
    pmt: Option<Pmt>,
    address: u64,
    mapped: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and its contents are accessed only by unsafe code.
unsafe impl Send for Dma {}

impl Dma {
    /// Allocates at least `len` bytes, rounded up to pages and filled with zeroes.
    ///
    /// # Errors
    /// `NO_MEMORY`: no contiguous range of this size is free.
    pub fn new(bti: &Bti, len: usize) -> Result<Dma> {
        let len = len.checked_next_multiple_of(PAGE).filter(|len| *len > 0).ok_or(Status::OUT_OF_RANGE)?;
        let vmo = Vmo::create_contiguous(bti, len, 0)?;
        let mut addresses = [0];
        let options = ZX_BTI_PERM_READ | ZX_BTI_PERM_WRITE | ZX_BTI_CONTIGUOUS;
        let pmt = bti.pin(options, &vmo, 0, len as u64, &mut addresses)?;
        let mapped = map(&vmo, len)?;
        Ok(Dma { vmo, pmt: Some(pmt), address: addresses[0], mapped, len })
    }

    /// The VMO, for sharing the memory with other processes.
    pub fn vmo(&self) -> &Vmo {
        &self.vmo
    }

    /// Its address for the device.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Always false: the memory has at least one page.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its address in this process.
    pub(crate) fn mapped(&self) -> NonNull<u8> {
        self.mapped
    }

    /// Reads a number. It is 0 beyond the end or unaligned.
    pub(crate) fn read<T: Number>(&self, offset: usize) -> T {
        match self.place(offset) {
            // SAFETY: inside the mapping and aligned; volatile because the device can write.
            Some(place) => unsafe { place.read_volatile() },
            None => T::default(),
        }
    }

    /// Writes a number. Nothing happens beyond the end or unaligned.
    pub(crate) fn write<T: Number>(&self, offset: usize, value: T) {
        if let Some(place) = self.place(offset) {
            // SAFETY: inside the mapping and aligned; volatile because the device can read.
            unsafe { place.write_volatile(value) };
        }
    }

    fn place<T: Number>(&self, offset: usize) -> Option<NonNull<T>> {
        let end = offset.checked_add(size_of::<T>())?;
        if end > self.len || !offset.is_multiple_of(align_of::<T>()) {
            return None;
        }
        // SAFETY: the offset is inside the mapping, which begins at a page.
        Some(unsafe { self.mapped.add(offset) }.cast())
    }
}

/// Numbers that devices read and write.
pub(crate) trait Number: Copy + Default {}

impl Number for u16 {}
impl Number for u32 {}
impl Number for u64 {}

/// Memory of another process, pinned: its physical addresses do not change, and it cannot shrink. Dropping it leaves the
/// memory in quarantine, because a device may still use it.
#[derive(Debug)]
pub struct Pinned {
    pmt: Pmt,
    /// The address of each page for the device.
    addresses: Vec<u64>,
}

impl Pinned {
    /// Pins the first `len` bytes of a VMO, whole pages.
    ///
    /// # Errors
    /// `INVALID_ARGS`, `OUT_OF_RANGE`, `ACCESS_DENIED`, `NO_MEMORY`.
    pub fn new(bti: &Bti, vmo: &Vmo, len: usize) -> Result<Pinned> {
        let mut addresses = vec![0; len / PAGE];
        let options = ZX_BTI_PERM_READ | ZX_BTI_PERM_WRITE;
        let pmt = bti.pin(options, vmo, 0, len as u64, &mut addresses)?;
        Ok(Pinned { pmt, addresses })
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.addresses.len() * PAGE
    }

    /// Always false: the memory has at least one page.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// Unpins the memory. No device uses it: one that does owns this value.
    pub fn unpin(self) {
        let _ = self.pmt.unpin();
    }
}

impl Frames for Pinned {
    // A range inside one page.
    fn address(&self, offset: usize, len: usize) -> Option<u64> {
        let page = self.addresses.get(offset / PAGE)?;
        let inside = offset % PAGE;
        (inside.checked_add(len)? <= PAGE).then_some(page + inside as u64)
    }

    fn unpin(self) {
        Pinned::unpin(self);
    }
}

impl Drop for Dma {
    fn drop(&mut self) {
        let _ = zx::startup::vmar_root_self().unmap(self.mapped.addr().get(), self.len);
        if let Some(pmt) = self.pmt.take() {
            // Without the unpin, the pages would go into quarantine.
            let _ = pmt.unpin();
        }
    }
}

/// A window of a device: device memory (MMIO), mapped into this process.
#[derive(Debug)]
pub struct Window {
    /// Its physical address.
    pub address: u64,
    /// Its length in bytes.
    pub len: usize,
    mapped: NonNull<u8>,
}

// SAFETY: as for `Dma`.
unsafe impl Send for Window {}
// SAFETY: as for `Dma`; a shared reference allows no access to the memory.
unsafe impl Sync for Window {}

impl Window {
    /// Maps the VMO of a device's memory window. The mapping lasts until the process ends.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`, and the errors of the mapping.
    pub fn new(address: u64, len: u64, vmo: &Vmo) -> Result<Window> {
        let len = usize::try_from(len).map_err(|_| Status::OUT_OF_RANGE)?;
        Ok(Window { address, len, mapped: map(vmo, len)? })
    }

    /// Reads a register of four bytes. `None`: it is not in the window.
    pub(crate) fn read(&self, offset: usize) -> Option<u32> {
        // SAFETY: inside the mapping and aligned; volatile because the device sees it.
        self.register(offset).map(|register| unsafe { register.read_volatile() })
    }

    /// Writes a register of four bytes. Nothing happens if it is not in the window.
    pub(crate) fn write(&self, offset: usize, value: u32) {
        if let Some(register) = self.register(offset) {
            // SAFETY: as above.
            unsafe { register.write_volatile(value) };
        }
    }

    fn register(&self, offset: usize) -> Option<NonNull<u32>> {
        if offset.checked_add(4)? > self.len || !offset.is_multiple_of(4) {
            return None;
        }
        // SAFETY: the offset is inside the mapping, which begins at a page.
        Some(unsafe { self.mapped.add(offset) }.cast())
    }

    /// The address in this process of the physical address `address`, if `len` bytes from there lie in the window.
    pub(crate) fn find(&self, address: u64, len: usize) -> Option<NonNull<u8>> {
        let offset = usize::try_from(address.checked_sub(self.address)?).ok()?;
        if offset.checked_add(len)? > self.len {
            return None;
        }
        // SAFETY: the offset is inside the mapping, as checked above.
        Some(unsafe { self.mapped.add(offset) })
    }
}
