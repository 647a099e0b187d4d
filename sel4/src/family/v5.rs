//! seL4 5.0.0.

use core::array;

use crate::generated::{USER_CONTEXT_WORDS, invoke, label, syscall};
use crate::message::{Invocation, Message, Received};
use crate::tcb::{DEBUG_REGISTERS, FPU_WORDS, HoldResult, UserContext};
use crate::{
    AdjacentPages, CNode, CPtr, CapData, Endpoint, Error, IoPortControl, Page, Result, Rights, SchedParams, Slot, Tcb,
    TcbConfig, VSpace, ipc, sys,
};

pub(crate) const TCB_BITS: u8 = 11;

/// Offsets in the boot information, which is a packed structure.
pub(crate) mod boot {
    pub const UNTYPED_SLOTS: usize = 153;
    pub const UNTYPED_LIST: usize = 169;
    pub const UNTYPED_STRIDE: usize = 12;
    pub const UNTYPED_SIZE_BITS: usize = 10;
    pub const UNTYPED_IS_DEVICE: usize = 11;
    /// The offset of the time-stamp counter's frequency in MHz.
    pub const TSC_MHZ: Option<usize> = Some(145);
}

/// 5.0.0 has no right to be replied to: it is part of the right to grant.
pub(crate) fn rights(rights: Rights) -> u64 {
    u64::from(rights.write) | u64::from(rights.read) << 1 | u64::from(rights.grant || rights.grant_reply) << 2
}

pub(crate) const fn guard(guard: u64, bits: u8) -> u64 {
    (guard & 0x3_ffff) << 8 | (bits as u64 & 0x3f) << 2
}

pub(crate) fn configure(tcb: Tcb, config: &TcbConfig) -> Result<()> {
    let (buffer, page) = config.ipc_buffer.map_or((0, CPtr::NULL), |(address, page)| (address, page.cptr()));
    match config.sched {
        Some(sched) => {
            let priorities = u64::from(sched.max_controlled) << 8 | u64::from(sched.priority);
            invoke::tcb_configure(
                tcb,
                config.fault_endpoint.0,
                priorities,
                config.cspace,
                config.cspace_data.0,
                config.vspace,
                0_u64,
                buffer,
                page,
            )
        }
        None => {
            // The call that configures a thread always sets the priorities, so two calls that do not touch them replace
            // it.
            set_space(tcb, config.fault_endpoint, config.cspace, config.cspace_data, config.vspace)?;
            invoke::tcb_set_ipcbuffer(tcb, buffer, page)
        }
    }
}

/// Two kernel entries. The maximum is set first; it does not bound the priority that is set here.
pub(crate) fn set_sched_params(tcb: Tcb, sched: SchedParams) -> Result<()> {
    invoke::tcb_set_mcpriority(tcb, sched.max_controlled)?;
    invoke::tcb_set_priority(tcb, sched.priority)
}

pub(crate) fn set_priority(tcb: Tcb, _authority: Tcb, priority: u8) -> Result<()> {
    invoke::tcb_set_priority(tcb, priority)
}

pub(crate) fn set_space(tcb: Tcb, fault: CPtr, cspace: CNode, cspace_data: CapData, vspace: VSpace) -> Result<()> {
    invoke::tcb_set_space(tcb, fault.0, cspace, cspace_data.0, vspace, 0_u64)
}

pub(crate) const KERNEL_KEEPS_GS: bool = true;

pub(crate) const KEEPS_TRAP_FLAG: bool = true;

pub(crate) const KEEPS_STACK_POINTER: bool = true;

/// The project's patch `server-run-time`.
pub(crate) const TELLS_TICKS: bool = true;

/// Not an address; the kernel recognises this value (the project's patch `shorter-fastpath`).
pub(crate) const NO_BASES: u64 = 1 << 63;

/// The project's patches `foreign-calls` and `foreign-registers`.
pub(crate) const RUNS_FOREIGN: bool = true;

/// Flag for writing registers: the thread runs code of another operating system from there on (patch `foreign-calls`).
const FOREIGN: u64 = 1 << 12;
/// Flag for writing: resumes the thread.
const RESUME: u64 = 1;
/// Flag for reading: stops the thread and returns whether it ran (patch `foreign-registers`).
const HOLD: u64 = 1 << 13;

/// Flag for reading and writing registers: the state of the FPU instead (the project's patch `vector-registers`).
const FPU: u64 = 1 << 8;
/// Flag for reading: the ticks instead (patch `run-time`).
const TICKS: u64 = 1 << 9;
/// Flag for reading: for how long the processor has been idle instead (patch `idle-time`).
const IDLE: u64 = 1 << 10;

/// Flag for writing: resets everything to the state of a new thread (patch `thread-reset`).
const RESET: u64 = 1 << 10;

/// Flag for writing: an answer to the thread's call (patch `late-answer`).
const ANSWER: u64 = 1 << 11;

/// Flag for writing: only declares that the thread never uses the FPU (patch `server-without-fpu`).
const WITHOUT_FPU: u64 = 1 << 13;

pub(crate) fn without_fpu(tcb: Tcb, domains: CPtr) -> Result<()> {
    let mut call = Invocation::new(tcb.cptr(), label::TCBWRITE_REGISTERS, 2, 1);
    call.cap::<0>(domains);
    call.word::<0>(WITHOUT_FPU);
    call.word::<1>(0);
    call.run().map(|_| ())
}

#[inline(always)]
pub(crate) fn answer(tcb: Tcb, message: Message) {
    let answer = [ANSWER, 0, message.info.word(), message.mr[0]];
    sys::send(tcb.cptr(), Message::four(label::TCBWRITE_REGISTERS, answer));
}

/// Difference between the numbers of ReplyRecv and Recv and those of the variants that first answer a thread (the same
/// patch).
const ANSWER_FIRST: i64 = 64;

#[inline(always)]
pub(crate) fn answer_first(endpoint: Endpoint, tcb: Tcb, answer: Message, reply: Option<Message>) -> Received {
    let number = if reply.is_some() { syscall::REPLY_RECV } else { syscall::RECV };
    let reply = reply.unwrap_or_default();
    let mr = [reply.mr[0], tcb.cptr().0, answer.mr[0], answer.info.word()];
    sys::exchange(number - ANSWER_FIRST, endpoint.cptr().0, Message { info: reply.info, mr })
}

pub(crate) fn reset(tcb: Tcb) -> Option<Result<()>> {
    let mut call = Invocation::new(tcb.cptr(), label::TCBWRITE_REGISTERS, 2, 0);
    call.word::<0>(RESET);
    call.word::<1>(0);
    Some(call.run().map(|_| ()))
}

/// The GS base is an additional word (patch `foreign-registers`).
pub(crate) fn write_foreign(tcb: Tcb, registers: &UserContext, resume: bool, shares: Option<Tcb>) -> Result<()> {
    let words = registers.to_words();
    let caps = shares.is_some().into();
    let mut call = Invocation::new(tcb.cptr(), label::TCBWRITE_REGISTERS, 2 + USER_CONTEXT_WORDS + 1, caps);
    let mut flags = FOREIGN | if resume { RESUME } else { 0 };
    if let Some(owner) = shares {
        call.cap::<0>(owner.cptr());
        flags |= SHARE_FPU;
    }
    call.word::<0>(flags);
    call.word::<1>(USER_CONTEXT_WORDS as u64 + 1);
    call.word::<2>(words[0]);
    call.word::<3>(words[1]);
    for (i, &word) in words.iter().enumerate().skip(2) {
        ipc::set_message_word(2 + i, word);
    }
    ipc::set_message_word(2 + USER_CONTEXT_WORDS, registers.gs_base);
    call.run().map(|_| ())
}

/// Flag for writing registers: the thread uses another one's FPU registers (patch `shared-vector-registers`).
const SHARE_FPU: u64 = 1 << 14;

/// Writes no registers.
pub(crate) fn share_fpu(tcb: Tcb, owner: Tcb) -> Option<Result<()>> {
    let mut call = Invocation::new(tcb.cptr(), label::TCBWRITE_REGISTERS, 2, 1);
    call.cap::<0>(owner.cptr());
    call.word::<0>(FOREIGN | SHARE_FPU);
    call.word::<1>(0);
    Some(call.run().map(|_| ()))
}

pub(crate) fn hold(tcb: Tcb) -> Option<Result<HoldResult>> {
    let mut call = Invocation::new(tcb.cptr(), label::TCBREAD_REGISTERS, 2, 0);
    call.word::<0>(HOLD);
    call.word::<1>(1);
    Some(call.run().map(|reply| match reply[0] {
        1 => HoldResult::Stopped,
        2 => HoldResult::Sending,
        _ => HoldResult::NotRunning,
    }))
}

pub(crate) fn read_ticks(tcb: Tcb) -> Option<Result<u64>> {
    let mut call = Invocation::new(tcb.cptr(), label::TCBREAD_REGISTERS, 2, 0);
    call.word::<0>(TICKS);
    call.word::<1>(1);
    Some(call.run().map(|reply| reply[0]))
}

pub(crate) fn read_idle_counts(tcb: Tcb) -> Option<Result<u64>> {
    let mut call = Invocation::new(tcb.cptr(), label::TCBREAD_REGISTERS, 2, 0);
    call.word::<0>(IDLE);
    call.word::<1>(1);
    Some(call.run().map(|reply| reply[0]))
}

pub(crate) fn read_fpu(tcb: Tcb) -> Option<Result<[u64; FPU_WORDS]>> {
    let mut call = Invocation::new(tcb.cptr(), label::TCBREAD_REGISTERS, 2, 0);
    call.word::<0>(FPU);
    // A count of registers that the kernel checks but does not use.
    call.word::<1>(1);
    Some(call.run().map(|first| array::from_fn(|i| first.get(i).copied().unwrap_or_else(|| ipc::message_word(i)))))
}

pub(crate) fn write_fpu(tcb: Tcb, state: &[u64; FPU_WORDS]) -> Option<Result<()>> {
    let mut call = Invocation::new(tcb.cptr(), label::TCBWRITE_REGISTERS, 2 + FPU_WORDS, 0);
    call.word::<0>(FPU);
    call.word::<1>(0);
    call.word::<2>(state[0]);
    call.word::<3>(state[1]);
    for (i, &word) in state.iter().enumerate().skip(2) {
        ipc::set_message_word(2 + i, word);
    }
    Some(call.run().map(|_| ()))
}

/// The project's patch `debug-registers`.
pub(crate) const HAS_DEBUG_REGISTERS: bool = true;

/// Flag for reading and writing registers: the debug registers instead (the same patch).
const DEBUG: u64 = 1 << 15;

pub(crate) fn read_debug(tcb: Tcb) -> Option<Result<[u64; DEBUG_REGISTERS]>> {
    let mut call = Invocation::new(tcb.cptr(), label::TCBREAD_REGISTERS, 2, 0);
    call.word::<0>(DEBUG);
    call.word::<1>(1);
    Some(call.run().map(|first| array::from_fn(|i| first.get(i).copied().unwrap_or_else(|| ipc::message_word(i)))))
}

pub(crate) fn write_debug(tcb: Tcb, registers: &[u64; DEBUG_REGISTERS]) -> Option<Result<()>> {
    let mut call = Invocation::new(tcb.cptr(), label::TCBWRITE_REGISTERS, 2 + DEBUG_REGISTERS, 0);
    call.word::<0>(DEBUG);
    call.word::<1>(0);
    call.word::<2>(registers[0]);
    call.word::<3>(registers[1]);
    for (i, &word) in registers.iter().enumerate().skip(2) {
        ipc::set_message_word(2 + i, word);
    }
    Some(call.run().map(|_| ()))
}

/// Attribute of a page: not executable (the project's patch `non-executable-pages`).
pub(crate) const NOT_EXECUTED: u64 = 1 << 3;

pub(crate) fn page_remap(page: Page, vspace: VSpace, _address: u64, rights: u64, attributes: u64) -> Result<()> {
    invoke::x86_page_remap(page, vspace, rights, attributes)
}

/// When a page is not mapped, the kernel does not answer its unmapping: the registers return unchanged.
pub(crate) fn page_unmap(page: Page) -> Result<()> {
    match invoke::x86_page_unmap(page) {
        Err(Error::Unknown(label::X86PAGE_UNMAP)) => Ok(()),
        other => other,
    }
}

/// Mapping with an additional capability (the project's patch `several-pages`).
pub(crate) fn page_map_several(
    page: Page,
    vspace: VSpace,
    address: u64,
    rights: u64,
    attributes: u64,
    several: AdjacentPages,
) -> Option<Result<()>> {
    let mut call = Invocation::new(page.cptr(), label::X86PAGE_MAP, 9, 2);
    call.cap::<0>(vspace.cptr());
    call.cap::<1>(several.cnode.root.cptr());
    call.word::<0>(address);
    call.word::<1>(rights);
    call.word::<2>(attributes);
    call.word::<3>(several.cnode.index);
    call.word::<4>(several.cnode.depth.into());
    call.word::<5>(several.from);
    call.word::<6>(several.to);
    call.word::<7>(several.count);
    call.word::<8>(several.to_index);
    Some(call.run().map(|_| ()))
}

/// Unmapping with an additional capability (the same patch).
pub(crate) fn page_unmap_several(page: Page, several: AdjacentPages) -> Option<Result<()>> {
    let mut call = Invocation::new(page.cptr(), label::X86PAGE_UNMAP, 4, 1);
    call.cap::<0>(several.cnode.root.cptr());
    call.word::<0>(several.to_index);
    call.word::<1>(several.cnode.depth.into());
    call.word::<2>(several.to);
    call.word::<3>(several.count);
    Some(call.run().map(|_| ()))
}

/// Getting an address with an additional capability (the same patch).
pub(crate) fn page_written_several(page: Page, several: AdjacentPages) -> Option<Result<u64>> {
    let mut call = Invocation::new(page.cptr(), label::X86PAGE_GET_ADDRESS, 4, 1);
    call.cap::<0>(several.cnode.root.cptr());
    call.word::<0>(several.to_index);
    call.word::<1>(several.cnode.depth.into());
    call.word::<2>(several.to);
    call.word::<3>(several.count);
    Some(call.run().map(|reply| reply[0]))
}

pub(crate) const KNOWS_WRITTEN: bool = true;

/// Port capabilities are narrowed in the same way as badges are set.
pub(crate) fn issue_ports(_control: IoPortControl, from: Slot, first: u16, last: u16, to: Slot) -> Result<()> {
    to.mint_from(from, Rights::ALL, CapData(u64::from(first) << 16 | u64::from(last)))
}
