//! Maps an image's segments.
//!
//! Read-only segments are mapped directly from the file's VMO, so all processes share them. Each writable segment gets
//! its own VMO with a copy of the file's bytes.

use alloc::vec;

use abi::{
    Status, ZX_VM_CAN_MAP_EXECUTE, ZX_VM_CAN_MAP_READ, ZX_VM_CAN_MAP_SPECIFIC, ZX_VM_CAN_MAP_WRITE, ZX_VM_PERM_EXECUTE,
    ZX_VM_PERM_READ, ZX_VM_PERM_WRITE, ZX_VM_SPECIFIC,
};
use zx::{AsHandleRef, Vmar, Vmo};

use crate::image::{FileSource, Image, ImageError, Segment, page_ceil, page_floor};

/// Number of bytes copied at a time.
const CHUNK: usize = 16 << 10;

/// An ELF file in a VMO.
#[derive(Debug)]
pub struct VmoSource<'a> {
    vmo: &'a Vmo,
    size: u64,
}

impl<'a> VmoSource<'a> {
    /// The file's length is the VMO's stream size, or its size if it has none.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn new(vmo: &'a Vmo) -> Result<VmoSource<'a>, Status> {
        let size = vmo.get_stream_size().or_else(|_| vmo.get_size())?;
        Ok(VmoSource { vmo, size })
    }
}

impl FileSource for VmoSource<'_> {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<(), ImageError> {
        self.vmo.read(bytes, offset).map_err(|_| ImageError::Unreadable)
    }
}

/// An image that has been mapped.
#[derive(Debug)]
pub struct Loaded {
    /// The VMAR that holds exactly the image.
    pub vmar: Vmar,
    /// Address of its first page.
    pub base: usize,
    /// Address of its entry point.
    pub entry: usize,
}

/// Maps a checked image into a new VMAR below `parent`.
///
/// # Errors
/// Errors of the kernel; the VMAR is destroyed then.
pub fn load(parent: &Vmar, vmo: &Vmo, image: &Image) -> Result<Loaded, Status> {
    let (low, high) = image.span().ok_or(Status::INVALID_ARGS)?;
    let size = usize::try_from(high - low).map_err(|_| Status::OUT_OF_RANGE)?;
    let writes = image.segments.iter().any(|segment| segment.write);
    let executes = image.segments.iter().any(|segment| segment.execute);
    let mut options = ZX_VM_CAN_MAP_READ | ZX_VM_CAN_MAP_SPECIFIC | align_option(image.align);
    options |= if writes { ZX_VM_CAN_MAP_WRITE } else { 0 };
    options |= if executes { ZX_VM_CAN_MAP_EXECUTE } else { 0 };
    let (vmar, base) = parent.allocate(options, 0, size)?;
    for segment in &image.segments {
        if let Err(status) = map_segment(&vmar, vmo, low, segment) {
            // Return the first error.
            let _ = vmar.destroy();
            return Err(status);
        }
    }
    let entry = base.wrapping_add(image.entry.wrapping_sub(low) as usize);
    Ok(Loaded { vmar, base, entry })
}

fn map_segment(vmar: &Vmar, file: &Vmo, low: u64, segment: &Segment) -> Result<(), Status> {
    let (first, after) = segment.pages();
    let at = (first - low) as usize;
    let len = (after - first) as usize;
    let mut options = ZX_VM_SPECIFIC | ZX_VM_PERM_READ;
    options |= if segment.write { ZX_VM_PERM_WRITE } else { 0 };
    options |= if segment.execute { ZX_VM_PERM_EXECUTE } else { 0 };
    let head = segment.address - first;
    let file_pages = page_ceil(head + segment.file_size);
    if !segment.write && first + file_pages == after {
        vmar.map(options, at, file, page_floor(segment.offset), len)?;
        return Ok(());
    }

    let mut memory = Vmo::create(len as u64, 0)?;
    memory.set_name(if segment.write { "data" } else { "text" })?;
    copy(file, segment.offset, &memory, head, segment.file_size)?;
    if segment.execute {
        memory = memory.replace_as_executable(None)?;
    }
    vmar.map(options, at, &memory, 0, len)?;
    Ok(())
}

fn copy(from: &Vmo, from_offset: u64, to: &Vmo, to_offset: u64, size: u64) -> Result<(), Status> {
    let mut buffer = vec![0; CHUNK];
    let mut done = 0;
    while done < size {
        let part = &mut buffer[..(size - done).min(CHUNK as u64) as usize];
        from.read(part, from_offset + done)?;
        to.write(part, to_offset + done)?;
        done += part.len() as u64;
    }
    Ok(())
}

/// The option for an alignment above that of pages.
fn align_option(align: u64) -> u32 {
    let log2 = align.max(1).ilog2();
    if log2 > 12 { log2 << abi::ZX_VM_ALIGN_BASE } else { 0 }
}
