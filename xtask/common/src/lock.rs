//! The build lock: two invocations in one tree must not write the same files.

use std::fs::{self, File, TryLockError};

use anyhow::{Context, Result};

use crate::paths::Paths;
use crate::ui::Ui;

/// The message if a build must wait.
pub const WAITING: &str = "waiting for another hafnon that builds in this tree";

/// Held during a build; the operating system releases it when the process ends, however it ends.
#[derive(Debug)]
pub struct BuildLock {
    _file: File,
}

impl BuildLock {
    /// Waits until no other invocation builds in this tree.
    ///
    /// # Errors
    /// The lock's file cannot be created.
    pub fn take(paths: &Paths, ui: &Ui) -> Result<BuildLock> {
        fs::create_dir_all(&paths.out).with_context(|| format!("cannot make the folder {}", paths.out.display()))?;
        let path = paths.out.join("lock");
        let file = File::create(&path).with_context(|| format!("cannot make {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                ui.step(WAITING).activity("");
                file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", path.display()));
            }
        }
        Ok(BuildLock { _file: file })
    }
}
