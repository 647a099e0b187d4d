//! Threads.

use abi::{
    Rights, Status, ZX_DEFAULT_THREAD_RIGHTS, ZX_EXCEPTION_TARGET_JOB_DEBUGGER, ZX_EXCP_USER, ZX_MAX_NAME_LEN,
    ZX_THREAD_STATE_DEBUG_REGS, ZX_THREAD_STATE_FP_REGS, ZX_THREAD_STATE_GENERAL_REGS, ZX_THREAD_STATE_SINGLE_STEP,
    ZX_THREAD_STATE_VECTOR_REGS, zx_exception_context_t, zx_thread_state_debug_regs_t, zx_thread_state_general_regs_t,
};
use objects::arch::{Architecture, Breakpoints, DebugRegisters, GeneralRegisters, Native, Registers, VectorRegisters};
use objects::containers::name::Name;
use objects::core::handle::HandleValue;
use objects::core::wait::Waiting;
use objects::machine::Machine;
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
    let mut registers = Registers::initial(pc, sp, [arg1, arg2]);
    registers.set_thread_pointer(tp);
    registers.set_reserved(abi_reg);
    if !Native::is_user_address(pc) || !Native::is_user_address(tp) {
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
        ZX_THREAD_STATE_GENERAL_REGS => put(cx, out, size, registers.state()),
        ZX_THREAD_STATE_FP_REGS => {
            let fpu = cx.kernel.thread_fpu(thread)?;
            put(cx, out, size, fpu.floating())
        }
        ZX_THREAD_STATE_VECTOR_REGS => {
            let fpu = cx.kernel.thread_fpu(thread)?;
            put(cx, out, size, fpu.vector())
        }
        ZX_THREAD_STATE_DEBUG_REGS => {
            let debug = cx.kernel.thread_debug(thread)?;
            put(cx, out, size, debug.state())
        }
        ZX_THREAD_STATE_SINGLE_STEP if cx.kernel.machine.can_step() => put(cx, out, size, u32::from(registers.steps())),
        ZX_THREAD_STATE_SINGLE_STEP => Err(Status::NOT_SUPPORTED),
        _ => put(cx, out, size, registers.single(kind).ok_or(Status::INVALID_ARGS)?),
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
            registers.set_state(&new)?;
        }
        ZX_THREAD_STATE_FP_REGS => {
            let new = taken(cx, from, size)?;
            let mut fpu = cx.kernel.thread_fpu(thread)?;
            fpu.set_floating(&new);
            return cx.kernel.thread_set_fpu(thread, &fpu);
        }
        ZX_THREAD_STATE_VECTOR_REGS => {
            let new = taken(cx, from, size)?;
            let mut fpu = cx.kernel.thread_fpu(thread)?;
            fpu.set_vector(&new);
            return cx.kernel.thread_set_fpu(thread, &fpu);
        }
        ZX_THREAD_STATE_DEBUG_REGS => {
            let new: zx_thread_state_debug_regs_t = taken(cx, from, size)?;
            return cx.kernel.thread_set_debug(thread, &DebugRegisters::of_state(&new));
        }
        ZX_THREAD_STATE_SINGLE_STEP if cx.kernel.machine.can_step() => {
            let step: u32 = taken(cx, from, size)?;
            registers = cx.kernel.thread_registers(thread)?;
            match step {
                0 => registers.set_steps(false),
                1 => registers.set_steps(true),
                _ => return Err(Status::INVALID_ARGS),
            }
        }
        ZX_THREAD_STATE_SINGLE_STEP => {
            // A thread that is not stopped is refused first, whatever the kernel can do.
            cx.kernel.thread_registers(thread)?;
            return Err(Status::NOT_SUPPORTED);
        }
        _ if Registers::default().single(kind).is_some() => {
            let new = taken(cx, from, size)?;
            registers = cx.kernel.thread_registers(thread)?;
            registers.set_single(kind, new)?;
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
