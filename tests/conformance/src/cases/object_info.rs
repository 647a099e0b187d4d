//! `zx_object_get_info`: the content of the records. Checks that are the same for all topics are in
//! `object_info_matrix.rs`.

use std::collections::BTreeSet;

use abi::{
    Rights, Status, ZX_VM_CAN_MAP_READ, ZX_VM_CAN_MAP_SPECIFIC, ZX_VM_CAN_MAP_WRITE, ZX_VM_PERM_READ, ZX_VM_PERM_WRITE,
    ZX_VM_SPECIFIC, zx_info_handle_basic_t, zx_info_handle_count_t, zx_info_handle_extended_t, zx_info_job_t,
    zx_info_kmem_stats_t, zx_info_maps_t, zx_info_process_handle_stats_t, zx_info_resource_t, zx_info_task_stats_t,
    zx_info_timer_t, zx_info_vmo_t,
};
use zx::{
    AsHandleRef, Channel, Clock, Duration, Event, EventPair, Fifo, Handle, Info, Job, MonotonicInstant, Process,
    Record, Socket, Timer, Vmar, Vmo,
};

use super::{cases, raw, root_resource, without};
use crate::check::{Failure, Outcome, ensure, equal, fails, gives};
use crate::puppet::Puppet;
use crate::test_process::{self, KILLED, OwnJob, SPIN, TestProcess};

cases! {
    "object.get_info.handle_valid.open" => handle_valid_open,
    "object.get_info.handle_valid.closed" => handle_valid_closed,
    "object.get_info.handle_valid.never_was" => handle_valid_never_was,
    "object.get_info.handle_basic.of_a_duplicate" => handle_basic_of_a_duplicate,
    "object.get_info.handle_basic.related_koids" => handle_basic_related_koids,
    "object.get_info.handle_count.follows_handles" => handle_count_follows_handles,
    "object.get_info.handle_count.counts_those_in_messages" => handle_count_counts_those_in_messages,
    "object.get_info.handle_stats.counts_by_type" => handle_stats_counts_by_type,
    "object.get_info.handle_table.one_handle" => handle_table_one_handle,
    "object.get_info.handle_table.two_handles" => handle_table_two_handles,
    "object.get_info.handle_table.of_the_unstarted_and_the_dead" => handle_table_of_the_unstarted_and_the_dead,
    "object.get_info.handle_table.own" => handle_table_own,
    "object.get_info.handle_table.long" => handle_table_long,
    "object.get_info.job.life" => job_life,
    "object.get_info.job_children.get_child" => job_children_get_child,
    "object.get_info.job_processes.get_child" => job_processes_get_child,
    "object.get_info.process.life" => process_life,
    "object.get_info.process_threads.running_only" => process_threads_running_only,
    "object.get_info.thread.one_processor" => thread_one_processor,
    "object.get_info.exception_report.checks" => exception_report_checks,
    "object.get_info.vmar.base_and_size" => vmar_base_and_size,
    "object.get_info.process_maps.tree" => process_maps_tree,
    "object.get_info.process_maps.mappings" => process_maps_mappings,
    "object.get_info.process_maps.permissions" => process_maps_permissions,
    "object.get_info.process_maps.unstarted" => process_maps_unstarted,
    "object.get_info.process_maps.dead" => process_maps_dead,
    "object.get_info.process_maps.older_versions" => process_maps_older_versions,
    "object.get_info.process_maps.windows" => process_maps_windows,
    "object.get_info.process_maps.deep" => process_maps_deep,
    "object.get_info.vmar_maps.below_it" => vmar_maps_below_it,
    "object.get_info.vmar_maps.destroyed" => vmar_maps_destroyed,
    "object.get_info.process_vmos.by_handle_and_mapping" => process_vmos_by_handle_and_mapping,
    "object.get_info.process_vmos.dead" => process_vmos_dead,
    "object.get_info.vmo.counts" => vmo_counts,
    "object.get_info.vmo.children" => vmo_children,
    "object.get_info.vmo.older_versions" => vmo_older_versions,
    "object.get_info.task_stats.private" => task_stats_private,
    "object.get_info.task_stats.shared" => task_stats_shared,
    "object.get_info.task_stats.own" => task_stats_own,
    "object.get_info.task_stats.unstarted" => task_stats_unstarted,
    "object.get_info.task_stats.dead" => task_stats_dead,
    "object.get_info.resource.root_and_child" => resource_root_and_child,
    "object.get_info.kmem_stats.follows_use" => kmem_stats_follows_use,
    "object.get_info.socket.buffers" => socket_buffers,
    "object.get_info.timer.set_and_not" => timer_set_and_not,
    "object.get_info.clock_mapped_size.of_none" => clock_mapped_size_of_none,
    "object.get_info.topics.not_here" => topics_not_here,
}

const READ_WRITE: u32 = ZX_VM_PERM_READ | ZX_VM_PERM_WRITE;
const PAGE: usize = 4096;

fn job() -> Result<Job, Failure> {
    Ok(zx::startup::job_default().ok_or("there is no default job")?.create_child()?)
}

fn unstarted() -> Result<(Process, Vmar), Failure> {
    Ok(job()?.create_process("unstarted")?)
}

/// All records of a topic.
fn all<T: Record + Default>(object: &impl AsHandleRef, topic: u32) -> Result<Vec<T>, Failure> {
    let object = object.as_handle_ref();
    let avail = object.get_info_records::<T>(topic, &mut [])?.avail;
    let mut records = vec![T::default(); avail];
    let size = object.get_info_records(topic, &mut records)?;
    equal((size.actual, size.avail), (avail, avail))?;
    Ok(records)
}

fn handles(object: &impl AsHandleRef) -> Result<u32, Failure> {
    let record: zx_info_handle_count_t = object.as_handle_ref().info_record(abi::ZX_INFO_HANDLE_COUNT)?;
    Ok(record.handle_count)
}

fn valid(handle: u32) -> Status {
    raw!(zx_object_get_info, handle, abi::ZX_INFO_HANDLE_VALID, 0, 0, 0, 0)
}

fn handle_valid_open() -> Outcome {
    let event = Event::create()?;
    gives(valid(event.raw_handle()), Status::OK)?;
    // The call needs no right.
    let bare = event.replace(Rights::NONE)?;
    gives(valid(bare.raw_handle()), Status::OK)
}

fn handle_valid_closed() -> Outcome {
    let closed = Event::create()?.raw_handle();
    gives(valid(closed), Status::BAD_HANDLE)
}

fn handle_valid_never_was() -> Outcome {
    [0, 1, 2, 0x7fff_ffff, 0xffff_ffff].into_iter().try_for_each(|value| gives(valid(value), Status::BAD_HANDLE))
}

fn handle_basic_of_a_duplicate() -> Outcome {
    let event = Event::create()?;
    let koid = event.koid()?;
    let twin = event.duplicate(Rights::SAME_RIGHTS)?;
    let value = event.raw_handle();
    drop(event);
    gives(valid(value), Status::BAD_HANDLE)?;
    let mut record = [0_u8; size_of::<zx_info_handle_basic_t>()];
    let get =
        |at: *mut u8, size: u64| raw!(zx_object_get_info, twin.raw_handle(), abi::ZX_INFO_HANDLE_BASIC, at, size, 0, 0);
    gives(get(record.as_mut_ptr(), 4), Status::BUFFER_TOO_SMALL)?;
    ensure(record.iter().all(|&byte| byte == 0), "a part of it was told")?;
    gives(get(record.as_mut_ptr(), record.len() as u64), Status::OK)?;
    let basic = twin.basic_info()?;
    equal((basic.koid, basic.related_koid, basic.type_), (koid, 0, abi::ZX_OBJ_TYPE_EVENT))?;
    equal(basic.rights, (Rights::BASIC | Rights::SIGNAL).bits())
}

fn handle_basic_related_koids() -> Outcome {
    let related = |object: &dyn Fn() -> zx::Result<u64>, expected: u64| -> Outcome { equal(object()?, expected) };
    let pairs: [(Handle, Handle); 4] = {
        let (channel, socket) = (Channel::create()?, Socket::create(0)?);
        let (fifo, eventpair) = (Fifo::create(8, 8)?, EventPair::create()?);
        [
            (channel.0.into(), channel.1.into()),
            (socket.0.into(), socket.1.into()),
            (fifo.0.into(), fifo.1.into()),
            (eventpair.0.into(), eventpair.1.into()),
        ]
    };
    for (a, b) in pairs {
        let peer = b.koid()?;
        equal(b.basic_info()?.related_koid, a.koid()?)?;
        related(&|| Ok(a.basic_info()?.related_koid), peer)?;
        // The koid stays the same when the other object is destroyed.
        drop(b);
        related(&|| Ok(a.basic_info()?.related_koid), peer)?;
    }
    let job = job()?;
    let (process, _vmar) = job.create_process("child")?;
    let thread = process.create_thread("child")?;
    equal(process.basic_info()?.related_koid, job.koid()?)?;
    equal(thread.basic_info()?.related_koid, process.koid()?)?;
    for loner in [Event::create()?.into_handle(), Vmo::create(1, 0)?.into(), Timer::create(0)?.into()] {
        equal(loner.basic_info()?.related_koid, 0)?;
    }
    Ok(())
}

fn handle_count_follows_handles() -> Outcome {
    let event = Event::create()?;
    equal(handles(&event)?, 1)?;
    let twins = (0..10).map(|_| event.duplicate(Rights::SAME_RIGHTS)).collect::<zx::Result<Vec<_>>>()?;
    equal(handles(&event)?, 11)?;
    equal(handles(&twins[9])?, 11)?;
    // A handle that replaces another one does not change the count.
    let event = event.replace(Rights::INSPECT)?;
    equal(handles(&event)?, 11)?;
    drop(twins);
    equal(handles(&event)?, 1)
}

fn handle_count_counts_those_in_messages() -> Outcome {
    let event = Event::create()?;
    let (a, b) = Channel::create()?;
    a.write(b"", [event.duplicate_handle(Rights::SAME_RIGHTS)?])?;
    equal(handles(&event)?, 2)?;
    drop(b);
    equal(handles(&event)?, 1)
}

fn stats(process: &impl AsHandleRef) -> Result<zx_info_process_handle_stats_t, Failure> {
    Ok(process.as_handle_ref().info_record(abi::ZX_INFO_PROCESS_HANDLE_STATS)?)
}

fn handle_stats_counts_by_type() -> Outcome {
    let own = zx::startup::process_self();
    let before = stats(&*own)?;
    let events = (0..7).map(|_| Event::create()).collect::<zx::Result<Vec<_>>>()?;
    let channel = Channel::create()?;
    let after = stats(&*own)?;
    for kind in 0..abi::ZX_OBJ_TYPE_UPPER_BOUND {
        let more = match kind as u32 {
            abi::ZX_OBJ_TYPE_EVENT => 7,
            abi::ZX_OBJ_TYPE_CHANNEL => 2,
            _ => 0,
        };
        equal((kind, after.handle_count[kind]), (kind, before.handle_count[kind] + more))?;
    }
    drop((events, channel));
    equal(stats(&*own)?.handle_count, before.handle_count)?;
    let present = |kind: u32| before.handle_count[kind as usize] > 0;
    let kinds = [abi::ZX_OBJ_TYPE_PROCESS, abi::ZX_OBJ_TYPE_THREAD, abi::ZX_OBJ_TYPE_VMO, abi::ZX_OBJ_TYPE_NONE];
    equal(kinds.map(present), [true, true, true, false])?;
    equal(stats(&unstarted()?.0)?.handle_count.iter().sum::<u32>(), 0)
}

/// A running process with one handle.
fn with_handle(handle: Handle) -> Result<TestProcess, Failure> {
    let tiny = TestProcess::new(SPIN)?;
    tiny.start(Some(handle), 0)?;
    Ok(tiny)
}

fn handle_table_one_handle() -> Outcome {
    let (near, far) = EventPair::create()?;
    let rights = Rights::WAIT | Rights::INSPECT | Rights::TRANSFER;
    let far = far.replace(rights)?;
    let koids = (far.koid()?, near.koid()?);
    let tiny = with_handle(far.into())?;
    let table: Vec<zx_info_handle_extended_t> = all(&tiny.process, abi::ZX_INFO_HANDLE_TABLE)?;
    equal(table.len(), 1)?;
    equal((table[0].koid, table[0].related_koid), koids)?;
    equal(table[0].type_, abi::ZX_OBJ_TYPE_EVENTPAIR)?;
    equal(table[0].rights, rights.bits())?;
    equal(table[0].handle_value & 3, 3)?;
    equal((table[0].reserved, table[0].peer_owner_koid), (0, 0))?;
    equal(stats(&tiny.process)?.handle_count[abi::ZX_OBJ_TYPE_EVENTPAIR as usize], 1)?;
    tiny.process.kill()?;
    Ok(())
}

fn handle_table_two_handles() -> Outcome {
    // A puppet has the handle of its channel and the handle that the case gives it.
    let puppet = Puppet::of(OwnJob::new()?)?;
    let vmo = Vmo::create(PAGE as u64, 0)?;
    let given = puppet.give(vmo.duplicate_handle(Rights::READ | Rights::TRANSFER)?)?;
    let table: Vec<zx_info_handle_extended_t> = all(&puppet.tiny.process, abi::ZX_INFO_HANDLE_TABLE)?;
    equal(table.len(), 2)?;
    let of = |kind: u32| table.iter().find(|record| record.type_ == kind).ok_or("a handle is missing");
    let (channel, given_vmo) = (of(abi::ZX_OBJ_TYPE_CHANNEL)?, of(abi::ZX_OBJ_TYPE_VMO)?);
    equal((u64::from(given_vmo.handle_value), given_vmo.koid, given_vmo.related_koid), (given, vmo.koid()?, 0))?;
    equal(given_vmo.rights, (Rights::READ | Rights::TRANSFER).bits())?;
    ensure(channel.handle_value != 0 && channel.koid != 0, "the channel has no number")?;
    // This process has the channel's other end.
    let own: Vec<zx_info_handle_extended_t> = all(&*zx::startup::process_self(), abi::ZX_INFO_HANDLE_TABLE)?;
    ensure(own.iter().any(|record| record.koid == channel.related_koid), "the channel has another end")?;
    equal((channel.peer_owner_koid, given_vmo.peer_owner_koid), (0, 0))
}

fn handle_table_of_the_unstarted_and_the_dead() -> Outcome {
    let (process, _vmar) = unstarted()?;
    equal(all::<zx_info_handle_extended_t>(&process, abi::ZX_INFO_HANDLE_TABLE)?.len(), 0)?;
    let tiny = with_handle(Event::create()?.into())?;
    tiny.process.kill()?;
    equal(tiny.end()?, KILLED)?;
    equal(all::<zx_info_handle_extended_t>(&tiny.process, abi::ZX_INFO_HANDLE_TABLE)?.len(), 0)
}

fn handle_table_own() -> Outcome {
    let event = Event::create()?;
    let vmo = Vmo::create(PAGE as u64, 0)?.replace(Rights::READ | Rights::INSPECT)?;
    let (a, b) = Channel::create()?;
    let own = zx::startup::process_self();
    let table: Vec<zx_info_handle_extended_t> = all(&*own, abi::ZX_INFO_HANDLE_TABLE)?;
    for object in [event.as_handle_ref(), vmo.as_handle_ref(), a.as_handle_ref(), b.as_handle_ref()] {
        let basic = object.basic_info()?;
        let mut found = table.iter().filter(|record| record.handle_value == object.raw());
        let record = found.next().ok_or("a handle is missing")?;
        equal((record.koid, record.related_koid), (basic.koid, basic.related_koid))?;
        equal((record.type_, record.rights), (basic.type_, basic.rights))?;
        ensure(found.next().is_none(), "a handle is there twice")?;
    }
    // Every other record must have a handle value, a koid and a type, and a related koid if its type has one.
    for record in &table {
        ensure(record.handle_value != 0 && record.koid != 0 && record.type_ != abi::ZX_OBJ_TYPE_NONE, "of nothing")?;
        let with_another = match record.type_ {
            abi::ZX_OBJ_TYPE_CHANNEL
            | abi::ZX_OBJ_TYPE_SOCKET
            | abi::ZX_OBJ_TYPE_EVENTPAIR
            | abi::ZX_OBJ_TYPE_FIFO
            | abi::ZX_OBJ_TYPE_THREAD
            | abi::ZX_OBJ_TYPE_PROCESS => true,
            // The root job has no parent, other jobs have one.
            abi::ZX_OBJ_TYPE_JOB => continue,
            _ => false,
        };
        equal((record.type_, record.related_koid != 0), (record.type_, with_another))?;
    }
    let values: BTreeSet<u32> = table.iter().map(|record| record.handle_value).collect();
    equal(values.len(), table.len())?;
    equal(table.len() as u32, stats(&*own)?.handle_count.iter().sum::<u32>())
}

fn handle_table_long() -> Outcome {
    let event = Event::create()?;
    let twins = (0..20_000).map(|_| event.duplicate(Rights::SAME_RIGHTS)).collect::<zx::Result<Vec<_>>>()?;
    let own = zx::startup::process_self();
    let mut records = vec![zx_info_handle_extended_t::default(); 40_000];
    let size = own.get_info_records(abi::ZX_INFO_HANDLE_TABLE, &mut records)?;
    equal(size.actual, size.avail)?;
    let koid = event.koid()?;
    equal(records.iter().filter(|record| record.koid == koid).count(), twins.len() + 1)?;
    ensure(records[size.actual..].iter().all(|record| record.koid == 0), "there is something behind the end")
}

fn job_life() -> Outcome {
    let job = job()?;
    let info = |job: &Job| job.info_record::<zx_info_job_t>(abi::ZX_INFO_JOB);
    let fresh = info(&job)?;
    equal((fresh.exited, fresh.kill_on_oom, fresh.debugger_attached, fresh.padding1), (0, 0, 0, [0; 5]))?;
    job.kill()?;
    let dead = info(&job)?;
    equal((dead.exited, dead.return_code), (1, KILLED))
}

fn job_children_get_child() -> Outcome {
    let parent = job()?;
    let children = (0..3).map(|_| parent.create_child()).collect::<zx::Result<Vec<_>>>()?;
    // A child's child is not listed in the parent.
    let grandchild = children[0].create_child()?;
    let koids: Vec<u64> = all(&parent, abi::ZX_INFO_JOB_CHILDREN)?;
    let expected = children.iter().map(test_process::koid).collect::<Result<BTreeSet<_>, _>>()?;
    equal(koids.len(), 3)?;
    equal(koids.iter().copied().collect(), expected)?;
    for koid in koids {
        let child = Job::from(parent.get_child(koid, Rights::SAME_RIGHTS)?);
        let basic = child.basic_info()?;
        equal((basic.koid, basic.type_), (koid, abi::ZX_OBJ_TYPE_JOB))?;
        equal(basic.rights, parent.basic_info()?.rights)?;
    }
    drop(children);
    // One child remains as long as it has a child itself.
    equal(all::<u64>(&parent, abi::ZX_INFO_JOB_CHILDREN)?, vec![grandchild.basic_info()?.related_koid])?;
    drop(grandchild);
    equal(all::<u64>(&parent, abi::ZX_INFO_JOB_CHILDREN)?.len(), 0)
}

fn job_processes_get_child() -> Outcome {
    let parent = job()?;
    let processes = (0..3).map(|_| parent.create_process("child")).collect::<zx::Result<Vec<_>>>()?;
    let koids: Vec<u64> = all(&parent, abi::ZX_INFO_JOB_PROCESSES)?;
    let expected = processes.iter().map(|child| test_process::koid(&child.0)).collect::<Result<BTreeSet<_>, _>>()?;
    equal(koids.len(), 3)?;
    equal(koids.iter().copied().collect(), expected)?;
    for koid in koids {
        let basic = parent.get_child(koid, Rights::INSPECT)?.basic_info()?;
        equal((basic.koid, basic.type_, basic.rights), (koid, abi::ZX_OBJ_TYPE_PROCESS, Rights::INSPECT.bits()))?;
    }
    processes[1].0.kill()?;
    equal(all::<u64>(&parent, abi::ZX_INFO_JOB_PROCESSES)?.len(), 2)
}

fn process_life() -> Outcome {
    let (started, exited) = (abi::ZX_INFO_PROCESS_FLAG_STARTED, abi::ZX_INFO_PROCESS_FLAG_EXITED);
    let tiny = TestProcess::new(SPIN)?;
    equal(tiny.process.info()?.flags, 0)?;
    let before = MonotonicInstant::now().0;
    tiny.start(None, 0)?;
    let after = MonotonicInstant::now().0;
    let running = tiny.process.info()?;
    equal(running.flags, started)?;
    ensure((before..=after).contains(&running.start_time), "it was started at another time")?;
    tiny.process.kill()?;
    let dead = tiny.process.info()?;
    equal((dead.flags, dead.return_code), (started | exited, KILLED))?;
    equal(dead.start_time, running.start_time)
}

fn process_threads_running_only() -> Outcome {
    let tiny = TestProcess::new(SPIN)?;
    let threads = || all::<u64>(&tiny.process, abi::ZX_INFO_PROCESS_THREADS);
    equal(threads()?.len(), 0)?;
    fails(tiny.process.get_child(tiny.thread.koid()?, Rights::SAME_RIGHTS), Status::NOT_FOUND)?;
    tiny.start(None, 0)?;
    equal(threads()?, vec![tiny.thread.koid()?])?;
    let second = tiny.process.create_thread("second")?;
    equal(threads()?.len(), 1)?;
    second.start(tiny.entry, tiny.stack, 0, 0)?;
    equal(threads()?.into_iter().collect(), BTreeSet::from([tiny.thread.koid()?, second.koid()?]))?;
    let found = tiny.process.get_child(second.koid()?, Rights::SAME_RIGHTS)?;
    equal(found.koid()?, second.koid()?)?;
    tiny.process.kill()?;
    equal(threads()?.len(), 0)?;
    fails(tiny.process.get_child(second.koid()?, Rights::SAME_RIGHTS), Status::NOT_FOUND)
}

fn thread_one_processor() -> Outcome {
    let info = zx::startup::thread_self().info()?;
    equal(info.state, abi::ZX_THREAD_STATE_RUNNING)?;
    equal(info.wait_exception_channel_type, 0)?;
    equal(info.cpu_affinity_mask.mask, [1, 0, 0, 0, 0, 0, 0, 0])
}

fn exception_report_checks() -> Outcome {
    let tiny = TestProcess::new(SPIN)?;
    let bare = without(&tiny.thread, Rights::INSPECT)?;
    let closed = Event::create()?.raw_handle();
    for topic in [abi::ZX_INFO_THREAD_EXCEPTION_REPORT, abi::ZX_INFO_THREAD_EXCEPTION_REPORT_V1] {
        for value in [0, closed, 0xffff_ffff] {
            let mut report = [0_u8; 64];
            let status = raw!(zx_object_get_info, value, topic, report.as_mut_ptr(), report.len(), 0, 0);
            gives(status, Status::BAD_HANDLE)?;
        }
        fails(tiny.process.get_info(topic, &mut [0; 64]), Status::WRONG_TYPE)?;
        fails(tiny.vmar.get_info(topic, &mut [0; 64]), Status::WRONG_TYPE)?;
        fails(bare.get_info(topic, &mut [0; 64]), Status::ACCESS_DENIED)?;
        // The thread is not in an exception.
        fails(tiny.thread.get_info(topic, &mut [0; 64]), Status::BAD_STATE)?;
        fails(zx::startup::thread_self().get_info(topic, &mut [0; 64]), Status::BAD_STATE)?;
    }
    Ok(())
}

/// A region of `pages` pages in the region `parent`.
fn region(parent: &Vmar, offset: usize, pages: usize) -> Result<(Vmar, usize), Failure> {
    let options = ZX_VM_CAN_MAP_READ | ZX_VM_CAN_MAP_WRITE | ZX_VM_CAN_MAP_SPECIFIC | ZX_VM_SPECIFIC;
    Ok(parent.allocate(options, offset, pages * PAGE)?)
}

fn vmar_base_and_size() -> Outcome {
    let root = zx::startup::vmar_root_self().info()?;
    let (sub, address) = zx::startup::vmar_root_self().allocate(ZX_VM_CAN_MAP_READ, 0, 3 * PAGE)?;
    let info = sub.info()?;
    equal((info.base, info.len), (address, 3 * PAGE))?;
    ensure(root.base <= info.base && info.base + info.len <= root.base + root.len, "it is outside of its parent")?;
    sub.destroy()?;
    Ok(())
}

fn name(bytes: &[u8]) -> String {
    bytes.iter().take_while(|byte| **byte != 0).map(|byte| char::from(*byte)).collect()
}

/// Depth, type, place and size of each entry; the place is the offset from the start of the address space.
fn outline(maps: &[zx_info_maps_t], base: usize) -> Vec<(usize, u32, usize, usize)> {
    maps.iter().map(|entry| (entry.depth, entry.type_, entry.base - base, entry.size)).collect()
}

const VMAR: u32 = abi::ZX_INFO_MAPS_TYPE_VMAR;
const MAPPING: u32 = abi::ZX_INFO_MAPS_TYPE_MAPPING;

/// A process whose root VMAR contains: a region that has a region with a mapping, and a mapping behind that; an empty
/// region; a mapping.
fn tree() -> Result<(Process, Vmar, Vec<Handle>), Failure> {
    let (process, root) = unstarted()?;
    let vmo = Vmo::create(4 * PAGE as u64, 0)?;
    let (a, _) = region(&root, 0, 16)?;
    let (b, _) = region(&a, 0, 4)?;
    let (c, _) = region(&root, 32 * PAGE, 8)?;
    b.map(READ_WRITE | ZX_VM_SPECIFIC, PAGE, &vmo, 0, PAGE)?;
    a.map(READ_WRITE | ZX_VM_SPECIFIC, 8 * PAGE, &vmo, 0, 2 * PAGE)?;
    root.map(READ_WRITE | ZX_VM_SPECIFIC, 64 * PAGE, &vmo, 0, PAGE)?;
    Ok((process, root, vec![a.into(), b.into(), c.into(), vmo.into()]))
}

/// The entries of [`tree`], without its root VMAR.
const TREE: [(usize, u32, usize, usize); 6] = [
    (1, VMAR, 0, 16 * PAGE),
    (2, VMAR, 0, 4 * PAGE),
    (3, MAPPING, PAGE, PAGE),
    (2, MAPPING, 8 * PAGE, 2 * PAGE),
    (1, VMAR, 32 * PAGE, 8 * PAGE),
    (1, MAPPING, 64 * PAGE, PAGE),
];

fn process_maps_tree() -> Outcome {
    let (process, root, _others) = tree()?;
    let maps: Vec<zx_info_maps_t> = all(&process, abi::ZX_INFO_PROCESS_MAPS)?;
    let space = root.info()?;
    equal(maps.len(), 8)?;
    equal((maps[0].depth, maps[0].type_), (0, abi::ZX_INFO_MAPS_TYPE_ASPACE))?;
    equal((maps[1].depth, maps[1].type_), (1, VMAR))?;
    for entry in &maps[..2] {
        equal((entry.base, entry.size), (space.base, space.len))?;
    }
    equal(name(&maps[0].name), format!("proc:{}", process.koid()?))?;
    equal(name(&maps[1].name), "root".to_owned())?;
    equal(outline(&maps[2..], space.base), TREE.map(|(depth, kind, base, size)| (depth + 1, kind, base, size)).to_vec())
}

fn process_maps_mappings() -> Outcome {
    let (process, root) = unstarted()?;
    let vmo = Vmo::create(8 * PAGE as u64, 0)?;
    vmo.set_name("told by name")?;
    // Three pages of the VMO are committed, two of them in the mapped range.
    for page in [0, 3, 4] {
        vmo.write(b"x", page * PAGE as u64)?;
    }
    let base = root.map(READ_WRITE, 0, &vmo, 2 * PAGE as u64, 4 * PAGE)?;
    let mapping = || -> Result<Vec<zx_info_maps_t>, Failure> {
        let maps: Vec<zx_info_maps_t> = all(&process, abi::ZX_INFO_PROCESS_MAPS)?;
        Ok(maps.into_iter().filter(|entry| entry.type_ == MAPPING).collect())
    };
    let found = mapping()?;
    equal(found.len(), 1)?;
    equal(name(&found[0].name), "told by name".to_owned())?;
    equal((found[0].base, found[0].size, found[0].depth), (base, 4 * PAGE, 2))?;
    let detail = found[0].mapping;
    equal(detail.mmu_flags, READ_WRITE)?;
    equal((detail.vmo_koid, detail.vmo_offset), (vmo.koid()?, 2 * PAGE as u64))?;
    equal((detail.committed_bytes, detail.populated_bytes), (2 * PAGE, 2 * PAGE))?;
    equal((detail.committed_private_bytes, detail.populated_private_bytes), (2 * PAGE, 2 * PAGE))?;
    equal((detail.committed_scaled_bytes, detail.populated_scaled_bytes), (2 * PAGE, 2 * PAGE))?;
    equal((detail.committed_fractional_scaled_bytes, detail.populated_fractional_scaled_bytes), (0, 0))?;
    // A part with other permissions is a mapping of its own.
    root.protect(ZX_VM_PERM_READ, base + PAGE, PAGE)?;
    let found = mapping()?;
    let parts: Vec<_> = found
        .iter()
        .map(|entry| (entry.base - base, entry.size, entry.mapping.mmu_flags, entry.mapping.vmo_offset))
        .collect();
    let (page, offset) = (PAGE, PAGE as u64);
    let expected = [
        (0, page, READ_WRITE, 2 * offset),
        (page, page, ZX_VM_PERM_READ, 3 * offset),
        (2 * page, 2 * page, READ_WRITE, 4 * offset),
    ];
    equal(parts, expected.to_vec())?;
    equal(found.iter().map(|entry| entry.mapping.committed_bytes).collect(), vec![0, page, page])
}

fn process_maps_permissions() -> Outcome {
    // Eight mappings with different permissions in a region of a running process.
    let tiny = test_process::spinning()?;
    let execute = ZX_VM_PERM_READ | abi::ZX_VM_PERM_EXECUTE;
    let kinds = [ZX_VM_PERM_READ, READ_WRITE, execute, READ_WRITE | execute];
    let can = ZX_VM_CAN_MAP_READ | ZX_VM_CAN_MAP_WRITE | abi::ZX_VM_CAN_MAP_EXECUTE;
    let (sub, base) = tiny.vmar.allocate(can, 0, 128 * PAGE)?;
    let vmo = Vmo::create(16 * PAGE as u64, 0)?.replace_as_executable(None)?;
    let mut expected = Vec::new();
    for n in 0..8 {
        // Every second page, so that the server cannot merge two of them.
        expected.push((sub.map(kinds[n % 4], 0, &vmo, 2 * (n * PAGE) as u64, PAGE)?, PAGE, kinds[n % 4]));
    }
    expected.sort_unstable();
    let maps: Vec<zx_info_maps_t> = all(&tiny.process, abi::ZX_INFO_PROCESS_MAPS)?;
    ensure(maps[..2].iter().all(|entry| entry.size > 1 << 40), "the address space is small")?;
    let start = maps.iter().position(|entry| entry.base == base && entry.type_ == VMAR).ok_or("no region")?;
    equal((maps[start].size, maps[start].depth), (128 * PAGE, 2))?;
    let below = maps[start + 1..].iter().take_while(|entry| entry.depth == 3);
    equal(below.map(|entry| (entry.base, entry.size, entry.mapping.mmu_flags)).collect::<Vec<_>>(), expected)?;
    // A buffer for three quarters of the records gets the first ones, with the same content.
    let mut part = vec![zx_info_maps_t::default(); maps.len() * 3 / 4];
    let size = tiny.process.get_info_records(abi::ZX_INFO_PROCESS_MAPS, &mut part)?;
    equal((size.actual, size.avail), (part.len(), maps.len()))?;
    for (one, other) in part.iter().zip(&maps) {
        equal((one.base, one.size, one.depth, one.type_), (other.base, other.size, other.depth, other.type_))?;
        equal((one.type_, one.mapping.mmu_flags), (one.type_, other.mapping.mmu_flags))?;
    }
    tiny.process.kill()?;
    Ok(())
}

fn process_maps_unstarted() -> Outcome {
    let (process, _root) = unstarted()?;
    let maps: Vec<zx_info_maps_t> = all(&process, abi::ZX_INFO_PROCESS_MAPS)?;
    equal(maps.iter().map(|entry| entry.depth).collect(), vec![0, 1])
}

fn process_maps_dead() -> Outcome {
    let tiny = test_process::spinning()?;
    tiny.process.kill()?;
    tiny.end()?;
    fails(tiny.process.get_info_records::<zx_info_maps_t>(abi::ZX_INFO_PROCESS_MAPS, &mut []), Status::BAD_STATE)?;
    // The same for a process that was never started.
    let (process, _root) = unstarted()?;
    process.kill()?;
    fails(process.get_info_records::<zx_info_maps_t>(abi::ZX_INFO_PROCESS_MAPS, &mut []), Status::BAD_STATE)
}

fn process_maps_older_versions() -> Outcome {
    let tiny = TestProcess::new(SPIN)?;
    let newest: Vec<zx_info_maps_t> = all(&tiny.process, abi::ZX_INFO_PROCESS_MAPS)?;
    for (topic, size) in [(abi::ZX_INFO_PROCESS_MAPS_V1, 96), (abi::ZX_INFO_PROCESS_MAPS_V2, 104)] {
        let mut bytes = vec![0; size * newest.len()];
        equal(tiny.process.get_info(topic, &mut bytes)?.actual, newest.len())?;
        for (old, new) in bytes.chunks(size).zip(&newest) {
            let word = |at: usize| usize::from_ne_bytes(old[at..at + 8].try_into().unwrap_or_default());
            equal((word(32), word(40), word(48)), (new.base, new.size, new.depth))?;
            equal((word(72) as u64, word(80) as u64), (new.mapping.vmo_koid, new.mapping.vmo_offset))?;
            // The older versions count pages.
            equal(word(88), new.mapping.committed_bytes / PAGE)?;
            if size > 96 {
                equal(word(96), new.mapping.populated_bytes / PAGE)?;
            }
        }
    }
    Ok(())
}

fn process_maps_windows() -> Outcome {
    let (process, root) = unstarted()?;
    let vmo = Vmo::create(8 * PAGE as u64, 0)?;
    let slice = vmo.create_child(abi::ZX_VMO_CHILD_SLICE, 2 * PAGE as u64, 4 * PAGE as u64)?;
    slice.set_name("a slice")?;
    let koid = slice.koid()?;
    vmo.write(b"x", 3 * PAGE as u64)?;
    let base = root.map(ZX_VM_PERM_READ, 0, &slice, PAGE as u64, 2 * PAGE)?;
    // The mapping still shows the slice after its last handle is closed.
    drop(slice);
    let maps: Vec<zx_info_maps_t> = all(&process, abi::ZX_INFO_PROCESS_MAPS)?;
    equal(maps.len(), 3)?;
    equal(name(&maps[2].name), "a slice".to_owned())?;
    equal((maps[2].mapping.vmo_koid, maps[2].mapping.vmo_offset), (koid, PAGE as u64))?;
    equal(maps[2].mapping.committed_bytes, PAGE)?;
    equal((vmo.info()?.num_children, vmo.info()?.num_mappings), (1, 0))?;
    root.unmap(base, 2 * PAGE)?;
    equal(vmo.info()?.num_children, 0)
}

fn process_maps_deep() -> Outcome {
    let (process, root) = unstarted()?;
    let mut chain = vec![region(&root, 0, 1)?.0];
    for depth in 0..300 {
        chain.push(region(&chain[depth], 0, 1)?.0);
    }
    let maps: Vec<zx_info_maps_t> = all(&process, abi::ZX_INFO_PROCESS_MAPS)?;
    equal(maps.iter().map(|entry| entry.depth).collect::<Vec<_>>(), (0..303).collect())
}

fn vmar_maps_below_it() -> Outcome {
    let (_process, root, others) = tree()?;
    let space = root.info()?;
    let maps: Vec<zx_info_maps_t> = all(&root, abi::ZX_INFO_VMAR_MAPS)?;
    equal((maps[0].depth, maps[0].type_, maps[0].base, maps[0].size), (0, VMAR, space.base, space.len))?;
    equal(outline(&maps[1..], space.base), TREE.to_vec())?;
    // An inner region: the region itself, its content, and nothing behind it.
    let maps: Vec<zx_info_maps_t> = all(&others[0], abi::ZX_INFO_VMAR_MAPS)?;
    equal(outline(&maps, space.base), TREE[..4].iter().map(|t| (t.0 - 1, t.1, t.2, t.3)).collect())?;
    let maps: Vec<zx_info_maps_t> = all(&others[2], abi::ZX_INFO_VMAR_MAPS)?;
    equal(outline(&maps, space.base), vec![(0, VMAR, 32 * PAGE, 8 * PAGE)])
}

fn vmar_maps_destroyed() -> Outcome {
    let (sub, _) = zx::startup::vmar_root_self().allocate(ZX_VM_CAN_MAP_READ, 0, PAGE)?;
    sub.destroy()?;
    fails(sub.get_info_records::<zx_info_maps_t>(abi::ZX_INFO_VMAR_MAPS, &mut []), Status::BAD_STATE)
}

fn process_vmos_by_handle_and_mapping() -> Outcome {
    let held = Vmo::create(2 * PAGE as u64, 0)?;
    held.set_name("held")?;
    held.write(b"x", 0)?;
    let rights = Rights::READ | Rights::INSPECT | Rights::TRANSFER;
    let tiny = with_handle(held.duplicate_handle(rights)?)?;
    let mapped = Vmo::create(3 * PAGE as u64, abi::ZX_VMO_RESIZABLE)?;
    mapped.set_name("mapped")?;
    tiny.vmar.map(ZX_VM_PERM_READ, 0, &mapped, 0, PAGE)?;
    tiny.vmar.map(ZX_VM_PERM_READ, 0, &mapped, 0, PAGE)?;
    let vmos: Vec<zx_info_vmo_t> = all(&tiny.process, abi::ZX_INFO_PROCESS_VMOS)?;
    // The code, the stack, a VMO with a handle, and a VMO that is mapped twice.
    equal(vmos.len(), 5)?;
    let of = |koid: u64| vmos.iter().filter(move |vmo| vmo.koid == koid).collect::<Vec<_>>();
    let by_handle = of(held.koid()?);
    equal(by_handle.len(), 1)?;
    let paged = abi::ZX_INFO_VMO_TYPE_PAGED;
    equal(by_handle[0].flags, paged | abi::ZX_INFO_VMO_VIA_HANDLE)?;
    equal(by_handle[0].handle_rights, rights.bits())?;
    equal((by_handle[0].parent_koid, by_handle[0].num_children), (0, 0))?;
    equal((by_handle[0].num_mappings, by_handle[0].share_count), (0, 1))?;
    equal(name(&by_handle[0].name), "held".to_owned())?;
    equal((by_handle[0].size_bytes, by_handle[0].committed_bytes), (2 * PAGE as u64, PAGE as u64))?;
    let by_mapping = of(mapped.koid()?);
    equal(by_mapping.len(), 2)?;
    for vmo in by_mapping {
        equal(vmo.flags, paged | abi::ZX_INFO_VMO_VIA_MAPPING | abi::ZX_INFO_VMO_RESIZABLE)?;
        equal((vmo.num_mappings, vmo.share_count, vmo.committed_bytes), (2, 1, 0))?;
        equal((vmo.parent_koid, vmo.num_children), (0, 0))?;
    }
    for vmo in &vmos {
        let via = vmo.flags & (abi::ZX_INFO_VMO_VIA_HANDLE | abi::ZX_INFO_VMO_VIA_MAPPING);
        equal((vmo.flags & paged, via.count_ones()), (paged, 1))?;
    }
    // A smaller buffer gets the first records, with the same content.
    let mut part = vec![zx_info_vmo_t::default(); 4];
    let size = tiny.process.get_info_records(abi::ZX_INFO_PROCESS_VMOS, &mut part)?;
    equal((size.actual, size.avail), (4, 5))?;
    for (one, other) in part.iter().zip(&vmos) {
        equal((one.koid, one.size_bytes, one.flags), (other.koid, other.size_bytes, other.flags))?;
        equal(one.handle_rights, other.handle_rights)?;
    }
    tiny.process.kill()?;
    Ok(())
}

fn process_vmos_dead() -> Outcome {
    let tiny = test_process::spinning()?;
    tiny.process.kill()?;
    fails(tiny.process.get_info_records::<zx_info_vmo_t>(abi::ZX_INFO_PROCESS_VMOS, &mut []), Status::BAD_STATE)
}

fn vmo_counts() -> Outcome {
    let vmo = Vmo::create(5 * PAGE as u64 - 1, abi::ZX_VMO_RESIZABLE)?;
    vmo.set_name("a name")?;
    let info = vmo.info()?;
    equal((info.koid, name(&info.name)), (vmo.koid()?, "a name".to_owned()))?;
    equal((info.size_bytes, info.parent_koid, info.num_children), (5 * PAGE as u64, 0, 0))?;
    equal((info.num_mappings, info.share_count, info.committed_bytes), (0, 1, 0))?;
    let expected = abi::ZX_INFO_VMO_TYPE_PAGED | abi::ZX_INFO_VMO_RESIZABLE | abi::ZX_INFO_VMO_VIA_HANDLE;
    equal(info.flags, expected)?;
    equal((info.handle_rights, info.cache_policy), (vmo.basic_info()?.rights, 0))?;
    ensure(info.metadata_bytes > 0, "it costs the system nothing")?;
    vmo.write(&[1; 2 * PAGE], PAGE as u64 / 2)?;
    let two = 3 * PAGE as u64;
    let info = vmo.info()?;
    equal((info.committed_bytes, info.populated_bytes, info.committed_private_bytes), (two, two, two))?;
    equal((info.populated_private_bytes, info.committed_scaled_bytes), (two, two))?;
    // Mapped once here and twice in another process: three mappings in two address spaces.
    let own = zx::startup::vmar_root_self();
    let here = own.map_here(ZX_VM_PERM_READ, &vmo, 0, PAGE)?;
    let (_process, root) = unstarted()?;
    let there = root.map(ZX_VM_PERM_READ, 0, &vmo, 0, PAGE)?;
    let second = root.map(ZX_VM_PERM_READ, 0, &vmo, PAGE as u64, PAGE)?;
    equal((vmo.info()?.num_mappings, vmo.info()?.share_count), (3, 2))?;
    root.unmap(there, PAGE)?;
    equal((vmo.info()?.num_mappings, vmo.info()?.share_count), (2, 2))?;
    drop(here);
    equal((vmo.info()?.num_mappings, vmo.info()?.share_count), (1, 1))?;
    root.unmap(second, PAGE)?;
    equal((vmo.info()?.num_mappings, vmo.info()?.share_count), (0, 1))?;
    vmo.op_range(abi::ZX_VMO_OP_DECOMMIT, 0, PAGE as u64)?;
    equal(vmo.info()?.committed_bytes, 2 * PAGE as u64)
}

fn vmo_children() -> Outcome {
    let vmo = Vmo::create(4 * PAGE as u64, 0)?;
    vmo.write(&[1; 2 * PAGE], 0)?;
    let slice = vmo.create_child(abi::ZX_VMO_CHILD_SLICE, 0, PAGE as u64)?;
    equal(slice.info()?.parent_koid, vmo.koid()?)?;
    equal(vmo.info()?.num_children, 1)?;
    // The pages belong to the parent and are counted only there.
    equal((slice.info()?.committed_bytes, vmo.info()?.committed_bytes), (0, 2 * PAGE as u64))?;
    drop(slice);
    equal(vmo.info()?.num_children, 0)
}

fn vmo_older_versions() -> Outcome {
    let vmo = Vmo::create(4 * PAGE as u64, 0)?;
    vmo.write(&[1; PAGE], 0)?;
    let mut newest = [0; 176];
    vmo.get_info(abi::ZX_INFO_VMO, &mut newest)?;
    for (topic, size) in [(abi::ZX_INFO_VMO_V1, 104), (abi::ZX_INFO_VMO_V2, 120), (abi::ZX_INFO_VMO_V3, 128)] {
        let mut bytes = [0xff; 176];
        equal(vmo.get_info(topic, &mut bytes)?.actual, 1)?;
        equal(&bytes[..size], &newest[..size])?;
        ensure(bytes[size..].iter().all(|byte| *byte == 0xff), "too much was written")?;
    }
    Ok(())
}

fn task_stats(process: &Process) -> Result<zx_info_task_stats_t, Failure> {
    Ok(process.task_stats()?)
}

fn task_stats_private() -> Outcome {
    let (process, root) = unstarted()?;
    equal(task_stats(&process)?, zx_info_task_stats_t::default())?;
    let vmo = Vmo::create(8 * PAGE as u64, 0)?;
    root.map(READ_WRITE, 0, &vmo, 0, 4 * PAGE)?;
    let expected = zx_info_task_stats_t { mem_mapped_bytes: 4 * PAGE, ..Default::default() };
    equal(task_stats(&process)?, expected)?;
    // One page lies in the mapped range and one outside.
    vmo.write(b"x", PAGE as u64)?;
    vmo.write(b"x", 5 * PAGE as u64)?;
    let expected = zx_info_task_stats_t { mem_private_bytes: PAGE, ..expected };
    equal(task_stats(&process)?, expected)?;
    // A VMO that is mapped twice is counted twice, and its pages are still private.
    root.map(READ_WRITE, 0, &vmo, 0, 2 * PAGE)?;
    let expected =
        zx_info_task_stats_t { mem_mapped_bytes: 6 * PAGE, mem_private_bytes: 2 * PAGE, ..Default::default() };
    equal(task_stats(&process)?, expected)
}

fn task_stats_shared() -> Outcome {
    let vmo = Vmo::create(8 * PAGE as u64, 0)?;
    let mut processes = Vec::new();
    for _ in 0..3 {
        let (process, root) = unstarted()?;
        root.map(READ_WRITE, 0, &vmo, 0, 4 * PAGE)?;
        processes.push((process, root));
    }
    vmo.write(b"x", 0)?;
    for (process, _) in &processes {
        let stats = task_stats(process)?;
        equal((stats.mem_mapped_bytes, stats.mem_private_bytes, stats.mem_shared_bytes), (4 * PAGE, 0, PAGE))?;
        // 4096 / 3 = 1365 and a third.
        equal(stats.mem_scaled_shared_bytes, 1365)?;
        equal(stats.mem_fractional_scaled_shared_bytes, (1_u64 << 63) / 3)?;
    }
    // When the other processes are gone, the page is private.
    let (process, _root) = processes.swap_remove(0);
    drop(processes);
    let stats = task_stats(&process)?;
    equal((stats.mem_private_bytes, stats.mem_shared_bytes, stats.mem_scaled_shared_bytes), (PAGE, 0, 0))
}

fn task_stats_own() -> Outcome {
    // This process has memory of its own, and memory that others have mapped as well, at least the vDSO's.
    let stats = task_stats(&zx::startup::process_self())?;
    ensure(stats.mem_private_bytes > 0 && stats.mem_scaled_shared_bytes > 0, "it has no memory")?;
    ensure(stats.mem_shared_bytes > stats.mem_scaled_shared_bytes, "nobody else has a part of it")?;
    ensure(stats.mem_mapped_bytes >= stats.mem_private_bytes + stats.mem_shared_bytes, "more than is mapped")
}

fn task_stats_unstarted() -> Outcome {
    let tiny = TestProcess::new(SPIN)?;
    let stats = task_stats(&tiny.process)?;
    ensure(stats.mem_mapped_bytes >= 5 * PAGE, "its code and stack are not counted")?;
    ensure(stats.mem_private_bytes >= PAGE, "its code is not in memory")
}

fn task_stats_dead() -> Outcome {
    let tiny = test_process::spinning()?;
    tiny.process.kill()?;
    fails(tiny.process.task_stats(), Status::BAD_STATE)
}

fn resource_root_and_child() -> Outcome {
    let root = root_resource()?;
    let info: zx_info_resource_t = root.info_record(abi::ZX_INFO_RESOURCE)?;
    equal((info.kind, info.flags, info.base, info.size), (abi::ZX_RSRC_KIND_ROOT, 0, 0, 0))?;
    let (kind, base) = (abi::ZX_RSRC_KIND_SYSTEM, abi::ZX_RSRC_SYSTEM_INFO_BASE);
    let child = root.create_child(kind, base, 1, "statistics")?;
    let info: zx_info_resource_t = child.info_record(abi::ZX_INFO_RESOURCE)?;
    equal((info.kind, info.flags, info.base, info.size), (kind, 0, base, 1))?;
    equal(name(&info.name), "statistics".to_owned())?;
    // This resource gives access to the statistics; another resource of the same kind does not.
    child.info_record::<zx_info_kmem_stats_t>(abi::ZX_INFO_KMEM_STATS)?;
    let other = root.create_child(kind, abi::ZX_RSRC_SYSTEM_CPU_BASE, 1, "other")?;
    fails(other.info_record::<zx_info_kmem_stats_t>(abi::ZX_INFO_KMEM_STATS), Status::OUT_OF_RANGE)?;
    let ports = root.create_child(abi::ZX_RSRC_KIND_IOPORT, 0x70, 2, "ports")?;
    fails(ports.info_record::<zx_info_kmem_stats_t>(abi::ZX_INFO_KMEM_STATS), Status::WRONG_TYPE)?;
    // The server does not count these, and no handle gives access to them.
    for topic in [abi::ZX_INFO_GUEST_STATS, abi::ZX_INFO_POWER_DOMAINS] {
        fails(root.get_info(topic, &mut [0; 512]), Status::NOT_SUPPORTED)?;
    }
    Ok(())
}

fn kmem_stats_follows_use() -> Outcome {
    let root = root_resource()?;
    let stats = || root.info_record::<zx_info_kmem_stats_t>(abi::ZX_INFO_KMEM_STATS);
    let before = stats()?;
    ensure(before.free_bytes > 0 && before.free_bytes < before.total_bytes, "there is no memory, or none is in use")?;
    equal(before.free_bytes + before.total_heap_bytes + before.other_bytes, before.total_bytes)?;
    ensure(before.free_heap_bytes <= before.total_heap_bytes, "more of the heap is free than there is")?;
    let size = 4 << 20;
    let vmo = Vmo::create(size, 0)?;
    vmo.op_range(abi::ZX_VMO_OP_COMMIT, 0, size)?;
    let during = stats()?;
    equal(during.total_bytes, before.total_bytes)?;
    let used = before.free_bytes.saturating_sub(during.free_bytes);
    ensure(used >= size && used < 2 * size, &format!("{used} bytes were taken for {size}"))?;
    drop(vmo);
    let after = stats()?;
    ensure(after.free_bytes > during.free_bytes + size / 2, "they did not come back")
}

fn socket_buffers() -> Outcome {
    let (a, b) = Socket::create(0)?;
    a.write(&[1; 100])?;
    a.write(&[1; 50])?;
    let (sent, received) = (a.info()?, b.info()?);
    equal((received.rx_buf_size, received.rx_buf_available, received.tx_buf_size), (150, 150, 0))?;
    equal((sent.rx_buf_size, sent.rx_buf_available, sent.tx_buf_size), (0, 0, 150))?;
    ensure(sent.tx_buf_max > 0 && sent.tx_buf_max == received.rx_buf_max, "they disagree on how much fits")?;
    equal(sent.options, abi::ZX_SOCKET_STREAM)?;
    let (c, d) = Socket::create(abi::ZX_SOCKET_DATAGRAM)?;
    c.write(&[1; 100])?;
    c.write(&[1; 50])?;
    let received = d.info()?;
    equal((received.rx_buf_size, received.rx_buf_available), (150, 100))?;
    equal(received.options, abi::ZX_SOCKET_DATAGRAM)?;
    // Without a peer no bytes can be queued there.
    drop(b);
    equal((a.info()?.tx_buf_max, a.info()?.tx_buf_size), (0, 0))
}

fn timer_set_and_not() -> Outcome {
    let timer = Timer::create(abi::ZX_TIMER_SLACK_LATE)?;
    let info = || timer.info_record::<zx_info_timer_t>(abi::ZX_INFO_TIMER);
    equal(info()?, zx_info_timer_t { options: abi::ZX_TIMER_SLACK_LATE, ..Default::default() })?;
    let deadline = MonotonicInstant::after(Duration::from_seconds(100));
    gives(raw!(zx_timer_set, timer.raw_handle(), deadline.0, 500), Status::OK)?;
    equal((info()?.deadline, info()?.slack), (deadline.0, 500))?;
    gives(raw!(zx_timer_cancel, timer.raw_handle()), Status::OK)?;
    equal((info()?.deadline, info()?.slack), (0, 0))
}

fn clock_mapped_size_of_none() -> Outcome {
    // A clock that cannot be mapped has no mapped size.
    let clock = Clock::create(abi::ZX_CLOCK_OPT_AUTO_START)?;
    let topic = abi::ZX_INFO_CLOCK_MAPPED_SIZE;
    fails(clock.get_info(topic, &mut [0; 8]), Status::INVALID_ARGS)?;
    fails(without(&clock, Rights::INSPECT)?.get_info(topic, &mut [0; 8]), Status::ACCESS_DENIED)?;
    fails(Event::create()?.get_info(topic, &mut [0; 8]), Status::WRONG_TYPE)?;
    gives(raw!(zx_object_get_info, 0, topic, 0, 0, 0, 0), Status::BAD_HANDLE)
}

fn topics_not_here() -> Outcome {
    let event = Event::create()?;
    // Topics that never existed or no longer exist are refused before any other check.
    for topic in [0_u32, 3, 5, 6, 41, 0x2000_0001, 0x4000_0017, 0xffff_ffff] {
        gives(raw!(zx_object_get_info, 0, topic, 0, 0, 0, 0), Status::NOT_SUPPORTED)?;
    }
    // Topics of other types of objects.
    for topic in [abi::ZX_INFO_BTI, abi::ZX_INFO_MSI, abi::ZX_INFO_VCPU, abi::ZX_INFO_INTERRUPT] {
        fails(event.get_info(topic, &mut [0; 256]), Status::WRONG_TYPE)?;
        gives(raw!(zx_object_get_info, 0, topic, 0, 0, 0, 0), Status::BAD_HANDLE)?;
    }
    // Topics that need the system's resource.
    for topic in [
        abi::ZX_INFO_KMEM_STATS,
        abi::ZX_INFO_KMEM_STATS_V1,
        abi::ZX_INFO_KMEM_STATS_EXTENDED,
        abi::ZX_INFO_KMEM_STATS_COMPRESSION,
        abi::ZX_INFO_CPU_STATS,
        abi::ZX_INFO_GUEST_STATS,
    ] {
        fails(event.get_info(topic, &mut [0; 256]), Status::WRONG_TYPE)?;
        gives(raw!(zx_object_get_info, 0, topic, 0, 0, 0, 0), Status::BAD_HANDLE)?;
    }
    // The server checks the right after the type.
    let bare = without(&event, Rights::INSPECT)?;
    fails(bare.get_info(abi::ZX_INFO_PROCESS, &mut [0; 256]), Status::WRONG_TYPE)?;
    fails(bare.get_info(abi::ZX_INFO_HANDLE_COUNT, &mut [0; 256]), Status::ACCESS_DENIED)
}
