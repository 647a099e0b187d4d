//! The conformance programs: they check in the booted system what the system calls promise.
//!
//! Cases are named `group.call.what`. Each group runs in its own boot, two at a time, so a system that hangs affects
//! only its group. A [`Record`] keeps the results of the cases; [`coverage`] counts from it how many names of the
//! [`table`] pass.
#![forbid(unsafe_code)]

pub mod coverage;
pub mod missing_features;
pub mod record;
pub mod table;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use xtask_build::Built;
use xtask_build::devices::Devices;
use xtask_build::image::{Image, Mode};
use xtask_build::system::instances::Instances;
use xtask_run::args::Accel;
use xtask_run::described;
use xtask_run::link::Frame;
use xtask_run::qemu::{Machine, runtime_folder};
use xtask_run::session::{End, Outcome, Session, Streams};

pub use record::Record;

/// The program in the image.
pub const PROGRAM: &str = "/boot/bin/conformance";
/// Memory of the machines in bytes.
pub const MEMORY: u64 = 512 << 20;
/// Default time limit of a group.
pub const GROUP_TIME: Duration = Duration::from_secs(1800);
/// Number of machines that run at the same time.
const MACHINES: usize = 2;

/// The result of a case: `None` for a pass, or the error message.
pub type Detail = Option<String>;

/// Reports during a run.
pub enum CaseReport<'a> {
    /// A case has ended.
    Case(&'a str, &'a Detail),
    /// A group did not run to its end.
    Broken(&'a str, &'a str),
}

/// The names of all cases, sorted by group and name, without those that are known to fail.
///
/// # Errors
/// The system does not boot, or the program does not list them.
pub fn list(built: &Built) -> Result<Vec<String>> {
    let image =
        Image::new(built, true, &Devices::default())?.finish(&Mode::Run(PROGRAM.into(), vec!["--list".into()]), &[])?;
    let outcome = boot(built, &image, Accel::Tcg, Streams::Captured(Vec::new()), Duration::from_secs(60))?;
    let text = String::from_utf8_lossy(&outcome.stdout()).into_owned();
    let names: Vec<String> = text.lines().filter(|line| !line.contains(' ')).map(str::to_string).collect();
    if outcome.end != End::Exit(0) || names.is_empty() {
        bail!("the cases could not be listed: {:?}\n{}", outcome.end, String::from_utf8_lossy(&outcome.stderr()));
    }
    Ok(names)
}

/// The group of a case: the part before the first dot.
pub fn group(case: &str) -> &str {
    case.split_once('.').map_or(case, |(group, _)| group)
}

/// Runs the cases whose names start with one of the prefixes (all if there are none), with a boot for each group.
///
/// # Errors
/// A prefix matches no case, or the system cannot be booted at all. A failure within a group is reported and is not an
/// error.
pub fn run(built: &Built, prefixes: &[String], mut news: impl FnMut(CaseReport<'_>)) -> Result<()> {
    let groups = groups(built, prefixes)?;
    let queue = Mutex::new(groups.iter());
    let (sender, results) = channel();
    thread::scope(|scope| {
        for _ in 0..MACHINES.min(groups.len()) {
            let (sender, queue) = (sender.clone(), &queue);
            scope.spawn(move || {
                loop {
                    let Some((group, prefixes)) = queue.lock().ok().and_then(|mut queue| queue.next()) else { return };
                    if sender.send((group, run_group(built, CONFORMANCE, group, prefixes))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for (group, result) in results {
            let Results { cases, broken, .. } = result.unwrap_or_else(|error| Results {
                cases: Vec::new(),
                broken: Some(format!("{error:#}")),
                said: String::new(),
                root: Vec::new(),
            });
            cases.iter().for_each(|(case, detail)| news(CaseReport::Case(case, detail)));
            match broken {
                Some(why) if why.contains("no case begins with") => bail!("{}", why.lines().last().unwrap_or_default()),
                Some(why) => news(CaseReport::Broken(group, &why)),
                None => {}
            }
        }
        Ok(())
    })
}

/// The groups to run, and for each the prefixes of its cases.
fn groups(built: &Built, prefixes: &[String]) -> Result<BTreeMap<String, Vec<String>>> {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    // A prefix with a dot names its group; otherwise the program must list the groups.
    if !prefixes.is_empty() && prefixes.iter().all(|prefix| prefix.contains('.')) {
        for prefix in prefixes {
            groups.entry(group(prefix).to_string()).or_default().push(prefix.clone());
        }
        return Ok(groups);
    }
    let cases = list(built)?;
    if let Some(prefix) = prefixes.iter().find(|prefix| !cases.iter().any(|case| case.starts_with(prefix.as_str()))) {
        bail!("no case begins with `{prefix}`");
    }
    for case in &cases {
        let whole = format!("{}.", group(case));
        let wanted: Vec<String> = match prefixes {
            [] => vec![whole],
            some => {
                let fits = some.iter().filter(|prefix| case.starts_with(prefix.as_str()));
                fits.map(|prefix| if prefix.len() < whole.len() { whole.clone() } else { prefix.clone() }).collect()
            }
        };
        if !wanted.is_empty() {
            let all = groups.entry(group(case).to_string()).or_default();
            wanted.into_iter().for_each(|prefix| {
                if !all.contains(&prefix) {
                    all.push(prefix)
                }
            });
        }
    }
    Ok(groups)
}

/// A program of cases, and the machine that runs it.
#[derive(Clone, Copy)]
pub struct Program<'a> {
    /// Its file in the image.
    pub file: &'a str,
    /// How instructions are executed.
    pub accel: Accel,
    /// The instances, if they differ from `system.toml`.
    pub instances: Option<&'a Instances>,
    /// Time limit of a group.
    pub time: Duration,
    /// The host sends nothing, because its input would arrive at a different instruction each time.
    pub repeats: bool,
    /// An additional file of the image.
    pub config: Option<(&'a str, &'a str)>,
}

impl<'a> Program<'a> {
    /// A program of the image, with default settings.
    pub const fn new(file: &'a str, accel: Accel) -> Program<'a> {
        Program { file, accel, instances: None, time: GROUP_TIME, repeats: false, config: None }
    }
}

/// The conformance program, executed as fast as possible.
const CONFORMANCE: Program<'static> = Program::new(PROGRAM, Accel::Tcg);

/// The results of a group.
pub struct Results {
    /// Its cases.
    pub cases: Vec<(String, Detail)>,
    /// Why cases are missing.
    pub broken: Option<String>,
    /// The program's standard error.
    pub said: String,
    /// The root task's messages.
    pub root: Vec<String>,
}

/// Runs cases of one group in a separate boot.
///
/// # Errors
/// The system cannot be booted.
pub fn run_group(built: &Built, program: Program<'_>, group: &str, prefixes: &[String]) -> Result<Results> {
    let mut image = Image::new(built, true, &Devices::default())?;
    let time = program.time.as_millis();
    let mut arguments: Vec<String> = Vec::new();
    let left_out = missing_features::here()?.into_iter().flat_map(|feature| [feature.cases, feature.attacks].concat());
    for case in left_out.filter(|case| prefixes.iter().any(|prefix| case.starts_with(prefix.as_str()))) {
        arguments.extend(["--without".into(), case]);
    }
    arguments.extend(prefixes.iter().cloned());
    let file = program.file;
    image.add("config/tests", format!("{group}\t{time}\t0\t{file}\t--leaks\t{}\n", arguments.join("\t")))?;
    if let Some((path, content)) = program.config {
        image.add(path, content)?;
    }
    let bytes = image.finish(&Mode::Test, &[])?;
    let time = program.time + Duration::from_secs(30);
    let streams = if program.repeats { Streams::Overheard } else { Streams::Captured(Vec::new()) };
    let outcome = boot_beside(built, program.instances, Devices::default(), &bytes, program.accel, streams, time)?;
    let (mut cases, mut whole, mut broken) = (Vec::new(), false, None);
    let said = String::from_utf8_lossy(&outcome.stderr()).into_owned();
    for frame in &outcome.transcript {
        let Frame::Event(event) = frame else { continue };
        let mut fields = event.trim_end().split('\t');
        let (Some("case"), Some(name), Some(result)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let detail = fields.collect::<Vec<_>>().join(" ");
        match name.split_once('/') {
            Some((_, case)) => cases.push((case.to_string(), (result != "ok").then_some(detail))),
            None => {
                whole = true;
                // The program's own result adds nothing, unless it ended in an unexpected way.
                if result != "ok" && !detail.contains("returned 1,") {
                    broken = Some(format!("{detail}\n{said}"));
                }
            }
        }
    }
    if !whole {
        broken = Some(format!("{:?}\n{}", outcome.end, outcome.warnings.join("\n")));
    }
    Ok(Results { cases, broken, said, root: outcome.root })
}

/// Boots an image in the machine for such programs.
///
/// # Errors
/// It cannot be started.
pub fn boot(built: &Built, image: &[u8], accel: Accel, streams: Streams, timeout: Duration) -> Result<Outcome> {
    boot_beside(built, None, Devices::default(), image, accel, streams, timeout)
}

/// The same with devices.
///
/// # Errors
/// It cannot be started.
pub fn boot_with(
    built: &Built,
    devices: Devices,
    image: &[u8],
    accel: Accel,
    streams: Streams,
    timeout: Duration,
) -> Result<Outcome> {
    boot_beside(built, None, devices, image, accel, streams, timeout)
}

/// The same with other instances and components.
fn boot_beside(
    built: &Built,
    instances: Option<&Instances>,
    devices: Devices,
    image: &[u8],
    accel: Accel,
    streams: Streams,
    timeout: Duration,
) -> Result<Outcome> {
    let folder = runtime_folder()?;
    let mut devices = Devices { teaching: true, ..devices };
    let root = described(built, instances, (&mut devices, MEMORY), &folder.path().join("root.elf"))?;
    let machine =
        Machine { kernel: &built.kernel, root: &root, image, memory: MEMORY, accel, gdb: None, devices, linux: None };
    let session =
        Session { machine, timeout: Some(timeout), quiet: None, verbose: false, streams, until_first_output: false };
    session.run().context("cannot boot")
}
