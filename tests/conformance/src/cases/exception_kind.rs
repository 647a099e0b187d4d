//! The causes of exceptions, and what each report contains.

use abi::{
    Status, ZX_EXCP_FATAL_PAGE_FAULT, ZX_EXCP_GENERAL, ZX_EXCP_HW_BREAKPOINT, ZX_EXCP_POLICY_CODE_BAD_SYSCALL,
    ZX_EXCP_POLICY_ERROR, ZX_EXCP_SW_BREAKPOINT, ZX_EXCP_UNDEFINED_INSTRUCTION, zx_exception_report_t,
};
use zx::{AsHandleRef, Info, Vmo};

use super::{cases, raw};
use crate::caught_exception::{
    CaughtException, HandledProcess, OwnedTestProcess, UNDEFINED, catch, catch_type, with_exception,
};
use crate::check::{Outcome, equal, fails, gives};
use crate::test_process::{EXCEPTION, SPIN, TestProcess};

cases! {
    "exception.report.read" => read,
    "exception.report.write" => write,
    "exception.report.execute" => execute,
    "exception.report.not_allowed" => not_allowed,
    "exception.report.beyond_the_end" => beyond_the_end,
    "exception.report.undefined" => undefined,
    "exception.report.breakpoint" => breakpoint,
    "exception.report.single_step" => single_step,
    "exception.report.divide" => divide,
    "exception.report.general" => general,
    "exception.report.x87" => x87,
    "exception.report.foreign_call" => foreign_call,
    "exception.report.first_version" => first_version,
    "exception.report.none" => none,
    "exception.report.sizes" => sizes,
    "exception.report.same_for_all" => same_for_all,
    "exception.fix.map" => fix_map,
    "exception.fix.protect" => fix_protect,
    "exception.fix.foreign_call" => fix_foreign_call,
}

/// The code must raise an exception with this type and this report: vector, error code and address; the synthetic code
/// and its data.
fn reports(code: &[u8], number: usize, kind: u32, words: (u64, u64, u64), code_and_data: (u32, u32)) -> Outcome {
    with_exception(code, number, kind, |tiny, _| {
        let report = tiny.thread.exception_report()?;
        let (arch, context) = (report.context.arch, report.context);
        equal((report.header.type_, report.header.size), (kind, size_of::<zx_exception_report_t>() as u32))?;
        equal((arch.vector, arch.err_code, arch.cr2), words)?;
        equal((context.synth_code, context.synth_data), code_and_data)
    })
}

const NOWHERE: usize = 0x30_1234_5678;
const NOT_FOUND: (u32, u32) = (Status::NOT_FOUND.0 as u32, 0);

fn read() -> Outcome {
    // mov al, [rsi]
    reports(&[0x8a, 0x06], NOWHERE, ZX_EXCP_FATAL_PAGE_FAULT, (14, 4, NOWHERE as u64), NOT_FOUND)
}

fn write() -> Outcome {
    // mov [rsi], al
    reports(&[0x88, 0x06], NOWHERE, ZX_EXCP_FATAL_PAGE_FAULT, (14, 6, NOWHERE as u64), NOT_FOUND)
}

fn execute() -> Outcome {
    // jmp rsi
    reports(&[0xff, 0xe6], NOWHERE, ZX_EXCP_FATAL_PAGE_FAULT, (14, 0x14, NOWHERE as u64), NOT_FOUND)
}

fn not_allowed() -> Outcome {
    // lea rsi, [rip]; mov [rsi], al: a store to its own code
    let code = [0x48, 0x8d, 0x35, 0, 0, 0, 0, 0x88, 0x06];
    with_exception(&code, 0, ZX_EXCP_FATAL_PAGE_FAULT, |tiny, _| {
        let report = tiny.thread.exception_report()?;
        let arch = report.context.arch;
        equal((arch.vector, arch.err_code, arch.cr2), (14, 7, tiny.entry as u64 + 7))?;
        equal(Status(report.context.synth_code as i32), Status::ACCESS_DENIED)
    })
}

fn beyond_the_end() -> Outcome {
    // mov al, [rsi], in a mapping whose VMO has been shrunk
    let tiny = OwnedTestProcess::new(&[0x8a, 0x06])?;
    let memory = Vmo::create(8192, abi::ZX_VMO_RESIZABLE)?;
    let address = tiny.vmar.map(abi::ZX_VM_PERM_READ | abi::ZX_VM_ALLOW_FAULTS, 0, &memory, 0, 8192)?;
    memory.set_size(4096)?;
    let channel = tiny.process.create_exception_channel(0)?;
    tiny.start(None, address + 4096)?;
    let caught = catch_type(&channel, ZX_EXCP_FATAL_PAGE_FAULT)?;
    let report = tiny.thread.exception_report()?;
    equal(report.context.arch.cr2, address as u64 + 4096)?;
    equal(Status(report.context.synth_code as i32), Status::OUT_OF_RANGE)?;
    caught.passed();
    Ok(())
}

fn undefined() -> Outcome {
    reports(UNDEFINED, 0, ZX_EXCP_UNDEFINED_INSTRUCTION, (6, 0, 0), (0, 0))
}

fn breakpoint() -> Outcome {
    // int3
    reports(&[0xcc], 0, ZX_EXCP_SW_BREAKPOINT, (3, 0, 0), (0, 0))
}

fn single_step() -> Outcome {
    // pushf; or qword [rsp], 0x100; popf; nop: the trap flag
    let code = [0x9c, 0x48, 0x81, 0x0c, 0x24, 0x00, 0x01, 0, 0, 0x9d, 0x90, 0xeb, 0xfe];
    reports(&code, 0, ZX_EXCP_HW_BREAKPOINT, (1, 0, 0), (0, 0))
}

fn divide() -> Outcome {
    // xor edx, edx; xor ecx, ecx; div ecx
    reports(&[0x31, 0xd2, 0x31, 0xc9, 0xf7, 0xf1], 0, ZX_EXCP_GENERAL, (0, 0, 0), (0, 0))
}

fn general() -> Outcome {
    // hlt
    reports(&[0xf4], 0, ZX_EXCP_GENERAL, (13, 0, 0), (0, 0))
}

fn x87() -> Outcome {
    // push 0; fninit; fldcw [rsp]; fld1; fldz; fdivp; fwait: all exceptions are on
    let code = [0x6a, 0x00, 0xdb, 0xe3, 0xd9, 0x2c, 0x24, 0xd9, 0xe8, 0xd9, 0xee, 0xde, 0xf9, 0x9b];
    reports(&code, 0, ZX_EXCP_GENERAL, (16, 0, 0), (0, 0))
}

/// `mov eax, 0x1234; mov rdx, 99; syscall`: a system call neither of the server nor of the kernel.
const FOREIGN: [u8; 14] = [0xb8, 0x34, 0x12, 0, 0, 0x48, 0xc7, 0xc2, 99, 0, 0, 0, 0x0f, 0x05];

fn foreign_call() -> Outcome {
    reports(&FOREIGN, 0, ZX_EXCP_POLICY_ERROR, (0, 0, 0), (ZX_EXCP_POLICY_CODE_BAD_SYSCALL, 0x1234))
}

fn first_version() -> Outcome {
    with_exception(UNDEFINED, 0, ZX_EXCP_UNDEFINED_INSTRUCTION, |tiny, _| {
        let mut report = [0xff; 40];
        let size = tiny.thread.get_info(abi::ZX_INFO_THREAD_EXCEPTION_REPORT_V1, &mut report)?;
        equal((size.actual, size.avail), (1, 1))?;
        // The first version of the report has everything except the later fields: its own size, the type, and the
        // processor's words.
        equal((report[0], report[8], &report[32..]), (32, 6, &[0xff; 8][..]))
    })
}

fn none() -> Outcome {
    let tiny = OwnedTestProcess::new(SPIN)?;
    fails(tiny.thread.exception_report(), Status::BAD_STATE)?;
    tiny.start(None, 0)?;
    fails(tiny.thread.exception_report(), Status::BAD_STATE)?;
    tiny.process.kill()?;
    tiny.end()?;
    fails(tiny.thread.exception_report(), Status::BAD_STATE)?;
    let thread = without_inspect(&tiny)?;
    fails(thread.exception_report(), Status::ACCESS_DENIED)?;
    fails(zx::Info::get_info(&tiny.process, abi::ZX_INFO_THREAD_EXCEPTION_REPORT, &mut [0; 40]), Status::WRONG_TYPE)
}

fn without_inspect(tiny: &TestProcess) -> Result<zx::Thread, crate::check::Failure> {
    Ok(zx::Thread::from(super::without(&tiny.thread, abi::Rights::INSPECT)?))
}

fn sizes() -> Outcome {
    with_exception(UNDEFINED, 0, ZX_EXCP_UNDEFINED_INSTRUCTION, |tiny, _| {
        let topic = abi::ZX_INFO_THREAD_EXCEPTION_REPORT;
        fails(tiny.thread.get_info(topic, &mut [0; 39]), Status::BUFFER_TOO_SMALL)?;
        let size = tiny.thread.get_info(topic, &mut [0; 80])?;
        equal((size.actual, size.avail), (1, 1))?;
        let thread = tiny.thread.raw_handle();
        gives(raw!(zx_object_get_info, thread, topic, 0, 40, 0, 0), Status::INVALID_ARGS)
    })
}

fn same_for_all() -> Outcome {
    let watched = HandledProcess::started(UNDEFINED)?;
    for channel in watched.in_order() {
        let caught = catch(channel)?;
        let report = watched.tiny.thread.exception_report()?;
        equal(report.context.arch.vector, 6)?;
        equal(caught.exception.thread()?.exception_report()?, report)?;
        caught.passed();
    }
    equal(watched.tiny.end()?, EXCEPTION)
}

/// `mov byte [rsi], 42; int3`
const STORE: [u8; 4] = [0xc6, 0x06, 42, 0xcc];

/// When the handler has removed the fault's cause, the store completes as if there had been no fault.
fn stored(tiny: &TestProcess, caught: CaughtException, channel: &zx::Channel, memory: &Vmo) -> Outcome {
    caught.handled()?;
    catch_type(channel, ZX_EXCP_SW_BREAKPOINT)?.exits()?;
    equal(tiny.end()?, 0)?;
    let mut byte = [0];
    memory.read(&mut byte, 0)?;
    equal(byte, [42])
}

fn fix_map() -> Outcome {
    const PLACE: usize = 0x400_0000;
    let tiny = OwnedTestProcess::new(&STORE)?;
    let channel = tiny.process.create_exception_channel(0)?;
    let address = zx::Info::get_info(&tiny.vmar, abi::ZX_INFO_VMAR, &mut [0; 16]).map(|_| tiny.vmar.info())??.base;
    tiny.start(None, address + PLACE)?;
    let caught = catch_type(&channel, ZX_EXCP_FATAL_PAGE_FAULT)?;
    let memory = Vmo::create(4096, 0)?;
    let options = abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_WRITE | abi::ZX_VM_SPECIFIC;
    tiny.vmar.map(options, PLACE, &memory, 0, 4096)?;
    stored(&tiny, caught, &channel, &memory)
}

fn fix_protect() -> Outcome {
    let tiny = OwnedTestProcess::new(&STORE)?;
    let channel = tiny.process.create_exception_channel(0)?;
    let memory = Vmo::create(4096, 0)?;
    let address = tiny.vmar.map(abi::ZX_VM_PERM_READ, 0, &memory, 0, 4096)?;
    tiny.start(None, address)?;
    let caught = catch_type(&channel, ZX_EXCP_FATAL_PAGE_FAULT)?;
    tiny.vmar.protect(abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_WRITE, address, 4096)?;
    stored(&tiny, caught, &channel, &memory)
}

fn fix_foreign_call() -> Outcome {
    // The call has failed, and the code behind it runs: cmp eax, BAD_SYSCALL; je to the int3; ud2; int3
    let mut code = FOREIGN.to_vec();
    code.push(0x3d);
    code.extend(Status::BAD_SYSCALL.0.to_le_bytes());
    code.extend([0x74, 0x02, 0x0f, 0x0b, 0xcc]);
    let tiny = OwnedTestProcess::new(&code)?;
    let channel = tiny.process.create_exception_channel(0)?;
    tiny.start(None, 0)?;
    catch_type(&channel, ZX_EXCP_POLICY_ERROR)?.handled()?;
    catch_type(&channel, ZX_EXCP_SW_BREAKPOINT)?.exits()?;
    equal(tiny.end()?, 0)
}
