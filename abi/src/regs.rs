//! State of a thread and of restricted mode. The registers are in [`crate::arch`].

use crate::{zx_exception_report_t, zx_restricted_state_t};

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
    #[doc = "What stands at the start of that VMO after `ZX_RESTRICTED_REASON_EXCEPTION`."]
    struct zx_restricted_exception_t {
        /// The registers.
        state: zx_restricted_state_t,
        /// The exception.
        exception: zx_exception_report_t,
    }
}
