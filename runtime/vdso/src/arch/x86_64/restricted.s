// Restricted mode. The numbers in parentheses are the steps in `docs/virtual-processors.md`. R_* are the offsets of the
// fields of `vdso_restricted` behind the IPC buffer (abi/src/vdso.rs).
//
// The restricted code runs in a seL4 thread of its own, the runner. Its system calls, faults and exceptions arrive as
// messages at the slot in R_SLOT, and a reply resumes it. While it runs, only two words of the caller are kept: the
// vector and the context. All other registers of the caller are lost.

// Words of the reply to a system call: all general registers, instruction pointer, stack pointer, flags and both bases.
.set ANSWER_WORDS, 20

.section .text.vdso, "ax", @progbits

// edi: options; rsi: the vector, at which the thread continues in normal mode; rdx: the context, which it gets there.
entry zx_restricted_enter
    // The fast path (2) needs a system call that waits for its reply, valid arguments, no kick and a valid state. In
    // every other case the server handles the call.
    cmp qword ptr gs:[R_OWED], 1
    jne 7f
    test edi, edi
    jnz 7f
    mov rax, rsi
    shr rax, 47
    jnz 7f
    cmp qword ptr gs:[R_KICKED], 0
    jne 7f
    mov rcx, gs:[R_STATE]
    mov r8, [rcx + S_IP]
    mov rax, r8
    shr rax, 47
    jnz 7f
    mov r9, [rcx + S_FLAGS]
    test r9, ~R_FLAGS
    jnz 7f
    // A base is canonical if its upper 17 bits are equal.
    mov r10, [rcx + S_FS_BASE]
    mov rax, r10
    sar rax, 47
    inc rax
    cmp rax, 1
    ja 7f
    mov r11, [rcx + S_GS_BASE]
    mov rax, r11
    sar rax, 47
    inc rax
    cmp rax, 1
    ja 7f

    // Resumes the code by the reply to its last system call (2).
    mov gs:[R_VECTOR], rsi
    mov gs:[R_CONTEXT], rdx
    mov gs:[R_FS_BASE], r10
    mov gs:[R_GS_BASE], r11
    put_word 4, S_RSI
    put_word 5, S_RDI
    put_word 6, S_RBP
    put_word 7, S_R8
    put_word 8, S_R9
    put_word 9, S_R10
    put_word 10, S_R11
    put_word 11, S_R12
    put_word 12, S_R13
    put_word 13, S_R14
    put_word 14, S_R15
    mov gs:[MESSAGE + 8 * 15], r8
    put_word 16, S_RSP
    mov gs:[MESSAGE + 8 * 17], r9
    mov gs:[MESSAGE + 8 * 18], r10
    mov gs:[MESSAGE + 8 * 19], r11
    mov r10, [rcx + S_RAX]
    mov r8, [rcx + S_RBX]
    mov r9, [rcx + S_RCX]
    mov r15, [rcx + S_RDX]
    mov esi, ANSWER_WORDS
1:  mov rdx, SEL4_REPLY_RECV

    // Receives the next message of the code; a system call is (3).
2:  mov rdi, gs:[R_SLOT]
    mov rbx, rsp
    syscall
    mov rsp, rbx
    test rdi, rdi
    jnz 5f
    shr rsi, TAG_LABEL_SHIFT
    cmp rsi, LABEL_SYSCALL
    jne 4f
    mov rcx, gs:[R_STATE]
    mov [rcx + S_RAX], r10
    mov [rcx + S_RBX], r8
    mov [rcx + S_RDX], r15
    take_word 4, S_RSI
    take_word 5, S_RDI
    take_word 6, S_RBP
    take_word 7, S_R8
    take_word 8, S_R9
    take_word 9, S_R10
    take_word 11, S_R12
    take_word 12, S_R13
    take_word 13, S_R14
    take_word 14, S_R15
    take_word 16, S_RSP
    mov rax, gs:[MESSAGE + 8 * 15]
    add rax, SYSCALL_BYTES
    mov [rcx + S_IP], rax
    mov rax, gs:[MESSAGE + 8 * 17]
    and eax, R_FLAGS
    mov [rcx + S_FLAGS], rax
    mov rax, gs:[R_FS_BASE]
    mov [rcx + S_FS_BASE], rax
    mov rax, gs:[R_GS_BASE]
    mov [rcx + S_GS_BASE], rax
    // `syscall` has overwritten rcx and r11. The state has 0 in both, as in Zircon.
    xor esi, esi
    mov [rcx + S_RCX], rsi
    mov [rcx + S_R11], rsi
    mov qword ptr gs:[R_OWED], 1
3:  mov rdi, gs:[R_CONTEXT]
    jmp qword ptr gs:[R_VECTOR]

    // Not a system call (4): reports to the server the kind of stop in r10, the address or exception number in r8, and
    // the error code in r9.
4:  cmp rsi, LABEL_PAGE_FAULT
    jne 41f
    mov r9, r15
    mov r10d, STOP_PAGE_FAULT
    jmp 6f
41: cmp rsi, LABEL_EXCEPTION
    jne 51f
    mov r8, r15
    mov r9, gs:[MESSAGE + 8 * 4]
    mov r10d, STOP_EXCEPTION
    jmp 6f
    // The doorbell rang (5), perhaps for a kick that was reported before.
5:  xor eax, eax
    xchg gs:[R_KICKED], rax
    mov r10d, STOP_KICK
    test rax, rax
    jnz 6f
51: xor esi, esi
    mov rdx, SEL4_RECV
    jmp 2b
6:  enter_server NR_RESTRICTED_STOP
    xor esi, esi
    test rax, rax
    jz 1b
    mov rsi, rax
    jns 3b
    // An error from the server: cannot happen, and the caller's registers are gone, so there is nowhere to return.
    ud2

    // Enters through the server (2).
7:  save_registers
    push rsi
    .cfi_adjust_cfa_offset 8
    push rdx
    .cfi_adjust_cfa_offset 8
    mov r10d, edi
    mov r8, rsi
    mov r9, rdx
    enter_server NR_RESTRICTED_ENTER
    pop rdx
    .cfi_adjust_cfa_offset -8
    pop rsi
    .cfi_adjust_cfa_offset -8
    restore_registers
    test rax, rax
    js 8f
    mov gs:[R_VECTOR], rsi
    mov gs:[R_CONTEXT], rdx
    mov rsi, rax
    jnz 3b
    mov rdx, SEL4_RECV
    jmp 2b
8:  ret
end_entry zx_restricted_enter
