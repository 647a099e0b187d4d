//! Holds: how long one call delays all other calls.
//!
//! Each case makes a call that is as long as a program can make it, while a thread of higher priority than all others
//! sleeps for short times. The delay of its wake-ups is how long the server was held. A line `hold CASE KIND:
//! MICROSECONDS of LASTED us` on standard error tells the longest delay, and how long the call took. A line `call NAME
//! CASES`, or `call NAME - WHY`, tells which cases make which call long ([`calls`](fuchsia::calls)). `known CASE` is a
//! case that is known to take too long. `./hafnon bench holds` makes a table of these lines. The machine counts
//! instructions, so both times are exact: a microsecond is a thousand instructions.
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
mod fuchsia {
    mod calls;
    mod lists;
    mod memory;
    mod page_metadata;
    mod shared_vmo;
    mod streams;
    mod tasks;
    mod waits;

    use std::io::Read;
    use std::process::{Command, ExitCode, Stdio};
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::sync::{Mutex, PoisonError};
    use std::thread;
    use std::time::{Duration, Instant};

    use abi::{
        ZX_PRIORITY_HIGHEST, ZX_PROFILE_INFO_FLAG_PRIORITY, ZX_VM_CAN_MAP_READ, ZX_VM_CAN_MAP_SPECIFIC,
        ZX_VM_CAN_MAP_WRITE, ZX_VM_MAP_RANGE, ZX_VM_PERM_READ, ZX_VM_PERM_WRITE, ZX_VM_SPECIFIC, ZX_VMAR_OP_COMMIT,
        ZX_VMAR_OP_MAP_RANGE, ZX_VMO_OP_COMMIT, ZX_VMO_OP_DECOMMIT, ZX_VMO_OP_ZERO, zx_profile_info_t,
    };
    use conformance::Program;
    use conformance::check::{Case, Failure, Outcome, ensure};
    use conformance::test_process::{self, OwnJob, TestProcess};
    use zx::{AsHandleRef, Channel, Event, EventPair, Handle, MonotonicInstant, Profile, Signals, Vmar, Vmo};

    /// No call may hold the server longer.
    const BOUND: Duration = Duration::from_micros(1500);
    /// How long the thread of high priority sleeps.
    const NAP: zx::Duration = zx::Duration::from_micros(50);
    const LARGE: u64 = 2 << 20;
    /// Bytes that a call is about.
    const SIZE: u64 = 256 << 20;
    /// The same if all of it exists twice, or is in small pages.
    const LESS: u64 = 64 << 20;
    /// The same for memory that is closed: nearly all there is.
    const FILLS: u64 = 192 << 20;
    const MESSAGES: usize = 200;
    /// Channels that are nested in each other's messages.
    const DEEP: usize = 900;
    /// Handles that one call closes.
    const MANY: usize = 2000;
    const MAPPINGS: usize = 10_000;
    const PROCESSES: usize = 200;
    /// Handles of a process.
    const HANDLES: usize = 30_000;
    /// The options of a region.
    const CAN: u32 = ZX_VM_CAN_MAP_READ | ZX_VM_CAN_MAP_WRITE | ZX_VM_CAN_MAP_SPECIFIC;

    /// How long the server was held at most while `what` ran, and how long `what` took.
    fn hold(what: impl FnOnce() -> Outcome) -> Result<(Duration, Duration), Failure> {
        static OVER: AtomicBool = AtomicBool::new(false);
        static NAPS: AtomicBool = AtomicBool::new(false);
        OVER.store(false, SeqCst);
        NAPS.store(false, SeqCst);
        let resource = zx::startup::resource().ok_or("this program was not given the root resource")?;
        let parameters = [ZX_PRIORITY_HIGHEST as u64, 0, 0];
        let first = zx_profile_info_t { flags: ZX_PROFILE_INFO_FLAG_PRIORITY, parameters, ..Default::default() };
        let profile = Profile::create(&resource, 0, &first)?;
        let watch = thread::spawn(move || -> zx::Result<i64> {
            zx::startup::thread_self().set_profile(&profile, 0)?;
            let mut longest = 0;
            while !OVER.load(SeqCst) {
                let due = MonotonicInstant::after(NAP);
                zx::nanosleep(due)?;
                longest = longest.max((MonotonicInstant::now() - due).into_nanos());
                NAPS.store(true, SeqCst);
            }
            Ok(longest)
        });
        while !NAPS.load(SeqCst) {
            thread::yield_now();
        }
        let start = Instant::now();
        let done = what();
        let lasted = start.elapsed();
        OVER.store(true, SeqCst);
        let longest = watch.join().map_err(|_| "the watch ended")??;
        done?;
        Ok((Duration::from_nanos(longest.unsigned_abs()), lasted))
    }

    /// The running case, without `holds.`.
    static CASE: Mutex<String> = Mutex::new(String::new());

    /// A case that stores its name when it runs.
    fn named(Case { name, run }: Case) -> Case {
        let own = name.trim_start_matches("holds.").to_owned();
        Case::new(&name, move || {
            CASE.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&own);
            run()
        })
    }

    /// A case's call: it must not hold the server for long.
    fn holds_shortly(kind: &str, what: impl FnOnce() -> Outcome) -> Outcome {
        let (longest, lasted) = hold(what)?;
        let case = CASE.lock().unwrap_or_else(PoisonError::into_inner).clone();
        eprintln!("hold {case} {kind}: {} of {} us", longest.as_micros(), lasted.as_micros());
        ensure(longest < BOUND, &format!("the kernel was held for {longest:?}"))
    }

    /// Committed memory, in large or in small pages.
    fn memory(size: u64, small: bool) -> Result<Vmo, Failure> {
        let vmo = Vmo::create(size, 0)?;
        if small {
            begin_each(&vmo, size)?;
        }
        vmo.op_range(ZX_VMO_OP_COMMIT, 0, size)?;
        Ok(vmo)
    }

    /// The server creates no large page where a page exists already.
    fn begin_each(vmo: &Vmo, size: u64) -> Outcome {
        (0..size / LARGE).try_for_each(|at| Ok(vmo.write(&[1], at * LARGE)?))
    }

    fn op(kind: &str, op: u32, small: bool) -> Outcome {
        let size = if small { LESS } else { SIZE };
        let vmo = if op == ZX_VMO_OP_COMMIT { Vmo::create(size, 0)? } else { memory(size, small)? };
        if op == ZX_VMO_OP_COMMIT && small {
            begin_each(&vmo, size)?;
        }
        holds_shortly(kind, || Ok(vmo.op_range(op, 0, size)?))
    }

    /// The memory is mapped, all pages present.
    fn mapped(kind: &str, what: impl FnOnce(&Vmo) -> Outcome) -> Outcome {
        let vmo = memory(LESS, true)?;
        let root = zx::startup::vmar_root_self();
        let mapping = root.map_here(ZX_VM_PERM_READ | ZX_VM_PERM_WRITE, &vmo, 0, LESS as usize)?;
        (0..LESS / 4096).try_for_each(|page| mapping.write((page * 4096) as usize, &[2]))?;
        holds_shortly(kind, || what(&vmo))
    }

    fn op_on_mapped(kind: &str, op: u32) -> Outcome {
        mapped(kind, |vmo| Ok(vmo.op_range(op, 0, LESS)?))
    }

    /// Maps committed memory in small pages at once.
    fn map(kind: &str, how: How) -> Outcome {
        let vmo = memory(LESS, true)?;
        let (root, size) = (zx::startup::vmar_root_self(), LESS as usize);
        let options = ZX_VM_PERM_READ | ZX_VM_PERM_WRITE;
        let mut address = 0;
        match how {
            How::Map => holds_shortly(kind, || {
                address = root.map(options | ZX_VM_MAP_RANGE, 0, &vmo, 0, size)?;
                Ok(())
            }),
            How::Op(op) => {
                address = root.map(options, 0, &vmo, 0, size)?;
                holds_shortly(kind, || Ok(root.op_range(op, address, size)?))
            }
        }?;
        Ok(root.unmap(address, size)?)
    }

    enum How {
        Map,
        Op(u32),
    }

    fn ends<T>(kind: &str, what: T) -> Outcome {
        holds_shortly(kind, || {
            drop(what);
            Ok(())
        })
    }

    /// Closes committed memory.
    fn close(kind: &str, small: bool) -> Outcome {
        let all = if small { FILLS } else { SIZE };
        ends(kind, memory(all, small)?)?;
        // The memory of an ended object must be available for a new one.
        drop(memory(all, small)?);
        memory(all, false).map(drop)
    }

    /// A channel full of messages that are full of handles. After it is closed, the peers of all these handles are
    /// closed.
    fn close_channel() -> Outcome {
        let ((from, to), mut kept) = (Channel::create()?, Vec::new());
        for _ in 0..MESSAGES {
            let pairs =
                (0..abi::ZX_CHANNEL_MAX_MSG_HANDLES).map(|_| EventPair::create()).collect::<zx::Result<Vec<_>>>()?;
            let (sent, others): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            from.write_handles(&[], sent.into_iter().map(EventPair::into_handle))?;
            kept.extend(others);
        }
        ends("close-channel", to)?;
        let gone = |end: &EventPair| end.wait_one(Signals::EVENTPAIR_PEER_CLOSED, MonotonicInstant::ZERO);
        kept.iter().try_for_each(|end| Ok(gone(end).map(drop)?))
    }

    /// Channels that are nested in each other's messages.
    fn close_chain() -> Outcome {
        let ((near, mut far), mut kept) = (Channel::create()?, Vec::new());
        kept.push(near);
        for _ in 0..DEEP {
            let (near, outer) = Channel::create()?;
            near.write(&[], [far.into_handle()])?;
            (far, _) = (outer, kept.push(near));
        }
        ends("close-chain", far)?;
        let gone = |end: &Channel| end.wait_one(Signals::CHANNEL_PEER_CLOSED, MonotonicInstant::ZERO);
        kept.iter().try_for_each(|end| Ok(gone(end).map(drop)?))
    }

    fn close_many() -> Outcome {
        let vmo = || -> zx::Result<Handle> {
            let vmo = Vmo::create(4096 * 16, 0)?;
            vmo.op_range(ZX_VMO_OP_COMMIT, 0, 4096 * 16)?;
            Ok(vmo.into_handle())
        };
        let handles = (0..MANY).map(|_| vmo()).collect::<zx::Result<Vec<_>>>()?;
        let handles: [Handle; MANY] = handles.try_into().map_err(|_| "as many as were made")?;
        holds_shortly("close-many", || Ok(zx::close_many(handles)?))
    }

    fn unmap(kind: &str, act: impl Fn(&Vmar, usize) -> zx::Result<()>) -> Outcome {
        let vmo = memory(LESS, true)?;
        let options = ZX_VM_PERM_READ | ZX_VM_PERM_WRITE;
        let (vmar, at) = zx::startup::vmar_root_self().allocate(CAN, 0, LESS as usize)?;
        let address = vmar.map(options | ZX_VM_MAP_RANGE | ZX_VM_SPECIFIC, 0, &vmo, 0, LESS as usize)?;
        ensure(address == at, "mapped elsewhere")?;
        holds_shortly(kind, || Ok(act(&vmar, address)?))?;
        // Destroys the rest.
        let _ = vmar.destroy();
        Ok(())
    }

    /// A region with as many mappings as there are pages.
    fn region(root: &Vmar) -> Result<(Vmar, usize), Failure> {
        let vmo = memory(4096, true)?;
        let (vmar, at) = root.allocate(CAN, 0, MAPPINGS * 2 * 4096)?;
        for page in 0..MAPPINGS {
            vmar.map(ZX_VM_PERM_READ | ZX_VM_MAP_RANGE | ZX_VM_SPECIFIC, page * 2 * 4096, &vmo, 0, 4096)?;
        }
        Ok((vmar, at))
    }

    fn many(kind: &str, act: impl Fn(&Vmar, usize, usize) -> zx::Result<()>) -> Outcome {
        let (vmar, at) = region(&zx::startup::vmar_root_self())?;
        holds_shortly(kind, || Ok(act(&vmar, at, MAPPINGS * 2 * 4096)?))?;
        let _ = vmar.destroy();
        Ok(())
    }

    /// Code that sleeps for ever.
    fn sleeps() -> Vec<u8> {
        let mut code = vec![0x49, 0xba]; // mov r10, deadline
        code.extend(i64::MAX.to_le_bytes());
        code.extend(test_process::call(abi::nr::NANOSLEEP));
        code
    }

    fn kill(kind: &str, processes: usize, fill: impl Fn(&TestProcess) -> Outcome) -> Outcome {
        let job = OwnJob::new()?;
        let code = sleeps();
        let mut all = Vec::new();
        for _ in 0..processes {
            let tiny = TestProcess::in_job(&job, &code)?;
            fill(&tiny)?;
            tiny.start(None, 0)?;
            all.push(tiny);
        }
        zx::nanosleep(MonotonicInstant::after(zx::Duration::from_millis(100)))?;
        holds_shortly(kind, || {
            job.kill()?;
            all.iter().try_for_each(|tiny| tiny.end().map(drop))
        })
    }

    /// Memory of a process, in small pages that are all mapped.
    fn fill(tiny: &TestProcess) -> Outcome {
        let vmo = memory(LESS, true)?;
        tiny.vmar.map(ZX_VM_PERM_READ | ZX_VM_MAP_RANGE, 0, &vmo, 0, LESS as usize)?;
        Ok(())
    }

    /// A process with the most handles that it may have.
    fn kill_handles() -> Outcome {
        let program = std::env::args().next().unwrap_or_default();
        let mut child = Command::new(program).args(["--child", "handles"]).stdout(Stdio::piped()).spawn()?;
        let mut said = [0];
        child.stdout.take().ok_or("no output")?.read_exact(&mut said)?;
        holds_shortly("kill-handles", || {
            child.kill()?;
            Ok(child.wait().map(drop)?)
        })
    }

    fn child(_: &[String]) -> ExitCode {
        let handles: Vec<_> = (0..HANDLES).map(|_| Event::create()).collect();
        println!(".");
        let _ = zx::nanosleep(MonotonicInstant::INFINITE);
        drop(handles);
        ExitCode::SUCCESS
    }

    fn resize(kind: &str, mapped: bool) -> Outcome {
        let vmo = Vmo::create(LESS, abi::ZX_VMO_RESIZABLE)?;
        begin_each(&vmo, LESS)?;
        vmo.op_range(ZX_VMO_OP_COMMIT, 0, LESS)?;
        let root = zx::startup::vmar_root_self();
        let address =
            root.map(ZX_VM_PERM_READ | if mapped { ZX_VM_MAP_RANGE } else { 0 }, 0, &vmo, 0, LESS as usize)?;
        holds_shortly(kind, || Ok(vmo.set_size(0)?))?;
        Ok(root.unmap(address, LESS as usize)?)
    }

    fn transfer() -> Outcome {
        let (from, to) = (memory(LESS, true)?, Vmo::create(LESS, 0)?);
        holds_shortly("transfer", || Ok(to.transfer_data(0, LESS, &from, 0)?))
    }

    fn read_memory() -> Outcome {
        let from = vec![3; LESS as usize];
        let mut to = vec![0; LESS as usize];
        holds_shortly("read-memory", || {
            let read = zx::startup::process_self().read_memory(from.as_ptr().addr(), &mut to)?;
            ensure(read == to.len(), "not all was read")
        })?;
        ensure(to == from, "something else was read")
    }

    fn copy(kind: &str, write: bool) -> Outcome {
        let vmo = Vmo::create(LESS, 0)?;
        let mut bytes = vec![3; LESS as usize];
        holds_shortly(kind, || Ok(if write { vmo.write(&bytes, 0) } else { vmo.read(&mut bytes, 0) }?))
    }

    fn cases() -> Vec<Case> {
        let mut all = vec![
            Case::new("holds.close.chain", close_chain),
            Case::new("holds.close.channel", close_channel),
            Case::new("holds.close.large", || close("close-large", false)),
            Case::new("holds.close.many", close_many),
            Case::new("holds.close.small", || close("close-small", true)),
            Case::new("holds.commit.large", || op("commit-large", ZX_VMO_OP_COMMIT, false)),
            Case::new("holds.commit.small", || op("commit-small", ZX_VMO_OP_COMMIT, true)),
            Case::new("holds.decommit.large", || op("decommit-large", ZX_VMO_OP_DECOMMIT, false)),
            Case::new("holds.decommit.mapped", || op_on_mapped("decommit-mapped", ZX_VMO_OP_DECOMMIT)),
            Case::new("holds.decommit.small", || op("decommit-small", ZX_VMO_OP_DECOMMIT, true)),
            Case::new("holds.destroy.many", || many("destroy-many", |vmar, _, _| vmar.destroy())),
            Case::new("holds.destroy.small", || unmap("destroy-small", |vmar, _| vmar.destroy())),
            Case::new("holds.kill.handles", kill_handles),
            Case::new("holds.kill.job", || kill("kill-job", PROCESSES, |_| Ok(()))),
            Case::new("holds.kill.mappings", || kill("kill-mappings", 1, |tiny| region(&tiny.vmar).map(drop))),
            Case::new("holds.kill.memory", || kill("kill-memory", 1, fill)),
            Case::new("holds.map", || map("map", How::Map)),
            Case::new("holds.mapping.commit", || map("mapping-commit", How::Op(ZX_VMAR_OP_COMMIT))),
            Case::new("holds.mapping.map_range", || map("mapping-map-range", How::Op(ZX_VMAR_OP_MAP_RANGE))),
            Case::new("holds.protect", || {
                unmap("protect", |vmar, at| vmar.protect(ZX_VM_PERM_READ, at, LESS as usize))
            }),
            Case::new("holds.read", || copy("read", false)),
            Case::new("holds.read_memory", read_memory),
            Case::new("holds.resize", || resize("resize", false)),
            Case::new("holds.resize.mapped", || resize("resize-mapped", true)),
            Case::new("holds.transfer", transfer),
            Case::new("holds.unmap", || unmap("unmap", |vmar, at| vmar.unmap(at, LESS as usize))),
            Case::new("holds.unmap.many", || many("unmap-many", |vmar, at, len| vmar.unmap(at, len))),
            Case::new("holds.write", || copy("write", true)),
            Case::new("holds.zero.large", || op("zero-large", ZX_VMO_OP_ZERO, false)),
            Case::new("holds.zero.mapped", || op_on_mapped("zero-mapped", ZX_VMO_OP_ZERO)),
        ];
        all.extend(calls::cases());
        all.extend(lists::cases());
        all.extend(memory::cases());
        all.extend(page_metadata::cases());
        all.extend(shared_vmo::cases());
        all.extend(streams::cases());
        all.extend(tasks::cases());
        all.extend(waits::cases());
        all.into_iter().map(named).collect()
    }

    /// Uses all memory once. seL4 clears a piece of memory as a whole before its first use, and the pieces at boot are
    /// up to half of the machine's memory (`CAVEATS.md`). That happens once in the system's life and is no part of a
    /// call.
    fn use_all() {
        const PIECE: u64 = 16 << 20;
        let mut held = Vec::new();
        while let Ok(vmo) = Vmo::create(PIECE, 0)
            && vmo.op_range(ZX_VMO_OP_COMMIT, 0, PIECE).is_ok()
        {
            held.push(vmo);
        }
    }

    pub fn main() -> ExitCode {
        use_all();
        Program { name: "holds", cases, known: calls::KNOWN, child }.main()
    }
}

#[cfg(target_os = "fuchsia")]
fn main() -> std::process::ExitCode {
    fuchsia::main()
}

#[cfg(not(target_os = "fuchsia"))]
fn main() {
    eprintln!("holds: there is nothing to hold here");
}
