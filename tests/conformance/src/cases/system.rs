//! Time, randomness and information about the machine.

use abi::Status;
use zx::{AsHandleRef, Clock, Duration, Event, MonotonicInstant};

use super::{cases, raw, soon, until_fast_enough};
use crate::check::{Outcome, ensure, equal, fails, gives};

cases! {
    "clock.monotonic.never_back" => monotonic_never_back,
    "clock.read.follows_monotonic" => read_follows_monotonic,
    "time.nanosleep.long_enough" => nanosleep_long_enough,
    "time.nanosleep.past" => nanosleep_past,
    "time.deadline_after.saturates" => deadline_after_saturates,
    "time.deadline_after.adds" => deadline_after_adds,
    "time.ticks.agree_with_the_clock" => ticks_agree,
    "system.cprng.differs" => cprng_differs,
    "system.version.raw_view" => version_raw_view,
    "system.version.str" => version_str,
    "system.version.c_string" => version_c_string,
    "system.version.owned_string" => version_owned_string,
    "system.page_size.is_4096" => page_size,
    "system.numbers.make_sense" => numbers,
    "system.powerctl.needs_the_resource" => powerctl_needs_the_resource,
    "system.debug.needs_the_resource" => debug_needs_the_resource,
}

fn monotonic_never_back() -> Outcome {
    let mut last = MonotonicInstant::now();
    ensure(last > MonotonicInstant::ZERO, "there was no time yet")?;
    for _ in 0..100_000 {
        let now = MonotonicInstant::now();
        ensure(now >= last, "the clock went back")?;
        last = now;
    }
    // Time passes while a thread sleeps, at least as long as the thread slept.
    for _ in 0..50 {
        let until = MonotonicInstant::now() + Duration::from_millis(1);
        zx::nanosleep(until)?;
        let now = MonotonicInstant::now();
        ensure(now >= until && now >= last, "the clock stood or went back")?;
        last = now;
    }
    Ok(())
}

fn read_follows_monotonic() -> Outcome {
    let clock = Clock::create(abi::ZX_CLOCK_OPT_AUTO_START)?;
    let before = MonotonicInstant::now().0;
    let now = clock.read()?;
    let after = MonotonicInstant::now().0;
    ensure(before <= now && now <= after, "it shows another time")
}

fn nanosleep_long_enough() -> Outcome {
    for milliseconds in [1, 5, 20] {
        // It must not wake very late in each round.
        until_fast_enough(|_| {
            let deadline = soon(milliseconds);
            zx::nanosleep(deadline)?;
            let late = MonotonicInstant::now() - deadline;
            ensure(late.0 >= 0, "it woke early")?;
            Ok(late < Duration::from_seconds(1))
        })?;
    }
    Ok(())
}

fn nanosleep_past() -> Outcome {
    // It must not sleep in each round.
    until_fast_enough(|_| {
        let start = MonotonicInstant::now();
        for deadline in [MonotonicInstant::ZERO, MonotonicInstant::INFINITE_PAST, start] {
            zx::nanosleep(deadline)?;
        }
        Ok(MonotonicInstant::now() - start < Duration::from_seconds(1))
    })
}

fn deadline_after_saturates() -> Outcome {
    for far in [i64::MAX, i64::MAX - 100].map(Duration) {
        equal(MonotonicInstant::after(far), MonotonicInstant::INFINITE)?;
    }
    ensure(MonotonicInstant::after(Duration(i64::MIN)) < MonotonicInstant::ZERO, "the earliest time lies ahead")?;
    ensure(MonotonicInstant::after(Duration(-1)) <= MonotonicInstant::now(), "the past lies ahead")
}

fn deadline_after_adds() -> Outcome {
    for offset in [0, 20_000_000, 1_000_000_000_000, -20_000_000].map(Duration) {
        let before = MonotonicInstant::now() + offset;
        let deadline = MonotonicInstant::after(offset);
        let after = MonotonicInstant::now() + offset;
        ensure(before <= deadline && deadline <= after, "it is another moment")?;
    }
    Ok(())
}

fn ticks_agree() -> Outcome {
    ensure(zx::ticks_per_second() > 0, "there are no ticks")?;
    // The clock is read before and after the ticks, so that delays between two readings do not matter.
    let read = || (MonotonicInstant::now().0, zx::ticks_get(), MonotonicInstant::now().0);
    let start = read();
    zx::nanosleep(soon(50))?;
    let end = read();
    ensure(end.1 > start.1, "they do not go forwards")?;
    let by_ticks = (end.1 - start.1) as f64 / zx::ticks_per_second() as f64;
    let seconds = |nanoseconds: i64| nanoseconds as f64 / 1e9;
    let (least, most) = (seconds(end.0 - start.2) * 0.99, seconds(end.2 - start.0) * 1.01);
    ensure(least <= by_ticks && by_ticks <= most, &format!("{by_ticks} s by ticks, {least} to {most} s by the clock"))
}

fn cprng_differs() -> Outcome {
    let draw = || {
        let mut bytes = [0; 32];
        zx::cprng_draw(&mut bytes);
        bytes
    };
    let (one, two) = (draw(), draw());
    ensure(one != two && one != [0; 32], "it is not random")?;
    let mut long = vec![0; 4096];
    zx::cprng_draw(&mut long);
    let ones: u32 = long.iter().map(|byte: &u8| byte.count_ones()).sum();
    // Half of the bits, within ten standard deviations.
    ensure((15_500..17_300).contains(&ones), &format!("{ones} of 32768 bits are set"))
}

fn page_size() -> Outcome {
    equal(zx::system_get_page_size(), 4096)
}

fn numbers() -> Outcome {
    ensure(zx::system_get_num_cpus() >= 1, "there is no processor")?;
    ensure(zx::system_get_physmem() >= 16 << 20, "there is hardly any memory")?;
    ensure(zx::system_get_dcache_line_size().is_power_of_two(), "the cache line is odd")?;
    ensure(!zx::system_get_version_string().is_empty(), "there is no version")
}

fn powerctl_needs_the_resource() -> Outcome {
    let command = abi::ZX_SYSTEM_POWERCTL_SHUTDOWN;
    let event = Event::create()?;
    gives(raw!(zx_system_powerctl, event.raw_handle(), command, 0), Status::WRONG_TYPE)?;
    gives(raw!(zx_system_powerctl, 0, command, 0), Status::BAD_HANDLE)
}

fn debug_needs_the_resource() -> Outcome {
    let mut bytes = [0_u8; 8];
    let mut actual = 0_usize;
    let event = Event::create()?;
    let status = raw!(zx_debug_read, event.raw_handle(), bytes.as_mut_ptr(), 8, &raw mut actual);
    gives(status, Status::WRONG_TYPE)?;
    fails(zx::HandleRef::from_raw(0).check_valid(), Status::BAD_HANDLE)
}

fn version_raw_view() -> Outcome {
    let view = zx::system_get_version_view();
    ensure(!view.c_str.is_null() && view.length > 0, "there is no version")?;
    // It is always the same string in the vDSO, which callers need not free.
    let again = zx::system_get_version_view();
    equal((view.c_str.addr(), view.length), (again.c_str.addr(), again.length))?;
    let mut bytes = vec![0; view.length];
    zx::startup::process_self().read_memory(view.c_str.addr(), &mut bytes)?;
    equal(bytes.as_slice(), zx::system_get_version_string().as_bytes())
}

fn version_str() -> Outcome {
    let version = zx::system_get_version_string();
    ensure(!version.is_empty(), "there is no version")?;
    ensure(version.chars().all(|char| char.is_ascii_graphic() || char == ' '), "it is no text")?;
    // The length does not include the terminating zero.
    ensure(!version.contains('\0'), "its end is in it")
}

fn version_c_string() -> Outcome {
    // The same for a caller that looks for the terminating zero.
    let view = zx::system_get_version_view();
    let bytes: Vec<u8> = (view.c_str.addr()..).map(zx::probe::read).take_while(|&byte| byte != 0).take(1000).collect();
    equal(bytes.len(), view.length)?;
    equal(bytes.as_slice(), zx::system_get_version_string().as_bytes())
}

fn version_owned_string() -> Outcome {
    let owned = zx::system_get_version_string().to_owned();
    let (length, mut longer) = (owned.len(), owned.clone());
    longer.push('+');
    equal(zx::system_get_version_string(), owned.as_str())?;
    equal((length, longer.len()), (zx::system_get_version_view().length, length + 1))
}
