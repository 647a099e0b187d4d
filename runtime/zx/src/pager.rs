//! Pagers: programs that supply the pages of VMOs.

use abi::{zx_pager_vmo_stats_t, zx_vmo_dirty_range_t};

use crate::handle::object;
use crate::{AsHandleRef, Handle, InfoSize, Port, Result, Vmo, check, sys};

object! {
    /// A pager. Its holder supplies the pages of the VMOs that are made with it.
    Pager
}

impl Pager {
    /// Makes a pager.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn create() -> Result<Pager> {
        let mut out = 0;
        // SAFETY: `out` has room for one handle.
        check(unsafe { sys::zx_pager_create(0, &mut out) })?;
        Ok(Pager(Handle::from_call(out)?))
    }

    /// Makes a VMO whose page requests are packets with `key`. Options: `ZX_VMO_RESIZABLE`, `ZX_VMO_TRAP_DIRTY`.
    ///
    /// # Errors
    /// `INVALID_ARGS`, `OUT_OF_RANGE`, `ACCESS_DENIED`, `NO_MEMORY`.
    pub fn create_vmo(&self, options: u32, port: &Port, key: u64, size: u64) -> Result<Vmo> {
        let mut out = 0;
        // SAFETY: `out` has room for one handle.
        check(unsafe { sys::zx_pager_create_vmo(self.raw_handle(), options, port.raw_handle(), key, size, &mut out) })?;
        Ok(Vmo::from(Handle::from_call(out)?))
    }

    /// Detaches a VMO: the kernel requests no more pages for it.
    ///
    /// # Errors
    /// `INVALID_ARGS`: the VMO belongs to another pager. `ACCESS_DENIED`.
    pub fn detach_vmo(&self, vmo: &Vmo) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_pager_detach_vmo(self.raw_handle(), vmo.raw_handle()) })
    }

    /// Moves pages of `aux` to those pages of a VMO that are missing.
    ///
    /// # Errors
    /// `INVALID_ARGS`, `OUT_OF_RANGE`, `NOT_SUPPORTED`, `ACCESS_DENIED`. `BAD_STATE`: the VMO is detached.
    pub fn supply_pages(&self, vmo: &Vmo, offset: u64, length: u64, aux: &Vmo, aux_offset: u64) -> Result<()> {
        let (pager, vmo, aux) = (self.raw_handle(), vmo.raw_handle(), aux.raw_handle());
        // SAFETY: no memory involved, except for the contents of the VMOs.
        check(unsafe { sys::zx_pager_supply_pages(pager, vmo, offset, length, aux, aux_offset) })
    }

    /// Fails a request for a range of a VMO, marks the range dirty, or begins or ends its write-back (`ZX_PAGER_OP_*`).
    ///
    /// # Errors
    /// `INVALID_ARGS`, `OUT_OF_RANGE`, `NOT_FOUND`, `ACCESS_DENIED`. `BAD_STATE`: the VMO is detached.
    pub fn op_range(&self, op: u32, vmo: &Vmo, offset: u64, length: u64, data: u64) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_pager_op_range(self.raw_handle(), op, vmo.raw_handle(), offset, length, data) })
    }

    /// Lists the dirty ranges that overlap a range of a VMO.
    ///
    /// # Errors
    /// `INVALID_ARGS`, `OUT_OF_RANGE`, `ACCESS_DENIED`.
    pub fn query_dirty_ranges(
        &self,
        vmo: &Vmo,
        offset: u64,
        length: u64,
        ranges: &mut [zx_vmo_dirty_range_t],
    ) -> Result<InfoSize> {
        let mut size = InfoSize::default();
        let (pager, vmo) = (self.raw_handle(), vmo.raw_handle());
        let (buffer, bytes) = (ranges.as_mut_ptr().cast(), size_of_val(ranges));
        // SAFETY: the buffer is valid for its length, and any bytes are valid records; the sizes have room for one
        // number each.
        check(unsafe {
            sys::zx_pager_query_dirty_ranges(
                pager,
                vmo,
                offset,
                length,
                buffer,
                bytes,
                &mut size.actual,
                &mut size.avail,
            )
        })?;
        Ok(size)
    }

    /// Whether a VMO was modified. Options: `ZX_PAGER_RESET_VMO_STATS` clears that.
    ///
    /// # Errors
    /// `INVALID_ARGS`, `ACCESS_DENIED`.
    pub fn query_vmo_stats(&self, vmo: &Vmo, options: u32) -> Result<zx_pager_vmo_stats_t> {
        let mut stats = zx_pager_vmo_stats_t { modified: 0 };
        let (buffer, size) = ((&raw mut stats).cast(), size_of_val(&stats));
        // SAFETY: the buffer has room for one record.
        check(unsafe { sys::zx_pager_query_vmo_stats(self.raw_handle(), vmo.raw_handle(), options, buffer, size) })?;
        Ok(stats)
    }
}
