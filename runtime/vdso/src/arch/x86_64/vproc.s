// Virtual processors. `docs/virtual-processors.md` describes the steps, abi/src/vproc.rs the page.
//
// The sub-domain's code runs in a seL4 thread of its own, the runner. Its system calls, faults and exceptions arrive as
// messages at the slot that the page names, and a reply resumes it. V_* are the offsets of the page's fields. The
// state's registers have the order of the message's words.

// The number of words in each reply.
.set REPLY_TO_SYSCALL, 18
.set REPLY_TO_EXCEPTION, 3

// Copies words from the state in the page at rcx to the message, or back.
.macro put_state words:vararg
    .irp n, \words
    put_word \n, (V_STATE + 8 * \n)
    .endr
.endm
.macro take_state words:vararg
    .irp n, \words
    take_word \n, (V_STATE + 8 * \n)
    .endr
.endm

// Saves the registers that the call changes. Stores the page and the handle below the stack pointer, in the red zone:
// no code here calls a function.
.set VPROC_HANDLE, -8
.set VPROC_PAGE, -16
.macro begin_vproc page, handle
    save_registers
    mov [rsp + VPROC_HANDLE], \handle
    mov [rsp + VPROC_PAGE], \page
.endm
.macro end_vproc
    restore_registers
    ret
.endm
// Stores the reason and returns. Restores the unwind state for the code that follows.
.macro stop_vproc reason
    mov qword ptr [rcx + V_REASON], \reason
    end_vproc
    .cfi_restore_state
    .cfi_remember_state
.endm

.section .text.vdso, "ax", @progbits

// edi: virtual processor; esi: process; rdx: page.
entry zx_vproc_enter
    begin_vproc rdx, rdi
    mov qword ptr [rdx + V_REASON], VPROC_NONE
    mov r10d, edi
    mov r8d, esi
    enter_server NR_VPROC_START
    mov rcx, [rsp + VPROC_PAGE]
    test eax, eax
    jz vproc_receive
    end_vproc
end_entry zx_vproc_enter

// edi: virtual processor; rsi: page. Replies to the code's last stop, whose reason is in the page.
entry zx_vproc_resume
    begin_vproc rsi, rdi
    .cfi_remember_state
    mov rcx, rsi
    mov rax, [rcx + V_REASON]
    cmp rax, VPROC_SYSCALL
    jne 2f
    put_state 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17
    mov r10, [rcx + V_RAX]
    mov r8, [rcx + V_RBX]
    mov r9, [rcx + V_RCX]
    mov r15, [rcx + V_RDX]
    mov esi, REPLY_TO_SYSCALL
1:  mov rdi, [rcx + V_SLOT]
    enter_kernel SEL4_REPLY_RECV

    // The next message has arrived: a stop of the code, or the doorbell.
vproc_received:
    mov rcx, [rsp + VPROC_PAGE]
    test rdi, rdi
    jnz 7f
    shr rsi, TAG_LABEL_SHIFT
    cmp rsi, LABEL_SYSCALL
    jne 4f
    mov [rcx + V_RAX], r10
    mov [rcx + V_RBX], r8
    mov [rcx + V_RDX], r15
    take_state 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 16
    mov rax, gs:[MESSAGE + 8 * 15]
    add rax, SYSCALL_BYTES
    mov [rcx + V_IP], rax
    // `syscall` put the instruction pointer into rcx and the flags into r11; the kernel did not keep them.
    mov [rcx + V_RCX], rax
    mov rax, gs:[MESSAGE + 8 * 17]
    mov [rcx + V_FLAGS], rax
    mov [rcx + V_R11], rax
    xor eax, eax
    stop_vproc VPROC_SYSCALL

    // The replies to other stops.
2:  cmp rax, VPROC_EXCEPTION
    jne 3f
    mov r10, [rcx + V_IP]
    mov r8, [rcx + V_RSP]
    mov r9, [rcx + V_FLAGS]
    mov esi, REPLY_TO_EXCEPTION
    jmp 1b
3:  cmp rax, VPROC_PAGE_FAULT
    jne 8f
    xor esi, esi
    jmp 1b

    // Not a system call.
4:  xor eax, eax
    cmp rsi, LABEL_PAGE_FAULT
    jne 5f
    mov [rcx + V_FAULT_IP], r10
    mov [rcx + V_ADDRESS], r8
    mov [rcx + V_CODE], r15
    stop_vproc VPROC_PAGE_FAULT
5:  cmp rsi, LABEL_EXCEPTION
    jne 6f
    mov [rcx + V_IP], r10
    mov [rcx + V_RSP], r8
    mov [rcx + V_FLAGS], r9
    mov [rcx + V_FAULT_IP], r10
    mov [rcx + V_VECTOR], r15
    mov rdx, gs:[MESSAGE + 8 * 4]
    mov [rcx + V_CODE], rdx
    stop_vproc VPROC_EXCEPTION
6:  cmp rsi, LABEL_FOREIGN_CALL
    jne 9f
    mov [rcx + V_FAULT_IP], r10
    stop_vproc VPROC_FOREIGN_CALL

    // The doorbell rang, perhaps for an event that the owner took before.
7:  xor eax, eax
    xchg [rcx + V_PENDING], rax
    test rax, rax
    jz vproc_receive
    // The code may be running, so the server stops it (2A).
    mov r10d, [rsp + VPROC_HANDLE]
    enter_server NR_VPROC_STOP
    mov rcx, [rsp + VPROC_PAGE]
    test eax, eax
    jnz 9f
    stop_vproc VPROC_KICK

8:  mov eax, -20 // ZX_ERR_BAD_STATE
    end_vproc
    .cfi_restore_state
    .cfi_remember_state
    // An unknown message, or an error of the server.
9:  stop_vproc VPROC_NONE

    // Receives without a reply. The page is in rcx.
vproc_receive:
    mov rdi, [rcx + V_SLOT]
    xor esi, esi
    enter_kernel SEL4_RECV
    jmp vproc_received
end_entry zx_vproc_resume

// edi: virtual processor; rsi: page.
entry zx_vproc_state
    begin_vproc rsi, rdi
    mov r10d, edi
    enter_server NR_VPROC_STOP
    test eax, eax
    jnz 1f
    mov rcx, [rsp + VPROC_PAGE]
    mov qword ptr [rcx + V_REASON], VPROC_NONE
1:  end_vproc
end_entry zx_vproc_state

// rdi: page. Waits for an event, with events disabled: the doorbell ends the receive.
entry zx_vproc_wait
    begin_vproc rdi, rdi
    jmp 2f
1:  mov rdi, [rcx + V_SLOT]
    xor esi, esi
    enter_kernel SEL4_RECV
2:  mov rcx, [rsp + VPROC_PAGE]
    cmp qword ptr [rcx + V_PENDING], 0
    je 1b
    xor eax, eax
    end_vproc
end_entry zx_vproc_wait

// ---- Upcalls ---------------------------------------------------------------------------------------------------
//
// An upcall starts at vproc_upcall on the upcall stack. At the top of that stack zx_vproc_set_upcall has stored four
// words: the page, the function to call, its argument, and whether the vector registers have upper halves (AVX).

.set UPCALL_BYTES, 32
.set UPCALL_PAGE, 0
.set UPCALL_FUNCTION, 8
.set UPCALL_ARGUMENT, 16
.set UPCALL_HAS_UPPER, 24
// The bytes that a program may use below its stack pointer without moving it, and these plus the two words of R1.
.set RED_ZONE, 128
.set RESUME_BYTES, RED_ZONE + 16

// The bits of CPUID and XCR0 that are set if the processor has AVX and the kernel enables it.
.set OSXSAVE_AND_AVX, 1 << 27 | 1 << 28
.set SSE_AND_AVX, 1 << 1 | 1 << 2

// rdi: page; rsi: top of the upcall stack; rdx: function; rcx: its argument.
entry zx_vproc_set_upcall
    sub rsi, UPCALL_BYTES
    mov [rsi + UPCALL_PAGE], rdi
    mov [rsi + UPCALL_FUNCTION], rdx
    mov [rsi + UPCALL_ARGUMENT], rcx
    // CPUID overwrites rbx.
    mov r8, rbx
    mov eax, 1
    xor ecx, ecx
    cpuid
    mov rbx, r8
    xor r9d, r9d
    and ecx, OSXSAVE_AND_AVX
    cmp ecx, OSXSAVE_AND_AVX
    jne 1f
    xor ecx, ecx
    xgetbv
    and eax, SSE_AND_AVX
    cmp eax, SSE_AND_AVX
    sete r9b
1:  mov [rsi + UPCALL_HAS_UPPER], r9
    mov [rdi + V_ENTRY_SP], rsi
    lea rax, [rip + vproc_upcall]
    mov [rdi + V_ENTRY_IP], rax
    lea rax, [rip + vproc_resume_from]
    mov [rdi + V_RESUME_FROM], rax
    lea rax, [rip + vproc_resume_to]
    mov [rdi + V_RESUME_TO], rax
    ret
end_entry zx_vproc_set_upcall

// XSAVE and XRSTOR would be one instruction for all registers. They are not used, because seL4 13 switches the FPU
// lazily, and in QEMU they do not trap while the registers still hold another thread's values.
.macro save_upper registers:vararg
    .irp n, \registers
    vextractf128 [rcx + U_UPPER + 16 * \n], ymm\n, 1
    .endr
.endm
.macro load_upper registers:vararg
    .irp n, \registers
    vinsertf128 ymm\n, ymm\n, [rcx + U_UPPER + 16 * \n], 1
    .endr
.endm

// On entry all registers except rsp have the values of the interrupted code.
.balign 16
.type vproc_upcall, @function
vproc_upcall:
    .cfi_startproc
    .cfi_undefined rip
    mov rbx, [rsp + UPCALL_PAGE]
    mov rcx, [rbx + V_VECTORS]
    fxsave64 [rcx]
    cmp qword ptr [rsp + UPCALL_HAS_UPPER], 0
    je 1f
    save_upper 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
1:  mov rax, gs:[BUFFER_ARG_5]
    mov [rcx + U_ARGUMENTS], rax
    mov rax, gs:[BUFFER_ARG_6]
    mov [rcx + U_ARGUMENTS + 8], rax
    mov rax, gs:[BUFFER_ARG_7]
    mov [rcx + U_ARGUMENTS + 16], rax
    mov rax, gs:[BUFFER_ARG_8]
    mov [rcx + U_ARGUMENTS + 24], rax
    mov rdi, [rsp + UPCALL_ARGUMENT]
    call [rsp + UPCALL_FUNCTION]
    mov rdi, rbx
    jmp vproc_leave
    .cfi_endproc
    .size vproc_upcall, . - vproc_upcall

// rdi: page. "Resume at user level" in the docs describes the steps R1 to R5.
entry zx_vproc_leave
    .cfi_undefined rip
vproc_leave:
    mov rcx, [rdi + V_VECTORS]
    mov rax, [rdi + V_ENTRY_SP]
    fxrstor64 [rcx]
    cmp qword ptr [rax + UPCALL_HAS_UPPER], 0
    je 1f
    load_upper 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
1:  mov rax, [rcx + U_ARGUMENTS]
    mov gs:[BUFFER_ARG_5], rax
    mov rax, [rcx + U_ARGUMENTS + 8]
    mov gs:[BUFFER_ARG_6], rax
    mov rax, [rcx + U_ARGUMENTS + 16]
    mov gs:[BUFFER_ARG_7], rax
    mov rax, [rcx + U_ARGUMENTS + 24]
    mov gs:[BUFFER_ARG_8], rax
    // R1: stores flags and instruction pointer below the part of the stack that the code uses.
    mov rax, [rdi + V_SAVED_RSP]
    mov rcx, [rdi + V_SAVED_FLAGS]
    mov rdx, [rdi + V_SAVED_IP]
    mov [rax - RESUME_BYTES], rcx
    mov [rax - RESUME_BYTES + 8], rdx
    // R2: loads all registers except rdi.
    mov rax, [rdi + V_SAVED_RAX]
    mov rbx, [rdi + V_SAVED_RBX]
    mov rcx, [rdi + V_SAVED_RCX]
    mov rdx, [rdi + V_SAVED_RDX]
    mov rsi, [rdi + V_SAVED_RSI]
    mov rbp, [rdi + V_SAVED_RBP]
    mov r8, [rdi + V_SAVED_R8]
    mov r9, [rdi + V_SAVED_R9]
    mov r10, [rdi + V_SAVED_R10]
    mov r11, [rdi + V_SAVED_R11]
    mov r12, [rdi + V_SAVED_R12]
    mov r13, [rdi + V_SAVED_R13]
    mov r14, [rdi + V_SAVED_R14]
    mov r15, [rdi + V_SAVED_R15]
    mov rsp, [rdi + V_SAVED_RSP]
    lea rsp, [rsp - RESUME_BYTES]
    // R3: enables events. From the next instruction on, an upcall does not change the save area.
    mov qword ptr [rdi + V_ENABLED], 1
vproc_resume_from:
    // R4: checks for a pending event.
    cmp qword ptr [rdi + V_PENDING], 0
    jne 2f
    // R5: loads the last register and the flags, and jumps.
    mov rdi, [rdi + V_SAVED_RDI]
    popfq
    ret RED_ZONE
    // An event is pending: does what an upcall would do.
2:  mov qword ptr [rdi + V_ENABLED], 0
    mov rsp, [rdi + V_ENTRY_SP]
    jmp [rdi + V_ENTRY_IP]
vproc_resume_to:
end_entry zx_vproc_leave
