//! Memory: options of VMOs and VMARs.

consts! { TABLE;
    [u32]
        /// `zx_vmo_create`: the size can change.
        ZX_VMO_RESIZABLE = 1 << 1;
        /// `zx_vmo_create`: unlocked pages may be taken away.
        ZX_VMO_DISCARDABLE = 1 << 2;
        /// `zx_pager_create_vmo`: tell the pager before a page becomes dirty.
        ZX_VMO_TRAP_DIRTY = 1 << 3;
        /// `zx_vmo_create`: as large as can be.
        ZX_VMO_UNBOUNDED = 1 << 4;
        /// `zx_vmo_create_child`: a copy as of now.
        ZX_VMO_CHILD_SNAPSHOT = 1 << 0;
        /// `zx_vmo_create_child`: the child's size can change.
        ZX_VMO_CHILD_RESIZABLE = 1 << 2;
        /// `zx_vmo_create_child`: a part of the same memory.
        ZX_VMO_CHILD_SLICE = 1 << 3;
        /// `zx_vmo_create_child`: a page is copied when the child writes to it.
        ZX_VMO_CHILD_SNAPSHOT_AT_LEAST_ON_WRITE = 1 << 4;
        /// `zx_vmo_create_child`: the handle cannot write.
        ZX_VMO_CHILD_NO_WRITE = 1 << 5;
        /// `zx_vmo_create_child`: the same memory under another object.
        ZX_VMO_CHILD_REFERENCE = 1 << 6;
        /// `zx_vmo_create_child`: a copy of what was modified.
        ZX_VMO_CHILD_SNAPSHOT_MODIFIED = 1 << 7;
        /// `zx_vmo_op_range`: give the range memory.
        ZX_VMO_OP_COMMIT = 1;
        /// `zx_vmo_op_range`: take the range's memory back; it reads as zeros.
        ZX_VMO_OP_DECOMMIT = 2;
        /// `zx_vmo_op_range`: lock a discardable VMO.
        ZX_VMO_OP_LOCK = 3;
        /// `zx_vmo_op_range`: unlock it.
        ZX_VMO_OP_UNLOCK = 4;
        /// `zx_vmo_op_range`: make instruction fetches see what was written.
        ZX_VMO_OP_CACHE_SYNC = 6;
        /// `zx_vmo_op_range`: throw cached data away.
        ZX_VMO_OP_CACHE_INVALIDATE = 7;
        /// `zx_vmo_op_range`: write cached data back.
        ZX_VMO_OP_CACHE_CLEAN = 8;
        /// `zx_vmo_op_range`: write cached data back and forget it.
        ZX_VMO_OP_CACHE_CLEAN_INVALIDATE = 9;
        /// `zx_vmo_op_range`: fill with zeros.
        ZX_VMO_OP_ZERO = 10;
        /// `zx_vmo_op_range`: lock, unless pages are gone.
        ZX_VMO_OP_TRY_LOCK = 11;
        /// `zx_vmo_op_range`: the range is not needed soon.
        ZX_VMO_OP_DONT_NEED = 12;
        /// `zx_vmo_op_range`: the range must stay.
        ZX_VMO_OP_ALWAYS_NEED = 13;
        /// `zx_vmo_op_range`: bring the range in.
        ZX_VMO_OP_PREFETCH = 14;
        /// `zx_vmar_op_range`, as for VMOs.
        ZX_VMAR_OP_COMMIT = 1;
        /// `zx_vmar_op_range`, as for VMOs.
        ZX_VMAR_OP_DECOMMIT = 2;
        /// `zx_vmar_op_range`: map what is committed.
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
        /// `zx_pager_query_vmo_stats`: forget that it was modified.
        ZX_PAGER_RESET_VMO_STATS = 1;
        /// The mapping can be read.
        ZX_VM_PERM_READ = 1 << 0;
        /// The mapping can be written.
        ZX_VM_PERM_WRITE = 1 << 1;
        /// The mapping can be executed.
        ZX_VM_PERM_EXECUTE = 1 << 2;
        /// Lay things out close to each other.
        ZX_VM_COMPACT = 1 << 3;
        /// Exactly at the given offset.
        ZX_VM_SPECIFIC = 1 << 4;
        /// Exactly there, replacing what is there.
        ZX_VM_SPECIFIC_OVERWRITE = 1 << 5;
        /// `zx_vmar_allocate`: offsets can be chosen.
        ZX_VM_CAN_MAP_SPECIFIC = 1 << 6;
        /// `zx_vmar_allocate`: readable mappings can be made.
        ZX_VM_CAN_MAP_READ = 1 << 7;
        /// `zx_vmar_allocate`: writable mappings can be made.
        ZX_VM_CAN_MAP_WRITE = 1 << 8;
        /// `zx_vmar_allocate`: executable mappings can be made.
        ZX_VM_CAN_MAP_EXECUTE = 1 << 9;
        /// Map what is committed now.
        ZX_VM_MAP_RANGE = 1 << 10;
        /// Refuse a VMO that can change its size.
        ZX_VM_REQUIRE_NON_RESIZABLE = 1 << 11;
        /// Accesses may fault.
        ZX_VM_ALLOW_FAULTS = 1 << 12;
        /// The offset is where the mapping must end at the latest.
        ZX_VM_OFFSET_IS_UPPER_LIMIT = 1 << 13;
        /// Add reading where execute-only is not to be had.
        ZX_VM_PERM_READ_IF_XOM_UNSUPPORTED = 1 << 14;
        /// Accesses beyond the content's size fault.
        ZX_VM_FAULT_BEYOND_STREAM_SIZE = 1 << 15;
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
        /// The memory is a device's.
        ZX_CACHE_POLICY_UNCACHED_DEVICE = 2;
        /// Writes are combined.
        ZX_CACHE_POLICY_WRITE_COMBINING = 3;
        /// All cache policies.
        ZX_CACHE_POLICY_MASK = 3;
        /// `zx_cache_flush`: instructions.
        ZX_CACHE_FLUSH_INSN = 1;
        /// `zx_cache_flush`: data.
        ZX_CACHE_FLUSH_DATA = 2;
        /// `zx_cache_flush`: forget as well.
        ZX_CACHE_FLUSH_INVALIDATE = 4;
        /// `zx_process_create`: the address space will be shared.
        ZX_PROCESS_SHARED = 1;
        /// Devices may read the pinned memory.
        ZX_BTI_PERM_READ = 1 << 0;
        /// Devices may write the pinned memory.
        ZX_BTI_PERM_WRITE = 1 << 1;
        /// Devices may execute the pinned memory.
        ZX_BTI_PERM_EXECUTE = 1 << 2;
        /// `zx_bti_pin`: an address for each run, not for each page.
        ZX_BTI_COMPRESS = 1 << 3;
        /// `zx_bti_pin`: one address.
        ZX_BTI_CONTIGUOUS = 1 << 4;
    [u64]
        /// [`zx_vmo_dirty_range_t`]: the range is zeros.
        ZX_VMO_DIRTY_RANGE_IS_ZERO = 1;
}

structs! { STRUCTS;
    #[doc = "What `ZX_VMO_OP_LOCK` found."]
    struct zx_vmo_lock_state_t {
        /// First byte locked.
        offset: u64,
        /// Bytes locked.
        size: u64,
        /// First byte that was taken away.
        discarded_offset: u64,
        /// Bytes that were taken away.
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
        /// Bytes.
        length: u64,
        /// `ZX_VMO_DIRTY_RANGE_*`
        options: u64,
    }
}
