//! Properties: single values of an object that can be read and set.

consts! { TABLE;
    [u32]
        /// The thread's GS base (`usize`).
        ZX_PROP_REGISTER_GS = 2;
        /// The object's name (`[u8; ZX_MAX_NAME_LEN]`).
        ZX_PROP_NAME = 3;
        /// The thread's FS base (`usize`).
        ZX_PROP_REGISTER_FS = 4;
        /// Address of the dynamic linker's list for debuggers (`usize`).
        ZX_PROP_PROCESS_DEBUG_ADDR = 5;
        /// Address of the vDSO, or 0 (`usize`).
        ZX_PROP_PROCESS_VDSO_BASE_ADDRESS = 6;
        /// Whether the dynamic linker traps when it loads a library (`usize`).
        ZX_PROP_PROCESS_BREAK_ON_LOAD = 7;
        /// The process's identification for a hardware tracer (`usize`).
        ZX_PROP_PROCESS_HW_TRACE_CONTEXT_ID = 8;
        /// Number of bytes from which `ZX_SOCKET_READ_THRESHOLD` is asserted (`usize`).
        ZX_PROP_SOCKET_RX_THRESHOLD = 12;
        /// Number of bytes from which `ZX_SOCKET_WRITE_THRESHOLD` is asserted (`usize`).
        ZX_PROP_SOCKET_TX_THRESHOLD = 13;
        /// Whether the job is killed first when memory runs out (`usize`).
        ZX_PROP_JOB_KILL_ON_OOM = 15;
        /// What happens when the exception is closed (`u32`).
        ZX_PROP_EXCEPTION_STATE = 16;
        /// Bytes of content in the VMO, not rounded to pages (`u64`).
        ZX_PROP_VMO_CONTENT_SIZE = 17;
        /// The newer name of `ZX_PROP_VMO_CONTENT_SIZE` (`u64`).
        ZX_PROP_VMO_STREAM_SIZE = 17;
        /// Whether the debugger gets the exception again after the process's handler (`u32`).
        ZX_PROP_EXCEPTION_STRATEGY = 18;
        /// Whether the stream appends (`u8`).
        ZX_PROP_STREAM_MODE_APPEND = 19;
        /// Memory quota of the job and all jobs below it in bytes, `u64::MAX` for no limit (`u64`). Not Zircon's: an
        /// extension. Setting it also needs the right to set policies. `objects/src/core/account/mod.rs` says what is
        /// counted.
        HAFNON_PROP_JOB_MEMORY_LIMIT = 0x4866_0001;
        /// Bytes that the job and all jobs below it use (`u64`). Read-only. Not Zircon's: an extension.
        HAFNON_PROP_JOB_MEMORY_USED = 0x4866_0002;
        /// Quota of processes for the job and all jobs below it, `u64::MAX` for no limit (`u64`). The following
        /// properties have the same form. Not Zircon's: an extension, set as [`HAFNON_PROP_JOB_MEMORY_LIMIT`].
        /// [`HAFNON_INFO_JOB_USAGE`] reports how many are used.
        ///
        /// [`HAFNON_INFO_JOB_USAGE`]: crate::HAFNON_INFO_JOB_USAGE
        HAFNON_PROP_JOB_PROCESS_LIMIT = 0x4866_0003;
        /// Quota of threads.
        HAFNON_PROP_JOB_THREAD_LIMIT = 0x4866_0004;
        /// Quota of jobs below it.
        HAFNON_PROP_JOB_JOB_LIMIT = 0x4866_0005;
        /// Quota of places for handles in the tables of its processes, which grow by 128.
        HAFNON_PROP_JOB_HANDLE_LIMIT = 0x4866_0006;
        /// Quota of places for messages that wait in channels created by its processes, which grow by 32.
        HAFNON_PROP_JOB_MESSAGE_LIMIT = 0x4866_0007;
        /// Quota of bytes that wait in channels and sockets created by its processes: messages with their overhead, and
        /// data. They also count as memory.
        HAFNON_PROP_JOB_QUEUED_BYTES_LIMIT = 0x4866_0008;
        /// Whether a call of the process on a full channel or port returns a status (1) or raises a policy exception
        /// (0, the default), `u64`. Not Zircon's: an extension for services, whose clients decide what is full.
        /// `channel_write` and `port_queue` return `ZX_ERR_SHOULD_WAIT`; `object_wait_async` returns
        /// `ZX_ERR_NO_RESOURCES` and binds nothing. A child process starts with 0.
        HAFNON_PROP_PROCESS_OVERFLOW_STATUS = 0x4866_0009;
}
