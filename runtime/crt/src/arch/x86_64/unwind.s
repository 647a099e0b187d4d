// The entry points of the unwinder, with the pointer to the unsafe stack.
    .pushsection .tbss.unsafe_stack,"awT",@nobits
    .balign 8
    .type .Lunsafe_stack,@tls_object
    .Lunsafe_stack: .zero 8
    .popsection
.macro noting name
    .pushsection .text.\name,"ax",@progbits
    .global \name
    .type \name,@function
\name:
    .cfi_startproc
    // 1: save the pointer to the unsafe stack.
    mov rax, qword ptr fs:[0x18]
    mov rcx, qword ptr [rip + .Lunsafe_stack@GOTTPOFF]
    mov qword ptr fs:[rcx], rax
    // 2: tail call, so that the unwinder sees our caller as its own.
    jmp __plain\name
    .cfi_endproc
    .size \name, . - \name
    .popsection
    .endm
    noting _Unwind_RaiseException
    noting _Unwind_Resume
    noting _Unwind_ForcedUnwind
    .pushsection .text.__libunwind_Registers_x86_64_jumpto,"ax",@progbits
    .global __libunwind_Registers_x86_64_jumpto
    .hidden __libunwind_Registers_x86_64_jumpto
    .type __libunwind_Registers_x86_64_jumpto,@function
__libunwind_Registers_x86_64_jumpto:
    .cfi_startproc
    // 3: the registers to load are on the unsafe stack; nothing overwrites them there before they are loaded.
    mov rcx, qword ptr [rip + .Lunsafe_stack@GOTTPOFF]
    mov rax, qword ptr fs:[rcx]
    mov qword ptr fs:[0x18], rax
    jmp __plain__libunwind_Registers_x86_64_jumpto
    .cfi_endproc
    .size __libunwind_Registers_x86_64_jumpto, . - __libunwind_Registers_x86_64_jumpto
    .popsection
