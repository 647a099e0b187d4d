//! Checks a program before anything boots, so that one that cannot run is refused at once and by name.

use std::fs;
use std::mem::offset_of;
use std::path::Path;

use object::Endianness;
use object::elf;
use object::read::elf::{Dyn, FileHeader, ProgramHeader};

/// Why a file cannot be run.
#[derive(Debug)]
pub enum ProgramError {
    /// There is no such file.
    Missing(String),
    /// The file is not a program for the system: the reason, and what to do.
    NoProgram(String),
}

impl std::fmt::Display for ProgramError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ProgramError::Missing(text) | ProgramError::NoProgram(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for ProgramError {}

/// A program that the system can start.
#[derive(Debug)]
pub struct Program {
    /// The file.
    pub bytes: Vec<u8>,
    /// Address space that its segments take, in bytes.
    pub memory: u64,
    /// The shared libraries that it names.
    pub needed: Vec<String>,
}

type Header = elf::FileHeader64<Endianness>;
type Segment = elf::ProgramHeader64<Endianness>;

const HOW: &str = "build it with `hafnon cargo build`, or for the target x86_64-unknown-fuchsia";

/// Reads and checks the program at `path`.
///
/// # Errors
/// It does not exist, or is not a program for the system.
pub fn read(path: &Path) -> Result<Program, ProgramError> {
    let bytes = fs::read(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => ProgramError::Missing(format!("{}: no such file", path.display())),
        _ => ProgramError::NoProgram(format!("{}: cannot be read: {error}", path.display())),
    })?;
    check(bytes).map_err(|why| ProgramError::NoProgram(format!("{}: {why}", path.display())))
}

impl Program {
    /// The file without the parts that a start does not read: sections behind all segments (names and debug
    /// information), and the section headers, which debuggers read.
    pub fn stripped(mut self) -> Vec<u8> {
        let Ok(header) = Header::parse(&*self.bytes) else { return self.bytes };
        let Ok(endian) = header.endian() else { return self.bytes };
        let Ok(segments) = header.program_headers(endian, &*self.bytes) else { return self.bytes };
        let table = header.e_phoff(endian) + size_of_val(segments) as u64;
        let ends = segments.iter().map(|h| h.p_offset(endian).saturating_add(h.p_filesz(endian)));
        let end = ends.chain([table]).max().and_then(|end| usize::try_from(end).ok());
        self.bytes.truncate(end.unwrap_or(usize::MAX));
        for field in
            [offset_of!(Header, e_shoff)..offset_of!(Header, e_flags), offset_of!(Header, e_shnum)..size_of::<Header>()]
        {
            self.bytes[field].fill(0);
        }
        self.bytes
    }
}

/// The parsed header of a file: the header, the byte order, and the segments.
type Head<'a> = (&'a Header, Endianness, &'a [Segment]);

/// Parses the header of a 64-bit ELF file for this processor; `how` says how to build one.
fn head<'a>(bytes: &'a [u8], how: &str) -> Result<Head<'a>, String> {
    if !bytes.starts_with(&elf::ELFMAG) {
        let what = if bytes.is_empty() { "the file is empty" } else { "not an ELF file" };
        return Err(format!("{what}; {how}"));
    }
    let header_size = size_of::<Header>();
    if bytes.len() < header_size {
        return Err(format!("truncated: {} bytes are less than an ELF header", bytes.len()));
    }
    const CLASS_64: u8 = 2;
    if bytes[4] != CLASS_64 {
        return Err(format!("a 32-bit ELF file; {how}"));
    }
    // The header is read in place; aligning it would need a copy of the whole file.
    let header = Header::parse(bytes).map_err(|error| format!("not an ELF file that can be read: {error}"))?;
    let endian = header.endian().map_err(|_| format!("not little endian; {how}"))?;
    let machine = header.e_machine(endian);
    if machine != elf::EM_X86_64 {
        return Err(format!("built for {}, the system runs x86-64; {how}", machine_name(machine)));
    }
    let segments = header
        .program_headers(endian, bytes)
        .map_err(|_| "truncated: its program headers lie beyond the end of the file".to_string())?;
    whole(header, endian, segments, bytes)?;
    Ok((header, endian, segments))
}

const HOW_COMPONENT: &str =
    "build it for the target x86_64-unknown-none with `-C relocation-model=static` (docs/native.md)";
/// Maximum size of a component's program in bytes, without the parts that a start does not read: the root task loads it
/// in one piece.
const COMPONENT: usize = 2 << 20;

/// Reads the program of a native component; returns it without the parts that a start does not read.
///
/// # Errors
/// It does not exist, or the root task cannot start it.
pub fn component(path: &Path) -> Result<Vec<u8>, ProgramError> {
    let refused = |why: String| ProgramError::NoProgram(format!("{}: {why}", path.display()));
    let bytes = fs::read(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => ProgramError::Missing(format!("{}: no such file", path.display())),
        _ => refused(format!("cannot be read: {error}")),
    })?;
    let (header, endian, segments) = head(&bytes, HOW_COMPONENT).map_err(refused)?;
    let kind = header.e_type(endian);
    if kind != elf::ET_EXEC || segments.iter().any(|h| h.p_type(endian) == elf::PT_INTERP) {
        return Err(refused(format!("no static program at a fixed address; {HOW_COMPONENT}")));
    }
    let high = segments.iter().filter(|h| h.p_type(endian) == elf::PT_LOAD);
    if let Some(high) = high.map(|h| h.p_vaddr(endian).saturating_add(h.p_memsz(endian))).max()
        && high > component_boot::layout::IMAGE_END
    {
        let end = component_boot::layout::IMAGE_END;
        return Err(refused(format!("it reaches up to {high:#x}, and its image has to lie below {end:#x}")));
    }
    let bytes = Program { memory: 0, needed: Vec::new(), bytes }.stripped();
    if bytes.len() > COMPONENT {
        return Err(refused(format!("{} KiB to load; a component has {} at most", bytes.len() >> 10, COMPONENT >> 10)));
    }
    Ok(bytes)
}

/// Checks the bytes of a program.
fn check(bytes: Vec<u8>) -> Result<Program, String> {
    let (header, endian, end) = head(&bytes, HOW)?;
    if let Some(interpreter) = end.iter().find_map(|h| h.interpreter(endian, &*bytes).ok().flatten()) {
        let interpreter = String::from_utf8_lossy(interpreter);
        if interpreter != "ld.so.1" {
            let system = if interpreter.contains("ld-linux") || interpreter.contains("ld-musl") {
                "a Linux program"
            } else {
                "a program for another system"
            };
            return Err(format!("{system} (its interpreter is {interpreter}); {HOW}"));
        }
    } else {
        return Err(match header.e_type(endian) {
            elf::ET_REL => format!("an object file, not a program; {HOW}"),
            elf::ET_EXEC => format!("a statically linked program for another system; {HOW}"),
            elf::ET_DYN => format!("a shared library, or a program for another system: it names no interpreter; {HOW}"),
            kind => format!("no program (ELF type {kind}); {HOW}"),
        });
    }
    let low = end.iter().filter(|h| h.p_type(endian) == elf::PT_LOAD).map(|h| h.p_vaddr(endian)).min().unwrap_or(0);
    let high = end
        .iter()
        .filter(|h| h.p_type(endian) == elf::PT_LOAD)
        .map(|h| h.p_vaddr(endian).saturating_add(h.p_memsz(endian)))
        .max()
        .unwrap_or(0);
    let needed = needed(end, endian, &bytes)?;
    Ok(Program { memory: high.saturating_sub(low), needed, bytes })
}

/// Checks that every segment, and the section headers, lie in the file.
fn whole(header: &Header, endian: Endianness, segments: &[Segment], bytes: &[u8]) -> Result<(), String> {
    let sections = u64::from(header.e_shnum(endian)) * u64::from(header.e_shentsize(endian));
    let ends = segments
        .iter()
        .filter(|h| h.p_type(endian) == elf::PT_LOAD || h.p_type(endian) == elf::PT_DYNAMIC)
        .map(|h| h.p_offset(endian).saturating_add(h.p_filesz(endian)))
        .chain([header.e_shoff(endian).saturating_add(sections)]);
    match ends.max() {
        Some(end) if end > bytes.len() as u64 => {
            Err(format!("truncated: the file has {} bytes, its headers speak of {end}", bytes.len()))
        }
        _ => Ok(()),
    }
}

fn needed(segments: &[Segment], endian: Endianness, bytes: &[u8]) -> Result<Vec<String>, String> {
    let broken = || "its dynamic section is broken".to_string();
    let Some(entries) = segments.iter().find_map(|h| h.dynamic(endian, bytes).transpose()) else {
        return Ok(Vec::new());
    };
    let entries = entries.map_err(|_| broken())?;
    let value = |tag: elf::DynamicTag| entries.iter().find(|d| d.tag(endian) == tag).map(|d| d.val(endian));
    let (Some(strings), Some(size)) = (value(elf::DT_STRTAB), value(elf::DT_STRSZ)) else { return Ok(Vec::new()) };
    let table = segments
        .iter()
        .filter(|h| h.p_type(endian) == elf::PT_LOAD)
        .find_map(|h| h.data_range(endian, bytes, strings, size).ok().flatten())
        .ok_or_else(broken)?;
    entries
        .iter()
        .filter(|d| d.tag(endian) == elf::DT_NEEDED)
        .map(|d| {
            let name = usize::try_from(d.val(endian)).ok().and_then(|at| table.get(at..)).ok_or_else(broken)?;
            let name = name.split(|&byte| byte == 0).next().ok_or_else(broken)?;
            Ok(String::from_utf8_lossy(name).into_owned())
        })
        .collect()
}

fn machine_name(machine: elf::Machine) -> String {
    match machine {
        elf::EM_AARCH64 => "aarch64".into(),
        elf::EM_ARM => "arm".into(),
        elf::EM_386 => "i386".into(),
        elf::EM_RISCV => "riscv".into(),
        elf::EM_PPC64 => "ppc64".into(),
        elf::EM_S390 => "s390".into(),
        other => format!("ELF machine {}", other.0),
    }
}
