//! Rights of handles.
//!
//! Rights belong to a handle, not to its object: they never change, and a duplicate has the same or fewer. A call that
//! needs a right which its handle lacks returns `ZX_ERR_ACCESS_DENIED`.

use bitflags::bitflags;

macro_rules! rights {
    ($($(#[doc = $doc:literal])* $name:ident = $bit:literal, $long:ident;)+) => {
        bitflags! {
            /// A set of rights.
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
            pub struct Rights: u32 {
                /// No right at all.
                const NONE = 0;
                $($(#[doc = $doc])* const $name = 1 << $bit;)+
            }
        }
        consts! { BITS;
            [u32]
                /// No right at all.
                ZX_RIGHT_NONE = 0;
                $($(#[doc = $doc])* $long = 1 << $bit;)+
        }
    };
}

rights! {
    /// `zx_handle_duplicate`
    DUPLICATE = 0, ZX_RIGHT_DUPLICATE;
    /// Send the handle through a channel.
    TRANSFER = 1, ZX_RIGHT_TRANSFER;
    /// Read data from the object.
    READ = 2, ZX_RIGHT_READ;
    /// Write data to the object.
    WRITE = 3, ZX_RIGHT_WRITE;
    /// Map executable.
    EXECUTE = 4, ZX_RIGHT_EXECUTE;
    /// Map.
    MAP = 5, ZX_RIGHT_MAP;
    /// `zx_object_get_property`
    GET_PROPERTY = 6, ZX_RIGHT_GET_PROPERTY;
    /// `zx_object_set_property`
    SET_PROPERTY = 7, ZX_RIGHT_SET_PROPERTY;
    /// List child objects.
    ENUMERATE = 8, ZX_RIGHT_ENUMERATE;
    /// Kill the task.
    DESTROY = 9, ZX_RIGHT_DESTROY;
    /// `zx_job_set_policy`
    SET_POLICY = 10, ZX_RIGHT_SET_POLICY;
    /// Read a policy.
    GET_POLICY = 11, ZX_RIGHT_GET_POLICY;
    /// `zx_object_signal`
    SIGNAL = 12, ZX_RIGHT_SIGNAL;
    /// `zx_object_signal_peer`
    SIGNAL_PEER = 13, ZX_RIGHT_SIGNAL_PEER;
    /// Wait for signals.
    WAIT = 14, ZX_RIGHT_WAIT;
    /// `zx_object_get_info`
    INSPECT = 15, ZX_RIGHT_INSPECT;
    /// Create child jobs.
    MANAGE_JOB = 16, ZX_RIGHT_MANAGE_JOB;
    /// Create processes.
    MANAGE_PROCESS = 17, ZX_RIGHT_MANAGE_PROCESS;
    /// Create threads.
    MANAGE_THREAD = 18, ZX_RIGHT_MANAGE_THREAD;
    /// Apply the profile to a thread or VMAR.
    APPLY_PROFILE = 19, ZX_RIGHT_APPLY_PROFILE;
    /// Set the socket's disposition.
    MANAGE_SOCKET = 20, ZX_RIGHT_MANAGE_SOCKET;
    /// Operate through a VMAR on the VMARs and mappings in it.
    OP_CHILDREN = 21, ZX_RIGHT_OP_CHILDREN;
    /// Resize a VMO.
    RESIZE = 22, ZX_RIGHT_RESIZE;
    /// Attach a VMO to the pager.
    ATTACH_VMO = 23, ZX_RIGHT_ATTACH_VMO;
    /// Manage a pager's VMO.
    MANAGE_VMO = 24, ZX_RIGHT_MANAGE_VMO;
    /// In a request: the rights of the handle.
    SAME_RIGHTS = 31, ZX_RIGHT_SAME_RIGHTS;
}

macro_rules! grouped {
    ($($(#[$attr:meta])* $name:ident = [$($right:ident)|+] $(- $minus:ident)?;)+) => {
        $($(#[$attr])* pub const $name: Rights =
            Rights::from_bits_retain(($(Rights::$right.bits())|+) $(& !Rights::$minus.bits())?);)+

        impl Rights {
            /// Zircon's named sets of rights.
            pub const NAMED: &[(&str, Rights)] = &[$((stringify!($name), $name),)+];
        }
    };
}

impl Rights {
    /// Duplicate, transfer, wait, inspect.
    pub const BASIC: Rights = Rights::from_bits_retain(0xc003);
    /// Read and write.
    pub const IO: Rights = Rights::from_bits_retain(0xc);
    /// Get and set properties.
    pub const PROPERTY: Rights = Rights::from_bits_retain(0xc0);
    /// Get and set policies.
    pub const POLICY: Rights = Rights::from_bits_retain(0xc00);
}

grouped! {
    /// Duplicate, transfer, wait, inspect.
    ZX_RIGHTS_BASIC = [BASIC];
    /// Read and write.
    ZX_RIGHTS_IO = [IO];
    /// Get and set properties.
    ZX_RIGHTS_PROPERTY = [PROPERTY];
    /// Get and set policies.
    ZX_RIGHTS_POLICY = [POLICY];
    /// Rights of a new channel.
    ZX_DEFAULT_CHANNEL_RIGHTS = [BASIC | IO | SIGNAL | SIGNAL_PEER] - DUPLICATE;
    /// Rights of a new event.
    ZX_DEFAULT_EVENT_RIGHTS = [BASIC | SIGNAL];
    /// Rights of an event from `zx_system_get_event`.
    ZX_DEFAULT_SYSTEM_EVENT_LOW_MEMORY_RIGHTS = [WAIT | DUPLICATE | TRANSFER];
    /// Rights of an event from `zx_system_watch_memory_stall`.
    ZX_DEFAULT_SYSTEM_MEMORY_STALL_EVENT_RIGHTS = [WAIT | DUPLICATE | TRANSFER];
    /// Rights of a new event pair.
    ZX_DEFAULT_EVENTPAIR_RIGHTS = [BASIC | SIGNAL | SIGNAL_PEER];
    /// Rights of a new FIFO.
    ZX_DEFAULT_FIFO_RIGHTS = [BASIC | IO | SIGNAL | SIGNAL_PEER];
    /// Rights of a new guest.
    ZX_DEFAULT_GUEST_RIGHTS = [TRANSFER | DUPLICATE | WRITE | INSPECT | MANAGE_THREAD];
    /// Rights of a new interrupt.
    ZX_DEFAULT_INTERRUPT_RIGHTS = [BASIC | IO | SIGNAL];
    /// Rights of a new job.
    ZX_DEFAULT_JOB_RIGHTS = [BASIC | IO | PROPERTY | POLICY | ENUMERATE | DESTROY | SIGNAL | MANAGE_JOB
        | MANAGE_PROCESS | MANAGE_THREAD];
    /// Rights of a new log handle.
    ZX_DEFAULT_LOG_RIGHTS = [BASIC | WRITE | SIGNAL];
    /// Rights of a new block of message-signalled interrupts.
    ZX_DEFAULT_MSI_RIGHTS = [BASIC];
    /// Rights of a new PCI device.
    ZX_DEFAULT_PCI_DEVICE_RIGHTS = [BASIC | IO];
    /// Rights of a new PCI interrupt.
    ZX_DEFAULT_PCI_INTERRUPT_RIGHTS = [BASIC | IO | SIGNAL];
    /// Rights of a new port.
    ZX_DEFAULT_PORT_RIGHTS = [BASIC | IO] - WAIT;
    /// Rights of a new process.
    ZX_DEFAULT_PROCESS_RIGHTS = [BASIC | IO | PROPERTY | ENUMERATE | DESTROY | SIGNAL | MANAGE_PROCESS
        | MANAGE_THREAD];
    /// Rights of a new resource.
    ZX_DEFAULT_RESOURCE_RIGHTS = [TRANSFER | DUPLICATE | WRITE | INSPECT];
    /// Rights of a new socket.
    ZX_DEFAULT_SOCKET_RIGHTS = [BASIC | IO | PROPERTY | SIGNAL | SIGNAL_PEER | MANAGE_SOCKET];
    /// Rights of a new stream, before its mode adds reading or writing.
    ZX_DEFAULT_STREAM_RIGHTS = [BASIC | PROPERTY | SIGNAL];
    /// Rights of a new thread.
    ZX_DEFAULT_THREAD_RIGHTS = [BASIC | IO | PROPERTY | DESTROY | SIGNAL | MANAGE_THREAD];
    /// Rights of a new timer.
    ZX_DEFAULT_TIMER_RIGHTS = [BASIC | WRITE | SIGNAL];
    /// Rights of a new virtual processor of a guest.
    ZX_DEFAULT_VCPU_RIGHTS = [BASIC | IO | EXECUTE | SIGNAL];
    /// Rights of a new VMAR, before its options add mapping rights.
    ZX_DEFAULT_VMAR_RIGHTS = [BASIC | OP_CHILDREN] - WAIT;
    /// Rights of a new VMO.
    ZX_DEFAULT_VMO_RIGHTS = [BASIC | IO | PROPERTY | MAP | SIGNAL];
    /// Rights of a new IOMMU.
    ZX_DEFAULT_IOMMU_RIGHTS = [BASIC] - WAIT;
    /// Rights of a new bus transaction initiator.
    ZX_DEFAULT_BTI_RIGHTS = [BASIC | IO | PROPERTY | MAP] - WAIT;
    /// Rights of a new profile.
    ZX_DEFAULT_PROFILE_RIGHTS = [BASIC | APPLY_PROFILE] - WAIT;
    /// Rights of newly pinned memory.
    ZX_DEFAULT_PMT_RIGHTS = [INSPECT];
    /// Rights of a new suspend token.
    ZX_DEFAULT_SUSPEND_TOKEN_RIGHTS = [TRANSFER | INSPECT];
    /// Rights of a new pager.
    ZX_DEFAULT_PAGER_RIGHTS = [INSPECT | TRANSFER | ATTACH_VMO | MANAGE_VMO];
    /// Rights of the exception in an exception message.
    ZX_DEFAULT_EXCEPTION_RIGHTS = [TRANSFER | PROPERTY | INSPECT];
    /// Rights of a new clock.
    ZX_DEFAULT_CLOCK_RIGHTS = [BASIC | IO | SIGNAL | PROPERTY];
    /// Rights of a new IOBuffer.
    ZX_DEFAULT_IOB_RIGHTS = [BASIC | WAIT | IO | PROPERTY | MAP | SIGNAL | SIGNAL_PEER];
    /// Rights of a new counter.
    ZX_DEFAULT_COUNTER_RIGHTS = [BASIC | IO | SIGNAL];
    /// Rights of a new or found endpoint.
    HAFNON_DEFAULT_ENDPOINT_RIGHTS = [BASIC | WAIT | IO];
    /// Rights of a new virtual processor of this system.
    HAFNON_DEFAULT_VPROC_RIGHTS = [BASIC | WAIT | IO];
    /// Rights of a new shared region for IOBuffers.
    ZX_DEFAULT_IOB_SHARED_REGION_RIGHTS = [BASIC | WAIT | PROPERTY | SIGNAL];
}

pub(crate) const TABLE: &[crate::Constant] = BITS;
