//! The whole system, its processors and devices.

use crate::zx_cpu_set_t;

consts! { TABLE;
    [u32]
        /// `zx_ktrace_control`: start recording.
        KTRACE_ACTION_START = 1;
        /// `zx_ktrace_control`: stop recording.
        KTRACE_ACTION_STOP = 2;
        /// `zx_ktrace_control`: discard the records.
        KTRACE_ACTION_REWIND = 3;
        /// `zx_ktrace_control`: start recording; new records overwrite the oldest.
        KTRACE_ACTION_START_CIRCULAR = 5;
        /// `zx_system_powerctl`: switch on all processors.
        ZX_SYSTEM_POWERCTL_ENABLE_ALL_CPUS = 1;
        /// `zx_system_powerctl`: switch off all processors except one.
        ZX_SYSTEM_POWERCTL_DISABLE_ALL_CPUS_BUT_PRIMARY = 2;
        /// `zx_system_powerctl`: enter an ACPI sleep state.
        ZX_SYSTEM_POWERCTL_ACPI_TRANSITION_S_STATE = 3;
        /// `zx_system_powerctl`: set a power limit.
        ZX_SYSTEM_POWERCTL_X86_SET_PKG_PL1 = 4;
        /// `zx_system_powerctl`: reboot.
        ZX_SYSTEM_POWERCTL_REBOOT = 5;
        /// `zx_system_powerctl`: reboot to the boot loader.
        ZX_SYSTEM_POWERCTL_REBOOT_BOOTLOADER = 6;
        /// `zx_system_powerctl`: reboot to the recovery system.
        ZX_SYSTEM_POWERCTL_REBOOT_RECOVERY = 7;
        /// `zx_system_powerctl`: switch off.
        ZX_SYSTEM_POWERCTL_SHUTDOWN = 8;
        /// `zx_system_powerctl`: acknowledge that the system will reboot.
        ZX_SYSTEM_POWERCTL_ACK_KERNEL_INITIATED_REBOOT = 9;
        /// `zx_system_get_performance_info`: current speeds.
        ZX_CPU_PERF_SCALE = 1;
        /// `zx_system_get_performance_info`: initial speeds.
        ZX_CPU_DEFAULT_PERF_SCALE = 2;
        /// `zx_system_set_performance_info`: limits.
        ZX_CPU_PERF_LIMIT = 3;
        /// `zx_system_get_event`: memory has run out.
        ZX_SYSTEM_EVENT_OUT_OF_MEMORY = 1;
        /// `zx_system_get_event`: memory pressure is critical.
        ZX_SYSTEM_EVENT_MEMORY_PRESSURE_CRITICAL = 2;
        /// `zx_system_get_event`: memory pressure is at the warning level.
        ZX_SYSTEM_EVENT_MEMORY_PRESSURE_WARNING = 3;
        /// `zx_system_get_event`: memory pressure is normal.
        ZX_SYSTEM_EVENT_MEMORY_PRESSURE_NORMAL = 4;
        /// `zx_system_get_event`: memory is about to run out.
        ZX_SYSTEM_EVENT_IMMINENT_OUT_OF_MEMORY = 5;
        /// `zx_system_watch_memory_stall`: some thread waits for memory.
        ZX_SYSTEM_MEMORY_STALL_SOME = 0;
        /// `zx_system_watch_memory_stall`: all threads wait for memory.
        ZX_SYSTEM_MEMORY_STALL_FULL = 1;
        /// `zx_system_get_features`: processor features.
        ZX_FEATURE_KIND_CPU = 0;
        /// `zx_system_get_features`: number of hardware breakpoints.
        ZX_FEATURE_KIND_HW_BREAKPOINT_COUNT = 1;
        /// `zx_system_get_features`: number of hardware watchpoints.
        ZX_FEATURE_KIND_HW_WATCHPOINT_COUNT = 2;
        /// `zx_system_get_features`: tagged addresses.
        ZX_FEATURE_KIND_ADDRESS_TAGGING = 3;
        /// `zx_system_get_features`: memory features.
        ZX_FEATURE_KIND_VM = 4;
        /// The processor's features are available through CPUID.
        ZX_HAS_CPU_FEATURES = 1;
        /// Memory can be mapped execute-only.
        ZX_VM_FEATURE_CAN_MAP_XOM = 1;
        /// `zx_guest_set_trap`: a doorbell.
        ZX_GUEST_TRAP_BELL = 0;
        /// `zx_guest_set_trap`: memory.
        ZX_GUEST_TRAP_MEM = 1;
        /// `zx_guest_set_trap`: I/O ports.
        ZX_GUEST_TRAP_IO = 2;
        /// `zx_interrupt_create`: the number is mapped by the interrupt controller's table.
        ZX_INTERRUPT_REMAP_IRQ = 1;
        /// `zx_interrupt_create`: the mode as wired.
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
        /// `zx_interrupt_create`: a virtual interrupt, raised by programs.
        ZX_INTERRUPT_VIRTUAL = 0x10;
        /// `zx_interrupt_create`: wakes the system.
        ZX_INTERRUPT_WAKE_VECTOR = 0x20;
        /// `zx_interrupt_create`: monotonic timestamps.
        ZX_INTERRUPT_TIMESTAMP_MONO = 1 << 6;
        /// `zx_interrupt_bind`: bind.
        ZX_INTERRUPT_BIND = 0;
        /// `zx_interrupt_bind`: unbind.
        ZX_INTERRUPT_UNBIND = 1;
        /// `zx_msi_create`: MSI-X.
        ZX_MSI_MODE_MSI_X = 1;
        /// `zx_iommu_create`: a stub without hardware.
        ZX_IOMMU_TYPE_STUB = 0;
        /// `zx_iommu_create`: an Intel IOMMU.
        ZX_IOMMU_TYPE_INTEL = 1;
        /// [`zx_profile_info_t`]: it has a priority.
        ZX_PROFILE_INFO_FLAG_PRIORITY = 1;
        /// [`zx_profile_info_t`]: it has a set of processors.
        ZX_PROFILE_INFO_FLAG_CPU_MASK = 2;
        /// [`zx_profile_info_t`]: it has capacity, deadline and period.
        ZX_PROFILE_INFO_FLAG_DEADLINE = 4;
        /// [`zx_profile_info_t`]: the owner of a futex does not inherit the priority of a waiting thread with this
        /// profile.
        ZX_PROFILE_INFO_FLAG_NO_INHERIT = 8;
        /// [`zx_profile_info_t`]: it has a priority for VMARs.
        ZX_PROFILE_INFO_FLAG_MEMORY_PRIORITY = 16;
    [i32]
        /// The lowest priority.
        ZX_PRIORITY_LOWEST = 0;
        /// A low priority.
        ZX_PRIORITY_LOW = 8;
        /// The priority of a new thread.
        ZX_PRIORITY_DEFAULT = 16;
        /// A high priority.
        ZX_PRIORITY_HIGH = 24;
        /// The highest priority.
        ZX_PRIORITY_HIGHEST = 31;
}

structs! { STRUCTS;
    #[doc = "A processor's speed, 1.0 being the fastest one's full speed."]
    struct zx_cpu_performance_scale_t {
        /// Integral part.
        integral_part: u32,
        /// Fraction, in units of 2^-32.
        fractional_part: u32,
    }
    #[doc = "A processor and its speed."]
    struct zx_cpu_performance_info_t {
        /// The processor.
        logical_cpu_number: u32,
        /// Its speed.
        performance_scale: zx_cpu_performance_scale_t,
    }
    #[doc = "What `zx_system_powerctl` needs for `ZX_SYSTEM_POWERCTL_X86_SET_PKG_PL1` (its larger variant)."]
    struct zx_system_powerctl_arg_t {
        /// Milliwatts; or, as bytes: sleep state and its two values.
        power_limit: u32,
        /// Microseconds.
        time_window: u32,
        /// 1: clamp.
        clamp: u8,
        /// 1: enable.
        enable: u8,
        /// Zero.
        padding2: [u8; 2],
    }
    #[doc = "How a thread shall be scheduled."]
    struct zx_profile_info_t {
        /// Which of the following fields are valid.
        flags: u32,
        /// Zero.
        padding1: [u8; 4],
        /// Depends on the flags: priority, or capacity, deadline and period in nanoseconds.
        parameters: [u64; 3],
        /// The processors on which it may run.
        cpu_affinity_mask: zx_cpu_set_t,
    }
}
