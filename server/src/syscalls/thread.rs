//! Threads.

use abi::{
    Rights, Status, ZX_DEFAULT_THREAD_RIGHTS, ZX_EXCEPTION_TARGET_JOB_DEBUGGER, ZX_EXCP_USER, ZX_MAX_NAME_LEN,
    ZX_THREAD_STATE_DEBUG_REGS, ZX_THREAD_STATE_FP_REGS, ZX_THREAD_STATE_GENERAL_REGS, ZX_THREAD_STATE_SINGLE_STEP,
    ZX_THREAD_STATE_VECTOR_REGS, ZX_THREAD_X86_REGISTER_FS, ZX_THREAD_X86_REGISTER_GS, zx_exception_context_t,
    zx_thread_state_debug_regs_t, zx_thread_state_fp_regs_t, zx_thread_state_general_regs_t,
    zx_thread_state_vector_regs_t,
};
use objects::containers::name::Name;
use objects::core::handle::HandleValue;
use objects::core::wait::Waiting;
use objects::general_registers;
use objects::machine::user_registers::{RESUME_FLAG, USER_FLAGS};
use objects::machine::{DebugRegisters, FpuRegisters, Machine, Registers, canonical};
use objects::task::process::Process;
use objects::task::thread::Thread;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::Answer;
use crate::cx::Cx;
use crate::user::{In, Out};

/// Reads a task's name from the program, truncated to the maximum length.
pub fn read_name<M: Machine>(cx: &mut Cx<'_, M>, name: In<u8>, len: usize) -> Result<Name, Status> {
    let bytes = cx.read_bytes(name, len.min(ZX_MAX_NAME_LEN - 1))?;
    Ok(Name::new(&bytes))
}

/// Creates a thread in a process.
pub fn thread_create<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    name: In<u8>,
    name_len: usize,
    options: u32,
    out: Out<u32>,
) -> Result<(), Status> {
    if options != 0 {
        return Err(Status::INVALID_ARGS);
    }
    let name = read_name(cx, name, name_len)?;
    let process = cx.get::<Process>(value, Rights::MANAGE_THREAD)?;
    let thread = cx.kernel.thread_create(process, name)?;
    cx.hand_out(thread, ZX_DEFAULT_THREAD_RIGHTS, out)
}

/// The registers that a thread starts with: flags as after a call, and 0 for everything that is not given.
pub fn initial(entry: u64, stack: u64, arg1: u64, arg2: u64) -> Registers {
    Registers { rip: entry, rsp: stack, rdi: arg1, rsi: arg2, rflags: 0x202, ..Registers::default() }
}

/// Starts a thread.
#[allow(clippy::too_many_arguments)]
pub fn thread_start_regs<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    pc: u64,
    sp: u64,
    arg1: u64,
    arg2: u64,
    tp: u64,
    abi_reg: u64,
) -> Result<(), Status> {
    let thread = cx.get::<Thread>(value, Rights::MANAGE_THREAD)?;
    let mut registers = initial(pc, sp, arg1, arg2);
    registers.fs_base = tp;
    registers.r15 = abi_reg;
    if !canonical(registers.rip) || !canonical(registers.fs_base) {
        return Err(Status::INVALID_ARGS);
    }
    cx.kernel.thread_start(thread, &registers)
}

/// Ends the calling thread.
pub fn thread_exit<M: Machine>(cx: &mut Cx<'_, M>) -> Answer {
    cx.kernel.thread_exit(cx.thread);
    cx.blocked_or_gone()
}

/// Raises an exception of the program's own, for the debuggers of the jobs above it.
pub fn thread_raise_exception<M: Machine>(
    cx: &mut Cx<'_, M>,
    options: u32,
    kind: u32,
    context: In<zx_exception_context_t>,
) -> Result<Waiting, Status> {
    if options != ZX_EXCEPTION_TARGET_JOB_DEBUGGER || kind != ZX_EXCP_USER {
        return Err(Status::INVALID_ARGS);
    }
    let context = cx.read(context)?;
    cx.kernel.exception_user(cx.thread, context.synth_code, context.synth_data)
}

/// The trap flag, with which a thread stops after each instruction.
const TRAP_FLAG: u64 = 1 << 8;

/// Reads registers of a stopped thread.
pub fn thread_read_state<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    kind: u32,
    out: Out<u8>,
    size: usize,
) -> Result<(), Status> {
    let thread = cx.get::<Thread>(value, Rights::READ)?;
    let registers = cx.kernel.thread_registers(thread)?;
    match kind {
        ZX_THREAD_STATE_GENERAL_REGS => put(cx, out, size, general(&registers)),
        ZX_THREAD_STATE_FP_REGS => {
            let fpu = cx.kernel.thread_fpu(thread)?;
            put(cx, out, size, floating(&fpu))
        }
        ZX_THREAD_STATE_VECTOR_REGS => {
            let fpu = cx.kernel.thread_fpu(thread)?;
            put(cx, out, size, vector(&fpu))
        }
        ZX_THREAD_STATE_DEBUG_REGS => {
            let debug = cx.kernel.thread_debug(thread)?;
            let (dr, dr6, dr7) = (debug.addresses, debug.status, debug.control);
            put(cx, out, size, zx_thread_state_debug_regs_t { dr, dr6, dr7 })
        }
        ZX_THREAD_STATE_SINGLE_STEP if cx.kernel.machine.can_step() => {
            put(cx, out, size, u32::from(registers.rflags & TRAP_FLAG != 0))
        }
        ZX_THREAD_X86_REGISTER_FS => put(cx, out, size, registers.fs_base),
        ZX_THREAD_X86_REGISTER_GS => put(cx, out, size, registers.gs_base),
        ZX_THREAD_STATE_SINGLE_STEP => Err(Status::NOT_SUPPORTED),
        _ => Err(Status::INVALID_ARGS),
    }
}

/// Sets registers of a stopped thread.
pub fn thread_write_state<M: Machine>(
    cx: &mut Cx<'_, M>,
    value: HandleValue,
    kind: u32,
    from: In<u8>,
    size: usize,
) -> Result<(), Status> {
    let thread = cx.get::<Thread>(value, Rights::WRITE)?;
    let mut registers;
    match kind {
        ZX_THREAD_STATE_GENERAL_REGS => {
            let new: zx_thread_state_general_regs_t = taken(cx, from, size)?;
            registers = cx.kernel.thread_registers(thread)?;
            set_general(&mut registers, &new)?;
        }
        ZX_THREAD_STATE_FP_REGS => {
            let new = taken(cx, from, size)?;
            let mut fpu = cx.kernel.thread_fpu(thread)?;
            set_floating(&mut fpu, &new);
            return cx.kernel.thread_set_fpu(thread, &fpu);
        }
        ZX_THREAD_STATE_VECTOR_REGS => {
            let new = taken(cx, from, size)?;
            let mut fpu = cx.kernel.thread_fpu(thread)?;
            set_vector(&mut fpu, &new);
            return cx.kernel.thread_set_fpu(thread, &fpu);
        }
        ZX_THREAD_STATE_DEBUG_REGS => {
            let new: zx_thread_state_debug_regs_t = taken(cx, from, size)?;
            let debug = DebugRegisters { addresses: new.dr, status: new.dr6, control: new.dr7 };
            return cx.kernel.thread_set_debug(thread, &debug);
        }
        ZX_THREAD_STATE_SINGLE_STEP if cx.kernel.machine.can_step() => {
            let step: u32 = taken(cx, from, size)?;
            registers = cx.kernel.thread_registers(thread)?;
            match step {
                0 => registers.rflags &= !TRAP_FLAG,
                1 => registers.rflags |= TRAP_FLAG,
                _ => return Err(Status::INVALID_ARGS),
            }
        }
        ZX_THREAD_X86_REGISTER_FS => {
            let new = taken(cx, from, size)?;
            registers = cx.kernel.thread_registers(thread)?;
            registers.fs_base = base(new)?;
        }
        ZX_THREAD_X86_REGISTER_GS => {
            let new = taken(cx, from, size)?;
            registers = cx.kernel.thread_registers(thread)?;
            check_gs_base(&registers, new)?;
        }
        ZX_THREAD_STATE_SINGLE_STEP => {
            // A thread that is not stopped is refused first, whatever the kernel can do.
            cx.kernel.thread_registers(thread)?;
            return Err(Status::NOT_SUPPORTED);
        }
        _ => return Err(Status::INVALID_ARGS),
    }
    cx.kernel.thread_set_registers(thread, &registers)
}

fn put<M: Machine, T: IntoBytes + Immutable>(
    cx: &mut Cx<'_, M>,
    out: Out<u8>,
    size: usize,
    state: T,
) -> Result<(), Status> {
    if size < size_of::<T>() {
        return Err(Status::BUFFER_TOO_SMALL);
    }
    cx.write(Out::new(out.0), state)
}

/// Reads a state record from the program. Bytes behind it are ignored.
fn taken<M: Machine, T: FromBytes + IntoBytes>(cx: &mut Cx<'_, M>, from: In<u8>, size: usize) -> Result<T, Status> {
    if size < size_of::<T>() {
        return Err(Status::BUFFER_TOO_SMALL);
    }
    cx.read(In::new(from.0))
}

/// Checks that a program may have this base of FS or GS.
fn base(address: u64) -> Result<u64, Status> {
    if canonical(address) { Ok(address) } else { Err(Status::INVALID_ARGS) }
}

/// The GS base belongs to the system: a program can only write the value that it reads.
fn check_gs_base(registers: &Registers, wanted: u64) -> Result<(), Status> {
    if base(wanted)? == registers.gs_base { Ok(()) } else { Err(Status::NOT_SUPPORTED) }
}

fn general(r: &Registers) -> zx_thread_state_general_regs_t {
    general_registers!(r => zx_thread_state_general_regs_t { rip: r.rip, rflags: r.rflags })
}

fn set_general(r: &mut Registers, new: &zx_thread_state_general_regs_t) -> Result<(), Status> {
    if !canonical(new.rip) {
        return Err(Status::INVALID_ARGS);
    }
    check_gs_base(r, new.gs_base)?;
    base(new.fs_base)?;
    let mut rflags = (r.rflags & !USER_FLAGS) | (new.rflags & USER_FLAGS);
    if new.rip != r.rip {
        // The resume flag was meant for the instruction at which the thread was stopped.
        rflags &= !RESUME_FLAG;
    }
    *r = general_registers!(new => Registers { rip: new.rip, rflags });
    Ok(())
}

fn floating(fpu: &FpuRegisters) -> zx_thread_state_fp_regs_t {
    zx_thread_state_fp_regs_t {
        fcw: fpu.fcw,
        fsw: fpu.fsw,
        ftw: fpu.ftw,
        fop: fpu.fop,
        fip: fpu.fip,
        fdp: fpu.fdp,
        st: fpu.st,
        ..Default::default()
    }
}

fn set_floating(fpu: &mut FpuRegisters, new: &zx_thread_state_fp_regs_t) {
    (fpu.fcw, fpu.fsw, fpu.ftw, fpu.fop) = (new.fcw, new.fsw, new.ftw, new.fop);
    (fpu.fip, fpu.fdp, fpu.st) = (new.fip, new.fdp, new.st);
}

fn vector(fpu: &FpuRegisters) -> zx_thread_state_vector_regs_t {
    let mut state = zx_thread_state_vector_regs_t { mxcsr: fpu.mxcsr, ..Default::default() };
    for (zmm, ymm) in state.zmm.iter_mut().zip(&fpu.ymm) {
        zmm[..4].copy_from_slice(ymm);
    }
    state
}

/// Registers that the processor does not have are ignored.
fn set_vector(fpu: &mut FpuRegisters, new: &zx_thread_state_vector_regs_t) {
    fpu.mxcsr = new.mxcsr;
    for (ymm, zmm) in fpu.ymm.iter_mut().zip(&new.zmm) {
        ymm.copy_from_slice(&zmm[..4]);
    }
}
