//! Topics of `zx_object_get_info` and their records.
//!
//! A topic's upper four bits are the version of its record; the constants without a suffix are the newest ones.

use crate::{
    ZX_MAX_NAME_LEN, ZX_OBJ_TYPE_UPPER_BOUND, zx_clock_t, zx_duration_t, zx_handle_t, zx_iob_region_t, zx_koid_t,
    zx_obj_type_t, zx_off_t, zx_rights_t, zx_time_t, zx_vaddr_t, zx_vm_option_t,
};

const fn topic(number: u32, version: u32) -> u32 {
    number | version << 28
}

consts! { TABLE;
    [u32]
        /// Nothing.
        ZX_INFO_NONE = 0;
        /// Whether the value names a handle: no record.
        ZX_INFO_HANDLE_VALID = 1;
        /// [`zx_info_handle_basic_t`]
        ZX_INFO_HANDLE_BASIC = 2;
        /// [`zx_info_process_t`]
        ZX_INFO_PROCESS = topic(3, 1);
        /// Koids.
        ZX_INFO_PROCESS_THREADS = 4;
        /// [`zx_info_vmar_t`]
        ZX_INFO_VMAR = 7;
        /// Koids.
        ZX_INFO_JOB_CHILDREN = 8;
        /// Koids.
        ZX_INFO_JOB_PROCESSES = 9;
        /// [`zx_info_thread_t`]
        ZX_INFO_THREAD = 10;
        /// [`crate::zx_exception_report_t`] without its synthetic fields.
        ZX_INFO_THREAD_EXCEPTION_REPORT_V1 = 11;
        /// [`crate::zx_exception_report_t`]
        ZX_INFO_THREAD_EXCEPTION_REPORT = topic(11, 1);
        /// The first four fields of [`zx_info_task_stats_t`].
        ZX_INFO_TASK_STATS_V1 = 12;
        /// [`zx_info_task_stats_t`]
        ZX_INFO_TASK_STATS = topic(12, 1);
        /// [`zx_info_maps_t`]s
        ZX_INFO_PROCESS_MAPS = topic(13, 2);
        /// [`zx_info_vmo_t`]s
        ZX_INFO_PROCESS_VMOS = topic(14, 3);
        /// [`zx_info_thread_stats_t`]
        ZX_INFO_THREAD_STATS = 15;
        /// [`zx_info_cpu_stats_t`]s
        ZX_INFO_CPU_STATS = 16;
        /// [`zx_info_kmem_stats_t`]
        ZX_INFO_KMEM_STATS = topic(17, 1);
        /// [`zx_info_resource_t`]
        ZX_INFO_RESOURCE = 18;
        /// [`zx_info_handle_count_t`]
        ZX_INFO_HANDLE_COUNT = 19;
        /// [`zx_info_bti_t`]
        ZX_INFO_BTI = 20;
        /// [`zx_info_process_handle_stats_t`]
        ZX_INFO_PROCESS_HANDLE_STATS = 21;
        /// [`zx_info_socket_t`]
        ZX_INFO_SOCKET = 22;
        /// The fields of [`zx_info_vmo_t`] up to `cache_policy`.
        ZX_INFO_VMO_V1 = 23;
        /// [`zx_info_vmo_t`]
        ZX_INFO_VMO = topic(23, 3);
        /// [`zx_info_job_t`]
        ZX_INFO_JOB = 24;
        /// [`zx_info_timer_t`]
        ZX_INFO_TIMER = 25;
        /// [`zx_info_stream_t`]
        ZX_INFO_STREAM = 26;
        /// [`zx_info_handle_extended_t`]s
        ZX_INFO_HANDLE_TABLE = 27;
        /// [`zx_info_msi_t`]
        ZX_INFO_MSI = 28;
        /// Counts of a guest.
        ZX_INFO_GUEST_STATS = 29;
        /// The first two fields of [`zx_info_task_runtime_t`].
        ZX_INFO_TASK_RUNTIME_V1 = 30;
        /// [`zx_info_task_runtime_t`]
        ZX_INFO_TASK_RUNTIME = topic(30, 1);
        /// Deprecated on Zircon.
        ZX_INFO_KMEM_STATS_EXTENDED = 31;
        /// [`zx_info_vcpu_t`]
        ZX_INFO_VCPU = 32;
        /// Counts of memory compression.
        ZX_INFO_KMEM_STATS_COMPRESSION = 33;
        /// [`zx_info_iob_t`]
        ZX_INFO_IOB = 34;
        /// [`zx_iob_region_info_t`]s
        ZX_INFO_IOB_REGIONS = 35;
        /// [`zx_info_maps_t`]s
        ZX_INFO_VMAR_MAPS = 36;
        /// Power domains.
        ZX_INFO_POWER_DOMAINS = 37;
        /// [`zx_info_memory_stall_t`]
        ZX_INFO_MEMORY_STALL = 38;
        /// [`zx_info_interrupt_t`]
        ZX_INFO_INTERRUPT = 39;
        /// A `u64`: bytes that a mapping of the clock takes.
        ZX_INFO_CLOCK_MAPPED_SIZE = 40;
        /// The thread has never run.
        ZX_INFO_INVALID_CPU = u32::MAX;
        /// The process was started.
        ZX_INFO_PROCESS_FLAG_STARTED = 1 << 0;
        /// The process has ended.
        ZX_INFO_PROCESS_FLAG_EXITED = 1 << 1;
        /// A debugger is attached.
        ZX_INFO_PROCESS_FLAG_DEBUGGER_ATTACHED = 1 << 2;
        /// Not started.
        ZX_THREAD_STATE_NEW = 0;
        /// Running, or could be.
        ZX_THREAD_STATE_RUNNING = 1;
        /// Suspended.
        ZX_THREAD_STATE_SUSPENDED = 2;
        /// Blocked; comes with one of the reasons below.
        ZX_THREAD_STATE_BLOCKED = 3;
        /// Ending.
        ZX_THREAD_STATE_DYING = 4;
        /// Ended.
        ZX_THREAD_STATE_DEAD = 5;
        /// In an exception.
        ZX_THREAD_STATE_BLOCKED_EXCEPTION = 0x103;
        /// In `zx_nanosleep`.
        ZX_THREAD_STATE_BLOCKED_SLEEPING = 0x203;
        /// In `zx_futex_wait`.
        ZX_THREAD_STATE_BLOCKED_FUTEX = 0x303;
        /// In `zx_port_wait`.
        ZX_THREAD_STATE_BLOCKED_PORT = 0x403;
        /// In `zx_channel_call`.
        ZX_THREAD_STATE_BLOCKED_CHANNEL = 0x503;
        /// In `zx_object_wait_one`.
        ZX_THREAD_STATE_BLOCKED_WAIT_ONE = 0x603;
        /// In `zx_object_wait_many`.
        ZX_THREAD_STATE_BLOCKED_WAIT_MANY = 0x703;
        /// In `zx_interrupt_wait`.
        ZX_THREAD_STATE_BLOCKED_INTERRUPT = 0x803;
        /// Waits for a pager.
        ZX_THREAD_STATE_BLOCKED_PAGER = 0x903;
        /// Of nothing.
        ZX_INFO_MAPS_TYPE_NONE = 0;
        /// Of the address space.
        ZX_INFO_MAPS_TYPE_ASPACE = 1;
        /// Of a VMAR.
        ZX_INFO_MAPS_TYPE_VMAR = 2;
        /// Of a mapping.
        ZX_INFO_MAPS_TYPE_MAPPING = 3;
        /// The VMO has memory of its own.
        ZX_INFO_VMO_TYPE_PAGED = 1 << 0;
        /// The VMO stands for a physical range.
        ZX_INFO_VMO_TYPE_PHYSICAL = 0;
        /// Its size can change.
        ZX_INFO_VMO_RESIZABLE = 1 << 1;
        /// It is a copy-on-write child.
        ZX_INFO_VMO_IS_COW_CLONE = 1 << 2;
        /// The process has a handle.
        ZX_INFO_VMO_VIA_HANDLE = 1 << 3;
        /// The process has a mapping.
        ZX_INFO_VMO_VIA_MAPPING = 1 << 4;
        /// A pager is behind it.
        ZX_INFO_VMO_PAGER_BACKED = 1 << 5;
        /// Its pages are contiguous.
        ZX_INFO_VMO_CONTIGUOUS = 1 << 6;
        /// Its pages may be taken away.
        ZX_INFO_VMO_DISCARDABLE = 1 << 7;
        /// It was never writable.
        ZX_INFO_VMO_IMMUTABLE = 1 << 8;
        /// The process has an IOBuffer with it.
        ZX_INFO_VMO_VIA_IOB_HANDLE = 1 << 9;
        /// The processor is on.
        ZX_INFO_CPU_STATS_FLAG_ONLINE = 1;
        /// The virtual processor was kicked.
        ZX_INFO_VCPU_FLAG_KICKED = 1;
    [i64]
        /// Killed by `zx_task_kill`.
        ZX_TASK_RETCODE_SYSCALL_KILL = -1024;
        /// Killed because memory ran out.
        ZX_TASK_RETCODE_OOM_KILL = -1025;
        /// Killed by a job policy.
        ZX_TASK_RETCODE_POLICY_KILL = -1026;
        /// Killed by the vDSO.
        ZX_TASK_RETCODE_VDSO_KILL = -1027;
        /// Killed by an exception that nobody handled.
        ZX_TASK_RETCODE_EXCEPTION_KILL = -1028;
        /// Killed with a critical process.
        ZX_TASK_RETCODE_CRITICAL_PROCESS_KILL = -1029;
    [usize]
        /// Processors that a set can name.
        ZX_CPU_SET_MAX_CPUS = 512;
        /// Processors in one word of a set.
        ZX_CPU_SET_BITS_PER_WORD = 64;
}

structs! { STRUCTS;
    #[doc = "`ZX_INFO_HANDLE_BASIC`: a handle and its object."]
    struct zx_info_handle_basic_t {
        /// The object.
        koid: zx_koid_t,
        /// The handle's rights.
        rights: zx_rights_t,
        /// The object's type.
        type_: zx_obj_type_t,
        /// The other end, or the parent, or 0.
        related_koid: zx_koid_t,
        /// Zero.
        reserved: u32,
        /// Zero.
        padding1: [u8; 4],
    }
    #[doc = "`ZX_INFO_HANDLE_TABLE`: a handle of a process."]
    struct zx_info_handle_extended_t {
        /// The object's type.
        type_: zx_obj_type_t,
        /// The handle's value in that process.
        handle_value: zx_handle_t,
        /// The handle's rights.
        rights: zx_rights_t,
        /// Zero.
        reserved: u32,
        /// The object.
        koid: zx_koid_t,
        /// The other end, or the parent, or 0.
        related_koid: zx_koid_t,
        /// Zero.
        peer_owner_koid: zx_koid_t,
    }
    #[doc = "`ZX_INFO_HANDLE_COUNT`"]
    struct zx_info_handle_count_t {
        /// Handles to the object, in all processes.
        handle_count: u32,
    }
    #[doc = "`ZX_INFO_PROCESS_HANDLE_STATS`"]
    struct zx_info_process_handle_stats_t {
        /// Handles of the process by type of object.
        handle_count: [u32; ZX_OBJ_TYPE_UPPER_BOUND],
    }
    #[doc = "`ZX_INFO_PROCESS`"]
    struct zx_info_process_t {
        /// What it returned, or `ZX_TASK_RETCODE_*`; holds when it has ended.
        return_code: i64,
        /// When it started, monotonic; holds when it was started.
        start_time: zx_time_t,
        /// `ZX_INFO_PROCESS_FLAG_*`
        flags: u32,
        /// Zero.
        padding1: [u8; 4],
    }
    #[doc = "`ZX_INFO_JOB`"]
    struct zx_info_job_t {
        /// `ZX_TASK_RETCODE_*`; holds when it has ended.
        return_code: i64,
        /// 1 if it has ended.
        exited: u8,
        /// 1 if it dies first when memory runs out.
        kill_on_oom: u8,
        /// 1 if a debugger is attached.
        debugger_attached: u8,
        /// Zero.
        padding1: [u8; 5],
    }
    #[doc = "`ZX_INFO_TIMER`"]
    struct zx_info_timer_t {
        /// As it was made.
        options: u32,
        /// As it was made.
        clock_id: zx_clock_t,
        /// 0 when it is not set.
        deadline: zx_time_t,
        /// 0 when it is not set.
        slack: zx_duration_t,
    }
    #[doc = "`ZX_INFO_STREAM`"]
    struct zx_info_stream_t {
        /// `ZX_STREAM_MODE_*`
        options: u32,
        /// Zero.
        padding1: [u8; 4],
        /// The position.
        seek: zx_off_t,
        /// Bytes of content.
        content_size: u64,
    }
    #[doc = "A set of processors."]
    struct zx_cpu_set_t {
        /// Bit n % 64 of word n / 64 stands for processor n.
        mask: [u64; ZX_CPU_SET_MAX_CPUS / ZX_CPU_SET_BITS_PER_WORD],
    }
    #[doc = "`ZX_INFO_THREAD`"]
    struct zx_info_thread_t {
        /// `ZX_THREAD_STATE_*`
        state: u32,
        /// `ZX_EXCEPTION_CHANNEL_TYPE_*`
        wait_exception_channel_type: u32,
        /// Where it may run.
        cpu_affinity_mask: zx_cpu_set_t,
    }
    #[doc = "`ZX_INFO_THREAD_STATS`"]
    struct zx_info_thread_stats_t {
        /// Nanoseconds.
        total_runtime: zx_duration_t,
        /// Where it ran last, or `ZX_INFO_INVALID_CPU`.
        last_scheduled_cpu: u32,
        /// Zero.
        padding1: [u8; 4],
    }
    #[doc = "`ZX_INFO_TASK_STATS`: memory of a process."]
    struct zx_info_task_stats_t {
        /// Bytes mapped.
        mem_mapped_bytes: usize,
        /// Bytes of memory that only this process maps.
        mem_private_bytes: usize,
        /// Bytes of memory that others map too.
        mem_shared_bytes: usize,
        /// Its part of the shared bytes.
        mem_scaled_shared_bytes: usize,
        /// The fraction below one byte, in units of 2^-63.
        mem_fractional_scaled_shared_bytes: u64,
    }
    #[doc = "`ZX_INFO_VMAR`"]
    struct zx_info_vmar_t {
        /// First address.
        base: usize,
        /// Bytes.
        len: usize,
    }
    #[doc = "`ZX_INFO_BTI`"]
    struct zx_info_bti_t {
        /// Bytes that are contiguous at least.
        minimum_contiguity: u64,
        /// Bytes that the device can address.
        aspace_size: u64,
        /// Pinned ranges.
        pmo_count: u64,
        /// Pinned ranges in quarantine.
        quarantine_count: u64,
    }
    #[doc = "`ZX_INFO_SOCKET`"]
    struct zx_info_socket_t {
        /// As it was made.
        options: u32,
        /// Zero.
        padding1: [u8; 4],
        /// Bytes that can wait to be read.
        rx_buf_max: usize,
        /// Bytes that wait to be read.
        rx_buf_size: usize,
        /// Bytes that one read can take.
        rx_buf_available: usize,
        /// Bytes that can wait at the other end.
        tx_buf_max: usize,
        /// Bytes that wait at the other end.
        tx_buf_size: usize,
    }
    #[doc = "The part of [`zx_info_maps_t`] that holds for mappings."]
    struct zx_info_maps_mapping_t {
        /// `ZX_VM_PERM_*`
        mmu_flags: zx_vm_option_t,
        /// Zero.
        padding1: [u8; 4],
        /// The VMO.
        vmo_koid: zx_koid_t,
        /// Where in the VMO.
        vmo_offset: u64,
        /// Bytes with memory.
        committed_bytes: usize,
        /// Bytes with content.
        populated_bytes: usize,
        /// Bytes with memory that no other VMO shares.
        committed_private_bytes: usize,
        /// Bytes with content that no other VMO shares.
        populated_private_bytes: usize,
        /// Its part of the bytes with memory.
        committed_scaled_bytes: usize,
        /// Its part of the bytes with content.
        populated_scaled_bytes: usize,
        /// The fraction below one byte, in units of 2^-63.
        committed_fractional_scaled_bytes: u64,
        /// The fraction below one byte, in units of 2^-63.
        populated_fractional_scaled_bytes: u64,
    }
    #[doc = "`ZX_INFO_PROCESS_MAPS`, `ZX_INFO_VMAR_MAPS`: a node of the address space, in depth-first order."]
    struct zx_info_maps_t {
        /// Its name, or empty.
        name: [u8; ZX_MAX_NAME_LEN],
        /// First address.
        base: zx_vaddr_t,
        /// Bytes.
        size: usize,
        /// Below how many others it lies.
        depth: usize,
        /// `ZX_INFO_MAPS_TYPE_*`
        type_: u32,
        /// Zero.
        padding1: [u8; 4],
        /// Holds for mappings.
        mapping: zx_info_maps_mapping_t,
    }
    #[doc = "`ZX_INFO_VMO`, `ZX_INFO_PROCESS_VMOS`"]
    struct zx_info_vmo_t {
        /// The VMO.
        koid: zx_koid_t,
        /// Its name.
        name: [u8; ZX_MAX_NAME_LEN],
        /// Bytes.
        size_bytes: u64,
        /// What it is a child of, or 0.
        parent_koid: zx_koid_t,
        /// Its children.
        num_children: usize,
        /// Its mappings.
        num_mappings: usize,
        /// Address spaces with a mapping.
        share_count: usize,
        /// `ZX_INFO_VMO_*`
        flags: u32,
        /// Zero.
        padding1: [u8; 4],
        /// Bytes with memory.
        committed_bytes: u64,
        /// The handle's rights, if through a handle.
        handle_rights: zx_rights_t,
        /// `ZX_CACHE_POLICY_*`
        cache_policy: u32,
        /// Bytes that the system needs for it.
        metadata_bytes: u64,
        /// Counts changes that nobody asked for.
        committed_change_events: u64,
        /// Bytes with content.
        populated_bytes: u64,
        /// Bytes with memory that no other VMO shares.
        committed_private_bytes: u64,
        /// Bytes with content that no other VMO shares.
        populated_private_bytes: u64,
        /// Its part of the bytes with memory.
        committed_scaled_bytes: u64,
        /// Its part of the bytes with content.
        populated_scaled_bytes: u64,
        /// The fraction below one byte, in units of 2^-63.
        committed_fractional_scaled_bytes: u64,
        /// The fraction below one byte, in units of 2^-63.
        populated_fractional_scaled_bytes: u64,
    }
    #[doc = "`ZX_INFO_TASK_RUNTIME`"]
    struct zx_info_task_runtime_t {
        /// Nanoseconds running.
        cpu_time: zx_duration_t,
        /// Nanoseconds ready to run.
        queue_time: zx_duration_t,
        /// Nanoseconds in page faults.
        page_fault_time: zx_duration_t,
        /// Nanoseconds waiting for locks of the system.
        lock_contention_time: zx_duration_t,
    }
    #[doc = "`ZX_INFO_CPU_STATS`"]
    struct zx_info_cpu_stats_t {
        /// Which processor.
        cpu_number: u32,
        /// `ZX_INFO_CPU_STATS_FLAG_*`
        flags: u32,
        /// Nanoseconds idle.
        idle_time: zx_duration_t,
        /// Nanoseconds busy, at full speed.
        normalized_busy_time: zx_duration_t,
        /// Counts.
        reschedules: u64,
        /// Counts.
        context_switches: u64,
        /// Counts.
        irq_preempts: u64,
        /// Counts.
        preempts: u64,
        /// Counts.
        yields: u64,
        /// Interrupts other than the timer's.
        ints: u64,
        /// Counts.
        timer_ints: u64,
        /// Counts.
        timers: u64,
        /// Zero.
        page_faults: u64,
        /// Zero.
        exceptions: u64,
        /// Counts.
        syscalls: u64,
        /// Counts.
        reschedule_ipis: u64,
        /// Counts.
        generic_ipis: u64,
        /// Nanojoules.
        active_energy_consumption_nj: u64,
        /// Nanojoules.
        idle_energy_consumption_nj: u64,
    }
    #[doc = "`ZX_INFO_KMEM_STATS`: memory of the whole system, in bytes."]
    struct zx_info_kmem_stats_t {
        /// All.
        total_bytes: u64,
        /// Free.
        free_bytes: u64,
        /// Lent, and free.
        free_loaned_bytes: u64,
        /// The system's own, for good.
        wired_bytes: u64,
        /// The system's heap.
        total_heap_bytes: u64,
        /// The part of the heap that is free.
        free_heap_bytes: u64,
        /// In VMOs.
        vmo_bytes: u64,
        /// In page tables.
        mmu_overhead_bytes: u64,
        /// In messages.
        ipc_bytes: u64,
        /// In caches of the allocator.
        cache_bytes: u64,
        /// In slabs of the allocator.
        slab_bytes: u64,
        /// Compressed.
        zram_bytes: u64,
        /// In use for anything else.
        other_bytes: u64,
        /// In VMOs, and could be taken back.
        vmo_reclaim_total_bytes: u64,
        /// The newest part of that.
        vmo_reclaim_newest_bytes: u64,
        /// The oldest part of that.
        vmo_reclaim_oldest_bytes: u64,
        /// In VMOs that said no.
        vmo_reclaim_disabled_bytes: u64,
        /// In discardable VMOs, locked.
        vmo_discardable_locked_bytes: u64,
        /// In discardable VMOs, unlocked.
        vmo_discardable_unlocked_bytes: u64,
    }
    #[doc = "`ZX_INFO_RESOURCE`"]
    struct zx_info_resource_t {
        /// `ZX_RSRC_KIND_*`
        kind: u32,
        /// `ZX_RSRC_FLAG_*`
        flags: u32,
        /// First unit.
        base: u64,
        /// Units.
        size: usize,
        /// Its name.
        name: [u8; ZX_MAX_NAME_LEN],
    }
    #[doc = "`ZX_INFO_MSI`"]
    struct zx_info_msi_t {
        /// Where the device writes.
        target_addr: u64,
        /// What it writes.
        target_data: u32,
        /// First interrupt of the block.
        base_irq_id: u32,
        /// Interrupts of the block.
        num_irq: u32,
        /// Interrupt objects of the block.
        interrupt_count: u32,
    }
    #[doc = "`ZX_INFO_VCPU`"]
    struct zx_info_vcpu_t {
        /// `ZX_INFO_VCPU_FLAG_*`
        flags: u32,
    }
    #[doc = "`ZX_INFO_IOB`"]
    struct zx_info_iob_t {
        /// As it was made.
        options: u64,
        /// Regions.
        region_count: u32,
        /// Zero.
        padding1: [u8; 4],
    }
    #[doc = "`ZX_INFO_IOB_REGIONS`"]
    struct zx_iob_region_info_t {
        /// As it was made; the ends swapped when asked from end 1.
        region: zx_iob_region_t,
        /// Its memory.
        koid: zx_koid_t,
    }
    #[doc = "`ZX_INFO_MEMORY_STALL`"]
    struct zx_info_memory_stall_t {
        /// Nanoseconds in which some thread waited for memory.
        stall_time_some: zx_duration_t,
        /// Nanoseconds in which all threads did.
        stall_time_full: zx_duration_t,
    }
    #[doc = "`ZX_INFO_INTERRUPT`"]
    struct zx_info_interrupt_t {
        /// As it was made.
        options: u32,
    }
}
