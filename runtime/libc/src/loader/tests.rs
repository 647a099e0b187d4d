//! Tests of the linker's format code, with libraries of the build machine and with damaged ones.

use super::elf::{Dynamic, Header, Image, Layout, Symbol};
use super::reloc::{self, Binding, Failure, Resolve};
use super::symbols::{self, Name};
use proptest::prelude::*;
use std::sync::OnceLock;

/// An image in the test's own memory, laid out as if mapped.
struct Loaded {
    _memory: Vec<u64>,
    image: Image,
    dynamic: Dynamic,
}

/// Reads the headers and copies the segments to memory, with the same steps as the mapping code.
fn load(file: &[u8]) -> Result<Loaded, String> {
    let header = Header::parse(file)?;
    let layout = Layout::plan(header.program_headers(&file[..file.len().min(4096)])?)?;
    if layout.span > 64 << 20 {
        return Err("too large for the test".into());
    }
    let mut memory = vec![0u64; layout.span / 8];
    // SAFETY: the vector's own bytes; nothing else refers to them yet.
    let bytes = unsafe { std::slice::from_raw_parts_mut(memory.as_mut_ptr().cast::<u8>(), layout.span) };
    for segment in layout.segments() {
        let from = segment.file_offset as usize;
        let len = segment.file_len.min(segment.len);
        let Some(source) = from.checked_add(len).and_then(|end| file.get(from..end)) else {
            return Err("segment outside the file".into());
        };
        bytes[segment.start..segment.start + len].copy_from_slice(source);
    }
    // SAFETY: all segments are in the vector, which `Loaded` keeps.
    let image = unsafe { Image::new(memory.as_ptr() as usize, &layout) };
    let (vaddr, size) = layout.dynamic.ok_or("no dynamic section")?;
    let dynamic = Dynamic::parse(&image, vaddr, size)?;
    Ok(Loaded { _memory: memory, image, dynamic })
}

/// A shared library of the build machine: large, with both types of hash tables and relocations.
fn library() -> &'static [u8] {
    static FILE: OnceLock<Vec<u8>> = OnceLock::new();
    FILE.get_or_init(|| {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let path = maps.lines().filter_map(|line| line.split_whitespace().nth(5)).find(|path| path.contains("libc.so"));
        std::fs::read(path.expect("the test program uses a shared C library")).unwrap()
    })
}

/// Binds every symbol to the image's own definition, or to a recognisable address.
struct Anything<'a>(&'a Loaded);

const ELSEWHERE: usize = 0x1234_5678;

impl Resolve for Anything<'_> {
    fn bind(&mut self, name: &Name<'static>, symbol: &Symbol) -> Option<Binding> {
        if symbol.is_tls() {
            return Some(Binding::Tls { module: 256, offset: symbol.value as usize });
        }
        let found = symbols::find(&self.0.image, &self.0.dynamic, name);
        let own = found.map(|symbol| self.0.image.bias().wrapping_add(symbol.value as usize));
        Some(Binding::Address(own.unwrap_or(ELSEWHERE)))
    }

    fn own_tls(&self) -> Option<usize> {
        Some(256)
    }

    fn copy(&mut self, _: &Name<'static>, _: usize, _: usize) -> Option<()> {
        Some(())
    }

    fn tls_descriptor(&self, offset: Option<usize>) -> (usize, usize) {
        (1, offset.unwrap_or(0))
    }

    fn indirect(&mut self, address: usize) -> usize {
        address
    }
}

fn relocate(loaded: &Loaded) -> Result<(), Failure> {
    reloc::apply_relr(&loaded.image, loaded.dynamic.relr)?;
    reloc::apply(&loaded.image, &loaded.dynamic, &mut Anything(loaded))
}

#[test]
fn finds_what_a_real_library_defines_and_nothing_else() {
    let loaded = load(library()).unwrap();
    assert!(loaded.dynamic.soname().unwrap().starts_with(b"libc.so"));
    for name in ["malloc", "printf", "qsort", "strlen", "environ"] {
        let symbol = symbols::find(&loaded.image, &loaded.dynamic, &Name::new(name.as_bytes()));
        assert!(symbol.is_some_and(|symbol| symbol.value != 0), "{name}");
    }
    for name in ["", "no_such_symbol", "mallo", "mallocs"] {
        assert!(symbols::find(&loaded.image, &loaded.dynamic, &Name::new(name.as_bytes())).is_none(), "{name}");
    }
}

#[test]
fn every_defined_symbol_is_found_by_its_name() {
    let loaded = load(library()).unwrap();
    let count = symbols::count(&loaded.image, &loaded.dynamic);
    assert!(count > 1000);
    let mut found = 0;
    for index in 1..count {
        let symbol = loaded.dynamic.search.symbol(index).unwrap();
        if symbol.is_defined() && symbol.is_global() {
            let name = loaded.dynamic.search.string(symbol.name as usize).unwrap();
            assert!(symbols::find(&loaded.image, &loaded.dynamic, &Name::new(name)).is_some());
            found += 1;
        }
    }
    assert!(found > 1000);
}

#[test]
fn the_nearest_symbol_covers_the_address() {
    let loaded = load(library()).unwrap();
    let qsort = symbols::find(&loaded.image, &loaded.dynamic, &Name::new(b"qsort")).unwrap();
    let near = symbols::nearest(&loaded.image, &loaded.dynamic, qsort.value as usize + 3).unwrap();
    assert_eq!(near.value, qsort.value);
    assert!(symbols::nearest(&loaded.image, &loaded.dynamic, 1).is_none());
}

#[test]
fn relocates_a_real_library() {
    relocate(&load(library()).unwrap()).unwrap();
}

#[test]
fn packed_relative_relocations_move_exactly_the_words_they_name() {
    // An address, then a bitmap of the next 63 words: together they name words 0, 1 and 63 from that address.
    let layout = {
        let header = super::elf::ProgramHeader {
            p_type: super::elf::PT_LOAD,
            flags: super::elf::PF_R | super::elf::PF_W,
            memsz: 8192,
            ..Default::default()
        };
        Layout::plan([header].into_iter()).unwrap()
    };
    let mut memory = vec![0u64; 1024];
    memory[0] = 4096;
    memory[1] = 1 | 1 << 1 | 1 << 63;
    let base = memory.as_mut_ptr() as usize;
    // SAFETY: the only segment is the vector.
    let image = unsafe { Image::new(base, &layout) };
    reloc::apply_relr(&image, super::elf::Table { vaddr: 0, size: 16 }).unwrap();
    let read = |index: usize| image.read::<u64>(4096 + index * 8).unwrap();
    for index in 0..100 {
        assert_eq!(read(index), if [0, 1, 63].contains(&index) { base as u64 } else { 0 }, "{index}");
    }
    // An address outside of the image is rejected.
    let bad = super::elf::Table { vaddr: 8184, size: 16 };
    assert!(reloc::apply_relr(&image, bad).is_err());
}

#[test]
fn an_invalid_image_is_refused_with_a_reason() {
    let reason = |file: &[u8]| Header::parse(file).unwrap_err();
    assert_eq!(reason(b""), "file is too short");
    assert_eq!(reason(b"#!/bin/sh and more"), "file is not an ELF image");
    let mut file = library()[..4096].to_vec();
    file[18] = 183;
    assert_eq!(reason(&file), "image is for another machine");
    file[18] = 62;
    file[16] = 2;
    assert_eq!(reason(&file), "image is not position-independent (ET_DYN)");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Damage in headers, dynamic section and tables is rejected or harmless, and never causes a wild access.
    #[test]
    fn damaged_images_are_refused_or_survive(
        damage in proptest::collection::vec((0usize..4, any::<proptest::sample::Index>(), any::<u8>()), 1..40),
    ) {
        let original = library();
        let parts = damage_targets(original);
        let mut file = original.to_vec();
        for (part, index, byte) in damage {
            let (start, len) = parts[part % parts.len()];
            file[start + index.index(len)] = byte;
        }
        if let Ok(loaded) = load(&file) {
            for name in [&b"malloc"[..], b"nothing_of_the_kind", b"environ"] {
                symbols::find(&loaded.image, &loaded.dynamic, &Name::new(name));
            }
            let _ = loaded.dynamic.needed(&loaded.image).count();
            let _ = relocate(&loaded);
        }
    }
}

/// The parts of the file that the linker reads.
fn damage_targets(file: &[u8]) -> Vec<(usize, usize)> {
    let header = Header::parse(file).unwrap();
    let dynamic = header
        .program_headers(&file[..4096])
        .unwrap()
        .find(|header| header.p_type == super::elf::PT_DYNAMIC)
        .map(|header| (header.offset as usize, header.filesz as usize))
        .unwrap();
    // The first 64 KiB hold hash tables, symbols, strings and relocations.
    vec![(0, 64), (64, header.phnum * 56), dynamic, (4096, 60 << 10)]
}
