//! Links a program with a rump kernel, in three steps.
//!
//! 1. `ld -r` makes one object file of the chosen libraries, with all of their members: a component that nothing refers
//!    to announces itself.
//! 2. `objcopy` makes all names local but those that begin with `rump`: a prefix for rumprun defines `open` and its
//!    kin, which would take the place of the C library's.
//! 3. clang compiles and links the program with that object file and `librumpuser.a`.

use std::collections::BTreeSet;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};

use super::plan::{Plan, Planner};
use super::prefix::{self, Prefix};
use crate::BuildOptions;
use crate::c::front;
use xtask_common::paths::Paths;
use xtask_common::programs::{self, code};
use xtask_common::ui::Ui;

/// Compiles and links a program with these components of the prefix in a folder; returns the compiler's exit code.
///
/// # Errors
/// The prefix cannot be used, a component is missing, the system does not build, or a tool fails.
pub fn cc(paths: &Paths, folder: Option<&Path>, components: &[String], args: &[OsString]) -> Result<u8> {
    let ui = Ui::new(false);
    let from_environment = env::var_os("RUMP_PREFIX").filter(|prefix| !prefix.is_empty()).map(PathBuf::from);
    let folder = folder.map(Path::to_path_buf).or(from_environment);
    let folder =
        folder.context("no prefix: name one by --prefix or RUMP_PREFIX (docs/rump.md tells how to build it)")?;
    // Before anything is built.
    let prefix = prefix::read(&folder)?;
    let refused = |why: String| anyhow!("{}: {why}", folder.display());
    prefix.facts().and_then(|facts| facts.check_revision()).map_err(refused)?;
    Planner::new(&prefix, &BTreeSet::new()).plan(components).map_err(refused)?;
    crate::build(paths, &ui, BuildOptions::default())?;
    let Some(answered) = super::answered(paths) else {
        bail!("{} is missing in the sysroot: this system has no hypercalls for rump kernels", super::ROOM)
    };
    let plan = Planner::new(&prefix, &answered).plan(components).map_err(refused)?;
    let work = tempfile::tempdir().context("cannot make a temporary folder")?;
    let mut clang = front::clang(paths);
    clang.args(include(&prefix, work.path())?).args(args);
    if links(args) {
        plan.notes().iter().for_each(|note| ui.note(note));
        // Whatever language the program has.
        clang.args(["-x", "none"]).arg(kernel(&prefix, &plan, work.path())?).args([
            "-lrumpuser",
            "-lzircon",
            "-Wl,-z,nostart-stop-gc",
        ]);
    }
    Ok(code(clang.status().context("cannot start clang")?))
}

/// Whether the compiler links with these arguments.
fn links(args: &[OsString]) -> bool {
    const ONLY: [&str; 6] = ["-c", "-S", "-E", "-M", "-MM", "-fsyntax-only"];
    !args.iter().any(|arg| ONLY.iter().any(|only| arg == OsStr::new(only)))
}

/// The options for the prefix's headers. A folder that has more than `rump/` would hide the C library's headers.
fn include(prefix: &Prefix, folder: &Path) -> Result<Vec<OsString>> {
    let Some(headers) = &prefix.headers else { return Ok(Vec::new()) };
    if !headers.join("stdio.h").exists() {
        return Ok(vec!["-I".into(), headers.into()]);
    }
    let alone = folder.join("include");
    fs::create_dir(&alone).context("cannot make a folder for headers")?;
    let target = fs::canonicalize(headers.join("rump")).context("cannot find the prefix's headers")?;
    symlink(&target, alone.join("rump")).context("cannot link the prefix's headers")?;
    Ok(vec!["-I".into(), alone.into()])
}

impl Plan {
    /// What a user should know before the program is linked.
    pub fn notes(&self) -> Vec<String> {
        let left = self.left_out.iter().map(|(library, member)| {
            format!(
                "lib{library}.a: {member} is left out, because it calls functions of the system that the prefix was \
                 built for"
            )
        });
        let unmet = self.unmet.iter().map(|(symbol, by)| {
            let by: Vec<&str> = by.iter().map(|library| super::components::name(library)).collect();
            format!("this system does not answer `{symbol}` of {}: the program links if it defines it", by.join(", "))
        });
        left.chain(unmet).collect()
    }
}

/// Steps 1 and 2: the kernel as one object file.
///
/// # Errors
/// A library cannot be read, or a tool fails.
pub fn kernel(prefix: &Prefix, plan: &Plan, folder: &Path) -> Result<PathBuf> {
    let (all, kernel) = (folder.join("all.o"), folder.join("kernel.o"));
    let mut ld = Command::new("ld");
    ld.arg("-r").arg("-o").arg(&all);
    for (library, kept) in &plan.parts {
        ld.args(members(prefix, library, kept, folder)?);
    }
    ld.arg("--whole-archive").args(plan.whole.iter().map(|library| &prefix.libraries[library].path));
    programs::run(&mut ld).context("the rump kernel does not link")?;
    let mut objcopy = Command::new("objcopy");
    objcopy.args(["-w", "--keep-global-symbol=rump*"]).arg(&all).arg(&kernel);
    programs::run(&mut objcopy).context("objcopy cannot read the rump kernel")?;
    Ok(kernel)
}

/// Writes some members of a library as files. Their own names are the archive's, so they get numbers.
fn members(prefix: &Prefix, library: &str, kept: &[usize], folder: &Path) -> Result<Vec<PathBuf>> {
    let library_file = &prefix.libraries[library];
    let bytes = prefix::bytes(&library_file.path).map_err(|why| anyhow!("lib{library}.a: {why}"))?;
    let mut files = Vec::new();
    for &at in kept {
        let (start, length) = library_file.objects[at].range;
        let data = usize::try_from(start).ok().zip(usize::try_from(start.saturating_add(length)).ok());
        let data = data.and_then(|(start, end)| bytes.get(start..end));
        let file = folder.join(format!("{library}-{at}.o"));
        fs::write(&file, data.with_context(|| format!("lib{library}.a has changed; run the command again"))?)
            .with_context(|| format!("cannot write {}", file.display()))?;
        files.push(file);
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compilation_alone_links_no_kernel() {
        let args = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert!(links(&args("a.c -o a -lm")));
        assert!(!links(&args("a.c -c -o a.o")));
        assert!(!links(&args("-E a.c")));
    }
}
