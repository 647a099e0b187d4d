//! Every call: which case makes it as long as it gets, or why it has no length. And those that have a small one.

use abi::{Support, Via};
use abi::{ZX_IOB_ACCESS_EP0_CAN_MAP_READ, ZX_IOB_ACCESS_EP0_CAN_MEDIATED_WRITE};
use conformance::check::{Case, Outcome, ensure, equal};
use conformance::tiny::OwnJob;
use zx::{
    AsHandleRef, Bti, Channel, Event, Fifo, Handle, Info, Iob, IobDiscipline, IobSharedRegion, Iommu, Job, Rights,
    Socket, Vmo,
};

use super::{LESS, holds_shortly, memory};

/// What makes a call long.
enum Length {
    /// Cases, by their names without `holds.`.
    Cases(&'static [&'static str]),
    /// Nothing, because of this.
    None(&'static str),
}

use Length::{Cases, None as No};

/// It makes one object, or two.
const MAKES: Length = No("it makes an object that is empty");
/// It changes or tells something of one object.
const ONE: Length = No("it is about one thing of one object");
/// Its data has a bound of some pages.
const FEW: Length = No("its data are some hundred bytes at most");
const WAITS: Length = No("it waits, and whoever ends the wait does the work");
const TEST: Length = No("it does nothing");

const CALLS: &[(&str, Length)] = &[
    ("bti_create", MAKES),
    ("bti_pin", Cases(&["call.pin"])),
    ("bti_release_quarantine", Cases(&["call.pin"])),
    ("channel_call", Cases(&["call.channel"])),
    ("channel_call_etc", Cases(&["call.channel"])),
    ("channel_create", MAKES),
    ("channel_read", Cases(&["call.channel"])),
    ("channel_read_etc", Cases(&["call.channel"])),
    ("channel_write", Cases(&["call.channel"])),
    ("channel_write_etc", Cases(&["call.channel"])),
    ("clock_create", MAKES),
    ("clock_get_details", ONE),
    ("clock_read", ONE),
    ("clock_update", ONE),
    ("counter_add", ONE),
    ("counter_create", MAKES),
    ("counter_read", ONE),
    ("counter_write", ONE),
    ("cprng_add_entropy", FEW),
    ("cprng_draw", FEW),
    ("debug_read", FEW),
    ("debug_send_command", No("it takes a resource")),
    ("debug_write", Cases(&["output"])),
    ("debuglog_create", MAKES),
    ("debuglog_read", FEW),
    ("debuglog_write", FEW),
    ("endpoint_connect", ONE),
    ("endpoint_create", MAKES),
    ("endpoint_delete", ONE),
    ("endpoint_find", ONE),
    ("endpoint_mint", ONE),
    ("event_create", MAKES),
    ("eventpair_create", MAKES),
    ("exception_get_process", ONE),
    ("exception_get_thread", ONE),
    ("fifo_create", MAKES),
    ("fifo_read", Cases(&["call.fifo"])),
    ("fifo_write", Cases(&["call.fifo"])),
    ("futex_get_owner", ONE),
    ("futex_requeue", Cases(&["futex.requeue"])),
    ("futex_requeue_single_owner", Cases(&["futex.requeue"])),
    ("futex_wait", WAITS),
    ("futex_wake", Cases(&["futex.wake"])),
    ("futex_wake_single_owner", ONE),
    ("handle_check_valid", ONE),
    (
        "handle_close",
        Cases(&[
            "close.channel",
            "close.chain",
            "close.handle",
            "close.large",
            "close.small",
            "dirt.close",
            "zeroes.close_pager",
        ]),
    ),
    ("handle_close_many", Cases(&["close.many"])),
    ("handle_duplicate", ONE),
    ("handle_replace", Cases(&["close.handle"])),
    ("interrupt_ack", ONE),
    ("interrupt_bind", ONE),
    ("interrupt_create", MAKES),
    ("interrupt_destroy", ONE),
    ("interrupt_trigger", ONE),
    ("interrupt_wait", WAITS),
    ("iob_allocate_id", Cases(&["blob"])),
    ("iob_create", Cases(&["call.iob"])),
    ("iob_create_shared_region", MAKES),
    ("iob_writev", Cases(&["call.iob"])),
    ("iommu_create", MAKES),
    ("ioports_release", No("it takes a resource")),
    ("ioports_request", No("it takes a resource")),
    ("job_create", MAKES),
    ("job_set_critical", ONE),
    ("job_set_policy", FEW),
    ("ktrace_control", No("it takes a resource")),
    ("ktrace_read", No("it takes a resource")),
    ("membarrier_sync_process_data", ONE),
    ("membarrier_sync_process_insn", ONE),
    ("msi_allocate", FEW),
    ("msi_create", MAKES),
    ("nanosleep", WAITS),
    ("object_get_child", Cases(&["call.child"])),
    (
        "object_get_info",
        Cases(&[
            "list.handles",
            "list.jobs",
            "list.maps",
            "list.shared",
            "list.task_stats",
            "list.threads",
            "list.vmos",
            "runtime.processes",
            "runtime.threads",
        ]),
    ),
    ("object_get_property", ONE),
    ("object_set_profile", ONE),
    ("object_set_property", Cases(&["stream.size_smaller"])),
    ("object_signal", Cases(&["signal.packets", "signal.threads"])),
    ("object_signal_peer", Cases(&["signal.packets", "signal.threads"])),
    ("object_wait_async", ONE),
    ("object_wait_many", Cases(&["call.wait_many"])),
    ("object_wait_one", WAITS),
    ("pager_create", MAKES),
    ("pager_create_vmo", MAKES),
    ("pager_detach_vmo", Cases(&["dirt.detach", "pager", "zeroes.detach"])),
    ("pager_op_range", Cases(&["dirt.write_back", "pager", "stats", "zeroes.dirty", "zeroes.fail"])),
    ("pager_query_dirty_ranges", Cases(&["pager.dirty_ranges"])),
    ("pager_query_vmo_stats", Cases(&["stats"])),
    ("pager_supply_pages", Cases(&["supply"])),
    ("pci_cfg_pio_rw", No("it takes a resource")),
    ("pmt_unpin", Cases(&["call.pin"])),
    ("port_cancel", Cases(&["cancel"])),
    ("port_cancel_key", Cases(&["cancel"])),
    ("port_create", MAKES),
    ("port_queue", ONE),
    ("port_wait", WAITS),
    ("process_create", MAKES),
    ("process_create_shared", MAKES),
    ("process_exit", Cases(&["kill.handles", "kill.mappings", "kill.memory", "kill.threads"])),
    ("process_read_memory", Cases(&["read_memory"])),
    ("process_start", ONE),
    ("process_write_memory", Cases(&["call.write_memory"])),
    ("profile_create", MAKES),
    ("resource_create", No("it takes a resource")),
    ("restricted_bind_state", MAKES),
    ("restricted_enter", ONE),
    ("restricted_kick", ONE),
    ("restricted_stop", ONE),
    ("restricted_unbind_state", ONE),
    ("socket_create", MAKES),
    ("socket_read", Cases(&["call.socket"])),
    ("socket_set_disposition", ONE),
    ("socket_write", Cases(&["call.socket"])),
    ("stream_create", MAKES),
    ("stream_readv", Cases(&["stream.read"])),
    ("stream_readv_at", Cases(&["stream.read"])),
    ("stream_seek", ONE),
    ("stream_writev", Cases(&["stream.append"])),
    ("stream_writev_at", Cases(&["stream.write_beyond"])),
    ("syscall_test_0", TEST),
    ("syscall_test_1", TEST),
    ("syscall_test_2", TEST),
    ("syscall_test_3", TEST),
    ("syscall_test_4", TEST),
    ("syscall_test_5", TEST),
    ("syscall_test_6", TEST),
    ("syscall_test_7", TEST),
    ("syscall_test_8", TEST),
    ("system_get_event", ONE),
    ("system_powerctl", No("it takes a resource")),
    ("task_create_exception_channel", MAKES),
    ("task_kill", Cases(&["kill.handles", "kill.job", "kill.mappings", "kill.memory", "kill.threads"])),
    ("task_suspend", Cases(&["suspend.threads"])),
    ("task_suspend_token", Cases(&["suspend.threads"])),
    ("thread_create", MAKES),
    ("thread_exit", ONE),
    ("thread_raise_exception", ONE),
    ("thread_read_state", FEW),
    ("thread_start_regs", ONE),
    ("thread_write_state", FEW),
    ("timer_cancel", ONE),
    ("timer_create", MAKES),
    ("timer_set", Cases(&["timers"])),
    ("vmar_allocate", MAKES),
    ("vmar_destroy", Cases(&["destroy.many", "destroy.regions", "destroy.small"])),
    ("vmar_map", Cases(&["map", "map.over", "map.over.many"])),
    ("vmar_map_clock", ONE),
    ("vmar_map_iob", Cases(&["map"])),
    ("vmar_op_range", Cases(&["mapping.commit", "mapping.map_range"])),
    ("vmar_protect", Cases(&["protect"])),
    ("vmar_unmap", Cases(&["unmap", "unmap.many"])),
    ("vmo_create", MAKES),
    ("vmo_create_child", Cases(&["clone.mapped", "clone.more"])),
    ("vmo_create_contiguous", No("it takes a BTI, and memory that was never used is cleared by the kernel")),
    ("vmo_create_physical", No("it takes a resource, and makes an object that is empty")),
    ("vmo_get_size", ONE),
    ("vmo_get_stream_size", ONE),
    (
        "vmo_op_range",
        Cases(&[
            "commit.large",
            "commit.small",
            "decommit.large",
            "decommit.mapped",
            "decommit.small",
            "dirt.zero",
            "places.decommit",
            "places.zero",
            "zero.large",
            "zero.mapped",
            "zeroes.zero",
        ]),
    ),
    ("vmo_read", Cases(&["read"])),
    ("vmo_replace_as_executable", ONE),
    ("vmo_set_cache_policy", ONE),
    ("vmo_set_size", Cases(&["dirt.resize", "places.resize", "resize", "resize.mapped", "zeroes.resize"])),
    ("vmo_set_stream_size", Cases(&["stream.size_larger", "stream.size_smaller"])),
    ("vmo_transfer_data", Cases(&["places.transfer", "transfer", "transfer.more"])),
    ("vmo_write", Cases(&["children.snapshots", "write"])),
    ("vproc_bind", ONE),
    ("vproc_create", MAKES),
    ("vproc_kick", ONE),
    ("vproc_map", No("it maps 16 pages at a time, and goes on in portions")),
    ("vproc_start", WAITS),
    ("vproc_stop", ONE),
];

/// Each call that the server answers is told of, and each case that is named there is one.
fn every_call() -> Outcome {
    let answered =
        |call: &&abi::SyscallInfo| call.via == Via::Server && !matches!(call.support, Support::Unsupported(_));
    let mut names: Vec<&str> = abi::SYSCALLS.iter().filter(answered).map(|call| call.name).collect();
    names.sort_unstable();
    equal(CALLS.iter().map(|(name, _)| *name).collect::<Vec<_>>(), names)?;
    for (case, _) in KNOWN {
        eprintln!("known {case}");
    }
    let known = super::cases();
    for (call, length) in CALLS {
        match length {
            Cases(cases) => {
                for case in *cases {
                    let name = format!("holds.{case}");
                    ensure(known.iter().any(|known| known.name == name), &format!("{call}: there is no case {name}"))?;
                }
                eprintln!("call {call} {}", cases.join(" "));
            }
            No(why) => {
                ensure(!why.is_empty(), call)?;
                eprintln!("call {call} - {why}");
            }
        }
    }
    Ok(())
}

/// The largest message, with as many handles as one can have.
fn channel() -> Outcome {
    let (one, two) = Channel::create()?;
    let bytes = vec![3; abi::ZX_CHANNEL_MAX_MSG_BYTES as usize];
    let events = (0..abi::ZX_CHANNEL_MAX_MSG_HANDLES).map(|_| Event::create().map(Event::into_handle));
    let handles = events.collect::<zx::Result<Vec<Handle>>>()?;
    holds_shortly("channel-write", || Ok(one.write_handles(&bytes, handles)?))?;
    let (mut bytes, mut handles) = (bytes, std::array::from_fn::<_, 64, _>(|_| None));
    holds_shortly("channel-read", || {
        two.read_wait(&mut bytes, &mut handles, zx::MonotonicInstant::INFINITE)?;
        Ok(())
    })
}

fn fifo() -> Outcome {
    let (one, two) = Fifo::create(512, 8)?;
    let mut bytes = vec![3; 4096];
    holds_shortly("fifo-write", || equal(one.write(8, &bytes)?, 512))?;
    holds_shortly("fifo-read", || equal(two.read(8, &mut bytes)?, 512))
}

/// A socket's end filled at once, and one with as many datagrams as fit.
fn socket() -> Outcome {
    const ALL: usize = 256 << 10;
    const DATAGRAMS: usize = 16_000;
    let (one, two) = Socket::create(0)?;
    let mut bytes = vec![3; ALL];
    holds_shortly("socket-write", || equal(one.write(&bytes)?, ALL))?;
    holds_shortly("socket-read", || equal(two.read(&mut bytes)?, ALL))?;
    let (one, two) = Socket::create(abi::ZX_SOCKET_DATAGRAM)?;
    (0..DATAGRAMS).try_for_each(|_| one.write(&[1]).map(drop))?;
    holds_shortly("datagrams-write", || (0..1000).try_for_each(|_| equal(one.write(&[1])?, 1)))?;
    holds_shortly("datagrams-read", || (0..DATAGRAMS).try_for_each(|_| equal(two.read(&mut bytes)?, 1)))?;
    super::ends("datagrams-close", (one, two))
}

/// As many regions as there may be, and the largest record, in as many parts as it has bytes.
fn iob() -> Outcome {
    let region = Iob::private_region(ZX_IOB_ACCESS_EP0_CAN_MAP_READ, 4096, IobDiscipline::None);
    let mut made = None;
    holds_shortly("iob-create", || {
        made = Some(Iob::create(&[region; 64])?);
        Ok(())
    })?;
    super::ends("iob-close", made)?;
    let shared = IobSharedRegion::create(4096 + (128 << 10))?;
    let discipline = IobDiscipline::Ring { tag: 1 };
    let region = Iob::shared_region(ZX_IOB_ACCESS_EP0_CAN_MEDIATED_WRITE, &shared, discipline);
    let (one, _two) = Iob::create(&[region])?;
    let bytes = vec![1; 64];
    holds_shortly("iob-write", || Ok(one.writev(0, [bytes.as_slice(); 1000])?))
}

/// A job among many, and one that is not there.
fn child() -> Outcome {
    const JOBS: usize = 5000;
    let job = OwnJob::new()?;
    let jobs = (0..JOBS).map(|_| job.create_child()).collect::<zx::Result<Vec<Job>>>()?;
    let last = jobs.last().ok_or("there are jobs")?.koid()?;
    holds_shortly("child", || {
        job.get_child(last, Rights::SAME_RIGHTS)?;
        ensure(job.get_child(last + 1_000_000, Rights::SAME_RIGHTS).is_err(), "there is such a job")
    })
}

/// Much memory for a device, in small pages: it is gone through page by page.
fn pin() -> Outcome {
    let resource = zx::startup::resource().ok_or("this program was not given the root resource")?;
    let bti = Bti::create(&Iommu::create_stub(&resource)?, 7)?;
    let vmo = memory(LESS, true)?;
    let mut addresses = vec![0; (LESS / 4096) as usize];
    let mut pinned = None;
    holds_shortly("pin", || {
        pinned = Some(bti.pin(abi::ZX_BTI_PERM_READ, &vmo, 0, LESS, &mut addresses)?);
        Ok(())
    })?;
    holds_shortly("unpin", || Ok(pinned.ok_or("it is pinned")?.unpin()?))?;
    Ok(bti.release_quarantine()?)
}

/// As many objects as there may be, none of which has what is waited for.
fn wait_many() -> Outcome {
    let event = Event::create()?;
    let item =
        abi::zx_wait_item_t { handle: event.raw_handle(), waitfor: abi::Signals::USER_0.bits(), ..Default::default() };
    let mut items = [item; abi::ZX_WAIT_MANY_MAX_ITEMS];
    holds_shortly("wait-many", || {
        let soon = zx::MonotonicInstant::after(zx::Duration::from_millis(2));
        ensure(zx::wait_many(&mut items, soon).is_err(), "there was something")
    })
}

/// Memory of a process, that it may only read: all of it becomes a copy, and is written.
fn write_memory() -> Outcome {
    let vmo = memory(LESS, true)?;
    let weak = Vmo::from(vmo.duplicate_handle(Rights::BASIC | Rights::READ | Rights::MAP)?);
    let root = zx::startup::vmar_root_self();
    let at = root.map(abi::ZX_VM_PERM_READ, 0, &weak, 0, LESS as usize)?;
    let bytes = vec![1; 8 << 20];
    holds_shortly("write-memory", || equal(zx::startup::process_self().write_memory(at, &bytes)?, bytes.len()))?;
    Ok(root.unmap(at, LESS as usize)?)
}

/// What is not cut up.
pub const KNOWN: &[(&str, &str)] =
    &[("holds.call.pin", "bti_pin goes through all pages at once, 64 MiB in 4.6 ms; whoever calls it was given a BTI")];

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("holds.call.channel", channel),
        Case::new("holds.call.child", child),
        Case::new("holds.call.every", every_call),
        Case::new("holds.call.fifo", fifo),
        Case::new("holds.call.iob", iob),
        Case::new("holds.call.pin", pin),
        Case::new("holds.call.socket", socket),
        Case::new("holds.call.wait_many", wait_many),
        Case::new("holds.call.write_memory", write_memory),
    ]
}
