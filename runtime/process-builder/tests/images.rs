//! Which files are accepted as programs, and why others are not.
use process_builder::{DEFAULT_STACK_SIZE, Image, ImageError, Segment};
use proptest::prelude::*;

/// The contents of a test file.
#[derive(Clone)]
struct Elf {
    class: u8,
    data: u8,
    kind: u16,
    machine: u16,
    entry: u64,
    headers: Vec<[u64; 7]>,
    size: usize,
    interp: Option<&'static str>,
    /// Names of libraries; `None`: no dynamic section.
    needed: Option<Vec<&'static str>>,
}

const LOAD: u64 = 1;
const STACK: u64 = 0x6474_e551;
const R: u64 = 4;
const RX: u64 = 5;
const RW: u64 = 6;

/// type, flags, offset, address, file size, memory size, alignment
fn load(flags: u64, offset: u64, address: u64, file: u64, memory: u64) -> [u64; 7] {
    [LOAD, flags, offset, address, file, memory, 0x1000]
}

fn good() -> Elf {
    Elf {
        class: 2,
        data: 1,
        kind: 3,
        machine: 62,
        entry: 0x1010,
        headers: vec![
            load(R, 0, 0, 0x800, 0x800),
            load(RX, 0x1000, 0x1000, 0x900, 0x900),
            load(RW, 0x2100, 0x3100, 0x100, 0x5000),
        ],
        size: 0x3000,
        interp: None,
        needed: None,
    }
}

impl Elf {
    fn bytes(&self) -> Vec<u8> {
        let mut b = vec![0; self.size.max(0x1000)];
        let mut headers = self.headers.clone();
        if let Some(interp) = self.interp {
            b[0x700..0x700 + interp.len()].copy_from_slice(interp.as_bytes());
            headers.push([3, 4, 0x700, 0x700, interp.len() as u64 + 1, interp.len() as u64 + 1, 1]);
        }
        if let Some(needed) = &self.needed {
            // Dynamic section at 0x400, strings at 0x600.
            let (mut rows, mut strings) = (vec![[5u64, 0x600]], vec![0u8]);
            for name in needed {
                rows.push([1, strings.len() as u64]);
                strings.extend(name.bytes().chain([0]));
            }
            rows.push([0, 0]);
            let rows: Vec<u8> = rows.iter().flatten().flat_map(|word| word.to_le_bytes()).collect();
            b[0x400..0x400 + rows.len()].copy_from_slice(&rows);
            b[0x600..0x600 + strings.len()].copy_from_slice(&strings);
            headers.push([2, 4, 0x400, 0x400, rows.len() as u64, rows.len() as u64, 8]);
        }
        b[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', self.class, self.data, 1]);
        b[16..18].copy_from_slice(&self.kind.to_le_bytes());
        b[18..20].copy_from_slice(&self.machine.to_le_bytes());
        b[20] = 1;
        b[24..32].copy_from_slice(&self.entry.to_le_bytes());
        b[32] = 64;
        b[52] = 64;
        b[54] = 56;
        b[56] = headers.len() as u8;
        for (h, at) in headers.iter().zip((64..).step_by(56)) {
            b[at..at + 4].copy_from_slice(&(h[0] as u32).to_le_bytes());
            b[at + 4..at + 8].copy_from_slice(&(h[1] as u32).to_le_bytes());
            for (value, at) in [h[2], h[3], 0, h[4], h[5], h[6]].iter().zip((at + 8..).step_by(8)) {
                b[at..at + 8].copy_from_slice(&value.to_le_bytes());
            }
        }
        b.truncate(self.size);
        b
    }

    fn check(&self) -> Result<Image, ImageError> {
        Image::program(&self.bytes()[..])
    }
}

fn refused(change: impl FnOnce(&mut Elf)) -> ImageError {
    let mut elf = good();
    change(&mut elf);
    elf.check().unwrap_err()
}

#[test]
fn a_program_is_described() {
    let image = good().check().unwrap();
    assert_eq!(image.entry, 0x1010);
    assert_eq!(image.interpreter, None);
    assert_eq!(image.stack_size, DEFAULT_STACK_SIZE);
    assert_eq!(image.span(), Some((0, 0x9000)));
    let data =
        Segment { address: 0x3100, memory_size: 0x5000, offset: 0x2100, file_size: 0x100, write: true, execute: false };
    assert_eq!(image.segments[2], data);
    assert_eq!(data.pages(), (0x3000, 0x9000));
}

#[test]
fn a_program_may_name_the_dynamic_linker_and_its_stack() {
    let mut elf = good();
    elf.interp = Some("ld.so.1");
    elf.headers.push([STACK, RW, 0, 0, 0, 0x12345, 0]);
    let image = elf.check().unwrap();
    assert_eq!(image.interpreter.as_deref(), Some("ld.so.1"));
    assert_eq!(image.stack_size, 0x13000);
}

#[test]
fn a_program_names_its_libraries() {
    let mut elf = good();
    assert_eq!(elf.check().unwrap().needed, [""; 0]);
    elf.needed = Some(vec!["libfdio.so", "libc.so"]);
    assert_eq!(elf.check().unwrap().needed, ["libfdio.so", "libc.so"]);
    // The strings are not in any segment.
    elf.headers[0] = load(R, 0, 0, 0x500, 0x500);
    assert_eq!(elf.check().unwrap_err(), ImageError::BadDynamic);
}

#[test]
fn other_files_are_named() {
    assert_eq!(Image::program(&b"#!/bin/sh\n"[..]), Err(ImageError::NotElf));
    assert_eq!(Image::program(&b""[..]), Err(ImageError::NotElf));
    assert_eq!(Image::program(&b"\x7fELF\x02\x01"[..]), Err(ImageError::Truncated));
    assert_eq!(refused(|e| e.class = 1), ImageError::Not64Bit);
    assert_eq!(refused(|e| e.data = 2), ImageError::BigEndian);
    assert_eq!(refused(|e| e.machine = 183).to_string(), "built for aarch64");
    assert_eq!(refused(|e| e.kind = 2), ImageError::FixedAddress);
    assert_eq!(refused(|e| e.kind = 1), ImageError::ObjectFile);
    assert_eq!(refused(|e| e.kind = 4), ImageError::WrongType(4));
    assert_eq!(refused(|e| e.entry = 0), ImageError::NoEntry);
    assert_eq!(refused(|e| e.entry = 0x10), ImageError::BadEntry);
    assert_eq!(refused(|e| e.size = 0x1800), ImageError::Truncated);
    assert_eq!(refused(|e| e.headers.clear()), ImageError::BadHeaderCount);
    let linux = refused(|e| e.interp = Some("/lib64/ld-linux-x86-64.so.2"));
    assert_eq!(linux.to_string(), "a Linux program (interpreter /lib64/ld-linux-x86-64.so.2)");
    assert_eq!(refused(|e| e.interp = Some("asan/ld.so.1")), ImageError::UnknownInterpreter("asan/ld.so.1".into()));
}

#[cfg(target_os = "linux")]
#[test]
fn this_very_test_is_a_linux_program() {
    let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    assert!(matches!(Image::program(&bytes[..]), Err(ImageError::Linux(_))));
}

#[test]
fn impossible_segments_are_named() {
    let second = |segment: [u64; 7]| refused(|e| e.headers[1] = segment);
    assert_eq!(second(load(RX, 0x1000, 0x1000, 0x900, 0x800)), ImageError::BadSegment);
    assert_eq!(second(load(RX, 0x1000, 0x1001, 0x900, 0x900)), ImageError::BadSegment);
    assert_eq!(second(load(RX, u64::MAX - 0xfff, 0x1000, 0x1000, 0x1000)), ImageError::BadSegment);
    assert_eq!(second(load(RX, 0x1000, 0, 0x900, 0x900)), ImageError::Overlap);
    assert_eq!(second(load(RX, 0x1000, 0x1000, 0x900, 0x2100)), ImageError::Overlap);
    assert_eq!(second(load(7, 0x1000, 0x1000, 0x900, 0x900)), ImageError::WriteExecute);
    assert_eq!(second(load(RX, 0x1000, 0x1000, 0x900, u64::MAX)), ImageError::TooBig);
    assert_eq!(refused(|e| e.headers[2][5] = 1 << 45), ImageError::TooBig);
    assert_eq!(refused(|e| e.headers.push([STACK, RW, 0, 0, 0, u64::MAX, 0])), ImageError::TooBig);
}

proptest! {
    #[test]
    fn damaged_files_never_panic(damage in prop::collection::vec((0..300usize, any::<u8>()), 1..12), cut in 0..0x3000usize, interp in any::<bool>(), libraries in any::<bool>()) {
        let mut elf = good();
        elf.interp = interp.then_some("ld.so.1");
        elf.needed = libraries.then(|| vec!["libfdio.so"]);
        let mut bytes = elf.bytes();
        for (at, value) in damage {
            // Damage the headers and the dynamic section.
            bytes[if at < 240 { at } else { 0x400 + at - 240 }] = value;
        }
        if cut < 0x800 {
            bytes.truncate(cut * 6);
        }
        if let Ok(image) = Image::library(&bytes[..]) {
            let mut end = 0;
            for segment in &image.segments {
                let (first, after) = segment.pages();
                prop_assert!(first >= end && after > first);
                prop_assert!(segment.offset + segment.file_size <= bytes.len() as u64);
                end = after;
            }
        }
    }
}
