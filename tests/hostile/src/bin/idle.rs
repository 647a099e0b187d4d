//! Idle: compares the idle time of the processor with what a thread counts.
//!
//! A thread loads the processor by a known share: it computes and sleeps in turns. Once nothing else runs, and the
//! system says how long the processor was idle (`ZX_INFO_CPU_STATS`). Once a thread of the lowest priority counts
//! beside it, which gets what the load leaves; how fast it counts is measured before. Both times must agree within
//! [`BOUND`] of the elapsed time. The machine counts instructions, so the load is the same both times, and a busy host
//! changes nothing. A line `idle SHARE: …` on standard error tells the times.
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
mod fuchsia {
    use std::hint::black_box;
    use std::process::ExitCode;

    use abi::{ZX_INFO_CPU_STATS, zx_info_cpu_stats_t};
    use conformance::Program;
    use conformance::check::{Case, Failure, Outcome, ensure, equal};
    use conformance::counter::Counter;
    use zx::{Duration, Info, MonotonicInstant, TaskInfo};

    /// By how many thousandths of the elapsed time the two may differ.
    const BOUND: i64 = 1;
    /// Length of a turn of computing and sleeping, in nanoseconds: no multiple of the kernel's tick of 2 ms.
    const TURN: i64 = 7_300_000;
    const TURNS: i64 = 100;
    /// Shares of a turn in which the load computes, in percent.
    const SHARES: [i64; 5] = [1, 25, 50, 75, 95];

    fn root_resource() -> Result<zx::Unowned<'static, zx::Resource>, Failure> {
        zx::startup::resource().ok_or_else(|| "this program was not given the root resource".into())
    }

    fn idle_time() -> Result<i64, Failure> {
        Ok(root_resource()?.info_record::<zx_info_cpu_stats_t>(ZX_INFO_CPU_STATS)?.idle_time)
    }

    /// Computes: the same instructions for each round.
    fn compute(rounds: i64) {
        for round in 0..rounds {
            black_box(round);
        }
    }

    /// Rounds of [`compute`] in a thousandth of a second.
    fn rounds_in_millisecond() -> i64 {
        const ROUNDS: i64 = 10_000_000;
        let start = MonotonicInstant::now();
        compute(ROUNDS);
        let lasted = (MonotonicInstant::now() - start).into_nanos();
        ROUNDS * 1_000_000 / lasted.max(1)
    }

    /// Time that passed, and idle time within it, in nanoseconds.
    struct Times {
        passed: i64,
        idle: i64,
    }

    fn during(what: impl FnOnce() -> zx::Result<()>) -> Result<Times, Failure> {
        let (start, before) = (MonotonicInstant::now(), idle_time()?);
        what()?;
        let (idle, end) = (idle_time()? - before, MonotonicInstant::now());
        Ok(Times { passed: (end - start).into_nanos(), idle })
    }

    /// The load: computes `rounds` at the beginning of each turn and sleeps until the next one.
    fn load(rounds: i64) -> zx::Result<()> {
        let start = MonotonicInstant::now();
        for turn in 1..=TURNS {
            compute(rounds);
            zx::nanosleep(MonotonicInstant(start.0 + turn * TURN))?;
        }
        Ok(())
    }

    /// Runs `what` beside the thread that counts; returns how far it counted meanwhile.
    fn beside_counter(what: impl FnOnce() -> Result<Times, Failure>) -> Result<(Times, i64), Failure> {
        let counter = Counter::start(&*root_resource()?)?;
        while counter.count() == 0 {
            zx::nanosleep(MonotonicInstant::after(Duration::from_millis(1)))?;
        }
        let before = counter.count();
        let done = what();
        let counted = counter.count() - before;
        counter.stop()?;
        Ok((done?, counted as i64))
    }

    fn share(percent: i64) -> Outcome {
        let sleep = || zx::nanosleep(MonotonicInstant::after(Duration::from_millis(500)));
        let (alone, all) = beside_counter(|| during(sleep))?;
        equal(alone.idle, 0)?;
        let rounds = rounds_in_millisecond() * (TURN * percent / 100) / 1_000_000;
        let told = during(|| load(rounds))?;
        let (loaded, counted) = beside_counter(|| during(|| load(rounds)))?;
        // While the thread counts, the processor is never idle.
        equal(loaded.idle, 0)?;
        let left = (i128::from(counted) * i128::from(alone.passed) / i128::from(all.max(1))) as i64;
        eprintln!(
            "idle {percent} %: {} us of {} us are told, {} us of {} us are counted",
            told.idle / 1000,
            told.passed / 1000,
            left / 1000,
            loaded.passed / 1000
        );
        let bound = told.passed * BOUND / 1000;
        ensure((told.passed - loaded.passed).abs() <= bound, "the two loads differ")?;
        ensure((told.idle - left).abs() <= bound, "the idle time is not what the thread counted")?;
        // The load is what it was meant to be, apart from the calls that sleep.
        let expected = told.passed * (100 - percent) / 100;
        ensure((told.idle - expected).abs() <= 3 * bound, "the load is another one")
    }

    /// How the run times of all tasks and the idle time add up; the rest is the server's and seL4's. Run times are those
    /// of ticks, so they are right on average.
    fn sum() -> Outcome {
        let job = zx::startup::job_default().ok_or("there is no job")?;
        let runtime = || -> zx::Result<i64> { Ok(job.runtime()?.cpu_time) };
        let rounds = rounds_in_millisecond() * (TURN / 2) / 1_000_000;
        let (before, worked) = (runtime()?, job.usage()?.kernel_time);
        let times = during(|| load(rounds))?;
        let (ran, worked) = (runtime()? - before, (job.usage()?.kernel_time - worked) as i64);
        eprintln!(
            "idle sum: of {} us, {} us idle, {} us of tasks, {} us of the server for them",
            times.passed / 1000,
            times.idle / 1000,
            ran / 1000,
            worked / 1000
        );
        let rest = times.passed - times.idle - ran - worked;
        ensure(rest.abs() <= times.passed / 50, &format!("they differ by {} us", rest / 1000))
    }

    fn cases() -> Vec<Case> {
        let mut cases: Vec<Case> = SHARES
            .into_iter()
            .map(|percent| Case::new(&format!("idle.share.{percent}"), move || share(percent)))
            .collect();
        cases.push(Case::new("idle.sum", sum));
        cases
    }

    pub fn main() -> ExitCode {
        Program { name: "idle", cases, known: &[], child: |_| ExitCode::FAILURE }.main()
    }
}

#[cfg(target_os = "fuchsia")]
fn main() -> std::process::ExitCode {
    fuchsia::main()
}

#[cfg(not(target_os = "fuchsia"))]
fn main() {
    eprintln!("idle: there is no idle time here");
}
