//! Resources: the right to use a part of the machine.

consts! { TABLE;
    [u32]
        /// Physical memory of devices.
        ZX_RSRC_KIND_MMIO = 0;
        /// Interrupts.
        ZX_RSRC_KIND_IRQ = 1;
        /// I/O ports.
        ZX_RSRC_KIND_IOPORT = 2;
        /// Everything; retired on Zircon, and what our first process is given.
        ZX_RSRC_KIND_ROOT = 3;
        /// Secure monitor calls.
        ZX_RSRC_KIND_SMC = 4;
        /// A facility of the system, chosen by base.
        ZX_RSRC_KIND_SYSTEM = 5;
        /// Kinds are numbered below this.
        ZX_RSRC_KIND_COUNT = 6;
        /// `zx_resource_create`: nobody else has this range.
        ZX_RSRC_FLAG_EXCLUSIVE = 0x0001_0000;
        /// All flags.
        ZX_RSRC_FLAGS_MASK = 0x0001_0000;
    [u64]
        /// Guests.
        ZX_RSRC_SYSTEM_HYPERVISOR_BASE = 0;
        /// Executable memory.
        ZX_RSRC_SYSTEM_VMEX_BASE = 1;
        /// Debugging calls.
        ZX_RSRC_SYSTEM_DEBUG_BASE = 2;
        /// Statistics.
        ZX_RSRC_SYSTEM_INFO_BASE = 3;
        /// Processors.
        ZX_RSRC_SYSTEM_CPU_BASE = 4;
        /// Switching off.
        ZX_RSRC_SYSTEM_POWER_BASE = 5;
        /// Starting another kernel.
        ZX_RSRC_SYSTEM_MEXEC_BASE = 6;
        /// Energy counters.
        ZX_RSRC_SYSTEM_ENERGY_INFO_BASE = 7;
        /// IOMMUs.
        ZX_RSRC_SYSTEM_IOMMU_BASE = 8;
        /// The frame buffer; retired on Zircon.
        ZX_RSRC_SYSTEM_FRAMEBUFFER_BASE = 9;
        /// Profiles.
        ZX_RSRC_SYSTEM_PROFILE_BASE = 10;
        /// Message-signalled interrupts.
        ZX_RSRC_SYSTEM_MSI_BASE = 11;
        /// The log.
        ZX_RSRC_SYSTEM_DEBUGLOG_BASE = 12;
        /// Memory stalls.
        ZX_RSRC_SYSTEM_STALL_BASE = 13;
        /// Tracing.
        ZX_RSRC_SYSTEM_TRACING_BASE = 14;
        /// Sampling.
        ZX_RSRC_SYSTEM_SAMPLING_BASE = 15;
        /// System resources are numbered below this.
        ZX_RSRC_SYSTEM_COUNT = 16;
        /// Endpoints of the kernel beneath: this system's own, not Zircon's.
        HAFNON_RSRC_SYSTEM_ENDPOINT_BASE = 0x1_0000;
}
