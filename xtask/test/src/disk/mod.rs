//! Synced data survives a power cut at any time: `./hafnon test disk`.
//!
//! The program `churn` changes files in the booted system, on a disk whose writes and flushes QEMU logs. All states
//! that a power cut can leave are derived from that log ([`cuts::replay`]). Each is read and judged on the host, by the
//! same file system that the system mounts. e2fsck checks some of the ext4 states.

mod kills;

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use cuts::image::Image;
use cuts::judge::{RenameGuarantee, judge};
use cuts::log;
use cuts::plan::{Abilities, history};
use cuts::replay::{Replay, System};
use files::power_cut_images::{Ext4Images, FatImages};
use tempfile::TempDir;

use super::hostile::test_program;
use super::volume::tool;
use super::{Cases, Context, Test};
use crate::args::TestArgs;
use kills::Ending;
use xtask_build::setup;
use xtask_run::session::End;
use xtask_run::{Capture, PATIENCE};

/// A kind of file system.
#[derive(Clone, Copy, Debug)]
struct Kind {
    name: &'static str,
    /// The argument of `churn`.
    abilities: &'static str,
    promise: RenameGuarantee,
    mib: u64,
    make: &'static [&'static str],
    /// In one of this many states the system is started and cut again; more rarely if there are many operations.
    starts: usize,
}

const KINDS: [Kind; 4] = [
    Kind {
        name: "ext4-4k",
        abilities: "ext4",
        promise: RenameGuarantee::Whole,
        mib: 24,
        make: &["mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096"],
        starts: 60,
    },
    Kind {
        name: "ext4-1k",
        abilities: "ext4",
        promise: RenameGuarantee::Whole,
        mib: 24,
        make: &["mke2fs", "-q", "-F", "-t", "ext4", "-b", "1024"],
        starts: 60,
    },
    Kind {
        name: "fat16",
        abilities: "fat",
        promise: RenameGuarantee::Each,
        mib: 16,
        make: &["mkfs.vfat", "-F", "16", "-s", "4"],
        starts: 20,
    },
    Kind {
        name: "fat32",
        abilities: "fat",
        promise: RenameGuarantee::Each,
        mib: 40,
        make: &["mkfs.vfat", "-F", "32", "-s", "1"],
        starts: 60,
    },
];

/// Default number of operations.
const FEW: u64 = 60;
/// Number of states that e2fsck checks: one per this many operations, or at least this many.
const OPERATIONS_A_SAMPLE: u64 = 10;
const LEAST_SAMPLES: u64 = 30;
/// Additional time limit per thousand operations.
const TIME_PER_THOUSAND: Duration = Duration::from_secs(600);

/// Numbers of killed machines, of machines that get SIGTERM, and of killed drivers; and the numbers with `--all`.
const ENDS: [u64; 3] = [3, 2, 5];
const ALL_ENDS: [u64; 3] = [100, 20, 20];

/// Tests for each kind of file system.
pub fn tests(args: &TestArgs) -> Vec<Test> {
    let (count, seed) = (args.cuts.unwrap_or(if args.all { 3000 } else { FEW }), args.seed);
    let [kills, terms, drivers] = if args.all { ALL_ENDS } else { ENDS };
    let of_kind = move |kind: Kind| {
        let name = |what: &str| format!("disk.{what}.{}", kind.name);
        let ends = move |name: String, ending, rounds| {
            Test::many(name, move |context, cases| kills::saves(context, cases, kind, ending, rounds, seed))
        };
        [
            Test::many(name("cuts"), move |context, cases| cut(context, cases, kind, count, seed)),
            ends(name("kills"), Ending::Killed, kills),
            ends(name("terms"), Ending::Terminated, terms),
        ]
    };
    // One of each kind that takes a long file in seconds.
    let driver_dies = [KINDS[0], KINDS[2]].map(|kind| {
        let name = format!("disk.driver-dies.{}", kind.name);
        Test::one(name, move |context| kills::driver_dies(context, kind, drivers))
    });
    KINDS.into_iter().flat_map(of_kind).chain(driver_dies).collect()
}

impl Kind {
    /// Creates a disk with an empty file system.
    fn disk(&self, context: &Context<'_>, path: &Path, mib: u64) -> Result<()> {
        setup::for_disks(&context.ui)?;
        File::create(path).and_then(|file| file.set_len(mib << 20)).context("cannot make a disk")?;
        let name = path.to_str().context("a temporary folder's name is no text")?;
        tool(self.make[0], &[&self.make[1..], &[name]].concat()).map(drop)
    }

    fn is_ext4(&self) -> bool {
        self.abilities == "ext4"
    }

    fn system(&self) -> Box<dyn System> {
        if self.is_ext4() { Box::new(Ext4Images) } else { Box::new(FatImages) }
    }

    /// Checks that a disk that was shut down in order is clean for the host's tools.
    fn check(&self, path: &Path) -> Result<()> {
        let name = path.to_str().context("a temporary folder's name is no text")?;
        if !self.is_ext4() {
            return tool("fsck.vfat", &["-n", name]).map(drop);
        }
        tool("e2fsck", &["-fn", name])?;
        let features = tool("dumpe2fs", &["-h", name])?;
        if features.contains("needs_recovery") { bail!("it still needs its journal") } else { Ok(()) }
    }
}

/// The log of one run of `churn`, and the final content of the disk.
struct Logged {
    base: Image,
    acts: Vec<log::Act>,
    end: Image,
}

fn play(context: &Context<'_>, kind: Kind, folder: &Path, count: u64, seed: u64) -> Result<Logged> {
    let (disk, written) = (folder.join("disk.img"), folder.join("disk.log"));
    kind.disk(context, &disk, kind.mib)?;
    let base = Image::new(&fs::read(&disk).context("cannot read the disk")?);
    File::create(&written).context("cannot make a log")?;
    let built = context.built_with_tests()?;
    let mut capture = Capture::new(built, test_program(built, "churn")?);
    capture.args = ["play", "/disk", &seed.to_string(), &count.to_string(), kind.abilities].map(str::to_owned).to_vec();
    capture.timeout = PATIENCE + TIME_PER_THOUSAND * u32::try_from(count / 1000)?;
    (capture.devices.disk, capture.devices.disk_log) = (Some(disk.clone()), Some(written.clone()));
    let outcome = capture.run()?;
    if outcome.end != End::Exit(0) {
        let (stdout, stderr) = (outcome.stdout(), outcome.stderr());
        let said = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).join("\n");
        bail!("churn ended with {:?}\n{said}", outcome.end);
    }
    let log = File::open(&written).context("cannot open the log")?;
    let acts = log::read(std::io::BufReader::new(log)).map_err(|why| anyhow!(why))?;
    let end = Image::new(&fs::read(&disk).context("cannot read the disk")?);
    kind.check(&disk)?;
    Ok(Logged { base, acts, end })
}

/// The states that power cuts leave while `churn` changes files.
fn cut(context: &Context<'_>, cases: &mut Cases, kind: Kind, count: u64, seed: u64) -> Result<()> {
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let logged = play(context, kind, folder.path(), count, seed)?;
    let abilities = Abilities::of(kind.abilities).context("nobody knows what it can")?;
    let trees = history(seed, count, abilities);
    let system = kind.system();
    let samples = if kind.is_ext4() { (count / OPERATIONS_A_SAMPLE).max(LEAST_SAMPLES) as usize } else { 0 };
    let replay = Replay::new(&*system, &trees, kind.promise, seed);
    let mut replay = replay.starting_in_one_of(kind.starts.max(count as usize / 8)).keeping(samples);
    let end = replay.run(&logged.base, &logged.acts);
    let counts = replay.counts;
    let sum = format!(
        "{count} operations: {} cuts, {} torn, {} subsets, {} in starts after them, {} bad",
        counts.cuts, counts.torn, counts.subsets, counts.starts, replay.bad
    );
    cases.note(&format!("--seed {seed}: {sum}"));
    let whole = replay.bad == 0 && counts.cuts as u64 > count;
    cases.case("all states", if whole { Ok(()) } else { Err(replay.told.join("\n")) });
    // The log is complete: replaying it gives the disk that the machine left.
    let found =
        system.read(&logged.end).and_then(|mut found| judge(&mut found, &trees[count as usize..], kind.promise));
    cases.case("an orderly end", found);
    cases.case("the log", if same(&end, &logged.end) { Ok(()) } else { Err("it is not all that was written".into()) });
    if kind.is_ext4() {
        let checked = fsck(&folder.path().join("sample.img"), &replay.samples)?;
        let Checked { clean, mended, bad } = &checked;
        cases.note(&format!("e2fsck -fp of {samples} states: {clean} clean, {mended} mended"));
        let few = bad.iter().take(5).map(String::as_str).collect::<Vec<_>>().join("\n");
        cases.case(
            "e2fsck",
            if bad.is_empty() { Ok(()) } else { Err(format!("{} of them, such as\n{few}", bad.len())) },
        );
    }
    Ok(())
}

fn same(one: &Image, other: &Image) -> bool {
    let size = one.size() as usize;
    one.size() == other.size() && one.at(0, size) == other.at(0, size)
}

/// The results of e2fsck.
#[derive(Default)]
struct Checked {
    clean: usize,
    mended: usize,
    bad: Vec<String>,
}

/// Makes e2fsck repair states automatically, which must succeed.
fn fsck(file: &Path, states: &[Image]) -> Result<Checked> {
    let mut checked = Checked::default();
    for state in states {
        state.save(File::create(file).context("cannot make a file")?).context("cannot write a state")?;
        let output = Command::new("e2fsck").arg("-fp").arg(file).stdin(Stdio::null()).output();
        let output = output.context("cannot start e2fsck")?;
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        match output.status.code() {
            Some(0) => checked.clean += 1,
            Some(1) => checked.mended += 1,
            code => checked.bad.push(format!("{code:?}: {said}")),
        }
    }
    Ok(checked)
}
