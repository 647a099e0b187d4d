//! Values and layouts that programs were compiled with: none of them can change.

use abi::*;

#[test]
fn structures_have_zircons_sizes() {
    let expected = [
        ("zx_handle_info_t", 16),
        ("zx_handle_disposition_t", 20),
        ("zx_wait_item_t", 12),
        ("zx_channel_call_args_t", 48),
        ("zx_channel_call_etc_args_t", 48),
        ("zx_channel_iovec_t", 16),
        ("zx_iovec_t", 16),
        ("zx_log_record_t", 256),
        ("zx_iob_region_t", 120),
        ("zx_port_packet_t", 48),
        ("zx_packet_signal_t", 32),
        ("zx_packet_interrupt_t", 32),
        ("zx_packet_page_request_t", 32),
        ("zx_packet_guest_bell_t", 32),
        ("zx_packet_guest_mem_t", 32),
        ("zx_packet_guest_io_t", 32),
        ("zx_clock_transformation_t", 24),
        ("zx_clock_details_v1_t", 112),
        ("zx_clock_update_args_v1_t", 24),
        ("zx_clock_update_args_v2_t", 32),
        ("zx_vmo_lock_state_t", 32),
        ("zx_info_handle_basic_t", 32),
        ("zx_info_handle_extended_t", 40),
        ("zx_info_process_handle_stats_t", 256),
        ("zx_info_process_t", 24),
        ("zx_info_job_t", 16),
        ("zx_info_timer_t", 24),
        ("zx_info_stream_t", 24),
        ("zx_info_thread_t", 72),
        ("zx_info_thread_stats_t", 16),
        ("zx_info_task_stats_t", 40),
        ("zx_info_vmar_t", 16),
        ("zx_info_socket_t", 48),
        ("zx_info_maps_mapping_t", 88),
        ("zx_info_maps_t", 152),
        ("zx_info_vmo_t", 176),
        ("zx_info_task_runtime_t", 32),
        ("zx_info_cpu_stats_t", 144),
        ("zx_info_kmem_stats_t", 152),
        ("zx_info_kmem_stats_v1_t", 72),
        ("zx_info_kmem_stats_extended_t", 120),
        ("zx_info_kmem_stats_compression_t", 168),
        ("zx_info_handle_count_t", 4),
        ("zx_info_bti_t", 32),
        ("zx_info_msi_t", 24),
        ("zx_info_vcpu_t", 4),
        ("zx_info_iob_t", 16),
        ("zx_iob_region_info_t", 128),
        ("zx_info_memory_stall_t", 16),
        ("zx_info_interrupt_t", 4),
        ("zx_info_resource_t", 56),
        ("zx_policy_basic_v1_t", 8),
        ("zx_policy_basic_v2_t", 12),
        ("zx_policy_timer_slack_t", 16),
        ("zx_exception_context_t", 32),
        ("zx_exception_report_t", 40),
        ("zx_exception_info_t", 24),
        ("zx_thread_state_general_regs_t", 160),
        ("zx_thread_state_fp_regs_t", 160),
        ("zx_thread_state_vector_regs_t", 2120),
        ("zx_thread_state_debug_regs_t", 48),
        ("zx_restricted_state_t", 160),
        ("zx_restricted_exception_t", 160 + size_of::<zx_exception_report_t>()),
        ("zx_vcpu_state_t", 136),
        ("zx_system_powerctl_arg_t", 12),
        ("zx_profile_info_t", 96),
        ("zx_proc_args_t", 36),
        ("vdso_constants", 56),
        ("vdso_time_values", 48),
    ];
    for (name, size) in expected {
        let found = STRUCTS.iter().copied().flatten().find(|s| s.name == name);
        assert_eq!(found.map(|s| s.size), Some(size), "{name}");
    }
}

#[test]
fn structures_have_no_holes() {
    for s in STRUCTS.iter().copied().flatten() {
        let mut at = 0;
        for field in s.fields {
            assert_eq!(field.offset, at, "{}.{}", s.name, field.name);
            at += field.size;
        }
        assert_eq!(at, s.size, "{}", s.name);
    }
}

#[test]
fn fields_that_offsets_hang_on() {
    assert_eq!(core::mem::offset_of!(zx_info_vmo_t, committed_bytes), 88);
    assert_eq!(core::mem::offset_of!(zx_info_vmo_t, populated_bytes), 120);
    assert_eq!(core::mem::offset_of!(zx_info_maps_t, mapping), 64);
    assert_eq!(core::mem::offset_of!(zx_exception_report_t, context), 8);
    assert_eq!(core::mem::offset_of!(vdso_constants, physmem), 40);
    assert_eq!(core::mem::offset_of!(vdso_time_values, ticks_to_time_numerator), 32);
}

#[test]
fn default_rights_are_zircons() {
    // Bit patterns of handles that Zircon itself gives out.
    assert_eq!(ZX_DEFAULT_CHANNEL_RIGHTS.bits(), 0xf00e);
    assert_eq!(ZX_DEFAULT_EVENT_RIGHTS.bits(), 0xd003);
    assert_eq!(ZX_DEFAULT_EVENTPAIR_RIGHTS.bits(), 0xf003);
    assert_eq!(ZX_DEFAULT_PORT_RIGHTS.bits(), 0x800f);
    assert_eq!(ZX_DEFAULT_SOCKET_RIGHTS.bits(), 0x10_f0cf);
    assert_eq!(ZX_DEFAULT_VMO_RIGHTS.bits(), 0xd0ef);
    assert_eq!(ZX_DEFAULT_JOB_RIGHTS.bits(), 0x7_dfcf);
    assert_eq!(ZX_DEFAULT_PROCESS_RIGHTS.bits(), 0x6_d3cf);
    assert_eq!(ZX_DEFAULT_THREAD_RIGHTS.bits(), 0x4_d2cf);
    assert_eq!(ZX_DEFAULT_VMAR_RIGHTS.bits(), 0x20_8003);
    assert_eq!(ZX_DEFAULT_RESOURCE_RIGHTS.bits(), 0x800b);
}

#[test]
fn topics_carry_their_versions() {
    assert_eq!(ZX_INFO_PROCESS, 0x1000_0003);
    assert_eq!(ZX_INFO_TASK_STATS, 0x1000_000c);
    assert_eq!(ZX_INFO_PROCESS_MAPS, 0x2000_000d);
    assert_eq!(ZX_INFO_VMO, 0x3000_0017);
}

#[test]
fn statuses_have_names() {
    assert_eq!(Status::OK.to_string(), "ZX_OK");
    assert_eq!(Status::ACCESS_DENIED.to_string(), "ZX_ERR_ACCESS_DENIED");
    assert_eq!(Status(-5).to_string(), "status -5");
    assert_eq!(STATUSES.len(), 46);
    assert!(STATUSES.iter().all(|(name, status)| status.name() == Some(name)));
}

#[test]
fn names_are_given_once() {
    let mut names: Vec<&str> = CONSTANTS.iter().copied().flatten().map(|c| c.name).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn handle_words_keep_type_and_argument() {
    let word = PA_HND(PA_FD, 0x1_0002);
    assert_eq!((word, PA_HND_TYPE(word), PA_HND_ARG(word)), (0x2_0030, PA_FD, 2));
}

#[test]
fn every_call_of_the_newest_version_exists() {
    // The calls of endpoints and virtual processors are this system's own, and so is the call that the vDSO makes in
    // restricted mode.
    let own = |call: &&SyscallInfo| ["endpoint", "vproc"].contains(&call.noun) || call.name == "restricted_stop";
    assert_eq!(SYSCALLS.iter().filter(|call| !own(call)).count(), 228);
    for call in SYSCALLS {
        assert_eq!(syscall(call.nr).map(|found| found.name), Some(call.name));
    }
    assert_eq!(syscall(0), None);
    let call = syscall(nr::VMAR_MAP).map(|call| call.args.iter().map(|arg| arg.name).collect::<Vec<_>>());
    let args = ["handle", "options", "vmar_offset", "vmo", "vmo_offset", "len", "mapped_addr"];
    assert_eq!(call.as_deref(), Some(&args[..]));
}

#[test]
fn structures_named_by_calls_exist() {
    for arg in SYSCALLS.iter().flat_map(|call| call.args).filter(|arg| arg.ty.starts_with("zx_")) {
        assert!(STRUCTS.iter().copied().flatten().any(|s| s.name == arg.ty), "{}", arg.ty);
    }
}
