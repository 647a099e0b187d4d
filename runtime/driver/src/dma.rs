//! Memory that devices read and write, and memory of devices.

use core::ptr::NonNull;

use abi::{ZX_BTI_CONTIGUOUS, ZX_BTI_PERM_READ, ZX_BTI_PERM_WRITE, ZX_VM_PERM_READ, ZX_VM_PERM_WRITE};
use zx::{Bti, Pmt, Result, Status, Vmo};

/// The size of a page.
pub const PAGE: usize = 4096;

/// Maps all of a VMO into this process, for as long as it lives.
fn map(vmo: &Vmo, len: usize) -> Result<NonNull<u8>> {
    let root = zx::startup::vmar_root_self();
    let address = root.map(ZX_VM_PERM_READ | ZX_VM_PERM_WRITE, 0, vmo, 0, len)?;
    NonNull::new(core::ptr::with_exposed_provenance_mut(address)).ok_or(Status::INTERNAL)
}

/// Contiguous memory that a device may use: pinned, so that it stays where it is, and mapped. It ends with its owner, by
/// when the device must not use it any more.
#[derive(Debug)]
pub struct Dma {
    vmo: Vmo,
    pmt: Option<Pmt>,
    address: u64,
    mapped: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping belongs to the process, and what is in it is only reached through unsafe code.
unsafe impl Send for Dma {}

impl Dma {
    /// Takes that many bytes, rounded up to pages, all zero.
    ///
    /// # Errors
    /// `NO_MEMORY`: there is not so much in one piece.
    pub fn new(bti: &Bti, len: usize) -> Result<Dma> {
        let len = len.checked_next_multiple_of(PAGE).filter(|len| *len > 0).ok_or(Status::OUT_OF_RANGE)?;
        let vmo = Vmo::create_contiguous(bti, len, 0)?;
        let mut addresses = [0];
        let options = ZX_BTI_PERM_READ | ZX_BTI_PERM_WRITE | ZX_BTI_CONTIGUOUS;
        let pmt = bti.pin(options, &vmo, 0, len as u64, &mut addresses)?;
        let mapped = map(&vmo, len)?;
        Ok(Dma { vmo, pmt: Some(pmt), address: addresses[0], mapped, len })
    }

    /// The object, for those who share the memory.
    pub fn vmo(&self) -> &Vmo {
        &self.vmo
    }

    /// Where the device finds it.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: there is at least a page.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where this process finds it.
    pub(crate) fn mapped(&self) -> NonNull<u8> {
        self.mapped
    }
}

impl Drop for Dma {
    fn drop(&mut self) {
        let _ = zx::startup::vmar_root_self().unmap(self.mapped.addr().get(), self.len);
        if let Some(pmt) = self.pmt.take() {
            // Without this the pages would be in quarantine.
            let _ = pmt.unpin();
        }
    }
}

/// A window of a device: memory that is the device itself.
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
// SAFETY: the same; nothing can be done with a shared reference.
unsafe impl Sync for Window {}

impl Window {
    /// Maps the window that a VMO stands for; it stays mapped for as long as the process lives.
    ///
    /// # Errors
    /// What the mapping gives.
    pub fn new(address: u64, len: u64, vmo: &Vmo) -> Result<Window> {
        let len = usize::try_from(len).map_err(|_| Status::OUT_OF_RANGE)?;
        Ok(Window { address, len, mapped: map(vmo, len)? })
    }

    /// Where this process finds a physical address, if `len` bytes from there lie in the window.
    pub(crate) fn find(&self, address: u64, len: usize) -> Option<NonNull<u8>> {
        let offset = usize::try_from(address.checked_sub(self.address)?).ok()?;
        if offset.checked_add(len)? > self.len {
            return None;
        }
        // SAFETY: inside the mapping.
        Some(unsafe { self.mapped.add(offset) })
    }
}
