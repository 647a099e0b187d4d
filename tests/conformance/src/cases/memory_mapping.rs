//! Memory mappings through the C library, and where an address space ends.

use abi::Status;
use libc_probe::mman::*;

use super::cases;
use crate::check::{Outcome, ensure, equal};
use crate::test_process::{EXCEPTION, TestProcess};

cases! {
    "memory_mapping.limits.kernel_half" => limits_kernel_half,
    "memory_mapping.map.flags" => map_flags,
    "memory_mapping.map.length" => map_length,
    "memory_mapping.map.offset" => map_offset,
    "memory_mapping.map.protection" => map_protection,
    "memory_mapping.map.executable" => map_executable,
    "memory_mapping.protect.executable_later" => protect_executable_later,
    "memory_mapping.map.zeroes" => map_zeroes,
    "memory_mapping.map.fixed" => map_fixed,
    "memory_mapping.protect.takes_effect" => protect_takes_effect,
    "memory_mapping.protect.bad_arguments" => protect_bad_arguments,
    "memory_mapping.unmap.bad_arguments" => unmap_bad_arguments,
}

const PAGE: usize = 4096;
const ANON: i32 = MAP_PRIVATE | MAP_ANON;
const RW: i32 = PROT_READ | PROT_WRITE;

/// Whether the server reads and writes an address for this program.
fn can(address: usize) -> Result<(bool, bool), crate::check::Failure> {
    let vmo = zx::Vmo::create(PAGE as u64, 0)?;
    let handle = zx::AsHandleRef::raw_handle(&vmo);
    let read = super::raw!(zx_vmo_write, handle, address, 0, 1) == Status::OK;
    // The call writes the value that is there already.
    let write = super::raw!(zx_vmo_read, handle, address, 0, 1) == Status::OK;
    Ok((read, write))
}

/// Addresses at and beyond the end of the user's part, and non-canonical ones, raise ordinary page faults.
fn limits_kernel_half() -> Outcome {
    let root = zx::startup::vmar_root_self().info()?;
    let addresses =
        [0, root.base - 1, 1 << 47, (1 << 47) - 1, 1 << 63, 0xffff_8000_0000_0000, 0xffff_ffff_8000_0000, usize::MAX];
    for address in addresses {
        for code in [[0x8a, 0x06, 0xeb, 0xfe], [0x88, 0x06, 0xeb, 0xfe], [0xff, 0xe6, 0xeb, 0xfe]] {
            // mov al, [rsi]; mov [rsi], al; jmp rsi
            let tiny = TestProcess::new(&code)?;
            tiny.start(None, address)?;
            equal(tiny.end()?, EXCEPTION)?;
        }
        equal(can(address)?, (false, false))?;
    }
    equal(can(root.base + root.len)?, (false, false))
}

fn map_flags() -> Outcome {
    equal(mmap(0, PAGE, RW, 0, -1, 0), Err(EINVAL))?;
    equal(mmap(0, PAGE, RW, MAP_ANON, -1, 0), Err(EINVAL))?;
    equal(mmap(0, PAGE, RW, MAP_ANON | MAP_PRIVATE | MAP_SHARED, -1, 0), Err(EINVAL))?;
    equal(mmap(0, PAGE, PROT_READ, MAP_PRIVATE, -1, 0), Err(EBADF))?;
    equal(mmap(0, PAGE, PROT_READ, MAP_SHARED, 4000, 0), Err(EBADF))?;
    for flags in [MAP_PRIVATE, MAP_SHARED] {
        let at = mmap(0, PAGE, RW, MAP_ANON | flags, -1, 0).map_err(|errno| format!("errno {errno}"))?;
        zx::probe::write(at, 1);
        equal(munmap(at, PAGE), Ok(0))?;
    }
    Ok(())
}

fn map_length() -> Outcome {
    equal(mmap(0, 0, PROT_READ, ANON, -1, 0), Err(EINVAL))?;
    equal(mmap(0, usize::MAX, PROT_READ, ANON, -1, 0), Err(ENOMEM))?;
    for too_long in [isize::MAX as usize + 1, isize::MAX as usize, isize::MAX as usize - 2 * PAGE, 1 << 50, 1 << 47] {
        equal(mmap(0, too_long, PROT_READ, ANON, -1, 0), Err(ENOMEM))?;
    }
    // A part of a page counts as the whole page.
    let at = mmap(0, PAGE + 1, RW, ANON, -1, 0).map_err(|errno| format!("errno {errno}"))?;
    zx::probe::write(at + 2 * PAGE - 1, 1);
    equal(munmap(at, PAGE + 1), Ok(0))?;
    equal((can(at)?, can(at + 2 * PAGE - 1)?), ((false, false), (false, false)))
}

fn map_offset() -> Outcome {
    for offset in [1, 5, -1, -4096, PAGE as i64 / 2] {
        equal(mmap(0, PAGE, PROT_READ, ANON, -1, offset), Err(EINVAL))?;
    }
    let at = mmap(0, PAGE, PROT_READ, ANON, -1, PAGE as i64).map_err(|errno| format!("errno {errno}"))?;
    equal(zx::probe::read(at), 0)?;
    equal(munmap(at, PAGE), Ok(0))
}

fn map_protection() -> Outcome {
    // Writable memory is readable.
    for (protection, expected) in
        [(PROT_NONE, (false, false)), (PROT_READ, (true, false)), (RW, (true, true)), (PROT_WRITE, (true, true))]
    {
        let at = mmap(0, PAGE, protection, ANON, -1, 0).map_err(|errno| format!("errno {errno}"))?;
        equal(can(at)?, expected)?;
        equal(munmap(at, PAGE), Ok(0))?;
        equal(can(at)?, (false, false))?;
    }
    Ok(())
}

fn map_executable() -> Outcome {
    // ret
    let at = mmap(0, PAGE, RW | PROT_EXEC, ANON, -1, 0).map_err(|errno| format!("errno {errno}"))?;
    zx::probe::write(at, 0xc3);
    zx::probe::call(at, &[]);
    equal(mprotect(at, PAGE, PROT_READ | PROT_EXEC), Ok(0))?;
    equal(can(at)?, (true, false))?;
    zx::probe::call(at, &[]);
    equal(munmap(at, PAGE), Ok(0))
}

/// As JIT compilers do: memory is written first and executed later, never both; this works also for memory that was
/// inaccessible at first.
fn protect_executable_later() -> Outcome {
    for first in [RW, PROT_NONE] {
        let at = mmap(0, 2 * PAGE, first, ANON, -1, 0).map_err(|errno| format!("errno {errno}"))?;
        equal(mprotect(at, 2 * PAGE, RW), Ok(0))?;
        // lea eax, [rdi + rsi]; ret
        let code = [0x8d, 0x04, 0x37, 0xc3];
        code.iter().enumerate().for_each(|(index, byte)| zx::probe::write(at + PAGE + index, *byte));
        equal(mprotect(at + PAGE, PAGE, PROT_READ | PROT_EXEC), Ok(0))?;
        equal((can(at)?, can(at + PAGE)?), ((true, true), (true, false)))?;
        equal(zx::probe::call(at + PAGE, &[40, 2]), 42)?;
        // The code is changed and executed again.
        equal(mprotect(at + PAGE, PAGE, RW), Ok(0))?;
        zx::probe::write(at + PAGE + 2, 0x3f);
        equal(mprotect(at + PAGE, PAGE, PROT_READ | PROT_EXEC), Ok(0))?;
        equal(zx::probe::call(at + PAGE, &[40, 2]), 80)?;
        equal(munmap(at, 2 * PAGE), Ok(0))?;
    }
    Ok(())
}

fn map_zeroes() -> Outcome {
    // Twice, because the values of the first round must not come back.
    for value in 1..3 {
        let at = mmap(0, 16 * PAGE, RW, ANON, -1, 0).map_err(|errno| format!("errno {errno}"))?;
        ensure((at..at + 16 * PAGE).all(|at| zx::probe::read(at) == 0), "it is not zero")?;
        (at..at + 16 * PAGE).for_each(|at| zx::probe::write(at, value));
        equal(munmap(at, 16 * PAGE), Ok(0))?;
    }
    Ok(())
}

fn map_fixed() -> Outcome {
    let at = mmap(0, 3 * PAGE, RW, ANON, -1, 0).map_err(|errno| format!("errno {errno}"))?;
    (0..3).for_each(|page| zx::probe::write(at + page * PAGE, 7));
    equal(mmap(at + PAGE, PAGE, PROT_READ, ANON | MAP_FIXED, -1, 0), Ok(at + PAGE))?;
    let bytes = [0, 1, 2].map(|page| zx::probe::read(at + page * PAGE));
    equal(bytes, [7, 0, 7])?;
    equal(mmap(at + 1, PAGE, PROT_READ, ANON | MAP_FIXED, -1, 0), Err(EINVAL))?;
    equal(munmap(at, 3 * PAGE), Ok(0))
}

fn protect_takes_effect() -> Outcome {
    let at = mmap(0, 3 * PAGE, RW, ANON, -1, 0).map_err(|errno| format!("errno {errno}"))?;
    zx::probe::write(at + PAGE, 9);
    for (protection, expected) in
        [(PROT_READ, (true, false)), (PROT_NONE, (false, false)), (RW, (true, true)), (PROT_READ, (true, false))]
    {
        equal(mprotect(at + PAGE, PAGE, protection), Ok(0))?;
        equal(can(at + PAGE)?, expected)?;
        // The neighbouring pages have not changed.
        equal((can(at)?, can(at + 2 * PAGE)?), ((true, true), (true, true)))?;
    }
    equal(zx::probe::read(at + PAGE), 9)?;
    equal(munmap(at, 3 * PAGE), Ok(0))
}

fn protect_bad_arguments() -> Outcome {
    let at = mmap(0, 2 * PAGE, RW, ANON, -1, 0).map_err(|errno| format!("errno {errno}"))?;
    equal(munmap(at + PAGE, PAGE), Ok(0))?;
    equal(mprotect(at, 2 * PAGE, PROT_READ), Err(ENOMEM))?;
    equal(mprotect(at, 1 << 50, PROT_READ), Err(ENOMEM))?;
    equal(mprotect(at, 0, PROT_READ), Err(EINVAL))?;
    equal(mprotect(at, PAGE, 1 << 10), Err(EINVAL))?;
    // Neither permission is available without reading.
    equal(mprotect(at, PAGE, PROT_WRITE), Err(ENOTSUP))?;
    equal(mprotect(at, PAGE, PROT_EXEC), Err(ENOTSUP))?;
    equal(can(at)?, (true, true))?;
    equal(munmap(at, PAGE), Ok(0))
}

fn unmap_bad_arguments() -> Outcome {
    equal(munmap(0, 0), Err(EINVAL))?;
    let at = mmap(0, PAGE, RW, ANON, -1, 0).map_err(|errno| format!("errno {errno}"))?;
    equal(munmap(at, 0), Err(EINVAL))?;
    equal(munmap(at + 1, PAGE), Err(EINVAL))?;
    equal(munmap(at, usize::MAX), Err(EINVAL))?;
    equal(can(at)?, (true, true))?;
    equal(munmap(at, PAGE), Ok(0))
}
