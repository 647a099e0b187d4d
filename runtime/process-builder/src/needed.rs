//! The libraries that a program names, from its dynamic section.
//!
//! The dynamic linker runs inside the new process, so it can report a missing library only after the process has
//! started. Therefore the program that starts a process first checks that the program's own libraries exist. The
//! libraries that these need in turn are left to the linker.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use elf::abi as e;
use elf::dynamic::DynamicTable;
use elf::endian::LittleEndian;
use elf::file::Class;
use elf::segment::ProgramHeader;

use crate::image::{FileSource, ImageError, Segment, read_checked};

/// Limits in bytes on the part of a dynamic section that is read, and on a library's name.
const MAX_SECTION: u64 = 64 << 10;
const MAX_NAME: usize = 255;
/// Limit on the libraries that a program names.
const MAX_LIBRARIES: usize = 256;

/// The names, in file order.
///
/// # Errors
/// An [`ImageError`] that says what is wrong with the file.
pub fn needed(
    file: &(impl FileSource + ?Sized),
    headers: &[ProgramHeader],
    segments: &[Segment],
) -> Result<Vec<String>, ImageError> {
    let Some(section) = headers.iter().find(|header| header.p_type == e::PT_DYNAMIC) else { return Ok(Vec::new()) };
    if section.p_filesz > MAX_SECTION {
        return Err(ImageError::BadDynamic);
    }
    let mut bytes = vec![0; section.p_filesz as usize];
    read_checked(file, section.p_offset, &mut bytes)?;
    let rows = || {
        let table = DynamicTable::new(LittleEndian, Class::ELF64, &bytes);
        table.iter().take_while(|row| row.d_tag != e::DT_NULL)
    };
    let offsets: Vec<u64> = rows().filter(|row| row.d_tag == e::DT_NEEDED).map(|row| row.d_val()).collect();
    if offsets.is_empty() {
        return Ok(Vec::new());
    }
    if offsets.len() > MAX_LIBRARIES {
        return Err(ImageError::BadDynamic);
    }
    // The dynamic section has the strings' address in memory; the segment there gives their offset in the file.
    let strings = rows().find(|row| row.d_tag == e::DT_STRTAB).map(|row| row.d_val());
    let place = strings.and_then(|address| {
        let segment = segments.iter().find(|s| (s.address..s.address + s.file_size).contains(&address))?;
        Some(segment.offset + (address - segment.address))
    });
    let place = place.ok_or(ImageError::BadDynamic)?;
    offsets.iter().map(|offset| name(file, place.checked_add(*offset).ok_or(ImageError::BadDynamic)?)).collect()
}

fn name(file: &(impl FileSource + ?Sized), offset: u64) -> Result<String, ImageError> {
    let rest = usize::try_from(file.size().saturating_sub(offset)).unwrap_or(usize::MAX);
    let mut bytes = vec![0; rest.min(MAX_NAME + 1)];
    read_checked(file, offset, &mut bytes)?;
    let end = bytes.iter().position(|byte| *byte == 0).ok_or(ImageError::BadDynamic)?;
    bytes.truncate(end);
    String::from_utf8(bytes).map_err(|_| ImageError::BadDynamic)
}
