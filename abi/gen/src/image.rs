//! Checks a finished vDSO image against its linker script's layout, on which everything that maps or fills the image
//! relies.

use elf::ElfBytes;
use elf::abi::{
    DT_NEEDED, DT_REL, DT_RELA, DT_SONAME, DT_TEXTREL, ET_DYN, PF_R, PF_W, PF_X, PT_INTERP, PT_LOAD, PT_TLS, SHN_UNDEF,
    STB_LOCAL,
};
use elf::endian::LittleEndian;

use crate::model::Syscall;

/// The tag of packed relative relocations, which the `elf` crate does not define.
const DT_RELR: i64 = 36;

/// Checks an image against the calls that it must export. Its code must begin at `code_start`. The error contains all
/// mistakes, one per line.
pub fn check(bytes: &[u8], calls: &[Syscall], code_start: u64) -> Result<(), String> {
    let mut wrong = Vec::new();
    match ElfBytes::<LittleEndian>::minimal_parse(bytes) {
        Ok(file) => {
            if file.ehdr.e_type != ET_DYN {
                wrong.push("it is no shared object".to_owned());
            }
            segments(&file, code_start, &mut wrong);
            dynamic(&file, &mut wrong);
            symbols(&file, calls, code_start, &mut wrong);
        }
        Err(error) => wrong.push(format!("it is no ELF file: {error}")),
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

fn segments(file: &ElfBytes<'_, LittleEndian>, code_start: u64, wrong: &mut Vec<String>) {
    let Some(headers) = file.segments() else {
        wrong.push("it has no segments".into());
        return;
    };
    if headers.iter().any(|p| matches!(p.p_type, PT_INTERP | PT_TLS)) {
        wrong.push("it asks for an interpreter or has thread-local data".into());
    }
    let loads: Vec<_> = headers.iter().filter(|p| p.p_type == PT_LOAD).collect();
    let [data, code] = loads.as_slice() else {
        wrong.push(format!("it has {} loadable segments, not two", loads.len()));
        return;
    };
    if data.p_flags & (PF_R | PF_W | PF_X) != PF_R || code.p_flags & (PF_R | PF_W | PF_X) != PF_R | PF_X {
        wrong.push("its segments are not read-only data and code".into());
    }
    if data.p_vaddr != 0 || data.p_memsz != code_start || code.p_vaddr != code_start || code.p_memsz % 4096 != 0 {
        wrong.push(format!("its segments are not whole pages that meet at {code_start:#x}"));
    }
    if loads.iter().any(|p| p.p_offset != p.p_vaddr || p.p_filesz != p.p_memsz) {
        wrong.push("it does not stand in the file as it stands in memory".into());
    }
}

fn dynamic(file: &ElfBytes<'_, LittleEndian>, wrong: &mut Vec<String>) {
    let Ok(Some(table)) = file.dynamic() else {
        wrong.push("it has no dynamic section".into());
        return;
    };
    for entry in table.iter() {
        match entry.d_tag {
            DT_NEEDED => wrong.push("it needs another library".into()),
            DT_REL | DT_RELA | DT_RELR | DT_TEXTREL => wrong.push("it has relocations".into()),
            _ => {}
        }
    }
    let soname = table.iter().find(|entry| entry.d_tag == DT_SONAME);
    let strings = file.dynamic_symbol_table().ok().flatten().map(|(_, strings)| strings);
    let name = soname.zip(strings).and_then(|(entry, strings)| strings.get(usize::try_from(entry.d_val()).ok()?).ok());
    if name != Some("libzircon.so") {
        wrong.push("its soname is not libzircon.so".into());
    }
}

fn symbols(file: &ElfBytes<'_, LittleEndian>, calls: &[Syscall], code_start: u64, wrong: &mut Vec<String>) {
    let Ok(Some((symbols, strings))) = file.dynamic_symbol_table() else {
        wrong.push("it has no dynamic symbols".into());
        return;
    };
    let mut missing: std::collections::BTreeSet<String> = calls
        .iter()
        .map(|call| call.name.as_str())
        .chain(["status_get_string"])
        .flat_map(|name| [format!("zx_{name}"), format!("_zx_{name}")])
        .collect();
    for symbol in symbols.iter().filter(|symbol| symbol.st_bind() != STB_LOCAL) {
        let name = usize::try_from(symbol.st_name).ok().and_then(|at| strings.get(at).ok()).unwrap_or("?");
        if symbol.st_shndx == SHN_UNDEF {
            wrong.push(format!("it imports {name}"));
        } else if !missing.remove(name) {
            wrong.push(format!("it exports {name}, which is no call"));
        } else if symbol.st_value < code_start {
            wrong.push(format!("{name} is not code"));
        }
    }
    wrong.extend(missing.iter().map(|name| format!("it does not export {name}")));
}
