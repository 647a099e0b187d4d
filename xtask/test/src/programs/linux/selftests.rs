//! Linux' selftests, from the source that the kernel is built from, on Linux as a program and on Debian's kernel of the
//! same version in the same machine, whose clock counts instructions: so the host's load changes nothing. What passes
//! there passes here, except for what `known.toml` gives a reason for.
//!
//! It runs with `--all`, or when it is named: it compiles the selftests, and fetches Debian's kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use serde::Deserialize;

use super::super::{Cases, text};
use super::ended;
use crate::args::TestArgs;
use crate::{Context, Test};
use xtask_bench::peers;
use xtask_build::setup;
use xtask_common::words::tail;
use xtask_run::args::Accel;
use xtask_run::linux::{self, Guest, Linux, initrd};

/// Our files.
const FILES: &str = "xtask/test/linux-selftests";
/// Memory of either Linux, in bytes.
const MEMORY: u64 = 1 << 30;
/// Time limit of the machine.
const LIMIT: Duration = Duration::from_secs(3600);

/// What is run, and what does not pass although it passes on Debian's kernel.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Known {
    /// Folders of selftests.
    collections: Vec<String>,
    /// Programs that none of their own lists names.
    programs: Vec<String>,
    /// Programs that are not run, and why.
    left_out: BTreeMap<String, String>,
    /// Results that differ, and why. `*` at the end of a name stands for any end.
    fails: BTreeMap<String, String>,
}

/// What a test said of itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Verdict {
    Passed,
    Skipped,
    Failed,
}

/// All of them.
pub fn tests(args: &TestArgs) -> Vec<Test> {
    if !args.all && !args.filter.as_deref().is_some_and(|filter| filter.starts_with("linux.s")) {
        return Vec::new();
    }
    vec![Test::many("linux.selftests", selftests)]
}

fn selftests(context: &Context<'_>, cases: &mut Cases) -> Result<()> {
    let ours = context.paths.workspace.join(FILES);
    let file = ours.join("known.toml");
    let known = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let known: Known = toml::from_str(&known).with_context(|| format!("in {}", file.display()))?;
    let linux = linux::made(context.paths, &context.ui)?;
    let made = made(context, &ours, &known)?;
    let files = tempfile::tempdir().context("cannot make a folder")?;
    fill(&made.tests, &made.programs, files.path()).context("cannot copy the selftests")?;
    fs::copy(ours.join("run.sh"), files.path().join("run.sh")).context("cannot copy a script")?;

    let mut guest = Guest::new(&["sh", "/host/run.sh"]);
    guest.memory = MEMORY;
    guest.files = Some(files.path().into());
    guest.accel = Accel::Counting;
    guest.timeout = Some(LIMIT);
    // One processor each.
    let (there, done) = thread::scope(|scope| {
        let there = scope.spawn(|| on_debians_kernel(context, &linux, &guest, &made.version));
        let done = super::capture(context, &linux, &guest);
        (there.join(), done)
    });
    let there = there.map_err(|_| anyhow!("the run on Debian's kernel panicked"))??;
    let (done, folder) = (done?, context.paths.out.join("linux/selftests"));
    for (name, output) in [("here", &text(&done.output)), ("there", &there)] {
        fs::write(folder.join(name), output).context("cannot write what they printed")?;
    }
    ended(&done, 0)?;
    let (here, there) = (results(&text(&done.output))?, results(&there)?);
    judge(&known, &here, &there, cases);
    let passed = |all: &BTreeMap<String, Verdict>| all.values().filter(|verdict| **verdict == Verdict::Passed).count();
    let numbers = format!("{} of {} pass, on Debian's kernel {}", passed(&here), here.len(), passed(&there));
    cases.note(&numbers);
    Ok(())
}

/// Each result that is good on Debian's kernel is a case, if it has no reason to differ. So is each reason that is not
/// needed.
fn judge(known: &Known, here: &BTreeMap<String, Verdict>, there: &BTreeMap<String, Verdict>, cases: &mut Cases) {
    let mut needed = BTreeSet::new();
    for name in there.iter().filter(|(_, verdict)| **verdict == Verdict::Passed).map(|(name, _)| name) {
        let result = match here.get(name) {
            Some(Verdict::Passed) => Ok(()),
            verdict => match known.fails.keys().find(|key| matches(key, name)) {
                Some(key) => {
                    needed.insert(key);
                    continue;
                }
                None => Err(format!("here: {verdict:?}, on Debian's kernel: passed")),
            },
        };
        cases.case(name, result);
    }
    for key in known.fails.keys().filter(|key| !needed.contains(key)) {
        cases.case(key, Err(format!("nothing differs: take it out of {FILES}/known.toml")));
    }
}

/// Whether a key of the table names a result; `*` at its end stands for any end.
fn matches(key: &str, name: &str) -> bool {
    key.strip_suffix('*').map_or(key == name, |begin| name.starts_with(begin))
}

/// Built selftests.
struct Made {
    /// The folder of the collections.
    tests: PathBuf,
    /// What is run: `COLLECTION:PROGRAM`.
    programs: Vec<String>,
    /// The version of Linux.
    version: String,
}

/// Builds them, if they are not built.
fn made(context: &Context<'_>, ours: &Path, known: &Known) -> Result<Made> {
    let folder = context.paths.out.join("linux");
    let (source, version) = setup::linux_source(&context.ui, &folder.join("source"))?;
    let build = folder.join("selftests");
    let (tests, made_of) = (build.join("tests"), build.join("made-of"));
    let script = ours.join("build.sh");
    let text = fs::read_to_string(&script).with_context(|| format!("cannot read {}", script.display()))?;
    let state = format!("{version}\n{}\n{text}", known.collections.join(" "));
    if !fs::read_to_string(&made_of).is_ok_and(|was| was == state) {
        setup::for_linux(&context.ui)?;
        let libcap = folder.join("libcap");
        setup::libcap(&context.ui, &libcap)?;
        let mut step = context.ui.step("building Linux' selftests");
        step.activity(&version);
        let mut command = Command::new(&script);
        command.args([&source, &build, &libcap]).args(&known.collections).stdin(Stdio::null());
        let output = command.output().context("cannot start a script")?;
        fs::write(folder.join("selftests.log"), [output.stdout, output.stderr].concat())
            .context("cannot write a log")?;
        if !output.status.success() {
            bail!("Linux' selftests do not build: see {}", folder.join("selftests.log").display());
        }
        fs::write(&made_of, state).context("cannot write what the selftests were made of")?;
    }
    let list = fs::read_to_string(build.join("list")).context("the selftests have no list")?;
    let all: BTreeSet<&str> = list.split_whitespace().chain(known.programs.iter().map(String::as_str)).collect();
    let left_out = |name: &&str| known.left_out.contains_key(*name);
    let programs: Vec<String> = all.iter().filter(|name| !left_out(name)).map(ToString::to_string).collect();
    let missing = |name: &&String| !tests.join(name.replace(':', "/")).is_file();
    if let Some(name) = programs.iter().find(missing) {
        bail!("{name} was not built, and {FILES}/known.toml does not say why it is left out");
    }
    if let Some(name) = known.left_out.keys().find(|name| !all.contains(name.as_str())) {
        bail!("{FILES}/known.toml leaves out {name}, which there is not");
    }
    Ok(Made { tests, programs, version })
}

/// Copies the programs, and the other files of their folders, except for folders with a list of ours.
fn fill(tests: &Path, programs: &[String], to: &Path) -> Result<()> {
    for name in programs {
        let (collection, program) = name.split_once(':').context("a name has no colon")?;
        let folder = to.join(collection);
        fs::create_dir_all(&folder)?;
        fs::copy(tests.join(collection).join(program), folder.join(program))?;
    }
    for collection in programs.iter().filter_map(|name| Some(name.split_once(':')?.0)).filter(|name| *name != "mm") {
        copy_rest(&tests.join(collection), &to.join(collection))?;
    }
    Ok(fs::write(to.join("list"), programs.iter().map(|name| format!("{name}\n")).collect::<String>())?)
}

fn copy_rest(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let (from, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        let to = to.join(name);
        if from.is_dir() {
            copy_rest(&from, &to)?;
        } else if from.is_file() && !to.exists() {
            fs::copy(&from, &to)?;
        }
    }
    Ok(())
}

/// What they print on Debian's kernel, in the same initial file system with another first program.
fn on_debians_kernel(context: &Context<'_>, linux: &Linux, guest: &Guest, version: &str) -> Result<String> {
    let folder = context.paths.out.join("linux/debian-kernel").join(version);
    let kernel = setup::linux_of(&context.ui, &folder, version)?;
    let files = tempfile::NamedTempFile::new().context("cannot make a file")?;
    let init = context.paths.workspace.join(FILES).join("init");
    fs::write(files.path(), initrd::with_init(&init, &linux.busybox, guest)?).context("cannot write first files")?;
    peers::boot(&kernel, files.path(), MEMORY)
}

/// The result of each test in the output of `run.sh`: of the lines in TAP, or else of a program's exit code.
fn results(output: &str) -> Result<BTreeMap<String, Verdict>> {
    let mut all = BTreeMap::new();
    let (mut program, mut lines, mut programs) = (None, 0, 0);
    for line in output.lines().map(|line| line.trim_end_matches('\r')) {
        if let Some(name) = line.strip_prefix("# begin ") {
            (program, lines) = (Some(name), 0);
        }
        let Some(name) = program else { continue };
        if let Some((verdict, test)) = tap(line) {
            lines += 1;
            note(&mut all, format!("{name}: {}", without_processes(test)), verdict);
        }
        let Some(code) = line.strip_prefix("# end ").and_then(|code| code.parse::<u32>().ok()) else { continue };
        // 124: the time is over; from 128 on: it was killed.
        let verdict = match (code, lines) {
            (0, _) => Verdict::Passed,
            (4, _) => Verdict::Skipped,
            (..124, 1..) => Verdict::Passed,
            _ => Verdict::Failed,
        };
        note(&mut all, name.to_owned(), verdict);
        (program, programs) = (None, programs + 1);
    }
    if programs == 0 || program.is_some() {
        bail!("the selftests did not end:\n{}", tail(output, 20));
    }
    Ok(all)
}

/// Of two tests of the same name the worse result counts.
fn note(all: &mut BTreeMap<String, Verdict>, name: String, verdict: Verdict) {
    let worst = all.entry(name).or_insert(verdict);
    *worst = verdict.max(*worst);
}

/// A name with `/proc/N` for the folder of any process.
fn without_processes(name: &str) -> String {
    let mut parts = name.split("/proc/");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |name, part| {
        let rest = part.trim_start_matches(|letter: char| letter.is_ascii_digit());
        let number = if rest.len() < part.len() { "N" } else { "" };
        format!("{name}/proc/{number}{rest}")
    })
}

/// The result and the name of a test: `ok 3 NAME # SKIP why`.
fn tap(line: &str) -> Option<(Verdict, &str)> {
    let (good, said) = match line.strip_prefix("not ok ") {
        Some(said) => (false, said),
        None => (true, line.strip_prefix("ok ")?),
    };
    let (number, name) = said.split_once(' ').unwrap_or((said, ""));
    number.parse::<u32>().ok()?;
    let (name, comment) = name.split_once(" #").or(name.split_once('#')).unwrap_or((name, ""));
    let skipped = comment.trim_start().to_ascii_uppercase().starts_with("SKIP");
    let verdict = if skipped {
        Verdict::Skipped
    } else if good {
        Verdict::Passed
    } else {
        Verdict::Failed
    };
    // `# SKIP` stands in the place of the name in some.
    let name = if name.trim().is_empty() { comment } else { name };
    Some((verdict, name.trim().trim_start_matches("- ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
# begin core:range
TAP version 13
1..4
ok 1 global.close
# some words
not ok 2 global.range
ok 3 global.rare # SKIP no such machine
ok 4 # SKIP none
ok 5 gives /proc/42/exe of /proc/self

# end 1
# begin ipc:queue

# end 0
# begin ipc:other
# end 4
# begin mm:big
# end 137
";

    #[test]
    fn results_of_lines_and_of_codes() {
        let found = results(OUTPUT).unwrap();
        let found: Vec<(&str, Verdict)> = found.iter().map(|(name, verdict)| (&**name, *verdict)).collect();
        let expected = [
            ("core:range", Verdict::Passed),
            ("core:range: SKIP none", Verdict::Skipped),
            ("core:range: gives /proc/N/exe of /proc/self", Verdict::Passed),
            ("core:range: global.close", Verdict::Passed),
            ("core:range: global.range", Verdict::Failed),
            ("core:range: global.rare", Verdict::Skipped),
            ("ipc:other", Verdict::Skipped),
            ("ipc:queue", Verdict::Passed),
            ("mm:big", Verdict::Failed),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn output_without_its_end_is_none() {
        assert!(results("").is_err());
        assert!(results("# begin ipc:queue\n").is_err());
    }
}
