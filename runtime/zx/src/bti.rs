//! Devices and memory: DMA, physical memory, and message-signalled interrupts.

use crate::handle::object;
use crate::{AsHandleRef, Handle, Interrupt, Resource, Result, Vmo, check, sys};

object! {
    /// An IOMMU: between devices and memory.
    Iommu
}

impl Iommu {
    /// Makes a stub IOMMU, which lets devices access all memory.
    ///
    /// # Errors
    /// `WRONG_TYPE`, `OUT_OF_RANGE`: the resource does not allow it.
    pub fn create_stub(resource: &Resource) -> Result<Iommu> {
        let (mut out, description) = (0, 0_u8);
        // SAFETY: the description is one byte; `out` has room for one handle.
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
    /// A bus transaction initiator: a device that accesses memory by itself.
    Bti
}

impl Bti {
    /// Makes a BTI for the device with the bus's number `number`.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn create(iommu: &Iommu, number: u64) -> Result<Bti> {
        let mut out = 0;
        // SAFETY: `out` has room for one handle.
        check(unsafe { sys::zx_bti_create(iommu.raw_handle(), 0, number, &mut out) })?;
        Ok(Bti(Handle::from_call(out)?))
    }

    /// Pins whole pages (`ZX_BTI_PERM_*`, `ZX_BTI_COMPRESS`, `ZX_BTI_CONTIGUOUS`) and stores their addresses for the
    /// device: one address per page, or with `ZX_BTI_CONTIGUOUS` a single one.
    ///
    /// # Errors
    /// `INVALID_ARGS`, also if `addresses` does not have the right length, `OUT_OF_RANGE`, `ACCESS_DENIED`,
    /// `NO_MEMORY`.
    pub fn pin(&self, options: u32, vmo: &Vmo, offset: u64, size: u64, addresses: &mut [u64]) -> Result<Pmt> {
        let mut out = 0;
        // SAFETY: the addresses are valid for their number; `out` has room for one handle.
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

    /// Says that the device has stopped all DMA. This unpins quarantined memory, which holders that have ended had
    /// pinned.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn release_quarantine(&self) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_bti_release_quarantine(self.raw_handle()) })
    }

    /// Information about the memory that it has pinned.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn info(&self) -> Result<abi::zx_info_bti_t> {
        crate::Info::info_record(self, abi::ZX_INFO_BTI)
    }
}

object! {
    /// Pinned memory. If this is dropped without [`Pmt::unpin`], the memory stays pinned in the BTI's quarantine.
    Pmt
}

impl Pmt {
    /// Unpins the memory. The device must have stopped using it.
    ///
    /// # Errors
    /// None for a valid handle.
    pub fn unpin(self) -> Result<()> {
        // SAFETY: no memory involved; the call consumes the handle.
        check(unsafe { sys::zx_pmt_unpin(self.0.into_raw()) })
    }
}

object! {
    /// A block of message-signalled interrupts (MSIs).
    Msi
}

impl Msi {
    /// Allocates a block of `count` MSIs, a power of two up to 32.
    ///
    /// # Errors
    /// `INVALID_ARGS`, `NO_RESOURCES`. `WRONG_TYPE`, `OUT_OF_RANGE`: the resource does not allow it.
    pub fn allocate(resource: &Resource, count: u32) -> Result<Msi> {
        let mut out = 0;
        // SAFETY: `out` has room for one handle.
        check(unsafe { sys::zx_msi_allocate(resource.raw_handle(), count, &mut out) })?;
        Ok(Msi(Handle::from_call(out)?))
    }

    /// Makes the interrupt object of one MSI of the block. The device's MSI capability, or with `ZX_MSI_MODE_MSI_X` its
    /// MSI-X table, is at `offset` of the VMO.
    ///
    /// # Errors
    /// `INVALID_ARGS`, `ALREADY_BOUND`, `NO_RESOURCES`.
    pub fn create(&self, options: u32, number: u32, vmo: &Vmo, offset: usize) -> Result<Interrupt> {
        let mut out = 0;
        // SAFETY: `out` has room for one handle.
        check(unsafe { sys::zx_msi_create(self.raw_handle(), options, number, vmo.raw_handle(), offset, &mut out) })?;
        Ok(Interrupt::from(Handle::from_call(out)?))
    }

    /// The address and the data that the device must write.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn info(&self) -> Result<abi::zx_info_msi_t> {
        crate::Info::info_record(self, abi::ZX_INFO_MSI)
    }
}

impl Vmo {
    /// Makes a VMO of physically contiguous memory, aligned to `2^alignment_log2` bytes (0: to a page).
    ///
    /// # Errors
    /// `INVALID_ARGS`, `NO_MEMORY`.
    pub fn create_contiguous(bti: &Bti, size: usize, alignment_log2: u32) -> Result<Vmo> {
        let mut out = 0;
        // SAFETY: `out` has room for one handle.
        check(unsafe { sys::zx_vmo_create_contiguous(bti.raw_handle(), size, alignment_log2, &mut out) })?;
        Ok(Vmo::from(Handle::from_call(out)?))
    }

    /// Makes a VMO for device memory at a physical address.
    ///
    /// # Errors
    /// `INVALID_ARGS`. `WRONG_TYPE`, `OUT_OF_RANGE`: the resource does not allow it.
    pub fn create_physical(resource: &Resource, address: usize, size: usize) -> Result<Vmo> {
        let mut out = 0;
        // SAFETY: `out` has room for one handle.
        check(unsafe { sys::zx_vmo_create_physical(resource.raw_handle(), address, size, &mut out) })?;
        Ok(Vmo::from(Handle::from_call(out)?))
    }
}
