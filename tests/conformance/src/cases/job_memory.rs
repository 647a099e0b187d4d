//! Memory of a job: its use and its quota.

use abi::{HAFNON_PROP_JOB_MEMORY_LIMIT as LIMIT, HAFNON_PROP_JOB_MEMORY_USED as USED, Rights, Status};
use zx::{AsHandleRef, Channel, Event, Handle, Job, Vmo};

use super::{cases, late, without};
use crate::caught_exception::catch;
use crate::check::{Failure, Outcome, ensure, equal, fails, gives};
use crate::puppet::{Puppet, function};
use crate::test_process::{OwnJob, TestProcess};

cases! {
    "job.memory.property" => property,
    "job.memory.property_rights" => property_rights,
    "job.memory.property_of_others" => property_of_others,
    "job.memory.used" => used,
    "job.memory.commit" => commit,
    "job.memory.write" => write,
    "job.memory.above" => above,
    "job.memory.charged_to_the_creator" => charged_to_the_creator,
    "job.memory.copies" => copies,
    "job.memory.objects" => objects,
    "job.memory.messages" => messages,
    "job.memory.datagrams" => datagrams,
    "job.memory.processes" => processes,
    "job.memory.fault" => fault,
    "job.memory.freed_memory_is_uncharged" => freed_memory_is_uncharged,
    "job.memory.below_what_is_used" => below_what_is_used,
}

const PAGE: u64 = 4096;

fn get(job: &Job, property: u32) -> zx::Result<u64> {
    job.get_property_u64(property)
}

fn limit(job: &Job, bytes: u64) -> zx::Result<()> {
    job.set_property(LIMIT, &bytes.to_le_bytes())
}

/// A process in a job of its own, whose quota is a given amount above its current use.
struct Limited {
    puppet: Puppet,
    job: Job,
}

impl Limited {
    fn new(more: u64) -> Result<Limited, Failure> {
        let own = OwnJob::new()?;
        let job = Job::from(own.duplicate_handle(Rights::SAME_RIGHTS)?);
        let puppet = Puppet::of(own)?;
        limit(&job, get(&job, USED)? + more)?;
        Ok(Limited { puppet, job })
    }

    /// Makes the process create a VMO; returns its handle there.
    fn vmo(&self, pages: u64) -> Result<Result<u64, Status>, Failure> {
        let room = self.puppet.room(64)?;
        Ok(match self.puppet.call(function!(zx_vmo_create), &[pages * PAGE, 0, room])? {
            Status::OK => Ok(u64::from(self.puppet.word(64)?)),
            status => Err(status),
        })
    }

    fn op(&self, vmo: u64, op: u32, pages: std::ops::Range<u64>) -> Result<Status, Failure> {
        let (offset, size) = (pages.start * PAGE, (pages.end - pages.start) * PAGE);
        self.puppet.call(function!(zx_vmo_op_range), &[vmo, u64::from(op), offset, size, 0, 0])
    }

    fn commit(&self, vmo: u64, pages: std::ops::Range<u64>) -> Result<Status, Failure> {
        self.op(vmo, abi::ZX_VMO_OP_COMMIT, pages)
    }

    fn close(&self, handle: u64) -> Outcome {
        gives(self.puppet.call(function!(zx_handle_close), &[handle])?, Status::OK)
    }

    /// Makes the process send one of its handles to this process.
    fn fetch(&self, handle: u64) -> Result<Handle, Failure> {
        let (ours, theirs) = Channel::create()?;
        let channel = self.puppet.give(theirs.into_handle())?;
        let room = self.puppet.room(96)?;
        // The call before has stored the handle's value at `room`.
        gives(
            self.puppet.call(function!(zx_handle_duplicate), &[handle, u64::from(Rights::SAME_RIGHTS.bits()), room])?,
            Status::OK,
        )?;
        let status = self.puppet.call(function!(zx_channel_write), &[channel, 0, 0, 0, room, 1])?;
        gives(status, Status::OK)?;
        let mut handles = [None];
        ours.read_wait(&mut [], &mut handles, late())?;
        self.close(channel)?;
        Ok(handles[0].take().ok_or("no handle came")?)
    }
}

fn property() -> Outcome {
    let job = OwnJob::new()?;
    equal(get(&job, LIMIT)?, u64::MAX)?;
    for bytes in [1 << 30, 0, u64::MAX] {
        limit(&job, bytes)?;
        equal(get(&job, LIMIT)?, bytes)?;
    }
    fails(job.set_property(LIMIT, &[0; 7]), Status::BUFFER_TOO_SMALL)?;
    fails(job.get_property(LIMIT, &mut [0; 7]), Status::BUFFER_TOO_SMALL)?;
    fails(job.set_property(USED, &[0; 8]), Status::INVALID_ARGS)
}

fn property_rights() -> Outcome {
    let job = OwnJob::new()?;
    for right in [Rights::SET_PROPERTY, Rights::SET_POLICY] {
        fails(limit(&Job::from(without(&*job, right)?), 1 << 20), Status::ACCESS_DENIED)?;
    }
    fails(get(&Job::from(without(&*job, Rights::GET_PROPERTY)?), LIMIT), Status::ACCESS_DENIED)?;
    equal(get(&job, LIMIT)?, u64::MAX)
}

fn property_of_others() -> Outcome {
    let vmo = Vmo::create(PAGE, 0)?;
    for property in [LIMIT, USED] {
        fails(vmo.get_property(property, &mut [0; 8]), Status::WRONG_TYPE)?;
    }
    fails(vmo.set_property(LIMIT, &[0; 8]), Status::WRONG_TYPE)
}

fn used() -> Outcome {
    let limited = Limited::new(1 << 20)?;
    let before = get(&limited.job, USED)?;
    let vmo = limited.vmo(100)??;
    let empty = get(&limited.job, USED)?;
    ensure(empty > before && empty < before + PAGE, "an empty memory object costs nothing or too much")?;
    gives(limited.commit(vmo, 10..17)?, Status::OK)?;
    equal(get(&limited.job, USED)?, empty + 7 * PAGE)?;
    gives(limited.commit(vmo, 10..17)?, Status::OK)?;
    equal(get(&limited.job, USED)?, empty + 7 * PAGE)?;
    gives(limited.op(vmo, abi::ZX_VMO_OP_DECOMMIT, 0..15)?, Status::OK)?;
    equal(get(&limited.job, USED)?, empty + 2 * PAGE)?;
    limited.close(vmo)?;
    equal(get(&limited.job, USED)?, before)
}

fn commit() -> Outcome {
    let limited = Limited::new(32 * PAGE)?;
    let vmo = limited.vmo(1000)??;
    gives(limited.commit(vmo, 0..1000)?, Status::NO_MEMORY)?;
    gives(limited.commit(vmo, 0..30)?, Status::OK)?;
    gives(limited.commit(vmo, 30..40)?, Status::NO_MEMORY)?;
    // All others continue, including this process.
    let own = Vmo::create(200 * PAGE, 0)?;
    own.op_range(abi::ZX_VMO_OP_COMMIT, 0, 200 * PAGE)?;
    gives(limited.op(vmo, abi::ZX_VMO_OP_DECOMMIT, 0..10)?, Status::OK)?;
    gives(limited.commit(vmo, 30..40)?, Status::OK)?;
    limit(&limited.job, u64::MAX)?;
    gives(limited.commit(vmo, 0..1000)?, Status::OK)
}

fn write() -> Outcome {
    let limited = Limited::new(4 * PAGE)?;
    let vmo = limited.vmo(100)??;
    let source = limited.puppet.room(0)?;
    let write = |page: u64| limited.puppet.call(function!(zx_vmo_write), &[vmo, source, page * PAGE, 8]);
    for page in 0..3 {
        gives(write(page * 10)?, Status::OK)?;
    }
    gives(write(50)?, Status::NO_MEMORY)?;
    gives(write(10)?, Status::OK)
}

fn above() -> Outcome {
    // A quota also applies to jobs inside the job, which have their own quotas as well.
    let outer = OwnJob::new()?;
    let inner = outer.create_child()?;
    let puppet = Puppet::new(&inner)?;
    limit(&outer, get(&outer, USED)? + 16 * PAGE)?;
    limit(&inner, get(&inner, USED)? + 8 * PAGE)?;
    let room = puppet.room(64)?;
    gives(puppet.call(function!(zx_vmo_create), &[100 * PAGE, 0, room])?, Status::OK)?;
    let vmo = u64::from(puppet.word(64)?);
    let commit = |pages: u64| {
        puppet.call(function!(zx_vmo_op_range), &[vmo, u64::from(abi::ZX_VMO_OP_COMMIT), 0, pages * PAGE, 0, 0])
    };
    gives(commit(8)?, Status::NO_MEMORY)?;
    limit(&inner, u64::MAX)?;
    gives(commit(8)?, Status::OK)?;
    gives(commit(16)?, Status::NO_MEMORY)?;
    equal(get(&outer, USED)? > get(&inner, USED)?, true)?;
    limit(&outer, u64::MAX)?;
    gives(commit(16)?, Status::OK)
}

fn charged_to_the_creator() -> Outcome {
    // A job does not pay for objects of others. It pays for its own objects, whichever process uses or holds them.
    let limited = Limited::new(8 * PAGE)?;
    let ours = limited.puppet.give(Vmo::create(100 * PAGE, 0)?.into_handle())?;
    let before = get(&limited.job, USED)?;
    gives(limited.commit(ours, 0..100)?, Status::OK)?;
    equal(get(&limited.job, USED)?, before)?;
    let theirs = limited.vmo(100)??;
    let here = Vmo::from(limited.fetch(theirs)?);
    fails(here.op_range(abi::ZX_VMO_OP_COMMIT, 0, 100 * PAGE), Status::NO_MEMORY)?;
    here.write(b"x", 0)?;
    limited.close(theirs)?;
    ensure(get(&limited.job, USED)? >= before + PAGE, "what was sent away costs nothing any more")?;
    fails(here.op_range(abi::ZX_VMO_OP_COMMIT, 0, 100 * PAGE), Status::NO_MEMORY)?;
    drop(here);
    equal(get(&limited.job, USED)?, before)
}

fn copies() -> Outcome {
    // A clone is charged from the start with the most that it can use.
    let limited = Limited::new(50 * PAGE)?;
    let vmo = limited.vmo(20)??;
    gives(limited.commit(vmo, 0..20)?, Status::OK)?;
    let room = limited.puppet.room(72)?;
    let copy = || {
        let arguments = [vmo, u64::from(abi::ZX_VMO_CHILD_SNAPSHOT), 0, 20 * PAGE, room];
        limited.puppet.call(function!(zx_vmo_create_child), &arguments)
    };
    gives(copy()?, Status::OK)?;
    let first = u64::from(limited.puppet.word(72)?);
    gives(copy()?, Status::NO_MEMORY)?;
    gives(limited.commit(first, 0..20)?, Status::OK)?;
    limited.close(first)?;
    gives(copy()?, Status::OK)
}

/// Counts how often a call succeeds before it fails with `NO_MEMORY`.
fn until_none(limited: &Limited, function: u64, arguments: &[u64]) -> Result<u64, Failure> {
    for count in 0..5000 {
        match limited.puppet.call(function, arguments)? {
            Status::OK => {}
            Status::NO_MEMORY => return Ok(count),
            status => return Err(format!("it gave {status} after {count}").into()),
        }
    }
    Err("nothing stopped it".into())
}

fn objects() -> Outcome {
    let limited = Limited::new(16 * PAGE)?;
    let (a, b) = (limited.puppet.room(64)?, limited.puppet.room(72)?);
    let events = until_none(&limited, function!(zx_event_create), &[0, a])?;
    ensure((50..2000).contains(&events), &format!("{events} events in 64 KiB"))?;
    limit(&limited.job, get(&limited.job, USED)? + 16 * PAGE)?;
    let channels = until_none(&limited, function!(zx_channel_create), &[0, a, b])?;
    ensure((20..1000).contains(&channels), &format!("{channels} channels in 64 KiB"))?;
    ensure(Event::create().is_ok(), "others may not make events either")
}

fn messages() -> Outcome {
    let limited = Limited::new(64 * PAGE)?;
    let (a, b) = (limited.puppet.room(64)?, limited.puppet.room(68)?);
    gives(limited.puppet.call(function!(zx_channel_create), &[0, a, b])?, Status::OK)?;
    let (one, two) = (u64::from(limited.puppet.word(64)?), u64::from(limited.puppet.word(68)?));
    let arguments = [one, 0, limited.puppet.room(0)?, 2048, 0, 0];
    let count = until_none(&limited, function!(zx_channel_write), &arguments)?;
    ensure((100..128).contains(&count), &format!("{count} messages of 2 KiB in 256 KiB"))?;
    // Reading one message makes room for one.
    let read = [two, u64::from(abi::ZX_CHANNEL_READ_MAY_DISCARD), 0, 0, 0, 0, 0, 0];
    gives(limited.puppet.call(function!(zx_channel_read), &read)?, Status::BUFFER_TOO_SMALL)?;
    equal(until_none(&limited, function!(zx_channel_write), &arguments)?, 1)
}

fn datagrams() -> Outcome {
    let limited = Limited::new(16 * PAGE)?;
    let (a, b) = (limited.puppet.room(64)?, limited.puppet.room(68)?);
    gives(limited.puppet.call(function!(zx_socket_create), &[0, a, b])?, Status::OK)?;
    let (one, two) = (u64::from(limited.puppet.word(64)?), u64::from(limited.puppet.word(68)?));
    let data = limited.puppet.room(0)?;
    let before = get(&limited.job, USED)?;
    let count = until_none(&limited, function!(zx_socket_write), &[one, 0, data, 2048, 0])?;
    ensure((25..=32).contains(&count), &format!("{count} times 2 KiB in 64 KiB"))?;
    equal(get(&limited.job, USED)?, before + count * 2048)?;
    // The buffer is charged as long as something is in it.
    for _ in 0..count {
        equal(get(&limited.job, USED)?, before + count * 2048)?;
        gives(limited.puppet.call(function!(zx_socket_read), &[two, 0, data, 2048, 0])?, Status::OK)?;
    }
    equal(get(&limited.job, USED)?, before)?;
    limited.close(one)?;
    limited.close(two)?;
    ensure(get(&limited.job, USED)? < before, "the socket's end gave nothing back")
}

fn processes() -> Outcome {
    // A process is charged to its own job, regardless of which process creates it.
    let job = OwnJob::new()?;
    limit(&job, 10 * PAGE)?;
    let mut made = Vec::new();
    let refused = loop {
        match job.create_process("one more") {
            Ok(process) => made.push(process),
            Err(status) => break status,
        }
        ensure(made.len() < 100, "nothing stopped it")?;
    };
    equal(refused, Status::NO_MEMORY)?;
    equal(made.len(), 2)?;
    drop(made);
    job.create_process("again").map(drop).map_err(Into::into)
}

fn fault() -> Outcome {
    // A store that finds no memory raises an exception with that status; the rest of the system continues.
    let limited = Limited::new(5 * PAGE)?;
    let vmo = limited.vmo(100)??;
    let here = Vmo::from(limited.fetch(vmo)?);
    let touch = [
        0xc6, 0x06, 0x01, // again: mov byte [rsi], 1
        0x48, 0x81, 0xc6, 0x00, 0x10, 0x00, 0x00, // add rsi, 4096
        0xeb, 0xf4, // jmp again
    ];
    let tiny = TestProcess::new(&touch)?;
    let read_write = abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_WRITE;
    let address = tiny.vmar.map(read_write, 0, &here, 0, 100 * PAGE as usize)?;
    let channel = tiny.process.create_exception_channel(0)?;
    tiny.start(None, address)?;
    let caught = catch(&channel)?;
    let report = tiny.thread.exception_report()?;
    equal(report.header.type_, abi::ZX_EXCP_FATAL_PAGE_FAULT)?;
    equal(Status(report.context.synth_code as i32), Status::NO_MEMORY)?;
    let pages = (report.context.arch.cr2 - address as u64) / PAGE;
    equal(pages, here.info()?.committed_bytes / PAGE)?;
    ensure((3..=5).contains(&pages), &format!("{pages} pages were there"))?;
    // With more memory the thread continues at the same instruction.
    limit(&limited.job, u64::MAX)?;
    caught.handled()?;
    let caught = catch(&channel)?;
    equal(here.info()?.committed_bytes, 100 * PAGE)?;
    caught.exits()?;
    tiny.end().map(drop)
}

fn freed_memory_is_uncharged() -> Outcome {
    let limited = Limited::new(1 << 20)?;
    let before = get(&limited.job, USED)?;
    for _ in 0..20 {
        let vmo = limited.vmo(250)??;
        gives(limited.commit(vmo, 0..240)?, Status::OK)?;
        limited.close(vmo)?;
    }
    equal(get(&limited.job, USED)?, before)?;
    // The process's memory is freed at its end; a job's account lives as long as anything is charged to it.
    let vmo = limited.vmo(100)??;
    gives(limited.commit(vmo, 0..10)?, Status::OK)?;
    let kept = Vmo::from(limited.fetch(vmo)?);
    limited.puppet.tiny.process.kill()?;
    limited.puppet.tiny.end()?;
    let elsewhere = get(&limited.job, USED)?;
    ensure(elsewhere >= 10 * PAGE, "what is in use elsewhere is not charged")?;
    drop(kept);
    // Mappings, page tables and handle entries were freed with the process.
    let after = get(&limited.job, USED)?;
    ensure(after < before && after + 10 * PAGE <= elsewhere, "what a process had is charged after its end")
}

fn below_what_is_used() -> Outcome {
    let limited = Limited::new(1 << 20)?;
    let vmo = limited.vmo(100)??;
    gives(limited.commit(vmo, 0..50)?, Status::OK)?;
    limit(&limited.job, 0)?;
    // Existing memory stays usable, but no more can be committed.
    gives(limited.commit(vmo, 0..50)?, Status::OK)?;
    gives(limited.commit(vmo, 0..51)?, Status::NO_MEMORY)?;
    equal(limited.vmo(1)?, Err(Status::NO_MEMORY))?;
    gives(limited.op(vmo, abi::ZX_VMO_OP_DECOMMIT, 0..50)?, Status::OK)?;
    gives(limited.commit(vmo, 0..1)?, Status::NO_MEMORY)
}
