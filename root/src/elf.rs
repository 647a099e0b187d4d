//! Reads the parts of a static 64-bit ELF program that the loader needs.

use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::error::Error;

#[derive(FromBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Header {
    magic: [u8; 4],
    class: u8,
    encoding: u8,
    _version: [u8; 10],
    kind: u16,
    machine: u16,
    _version2: u32,
    entry: u64,
    program_headers: u64,
    _section_headers: u64,
    _flags: u32,
    _size: u16,
    program_header_size: u16,
    program_header_count: u16,
    _sections: [u16; 3],
}

#[derive(FromBytes, Immutable, KnownLayout)]
#[repr(C)]
struct ProgramHeader {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    _physical: u64,
    file_size: u64,
    memory_size: u64,
    _align: u64,
}

/// A program file.
pub struct Elf<'a> {
    bytes: &'a [u8],
    /// Address of the program's first instruction.
    pub entry: u64,
    headers: u64,
    count: u64,
}

/// A segment of the program in memory.
pub struct Segment<'a> {
    /// Its address.
    pub address: u64,
    /// Its bytes in the file; the rest of its memory is zero.
    pub bytes: &'a [u8],
    /// Its size in memory.
    pub size: u64,
    /// It is writable.
    pub write: bool,
    /// It is executable.
    pub execute: bool,
}

impl<'a> Elf<'a> {
    /// Checks the header.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        let (header, _) = Header::read_from_prefix(bytes).map_err(|_| Error::Image("too short"))?;
        if header.magic != *b"\x7fELF" || header.class != 2 || header.encoding != 1 {
            return Err(Error::Image("no 64-bit ELF file"));
        }
        if header.kind != 2 || header.machine != 62 {
            return Err(Error::Image("no static program for x86-64"));
        }
        if usize::from(header.program_header_size) != size_of::<ProgramHeader>() {
            return Err(Error::Image("strange program headers"));
        }
        let count = header.program_header_count.into();
        Ok(Elf { bytes, entry: header.entry, headers: header.program_headers, count })
    }

    /// The loadable segments.
    pub fn segments(&self) -> impl Iterator<Item = Result<Segment<'a>, Error>> {
        (0..self.count).filter_map(|i| self.segment(i).transpose())
    }

    fn segment(&self, i: u64) -> Result<Option<Segment<'a>>, Error> {
        let bad = Error::Image("a segment lies outside the file");
        let size = size_of::<ProgramHeader>() as u64;
        let bytes = i.checked_mul(size).and_then(|at| at.checked_add(self.headers)).and_then(|at| self.range(at, size));
        let Some(header) = bytes.and_then(|bytes| ProgramHeader::read_from_bytes(bytes).ok()) else { return Err(bad) };
        const LOAD: u32 = 1;
        const EXECUTE: u32 = 1;
        const WRITE: u32 = 2;
        if header.kind != LOAD || header.memory_size == 0 {
            return Ok(None);
        }
        let bytes = self.range(header.offset, header.file_size).ok_or(bad)?;
        if header.file_size > header.memory_size || header.address.checked_add(header.memory_size).is_none() {
            return Err(Error::Image("a segment's sizes are wrong"));
        }
        let [execute, write] = [EXECUTE, WRITE].map(|flag| header.flags & flag != 0);
        Ok(Some(Segment { address: header.address, bytes, size: header.memory_size, write, execute }))
    }

    fn range(&self, start: u64, len: u64) -> Option<&'a [u8]> {
        self.bytes.get(usize::try_from(start).ok()?..usize::try_from(start.checked_add(len)?).ok()?)
    }
}
