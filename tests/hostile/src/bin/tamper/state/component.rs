//! A native component as the victim: a program on the bare kernel beside the instance. It has x87 and vector registers
//! of its own, flags, and bases of FS and GS if the kernel allows them, and checks them whenever it runs
//! (`component/victim`).
//!
//! Attackers call it straight after a change, or give up the processor in all the ways in which they do among
//! themselves. These cases need a system with that component: `./hafnon test hostile.native-state` describes one.

use abi::HAFNON_ENDPOINT_CALL;
use conformance::check::{Case, Failure, Outcome, ensure, equal};
use conformance::test_process::OwnJob;
use hostile::neighbour::Neighbour;
use zx::{Endpoint, Slot, Words};

use super::code::{self, Change, CheckedRegisters, WAYS, YieldMethod};
use super::memory::Memory;
use super::runs::{RunMode, RunningCode};
use super::{ATTACKER, Duration, Instant, PATIENCE, VICTIM, thread, told};

pub fn cases() -> Vec<Case> {
    vec![
        crate::case("native.state.selectors", |_| all(&code::SELECTORS)),
        crate::case("native.state.stack_segment", stack_segment),
        crate::case("native.state.bases", |_| all(&code::BASES)),
        crate::case("native.state.flags", |_| all(&code::FLAGS)),
        crate::case("native.state.nested_task", |_| all(&[code::NESTED_TASK])),
        crate::case("native.state.x87", |_| all(&code::X87)),
        crate::case("native.state.vectors", |_| all(&code::VECTORS)),
        crate::case("native.state.extensions", |_| by_calls(&code::EXTENSIONS)),
        crate::case("native.state.processors", |_| spinning(RunMode::Processor)),
        crate::case("native.state.restricted", |_| spinning(RunMode::Restricted)),
        crate::case("native.state.breakpoints", breakpoints),
        crate::case("native.state.behind", behind),
    ]
}

/// The name of its endpoint.
const NAME: &str = "state";
/// The label of the request to check its state.
const LOOK: u64 = 1;
const BEGIN: u64 = 2;
/// What it can report as wrong, by number.
const WRONG: [&str; 9] = [
    "flags",
    "SS",
    "FS",
    "GS",
    "x87's control and status words",
    "MXCSR",
    "st0 to st7",
    "xmm0 to xmm15",
    "ymm0 to ymm15",
];

/// How often it yields between two checks, and for how many microseconds it continues to check afterwards.
const BESIDE: [u64; 2] = [200, 1000];
/// A single check.
const ONCE: [u64; 2] = [0, 0];
/// Words that it must return unchanged; most travel in the IPC buffers of both sides.
const BACK: [u64; 12] = [0x5ec2_e7b0_b1b2_b3b4; 12];
/// The least number of changes while it checks, and of requests.
const CHANGES: u64 = 50;
const ROUNDS: u32 = 3;

/// The victim.
struct Component {
    endpoint: Endpoint,
    slot: Slot,
    looks: u64,
    /// A word that it changes at each check.
    word: u64,
}

impl Component {
    /// Finds the component and makes it fill its registers anew, independent of earlier cases.
    fn begin() -> Result<Component, Failure> {
        let root = zx::startup::resource().ok_or("this program was not given the root resource")?;
        let endpoint = Endpoint::find(&root, NAME)?;
        let slot = endpoint.mint_here(&zx::startup::thread_self(), HAFNON_ENDPOINT_CALL, VICTIM as u32)?;
        let mut component = Component { endpoint, slot, looks: 0, word: 0 };
        let bases = super::tells(code::TELLS_BASE)?.is_some();
        let mut words = Words::new(&[bases.into()]);
        equal(component.slot.call(BEGIN, &mut words)?, BEGIN)?;
        component.word = *words.as_slice().first().ok_or("it does not tell its address")?;
        Ok(component)
    }

    /// Makes it check its state, beside others or once; fails if something is wrong.
    fn looks(&mut self, order: [u64; 2]) -> Outcome {
        let mut words = Words::new(&[&order[..], &BACK[..]].concat());
        equal(self.slot.call(LOOK, &mut words)?, LOOK)?;
        let [looks, what, found, wanted, back @ ..] = words.as_slice() else {
            return Err("its answer is short".into());
        };
        ensure(*looks > self.looks + order[0], "it has not looked")?;
        self.looks = *looks;
        equal(back, &BACK)?;
        if let Some(wrong) = what.checked_sub(1) {
            let what = WRONG.get(wrong as usize).unwrap_or(&"?");
            return Err(format!("the component has lost its {what}: {found:#x} in place of {wanted:#x}").into());
        }
        Ok(())
    }
}

impl Drop for Component {
    fn drop(&mut self) {
        // If it has ended, the slot is empty already.
        let _ = Endpoint::delete(&zx::startup::thread_self(), self.slot.number());
    }
}

/// The component checks its state beside an attacker that makes a change and gives up the processor.
fn beside(change: &Change<'_>, way: YieldMethod, place: RunMode) -> Outcome {
    beside_with(change, way, place, |_, _| Ok(()))
}

/// The same, with something done to the attacker first.
fn beside_with(
    change: &Change<'_>,
    way: YieldMethod,
    place: RunMode,
    prepare: impl FnOnce(&Component, &RunningCode) -> Outcome,
) -> Outcome {
    let mut component = Component::begin()?;
    let (memory, job) = (super::shared()?, OwnJob::new()?);
    let code = code::attacker(change.code, way);
    let attacker = match place {
        RunMode::Thread(0) => RunningCode::start_asking(&job, &component.endpoint, &code, &memory, ATTACKER)?,
        place => RunningCode::start(&job, place, &code, &memory, ATTACKER)?,
    };
    prepare(&component, &attacker)?;
    // While the component serves one caller it serves no other, and its priority is higher than that of this process's
    // code.
    let apart = way == YieldMethod::Asks || place != RunMode::Thread(0);
    let (start, mut changes, mut rounds) = (Instant::now(), 0, 0);
    while changes < CHANGES || rounds < ROUNDS {
        rounds += 1;
        memory.wind()?;
        let before = memory.turns(ATTACKER)?.0;
        if apart {
            thread::sleep(Duration::from_millis(1));
            component.looks(ONCE)?;
        } else {
            component.looks(BESIDE)?;
        }
        let made = memory.turns(ATTACKER)?.0;
        changes += made - before;
        if attacker.has_ended()? {
            ensure(change.refused && made == 0, &format!("the attacker has ended after {made} changes"))?;
            break;
        }
        ensure(start.elapsed() < PATIENCE, &format!("{changes} changes only"))?;
    }
    attacker.end()?;
    component.looks(ONCE)
}

/// Changes by a thread, in all ways, and by calls of the component.
fn all(changes: &[Change<'_>]) -> Outcome {
    for change in changes {
        for way in WAYS {
            told(change, way, "", beside(change, way, RunMode::Thread(0)))?;
        }
    }
    by_calls(changes)
}

/// Changes by a thread that calls the component after each of them.
fn by_calls(changes: &[Change<'_>]) -> Outcome {
    changes.iter().try_for_each(|change| {
        told(change, YieldMethod::Asks, "", beside(change, YieldMethod::Asks, RunMode::Thread(0)))
    })
}

/// Every value that SS could have.
fn stack_segment(_: &mut Neighbour) -> Outcome {
    (0..0x80).step_by(8).try_for_each(|entry| {
        let name = format!("mov ss, {:#x}", entry | 3);
        by_calls(&[Change { name: &name, code: &code::stack_segment(entry | 3), refused: true }])
    })
}

/// Changes by code that makes no calls of its own, in a sub-domain or in restricted mode.
fn spinning(place: RunMode) -> Outcome {
    let spins = YieldMethod::Spins;
    super::some_of_all()
        .iter()
        .try_for_each(|change| told(change, spins, &format!(", {place:?}"), beside(change, spins, place)))
}

/// Breakpoints of attackers on a word of the component.
fn breakpoints(_: &mut Neighbour) -> Outcome {
    let change = Change { name: "breakpoints", code: &[0x90], refused: false };
    WAYS.into_iter().chain([YieldMethod::Asks]).try_for_each(|way| {
        let prepare = |component: &Component, attacker: &RunningCode| attacker.watch_word(component.word);
        told(&change, way, "", beside_with(&change, way, RunMode::Thread(0), prepare))
    })
}

/// An attacker calls the component; then a thread of the same number in another process runs. That thread must keep its
/// state, although the component, which ran in between, has no bases if the kernel lets programs do without.
fn behind(_: &mut Neighbour) -> Outcome {
    let changes = [&code::SELECTORS[..], &code::FLAGS, &code::X87, &code::VECTORS].concat();
    changes
        .iter()
        .try_for_each(|change| told(change, YieldMethod::Asks, ", beside one who asks too", called_by_both(change)))
}

fn called_by_both(change: &Change<'_>) -> Outcome {
    let mut component = Component::begin()?;
    let (memory, job) = (super::shared()?, OwnJob::new()?);
    let start = |code: &[u8], number| RunningCode::start_asking(&job, &component.endpoint, code, &memory, number);
    let victim = start(&code::victim(CheckedRegisters { enters: false, asks: true, ..super::has_all() }), VICTIM)?;
    let attacker = start(&code::attacker(change.code, YieldMethod::Asks), ATTACKER)?;
    let turns = |memory: &Memory, number| memory.turns(number).map(|(turns, _)| turns);
    super::wait(|| {
        super::is_right(&memory, &victim)?;
        let made = turns(&memory, ATTACKER)?;
        if attacker.has_ended()? {
            ensure(change.refused && made == 0, &format!("the attacker has ended after {made} changes"))?;
            return Ok(true);
        }
        Ok(made >= CHANGES && turns(&memory, VICTIM)? >= CHANGES)
    })?;
    component.looks(ONCE)?;
    super::is_right(&memory, &victim)?;
    attacker.end()?;
    victim.end()
}
