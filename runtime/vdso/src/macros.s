// What all entry points share.
//
// A call to the server is seL4's Call on slot 1 of the thread's capability space. On the way in: rdx the kernel's
// operation, rdi the slot, rsi the message's tag, r10 r8 r9 r15 its first four words. On the way out: rsi the tag,
// r10 the result. `syscall` itself takes rcx and r11, and rsp is parked in rbx because the kernel need not keep it.
// All other registers stay as they are.

.set SEL4_CALL, -1
.set SEL4_REPLY_RECV, -2
.set SEL4_RECV, -5
.set SEL4_YIELD, -7
.set SLOT_SERVER, 1
// A tag is a label above twelve bits of lengths. The label is the call's number on the way in; on the way out it is 0
// for a result, and 1 for a result before which other threads come.
.set TAG_LABEL_SHIFT, 12
.set TAG_LENGTH, 4

.section .text.vdso, "ax", @progbits

.macro entry name
    .balign 16
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

// Sends the message and leaves the result in rax. Does not touch the stack.
.macro enter_server number
    mov rdx, SEL4_CALL
    mov edi, SLOT_SERVER
    mov esi, (\number << TAG_LABEL_SHIFT) | TAG_LENGTH
    mov rbx, rsp
    syscall
    mov rsp, rbx
    mov rax, r10
    shr rsi, TAG_LABEL_SHIFT
    jz 777f
    mov rdx, SEL4_YIELD
    mov rbx, rsp
    syscall
    mov rsp, rbx
777:
.endm
