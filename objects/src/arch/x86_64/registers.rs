//! General registers.

use core::fmt;
use core::mem::offset_of;

use abi::{
    Status, VDSO_RESTRICTED, ZX_THREAD_X86_REGISTER_FS, ZX_THREAD_X86_REGISTER_GS, hafnon_vproc_state_t,
    vdso_restricted, zx_restricted_state_t, zx_thread_state_general_regs_t,
};

use super::call_stack_pointer;
use super::user_registers::{RESUME_FLAG, SET_FLAGS, USER_FLAGS, can_be_base};
use crate::arch::{GeneralRegisters, KeptWord};

/// Whether an address is a valid instruction pointer or FS base for a thread.
pub const fn canonical(address: u64) -> bool {
    address >> 47 == 0
}

/// The general registers of a thread, named as in `zx_thread_state_general_regs_t`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)]
pub struct Registers {
    pub rax: u64,
    pub rbx: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    pub rbp: u64,
    pub rsp: u64,
    pub r8: u64,
    pub r9: u64,
    pub r10: u64,
    pub r11: u64,
    pub r12: u64,
    pub r13: u64,
    pub r14: u64,
    pub r15: u64,
    pub rip: u64,
    pub rflags: u64,
    pub fs_base: u64,
    /// 0 where the kernel below reserves GS.
    pub gs_base: u64,
}

/// Builds a struct of general registers from another one: copies the fields that have the same names in all such
/// structs, and sets the remaining fields as given.
#[macro_export]
macro_rules! general_registers {
    ($from:expr => $to:ident { $($rest:tt)* }) => {
        $to {
            rax: $from.rax,
            rbx: $from.rbx,
            rcx: $from.rcx,
            rdx: $from.rdx,
            rsi: $from.rsi,
            rdi: $from.rdi,
            rbp: $from.rbp,
            rsp: $from.rsp,
            r8: $from.r8,
            r9: $from.r9,
            r10: $from.r10,
            r11: $from.r11,
            r12: $from.r12,
            r13: $from.r13,
            r14: $from.r14,
            r15: $from.r15,
            fs_base: $from.fs_base,
            gs_base: $from.gs_base,
            $($rest)*
        }
    };
}

/// The trap flag, with which a thread stops after each instruction.
const TRAP_FLAG: u64 = 1 << 8;
/// Bytes of a `syscall` instruction.
const SYSCALL_LENGTH: u64 = 2;
/// The processor flags that code in restricted mode may set.
pub const RESTRICTED_FLAGS: u64 = abi::HAFNON_RESTRICTED_FLAGS;

/// Checks that a program may set this base of FS or GS of a thread.
fn base(address: u64) -> Result<u64, Status> {
    if canonical(address) { Ok(address) } else { Err(Status::INVALID_ARGS) }
}

impl Registers {
    /// The GS base belongs to the system: a program can only write the value that it reads.
    fn check_gs_base(&self, wanted: u64) -> Result<(), Status> {
        if base(wanted)? == self.gs_base { Ok(()) } else { Err(Status::NOT_SUPPORTED) }
    }
}

macro_rules! kept {
    ($field:ident) => {
        VDSO_RESTRICTED + offset_of!(vdso_restricted, $field)
    };
}

impl GeneralRegisters for Registers {
    fn initial(ip: u64, sp: u64, [first, second]: [u64; 2]) -> Self {
        Registers { rip: ip, rsp: sp, rdi: first, rsi: second, rflags: SET_FLAGS, ..Registers::default() }
    }

    fn thread_pointer(&self) -> u64 {
        self.fs_base
    }

    fn set_thread_pointer(&mut self, base: u64) {
        self.fs_base = base;
    }

    fn set_reserved(&mut self, value: u64) {
        self.r15 = value;
    }

    fn ip(&self) -> u64 {
        self.rip
    }

    fn sp(&self) -> u64 {
        self.rsp
    }

    fn first_argument(&self) -> u64 {
        self.rdi
    }

    fn frame_pointer(&self) -> u64 {
        self.rbp
    }

    fn result(&self) -> i64 {
        self.rax.cast_signed()
    }

    fn set_result(&mut self, result: i64) {
        self.rax = result.cast_unsigned();
    }

    fn with_saved_sp(self, read: impl FnMut(u64, &mut [u8]) -> bool) -> Self {
        call_stack_pointer::restore(self, read)
    }

    fn skip_call(&mut self) {
        self.rip = self.rip.wrapping_add(SYSCALL_LENGTH);
    }

    fn refuse_call(&mut self, result: Status) -> u32 {
        let number = self.rax as u32;
        self.skip_call();
        self.rax = i64::from(result.0) as u64;
        number
    }

    fn steps(&self) -> bool {
        self.rflags & TRAP_FLAG != 0
    }

    fn set_steps(&mut self, steps: bool) {
        self.rflags = if steps { self.rflags | TRAP_FLAG } else { self.rflags & !TRAP_FLAG };
    }

    fn upcall(&self, ip: u64, sp: u64) -> Self {
        // Only the flags that a program always has; single-stepping continues in the upcall.
        Registers { rip: ip, rsp: sp, rflags: SET_FLAGS | self.rflags & TRAP_FLAG, ..*self }
    }

    fn describe(&self, out: &mut impl fmt::Write) -> fmt::Result {
        let r = self;
        write!(out, "rip {:#x} rsp {:#x} rbp {:#x}", r.rip, r.rsp, r.rbp)?;
        write!(out, "\nrflags {:#x} fs {:#x}", r.rflags, r.fs_base)?;
        write!(
            out,
            "\nrax {:#x} rbx {:#x} rcx {:#x} rdx {:#x} rsi {:#x} rdi {:#x}",
            r.rax, r.rbx, r.rcx, r.rdx, r.rsi, r.rdi
        )?;
        write!(out, "\nr8 {:#x} r9 {:#x} r10 {:#x} r11 {:#x}", r.r8, r.r9, r.r10, r.r11)?;
        write!(out, "\nr12 {:#x} r13 {:#x} r14 {:#x} r15 {:#x}", r.r12, r.r13, r.r14, r.r15)
    }

    fn state(&self) -> zx_thread_state_general_regs_t {
        let r = self;
        general_registers!(r => zx_thread_state_general_regs_t { rip: r.rip, rflags: r.rflags })
    }

    fn set_state(&mut self, new: &zx_thread_state_general_regs_t) -> Result<(), Status> {
        if !canonical(new.rip) {
            return Err(Status::INVALID_ARGS);
        }
        self.check_gs_base(new.gs_base)?;
        base(new.fs_base)?;
        let mut rflags = (self.rflags & !USER_FLAGS) | (new.rflags & USER_FLAGS);
        if new.rip != self.rip {
            // The resume flag was meant for the instruction at which the thread was stopped.
            rflags &= !RESUME_FLAG;
        }
        *self = general_registers!(new => Registers { rip: new.rip, rflags });
        Ok(())
    }

    fn single(&self, kind: u32) -> Option<u64> {
        match kind {
            ZX_THREAD_X86_REGISTER_FS => Some(self.fs_base),
            ZX_THREAD_X86_REGISTER_GS => Some(self.gs_base),
            _ => None,
        }
    }

    fn set_single(&mut self, kind: u32, value: u64) -> Result<(), Status> {
        match kind {
            ZX_THREAD_X86_REGISTER_FS => self.fs_base = base(value)?,
            ZX_THREAD_X86_REGISTER_GS => self.check_gs_base(value)?,
            _ => return Err(Status::INVALID_ARGS),
        }
        Ok(())
    }

    fn of_vproc(state: &hafnon_vproc_state_t) -> Option<Self> {
        let valid = [state.ip, state.fs_base, state.gs_base].into_iter().all(canonical);
        valid.then_some(general_registers!(state => Registers { rip: state.ip, rflags: state.flags }))
    }

    fn to_vproc(&self) -> hafnon_vproc_state_t {
        let r = self;
        general_registers!(r => hafnon_vproc_state_t { ip: r.rip, flags: r.rflags })
    }

    fn of_restricted(s: &zx_restricted_state_t) -> Option<Self> {
        if !canonical(s.ip) || s.flags & !RESTRICTED_FLAGS != 0 || !can_be_base(s.fs_base) || !can_be_base(s.gs_base) {
            return None;
        }
        Some(general_registers!(s => Registers { rip: s.ip, rflags: s.flags }))
    }

    fn to_restricted(&self) -> zx_restricted_state_t {
        let r = self;
        general_registers!(r => zx_restricted_state_t { ip: r.rip, flags: r.rflags & RESTRICTED_FLAGS })
    }

    fn kept(&self) -> [KeptWord; 2] {
        [(kept!(fs_base), self.fs_base), (kept!(gs_base), self.gs_base)]
    }

    fn with_kept(self, word: impl Fn(usize) -> u64) -> Self {
        // GS is the base that the thread was told to set.
        Registers { gs_base: word(kept!(gs_base)), ..self }
    }
}
