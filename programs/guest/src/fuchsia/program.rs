//! Loads a program: a static ELF file for fixed addresses, and its stack with arguments, environment and auxiliary
//! vector.

use std::rc::Rc;

use abi::hafnon_vproc_state_t;
use elf::ElfBytes;
use elf::abi::{EM_X86_64, ET_EXEC, PF_R, PF_W, PF_X, PT_INTERP, PT_LOAD};
use elf::endian::LittleEndian;

use super::counts::Counts;
use super::linux::{Result, errno, fails};
use super::memory::{EXECUTE, Memory, PAGE, READ, WRITE};
use super::space::{Content, Space, TOP, page_behind, page_of};

/// Size of the stack, and its upper end.
const STACK: u64 = 8 << 20;
const STACK_END: u64 = TOP - PAGE;
/// Maximum size of arguments and environment in bytes.
const TOLD: usize = 1 << 17;

/// Types of the auxiliary vector's entries.
mod at {
    pub const PHDR: u64 = 3;
    pub const PHENT: u64 = 4;
    pub const PHNUM: u64 = 5;
    pub const PAGESZ: u64 = 6;
    pub const ENTRY: u64 = 9;
    pub const UID: u64 = 11;
    pub const EUID: u64 = 12;
    pub const GID: u64 = 13;
    pub const EGID: u64 = 14;
    pub const SECURE: u64 = 23;
    pub const RANDOM: u64 = 25;
    pub const EXECFN: u64 = 31;
}

/// Loads a program into an empty address space; returns its initial state.
pub fn load(
    space: &mut Space,
    (memory, counts): (&mut Memory, &mut Counts),
    data: &Rc<[u8]>,
    path: &[u8],
    (arguments, environment): (&[Vec<u8>], &[Vec<u8>]),
) -> Result<hafnon_vproc_state_t> {
    let Ok(file) = ElfBytes::<LittleEndian>::minimal_parse(data) else { return fails(errno::ENOEXEC) };
    let Some(segments) = file.segments().filter(|_| file.ehdr.e_machine == EM_X86_64 && file.ehdr.e_type == ET_EXEC)
    else {
        return fails(errno::ENOEXEC);
    };
    let (mut end, mut headers) = (0, 0);
    for segment in segments {
        if segment.p_type == PT_INTERP {
            return fails(errno::ENOEXEC);
        }
        if segment.p_type != PT_LOAD || segment.p_memsz == 0 {
            continue;
        }
        let behind = segment.p_vaddr.checked_add(segment.p_memsz.max(segment.p_filesz)).and_then(page_behind);
        let (Some(behind), Some(from)) = (behind, segment.p_offset.checked_sub(segment.p_vaddr % PAGE)) else {
            return fails(errno::ENOEXEC);
        };
        let bits = [(PF_R, READ), (PF_W, READ | WRITE), (PF_X, READ | EXECUTE)];
        let access = bits.iter().filter(|(bit, _)| segment.p_flags & bit != 0).fold(0, |all, (_, access)| all | access);
        let at = page_of(segment.p_vaddr);
        let len = segment.p_filesz.saturating_add(segment.p_vaddr % PAGE);
        let content = Content { data: data.clone(), from: from as usize, at, len: len.min(behind - at) };
        space.map(memory, (at, behind), access, Some(content))?;
        end = behind.max(end);
        let phoff = file.ehdr.e_phoff;
        if (segment.p_offset..segment.p_offset.saturating_add(segment.p_filesz)).contains(&phoff) {
            headers = segment.p_vaddr + (phoff - segment.p_offset);
        }
    }
    space.heap = (end, end);
    space.map(memory, (STACK_END - STACK, STACK_END), READ | WRITE, None)?;

    // From the top down: the strings, then the pointers to them.
    let mut strings = Vec::new();
    let mut put = |bytes: &[u8]| {
        strings.splice(0..0, bytes.iter().copied().chain([0]));
        STACK_END - strings.len() as u64
    };
    let mut random = [0; 16];
    zx::cprng_draw(&mut random);
    let (name, random) = (put(path), put(&random));
    let environment: Vec<u64> = environment.iter().rev().map(|bytes| put(bytes)).collect();
    let arguments: Vec<u64> = arguments.iter().rev().map(|bytes| put(bytes)).collect();
    let header = &file.ehdr;
    let told = [
        (at::PHDR, headers),
        (at::PHENT, header.e_phentsize.into()),
        (at::PHNUM, header.e_phnum.into()),
        (at::PAGESZ, PAGE),
        (at::ENTRY, header.e_entry),
        (at::UID, 0),
        (at::EUID, 0),
        (at::GID, 0),
        (at::EGID, 0),
        (at::SECURE, 0),
        (at::RANDOM, random),
        (at::EXECFN, name),
        (0, 0),
    ];
    let mut words = vec![arguments.len() as u64];
    words.extend(arguments.iter().rev().chain([&0]).chain(environment.iter().rev()).chain([&0]));
    words.extend(told.iter().flat_map(|(kind, value)| [*kind, *value]));
    let len = words.len() * 8 + strings.len();
    if len > TOLD {
        return fails(errno::ENOMEM);
    }
    let strings_at = STACK_END - strings.len() as u64;
    space.write((memory, counts), strings_at, &strings)?;
    let rsp = (strings_at - words.len() as u64 * 8) & !15;
    let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    space.write((memory, counts), rsp, &words)?;
    Ok(hafnon_vproc_state_t { ip: header.e_entry, rsp, flags: 0x202, ..Default::default() })
}
