//! Bombs: programs that create one thing without end, each in a job with a limit, beside a neighbour.
//!
//! Each case measures how often the neighbour does its work alone, starts the bomb, measures again while the bomb runs,
//! and kills it; once beside a neighbour that also computes, and once beside one that only makes calls and waits. The
//! neighbour must keep its share each time and find nothing wrong, and what the bomb took must come back: the case
//! `leak.bombs` checks that by running everything again, so that each bomb runs four times. A line `rate KIND` on
//! standard error tells what the neighbour kept.
//!
//! While a bomb runs, this program, which is in another job, does what any program does: it starts a process and a
//! thread, and uses files, sockets and memory. It also compares what is charged to jobs with what is in use in the
//! system: if a bomb takes much that no job is charged for, its case fails and tells how much.
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
mod fuchsia {
    mod hidden_memory;

    use std::process::ExitCode;
    use std::thread;
    use std::time::{Duration, Instant};

    use self::hidden_memory::BombObjects;
    use conformance::Program;
    use conformance::check::{Case, Failure, Outcome, ensure};
    use conformance::test_process::{OwnJob, SPIN, TestProcess};
    use hostile::neighbour::{self, Neighbour};
    use zx::spawn::Spawn;
    use zx::{AsHandleRef, Channel, Event, Info, Job, MonotonicInstant, Port, Signals, Socket, Timer, Vmo};

    /// A bomb's limits. If memory is what runs out first, the bomb may end by that, because a stack needs every page.
    const LIMITS: [(u32, u64); 7] = [
        (abi::HAFNON_PROP_JOB_MEMORY_LIMIT, 48 << 20),
        (abi::HAFNON_PROP_JOB_PROCESS_LIMIT, 24),
        (abi::HAFNON_PROP_JOB_THREAD_LIMIT, 300),
        (abi::HAFNON_PROP_JOB_JOB_LIMIT, 2000),
        (abi::HAFNON_PROP_JOB_HANDLE_LIMIT, 65_536),
        (abi::HAFNON_PROP_JOB_MESSAGE_LIMIT, 65_536),
        (abi::HAFNON_PROP_JOB_QUEUED_BYTES_LIMIT, 32 << 20),
    ];
    /// The limit of processes for the bomb whose processes are small.
    const SMALL_PROCESSES: u64 = 100;
    /// How long a bomb runs.
    const TIME: Duration = Duration::from_millis(1000);
    /// How long the neighbour is measured alone.
    const ALONE: Duration = Duration::from_millis(500);
    /// The part of its rate that the neighbour must keep, in percent.
    const KEPT: u64 = 40;

    /// A bomb: takes one more of something, and keeps it.
    type Take = fn(&BombObjects) -> zx::Result<()>;

    /// Bytes that the system needs for itself, or has in use and not charged.
    const UNCHARGED: u64 = 2 << 20;

    const BOMBS: &[(&str, Take)] = &[
        ("channel", |_| keep(Channel::create()?)),
        ("exception", |_| start("crash")),
        ("fork", |_| start("fork")),
        ("futex", |_| thread(|| _ = zx::futex_wait(&WORD, 0, None, MonotonicInstant::INFINITE))),
        ("handle", |with| keep(with.event.duplicate(abi::Rights::SAME_RIGHTS)?)),
        ("job", |_| keep(zx::startup::job_default().ok_or(zx::Status::NOT_FOUND)?.create_child()?)),
        ("jobs_computing", |_| {
            let job = zx::startup::job_default().ok_or(zx::Status::NOT_FOUND)?.create_child()?;
            let tiny = TestProcess::in_job(&job, SPIN).map_err(|_| zx::Status::NO_RESOURCES)?;
            tiny.start(None, 0).map_err(|_| zx::Status::NO_RESOURCES)?;
            keep((job, tiny))
        }),
        ("log", |_| zx::debug_write(&[b'x'; 200])),
        ("mapping", |with| zx::startup::vmar_root_self().map(abi::ZX_VM_PERM_READ, 0, &with.vmo, 0, 4096).map(drop)),
        ("message", |_| {
            // Fewer than the number at which the process would be ended.
            let channel = Channel::create()?;
            let written = (0..3000).try_for_each(|_| channel.0.write(&[1; 1024], []));
            keep(channel)?;
            written
        }),
        ("packet", |_| {
            let port = Port::create()?;
            let queued = (0..4000).try_for_each(|_| port.queue(&abi::zx_port_packet_t::default()));
            keep(port)?;
            queued
        }),
        ("socket", |_| {
            let (a, b) = Socket::create(0)?;
            a.write(&[1; 4096])?;
            keep((a, b))
        }),
        ("thread", |_| thread(|| _ = zx::nanosleep(MonotonicInstant::INFINITE))),
        ("threads_calling", |_| {
            thread(|| {
                loop {
                    let _ = Event::create();
                }
            })
        }),
        ("threads_computing", |_| {
            thread(|| {
                // Not `pause`: QEMU leaves the guest for each.
                loop {
                    std::hint::black_box(());
                }
            })
        }),
        ("timer", |_| {
            let timer = Timer::create(0)?;
            timer.set(MonotonicInstant::after(zx::Duration::from_seconds(1000)), zx::Duration::from_nanos(0))?;
            keep(timer)
        }),
        ("vmo", |_| {
            let vmo = Vmo::create(64 * 4096, 0)?;
            vmo.op_range(abi::ZX_VMO_OP_COMMIT, 0, 64 * 4096)?;
            keep(vmo)
        }),
        ("wait_async", |with| {
            // Fewer than the number at which the process would be ended.
            let port = Port::create()?;
            let bound = (0..1000).try_for_each(|key| with.event.wait_async(&port, key, Signals::USER_0, 0));
            keep(port)?;
            bound
        }),
    ];

    static WORD: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

    fn keep<T>(what: T) -> zx::Result<()> {
        std::mem::forget(what);
        Ok(())
    }

    /// Creates one more thread.
    fn thread(forever: fn()) -> zx::Result<()> {
        let thread = thread::Builder::new().stack_size(16 << 10).spawn(forever);
        thread.map(drop).map_err(|_| zx::Status::NO_MEMORY)
    }

    /// Starts one more process of this program.
    fn start(kind: &str) -> zx::Result<()> {
        let program = std::env::args().next().unwrap_or_default();
        let mut command = std::process::Command::new(program);
        let child = command.args(["--child", kind]).spawn().map_err(|_| zx::Status::NO_MEMORY)?;
        keep(child)
    }

    /// Bytes in use in the system, and bytes charged to this program's job and all jobs below it.
    fn accounts() -> Result<[u64; 2], Failure> {
        let resource = zx::startup::resource().ok_or("this program was not given the root resource")?;
        let stats = resource.info_record::<abi::zx_info_kmem_stats_t>(abi::ZX_INFO_KMEM_STATS)?;
        let job = zx::startup::job_default().ok_or("there is no job")?;
        let used = stats.total_bytes - stats.free_bytes - stats.free_heap_bytes;
        Ok([used, job.get_property_u64(abi::HAFNON_PROP_JOB_MEMORY_USED)?])
    }

    /// Whether a bomb keeps all that it takes: then what is in use can be compared.
    fn is_kept(kind: &str) -> bool {
        hidden_memory::BOMBS.iter().any(|(way, _)| *way == kind)
            || ["channel", "handle", "job", "mapping", "message", "packet", "socket", "timer", "vmo", "wait_async"]
                .contains(&kind)
    }

    /// What any program does, and whether each part succeeded.
    fn ordinary() -> Vec<(&'static str, Result<(), String>)> {
        let told = |failed: std::io::Error| failed.to_string();
        let program = std::env::args().next().unwrap_or_default();
        let process =
            || std::process::Command::new(program).args(["--child", "nothing"]).status().map(drop).map_err(told);
        let file = || {
            std::fs::write("/tmp/bombs", b"ordinary").map_err(told)?;
            std::fs::remove_file("/tmp/bombs").map_err(told)
        };
        let socket = || std::net::UdpSocket::bind("127.0.0.1:0").map(drop).map_err(told);
        let memory = || Vmo::create(64 * 4096, 0).and_then(|vmo| vmo.op_range(abi::ZX_VMO_OP_COMMIT, 0, 64 * 4096));
        let thread = || thread::Builder::new().spawn(|| ()).map_err(told)?.join().map_err(|_| "it panicked".to_owned());
        vec![
            ("a process", process()),
            ("a file", file()),
            ("a socket", socket()),
            ("memory", memory().map_err(|status| status.to_string())),
            ("a thread", thread()),
        ]
    }

    /// Takes more and more, also after the limit is reached.
    fn go_off(take: Take) -> Result<(), zx::Status> {
        let with = BombObjects::new()?;
        loop {
            // At its limit it continues to try.
            let _ = take(&with);
        }
    }

    fn child(arguments: &[String]) -> ExitCode {
        match arguments {
            [name] if name == neighbour::NAME => neighbour::work(false),
            [name] if name == neighbour::BUSY => neighbour::work(true),
            [name] if name == "crash" => std::process::abort(),
            [name] if name == "nothing" => ExitCode::SUCCESS,
            [name] => match BOMBS.iter().chain(hidden_memory::BOMBS).find(|(known, _)| known == name) {
                Some((_, take)) => go_off(*take).map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS),
                None => ExitCode::from(2),
            },
            _ => ExitCode::from(2),
        }
    }

    /// How often the neighbour does its work in a second: the work that consists of calls, and the computing.
    fn rate(neighbour: &mut Neighbour, time: Duration) -> Result<[u64; 2], Failure> {
        let (before, start) = (neighbour.done()?, Instant::now());
        thread::sleep(time);
        let done = neighbour.done()?.since(before);
        Ok(done.map(|done| done * 1_000_000 / start.elapsed().as_micros().max(1) as u64))
    }

    /// Rounds of a bomb: whether the neighbour also computes.
    const ROUNDS: [bool; 2] = [true, false];

    fn bomb(kind: &'static str) -> Outcome {
        let kept = ROUNDS.map(|busy| round(kind, busy));
        kept.into_iter().collect::<Result<Vec<()>, Failure>>().map(drop)
    }

    fn round(kind: &str, busy: bool) -> Outcome {
        let mut neighbour = if busy { Neighbour::start_busy()? } else { Neighbour::start()? };
        neighbour.goes_on()?;
        let alone = rate(&mut neighbour, ALONE)?;
        let possible = ordinary();
        let before = if is_kept(kind) { Some(accounts()?) } else { None };
        let job = OwnJob::new()?;
        LIMITS.into_iter().try_for_each(|(property, limit)| job.set_property(property, &limit.to_le_bytes()))?;
        if kind == "jobs_computing" {
            job.set_property(abi::HAFNON_PROP_JOB_PROCESS_LIMIT, &SMALL_PROCESSES.to_le_bytes())?;
        }
        let started = starts(kind, &job)?;
        let beside = rate(&mut neighbour, TIME);
        let going_on = !started.signals()?.contains(Signals::TASK_TERMINATED);
        let now_possible = ordinary();
        let after = if is_kept(kind) { Some(accounts()?) } else { None };
        job.kill()?;
        let deadline = MonotonicInstant::after(zx::Duration::from_seconds(60));
        started.wait_one(Signals::TASK_TERMINATED, deadline)?;
        job.wait_one(Signals::JOB_NO_CHILDREN, deadline)?;
        neighbour.goes_on()?;
        let beside = beside?;
        let percent: [u64; 2] = std::array::from_fn(|what| beside[what] * 100 / alone[what].max(1));
        let computing = if busy { format!(", {} % of its {} sums", percent[1], alone[1]) } else { String::new() };
        eprintln!("rate {kind}: {} % of its {} rounds of calls a second{computing}", percent[0], alone[0]);
        ensure(going_on, "the bomb ended by itself")?;
        for ((what, before), (_, now)) in possible.into_iter().zip(now_possible) {
            // Not every system has files and sockets.
            ensure(before.is_err() || now.is_ok(), &format!("meanwhile others cannot have {what}: {now:?}"))?;
        }
        if let (Some(before), Some(after)) = (before, after) {
            let [used, charged] = [0, 1].map(|what| after[what].saturating_sub(before[what]));
            eprintln!("charged {kind}: {} of {} KiB", charged >> 10, used >> 10);
            ensure(
                used <= charged + charged / 4 + UNCHARGED,
                &format!("{used} bytes are in use, {charged} are charged"),
            )?;
        }
        let least = percent.into_iter().take(if busy { 2 } else { 1 }).min().unwrap_or_default();
        ensure(least >= KEPT, &format!("the neighbour kept {percent:?} % of its rates of {alone:?} a second"))
    }

    fn starts(kind: &str, job: &Job) -> Result<zx::Process, Failure> {
        let program = std::env::args().next().ok_or("this program does not know its name")?;
        let mut spawn = Spawn::file(&program);
        spawn.arg(&program).arg("--child").arg(kind).job(job);
        spawn.start().map_err(|(status, text)| format!("{status}: {text}").into())
    }

    pub fn main() -> ExitCode {
        let cases = || {
            let all = BOMBS.iter().chain(hidden_memory::BOMBS);
            all.map(|&(kind, _)| Case::new(&format!("bombs.{kind}.contained"), move || bomb(kind))).collect()
        };
        Program { name: "bombs", cases, known: &[], child }.main()
    }
}

#[cfg(target_os = "fuchsia")]
fn main() -> std::process::ExitCode {
    fuchsia::main()
}

#[cfg(not(target_os = "fuchsia"))]
fn main() {
    eprintln!("bombs: there is nothing to attack here");
}
