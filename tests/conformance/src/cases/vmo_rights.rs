//! The rights of a handle to a VMO: reading, writing, each kind of mapping, and the rights of its children's handles.

use abi::{Rights, Status, ZX_VMO_CHILD_NO_WRITE, ZX_VMO_CHILD_SLICE, ZX_VMO_CHILD_SNAPSHOT};
use zx::{AsHandleRef, Info, Vmo};

use super::{cases, raw};
use crate::check::{Failure, Outcome, equal, fails, gives};

cases! {
    "vmo.rights.each_mapping" => each_mapping,
    "vmo.rights.of_children" => of_children,
    "vmo.rights.type_comes_first" => type_comes_first,
    "cache_flush.options.each" => flush_each,
}

const PAGE: u64 = 4096;
const ACCESS: [(Rights, u32); 3] = [
    (Rights::READ, abi::ZX_VM_PERM_READ),
    (Rights::WRITE, abi::ZX_VM_PERM_WRITE),
    (Rights::EXECUTE, abi::ZX_VM_PERM_EXECUTE),
];

/// A VMO whose handle has all rights.
fn all() -> Result<Vmo, Failure> {
    Ok(Vmo::create(4 * PAGE, 0)?.replace_as_executable(None)?)
}

/// The members of a set of the three rights.
fn members(set: u32) -> impl Iterator<Item = (Rights, u32)> {
    ACCESS.into_iter().enumerate().filter(move |(n, _)| set >> n & 1 != 0).map(|(_, access)| access)
}

/// Each set of rights, against mappings with each set of permissions.
fn each_mapping() -> Outcome {
    let (all, root) = (all()?, zx::startup::vmar_root_self());
    for (set, may_map) in (0..8_u32).flat_map(|set| [(set, false), (set, true)]) {
        let rights = members(set).fold(Rights::NONE, |rights, (right, _)| rights | right);
        let less = Vmo::from(all.duplicate_handle(if may_map { rights | Rights::MAP } else { rights })?);
        let may = |right| if rights.contains(right) { Ok(()) } else { Err(Status::ACCESS_DENIED) };
        equal((less.read(&mut [], 0), less.write(&[], 0)), (may(Rights::READ), may(Rights::WRITE)))?;
        for asked in 0..8_u32 {
            let permissions: u32 = members(asked).map(|(_, permission)| permission).sum();
            let mapped = root.map(permissions, 0, &less, 0, 4 * PAGE as usize);
            if !may_map {
                fails(mapped, Status::ACCESS_DENIED)?;
            } else if asked != 0 && asked & 1 == 0 {
                // Memory that can be written or executed must be readable as well.
                fails(mapped, Status::INVALID_ARGS)?;
            } else if asked & !set != 0 {
                fails(mapped, Status::ACCESS_DENIED)?;
            } else {
                root.unmap(mapped?, 4 * PAGE as usize)?;
            }
        }
    }
    Ok(())
}

/// A copy's handle may write and not execute, except with `ZX_VMO_CHILD_NO_WRITE`; a slice's handle has the parent
/// handle's rights. Both get the rights to read and set properties.
fn of_children() -> Outcome {
    let all = all()?;
    let (needed, property) = (Rights::READ | Rights::DUPLICATE, Rights::GET_PROPERTY | Rights::SET_PROPERTY);
    let more = [Rights::WRITE, Rights::EXECUTE, Rights::MAP, Rights::TRANSFER, Rights::WAIT];
    for set in 0..1_u32 << more.len() {
        let extra =
            more.iter().enumerate().filter(|(n, _)| set >> n & 1 != 0).fold(Rights::NONE, |all, (_, one)| all | *one);
        let parent = Vmo::from(all.duplicate_handle(needed | extra)?);
        let of_child = |options: u32| -> zx::Result<Rights> {
            Ok(Rights::from_bits_retain(parent.create_child(options, 0, PAGE)?.basic_info()?.rights))
        };
        let base = needed | extra | property;
        equal(of_child(ZX_VMO_CHILD_SNAPSHOT)?, (base | Rights::WRITE) & !Rights::EXECUTE)?;
        equal(of_child(ZX_VMO_CHILD_SNAPSHOT | ZX_VMO_CHILD_NO_WRITE)?, base & !Rights::WRITE)?;
        equal(of_child(ZX_VMO_CHILD_SLICE)?, base)?;
        equal(of_child(ZX_VMO_CHILD_SLICE | ZX_VMO_CHILD_NO_WRITE)?, base & !Rights::WRITE)?;
    }
    Ok(())
}

/// The server checks the type before the rights.
fn type_comes_first() -> Outcome {
    let port = zx::Port::create()?.duplicate_handle(Rights::NONE)?;
    let (raw, mut byte) = (port.raw_handle(), 0_u8);
    gives(raw!(zx_vmo_read, raw, &raw mut byte, 0, 0), Status::WRONG_TYPE)?;
    gives(raw!(zx_vmo_write, raw, &raw const byte, 0, 0), Status::WRONG_TYPE)?;
    gives(raw!(zx_vmo_set_size, raw, PAGE), Status::WRONG_TYPE)?;
    gives(raw!(zx_vmo_op_range, raw, abi::ZX_VMO_OP_COMMIT, 0, PAGE, 0, 0), Status::WRONG_TYPE)
}

/// Caches can be flushed for writable and for read-only memory, and no data is lost.
fn flush_each() -> Outcome {
    const SIZE: usize = 0x8000;
    let (vmo, root) = (Vmo::create(SIZE as u64, 0)?, zx::startup::vmar_root_self());
    let (data, code, forget) =
        (abi::ZX_CACHE_FLUSH_DATA, abi::ZX_CACHE_FLUSH_INSN, abi::ZX_CACHE_FLUSH_DATA | abi::ZX_CACHE_FLUSH_INVALIDATE);
    let read = root.map_here(abi::ZX_VM_PERM_READ, &vmo, 0, SIZE)?;
    let written = root.map_here(abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_WRITE, &vmo, 0, SIZE)?;
    vmo.op_range(abi::ZX_VMO_OP_COMMIT, 0, SIZE as u64)?;
    for (n, options) in [code, data, data | code, forget, forget | code].into_iter().enumerate() {
        for page in 0..8 {
            written.write(page * 4096 + 99, &[n as u8 + 1])?;
        }
        for mapping in [&written, &read] {
            gives(raw!(zx_cache_flush, mapping.address(), SIZE, options), Status::OK)?;
            gives(raw!(zx_cache_flush, mapping.address() + 77, 100, options), Status::OK)?;
            gives(raw!(zx_cache_flush, mapping.address(), 0, options), Status::OK)?;
        }
        for page in 0..8 {
            let mut byte = [0];
            read.read(page * 4096 + 99, &mut byte)?;
            equal(byte, [n as u8 + 1])?;
        }
    }
    let invalidate = abi::ZX_CACHE_FLUSH_INVALIDATE;
    for options in [0, invalidate, invalidate | code, 1 << 3, data | 1 << 3, u32::MAX] {
        for mapping in [&written, &read] {
            gives(raw!(zx_cache_flush, mapping.address(), SIZE, options), Status::INVALID_ARGS)?;
        }
    }
    Ok(())
}
