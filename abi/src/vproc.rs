//! Virtual processors: this system's own, not Zircon's (`docs/virtual-processors.md`).

use crate::hafnon_vproc_state_t;

consts! { TABLE;
    [u64]
        /// [`hafnon_vproc_page_t`]: the code has not stopped yet.
        HAFNON_VPROC_REASON_NONE = 0;
        /// The code made a system call: all general registers are in the state.
        HAFNON_VPROC_REASON_SYSCALL = 1;
        /// A page fault: the page contains its address, instruction and access.
        HAFNON_VPROC_REASON_PAGE_FAULT = 2;
        /// Another exception: the page contains its number and code; instruction, stack pointer and flags are in the
        /// state.
        HAFNON_VPROC_REASON_EXCEPTION = 3;
        /// The code made a system call with a number of seL4, which found no capability: `zx_vproc_state` provides the
        /// registers.
        HAFNON_VPROC_REASON_FOREIGN_CALL = 4;
        /// It was kicked: all registers are in the state.
        HAFNON_VPROC_REASON_KICK = 5;
        /// `code` of a page fault: the page is present, but this access is not allowed.
        HAFNON_VPROC_FAULT_PRESENT = 1;
        /// `code` of a page fault: a store.
        HAFNON_VPROC_FAULT_WRITE = 2;
        /// `code` of a page fault: an instruction fetch. The kernel that is built here reports it, seL4 13 to 16 do
        /// not.
        HAFNON_VPROC_FAULT_FETCH = 16;
        /// Offset of the state in the page.
        HAFNON_VPROC_STATE_OFFSET = 64;
        /// Offset of [`hafnon_vproc_events_t`] in the page.
        HAFNON_VPROC_EVENTS_OFFSET = 256;
        /// Maximum length of a run of `zx_vproc_map`, in bytes.
        HAFNON_VPROC_RUN_MAX = 1 << 20;
    [u32]
        /// `zx_vproc_create`: the code computes with the owner's x87 and vector registers.
        HAFNON_VPROC_SHARED_VECTORS = 1;
        /// `zx_vproc_bind`: packets of the port become events.
        HAFNON_VPROC_BIND = 0;
        /// `zx_vproc_bind`: packets of the port no longer become events.
        HAFNON_VPROC_UNBIND = 1;
}

structs! { STRUCTS;
    #[doc = "The start of the page that a virtual processor shares with its owner."]
    struct hafnon_vproc_page_t {
        /// Why the code stopped last: `HAFNON_VPROC_REASON_*`.
        reason: u64,
        /// The exception's number.
        vector: u64,
        /// The processor's code for it; for a page fault `HAFNON_VPROC_FAULT_*`.
        code: u64,
        /// A page fault's address.
        address: u64,
        /// The instruction that faulted.
        ip: u64,
        /// The owner's slot at which it receives; `zx_vproc_create` stores it here.
        slot: u64,
        /// Zero.
        reserved: [u64; 2],
        /// The registers, as the reason says.
        state: hafnon_vproc_state_t,
    }
    #[doc = "What stands in that page about events."]
    struct hafnon_vproc_events_t {
        /// 1: upcalls report events. 0: events stay pending.
        enabled: u64,
        /// 1: an event has arrived that has not been taken.
        pending: u64,
        /// Entry address of upcalls.
        entry_ip: u64,
        /// The stack pointer at the entry.
        entry_sp: u64,
        /// The owner's code that resumes a state: from the instruction behind the store to `enabled`...
        resume_from: u64,
        /// ...to the first instruction behind that code. An upcall in between leaves `saved` unchanged.
        resume_to: u64,
        /// Address at which the owner keeps the vector registers of interrupted code; the system does not use it.
        vectors: u64,
        /// The instruction at which the last upcall interrupted the owner.
        interrupted: u64,
        /// The registers that the last upcall interrupted.
        saved: hafnon_vproc_state_t,
    }
    #[doc = "Where an upcall keeps what it interrupts uses, and what it calls may use too. The address is a multiple of 16."]
    struct hafnon_vproc_vectors_t {
        /// x87 and SSE, as FXSAVE writes them.
        lower: [u8; 512],
        /// The upper halves of AVX.
        upper: [[u64; 2]; 16],
        /// The arguments of a system call from the fifth on: the interrupted thread may be about to make a call.
        arguments: [u64; 4],
    }
    #[doc = "Pages of a VMO and where they go, for `zx_vproc_map`."]
    struct hafnon_vproc_run_t {
        /// The first address.
        address: u64,
        /// Offset in the VMO.
        offset: u64,
        /// Length in bytes: whole pages.
        len: u64,
        /// `ZX_VM_PERM_*`; 0 to unmap the range.
        options: u32,
        /// Zero.
        reserved: u32,
    }
}
