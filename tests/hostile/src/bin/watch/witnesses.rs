//! Things from before an attack that must survive it: one in each service.

use std::fs::{self, Permissions};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use conformance::check::{Outcome, ensure};
use zx::{AsHandleRef, Channel, Duration, MonotonicInstant, Signals};

/// A file with a name that no other program uses.
const FILE: &str = "/tmp/witness";
/// Its content.
const WORDS: &[u8] = b"what was written before";
/// How long a service may take to answer during an attack.
const PATIENCE: Duration = Duration::from_seconds(20);

/// Directories in which hostile programs leave files.
const TREES: [&str; 2] = ["/tmp", "/disk"];

/// Removes the files of hostile programs: files stay when their program ends.
pub fn remove_files_of_others() -> Outcome {
    for tree in TREES {
        for entry in fs::read_dir(tree)? {
            let entry = entry?;
            let (path, is_directory) = (entry.path(), entry.file_type()?.is_dir());
            if path == Path::new(FILE) {
                continue;
            }
            let removed = if is_directory {
                let opened = open_up(path.clone());
                opened.and_then(|()| fs::remove_dir_all(&path))
            } else {
                fs::remove_file(&path)
            };
            removed.map_err(|error| format!("{} cannot be removed: {error}", path.display()))?;
        }
    }
    Ok(())
}

/// Gives directories the permissions that the removal of their files needs.
fn open_up(directory: PathBuf) -> io::Result<()> {
    let mut left = vec![directory];
    while let Some(directory) = left.pop() {
        fs::set_permissions(&directory, Permissions::from_mode(0o755))?;
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                left.push(entry.path());
            }
        }
    }
    Ok(())
}

/// See the module's description.
pub struct Witnesses {
    listener: TcpListener,
    loader: Channel,
    clock: Channel,
}

impl Witnesses {
    /// Creates them.
    pub fn new() -> Result<Witnesses, conformance::check::Failure> {
        fs::write(FILE, WORDS)?;
        Ok(Witnesses {
            listener: TcpListener::bind("127.0.0.1:0")?,
            loader: zx::startup::clone_loader_service()?,
            clock: zx::startup::connect("clock")?,
        })
    }

    /// Checks that each is unchanged.
    pub fn stand(&self) -> Outcome {
        ensure(fs::read(FILE)? == WORDS, "a file is not what it was")?;
        let here = TcpStream::connect(self.listener.local_addr()?)?;
        let (_there, peer) = self.listener.accept()?;
        ensure(here.local_addr()? == peer, "a listener gives another's connection")?;
        let ended = |channel: &Channel| channel.wait_one(Signals::CHANNEL_PEER_CLOSED, MonotonicInstant::ZERO).is_ok();
        ensure(!ended(&self.loader), "the loader's connection has ended")?;
        // The time of day.
        self.clock.write(&[0], [])?;
        let deadline = MonotonicInstant::after(PATIENCE);
        let size = self.clock.read_wait(&mut [0; 64], &mut [], deadline)?;
        ensure(size.bytes == 24, "the clock's answer is none")
    }
}
