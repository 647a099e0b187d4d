//! Relocation of one image: RELR (packed relative), REL, RELA and the PLT's table.
//!
//! The caller resolves symbols ([`Resolve`]); this file has the formats and the arithmetic of the relocation types. All
//! stores go through [`Image::write`], so a malformed table is rejected.

use super::elf::{Dynamic, Image, Reason, Symbol, Table};
use super::symbols::Name;

const R_NONE: u32 = 0;
const R_64: u32 = 1;
const R_COPY: u32 = 5;
const R_GLOB_DAT: u32 = 6;
const R_JUMP_SLOT: u32 = 7;
const R_RELATIVE: u32 = 8;
const R_DTPMOD64: u32 = 16;
const R_DTPOFF64: u32 = 17;
const R_TPOFF64: u32 = 18;
const R_TLSDESC: u32 = 36;
const R_IRELATIVE: u32 = 37;

/// The result of resolving a symbol.
pub enum Binding {
    /// An address in memory (0 for an undefined weak symbol).
    Address(usize),
    /// A thread-local: distance of its module's block below the thread pointer, and offset in the block.
    Tls { module: usize, offset: usize },
    /// An undefined weak thread-local.
    NoTls,
}

/// Why relocation failed.
#[derive(Debug)]
pub enum Failure {
    /// The image is malformed.
    Image(Reason),
    /// An unknown relocation type.
    Type(u32),
    /// An undefined symbol.
    Undefined(&'static [u8]),
}

impl From<Reason> for Failure {
    fn from(reason: Reason) -> Self {
        Failure::Image(reason)
    }
}

/// Symbol resolution and special cases, for the image that is being relocated.
pub trait Resolve {
    /// Resolves `symbol`, named `name`. `None` means that it is undefined and not weak.
    fn bind(&mut self, name: &Name<'static>, symbol: &Symbol) -> Option<Binding>;
    /// The distance of the image's own TLS block below the thread pointer.
    fn own_tls(&self) -> Option<usize>;
    /// Copies the first definition of `name` in another module to `to` (`size` bytes).
    fn copy(&mut self, name: &Name<'static>, to: usize, size: usize) -> Option<()>;
    /// The two words of a TLS descriptor for an offset from the thread pointer; `None` means an undefined weak symbol.
    fn tls_descriptor(&self, offset: Option<usize>) -> (usize, usize);
    /// Calls the IFUNC resolver at `address` in the image.
    fn indirect(&mut self, address: usize) -> usize;
}

/// Applies the packed relative relocations.
pub fn apply_relr(image: &Image, table: Table) -> Result<(), Reason> {
    const OUTSIDE: Reason = "RELR relocations lie outside the writable segments";
    let mut next = 0;
    let mut writer = image.writer();
    let mut relocate = |at: usize| writer.add(at, image.bias());
    for index in 0..table.size / 8 {
        let entry = table.vaddr.checked_add(index * 8).and_then(|at| image.read::<usize>(at)).ok_or(OUTSIDE)?;
        if entry & 1 == 0 {
            relocate(entry).ok_or(OUTSIDE)?;
            next = entry.wrapping_add(8);
            continue;
        }
        // A bitmap of the next 63 words.
        let mut bits = entry >> 1;
        let mut at = next;
        while bits != 0 {
            if bits & 1 != 0 {
                relocate(at).ok_or(OUTSIDE)?;
            }
            bits >>= 1;
            at = at.wrapping_add(8);
        }
        next = next.wrapping_add(63 * 8);
    }
    Ok(())
}

/// One entry of a REL or RELA table.
struct Entry {
    at: usize,
    kind: u32,
    symbol: usize,
    /// `None`: the addend is at the relocated place itself.
    addend: Option<usize>,
}

fn entries(image: &Image, table: Table, rela: bool) -> Result<impl Iterator<Item = Entry>, Reason> {
    let words = if rela { 3 } else { 2 };
    let count = table.size / 8 / words * words;
    let table = match count {
        0 => Some(&[][..]),
        _ => image.table::<u64>(table.vaddr).and_then(|all| all.get(..count)),
    };
    let table = table.ok_or("relocations lie outside the image, or where they can be written")?;
    Ok(table.chunks_exact(words).map(|entry| {
        let (info, addend) = (entry[1], entry.get(2).map(|addend| *addend as usize));
        Entry { at: entry[0] as usize, kind: info as u32, symbol: (info >> 32) as usize, addend }
    }))
}

/// Applies all relocations of `image` except for RELR.
pub fn apply(image: &Image, dynamic: &Dynamic, resolver: &mut impl Resolve) -> Result<(), Failure> {
    let tables = [(dynamic.rel, false), (dynamic.rela, true), (dynamic.plt, dynamic.plt_is_rela)];
    // Indirect functions run code of the image. They come last, when everything that they may use is bound.
    for indirect in [false, true] {
        for (table, rela) in tables {
            for entry in entries(image, table, rela)? {
                if (entry.kind == R_IRELATIVE) == indirect {
                    apply_one(image, dynamic, resolver, &entry)?;
                }
            }
        }
    }
    Ok(())
}

/// Binds weak symbols again that another module may define now: for an image that was bound when less was loaded.
pub fn apply_weak(image: &Image, dynamic: &Dynamic, resolver: &mut impl Resolve) -> Result<(), Failure> {
    let tables = [(dynamic.rel, false), (dynamic.rela, true), (dynamic.plt, dynamic.plt_is_rela)];
    for (table, rela) in tables {
        for entry in entries(image, table, rela)? {
            let is_place = matches!(entry.kind, R_GLOB_DAT | R_JUMP_SLOT);
            let symbol = dynamic.search.symbol(entry.symbol).filter(|_| is_place && entry.symbol != 0);
            if symbol.is_some_and(|symbol| symbol.is_weak() && !symbol.is_defined()) {
                apply_one(image, dynamic, resolver, &entry)?;
            }
        }
    }
    Ok(())
}

fn apply_one(image: &Image, dynamic: &Dynamic, resolver: &mut impl Resolve, entry: &Entry) -> Result<(), Failure> {
    const OUTSIDE: Reason = "relocations are for places outside the writable segments";
    let Entry { at, kind, .. } = *entry;
    let addend = |at: usize| entry.addend.or_else(|| image.read(at)).ok_or(OUTSIDE);
    let put = |at: usize, value: usize| image.write(at, value).ok_or(Failure::Image(OUTSIDE));
    match kind {
        R_NONE => return Ok(()),
        R_RELATIVE => return put(at, addend(at)?.wrapping_add(image.bias())),
        R_IRELATIVE => {
            let resolve = addend(at)?;
            if !image.is_code(resolve) {
                return Err("indirect function is not code".into());
            }
            return put(at, resolver.indirect(resolve.wrapping_add(image.bias())));
        }
        R_64 | R_COPY | R_GLOB_DAT | R_JUMP_SLOT | R_DTPMOD64 | R_DTPOFF64 | R_TPOFF64 | R_TLSDESC => {}
        other => return Err(Failure::Type(other)),
    }
    // The other types refer to a symbol; number 0 means the image's own TLS block.
    let symbol = dynamic.search.symbol(entry.symbol).ok_or("relocations name symbols outside the image")?;
    let name = dynamic.search.name(symbol.name as usize).ok_or("symbol names lie outside the image")?;
    if kind == R_COPY {
        let size = symbol.size as usize;
        let to = image.address(at, size).ok_or(OUTSIDE)?;
        return resolver.copy(&name, to, size).ok_or(Failure::Undefined(name.text()));
    }
    let binding = if entry.symbol == 0 {
        match resolver.own_tls() {
            Some(module) => Binding::Tls { module, offset: 0 },
            None => Binding::Address(0),
        }
    } else {
        resolver.bind(&name, &symbol).ok_or(Failure::Undefined(name.text()))?
    };
    match (kind, binding) {
        (R_64, Binding::Address(value)) => put(at, value.wrapping_add(addend(at)?)),
        (R_GLOB_DAT | R_JUMP_SLOT, Binding::Address(value)) => put(at, value),
        // The C library's `__tls_get_addr` expects the block's distance from the thread pointer as the module.
        (R_DTPMOD64, Binding::Tls { module, .. }) => put(at, module),
        (R_DTPOFF64, Binding::Tls { offset, .. }) => put(at, offset.wrapping_add(addend(at)?)),
        (R_TPOFF64, Binding::Tls { module, offset }) => put(at, offset.wrapping_add(addend(at)?).wrapping_sub(module)),
        (R_TLSDESC, binding) => {
            let extra = addend(at.wrapping_add(8))?;
            let offset = match binding {
                Binding::Tls { module, offset } => Some(offset.wrapping_add(extra).wrapping_sub(module)),
                Binding::NoTls => None,
                Binding::Address(_) => return Err("thread-local symbol is bound to an ordinary one".into()),
            };
            let (function, argument) = resolver.tls_descriptor(offset);
            put(at, function)?;
            put(at.wrapping_add(8), argument)
        }
        (R_DTPMOD64 | R_DTPOFF64 | R_TPOFF64, Binding::NoTls) => put(at, 0),
        _ => Err("symbol is thread-local where an ordinary one was expected, or the other way round".into()),
    }
}
