//! Virtual processors: this system's own, Zircon has none (`docs/virtual-processors.md`).

consts! { TABLE;
    [u64]
        /// [`hafnon_vproc_page_t`]: it has not come back yet.
        HAFNON_VPROC_REASON_NONE = 0;
        /// The code made a system call: all general registers are in the state.
        HAFNON_VPROC_REASON_SYSCALL = 1;
        /// A page fault: address, instruction and access are told.
        HAFNON_VPROC_REASON_PAGE_FAULT = 2;
        /// Another exception: its number and code are told, and instruction, stack pointer and flags are in the state.
        HAFNON_VPROC_REASON_EXCEPTION = 3;
        /// The code made a system call by a number of the kernel beneath, which found no capability: `zx_vproc_state` tells
        /// the registers.
        HAFNON_VPROC_REASON_FOREIGN_CALL = 4;
        /// It was kicked: all registers are in the state.
        HAFNON_VPROC_REASON_KICK = 5;
        /// `code` of a page fault: the page is there, but not for this.
        HAFNON_VPROC_FAULT_PRESENT = 1;
        /// `code` of a page fault: a store.
        HAFNON_VPROC_FAULT_WRITE = 2;
        /// `code` of a page fault: an instruction fetch. Told by the kernel that is built here, not by seL4 13 to 16.
        HAFNON_VPROC_FAULT_FETCH = 16;
        /// Where in the page the state begins.
        HAFNON_VPROC_STATE_OFFSET = 64;
        /// Where in the page [`hafnon_vproc_events_t`] begins.
        HAFNON_VPROC_EVENTS_OFFSET = 256;
        /// The longest of a `zx_vproc_map`'s runs, in bytes.
        HAFNON_VPROC_RUN_MAX = 1 << 20;
    [u32]
        /// `zx_vproc_bind`: packets of the port are events from now on.
        HAFNON_VPROC_BIND = 0;
        /// `zx_vproc_bind`: they are no longer.
        HAFNON_VPROC_UNBIND = 1;
}

structs! { STRUCTS;
    #[doc = "General registers of a virtual processor."]
    #[allow(missing_docs, reason = "a register needs no description")]
    struct hafnon_vproc_state_t {
        rax: u64, rbx: u64, rcx: u64, rdx: u64, rsi: u64, rdi: u64, rbp: u64,
        r8: u64, r9: u64, r10: u64, r11: u64, r12: u64, r13: u64, r14: u64, r15: u64,
        ip: u64, rsp: u64, flags: u64, fs_base: u64, gs_base: u64,
    }
    #[doc = "The start of the page that a virtual processor shares with its owner."]
    struct hafnon_vproc_page_t {
        /// Why it came back last: `HAFNON_VPROC_REASON_*`.
        reason: u64,
        /// The exception's number.
        vector: u64,
        /// The processor's code for it; of a page fault `HAFNON_VPROC_FAULT_*`.
        code: u64,
        /// A page fault's address.
        address: u64,
        /// The instruction that faulted.
        ip: u64,
        /// The owner's slot at which it receives, as `zx_vproc_create` has told it.
        slot: u64,
        /// Zero.
        reserved: [u64; 2],
        /// See there.
        state: hafnon_vproc_state_t,
    }
    #[doc = "What stands in that page about events."]
    struct hafnon_vproc_events_t {
        /// 1: events are told by upcalls. 0: they stay pending.
        enabled: u64,
        /// 1: an event has come that was not taken.
        pending: u64,
        /// Where an upcall goes.
        entry_ip: u64,
        /// The stack pointer that it has there.
        entry_sp: u64,
        /// Where in the owner's code a state is resumed: from the instruction behind the store to `enabled`...
        resume_from: u64,
        /// ...to the first instruction behind. An upcall there leaves `saved` as it is.
        resume_to: u64,
        /// Where the owner keeps the vector registers of what an upcall interrupts; the system does not look at it.
        vectors: u64,
        /// Where the last upcall found the owner.
        interrupted: u64,
        /// What the last upcall interrupted.
        saved: hafnon_vproc_state_t,
    }
    #[doc = "Where an upcall keeps what it interrupts uses, and what it calls may use too. The address is a multiple of 16."]
    struct hafnon_vproc_vectors_t {
        /// x87 and SSE, as FXSAVE writes them.
        lower: [u8; 512],
        /// The upper halves of AVX.
        upper: [[u64; 2]; 16],
        /// The thread's arguments of a call behind the fourth: it may be about to make one.
        arguments: [u64; 4],
    }
    #[doc = "Pages of a VMO and where they go, for `zx_vproc_map`."]
    struct hafnon_vproc_run_t {
        /// The first address.
        address: u64,
        /// Where in the VMO.
        offset: u64,
        /// How much, in bytes: whole pages.
        len: u64,
        /// `ZX_VM_PERM_*`; 0 to unmap what is there.
        options: u32,
        /// Zero.
        reserved: u32,
    }
}
