//! Ports: packets and their sources.
//!
//! A packet is 48 bytes: a key chosen by the program that requested it, its type and status, and 32 bytes whose meaning
//! depends on the type.

use crate::{zx_gpaddr_t, zx_instant_boot_t, zx_signals_t, zx_status_t, zx_time_t};

consts! { TABLE;
    [u32]
        /// `zx_object_wait_async`: one packet, at once if the signal is already asserted.
        ZX_WAIT_ASYNC_ONCE = 0;
        /// `zx_object_wait_async`: record the monotonic time.
        ZX_WAIT_ASYNC_TIMESTAMP = 1;
        /// `zx_object_wait_async`: wait for the signal to become asserted.
        ZX_WAIT_ASYNC_EDGE = 2;
        /// `zx_object_wait_async`: record the boot time.
        ZX_WAIT_ASYNC_BOOT_TIMESTAMP = 4;
        /// `zx_port_create`: interrupts can be bound to the port.
        ZX_PORT_BIND_TO_INTERRUPT = 1;
        /// A packet that a program queued.
        ZX_PKT_TYPE_USER = 0;
        /// A wait was satisfied: [`zx_packet_signal_t`].
        ZX_PKT_TYPE_SIGNAL_ONE = 1;
        /// A guest wrote to a doorbell trap: [`zx_packet_guest_bell_t`].
        ZX_PKT_TYPE_GUEST_BELL = 3;
        /// A guest accessed trapped memory: [`zx_packet_guest_mem_t`].
        ZX_PKT_TYPE_GUEST_MEM = 4;
        /// A guest used a trapped I/O port: [`zx_packet_guest_io_t`].
        ZX_PKT_TYPE_GUEST_IO = 5;
        /// A request of a guest's virtual processor.
        ZX_PKT_TYPE_GUEST_VCPU = 6;
        /// An interrupt: [`zx_packet_interrupt_t`].
        ZX_PKT_TYPE_INTERRUPT = 7;
        /// A VMO requests pages from its pager: [`zx_packet_page_request_t`].
        ZX_PKT_TYPE_PAGE_REQUEST = 9;
        /// A request to change a power level.
        ZX_PKT_TYPE_PROCESSOR_POWER_LEVEL_TRANSITION_REQUEST = 10;
        /// A guest's processor must be interrupted.
        ZX_PKT_GUEST_VCPU_INTERRUPT = 0;
        /// A guest's processor must start.
        ZX_PKT_GUEST_VCPU_STARTUP = 1;
    [u16]
        /// A page request: supply pages.
        ZX_PAGER_VMO_READ = 0;
        /// A page request: there will be no more requests.
        ZX_PAGER_VMO_COMPLETE = 1;
        /// A page request: a page is about to become dirty.
        ZX_PAGER_VMO_DIRTY = 2;
}

structs! { STRUCTS;
    #[doc = "A packet."]
    struct zx_port_packet_t {
        /// Chosen by the program that requested the packet.
        key: u64,
        /// `ZX_PKT_TYPE_*`
        type_: u32,
        /// `ZX_OK` for packets of the system.
        status: zx_status_t,
        /// The rest; it depends on the type.
        payload: [u64; 4],
    }
    #[doc = "Payload of `ZX_PKT_TYPE_SIGNAL_ONE`."]
    struct zx_packet_signal_t {
        /// The signals that were waited for.
        trigger: zx_signals_t,
        /// The signals that were asserted.
        observed: zx_signals_t,
        /// Depends on the object: how much is pending; at least 1.
        count: u64,
        /// The time, if requested.
        timestamp: zx_time_t,
        /// Zero.
        reserved1: u64,
    }
    #[doc = "Payload of `ZX_PKT_TYPE_INTERRUPT`."]
    struct zx_packet_interrupt_t {
        /// Time of the interrupt.
        timestamp: zx_instant_boot_t,
        /// Zero.
        reserved: [u64; 3],
    }
    #[doc = "Payload of `ZX_PKT_TYPE_PAGE_REQUEST`."]
    struct zx_packet_page_request_t {
        /// `ZX_PAGER_VMO_*`
        command: u16,
        /// Zero.
        flags: u16,
        /// Zero.
        reserved0: u32,
        /// First requested byte.
        offset: u64,
        /// Number of requested bytes.
        length: u64,
        /// Zero.
        reserved1: u64,
    }
    #[doc = "Payload of `ZX_PKT_TYPE_GUEST_BELL`."]
    struct zx_packet_guest_bell_t {
        /// The address that the guest wrote to.
        addr: zx_gpaddr_t,
        /// Zero.
        reserved: [u64; 3],
    }
    #[doc = "Payload of `ZX_PKT_TYPE_GUEST_IO`."]
    struct zx_packet_guest_io_t {
        /// The port.
        port: u16,
        /// Size of the access in bytes: 1, 2 or 4.
        access_size: u8,
        /// 1 for input.
        input: u8,
        /// The value that the guest wrote.
        data: [u8; 4],
        /// Zero.
        reserved: [u64; 3],
    }
}
