//! `bench build`: how long builds take, from scratch and after a change of one line.
//!
//! Builds a copy of the tree, in its own folder below `target`, with its own `./hafnon`, as a user would. Downloads
//! (toolchain, packages, the C library's sources) are already there. The changed line is a comment at the top of a
//! file. It shifts all lines below, so everything built from the file changes.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::commit;
use xtask_build::cargo;
use xtask_common::files::copy_folder;
use xtask_common::paths::Paths;
use xtask_common::ui::Ui;

/// The result of a measurement.
#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    /// `build`.
    benchmark: String,
    /// The commit of the sources.
    commit: String,
    /// Number of the computer's processors.
    processors: usize,
    /// Their model name.
    model: String,
    builds: Vec<BuildTime>,
}

/// One build.
#[derive(Debug, Serialize, Deserialize)]
struct BuildTime {
    /// What had changed.
    what: String,
    /// Wall-clock time.
    seconds: f64,
    /// Processor time of all processors together, which does not depend on their other load.
    processor_seconds: f64,
}

/// A changed line: the description, the file, the folder and arguments of `./hafnon`, and the output that must change.
struct Change {
    what: &'static str,
    file: &'static str,
    folder: &'static str,
    args: &'static [&'static str],
    made: &'static str,
}

const ROOT_TASK: &str = "target/hafnon/root/release/root.elf";
const CHANGES: [Change; 3] = [
    Change {
        what: "a line in objects/",
        file: "objects/src/core/event.rs",
        folder: ".",
        args: &["build"],
        made: ROOT_TASK,
    },
    Change {
        what: "a line in server/",
        file: "server/src/syscalls/event.rs",
        folder: ".",
        args: &["build"],
        made: ROOT_TASK,
    },
    Change {
        what: "a line in examples/hello",
        file: "examples/hello/src/main.rs",
        folder: "examples/hello",
        args: &["cargo", "build"],
        made: "examples/hello/target/x86_64-unknown-fuchsia/debug/hello",
    },
];

/// Measures, and prints a table.
///
/// # Errors
/// The tree cannot be copied, or does not build.
pub fn measure(paths: &Paths, file: Option<&Path>) -> Result<()> {
    let ui = Ui::new(false);
    let folder = paths.out.join("bench-build");
    let remove = || if folder.exists() { fs::remove_dir_all(&folder) } else { Ok(()) };
    remove().context("cannot remove what an earlier run left")?;
    let result = all(paths, &ui, &folder);
    remove().context("cannot remove the copy of the tree")?;
    let report = result?;
    print!("{}", table(&report));
    if let Some(file) = file {
        let text = serde_json::to_string_pretty(&report)? + "\n";
        fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

fn all(paths: &Paths, ui: &Ui, folder: &Path) -> Result<Report> {
    for source in cargo::sources(&paths.workspace)? {
        let name = paths.short(&source);
        // Cargo finds its settings in the tree above.
        if name.starts_with(".cargo") || name.starts_with(".git") {
            continue;
        }
        let to = folder.join(name);
        fs::create_dir_all(to.parent().unwrap_or(folder)).context("cannot copy the tree")?;
        fs::copy(&source, &to).with_context(|| format!("cannot copy {}", source.display()))?;
    }
    let fetched = paths.out.join("musl");
    if fetched.is_dir() {
        copy_folder(&fetched, &folder.join("target/hafnon/musl"))?;
    }
    let mut step = ui.step("building a copy of the tree");
    let mut builds = Vec::new();
    let mut timed = |what: &str, at: &str, args: &[&str]| -> Result<()> {
        step.activity(what);
        let (start, before) = (Instant::now(), processor_seconds()?);
        hafnon(folder, at, args)?;
        let seconds = start.elapsed().as_secs_f64();
        builds.push(BuildTime { what: what.into(), seconds, processor_seconds: processor_seconds()? - before });
        Ok(())
    };
    timed("everything, from nothing", ".", &["build"])?;
    timed("nothing changed", ".", &["build"])?;
    for change in &CHANGES {
        // Builds once before the change, so that parts that were never built do not count.
        hafnon(folder, change.folder, change.args)?;
        let made = folder.join(change.made);
        let before = fs::read(&made).with_context(|| format!("cannot read {}", made.display()))?;
        let file = folder.join(change.file);
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        fs::write(&file, format!("// A line more.\n{text}")).context("cannot change a line")?;
        timed(change.what, change.folder, change.args)?;
        if fs::read(&made).is_ok_and(|after| after == before) {
            bail!("{} was not made anew after {} in {}", change.made, change.what, change.file);
        }
    }
    let model = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = model.lines().find_map(|line| Some(line.strip_prefix("model name")?.split_once(": ")?.1.to_string()));
    Ok(Report {
        benchmark: "build".into(),
        commit: commit(paths),
        processors: std::thread::available_parallelism().map_or(1, usize::from),
        model: model.unwrap_or_else(|| "unknown".into()),
        builds,
    })
}

/// Calls the copy's `./hafnon`.
fn hafnon(folder: &Path, at: &str, args: &[&str]) -> Result<()> {
    let mut command = Command::new(folder.join("hafnon"));
    command.args(args).current_dir(folder.join(at)).env_remove("HAFNON_ROOT").env_remove("CARGO_TARGET_DIR");
    let output = command.stdin(Stdio::null()).output().context("cannot start the copy's ./hafnon")?;
    if !output.status.success() {
        bail!("./hafnon {} failed in a copy of the tree:\n{}", args.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// Processor time of all ended children of this process.
fn processor_seconds() -> Result<f64> {
    let text = fs::read_to_string("/proc/self/stat").context("cannot read /proc/self/stat")?;
    of_children(&text).context("cannot understand /proc/self/stat")
}

/// The fields 16 and 17, in hundredths of a second. The second field is a name, which may contain anything.
fn of_children(stat: &str) -> Option<f64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(13);
    let mut next = || fields.next()?.parse::<f64>().ok();
    Some((next()? + next()?) / 100.0)
}

/// The table of a report.
pub fn table(report: &Report) -> String {
    let mut out = format!("{} processors, {}; {}.\n\n", report.processors, report.model, report.commit);
    out.push_str("| changed | seconds | of all processors |\n|---|--:|--:|\n");
    for BuildTime { what, seconds, processor_seconds } in &report.builds {
        out.push_str(&format!("| {what} | {seconds:.1} | {processor_seconds:.1} |\n"));
    }
    out
}

/// Reads a report from a file.
///
/// # Errors
/// It cannot be read or is not a report.
pub fn read(file: &Path) -> Result<Report> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is no report of this kind", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_children() {
        let stat = "7 (a) name) S 1 2 3 4 5 6 7 8 9 10 11 12 150 250 20 0";
        assert_eq!(of_children(stat), Some(4.0));
        assert_eq!(of_children("7 (name) S 1"), None);
    }

    #[test]
    fn changed_files_are_there() {
        let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for change in &CHANGES {
            assert!(tree.join(change.file).is_file(), "{}", change.file);
        }
    }
}
