//! Physmem: all memory of Linux, with the kernel in it, mapped where the kernel is linked.

use elf::ElfBytes;
use elf::abi::{EM_X86_64, ET_EXEC, PT_LOAD};
use elf::endian::LittleEndian;
use vm_memory::VolatileSlice;
use zx::{Info, Vmar, Vmo};

const PAGE: u64 = 4096;
/// The lowest address of the kernel, which is Linux' physical address 0.
pub const RANGE: u64 = 0x6000_0000;
/// Physmem and what Linux maps behind it.
const RANGE_LEN: usize = 8 << 30;

/// See the description of the module.
pub struct Memory {
    /// The VMO.
    pub physmem: Vmo,
    /// The region from [`RANGE`] on.
    pub vmar: Vmar,
    /// Physmem, as it is mapped.
    pub mapped: Mapped,
    /// The address of the kernel's first function.
    pub start: u64,
}

/// Physmem, mapped at [`RANGE`] until the process ends. Only [`load`] makes it.
#[derive(Clone, Copy)]
pub struct Mapped {
    len: usize,
}

impl Mapped {
    /// The memory as the devices see it: Linux changes it at any time.
    pub fn slice(self) -> VolatileSlice<'static> {
        // SAFETY: so many bytes are mapped there until the process ends. Each access is volatile or atomic, and within
        // them.
        unsafe { VolatileSlice::new(std::ptr::with_exposed_provenance_mut(RANGE as usize), self.len) }
    }
}

/// Puts a kernel into a new physmem of this many bytes.
pub fn load(kernel: &[u8], len: u64) -> Result<Memory, String> {
    let status = |what: &'static str| move |status: zx::Status| format!("{what}: {status}");
    let file =
        ElfBytes::<LittleEndian>::minimal_parse(kernel).map_err(|why| format!("the kernel is no ELF file: {why}"))?;
    if file.ehdr.e_machine != EM_X86_64 || file.ehdr.e_type != ET_EXEC {
        return Err("the kernel is not for fixed addresses of x86_64".into());
    }
    let physmem = Vmo::create(len, 0).map_err(status("no memory"))?;
    for segment in file.segments().into_iter().flatten().filter(|segment| segment.p_type == PT_LOAD) {
        let offset = segment.p_vaddr.checked_sub(RANGE).ok_or("a part of the kernel is below its memory")?;
        let end = offset.checked_add(segment.p_memsz).filter(|end| *end <= len);
        end.ok_or("the kernel is larger than its memory")?;
        let bytes = file.segment_data(&segment).map_err(|why| format!("the kernel is damaged: {why}"))?;
        physmem.write(bytes, offset).map_err(status("cannot write the kernel"))?;
    }
    let physmem = physmem.replace_as_executable(None).map_err(status("memory cannot be executed"))?;
    let root = zx::startup::vmar_root_self();
    let info = root.info_record::<abi::zx_info_vmar_t>(abi::ZX_INFO_VMAR).map_err(status("no region"))?;
    let offset = RANGE.checked_sub(info.base as u64).ok_or("the kernel is below this process's addresses")?;
    let may = abi::ZX_VM_SPECIFIC
        | abi::ZX_VM_CAN_MAP_SPECIFIC
        | abi::ZX_VM_CAN_MAP_READ
        | abi::ZX_VM_CAN_MAP_WRITE
        | abi::ZX_VM_CAN_MAP_EXECUTE;
    let (vmar, _) =
        root.allocate(may, offset as usize, RANGE_LEN).map_err(status("the kernel's addresses are in use"))?;
    let access = abi::ZX_VM_SPECIFIC | abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_WRITE | abi::ZX_VM_PERM_EXECUTE;
    vmar.map(access, 0, &physmem, 0, len.next_multiple_of(PAGE) as usize).map_err(status("cannot map memory"))?;
    Ok(Memory { physmem, vmar, mapped: Mapped { len: len as usize }, start: file.ehdr.e_entry })
}
