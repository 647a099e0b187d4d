//! Exhausted memory: only the program that requests more gets an error, all others continue, and the server reclaims
//! discardable memory first.

use abi::{
    Status, ZX_SYSTEM_EVENT_IMMINENT_OUT_OF_MEMORY, ZX_SYSTEM_EVENT_MEMORY_PRESSURE_CRITICAL,
    ZX_SYSTEM_EVENT_MEMORY_PRESSURE_NORMAL, ZX_SYSTEM_EVENT_MEMORY_PRESSURE_WARNING, ZX_SYSTEM_EVENT_OUT_OF_MEMORY,
    ZX_VMO_DISCARDABLE, ZX_VMO_OP_COMMIT, ZX_VMO_OP_LOCK, ZX_VMO_OP_TRY_LOCK, ZX_VMO_OP_UNLOCK, zx_vmo_lock_state_t,
};
use zx::{AsHandleRef, Channel, Event, MonotonicInstant, Signals, Vmo};

use super::{cases, raw};
use crate::check::{Failure, Outcome, ensure, equal, fails, gives};
use crate::puppet::{Puppet, function};
use crate::test_process::OwnJob;

cases! {
    "system.memory.hog_beside_worker" => hog_beside_worker,
    "system.memory.levels" => levels,
    "system.memory.discards_oldest_first" => discards_oldest_first,
    "system.memory.discards_before_refusal" => discards_before_refusal,
    "system.memory.objects_until_none" => objects_until_none,
}

const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;

/// A process that allocates memory.
struct MemoryHog {
    puppet: Puppet,
    vmo: u64,
    eaten: u64,
}

impl MemoryHog {
    fn new() -> Result<MemoryHog, Failure> {
        let puppet = Puppet::of(OwnJob::new()?)?;
        let size = zx::system_get_physmem().next_multiple_of(PAGE);
        gives(puppet.call(function!(zx_vmo_create), &[size, 0, puppet.room(64)?])?, Status::OK)?;
        let vmo = u64::from(puppet.word(64)?);
        Ok(MemoryHog { puppet, vmo, eaten: 0 })
    }

    /// Allocates `bytes` more.
    fn eat(&mut self, bytes: u64) -> Result<Status, Failure> {
        let commit = u64::from(ZX_VMO_OP_COMMIT);
        let status = self.puppet.call(function!(zx_vmo_op_range), &[self.vmo, commit, self.eaten, bytes, 0, 0])?;
        if status == Status::OK {
            self.eaten += bytes;
        }
        Ok(status)
    }

    /// Allocates all free memory in ever smaller pieces, and calls `look` after each.
    fn eat_all(&mut self, mut look: impl FnMut() -> Outcome) -> Outcome {
        for piece in [2 * MIB, MIB / 4, PAGE] {
            loop {
                match self.eat(piece)? {
                    Status::OK => look()?,
                    Status::NO_MEMORY => break,
                    status => return Err(format!("it gave {status}").into()),
                }
            }
        }
        ensure(self.eaten > zx::system_get_physmem() / 4, "it could take hardly anything")
    }
}

fn signalled(events: &[Event; 5]) -> Result<usize, Failure> {
    let mut found = None;
    for (level, event) in events.iter().enumerate() {
        if event.signals()?.contains(Signals::EVENT_SIGNALED) {
            ensure(found.is_none(), "two levels at once")?;
            found = Some(level);
        }
    }
    found.ok_or_else(|| "no level".into())
}

/// The events of the pressure levels, from the best level to the worst.
fn events() -> Result<[Event; 5], Failure> {
    let job = zx::startup::job_default().ok_or("there is no job")?;
    let get = |kind| zx::system_get_event(&job, kind);
    Ok([
        get(ZX_SYSTEM_EVENT_MEMORY_PRESSURE_NORMAL)?,
        get(ZX_SYSTEM_EVENT_MEMORY_PRESSURE_WARNING)?,
        get(ZX_SYSTEM_EVENT_MEMORY_PRESSURE_CRITICAL)?,
        get(ZX_SYSTEM_EVENT_IMMINENT_OUT_OF_MEMORY)?,
        get(ZX_SYSTEM_EVENT_OUT_OF_MEMORY)?,
    ])
}

fn hog_beside_worker() -> Outcome {
    // The worker allocates everything that it needs in advance.
    let vmo = Vmo::create(MIB, 0)?;
    let pattern: Vec<u8> = (0..MIB as u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    vmo.write(&pattern, 0)?;
    let mut back = vec![0; MIB as usize];
    let (one, two) = Channel::create()?;
    let event = Event::create()?;
    let mut turns = 0_u64;
    let mut work = || -> Outcome {
        turns += 1;
        event.signal(Signals::NONE, Signals::USER_0)?;
        event.signal(Signals::USER_0, Signals::NONE)?;
        one.write(&turns.to_le_bytes(), [])?;
        let mut bytes = [0; 8];
        two.read(&mut bytes, &mut []).map_err(|(status, _)| status)?;
        equal(u64::from_le_bytes(bytes), turns)?;
        let at = (turns % 256) as usize * PAGE as usize;
        vmo.read(&mut back[..PAGE as usize], at as u64)?;
        ensure(back[..PAGE as usize] == pattern[at..at + PAGE as usize], "a page has changed")?;
        Ok(vmo.write(&pattern[at..at + 100], at as u64)?)
    };
    let mut eater = MemoryHog::new()?;
    eater.eat_all(&mut work)?;
    // Memory is exhausted each time, and the worker continues to work.
    for _ in 0..300 {
        gives(eater.eat(PAGE)?, Status::NO_MEMORY)?;
        work()?;
    }
    vmo.read(&mut back, 0)?;
    ensure(back == pattern, "the worker's memory has changed")?;
    // A store to an absent page cannot be served while memory is exhausted, and ends only the process that makes it;
    // see `job.memory.fault`.
    drop(eater);
    let all = Vmo::create(64 * MIB, 0)?;
    all.op_range(ZX_VMO_OP_COMMIT, 0, 64 * MIB)?;
    vmo.read(&mut back, 0)?;
    ensure(back == pattern, "the worker's memory has changed afterwards")
}

fn levels() -> Outcome {
    let events = events()?;
    equal(signalled(&events)?, 0)?;
    let mut eater = MemoryHog::new()?;
    let mut seen = vec![0];
    eater.eat_all(|| {
        let level = signalled(&events)?;
        if seen.last() != Some(&level) {
            seen.push(level);
        }
        Ok(())
    })?;
    // Every level appears, in order: each piece is smaller than any level's range, the smallest of which is a 128th of
    // the memory.
    equal(seen, vec![0, 1, 2, 3, 4])?;
    drop(eater);
    events[0].wait_one(Signals::EVENT_SIGNALED, super::late())?;
    equal(signalled(&events)?, 0)
}

/// A discardable VMO that is fully committed and locked.
fn discardable(size: u64, fill: u8) -> Result<Vmo, Failure> {
    let vmo = Vmo::create(size, ZX_VMO_DISCARDABLE)?;
    vmo.op_range(ZX_VMO_OP_TRY_LOCK, 0, size)?;
    let page = [fill; PAGE as usize];
    for at in (0..size).step_by(PAGE as usize) {
        vmo.write(&page, at)?;
    }
    Ok(vmo)
}

/// Locks it; returns how many bytes the server has discarded.
fn lock(vmo: &Vmo) -> Result<u64, Failure> {
    let size = vmo.get_size()?;
    let mut state = zx_vmo_lock_state_t { offset: 1, size: 1, discarded_offset: 1, discarded_size: 1 };
    let len = size_of_val(&state);
    let status = raw!(zx_vmo_op_range, vmo.raw_handle(), ZX_VMO_OP_LOCK, 0, size, &raw mut state, len);
    gives(status, Status::OK)?;
    let state = std::hint::black_box(state);
    equal((state.offset, state.size, state.discarded_offset), (0, size, 0))?;
    Ok(state.discarded_size)
}

fn discards_oldest_first() -> Outcome {
    let size = 6 * MIB;
    let [first, second, kept] = [discardable(size, 1)?, discardable(size, 2)?, discardable(size, 3)?];
    // The first VMO is unlocked first, so the server discards it first.
    first.op_range(ZX_VMO_OP_UNLOCK, 0, size)?;
    second.op_range(ZX_VMO_OP_UNLOCK, 0, size)?;
    let committed = |vmo: &Vmo| Ok::<u64, Failure>(vmo.info()?.committed_bytes);
    let mut eater = MemoryHog::new()?;
    while committed(&first)? != 0 {
        equal((committed(&first)?, committed(&second)?), (size, size))?;
        gives(eater.eat(MIB)?, Status::OK)?;
    }
    // The other one is discarded only when more memory is needed.
    while committed(&second)? != 0 {
        gives(eater.eat(MIB / 4)?, Status::OK)?;
    }
    equal(committed(&kept)?, size)?;
    drop(eater);
    fails(first.op_range(ZX_VMO_OP_TRY_LOCK, 0, size), Status::UNAVAILABLE)?;
    equal((lock(&first)?, lock(&second)?, lock(&kept)?), (size, size, 0))?;
    let mut byte = [0];
    for (vmo, expected) in [(&first, 0), (&kept, 3)] {
        vmo.read(&mut byte, size - 1)?;
        equal(byte[0], expected)?;
    }
    Ok(())
}

fn discards_before_refusal() -> Outcome {
    let size = 16 * MIB;
    let vmo = discardable(size, 7)?;
    vmo.op_range(ZX_VMO_OP_UNLOCK, 0, size)?;
    let mut eater = MemoryHog::new()?;
    eater.eat_all(|| Ok(()))?;
    let with = eater.eaten;
    equal(vmo.info()?.committed_bytes, 0)?;
    drop(eater);
    equal(lock(&vmo)?, size)?;
    // Locked memory is never discarded.
    vmo.write(&[9; 100], size - 100)?;
    let mut eater = MemoryHog::new()?;
    eater.eat_all(|| Ok(()))?;
    let mut bytes = [0; 100];
    vmo.read(&mut bytes, size - 100)?;
    equal(bytes, [9; 100])?;
    drop(eater);
    drop(vmo);
    // The amount that an eater gets when nothing is discardable. This is measured last: memory that the server takes
    // for its records, in chunks of 2 MiB, stays with the server, and with more objects it may need 2 MiB more.
    let mut eater = MemoryHog::new()?;
    eater.eat_all(|| Ok(()))?;
    ensure(with + MIB > eater.eaten, &format!("{with} of {} bytes", eater.eaten))
}

fn objects_until_none() -> Outcome {
    // Memory for the server's records is exhausted as well: then no object can be created, and calls that create
    // nothing still work.
    let (one, two) = Channel::create()?;
    one.write(b"on", [])?;
    let event = Event::create()?;
    let mut eater = MemoryHog::new()?;
    eater.eat_all(|| Ok(()))?;
    let out = eater.puppet.room(64)?;
    let mut made = 0;
    loop {
        match eater.puppet.call(function!(zx_event_create), &[0, out])? {
            Status::OK => made += 1,
            status => break equal(status, Status::NO_MEMORY)?,
        }
        ensure(made < 100_000, "nothing stopped it")?;
    }
    fails(Event::create(), Status::NO_MEMORY)?;
    let mut bytes = [0; 2];
    two.read(&mut bytes, &mut []).map_err(|(status, _)| status)?;
    equal(&bytes, b"on")?;
    event.signal(Signals::NONE, Signals::EVENT_SIGNALED)?;
    let seen = event.wait_one(Signals::EVENT_SIGNALED, MonotonicInstant::INFINITE_PAST)?;
    ensure(seen.contains(Signals::EVENT_SIGNALED), "the signal is not seen")?;
    fails(event.wait_one(Signals::USER_0, MonotonicInstant::INFINITE_PAST), Status::TIMED_OUT)
}
