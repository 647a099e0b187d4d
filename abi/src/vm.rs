//! Memory: options of VMOs and VMARs.

consts! { TABLE;
    [u32]
        /// `zx_vmo_create`: the size can change.
        ZX_VMO_RESIZABLE = 1 << 1;
        /// `zx_vmo_create`: pages may be discarded while it is unlocked.
        ZX_VMO_DISCARDABLE = 1 << 2;
        /// `zx_pager_create_vmo`: notify the pager before a page becomes dirty.
        ZX_VMO_TRAP_DIRTY = 1 << 3;
        /// `zx_vmo_create`: the maximum size.
        ZX_VMO_UNBOUNDED = 1 << 4;
        /// `zx_vmo_create_child`: a snapshot.
        ZX_VMO_CHILD_SNAPSHOT = 1 << 0;
        /// `zx_vmo_create_child`: the child's size can change.
        ZX_VMO_CHILD_RESIZABLE = 1 << 2;
        /// `zx_vmo_create_child`: a slice, which shows a part of the same memory.
        ZX_VMO_CHILD_SLICE = 1 << 3;
        /// `zx_vmo_create_child`: a page is copied when the child writes to it.
        ZX_VMO_CHILD_SNAPSHOT_AT_LEAST_ON_WRITE = 1 << 4;
        /// `zx_vmo_create_child`: the handle has no right to write.
        ZX_VMO_CHILD_NO_WRITE = 1 << 5;
        /// `zx_vmo_create_child`: a reference, which shows the same memory by another object.
        ZX_VMO_CHILD_REFERENCE = 1 << 6;
        /// `zx_vmo_create_child`: a copy of the modified pages.
        ZX_VMO_CHILD_SNAPSHOT_MODIFIED = 1 << 7;
        /// `zx_vmo_op_range`: commit the range.
        ZX_VMO_OP_COMMIT = 1;
        /// `zx_vmo_op_range`: decommit the range; it then reads as zeros.
        ZX_VMO_OP_DECOMMIT = 2;
        /// `zx_vmo_op_range`: lock a discardable VMO.
        ZX_VMO_OP_LOCK = 3;
        /// `zx_vmo_op_range`: unlock it.
        ZX_VMO_OP_UNLOCK = 4;
        /// `zx_vmo_op_range`: make writes visible to instruction fetches.
        ZX_VMO_OP_CACHE_SYNC = 6;
        /// `zx_vmo_op_range`: discard cached data.
        ZX_VMO_OP_CACHE_INVALIDATE = 7;
        /// `zx_vmo_op_range`: write cached data back.
        ZX_VMO_OP_CACHE_CLEAN = 8;
        /// `zx_vmo_op_range`: write cached data back and discard it.
        ZX_VMO_OP_CACHE_CLEAN_INVALIDATE = 9;
        /// `zx_vmo_op_range`: fill with zeros.
        ZX_VMO_OP_ZERO = 10;
        /// `zx_vmo_op_range`: lock, unless pages have been discarded.
        ZX_VMO_OP_TRY_LOCK = 11;
        /// `zx_vmo_op_range`: the range will not be needed soon.
        ZX_VMO_OP_DONT_NEED = 12;
        /// `zx_vmo_op_range`: the range must not be reclaimed.
        ZX_VMO_OP_ALWAYS_NEED = 13;
        /// `zx_vmo_op_range`: bring the range into memory.
        ZX_VMO_OP_PREFETCH = 14;
        /// `zx_vmar_op_range`, as for VMOs.
        ZX_VMAR_OP_COMMIT = 1;
        /// `zx_vmar_op_range`, as for VMOs.
        ZX_VMAR_OP_DECOMMIT = 2;
        /// `zx_vmar_op_range`: map committed pages.
        ZX_VMAR_OP_MAP_RANGE = 3;
        /// `zx_vmar_op_range`, as for VMOs.
        ZX_VMAR_OP_ZERO = 10;
        /// `zx_vmar_op_range`, as for VMOs.
        ZX_VMAR_OP_DONT_NEED = 12;
        /// `zx_vmar_op_range`, as for VMOs.
        ZX_VMAR_OP_ALWAYS_NEED = 13;
        /// `zx_vmar_op_range`, as for VMOs.
        ZX_VMAR_OP_PREFETCH = 14;
        /// `zx_pager_op_range`: pages cannot be supplied.
        ZX_PAGER_OP_FAIL = 1;
        /// `zx_pager_op_range`: pages may become dirty.
        ZX_PAGER_OP_DIRTY = 2;
        /// `zx_pager_op_range`: write-back begins.
        ZX_PAGER_OP_WRITEBACK_BEGIN = 3;
        /// `zx_pager_op_range`: write-back ends.
        ZX_PAGER_OP_WRITEBACK_END = 4;
        /// [`zx_pager_vmo_stats_t`]: the VMO was modified.
        ZX_PAGER_VMO_STATS_MODIFIED = 1;
        /// `zx_pager_query_vmo_stats`: reset the modified state.
        ZX_PAGER_RESET_VMO_STATS = 1;
        /// The mapping is readable.
        ZX_VM_PERM_READ = 1 << 0;
        /// The mapping is writable.
        ZX_VM_PERM_WRITE = 1 << 1;
        /// The mapping is executable.
        ZX_VM_PERM_EXECUTE = 1 << 2;
        /// Place mappings close to each other.
        ZX_VM_COMPACT = 1 << 3;
        /// Exactly at the given offset.
        ZX_VM_SPECIFIC = 1 << 4;
        /// Exactly at the given offset, replacing existing mappings.
        ZX_VM_SPECIFIC_OVERWRITE = 1 << 5;
        /// `zx_vmar_allocate`: mappings may specify their offset.
        ZX_VM_CAN_MAP_SPECIFIC = 1 << 6;
        /// `zx_vmar_allocate`: mappings may be readable.
        ZX_VM_CAN_MAP_READ = 1 << 7;
        /// `zx_vmar_allocate`: mappings may be writable.
        ZX_VM_CAN_MAP_WRITE = 1 << 8;
        /// `zx_vmar_allocate`: mappings may be executable.
        ZX_VM_CAN_MAP_EXECUTE = 1 << 9;
        /// Map committed pages at once.
        ZX_VM_MAP_RANGE = 1 << 10;
        /// Refuse a resizable VMO.
        ZX_VM_REQUIRE_NON_RESIZABLE = 1 << 11;
        /// Accesses may fault.
        ZX_VM_ALLOW_FAULTS = 1 << 12;
        /// The offset is the upper limit of the mapping's end.
        ZX_VM_OFFSET_IS_UPPER_LIMIT = 1 << 13;
        /// Make the mapping readable if the processor does not support execute-only mappings.
        ZX_VM_PERM_READ_IF_XOM_UNSUPPORTED = 1 << 14;
        /// Accesses beyond the stream size fault.
        ZX_VM_FAULT_BEYOND_STREAM_SIZE = 1 << 15;
        /// The mapping is a page table: `zx_vproc_map` alone maps pages of the VMO in it, any page at any address.
        HAFNON_VM_PAGE_TABLE = 1 << 23;
        /// The options' bits from here on are log2 of the alignment.
        ZX_VM_ALIGN_BASE = 24;
        /// Align to 1 KiB.
        ZX_VM_ALIGN_1KB = 10 << 24;
        /// Align to 2 KiB.
        ZX_VM_ALIGN_2KB = 11 << 24;
        /// Align to 4 KiB.
        ZX_VM_ALIGN_4KB = 12 << 24;
        /// Align to 8 KiB.
        ZX_VM_ALIGN_8KB = 13 << 24;
        /// Align to 16 KiB.
        ZX_VM_ALIGN_16KB = 14 << 24;
        /// Align to 32 KiB.
        ZX_VM_ALIGN_32KB = 15 << 24;
        /// Align to 64 KiB.
        ZX_VM_ALIGN_64KB = 16 << 24;
        /// Align to 128 KiB.
        ZX_VM_ALIGN_128KB = 17 << 24;
        /// Align to 256 KiB.
        ZX_VM_ALIGN_256KB = 18 << 24;
        /// Align to 512 KiB.
        ZX_VM_ALIGN_512KB = 19 << 24;
        /// Align to 1 MiB.
        ZX_VM_ALIGN_1MB = 20 << 24;
        /// Align to 2 MiB.
        ZX_VM_ALIGN_2MB = 21 << 24;
        /// Align to 4 MiB.
        ZX_VM_ALIGN_4MB = 22 << 24;
        /// Align to 8 MiB.
        ZX_VM_ALIGN_8MB = 23 << 24;
        /// Align to 16 MiB.
        ZX_VM_ALIGN_16MB = 24 << 24;
        /// Align to 32 MiB.
        ZX_VM_ALIGN_32MB = 25 << 24;
        /// Align to 64 MiB.
        ZX_VM_ALIGN_64MB = 26 << 24;
        /// Align to 128 MiB.
        ZX_VM_ALIGN_128MB = 27 << 24;
        /// Align to 256 MiB.
        ZX_VM_ALIGN_256MB = 28 << 24;
        /// Align to 512 MiB.
        ZX_VM_ALIGN_512MB = 29 << 24;
        /// Align to 1 GiB.
        ZX_VM_ALIGN_1GB = 30 << 24;
        /// Align to 2 GiB.
        ZX_VM_ALIGN_2GB = 31 << 24;
        /// Align to 4 GiB.
        ZX_VM_ALIGN_4GB = 32 << 24;
        /// The memory is cached.
        ZX_CACHE_POLICY_CACHED = 0;
        /// The memory is not cached.
        ZX_CACHE_POLICY_UNCACHED = 1;
        /// The memory belongs to a device.
        ZX_CACHE_POLICY_UNCACHED_DEVICE = 2;
        /// Writes are combined.
        ZX_CACHE_POLICY_WRITE_COMBINING = 3;
        /// All cache policies.
        ZX_CACHE_POLICY_MASK = 3;
        /// `zx_cache_flush`: instructions.
        ZX_CACHE_FLUSH_INSN = 1;
        /// `zx_cache_flush`: data.
        ZX_CACHE_FLUSH_DATA = 2;
        /// `zx_cache_flush`: invalidate as well.
        ZX_CACHE_FLUSH_INVALIDATE = 4;
        /// `zx_process_create`: the address space can be shared.
        ZX_PROCESS_SHARED = 1;
        /// Devices may read the pinned memory.
        ZX_BTI_PERM_READ = 1 << 0;
        /// Devices may write the pinned memory.
        ZX_BTI_PERM_WRITE = 1 << 1;
        /// Devices may execute the pinned memory.
        ZX_BTI_PERM_EXECUTE = 1 << 2;
        /// `zx_bti_pin`: one address per contiguous run, not per page.
        ZX_BTI_COMPRESS = 1 << 3;
        /// `zx_bti_pin`: one address for the whole range.
        ZX_BTI_CONTIGUOUS = 1 << 4;
    [u64]
        /// [`zx_vmo_dirty_range_t`]: the range reads as zeros.
        ZX_VMO_DIRTY_RANGE_IS_ZERO = 1;
}

structs! { STRUCTS;
    #[doc = "What `ZX_VMO_OP_LOCK` found."]
    struct zx_vmo_lock_state_t {
        /// First locked byte.
        offset: u64,
        /// Number of locked bytes.
        size: u64,
        /// First discarded byte.
        discarded_offset: u64,
        /// Number of discarded bytes.
        discarded_size: u64,
    }
    #[doc = "What `zx_pager_query_vmo_stats` found."]
    struct zx_pager_vmo_stats_t {
        /// `ZX_PAGER_VMO_STATS_MODIFIED` or 0.
        modified: u32,
    }
    #[doc = "A dirty range of a pager's VMO."]
    struct zx_vmo_dirty_range_t {
        /// First byte.
        offset: u64,
        /// Length in bytes.
        length: u64,
        /// `ZX_VMO_DIRTY_RANGE_*`
        options: u64,
    }
}
