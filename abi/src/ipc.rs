//! Options and structures of channels, sockets, streams, the log and IOBuffers.

use crate::{zx_handle_t, zx_instant_boot_t};

consts! { TABLE;
    [u32]
        /// `zx_channel_read`: discard a message that does not fit.
        ZX_CHANNEL_READ_MAY_DISCARD = 1;
        /// `zx_channel_write`: the bytes are an array of [`zx_channel_iovec_t`].
        ZX_CHANNEL_WRITE_USE_IOVEC = 2;
        /// `zx_socket_create`: a stream of bytes.
        ZX_SOCKET_STREAM = 0;
        /// `zx_socket_create`: separate datagrams.
        ZX_SOCKET_DATAGRAM = 1;
        /// All options of `zx_socket_create`.
        ZX_SOCKET_CREATE_MASK = 1;
        /// `zx_socket_read`: do not remove the data.
        ZX_SOCKET_PEEK = 1 << 3;
        /// `zx_socket_set_disposition`: disable writing.
        ZX_SOCKET_DISPOSITION_WRITE_DISABLED = 1;
        /// `zx_socket_set_disposition`: enable writing.
        ZX_SOCKET_DISPOSITION_WRITE_ENABLED = 2;
        /// `zx_stream_create`: the stream can be read.
        ZX_STREAM_MODE_READ = 1;
        /// `zx_stream_create`: the stream can be written.
        ZX_STREAM_MODE_WRITE = 2;
        /// `zx_stream_create`: each write appends.
        ZX_STREAM_MODE_APPEND = 4;
        /// All options of `zx_stream_create`.
        ZX_STREAM_CREATE_MASK = 7;
        /// `zx_stream_writev`: this write appends.
        ZX_STREAM_APPEND = 1;
        /// `zx_stream_seek`: relative to the start.
        ZX_STREAM_SEEK_ORIGIN_START = 0;
        /// `zx_stream_seek`: relative to the position.
        ZX_STREAM_SEEK_ORIGIN_CURRENT = 1;
        /// `zx_stream_seek`: relative to the end.
        ZX_STREAM_SEEK_ORIGIN_END = 2;
        /// `zx_debuglog_create`: the handle can read.
        ZX_LOG_FLAG_READABLE = 0x4000_0000;
        /// `zx_iob_region_t`: private memory of the IOBuffer.
        ZX_IOB_REGION_TYPE_PRIVATE = 0;
        /// `zx_iob_region_t`: a region that IOBuffers share.
        ZX_IOB_REGION_TYPE_SHARED = 1;
        /// End 0 may map for reading.
        ZX_IOB_ACCESS_EP0_CAN_MAP_READ = 1 << 0;
        /// End 0 may map for writing.
        ZX_IOB_ACCESS_EP0_CAN_MAP_WRITE = 1 << 1;
        /// End 0 may read by system calls.
        ZX_IOB_ACCESS_EP0_CAN_MEDIATED_READ = 1 << 2;
        /// End 0 may write by system calls.
        ZX_IOB_ACCESS_EP0_CAN_MEDIATED_WRITE = 1 << 3;
        /// End 1 may map for reading.
        ZX_IOB_ACCESS_EP1_CAN_MAP_READ = 1 << 4;
        /// End 1 may map for writing.
        ZX_IOB_ACCESS_EP1_CAN_MAP_WRITE = 1 << 5;
        /// End 1 may read by system calls.
        ZX_IOB_ACCESS_EP1_CAN_MEDIATED_READ = 1 << 6;
        /// End 1 may write by system calls.
        ZX_IOB_ACCESS_EP1_CAN_MEDIATED_WRITE = 1 << 7;
    [u64]
        /// The system does not interpret the region's bytes.
        ZX_IOB_DISCIPLINE_TYPE_NONE = 0;
        /// The region allocates IDs for blobs.
        ZX_IOB_DISCIPLINE_TYPE_ID_ALLOCATOR = 1;
        /// The region is a ring that is written by system calls.
        ZX_IOB_DISCIPLINE_TYPE_MEDIATED_WRITE_RING_BUFFER = 2;
    [usize]
        /// Maximum size of a log record, in bytes.
        ZX_LOG_RECORD_MAX = 256;
        /// Maximum length of its text, in bytes.
        ZX_LOG_RECORD_DATA_MAX = 216;
    [u8]
        /// Severity of a log record.
        DEBUGLOG_TRACE = 0x10;
        /// Severity of a log record.
        DEBUGLOG_DEBUG = 0x20;
        /// Severity of a log record.
        DEBUGLOG_INFO = 0x30;
        /// Severity of a log record.
        DEBUGLOG_WARNING = 0x40;
        /// Severity of a log record.
        DEBUGLOG_ERROR = 0x50;
        /// Severity of a log record.
        DEBUGLOG_FATAL = 0x60;
}

structs! { STRUCTS;
    #[doc = "What `zx_channel_call` writes and where it reads the answer to."]
    struct zx_channel_call_args_t {
        /// Address of the message.
        wr_bytes: usize,
        /// Address of its handles (`zx_handle_t`).
        wr_handles: usize,
        /// Address of the buffer for the reply.
        rd_bytes: usize,
        /// Address of the buffer for its handles (`zx_handle_t`).
        rd_handles: usize,
        /// Bytes of the message.
        wr_num_bytes: u32,
        /// Handles of the message.
        wr_num_handles: u32,
        /// Size of the buffer for the reply, in bytes.
        rd_num_bytes: u32,
        /// Capacity of the buffer for its handles.
        rd_num_handles: u32,
    }
    #[doc = "What `zx_channel_call_etc` writes and where it reads the answer to."]
    struct zx_channel_call_etc_args_t {
        /// Address of the message.
        wr_bytes: usize,
        /// Address of its handles (`zx_handle_disposition_t`).
        wr_handles: usize,
        /// Address of the buffer for the reply.
        rd_bytes: usize,
        /// Address of the buffer for its handles (`zx_handle_info_t`).
        rd_handles: usize,
        /// Bytes of the message.
        wr_num_bytes: u32,
        /// Handles of the message.
        wr_num_handles: u32,
        /// Size of the buffer for the reply, in bytes.
        rd_num_bytes: u32,
        /// Capacity of the buffer for its handles.
        rd_num_handles: u32,
    }
    #[doc = "A part of a channel message."]
    struct zx_channel_iovec_t {
        /// Address of the part.
        buffer: usize,
        /// Its size in bytes.
        capacity: u32,
        /// Must be zero.
        reserved: u32,
    }
    #[doc = "A part of a buffer for streams and IOBuffers."]
    struct zx_iovec_t {
        /// Address of the part.
        buffer: usize,
        /// Its size in bytes.
        capacity: usize,
    }
    #[doc = "A record of the log, as `zx_debuglog_read` gives it; only `datalen` bytes of `data` are there."]
    struct zx_log_record_t {
        /// Number of the record since the start.
        sequence: u64,
        /// Zero.
        padding1: [u8; 4],
        /// Bytes of text.
        datalen: u16,
        /// `DEBUGLOG_*`
        severity: u8,
        /// As given to `zx_debuglog_write`.
        flags: u8,
        /// Time of the write.
        timestamp: zx_instant_boot_t,
        /// The writer's process.
        pid: u64,
        /// The writer's thread.
        tid: u64,
        /// Text.
        data: [u8; ZX_LOG_RECORD_DATA_MAX],
    }
    #[doc = "A region of an IOBuffer."]
    struct zx_iob_region_t {
        /// `ZX_IOB_REGION_TYPE_*`
        type_: u32,
        /// `ZX_IOB_ACCESS_*`
        access: u32,
        /// Size in bytes.
        size: u64,
        /// How its bytes are used.
        discipline: zx_iob_discipline_t,
        /// Depends on the type: options, then for a shared region its handle.
        extension: [u64; 4],
    }
    #[doc = "How the bytes of an IOBuffer's region are used."]
    struct zx_iob_discipline_t {
        /// `ZX_IOB_DISCIPLINE_TYPE_*`
        type_: u64,
        /// Depends on the type: for a ring its tag.
        extension: [u64; 8],
    }
    #[doc = "The extension of a shared region."]
    struct zx_iob_region_shared_t {
        /// Zero.
        options: u32,
        /// The region.
        shared_region: zx_handle_t,
        /// Zero.
        padding: [u64; 3],
    }
}
