//! Answers whose length a program decides by what it has created.

use abi::{
    ZX_INFO_HANDLE_TABLE, ZX_INFO_JOB_CHILDREN, ZX_INFO_PROCESS_HANDLE_STATS, ZX_INFO_PROCESS_MAPS,
    ZX_INFO_PROCESS_THREADS, ZX_INFO_PROCESS_VMOS, ZX_VM_PERM_READ,
};
use conformance::check::{Case, Failure, Outcome, ensure};
use conformance::test_process::{OwnJob, SPIN, TestProcess};
use zx::{Event, Info, Process, Vmar, Vmo};

use super::{HANDLES, LESS, holds_shortly, memory, region};

/// Jobs in one job, and threads of a process that have not been started.
const TASKS: usize = 5000;

/// Reads all records of a topic; there are `count` of them, or up to `around` more.
fn told(kind: &str, object: &impl Info, topic: u32, record: usize, count: usize) -> Result<Vec<u8>, Failure> {
    let mut bytes = vec![0; record * (count + 100)];
    let mut size = zx::InfoSize::default();
    holds_shortly(kind, || {
        size = object.get_info(topic, &mut bytes)?;
        Ok(())
    })?;
    let right = size.actual == size.avail && (count..count + 100).contains(&size.actual);
    ensure(right, &format!("{count} and some more: {size:?}"))?;
    bytes.truncate(size.actual * record);
    Ok(bytes)
}

/// The same with a buffer for one record.
fn counted(kind: &str, object: &impl Info, topic: u32, record: usize, count: usize) -> Outcome {
    let mut bytes = vec![0; record];
    let mut size = zx::InfoSize::default();
    holds_shortly(kind, || {
        size = object.get_info(topic, &mut bytes)?;
        Ok(())
    })?;
    let right = size.actual == 1 && (count..count + 100).contains(&size.avail);
    ensure(right, &format!("{count} and some more: {size:?}"))
}

fn koids(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word)).collect()
}

/// A process that does not run, filled by `fill`.
fn tiny(fill: impl FnOnce(&TestProcess) -> Outcome) -> Result<TestProcess, Failure> {
    let tiny = TestProcess::new(SPIN)?;
    fill(&tiny)?;
    Ok(tiny)
}

/// Ends a process that never ran.
fn end(tiny: &TestProcess) -> Outcome {
    tiny.process.kill()?;
    tiny.end().map(drop)
}

fn handles() -> Outcome {
    let me = zx::startup::process_self();
    let handles = (0..HANDLES).map(|_| Event::create()).collect::<zx::Result<Vec<_>>>()?;
    let record = size_of::<abi::zx_info_handle_extended_t>();
    told("list-handles", &*me, ZX_INFO_HANDLE_TABLE, record, HANDLES).map(drop)?;
    let mut stats = abi::zx_info_process_handle_stats_t::default();
    holds_shortly("count-handles", || {
        stats = me.info_record(ZX_INFO_PROCESS_HANDLE_STATS)?;
        Ok(())
    })?;
    let events = stats.handle_count[abi::ZX_OBJ_TYPE_EVENT as usize] as usize;
    ensure((HANDLES..HANDLES + 100).contains(&events), &format!("{events} events"))?;
    counted("list-vmos-among-handles", &*me, ZX_INFO_PROCESS_VMOS, size_of::<abi::zx_info_vmo_t>(), 1)?;
    drop(handles);
    Ok(())
}

fn mapped(list: impl FnOnce(&Process) -> Outcome) -> Outcome {
    let tiny = tiny(|tiny| region(&tiny.vmar).map(drop))?;
    list(&tiny.process)?;
    end(&tiny)
}

fn maps() -> Outcome {
    let record = size_of::<abi::zx_info_maps_t>();
    mapped(|process| {
        let bytes = told("list-maps", process, ZX_INFO_PROCESS_MAPS, record, super::MAPPINGS)?;
        let bases: Vec<_> = bytes.chunks(record).map(|record| koids(&record[abi::ZX_MAX_NAME_LEN..])[0]).collect();
        ensure(bases.is_sorted(), "not by address")?;
        counted("count-maps", process, ZX_INFO_PROCESS_MAPS, record, super::MAPPINGS)
    })
}

fn vmos() -> Outcome {
    let record = size_of::<abi::zx_info_vmo_t>();
    mapped(|process| {
        told("list-vmos", process, ZX_INFO_PROCESS_VMOS, record, super::MAPPINGS)?;
        counted("count-vmos", process, ZX_INFO_PROCESS_VMOS, record, super::MAPPINGS)
    })
}

fn task_stats() -> Outcome {
    mapped(|process| {
        let mut stats = abi::zx_info_task_stats_t::default();
        holds_shortly("task-stats", || {
            stats = process.task_stats()?;
            Ok(())
        })?;
        ensure(stats.mem_mapped_bytes >= super::MAPPINGS * 4096, &format!("{stats:?}"))
    })
}

/// Mappings of memory that another VMO shares: the server visits each of its pages.
fn shared() -> Outcome {
    const EACH: usize = 20;
    let vmo = memory(LESS, true)?;
    let copy = vmo.create_child(abi::ZX_VMO_CHILD_SNAPSHOT, 0, LESS)?;
    let map = |vmar: &Vmar, vmo: &Vmo| vmar.map(ZX_VM_PERM_READ, 0, vmo, 0, LESS as usize);
    let tiny = tiny(|tiny| (0..EACH).try_for_each(|_| map(&tiny.vmar, &copy).map(drop).map_err(Failure::from)))?;
    let record = size_of::<abi::zx_info_maps_t>();
    told("list-maps-shared", &tiny.process, ZX_INFO_PROCESS_MAPS, record, EACH)?;
    end(&tiny)
}

fn jobs() -> Outcome {
    let job = OwnJob::new()?;
    let below = (0..TASKS).map(|_| job.create_child()).collect::<zx::Result<Vec<_>>>()?;
    let koids = koids(&told("list-jobs", &*job, ZX_INFO_JOB_CHILDREN, 8, TASKS)?);
    drop(below);
    ensure(koids.len() == TASKS && koids.is_sorted_by(|a, b| a < b), "not each of them, or more than once")
}

fn threads() -> Outcome {
    let mut threads = Vec::new();
    let tiny = tiny(|tiny| {
        for _ in 0..TASKS {
            threads.push(tiny.process.create_thread("none")?);
        }
        Ok(())
    })?;
    // Threads that were not started are not listed.
    told("list-threads", &tiny.process, ZX_INFO_PROCESS_THREADS, 8, 0)?;
    end(&tiny)
}

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("holds.list.handles", handles),
        Case::new("holds.list.jobs", jobs),
        Case::new("holds.list.maps", maps),
        Case::new("holds.list.shared", shared),
        Case::new("holds.list.task_stats", task_stats),
        Case::new("holds.list.threads", threads),
        Case::new("holds.list.vmos", vmos),
    ]
}
