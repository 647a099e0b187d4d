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
    /// The base of GS. If the kernel sets it itself ([`KERNEL_KEEPS_GS`]), it reads as 0, and writes are ignored.
    pub gs_base: u64,
}

/// Scheduling parameters of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchedParams {
    /// The thread whose maximum controlled priority bounds both numbers. 5.0.0 always uses the caller's.
    pub authority: Tcb,
    /// Its maximum controlled priority: the highest priority that it can give to threads.
    pub max_controlled: u8,
    /// Its priority; higher runs first.
    pub priority: u8,
}

/// Everything that a thread needs before it can run, except its registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcbConfig {
    /// The address, in the thread's own CSpace, of its fault endpoint; NULL for none.
    pub fault_endpoint: CPtr,
    /// The root of its CSpace.
    pub cspace: CNode,
    /// A guard for that root, or none.
    pub cspace_data: CapData,
    /// Its address space.
    pub vspace: VSpace,
    /// The address and the page of its IPC buffer, if it has one. The address must be aligned to 1 KiB
    /// ([`crate::ipc::SIZE`]).
    pub ipc_buffer: Option<(u64, Page)>,
    /// Its scheduling parameters, if they are to be set as well.
    pub sched: Option<SchedParams>,
}

/// Words of the FPU state: x87, SSE and AVX in the format of XSAVE.
pub const FPU_WORDS: usize = 832 / 8;

/// The debug registers of a thread: DR0 to DR3, DR6, DR7.
pub const DEBUG_REGISTERS: usize = 6;

/// Whether the kernel keeps debug registers of each thread: [`Tcb::read_debug`], [`Tcb::write_debug`].
pub const HAS_DEBUG_REGISTERS: bool = family::HAS_DEBUG_REGISTERS;

/// Whether [`Tcb::write_registers`] preserves the trap flag, with which the thread stops after its next instruction.
pub const KEEPS_TRAP_FLAG: bool = family::KEEPS_TRAP_FLAG;

/// Whether the kernel preserves the stack pointer of a thread that makes a system call.
pub const KEEPS_STACK_POINTER: bool = family::KEEPS_STACK_POINTER;

/// Whether the kernel reports its ticks to a thread with a bound notification: see [`ticks`](crate::ipc::ticks).
pub const TELLS_TICKS: bool = family::TELLS_TICKS;

/// Whether the kernel sets GS to the thread's IPC buffer.
pub const KERNEL_KEEPS_GS: bool = family::KERNEL_KEEPS_GS;

/// The FS base of a thread that uses neither FS nor GS. The kernel then does not set them for it, if it supports that,
/// and the thread would see the bases of other threads.
pub const NO_BASES: u64 = family::NO_BASES;

/// Whether the kernel supports code of other operating systems ([`Tcb::write_foreign`]): an answer to a system call of
/// such code can set all registers, and in two more words also the bases of FS and GS.
pub const RUNS_FOREIGN: bool = family::RUNS_FOREIGN;

/// What a thread did when it was to be stopped by [`Tcb::hold`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldResult {
    /// It ran, and is stopped now.
    Stopped,
    /// It waits to send a message.
    Sending,
    /// It did not run.
    NotRunning,
}

impl Tcb {
    /// Sets everything at once. One kernel entry on 5.0.0 if `sched` is given, two otherwise; from 13 on the reverse.
    pub fn configure(self, config: &TcbConfig) -> Result<()> {
        family::configure(self, config)
    }

    /// Sets both priorities.
    pub fn set_sched_params(self, sched: SchedParams) -> Result<()> {
        family::set_sched_params(self, sched)
    }

    /// Sets only the priority, which may not be above the authority's maximum controlled priority.
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

    /// Reads the registers. If `suspend` is set, stops the thread first.
    ///
    /// For a thread that is blocked in a system call, `rip` is the `syscall` instruction itself: to write the registers
    /// back without repeating the call, add 2.
    pub fn read_registers(self, suspend: bool) -> Result<UserContext> {
        let words = invoke::tcb_read_registers(self, suspend, 0_u64, USER_CONTEXT_WORDS as u64)?;
        Ok(UserContext::from_words(&words))
    }

    /// Sets the registers, and resumes the thread if `resume` is set. An invalid instruction address becomes 0, and
    /// only those flags are set that a program may set.
    pub fn write_registers(self, registers: &UserContext, resume: bool) -> Result<()> {
        invoke::tcb_write_registers(self, resume, 0_u64, USER_CONTEXT_WORDS as u64, &registers.to_words())
    }

    /// Sets the registers including the GS base, and resumes the thread if `resume` is set: from there on it runs code
    /// of another operating system. If the kernel supports that ([`RUNS_FOREIGN`]), it does not treat the thread's
    /// system calls as its own, except those that name a valid capability of the thread. With `shares` it also does what
    /// [`Tcb::share_fpu`] does.
    ///
    /// # Errors
    /// `IllegalOperation`: the kernel does not support `shares`.
    pub fn write_foreign(self, registers: &UserContext, resume: bool, shares: Option<Tcb>) -> Result<()> {
        family::write_foreign(self, registers, resume, shares)
    }

    /// Makes the thread, which does not run, use another thread's x87 and vector registers from now on, until either is
    /// destroyed. The thread that did so until now is stopped. `None` if the kernel does not support that.
    pub fn share_fpu(self, owner: Tcb) -> Option<Result<()>> {
        family::share_fpu(self, owner)
    }

    /// Stops the thread if it runs; a message that it is sending stays pending. `None` if the kernel does not support
    /// that.
    pub fn hold(self) -> Option<Result<HoldResult>> {
        family::hold(self)
    }

    /// Reads the x87 and vector registers, in the standard format of XSAVE. `None` if the kernel does not provide them.
    pub fn read_fpu(self) -> Option<Result<[u64; FPU_WORDS]>> {
        family::read_fpu(self)
    }

    /// Writes them, all three components, for a thread that does not run. `None` if the kernel does not support that.
    pub fn write_fpu(self, state: &[u64; FPU_WORDS]) -> Option<Result<()>> {
        family::write_fpu(self, state)
    }

    /// Reads the debug registers. DR6 has the breakpoints that the thread's last debug exception was for, and whether it
    /// was a single step. `None` if the kernel does not provide them.
    pub fn read_debug(self) -> Option<Result<[u64; DEBUG_REGISTERS]>> {
        family::read_debug(self)
    }

    /// Writes them. The kernel refuses addresses that are not a program's, breakpoints on I/O, breakpoints that are not
    /// aligned to their length, and reserved bits of DR7. `None` if the kernel does not support that.
    pub fn write_debug(self, registers: &[u64; DEBUG_REGISTERS]) -> Option<Result<()>> {
        family::write_debug(self, registers)
    }

    /// Declares that the thread never uses x87 and vector registers. If the kernel supports that, it leaves the
    /// registers of the thread's callers in the processor while the thread works for them, so the thread must be
    /// trusted with them. Therefore the call needs the capability to domains. A thread may declare it of itself.
    pub fn without_fpu(self, domains: CPtr) -> Result<()> {
        family::without_fpu(self, domains)
    }

    /// How often the timer, which ticks every [`crate::config::TIMER_TICK_MS`], has found the thread running. `None` if
    /// the kernel does not count.
    pub fn read_ticks(self) -> Option<Result<u64>> {
        family::read_ticks(self)
    }

    /// For how many counts of the time-stamp counter the processor has been idle, whichever thread this is; it may be the
    /// caller. `None` if the kernel does not sum them up.
    pub fn read_idle_counts(self) -> Option<Result<u64>> {
        family::read_idle_counts(self)
    }

    /// Stops the thread and resets it to the state of a new one: its registers, its FPU state, its ticks. Its
    /// configuration stays. `None` if the kernel does not support that.
    pub fn reset(self) -> Option<Result<()>> {
        family::reset(self)
    }

    /// Answers the call that the thread has made and for which no reply capability exists any more, with a message of
    /// one word. The thread then continues after the call, even if it was suspended meanwhile, resumed or not.
    #[inline(always)]
    pub fn answer(self, message: Message) {
        family::answer(self, message);
    }

    /// Stops the thread. A system call in which it is blocked is cancelled, and repeated when the thread is resumed.
    pub fn suspend(self) -> Result<()> {
        invoke::tcb_suspend(self)
    }

    /// Resumes the thread.
    pub fn resume(self) -> Result<()> {
        invoke::tcb_resume(self)
    }

    /// Binds a notification: its signals then also arrive when the thread receives on an endpoint.
    pub fn bind_notification(self, notification: Notification) -> Result<()> {
        invoke::tcb_bind_notification(self, notification)
    }

    /// Unbinds the notification.
    pub fn unbind_notification(self) -> Result<()> {
        invoke::tcb_unbind_notification(self)
    }
}
