//! `fuzz`: hostile programs in the system make random calls (`user/hostile`), and everything else must go on.
//!
//! The machine counts instructions and hears nothing of the host, so a seed says all: the same one gives the same calls
//! and the same answers, which the digest shows.

use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::build::{self, Built, What};
use crate::cli::{Accel, FuzzArgs};
use crate::conformance;
use crate::image::{Image, Mode};
use crate::paths::Paths;
use crate::qemu::Devices;
use crate::session::{End, Streams};
use crate::setup;
use crate::threads::Watcher;
use crate::ui::Ui;
use crate::words;

/// What a run may take beside its calls, and for each thousand of them: many times what it does take.
const TIME: Duration = Duration::from_secs(600);
const TIME_PER_THOUSAND: Duration = Duration::from_secs(2);

/// What a line with a call's counts begins with.
const COUNT: &str = "call ";

/// A call's counts: its name, how often it was made, how often it succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    name: String,
    reached: u64,
    succeeded: u64,
}

/// What came of a run.
#[derive(Debug)]
pub struct Found {
    counts: Vec<Count>,
    /// The program's own lines.
    pub said: Vec<String>,
    /// What went wrong.
    pub problem: Option<String>,
    time: Duration,
}

impl Found {
    fn read(output: &str) -> Found {
        let mut found = Found { counts: Vec::new(), said: Vec::new(), problem: None, time: Duration::ZERO };
        for line in output.lines() {
            match line.split_whitespace().collect::<Vec<_>>().as_slice() {
                ["call", name, reached, succeeded] => found.counts.push(Count {
                    name: (*name).to_string(),
                    reached: reached.parse().unwrap_or_default(),
                    succeeded: succeeded.parse().unwrap_or_default(),
                }),
                _ => found.said.push(line.to_string()),
            }
        }
        found
    }

    fn made(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(count.reached))
    }

    /// What was made and answered, as one number.
    pub fn digest(&self) -> Option<&str> {
        self.said.iter().find_map(|line| line.split_once("digest ")).map(|(_, digest)| digest)
    }
}

/// Runs the fuzzer; gives this process' exit code.
///
/// # Errors
/// Something does not build, or the machine cannot be started.
pub fn fuzz(paths: &Paths, args: &FuzzArgs) -> Result<u8> {
    let ui = Ui::new(false);
    setup::for_booting(&ui)?;
    let built = build::build(paths, &ui, What { tests: true, ..What::default() })?;
    let seed = args.seed.unwrap_or_else(|| u64::from(std::process::id()));
    println!("seed {seed}");
    let (follower, output) = channel();
    let telling = Watcher::none().start("output", move || tell(&output))?;
    let found = run(&built, args.calls, seed, Streams::Followed(follower));
    // The run has let go of its end, so this ends.
    telling.join()?;
    let found = found?;
    println!("{:>10} {:>10}", "made", "succeeded");
    for Count { name, reached, succeeded } in &found.counts {
        println!("{reached:>10} {succeeded:>10}  {name}");
    }
    let seconds = found.time.as_secs_f64();
    println!("{} calls in {seconds:.0} s, {:.0} a second", found.made(), found.made() as f64 / seconds);
    if let Some(problem) = &found.problem {
        println!("{problem}");
        println!("`./hafnon fuzz --calls {} --seed {seed}` repeats it", args.calls);
    }
    Ok(u8::from(found.problem.is_some()))
}

/// Tells what the program says as it says it, but for the counts, which come as a table in the end.
fn tell(output: &Receiver<Vec<u8>>) {
    let mut lines = words::Lines::default();
    let tell = |line: &str| {
        if !line.starts_with(COUNT) {
            println!("{}", words::visible(line));
        }
    };
    output.iter().for_each(|piece| lines.push(&piece, tell));
}

/// Boots the system for so many calls.
///
/// # Errors
/// The machine cannot be started.
pub fn run(built: &Built, calls: u64, seed: u64, streams: Streams) -> Result<Found> {
    let mut image = Image::new(built, true, &Devices::default())?;
    let time = TIME + TIME_PER_THOUSAND * u32::try_from(calls / 1000).context("so many calls take too long")?;
    image.add("config/tests", format!("fuzz\t{}\t0\t/boot/bin/fuzz\t{calls}\t{seed}\n", time.as_millis()))?;
    let bytes = image.finish(&Mode::Test, &[])?;
    let start = Instant::now();
    let outcome = conformance::boot(built, &bytes, Accel::Counting, streams, time)?;
    let mut found = Found::read(&String::from_utf8_lossy(&outcome.stdout()));
    found.time = start.elapsed();
    if outcome.end != End::Exit(0) {
        let said: Vec<&str> = outcome.said.iter().map(String::as_str).collect();
        let errors = String::from_utf8_lossy(&outcome.stderr()).into_owned();
        found.problem = Some(format!("{:?}\n{errors}{}", outcome.end, said.join("\n")));
    }
    Ok(found)
}

/// The same calls give the same answers.
///
/// # Errors
/// They do not, or something went wrong.
pub fn replays(built: &Built, calls: u64, seed: u64) -> Result<()> {
    let once = || run(built, calls, seed, Streams::Overheard);
    let runs = [once()?, once()?];
    for found in &runs {
        if let Some(problem) = &found.problem {
            bail!("{}\n{problem}", found.said.join("\n"));
        }
    }
    let [first, second] = &runs;
    match (first.digest(), second.digest()) {
        (Some(a), Some(b)) if a == b && first.counts == second.counts => Ok(()),
        digests => bail!("one seed gave two results: {digests:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_without_end() {
        let most = u64::MAX;
        let found = Found::read(&format!("call a {most} {most}\ncall b {most} 1\ncall c 99999999999999999999 -1\n"));
        assert_eq!((found.made(), found.counts.len()), (most, 3));
    }

    #[test]
    fn output() {
        let found = Found::read("call vmo_read 7 3\nfuzz: 7 calls, digest 00ff\nfuzz: all is well\n");
        assert_eq!(found.counts, [Count { name: "vmo_read".into(), reached: 7, succeeded: 3 }]);
        assert_eq!((found.made(), found.digest()), (7, Some("00ff")));
        assert_eq!(found.said.len(), 2);
    }
}
