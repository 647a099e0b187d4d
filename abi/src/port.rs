//! Ports: packets and what puts them there.
//!
//! A packet is 48 bytes: a key chosen by whoever asked for it, its type and status, and 32 bytes whose meaning
//! follows from the type.

use crate::{zx_gpaddr_t, zx_instant_boot_t, zx_signals_t, zx_status_t, zx_time_t, zx_vaddr_t};

consts! { TABLE;
    [u32]
        /// `zx_object_wait_async`: one packet, at once when the signal is set already.
        ZX_WAIT_ASYNC_ONCE = 0;
        /// `zx_object_wait_async`: note the monotonic time.
        ZX_WAIT_ASYNC_TIMESTAMP = 1;
        /// `zx_object_wait_async`: only a signal that changes counts.
        ZX_WAIT_ASYNC_EDGE = 2;
        /// `zx_object_wait_async`: note the boot time.
        ZX_WAIT_ASYNC_BOOT_TIMESTAMP = 4;
        /// `zx_port_create`: interrupts can be bound to the port.
        ZX_PORT_BIND_TO_INTERRUPT = 1;
        /// A program's own packet.
        ZX_PKT_TYPE_USER = 0;
        /// A wait came true: [`zx_packet_signal_t`].
        ZX_PKT_TYPE_SIGNAL_ONE = 1;
        /// A guest wrote to a bell: [`zx_packet_guest_bell_t`].
        ZX_PKT_TYPE_GUEST_BELL = 3;
        /// A guest touched trapped memory: [`zx_packet_guest_mem_t`].
        ZX_PKT_TYPE_GUEST_MEM = 4;
        /// A guest used a trapped I/O port: [`zx_packet_guest_io_t`].
        ZX_PKT_TYPE_GUEST_IO = 5;
        /// A virtual processor wants something.
        ZX_PKT_TYPE_GUEST_VCPU = 6;
        /// An interrupt: [`zx_packet_interrupt_t`].
        ZX_PKT_TYPE_INTERRUPT = 7;
        /// A pager's VMO wants pages: [`zx_packet_page_request_t`].
        ZX_PKT_TYPE_PAGE_REQUEST = 9;
        /// A power level shall change.
        ZX_PKT_TYPE_PROCESSOR_POWER_LEVEL_TRANSITION_REQUEST = 10;
        /// A guest's processor shall be interrupted.
        ZX_PKT_GUEST_VCPU_INTERRUPT = 0;
        /// A guest's processor shall start.
        ZX_PKT_GUEST_VCPU_STARTUP = 1;
    [u16]
        /// A page request: supply pages.
        ZX_PAGER_VMO_READ = 0;
        /// A page request: there will be no more.
        ZX_PAGER_VMO_COMPLETE = 1;
        /// A page request: a page wants to become dirty.
        ZX_PAGER_VMO_DIRTY = 2;
}

structs! { STRUCTS;
    #[doc = "A packet."]
    struct zx_port_packet_t {
        /// Chosen by whoever asked for the packet.
        key: u64,
        /// `ZX_PKT_TYPE_*`
        type_: u32,
        /// `ZX_OK` for packets of the system.
        status: zx_status_t,
        /// The rest, by type.
        payload: [u64; 4],
    }
    #[doc = "Payload of `ZX_PKT_TYPE_SIGNAL_ONE`."]
    struct zx_packet_signal_t {
        /// The signals that were waited for.
        trigger: zx_signals_t,
        /// The signals that were set.
        observed: zx_signals_t,
        /// By object: how much is pending; at least 1.
        count: u64,
        /// When, if asked for.
        timestamp: zx_time_t,
        /// Zero.
        reserved1: u64,
    }
    #[doc = "Payload of `ZX_PKT_TYPE_INTERRUPT`."]
    struct zx_packet_interrupt_t {
        /// When it was raised.
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
        /// First byte wanted.
        offset: u64,
        /// Bytes wanted.
        length: u64,
        /// Zero.
        reserved1: u64,
    }
    #[doc = "Payload of `ZX_PKT_TYPE_GUEST_BELL`."]
    struct zx_packet_guest_bell_t {
        /// Where the guest wrote.
        addr: zx_gpaddr_t,
        /// Zero.
        reserved: [u64; 3],
    }
    #[doc = "Payload of `ZX_PKT_TYPE_GUEST_MEM`."]
    struct zx_packet_guest_mem_t {
        /// What the guest touched.
        addr: zx_gpaddr_t,
        /// Its page-table root.
        cr3: zx_gpaddr_t,
        /// Its instruction.
        rip: zx_vaddr_t,
        /// Bytes of the instruction, 0 if not known.
        instruction_size: u8,
        /// Bytes of an operand by default.
        default_operand_size: u8,
        /// Zero.
        reserved: [u8; 6],
    }
    #[doc = "Payload of `ZX_PKT_TYPE_GUEST_IO`."]
    struct zx_packet_guest_io_t {
        /// The port.
        port: u16,
        /// Bytes: 1, 2 or 4.
        access_size: u8,
        /// 1 for input.
        input: u8,
        /// What the guest wrote.
        data: [u8; 4],
        /// Zero.
        reserved: [u64; 3],
    }
}
