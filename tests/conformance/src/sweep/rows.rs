//! The calls, each with arguments that would do, and those that have no row.

use abi::Rights;
use zx::sys;

use super::Arg::{Good, Memory, Number, Optional, Paged, Swept, Tested, Unswept};
use super::{Kind, Row};

/// Calls that are not swept, and why.
pub const WITHOUT: &[(&str, &str)] = &[
    ("endpoint_connect", "takes the channel whatever becomes of the call"),
    ("handle_close", "closing nothing is no error"),
    ("cprng_draw", "ends the process when its buffer is none"),
    ("debug_read", "takes what the host sends to others"),
    ("debug_send_command", "answers only that it is not there"),
    ("process_exit", "does not come back"),
    ("system_powerctl", "has cases of its own: what it does cannot be undone"),
    ("thread_exit", "does not come back"),
];

/// Calls that ask for more than the rights of their definition, depending on other arguments, or answer
/// `ZX_ERR_ACCESS_DENIED` for other reasons.
pub const MORE_RIGHTS: &[&str] = &[
    "bti.pin_vmo",
    "process.start",
    "stream.create_vmo",
    "stream.seek",
    "system.get_event",
    "task.create_exception_channel",
    "vmar.map_iob",
    "vmar.map_iob_ep",
    "vmar.map_vmo",
];

macro_rules! row {
    ($function:ident, $kind:expr, [$($argument:expr),* $(,)?]) => {
        Row {
            call: stringify!($function),
            function: sys::$function as *const () as usize,
            kind: $kind,
            arguments: &[$($argument),*],
        }
    };
}

const SAME: u64 = Rights::SAME_RIGHTS.bits() as u64;
const NEVER: u64 = i64::MAX as u64;
const READ: u64 = abi::ZX_VM_PERM_READ as u64;

pub fn rows() -> Vec<Row> {
    let mut rows = handle_rows();
    rows.extend(message_rows());
    rows.extend(memory_rows());
    rows.extend(task_rows());
    rows.extend(create_rows());
    rows.extend(device_rows());
    rows.extend(pager_rows());
    rows
}

fn handle_rows() -> Vec<Row> {
    vec![
        row!(zx_handle_duplicate, None, [Tested, Number(SAME), Memory]),
        row!(zx_handle_replace, None, [Tested, Number(SAME), Memory]),
        row!(zx_handle_check_valid, None, [Tested]),
        row!(zx_object_wait_one, None, [Tested, Number(1 << 3), Number(0), Optional]),
        row!(
            zx_object_get_info,
            None,
            [Tested, Number(abi::ZX_INFO_HANDLE_BASIC as u64), Memory, Number(32), Optional, Optional]
        ),
        row!(zx_object_get_property, None, [Tested, Number(abi::ZX_PROP_NAME as u64), Memory, Number(32)]),
        row!(zx_object_set_property, None, [Tested, Number(abi::ZX_PROP_NAME as u64), Memory, Number(8)]),
        row!(zx_object_signal, None, [Tested, Number(0), Number(0)]),
        row!(zx_object_wait_async, None, [Tested, Good(Kind::Port), Number(1), Number(8), Number(0)]),
        row!(zx_object_wait_async, Some(Kind::Port), [Good(Kind::Event), Tested, Number(1), Number(8), Number(0)]),
        row!(zx_timer_set, Some(Kind::Timer), [Tested, Number(NEVER), Number(0)]),
        row!(zx_timer_cancel, Some(Kind::Timer), [Tested]),
        row!(zx_clock_read, Some(Kind::Clock), [Tested, Memory]),
        row!(zx_counter_add, Some(Kind::Counter), [Tested, Number(1)]),
        row!(zx_counter_read, Some(Kind::Counter), [Tested, Memory]),
        row!(zx_counter_write, Some(Kind::Counter), [Tested, Number(1)]),
        row!(zx_object_signal_peer, None, [Tested, Number(0), Number(0)]),
        row!(zx_object_get_child, Some(Kind::Job), [Tested, Number(1), Number(SAME), Unswept]),
        row!(zx_clock_create, None, [Number(abi::ZX_CLOCK_ARGS_VERSION_1), Memory, Memory]),
        row!(zx_clock_get_details, Some(Kind::Clock), [Tested, Number(abi::ZX_CLOCK_ARGS_VERSION_1), Memory]),
        row!(
            zx_clock_update,
            Some(Kind::Clock),
            [Tested, Number(abi::ZX_CLOCK_ARGS_VERSION_1 | abi::ZX_CLOCK_UPDATE_OPTION_VALUE_VALID), Memory]
        ),
        row!(zx_clock_update, Some(Kind::Clock), [Tested, Number(abi::ZX_CLOCK_ARGS_VERSION_2 | 2), Memory]),
        row!(zx_debuglog_create, None, [Number(0), Number(0), Memory]),
        row!(zx_debuglog_read, Some(Kind::Debuglog), [Tested, Number(0), Memory, Number(256)]),
        row!(zx_debuglog_write, Some(Kind::Debuglog), [Tested, Number(0), Memory, Number(4)]),
        row!(
            zx_ktrace_control,
            Some(Kind::Resource),
            [Tested, Number(abi::KTRACE_ACTION_STOP as u64), Number(0), Number(0)]
        ),
        row!(zx_ktrace_read, Some(Kind::Resource), [Tested, Optional, Number(0), Number(16), Memory]),
        row!(zx_debug_write, None, [Swept, Number(4)]),
        row!(zx_cprng_add_entropy, None, [Memory, Number(16)]),
    ]
}

fn message_rows() -> Vec<Row> {
    const CHANNEL: Option<Kind> = Some(Kind::Channel);
    const SOCKET: Option<Kind> = Some(Kind::Socket);
    vec![
        row!(zx_channel_write, CHANNEL, [Tested, Number(0), Memory, Number(4), Number(0), Number(0)]),
        row!(zx_channel_write_etc, CHANNEL, [Tested, Number(0), Memory, Number(4), Number(0), Number(0)]),
        row!(
            zx_channel_read,
            CHANNEL,
            [Tested, Number(0), Memory, Number(0), Number(64), Number(0), Optional, Optional]
        ),
        row!(
            zx_channel_read_etc,
            CHANNEL,
            [Tested, Number(0), Memory, Number(0), Number(64), Number(0), Optional, Optional]
        ),
        row!(zx_socket_write, SOCKET, [Tested, Number(0), Memory, Number(4), Optional]),
        row!(zx_socket_read, SOCKET, [Tested, Number(0), Memory, Number(4), Optional]),
        row!(zx_socket_set_disposition, SOCKET, [Tested, Number(0), Number(0)]),
        row!(zx_port_queue, Some(Kind::Port), [Tested, Memory]),
        row!(zx_port_wait, Some(Kind::Port), [Tested, Number(0), Optional]),
        row!(zx_port_cancel, Some(Kind::Port), [Tested, Good(Kind::Event), Number(1)]),
        row!(zx_fifo_write, Some(Kind::Fifo), [Tested, Number(8), Memory, Number(1), Optional]),
        row!(zx_fifo_read, Some(Kind::Fifo), [Tested, Number(8), Memory, Number(1), Optional]),
        row!(zx_channel_call, CHANNEL, [Tested, Number(0), Number(0), Memory, Memory, Memory]),
        row!(zx_channel_call_etc, CHANNEL, [Tested, Number(0), Number(0), Memory, Memory, Memory]),
        row!(zx_port_cancel, None, [Good(Kind::Port), Tested, Number(1)]),
        row!(zx_port_cancel_key, Some(Kind::Port), [Tested, Number(0), Number(1)]),
        row!(zx_futex_wake, None, [Memory, Number(1)]),
        row!(zx_futex_wake_single_owner, None, [Memory]),
        row!(zx_futex_requeue, None, [Memory, Number(1), Number(0), Memory, Number(1), Number(0)]),
        row!(zx_futex_requeue_single_owner, None, [Memory, Number(0), Memory, Number(1), Number(0)]),
        row!(zx_futex_get_owner, None, [Memory, Optional]),
    ]
}

fn memory_rows() -> Vec<Row> {
    const VMO: Option<Kind> = Some(Kind::Vmo);
    const VMAR: Option<Kind> = Some(Kind::Vmar);
    const STREAM: Option<Kind> = Some(Kind::Stream);
    const IOB: Option<Kind> = Some(Kind::Iob);
    vec![
        row!(zx_vmo_read, VMO, [Tested, Memory, Number(0), Number(8)]),
        row!(zx_vmo_write, VMO, [Tested, Memory, Number(0), Number(8)]),
        row!(zx_vmo_get_size, VMO, [Tested, Memory]),
        row!(zx_vmo_set_size, VMO, [Tested, Number(8192)]),
        row!(zx_vmo_get_stream_size, VMO, [Tested, Memory]),
        row!(zx_vmo_set_stream_size, VMO, [Tested, Number(0)]),
        row!(
            zx_vmo_op_range,
            VMO,
            [Tested, Number(abi::ZX_VMO_OP_COMMIT as u64), Number(0), Number(4096), Number(0), Number(0)]
        ),
        row!(
            zx_vmo_create_child,
            VMO,
            [Tested, Number(abi::ZX_VMO_CHILD_SLICE as u64), Number(0), Number(4096), Memory]
        ),
        row!(zx_vmo_set_cache_policy, VMO, [Tested, Number(abi::ZX_CACHE_POLICY_CACHED as u64)]),
        row!(zx_vmo_transfer_data, VMO, [Tested, Number(0), Number(0), Number(0), Good(Kind::Vmo), Number(0)]),
        row!(zx_vmo_transfer_data, VMO, [Good(Kind::Vmo), Number(0), Number(0), Number(0), Tested, Number(0)]),
        row!(zx_vmar_allocate, VMAR, [Tested, Number(0), Number(0), Number(4096), Memory, Memory]),
        row!(zx_vmar_map, VMAR, [Tested, Number(READ), Number(0), Good(Kind::Vmo), Number(0), Number(4096), Memory]),
        row!(zx_vmar_map, VMO, [Good(Kind::Vmar), Number(READ), Number(0), Tested, Number(0), Number(4096), Memory]),
        row!(zx_vmar_unmap, VMAR, [Tested, Number(0x10_0000_0000), Number(4096)]),
        row!(zx_vmar_protect, VMAR, [Tested, Number(READ), Number(0x10_0000_0000), Number(4096)]),
        row!(
            zx_vmar_op_range,
            VMAR,
            [Tested, Number(abi::ZX_VMAR_OP_COMMIT as u64), Number(0x10_0000_0000), Number(4096), Number(0), Number(0)]
        ),
        row!(zx_vmar_map_clock, VMAR, [Tested, Number(READ), Number(0), Good(Kind::Clock), Number(4096), Memory]),
        row!(
            zx_vmar_map_clock,
            Some(Kind::Clock),
            [Good(Kind::Vmar), Number(READ), Number(0), Tested, Number(4096), Memory]
        ),
        row!(zx_vmar_destroy, VMAR, [Tested]),
        row!(zx_vmo_replace_as_executable, VMO, [Tested, Number(0), Memory]),
        row!(zx_stream_create, VMO, [Number(abi::ZX_STREAM_MODE_READ as u64), Tested, Number(0), Memory]),
        row!(zx_stream_readv, STREAM, [Tested, Number(0), Memory, Number(1), Optional]),
        row!(zx_stream_readv_at, STREAM, [Tested, Number(0), Number(0), Memory, Number(1), Optional]),
        row!(zx_stream_writev, STREAM, [Tested, Number(0), Memory, Number(1), Optional]),
        row!(zx_stream_writev_at, STREAM, [Tested, Number(0), Number(0), Memory, Number(1), Optional]),
        row!(zx_iob_create, None, [Number(0), Memory, Number(1), Memory, Memory]),
        row!(zx_iob_create_shared_region, None, [Number(0), Number(4096), Memory]),
        row!(zx_iob_allocate_id, IOB, [Tested, Number(0), Number(0), Memory, Number(8), Memory]),
        row!(zx_iob_writev, IOB, [Tested, Number(0), Number(0), Memory, Number(1)]),
        row!(
            zx_vmar_map_iob,
            VMAR,
            [Tested, Number(READ), Number(0), Good(Kind::Iob), Number(0), Number(0), Number(4096), Memory]
        ),
        row!(
            zx_vmar_map_iob,
            IOB,
            [Good(Kind::Vmar), Number(READ), Number(0), Tested, Number(0), Number(0), Number(4096), Memory]
        ),
        row!(zx_stream_seek, STREAM, [Tested, Number(0), Number(0), Optional]),
    ]
}

fn task_rows() -> Vec<Row> {
    const PROCESS: Option<Kind> = Some(Kind::Process);
    vec![
        row!(zx_thread_create, PROCESS, [Tested, Memory, Number(4), Number(0), Memory]),
        row!(zx_thread_start, Some(Kind::Thread), [Tested, Number(0x100_0000), Number(0), Number(0), Number(0)]),
        row!(zx_process_create_shared, Some(Kind::Process), [Tested, Number(0), Memory, Number(4), Memory, Memory]),
        row!(zx_process_create, Some(Kind::Job), [Tested, Memory, Number(4), Number(0), Memory, Memory]),
        row!(
            zx_process_start,
            PROCESS,
            [Tested, Good(Kind::Thread), Number(0x100_0000), Number(0), Number(0), Number(0)]
        ),
        row!(zx_job_create, Some(Kind::Job), [Tested, Number(0), Memory]),
        row!(zx_task_kill, None, [Tested]),
        row!(
            zx_thread_start_regs,
            Some(Kind::Thread),
            [Tested, Number(0x100_0000), Number(0), Number(0), Number(0), Number(0), Number(0)]
        ),
        row!(zx_thread_read_state, Some(Kind::Thread), [Tested, Number(0), Unswept, Number(200)]),
        row!(zx_thread_write_state, Some(Kind::Thread), [Tested, Number(0), Unswept, Number(200)]),
        row!(
            zx_thread_raise_exception,
            None,
            [Number(abi::ZX_EXCEPTION_TARGET_JOB_DEBUGGER as u64), Number(abi::ZX_EXCP_USER as u64), Swept]
        ),
        row!(zx_process_read_memory, PROCESS, [Tested, Number(0x100_0000), Unswept, Number(8), Unswept]),
        row!(zx_process_write_memory, PROCESS, [Tested, Number(0x100_0000), Unswept, Number(8), Unswept]),
        row!(zx_job_set_policy, Some(Kind::Job), [Tested, Number(0), Number(0x0100_0000), Memory, Number(1)]),
        row!(zx_job_set_critical, Some(Kind::Job), [Tested, Number(0), Good(Kind::Process)]),
        row!(zx_job_set_critical, PROCESS, [Good(Kind::Job), Number(0), Tested]),
        row!(zx_task_suspend, PROCESS, [Tested, Unswept]),
        row!(zx_task_suspend_token, PROCESS, [Tested, Unswept]),
        row!(zx_task_create_exception_channel, Some(Kind::Job), [Tested, Number(0), Memory]),
        row!(zx_exception_get_thread, Some(Kind::Exception), [Tested, Memory]),
        row!(zx_exception_get_process, Some(Kind::Exception), [Tested, Unswept]),
        row!(
            zx_resource_create,
            Some(Kind::Resource),
            [Tested, Number(0), Number(0x1000), Number(0x1000), Memory, Number(4), Memory]
        ),
        row!(zx_profile_create, Some(Kind::Resource), [Tested, Number(0), Memory, Memory]),
        row!(zx_endpoint_create, Some(Kind::Resource), [Tested, Number(0), Memory]),
        row!(zx_endpoint_find, Some(Kind::Resource), [Tested, Memory, Number(8), Memory]),
        row!(zx_endpoint_mint, Some(Kind::Endpoint), [Tested, Good(Kind::Thread), Number(1), Number(0), Memory]),
        row!(zx_endpoint_delete, Some(Kind::Thread), [Tested, Number(3)]),
        row!(zx_restricted_bind_state, None, [Number(0), Swept, Number(0)]),
        row!(zx_restricted_kick, Some(Kind::Thread), [Tested, Number(0)]),
        row!(zx_vproc_create, None, [Number(0), Swept, Unswept]),
        row!(zx_vproc_start, Some(Kind::Vproc), [Tested, Good(Kind::Process)]),
        row!(zx_vproc_start, Some(Kind::Process), [Good(Kind::Vproc), Tested]),
        row!(zx_vproc_stop, Some(Kind::Vproc), [Tested]),
        row!(zx_vproc_kick, Some(Kind::Vproc), [Tested]),
        row!(zx_vproc_bind, Some(Kind::Vproc), [Tested, Good(Kind::Port), Number(0)]),
        row!(zx_vproc_bind, Some(Kind::Port), [Good(Kind::Vproc), Tested, Number(0)]),
        row!(zx_vproc_map, Some(Kind::Vmar), [Tested, Good(Kind::Vmo), Unswept, Number(1)]),
        row!(zx_vproc_map, Some(Kind::Vmo), [Good(Kind::Vmar), Tested, Unswept, Number(1)]),
        row!(zx_object_set_profile, Some(Kind::Profile), [Good(Kind::Thread), Tested, Number(0)]),
        row!(zx_system_get_event, Some(Kind::Job), [Tested, Number(0xffff), Unswept]),
    ]
}

/// The VMO is none of the pager's, which is found out only after handles and rights.
fn pager_rows() -> Vec<Row> {
    const PAGER: Option<Kind> = Some(Kind::Pager);
    const VMO: Option<Kind> = Some(Kind::Vmo);
    const ZERO: super::Arg = Number(0);
    vec![
        row!(zx_pager_create, None, [ZERO, Memory]),
        row!(zx_pager_create_vmo, PAGER, [Tested, ZERO, Good(Kind::Port), ZERO, Number(4096), Memory]),
        row!(zx_pager_create_vmo, Some(Kind::Port), [Good(Kind::Pager), ZERO, Tested, ZERO, Number(4096), Memory]),
        row!(zx_pager_detach_vmo, PAGER, [Tested, Good(Kind::Vmo)]),
        row!(zx_pager_detach_vmo, VMO, [Good(Kind::Pager), Tested]),
        row!(zx_pager_supply_pages, PAGER, [Tested, Good(Kind::Vmo), ZERO, ZERO, Good(Kind::Vmo), ZERO]),
        row!(zx_pager_supply_pages, VMO, [Good(Kind::Pager), Tested, ZERO, ZERO, Good(Kind::Vmo), ZERO]),
        row!(zx_pager_supply_pages, VMO, [Good(Kind::Pager), Paged, ZERO, ZERO, Tested, ZERO]),
        row!(zx_pager_op_range, PAGER, [Tested, Number(2), Good(Kind::Vmo), ZERO, ZERO, ZERO]),
        row!(zx_pager_op_range, VMO, [Good(Kind::Pager), Number(2), Tested, ZERO, ZERO, ZERO]),
        row!(
            zx_pager_query_dirty_ranges,
            PAGER,
            [Tested, Good(Kind::Vmo), ZERO, ZERO, Unswept, Number(24), Unswept, Unswept]
        ),
        row!(
            zx_pager_query_dirty_ranges,
            VMO,
            [Good(Kind::Pager), Tested, ZERO, ZERO, Unswept, Number(24), Unswept, Unswept]
        ),
        row!(zx_pager_query_vmo_stats, PAGER, [Tested, Good(Kind::Vmo), ZERO, Unswept, Number(4)]),
        row!(zx_pager_query_vmo_stats, VMO, [Good(Kind::Pager), Tested, ZERO, Unswept, Number(4)]),
    ]
}

fn device_rows() -> Vec<Row> {
    const INTERRUPT: Option<Kind> = Some(Kind::Interrupt);
    vec![
        row!(zx_interrupt_create, None, [Number(0), Number(0), Number(abi::ZX_INTERRUPT_VIRTUAL as u64), Memory]),
        row!(zx_interrupt_create, Some(Kind::Resource), [Tested, Number(0xffff_ffff), Number(0), Unswept]),
        row!(zx_interrupt_bind, INTERRUPT, [Tested, Good(Kind::Port), Number(1), Number(0)]),
        row!(zx_interrupt_bind, Some(Kind::Port), [Good(Kind::Interrupt), Tested, Number(1), Number(0)]),
        row!(zx_interrupt_wait, INTERRUPT, [Tested, Optional]),
        row!(zx_interrupt_ack, INTERRUPT, [Tested]),
        row!(zx_interrupt_trigger, INTERRUPT, [Tested, Number(0), Number(1)]),
        row!(zx_interrupt_destroy, INTERRUPT, [Tested]),
        row!(zx_iommu_create, Some(Kind::Resource), [Tested, Number(0), Unswept, Number(1), Memory]),
        row!(zx_bti_create, Some(Kind::Iommu), [Tested, Number(0), Number(1), Memory]),
        // With too many addresses: what would be pinned would stay so.
        row!(
            zx_bti_pin,
            Some(Kind::Bti),
            [Tested, Number(1), Good(Kind::Vmo), Number(0), Number(4096), Unswept, Number(2), Unswept]
        ),
        row!(
            zx_bti_pin,
            Some(Kind::Vmo),
            [Good(Kind::Bti), Number(1), Tested, Number(0), Number(4096), Unswept, Number(2), Unswept]
        ),
        row!(zx_bti_release_quarantine, Some(Kind::Bti), [Tested]),
        row!(zx_pmt_unpin, Some(Kind::Pmt), [Tested]),
        row!(zx_vmo_create_contiguous, Some(Kind::Bti), [Tested, Number(4096), Number(0), Memory]),
        row!(zx_vmo_create_physical, Some(Kind::Resource), [Tested, Number(0xfed0_0000), Number(4096), Memory]),
        row!(zx_msi_allocate, Some(Kind::Resource), [Tested, Number(1), Memory]),
        row!(zx_msi_create, Some(Kind::Msi), [Tested, Number(0), Number(0), Good(Kind::Vmo), Number(0), Unswept]),
        row!(zx_msi_create, Some(Kind::Vmo), [Good(Kind::Msi), Number(0), Number(0), Tested, Number(0), Unswept]),
        row!(
            zx_pci_cfg_pio_rw,
            Some(Kind::Resource),
            [Tested, Number(0), Number(0), Number(0), Number(0), Memory, Number(32), Number(0)]
        ),
        row!(zx_ioports_request, Some(Kind::Resource), [Tested, Number(0x70), Number(2)]),
        row!(zx_ioports_release, Some(Kind::Resource), [Tested, Number(0x80), Number(1)]),
    ]
}

fn create_rows() -> Vec<Row> {
    vec![
        row!(zx_channel_create, None, [Number(0), Memory, Memory]),
        row!(zx_socket_create, None, [Number(0), Memory, Memory]),
        row!(zx_event_create, None, [Number(0), Memory]),
        row!(zx_eventpair_create, None, [Number(0), Memory, Memory]),
        row!(zx_port_create, None, [Number(0), Memory]),
        row!(zx_timer_create, None, [Number(0), Number(0), Memory]),
        row!(zx_fifo_create, None, [Number(8), Number(8), Number(0), Memory, Memory]),
        row!(zx_counter_create, None, [Number(0), Memory]),
        row!(zx_vmo_create, None, [Number(4096), Number(0), Memory]),
        row!(zx_handle_close_many, None, [Memory, Number(1)]),
        row!(zx_object_wait_many, None, [Memory, Number(1), Number(0)]),
        row!(zx_futex_wait, None, [Memory, Number(0), Number(0), Number(0)]),
    ]
}
