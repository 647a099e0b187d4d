//! The system calls, found by name in the vDSO's image.
//!
//! Each call that userboot or one of its crates uses is a symbol here: a jump through a slot. [`bind`] looks up the
//! names in the vDSO's dynamic symbols (GNU hash) and fills the slots, as a dynamic linker would.

use core::arch::global_asm;
use core::ptr;

use crate::arch::jump_by;

/// Defines the jumps and the slots, and the names in the same order.
macro_rules! calls {
    ($($name:ident)*) => {
        global_asm!(
            ".section .text.vdso_calls, \"ax\", @progbits",
            $(
                concat!(".globl ", stringify!($name)),
                concat!(".hidden ", stringify!($name)),
                concat!(".type ", stringify!($name), ", @function"),
                jump_by!(stringify!($name), "vdso_slot_"),
            )*
            ".section .bss.vdso_slots, \"aw\", @nobits",
            ".balign 8",
            ".globl vdso_slots",
            ".hidden vdso_slots",
            "vdso_slots:",
            $(concat!("vdso_slot_", stringify!($name), ": .skip 8"),)*
            ".text",
            options(att_syntax)
        );
        /// The names, each terminated by a zero. They are one string, because a table of strings would need relocation.
        const NAMES: &[u8] = concat!($(stringify!($name), "\0"),*).as_bytes();
        const COUNT: usize = [$(stringify!($name)),*].len();
    };
}

calls! {
    zx_channel_call zx_channel_create zx_channel_read zx_channel_write
    zx_debuglog_create zx_debuglog_write
    zx_handle_close zx_handle_close_many zx_handle_duplicate zx_handle_replace
    zx_object_get_info zx_object_set_property zx_object_wait_many zx_object_wait_one
    zx_process_create zx_process_exit zx_process_start
    zx_system_powerctl zx_task_kill zx_thread_create
    zx_vmar_allocate zx_vmar_destroy zx_vmar_map zx_vmar_unmap
    zx_vmo_create zx_vmo_create_child zx_vmo_get_size zx_vmo_get_stream_size zx_vmo_read
    zx_vmo_replace_as_executable zx_vmo_write
}

unsafe extern "C" {
    static mut vdso_slots: [usize; COUNT];
}

#[repr(C)]
struct FileHeader {
    ident: [u8; 16],
    kind_machine_version: [u32; 2],
    entry: u64,
    program_headers: u64,
    section_headers: u64,
    flags: u32,
    header_size: u16,
    program_header_size: u16,
    program_header_count: u16,
}

#[repr(C)]
struct ProgramHeader {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
}

#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

const PT_DYNAMIC: u32 = 2;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_GNU_HASH: u64 = 0x6fff_fef5;

/// Fills the slots; returns whether all names were found.
///
/// # Safety
/// `base` is the vDSO's base address, and no other thread runs.
pub unsafe fn bind(base: usize) -> bool {
    // SAFETY: the caller guarantees the image.
    let Some(image) = (unsafe { Symbols::of(base) }) else { return false };
    let mut names = NAMES.split_inclusive(|byte| *byte == 0);
    for index in 0..COUNT {
        let Some(name) = names.next() else { return false };
        // SAFETY: the tables are those of the image.
        let Some(address) = (unsafe { image.find(name) }) else { return false };
        // SAFETY: there is one thread; `index` is below the number of slots.
        unsafe { (&raw mut vdso_slots).cast::<usize>().add(index).write(address) };
    }
    true
}

/// The symbol tables of an image.
struct Symbols {
    base: usize,
    strings: *const u8,
    symbols: *const Symbol,
    hash: *const u32,
}

impl Symbols {
    /// # Safety
    /// An image is mapped at `base` so that its addresses are offsets from there.
    unsafe fn of(base: usize) -> Option<Symbols> {
        let at = |offset: u64| ptr::with_exposed_provenance::<u8>(base.wrapping_add(offset as usize));
        let header = at(0).cast::<FileHeader>();
        let (mut strings, mut symbols, mut hash) = (0, 0, 0);
        // SAFETY: the caller guarantees the image, whose headers give the addresses of its tables.
        unsafe {
            for index in 0..u64::from((*header).program_header_count) {
                let size = u64::from((*header).program_header_size);
                let segment = at((*header).program_headers + index * size).cast::<ProgramHeader>();
                if (*segment).kind != PT_DYNAMIC {
                    continue;
                }
                let mut entry = at((*segment).address).cast::<[u64; 2]>();
                while (*entry)[0] != 0 {
                    match (*entry)[0] {
                        DT_STRTAB => strings = (*entry)[1],
                        DT_SYMTAB => symbols = (*entry)[1],
                        DT_GNU_HASH => hash = (*entry)[1],
                        _ => {}
                    }
                    entry = entry.add(1);
                }
            }
        }
        let there = strings != 0 && symbols != 0 && hash != 0;
        there.then(|| Symbols { base, strings: at(strings), symbols: at(symbols).cast(), hash: at(hash).cast() })
    }

    /// The address of a symbol; `name` ends with a zero.
    ///
    /// # Safety
    /// The tables are complete.
    unsafe fn find(&self, name: &[u8]) -> Option<usize> {
        let hash =
            name[..name.len() - 1].iter().fold(5381u32, |h, byte| h.wrapping_mul(33).wrapping_add((*byte).into()));
        // SAFETY: the layout of a GNU hash table: four words, the 64-bit words of the Bloom filter, buckets, chains.
        unsafe {
            let (buckets, first, filter) = (*self.hash, *self.hash.add(1), *self.hash.add(2));
            let bucket = self.hash.add(4 + 2 * filter as usize);
            let chain = bucket.add(buckets as usize);
            let mut index = *bucket.add(hash.checked_rem(buckets)? as usize);
            if index < first {
                return None;
            }
            loop {
                let value = *chain.add((index - first) as usize);
                let symbol = &*self.symbols.add(index as usize);
                if value | 1 == hash | 1 && symbol.section != 0 && self.is_named(symbol, name) {
                    return Some(self.base.wrapping_add(symbol.value as usize));
                }
                if value & 1 != 0 {
                    return None;
                }
                index += 1;
            }
        }
    }

    /// # Safety
    /// The tables are complete.
    unsafe fn is_named(&self, symbol: &Symbol, name: &[u8]) -> bool {
        // SAFETY: the symbol's name is in the string table and ends with a zero, where the comparison ends too.
        name.iter().enumerate().all(|(i, byte)| unsafe { *self.strings.add(symbol.name as usize + i) } == *byte)
    }
}
