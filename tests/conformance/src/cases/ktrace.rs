//! The server's trace.

use std::sync::Arc;

use abi::{
    KTRACE_ACTION_REWIND, KTRACE_ACTION_START, KTRACE_ACTION_START_CIRCULAR, KTRACE_ACTION_STOP, Status,
    ZX_RSRC_KIND_SYSTEM, ZX_RSRC_SYSTEM_INFO_BASE, ZX_RSRC_SYSTEM_TRACING_BASE,
};
use fxt::Phase;
use fxt::read::{Event as Recorded, Reader, Record, Value};
use libc_probe::pthread;
use zx::{AsHandleRef, Event, Info, Job, MonotonicInstant, Resource, Signals, Vmo};

use super::{cases, raw, root_resource, until_fast_enough};
use crate::check::{Failure, Outcome, ensure, equal, fails, gives};

cases! {
    "ktrace.control.resource" => control_resource,
    "ktrace.control.actions" => control_actions,
    "ktrace.control.job" => control_job,
    "ktrace.read.takes" => read_takes,
    "ktrace.read.arguments" => read_arguments,
    "ktrace.records.calls" => records_calls,
    "ktrace.records.blocking" => records_blocking,
    "ktrace.records.abandoned" => records_abandoned,
    "ktrace.records.failing" => records_failing,
    "ktrace.records.lost_are_counted" => lost_are_counted,
    "ktrace.records.job_alone" => records_job_alone,
    "ktrace.records.earlier_call" => records_earlier_call,
}

/// A running trace that ends with the case.
struct Running(Resource);

impl Running {
    fn start(job: &Job) -> Result<Running, Failure> {
        let resource = root_resource()?;
        let running = Running(Resource::from(resource.duplicate_handle(abi::Rights::SAME_RIGHTS)?));
        zx::ktrace_start(&running.0, job)?;
        Ok(running)
    }

    fn ours() -> Result<Running, Failure> {
        Running::start(&own_job()?)
    }

    /// Stops the trace; returns the records.
    fn records(self) -> Result<Vec<Record>, Failure> {
        zx::ktrace_control(&self.0, KTRACE_ACTION_STOP)?;
        let (mut reader, mut bytes, mut all) = (Reader::default(), vec![0; 60_000], Vec::new());
        loop {
            let count = zx::ktrace_read(&self.0, &mut bytes)?;
            if count == 0 {
                return Ok(all);
            }
            all.extend(reader.push(&bytes[..count]).map_err(|_| "the records are damaged")?);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = zx::ktrace_control(&self.0, KTRACE_ACTION_STOP);
        let _ = zx::ktrace_control(&self.0, KTRACE_ACTION_REWIND);
    }
}

fn own_job() -> Result<Job, Failure> {
    let job = zx::startup::job_default().ok_or("this program has no job")?;
    Ok(Job::from(job.duplicate_handle(abi::Rights::SAME_RIGHTS)?))
}

/// The calls with this name among the records.
fn calls<'a>(records: &'a [Record], name: &str) -> Vec<&'a Recorded> {
    let event = |record: &'a Record| if let Record::Event(event) = record { Some(event) } else { None };
    records.iter().filter_map(event).filter(|event| event.category == "kernel:syscall" && event.name == name).collect()
}

fn arg<'a>(event: &'a Recorded, name: &str) -> Vec<&'a Value> {
    event.args.iter().filter(|(of, _)| of == name).map(|(_, value)| value).collect()
}

fn control(handle: u32, action: u32) -> Status {
    raw!(zx_ktrace_control, handle, action, 0, 0)
}

fn control_resource() -> Outcome {
    let (event, root) = (Event::create()?, root_resource()?);
    gives(control(0, KTRACE_ACTION_STOP), Status::BAD_HANDLE)?;
    gives(control(event.raw_handle(), KTRACE_ACTION_STOP), Status::WRONG_TYPE)?;
    let other = root.create_child(ZX_RSRC_KIND_SYSTEM, ZX_RSRC_SYSTEM_INFO_BASE, 1, "info")?;
    gives(control(other.raw_handle(), KTRACE_ACTION_STOP), Status::OUT_OF_RANGE)?;
    let right = root.create_child(ZX_RSRC_KIND_SYSTEM, ZX_RSRC_SYSTEM_TRACING_BASE, 1, "tracing")?;
    gives(control(right.raw_handle(), KTRACE_ACTION_STOP), Status::OK)?;
    let mut actual = 0_usize;
    let read = |handle: u32, actual: &mut usize| raw!(zx_ktrace_read, handle, 0, 0, 0, &raw mut *actual);
    gives(read(0, &mut actual), Status::BAD_HANDLE)?;
    gives(read(event.raw_handle(), &mut actual), Status::WRONG_TYPE)?;
    gives(read(other.raw_handle(), &mut actual), Status::OUT_OF_RANGE)
}

fn control_actions() -> Outcome {
    let running = Running::ours()?;
    let handle = running.0.raw_handle();
    gives(control(handle, KTRACE_ACTION_START), Status::BAD_STATE)?;
    gives(control(handle, KTRACE_ACTION_START_CIRCULAR), Status::NOT_SUPPORTED)?;
    for unknown in [0, 4, 6, u32::MAX] {
        gives(control(handle, unknown), Status::INVALID_ARGS)?;
    }
    gives(control(handle, KTRACE_ACTION_REWIND), Status::OK)?;
    for _ in 0..2 {
        gives(control(handle, KTRACE_ACTION_STOP), Status::OK)?;
    }
    gives(control(handle, KTRACE_ACTION_REWIND), Status::OK)
}

fn control_job() -> Outcome {
    let (resource, event) = (root_resource()?, Event::create()?);
    let start =
        |handle: &u32| raw!(zx_ktrace_control, resource.raw_handle(), KTRACE_ACTION_START, 0, &raw const *handle);
    gives(start(&0), Status::BAD_HANDLE)?;
    gives(start(&event.raw_handle()), Status::WRONG_TYPE)?;
    let job = super::without(&own_job()?, abi::Rights::ENUMERATE)?;
    gives(start(&job.raw_handle()), Status::ACCESS_DENIED)?;
    gives(raw!(zx_ktrace_control, resource.raw_handle(), KTRACE_ACTION_START, 0, 8), Status::INVALID_ARGS)
}

fn read_takes() -> Outcome {
    let running = Running::ours()?;
    drop(Event::create()?);
    zx::ktrace_control(&running.0, KTRACE_ACTION_STOP)?;
    let mut waiting = 0_usize;
    gives(raw!(zx_ktrace_read, running.0.raw_handle(), 0, 0, 0, &raw mut waiting), Status::OK)?;
    ensure(waiting > 0, "nothing was recorded")?;
    let mut bytes = vec![0; waiting + 100];
    equal(zx::ktrace_read(&running.0, &mut bytes[..8])?, 8)?;
    equal(zx::ktrace_read(&running.0, &mut bytes)?, waiting - 8)?;
    equal(zx::ktrace_read(&running.0, &mut bytes)?, 0)
}

fn read_arguments() -> Outcome {
    let running = Running::ours()?;
    zx::ktrace_control(&running.0, KTRACE_ACTION_STOP)?;
    let (handle, mut actual, mut bytes) = (running.0.raw_handle(), 0_usize, [0_u8; 64]);
    let read = |at: u64, offset: u32, actual: u64| raw!(zx_ktrace_read, handle, at, offset, 16, actual);
    let (at, count) = (bytes.as_mut_ptr() as u64, &raw mut actual as u64);
    gives(read(at, 8, count), Status::INVALID_ARGS)?;
    gives(read(8, 0, count), Status::INVALID_ARGS)?;
    gives(read(at, 0, 8), Status::INVALID_ARGS)?;
    // The failed read consumed nothing.
    gives(read(at, 0, count), Status::OK)?;
    equal(&bytes[..8], &fxt::MAGIC.to_le_bytes()[..])
}

fn records_calls() -> Outcome {
    let running = Running::ours()?;
    let vmo = Vmo::create(4096, 0)?;
    vmo.write(b"hello, trace", 7)?;
    let koid = Info::basic_info(&vmo.as_handle_ref())?.koid;
    let value = u64::from(vmo.raw_handle());
    let records = running.records()?;
    let [created] = calls(&records, "vmo_create")[..] else { return Err("not one vmo_create".into()) };
    equal(arg(created, "size"), vec![&Value::U64(4096)])?;
    equal(arg(created, "out"), vec![&Value::U64(value), &Value::Koid(koid)])?;
    equal(arg(created, "result"), vec![&Value::I64(0)])?;
    ensure(matches!(created.phase, Phase::Complete(end) if end >= created.time), "it has no end")?;
    let [written] = calls(&records, "vmo_write")[..] else { return Err("not one vmo_write".into()) };
    equal(arg(written, "handle"), vec![&Value::U64(value), &Value::Koid(koid)])?;
    equal(arg(written, "buffer"), vec![&Value::Text("68656c6c6f2c207472616365".into())])?;
    equal(arg(written, "offset"), vec![&Value::U64(7)])?;
    let told = |wanted: u64, of: u32| {
        records
            .iter()
            .any(|r| matches!(r, Record::Object { koid, kind, .. } if *koid == wanted && u32::from(*kind) == of))
    };
    ensure(told(koid, abi::ZX_OBJ_TYPE_VMO), "the VMO was not told")?;
    ensure(told(written.process, abi::ZX_OBJ_TYPE_PROCESS), "the process was not told")?;
    ensure(told(written.thread, abi::ZX_OBJ_TYPE_THREAD), "the thread was not told")
}

fn records_blocking() -> Outcome {
    until_fast_enough(|time| {
        let running = Running::ours()?;
        zx::nanosleep(MonotonicInstant::after(time))?;
        let records = running.records()?;
        let sleeps = calls(&records, "nanosleep");
        let [begin, end] = sleeps[..] else {
            // A call that begins after its deadline does not block.
            let at_once = matches!(sleeps[..], [call] if matches!(call.phase, Phase::Complete(_)));
            return if at_once { Ok(false) } else { Err(format!("{} records of it", sleeps.len()).into()) };
        };
        equal((begin.phase, end.phase), (Phase::Begin, Phase::End))?;
        equal(arg(end, "result"), vec![&Value::I64(0)])?;
        equal((begin.process, begin.thread), (end.process, end.thread))?;
        // It must take time in one of the rounds.
        Ok(end.time - begin.time >= 2_000_000)
    })
}

/// A call that its thread abandons has an end without a result.
fn records_abandoned() -> Outcome {
    let running = Running::ours()?;
    let thread = pthread::create(None, || {
        let far = libc_probe::timespec { tv_sec: 1000, tv_nsec: 0 };
        libc_probe::c11::thrd_sleep(&far, None);
        0
    })
    .map_err(|error| format!("pthread_create gave {error}"))?;
    let handle = pthread::pthread_get_zx_handle(thread);
    let waits = zx::Unowned::<zx::Thread>::from_raw(handle).ok_or("the thread has no handle")?;
    let koid = waits.basic_info()?.koid;
    while waits.info()?.state != abi::ZX_THREAD_STATE_BLOCKED_SLEEPING {
        zx::nanosleep(MonotonicInstant::after(zx::Duration::from_millis(1)))?;
    }
    equal(pthread::pthread_cancel(thread), 0)?;
    equal(pthread::join(thread), Ok(usize::MAX))?;
    let records = running.records()?;
    let own = records.iter().filter_map(|record| match record {
        Record::Event(event) if event.thread == koid => Some(event),
        _ => None,
    });
    let mut after = own.skip_while(|event| (event.name.as_str(), event.phase) != ("nanosleep", Phase::Begin)).skip(1);
    let end = after.next().ok_or("the call has no end")?;
    equal((end.name.as_str(), end.phase), ("nanosleep", Phase::End))?;
    equal(arg(end, "result"), vec![])
}

fn records_failing() -> Outcome {
    let running = Running::ours()?;
    fails(Vmo::create(4096, u32::MAX), Status::INVALID_ARGS)?;
    gives(raw!(zx_channel_create, 0, 8, 8), Status::INVALID_ARGS)?;
    let records = running.records()?;
    let created = calls(&records, "vmo_create");
    equal(arg(created[0], "result"), vec![&Value::I64(i64::from(Status::INVALID_ARGS.0))])?;
    ensure(arg(created[0], "out").is_empty(), "it tells of a handle that there is not")?;
    equal(calls(&records, "channel_create").len(), 1)
}

fn lost_are_counted() -> Outcome {
    // Each call records about 230 bytes.
    const CALLS: usize = 24_000;
    let running = Running::ours()?;
    let event = Event::create()?;
    // Handle, signals to wait for, observed signals.
    let mut items = [[event.raw_handle(), Signals::EVENT_SIGNALED.bits(), 0]; 4];
    let mut wait = || raw!(zx_object_wait_many, items.as_mut_ptr(), 4, 0);
    for _ in 0..CALLS {
        gives(wait(), Status::TIMED_OUT)?;
    }
    // Reading makes room for the next record, which reports the number of lost records.
    let mut bytes = vec![0; 65_536];
    let mut reader = Reader::default();
    let count = zx::ktrace_read(&running.0, &mut bytes)?;
    let mut records = reader.push(&bytes[..count]).map_err(|_| "the first records are damaged")?;
    gives(wait(), Status::TIMED_OUT)?;
    zx::ktrace_control(&running.0, KTRACE_ACTION_STOP)?;
    loop {
        let count = zx::ktrace_read(&running.0, &mut bytes)?;
        if count == 0 {
            break;
        }
        records.extend(reader.push(&bytes[..count]).map_err(|_| "the records are damaged")?);
    }
    let seen = calls(&records, "object_wait_many").len();
    let lost = |record: &Record| match record {
        Record::Event(event) if event.name == "records lost" => match arg(event, "count")[..] {
            [Value::U64(count)] => *count as usize,
            _ => 0,
        },
        _ => 0,
    };
    let lost: usize = records.iter().map(lost).sum();
    ensure(lost > 0, "nothing was lost")?;
    ensure(seen < CALLS, "all were recorded")?;
    // The first read of the trace itself may be among the lost records.
    let all = (seen + lost).abs_diff(CALLS + 1) <= 1;
    if all { Ok(()) } else { Err(format!("{seen} seen and {lost} lost of {}", CALLS + 1).into()) }
}

fn records_job_alone() -> Outcome {
    let job = own_job()?.create_child()?;
    let running = Running::start(&job)?;
    drop(Vmo::create(4096, 0)?);
    let records = running.records()?;
    ensure(!records.iter().any(|record| matches!(record, Record::Event(_))), "calls of others are in it")
}

/// A call that began under a trace of its own job ends under one of another job.
fn records_earlier_call() -> Outcome {
    let event = Arc::new(Event::create()?);
    let first = Running::ours()?;
    let waiter = std::thread::spawn({
        let event = event.clone();
        move || event.wait_one(Signals::EVENT_SIGNALED, MonotonicInstant::INFINITE)
    });
    let begun = |call: &&Recorded| call.phase == Phase::Begin;
    let (mut reader, mut bytes) = (Reader::default(), vec![0; 60_000]);
    loop {
        let count = zx::ktrace_read(&first.0, &mut bytes)?;
        let records = reader.push(&bytes[..count]).map_err(|_| "the records are damaged")?;
        if calls(&records, "object_wait_one").iter().any(begun) {
            break;
        }
        zx::nanosleep(MonotonicInstant::after(zx::Duration::from_millis(1)))?;
    }
    drop(first);
    let job = own_job()?.create_child()?;
    let second = Running::start(&job)?;
    event.signal(Signals::NONE, Signals::EVENT_SIGNALED)?;
    waiter.join().map_err(|_| "the waiter panicked")??;
    let records = second.records()?;
    ensure(!records.iter().any(|record| matches!(record, Record::Event(_))), "a call of an earlier trace ends in it")
}
