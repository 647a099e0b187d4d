// The calls whose code is written by hand. The stubs of all other calls are generated from `abi/syscalls/`.

// ---- Answered from the data of the vDSO ------------------------------------------------------------------------

// Reads the time in nanoseconds into rax: the tick counter plus the offset in that field, converted to nanoseconds.
// Preserves rdi and rsi. The product has 128 bits. The quotient fits in 64 bits if the machine has run for less than
// 584 years.
.macro time_from_ticks offset
    rdtsc
    shl rdx, 32
    or rax, rdx
    add rax, [rip + DATA_TIME_VALUES + \offset]
    mov ecx, [rip + DATA_TIME_VALUES + T_NUMERATOR]
    mul rcx
    mov ecx, [rip + DATA_TIME_VALUES + T_DENOMINATOR]
    div rcx
.endm

entry zx_clock_get_monotonic
    time_from_ticks T_MONO_TICKS_OFFSET
    ret
end_entry zx_clock_get_monotonic

entry zx_clock_get_boot
    time_from_ticks T_BOOT_TICKS_OFFSET
    ret
end_entry zx_clock_get_boot

entry zx_deadline_after
    time_from_ticks T_MONO_TICKS_OFFSET
    add rax, rdi
    jo 1f
    ret
1:  // Overflow: returns the largest value of the type, or the smallest one for a negative duration.
    movabs rax, 0x7fffffffffffffff
    sar rdi, 63
    xor rax, rdi
    ret
end_entry zx_deadline_after

entry zx_ticks_get
    rdtsc
    shl rdx, 32
    or rax, rdx
    add rax, [rip + DATA_TIME_VALUES + T_MONO_TICKS_OFFSET]
    ret
end_entry zx_ticks_get

entry zx_ticks_get_boot
    rdtsc
    shl rdx, 32
    or rax, rdx
    add rax, [rip + DATA_TIME_VALUES + T_BOOT_TICKS_OFFSET]
    ret
end_entry zx_ticks_get_boot

entry zx_ticks_per_second
    mov rax, [rip + DATA_TIME_VALUES + T_TICKS_PER_SECOND]
    ret
end_entry zx_ticks_per_second

entry zx_system_get_num_cpus
    mov eax, [rip + DATA_CONSTANTS + C_MAX_NUM_CPUS]
    ret
end_entry zx_system_get_num_cpus

entry zx_system_get_page_size
    mov eax, [rip + DATA_CONSTANTS + C_PAGE_SIZE]
    ret
end_entry zx_system_get_page_size

entry zx_system_get_dcache_line_size
    mov eax, [rip + DATA_CONSTANTS + C_DCACHE_LINE_SIZE]
    ret
end_entry zx_system_get_dcache_line_size

entry zx_system_get_physmem
    mov rax, [rip + DATA_CONSTANTS + C_PHYSMEM]
    ret
end_entry zx_system_get_physmem

// ---- Answered from a mapped clock ------------------------------------------------------------------------------
//
// A seqlock protects a clock's page. The first word is the sequence number. To update the page, the server makes the
// number odd, changes the details, and makes the number even again. A reader (1) waits for an even number, (2) reads
// the details and the time, (3) starts again if the number has changed. Loads are not reordered with loads, nor stores
// with stores, so no fence is needed.

// rdi: address of the mapped clock; rsi: address of the result.
entry zx_clock_read_mapped
    test rsi, rsi
    jz 7f
1:  mov r11d, [rdi] // (1)
    test r11d, 1
    jnz 1b
    mov r8, [rdi + CLOCK_REFERENCE] // (2)
    mov r9, [rdi + CLOCK_SYNTHETIC]
    mov r10d, [rdi + CLOCK_RATE_SYNTHETIC]
    mov edx, [rdi + CLOCK_RATE_REFERENCE]
    push rdx
    .cfi_adjust_cfa_offset 8
    time_from_ticks T_MONO_TICKS_OFFSET
    pop rdx
    .cfi_adjust_cfa_offset -8
    cmp r11d, [rdi] // (3)
    jne 1b
    mov r11, rdx
    test r11, r11 // The page is not a clock's.
    jz 7f
    // The time since the last update, less than 2^64 in either direction: its magnitude in rax, its sign in ecx.
    xor ecx, ecx
    cmp rax, r8
    jge 2f
    inc ecx
    xchg rax, r8
2:  sub rax, r8
    // Multiplied by the rate: a quotient of 128 bits in r8 and rax, the remainder in rdx.
    mul r10
    mov r8, rax
    mov rax, rdx
    xor edx, edx
    div r11
    xchg rax, r8
    div r11
    test ecx, ecx
    jz 3f
    // Negative: rounds down, that is, away from zero.
    neg rdx
    adc rax, 0
    adc r8, 0
    neg rax
    adc r8, 0
    neg r8
    // Adds the clock's value at its last update; saturates if the sum does not fit in 64 bits.
3:  mov rdx, r9
    sar rdx, 63
    add rax, r9
    adc r8, rdx
    mov rdx, rax
    sar rdx, 63
    cmp rdx, r8
    je 4f
    movabs rax, 0x7fffffffffffffff
    sar r8, 63
    xor rax, r8
4:  mov rdx, [rdi + CLOCK_BACKSTOP]
    cmp rax, rdx
    cmovl rax, rdx
    mov [rsi], rax
    xor eax, eax
    ret
7:  mov eax, -10 // ZX_ERR_INVALID_ARGS
    ret
end_entry zx_clock_read_mapped

// rdi: address of the mapped clock; rsi: version of the details; rdx: address of the result.
entry zx_clock_get_details_mapped
    movabs rax, 0x0400000000000000 // ZX_CLOCK_ARGS_VERSION_1
    cmp rsi, rax
    jne 7f
    test rdx, rdx
    jz 7f
    mov r9, rdx
1:  mov r11d, [rdi] // (1)
    test r11d, 1
    jnz 1b
    xor ecx, ecx // (2)
2:  mov rax, [rdi + rcx + CLOCK_DETAILS]
    mov [r9 + rcx], rax
    add ecx, 8
    cmp ecx, CLOCK_DETAILS_SIZE
    jb 2b
    rdtsc
    shl rdx, 32
    or rax, rdx
    add rax, [rip + DATA_TIME_VALUES + T_MONO_TICKS_OFFSET]
    mov [r9 + CLOCK_QUERY_TICKS], rax
    cmp r11d, [rdi] // (3)
    jne 1b
    xor eax, eax
    ret
7:  mov eax, -10 // ZX_ERR_INVALID_ARGS
    ret
end_entry zx_clock_get_details_mapped

// ---- Answered from the data of the vDSO ------------------------------------------------------------------------

// Returns a structure of two words, in rax and rdx.
entry zx_system_get_version_string
    lea rax, [rip + DATA_CONSTANTS + C_VERSION_STRING]
    mov rdx, [rip + DATA_CONSTANTS + C_VERSION_STRING_LEN]
    ret
end_entry zx_system_get_version_string

// edi: kind, an index into the five features; rsi: address of the result.
entry zx_system_get_features
    mov edi, edi
    cmp edi, 5
    jae 1f
    lea rax, [rip + DATA_CONSTANTS + C_FEATURES]
    mov eax, [rax + 4 * rdi]
    mov [rsi], eax
    xor eax, eax
    ret
1:  mov eax, -2 // ZX_ERR_NOT_SUPPORTED
    ret
end_entry zx_system_get_features

entry zx_status_get_string
    mov eax, edi
    neg eax
    mov ecx, STATUS_LIMIT
    cmp eax, ecx
    cmova eax, ecx
    lea rcx, [rip + status_table]
    mov eax, [rcx + 4 * rax]
    add rax, rcx
    ret
end_entry zx_status_get_string
.weak _zx_status_get_string
.set _zx_status_get_string, zx_status_get_string

// rdi: address; rsi: bytes; edx: flags 1 (instructions), 2 (data), 4 (invalidate as well; only with 2).
entry zx_cache_flush
    mov ecx, edx
    and ecx, 3
    jz 3f
    test edx, ~7
    jnz 3f
    mov ecx, edx
    and ecx, 6
    cmp ecx, 4
    je 3f
    // Instruction fetches on the same processor see stores at once, so only flag 2 needs work: it writes data back.
    test edx, 2
    jz 2f
    add rsi, rdi
    mov ecx, [rip + DATA_CONSTANTS + C_DCACHE_LINE_SIZE]
    test ecx, ecx
    jz 2f
    mov rax, rcx
    neg rax
    and rdi, rax
1:  cmp rdi, rsi
    jae 2f
    clflush [rdi]
    add rdi, rcx
    jmp 1b
2:  mfence
    xor eax, eax
    ret
3:  mov eax, -10 // ZX_ERR_INVALID_ARGS
    ret
end_entry zx_cache_flush

// ---- Answered by the kernel alone ------------------------------------------------------------------------------

// edi: options. seL4's Yield has the semantics of this call, and needs no change of address spaces.
entry zx_thread_legacy_yield
    mov eax, -10 // ZX_ERR_INVALID_ARGS
    test edi, edi
    jnz 1f
    save_registers
    enter_kernel SEL4_YIELD
    restore_registers
    xor eax, eax
1:  ret
end_entry zx_thread_legacy_yield

// ---- Answered by the server ------------------------------------------------------------------------------------

// rdi: buffer; rsi: bytes. Asks the server for at most 256 bytes at a time, which bounds the cost of one entry.
entry zx_cprng_draw
    save_registers
    push r12
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r12, 0
    push r13
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r13, 0
    mov r12, rdi
    mov r13, rsi
    jmp 2f
1:  mov r10, r12
    mov r8d, 256
    cmp r13, r8
    cmovb r8, r13
    add r12, r8
    sub r13, r8
    enter_server NR_CPRNG_DRAW
    test eax, eax
    jnz 3f
2:  test r13, r13
    jnz 1b
    pop r13
    .cfi_adjust_cfa_offset -8
    .cfi_restore r13
    pop r12
    .cfi_adjust_cfa_offset -8
    .cfi_restore r12
    restore_registers
    ret
    // The call returns void, so it cannot report that the buffer is bad. The caller must not continue as if its
    // content were random.
3:  ud2
end_entry zx_cprng_draw

// The same as zx_thread_start_regs with 0 for the thread pointer and for the ABI register.
entry zx_thread_start
    save_registers
    mov r10, rdi
    mov r15, rcx
    mov gs:[BUFFER_ARG_5], r8
    mov r8, rsi
    mov r9, rdx
    xor eax, eax
    mov gs:[BUFFER_ARG_6], rax
    mov gs:[BUFFER_ARG_7], rax
    enter_server NR_THREAD_START_REGS
    restore_registers
    ret
end_entry zx_thread_start

// ---- Calls that end without a stack ----------------------------------------------------------------------------

// Closes the handle in r12d unless it is 0, and ends the thread. Accesses no memory except the IPC buffer.
.macro close_and_exit
    test r12d, r12d
    jz 1f
    mov r10d, r12d
    enter_server NR_HANDLE_CLOSE
    test eax, eax
    jnz 2f
1:  enter_server NR_THREAD_EXIT
2:  ud2
.endm

// rdi: address of the futex; esi: number of threads to wake; edx: the futex's new value; ecx: handle.
entry zx_futex_wake_handle_close_thread_exit
    mov r12d, ecx
    mov r10, rdi
    mov r8d, esi
    // After this store another thread may free the stack. x86 does not reorder stores.
    mov [rdi], edx
    enter_server NR_FUTEX_WAKE
    test eax, eax
    jnz 2f
    close_and_exit
end_entry zx_futex_wake_handle_close_thread_exit

// edi: VMAR; rsi: address; rdx: bytes; ecx: handle. Returns only if nothing was unmapped.
entry zx_vmar_unmap_handle_close_thread_exit
    save_registers
    push r12
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r12, 0
    mov r12d, ecx
    mov r10d, edi
    mov r8, rsi
    mov r9, rdx
    enter_server NR_VMAR_UNMAP
    test eax, eax
    jnz 3f
    close_and_exit
3:  pop r12
    .cfi_adjust_cfa_offset -8
    .cfi_restore r12
    restore_registers
    ret
end_entry zx_vmar_unmap_handle_close_thread_exit

// Endpoints are in endpoint.s, restricted mode in restricted.s, virtual processors in vproc.s.

// ---- The data --------------------------------------------------------------------------------------------------

.section .data_constants, "a", @progbits
.balign 8
.type DATA_CONSTANTS, @object
.size DATA_CONSTANTS, C_SIZE
DATA_CONSTANTS:
    .zero C_SIZE

.section .data_time_values, "a", @progbits
.balign 8
.type DATA_TIME_VALUES, @object
.size DATA_TIME_VALUES, T_SIZE
DATA_TIME_VALUES:
    .zero T_SIZE
