// The calls that are not made from their definitions.

// ---- Answered from the two blobs -------------------------------------------------------------------------------

// In rax: nanoseconds, from ticks with the offset in that field. Keeps rdi and rsi.
// The product has 128 bits; the quotient fits as long as the machine has run less than 584 years.
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
1:  // Out of range: the type's last value, or its first for a negative duration.
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
// The server writes a clock's page in three steps: the number at its start becomes odd, the details change, the number
// becomes even again. A reader (1) waits for an even number, (2) takes what it wants and the time, (3) begins anew if
// the number is another. Loads are not reordered with loads, nor stores with stores.

// rdi: the clock; rsi: where to write.
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
    test r11, r11 // Not a clock's page.
    jz 7f
    // What has passed since, less than 2^64 either way: its amount to rax, its sign to ecx.
    xor ecx, ecx
    cmp rax, r8
    jge 2f
    inc ecx
    xchg rax, r8
2:  sub rax, r8
    // Times the rate: a quotient of 128 bits in r8 and rax, the rest in rdx.
    mul r10
    mov r8, rax
    mov rax, rdx
    xor edx, edx
    div r11
    xchg rax, r8
    div r11
    test ecx, ecx
    jz 3f
    // Rounded down, away from zero.
    neg rdx
    adc rax, 0
    adc r8, 0
    neg rax
    adc r8, 0
    neg r8
    // Added to what the clock showed; where that is no time, the nearest that is.
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

// rdi: the clock; rsi: the version of the details; rdx: where to write them.
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

// ---- Answered from the two blobs, again ------------------------------------------------------------------------

// Returns a structure of two words, hence rax and rdx.
entry zx_system_get_version_string
    lea rax, [rip + DATA_CONSTANTS + C_VERSION_STRING]
    mov rdx, [rip + DATA_CONSTANTS + C_VERSION_STRING_LEN]
    ret
end_entry zx_system_get_version_string

// edi: kind, an index into the five features; rsi: where to write.
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

// rdi: address; rsi: bytes; edx: 1 instructions, 2 data, 4 forget as well (with 2 only).
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
    // Instruction fetches of the same processor see data as it is written, so only data itself is to be written back.
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

// ---- Answered by the kernel alone --------------------------------------------------------------------------------

// edi: options. The kernel's own Yield does what is asked for, without a change of address spaces.
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

// ---- By way of the server --------------------------------------------------------------------------------------

// rdi: buffer; rsi: bytes. The server is asked for at most 256 bytes at a time, which bounds what one entry costs.
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
    // The caller cannot be told that the buffer is none, and must not go on as if it were random.
3:  ud2
end_entry zx_cprng_draw

// As zx_thread_start_regs, with no thread pointer and no register for the ABI.
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

// ---- Without a stack -------------------------------------------------------------------------------------------

// Closes the handle in r12d unless it is 0, and ends the thread. Touches no memory but the IPC buffer.
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

// rdi: address of the futex; esi: how many to wake; edx: its new value; ecx: handle.
entry zx_futex_wake_handle_close_thread_exit
    mov r12d, ecx
    mov r10, rdi
    mov r8d, esi
    // From here on another thread may free the stack. Stores are ordered on x86.
    mov [rdi], edx
    enter_server NR_FUTEX_WAKE
    test eax, eax
    jnz 2f
    close_and_exit
end_entry zx_futex_wake_handle_close_thread_exit

// edi: VMAR; rsi: address; rdx: bytes; ecx: handle. Comes back only if nothing was unmapped.
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

// ---- The blobs -------------------------------------------------------------------------------------------------

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
