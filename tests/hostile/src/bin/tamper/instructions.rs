//! Privileged or undefined instructions: each ends its process, or does nothing.

use conformance::check::{Case, Outcome, equal};
use conformance::refused::REFUSED;
use conformance::test_process::{EXCEPTION, OwnJob, TestProcess};
use hostile::neighbour::Neighbour;
use zx::AsHandleRef;

pub fn cases() -> Vec<Case> {
    vec![
        crate::case("tamper.instructions.refused", refused),
        crate::case("tamper.instructions.flags", flags),
        crate::case("tamper.instructions.nested_task", nested_task),
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
