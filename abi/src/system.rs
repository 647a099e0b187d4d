//! The system as a whole, its processors and devices.

use crate::zx_cpu_set_t;

consts! { TABLE;
    [u32]
        /// `zx_ktrace_control`: records from now on.
        KTRACE_ACTION_START = 1;
        /// Records no more.
        KTRACE_ACTION_STOP = 2;
        /// Throws away what was recorded.
        KTRACE_ACTION_REWIND = 3;
        /// Records from now on, the newest in place of the oldest.
        KTRACE_ACTION_START_CIRCULAR = 5;
        /// `zx_system_powerctl`: all processors on.
        ZX_SYSTEM_POWERCTL_ENABLE_ALL_CPUS = 1;
        /// `zx_system_powerctl`: all processors off but one.
        ZX_SYSTEM_POWERCTL_DISABLE_ALL_CPUS_BUT_PRIMARY = 2;
        /// `zx_system_powerctl`: an ACPI sleep state.
        ZX_SYSTEM_POWERCTL_ACPI_TRANSITION_S_STATE = 3;
        /// `zx_system_powerctl`: a limit on power.
        ZX_SYSTEM_POWERCTL_X86_SET_PKG_PL1 = 4;
        /// `zx_system_powerctl`: start again.
        ZX_SYSTEM_POWERCTL_REBOOT = 5;
        /// `zx_system_powerctl`: start the boot loader.
        ZX_SYSTEM_POWERCTL_REBOOT_BOOTLOADER = 6;
        /// `zx_system_powerctl`: start the recovery system.
        ZX_SYSTEM_POWERCTL_REBOOT_RECOVERY = 7;
        /// `zx_system_powerctl`: off.
        ZX_SYSTEM_POWERCTL_SHUTDOWN = 8;
        /// `zx_system_powerctl`: heard that the system will restart.
        ZX_SYSTEM_POWERCTL_ACK_KERNEL_INITIATED_REBOOT = 9;
        /// `zx_system_get_performance_info`: speeds.
        ZX_CPU_PERF_SCALE = 1;
        /// `zx_system_get_performance_info`: speeds at start.
        ZX_CPU_DEFAULT_PERF_SCALE = 2;
        /// `zx_system_set_performance_info`: limits.
        ZX_CPU_PERF_LIMIT = 3;
        /// `zx_system_get_event`: memory has run out.
        ZX_SYSTEM_EVENT_OUT_OF_MEMORY = 1;
        /// `zx_system_get_event`: memory is very short.
        ZX_SYSTEM_EVENT_MEMORY_PRESSURE_CRITICAL = 2;
        /// `zx_system_get_event`: memory is short.
        ZX_SYSTEM_EVENT_MEMORY_PRESSURE_WARNING = 3;
        /// `zx_system_get_event`: there is enough memory.
        ZX_SYSTEM_EVENT_MEMORY_PRESSURE_NORMAL = 4;
        /// `zx_system_get_event`: memory will run out at once.
        ZX_SYSTEM_EVENT_IMMINENT_OUT_OF_MEMORY = 5;
        /// `zx_system_watch_memory_stall`: some thread waits for memory.
        ZX_SYSTEM_MEMORY_STALL_SOME = 0;
        /// `zx_system_watch_memory_stall`: all threads do.
        ZX_SYSTEM_MEMORY_STALL_FULL = 1;
        /// `zx_system_get_features`: the processor's.
        ZX_FEATURE_KIND_CPU = 0;
        /// `zx_system_get_features`: a count of breakpoints.
        ZX_FEATURE_KIND_HW_BREAKPOINT_COUNT = 1;
        /// `zx_system_get_features`: a count of watchpoints.
        ZX_FEATURE_KIND_HW_WATCHPOINT_COUNT = 2;
        /// `zx_system_get_features`: tagged addresses.
        ZX_FEATURE_KIND_ADDRESS_TAGGING = 3;
        /// `zx_system_get_features`: memory.
        ZX_FEATURE_KIND_VM = 4;
        /// The processor's features are to be had by CPUID.
        ZX_HAS_CPU_FEATURES = 1;
        /// Memory can be mapped for execution alone.
        ZX_VM_FEATURE_CAN_MAP_XOM = 1;
        /// `zx_guest_set_trap`: a bell.
        ZX_GUEST_TRAP_BELL = 0;
        /// `zx_guest_set_trap`: memory.
        ZX_GUEST_TRAP_MEM = 1;
        /// `zx_guest_set_trap`: I/O ports.
        ZX_GUEST_TRAP_IO = 2;
        /// `zx_interrupt_create`: the number is one of the interrupt controller's map.
        ZX_INTERRUPT_REMAP_IRQ = 1;
        /// `zx_interrupt_create`: as it is wired.
        ZX_INTERRUPT_MODE_DEFAULT = 0;
        /// `zx_interrupt_create`: falling edge.
        ZX_INTERRUPT_MODE_EDGE_LOW = 1 << 1;
        /// `zx_interrupt_create`: rising edge.
        ZX_INTERRUPT_MODE_EDGE_HIGH = 2 << 1;
        /// `zx_interrupt_create`: low level.
        ZX_INTERRUPT_MODE_LEVEL_LOW = 3 << 1;
        /// `zx_interrupt_create`: high level.
        ZX_INTERRUPT_MODE_LEVEL_HIGH = 4 << 1;
        /// `zx_interrupt_create`: both edges.
        ZX_INTERRUPT_MODE_EDGE_BOTH = 5 << 1;
        /// All modes.
        ZX_INTERRUPT_MODE_MASK = 0xe;
        /// `zx_interrupt_create`: raised by programs.
        ZX_INTERRUPT_VIRTUAL = 0x10;
        /// `zx_interrupt_create`: wakes the system.
        ZX_INTERRUPT_WAKE_VECTOR = 0x20;
        /// `zx_interrupt_create`: monotonic time stamps.
        ZX_INTERRUPT_TIMESTAMP_MONO = 1 << 6;
        /// `zx_interrupt_bind`: bind.
        ZX_INTERRUPT_BIND = 0;
        /// `zx_interrupt_bind`: undo it.
        ZX_INTERRUPT_UNBIND = 1;
        /// `zx_msi_create`: MSI-X.
        ZX_MSI_MODE_MSI_X = 1;
        /// `zx_iommu_create`: none.
        ZX_IOMMU_TYPE_STUB = 0;
        /// `zx_iommu_create`: Intel's.
        ZX_IOMMU_TYPE_INTEL = 1;
        /// [`zx_profile_info_t`]: it has a priority.
        ZX_PROFILE_INFO_FLAG_PRIORITY = 1;
        /// [`zx_profile_info_t`]: it names processors.
        ZX_PROFILE_INFO_FLAG_CPU_MASK = 2;
        /// [`zx_profile_info_t`]: it has capacity, deadline and period.
        ZX_PROFILE_INFO_FLAG_DEADLINE = 4;
        /// [`zx_profile_info_t`]: the owner of a futex that its thread waits on gains nothing by that.
        ZX_PROFILE_INFO_FLAG_NO_INHERIT = 8;
        /// [`zx_profile_info_t`]: it has a priority, for address regions.
        ZX_PROFILE_INFO_FLAG_MEMORY_PRIORITY = 16;
    [i32]
        /// The lowest priority.
        ZX_PRIORITY_LOWEST = 0;
        /// A low priority.
        ZX_PRIORITY_LOW = 8;
        /// What threads start with.
        ZX_PRIORITY_DEFAULT = 16;
        /// A high priority.
        ZX_PRIORITY_HIGH = 24;
        /// The highest priority.
        ZX_PRIORITY_HIGHEST = 31;
}

structs! { STRUCTS;
    #[doc = "A processor's speed, 1.0 being the fastest one's full speed."]
    struct zx_cpu_performance_scale_t {
        /// Before the point.
        integral_part: u32,
        /// After it, in units of 2^-32.
        fractional_part: u32,
    }
    #[doc = "A processor and its speed."]
    struct zx_cpu_performance_info_t {
        /// Which processor.
        logical_cpu_number: u32,
        /// Its speed.
        performance_scale: zx_cpu_performance_scale_t,
    }
    #[doc = "What `zx_system_powerctl` needs for `ZX_SYSTEM_POWERCTL_X86_SET_PKG_PL1` (its larger variant)."]
    struct zx_system_powerctl_arg_t {
        /// Milliwatts; or, as bytes: sleep state and the two values for it.
        power_limit: u32,
        /// Microseconds.
        time_window: u32,
        /// 1: clamp.
        clamp: u8,
        /// 1: on.
        enable: u8,
        /// Zero.
        padding2: [u8; 2],
    }
    #[doc = "How a thread shall be scheduled."]
    struct zx_profile_info_t {
        /// What of the rest holds.
        flags: u32,
        /// Zero.
        padding1: [u8; 4],
        /// By flags: priority, or capacity, deadline and period in nanoseconds.
        parameters: [u64; 3],
        /// Where it may run.
        cpu_affinity_mask: zx_cpu_set_t,
    }
}
