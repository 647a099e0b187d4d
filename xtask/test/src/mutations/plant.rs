//! Makes a copy of the tree with all chosen faults, each activated by its number, and builds the system from it.
//!
//! The active number is a word in the server's data after a mark that this tool finds. A trial only writes the number
//! there. The real server contains nothing of this.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use super::sites::{self, Kind, Site};
use xtask_build::Built;
use xtask_build::cargo::{self, BARE_TARGET};
use xtask_common::files::write_if_changed;
use xtask_common::paths::Paths;
use xtask_common::ui::Ui;

/// The folders that get faults: the objects and the calls.
const ROOMS: [&str; 2] = ["objects/src", "server/src/syscalls"];
/// Marks the word in the server's data.
const MARK: [u32; 3] = [0x6d75_7461, 0x7469_6f6e, 0x5eed_0001];

/// A fault.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Mutant {
    /// Its number, from 1.
    pub number: u32,
    /// The file, relative to the tree's root.
    pub file: String,
    /// The line.
    pub line: usize,
    /// The function.
    pub function: String,
    /// Its kind.
    pub kind: Kind,
    /// A description of the change.
    pub change: String,
}

impl Mutant {
    /// Whether it is the same fault, possibly in another version of the source.
    pub fn same(&self, other: &Mutant) -> bool {
        (&self.file, &self.function, &self.change) == (&other.file, &other.function, &other.change)
    }
}

/// Places that get no fault, and why: `xtask/test/mutations.toml`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exceptions {
    #[serde(default)]
    except: Vec<Exception>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    file: String,
    /// Without it, all functions.
    function: Option<String>,
    /// A part of the original code; without it, the whole function.
    text: Option<String>,
    why: String,
}

impl Exceptions {
    fn read(paths: &Paths) -> Result<Exceptions> {
        let file = paths.workspace.join("xtask/test/mutations.toml");
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let exceptions: Exceptions = toml::from_str(&text).context("in xtask/test/mutations.toml")?;
        if let Some(exception) = exceptions.except.iter().find(|exception| exception.why.trim().is_empty()) {
            bail!("xtask/test/mutations.toml: an exception in {} without a reason", exception.file);
        }
        Ok(exceptions)
    }

    fn holds(&self, file: &str, site: &Site) -> bool {
        self.except.iter().any(|exception| {
            exception.file == file
                && exception.function.as_ref().is_none_or(|function| *function == site.function)
                && exception.text.as_ref().is_none_or(|text| site.original.contains(text.as_str()))
        })
    }
}

/// The tree with faults.
pub struct Plant<'a> {
    paths: &'a Paths,
    tree: PathBuf,
    files: Vec<File>,
}

struct File {
    name: String,
    text: String,
    sites: Vec<(u32, Site)>,
}

impl<'a> Plant<'a> {
    /// Chooses `count` faults, distributed over the files by size.
    ///
    /// # Errors
    /// A source cannot be read.
    pub fn choose(paths: &'a Paths, count: usize, only: Option<&str>) -> Result<Plant<'a>> {
        let exceptions = Exceptions::read(paths)?;
        let mut files = Vec::new();
        for room in ROOMS {
            for path in cargo::sources(&paths.workspace.join(room))? {
                let name = paths.short(&path).to_string_lossy().into_owned();
                let text = fs::read_to_string(&path).with_context(|| format!("cannot read {name}"))?;
                if !name.ends_with(".rs") || of_tests(&name) || only.is_some_and(|part| !name.contains(part)) {
                    continue;
                }
                let mut sites = sites::find(&text).with_context(|| name.clone())?;
                sites.retain(|site| !exceptions.holds(&name, site));
                files.push((name, text, sites));
            }
        }
        let all: usize = files.iter().map(|(_, _, sites)| sites.len()).sum();
        if all == 0 {
            bail!("there is no place for a fault in `{}`", only.unwrap_or_default());
        }
        let (mut number, mut before) = (0, 0);
        let files = files.into_iter().map(|(name, text, sites)| {
            // Rounded so that the shares add up to the total.
            let share = |until: usize| until * count / all;
            let share = share(before + sites.len()) - share(before);
            before += sites.len();
            let chosen = sites::choose(&name, &sites, share).into_iter().map(|site| {
                number += 1;
                (number, site)
            });
            let sites = chosen.collect();
            File { name, text, sites }
        });
        let files = files.filter(|file| !file.sites.is_empty()).collect();
        Ok(Plant { paths, tree: paths.out.join("mutations/tree"), files })
    }

    /// The faults in the tree.
    pub fn mutants(&self) -> Vec<Mutant> {
        let mutant = |file: &File, number: u32, site: &Site| Mutant {
            number,
            file: file.name.clone(),
            line: site.line,
            function: site.function.clone(),
            kind: site.kind,
            change: site.describe(),
        };
        self.files.iter().flat_map(|file| file.sites.iter().map(|(n, site)| mutant(file, *n, site))).collect()
    }

    /// Writes the tree, leaves out faults that do not compile, and builds server and root task from the rest.
    ///
    /// # Errors
    /// It does not build for another reason than a fault.
    pub fn build(&mut self, ui: &Ui, built: &Built) -> Result<Built> {
        let mut step = ui.step("planting the faults");
        step.activity("copying the tree");
        self.copy_tree()?;
        for round in 1.. {
            let mut placed = Vec::new();
            for file in &self.files {
                let (text, ranges) = planted(file);
                write_if_changed(&self.tree.join(&file.name), text.as_bytes())?;
                placed.extend(ranges.into_iter().map(|(number, range)| (file.name.clone(), number, range)));
            }
            step.activity(&format!("compiling, round {round}"));
            let wrong = self.check(&placed)?;
            if wrong.is_empty() {
                break;
            }
            self.files.iter_mut().for_each(|file| file.sites.retain(|(number, _)| !wrong.contains(number)));
        }
        drop(step);
        xtask_build::variant(self.paths, ui, built, &self.tree)
    }

    fn copy_tree(&self) -> Result<()> {
        for path in cargo::sources(&self.paths.workspace)? {
            let name = self.paths.short(&path).to_string_lossy().into_owned();
            let replaced = self.files.iter().any(|file| file.name == name);
            // Cargo finds its settings in the tree above.
            if replaced || [".cargo", ".git", "docs/", "examples/"].iter().any(|begin| name.starts_with(begin)) {
                continue;
            }
            let mut bytes = fs::read(&path).with_context(|| format!("cannot read {name}"))?;
            if name == "objects/src/lib.rs" {
                bytes.extend_from_slice(b"\npub mod fault;\n");
            }
            if name == "Cargo.toml" {
                // A fault may be an obvious arithmetic overflow, which the compiler rejects only during code
                // generation.
                let text = String::from_utf8_lossy(&bytes);
                let lints = "[workspace.lints.rust]\n";
                bytes = text.replace(lints, &format!("{lints}arithmetic_overflow = \"allow\"\n")).into_bytes();
            }
            write_if_changed(&self.tree.join(&name), &bytes)?;
        }
        write_if_changed(&self.tree.join("objects/src/fault.rs"), switch().as_bytes()).map(drop)
    }

    /// The numbers of the faults that do not compile.
    fn check(&self, placed: &[(String, u32, Range<usize>)]) -> Result<Vec<u32>> {
        let mut command = Command::new("cargo");
        command.env("RUSTUP_TOOLCHAIN", cargo::TOOLCHAIN).current_dir(&self.tree);
        command.args(["check", "-p", "server", "--lib", "--target", BARE_TARGET, "--message-format=json"]);
        command.arg("--target-dir").arg(self.paths.out.join("mutations/cargo"));
        command.envs(xtask_build::kernel_variables(self.paths)?);
        let output = command.output().context("cannot start cargo")?;
        if output.status.success() {
            return Ok(Vec::new());
        }
        let mut wrong = Vec::new();
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let Ok(line) = serde_json::from_str::<serde_json::Value>(line) else { continue };
            let message = &line["message"];
            if message["level"] != "error" {
                continue;
            }
            for span in message["spans"].as_array().into_iter().flatten() {
                let at = |key: &str| span[key].as_u64().and_then(|at| usize::try_from(at).ok()).unwrap_or(0);
                let Some(name) = span["file_name"].as_str() else { continue };
                let (from, to) = (at("byte_start"), at("byte_end"));
                let hit = placed.iter().filter(|(file, _, range)| name == file && from < range.end && range.start < to);
                wrong.extend(hit.map(|(_, number, _)| *number));
            }
        }
        if wrong.is_empty() {
            bail!("the faulty tree does not compile:\n{}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(wrong)
    }
}

/// Tests get no faults, and neither does code that only reports to the host, because it does not affect calls.
fn of_tests(name: &str) -> bool {
    let name = name.strip_prefix("objects/src/").unwrap_or(name);
    name.starts_with("tests/") || name.starts_with("fake/") || name == "device/debug.rs"
}

/// The file's text with its faults, and the position of each.
fn planted(file: &File) -> (String, Vec<(u32, Range<usize>)>) {
    let fault = if file.name.starts_with("objects") { "crate::fault::is" } else { "objects::fault::is" };
    let (mut text, mut ranges, mut at) = (String::new(), Vec::new(), 0);
    for (number, site) in &file.sites {
        text.push_str(file.text.get(at..site.range.start).unwrap_or_default());
        let start = text.len();
        text.push_str(&site.switched(&format!("{fault}({number})")));
        ranges.push((*number, start..text.len()));
        at = site.range.end;
    }
    text.push_str(file.text.get(at..).unwrap_or_default());
    if file.name == "objects/src/lib.rs" {
        text.push_str("\npub mod fault;\n");
    }
    (text, ranges)
}

/// The module that knows the active fault.
fn switch() -> String {
    let [a, b, c] = MARK;
    format!(
        "//! Which fault is active: the host tool writes its number behind the mark.\n\n\
         use core::hint::black_box;\nuse core::sync::atomic::{{AtomicU32, Ordering}};\n\n\
         static ACTIVE: [AtomicU32; 4] = [\n    AtomicU32::new({a:#x}),\n    AtomicU32::new({b:#x}),\n    \
         AtomicU32::new({c:#x}),\n    AtomicU32::new(0),\n];\n\n\
         /// Whether it is this one.\n#[inline(never)]\npub fn is(number: u32) -> bool {{\n    \
         black_box(&ACTIVE)[3].load(Ordering::Relaxed) == number\n}}\n"
    )
}

/// A built root task whose server contains the faults.
pub struct Root {
    bytes: Vec<u8>,
    /// Position of the active fault's number.
    word: usize,
}

impl Root {
    /// Reads the file.
    ///
    /// # Errors
    /// The mark is not there.
    pub fn read(file: &Path) -> Result<Root> {
        let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        let mark: Vec<u8> = MARK.iter().flat_map(|word| word.to_le_bytes()).collect();
        let found: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at..].starts_with(&mark)).collect();
        match found.as_slice() {
            [at] if at + mark.len() + 4 <= bytes.len() => Ok(Root { word: at + mark.len(), bytes }),
            _ => bail!("the mark stands {} times in the faulty system", found.len()),
        }
    }

    /// Writes a copy in which the fault of this number is active; 0 is none.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, number: u32, to: &Path) -> Result<()> {
        let mut bytes = self.bytes.clone();
        bytes[self.word..self.word + 4].copy_from_slice(&number.to_le_bytes());
        write_if_changed(to, &bytes).map(drop)
    }
}
