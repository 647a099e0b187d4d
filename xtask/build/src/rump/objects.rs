//! What an archive of object files says about itself: symbols, and the few sections and instructions that tell how it
//! was built.
//!
//! An archive comes from outside. Its sizes, counts and offsets are allegations: the crate `object` checks them against
//! the file, and [`Budget`] bounds the work for files whose parts overlap.

use std::collections::BTreeSet;

use object::read::archive::ArchiveFile;
use object::read::elf::ElfFile64;
use object::{
    Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget, SectionKind, SymbolIndex, elf,
};

/// Longest archive in bytes. The longest of NetBSD's has 40 MB, with debug information.
pub const LONGEST: u64 = 512 << 20;
/// Most members of an archive.
const MEMBERS: usize = 1 << 14;
/// Longest name of a symbol or a member.
const NAME: usize = 1 << 10;
/// Total length of all names in an archive.
const NAMES: usize = 64 << 20;

/// The function that the kernel calls first, with the revision of its hypercalls.
const INIT: &str = "rumpuser_init";

/// An object file of an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// The member's name, for messages.
    pub name: String,
    /// Where its bytes are in the archive.
    pub range: (u64, u64),
    /// Global symbols that it defines.
    pub defined: BTreeSet<String>,
    /// Symbols that it must find elsewhere.
    pub wanted: BTreeSet<String>,
    /// It announces components by constructors.
    pub has_constructors: bool,
    /// It announces components in a link set.
    pub has_component_set: bool,
    /// Its code uses the second stack of Fuchsia's programs.
    pub has_safe_stack: bool,
    /// It has debug information.
    pub has_debug_information: bool,
    /// The compiler, from the section `.comment`.
    pub compiler: Option<String>,
    /// The revision that it passes to `rumpuser_init`.
    pub revision: Option<u32>,
}

/// The object files of an archive.
///
/// # Errors
/// It is no archive of object files for this processor.
pub fn read(bytes: &[u8]) -> Result<Vec<Object>, String> {
    let archive = ArchiveFile::parse(bytes).map_err(|error| format!("no archive: {error}"))?;
    if archive.is_thin() {
        return Err("a thin archive: it only names its object files; make a whole one with `ar`".into());
    }
    let mut budget = Budget { bytes: bytes.len().saturating_mul(2), names: NAMES };
    let mut objects = Vec::new();
    for member in archive.members() {
        let member = member.map_err(|error| format!("a damaged archive: {error}"))?;
        let name = budget.name(member.name())?;
        if objects.len() >= MEMBERS {
            return Err(format!("more than {MEMBERS} members"));
        }
        let data = member.data(bytes).map_err(|error| format!("{name}: {error}"))?;
        let mut read = object(data, &mut budget).map_err(|why| format!("{name}: {why}"))?;
        (read.name, read.range) = (name, member.file_range());
        objects.push(read);
    }
    Ok(objects)
}

/// Work that an archive is worth.
struct Budget {
    bytes: usize,
    names: usize,
}

impl Budget {
    /// Spends work on so many bytes.
    fn spend(&mut self, bytes: usize) -> Result<(), String> {
        self.bytes = self.bytes.checked_sub(bytes).ok_or("its sections overlap")?;
        Ok(())
    }

    fn name(&mut self, name: &[u8]) -> Result<String, String> {
        self.names = self.names.checked_sub(name.len()).ok_or("its names are too long")?;
        if name.len() > NAME {
            return Err(format!("a name of {} bytes", name.len()));
        }
        Ok(String::from_utf8_lossy(name).into_owned())
    }
}

fn object(data: &[u8], budget: &mut Budget) -> Result<Object, String> {
    let file = ElfFile64::<Endianness>::parse(data).map_err(|_| "no 64-bit ELF file".to_string())?;
    let endian = file.endian();
    let header = file.elf_header();
    if header.e_machine.get(endian) != elf::EM_X86_64 || header.e_type.get(endian) != elf::ET_REL {
        return Err("no object file for x86-64".into());
    }
    let (mut object, mut init) = (Object::default(), None);
    for symbol in file.symbols() {
        // A symbol has 24 bytes in the file, so overlapping tables do not matter: there is one.
        let undefined = symbol.is_undefined();
        if symbol.is_local() || (undefined && symbol.is_weak()) {
            continue;
        }
        let name = budget.name(symbol.name_bytes().map_err(|error| error.to_string())?)?;
        if name.is_empty() {
            continue;
        }
        if undefined && name == INIT {
            init = Some(symbol.index());
        }
        if undefined {
            object.wanted.insert(name)
        } else {
            object.defined.insert(name)
        };
    }
    for section in file.sections() {
        let name = section.name_bytes().map_err(|error| error.to_string())?;
        // Looking at a section costs something even if it is empty, and names may overlap.
        budget.spend(name.len().saturating_add(16))?;
        match name {
            b".comment" => object.compiler = compiler(data_of(&section, budget)?),
            b"link_set_rump_components" => object.has_component_set = true,
            _ if name.starts_with(b".init_array") || name.starts_with(b".ctors") => object.has_constructors = true,
            _ if name.starts_with(b".debug_info") => object.has_debug_information = true,
            _ => {}
        }
        if section.kind() == SectionKind::Text {
            let code = data_of(&section, budget)?;
            object.has_safe_stack |= uses_safe_stack(code);
            if let (Some(init), None) = (init, object.revision) {
                object.revision = revision(init, &section, code, budget)?;
            }
        }
    }
    Ok(object)
}

type Section<'a, 'b> = object::read::elf::ElfSection64<'a, 'b, Endianness>;

fn data_of<'a>(section: &Section<'a, '_>, budget: &mut Budget) -> Result<&'a [u8], String> {
    let data = section.data().map_err(|error| error.to_string())?;
    budget.spend(data.len())?;
    Ok(data)
}

/// The first compiler that the section names.
fn compiler(comment: &[u8]) -> Option<String> {
    let first = comment.split(|&byte| byte == 0).find(|text| !text.is_empty())?;
    let text: String = String::from_utf8_lossy(first).chars().filter(|c| !c.is_control()).take(80).collect();
    (!text.is_empty()).then_some(text)
}

/// Whether code reads or writes the unsafe stack pointer, which is at `fs:0x18`: `mov` between it and a register.
fn uses_safe_stack(code: &[u8]) -> bool {
    code.windows(9).any(|w| {
        w[0] == 0x64
            && matches!(w[1], 0x48 | 0x4c)
            && matches!(w[2], 0x8b | 0x89)
            && w[3] & 0xc7 == 0x04
            && w[4..] == [0x25, 0x18, 0, 0, 0]
    })
}

/// How far before a call its first argument is set.
const BEFORE_A_CALL: usize = 64;

/// The number in `edi` at the call of the function `init`: the last `mov edi, number` before the call.
fn revision(
    init: SymbolIndex,
    section: &Section<'_, '_>,
    code: &[u8],
    budget: &mut Budget,
) -> Result<Option<u32>, String> {
    for (offset, relocation) in section.relocations() {
        budget.spend(8)?;
        if relocation.target() != RelocationTarget::Symbol(init) {
            continue;
        }
        let Some(before) = usize::try_from(offset).ok().and_then(|end| code.get(..end)) else { continue };
        let before = &before[before.len().saturating_sub(BEFORE_A_CALL)..];
        const MOV_EDI: u8 = 0xbf;
        let set = before.windows(5).rev().find(|w| w[0] == MOV_EDI);
        return Ok(set.map(|w| u32::from_le_bytes([w[1], w[2], w[3], w[4]])));
    }
    Ok(None)
}
