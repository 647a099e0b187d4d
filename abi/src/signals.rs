//! Signals of objects.
//!
//! Every object has 32 signals: 24 that the system asserts and deasserts as the object's state changes, and 8 for
//! programs. The same bit has different meanings on different types of objects, so it has several names.

use bitflags::bitflags;

macro_rules! signals {
    ($($(#[doc = $doc:literal])* $name:ident = $value:expr, $long:ident;)+) => {
        bitflags! {
            /// A set of signals.
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
            pub struct Signals: u32 {
                $($(#[doc = $doc])* const $name = $value;)+
            }
        }
        consts! { TABLE;
            [u32] $($(#[doc = $doc])* $long = $value;)+
        }
    };
}

signals! {
    /// No signal.
    NONE = 0, ZX_SIGNAL_NONE;
    /// All signals that the system controls.
    OBJECT_ALL = 0x00ff_ffff, ZX_OBJECT_SIGNAL_ALL;
    /// All signals that programs control.
    USER_ALL = 0xff00_0000, ZX_USER_SIGNAL_ALL;
    /// Data can be read.
    READABLE = 1 << 0, ZX_OBJECT_READABLE;
    /// Data can be written.
    WRITABLE = 1 << 1, ZX_OBJECT_WRITABLE;
    /// The peer is closed.
    PEER_CLOSED = 1 << 2, ZX_OBJECT_PEER_CLOSED;
    /// The event that the object stands for has happened.
    SIGNALED = 1 << 3, ZX_OBJECT_SIGNALED;
    /// The handle was closed during the wait.
    HANDLE_CLOSED = 1 << 23, ZX_SIGNAL_HANDLE_CLOSED;
    /// For programs.
    USER_0 = 1 << 24, ZX_USER_SIGNAL_0;
    /// For programs.
    USER_1 = 1 << 25, ZX_USER_SIGNAL_1;
    /// For programs.
    USER_2 = 1 << 26, ZX_USER_SIGNAL_2;
    /// For programs.
    USER_3 = 1 << 27, ZX_USER_SIGNAL_3;
    /// For programs.
    USER_4 = 1 << 28, ZX_USER_SIGNAL_4;
    /// For programs.
    USER_5 = 1 << 29, ZX_USER_SIGNAL_5;
    /// For programs.
    USER_6 = 1 << 30, ZX_USER_SIGNAL_6;
    /// For programs.
    USER_7 = 1 << 31, ZX_USER_SIGNAL_7;
    /// A program signalled the event.
    EVENT_SIGNALED = 1 << 3, ZX_EVENT_SIGNALED;
    /// The signals that `zx_object_signal` may change on an event.
    EVENT_MASK = 0xff00_0008, ZX_EVENT_SIGNAL_MASK;
    /// A program signalled this end.
    EVENTPAIR_SIGNALED = 1 << 3, ZX_EVENTPAIR_SIGNALED;
    /// The peer is closed.
    EVENTPAIR_PEER_CLOSED = 1 << 2, ZX_EVENTPAIR_PEER_CLOSED;
    /// The signals of an event pair.
    EVENTPAIR_MASK = 0xff00_000c, ZX_EVENTPAIR_SIGNAL_MASK;
    /// A message is waiting.
    CHANNEL_READABLE = 1 << 0, ZX_CHANNEL_READABLE;
    /// A message can be written.
    CHANNEL_WRITABLE = 1 << 1, ZX_CHANNEL_WRITABLE;
    /// The peer is closed.
    CHANNEL_PEER_CLOSED = 1 << 2, ZX_CHANNEL_PEER_CLOSED;
    /// The clock runs.
    CLOCK_STARTED = 1 << 4, ZX_CLOCK_STARTED;
    /// The clock was updated.
    CLOCK_UPDATED = 1 << 5, ZX_CLOCK_UPDATED;
    /// Data is waiting.
    SOCKET_READABLE = 1 << 0, ZX_SOCKET_READABLE;
    /// Data can be written.
    SOCKET_WRITABLE = 1 << 1, ZX_SOCKET_WRITABLE;
    /// The peer is closed.
    SOCKET_PEER_CLOSED = 1 << 2, ZX_SOCKET_PEER_CLOSED;
    /// The peer may no longer write.
    SOCKET_PEER_WRITE_DISABLED = 1 << 4, ZX_SOCKET_PEER_WRITE_DISABLED;
    /// This end may no longer write.
    SOCKET_WRITE_DISABLED = 1 << 5, ZX_SOCKET_WRITE_DISABLED;
    /// At least the threshold can be read.
    SOCKET_READ_THRESHOLD = 1 << 10, ZX_SOCKET_READ_THRESHOLD;
    /// At least the threshold can be written.
    SOCKET_WRITE_THRESHOLD = 1 << 11, ZX_SOCKET_WRITE_THRESHOLD;
    /// An element is waiting.
    FIFO_READABLE = 1 << 0, ZX_FIFO_READABLE;
    /// An element can be written.
    FIFO_WRITABLE = 1 << 1, ZX_FIFO_WRITABLE;
    /// The peer is closed.
    FIFO_PEER_CLOSED = 1 << 2, ZX_FIFO_PEER_CLOSED;
    /// The task has ended.
    TASK_TERMINATED = 1 << 3, ZX_TASK_TERMINATED;
    /// The job has ended.
    JOB_TERMINATED = 1 << 3, ZX_JOB_TERMINATED;
    /// The job has no child jobs.
    JOB_NO_JOBS = 1 << 4, ZX_JOB_NO_JOBS;
    /// The job has no processes.
    JOB_NO_PROCESSES = 1 << 5, ZX_JOB_NO_PROCESSES;
    /// The job has neither child jobs nor processes.
    JOB_NO_CHILDREN = 1 << 6, ZX_JOB_NO_CHILDREN;
    /// The process has ended.
    PROCESS_TERMINATED = 1 << 3, ZX_PROCESS_TERMINATED;
    /// The thread has ended.
    THREAD_TERMINATED = 1 << 3, ZX_THREAD_TERMINATED;
    /// The thread runs or is blocked.
    THREAD_RUNNING = 1 << 4, ZX_THREAD_RUNNING;
    /// The thread is suspended.
    THREAD_SUSPENDED = 1 << 5, ZX_THREAD_SUSPENDED;
    /// A record is waiting.
    LOG_READABLE = 1 << 0, ZX_LOG_READABLE;
    /// A record can be written.
    LOG_WRITABLE = 1 << 1, ZX_LOG_WRITABLE;
    /// The deadline has passed.
    TIMER_SIGNALED = 1 << 3, ZX_TIMER_SIGNALED;
    /// The VMO has no children.
    VMO_ZERO_CHILDREN = 1 << 3, ZX_VMO_ZERO_CHILDREN;
    /// The peer is closed.
    IOB_PEER_CLOSED = 1 << 2, ZX_IOB_PEER_CLOSED;
    /// The shared region was written to.
    IOB_SHARED_REGION_UPDATED = 1 << 3, ZX_IOB_SHARED_REGION_UPDATED;
    /// A program signalled the counter.
    COUNTER_SIGNALED = 1 << 3, ZX_COUNTER_SIGNALED;
    /// The counter is above zero.
    COUNTER_POSITIVE = 1 << 4, ZX_COUNTER_POSITIVE;
    /// The counter is zero or below.
    COUNTER_NON_POSITIVE = 1 << 5, ZX_COUNTER_NON_POSITIVE;
    /// The component that offers the endpoint has ended.
    ENDPOINT_PEER_CLOSED = 1 << 2, HAFNON_ENDPOINT_PEER_CLOSED;
    /// The virtual interrupt is not pending.
    VIRTUAL_INTERRUPT_UNTRIGGERED = 1 << 4, ZX_VIRTUAL_INTERRUPT_UNTRIGGERED;
}

impl Signals {
    /// The signals among these that programs control.
    pub const fn user(self) -> Signals {
        Signals::from_bits_retain(self.bits() & Signals::USER_ALL.bits())
    }
}
