// Endpoints: messages that bypass the server and go through a slot of the calling thread (`docs/native.md`). E_* are
// the offsets of the fields of hafnon_endpoint_message_t.

// The number of a message's words that seL4 transfers in registers. The IPC buffer holds the others.
.set IN_REGISTERS, 4
.set COUNT_MASK, 0x7f

.section .text.vdso, "ax", @progbits

// Fails with ZX_ERR_INVALID_ARGS unless edi is a slot for endpoints.
.macro check_slot
    lea eax, [rdi - E_SLOTS_FROM]
    cmp eax, E_SLOTS_END - E_SLOTS_FROM
    jae invalid_message
    mov edi, edi
.endm

// Fails with ZX_ERR_INVALID_ARGS unless the message at this address is valid.
.macro check_message place
    cmp qword ptr [\place + E_COUNT], E_WORDS_MAX
    ja invalid_message
    cmp qword ptr [\place + E_LABEL], E_LABELS
    jae invalid_message
.endm

// Keeps the message's address in r12.
.macro begin_message place
    save_registers
    push r12
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r12, 0
    mov r12, \place
.endm

.macro end_message
    pop r12
    .cfi_adjust_cfa_offset -8
    .cfi_restore r12
    restore_registers
    ret
.endm

// Loads the message at r12 into the registers and the IPC buffer. Adds `added` to its label.
.macro put_message added
    mov rcx, [r12 + E_COUNT]
    mov rsi, [r12 + E_LABEL]
    add rsi, \added
    shl rsi, TAG_LABEL_SHIFT
    or rsi, rcx
    mov r10, [r12 + E_WORDS]
    mov r8, [r12 + E_WORDS + 8]
    mov r9, [r12 + E_WORDS + 16]
    mov r15, [r12 + E_WORDS + 24]
    jmp 2f
1:  mov rax, [r12 + E_WORDS + 8 * rcx]
    mov gs:[MESSAGE + 8 * rcx], rax
2:  dec rcx
    cmp rcx, IN_REGISTERS
    jge 1b
.endm

// Stores the received message at r12. Leaves its label in rsi.
.macro take_message
    mov ecx, esi
    and ecx, COUNT_MASK
    mov eax, E_WORDS_MAX
    cmp ecx, eax
    cmova ecx, eax
    shr rsi, TAG_LABEL_SHIFT
    mov [r12 + E_LABEL], rsi
    mov [r12 + E_COUNT], rcx
    mov [r12 + E_WORDS], r10
    mov [r12 + E_WORDS + 8], r8
    mov [r12 + E_WORDS + 16], r9
    mov [r12 + E_WORDS + 24], r15
    jmp 2f
1:  mov rax, gs:[MESSAGE + 8 * rcx]
    mov [r12 + E_WORDS + 8 * rcx], rax
2:  dec rcx
    cmp rcx, IN_REGISTERS
    jge 1b
.endm

// A receive discards the thread's right to reply to its code in restricted mode. Clearing R_OWED makes the next
// zx_restricted_enter go through the server.
.macro lose_reply
    mov qword ptr gs:[R_OWED], 0
.endm

// edi: slot; rsi: message.
entry zx_endpoint_call
    check_slot
    check_message rsi
    begin_message rsi
    put_message 0
    enter_kernel SEL4_CALL
    take_message
    // A label below E_ANSWERS is an error of the kernel.
    xor eax, eax
    sub rsi, E_ANSWERS
    jae 3f
    mov eax, -24 // ZX_ERR_PEER_CLOSED
    xor esi, esi
    mov [r12 + E_COUNT], rsi
3:  mov [r12 + E_LABEL], rsi
    end_message
end_entry zx_endpoint_call

// edi: slot; esi: options; rdx: message.
entry zx_endpoint_send
    check_slot
    check_message rdx
    test esi, ~E_NO_WAIT
    jnz invalid_message
    begin_message rdx
    // SEL4_NB_SEND is SEL4_SEND - 1, so E_NO_WAIT, which is 1, selects it.
    mov edx, esi
    neg rdx
    add rdx, SEL4_SEND
    put_message 0
    mov rbx, rsp
    syscall
    mov rsp, rbx
    xor eax, eax
    end_message
end_entry zx_endpoint_send

// edi: slot; rsi: address of the message that is written.
entry zx_endpoint_receive
    check_slot
    begin_message rsi
    lose_reply
    xor esi, esi
    enter_kernel SEL4_RECV
    mov [r12 + E_BADGE], rdi
    take_message
    xor eax, eax
    end_message
end_entry zx_endpoint_receive

// rdi: message. Needs no slot: the kernel keeps the reply capability in the thread.
entry zx_endpoint_answer
    check_message rdi
    begin_message rdi
    put_message E_ANSWERS
    xor edi, edi
    enter_kernel SEL4_REPLY
    xor eax, eax
    end_message
end_entry zx_endpoint_answer

// edi: slot; rsi: the answer; the received message replaces it.
entry zx_endpoint_answer_receive
    check_slot
    check_message rsi
    begin_message rsi
    lose_reply
    put_message E_ANSWERS
    enter_kernel SEL4_REPLY_RECV
    mov [r12 + E_BADGE], rdi
    take_message
    xor eax, eax
    end_message
end_entry zx_endpoint_answer_receive

.balign 16
.type invalid_message, @function
invalid_message:
    .cfi_startproc
    mov eax, -10 // ZX_ERR_INVALID_ARGS
    ret
    .cfi_endproc
    .size invalid_message, . - invalid_message
