//! Devices in memory: what they reach by themselves, where they are, and how they interrupt by messages.

use crate::handle::object;
use crate::{AsHandleRef, Handle, Interrupt, Resource, Result, Vmo, check, sys};

object! {
    /// What stands between devices and memory.
    Iommu
}

impl Iommu {
    /// Makes one that lets devices reach all memory.
    ///
    /// # Errors
    /// `WRONG_TYPE`, `OUT_OF_RANGE` for a resource that is not for it.
    pub fn create_stub(resource: &Resource) -> Result<Iommu> {
        let (mut out, description) = (0, 0_u8);
        // SAFETY: the description is one byte; `out` is one handle's place.
        check(unsafe {
            sys::zx_iommu_create(
                resource.raw_handle(),
                abi::ZX_IOMMU_TYPE_STUB,
                (&raw const description).cast(),
                1,
                &mut out,
            )
        })?;
        Ok(Iommu(Handle::from_call(out)?))
    }
}

object! {
    /// A device as the bus sees it: who reaches memory by itself.
    Bti
}

impl Bti {
    /// Makes one for the device that the bus calls `number`.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn create(iommu: &Iommu, number: u64) -> Result<Bti> {
        let mut out = 0;
        // SAFETY: `out` is one handle's place.
        check(unsafe { sys::zx_bti_create(iommu.raw_handle(), 0, number, &mut out) })?;
        Ok(Bti(Handle::from_call(out)?))
    }

    /// Pins whole pages (`ZX_BTI_PERM_*`, `ZX_BTI_COMPRESS`, `ZX_BTI_CONTIGUOUS`) and tells where the device finds them:
    /// an address for each page, or with `ZX_BTI_CONTIGUOUS` one.
    ///
    /// # Errors
    /// `INVALID_ARGS`, also when `addresses` is not of the right length, `OUT_OF_RANGE`, `ACCESS_DENIED`, `NO_MEMORY`.
    pub fn pin(&self, options: u32, vmo: &Vmo, offset: u64, size: u64, addresses: &mut [u64]) -> Result<Pmt> {
        let mut out = 0;
        // SAFETY: the addresses are valid for their number; `out` is one handle's place.
        check(unsafe {
            sys::zx_bti_pin(
                self.raw_handle(),
                options,
                vmo.raw_handle(),
                offset,
                size,
                addresses.as_mut_ptr().cast(),
                addresses.len(),
                &mut out,
            )
        })?;
        Ok(Pmt(Handle::from_call(out)?))
    }

    /// Says that the device is at rest: memory that was pinned by whoever is gone is let go of.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn release_quarantine(&self) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_bti_release_quarantine(self.raw_handle()) })
    }

    /// What is pinned by it.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn info(&self) -> Result<abi::zx_info_bti_t> {
        crate::Info::info_record(self, abi::ZX_INFO_BTI)
    }
}

object! {
    /// Pinned memory. It stays pinned, in the quarantine of the BTI, when this is dropped and not unpinned.
    Pmt
}

impl Pmt {
    /// Unpins the memory: the device is done with it.
    ///
    /// # Errors
    /// None for a handle that is one.
    pub fn unpin(self) -> Result<()> {
        // SAFETY: no memory involved; the call takes the handle.
        check(unsafe { sys::zx_pmt_unpin(self.0.into_raw()) })
    }
}

object! {
    /// A block of message-signalled interrupts.
    Msi
}

impl Msi {
    /// Takes `count` of them, a power of two up to 32.
    ///
    /// # Errors
    /// `INVALID_ARGS`, `NO_RESOURCES`, `WRONG_TYPE`, `OUT_OF_RANGE` for a resource that is not for it.
    pub fn allocate(resource: &Resource, count: u32) -> Result<Msi> {
        let mut out = 0;
        // SAFETY: `out` is one handle's place.
        check(unsafe { sys::zx_msi_allocate(resource.raw_handle(), count, &mut out) })?;
        Ok(Msi(Handle::from_call(out)?))
    }

    /// Makes the object of one of them. The device's MSI capability, or with `ZX_MSI_MODE_MSI_X` its table, is at
    /// `offset` of the VMO.
    ///
    /// # Errors
    /// `INVALID_ARGS`, `ALREADY_BOUND`, `NO_RESOURCES`.
    pub fn create(&self, options: u32, number: u32, vmo: &Vmo, offset: usize) -> Result<Interrupt> {
        let mut out = 0;
        // SAFETY: `out` is one handle's place.
        check(unsafe { sys::zx_msi_create(self.raw_handle(), options, number, vmo.raw_handle(), offset, &mut out) })?;
        Ok(Interrupt::from(Handle::from_call(out)?))
    }

    /// Where the device writes what.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn info(&self) -> Result<abi::zx_info_msi_t> {
        crate::Info::info_record(self, abi::ZX_INFO_MSI)
    }
}

impl Vmo {
    /// Makes memory that lies in one piece, at a multiple of `2^alignment_log2` bytes (0: of a page).
    ///
    /// # Errors
    /// `INVALID_ARGS`, `NO_MEMORY`.
    pub fn create_contiguous(bti: &Bti, size: usize, alignment_log2: u32) -> Result<Vmo> {
        let mut out = 0;
        // SAFETY: `out` is one handle's place.
        check(unsafe { sys::zx_vmo_create_contiguous(bti.raw_handle(), size, alignment_log2, &mut out) })?;
        Ok(Vmo::from(Handle::from_call(out)?))
    }

    /// Makes an object for what devices have at a physical address.
    ///
    /// # Errors
    /// `INVALID_ARGS`, `WRONG_TYPE`, `OUT_OF_RANGE` for a resource that is not for it.
    pub fn create_physical(resource: &Resource, address: usize, size: usize) -> Result<Vmo> {
        let mut out = 0;
        // SAFETY: `out` is one handle's place.
        check(unsafe { sys::zx_vmo_create_physical(resource.raw_handle(), address, size, &mut out) })?;
        Ok(Vmo::from(Handle::from_call(out)?))
    }
}
