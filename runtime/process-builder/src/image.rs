//! Reads and checks the memory layout of an ELF file, and says why a file is not a program for this system.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use elf::abi as e;
use elf::endian::LittleEndian;
use elf::file::{Class, FileHeader, parse_ident};
use elf::segment::{ProgramHeader, SegmentTable};

use crate::needed::needed;

/// Page size in bytes.
pub const PAGE_SIZE: u64 = 4096;
/// Stack size in bytes of a program that does not request another.
pub const DEFAULT_STACK_SIZE: u64 = 256 << 10;
/// The only dynamic linker.
pub const INTERPRETER: &str = "ld.so.1";
/// Libraries that need no loader service: the vDSO, and the dynamic linker under its other name.
pub const ALWAYS_THERE: [&str; 2] = ["libzircon.so", "libc.so"];

/// Upper bound of image addresses, so that no image exceeds an address space.
const MAX_ADDRESS: u64 = 1 << 46;
const MAX_SPAN: u64 = 1 << 40;
const MAX_STACK_SIZE: u64 = 1 << 34;
const MAX_HEADERS: usize = 128;
const HEADER_SIZE: usize = 64;
const PROGRAM_HEADER_SIZE: usize = 56;
const MAX_INTERPRETER: u64 = 256;
const MAX_NOTE: u64 = 4096;

/// Access to the bytes of an ELF file.
pub trait FileSource {
    /// Length of the file in bytes.
    fn size(&self) -> u64;
    /// Copies bytes of the file. All requested ranges are below [`FileSource::size`].
    ///
    /// # Errors
    /// [`ImageError::Unreadable`].
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<(), ImageError>;
}

impl FileSource for [u8] {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<(), ImageError> {
        let start = usize::try_from(offset).map_err(|_| ImageError::Unreadable)?;
        let end = start.checked_add(bytes.len()).ok_or(ImageError::Unreadable)?;
        bytes.copy_from_slice(self.get(start..end).ok_or(ImageError::Unreadable)?);
        Ok(())
    }
}

/// Why a file cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImageError {
    /// The file cannot be read.
    Unreadable,
    /// Not an ELF file.
    NotElf,
    /// ELF for 32-bit machines.
    Not64Bit,
    /// ELF for big-endian machines.
    BigEndian,
    /// An ELF version other than 1, or header sizes that are not those of ELF64.
    BadHeader,
    /// For another processor architecture (`e_machine`).
    WrongMachine(u16),
    /// A program for Linux; with its interpreter, if it names one.
    Linux(Option<String>),
    /// Names an unknown dynamic linker.
    UnknownInterpreter(String),
    /// An object file that is not linked.
    ObjectFile,
    /// Linked to a fixed address (not position-independent).
    FixedAddress,
    /// Another type (`e_type`), such as a core dump.
    WrongType(u16),
    /// A library: it has no entry point.
    NoEntry,
    /// The entry point is not in an executable segment.
    BadEntry,
    /// The file is shorter than its headers say.
    Truncated,
    /// No loadable segment, or too many program headers.
    BadHeaderCount,
    /// Segments overlap or are not in ascending order.
    Overlap,
    /// A segment is smaller in memory than in the file, or its alignment is invalid.
    BadSegment,
    /// A segment is both writable and executable.
    WriteExecute,
    /// The dynamic section's names cannot be found, or are too many.
    BadDynamic,
    /// Addresses or sizes exceed an address space.
    TooBig,
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ImageError::Unreadable => "the file cannot be read",
            ImageError::NotElf => "not an ELF file",
            ImageError::Not64Bit => "a 32-bit ELF file",
            ImageError::BigEndian => "built for a big-endian machine",
            ImageError::BadHeader => "a broken ELF header",
            ImageError::WrongMachine(machine) => {
                return match machine_name(*machine) {
                    Some(name) => write!(f, "built for {name}"),
                    None => write!(f, "built for another processor (ELF machine {machine})"),
                };
            }
            ImageError::Linux(Some(interpreter)) => return write!(f, "a Linux program (interpreter {interpreter})"),
            ImageError::Linux(None) => "a Linux program",
            ImageError::UnknownInterpreter(name) => return write!(f, "its dynamic linker {name} is not there"),
            ImageError::ObjectFile => "an object file that was not linked",
            ImageError::FixedAddress => "not position-independent",
            ImageError::WrongType(kind) => return write!(f, "not a program (ELF type {kind})"),
            ImageError::NoEntry => "a library, not a program",
            ImageError::BadEntry => "its entry point lies outside its code",
            ImageError::Truncated => "a truncated ELF file",
            ImageError::BadHeaderCount => "no segments, or too many",
            ImageError::Overlap => "its segments overlap",
            ImageError::BadSegment => "a segment with impossible sizes",
            ImageError::WriteExecute => "a segment that can be both written and executed",
            ImageError::BadDynamic => "a dynamic section that cannot be read",
            ImageError::TooBig => "its sizes exceed any address space",
        })
    }
}

impl core::error::Error for ImageError {}

fn machine_name(machine: u16) -> Option<&'static str> {
    Some(match machine {
        e::EM_386 => "i386",
        e::EM_ARM => "arm",
        e::EM_AARCH64 => "aarch64",
        e::EM_RISCV => "riscv",
        e::EM_PPC64 => "powerpc64",
        e::EM_S390 => "s390x",
        e::EM_MIPS => "mips",
        e::EM_LOONGARCH => "loongarch",
        e::EM_BPF => "bpf",
        _ => return None,
    })
}

/// A loadable segment. Addresses are relative to the image's base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Address of its first byte.
    pub address: u64,
    /// Size in memory in bytes; bytes beyond the file's are zero.
    pub memory_size: u64,
    /// Offset in the file; congruent to the address modulo the page size.
    pub offset: u64,
    /// Size in the file in bytes.
    pub file_size: u64,
    /// Writable.
    pub write: bool,
    /// Executable.
    pub execute: bool,
}

impl Segment {
    /// The pages that the segment overlaps: address of the first byte, and of the byte after the last.
    pub fn pages(&self) -> (u64, u64) {
        (page_floor(self.address), page_ceil(self.address + self.memory_size))
    }
}

/// A checked image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Entry point, relative to the base like all addresses here.
    pub entry: u64,
    /// The dynamic linker that the file names; always [`INTERPRETER`].
    pub interpreter: Option<String>,
    /// The libraries that the file names.
    pub needed: Vec<String>,
    /// Loadable segments in ascending order; they share no pages.
    pub segments: Vec<Segment>,
    /// Stack size of the first thread in bytes, a multiple of the page size.
    pub stack_size: u64,
    /// Required alignment of the image's base, a power of two.
    pub align: u64,
}

impl Image {
    /// Checks a file that must be a program.
    ///
    /// # Errors
    /// An [`ImageError`] that says what is wrong with it.
    pub fn program(file: &(impl FileSource + ?Sized)) -> Result<Image, ImageError> {
        let image = Image::library(file)?;
        if image.entry == 0 {
            return Err(ImageError::NoEntry);
        }
        let in_code = |s: &Segment| s.execute && (s.address..s.address + s.memory_size).contains(&image.entry);
        if !image.segments.iter().any(in_code) {
            return Err(ImageError::BadEntry);
        }
        Ok(image)
    }

    /// Checks a file that can have an entry point or none.
    ///
    /// # Errors
    /// An [`ImageError`] that says what is wrong with it.
    pub fn library(file: &(impl FileSource + ?Sized)) -> Result<Image, ImageError> {
        let header = read_header(file)?;
        let headers = read_program_headers(file, &header)?;
        let interpreter = check_system(file, &header, &headers)?;
        match header.e_type {
            e::ET_DYN => {}
            e::ET_EXEC => return Err(ImageError::FixedAddress),
            e::ET_REL => return Err(ImageError::ObjectFile),
            other => return Err(ImageError::WrongType(other)),
        }

        let mut image = Image {
            entry: header.e_entry,
            interpreter,
            needed: Vec::new(),
            segments: Vec::new(),
            stack_size: DEFAULT_STACK_SIZE,
            align: PAGE_SIZE,
        };
        let mut end = 0;
        for header in &headers {
            match header.p_type {
                e::PT_LOAD if header.p_memsz == 0 => {}
                e::PT_LOAD => {
                    let segment = check_segment(header, file.size())?;
                    let (first, after) = segment.pages();
                    if first < end {
                        return Err(ImageError::Overlap);
                    }
                    end = after;
                    image.align = image.align.max(header.p_align);
                    image.segments.push(segment);
                }
                e::PT_GNU_STACK if header.p_memsz != 0 => {
                    if header.p_memsz > MAX_STACK_SIZE {
                        return Err(ImageError::TooBig);
                    }
                    image.stack_size = page_ceil(header.p_memsz);
                }
                _ => {}
            }
        }
        let (low, high) = image.span().ok_or(ImageError::BadHeaderCount)?;
        if high - low > MAX_SPAN || image.align > MAX_SPAN {
            return Err(ImageError::TooBig);
        }
        image.needed = needed(file, &headers, &image.segments)?;
        Ok(image)
    }

    /// The pages from the first to the last segment; `None` without segments.
    pub fn span(&self) -> Option<(u64, u64)> {
        Some((self.segments.first()?.pages().0, self.segments.last()?.pages().1))
    }
}

fn read_header(file: &(impl FileSource + ?Sized)) -> Result<FileHeader<LittleEndian>, ImageError> {
    let mut bytes = [0; HEADER_SIZE];
    let len = usize::try_from(file.size()).unwrap_or(usize::MAX).min(HEADER_SIZE);
    file.read_at(0, &mut bytes[..len])?;
    if len < 4 || bytes[..4] != e::ELFMAGIC {
        return Err(ImageError::NotElf);
    }
    if len < HEADER_SIZE {
        return Err(ImageError::Truncated);
    }
    match bytes[e::EI_CLASS] {
        e::ELFCLASS64 => {}
        e::ELFCLASS32 => return Err(ImageError::Not64Bit),
        _ => return Err(ImageError::BadHeader),
    }
    match bytes[e::EI_DATA] {
        e::ELFDATA2LSB => {}
        e::ELFDATA2MSB => return Err(ImageError::BigEndian),
        _ => return Err(ImageError::BadHeader),
    }
    let ident = parse_ident::<LittleEndian>(&bytes).map_err(|_| ImageError::BadHeader)?;
    let header = FileHeader::parse_tail(ident, &bytes[e::EI_NIDENT..]).map_err(|_| ImageError::BadHeader)?;
    if header.e_machine != e::EM_X86_64 {
        return Err(ImageError::WrongMachine(header.e_machine));
    }
    Ok(header)
}

fn read_program_headers(
    file: &(impl FileSource + ?Sized),
    header: &FileHeader<LittleEndian>,
) -> Result<Vec<ProgramHeader>, ImageError> {
    let count = usize::from(header.e_phnum);
    if header.e_type == e::ET_REL {
        return Err(ImageError::ObjectFile);
    }
    if count == 0 || count > MAX_HEADERS {
        return Err(ImageError::BadHeaderCount);
    }
    if usize::from(header.e_phentsize) != PROGRAM_HEADER_SIZE {
        return Err(ImageError::BadHeader);
    }
    let mut bytes = vec![0; count * PROGRAM_HEADER_SIZE];
    read_checked(file, header.e_phoff, &mut bytes)?;
    Ok(SegmentTable::new(LittleEndian, Class::ELF64, &bytes).iter().collect())
}

/// Returns the interpreter; fails if the program is for another system.
fn check_system(
    file: &(impl FileSource + ?Sized),
    header: &FileHeader<LittleEndian>,
    headers: &[ProgramHeader],
) -> Result<Option<String>, ImageError> {
    let linux_note = headers.iter().filter(|header| header.p_type == e::PT_NOTE).any(|h| is_linux_note(file, h));
    let Some(segment) = headers.iter().find(|header| header.p_type == e::PT_INTERP) else {
        return if linux_note || header.osabi == e::ELFOSABI_LINUX { Err(ImageError::Linux(None)) } else { Ok(None) };
    };
    if segment.p_filesz > MAX_INTERPRETER {
        return Err(ImageError::BadSegment);
    }
    let mut bytes = vec![0; segment.p_filesz as usize];
    read_checked(file, segment.p_offset, &mut bytes)?;
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let name = String::from_utf8_lossy(&bytes[..end]).into_owned();
    if name == INTERPRETER {
        Ok(Some(name))
    } else if linux_note || name.contains("/ld-linux") || name.contains("/ld-musl") {
        Err(ImageError::Linux(Some(name)))
    } else {
        Err(ImageError::UnknownInterpreter(name))
    }
}

/// Whether a note segment contains the GNU note that names Linux as the system.
fn is_linux_note(file: &(impl FileSource + ?Sized), header: &ProgramHeader) -> bool {
    if header.p_filesz > MAX_NOTE {
        return false;
    }
    let mut bytes = vec![0; header.p_filesz as usize];
    if read_checked(file, header.p_offset, &mut bytes).is_err() {
        return false;
    }
    // Name length 4, content length 16, type 1 (ABI), "GNU", system 0 (Linux).
    const ABI_TAG: [u8; 20] = *b"\x04\0\0\0\x10\0\0\0\x01\0\0\0GNU\0\0\0\0\0";
    bytes.windows(ABI_TAG.len()).step_by(4).any(|window| window == ABI_TAG)
}

fn check_segment(header: &ProgramHeader, file_size: u64) -> Result<Segment, ImageError> {
    let file_end = header.p_offset.checked_add(header.p_filesz).ok_or(ImageError::BadSegment)?;
    let end = header.p_vaddr.checked_add(header.p_memsz).ok_or(ImageError::TooBig)?;
    if end > MAX_ADDRESS {
        return Err(ImageError::TooBig);
    }
    let aligned = header.p_align <= 1 || header.p_align.is_power_of_two();
    let congruent = header.p_vaddr % PAGE_SIZE == header.p_offset % PAGE_SIZE;
    if header.p_filesz > header.p_memsz || !aligned || !congruent {
        return Err(ImageError::BadSegment);
    }
    if file_end > file_size {
        return Err(ImageError::Truncated);
    }
    let (write, execute) = (header.p_flags & e::PF_W != 0, header.p_flags & e::PF_X != 0);
    if write && execute {
        return Err(ImageError::WriteExecute);
    }
    Ok(Segment {
        address: header.p_vaddr,
        memory_size: header.p_memsz,
        offset: header.p_offset,
        file_size: header.p_filesz,
        write,
        execute,
    })
}

/// Reads a range that the file's headers name; fails if it is outside of the file.
pub(crate) fn read_checked(file: &(impl FileSource + ?Sized), offset: u64, bytes: &mut [u8]) -> Result<(), ImageError> {
    match offset.checked_add(bytes.len() as u64) {
        Some(end) if end <= file.size() => file.read_at(offset, bytes),
        _ => Err(ImageError::Truncated),
    }
}

/// Rounds down to a multiple of the page size.
pub(crate) fn page_floor(size: u64) -> u64 {
    size & !(PAGE_SIZE - 1)
}

/// Rounds up to a multiple of the page size. All sizes here are far below `u64::MAX`.
pub(crate) fn page_ceil(size: u64) -> u64 {
    page_floor(size.saturating_add(PAGE_SIZE - 1))
}
