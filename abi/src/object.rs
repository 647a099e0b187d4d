//! Types of objects, and records that describe handles.

use crate::{zx_handle_t, zx_obj_type_t, zx_rights_t, zx_signals_t, zx_status_t};

consts! { TABLE;
    [zx_obj_type_t]
        /// Any type, where a type is requested.
        ZX_OBJ_TYPE_NONE = 0;
        /// A process.
        ZX_OBJ_TYPE_PROCESS = 1;
        /// A thread.
        ZX_OBJ_TYPE_THREAD = 2;
        /// A virtual memory object.
        ZX_OBJ_TYPE_VMO = 3;
        /// One end of a channel.
        ZX_OBJ_TYPE_CHANNEL = 4;
        /// An event.
        ZX_OBJ_TYPE_EVENT = 5;
        /// A port.
        ZX_OBJ_TYPE_PORT = 6;
        /// An interrupt.
        ZX_OBJ_TYPE_INTERRUPT = 9;
        /// A PCI device.
        ZX_OBJ_TYPE_PCI_DEVICE = 11;
        /// A debug log.
        ZX_OBJ_TYPE_DEBUGLOG = 12;
        /// The older name of `ZX_OBJ_TYPE_DEBUGLOG`.
        ZX_OBJ_TYPE_LOG = 12;
        /// One end of a socket.
        ZX_OBJ_TYPE_SOCKET = 14;
        /// A resource.
        ZX_OBJ_TYPE_RESOURCE = 15;
        /// One end of an event pair.
        ZX_OBJ_TYPE_EVENTPAIR = 16;
        /// A job.
        ZX_OBJ_TYPE_JOB = 17;
        /// A virtual memory address region.
        ZX_OBJ_TYPE_VMAR = 18;
        /// One end of a FIFO.
        ZX_OBJ_TYPE_FIFO = 19;
        /// A virtual machine.
        ZX_OBJ_TYPE_GUEST = 20;
        /// A processor of a virtual machine.
        ZX_OBJ_TYPE_VCPU = 21;
        /// A timer.
        ZX_OBJ_TYPE_TIMER = 22;
        /// An IOMMU.
        ZX_OBJ_TYPE_IOMMU = 23;
        /// A bus transaction initiator.
        ZX_OBJ_TYPE_BTI = 24;
        /// A scheduling profile.
        ZX_OBJ_TYPE_PROFILE = 25;
        /// Pinned memory.
        ZX_OBJ_TYPE_PMT = 26;
        /// Keeps a task suspended while it exists.
        ZX_OBJ_TYPE_SUSPEND_TOKEN = 27;
        /// A pager.
        ZX_OBJ_TYPE_PAGER = 28;
        /// An exception that waits to be handled.
        ZX_OBJ_TYPE_EXCEPTION = 29;
        /// A clock.
        ZX_OBJ_TYPE_CLOCK = 30;
        /// A VMO as a file with a position.
        ZX_OBJ_TYPE_STREAM = 31;
        /// A block of message-signalled interrupts.
        ZX_OBJ_TYPE_MSI = 32;
        /// One end of an IOBuffer.
        ZX_OBJ_TYPE_IOB = 33;
        /// A counter.
        ZX_OBJ_TYPE_COUNTER = 34;
        /// A region that IOBuffers share.
        ZX_OBJ_TYPE_IOB_SHARED_REGION = 35;
        /// A sampler.
        ZX_OBJ_TYPE_SAMPLER = 36;
        /// A virtual processor: this system's own, not Zircon's.
        HAFNON_OBJ_TYPE_VPROC = 62;
        /// An seL4 endpoint: this system's own, not Zircon's.
        HAFNON_OBJ_TYPE_ENDPOINT = 63;
    [usize]
        /// All types, now and later, are lower than this.
        ZX_OBJ_TYPE_UPPER_BOUND = 64;
    [u32]
        /// `zx_handle_disposition_t`: the handle leaves the writer.
        ZX_HANDLE_OP_MOVE = 0;
        /// `zx_handle_disposition_t`: the handle is duplicated and stays.
        ZX_HANDLE_OP_DUPLICATE = 1;
        /// `endpoint_mint`: the capability can send messages.
        HAFNON_ENDPOINT_SEND = 1;
        /// `endpoint_mint`: the capability can send messages and be replied to.
        HAFNON_ENDPOINT_CALL = 2;
        /// `endpoint_mint`: the capability can receive messages.
        HAFNON_ENDPOINT_RECEIVE = 4;
        /// `endpoint_send`: do not wait for a receiver.
        HAFNON_ENDPOINT_NO_WAIT = 1;
        /// Upper bound of badges for `endpoint_mint` (exclusive).
        HAFNON_ENDPOINT_BADGES = 0x10_0000;
        /// Lowest label of answers; lower ones are the kernel's own errors.
        HAFNON_ENDPOINT_ANSWERS = 16;
        /// The first slot of a thread that `endpoint_mint` uses.
        HAFNON_ENDPOINT_SLOTS_FROM = 3;
        /// The first slot after those that `endpoint_mint` uses.
        HAFNON_ENDPOINT_SLOTS_END = 16;
    [u64]
        /// Labels of messages to endpoints are below this.
        HAFNON_ENDPOINT_LABELS = 0x10_0000 - 16;
    [usize]
        /// Maximum number of words of a message to an endpoint.
        HAFNON_ENDPOINT_WORDS = 120;
}

structs! { STRUCTS;
    #[doc = "A message to or from an endpoint."]
    struct hafnon_endpoint_message_t {
        /// Its label: the kind of message, as sender and receiver have agreed.
        label: u64,
        /// Of a received message: the badge of the capability through which it was sent.
        badge: u64,
        /// Number of words.
        count: u64,
        /// The words. Those from index `count` on are undefined.
        words: [u64; HAFNON_ENDPOINT_WORDS],
    }
    #[doc = "A handle as `zx_channel_read_etc` gives it."]
    struct zx_handle_info_t {
        /// Its value in the reader's process.
        handle: zx_handle_t,
        /// The type of its object.
        type_: zx_obj_type_t,
        /// Its rights.
        rights: zx_rights_t,
        /// Zero.
        unused: u32,
    }
    #[doc = "A handle as `zx_channel_write_etc` takes it, and what became of it."]
    struct zx_handle_disposition_t {
        /// `ZX_HANDLE_OP_*`
        operation: u32,
        /// Its value in the writer's process.
        handle: zx_handle_t,
        /// The type that its object must have, or `ZX_OBJ_TYPE_NONE`.
        type_: zx_obj_type_t,
        /// Its rights in the message, or `ZX_RIGHT_SAME_RIGHTS`.
        rights: zx_rights_t,
        /// Written by the call: the error of this handle.
        result: zx_status_t,
    }
    #[doc = "One object of `zx_object_wait_many`."]
    struct zx_wait_item_t {
        /// The object.
        handle: zx_handle_t,
        /// The signals to wait for.
        waitfor: zx_signals_t,
        /// Written by the call: the signals that were asserted when it returned.
        pending: zx_signals_t,
    }
}
