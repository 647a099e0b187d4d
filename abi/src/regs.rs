//! Registers of a thread, as in `zx_thread_read_state` (x86-64).

use crate::zx_exception_report_t;

consts! { TABLE;
    [u32]
        /// [`zx_thread_state_general_regs_t`]
        ZX_THREAD_STATE_GENERAL_REGS = 0;
        /// [`zx_thread_state_fp_regs_t`]
        ZX_THREAD_STATE_FP_REGS = 1;
        /// [`zx_thread_state_vector_regs_t`]
        ZX_THREAD_STATE_VECTOR_REGS = 2;
        /// [`zx_thread_state_debug_regs_t`]
        ZX_THREAD_STATE_DEBUG_REGS = 4;
        /// A `u32`: 1 if the thread stops after each instruction.
        ZX_THREAD_STATE_SINGLE_STEP = 5;
        /// A `u64`: the base of FS.
        ZX_THREAD_X86_REGISTER_FS = 6;
        /// A `u64`: the base of GS.
        ZX_THREAD_X86_REGISTER_GS = 7;
        /// `zx_vcpu_read_state`: [`zx_vcpu_state_t`]
        ZX_VCPU_STATE = 0;
        /// `zx_vcpu_read_state`: an access to an I/O port.
        ZX_VCPU_IO = 1;
    [u64]
        /// Restricted mode ended by a system call.
        ZX_RESTRICTED_REASON_SYSCALL = 0;
        /// Restricted mode ended by an exception.
        ZX_RESTRICTED_REASON_EXCEPTION = 1;
        /// Restricted mode ended by `zx_restricted_kick`.
        ZX_RESTRICTED_REASON_KICK = 2;
        /// The flags that a `zx_restricted_state_t` may have.
        HAFNON_RESTRICTED_FLAGS = 0x24_4dd5;
        /// `zx_restricted_stop`: it was kicked.
        HAFNON_RESTRICTED_STOP_KICK = 0;
        /// `zx_restricted_stop`: a page fault.
        HAFNON_RESTRICTED_STOP_PAGE_FAULT = 1;
        /// `zx_restricted_stop`: another exception.
        HAFNON_RESTRICTED_STOP_EXCEPTION = 2;
}

structs! { STRUCTS;
    #[doc = "`ZX_THREAD_STATE_GENERAL_REGS`"]
    #[allow(missing_docs, reason = "a register needs no description")]
    struct zx_thread_state_general_regs_t {
        rax: u64, rbx: u64, rcx: u64, rdx: u64, rsi: u64, rdi: u64, rbp: u64, rsp: u64,
        r8: u64, r9: u64, r10: u64, r11: u64, r12: u64, r13: u64, r14: u64, r15: u64,
        rip: u64, rflags: u64, fs_base: u64, gs_base: u64,
    }
    #[doc = "`ZX_THREAD_STATE_FP_REGS`: the x87 unit."]
    struct zx_thread_state_fp_regs_t {
        /// Control word.
        fcw: u16,
        /// Status word.
        fsw: u16,
        /// Tag word, abridged.
        ftw: u8,
        /// Zero.
        reserved: u8,
        /// Last opcode.
        fop: u16,
        /// Last instruction.
        fip: u64,
        /// Last operand.
        fdp: u64,
        /// Zero.
        padding1: [u8; 8],
        /// The register stack; the upper six bytes of each register are zero.
        st: [[u64; 2]; 8],
    }
    #[doc = "`ZX_THREAD_STATE_VECTOR_REGS`"]
    struct zx_thread_state_vector_regs_t {
        /// ZMM registers; they contain the narrower ones.
        zmm: [[u64; 8]; 32],
        /// Mask registers.
        opmask: [u64; 8],
        /// Control and status.
        mxcsr: u32,
        /// Zero.
        padding1: [u8; 4],
    }
    #[doc = "`ZX_THREAD_STATE_DEBUG_REGS`"]
    struct zx_thread_state_debug_regs_t {
        /// Addresses.
        dr: [u64; 4],
        /// Status.
        dr6: u64,
        /// Control.
        dr7: u64,
    }
    #[doc = "State of restricted mode, at the start of its VMO."]
    #[allow(missing_docs, reason = "a register needs no description")]
    struct zx_restricted_state_t {
        rdi: u64, rsi: u64, rbp: u64, rbx: u64, rdx: u64, rcx: u64, rax: u64, rsp: u64,
        r8: u64, r9: u64, r10: u64, r11: u64, r12: u64, r13: u64, r14: u64, r15: u64,
        ip: u64, flags: u64, fs_base: u64, gs_base: u64,
    }
    #[doc = "What stands at the start of that VMO after `ZX_RESTRICTED_REASON_EXCEPTION`."]
    struct zx_restricted_exception_t {
        /// The registers.
        state: zx_restricted_state_t,
        /// The exception.
        exception: zx_exception_report_t,
    }
    #[doc = "`ZX_VCPU_STATE`"]
    #[allow(missing_docs, reason = "a register needs no description")]
    struct zx_vcpu_state_t {
        rax: u64, rcx: u64, rdx: u64, rbx: u64, rsp: u64, rbp: u64, rsi: u64, rdi: u64,
        r8: u64, r9: u64, r10: u64, r11: u64, r12: u64, r13: u64, r14: u64, r15: u64,
        rflags: u64,
    }
}
