//! The idle time of the processor. `tests/hostile/src/bin/idle.rs` compares it with what a thread counts, in a machine
//! that counts instructions; the cases here hold in every machine, however slowly the host runs it.

use abi::{
    Status, ZX_INFO_CPU_STATS, ZX_INFO_CPU_STATS_FLAG_ONLINE, ZX_RSRC_KIND_SYSTEM, ZX_RSRC_SYSTEM_CPU_BASE,
    ZX_RSRC_SYSTEM_INFO_BASE, zx_info_cpu_stats_t,
};
use zx::{Info, MonotonicInstant};

use super::{cases, root_resource, soon, until_fast_enough, without};
use crate::check::{Failure, Outcome, ensure, equal, fails};
use crate::counter::Counter;

cases! {
    "runtime.idle.record" => record,
    "runtime.idle.resource" => resource,
    "runtime.idle.adds_up" => adds_up,
    "runtime.idle.asleep" => asleep,
    "runtime.idle.busy" => busy,
    "runtime.idle.ready_thread" => ready_thread,
}

fn stats() -> Result<zx_info_cpu_stats_t, Failure> {
    Ok(root_resource()?.info_record(ZX_INFO_CPU_STATS)?)
}

fn idle_time() -> Result<i64, Failure> {
    Ok(stats()?.idle_time)
}

fn record() -> Outcome {
    let stats = stats()?;
    ensure(stats.idle_time > 0 && stats.normalized_busy_time > 0, "no time has passed")?;
    // Nothing else is counted.
    let expected = zx_info_cpu_stats_t {
        flags: ZX_INFO_CPU_STATS_FLAG_ONLINE,
        idle_time: stats.idle_time,
        normalized_busy_time: stats.normalized_busy_time,
        ..Default::default()
    };
    equal(stats, expected)
}

fn resource() -> Outcome {
    let root = root_resource()?;
    let child = root.create_child(ZX_RSRC_KIND_SYSTEM, ZX_RSRC_SYSTEM_INFO_BASE, 1, "statistics")?;
    // The call takes no right.
    let bare = zx::Resource::from(without(&child, abi::Rights::all())?);
    bare.info_record::<zx_info_cpu_stats_t>(ZX_INFO_CPU_STATS)?;
    let other = root.create_child(ZX_RSRC_KIND_SYSTEM, ZX_RSRC_SYSTEM_CPU_BASE, 1, "other")?;
    fails(other.info_record::<zx_info_cpu_stats_t>(ZX_INFO_CPU_STATS), Status::OUT_OF_RANGE)?;
    fails(zx::startup::process_self().info_record::<zx_info_cpu_stats_t>(ZX_INFO_CPU_STATS), Status::WRONG_TYPE)
}

/// The processor is either idle or busy, since the system started. The busy time is made from the idle time, so their sum
/// says only that both are in the clock's units and of one moment. That the idle time is a count of its own says its
/// growth: neither part shrinks, so it is never more than the time that passes, and it grows over each sleep.
fn adds_up() -> Outcome {
    let mut last = stats()?;
    until_fast_enough(|ahead| {
        let mut grows = true;
        for _ in 0..10 {
            zx::nanosleep(MonotonicInstant::after(ahead))?;
            let before = MonotonicInstant::now();
            let now = stats()?;
            let after = MonotonicInstant::now();
            let sum = now.idle_time + now.normalized_busy_time;
            if !(before.0..=after.0).contains(&sum) {
                return Err(format!("{now:?} between {before:?} and {after:?}").into());
            }
            if now.idle_time < last.idle_time || now.normalized_busy_time < last.normalized_busy_time {
                return Err(format!("{now:?} after {last:?}").into());
            }
            grows &= now.idle_time > last.idle_time;
            last = now;
        }
        Ok(grows)
    })
}

/// While all threads sleep, nearly all time is idle time; it is never more than the time that passes.
fn asleep() -> Outcome {
    until_fast_enough(|ahead| {
        let start = MonotonicInstant::now();
        let before = idle_time()?;
        zx::nanosleep(MonotonicInstant::after(ahead))?;
        let idle = idle_time()? - before;
        let passed = (MonotonicInstant::now() - start).into_nanos();
        ensure(idle <= passed, &format!("{idle} ns idle within {passed} ns"))?;
        Ok(idle > passed / 10 * 9)
    })
}

/// While a thread computes, the processor is never idle, whatever the host does.
fn busy() -> Outcome {
    let before = idle_time()?;
    let end = soon(100);
    while MonotonicInstant::now() < end {
        std::hint::spin_loop();
    }
    equal(idle_time()? - before, 0)
}

/// Nor is it while any thread is ready, of the lowest priority, too. When that thread has ended, it is again.
fn ready_thread() -> Outcome {
    let counter = Counter::start(&*root_resource()?)?;
    let compared = || -> Outcome {
        until_fast_enough(|_| {
            zx::nanosleep(soon(10))?;
            Ok(counter.count() > 0)
        })?;
        let (counted, before) = (counter.count(), idle_time()?);
        zx::nanosleep(soon(50))?;
        equal(idle_time()? - before, 0)?;
        until_fast_enough(|ahead| {
            zx::nanosleep(MonotonicInstant::after(ahead))?;
            Ok(counter.count() > counted)
        })
    }();
    counter.stop()?;
    compared?;
    until_fast_enough(|ahead| {
        let before = idle_time()?;
        zx::nanosleep(MonotonicInstant::after(ahead))?;
        Ok(idle_time()? > before)
    })
}
