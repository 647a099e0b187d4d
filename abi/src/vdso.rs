//! The parts of the vDSO's image that the server depends on.
//!
//! The image has two segments: read-only data, then code. The server fills in two structures in the data before any
//! process maps the image; the vDSO answers calls that need no server from them. The image's linker script fixes their
//! places, and fails if it cannot use these numbers.

/// Offset of [`vdso_constants`] in the image, in bytes. The rest of its page belongs to the version string.
pub const VDSO_DATA_CONSTANTS: usize = 0x1000;
/// Maximum size of the constants in bytes, including the version string and its NUL.
pub const VDSO_DATA_CONSTANTS_SIZE: usize = 0xf80;
/// Offset of [`vdso_time_values`] in the image, in bytes.
pub const VDSO_DATA_TIME_VALUES: usize = 0x1f80;
/// Offset of the image's code, in bytes; everything before it is mapped read-only.
pub const VDSO_CODE_START: usize = 0x10000;
/// Offset of [`vdso_restricted`] in the page of a thread's IPC buffer, in bytes: behind the part that the kernel uses.
pub const VDSO_RESTRICTED: usize = 0x800;

structs! { STRUCTS;
    #[doc = "What does not change while the system runs. A NUL-terminated version string follows."]
    struct vdso_constants {
        /// Maximum number of processors.
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
        /// Length of the version string in bytes, without its NUL.
        version_string_len: u64,
    }
    #[doc = "Features, in the order of `ZX_FEATURE_KIND_*`."]
    struct vdso_features {
        /// Of the processor.
        cpu: u32,
        /// Number of hardware breakpoints.
        hw_breakpoint_count: u32,
        /// Number of hardware watchpoints.
        hw_watchpoint_count: u32,
        /// Tagged addresses.
        address_tagging: u32,
        /// Of memory.
        vm: u32,
    }
    #[doc = "How the processor's clock becomes time: nanoseconds = (TSC + offset) * numerator / denominator."]
    struct vdso_time_values {
        /// 1
        version: u64,
        /// Ticks per second.
        ticks_per_second: u64,
        /// Added to the TSC for boot ticks.
        boot_ticks_offset: u64,
        /// Added to the TSC for monotonic ticks.
        mono_ticks_offset: u64,
        /// Nanoseconds ...
        ticks_to_time_numerator: u32,
        /// ... per this many ticks.
        ticks_to_time_denominator: u32,
        /// 1 if `rdtsc` can be used.
        usermode_can_access_ticks: u8,
        /// Zero; only used on other processors.
        use_a73_errata_mitigation: u8,
        /// Zero; only used on other processors.
        use_pct_instead_of_vct: u8,
        /// Zero.
        padding: [u8; 5],
    }
}
