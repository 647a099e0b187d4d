//! Exceptions that end a process: each kind of invalid access or instruction, in a process of a few instructions.
//!
//! Every case also shows that the system and this process continue, and that the process ends in bounded time.

use super::cases;
use crate::check::{Failure, Outcome, equal};
use crate::test_process::{self, EXCEPTION, TestProcess};

cases! {
    "exception.read.null" => read_null,
    "exception.read.kernel_address" => read_kernel_address,
    "exception.read.not_canonical" => read_not_canonical,
    "exception.write.null" => write_null,
    "exception.write.code" => write_code,
    "exception.execute.data" => execute_data,
    "exception.execute.null" => execute_null,
    "exception.stack.overflow" => stack_overflow,
    "exception.instruction.undefined" => undefined,
    "exception.instruction.breakpoint" => breakpoint,
    "exception.instruction.divide_by_zero" => divide_by_zero,
    "exception.instruction.halt" => halt,
    "exception.instruction.port_in" => port_in,
    "exception.instruction.port_out" => port_out,
    "exception.instruction.interrupt_flag" => interrupt_flag,
    "exception.instruction.control_register" => control_register,
    "exception.instruction.software_interrupt" => software_interrupt,
    "exception.syscall.raw_numbers" => raw_syscalls,
    "exception.abort.in_a_program" => abort_in_a_program,
    "exception.others.continue" => others_continue,
    "exception.handles.closed" => handles_closed,
}

fn read_null() -> Outcome {
    // mov al, [0]
    test_process::dies(&[0x8a, 0x04, 0x25, 0, 0, 0, 0])
}

fn read_kernel_address() -> Outcome {
    // mov rax, 0xffffffff80000000; mov al, [rax]
    test_process::dies(&[0x48, 0xc7, 0xc0, 0, 0, 0, 0x80, 0x8a, 0x00])
}

fn read_not_canonical() -> Outcome {
    // mov rax, 0x0000_8000_0000_0000; mov al, [rax]
    test_process::dies(&[0x48, 0xb8, 0, 0, 0, 0, 0, 0x80, 0, 0, 0x8a, 0x00])
}

fn write_null() -> Outcome {
    // mov [0], al
    test_process::dies(&[0x88, 0x04, 0x25, 0, 0, 0, 0])
}

fn write_code() -> Outcome {
    // lea rax, [rip]; mov [rax], al
    test_process::dies(&[0x48, 0x8d, 0x05, 0, 0, 0, 0, 0x88, 0x00])
}

fn execute_data() -> Outcome {
    // lea rax, [rsp - 8192]; jmp rax: to a page that was never accessed. `vmar.execute.stack` has one that was.
    test_process::dies(&[0x48, 0x8d, 0x84, 0x24, 0x00, 0xe0, 0xff, 0xff, 0xff, 0xe0])
}

fn execute_null() -> Outcome {
    // xor eax, eax; jmp rax
    test_process::dies(&[0x31, 0xc0, 0xff, 0xe0])
}

fn stack_overflow() -> Outcome {
    // push rax; jmp to the push
    test_process::dies(&[0x50, 0xeb, 0xfd])
}

fn undefined() -> Outcome {
    // ud2
    test_process::dies(&[0x0f, 0x0b])
}

fn breakpoint() -> Outcome {
    // int3
    test_process::dies(&[0xcc])
}

fn divide_by_zero() -> Outcome {
    // xor edx, edx; xor ecx, ecx; div ecx
    test_process::dies(&[0x31, 0xd2, 0x31, 0xc9, 0xf7, 0xf1])
}

fn halt() -> Outcome {
    // hlt
    test_process::dies(&[0xf4])
}

fn port_in() -> Outcome {
    // mov dx, 0x3f8; in al, dx
    test_process::dies(&[0x66, 0xba, 0xf8, 0x03, 0xec])
}

fn port_out() -> Outcome {
    // mov dx, 0xf4; out dx, al: the port that would end the machine
    test_process::dies(&[0x66, 0xba, 0xf4, 0x00, 0xee])
}

fn interrupt_flag() -> Outcome {
    // cli
    test_process::dies(&[0xfa])
}

fn control_register() -> Outcome {
    // mov rax, cr3
    test_process::dies(&[0x0f, 0x20, 0xd8])
}

fn software_interrupt() -> Outcome {
    // int 0x80
    test_process::dies(&[0xcd, 0x80])
}

fn raw_syscalls() -> Outcome {
    // Enters the kernel without the vDSO, with 16,384 sets of odd registers: numbers, capabilities, lengths. The
    // process may end at any of them, or reach the undefined instruction at the end; no other process may be affected.
    // mov ebx, 0x4000; mov r12, 0x9e3779b97f4a7c15; mov r13, r12
    // again: imul r13, r12; add r13, rbx; mov rdx, r13; sar rdx, 60; mov rdi, r13; and edi, 7; mov rsi, r13
    // mov r10, r13; mov r8, r13; mov r9, r13; mov r15, r13; syscall; dec ebx; jnz again; ud2
    let mut code = vec![0xbb, 0x00, 0x40, 0, 0, 0x49, 0xbc];
    code.extend(0x9e37_79b9_7f4a_7c15_u64.to_le_bytes());
    code.extend([0x4d, 0x89, 0xe5]);
    let again = code.len();
    code.extend([0x4d, 0x0f, 0xaf, 0xec, 0x49, 0x01, 0xdd, 0x4c, 0x89, 0xea, 0x48, 0xc1, 0xfa, 60]);
    code.extend([0x4c, 0x89, 0xef, 0x83, 0xe7, 0x07, 0x4c, 0x89, 0xee, 0x4d, 0x89, 0xea, 0x4d, 0x89, 0xe8]);
    code.extend([0x4d, 0x89, 0xe9, 0x4d, 0x89, 0xef, 0x0f, 0x05, 0xff, 0xcb, 0x75]);
    code.push((again as i64 - code.len() as i64 - 1) as u8);
    code.extend([0x0f, 0x0b]);
    let tiny = TestProcess::new(&code)?;
    tiny.start(None, 0)?;
    // It may also block forever in one of the kernel's calls; then it can be killed.
    if tiny.end().is_err() {
        tiny.process.kill()?;
        tiny.end()?;
    }
    // The system still works.
    undefined()
}

fn abort_in_a_program() -> Outcome {
    equal(super::process::child(&["abort"])?, EXCEPTION)
}

fn others_continue() -> Outcome {
    let other = test_process::spinning()?;
    for _ in 0..10 {
        undefined()?;
    }
    let running = other.process.info()?.flags & abi::ZX_INFO_PROCESS_FLAG_EXITED == 0;
    other.process.kill()?;
    other.end()?;
    if running { Ok(()) } else { Err(Failure::from("another process ended too")) }
}

fn handles_closed() -> Outcome {
    let (ours, theirs) = zx::Channel::create()?;
    let tiny = TestProcess::new(&[0x0f, 0x0b])?;
    tiny.start(Some(theirs.into_handle()), 0)?;
    equal(tiny.end()?, EXCEPTION)?;
    zx::AsHandleRef::wait_one(&ours, zx::Signals::PEER_CLOSED, super::late())?;
    Ok(())
}
