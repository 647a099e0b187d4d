//! VMOs and VMARs.

use crate::arch::{BLOCK, copy_blocks};
use crate::handle::object;
use crate::{AsHandleRef, Clock, Handle, Resource, Result, Status, check, sys};

object! {
    /// A memory object (VMO): pages that can be mapped, read and written.
    Vmo
}

impl Vmo {
    /// Makes a VMO of zeroes. Options: `ZX_VMO_RESIZABLE` or 0.
    ///
    /// # Errors
    /// `INVALID_ARGS`, `NO_MEMORY`. `OUT_OF_RANGE`: the size exceeds the limit.
    pub fn create(size: u64, options: u32) -> Result<Vmo> {
        let mut out = 0;
        // SAFETY: `out` has room for one handle.
        check(unsafe { sys::zx_vmo_create(size, options, &mut out) })?;
        Ok(Vmo(Handle::from_call(out)?))
    }

    /// Reads bytes from the VMO.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`: beyond its end. `ACCESS_DENIED`.
    pub fn read(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        // SAFETY: the buffer is valid for its length.
        check(unsafe { sys::zx_vmo_read(self.raw_handle(), bytes.as_mut_ptr().cast(), offset, bytes.len()) })
    }

    /// Writes bytes to the VMO.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`: beyond its end. `ACCESS_DENIED`, `NO_MEMORY`.
    pub fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        // SAFETY: the buffer is valid for its length.
        check(unsafe { sys::zx_vmo_write(self.raw_handle(), bytes.as_ptr().cast(), offset, bytes.len()) })
    }

    /// Size in bytes, a multiple of the page size.
    ///
    /// # Errors
    /// `WRONG_TYPE`.
    pub fn get_size(&self) -> Result<u64> {
        let mut size = 0;
        // SAFETY: `size` has room for one number.
        check(unsafe { sys::zx_vmo_get_size(self.raw_handle(), &mut size) })?;
        Ok(size)
    }

    /// Changes the size of a resizable VMO, rounded up to pages.
    ///
    /// # Errors
    /// `UNAVAILABLE`: it is not resizable. `OUT_OF_RANGE`, `NO_MEMORY`.
    pub fn set_size(&self, size: u64) -> Result<()> {
        // SAFETY: no memory involved, except for pages that mappings may lose, as the crate's documentation says.
        check(unsafe { sys::zx_vmo_set_size(self.raw_handle(), size) })
    }

    /// Size of the content in bytes.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn get_stream_size(&self) -> Result<u64> {
        let mut size = 0;
        // SAFETY: `size` has room for one number.
        check(unsafe { sys::zx_vmo_get_stream_size(self.raw_handle(), &mut size) })?;
        Ok(size)
    }

    /// Sets the size of the content in bytes.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`: it exceeds the VMO's size.
    pub fn set_stream_size(&self, size: u64) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_vmo_set_stream_size(self.raw_handle(), size) })
    }

    /// Commits, decommits, zeroes, ... a range (`ZX_VMO_OP_*`).
    ///
    /// # Errors
    /// `OUT_OF_RANGE`, `NOT_SUPPORTED`, `NO_MEMORY`, `ACCESS_DENIED`.
    pub fn op_range(&self, op: u32, offset: u64, size: u64) -> Result<()> {
        // SAFETY: no buffer.
        check(unsafe { sys::zx_vmo_op_range(self.raw_handle(), op, offset, size, core::ptr::null_mut(), 0) })
    }

    /// Sets the cache policy of future mappings (`ZX_CACHE_POLICY_*`).
    ///
    /// # Errors
    /// `BAD_STATE`: the VMO is mapped, or has pages or children. `INVALID_ARGS`.
    pub fn set_cache_policy(&self, policy: u32) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_vmo_set_cache_policy(self.raw_handle(), policy) })
    }

    /// Makes a child: a slice, a reference, a snapshot (`ZX_VMO_CHILD_*`).
    ///
    /// # Errors
    /// `NOT_SUPPORTED`, `INVALID_ARGS`, `OUT_OF_RANGE`, `NO_MEMORY`.
    pub fn create_child(&self, options: u32, offset: u64, size: u64) -> Result<Vmo> {
        let mut out = 0;
        // SAFETY: `out` has room for one handle.
        check(unsafe { sys::zx_vmo_create_child(self.raw_handle(), options, offset, size, &mut out) })?;
        Ok(Vmo(Handle::from_call(out)?))
    }

    /// Locks a whole discardable VMO; returns which part of it had been discarded.
    ///
    /// # Errors
    /// `NOT_SUPPORTED`: it is not discardable. `OUT_OF_RANGE`: the range is not the whole VMO.
    pub fn lock(&self, offset: u64, size: u64) -> Result<abi::zx_vmo_lock_state_t> {
        let mut state = abi::zx_vmo_lock_state_t::default();
        let (place, len) = ((&raw mut state).cast(), size_of_val(&state));
        // SAFETY: `place` has room for `len` bytes.
        check(unsafe { sys::zx_vmo_op_range(self.raw_handle(), abi::ZX_VMO_OP_LOCK, offset, size, place, len) })?;
        Ok(state)
    }

    /// Moves whole pages from another VMO to this one; in the other VMO they become zero.
    ///
    /// # Errors
    /// `INVALID_ARGS`, `OUT_OF_RANGE`, `NOT_SUPPORTED`, `BAD_STATE`, `ACCESS_DENIED`.
    pub fn transfer_data(&self, offset: u64, len: u64, from: &Vmo, from_offset: u64) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_vmo_transfer_data(self.raw_handle(), 0, offset, len, from.raw_handle(), from_offset) })
    }

    /// Exchanges the handle for one with the right to execute. Consumes the handle, even on failure.
    ///
    /// # Errors
    /// `ACCESS_DENIED`: neither the resource nor the policy allows it.
    pub fn replace_as_executable(self, resource: Option<&Resource>) -> Result<Vmo> {
        let mut out = 0;
        let resource = resource.map_or(0, |resource| resource.raw_handle());
        // SAFETY: `out` has room for one handle.
        check(unsafe { sys::zx_vmo_replace_as_executable(self.0.into_raw(), resource, &mut out) })?;
        Ok(Vmo(Handle::from_call(out)?))
    }
}

object! {
    /// A region of an address space (VMAR).
    Vmar
}

impl Vmar {
    /// Makes a VMAR in this one (`ZX_VM_*` options); returns it and its address.
    ///
    /// # Errors
    /// `INVALID_ARGS`, `ACCESS_DENIED`. `NO_RESOURCES` or `ALREADY_EXISTS`: there is no room.
    pub fn allocate(&self, options: u32, offset: usize, size: usize) -> Result<(Vmar, usize)> {
        let (mut out, mut address) = (0, 0);
        // SAFETY: the outputs have room for one handle and one number.
        check(unsafe { sys::zx_vmar_allocate(self.raw_handle(), options, offset, size, &mut out, &mut address) })?;
        Ok((Vmar(Handle::from_call(out)?), address))
    }

    /// Maps pages of a VMO (`ZX_VM_*` options); returns their address. `offset` is relative to the VMAR's base.
    ///
    /// # Errors
    /// `INVALID_ARGS`, `ACCESS_DENIED`, `NO_RESOURCES`, `ALREADY_EXISTS`, `NO_MEMORY`.
    pub fn map(&self, options: u32, offset: usize, vmo: &Vmo, vmo_offset: u64, len: usize) -> Result<usize> {
        let mut address = 0;
        // SAFETY: `address` has room for one number. The caller is responsible for the region's contents, as the
        // crate's documentation says.
        check(unsafe {
            sys::zx_vmar_map(self.raw_handle(), options, offset, vmo.raw_handle(), vmo_offset, len, &mut address)
        })?;
        Ok(address)
    }

    /// Maps pages of a VMO at any address in this VMAR of this process, as memory that Rust can access.
    ///
    /// # Errors
    /// As [`Vmar::map`].
    pub fn map_here<'v>(&'v self, options: u32, vmo: &Vmo, vmo_offset: u64, len: usize) -> Result<Mapping<'v>> {
        if len == 0 {
            return Err(Status::INVALID_ARGS);
        }
        let address = self.map(options, 0, vmo, vmo_offset, len)?;
        Ok(Mapping { vmar: self, address, len })
    }

    /// Maps a mappable clock (`ZX_VM_*` options); returns its address.
    ///
    /// # Errors
    /// `INVALID_ARGS`, `ACCESS_DENIED`, `NO_RESOURCES`, `ALREADY_EXISTS`, `NO_MEMORY`.
    pub fn map_clock(&self, options: u32, offset: usize, clock: &Clock, len: usize) -> Result<usize> {
        let mut address = 0;
        let (vmar, clock) = (self.raw_handle(), clock.raw_handle());
        // SAFETY: `address` has room for one number. The caller is responsible for the region's contents, as the
        // crate's documentation says.
        check(unsafe { sys::zx_vmar_map_clock(vmar, options, offset, clock, len, &mut address) })?;
        Ok(address)
    }

    /// Unmaps all mappings and destroys all VMARs in a range.
    ///
    /// # Errors
    /// `INVALID_ARGS`, `NOT_FOUND`.
    pub fn unmap(&self, address: usize, len: usize) -> Result<()> {
        // SAFETY: the caller is responsible for what is mapped there, as the crate's documentation says.
        check(unsafe { sys::zx_vmar_unmap(self.raw_handle(), address, len) })
    }

    /// Changes the protection of mapped pages (`ZX_VM_PERM_*`).
    ///
    /// # Errors
    /// `ACCESS_DENIED`, `NOT_FOUND`, `INVALID_ARGS`.
    pub fn protect(&self, options: u32, address: usize, len: usize) -> Result<()> {
        // SAFETY: the caller is responsible for what is mapped there, as the crate's documentation says.
        check(unsafe { sys::zx_vmar_protect(self.raw_handle(), options, address, len) })
    }

    /// Commits, decommits, ... a range of mapped pages (`ZX_VMAR_OP_*`).
    ///
    /// # Errors
    /// `ACCESS_DENIED`, `BAD_STATE`, `NOT_SUPPORTED`, `INVALID_ARGS`.
    pub fn op_range(&self, op: u32, address: usize, len: usize) -> Result<()> {
        // SAFETY: no buffer; the caller is responsible for what is mapped there, as the crate's documentation says.
        check(unsafe { sys::zx_vmar_op_range(self.raw_handle(), op, address, len, core::ptr::null_mut(), 0) })
    }

    /// Unmaps everything in the VMAR and destroys it.
    ///
    /// # Errors
    /// `ACCESS_DENIED`, `BAD_STATE`.
    pub fn destroy(&self) -> Result<()> {
        // SAFETY: the caller is responsible for what is mapped there, as the crate's documentation says.
        check(unsafe { sys::zx_vmar_destroy(self.raw_handle()) })
    }
}

/// Mapped pages of this process, which are unmapped when this is dropped. Accesses are word by word or copies, because
/// other programs can write to the same pages at any time.
#[derive(Debug)]
pub struct Mapping<'v> {
    pub(crate) vmar: &'v Vmar,
    pub(crate) address: usize,
    pub(crate) len: usize,
}

/// A number at any address.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Word(u64);

impl Mapping<'_> {
    /// The address of the first byte.
    pub fn address(&self) -> usize {
        self.address
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Always false: there is at least one page.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies bytes from the pages.
    ///
    /// # Errors
    /// [`Status::OUT_OF_RANGE`] beyond the end.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        let mut at = self.place(offset, bytes.len())?;
        let (blocks, rest) = bytes.as_chunks_mut::<BLOCK>();
        // SAFETY: inside of the mapping, see `place`, and of the caller's slice, which is no part of the mapping.
        unsafe { copy_blocks(blocks.as_mut_ptr().cast(), at, blocks.len()) };
        // SAFETY: at most the end of the mapping.
        at = unsafe { at.add(blocks.len() * BLOCK) };
        let (words, rest) = rest.as_chunks_mut::<8>();
        for word in words {
            // SAFETY: inside of the mapping, see `place`; volatile because other programs can write.
            *word = unsafe { at.cast::<Word>().read_volatile() }.0.to_ne_bytes();
            // SAFETY: at most the end of the mapping.
            at = unsafe { at.add(8) };
        }
        for (i, byte) in rest.iter_mut().enumerate() {
            // SAFETY: as above.
            *byte = unsafe { at.add(i).read_volatile() };
        }
        Ok(())
    }

    /// Copies bytes to the pages.
    ///
    /// # Errors
    /// [`Status::OUT_OF_RANGE`] beyond the end.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        let mut at = self.place(offset, bytes.len())?;
        let (blocks, rest) = bytes.as_chunks::<BLOCK>();
        // SAFETY: inside of the mapping, see `place`, and of the caller's slice, which is no part of the mapping.
        unsafe { copy_blocks(at, blocks.as_ptr().cast(), blocks.len()) };
        // SAFETY: at most the end of the mapping.
        at = unsafe { at.add(blocks.len() * BLOCK) };
        let (words, rest) = rest.as_chunks::<8>();
        for word in words {
            // SAFETY: inside of the mapping, see `place`; volatile because other programs can read.
            unsafe { at.cast::<Word>().write_volatile(Word(u64::from_ne_bytes(*word))) };
            // SAFETY: at most the end of the mapping.
            at = unsafe { at.add(8) };
        }
        for (i, byte) in rest.iter().enumerate() {
            // SAFETY: as above.
            unsafe { at.add(i).write_volatile(*byte) };
        }
        Ok(())
    }

    /// A word of the pages. `None` if it is unaligned or beyond the end.
    pub fn word(&self, offset: usize) -> Option<&core::sync::atomic::AtomicU32> {
        let start = self.place(offset, 4).ok()?;
        if !start.addr().is_multiple_of(4) {
            return None;
        }
        // SAFETY: inside of the mapping, aligned, and atomic, so that other accesses are sound.
        Some(unsafe { core::sync::atomic::AtomicU32::from_ptr(start.cast()) })
    }

    fn place(&self, offset: usize, len: usize) -> Result<*mut u8> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len => Ok(core::ptr::with_exposed_provenance_mut(self.address + offset)),
            _ => Err(Status::OUT_OF_RANGE),
        }
    }
}

impl Drop for Mapping<'_> {
    fn drop(&mut self) {
        let _ = self.vmar.unmap(self.address, self.len);
    }
}
