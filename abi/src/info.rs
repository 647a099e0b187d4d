//! The records that `zx_object_get_info` writes, by topic.

use crate::{
    ZX_CPU_SET_BITS_PER_WORD, ZX_CPU_SET_MAX_CPUS, ZX_MAX_NAME_LEN, ZX_OBJ_TYPE_UPPER_BOUND, zx_clock_t, zx_duration_t,
    zx_handle_t, zx_iob_region_t, zx_koid_t, zx_obj_type_t, zx_off_t, zx_rights_t, zx_time_t, zx_vaddr_t,
    zx_vm_option_t,
};

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
    #[doc = "`HAFNON_INFO_JOB_USAGE`: what a job and all below it have, and may have; `u64::MAX` where there is no limit."]
    struct hafnon_info_job_usage_t {
        /// Bytes.
        memory: u64,
        /// Bytes that may be.
        memory_limit: u64,
        /// Processes that have not ended.
        processes: u64,
        /// As many may be.
        process_limit: u64,
        /// Threads that have not ended.
        threads: u64,
        /// As many may be.
        thread_limit: u64,
        /// Jobs below it.
        jobs: u64,
        /// As many may be.
        job_limit: u64,
        /// Places for handles.
        handles: u64,
        /// As many may be.
        handle_limit: u64,
        /// Places for messages in queues.
        messages: u64,
        /// As many may be.
        message_limit: u64,
        /// Bytes in queues.
        queued_bytes: u64,
        /// As many may be.
        queued_bytes_limit: u64,
        /// Nanoseconds for which the kernel has worked for it, to the tick; `u64::MAX` if they are not counted.
        kernel_time: u64,
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
    #[doc = "`ZX_INFO_KMEM_STATS_V1`: the same, as it once was."]
    struct zx_info_kmem_stats_v1_t {
        /// All.
        total_bytes: u64,
        /// Free.
        free_bytes: u64,
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
        /// In use for anything else.
        other_bytes: u64,
    }
    #[doc = "`ZX_INFO_KMEM_STATS_EXTENDED`: the same with what could be taken back."]
    struct zx_info_kmem_stats_extended_t {
        /// All.
        total_bytes: u64,
        /// Free.
        free_bytes: u64,
        /// The system's own, for good.
        wired_bytes: u64,
        /// The system's heap.
        total_heap_bytes: u64,
        /// The part of the heap that is free.
        free_heap_bytes: u64,
        /// In VMOs.
        vmo_bytes: u64,
        /// In VMOs with a pager.
        vmo_pager_total_bytes: u64,
        /// The newest part of that.
        vmo_pager_newest_bytes: u64,
        /// The oldest part of that.
        vmo_pager_oldest_bytes: u64,
        /// In discardable VMOs, locked.
        vmo_discardable_locked_bytes: u64,
        /// In discardable VMOs, unlocked.
        vmo_discardable_unlocked_bytes: u64,
        /// In page tables.
        mmu_overhead_bytes: u64,
        /// In messages.
        ipc_bytes: u64,
        /// In use for anything else.
        other_bytes: u64,
        /// In VMOs that said no to being taken back.
        vmo_reclaim_disabled_bytes: u64,
    }
    #[doc = "`ZX_INFO_KMEM_STATS_COMPRESSION`: what compressing memory does."]
    struct zx_info_kmem_stats_compression_t {
        /// Bytes of content that are stored compressed.
        uncompressed_storage_bytes: u64,
        /// Bytes that storing them takes.
        compressed_storage_bytes: u64,
        /// The part of that which fragmentation costs.
        compressed_fragmentation_bytes: u64,
        /// Nanoseconds spent compressing.
        compression_time: zx_duration_t,
        /// Nanoseconds spent decompressing.
        decompression_time: zx_duration_t,
        /// Pages that were tried.
        total_page_compression_attempts: u64,
        /// Pages that were not worth it.
        failed_page_compression_attempts: u64,
        /// Pages decompressed.
        total_page_decompressions: u64,
        /// Pages given up without having been decompressed.
        compressed_page_evictions: u64,
        /// Pages compressed because they were idle.
        eager_page_compressions: u64,
        /// Pages compressed because memory was short.
        memory_pressure_page_compressions: u64,
        /// Pages compressed because memory was very short.
        critical_memory_page_compressions: u64,
        /// Nanoseconds that the next field counts in.
        pages_decompressed_unit_ns: u64,
        /// Pages by how long they had been compressed, each place twice as long as the one before.
        pages_decompressed_within_log_time: [u64; 8],
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
