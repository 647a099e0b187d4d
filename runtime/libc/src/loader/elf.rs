//! Reads ELF images: the file's headers, the layout of its mapping, and the dynamic section of a mapped image.
//!
//! The file is not trusted. Every address from it goes through [`Image`], which reads only inside of mapped segments,
//! and writes only inside of writable ones.

use super::symbols::Search;
use core::mem::size_of;

/// Page size in bytes, the unit of mappings.
pub const PAGE: usize = 4096;
/// Limit on the segments of an image; linkers make four to six.
pub const MAX_SEGMENTS: usize = 10;

pub const PT_LOAD: u32 = 1;
pub const PT_DYNAMIC: u32 = 2;
pub const PT_TLS: u32 = 7;
pub const PT_GNU_STACK: u32 = 0x6474_e551;
pub const PT_GNU_RELRO: u32 = 0x6474_e552;

pub const PF_X: u32 = 1;
pub const PF_W: u32 = 2;
pub const PF_R: u32 = 4;

/// Why an image was rejected, as a phrase that follows "its".
pub type Reason = &'static str;

/// A program header as in the file.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct ProgramHeader {
    pub p_type: u32,
    pub flags: u32,
    pub offset: u64,
    pub vaddr: u64,
    pub paddr: u64,
    pub filesz: u64,
    pub memsz: u64,
    pub align: u64,
}

/// A symbol table entry.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct Symbol {
    pub name: u32,
    pub info: u8,
    pub other: u8,
    pub section: u16,
    pub value: u64,
    pub size: u64,
}

impl Symbol {
    /// Whether its own image defines it (absolute symbols count).
    pub fn is_defined(&self) -> bool {
        self.section != 0
    }

    /// Whether it may remain undefined.
    pub fn is_weak(&self) -> bool {
        self.info >> 4 == 2
    }

    /// Whether other images see it: global, weak or unique.
    pub fn is_global(&self) -> bool {
        matches!(self.info >> 4, 1 | 2 | 10)
    }

    /// Whether its value is an offset in the module's TLS block, not an address.
    pub fn is_tls(&self) -> bool {
        self.info & 15 == 6
    }

    /// Whether it is an indirect function (IFUNC), which returns the address.
    pub fn is_ifunc(&self) -> bool {
        self.info & 15 == 10
    }

    /// Whether its value is absolute, that is, not relative to the image.
    pub fn is_absolute(&self) -> bool {
        self.section == 0xfff1
    }
}

/// Contents of the file's header.
#[derive(Debug)]
pub struct Header {
    /// Address of the entry point, relative to the image.
    pub entry: u64,
    /// Offset of the program headers in the file, and their number.
    pub phoff: usize,
    pub phnum: usize,
}

fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes_at(bytes, at).map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes_at(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes_at(bytes, at).map(u64::from_le_bytes)
}

impl Header {
    /// Parses the header at the start of the file.
    pub fn parse(file: &[u8]) -> Result<Self, Reason> {
        let short = "file is too short";
        if file.get(..4).ok_or(short)? != b"\x7fELF" {
            return Err("file is not an ELF image");
        }
        // 64-bit, little-endian.
        if bytes_at(file, 4) != Some([2, 1]) {
            return Err("image is not 64-bit little endian");
        }
        let (kind, machine) = (u16_at(file, 16).ok_or(short)?, u16_at(file, 18).ok_or(short)?);
        if machine != 62 {
            return Err("image is for another machine");
        }
        if kind != 3 {
            return Err("image is not position-independent (ET_DYN)");
        }
        let entry = u64_at(file, 24).ok_or(short)?;
        let phoff = u64_at(file, 32).ok_or(short)?;
        let (size, count) = (u16_at(file, 54).ok_or(short)?, u16_at(file, 56).ok_or(short)?);
        if usize::from(size) != size_of::<ProgramHeader>() {
            return Err("program headers have an unknown size");
        }
        let phoff = usize::try_from(phoff).map_err(|_| "program headers lie outside the file")?;
        Ok(Self { entry, phoff, phnum: usize::from(count) })
    }

    /// The program headers, which must be inside of `file` (the first page is enough for any linker's output).
    pub fn program_headers<'a>(
        &self,
        file: &'a [u8],
    ) -> Result<impl Iterator<Item = ProgramHeader> + Clone + 'a, Reason> {
        let size = size_of::<ProgramHeader>();
        let end = self.phoff.checked_add(self.phnum * size);
        let table =
            end.and_then(|end| file.get(self.phoff..end)).ok_or("program headers lie outside the first page")?;
        Ok(table.chunks_exact(size).map(|entry| {
            let (word, long) = (|at| u32_at(entry, at).unwrap_or_default(), |at| u64_at(entry, at).unwrap_or_default());
            ProgramHeader {
                p_type: word(0),
                flags: word(4),
                offset: long(8),
                vaddr: long(16),
                paddr: long(24),
                filesz: long(32),
                memsz: long(40),
                align: long(48),
            }
        }))
    }
}

/// A part of an image to map. All sizes except for the file's are multiples of the page size.
#[derive(Clone, Copy, Default, Debug)]
pub struct Segment {
    /// Address of its first byte, relative to the image's lowest page.
    pub start: usize,
    /// Length in bytes, a multiple of the page size.
    pub len: usize,
    /// Offset in the file of its first page.
    pub file_offset: u64,
    /// Bytes from `file_offset` that come from the file; the rest is zero.
    pub file_len: usize,
    /// `PF_*`.
    pub flags: u32,
}

impl Segment {
    /// Whether it needs its own pages, because it is writable or has bytes that are not in the file.
    pub fn is_private(&self) -> bool {
        self.flags & PF_W != 0 || self.len > self.file_len.next_multiple_of(PAGE)
    }
}

/// Initial contents and size of a module's thread-local storage.
#[derive(Clone, Copy, Default, Debug)]
pub struct TlsSegment {
    pub vaddr: usize,
    pub file_len: usize,
    pub len: usize,
    pub align: usize,
}

/// Layout of an image in memory.
#[derive(Default, Debug)]
pub struct Layout {
    segments: [Segment; MAX_SEGMENTS],
    count: usize,
    /// Address of the lowest page as the file gives it; 0 in ordinary files.
    pub first: usize,
    /// Bytes from the lowest page to the end of the highest.
    pub span: usize,
    /// Address and size of the dynamic section (address as in the file).
    pub dynamic: Option<(usize, usize)>,
    pub tls: Option<TlsSegment>,
    /// Address and size of the part that becomes read-only after relocation (address as in the file).
    pub relro: Option<(usize, usize)>,
    /// Stack size that the program requests in bytes; 0 = any.
    pub stack: usize,
}

impl Layout {
    /// Plans the mapping. Segments must be in ascending order and must not overlap, as the ELF standard demands.
    pub fn plan(headers: impl Iterator<Item = ProgramHeader>) -> Result<Self, Reason> {
        let mut layout = Layout::default();
        let mut end = 0;
        for header in headers {
            let outside = "segments lie outside the address space";
            let (vaddr, memsz) = (header.vaddr as usize, header.memsz as usize);
            let top = vaddr.checked_add(memsz).filter(|&top| top < 1 << 46).ok_or(outside)?;
            match header.p_type {
                PT_LOAD if memsz > 0 => {
                    let page = vaddr % PAGE;
                    if header.offset % PAGE as u64 != page as u64 {
                        return Err("segments are not aligned to pages");
                    }
                    if header.filesz > header.memsz || header.offset > 1 << 46 {
                        return Err("segments are larger in the file than in memory");
                    }
                    let start = vaddr - page;
                    if layout.count == 0 {
                        layout.first = start;
                    } else if start < end {
                        return Err("segments overlap");
                    }
                    end = top.next_multiple_of(PAGE);
                    let slot = layout.segments.get_mut(layout.count).ok_or("segments are too many")?;
                    *slot = Segment {
                        start: start - layout.first,
                        len: end - start,
                        file_offset: header.offset - page as u64,
                        file_len: if header.filesz == 0 { 0 } else { header.filesz as usize + page },
                        flags: header.flags,
                    };
                    layout.count += 1;
                }
                PT_DYNAMIC => layout.dynamic = Some((vaddr, memsz)),
                PT_TLS if memsz > 0 => {
                    let align = (header.align as usize).max(1);
                    if !align.is_power_of_two() || align > PAGE || header.filesz > header.memsz || memsz > 1 << 30 {
                        return Err("thread-local segment makes no sense");
                    }
                    layout.tls = Some(TlsSegment { vaddr, file_len: header.filesz as usize, len: memsz, align });
                }
                PT_GNU_RELRO => layout.relro = Some((vaddr, memsz)),
                PT_GNU_STACK => layout.stack = memsz,
                _ => {}
            }
        }
        layout.span = end - layout.first;
        if layout.count == 0 {
            return Err("image has nothing to load");
        }
        Ok(layout)
    }

    /// The segments to map, ascending.
    pub fn segments(&self) -> &[Segment] {
        &self.segments[..self.count]
    }
}

/// A mapped image. All accesses to its memory go through this type.
#[derive(Clone, Copy)]
pub struct Image {
    /// Difference between an address in memory and the address in the file.
    bias: usize,
    /// Start, end (addresses as in the file) and flags of each segment.
    segments: [(usize, usize, u32); MAX_SEGMENTS],
    count: usize,
}

impl Image {
    /// The image whose lowest page is mapped at `base`.
    ///
    /// # Safety
    /// All segments of `layout` are mapped there, with their rights or more, and stay mapped.
    pub unsafe fn new(base: usize, layout: &Layout) -> Self {
        let mut segments = [(0, 0, 0); MAX_SEGMENTS];
        for (slot, segment) in segments.iter_mut().zip(layout.segments()) {
            let start = layout.first + segment.start;
            *slot = (start, start + segment.len, segment.flags);
        }
        Self { bias: base.wrapping_sub(layout.first), segments, count: layout.count }
    }

    /// The load bias: the difference between an address in memory and the address in the file.
    pub fn bias(&self) -> usize {
        self.bias
    }

    /// The segment that holds `[vaddr, vaddr + len)`.
    fn segment(&self, vaddr: usize, len: usize) -> Option<(usize, usize, u32)> {
        let end = vaddr.checked_add(len)?;
        self.segments[..self.count].iter().copied().find(|&(start, stop, _)| start <= vaddr && end <= stop)
    }

    /// The address in memory of `len` readable bytes at `vaddr`.
    pub fn address(&self, vaddr: usize, len: usize) -> Option<usize> {
        self.segment(vaddr, len).filter(|segment| segment.2 & PF_R != 0)?;
        Some(self.bias.wrapping_add(vaddr))
    }

    /// Whether `vaddr` is in an executable segment.
    pub fn is_code(&self, vaddr: usize) -> bool {
        self.segment(vaddr, 1).is_some_and(|segment| segment.2 & PF_X != 0)
    }

    /// The lowest address in memory, and the address behind the highest.
    pub fn range(&self) -> (usize, usize) {
        let segments = &self.segments[..self.count];
        let start = segments.iter().map(|segment| segment.0).min().unwrap_or(0);
        let end = segments.iter().map(|segment| segment.1).max().unwrap_or(0);
        (start.wrapping_add(self.bias), end.wrapping_add(self.bias))
    }

    /// Whether an address in memory is inside of this image.
    pub fn contains(&self, address: usize) -> bool {
        self.segment(address.wrapping_sub(self.bias), 1).is_some()
    }

    /// Reads a plain value at `vaddr`.
    pub fn read<T: Copy>(&self, vaddr: usize) -> Option<T> {
        let address = self.address(vaddr, size_of::<T>())?;
        // SAFETY: inside of a readable segment, which the caller of `new` guarantees to be mapped; any bytes are a
        // valid `T` (callers use integers and structures of integers).
        Some(unsafe { (address as *const T).read_unaligned() })
    }

    /// Stores a word at `vaddr`, which must lie in a writable segment.
    pub fn write(&self, vaddr: usize, value: usize) -> Option<()> {
        self.segment(vaddr, size_of::<usize>()).filter(|segment| segment.2 & PF_W != 0)?;
        // SAFETY: inside of a writable segment, mapped as the caller of `new` guarantees; no Rust reference points to
        // it.
        unsafe { (self.bias.wrapping_add(vaddr) as *mut usize).write_unaligned(value) };
        Some(())
    }

    /// A writer for many stores at nearby addresses.
    pub fn writer(&self) -> Writer<'_> {
        Writer { image: self, start: 0, end: 0 }
    }

    /// The memory from `vaddr` to the end of its segment, which must not be writable. For tables that are read often:
    /// the bounds are checked once.
    pub fn table<T: Copy>(&self, vaddr: usize) -> Option<&'static [T]> {
        let (_, end, flags) = self.segment(vaddr, 0)?;
        let start = self.bias.wrapping_add(vaddr) as *const T;
        if flags & (PF_R | PF_W) != PF_R || !start.is_aligned() {
            return None;
        }
        // SAFETY: aligned, and up to the end of a readable segment, mapped as the caller of `new` guarantees. Nothing
        // writes there, because `write` and `Writer` only write to writable segments. For `T`, see `read`.
        Some(unsafe { core::slice::from_raw_parts(start, (end - vaddr) / size_of::<T>()) })
    }
}

/// Writes to an image. It caches the segment of the last store, which is almost always that of the next.
pub struct Writer<'a> {
    image: &'a Image,
    start: usize,
    end: usize,
}

impl Writer<'_> {
    /// Adds to the word at `vaddr`, which must lie in a writable and readable segment.
    pub fn add(&mut self, vaddr: usize, value: usize) -> Option<()> {
        let end = vaddr.checked_add(size_of::<usize>())?;
        if vaddr < self.start || end > self.end {
            let segment = self.image.segment(vaddr, size_of::<usize>());
            let wanted = PF_R | PF_W;
            (self.start, self.end, _) = segment.filter(|segment| segment.2 & wanted == wanted)?;
        }
        let place = self.image.bias.wrapping_add(vaddr) as *mut usize;
        // SAFETY: inside of a segment with these rights, mapped as the caller of `Image::new` guarantees; no Rust
        // reference points to it.
        unsafe { place.write_unaligned(place.read_unaligned().wrapping_add(value)) };
        Some(())
    }
}

/// A table in the image: address and size in bytes.
#[derive(Clone, Copy, Default, Debug)]
pub struct Table {
    pub vaddr: usize,
    pub size: usize,
}

/// The dynamic section: addresses and sizes of all tables for binding.
#[derive(Clone, Default, Debug)]
pub struct Dynamic {
    pub sysv_hash: Option<usize>,
    /// The tables for symbol look-up.
    pub search: Search,
    pub rela: Table,
    pub rel: Table,
    pub relr: Table,
    pub plt: Table,
    /// Whether the PLT's relocations have explicit addends (RELA).
    pub plt_is_rela: bool,
    pub init: usize,
    pub init_array: Table,
    pub fini: usize,
    pub fini_array: Table,
    pub preinit_array: Table,
    /// Offset of the image's own name (soname) in the string table; 0 = none.
    pub soname: usize,
    /// Address and size of the section itself, to list the needed libraries again.
    section: Table,
}

const DT_NEEDED: u64 = 1;

impl Dynamic {
    /// Parses the section at `vaddr`.
    pub fn parse(image: &Image, vaddr: usize, size: usize) -> Result<Self, Reason> {
        let mut dynamic = Dynamic { section: Table { vaddr, size }, ..Default::default() };
        let (mut strings, mut symbols, mut gnu_hash) = (None, None, None);
        for (tag, value) in entries(image, dynamic.section) {
            let value = value as usize;
            match tag {
                2 => dynamic.plt.size = value,
                4 => dynamic.sysv_hash = Some(value),
                5 => strings = Some(value),
                6 => symbols = Some(value),
                7 => dynamic.rela.vaddr = value,
                8 => dynamic.rela.size = value,
                12 => dynamic.init = value,
                13 => dynamic.fini = value,
                14 => dynamic.soname = value,
                17 => dynamic.rel.vaddr = value,
                18 => dynamic.rel.size = value,
                20 => dynamic.plt_is_rela = value == 7,
                22 => return Err("code needs relocation (DT_TEXTREL)"),
                23 => dynamic.plt.vaddr = value,
                25 => dynamic.init_array.vaddr = value,
                26 => dynamic.fini_array.vaddr = value,
                27 => dynamic.init_array.size = value,
                28 => dynamic.fini_array.size = value,
                32 => dynamic.preinit_array.vaddr = value,
                33 => dynamic.preinit_array.size = value,
                35 => dynamic.relr.size = value,
                36 => dynamic.relr.vaddr = value,
                0x6fff_fef5 => gnu_hash = Some(value),
                _ => {}
            }
        }
        let (Some(strings), Some(symbols)) = (strings, symbols) else {
            return Err("dynamic section names no symbols");
        };
        dynamic.search =
            Search::new(image, strings, symbols, gnu_hash).ok_or("symbols lie where they can be written")?;
        Ok(dynamic)
    }

    /// The names of the needed libraries, in order; `None` for a name outside of the image.
    pub fn needed<'a>(&'a self, image: &'a Image) -> impl Iterator<Item = Option<&'static [u8]>> + 'a {
        entries(image, self.section)
            .filter(|&(tag, _)| tag == DT_NEEDED)
            .map(|(_, offset)| self.search.string(offset as usize))
    }

    /// The image's own name (soname).
    pub fn soname(&self) -> Option<&'static [u8]> {
        if self.soname == 0 { None } else { self.search.string(self.soname) }
    }
}

/// Tag and value of each entry up to `DT_NULL`.
fn entries(image: &Image, section: Table) -> impl Iterator<Item = (u64, u64)> + '_ {
    (0..section.size / 16)
        .map_while(move |index| image.read::<[u64; 2]>(section.vaddr.checked_add(index * 16)?))
        .take_while(|entry| entry[0] != 0)
        .map(|[tag, value]| (tag, value))
}
