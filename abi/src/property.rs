//! Properties: single values of an object that can be read and set.

consts! { TABLE;
    [u32]
        /// The thread's GS base (`usize`).
        ZX_PROP_REGISTER_GS = 2;
        /// The object's name (`[u8; ZX_MAX_NAME_LEN]`).
        ZX_PROP_NAME = 3;
        /// The thread's FS base (`usize`).
        ZX_PROP_REGISTER_FS = 4;
        /// Where the dynamic linker keeps its list for debuggers (`usize`).
        ZX_PROP_PROCESS_DEBUG_ADDR = 5;
        /// Where the vDSO is mapped, or 0 (`usize`).
        ZX_PROP_PROCESS_VDSO_BASE_ADDRESS = 6;
        /// Whether the dynamic linker traps when it loads something (`usize`).
        ZX_PROP_PROCESS_BREAK_ON_LOAD = 7;
        /// What a hardware tracer knows the process by (`usize`).
        ZX_PROP_PROCESS_HW_TRACE_CONTEXT_ID = 8;
        /// Bytes from which `ZX_SOCKET_READ_THRESHOLD` is set (`usize`).
        ZX_PROP_SOCKET_RX_THRESHOLD = 12;
        /// Bytes from which `ZX_SOCKET_WRITE_THRESHOLD` is set (`usize`).
        ZX_PROP_SOCKET_TX_THRESHOLD = 13;
        /// Whether the job dies first when memory runs out (`usize`).
        ZX_PROP_JOB_KILL_ON_OOM = 15;
        /// What happens when the exception is closed (`u32`).
        ZX_PROP_EXCEPTION_STATE = 16;
        /// Bytes of content in the VMO, not rounded to pages (`u64`).
        ZX_PROP_VMO_CONTENT_SIZE = 17;
        /// The same by its newer name (`u64`).
        ZX_PROP_VMO_STREAM_SIZE = 17;
        /// Whether the process is asked again after the debugger (`u32`).
        ZX_PROP_EXCEPTION_STRATEGY = 18;
        /// Whether the stream appends (`u8`).
        ZX_PROP_STREAM_MODE_APPEND = 19;
        /// Bytes that the job and all below it may have, `u64::MAX` for any number (`u64`). Not Zircon's: an extension.
        /// To be set it needs the right to set policies, too. What is counted stands in `objects/src/core/account/counts.rs`.
        HAFNON_PROP_JOB_MEMORY_LIMIT = 0x4866_0001;
        /// Bytes that the job and all below it have (`u64`). It can only be read. Not Zircon's: an extension.
        HAFNON_PROP_JOB_MEMORY_USED = 0x4866_0002;
        /// Processes that the job and all below it may have, `u64::MAX` for any number (`u64`), as the following. Not
        /// Zircon's: an extension, to be set as [`HAFNON_PROP_JOB_MEMORY_LIMIT`]. [`HAFNON_INFO_JOB_USAGE`] tells how many there are.
        ///
        /// [`HAFNON_INFO_JOB_USAGE`]: crate::HAFNON_INFO_JOB_USAGE
        HAFNON_PROP_JOB_PROCESS_LIMIT = 0x4866_0003;
        /// Threads.
        HAFNON_PROP_JOB_THREAD_LIMIT = 0x4866_0004;
        /// Jobs below it.
        HAFNON_PROP_JOB_JOB_LIMIT = 0x4866_0005;
        /// Places for handles in the tables of its processes, which grow by 128.
        HAFNON_PROP_JOB_HANDLE_LIMIT = 0x4866_0006;
        /// Places for messages that wait to be read in channels that its processes made, which grow by 32.
        HAFNON_PROP_JOB_MESSAGE_LIMIT = 0x4866_0007;
        /// Bytes that wait to be read in channels and sockets that its processes made: messages, with what each of them takes,
        /// and data. They are counted as memory, too.
        HAFNON_PROP_JOB_QUEUED_BYTES_LIMIT = 0x4866_0008;
        /// Whether a full channel or port is a status for the process's calls (1) or a policy exception (0, as it starts), `u64`.
        /// Not Zircon's: an extension for services, whose clients decide what is full. `channel_write` and `port_queue` answer
        /// `ZX_ERR_SHOULD_WAIT`; `object_wait_async` answers `ZX_ERR_NO_RESOURCES` and binds nothing. A child starts with 0.
        HAFNON_PROP_PROCESS_OVERFLOW_STATUS = 0x4866_0009;
}
