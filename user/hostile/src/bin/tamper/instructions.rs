//! Instructions that are not for programs: each ends its process, or does nothing.

use conformance::check::{Case, Outcome, equal};
use conformance::tiny::{EXCEPTION, OwnJob, Tiny};
use hostile::neighbour::Neighbour;
use zx::AsHandleRef;

pub fn cases() -> Vec<Case> {
    vec![
        crate::case("tamper.instructions.refused", refused),
        crate::case("tamper.instructions.iretq", iretq),
        crate::case("tamper.instructions.flags", flags),
        crate::case("tamper.instructions.nested_task", nested_task),
        crate::case("tamper.instructions.old_entries", old_entries),
    ]
}

/// `ud2`
const END: [u8; 2] = [0x0f, 0x0b];

/// Code with an end of its own behind it must end its process by an exception, here or there.
fn ends(code: &[u8]) -> Outcome {
    let job = OwnJob::new()?;
    let tiny = Tiny::in_job(&job, &[code, &END].concat())?;
    tiny.start(None, 0)?;
    let ended = tiny.end().and_then(|code| equal(code, EXCEPTION));
    ended.map_err(|failure| format!("{code:02x?}: {failure}").into())
}

fn refused(_: &mut Neighbour) -> Outcome {
    let all: &[&[u8]] = &[
        &[0xf4],                               // hlt
        &[0xfa],                               // cli
        &[0xfb],                               // sti
        &[0xe4, 0x60],                         // in al, 0x60
        &[0xe6, 0x80],                         // out 0x80, al
        &[0x66, 0xba, 0xf4, 0x00, 0xee],       // mov dx, 0xf4; out dx, al
        &[0x6c],                               // ins
        &[0xf3, 0x6e],                         // rep outs
        &[0x0f, 0x30],                         // wrmsr
        &[0x0f, 0x32],                         // rdmsr
        &[0x0f, 0x33],                         // rdpmc
        &[0x0f, 0x22, 0xd8],                   // mov cr3, rax
        &[0x0f, 0x20, 0xc0],                   // mov rax, cr0
        &[0x0f, 0x23, 0xf8],                   // mov dr7, rax
        &[0x0f, 0x21, 0xf8],                   // mov rax, dr7
        &[0x0f, 0x01, 0x14, 0x24],             // lgdt [rsp]
        &[0x0f, 0x01, 0x1c, 0x24],             // lidt [rsp]
        &[0x0f, 0x00, 0xd8],                   // ltr ax
        &[0x0f, 0x00, 0xd0],                   // lldt ax
        &[0x0f, 0x01, 0xf0],                   // lmsw ax
        &[0x0f, 0x06],                         // clts
        &[0x0f, 0x08],                         // invd
        &[0x0f, 0x09],                         // wbinvd
        &[0x0f, 0x01, 0x3c, 0x24],             // invlpg [rsp]
        &[0x0f, 0x01, 0xf8],                   // swapgs
        &[0x0f, 0x01, 0xd1],                   // xsetbv
        &[0x0f, 0x01, 0xc1],                   // vmcall
        &[0x0f, 0x01, 0xd9],                   // vmmcall
        &[0x0f, 0x07],                         // sysret
        &[0x48, 0x0f, 0x07],                   // sysretq
        &[0x0f, 0x35],                         // sysexit
        &[0xcb],                               // retf
        &[0x8e, 0xd0],                         // mov ss, ax
        &[0x0f, 0x01, 0xc8],                   // monitor
        &[0x0f, 0xaa],                         // rsm
        &[0xcc],                               // int3
        &[0xce],                               // into
        &[0xf1],                               // int1
        &[0x48, 0x31, 0xc9, 0x48, 0xf7, 0xf1], // xor rcx, rcx; div rcx
    ];
    all.iter().try_for_each(|code| ends(code))
}

/// A return from an interrupt that there was not.
fn iretq(_: &mut Neighbour) -> Outcome {
    ends(&[0x48, 0xcf])
}

/// A flag is popped, and then the kernel is entered.
fn flag(bit: u32) -> Outcome {
    let mut code = vec![0x48, 0xb8]; // mov rax, 1 << bit
    code.extend((1_u64 << bit).to_le_bytes());
    code.extend([0x50, 0x9d]); // push rax; popf
    code.extend([0x48, 0xc7, 0xc2, 0xf9, 0xff, 0xff, 0xff]); // mov rdx, Yield
    code.extend([0x48, 0x89, 0xe3, 0x0f, 0x05, 0x48, 0x89, 0xdc]); // mov rbx, rsp; syscall; mov rsp, rbx
    ends(&code)
}

/// The flag that some kernels stumble over.
const NESTED_TASK: u32 = 14;

fn nested_task(_: &mut Neighbour) -> Outcome {
    flag(NESTED_TASK)
}

/// Every other flag.
fn flags(_: &mut Neighbour) -> Outcome {
    (0..64).filter(|&bit| bit != NESTED_TASK).try_for_each(flag)?;
    // And with a stack that is none.
    for stack in [0_u64, 8, 1 << 47, 1 << 63, u64::MAX] {
        let mut code = vec![0x48, 0xbc]; // mov rsp, stack
        code.extend(stack.to_le_bytes());
        code.extend([0x48, 0xc7, 0xc2, 0xf9, 0xff, 0xff, 0xff, 0x0f, 0x05]); // mov rdx, Yield; syscall
        ends(&code)?;
    }
    Ok(())
}

/// Interrupts by number, and the entry that 32-bit programs had.
fn old_entries(_: &mut Neighbour) -> Outcome {
    for vector in 0..=255 {
        ends(&[0xcd, vector])?;
    }
    ends(&[0x0f, 0x34])?;
    // A program may set the bases of its segments where the processor lets it; what it loses is its own buffer.
    let job = OwnJob::new()?;
    for code in [&[0xf3, 0x48, 0x0f, 0xae, 0xd8], &[0xf3, 0x48, 0x0f, 0xae, 0xd0]] {
        let tiny =
            Tiny::in_job(&job, &[code.as_slice(), &conformance::tiny::call(abi::nr::HANDLE_CLOSE), &END].concat())?;
        tiny.start(None, 0)?;
        equal(tiny.end()?, EXCEPTION)?;
        tiny.process.signals()?;
    }
    Ok(())
}
