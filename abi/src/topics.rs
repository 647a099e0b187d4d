//! Topics of `zx_object_get_info`, and constants of their records.
//!
//! A topic's upper four bits are the version of its record; the constants without a suffix are the newest versions.

#[allow(unused_imports, reason = "for links")]
use crate::*;

const fn topic(number: u32, version: u32) -> u32 {
    number | version << 28
}

consts! { TABLE;
    [u32]
        /// No topic.
        ZX_INFO_NONE = 0;
        /// Whether the value is a valid handle: no record.
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
        /// [`zx_info_maps_t`]s whose mappings end with `committed_bytes`, in pages.
        ZX_INFO_PROCESS_MAPS_V1 = 13;
        /// [`zx_info_maps_t`]s whose mappings end with `populated_bytes`, both in pages.
        ZX_INFO_PROCESS_MAPS_V2 = topic(13, 1);
        /// [`zx_info_maps_t`]s
        ZX_INFO_PROCESS_MAPS = topic(13, 2);
        /// Records as in `ZX_INFO_VMO_V1`.
        ZX_INFO_PROCESS_VMOS_V1 = 14;
        /// Records as in `ZX_INFO_VMO_V2`.
        ZX_INFO_PROCESS_VMOS_V2 = topic(14, 1);
        /// Records as in `ZX_INFO_VMO_V3`.
        ZX_INFO_PROCESS_VMOS_V3 = topic(14, 2);
        /// [`zx_info_vmo_t`]s
        ZX_INFO_PROCESS_VMOS = topic(14, 3);
        /// [`zx_info_thread_stats_t`]
        ZX_INFO_THREAD_STATS = 15;
        /// [`zx_info_cpu_stats_t`]s
        ZX_INFO_CPU_STATS = 16;
        /// [`zx_info_kmem_stats_v1_t`]
        ZX_INFO_KMEM_STATS_V1 = 17;
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
        /// The fields of [`zx_info_vmo_t`] up to `committed_change_events`.
        ZX_INFO_VMO_V2 = topic(23, 1);
        /// The fields of [`zx_info_vmo_t`] up to `populated_bytes`.
        ZX_INFO_VMO_V3 = topic(23, 2);
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
        /// Statistics of a guest.
        ZX_INFO_GUEST_STATS = 29;
        /// The first two fields of [`zx_info_task_runtime_t`].
        ZX_INFO_TASK_RUNTIME_V1 = 30;
        /// [`zx_info_task_runtime_t`]
        ZX_INFO_TASK_RUNTIME = topic(30, 1);
        /// [`zx_info_kmem_stats_extended_t`]; deprecated on Zircon.
        ZX_INFO_KMEM_STATS_EXTENDED = 31;
        /// [`zx_info_vcpu_t`]
        ZX_INFO_VCPU = 32;
        /// [`zx_info_kmem_stats_compression_t`]
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
        /// A `u64`: bytes that a mapped clock takes.
        ZX_INFO_CLOCK_MAPPED_SIZE = 40;
        /// [`hafnon_info_job_usage_t`](crate::hafnon_info_job_usage_t). Not Zircon's: an extension.
        HAFNON_INFO_JOB_USAGE = 0x4866_0001;
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
        /// Running, or ready to run.
        ZX_THREAD_STATE_RUNNING = 1;
        /// Suspended.
        ZX_THREAD_STATE_SUSPENDED = 2;
        /// Blocked; the following states tell the reason.
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
        /// Waiting for a pager.
        ZX_THREAD_STATE_BLOCKED_PAGER = 0x903;
        /// No record.
        ZX_INFO_MAPS_TYPE_NONE = 0;
        /// A record of an address space.
        ZX_INFO_MAPS_TYPE_ASPACE = 1;
        /// A record of a VMAR.
        ZX_INFO_MAPS_TYPE_VMAR = 2;
        /// A record of a mapping.
        ZX_INFO_MAPS_TYPE_MAPPING = 3;
        /// The VMO has pages of memory.
        ZX_INFO_VMO_TYPE_PAGED = 1 << 0;
        /// The VMO shows a physical address range.
        ZX_INFO_VMO_TYPE_PHYSICAL = 0;
        /// Its size can change.
        ZX_INFO_VMO_RESIZABLE = 1 << 1;
        /// It is a copy-on-write child.
        ZX_INFO_VMO_IS_COW_CLONE = 1 << 2;
        /// The process has a handle to it.
        ZX_INFO_VMO_VIA_HANDLE = 1 << 3;
        /// The process has mapped it.
        ZX_INFO_VMO_VIA_MAPPING = 1 << 4;
        /// A pager supplies its pages.
        ZX_INFO_VMO_PAGER_BACKED = 1 << 5;
        /// Its pages are contiguous.
        ZX_INFO_VMO_CONTIGUOUS = 1 << 6;
        /// Its pages may be discarded.
        ZX_INFO_VMO_DISCARDABLE = 1 << 7;
        /// It was never writable.
        ZX_INFO_VMO_IMMUTABLE = 1 << 8;
        /// The process has a handle to an IOBuffer that contains it.
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
        /// Killed by an unhandled exception.
        ZX_TASK_RETCODE_EXCEPTION_KILL = -1028;
        /// Killed because a critical process ended.
        ZX_TASK_RETCODE_CRITICAL_PROCESS_KILL = -1029;
    [usize]
        /// Maximum number of processors in a set.
        ZX_CPU_SET_MAX_CPUS = 512;
        /// Processors in one word of a set.
        ZX_CPU_SET_BITS_PER_WORD = 64;
}
