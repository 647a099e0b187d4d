//! Thread-local variables: where each module's block is below the thread pointer, and how code finds it.
//!
//! All modules that are loaded at the start share one static TLS area, which ends at the thread pointer. Their offsets
//! are known once they are loaded, so every access is one addition. Modules that are loaded later (`dlopen`) cannot
//! have thread-locals.

use super::elf::{Dynamic, Image, Symbol, TlsSegment};
use super::reloc::{Binding, Resolve};
use super::symbols::{self, Name};
use crate::arch::{descriptor_offset, descriptor_undefined, memcpy};
use crate::lock::Lock;
use crate::thread;
use alloc::vec::Vec;

/// The size and alignment of the static area.
#[derive(Clone, Copy)]
pub struct StaticTls {
    pub size: usize,
    pub align: usize,
}

/// One module's block.
struct Block {
    /// Distance from its start to the thread pointer.
    offset: usize,
    /// Address of its initial values.
    values: usize,
    len: usize,
}

struct Area {
    size: usize,
    align: usize,
    blocks: Vec<Block>,
    /// Whether a thread has been created, so that the area cannot change any more.
    fixed: bool,
}

static AREA: Lock<Area> = Lock::new(Area { size: 0, align: 1, blocks: Vec::new(), fixed: false });

/// Adds a module's block to the static area; returns its distance from the thread pointer, or `None` if the area is
/// fixed.
pub fn add(image: &Image, segment: &TlsSegment) -> Option<usize> {
    let mut area = AREA.lock();
    if area.fixed {
        return None;
    }
    let values = image.address(segment.vaddr, segment.file_len)?;
    // The lowest distance at which the block fits and its address has the same alignment (and misalignment) as in the
    // file. Compilers and linkers compute the program's own offsets in the same way.
    let needed = area.size + segment.len;
    let offset = needed + (segment.vaddr.wrapping_neg().wrapping_sub(needed) & (segment.align - 1));
    area.size = offset;
    area.align = area.align.max(segment.align);
    area.blocks.push(Block { offset, values, len: segment.file_len });
    Some(offset)
}

/// The size and alignment that a thread needs below its thread pointer. From now on they cannot change.
pub fn static_tls() -> StaticTls {
    let mut area = AREA.lock();
    area.fixed = true;
    StaticTls { size: area.size, align: area.align }
}

/// Copies the initial values of the thread-locals below `pointer`. The memory must be zeroed.
pub fn init_static_tls(pointer: usize) {
    for block in &AREA.lock().blocks {
        // SAFETY: the area below the pointer has room for all blocks; the values are in a mapped image.
        unsafe { memcpy((pointer - block.offset) as *mut u8, block.values as *const u8, block.len) };
    }
}

/// The argument of `__tls_get_addr`: module, and offset in its block. This linker stores the block's distance from the
/// thread pointer as the module.
#[repr(C)]
pub struct TlsIndex {
    module: usize,
    offset: usize,
}

/// The address of a thread-local of the calling thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __tls_get_addr(index: *const TlsIndex) -> *mut u8 {
    // SAFETY: relocation has filled in this pair.
    let index = unsafe { &*index };
    thread::pointer().wrapping_sub(index.module).wrapping_add(index.offset) as *mut u8
}

/// The two words of a TLS descriptor.
pub fn descriptor(offset: Option<usize>) -> (usize, usize) {
    match offset {
        Some(offset) => (descriptor_offset as *const () as usize, offset),
        None => (descriptor_undefined as *const () as usize, 0),
    }
}

/// Binds this library's own system calls to the vDSO, before anything else is loaded.
pub struct BootResolver<'a> {
    pub vdso: (&'a Image, &'a Dynamic),
    pub own: (&'a Image, &'a Dynamic),
    /// A system call that the vDSO does not have.
    pub missing: Option<&'static [u8]>,
}

impl Resolve for BootResolver<'_> {
    fn bind(&mut self, name: &Name<'static>, symbol: &Symbol) -> Option<Binding> {
        for (image, dynamic) in [self.own, self.vdso] {
            if let Some(found) = symbols::find(image, dynamic, name) {
                return Some(Binding::Address(image.bias().wrapping_add(found.value as usize)));
            }
        }
        if !symbol.is_weak() {
            self.missing = Some(name.text());
        }
        Some(Binding::Address(0))
    }

    fn own_tls(&self) -> Option<usize> {
        None
    }

    fn copy(&mut self, _: &Name<'static>, _: usize, _: usize) -> Option<()> {
        None
    }

    fn tls_descriptor(&self, offset: Option<usize>) -> (usize, usize) {
        descriptor(offset)
    }

    fn indirect(&mut self, address: usize) -> usize {
        address
    }
}
