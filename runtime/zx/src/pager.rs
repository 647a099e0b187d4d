//! Pagers: programs that supply the pages of memory objects.

use abi::{zx_pager_vmo_stats_t, zx_vmo_dirty_range_t};

use crate::handle::object;
use crate::{AsHandleRef, Handle, InfoSize, Port, Result, Vmo, check, sys};

object! {
    /// Whoever holds it supplies the pages of the memory objects made with it.
    Pager
}

impl Pager {
    /// Makes a pager.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn create() -> Result<Pager> {
        let mut out = 0;
        // SAFETY: `out` is one handle's place.
        check(unsafe { sys::zx_pager_create(0, &mut out) })?;
        Ok(Pager(Handle::from_call(out)?))
    }

    /// Makes a VMO whose pages are asked for by packets with `key`. Options: `ZX_VMO_RESIZABLE`, `ZX_VMO_TRAP_DIRTY`.
    ///
    /// # Errors
    /// `INVALID_ARGS`, `OUT_OF_RANGE`, `ACCESS_DENIED`, `NO_MEMORY`.
    pub fn create_vmo(&self, options: u32, port: &Port, key: u64, size: u64) -> Result<Vmo> {
        let mut out = 0;
        // SAFETY: `out` is one handle's place.
        check(unsafe { sys::zx_pager_create_vmo(self.raw_handle(), options, port.raw_handle(), key, size, &mut out) })?;
        Ok(Vmo::from(Handle::from_call(out)?))
    }

    /// Has nothing more asked of a VMO.
    ///
    /// # Errors
    /// `INVALID_ARGS` for a VMO of another pager, `ACCESS_DENIED`.
    pub fn detach_vmo(&self, vmo: &Vmo) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_pager_detach_vmo(self.raw_handle(), vmo.raw_handle()) })
    }

    /// Moves pages of `aux` into a VMO, where it has none.
    ///
    /// # Errors
    /// `INVALID_ARGS`, `OUT_OF_RANGE`, `BAD_STATE` for a VMO that is detached, `NOT_SUPPORTED`, `ACCESS_DENIED`.
    pub fn supply_pages(&self, vmo: &Vmo, offset: u64, length: u64, aux: &Vmo, aux_offset: u64) -> Result<()> {
        let (pager, vmo, aux) = (self.raw_handle(), vmo.raw_handle(), aux.raw_handle());
        // SAFETY: no memory involved but what the objects hold.
        check(unsafe { sys::zx_pager_supply_pages(pager, vmo, offset, length, aux, aux_offset) })
    }

    /// Fails, makes dirty, begins or ends to write back (`ZX_PAGER_OP_*`) a range of a VMO.
    ///
    /// # Errors
    /// `INVALID_ARGS`, `OUT_OF_RANGE`, `NOT_FOUND`, `BAD_STATE` for a VMO that is detached, `ACCESS_DENIED`.
    pub fn op_range(&self, op: u32, vmo: &Vmo, offset: u64, length: u64, data: u64) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_pager_op_range(self.raw_handle(), op, vmo.raw_handle(), offset, length, data) })
    }

    /// Lists the dirty ranges that begin or lie in a range of a VMO.
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
        // SAFETY: the buffer is valid for its length, and any bytes are records; the sizes are one number's place each.
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

    /// Tells whether a VMO was modified. Options: `ZX_PAGER_RESET_VMO_STATS` to forget it.
    ///
    /// # Errors
    /// `INVALID_ARGS`, `ACCESS_DENIED`.
    pub fn query_vmo_stats(&self, vmo: &Vmo, options: u32) -> Result<zx_pager_vmo_stats_t> {
        let mut stats = zx_pager_vmo_stats_t { modified: 0 };
        let (buffer, size) = ((&raw mut stats).cast(), size_of_val(&stats));
        // SAFETY: the buffer is one record.
        check(unsafe { sys::zx_pager_query_vmo_stats(self.raw_handle(), vmo.raw_handle(), options, buffer, size) })?;
        Ok(stats)
    }
}
