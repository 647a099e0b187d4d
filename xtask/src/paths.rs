//! Where things lie: the tree that is built from, and everything that is built.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The folders that the host tool works in.
#[derive(Clone, Debug)]
pub struct Paths {
    /// Root of the project's tree.
    pub workspace: PathBuf,
    /// Everything built that is no cargo target directory: `target/hafnon`.
    pub out: PathBuf,
}

/// This tool's own file, for who starts it again.
///
/// # Errors
/// It is not there any more.
pub fn own_file() -> Result<PathBuf> {
    let tool = env::current_exe().context("cannot find this tool's own file")?;
    if !tool.exists() {
        bail!("this tool was built anew while it ran, so it cannot start itself; run the command again");
    }
    Ok(tool)
}

impl Paths {
    /// The tree that `./hafnon` named, or the one that this tool was built in.
    ///
    /// # Errors
    /// Neither is there.
    pub fn find() -> Result<Paths> {
        let from_script = env::var_os("HAFNON_ROOT").map(PathBuf::from);
        let from_tool = || {
            let tool = env::current_exe().ok()?;
            tool.ancestors().find(|folder| is_root(folder)).map(Path::to_path_buf)
        };
        let workspace = from_script
            .filter(|folder| is_root(folder))
            .or_else(from_tool)
            .context("cannot find the project's tree; start this tool through ./hafnon")?;
        Ok(Paths { out: workspace.join("target/hafnon"), workspace })
    }

    /// Cargo's target directory for what the system is made of. Not the one that a bare `cargo build` uses, so that
    /// the two, with their different flags, do not undo each other's work.
    pub fn cargo_target(&self) -> PathBuf {
        self.out.join("cargo")
    }

    /// Libraries and start file that programs are linked with.
    pub fn sysroot_lib(&self) -> PathBuf {
        self.out.join("sysroot/lib")
    }

    /// `path` as a person would name it: relative to the tree where it lies in it.
    pub fn short<'a>(&self, path: &'a Path) -> &'a Path {
        path.strip_prefix(&self.workspace).unwrap_or(path)
    }
}

fn is_root(folder: &Path) -> bool {
    folder.join("system.toml").is_file() && folder.join("xtask").is_dir()
}
