//! For `build.rs`: where the registers are in the structures that hold them.

use std::fmt;
use std::mem::offset_of;

use abi::{
    VDSO_RESTRICTED, hafnon_vproc_events_t, hafnon_vproc_page_t, hafnon_vproc_state_t, vdso_restricted,
    zx_restricted_state_t,
};

/// Defines the offsets for the assembler.
pub fn offsets(set: &mut impl FnMut(&str, usize) -> fmt::Result) -> fmt::Result {
    set("R_FS_BASE", VDSO_RESTRICTED + offset_of!(vdso_restricted, fs_base))?;
    set("R_GS_BASE", VDSO_RESTRICTED + offset_of!(vdso_restricted, gs_base))?;
    macro_rules! state {
        ($($name:literal $field:ident)*) => { $(set($name, offset_of!(zx_restricted_state_t, $field))?;)* };
    }
    state!("S_RDI" rdi "S_RSI" rsi "S_RBP" rbp "S_RBX" rbx "S_RDX" rdx "S_RCX" rcx "S_RAX" rax "S_RSP" rsp);
    state!("S_R8" r8 "S_R9" r9 "S_R10" r10 "S_R11" r11 "S_R12" r12 "S_R13" r13 "S_R14" r14 "S_R15" r15);
    state!("S_IP" ip "S_FLAGS" flags "S_FS_BASE" fs_base "S_GS_BASE" gs_base);
    let events = abi::HAFNON_VPROC_EVENTS_OFFSET as usize;
    let state = offset_of!(hafnon_vproc_page_t, state);
    macro_rules! registers {
        ($from:expr, $($name:literal $field:ident)*) => {
            $(set($name, $from + offset_of!(hafnon_vproc_state_t, $field))?;)*
        };
    }
    registers!(state, "V_RAX" rax "V_RBX" rbx "V_RCX" rcx "V_RDX" rdx "V_R11" r11 "V_IP" ip "V_RSP" rsp "V_FLAGS" flags);
    let saved = events + offset_of!(hafnon_vproc_events_t, saved);
    registers!(saved, "V_SAVED_RAX" rax "V_SAVED_RBX" rbx "V_SAVED_RCX" rcx "V_SAVED_RDX" rdx "V_SAVED_RSI" rsi);
    registers!(saved, "V_SAVED_RDI" rdi "V_SAVED_RBP" rbp "V_SAVED_R8" r8 "V_SAVED_R9" r9 "V_SAVED_R10" r10);
    registers!(saved, "V_SAVED_R11" r11 "V_SAVED_R12" r12 "V_SAVED_R13" r13 "V_SAVED_R14" r14 "V_SAVED_R15" r15);
    registers!(saved, "V_SAVED_IP" ip "V_SAVED_RSP" rsp "V_SAVED_FLAGS" flags);
    Ok(())
}
