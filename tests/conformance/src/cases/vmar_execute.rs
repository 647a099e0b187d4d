//! Non-executable memory is never executed, whether or not it was accessed before, and whatever was done to it before.

use std::sync::mpsc;

use abi::{
    Rights, Status, ZX_EXCP_FATAL_PAGE_FAULT, ZX_EXCP_SW_BREAKPOINT, ZX_EXCP_UNDEFINED_INSTRUCTION, ZX_VM_PERM_EXECUTE,
    ZX_VM_SPECIFIC, ZX_VMAR_OP_COMMIT, ZX_VMAR_OP_MAP_RANGE, ZX_VMO_CHILD_SNAPSHOT, ZX_VMO_OP_COMMIT,
    ZX_VMO_OP_DECOMMIT, zx_thread_state_general_regs_t,
};
use zx::{AsHandleRef, Channel, Exit, Vmar, Vmo};

use super::vmar::{PAGE, READ, READ_WRITE};
use super::vproc::{Domain, SYSCALLS, processor, run};
use super::{cases, process_shared};
use crate::caught_exception::{CaughtException, OwnedTestProcess, catch_type};
use crate::check::{Failure, Outcome, equal};

cases! {
    "vmar.execute.untouched" => untouched,
    "vmar.execute.written" => written,
    "vmar.execute.read" => read,
    "vmar.execute.zeroes" => zeroes,
    "vmar.execute.stack" => stack,
    "vmar.execute.across" => across,
    "vmar.execute.granted" => granted,
    "vmar.execute.taken" => taken,
    "vmar.execute.large" => large,
    "vmar.execute.copy" => copy,
    "vmar.execute.elsewhere" => elsewhere,
    "vmar.execute.regained" => regained,
    "vmar.execute.shared" => || process_shared::inside("execute"),
    "vmar.execute.domain" => domain,
}

const READ_EXECUTE: u32 = READ | ZX_VM_PERM_EXECUTE;
/// Where cases map non-executable memory in a test process: at a multiple of 2 MiB.
const FIELD: usize = 0x400_0000;
const LARGE: usize = 2 << 20;
/// `int3`: shows that the processor has executed it.
const BREAKPOINT: u8 = 0xcc;
/// `mov byte [rsi], 0xcc; ud2; jmp rsi`
const WRITES: &[u8] = &[0xc6, 0x06, BREAKPOINT, 0x0f, 0x0b, 0xff, 0xe6];
/// `mov al, [rsi]; ud2; jmp rsi`
const READS: &[u8] = &[0x8a, 0x06, 0x0f, 0x0b, 0xff, 0xe6];
/// `jmp rsi`
const JUMPS: &[u8] = &[0xff, 0xe6];
/// Vector and error code of an instruction fetch in user mode from a present page that is not executable.
const REFUSED: (u64, u64) = (14, 0x15);

/// A VMO whose handle permits execution.
fn memory(size: usize) -> Result<Vmo, Failure> {
    Ok(Vmo::create(size as u64, 0)?.replace_as_executable(None)?)
}

/// A process that jumps to an address.
struct Jumper {
    tiny: OwnedTestProcess,
    channel: Channel,
    place: usize,
}

impl Jumper {
    /// Maps the VMO in the field; the process runs `code` with the address in `rsi`.
    fn new(code: &[u8], vmo: &Vmo, options: u32, len: usize, offset: usize) -> Result<Self, Failure> {
        let tiny = OwnedTestProcess::new(code)?;
        let channel = tiny.process.create_exception_channel(0)?;
        let place = tiny.vmar.map(options | ZX_VM_SPECIFIC, FIELD, vmo, 0, len)? + offset;
        tiny.start(None, place)?;
        Ok(Jumper { tiny, channel, place })
    }

    /// The process has reached its `ud2`; runs `then` and makes it continue behind the instruction.
    fn passes(&self, then: impl FnOnce(&Vmar) -> Outcome) -> Outcome {
        let caught = catch_type(&self.channel, ZX_EXCP_UNDEFINED_INSTRUCTION)?;
        then(&self.tiny.vmar)?;
        let rip = self.registers()?.rip;
        self.goes_on(caught, rip as usize + 2)
    }

    fn registers(&self) -> Result<zx_thread_state_general_regs_t, Failure> {
        Ok(self.tiny.thread.registers()?)
    }

    fn goes_on(&self, caught: CaughtException, rip: usize) -> Outcome {
        let mut registers = self.registers()?;
        registers.rip = rip as u64;
        self.tiny.thread.set_registers(&registers)?;
        Ok(caught.handled()?)
    }

    /// The processor refuses to execute the code at the address.
    fn refused(&self) -> Result<CaughtException, Failure> {
        let caught = catch_type(&self.channel, ZX_EXCP_FATAL_PAGE_FAULT)?;
        let report = self.tiny.thread.exception_report()?;
        let arch = report.context.arch;
        equal((arch.vector, arch.err_code), REFUSED)?;
        equal((arch.cr2, self.registers()?.rip), (self.place as u64, self.place as u64))?;
        equal(Status(report.context.synth_code as i32), Status::ACCESS_DENIED)?;
        Ok(caught)
    }

    /// The process has executed the `int3`.
    fn executed(&self) -> Result<CaughtException, Failure> {
        let caught = catch_type(&self.channel, ZX_EXCP_SW_BREAKPOINT)?;
        equal(self.registers()?.rip, self.place as u64 + 1)?;
        Ok(caught)
    }

    fn protect(&self, options: u32, len: usize) -> Outcome {
        Ok(self.tiny.vmar.protect(options, self.place / PAGE * PAGE, len)?)
    }

    /// Makes the process jump to the address again.
    fn again(&self, caught: CaughtException) -> Outcome {
        self.goes_on(caught, self.place)
    }
}

fn untouched() -> Outcome {
    let vmo = memory(PAGE)?;
    vmo.write(&[BREAKPOINT], 0)?;
    Jumper::new(JUMPS, &vmo, READ_WRITE, PAGE, 0)?.refused()?;
    Jumper::new(JUMPS, &vmo, READ, PAGE, 0)?.refused()?;
    Jumper::new(JUMPS, &vmo, READ_EXECUTE, PAGE, 0)?.executed()?;
    Ok(())
}

fn written() -> Outcome {
    let jumper = Jumper::new(WRITES, &memory(PAGE)?, READ_WRITE, PAGE, 0)?;
    jumper.passes(|_| Ok(()))?;
    jumper.refused()?;
    Ok(())
}

fn read() -> Outcome {
    let vmo = memory(PAGE)?;
    vmo.write(&[BREAKPOINT], 0)?;
    let jumper = Jumper::new(READS, &vmo, READ, PAGE, 0)?;
    jumper.passes(|_| Ok(()))?;
    jumper.refused()?;
    Ok(())
}

/// Pages that were never written are one shared zero page.
fn zeroes() -> Outcome {
    let jumper = Jumper::new(READS, &memory(PAGE)?, READ_WRITE, PAGE, 0)?;
    jumper.passes(|_| Ok(()))?;
    jumper.refused()?;
    Ok(())
}

fn stack() -> Outcome {
    // mov byte [rsp - 16], 0xcc; lea rsi, [rsp - 16]; jmp rsi
    let tiny = OwnedTestProcess::new(&[0xc6, 0x44, 0x24, 0xf0, BREAKPOINT, 0x48, 0x8d, 0x74, 0x24, 0xf0, 0xff, 0xe6])?;
    let channel = tiny.process.create_exception_channel(0)?;
    tiny.start(None, 0)?;
    let _caught = catch_type(&channel, ZX_EXCP_FATAL_PAGE_FAULT)?;
    let arch = tiny.thread.exception_report()?.context.arch;
    equal(((arch.vector, arch.err_code), arch.cr2), (REFUSED, tiny.stack as u64 - 16))
}

/// An instruction that begins in an executable page and ends in a non-executable one.
fn across() -> Outcome {
    let vmo = memory(2 * PAGE)?;
    // ud2; mov eax, 0x11111111, whose last byte lies in the second page
    vmo.write(&[0x0f, 0x0b, 0xb8, 0x11, 0x11, 0x11, 0x11, BREAKPOINT], PAGE as u64 - 6)?;
    let tiny = OwnedTestProcess::new(READS)?;
    let channel = tiny.process.create_exception_channel(0)?;
    let first = tiny.vmar.map(READ_EXECUTE | ZX_VM_SPECIFIC, FIELD, &vmo, 0, PAGE)?;
    let second = tiny.vmar.map(READ_WRITE | ZX_VM_SPECIFIC, FIELD + PAGE, &vmo, PAGE as u64, PAGE)?;
    tiny.start(None, second)?;
    let jumper = Jumper { tiny, channel, place: second };
    let caught = catch_type(&jumper.channel, ZX_EXCP_UNDEFINED_INSTRUCTION)?;
    jumper.goes_on(caught, first + PAGE - 4)?;
    let caught = catch_type(&jumper.channel, ZX_EXCP_FATAL_PAGE_FAULT)?;
    let arch = jumper.tiny.thread.exception_report()?.context.arch;
    equal(((arch.vector, arch.err_code), arch.cr2), (REFUSED, second as u64))?;
    equal(jumper.registers()?.rip, (first + PAGE - 4) as u64)?;
    jumper.protect(READ_EXECUTE, PAGE)?;
    caught.handled()?;
    let _caught = catch_type(&jumper.channel, ZX_EXCP_SW_BREAKPOINT)?;
    equal(jumper.registers()?.rax, 0x1111_1111)
}

/// Memory that is written first and executed afterwards, as by a JIT compiler.
fn granted() -> Outcome {
    let jumper = Jumper::new(WRITES, &memory(PAGE)?, READ_WRITE, PAGE, 0)?;
    jumper.passes(|_| jumper.protect(READ_EXECUTE, PAGE))?;
    jumper.executed()?;
    // The same when the fetch was refused first: the thread continues at the same instruction.
    let jumper = Jumper::new(WRITES, &memory(PAGE)?, READ_WRITE, PAGE, 0)?;
    jumper.passes(|_| Ok(()))?;
    let caught = jumper.refused()?;
    jumper.protect(READ_EXECUTE, PAGE)?;
    caught.handled()?;
    jumper.executed()?;
    Ok(())
}

fn taken_of(len: usize, offset: usize, vmo: &Vmo) -> Outcome {
    let jumper = Jumper::new(WRITES, vmo, READ_WRITE, len, offset)?;
    jumper.passes(|_| jumper.protect(READ_EXECUTE, PAGE))?;
    for options in [READ_WRITE, READ, 0] {
        let caught = jumper.executed()?;
        jumper.protect(options, PAGE)?;
        jumper.again(caught)?;
        let caught = jumper.refused()?;
        jumper.protect(READ_EXECUTE, PAGE)?;
        caught.handled()?;
    }
    jumper.executed()?;
    Ok(())
}

fn taken() -> Outcome {
    taken_of(PAGE, 0, &memory(PAGE)?)
}

fn large() -> Outcome {
    for offset in [0, LARGE / 2, LARGE - 1] {
        let vmo = Vmo::create(LARGE as u64, 0)?;
        vmo.op_range(ZX_VMO_OP_COMMIT, 0, LARGE as u64)?;
        let vmo = vmo.replace_as_executable(None)?;
        let jumper = Jumper::new(WRITES, &vmo, READ_WRITE, LARGE, offset)?;
        let all = |options| jumper.tiny.vmar.protect(options, jumper.place - offset, LARGE);
        jumper.passes(|_| Ok(()))?;
        let caught = jumper.refused()?;
        all(READ_EXECUTE)?;
        caught.handled()?;
        let caught = jumper.executed()?;
        all(READ_WRITE)?;
        jumper.again(caught)?;
        jumper.refused()?;
        taken_of(LARGE, offset, &vmo)?;
    }
    Ok(())
}

/// A page that is shared until it is written.
fn copy() -> Outcome {
    let vmo = Vmo::create(PAGE as u64, 0)?;
    vmo.write(&[BREAKPOINT], 0)?;
    let child =
        || Ok::<_, Failure>(vmo.create_child(ZX_VMO_CHILD_SNAPSHOT, 0, PAGE as u64)?.replace_as_executable(None)?);
    let jumper = Jumper::new(READS, &child()?, READ_WRITE, PAGE, 0)?;
    jumper.passes(|_| Ok(()))?;
    jumper.refused()?;
    taken_of(PAGE, 0, &child()?)?;
    // Permission to execute is taken from a page that is still shared.
    let jumper = Jumper::new(JUMPS, &child()?, READ_EXECUTE, PAGE, 0)?;
    let caught = jumper.executed()?;
    jumper.protect(READ, PAGE)?;
    jumper.again(caught)?;
    jumper.refused()?;
    Ok(())
}

/// A permission of one mapping does not apply to another mapping of the same page.
fn elsewhere() -> Outcome {
    let vmo = memory(PAGE)?;
    let jumper = Jumper::new(WRITES, &vmo, READ_WRITE, PAGE, 0)?;
    let other = jumper.tiny.vmar.map(READ_EXECUTE | ZX_VM_SPECIFIC, FIELD + LARGE, &vmo, 0, PAGE)?;
    let caught = catch_type(&jumper.channel, ZX_EXCP_UNDEFINED_INSTRUCTION)?;
    jumper.goes_on(caught, other)?;
    let caught = catch_type(&jumper.channel, ZX_EXCP_SW_BREAKPOINT)?;
    equal(jumper.registers()?.rip, other as u64 + 1)?;
    jumper.again(caught)?;
    jumper.refused()?;
    Ok(())
}

/// An operation of a program on a page.
type Act<'a> = dyn Fn(&Vmo) -> zx::Result<()> + 'a;

/// No operation on a page gives back a permission that was taken.
fn regained() -> Outcome {
    let vmo = memory(4 * PAGE)?;
    let jumper = Jumper::new(WRITES, &vmo, READ_WRITE, 4 * PAGE, PAGE)?;
    let (vmar, place) = (&jumper.tiny.vmar, jumper.place);
    jumper.passes(|_| jumper.protect(READ_EXECUTE, PAGE))?;
    let caught = jumper.executed()?;
    jumper.protect(READ_WRITE, PAGE)?;
    jumper.again(caught)?;
    let commit = |_: &Vmo| vmar.op_range(ZX_VMAR_OP_COMMIT, place, PAGE);
    let map = |_: &Vmo| vmar.op_range(ZX_VMAR_OP_MAP_RANGE, place, PAGE);
    let anew = |vmo: &Vmo| {
        vmo.op_range(ZX_VMO_OP_DECOMMIT, 0, 4 * PAGE as u64)?;
        vmo.write(&[BREAKPOINT], PAGE as u64)
    };
    let copied = |vmo: &Vmo| vmo.create_child(ZX_VMO_CHILD_SNAPSHOT, 0, PAGE as u64).map(drop);
    let neighbour = |_: &Vmo| vmar.protect(READ_EXECUTE, place - PAGE, PAGE);
    let written = |_: &Vmo| jumper.tiny.process.write_memory(place, &[BREAKPOINT]).map(drop);
    let fewer = |_: &Vmo| vmar.protect(READ, place, PAGE).and_then(|()| vmar.protect(READ_WRITE, place, PAGE));
    let none = |_: &Vmo| vmar.protect(0, place, PAGE).and_then(|()| vmar.protect(READ_WRITE, place, PAGE));
    let moved = |vmo: &Vmo| {
        vmar.unmap(place, PAGE)?;
        vmar.map(READ_WRITE | ZX_VM_SPECIFIC, FIELD + PAGE, vmo, PAGE as u64, PAGE).map(drop)
    };
    let same = |vmo: &Vmo| vmo.duplicate_handle(Rights::SAME_RIGHTS).map(drop);
    let acts: [&Act<'_>; 10] = [&commit, &map, &anew, &copied, &neighbour, &written, &fewer, &none, &moved, &same];
    for act in acts {
        let caught = jumper.refused()?;
        act(&vmo)?;
        caught.handled()?;
    }
    // The process writes the page itself and then jumps to it.
    let caught = jumper.refused()?;
    jumper.goes_on(caught, jumper.tiny.entry)?;
    jumper.passes(|_| Ok(()))?;
    jumper.refused()?;
    Ok(())
}

/// In the half that processes share, a permission is taken in all of them.
pub(super) fn shared() -> Outcome {
    let member = process_shared::Member::new()?;
    let vmo = memory(PAGE)?;
    // mov eax, 77; ret
    vmo.write(&[0xb8, 77, 0, 0, 0, 0xc3], 0)?;
    let vmar = zx::startup::vmar_root_self();
    let place = vmar.map(READ_EXECUTE, 0, &vmo, 0, PAGE)?;
    let calls = move || zx::probe::call(place, &[]) as u32;
    equal(calls(), 77)?;
    // The member has the page in its page table, and calls it again after the permission is taken.
    let ((tell, told), (go, goes)) = (mpsc::channel(), mpsc::channel::<()>());
    drop(member.runs(move || {
        let _ = tell.send(calls());
        goes.recv().map(|()| calls())
    }));
    equal(told.recv().map_err(|_| "it has not called")?, 77)?;
    vmar.protect(READ_WRITE, place, PAGE)?;
    zx::probe::write(place, 0xb8);
    let other = process_shared::Member::new()?;
    let channels = [&member, &other].map(|member| member.process.create_exception_channel(0));
    go.send(()).map_err(|_| "it does not listen")?;
    drop(other.runs(calls));
    for (channel, member) in channels.into_iter().zip([&member, &other]) {
        let caught = catch_type(&channel?, ZX_EXCP_FATAL_PAGE_FAULT)?;
        let report = caught.exception.thread()?.exception_report()?.context.arch;
        equal(((report.vector, report.err_code), report.cr2), (REFUSED, place as u64))?;
        member.process.kill()?;
    }
    vmar.protect(READ_EXECUTE, place, PAGE)?;
    equal(calls(), 77)
}

/// The refused fetch in a sub-domain is reported to the virtual processor's owner.
fn domain() -> Outcome {
    const DATA: u64 = 0x200_0000;
    let (mut processor, domain) = (processor()?, Domain::new(SYSCALLS)?);
    let vmo = memory(PAGE)?;
    vmo.write(SYSCALLS, 0)?;
    let given = abi::hafnon_vproc_state_t { ip: DATA, flags: 0x202, ..Default::default() };
    *processor.state() = given;
    equal(processor.enter(&domain.process)?, Exit::PageFault(DATA))?;
    equal(processor.page().code, abi::HAFNON_VPROC_FAULT_FETCH | 4)?;
    for options in [READ, READ_WRITE] {
        zx::map_runs(&domain.vmar, &vmo, &[run(DATA, 0, PAGE as u64, options)])?;
        equal(processor.resume()?, Exit::PageFault(DATA))?;
        let refused = abi::HAFNON_VPROC_FAULT_FETCH | abi::HAFNON_VPROC_FAULT_PRESENT;
        equal(processor.page().code, refused | 4)?;
    }
    zx::map_runs(&domain.vmar, &vmo, &[run(DATA, 0, PAGE as u64, READ_EXECUTE)])?;
    equal(processor.resume()?, Exit::Syscall)?;
    equal(processor.page().reason, abi::HAFNON_VPROC_REASON_SYSCALL)?;
    zx::map_runs(&domain.vmar, &vmo, &[run(DATA, 0, PAGE as u64, READ)])?;
    *processor.state() = given;
    equal(processor.enter(&domain.process)?, Exit::PageFault(DATA))
}
