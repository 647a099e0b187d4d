//! The check of a program before it is started.
//!
//! A failed process start returns only a status, which tells a developer little. The dynamic linker runs inside the new
//! process, so its messages come too late. So the file is checked first, and an error is reported as a sentence. A
//! program that passes can still fail to start.

use std::io::{self, Read, Seek, SeekFrom};

const INTERPRETER: &str = "ld.so.1";

/// Maximum size of one table in bytes. A program with a larger one is refused.
const MAX_TABLE: u64 = 4 << 20;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;

struct Segment {
    kind: u32,
    offset: u64,
    address: u64,
    size: u64,
}

/// This library is not a file: it is mapped into every process.
const VDSO: &str = "libzircon.so";

/// Checks whether `file` is a program for this system and whether all its libraries exist.
///
/// # Errors
/// A message for the user, without the program's name.
pub fn check(file: &mut (impl Read + Seek), has_library: impl Fn(&str) -> bool) -> Result<(), String> {
    let length = file.seek(SeekFrom::End(0)).map_err(unreadable)?;
    let header = read(file, length, 0, 64.min(length))?;
    check_header(&header)?;
    let segments = segments(file, length, &header)?;
    if let Some(segment) = segments.iter().find(|segment| segment.kind == PT_LOAD && end(segment) > length) {
        return Err(format!("the file is truncated: {length} bytes, and a segment ends at {}", end(segment)));
    }
    let interpreter = match segments.iter().find(|segment| segment.kind == PT_INTERP) {
        Some(segment) => text(&read(file, length, segment.offset, segment.size)?, 0),
        None => return Ok(()),
    };
    if interpreter != INTERPRETER {
        return Err(match interpreter.as_str() {
            linux if linux.contains("ld-linux") || linux.contains("ld-musl") => {
                format!("this is a Linux program (it asks for {linux}); build it for x86_64-unknown-fuchsia")
            }
            other => format!("it asks for the interpreter {other:?}; this system has {INTERPRETER}"),
        });
    }
    let missing: Vec<String> = needed(file, length, &segments)?
        .into_iter()
        .filter(|library| library != VDSO && !has_library(library))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!("it needs {}, which this system does not have", missing.join(", ")))
}

fn check_header(header: &[u8]) -> Result<(), String> {
    if !header.starts_with(b"\x7fELF") {
        return Err("this is not a program (not an ELF file)".to_owned());
    }
    if header.len() < 64 {
        return Err("the file is truncated: it ends within the ELF header".to_owned());
    }
    let machine = half(header, 18);
    match (header[4], machine) {
        (2, 62) => {}
        (_, 183) => return Err("this program is for aarch64, not for x86-64".to_owned()),
        (_, 243) => return Err("this program is for RISC-V, not for x86-64".to_owned()),
        (1, _) => return Err("this is a 32-bit program".to_owned()),
        _ => return Err(format!("this program is for another machine (ELF machine {machine})")),
    }
    match half(header, 16) {
        3 => Ok(()),
        2 => {
            Err("this program is linked to fixed addresses (ET_EXEC); a position-independent one is needed".to_owned())
        }
        1 => Err("this is an object file, not yet linked to a program".to_owned()),
        kind => Err(format!("this ELF file is not a program (type {kind})")),
    }
}

fn segments(file: &mut (impl Read + Seek), length: u64, header: &[u8]) -> Result<Vec<Segment>, String> {
    let (offset, entry, count) = (long(header, 32), u64::from(half(header, 54)), u64::from(half(header, 56)));
    if count == 0 || entry < 56 {
        return Err("this program has no segments to load".to_owned());
    }
    let table = read(file, length, offset, entry * count)?;
    let parse =
        |row: &[u8]| Segment { kind: word(row, 0), offset: long(row, 8), address: long(row, 16), size: long(row, 32) };
    Ok(table.chunks_exact(entry as usize).map(parse).collect())
}

/// The names of the libraries that the program needs, from its dynamic section.
fn needed(file: &mut (impl Read + Seek), length: u64, segments: &[Segment]) -> Result<Vec<String>, String> {
    let Some(dynamic) = segments.iter().find(|segment| segment.kind == PT_DYNAMIC) else { return Ok(Vec::new()) };
    let table = read(file, length, dynamic.offset, dynamic.size)?;
    let rows: Vec<(u64, u64)> = table.chunks_exact(16).map(|row| (long(row, 0), long(row, 8))).collect();
    let Some(&(_, strings)) = rows.iter().find(|(tag, _)| *tag == DT_STRTAB) else { return Ok(Vec::new()) };
    // The table is given by its memory address. The segment that contains it gives its position in the file.
    let inside = |segment: &&Segment| {
        segment.kind == PT_LOAD && strings >= segment.address && strings - segment.address < segment.size
    };
    let Some(segment) = segments.iter().find(inside) else {
        return Err("its string table lies in no segment".to_owned());
    };
    let offset = segment.offset.saturating_add(strings - segment.address);
    let strings = read(file, length, offset, (end(segment) - offset).min(MAX_TABLE))?;
    Ok(rows.iter().filter(|(tag, _)| *tag == DT_NEEDED).map(|(_, name)| text(&strings, *name)).collect())
}

fn end(segment: &Segment) -> u64 {
    segment.offset.saturating_add(segment.size)
}

fn unreadable(error: io::Error) -> String {
    format!("it cannot be read: {error}")
}

fn read(file: &mut (impl Read + Seek), length: u64, offset: u64, size: u64) -> Result<Vec<u8>, String> {
    if size > MAX_TABLE {
        return Err(format!("a table of {size} bytes in it is too long"));
    }
    if offset.checked_add(size).is_none_or(|end| end > length) {
        return Err(format!("the file is truncated: {length} bytes, and a part of {size} bytes begins at {offset}"));
    }
    let mut bytes = vec![0; size as usize];
    file.seek(SeekFrom::Start(offset)).and_then(|_| file.read_exact(&mut bytes)).map_err(unreadable)?;
    Ok(bytes)
}

/// The NUL-terminated string at `offset`.
fn text(bytes: &[u8], offset: u64) -> String {
    let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default();
    let string = rest.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(string).into_owned()
}

fn number<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    bytes[offset..offset + N].try_into().expect("the length is right")
}

fn half(bytes: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes(number(bytes, offset))
}

fn word(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(number(bytes, offset))
}

fn long(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(number(bytes, offset))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    /// A small program: header, three segments, interpreter, string table, dynamic section.
    fn elf(interpreter: &str, libraries: &[&str]) -> Vec<u8> {
        let mut strings = vec![0];
        let mut dynamic = Vec::new();
        for library in libraries {
            dynamic.extend([DT_NEEDED, strings.len() as u64]);
            strings.extend(library.bytes().chain([0]));
        }
        let interp: Vec<u8> = interpreter.bytes().chain([0]).collect();
        let interp_at = 64 + 3 * 56;
        let strings_at = interp_at + interp.len();
        let dynamic_at = strings_at + strings.len();
        dynamic.extend([DT_STRTAB, 0x1000 + strings_at as u64, 0, 0]);
        let dynamic: Vec<u8> = dynamic.into_iter().flat_map(u64::to_le_bytes).collect();
        let total = dynamic_at + dynamic.len();
        let mut file = vec![0; 64];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[16..20].copy_from_slice(&[3, 0, 62, 0]);
        file[32] = 64;
        file[54] = 56;
        file[56] = 3;
        for (kind, offset, size) in
            [(PT_LOAD, 0, total), (PT_INTERP, interp_at, interp.len()), (PT_DYNAMIC, dynamic_at, dynamic.len())]
        {
            let mut row = [0; 56];
            row[..4].copy_from_slice(&kind.to_le_bytes());
            row[8..16].copy_from_slice(&(offset as u64).to_le_bytes());
            row[16..24].copy_from_slice(&(0x1000 + offset as u64).to_le_bytes());
            row[32..40].copy_from_slice(&(size as u64).to_le_bytes());
            file.extend(row);
        }
        file.extend(interp);
        file.extend(strings);
        file.extend(dynamic);
        file
    }

    fn verdict(file: &[u8]) -> Result<(), String> {
        check(&mut Cursor::new(file), |library| library == "libc.so")
    }

    #[test]
    fn a_good_program_passes() {
        assert_eq!(verdict(&elf(INTERPRETER, &["libc.so"])), Ok(()));
    }

    #[test]
    fn missing_libraries_are_named() {
        let error = verdict(&elf(INTERPRETER, &["libc.so", "libssl.so", "libx.so"])).unwrap_err();
        assert!(error.contains("libssl.so, libx.so") && !error.contains("libc.so"), "{error}");
    }

    #[test]
    fn strangers_are_named() {
        assert!(verdict(&elf("/lib64/ld-linux-x86-64.so.2", &[])).unwrap_err().contains("Linux"));
        assert!(verdict(&elf("/odd", &[])).unwrap_err().contains("/odd"));
        assert!(verdict(b"#!/bin/sh\n").unwrap_err().contains("not a program"));
        assert!(verdict(b"").unwrap_err().contains("not a program"));
        let mut arm = elf(INTERPRETER, &[]);
        arm[18] = 183;
        assert!(verdict(&arm).unwrap_err().contains("aarch64"));
        let mut fixed = elf(INTERPRETER, &[]);
        fixed[16] = 2;
        assert!(verdict(&fixed).unwrap_err().contains("ET_EXEC"));
    }

    #[test]
    fn no_cut_passes_or_panics() {
        let file = elf(INTERPRETER, &["libc.so"]);
        for length in 0..file.len() {
            assert!(verdict(&file[..length]).is_err(), "cut to {length}");
        }
        assert!(verdict(&file[..100]).unwrap_err().contains("truncated"));
    }

    #[test]
    fn no_changed_byte_panics() {
        let file = elf(INTERPRETER, &["libc.so"]);
        for index in 0..file.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut changed = file.clone();
                changed[index] = value;
                let _ = verdict(&changed);
            }
        }
    }
}
