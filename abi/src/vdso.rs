//! The vDSO's image, as far as the server has to know it.
//!
//! The image is two segments: read-only data, then code. Two places in the data are blobs that the server fills in
//! before any process maps the image; the calls that need no server are answered from them. Where they lie is fixed
//! by the image's linker script, which fails if it cannot keep to these numbers.

/// Where [`vdso_constants`] lies in the image, in bytes. The rest of its page belongs to the version string.
pub const VDSO_DATA_CONSTANTS: usize = 0x1000;
/// Bytes that the constants may take, the version string and its NUL included.
pub const VDSO_DATA_CONSTANTS_SIZE: usize = 0xf80;
/// Where [`vdso_time_values`] lies in the image, in bytes.
pub const VDSO_DATA_TIME_VALUES: usize = 0x1f80;
/// Where the image's code starts, in bytes; all before it is mapped read-only.
pub const VDSO_CODE_START: usize = 0x10000;
/// Where [`vdso_restricted`] lies in the page of a thread's IPC buffer, in bytes: behind all that the kernel has there.
pub const VDSO_RESTRICTED: usize = 0x800;

structs! { STRUCTS;
    #[doc = "What does not change while the system runs. A NUL-terminated version string follows."]
    struct vdso_constants {
        /// Processors there can be at most.
        max_num_cpus: u32,
        /// For `zx_system_get_features`, in the order of `ZX_FEATURE_KIND_*`.
        features: vdso_features,
        /// Bytes of a data cache line.
        dcache_line_size: u32,
        /// Bytes of an instruction cache line.
        icache_line_size: u32,
        /// Bytes of a page.
        page_size: u32,
        /// Zero.
        padding: u32,
        /// Bytes of memory.
        physmem: u64,
        /// Bytes of the version string, its NUL not counted.
        version_string_len: u64,
    }
    #[doc = "Features, in the order of `ZX_FEATURE_KIND_*`."]
    struct vdso_features {
        /// The processor's.
        cpu: u32,
        /// Breakpoints.
        hw_breakpoint_count: u32,
        /// Watchpoints.
        hw_watchpoint_count: u32,
        /// Tagged addresses.
        address_tagging: u32,
        /// Memory.
        vm: u32,
    }
    #[doc = "What the vDSO keeps of a thread's restricted mode, for the thread and the server."]
    struct vdso_restricted {
        /// Where the page of its state is; 0 if none is bound.
        state: u64,
        /// The slot at which it receives.
        slot: u64,
        /// 1: it is back by a system call, and enters by its answer.
        owed: u64,
        /// 1: it was kicked.
        kicked: u64,
        /// Where it goes when it is back.
        vector: u64,
        /// What is told there.
        context: u64,
        /// The bases with which it was entered, which the code cannot change.
        fs_base: u64,
        /// See there.
        gs_base: u64,
    }
    #[doc = "How the processor's clock becomes time: nanoseconds = (TSC + offset) * numerator / denominator."]
    struct vdso_time_values {
        /// 1
        version: u64,
        /// Ticks in a second.
        ticks_per_second: u64,
        /// Added to the TSC for boot ticks.
        boot_ticks_offset: u64,
        /// Added to the TSC for monotonic ticks.
        mono_ticks_offset: u64,
        /// Nanoseconds ...
        ticks_to_time_numerator: u32,
        /// ... in so many ticks.
        ticks_to_time_denominator: u32,
        /// 1 if `rdtsc` can be used.
        usermode_can_access_ticks: u8,
        /// Zero; means something on another processor.
        use_a73_errata_mitigation: u8,
        /// Zero; means something on another processor.
        use_pct_instead_of_vct: u8,
        /// Zero.
        padding: [u8; 5],
    }
}
