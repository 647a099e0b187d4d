//! Paths: the source tree, and all build outputs.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The folders that the host tool uses.
#[derive(Clone, Debug)]
pub struct Paths {
    /// Root of the project's tree.
    pub workspace: PathBuf,
    /// All build outputs outside of cargo's target directories: `target/hafnon`.
    pub out: PathBuf,
}

/// This tool's own file, for code that starts it again.
///
/// # Errors
/// It does not exist any more.
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
    /// Neither exists.
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

    /// Cargo's target directory for the parts of the system. It is not the one of a plain `cargo build`, so that builds
    /// with different flags do not invalidate each other.
    pub fn cargo_target(&self) -> PathBuf {
        self.out.join("cargo")
    }

    /// Libraries and start file for linking programs.
    pub fn sysroot_lib(&self) -> PathBuf {
        self.out.join("sysroot/lib")
    }

    /// `path` for messages: relative to the tree if it is inside.
    pub fn short<'a>(&self, path: &'a Path) -> &'a Path {
        path.strip_prefix(&self.workspace).unwrap_or(path)
    }
}

fn is_root(folder: &Path) -> bool {
    folder.join("system.toml").is_file() && folder.join("xtask").is_dir()
}
