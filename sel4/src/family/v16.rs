//! seL4 13 to 16 without MCS.

use crate::generated::{config, invoke};
use crate::message::{Message, Received};
use crate::tcb::{DEBUG_REGISTERS, FPU_WORDS, HoldResult, UserContext};
use crate::{
    AdjacentPages, CNode, CPtr, CapData, Endpoint, Error, IoPortControl, Page, Result, Rights, SchedParams, Slot, Tcb,
    TcbConfig, VSpace,
};

/// Bytes of a `syscall` instruction.
const SYSCALL_LENGTH: u64 = 2;

/// The TCB contains the vector registers, so it is larger if AVX is configured.
pub(crate) const TCB_BITS: u8 = if config::XSAVE_SIZE >= 832 { 12 } else { 11 };

/// Offsets in the boot information.
pub(crate) mod boot {
    pub const UNTYPED_SLOTS: usize = 152;
    pub const UNTYPED_LIST: usize = 168;
    pub const UNTYPED_STRIDE: usize = 16;
    pub const UNTYPED_SIZE_BITS: usize = 8;
    pub const UNTYPED_IS_DEVICE: usize = 9;
    /// The time-stamp counter's frequency in MHz is in a chunk behind the boot information.
    pub const TSC_MHZ: Option<usize> = None;
}

pub(crate) fn rights(rights: Rights) -> u64 {
    u64::from(rights.write)
        | u64::from(rights.read) << 1
        | u64::from(rights.grant) << 2
        | u64::from(rights.grant_reply) << 3
}

pub(crate) const fn guard(guard: u64, bits: u8) -> u64 {
    guard << 6 | (bits as u64 & 0x3f)
}

pub(crate) fn configure(tcb: Tcb, config: &TcbConfig) -> Result<()> {
    let (buffer, page) = config.ipc_buffer.map_or((0, CPtr::NULL), |(address, page)| (address, page.cptr()));
    invoke::tcb_configure(
        tcb,
        config.fault_endpoint.0,
        config.cspace,
        config.cspace_data.0,
        config.vspace,
        0_u64,
        buffer,
        page,
    )?;
    config.sched.map_or(Ok(()), |sched| set_sched_params(tcb, sched))
}

pub(crate) fn set_sched_params(tcb: Tcb, sched: SchedParams) -> Result<()> {
    invoke::tcb_set_sched_params(tcb, sched.authority, sched.max_controlled, sched.priority)
}

pub(crate) fn set_priority(tcb: Tcb, authority: Tcb, priority: u8) -> Result<()> {
    invoke::tcb_set_priority(tcb, authority, priority)
}

pub(crate) fn set_space(tcb: Tcb, fault: CPtr, cspace: CNode, cspace_data: CapData, vspace: VSpace) -> Result<()> {
    invoke::tcb_set_space(tcb, fault.0, cspace, cspace_data.0, vspace, 0_u64)
}

pub(crate) const KERNEL_KEEPS_GS: bool = false;

pub(crate) const RUNS_FOREIGN: bool = false;

/// These kernels do not distinguish foreign code.
pub(crate) fn write_foreign(tcb: Tcb, registers: &UserContext, resume: bool, shares: Option<Tcb>) -> Result<()> {
    if shares.is_some() { Err(Error::IllegalOperation) } else { tcb.write_registers(registers, resume) }
}

pub(crate) fn share_fpu(_: Tcb, _: Tcb) -> Option<Result<()>> {
    None
}

pub(crate) fn hold(_: Tcb) -> Option<Result<HoldResult>> {
    None
}

pub(crate) const KEEPS_TRAP_FLAG: bool = false;

/// At `syscall` these kernels do not save the stack pointer.
pub(crate) const KEEPS_STACK_POINTER: bool = false;

pub(crate) const TELLS_TICKS: bool = false;

/// These kernels have no such value: an ordinary base.
pub(crate) const NO_BASES: u64 = 0;

/// There is nothing to declare: 13 switches the registers when a thread first uses them, later kernels at every switch.
pub(crate) fn without_fpu(_: Tcb, _: CPtr) -> Result<()> {
    Ok(())
}

/// These kernels have no call for it.
pub(crate) fn read_fpu(_: Tcb) -> Option<Result<[u64; FPU_WORDS]>> {
    None
}

pub(crate) const HAS_DEBUG_REGISTERS: bool = false;

pub(crate) fn read_debug(_: Tcb) -> Option<Result<[u64; DEBUG_REGISTERS]>> {
    None
}

pub(crate) fn write_debug(_: Tcb, _: &[u64; DEBUG_REGISTERS]) -> Option<Result<()>> {
    None
}

pub(crate) fn read_ticks(_: Tcb) -> Option<Result<u64>> {
    None
}

pub(crate) fn read_idle_counts(_: Tcb) -> Option<Result<u64>> {
    None
}

/// Has the effect of a reply: sets the registers to those after it, and resumes the thread after its call. An error
/// means that the thread does not exist, and then it does not wait.
pub(crate) fn answer(tcb: Tcb, message: Message) {
    if let Ok(mut registers) = tcb.suspend().and_then(|()| tcb.read_registers(false)) {
        registers.rip += SYSCALL_LENGTH;
        registers.rdi = 0;
        registers.rsi = message.info.word();
        registers.r10 = message.mr[0];
        let _ = tcb.write_registers(&registers, true);
    }
}

pub(crate) fn answer_first(endpoint: Endpoint, tcb: Tcb, answer: Message, reply: Option<Message>) -> Received {
    tcb.answer(answer);
    match reply {
        Some(reply) => endpoint.reply_recv(reply),
        None => endpoint.recv(),
    }
}

pub(crate) fn reset(_: Tcb) -> Option<Result<()>> {
    None
}

pub(crate) fn write_fpu(_: Tcb, _: &[u64; FPU_WORDS]) -> Option<Result<()>> {
    None
}

/// These kernels have no such attribute.
pub(crate) const NOT_EXECUTED: u64 = 0;

pub(crate) fn page_remap(page: Page, vspace: VSpace, address: u64, rights: u64, attributes: u64) -> Result<()> {
    invoke::x86_page_map(page, vspace, address, rights, attributes)
}

pub(crate) fn page_unmap(page: Page) -> Result<()> {
    invoke::x86_page_unmap(page)
}

pub(crate) fn page_map_several(_: Page, _: VSpace, _: u64, _: u64, _: u64, _: AdjacentPages) -> Option<Result<()>> {
    None
}

pub(crate) fn page_unmap_several(_: Page, _: AdjacentPages) -> Option<Result<()>> {
    None
}

pub(crate) fn page_written_several(_: Page, _: AdjacentPages) -> Option<Result<u64>> {
    None
}

pub(crate) const KNOWS_WRITTEN: bool = false;

pub(crate) fn issue_ports(control: IoPortControl, _from: Slot, first: u16, last: u16, to: Slot) -> Result<()> {
    invoke::x86_ioportcontrol_issue(control, first, last, to.root, to.index, to.depth)
}
