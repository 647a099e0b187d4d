// Constants and macros of all entry points.
//
// A call to the server is seL4's Call on slot 1 of the thread's capability space. Inputs: rdx is the kernel's
// operation, rdi the slot, rsi the message's tag, and r10, r8, r9, r15 are the message's first four words. Outputs: rsi
// is the tag, r10 the result. `syscall` itself overwrites rcx and r11. rsp is saved in rbx, because the kernel need not
// preserve it. All other registers keep their values.

.set SEL4_CALL, -1
.set SEL4_REPLY_RECV, -2
.set SEL4_SEND, -3
.set SEL4_NB_SEND, -4
.set SEL4_RECV, -5
.set SEL4_REPLY, -6
.set SEL4_YIELD, -7
.set SLOT_SERVER, 1
// A tag holds a label above twelve bits of lengths. In a request, the label is the call's number. In a reply, it is 0,
// or 1 if the thread must yield to other threads before it returns the result.
.set TAG_LABEL_SHIFT, 12
.set TAG_LENGTH, 4

// Labels of the messages that the kernel sends when a runner stops. A runner is the seL4 thread that runs the code of
// restricted mode or of a sub-domain.
.set LABEL_FOREIGN_CALL, 1
.set LABEL_SYSCALL, 2
.set LABEL_EXCEPTION, 3
.set LABEL_PAGE_FAULT, 5
.set SYSCALL_BYTES, 2

// Copies a word that seL4 transfers in the IPC buffer: from the state at rcx to the message, or back.
.macro put_word index, field
    mov rax, [rcx + \field]
    mov gs:[MESSAGE + 8 * \index], rax
.endm
.macro take_word index, field
    mov rax, gs:[MESSAGE + 8 * \index]
    mov [rcx + \field], rax
.endm

.section .text.vdso, "ax", @progbits

// An alignment of 4 keeps all entries within five pages, which each process maps.
.macro entry name
    .balign 4
    .globl \name
    .type \name, @function
\name:
    .cfi_startproc
.endm

.macro end_entry name
    .cfi_endproc
    .size \name, . - \name
.endm

.set SAVED_BYTES, 16
.macro save_registers
    push rbx
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset rbx, 0
    push r15
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r15, 0
.endm

.macro restore_registers
    pop r15
    .cfi_adjust_cfa_offset -8
    .cfi_restore r15
    pop rbx
    .cfi_adjust_cfa_offset -8
    .cfi_restore rbx
.endm

// Enters the kernel. All other arguments are in registers already.
.macro enter_kernel operation
.if \operation == -1
    or rdx, -1 // Three bytes shorter than a `mov`, in each entry.
.else
    mov rdx, \operation
.endif
    mov rbx, rsp
    syscall
    mov rsp, rbx
.endm

// Calls the server and leaves the result in rax. Yields first if the reply asks for it. Does not access the stack.
.macro enter_server number
    mov edi, SLOT_SERVER
    mov esi, (\number << TAG_LABEL_SHIFT) | TAG_LENGTH
    enter_kernel SEL4_CALL
    mov rax, r10
    shr rsi, TAG_LABEL_SHIFT
    jz 777f
    enter_kernel SEL4_YIELD
777:
.endm
