//! `fuzz`: hostile programs in the system make random calls, or random requests to services (`tests/hostile`), and
//! everything else must keep working.
//!
//! The machine counts instructions and gets no input from the host, so a run depends only on its seed: the same seed
//! gives the same calls and the same answers, which the digest shows.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::args::FuzzArgs;
use xtask_build::devices::Devices;
use xtask_build::image::{Image, Mode};
use xtask_build::{BuildOptions, Built, setup};
use xtask_common::paths::Paths;
use xtask_common::threads::Watcher;
use xtask_common::ui::Ui;
use xtask_common::words;
use xtask_run::args::Accel;
use xtask_run::qemu::runtime_folder;
use xtask_run::session::{End, Streams};

/// Time limit of a run without its calls, and for each thousand of them: many times what they take.
const TIME: Duration = Duration::from_secs(600);
const TIME_PER_THOUSAND: Duration = Duration::from_secs(2);

/// Number of requests of one hostile program, and of the first one, which does not count.
const REQUESTS_OF_ONE: u64 = 20_000;
const FIRST_REQUESTS: u64 = 6000;
/// Size of the disk for the requests in MiB.
const DISK: u64 = 16;

/// The target of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fuzzed {
    /// System calls.
    Calls,
    /// Services.
    Services,
}

impl Fuzzed {
    /// The option that sets the number.
    pub fn option(self) -> &'static str {
        match self {
            Fuzzed::Calls => "--calls",
            Fuzzed::Services => "--requests",
        }
    }
}

/// Prefixes of the table's lines: a call's counts, and the counts of its results.
const TABLE: [&str; 2] = ["call ", "answer "];

/// A call's counts: its name, how often it was made, how often it succeeded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Count {
    name: String,
    reached: u64,
    succeeded: u64,
    /// The same for programs that try to exhaust a resource.
    wanted: [u64; 2],
    /// Each result and its count, the most frequent first.
    answers: Vec<(String, u64)>,
}

impl Count {
    /// Formats it as a line of the table.
    fn line(&self) -> String {
        let Count { name, reached, succeeded, wanted, answers } = self;
        let answers: Vec<String> = answers.iter().map(|(answer, count)| format!("{answer} {count}")).collect();
        let percent = *succeeded as f64 * 100.0 / (*reached).max(1) as f64;
        let wanted = if wanted[0] == 0 { String::new() } else { format!(" (greedy {} of {})", wanted[1], wanted[0]) };
        let answers = if answers.is_empty() { String::new() } else { format!(": {}", answers.join(", ")) };
        format!("{reached:>10} {succeeded:>10} {percent:>5.1} %  {name}{wanted}{answers}")
    }
}

/// The result of a run.
#[derive(Debug)]
pub struct Found {
    counts: Vec<Count>,
    /// The program's own lines.
    pub said: Vec<String>,
    /// The first problem.
    pub problem: Option<String>,
    time: Duration,
}

impl Found {
    fn read(output: &str) -> Found {
        let mut found = Found { counts: Vec::new(), said: Vec::new(), problem: None, time: Duration::ZERO };
        for line in output.lines() {
            match line.split_whitespace().collect::<Vec<_>>().as_slice() {
                ["call", name, counts @ ..] if counts.len() == 4 => {
                    let count = found.count(name);
                    let places = [&mut count.reached, &mut count.succeeded].into_iter().chain(&mut count.wanted);
                    places.zip(counts).for_each(|(place, count)| add(place, count));
                }
                ["answer", name, answer, more] => {
                    let answers = &mut found.count(name).answers;
                    let known = answers.iter().position(|(known, _)| known == answer).unwrap_or_else(|| {
                        answers.push(((*answer).to_string(), 0));
                        answers.len() - 1
                    });
                    add(&mut answers[known].1, more);
                    answers.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
                }
                _ => found.said.push(line.to_string()),
            }
        }
        found
    }

    /// The counts of a call: the sum over all workers.
    fn count(&mut self, name: &str) -> &mut Count {
        let known = self.counts.iter().position(|known| known.name == name).unwrap_or_else(|| {
            self.counts.push(Count { name: name.to_string(), ..Count::default() });
            self.counts.len() - 1
        });
        &mut self.counts[known]
    }

    fn made(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(count.reached).saturating_add(count.wanted[0]))
    }

    /// The digests of calls and results, one for each worker.
    pub fn digests(&self) -> Vec<&str> {
        self.said.iter().filter_map(|line| line.split_once("digest ")).map(|(_, digest)| digest).collect()
    }
}

/// Adds a number from a line.
fn add(place: &mut u64, more: &str) {
    *place = place.saturating_add(more.parse().unwrap_or_default());
}

/// Runs the fuzzer; returns this process' exit code.
///
/// # Errors
/// Something does not build, or the machine cannot be started.
pub fn fuzz(paths: &Paths, args: &FuzzArgs) -> Result<u8> {
    let ui = Ui::new(false);
    setup::for_booting(&ui)?;
    let built = xtask_build::build(paths, &ui, BuildOptions { tests: true, ..BuildOptions::default() })?;
    let seed = args.seed.unwrap_or_else(|| u64::from(std::process::id()));
    println!("seed {seed}");
    let (follower, output) = channel();
    let telling = Watcher::none().start("output", move || tell(&output))?;
    let (what, count) = args.requests.map_or((Fuzzed::Calls, args.calls), |count| (Fuzzed::Services, count));
    let found = run(&built, what, count, seed, Streams::Followed(follower));
    // The run has dropped its end of the channel, so this thread ends.
    telling.join()?;
    let found = found?;
    println!("{:>10} {:>10}", "made", "succeeded");
    found.counts.iter().for_each(|count| println!("{}", count.line()));
    let answers: usize = found.counts.iter().map(|count| count.answers.len()).sum();
    if what == Fuzzed::Calls {
        println!("{answers} different answers of {} calls", found.counts.len());
    }
    let seconds = found.time.as_secs_f64();
    println!("{} in {seconds:.0} s, {:.0} a second", found.made(), found.made() as f64 / seconds);
    if let Some(problem) = &found.problem {
        println!("{problem}");
        println!("`./hafnon fuzz {} {count} --seed {seed}` repeats it", what.option());
    }
    Ok(u8::from(found.problem.is_some()))
}

/// Prints the program's output as it comes, except the counts, which are printed as a table at the end.
fn tell(output: &Receiver<Vec<u8>>) {
    let mut lines = words::Lines::default();
    let tell = |line: &str| {
        if !TABLE.iter().any(|start| line.starts_with(start)) {
            println!("{}", words::visible(line));
        }
    };
    output.iter().for_each(|piece| lines.push(&piece, tell));
}

/// Boots the system for this many calls or requests.
///
/// # Errors
/// The machine cannot be started, or the disk cannot be created.
pub fn run(built: &Built, what: Fuzzed, count: u64, seed: u64, streams: Streams) -> Result<Found> {
    let folder = runtime_folder()?;
    let disk = (what == Fuzzed::Services).then(|| disk(folder.path())).transpose()?;
    let devices = Devices { disk, ..Devices::default() };
    let mut image = Image::new(built, true, &devices)?;
    let time = TIME + TIME_PER_THOUSAND * u32::try_from(count / 1000).context("so many take too long")?;
    let mode = match what {
        Fuzzed::Calls => {
            image.add("config/tests", format!("fuzz\t{}\t0\t/boot/bin/fuzz\t{count}\t{seed}\n", time.as_millis()))?;
            Mode::Test
        }
        Fuzzed::Services => {
            image.add_beside(&askers(count, seed))?;
            Mode::Run("/boot/bin/watch".into(), Vec::new())
        }
    };
    let bytes = image.finish(&mode, &[])?;
    let start = Instant::now();
    let outcome = xtask_conformance::boot_with(built, devices, &bytes, Accel::Counting, streams, time)?;
    let mut found = Found::read(&String::from_utf8_lossy(&outcome.stdout()));
    found.time = start.elapsed();
    let errors = String::from_utf8_lossy(&outcome.stderr()).into_owned();
    // A client that connects for the first time would not notice that a service has ended and been restarted.
    let service_ended = errors.lines().any(|line| line.contains("the service ") && line.contains(" ended"));
    if outcome.end != End::Exit(0) || service_ended {
        let said: Vec<&str> = outcome.said.iter().map(String::as_str).collect();
        found.problem = Some(format!("{:?}\n{errors}{}", outcome.end, said.join("\n")));
    }
    Ok(found)
}

/// The hostile programs that make requests, one after the other. After the first one, services have done everything at
/// least once. Then a pause follows in which resources in use are counted, and then the programs whose requests count.
fn askers(count: u64, seed: u64) -> Vec<Vec<String>> {
    let asks = |count: u64, seed: u64| vec!["requests".to_string(), count.to_string(), seed.to_string()];
    let programs = count.div_ceil(REQUESTS_OF_ONE);
    let mut all = vec![asks(FIRST_REQUESTS.min(count), seed ^ 1 << 40), vec!["requests".into(), "pause".into()]];
    all.extend((0..programs).map(|n| asks(count / programs, seed.wrapping_add(n << 41))));
    all
}

/// Creates a disk with an empty file system in a folder.
fn disk(folder: &Path) -> Result<PathBuf> {
    setup::for_disks(&Ui::new(false))?;
    let path = folder.join("disk.img");
    fs::File::create(&path).and_then(|file| file.set_len(DISK << 20)).context("cannot make a disk")?;
    let made = Command::new("mkfs.vfat").args(["-F", "16"]).arg(&path).output().context("mkfs.vfat cannot be run")?;
    if made.status.success() { Ok(path) } else { bail!("mkfs.vfat: {}", String::from_utf8_lossy(&made.stderr)) }
}

/// Checks that the same calls give the same answers.
///
/// # Errors
/// The answers differ, or a run failed.
pub fn replays(built: &Built, what: Fuzzed, count: u64, seed: u64) -> Result<()> {
    let once = || run(built, what, count, seed, Streams::Overheard);
    let runs = [once()?, once()?];
    for found in &runs {
        if let Some(problem) = &found.problem {
            bail!("{}\n{problem}", found.said.join("\n"));
        }
    }
    let [first, second] = &runs;
    let digests = [first.digests(), second.digests()];
    if digests[0].is_empty() || digests[0] != digests[1] || first.counts != second.counts {
        bail!("one seed gave two results: {digests:?}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_without_end() {
        let most = u64::MAX;
        let found = Found::read(&format!(
            "call a {most} {most} 0 0\ncall b {most} 1 0 0\ncall c 99999999999999999999 -1 0 0\n"
        ));
        assert_eq!((found.made(), found.counts.len()), (most, 3));
    }

    #[test]
    fn output() {
        let table = "call vmo_read 7 3 0 0\nanswer vmo_read OK 3\nanswer vmo_read BAD_HANDLE 4\n";
        let found = Found::read(&format!("{table}fuzz: 7 calls, digest 00ff\nfuzz: all is well\n"));
        let answers = vec![("BAD_HANDLE".to_string(), 4), ("OK".to_string(), 3)];
        assert_eq!(
            found.counts,
            [Count { name: "vmo_read".into(), reached: 7, succeeded: 3, wanted: [0; 2], answers }]
        );
        assert!(found.counts[0].line().ends_with(" 42.9 %  vmo_read: BAD_HANDLE 4, OK 3"));
        assert_eq!((found.made(), found.digests()), (7, vec!["00ff"]));
        assert_eq!(found.said.len(), 2);
    }
}
