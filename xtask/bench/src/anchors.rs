//! The measured operations, and their cost on other systems.
//!
//! **Native** is the Zircon kernel of 8 November 2018, release, on QEMU's `-cpu Haswell`; **thesis** is "Zircon on
//! seL4" over seL4 7.0.0, with its fastpath and without its list checks. Both were built and measured as this system
//! is: in instructions of the guest (`-icount shift=0,sleep=off`), averages of 500 operations or more after a warm-up.
//! The counts differ in one point: native Zircon copies with `rep movsb`, of which each byte counts. **Goal** is the
//! maximum that this system aims at.

/// An operation.
pub struct Operation {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub what: &'static str,
    /// Its cost on native Zircon.
    pub native: Option<f64>,
    /// Its cost on the thesis' server.
    pub thesis: Option<f64>,
    /// The maximum that this system aims at.
    pub goal: Option<f64>,
}

const fn some(value: u32) -> Option<f64> {
    if value == 0 { None } else { Some(value as f64) }
}

const fn op(name: &'static str, what: &'static str, native: u32, thesis: u32, goal: u32) -> Operation {
    Operation { name, what, native: some(native), thesis: some(thesis), goal: some(goal) }
}

/// The group of operations that are also measured by the wall clock.
pub const BULK: &str = "many bytes";

/// Prefix of the operations of the kernel itself: the root task measures them, not the program.
pub const KERNEL: &str = "sel4_";
/// Operations that are measured in addition for these prefixes.
pub const BESIDE: &[(&str, &[&str])] =
    &[("vproc", &["sel4_thread_switch", "exception_channel", "restricted_enter_exit"])];

/// All operations, in groups; 0 stands for a missing figure.
pub const GROUPS: &[(&str, &[Operation])] = &[
    (
        "seL4 itself",
        &[
            op("sel4_call_process", "Call and ReplyRecv, empty, between two address spaces", 0, 0, 0),
            op("sel4_call_thread", "the same in one address space", 0, 0, 0),
            op("sel4_signal", "Signal without a waiting thread", 0, 0, 0),
            op("sel4_wait_ready", "Wait for a signal that is set", 0, 0, 0),
            op("sel4_signal_wakes", "Signal until a waiter of higher priority in another address space runs", 0, 0, 0),
            op("sel4_wait_blocks", "its next Wait, until the first thread continues", 0, 0, 0),
            op(
                "sel4_thread_switch",
                "half of a Signal to a thread of the same address space and its Signal back",
                0,
                0,
                0,
            ),
            op(
                "sel4_fault_reply",
                "a page fault, its message to a handler in another address space, the reply",
                0,
                0,
                0,
            ),
            op("sel4_map", "a page, where all tables are there", 0, 0, 0),
            op("sel4_unmap", "the same page", 0, 0, 0),
            op("sel4_cap_copy", "a page's capability", 0, 0, 0),
            op("sel4_cap_delete", "that copy", 0, 0, 0),
            op("sel4_frame_make", "Retype of 4 KiB used before, which clears them", 0, 0, 0),
            op("sel4_frame_delete", "the last capability to it", 0, 0, 0),
        ],
    ),
    (
        "null calls and clocks",
        &[
            op("null0", "a call that does nothing, without arguments", 145, 1271, 480),
            op("null8", "the same with eight arguments", 203, 1995, 560),
            op("null0_sse", "null0 between two calculations with vector registers", 0, 0, 0),
            op("clock_get", "zx_clock_get_monotonic", 195, 1326, 60),
            op("ticks_get", "zx_ticks_get", 6, 0, 10),
        ],
    ),
    (
        "handles",
        &[
            op("handle_duplicate", "of an event", 753, 1589, 650),
            op("handle_close", "of an event that has another handle", 733, 1403, 650),
            op("handle_replace", "of an event", 1243, 1662, 720),
            op("info_handle_basic", "zx_object_get_info, ZX_INFO_HANDLE_BASIC", 553, 0, 0),
        ],
    ),
    (
        "events and waits",
        &[
            op("event_create", "", 954, 1816, 750),
            op("event_close", "the last handle", 1026, 1755, 750),
            op("object_signal", "sets or clears a bit; no thread waits", 538, 1363, 540),
            op("wait_one_ready", "for a signal that is set", 1121, 1557, 620),
            op("wait_many_1", "for one signal that is set", 1471, 0, 0),
            op("wait_many_8", "for eight signals that are set", 4761, 0, 0),
        ],
    ),
    (
        "channels",
        &[
            op("channel_create", "", 2174, 2244, 1100),
            op("channel_close", "both ends", 2559, 3419, 1500),
            op("channel_write_64", "64 bytes (thesis: 16)", 1045, 2517, 750),
            op("channel_read_64", "64 bytes (thesis: 16)", 1097, 2671, 800),
            op("channel_handle", "write and read 64 bytes and a handle (thesis: 16)", 2770, 6186, 1900),
        ],
    ),
    (
        "sockets and FIFOs",
        &[
            op("socket_write_64", "a stream's 64 bytes (thesis: 16)", 902, 2331, 720),
            op("socket_read_64", "a stream's 64 bytes (thesis: 16)", 863, 2320, 720),
            op("fifo_write", "one element of 8 bytes", 769, 0, 650),
            op("fifo_read", "one element of 8 bytes", 733, 0, 650),
        ],
    ),
    (
        "ports",
        &[
            op("port_queue", "a user's packet", 850, 0, 700),
            op("port_wait", "for a queued user packet", 884, 0, 700),
            op("wait_async_ready", "for a signal that is set", 1278, 0, 0),
            op("port_wait_signal", "for its packet", 886, 0, 0),
        ],
    ),
    (
        "memory objects and mappings",
        &[
            op("vmo_create", "4 KiB, nothing committed", 1615, 2898, 1200),
            op("vmo_close", "4 KiB, nothing committed", 1556, 2862, 1200),
            op("vmar_map", "a page, not touched, beside 32 others", 4334, 3147, 1200),
            op("vmar_unmap", "a page that was not touched, beside 32 others", 1546, 2161, 1000),
            op("vmar_map_touched", "a committed page, and a write to it", 0, 0, 0),
            op("vmar_unmap_touched", "a page that was written to", 0, 0, 0),
        ],
    ),
    (
        "write faults",
        &[
            op("fault_write_single", "a page committed by a write, alone among 32", 2714, 11_000, 3400),
            op("fault_write_run", "a page committed by a write, after its neighbour", 2714, 11_000, 1700),
            op(
                "fault_write_16",
                "all 16 pages of a new memory object, one after the other (native, thesis, goal: 16 times one)",
                16 * 2714,
                16 * 11_000,
                16 * 1700,
            ),
        ],
    ),
    (
        "between processes",
        &[
            op("echo_process_4", "two processes, 4 bytes: each writes, waits and reads", 6996, 16_321, 5900),
            op("echo_process_1024", "the same with 1024 bytes", 11_071, 16_873, 6300),
            op("channel_call_process_4", "zx_channel_call, two processes, 4 bytes", 5753, 0, 4600),
        ],
    ),
    (
        "between threads",
        &[
            op("futex_pingpong", "two threads: each wakes the other and waits", 1951, 0, 2200),
            op("port_pingpong", "two threads: each queues a packet and waits for one", 4260, 0, 4500),
            op("eventpair_pingpong", "two threads: each signals its peer, waits, and clears", 6254, 0, 4500),
            op("wait_deadline_extra", "what a deadline that does not come adds to a wait", 0, 0, 150),
        ],
    ),
    (
        "lives of threads and processes",
        &[
            op("thread_lifecycle", "create, start, exit, wait, close", 20_400, 26_100, 14_000),
            op("process_lifecycle", "create, map code, stack and vDSO, start, exit, wait, close", 108_012, 0, 80_000),
            op("spawn_call", "fdio_spawn_etc of a Rust program, until it returns", 0, 0, 0),
            op("spawn_to_main", "the same, until the program's main begins", 0, 0, 0),
            op("spawn_to_end", "the same, until the program has ended", 0, 0, 0),
        ],
    ),
    (
        "virtual processors",
        &[
            op("vproc_syscall", "a system call of code in a sub-domain, with all registers, and back", 0, 0, 2_200),
            op("vproc_fault_map", "a page fault there, its page mapped by the owner, and back", 0, 0, 4_500),
            op("vproc_intra", "an exception of code in the owner's own address space, and back", 0, 0, 0),
            op(
                "exception_channel",
                "the same by a thread's exception channel, whose handler only says that it is handled",
                0,
                0,
                0,
            ),
            op("vproc_kick", "a kick of code that computes, until its owner has its state", 0, 0, 0),
            op("restricted_enter_exit", "into restricted mode, and back by a system call", 0, 0, 2_400),
            op("vproc_upcall", "a kick of one's own, its upcall, and back", 0, 0, 0),
            op(
                "vproc_thread_switch",
                "from one thread on a virtual processor to another (`runtime/vthread`)",
                0,
                0,
                60,
            ),
        ],
    ),
    (
        BULK,
        &[
            op("copy_1024", "a plain copy of 1 KiB in the program", 0, 0, 0),
            op("copy_16384", "a plain copy of 16 KiB in the program", 0, 0, 0),
            op("copy_65536", "a plain copy of 64 KiB in the program", 0, 0, 0),
            op("copy_1048576", "a plain copy of 1 MiB in the program", 0, 0, 0),
            op("channel_bulk_1024", "1 KiB written and read, 64 KiB at a time at most", 4058, 5462, 0),
            op("channel_bulk_16384", "16 KiB written and read, 64 KiB at a time at most", 0, 0, 0),
            op("channel_bulk_65536", "64 KiB written and read, 64 KiB at a time at most", 135607, 24729, 0),
            op("channel_bulk_1048576", "1 MiB written and read, 64 KiB at a time at most", 0, 0, 0),
            op("socket_bulk_1024", "1 KiB written and read, 64 KiB at a time at most", 0, 0, 0),
            op("socket_bulk_16384", "16 KiB written and read, 64 KiB at a time at most", 0, 0, 0),
            op("socket_bulk_65536", "64 KiB written and read, 64 KiB at a time at most", 137361, 24194, 0),
            op("socket_bulk_1048576", "1 MiB written and read, 64 KiB at a time at most", 0, 0, 0),
            op("vmo_write_1024", "1 KiB into committed pages", 0, 0, 0),
            op("vmo_write_16384", "16 KiB into committed pages", 0, 0, 0),
            op("vmo_write_65536", "64 KiB into committed pages", 68598, 11377, 0),
            op("vmo_write_1048576", "1 MiB into committed pages", 0, 0, 0),
            op("vmo_read_1024", "1 KiB from committed pages", 0, 0, 0),
            op("vmo_read_16384", "16 KiB from committed pages", 0, 0, 0),
            op("vmo_read_65536", "64 KiB from committed pages", 0, 0, 0),
            op("vmo_read_1048576", "1 MiB from committed pages", 0, 0, 0),
        ],
    ),
];

/// All operations, in order.
pub fn operations() -> impl Iterator<Item = &'static Operation> {
    GROUPS.iter().flat_map(|(_, operations)| *operations)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_different() {
        let mut names: Vec<&str> = operations().map(|operation| operation.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), operations().count());
    }
}
