//! Threads.

use abi::{
    Rights, Status, ZX_DEFAULT_THREAD_RIGHTS, ZX_EXCEPTION_TARGET_JOB_DEBUGGER, ZX_EXCP_USER, ZX_MAX_NAME_LEN,
    zx_exception_context_t,
};
use objects::handle::HandleValue;
use objects::machine::{Machine, Registers};
use objects::name::Name;
use objects::process::Process;
use objects::thread::Thread;
use objects::wait::Waiting;

use crate::Answer;
use crate::cx::Cx;
use crate::user::{In, Out};

/// A task's name as a program hands it in, cut to what fits.
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

/// The registers that a thread starts with: flags as after a call, everything else that is not given zero.
pub fn initial(entry: u64, stack: u64, arg1: u64, arg2: u64) -> Registers {
    Registers { rip: entry, rsp: stack, rdi: arg1, rsi: arg2, rflags: 0x202, ..Registers::default() }
}

/// Whether an address can be where a thread starts or what its FS base is.
pub fn canonical(address: u64) -> bool {
    (address << 16 >> 16) as i64 as u64 == address && address >> 47 == 0
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

/// Raises an exception of the program's own, for the debuggers of the jobs above.
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
