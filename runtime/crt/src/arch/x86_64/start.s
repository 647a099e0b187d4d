// The first instructions of a program.
    .pushsection .text._start,"ax",@progbits
    .global _start
    .type _start,@function
_start:
    .cfi_startproc
    // Outermost frame: unwinders and debuggers stop here.
    .cfi_undefined rip
    xor ebp, ebp
    and rsp, -16
    mov rsi, qword ptr [rip + main@GOTPCREL]
    call qword ptr [rip + __libc_start_main@GOTPCREL]
    ud2
    .cfi_endproc
    .size _start, . - _start
    .popsection
    // `__dso_handle` identifies this module to `__cxa_atexit`; only its address matters.
    .pushsection .data.rel.ro.__dso_handle,"aw",@progbits
    .global __dso_handle
    .hidden __dso_handle
    .balign 8
    __dso_handle: .quad __dso_handle
    .popsection
