//! The sweep over all requests for memory of one kind, for one scene.

use std::thread;
use std::time::Duration;

use conformance::census::{Census, Counter};
use conformance::check::{Case, Failure, Outcome, ensure};
use hostile::neighbour::Neighbour;
use zx::{Debuglog, Resource, Unowned};

use crate::actor::{Actor, SceneResult};
use crate::scenes;

/// The kinds of memory whose requests fail, by the server's names.
const KINDS: [&str; 6] = ["frame", "chunk", "unit", "slot", "heap", "reserve"];
/// Most requests that fail in a case that does not let each fail.
const MOST: u64 = 24;
/// Something that a play used is a leak if it stays in each of this many plays with the same failing request.
const ROUNDS: usize = 3;
/// With fewer requests than this, a play may need none because an earlier play left memory.
const FEW: u64 = 8;
/// How often the counts are read at most until they no longer change.
const SETTLES: usize = 20;

/// The cases for each scene and kind.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (group, most) in [("allocations", MOST), ("every-allocation", u64::MAX)] {
        for &(scene, _) in scenes::ALL {
            for kind in KINDS {
                for on in [false, true] {
                    let name = format!("{group}.{scene}.{kind}{}", if on { "-on" } else { "" });
                    cases.push(Case::new(&name, move || sweep(scene, kind, on, most)));
                }
            }
        }
    }
    cases
}

/// What setting a plan needs: the root resource, and the log in which the result arrives.
struct FailurePlan {
    resource: Unowned<'static, Resource>,
    log: Debuglog,
}

/// The result of a plan.
#[derive(Clone, Copy, Debug, Default)]
struct PlanOutcome {
    made: u64,
    refused: u64,
}

impl FailurePlan {
    fn new() -> Result<FailurePlan, Failure> {
        let resource = zx::startup::resource().ok_or("this program was not given the root resource")?;
        let log = Debuglog::create(&resource, abi::ZX_LOG_FLAG_READABLE)?;
        Ok(FailurePlan { resource, log })
    }

    /// Sets a plan: a task's requests for memory of a kind fail, from this request on.
    fn begin(&self, kind: &str, first: u64, count: u64, koid: u64, on: bool) -> zx::Result<()> {
        let on = if on { " on" } else { "" };
        zx::debug_send_command(&self.resource, &format!("refuse {kind} {first} {count} {koid}{on}"))
    }

    /// Ends the plan; returns its result.
    fn end(&self) -> Result<PlanOutcome, Failure> {
        zx::debug_send_command(&self.resource, "refuse")?;
        let mut record = [0; abi::ZX_LOG_RECORD_MAX];
        let mut found = None;
        while let Ok(length) = self.log.read(&mut record) {
            let head = size_of::<abi::zx_log_record_t>() - abi::ZX_LOG_RECORD_DATA_MAX;
            let text = String::from_utf8_lossy(&record[head..length]).into_owned();
            let words: Vec<&str> = text.split([' ', ',']).collect();
            if let ["refuse:", "made", made, "", "refused", refused, ..] = words.as_slice() {
                found =
                    made.parse().ok().zip(refused.parse().ok()).map(|(made, refused)| PlanOutcome { made, refused });
            }
        }
        found.ok_or_else(|| "the kernel does not tell what it refused".into())
    }
}

/// A scene with its actor, played again and again.
struct Stage {
    scene: &'static str,
    actor: Option<Actor>,
    refusal: FailurePlan,
    counter: Counter,
}

impl Stage {
    fn new(scene: &'static str) -> Result<Stage, Failure> {
        let counter = Counter::new().ok_or("the kernel does not tell its counts")?;
        Ok(Stage { scene, actor: None, refusal: FailurePlan::new()?, counter })
    }

    /// The counts while nothing is being done.
    fn count(&self) -> Result<Census, Failure> {
        let count = || self.counter.take().ok_or_else(|| Failure::from("the kernel does not tell its counts"));
        let mut last = count()?;
        for _ in 0..SETTLES {
            thread::sleep(Duration::from_millis(5));
            let now = count()?;
            if now == last {
                break;
            }
            last = now;
        }
        Ok(last)
    }

    /// An actor that has played before.
    fn actor(&mut self) -> Result<&Actor, Failure> {
        if let Some(actor) = &self.actor
            && !actor.is_there()?
        {
            self.end()?;
        }
        if self.actor.is_none() {
            let actor = Actor::start(self.scene)?;
            for _ in 0..2 {
                if let SceneResult::Wrong(what) = actor.play()? {
                    return Err(format!("without any refusal: {what}").into());
                }
            }
            self.actor = Some(actor);
        }
        self.actor.as_ref().ok_or_else(|| "no actor".into())
    }

    /// A play during which memory requests fail.
    fn play(&mut self, kind: &str, first: u64, count: u64, on: bool) -> Result<(SceneResult, PlanOutcome), Failure> {
        let koid = self.actor()?.koid;
        self.refusal.begin(kind, first, count, koid, on)?;
        let played = self.actor.as_ref().map_or_else(|| Err("no actor".into()), Actor::play);
        let made = self.refusal.end()?;
        let played = played?;
        if let SceneResult::Ended = played {
            self.end()?;
        }
        Ok((played, made))
    }

    /// Ends the actor.
    fn end(&mut self) -> Outcome {
        self.actor.take().map_or(Ok(()), Actor::end)
    }

    /// A play with one failing request: the actor must handle the error, and what it used must come back.
    fn refuse(&mut self, kind: &str, number: u64, on: bool) -> Result<PlanOutcome, Failure> {
        let mut left = String::new();
        for _ in 0..ROUNDS {
            self.actor()?;
            let before = self.counter.take().ok_or("the kernel does not tell its counts")?;
            let (played, made) = self.play(kind, number, 1, on)?;
            match played {
                SceneResult::Wrong(what) => return Err(what.into()),
                // What it leaves is checked after the sweep.
                SceneResult::Ended => return Ok(made),
                SceneResult::Refused if made.refused == 0 => return Err("it was refused memory by nobody".into()),
                SceneResult::Whole | SceneResult::Refused => {}
            }
            match self.counter.returned_within(&before, Duration::from_millis(100)) {
                Ok(()) => return Ok(made),
                Err(what) => left = what,
            }
        }
        Err(format!("not everything comes back: {left}").into())
    }
}

/// The case. It repeats a play after which something is left, because this process uses a little more when it does
/// something for the first time.
fn sweep(scene: &'static str, kind: &'static str, on: bool, most: u64) -> Outcome {
    let mut stage = Stage::new(scene)?;
    stage.actor()?;
    stage.end()?;
    let mut left = Ok(());
    for _ in 0..ROUNDS {
        let before = stage.count()?;
        refuse_all(&mut stage, kind, on, most)?;
        stage.end()?;
        left = stage.counter.returned(&before);
        if left.is_ok() {
            break;
        }
    }
    Ok(left?)
}

fn refuse_all(stage: &mut Stage, kind: &'static str, on: bool, most: u64) -> Outcome {
    // Twice: the second play does not request what is kept from the first.
    let mut all = PlanOutcome::default();
    for _ in 0..2 {
        let (played, made) = stage.play(kind, 0, 0, false)?;
        ensure(matches!(played, SceneResult::Whole), "the scene cannot be played")?;
        all = made;
    }
    let step = all.made.div_ceil(most).max(1);
    let mut number = (kind.len() as u64 + u64::from(on)) % step;
    let mut refused = 0;
    loop {
        let made = stage.refuse(kind, number, on).map_err(|why| format!("{kind} {number} of {}: {why}", all.made))?;
        refused += u64::from(made.refused > 0);
        // The number of requests varies a little between plays.
        if made.refused == 0 && number >= all.made {
            break;
        }
        number += step;
    }
    // With few requests, a play may use what an earlier one has left.
    ensure(all.made < FEW || refused > 0, "nothing was refused")?;
    eprintln!("refused {} {kind}{} {refused} of {}", stage.scene, if on { "-on" } else { "" }, all.made);
    beside(stage, kind, all.made, on)
}

/// Lets some more requests fail beside a neighbour, which must notice nothing.
fn beside(stage: &mut Stage, kind: &str, all: u64, on: bool) -> Outcome {
    let mut neighbour = Neighbour::start()?;
    neighbour.goes_on()?;
    for number in [0, all / 3, all * 2 / 3] {
        stage.play(kind, number, 2, on)?;
    }
    neighbour.goes_on()
}
