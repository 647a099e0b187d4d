//! IOBuffers: memory regions that two ends share, with a discipline per region.

use abi::{zx_iob_region_info_t, zx_iob_region_t};

use crate::handle::object;
use crate::stream::inputs;
use crate::{AsHandleRef, Handle, Info, InfoSize, Mapping, Result, Status, Vmar, check, sys};

object! {
    /// One end of an IOBuffer.
    Iob
}

object! {
    /// A memory region that several IOBuffers can share.
    IobSharedRegion
}

/// Discipline of a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IobDiscipline {
    /// No rules: the ends use the memory as they like.
    None,
    /// The region stores blobs, each with a number.
    IdAllocator,
    /// The region is a ring of records. Records written through this IOBuffer have the tag.
    Ring {
        /// The tag.
        tag: u64,
    },
}

impl IobDiscipline {
    fn raw(self) -> abi::zx_iob_discipline_t {
        let mut raw = abi::zx_iob_discipline_t::default();
        raw.type_ = match self {
            IobDiscipline::None => abi::ZX_IOB_DISCIPLINE_TYPE_NONE,
            IobDiscipline::IdAllocator => abi::ZX_IOB_DISCIPLINE_TYPE_ID_ALLOCATOR,
            IobDiscipline::Ring { tag } => {
                raw.extension[0] = tag;
                abi::ZX_IOB_DISCIPLINE_TYPE_MEDIATED_WRITE_RING_BUFFER
            }
        };
        raw
    }
}

impl Iob {
    /// Describes a region with its own memory. Access: `ZX_IOB_ACCESS_*`.
    pub fn private_region(access: u32, size: u64, discipline: IobDiscipline) -> zx_iob_region_t {
        zx_iob_region_t {
            type_: abi::ZX_IOB_REGION_TYPE_PRIVATE,
            access,
            size,
            discipline: discipline.raw(),
            ..Default::default()
        }
    }

    /// Describes a region that uses a shared region's memory.
    pub fn shared_region(access: u32, region: &IobSharedRegion, discipline: IobDiscipline) -> zx_iob_region_t {
        zx_iob_region_t {
            type_: abi::ZX_IOB_REGION_TYPE_SHARED,
            access,
            discipline: discipline.raw(),
            extension: [u64::from(region.raw_handle()) << 32, 0, 0, 0],
            ..Default::default()
        }
    }

    /// Makes an IOBuffer with these regions; returns both ends.
    ///
    /// # Errors
    /// `INVALID_ARGS`, `OUT_OF_RANGE`, `NO_MEMORY`.
    pub fn create(regions: &[zx_iob_region_t]) -> Result<(Iob, Iob)> {
        let (mut a, mut b) = (0, 0);
        // SAFETY: the regions are valid for their number; the outputs have room for one handle each.
        check(unsafe { sys::zx_iob_create(0, regions.as_ptr().cast(), regions.len(), &mut a, &mut b) })?;
        Ok((Iob(Handle::from_call(a)?), Iob(Handle::from_call(b)?)))
    }

    /// Stores a blob in a region with an ID allocator; returns its number.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`, `WRONG_TYPE`, `ACCESS_DENIED`, `NO_MEMORY`, `IO_DATA_INTEGRITY`.
    pub fn allocate_id(&self, region: u32, blob: &[u8]) -> Result<u32> {
        let mut id = 0;
        // SAFETY: the blob is valid for its length; `id` has room for one number.
        check(unsafe {
            sys::zx_iob_allocate_id(self.raw_handle(), 0, region, blob.as_ptr().cast(), blob.len(), &mut id)
        })?;
        Ok(id)
    }

    /// Writes a record to a ring.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`, `WRONG_TYPE`, `ACCESS_DENIED`, `INVALID_ARGS`, `BAD_STATE`, `NO_SPACE`, `NO_MEMORY`.
    pub fn writev<const N: usize>(&self, region: u32, buffers: [&[u8]; N]) -> Result<()> {
        let vectors = inputs(buffers);
        // SAFETY: each element is valid for its length and only read.
        check(unsafe { sys::zx_iob_writev(self.raw_handle(), 0, region, vectors.as_ptr(), vectors.len()) })
    }

    /// The regions. The access rights of this end are in the fields for end 0.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn regions(&self, records: &mut [zx_iob_region_info_t]) -> Result<InfoSize> {
        self.get_info_records(abi::ZX_INFO_IOB_REGIONS, records)
    }
}

impl IobSharedRegion {
    /// Makes a region of whole pages.
    ///
    /// # Errors
    /// `INVALID_ARGS`, `OUT_OF_RANGE`, `NO_MEMORY`.
    pub fn create(size: u64) -> Result<IobSharedRegion> {
        let mut out = 0;
        // SAFETY: `out` has room for one handle.
        check(unsafe { sys::zx_iob_create_shared_region(0, size, &mut out) })?;
        Ok(IobSharedRegion(Handle::from_call(out)?))
    }
}

impl Vmar {
    /// Maps pages of an IOBuffer's region (`ZX_VM_*` options); returns their address.
    ///
    /// # Errors
    /// Those of [`Vmar::map`]; `OUT_OF_RANGE`: no such region. `BUFFER_TOO_SMALL`: the region is shorter.
    pub fn map_iob(
        &self,
        options: u32,
        vmar_offset: usize,
        iob: &Iob,
        region: u32,
        part: (u64, usize),
    ) -> Result<usize> {
        let (mut address, (offset, len)) = (0, part);
        // SAFETY: `address` has room for one number. The caller is responsible for the region's contents, as the
        // crate's documentation says.
        check(unsafe {
            sys::zx_vmar_map_iob(
                self.raw_handle(),
                options,
                vmar_offset,
                iob.raw_handle(),
                region,
                offset,
                len,
                &mut address,
            )
        })?;
        Ok(address)
    }

    /// Maps the first pages of an IOBuffer's region at any address in this VMAR of this process, as memory that Rust
    /// can access.
    ///
    /// # Errors
    /// As [`Vmar::map_iob`].
    pub fn map_iob_here<'v>(&'v self, options: u32, iob: &Iob, region: u32, len: usize) -> Result<Mapping<'v>> {
        if len == 0 {
            return Err(Status::INVALID_ARGS);
        }
        let address = self.map_iob(options, 0, iob, region, (0, len))?;
        Ok(Mapping { vmar: self, address, len })
    }
}
