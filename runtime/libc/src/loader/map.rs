//! Maps a file into memory.
//!
//! Read-only and executable segments are mapped directly from the file's VMO, so all processes share their pages. A
//! writable segment gets its own VMO with a copy of the file's bytes.

use super::elf::{self, Header, Image, Layout, PAGE, PF_R, PF_W, PF_X, Segment};
use crate::sys::{self, Handle, Status};
use crate::system::{check, root_vmar};
use core::mem::MaybeUninit;

/// Why a file could not be mapped.
pub enum Failure {
    /// The file is not suitable: "its ...".
    Image(elf::Reason),
    /// A system call failed: what was attempted, and the status.
    System(&'static str, Status),
}

impl From<elf::Reason> for Failure {
    fn from(reason: elf::Reason) -> Self {
        Failure::Image(reason)
    }
}

impl core::fmt::Display for Failure {
    fn fmt(&self, f: &mut core::fmt::Formatter) -> core::fmt::Result {
        match self {
            Failure::Image(reason) => write!(f, "its {reason}"),
            Failure::System(doing, status) => write!(f, "{doing} failed ({status})"),
        }
    }
}

/// A mapped file.
pub struct Mapped {
    pub image: Image,
    pub layout: Layout,
    /// Address of the lowest page.
    pub base: usize,
    /// Address of the entry point.
    pub entry: usize,
    /// Address of the program headers in memory, and their number.
    pub headers: (usize, usize),
    /// The VMAR that holds the image, for changing protection and for unmapping.
    pub region: Handle,
}

fn system(doing: &'static str) -> impl Fn(Status) -> Failure {
    move |status| Failure::System(doing, status)
}

/// The first page of a file, or less if the file is shorter, and the file's size.
fn first_page(vmo: Handle, page: &mut [MaybeUninit<u8>; PAGE]) -> Result<(&[u8], u64), Failure> {
    let mut size = PAGE as u64;
    // SAFETY: the property is a word; the buffer has the given length, and only bytes that were read are used.
    unsafe {
        let place = (&raw mut size).cast();
        if sys::zx_object_get_property(vmo, sys::PROP_VMO_CONTENT_SIZE, place, 8) != sys::OK {
            check(sys::zx_vmo_get_size(vmo, &mut size)).map_err(system("asking for its size"))?;
        }
        let len = PAGE.min(size as usize);
        check(sys::zx_vmo_read(vmo, page.as_mut_ptr().cast(), 0, len)).map_err(system("reading it"))?;
        Ok((core::slice::from_raw_parts(page.as_ptr().cast(), len), size))
    }
}

/// Maps the file in `vmo` at any address.
#[inline(never)]
pub fn map(vmo: Handle) -> Result<Mapped, Failure> {
    let mut page = [MaybeUninit::uninit(); PAGE];
    let (page, size) = first_page(vmo, &mut page)?;
    let header = Header::parse(page)?;
    let layout = Layout::plan(header.program_headers(page)?)?;
    if layout.segments().iter().any(|segment| segment.file_offset + segment.file_len as u64 > size) {
        return Err("file is cut off".into());
    }
    let rights = sys::VM_CAN_MAP_READ | sys::VM_CAN_MAP_WRITE | sys::VM_CAN_MAP_EXECUTE | sys::VM_CAN_MAP_SPECIFIC;
    let (mut region, mut base) = (sys::HANDLE_INVALID, 0);
    // SAFETY: there is room for the results.
    check(unsafe { sys::zx_vmar_allocate(root_vmar(), rights, 0, layout.span, &mut region, &mut base) })
        .map_err(system("finding room for it"))?;
    for segment in layout.segments() {
        if let Err(failure) = map_segment(vmo, region, base, segment) {
            // SAFETY: nothing uses the incomplete image.
            unsafe {
                sys::zx_vmar_destroy(region);
                sys::zx_handle_close(region);
            }
            return Err(failure);
        }
    }
    // SAFETY: all segments have just been mapped, and stay mapped while the module is in use.
    let image = unsafe { Image::new(base, &layout) };
    let headers = match headers_in_memory(&layout, &header) {
        Some(vaddr) => (image.bias().wrapping_add(vaddr), header.phnum),
        None => (0, 0),
    };
    Ok(Mapped { image, base, entry: image.bias().wrapping_add(header.entry as usize), headers, region, layout })
}

/// The address (as in the file) of the program headers, in the segment that covers them.
fn headers_in_memory(layout: &Layout, header: &Header) -> Option<usize> {
    let end = header.phoff + header.phnum * size_of::<elf::ProgramHeader>();
    let segment = layout.segments().iter().find(|segment| segment.file_offset == 0 && end <= segment.file_len)?;
    Some(layout.first + segment.start + header.phoff)
}

fn rights(flags: u32) -> u32 {
    [(PF_R, sys::VM_PERM_READ), (PF_W, sys::VM_PERM_WRITE), (PF_X, sys::VM_PERM_EXECUTE)]
        .iter()
        .filter(|(flag, _)| flags & flag != 0)
        .fold(0, |all, (_, right)| all | right)
}

fn map_segment(file: Handle, region: Handle, base: usize, segment: &Segment) -> Result<(), Failure> {
    if segment.flags & PF_W != 0 && segment.flags & PF_X != 0 {
        return Err("code is writable".into());
    }
    let mut address = 0;
    if !segment.is_private() {
        let options = rights(segment.flags) | sys::VM_SPECIFIC;
        // SAFETY: maps into the new, empty VMAR.
        let status = unsafe {
            sys::zx_vmar_map(region, options, segment.start, file, segment.file_offset, segment.len, &mut address)
        };
        return check(status).map_err(system("mapping it"));
    }
    let mut own = sys::HANDLE_INVALID;
    // SAFETY: as above; nothing refers to the pages yet.
    unsafe {
        check(sys::zx_vmo_create(segment.len as u64, 0, &mut own)).map_err(system("making room for its data"))?;
        let options = sys::VM_PERM_READ | sys::VM_PERM_WRITE | sys::VM_SPECIFIC;
        let mapped = check(sys::zx_vmar_map(region, options, segment.start, own, 0, segment.len, &mut address));
        sys::zx_handle_close(own);
        mapped.map_err(system("mapping its data"))?;
        if segment.file_len > 0 {
            let to = (base + segment.start) as *mut core::ffi::c_void;
            check(sys::zx_vmo_read(file, to, segment.file_offset, segment.file_len))
                .map_err(system("reading its data"))?;
        }
        if segment.flags & PF_W == 0 {
            check(sys::zx_vmar_protect(region, rights(segment.flags), address, segment.len))
                .map_err(system("protecting its data"))?;
        }
    }
    Ok(())
}
