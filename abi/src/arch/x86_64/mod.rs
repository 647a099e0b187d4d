//! The 64-bit x86 processors.

use crate::{zx_gpaddr_t, zx_vaddr_t};

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
    #[doc = "`ZX_VCPU_STATE`"]
    #[allow(missing_docs, reason = "a register needs no description")]
    struct zx_vcpu_state_t {
        rax: u64, rcx: u64, rdx: u64, rbx: u64, rsp: u64, rbp: u64, rsi: u64, rdi: u64,
        r8: u64, r9: u64, r10: u64, r11: u64, r12: u64, r13: u64, r14: u64, r15: u64,
        rflags: u64,
    }
    #[doc = "What the processor said about an exception (x86-64)."]
    struct zx_x86_64_exc_data_t {
        /// The vector.
        vector: u64,
        /// The error code, 0 for vectors without one.
        err_code: u64,
        /// The address of a page fault.
        cr2: u64,
    }
    #[doc = "General registers of a virtual processor."]
    #[allow(missing_docs, reason = "a register needs no description")]
    struct hafnon_vproc_state_t {
        rax: u64, rbx: u64, rcx: u64, rdx: u64, rsi: u64, rdi: u64, rbp: u64,
        r8: u64, r9: u64, r10: u64, r11: u64, r12: u64, r13: u64, r14: u64, r15: u64,
        ip: u64, rsp: u64, flags: u64, fs_base: u64, gs_base: u64,
    }
    #[doc = "Payload of `ZX_PKT_TYPE_GUEST_MEM`."]
    struct zx_packet_guest_mem_t {
        /// The address that the guest accessed.
        addr: zx_gpaddr_t,
        /// The root of its page tables.
        cr3: zx_gpaddr_t,
        /// Address of the instruction.
        rip: zx_vaddr_t,
        /// Length of the instruction in bytes, 0 if unknown.
        instruction_size: u8,
        /// Default operand size in bytes.
        default_operand_size: u8,
        /// Zero.
        reserved: [u8; 6],
    }
    #[doc = "What the vDSO keeps of a thread's restricted mode, for the thread and the server."]
    struct vdso_restricted {
        /// Address of the page of its state; 0 if none is bound.
        state: u64,
        /// The slot with which it receives.
        slot: u64,
        /// 1: it left by a system call, and enters again by answering that.
        owed: u64,
        /// 1: it was kicked.
        kicked: u64,
        /// The address at which the thread continues when it leaves restricted mode.
        vector: u64,
        /// The argument that it gets there.
        context: u64,
        /// The FS base with which it was entered; the code cannot change it.
        fs_base: u64,
        /// The GS base with which it was entered; the code cannot change it.
        gs_base: u64,
    }
}
