//! Quotas and counts of a job: processes, threads, jobs, handles, messages and queued bytes.

use abi::{
    HAFNON_PROP_JOB_HANDLE_LIMIT as HANDLES, HAFNON_PROP_JOB_JOB_LIMIT as JOBS, HAFNON_PROP_JOB_MEMORY_LIMIT as MEMORY,
    HAFNON_PROP_JOB_MESSAGE_LIMIT as MESSAGES, HAFNON_PROP_JOB_PROCESS_LIMIT as PROCESSES,
    HAFNON_PROP_JOB_QUEUED_BYTES_LIMIT as QUEUED_BYTES, HAFNON_PROP_JOB_THREAD_LIMIT as THREADS, Rights, Status,
};
use zx::{AsHandleRef, Event, Job, Port, Signals, Vmo};

use super::{cases, without};
use crate::check::{Failure, Outcome, ensure, equal, fails, gives};
use crate::puppet::{Puppet, function};
use crate::test_process::OwnJob;

cases! {
    "job.count.property" => property,
    "job.count.property_rights" => property_rights,
    "job.count.property_of_others" => property_of_others,
    "job.count.usage" => usage,
    "job.count.usage_rights" => usage_rights,
    "job.count.processes" => processes,
    "job.count.threads" => threads,
    "job.count.jobs" => jobs,
    "job.count.above" => above,
    "job.count.handles" => handles,
    "job.count.messages" => messages,
    "job.count.queued_bytes" => queued_bytes,
    "job.count.queued_bytes_of_sockets" => queued_bytes_of_sockets,
    "job.count.tables_are_memory" => tables_are_memory,
    "job.count.packets_are_memory" => packets_are_memory,
    "job.count.waits_are_memory" => waits_are_memory,
    "job.count.mappings_are_memory" => mappings_are_memory,
}

const ALL: [u32; 6] = [PROCESSES, THREADS, JOBS, HANDLES, MESSAGES, QUEUED_BYTES];

fn limit(job: &Job, property: u32, count: u64) -> zx::Result<()> {
    job.set_property(property, &count.to_le_bytes())
}

fn property() -> Outcome {
    let job = OwnJob::new()?;
    for property in ALL {
        equal(job.get_property_u64(property)?, u64::MAX)?;
        for count in [7, 0, u64::MAX] {
            limit(&job, property, count)?;
            equal(job.get_property_u64(property)?, count)?;
        }
        fails(job.set_property(property, &[0; 7]), Status::BUFFER_TOO_SMALL)?;
        fails(job.get_property(property, &mut [0; 7]), Status::BUFFER_TOO_SMALL)?;
    }
    Ok(())
}

fn property_rights() -> Outcome {
    let job = OwnJob::new()?;
    for property in ALL {
        for right in [Rights::SET_PROPERTY, Rights::SET_POLICY] {
            fails(limit(&Job::from(without(&*job, right)?), property, 1), Status::ACCESS_DENIED)?;
        }
        let unreadable = Job::from(without(&*job, Rights::GET_PROPERTY)?);
        fails(unreadable.get_property_u64(property), Status::ACCESS_DENIED)?;
    }
    Ok(())
}

fn property_of_others() -> Outcome {
    let vmo = Vmo::create(4096, 0)?;
    for property in ALL {
        fails(vmo.get_property(property, &mut [0; 8]), Status::WRONG_TYPE)?;
        fails(vmo.set_property(property, &[0; 8]), Status::WRONG_TYPE)?;
    }
    Ok(())
}

fn usage() -> Outcome {
    let job = OwnJob::new()?;
    let empty = job.usage()?;
    equal([empty.memory, empty.processes, empty.threads, empty.jobs, empty.handles], [0; 5])?;
    equal([empty.messages, empty.queued_bytes], [0; 2])?;
    equal(
        [empty.memory_limit, empty.process_limit, empty.thread_limit, empty.job_limit, empty.handle_limit],
        [u64::MAX; 5],
    )?;
    equal([empty.message_limit, empty.queued_bytes_limit], [u64::MAX; 2])?;
    let inner = job.create_child()?;
    limit(&job, PROCESSES, 5)?;
    limit(&job, MEMORY, 1 << 30)?;
    let puppet = Puppet::new(&inner)?;
    let used = job.usage()?;
    equal([used.processes, used.threads, used.jobs], [1, 1, 1])?;
    equal([used.process_limit, used.memory_limit], [5, 1 << 30])?;
    ensure(used.handles > 0 && used.memory > 0, "a process without handles or memory")?;
    let below = inner.usage()?;
    equal([below.processes, below.threads, below.jobs, below.process_limit], [1, 1, 0, u64::MAX])?;
    drop(puppet);
    inner.kill()?;
    inner.wait_one(Signals::JOB_NO_CHILDREN, super::late())?;
    let after = job.usage()?;
    equal([after.processes, after.threads, after.jobs], [0, 0, 1])
}

fn usage_rights() -> Outcome {
    let job = OwnJob::new()?;
    fails(Job::from(without(&*job, Rights::INSPECT)?).usage().map(|_| ()), Status::ACCESS_DENIED)?;
    let event = Event::create()?;
    let asked = Job::from(event.into_handle()).usage();
    fails(asked.map(|_| ()), Status::WRONG_TYPE)
}

fn processes() -> Outcome {
    let job = OwnJob::new()?;
    limit(&job, PROCESSES, 2)?;
    let first = job.create_process("first")?;
    let _second = job.create_process("second")?;
    fails(job.create_process("third").map(drop), Status::NO_RESOURCES)?;
    // A process that has ended no longer counts, even while handles to it exist.
    first.0.kill()?;
    job.create_process("third")?;
    Ok(())
}

fn threads() -> Outcome {
    let job = OwnJob::new()?;
    limit(&job, THREADS, 2)?;
    let (process, _vmar) = job.create_process("threads")?;
    let first = process.create_thread("first")?;
    let _second = process.create_thread("second")?;
    fails(process.create_thread("third").map(drop), Status::NO_RESOURCES)?;
    drop(first);
    process.create_thread("third")?;
    Ok(())
}

fn jobs() -> Outcome {
    let job = OwnJob::new()?;
    limit(&job, JOBS, 2)?;
    let first = job.create_child()?;
    let second = first.create_child()?;
    fails(job.create_child().map(drop), Status::NO_RESOURCES)?;
    fails(second.create_child().map(drop), Status::NO_RESOURCES)?;
    drop(second);
    job.create_child()?;
    Ok(())
}

fn above() -> Outcome {
    // Processes of a job below count for the outer job, too.
    let outer = OwnJob::new()?;
    let (one, other) = (outer.create_child()?, outer.create_child()?);
    limit(&outer, PROCESSES, 2)?;
    limit(&one, PROCESSES, 5)?;
    let _first = one.create_process("one")?;
    let _second = other.create_process("other")?;
    fails(one.create_process("too many").map(drop), Status::NO_RESOURCES)?;
    limit(&outer, PROCESSES, 3)?;
    one.create_process("enough")?;
    Ok(())
}

/// Counts how often a call succeeds before it fails with `expected`.
fn until(
    puppet: &Puppet,
    expected: Status,
    mut call: impl FnMut(&Puppet) -> Result<Status, Failure>,
) -> Result<u64, Failure> {
    for count in 0..20_000 {
        match call(puppet)? {
            Status::OK => {}
            status if status == expected => return Ok(count),
            status => return Err(format!("it gave {status} after {count}").into()),
        }
    }
    Err("nothing stopped it".into())
}

/// Gives the puppet an event; returns the arguments with which it duplicates the handle.
fn duplicates(puppet: &Puppet) -> Result<[u64; 3], Failure> {
    let event = puppet.give(Event::create()?.into_handle())?;
    Ok([event, u64::from(Rights::SAME_RIGHTS.bits()), puppet.room(64)?])
}

fn handles() -> Outcome {
    let own = OwnJob::new()?;
    let job = Job::from(own.duplicate_handle(Rights::SAME_RIGHTS)?);
    let puppet = Puppet::of(own)?;
    limit(&job, HANDLES, 1024)?;
    let duplicate = duplicates(&puppet)?;
    let count = until(&puppet, Status::NO_RESOURCES, |puppet| puppet.call(function!(zx_handle_duplicate), &duplicate))?;
    ensure((900..1024).contains(&count), &format!("{count} of 1024 handles"))?;
    equal(job.usage()?.handles, 1024)?;
    // A freed entry can be used again.
    let last = u64::from(puppet.word(64)?);
    gives(puppet.call(function!(zx_handle_close), &[last])?, Status::OK)?;
    gives(puppet.call(function!(zx_handle_duplicate), &duplicate)?, Status::OK)?;
    gives(puppet.call(function!(zx_handle_duplicate), &duplicate)?, Status::NO_RESOURCES)
}

/// A process in a job with this limit, and two ends of an object pair that it has created.
fn pair(property: u32, most: u64, create: u64) -> Result<(Puppet, Job, [u64; 2]), Failure> {
    let own = OwnJob::new()?;
    let job = Job::from(own.duplicate_handle(Rights::SAME_RIGHTS)?);
    let puppet = Puppet::of(own)?;
    limit(&job, property, most)?;
    let (one, other) = (puppet.room(64)?, puppet.room(80)?);
    gives(puppet.call(create, &[0, one, other])?, Status::OK)?;
    let ends = [puppet.word(64)?, puppet.word(80)?].map(u64::from);
    Ok((puppet, job, ends))
}

fn messages() -> Outcome {
    let (puppet, job, [near, far]) = pair(MESSAGES, 100, function!(zx_channel_create))?;
    let bytes = puppet.room(128)?;
    let write = [near, 0, bytes, 8, 0, 0];
    let read = [far, u64::from(abi::ZX_CHANNEL_READ_MAY_DISCARD), 0, 0, 0, 0, 0, 0];
    let count = until(&puppet, Status::NO_RESOURCES, |puppet| puppet.call(function!(zx_channel_write), &write))?;
    equal(count, 100)?;
    equal(job.usage()?.messages, 100)?;
    // Reading a message makes room for exactly one more.
    gives(puppet.call(function!(zx_channel_read), &read)?, Status::BUFFER_TOO_SMALL)?;
    gives(puppet.call(function!(zx_channel_write), &write)?, Status::OK)?;
    gives(puppet.call(function!(zx_channel_write), &write)?, Status::NO_RESOURCES)?;
    gives(puppet.call(function!(zx_handle_close), &[far])?, Status::OK)?;
    equal(job.usage()?.messages, 0)
}

fn queued_bytes() -> Outcome {
    let (puppet, job, [near, far]) = pair(QUEUED_BYTES, 64 << 10, function!(zx_channel_create))?;
    let bytes = puppet.room(128)?;
    let write = [near, 0, bytes, 1000, 0, 0];
    let count = until(&puppet, Status::NO_RESOURCES, |puppet| puppet.call(function!(zx_channel_write), &write))?;
    ensure((50..=65).contains(&count), &format!("{count} messages of 1000 bytes in 64 KiB"))?;
    let queued = job.usage()?.queued_bytes;
    ensure((60 << 10..=64 << 10).contains(&queued), &format!("{queued} bytes are told"))?;
    gives(puppet.call(function!(zx_handle_close), &[far])?, Status::OK)?;
    equal(job.usage()?.queued_bytes, 0)
}

fn queued_bytes_of_sockets() -> Outcome {
    let (puppet, job, [near, far]) = pair(QUEUED_BYTES, 16 << 10, function!(zx_socket_create))?;
    let bytes = puppet.room(128)?;
    let write = [near, 0, bytes, 1000, 0];
    let count = until(&puppet, Status::NO_RESOURCES, |puppet| puppet.call(function!(zx_socket_write), &write))?;
    equal(count, 16)?;
    gives(puppet.call(function!(zx_handle_close), &[far])?, Status::OK)?;
    gives(puppet.call(function!(zx_handle_close), &[near])?, Status::OK)?;
    equal(job.usage()?.queued_bytes, 0)
}

/// A process in a job that may allocate `bytes` more.
fn with_memory(bytes: u64) -> Result<(Puppet, Job), Failure> {
    let own = OwnJob::new()?;
    let job = Job::from(own.duplicate_handle(Rights::SAME_RIGHTS)?);
    let puppet = Puppet::of(own)?;
    limit(&job, MEMORY, job.usage()?.memory + bytes)?;
    Ok((puppet, job))
}

fn tables_are_memory() -> Outcome {
    let (puppet, _job) = with_memory(256 << 10)?;
    let duplicate = duplicates(&puppet)?;
    let count = until(&puppet, Status::NO_MEMORY, |puppet| puppet.call(function!(zx_handle_duplicate), &duplicate))?;
    ensure((2000..20_000).contains(&count), &format!("{count} handles in 256 KiB"))
}

fn packets_are_memory() -> Outcome {
    let (puppet, _job) = with_memory(128 << 10)?;
    let room = puppet.room(64)?;
    gives(puppet.call(function!(zx_port_create), &[0, room])?, Status::OK)?;
    let port = u64::from(puppet.word(64)?);
    let packet = puppet.room(128)?;
    let count = until(&puppet, Status::NO_MEMORY, |puppet| puppet.call(function!(zx_port_queue), &[port, packet]))?;
    ensure((500..2000).contains(&count), &format!("{count} packets in 128 KiB"))?;
    // Dequeuing packets makes room for others.
    for _ in 0..400 {
        gives(puppet.call(function!(zx_port_wait), &[port, 0, packet])?, Status::OK)?;
    }
    let again = until(&puppet, Status::NO_MEMORY, |puppet| puppet.call(function!(zx_port_queue), &[port, packet]))?;
    ensure(again >= 400, &format!("{again} packets in place of 400"))
}

fn waits_are_memory() -> Outcome {
    let (puppet, _job) = with_memory(128 << 10)?;
    let event = puppet.give(Event::create()?.into_handle())?;
    let room = puppet.room(64)?;
    gives(puppet.call(function!(zx_port_create), &[0, room])?, Status::OK)?;
    let port = u64::from(puppet.word(64)?);
    let signal = u64::from(Signals::USER_0.bits());
    let mut key = 0;
    let count = until(&puppet, Status::NO_MEMORY, |puppet| {
        key += 1;
        puppet.call(function!(zx_object_wait_async), &[event, port, key, signal, 0])
    })?;
    ensure((150..500).contains(&count), &format!("{count} waits in 128 KiB"))?;
    // The owner of another port pays for its waits.
    let ours = puppet.give(Port::create()?.into_handle())?;
    gives(puppet.call(function!(zx_object_wait_async), &[event, ours, 1, signal, 0])?, Status::OK)?;
    gives(puppet.call(function!(zx_port_cancel), &[port, event, 1])?, Status::OK)?;
    gives(puppet.call(function!(zx_object_wait_async), &[event, port, 1, signal, 0])?, Status::OK)
}

fn mappings_are_memory() -> Outcome {
    let (puppet, _job) = with_memory(128 << 10)?;
    let vmo = puppet.give(Vmo::create(4096, 0)?.into_handle())?;
    let vmar = puppet.give(puppet.tiny.vmar.duplicate_handle(Rights::SAME_RIGHTS)?)?;
    let room = puppet.room(64)?;
    let map = [vmar, u64::from(abi::ZX_VM_PERM_READ), 0, vmo, 0, 4096, room];
    let count = until(&puppet, Status::NO_MEMORY, |puppet| puppet.call(function!(zx_vmar_map), &map))?;
    ensure((200..600).contains(&count), &format!("{count} mappings in 128 KiB"))
}
