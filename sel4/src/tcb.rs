//! Threads.

use crate::cap::cap;
use crate::generated::{USER_CONTEXT_WORDS, invoke};
use crate::message::Message;
use crate::{CNode, CPtr, CapData, Notification, Page, Result, VSpace, family};

cap! {
    /// A thread.
    Tcb
}

/// The registers of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct UserContext {
    pub rip: u64,
    pub rsp: u64,
    pub rflags: u64,
    pub rax: u64,
    pub rbx: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    pub rbp: u64,
    pub r8: u64,
    pub r9: u64,
    pub r10: u64,
    pub r11: u64,
    pub r12: u64,
    pub r13: u64,
    pub r14: u64,
    pub r15: u64,
    /// The base of FS.
    pub fs_base: u64,
    /// The base of GS. Where the kernel keeps it ([`KERNEL_KEEPS_GS`]), it reads as 0, and what is written is ignored.
    pub gs_base: u64,
}

/// How a thread is scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchedParams {
    /// The thread whose maximum controlled priority bounds both numbers. 5.0.0 always takes the caller's.
    pub authority: Tcb,
    /// The priority up to which the thread may itself control others.
    pub max_controlled: u8,
    /// Its priority; higher runs first.
    pub priority: u8,
}

/// All that a thread needs before it can run, but its registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcbConfig {
    /// The address, in the thread's own CSpace, of the endpoint that hears of its faults; NULL for none.
    pub fault_endpoint: CPtr,
    /// The root of its CSpace.
    pub cspace: CNode,
    /// A guard for that root, or none.
    pub cspace_data: CapData,
    /// Its address space.
    pub vspace: VSpace,
    /// The address and the page of its IPC buffer, if it has one. The address must be aligned to 1 KiB ([`crate::ipc::SIZE`]).
    pub ipc_buffer: Option<(u64, Page)>,
    /// How it is scheduled, if that shall be set too.
    pub sched: Option<SchedParams>,
}

/// Words of the state of the FPU: x87, SSE and AVX, as XSAVE writes them.
pub const FPU_WORDS: usize = 832 / 8;

/// Whether [`Tcb::write_registers`] keeps the trap flag, by which the thread stops after its next instruction.
pub const KEEPS_TRAP_FLAG: bool = family::KEEPS_TRAP_FLAG;

/// Whether the kernel keeps the stack pointer of a thread that makes a system call.
pub const KEEPS_STACK_POINTER: bool = family::KEEPS_STACK_POINTER;

/// Whether the kernel tells a thread with a bound notification of its ticks: see [`ticks`](crate::ipc::ticks).
pub const TELLS_TICKS: bool = family::TELLS_TICKS;

/// Whether the kernel keeps GS at the thread's IPC buffer.
pub const KERNEL_KEEPS_GS: bool = family::KERNEL_KEEPS_GS;

/// The FS base of a thread that uses neither FS nor GS. Where the kernel can, it does not set them for it then, and the thread would see
/// what other threads have there.
pub const NO_BASES: u64 = family::NO_BASES;

/// Whether the kernel knows code of other operating systems ([`Tcb::write_foreign`]): an answer to such a system call can set all
/// registers, in two words more also the bases of FS and GS.
pub const RUNS_FOREIGN: bool = family::RUNS_FOREIGN;

/// What a thread did that was to be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// It ran, and runs no more.
    Ran,
    /// It waits to send a message.
    Sends,
    /// It did not run.
    Neither,
}

impl Tcb {
    /// Sets everything at once. One entry of the kernel on 5.0.0 if `sched` is given, two otherwise; from 13 on the other way round.
    pub fn configure(self, config: &TcbConfig) -> Result<()> {
        family::configure(self, config)
    }

    /// Sets both priorities.
    pub fn set_sched_params(self, sched: SchedParams) -> Result<()> {
        family::set_sched_params(self, sched)
    }

    /// Sets the priority alone, which may not be above the authority's maximum controlled one.
    pub fn set_priority(self, authority: Tcb, priority: u8) -> Result<()> {
        family::set_priority(self, authority, priority)
    }

    /// Sets the fault endpoint and both spaces.
    pub fn set_space(self, fault_endpoint: CPtr, cspace: CNode, cspace_data: CapData, vspace: VSpace) -> Result<()> {
        family::set_space(self, fault_endpoint, cspace, cspace_data, vspace)
    }

    /// Sets the IPC buffer.
    pub fn set_ipc_buffer(self, address: u64, page: Page) -> Result<()> {
        invoke::tcb_set_ipcbuffer(self, address, page)
    }

    /// Reads the registers; if asked to, stops the thread first.
    ///
    /// Of a thread that is blocked in a system call, `rip` is the `syscall` instruction itself: to write the registers back without
    /// repeating the call, add 2.
    pub fn read_registers(self, suspend: bool) -> Result<UserContext> {
        let words = invoke::tcb_read_registers(self, suspend, 0_u64, USER_CONTEXT_WORDS as u64)?;
        Ok(UserContext::from_words(&words))
    }

    /// Sets the registers; if asked to, lets the thread run. An instruction address that is no valid one becomes 0, and
    /// of the flags only those that a program may set are taken.
    pub fn write_registers(self, registers: &UserContext, resume: bool) -> Result<()> {
        invoke::tcb_write_registers(self, resume, 0_u64, USER_CONTEXT_WORDS as u64, &registers.to_words())
    }

    /// Sets the registers, the base of GS as well, and lets the thread run if asked to: what it runs from there on is code of another
    /// operating system. Where the kernel can ([`RUNS_FOREIGN`]), it takes none of its system calls for its own, but for those
    /// that a capability of the thread's makes good.
    pub fn write_foreign(self, registers: &UserContext, resume: bool) -> Result<()> {
        family::write_foreign(self, registers, resume)
    }

    /// The thread, which does not run, computes with another's x87 and vector registers from now on, until either goes. `None` where the kernel
    /// does not do that.
    pub fn share_fpu(self, owner: Tcb) -> Option<Result<()>> {
        family::share_fpu(self, owner)
    }

    /// Stops the thread if it runs; a message that it is in stays. `None` where the kernel does not do that.
    pub fn hold(self) -> Option<Result<Held>> {
        family::hold(self)
    }

    /// Reads the x87 and vector registers, in the standard format of XSAVE: `None` where the kernel does not give them.
    pub fn read_fpu(self) -> Option<Result<[u64; FPU_WORDS]>> {
        family::read_fpu(self)
    }

    /// Writes them, all three components, of a thread that does not run. `None` where the kernel does not take them.
    pub fn write_fpu(self, state: &[u64; FPU_WORDS]) -> Option<Result<()>> {
        family::write_fpu(self, state)
    }

    /// Says that the thread never touches x87 and vector registers. Where the kernel can, it leaves those of the thread's callers where
    /// they are, then, while it works for them: the thread is trusted with them. So it takes the capability to domains. A thread may say
    /// it of itself.
    pub fn without_fpu(self, domains: CPtr) -> Result<()> {
        family::without_fpu(self, domains)
    }

    /// How often the timer, which ticks every [`crate::config::TIMER_TICK_MS`], has found the thread running: `None`
    /// where the kernel does not count.
    pub fn read_ticks(self) -> Option<Result<u64>> {
        family::read_ticks(self)
    }

    /// Stops the thread and makes it as a new one is: its registers, the state of the FPU, its ticks. What it is
    /// configured with stays. `None` where the kernel does not do that.
    pub fn reset(self) -> Option<Result<()>> {
        family::reset(self)
    }

    /// Answers the call that the thread has made and that nobody has the right to reply to any more, with a message of one
    /// word. If the thread was suspended meanwhile, and then resumed or not, it goes on behind the call, too.
    #[inline(always)]
    pub fn answer(self, message: Message) {
        family::answer(self, message);
    }

    /// Stops the thread. A system call that it is blocked in is cancelled, and repeated if the thread is resumed.
    pub fn suspend(self) -> Result<()> {
        invoke::tcb_suspend(self)
    }

    /// Lets the thread run.
    pub fn resume(self) -> Result<()> {
        invoke::tcb_resume(self)
    }

    /// Binds a notification: its signals then also arrive when the thread receives on an endpoint.
    pub fn bind_notification(self, notification: Notification) -> Result<()> {
        invoke::tcb_bind_notification(self, notification)
    }

    /// Unbinds it.
    pub fn unbind_notification(self) -> Result<()> {
        invoke::tcb_unbind_notification(self)
    }
}
