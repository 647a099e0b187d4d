//! Privileged or undefined instructions: each ends its process, or does nothing.

use abi::{ZX_VM_PERM_EXECUTE, ZX_VM_PERM_READ, hafnon_vproc_run_t, hafnon_vproc_state_t};
use conformance::check::{Case, Outcome, equal};
use conformance::refused::REFUSED;
use conformance::test_process::{EXCEPTION, OwnJob, TestProcess, code};
use hostile::neighbour::Neighbour;
use zx::{AsHandleRef, Exit, Status, VirtualProcessor, map_runs};

use super::buffer::BUFFERS;

pub fn cases() -> Vec<Case> {
    vec![
        crate::case("tamper.instructions.refused", refused),
        crate::case("tamper.instructions.flags", flags),
        crate::case("tamper.instructions.nested_task", nested_task),
        crate::case("tamper.instructions.virtual_8086_bases", virtual_8086_bases),
        crate::case("tamper.instructions.virtual_8086", virtual_8086),
        crate::case("tamper.instructions.old_entries", old_entries),
    ]
}

/// `ud2`
const END: [u8; 2] = [0x0f, 0x0b];

/// The code, followed by an undefined instruction, must end its process by an exception at one or the other.
fn ends(code: &[u8]) -> Outcome {
    let job = OwnJob::new()?;
    let tiny = TestProcess::in_job(&job, &[code, &END].concat())?;
    tiny.start(None, 0)?;
    let ended = tiny.end().and_then(|code| equal(code, EXCEPTION));
    ended.map_err(|failure| format!("{code:02x?}: {failure}").into())
}

fn refused(_: &mut Neighbour) -> Outcome {
    REFUSED.iter().try_for_each(|(name, code)| ends(code).map_err(|failure| format!("{name}: {failure}").into()))
}

/// Pops a flag, and then enters the kernel.
fn flag(bit: u32) -> Outcome {
    let mut code = vec![0x48, 0xb8]; // mov rax, 1 << bit
    code.extend((1_u64 << bit).to_le_bytes());
    code.extend([0x50, 0x9d]); // push rax; popf
    code.extend([0x48, 0xc7, 0xc2, 0xf9, 0xff, 0xff, 0xff]); // mov rdx, Yield
    code.extend([0x48, 0x89, 0xe3, 0x0f, 0x05, 0x48, 0x89, 0xdc]); // mov rbx, rsp; syscall; mov rsp, rbx
    ends(&code)
}

/// The flag with which `iret` faults in some kernels.
const NESTED_TASK: u32 = 14;

fn nested_task(_: &mut Neighbour) -> Outcome {
    flag(NESTED_TASK)
}

/// All other flags.
fn flags(_: &mut Neighbour) -> Outcome {
    (0..64).filter(|&bit| bit != NESTED_TASK).try_for_each(flag)?;
    // The same with an invalid stack.
    for stack in [0_u64, 8, 1 << 47, 1 << 63, u64::MAX] {
        let mut code = vec![0x48, 0xbc]; // mov rsp, stack
        code.extend(stack.to_le_bytes());
        code.extend([0x48, 0xc7, 0xc2, 0xf9, 0xff, 0xff, 0xff, 0x0f, 0x05]); // mov rdx, Yield; syscall
        ends(&code)?;
    }
    Ok(())
}

/// A 32-bit `iret` whose flags have VM. A processor in 64-bit mode ignores the flag. QEMU's emulation obeys it: the code
/// goes on in virtual-8086 mode, with any selectors and with bases of sixteen times the selectors.
fn iret_to_virtual_8086(flags: u32, [cs, fs, gs]: [u32; 3]) -> Vec<u8> {
    const VM: u32 = 1 << 17;
    // `lea rsp, [rip + 1]; iret`, and what it pops: EIP, CS, EFLAGS, ESP, SS, ES, DS, FS, GS.
    let mut code = vec![0x48, 0x8d, 0x25, 1, 0, 0, 0, 0xcf];
    let frame = [0x1234, cs, 0x202 | flags | VM, 0x1000, 0x20, 0x30, 0x40, fs, gs];
    code.extend(frame.into_iter().flat_map(u32::to_le_bytes));
    code
}

/// All selectors that the kernel may have in FS and GS. Code in a sub-domain loads them so, with the owner's base in its
/// state: the kernel must not take the owner's base for loaded when it switches to the owner.
fn virtual_8086_bases(_: &mut Neighbour) -> Outcome {
    const CODE: u64 = 0x100_0000;
    /// Bytes of a buffer.
    const BUFFER: u64 = 1024;
    let root = zx::startup::vmar_root_self();
    let mut processor = VirtualProcessor::create(&root)?;
    let selectors = || (0..10).map(|index| index << 3 | 3);
    for (fs, gs) in selectors().flat_map(|fs| selectors().map(move |gs| (fs, gs))) {
        let job = OwnJob::new()?;
        let (process, vmar) = job.create_process("domain")?;
        let page = hafnon_vproc_run_t {
            address: CODE,
            offset: 0,
            len: 4096,
            options: ZX_VM_PERM_READ | ZX_VM_PERM_EXECUTE,
            reserved: 0,
        };
        map_runs(&vmar, &code(&iret_to_virtual_8086(0, [0x1003, fs, gs]))?, &[page])?;
        // One of them is this thread's.
        for number in 0..16 {
            let gs_base = BUFFERS + number * BUFFER;
            *processor.state() = hafnon_vproc_state_t { ip: CODE, gs_base, flags: 0x202, ..Default::default() };
            let exit = processor.enter(&process)?;
            // The arguments go through the buffer.
            let status = zx::probe::call(zx::sys::zx_vmar_map as *const () as usize, &[0; 7]) as i32;
            equal((exit != Exit::Syscall, zx::Status(status)), (true, Status::BAD_HANDLE))?;
        }
    }
    Ok(())
}

/// Code selectors that look like the kernel's or the program's, and flags that a program cannot set otherwise.
fn virtual_8086(_: &mut Neighbour) -> Outcome {
    let flags = [0, 1 << 8, 3 << 12, 1 << 14, 1 << 18, 1 << 19, 1 << 20];
    for cs in [0x33, 0x2b, 0x1b, 0xffff, 1, 0, 8, 0x10, 0x18, 0x1000, 0xfffc] {
        let outcomes = flags.iter().map(|&flags| ends(&iret_to_virtual_8086(flags, [cs, 0, 0])));
        outcomes.collect::<Outcome>()?;
    }
    Ok(())
}

/// Software interrupts.
fn old_entries(_: &mut Neighbour) -> Outcome {
    for vector in 0..=255 {
        ends(&[0xcd, vector])?;
    }
    // A program may set the bases of FS and GS if the processor allows it; it only loses its own buffer.
    let job = OwnJob::new()?;
    for code in [&[0xf3, 0x48, 0x0f, 0xae, 0xd8], &[0xf3, 0x48, 0x0f, 0xae, 0xd0]] {
        let tiny = TestProcess::in_job(
            &job,
            &[code.as_slice(), &conformance::test_process::call(abi::nr::HANDLE_CLOSE), &END].concat(),
        )?;
        tiny.start(None, 0)?;
        equal(tiny.end()?, EXCEPTION)?;
        tiny.process.signals()?;
    }
    Ok(())
}
