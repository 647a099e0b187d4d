//! Memory that may not be executed is not executed: whether it has been touched or not, and whatever was done to it before.

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
use crate::caught::{Caught, Mortal, catch_type};
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
/// Where cases map what is not to be executed, in a tiny process: at a multiple of a large page.
const FIELD: usize = 0x400_0000;
const LARGE: usize = 2 << 20;
/// `int3`: where it is executed, the process says so.
const BREAKPOINT: u8 = 0xcc;
/// `mov byte [rsi], 0xcc; ud2; jmp rsi`
const WRITES: &[u8] = &[0xc6, 0x06, BREAKPOINT, 0x0f, 0x0b, 0xff, 0xe6];
/// `mov al, [rsi]; ud2; jmp rsi`
const READS: &[u8] = &[0x8a, 0x06, 0x0f, 0x0b, 0xff, 0xe6];
/// `jmp rsi`
const JUMPS: &[u8] = &[0xff, 0xe6];
/// A fetch by a program from a page that is there, but not for this.
const REFUSED: (u64, u64) = (14, 0x15);

/// Memory that may be executed.
fn memory(size: usize) -> Result<Vmo, Failure> {
    Ok(Vmo::create(size as u64, 0)?.replace_as_executable(None)?)
}

/// A process that jumps to a place.
struct Jumper {
    tiny: Mortal,
    channel: Channel,
    place: usize,
}

impl Jumper {
    /// With memory in its field; it runs `code` with the place in `rsi`.
    fn new(code: &[u8], vmo: &Vmo, options: u32, len: usize, offset: usize) -> Result<Self, Failure> {
        let tiny = Mortal::new(code)?;
        let channel = tiny.process.create_exception_channel(0)?;
        let place = tiny.vmar.map(options | ZX_VM_SPECIFIC, FIELD, vmo, 0, len)? + offset;
        tiny.start(None, place)?;
        Ok(Jumper { tiny, channel, place })
    }

    /// It has come to its `ud2`, and goes past it once `then` is done.
    fn passes(&self, then: impl FnOnce(&Vmar) -> Outcome) -> Outcome {
        let caught = catch_type(&self.channel, ZX_EXCP_UNDEFINED_INSTRUCTION)?;
        then(&self.tiny.vmar)?;
        let rip = self.registers()?.rip;
        self.goes_on(caught, rip as usize + 2)
    }

    fn registers(&self) -> Result<zx_thread_state_general_regs_t, Failure> {
        Ok(self.tiny.thread.registers()?)
    }

    fn goes_on(&self, caught: Caught, rip: usize) -> Outcome {
        let mut registers = self.registers()?;
        registers.rip = rip as u64;
        self.tiny.thread.set_registers(&registers)?;
        Ok(caught.handled()?)
    }

    /// It is not let execute what is at the place.
    fn refused(&self) -> Result<Caught, Failure> {
        let caught = catch_type(&self.channel, ZX_EXCP_FATAL_PAGE_FAULT)?;
        let report = self.tiny.thread.exception_report()?;
        let arch = report.context.arch;
        equal((arch.vector, arch.err_code), REFUSED)?;
        equal((arch.cr2, self.registers()?.rip), (self.place as u64, self.place as u64))?;
        equal(Status(report.context.synth_code as i32), Status::ACCESS_DENIED)?;
        Ok(caught)
    }

    /// It has executed it.
    fn executed(&self) -> Result<Caught, Failure> {
        let caught = catch_type(&self.channel, ZX_EXCP_SW_BREAKPOINT)?;
        equal(self.registers()?.rip, self.place as u64 + 1)?;
        Ok(caught)
    }

    fn protect(&self, options: u32, len: usize) -> Outcome {
        Ok(self.tiny.vmar.protect(options, self.place / PAGE * PAGE, len)?)
    }

    /// Once more, with what was executed.
    fn again(&self, caught: Caught) -> Outcome {
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

/// What nobody has written yet is one page for all.
fn zeroes() -> Outcome {
    let jumper = Jumper::new(READS, &memory(PAGE)?, READ_WRITE, PAGE, 0)?;
    jumper.passes(|_| Ok(()))?;
    jumper.refused()?;
    Ok(())
}

fn stack() -> Outcome {
    // mov byte [rsp - 16], 0xcc; lea rsi, [rsp - 16]; jmp rsi
    let tiny = Mortal::new(&[0xc6, 0x44, 0x24, 0xf0, BREAKPOINT, 0x48, 0x8d, 0x74, 0x24, 0xf0, 0xff, 0xe6])?;
    let channel = tiny.process.create_exception_channel(0)?;
    tiny.start(None, 0)?;
    let _caught = catch_type(&channel, ZX_EXCP_FATAL_PAGE_FAULT)?;
    let arch = tiny.thread.exception_report()?.context.arch;
    equal(((arch.vector, arch.err_code), arch.cr2), (REFUSED, tiny.stack as u64 - 16))
}

/// An instruction that begins in a page that may be executed and ends in one that may not.
fn across() -> Outcome {
    let vmo = memory(2 * PAGE)?;
    // ud2; mov eax, 0x11111111, of which the last byte stands in the second page
    vmo.write(&[0x0f, 0x0b, 0xb8, 0x11, 0x11, 0x11, 0x11, BREAKPOINT], PAGE as u64 - 6)?;
    let tiny = Mortal::new(READS)?;
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

/// What is written first and executed then, as a compiler of code in use does.
fn granted() -> Outcome {
    let jumper = Jumper::new(WRITES, &memory(PAGE)?, READ_WRITE, PAGE, 0)?;
    jumper.passes(|_| jumper.protect(READ_EXECUTE, PAGE))?;
    jumper.executed()?;
    // Also when it was refused first: the thread goes on where it is.
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
    // Taken from what is still shared.
    let jumper = Jumper::new(JUMPS, &child()?, READ_EXECUTE, PAGE, 0)?;
    let caught = jumper.executed()?;
    jumper.protect(READ, PAGE)?;
    jumper.again(caught)?;
    jumper.refused()?;
    Ok(())
}

/// What one mapping of a page allows another one does not.
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

/// Something that a program does to a page.
type Act<'a> = dyn Fn(&Vmo) -> zx::Result<()> + 'a;

/// What was taken comes back by nothing that a program does to the page.
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
    // Written by itself, and then jumped to.
    let caught = jumper.refused()?;
    jumper.goes_on(caught, jumper.tiny.entry)?;
    jumper.passes(|_| Ok(()))?;
    jumper.refused()?;
    Ok(())
}

/// In the half that processes share: what is taken there is taken in all of them.
pub(super) fn shared() -> Outcome {
    let member = process_shared::Member::new()?;
    let vmo = memory(PAGE)?;
    // mov eax, 77; ret
    vmo.write(&[0xb8, 77, 0, 0, 0, 0xc3], 0)?;
    let vmar = zx::startup::vmar_root_self();
    let place = vmar.map(READ_EXECUTE, 0, &vmo, 0, PAGE)?;
    let calls = move || zx::probe::call(place, &[]) as u32;
    equal(calls(), 77)?;
    // It has the page, and goes there once more when it may not.
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

/// The owner of a sub-domain is told of the fetch.
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
