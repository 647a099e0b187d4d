//! Calls cargo for the parts of the system, and reads from its output which files it made.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use xtask_common::paths::Paths;
use xtask_common::threads::Watcher;
use xtask_common::ui::{Step, Ui};

/// The Rust toolchain that builds everything.
pub const TOOLCHAIN: &str = "1.95.0";
/// The target of server and root task.
pub const BARE_TARGET: &str = "x86_64-unknown-none";
/// The target of programs and the libraries below them.
pub const PROGRAM_TARGET: &str = "x86_64-unknown-fuchsia";

/// One call of `cargo build`.
#[derive(Debug, Default)]
pub struct Build<'a> {
    /// The message that the user sees during the build.
    pub title: &'a str,
    /// The arguments after `cargo build`.
    pub args: Vec<OsString>,
    /// Environment variables for it.
    pub env: BTreeMap<String, OsString>,
    /// Its working directory, if it is not the workspace.
    pub folder: Option<PathBuf>,
    /// Its target directory, if it is not the system's.
    pub target_dir: Option<PathBuf>,
}

/// A file that cargo made.
#[derive(Clone, Debug)]
pub struct Artifact {
    /// The target's name: that of a binary, library or example.
    pub name: String,
    /// Its path.
    pub path: PathBuf,
    /// Whether it is a program.
    pub executable: bool,
}

#[derive(Deserialize)]
struct Message {
    reason: String,
    target: Option<Target>,
    #[serde(default)]
    filenames: Vec<PathBuf>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

impl<'a> Build<'a> {
    /// `cargo build` with these arguments, separated by blanks.
    pub fn new(title: &'a str, args: &str) -> Build<'a> {
        Build { title, args: args.split_whitespace().map(OsString::from).collect(), ..Build::default() }
    }

    /// Sets an environment variable.
    pub fn env(mut self, key: impl Into<String>, value: impl Into<OsString>) -> Build<'a> {
        self.env.insert(key.into(), value.into());
        self
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl Into<OsString>) -> Build<'a> {
        self.args.push(arg.into());
        self
    }

    /// Builds.
    ///
    /// # Errors
    /// Cargo cannot be started, or fails; then its messages have been printed.
    pub fn run(self, paths: &Paths, ui: &Ui) -> Result<Vec<Artifact>> {
        let mut command = command(self.folder.as_deref().unwrap_or(&paths.workspace));
        command.arg("build").args(&self.args).arg("--message-format=json-render-diagnostics");
        command.arg("--target-dir").arg(self.target_dir.unwrap_or_else(|| paths.cargo_target()));
        command.envs(&self.env).stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null());
        let mut child = command.spawn().context("cannot start cargo")?;
        let messages = child.stdout.take().context("cargo without an output")?;
        let reader = Watcher::none().start("artifacts", move || artifacts(messages))?;
        let mut step = ui.step(self.title);
        let said = follow(child.stderr.take().context("cargo without an output")?, &mut step, ui.verbose)?;
        let status = child.wait().context("cannot wait for cargo")?;
        drop(step);
        if !status.success() {
            std::io::stderr().write_all(said.as_bytes()).context("cannot write")?;
            bail!("{} failed", self.title);
        }
        reader.join()?
    }
}

/// Cargo of our toolchain in `folder`, without environment variables of an outer cargo, and without flags for other
/// targets.
pub fn command(folder: &Path) -> Command {
    let mut command = Command::new("cargo");
    for (key, _) in env::vars_os() {
        let name = key.to_string_lossy();
        let leave = name.starts_with("CARGO_PKG_")
            || name.starts_with("CARGO_PROFILE_")
            || name.starts_with("CARGO_TARGET_")
            || name.starts_with("CARGO_BUILD_")
            || name == "CARGO"
            || name.starts_with("CARGO_MANIFEST_")
            || name == "CARGO_ENCODED_RUSTFLAGS"
            || name == "RUSTFLAGS"
            || name == "RUSTC"
            || name == "RUSTC_WRAPPER";
        if leave {
            command.env_remove(&key);
        }
    }
    command.env("RUSTUP_TOOLCHAIN", TOOLCHAIN).current_dir(folder);
    command
}

/// The names of the programs of some packages of the tree.
///
/// # Errors
/// Cargo does not report them.
pub fn binaries(paths: &Paths, wanted: impl Fn(&str) -> bool) -> Result<BTreeSet<String>> {
    let mut metadata = command(&paths.workspace);
    metadata.args(["metadata", "--no-deps", "--format-version", "1"]).stdin(Stdio::null());
    let output = metadata.output().context("cannot start cargo")?;
    if !output.status.success() {
        bail!("cargo does not say what there is:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).context("cannot read cargo's metadata")?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let packages = packages.filter(|package| package["name"].as_str().is_some_and(&wanted));
    let targets = packages.flat_map(|package| package["targets"].as_array().into_iter().flatten());
    let programs = targets.filter(|target| target["kind"][0] == "bin");
    Ok(programs.filter_map(|target| Some(target["name"].as_str()?.to_owned())).collect())
}

/// The compiler of our toolchain.
pub fn rustc() -> Command {
    let mut command = Command::new("rustc");
    command.env("RUSTUP_TOOLCHAIN", TOOLCHAIN);
    command
}

/// Reads cargo's output, shows its progress, and keeps the output for a failure.
fn follow(output: impl Read, step: &mut Step, verbose: bool) -> Result<String> {
    let mut said = String::new();
    for line in BufReader::new(output).split(b'\n') {
        let line = line.context("cannot read cargo's messages")?;
        let line = String::from_utf8_lossy(&line);
        let mut words = line.split_whitespace();
        if let Some("Compiling" | "Downloading" | "Downloaded" | "Updating" | "Blocking" | "Checking") = words.next() {
            step.activity(line.trim());
        }
        if verbose {
            eprintln!("{line}");
        }
        said.push_str(&line);
        said.push('\n');
    }
    Ok(if verbose { String::new() } else { said })
}

fn artifacts(messages: impl Read) -> Result<Vec<Artifact>> {
    let mut found = Vec::new();
    for line in BufReader::new(messages).lines() {
        let line = line.context("cannot read cargo's output")?;
        let Ok(message) = serde_json::from_str::<Message>(&line) else { continue };
        if message.reason != "compiler-artifact" {
            continue;
        }
        let Some(target) = message.target else { continue };
        let executable = message.executable.is_some();
        let files = message.executable.into_iter().chain(message.filenames.into_iter().filter(|_| !executable));
        found.extend(files.map(|path| Artifact { name: target.name.clone(), path, executable }));
    }
    Ok(found)
}

/// The program named `name` among `artifacts`.
///
/// # Errors
/// It is not there.
pub fn program<'a>(artifacts: &'a [Artifact], name: &str) -> Result<&'a Path> {
    let found = artifacts.iter().find(|artifact| artifact.executable && artifact.name == name);
    Ok(&found.with_context(|| format!("cargo made no program `{name}`"))?.path)
}

/// The file of the library `name` that ends in `.{extension}` (`so`, `a`, `rlib`) among `artifacts`.
///
/// # Errors
/// It is not there.
pub fn library<'a>(artifacts: &'a [Artifact], name: &str, extension: &str) -> Result<&'a Path> {
    let is_it = |artifact: &&Artifact| {
        !artifact.executable && artifact.name == name && artifact.path.extension().is_some_and(|e| e == extension)
    };
    let found = artifacts.iter().find(is_it);
    Ok(&found.with_context(|| format!("cargo made no library `{name}.{extension}`"))?.path)
}

/// Folders of the tree that `.gitignore` names besides `target`, because they are made or fetched; a name that ends in `-`
/// is the beginning of names.
const NOT_OURS: [&str; 5] =
    ["build", "guests/linux/build", "guests/linux/files", "guests/linux/source", "guests/linux/linux-source-"];

/// Every file below `folder` except what was made or fetched there, sorted; used to detect changes.
///
/// # Errors
/// A folder cannot be read.
pub fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let is_ours = |path: &Path| {
        let short = path.strip_prefix(folder).unwrap_or(path).to_string_lossy();
        let is = |name: &&str| short == *name || name.ends_with('-') && short.starts_with(name);
        !path.ends_with("target") && !path.ends_with(".git") && !NOT_OURS.iter().any(is)
    };
    let mut found = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let entry = entry.with_context(|| format!("cannot read {}", folder.display()))?;
            let kind = entry.file_type().with_context(|| format!("cannot read {}", entry.path().display()))?;
            if !kind.is_dir() {
                found.push(entry.path());
            } else if is_ours(&entry.path()) {
                open.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_is_no_source() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["xtask/build", "build", "sub/target", "guests/linux/linux-source-6", "guests/linux/launcher"] {
            let at = folder.path().join(name);
            fs::create_dir_all(&at).expect("a folder");
            fs::write(at.join("file"), "").expect("a file");
        }
        let found = sources(folder.path()).expect("files");
        let found: Vec<_> = found.iter().map(|path| path.strip_prefix(folder.path()).expect("below")).collect();
        assert_eq!(found, [Path::new("guests/linux/launcher/file"), Path::new("xtask/build/file")]);
    }
}
