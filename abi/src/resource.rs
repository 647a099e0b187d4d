//! Resources: the right to use a part of the machine.

consts! { TABLE;
    [u32]
        /// Physical memory of devices.
        ZX_RSRC_KIND_MMIO = 0;
        /// Interrupts.
        ZX_RSRC_KIND_IRQ = 1;
        /// I/O ports.
        ZX_RSRC_KIND_IOPORT = 2;
        /// Everything; removed from Zircon, but given to the first process here.
        ZX_RSRC_KIND_ROOT = 3;
        /// Secure monitor calls.
        ZX_RSRC_KIND_SMC = 4;
        /// A facility of the system, selected by the base.
        ZX_RSRC_KIND_SYSTEM = 5;
        /// All kinds are lower than this.
        ZX_RSRC_KIND_COUNT = 6;
        /// `zx_resource_create`: the range is exclusive.
        ZX_RSRC_FLAG_EXCLUSIVE = 0x0001_0000;
        /// All flags.
        ZX_RSRC_FLAGS_MASK = 0x0001_0000;
    [u64]
        /// Facility: hypervisor.
        ZX_RSRC_SYSTEM_HYPERVISOR_BASE = 0;
        /// Facility: making VMOs executable.
        ZX_RSRC_SYSTEM_VMEX_BASE = 1;
        /// Facility: debugging calls.
        ZX_RSRC_SYSTEM_DEBUG_BASE = 2;
        /// Facility: system information.
        ZX_RSRC_SYSTEM_INFO_BASE = 3;
        /// Facility: processors.
        ZX_RSRC_SYSTEM_CPU_BASE = 4;
        /// Facility: power management.
        ZX_RSRC_SYSTEM_POWER_BASE = 5;
        /// Facility: booting another kernel.
        ZX_RSRC_SYSTEM_MEXEC_BASE = 6;
        /// Facility: energy counters.
        ZX_RSRC_SYSTEM_ENERGY_INFO_BASE = 7;
        /// Facility: IOMMUs.
        ZX_RSRC_SYSTEM_IOMMU_BASE = 8;
        /// Facility: the frame buffer; removed from Zircon.
        ZX_RSRC_SYSTEM_FRAMEBUFFER_BASE = 9;
        /// Facility: profiles.
        ZX_RSRC_SYSTEM_PROFILE_BASE = 10;
        /// Facility: message-signalled interrupts.
        ZX_RSRC_SYSTEM_MSI_BASE = 11;
        /// Facility: the debug log.
        ZX_RSRC_SYSTEM_DEBUGLOG_BASE = 12;
        /// Facility: memory stalls.
        ZX_RSRC_SYSTEM_STALL_BASE = 13;
        /// Facility: tracing.
        ZX_RSRC_SYSTEM_TRACING_BASE = 14;
        /// Facility: sampling.
        ZX_RSRC_SYSTEM_SAMPLING_BASE = 15;
        /// All of Zircon's facilities are lower than this.
        ZX_RSRC_SYSTEM_COUNT = 16;
        /// Facility: seL4 endpoints. This system's own, not Zircon's.
        HAFNON_RSRC_SYSTEM_ENDPOINT_BASE = 0x1_0000;
}
