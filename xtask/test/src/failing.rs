//! Failing disks: a sector whose writes fail, emulated with QEMU's `blkdebug`. The writer gets one error, and
//! everything else continues.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use tempfile::TempDir;

use super::files::run_with;
use super::volume::{Volume, folder_in, tool};
use super::{Context, Test, expect, expect_part};
use xtask_build::devices::Devices;
use xtask_run::session::End;

/// Size of a sector in bytes.
const SECTOR: usize = 512;
/// The kinds of file system.
const EXT4: Volume = Volume::Ext4(4096);
const FAT: Volume = Volume::Fat(32);

/// All of them.
pub fn tests() -> Vec<Test> {
    vec![
        Test::one("files.ext4-failing-journal", |context| metadata(context, true)),
        Test::one("files.disk-failing-table", |context| metadata(context, false)),
        Test::one("files.ext4-failing-content", |context| content(context, true)),
        Test::one("files.disk-failing-content", |context| content(context, false)),
    ]
}

/// The first sector of an image that begins with these bytes.
fn sector_of(image: &Path, bytes: &[u8]) -> Result<u64> {
    let image = fs::read(image).context("cannot read the image")?;
    let found = image.chunks(SECTOR).position(|sector| sector.starts_with(bytes));
    found.map(|sector| sector as u64).context("the image does not have what is looked for")
}

/// Runs the example `files` on a disk with a bad sector; returns its output, and other messages.
fn run(context: &Context<'_>, disk: PathBuf, sector: u64, what: &str) -> Result<(String, String)> {
    let devices = Devices { disk: Some(disk), bad_sector: Some(sector), ..Devices::default() };
    let (end, stdout, stderr) = run_with(context, devices, &[what, "/disk"])?;
    expect("its end", &end, &End::Exit(0)).with_context(|| format!("{stdout}\n{stderr}"))?;
    Ok((stdout, stderr))
}

/// The bad sector is in the journal or in the table: each written file gets one error, and then the disk is read-only.
fn metadata(context: &Context<'_>, is_ext4: bool) -> Result<()> {
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let (disk, sector) = if is_ext4 {
        let disk = EXT4.disk(context, &folder, 64, None)?;
        // The journal is inode 8.
        let block: u64 = tool("debugfs", &["-R", "bmap <8> 60", &disk.name])?.trim().parse().context("no block")?;
        (disk, block * 8)
    } else {
        // The first table begins after 32 reserved sectors.
        (FAT.disk(context, &folder, 64, None)?, 32 + 4)
    };
    let (stdout, stderr) = run(context, disk.path, sector, "errors")?;
    let expected = "a sync says that the disk failed: true\n\
        and then: one 0, two 1, quiet 0\n\
        a write: Err(ReadOnlyFilesystem)\n\
        a new file: Err(ReadOnlyFilesystem)\n\
        what is read: quiet\n";
    expect("what it saw", &stdout.as_str(), &expected)?;
    expect_part("standard error", &stderr, "from here on it is only read")
}

/// The bad sector is in a file: only its writer gets an error, and the disk stays usable.
fn content(context: &Context<'_>, is_ext4: bool) -> Result<()> {
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let from = folder_in(&folder, "content")?;
    fs::write(from.join("bad"), vec![b'o'; 1 << 20]).context("cannot write")?;
    let disk = if is_ext4 { EXT4 } else { FAT }.disk(context, &folder, 64, Some(&from))?;
    let sector = sector_of(&disk.path, &[b'o'; SECTOR])? + 100;
    let (stdout, _) = run(context, disk.path.clone(), sector, "overwrite")?;
    let expected = "writes that failed: 1, and then: bad 0, beside 0\nwhat is read: besidenew\n";
    expect("what it saw", &stdout.as_str(), &expected)?;
    disk.check()
}
