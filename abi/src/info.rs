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
        /// The koid of the peer or the parent, or 0.
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
        /// The koid of the peer or the parent, or 0.
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
        /// Its return code, or `ZX_TASK_RETCODE_*`; valid when it has ended.
        return_code: i64,
        /// Its start time, monotonic; valid when it was started.
        start_time: zx_time_t,
        /// `ZX_INFO_PROCESS_FLAG_*`
        flags: u32,
        /// Zero.
        padding1: [u8; 4],
    }
    #[doc = "`ZX_INFO_JOB`"]
    struct zx_info_job_t {
        /// `ZX_TASK_RETCODE_*`; valid when it has ended.
        return_code: i64,
        /// 1 if it has ended.
        exited: u8,
        /// 1 if it is killed first when memory runs out.
        kill_on_oom: u8,
        /// 1 if a debugger is attached.
        debugger_attached: u8,
        /// Zero.
        padding1: [u8; 5],
    }
    #[doc = "`HAFNON_INFO_JOB_USAGE`: what a job and all below it have, and may have; `u64::MAX` where there is no limit."]
    struct hafnon_info_job_usage_t {
        /// Bytes used.
        memory: u64,
        /// Its quota.
        memory_limit: u64,
        /// Processes that have not ended.
        processes: u64,
        /// Their quota.
        process_limit: u64,
        /// Threads that have not ended.
        threads: u64,
        /// Their quota.
        thread_limit: u64,
        /// Jobs below it.
        jobs: u64,
        /// Their quota.
        job_limit: u64,
        /// Places for handles.
        handles: u64,
        /// Their quota.
        handle_limit: u64,
        /// Places for messages in queues.
        messages: u64,
        /// Their quota.
        message_limit: u64,
        /// Bytes in queues.
        queued_bytes: u64,
        /// Their quota.
        queued_bytes_limit: u64,
        /// Nanoseconds that server and kernel have worked for it, in units of the tick; `u64::MAX` if they are not
        /// counted.
        kernel_time: u64,
    }
    #[doc = "`ZX_INFO_TIMER`"]
    struct zx_info_timer_t {
        /// The options with which it was created.
        options: u32,
        /// The clock with which it was created.
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
        /// The stream's position.
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
        /// The processors on which it may run.
        cpu_affinity_mask: zx_cpu_set_t,
    }
    #[doc = "`ZX_INFO_THREAD_STATS`"]
    struct zx_info_thread_stats_t {
        /// Nanoseconds.
        total_runtime: zx_duration_t,
        /// The processor on which it ran last, or `ZX_INFO_INVALID_CPU`.
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
        /// Bytes of memory that are also mapped elsewhere.
        mem_shared_bytes: usize,
        /// Its share of the shared bytes.
        mem_scaled_shared_bytes: usize,
        /// The fraction of a byte in addition, in units of 2^-63.
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
        /// Minimum number of contiguous bytes.
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
        /// The options with which it was created.
        options: u32,
        /// Zero.
        padding1: [u8; 4],
        /// Capacity of this end's receive buffer, in bytes.
        rx_buf_max: usize,
        /// Bytes that wait to be read.
        rx_buf_size: usize,
        /// Bytes that one read can take.
        rx_buf_available: usize,
        /// Capacity of the peer's receive buffer, in bytes.
        tx_buf_max: usize,
        /// Bytes that wait at the peer.
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
        /// Offset in the VMO.
        vmo_offset: u64,
        /// Committed bytes.
        committed_bytes: usize,
        /// Populated bytes: those with content.
        populated_bytes: usize,
        /// Committed bytes that no other VMO shares.
        committed_private_bytes: usize,
        /// Populated bytes that no other VMO shares.
        populated_private_bytes: usize,
        /// Its share of the committed bytes.
        committed_scaled_bytes: usize,
        /// Its share of the populated bytes.
        populated_scaled_bytes: usize,
        /// The fraction of a byte in addition, in units of 2^-63.
        committed_fractional_scaled_bytes: u64,
        /// The fraction of a byte in addition, in units of 2^-63.
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
        /// Its depth in the tree.
        depth: usize,
        /// `ZX_INFO_MAPS_TYPE_*`
        type_: u32,
        /// Zero.
        padding1: [u8; 4],
        /// Valid for mappings.
        mapping: zx_info_maps_mapping_t,
    }
    #[doc = "`ZX_INFO_VMO`, `ZX_INFO_PROCESS_VMOS`"]
    struct zx_info_vmo_t {
        /// The VMO.
        koid: zx_koid_t,
        /// Its name.
        name: [u8; ZX_MAX_NAME_LEN],
        /// Size in bytes.
        size_bytes: u64,
        /// The koid of the parent, or 0.
        parent_koid: zx_koid_t,
        /// Number of children.
        num_children: usize,
        /// Number of mappings.
        num_mappings: usize,
        /// Number of address spaces that map it.
        share_count: usize,
        /// `ZX_INFO_VMO_*`
        flags: u32,
        /// Zero.
        padding1: [u8; 4],
        /// Committed bytes.
        committed_bytes: u64,
        /// The rights of the handle, if it was found by a handle.
        handle_rights: zx_rights_t,
        /// `ZX_CACHE_POLICY_*`
        cache_policy: u32,
        /// Bytes of the system's metadata for it.
        metadata_bytes: u64,
        /// Number of changes of the committed memory that no program caused explicitly.
        committed_change_events: u64,
        /// Populated bytes: those with content.
        populated_bytes: u64,
        /// Committed bytes that no other VMO shares.
        committed_private_bytes: u64,
        /// Populated bytes that no other VMO shares.
        populated_private_bytes: u64,
        /// Its share of the committed bytes.
        committed_scaled_bytes: u64,
        /// Its share of the populated bytes.
        populated_scaled_bytes: u64,
        /// The fraction of a byte in addition, in units of 2^-63.
        committed_fractional_scaled_bytes: u64,
        /// The fraction of a byte in addition, in units of 2^-63.
        populated_fractional_scaled_bytes: u64,
    }
    #[doc = "`ZX_INFO_TASK_RUNTIME`"]
    struct zx_info_task_runtime_t {
        /// Nanoseconds running.
        cpu_time: zx_duration_t,
        /// Nanoseconds ready to run but not running.
        queue_time: zx_duration_t,
        /// Nanoseconds in page faults.
        page_fault_time: zx_duration_t,
        /// Nanoseconds waiting for locks of the system.
        lock_contention_time: zx_duration_t,
    }
    #[doc = "`ZX_INFO_CPU_STATS`"]
    struct zx_info_cpu_stats_t {
        /// The processor.
        cpu_number: u32,
        /// `ZX_INFO_CPU_STATS_FLAG_*`
        flags: u32,
        /// Nanoseconds without a thread that is ready to run.
        idle_time: zx_duration_t,
        /// Nanoseconds busy, at full speed.
        normalized_busy_time: zx_duration_t,
        /// Number of reschedules.
        reschedules: u64,
        /// Number of context switches.
        context_switches: u64,
        /// Number of preemptions by interrupts.
        irq_preempts: u64,
        /// Number of other preemptions.
        preempts: u64,
        /// Number of yields.
        yields: u64,
        /// Number of interrupts other than the timer's.
        ints: u64,
        /// Number of timer interrupts.
        timer_ints: u64,
        /// Number of timer callbacks.
        timers: u64,
        /// Zero.
        page_faults: u64,
        /// Zero.
        exceptions: u64,
        /// Number of system calls.
        syscalls: u64,
        /// Number of inter-processor interrupts for rescheduling.
        reschedule_ipis: u64,
        /// Number of other inter-processor interrupts.
        generic_ipis: u64,
        /// Nanojoules.
        active_energy_consumption_nj: u64,
        /// Nanojoules.
        idle_energy_consumption_nj: u64,
    }
    #[doc = "`ZX_INFO_KMEM_STATS`: memory of the whole system, in bytes."]
    struct zx_info_kmem_stats_t {
        /// Total.
        total_bytes: u64,
        /// Free.
        free_bytes: u64,
        /// Free loaned memory.
        free_loaned_bytes: u64,
        /// Permanently used by the system.
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
        /// In other use.
        other_bytes: u64,
        /// In VMOs, and reclaimable.
        vmo_reclaim_total_bytes: u64,
        /// The newest part of that.
        vmo_reclaim_newest_bytes: u64,
        /// The oldest part of that.
        vmo_reclaim_oldest_bytes: u64,
        /// In VMOs for which reclamation is disabled.
        vmo_reclaim_disabled_bytes: u64,
        /// In discardable VMOs, locked.
        vmo_discardable_locked_bytes: u64,
        /// In discardable VMOs, unlocked.
        vmo_discardable_unlocked_bytes: u64,
    }
    #[doc = "`ZX_INFO_KMEM_STATS_V1`: the same, as it once was."]
    struct zx_info_kmem_stats_v1_t {
        /// Total.
        total_bytes: u64,
        /// Free.
        free_bytes: u64,
        /// Permanently used by the system.
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
        /// In other use.
        other_bytes: u64,
    }
    #[doc = "`ZX_INFO_KMEM_STATS_EXTENDED`: the same with what could be taken back."]
    struct zx_info_kmem_stats_extended_t {
        /// Total.
        total_bytes: u64,
        /// Free.
        free_bytes: u64,
        /// Permanently used by the system.
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
        /// In other use.
        other_bytes: u64,
        /// In VMOs for which reclamation is disabled.
        vmo_reclaim_disabled_bytes: u64,
    }
    #[doc = "`ZX_INFO_KMEM_STATS_COMPRESSION`: what compressing memory does."]
    struct zx_info_kmem_stats_compression_t {
        /// Bytes of content that are stored compressed.
        uncompressed_storage_bytes: u64,
        /// Bytes that their compressed form takes.
        compressed_storage_bytes: u64,
        /// Bytes of these that are lost to fragmentation.
        compressed_fragmentation_bytes: u64,
        /// Nanoseconds spent compressing.
        compression_time: zx_duration_t,
        /// Nanoseconds spent decompressing.
        decompression_time: zx_duration_t,
        /// Pages for which compression was attempted.
        total_page_compression_attempts: u64,
        /// Pages that did not become smaller.
        failed_page_compression_attempts: u64,
        /// Pages decompressed.
        total_page_decompressions: u64,
        /// Compressed pages that were evicted without having been decompressed.
        compressed_page_evictions: u64,
        /// Pages compressed because they were idle.
        eager_page_compressions: u64,
        /// Pages compressed because memory was short.
        memory_pressure_page_compressions: u64,
        /// Pages compressed because memory was very short.
        critical_memory_page_compressions: u64,
        /// Unit of the next field, in nanoseconds.
        pages_decompressed_unit_ns: u64,
        /// Number of pages by how long they had been compressed; each entry covers twice the time of the one before.
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
        /// Number of units.
        size: usize,
        /// Its name.
        name: [u8; ZX_MAX_NAME_LEN],
    }
    #[doc = "`ZX_INFO_MSI`"]
    struct zx_info_msi_t {
        /// The address that the device writes to.
        target_addr: u64,
        /// The value that it writes.
        target_data: u32,
        /// First interrupt of the block.
        base_irq_id: u32,
        /// Number of interrupts in the block.
        num_irq: u32,
        /// Number of interrupt objects of the block.
        interrupt_count: u32,
    }
    #[doc = "`ZX_INFO_VCPU`"]
    struct zx_info_vcpu_t {
        /// `ZX_INFO_VCPU_FLAG_*`
        flags: u32,
    }
    #[doc = "`ZX_INFO_IOB`"]
    struct zx_info_iob_t {
        /// The options with which it was created.
        options: u64,
        /// Number of regions.
        region_count: u32,
        /// Zero.
        padding1: [u8; 4],
    }
    #[doc = "`ZX_INFO_IOB_REGIONS`"]
    struct zx_iob_region_info_t {
        /// The region as it was created; for end 1 the access of the two ends is swapped.
        region: zx_iob_region_t,
        /// The koid of its memory.
        koid: zx_koid_t,
    }
    #[doc = "`ZX_INFO_MEMORY_STALL`"]
    struct zx_info_memory_stall_t {
        /// Nanoseconds in which some thread waited for memory.
        stall_time_some: zx_duration_t,
        /// Nanoseconds in which all threads waited for memory.
        stall_time_full: zx_duration_t,
    }
    #[doc = "`ZX_INFO_INTERRUPT`"]
    struct zx_info_interrupt_t {
        /// The options with which it was created.
        options: u32,
    }
}
