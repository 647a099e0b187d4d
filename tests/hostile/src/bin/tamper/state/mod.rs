//! Processor state: attackers change what a program can change of it, again and again, and give up the processor;
//! victims must keep their state.
//!
//! `docs/security.md` lists the state and how the system treats it. The next thread to run has its IPC buffer at the
//! same address as the attacker, its FS base is the attacker's, and it belongs to the same job, so that no other thread
//! runs in between. The neighbour that every case has works beside them.

mod code;
mod component;
mod memory;
mod runs;

use std::net::UdpSocket;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use std::{fs, thread};

use conformance::check::{Case, Failure, Outcome, ensure, equal};
use conformance::test_process::OwnJob;
use hostile::neighbour::Neighbour;
use zx::Restricted;

use code::{Change, CheckedRegisters, WAYS, WRONG, YieldMethod};
use memory::Memory;
use runs::{RunMode, RunningCode};

pub fn cases() -> Vec<Case> {
    vec![
        crate::case("tamper.state.selectors", selectors),
        crate::case("tamper.state.stack_segment", stack_segment),
        crate::case("tamper.state.bases", |_| all(&code::BASES, &WAYS)),
        crate::case("tamper.state.flags", |_| all(&code::FLAGS, &WAYS)),
        crate::case("tamper.state.nested_task", |_| all(&[code::NESTED_TASK], &WAYS)),
        crate::case("tamper.state.x87", |_| all(&code::X87, &WAYS)),
        crate::case("tamper.state.vectors", |_| all(&code::VECTORS, &WAYS)),
        crate::case("tamper.state.extensions", |_| all(&code::EXTENSIONS, &[YieldMethod::Yields])),
        crate::case("tamper.state.enabled", enabled),
        crate::case("tamper.state.breakpoints", breakpoints),
        crate::case("tamper.state.processors", processors),
        crate::case("tamper.state.restricted", restricted),
        crate::case("tamper.state.newcomers", newcomers),
        crate::case("tamper.state.init", init),
    ]
    .into_iter()
    .chain(component::cases())
    .collect()
}

/// The numbers of their lines.
const ATTACKER: u64 = 0;
const VICTIM: u64 = 1;
/// The number of threads before an attacker's and a victim's, as many as ordinary programs have.
const THREADS: usize = 4;
/// How long a wait may last.
const PATIENCE: Duration = Duration::from_secs(30);

/// Whether the kernel switches AVX's registers; it has enabled them in the processor then.
fn has_avx() -> bool {
    std::is_x86_feature_detected!("avx")
}

/// What a victim that is a thread checks.
fn has_all() -> CheckedRegisters {
    CheckedRegisters { vectors: true, avx: has_avx(), enters: true, asks: false }
}

/// Fails if the victim found something wrong.
fn is_right(memory: &Memory, victim: &RunningCode) -> Outcome {
    match memory.turns(VICTIM)? {
        (turns, 0) if victim.has_ended()? => Err(format!("the victim has ended, after {turns} turns").into()),
        (_, 0) => Ok(()),
        (turns, number) => {
            let what = WRONG.get(number as usize - 1).unwrap_or(&"?");
            Err(format!("after {turns} turns the victim has lost {what} ({:#x})", memory.told(VICTIM)?).into())
        }
    }
}

/// Null selectors, and all others that a program can load.
fn all_selectors() -> Result<Vec<u64>, Failure> {
    const NULL: [u64; 4] = [0, 1, 2, 3];
    let (memory, job) = (Memory::new(&NULL)?, OwnJob::new()?);
    let lists = RunningCode::start(&job, RunMode::Thread(0), code::LISTS_SELECTORS, &memory, ATTACKER)?;
    wait(|| lists.has_ended())?;
    memory.selectors()
}

/// The shared pages with all that attackers load.
fn shared() -> Result<Memory, Failure> {
    static SELECTORS: OnceLock<Vec<u64>> = OnceLock::new();
    if SELECTORS.get().is_none() {
        let _ = SELECTORS.set(all_selectors()?);
    }
    Memory::new(SELECTORS.get().ok_or("there are no selectors")?)
}

/// A victim makes turns beside an attacker that makes a change and gives up the processor.
fn beside(change: &Change<'_>, way: YieldMethod, attacker: RunMode, victim: (RunMode, CheckedRegisters)) -> Outcome {
    beside_with(change, way, attacker, victim, |_| Ok(()))
}

/// The same, with something done to the attacker first.
fn beside_with(
    change: &Change<'_>,
    way: YieldMethod,
    attacker: RunMode,
    (victim, has): (RunMode, CheckedRegisters),
    prepare: impl FnOnce(&RunningCode) -> Outcome,
) -> Outcome {
    let turns = if matches!(way, YieldMethod::Yields | YieldMethod::Calls) && has.enters { 100 } else { 8 };
    let (memory, job) = (shared()?, OwnJob::new()?);
    let victim = RunningCode::start(&job, victim, &code::victim(has), &memory, VICTIM)?;
    let attacker = RunningCode::start(&job, attacker, &code::attacker(change.code, way), &memory, ATTACKER)?;
    prepare(&attacker)?;
    let start = Instant::now();
    loop {
        memory.wind()?;
        is_right(&memory, &victim)?;
        let (made, done) = (memory.turns(ATTACKER)?.0, memory.turns(VICTIM)?.0);
        if attacker.has_ended()? {
            ensure(change.refused && made == 0, &format!("the attacker has ended after {made} changes"))?;
            break;
        }
        if made >= turns && done >= turns {
            break;
        }
        ensure(start.elapsed() < PATIENCE, &format!("{made} changes and {done} turns only"))?;
        thread::sleep(Duration::from_millis(1));
    }
    // The victim makes progress.
    let done = memory.turns(VICTIM)?.0;
    wait(|| is_right(&memory, &victim).and_then(|()| Ok(memory.turns(VICTIM)?.0 > done + 4)))?;
    attacker.end()?;
    victim.end()
}

/// Waits until a condition holds.
fn wait(mut is_so: impl FnMut() -> Result<bool, Failure>) -> Outcome {
    let start = Instant::now();
    while !is_so()? {
        ensure(start.elapsed() < PATIENCE, "nothing happens")?;
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Adds the change and the way to an error.
fn told(change: &Change<'_>, way: YieldMethod, what: &str, outcome: Outcome) -> Outcome {
    outcome.map_err(|failure| format!("{} ({way:?}{what}): {failure}", change.name).into())
}

/// Changes in each of these ways, by a thread beside a thread of the same number.
fn all(changes: &[Change<'_>], ways: &[YieldMethod]) -> Outcome {
    let thread = RunMode::Thread(0);
    for change in changes {
        for &way in ways {
            told(change, way, "", beside(change, way, thread, (thread, has_all())))?;
        }
    }
    Ok(())
}

/// Every loadable selector, beside threads of the same number and of others.
fn selectors(_: &mut Neighbour) -> Outcome {
    for change in &code::SELECTORS {
        for way in WAYS {
            for number in 0..THREADS {
                let victim = (RunMode::Thread(number), has_all());
                told(change, way, &format!(", thread {number}"), beside(change, way, RunMode::Thread(number), victim))?;
            }
        }
    }
    let (change, way, other) = (&code::SELECTORS[0], YieldMethod::Yields, (RunMode::Thread(2), has_all()));
    told(change, way, ", others", beside(change, way, RunMode::Thread(1), other))
}

/// Every value that SS could have.
fn stack_segment(_: &mut Neighbour) -> Outcome {
    let (thread, way) = (RunMode::Thread(0), YieldMethod::Calls);
    for selector in (0..0x80).step_by(8).map(|entry| entry | 3) {
        let change = Change { name: "mov ss", code: &code::stack_segment(selector), refused: true };
        told(&change, way, &format!(", {selector:#x}"), beside(&change, way, thread, (thread, has_all())))?;
    }
    Ok(())
}

/// The word that a program of a few instructions stores; nothing if the processor does not have them.
fn tells(code: &[u8]) -> Result<Option<u64>, Failure> {
    let (memory, job) = (shared()?, OwnJob::new()?);
    let tells = RunningCode::start(&job, RunMode::Thread(0), code, &memory, ATTACKER)?;
    wait(|| tells.has_ended())?;
    Ok(if memory.turns(ATTACKER)?.0 == 0 { None } else { Some(memory.told(ATTACKER)?) })
}

/// The kernel has enabled only the state that it switches: x87, SSE, AVX. Shadow stacks are off.
fn enabled(_: &mut Neighbour) -> Outcome {
    const SWITCHED: u64 = 7;
    let components = tells(code::TELLS_COMPONENTS)?.unwrap_or_default();
    equal(components & !SWITCHED, 0)?;
    ensure(matches!(tells(code::TELLS_SHADOW_STACK)?, None | Some(1)), "there is a shadow stack")
}

/// Breakpoints of an attacker, which it does not come to itself, where the victim executes, reads and writes: another
/// process's thread, and code in a sub-domain, at the same addresses; and a thread in restricted mode.
fn breakpoints(_: &mut Neighbour) -> Outcome {
    let change = Change { name: "breakpoints", code: &[0x90], refused: false };
    let thread = RunMode::Thread(0);
    let general = CheckedRegisters { vectors: false, avx: false, ..has_all() };
    let inside = CheckedRegisters { enters: runs_foreign(), ..has_all() };
    for way in WAYS {
        let length = code::attacker(change.code, way).len();
        for (victim, has) in [(thread, has_all()), (RunMode::Processor, inside), (RunMode::Restricted, general)] {
            let what = format!(", beside {victim:?}");
            let at = code::victim(has).len() - code::JUMP;
            ensure(at > length, "the victim's code is not longer than the attacker's")?;
            let prepare = |attacker: &RunningCode| attacker.watch(at, VICTIM);
            told(&change, way, &what, beside_with(&change, way, thread, (victim, has), prepare))?;
        }
    }
    Ok(())
}

/// The changes that code of virtual processors and in restricted mode makes.
fn some_of_all() -> Vec<Change<'static>> {
    let (x87, vectors) = (code::X87[2], code::VECTORS);
    [&code::SELECTORS[..], &code::BASES[..2], &code::FLAGS[..], &[x87], &vectors[..3], &vectors[4..5]].concat()
}

/// Attackers and victims in sub-domains, and each of them beside threads.
fn processors(_: &mut Neighbour) -> Outcome {
    let (thread, processor) = (RunMode::Thread(0), RunMode::Processor);
    // Some kernels do not run the system calls of such code.
    let inside = CheckedRegisters { enters: runs_foreign(), ..has_all() };
    for change in &some_of_all() {
        for (attacker, victim) in
            [(processor, (processor, inside)), (processor, (thread, has_all())), (thread, (processor, inside))]
        {
            let way = if attacker == thread { YieldMethod::Yields } else { YieldMethod::Spins };
            let what = format!(", {attacker:?} beside {:?}", victim.0);
            told(change, way, &what, beside(change, way, attacker, victim))?;
        }
    }
    Ok(())
}

fn runs_foreign() -> bool {
    Restricted::bind(&zx::startup::vmar_root_self()).is_ok()
}

/// The same in restricted mode, which shares x87 and vector registers with its thread.
fn restricted(_: &mut Neighbour) -> Outcome {
    let (thread, inside) = (RunMode::Thread(0), RunMode::Restricted);
    let (general, entering) =
        (CheckedRegisters { vectors: false, avx: false, ..has_all() }, [YieldMethod::Yields, YieldMethod::Sleeps]);
    for change in code::SELECTORS.iter().chain(&code::FLAGS) {
        for way in entering {
            told(change, way, ", beside restricted", beside(change, way, thread, (inside, general)))?;
        }
        told(
            change,
            YieldMethod::Spins,
            ", restricted",
            beside(change, YieldMethod::Spins, inside, (thread, has_all())),
        )?;
    }
    Ok(())
}

/// Whatever state a thread has at its end, the next user of its kernel object starts in the initial state: a thread of
/// the same process, and one of another process.
fn newcomers(_: &mut Neighbour) -> Outcome {
    for change in &some_of_all() {
        let memory = shared()?;
        for _ in 0..3 {
            let job = OwnJob::new()?;
            let ends = RunningCode::start(&job, RunMode::Thread(0), &code::ends_with(change.code), &memory, ATTACKER)?;
            wait(|| ends.has_ended())?;
            let next = RunningCode::start_new(&job, &code::newcomer(), &memory, VICTIM)?;
            wait(|| next.has_ended())?;
            let (turns, wrong) = memory.turns(VICTIM)?;
            let what = code::NEW.get(wrong as usize - usize::from(wrong > 0)).map_or("a base", |(what, _)| what);
            ensure(wrong == 0, &format!("after {}: what is not as new: {what}", change.name))?;
            ensure(turns > 0, &format!("after {}: it has ended", change.name))?;
            memory.0.write(&[0; 16], memory::line(VICTIM))?;
        }
    }
    Ok(())
}

/// Four attackers, one for each thread number, that give up the processor in this way.
fn attackers(job: &OwnJob, memory: &Memory, way: YieldMethod) -> Result<Vec<RunningCode>, Failure> {
    let attack = code::attacker(code::SELECTORS[1].code, way);
    (0..THREADS).map(|number| RunningCode::start(job, RunMode::Thread(number), &attack, memory, ATTACKER)).collect()
}

/// Programs are started beside attackers, which is work for `init`.
fn init(_: &mut Neighbour) -> Outcome {
    for way in [YieldMethod::Spins, YieldMethod::Yields, YieldMethod::Sleeps] {
        let (memory, job) = (shared()?, OwnJob::new()?);
        let attackers = attackers(&job, &memory, way)?;
        for _ in 0..5 {
            memory.wind()?;
            Neighbour::start()?.goes_on()?;
        }
        ensure(memory.turns(ATTACKER)?.0 > 0, "nobody attacks")?;
        attackers.into_iter().try_for_each(RunningCode::end)?;
    }
    Ok(())
}

/// The argument that makes this program keep services busy beside attackers, for a number of rounds.
pub const SERVICES: &str = "services";

/// Writes files and uses sockets beside attackers, in a system that has services.
pub fn beside_services(rounds: &str) -> ExitCode {
    let done = rounds.parse().map_err(|_| "that is no number of rounds".into()).and_then(services);
    match done {
        Ok(changes) => {
            println!("services: all is well after {changes} changes");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            println!("services: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn services(rounds: u32) -> Result<u64, Failure> {
    let mut changes = 0;
    for way in [YieldMethod::Spins, YieldMethod::Yields, YieldMethod::Sleeps] {
        let (memory, job) = (shared()?, OwnJob::new()?);
        let attackers = attackers(&job, &memory, way)?;
        let mut neighbour = Neighbour::start()?;
        for round in 0..rounds {
            memory.wind()?;
            let (path, text) = ("/tmp/state", format!("{way:?}, round {round}"));
            fs::write(path, &text)?;
            equal(fs::read_to_string(path)?, text.clone())?;
            let (one, other) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
            one.send_to(text.as_bytes(), other.local_addr()?)?;
            let mut bytes = [0; 64];
            let len = other.recv(&mut bytes)?;
            equal(&bytes[..len], text.as_bytes())?;
            neighbour.goes_on()?;
        }
        changes += memory.turns(ATTACKER)?.0;
        attackers.into_iter().try_for_each(RunningCode::end)?;
    }
    Ok(changes)
}
