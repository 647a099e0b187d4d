//! Signals: frames on the program's stack, and the return from a handler.
//!
//! 1. A signal arrives ([`Kernel::raise`]). It is pending until its process is about to run and does not mask it.
//! 2. Registers, vector registers and signal mask are saved on the stack, in Linux's layout, and the handler is
//!    entered.
//! 3. The handler returns to code of the program that calls `rt_sigreturn`, which restores all of them, with the
//!    handler's changes.

use super::kernel::{Go, Kernel};
use super::linux::{Layout, Result, Stop, errno, fails, nr, sig};
use super::task::{Action, Info, Task, bit};
use super::vector;

/// Bits of `sa_flags`.
mod sa {
    pub const RESTORER: u64 = 0x0400_0000;
    pub const RESTART: u64 = 0x1000_0000;
    pub const NODEFER: u64 = 0x4000_0000;
    pub const RESETHAND: u64 = 0x8000_0000;
}

/// Size of the area below the stack pointer that the program may use, in bytes.
const RED_ZONE: u64 = 128;
/// Flags that are cleared in a handler: single-step trap and string direction.
const NOT_IN_HANDLER: u64 = 1 << 8 | 1 << 10;

/// Offsets in the frame: the return address, `ucontext_t`, `siginfo_t`.
mod frame {
    pub const CONTEXT: usize = 8;
    pub const REGISTERS: usize = CONTEXT + 40;
    pub const SELECTORS: usize = REGISTERS + 144;
    pub const CODE: usize = REGISTERS + 152;
    pub const TRAP: usize = REGISTERS + 160;
    pub const CR2: usize = REGISTERS + 176;
    pub const VECTOR: usize = REGISTERS + 184;
    pub const MASK: usize = REGISTERS + 256;
    pub const INFO: usize = MASK + 8;
    pub const BYTES: usize = INFO + 128;
}

/// Magic numbers in and after the vector state that mark its size.
const MAGIC: (u32, u32) = (0x4650_5853, 0x4650_5845);

/// The general registers in the order of the frame.
macro_rules! registers {
    ($state:expr) => {{
        let s = $state;
        [
            &mut s.r8,
            &mut s.r9,
            &mut s.r10,
            &mut s.r11,
            &mut s.r12,
            &mut s.r13,
            &mut s.r14,
            &mut s.r15,
            &mut s.rdi,
            &mut s.rsi,
            &mut s.rbp,
            &mut s.rbx,
            &mut s.rdx,
            &mut s.rax,
            &mut s.rcx,
            &mut s.rsp,
            &mut s.ip,
            &mut s.flags,
        ]
    }};
}

impl Kernel<'_> {
    /// Raises a signal for a process that does not run now (step 1).
    pub fn raise(&mut self, pid: u32, signal: u32, info: Info) {
        if let Some(task) = self.tasks.get_mut(&pid).filter(|task| task.end.is_none()) {
            task.signals.raise(signal, info);
            if !task.signals.ignores(signal) {
                self.wake();
            }
        }
    }

    /// Raises a signal that the program itself has caused: it cannot stay pending.
    pub fn force(&mut self, task: &mut Task, signal: u32, info: Info) {
        if task.signals.mask & bit(signal) != 0 || task.signals.ignores(signal) {
            task.signals.actions[signal as usize] = Action::default();
            task.signals.mask &= !bit(signal);
        }
        task.signals.raise(signal, info);
    }

    /// Handles the pending signals before the process runs.
    pub fn deliver(&mut self, task: &mut Task) -> Result<()> {
        while task.end.is_none()
            && let Some((signal, info)) = task.signals.next()
        {
            self.trace(|| format!("{}: signal {signal} {:#x}", task.pid, info.address));
            let action = task.signals.actions[signal as usize];
            if task.signals.ignores(signal) {
                continue;
            }
            // Without that flag the handler has no return address.
            if action.handler == 0 || action.flags & sa::RESTORER == 0 {
                task.end = Some(signal);
                return Ok(());
            }
            self.leave_call(task, action.flags & sa::RESTART != 0);
            match self.enter_handler(task, signal, info, action) {
                Err(Stop::Errno(_)) => task.end = Some(sig::SEGV),
                entered => entered?,
            }
            self.counts.signals += 1;
        }
        Ok(())
    }

    /// A handler interrupts a system call that waits.
    fn leave_call(&mut self, task: &mut Task, restart: bool) {
        let again = restart && !matches!(task.state.rax, nr::PAUSE | nr::NANOSLEEP | nr::CLOCK_NANOSLEEP);
        if std::mem::take(&mut task.in_call) && !again {
            task.until = None;
            task.state.ip += 2;
            task.state.rax = errno::EINTR.wrapping_neg();
        }
        task.waits = false;
    }

    /// Step 2.
    fn enter_handler(&mut self, task: &mut Task, signal: u32, info: Info, action: Action) -> Result<()> {
        let Some(space) = &mut task.space else { return Ok(()) };
        self.go = Go::Enter;
        let mut vector = Layout(self.vector(space)?);
        vector.word(464, MAGIC.0).word(468, vector::BYTES as u32 + 4).long(472, 7).word(480, vector::BYTES as u32);
        let room = task.state.rsp.wrapping_sub(RED_ZONE);
        let vector_at = room.wrapping_sub(vector::BYTES as u64 + 4) & !63;
        let at = (vector_at.wrapping_sub(frame::BYTES as u64) & !15).wrapping_sub(8);
        let mut bytes = Layout::<{ frame::BYTES }>::new();
        // The vector state has its header, and the selectors are those that the processor uses.
        bytes.long(0, action.restorer).long(frame::CONTEXT, 7).long(frame::SELECTORS, 0x2b << 48 | 0x33);
        for (i, register) in registers!(&mut task.state).into_iter().enumerate() {
            bytes.long(frame::REGISTERS + i * 8, *register);
        }
        bytes.long(frame::TRAP, info.trap.0).long(frame::CODE, info.trap.1).long(frame::CR2, info.address);
        bytes.long(frame::VECTOR, vector_at).long(frame::MASK, task.signals.mask);
        bytes.word(frame::INFO, signal).word(frame::INFO + 8, info.code);
        bytes.long(frame::INFO + 16, info.address).word(frame::INFO + 24, info.status);
        let behind = vector_at.wrapping_add(vector::BYTES as u64);
        for (at, bytes) in [(vector_at, &vector.0[..]), (behind, &MAGIC.1.to_le_bytes()), (at, &bytes.0)] {
            space.write((&mut self.memory, &mut self.counts), at, bytes)?;
        }

        let state = &mut task.state;
        (state.ip, state.rsp, state.rax) = (action.handler, at, 0);
        (state.rdi, state.rsi, state.rdx) = (signal.into(), at + frame::INFO as u64, at + frame::CONTEXT as u64);
        state.flags &= !NOT_IN_HANDLER;
        let own = if action.flags & sa::NODEFER != 0 { 0 } else { bit(signal) };
        task.signals.mask |= action.mask | own;
        if action.flags & sa::RESETHAND != 0 {
            task.signals.actions[signal as usize] = Action::default();
        }
        Ok(())
    }

    /// Step 3.
    pub fn return_from_handler(&mut self, task: &mut Task) -> Result<()> {
        let Some(space) = &mut task.space else { return Ok(()) };
        self.go = Go::Enter;
        let mut bytes = Layout::<{ frame::BYTES }>::new();
        let at = task.state.rsp.wrapping_sub(8);
        let mut vector = [0; vector::BYTES];
        let mut read = |space: &mut super::space::Space| {
            space.read((&mut self.memory, &mut self.counts), at, &mut bytes.0)?;
            match bytes.get(frame::VECTOR) {
                0 => Ok(false),
                at => space.read((&mut self.memory, &mut self.counts), at, &mut vector).map(|()| true),
            }
        };
        let whole = match read(space) {
            Ok(true) => self.set_vector(space, &vector)?,
            Ok(false) => true,
            Err(Stop::Errno(_)) => false,
            Err(other) => return Err(other),
        };
        if !whole {
            self.force(task, sig::SEGV, Info::default());
            return Ok(());
        }
        for (i, register) in registers!(&mut task.state).into_iter().enumerate() {
            *register = bytes.get(frame::REGISTERS + i * 8);
        }
        task.signals.mask = bytes.get(frame::MASK) & !(bit(sig::KILL) | bit(sig::STOP));
        Ok(())
    }

    /// `rt_sigaction`.
    pub fn sigaction(&mut self, task: &mut Task, signal: u64, new: u64, old: u64) -> Result<u64> {
        if !(1..=u64::from(sig::LAST)).contains(&signal) {
            return fails(errno::EINVAL);
        }
        let now = task.signals.actions[signal as usize];
        let given = if new != 0 { Some(self.get::<32>(task, new)?) } else { None };
        if old != 0 {
            let mut told = Layout::<32>::new();
            told.long(0, now.handler).long(8, now.flags).long(16, now.restorer).long(24, now.mask);
            self.put(task, old, &told.0)?;
        }
        if let Some(given) = given {
            if [sig::KILL, sig::STOP].contains(&(signal as u32)) {
                return fails(errno::EINVAL);
            }
            let [handler, flags, restorer, mask] = [0, 8, 16, 24].map(|at| given.get(at));
            task.signals.actions[signal as usize] = Action { handler, flags, restorer, mask };
        }
        Ok(0)
    }

    /// `rt_sigprocmask`.
    pub fn sigprocmask(&mut self, task: &mut Task, how: u64, set: u64, old: u64) -> Result<u64> {
        let now = task.signals.mask;
        let given = if set != 0 { Some(self.get::<8>(task, set)?.get(0)) } else { None };
        if old != 0 {
            self.put(task, old, &now.to_le_bytes())?;
        }
        let changed = match (given, how) {
            (None, _) => now,
            (Some(set), 0) => now | set,
            (Some(set), 1) => now & !set,
            (Some(set), 2) => set,
            _ => return fails(errno::EINVAL),
        };
        task.signals.mask = changed & !(bit(sig::KILL) | bit(sig::STOP));
        Ok(0)
    }

    /// `kill`, of one process.
    pub fn kill(&mut self, task: &mut Task, pid: u64, signal: u64) -> Result<u64> {
        let Some(signal) = u32::try_from(signal).ok().filter(|signal| *signal <= sig::LAST) else {
            return fails(errno::EINVAL);
        };
        let info = Info { address: task.pid.into(), ..Info::default() };
        match u32::try_from(pid) {
            Ok(pid) if pid == task.pid => {
                if signal != 0 {
                    task.signals.raise(signal, info);
                }
            }
            Ok(pid) if self.tasks.contains_key(&pid) => {
                if signal != 0 {
                    self.raise(pid, signal, info);
                }
            }
            _ => return fails(errno::ESRCH),
        }
        Ok(0)
    }
}
