//! Disks that fail: a sector that takes no writes, by QEMU's `blkdebug`. Who wrote is told, once, and the rest goes on.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use tempfile::TempDir;

use super::files::{self, run_with, tool};
use super::{Context, Test, expect, expect_part, ext4};
use crate::qemu::Devices;
use crate::session::End;

/// Bytes of a sector.
const SECTOR: usize = 512;

/// All of them.
pub fn tests() -> Vec<Test> {
    vec![
        Test::one("files.ext4-failing-journal", |context| metadata(context, true)),
        Test::one("files.disk-failing-table", |context| metadata(context, false)),
        Test::one("files.ext4-failing-content", |context| content(context, true)),
        Test::one("files.disk-failing-content", |context| content(context, false)),
    ]
}

/// Where an image has these bytes first, at the start of a sector.
fn sector_of(image: &Path, bytes: &[u8]) -> Result<u64> {
    let image = fs::read(image).context("cannot read the image")?;
    let found = image.chunks(SECTOR).position(|sector| sector.starts_with(bytes));
    found.map(|sector| sector as u64).context("the image does not have what is looked for")
}

/// The example `files` on a disk with a bad sector; gives what it wrote, and what was said beside that.
fn run(context: &Context<'_>, disk: PathBuf, sector: u64, what: &str) -> Result<(String, String)> {
    let devices = Devices { disk: Some(disk), bad_sector: Some(sector), ..Devices::default() };
    let (end, stdout, stderr) = run_with(context, devices, &[what, "/disk"])?;
    expect("its end", &end, &End::Exit(0)).with_context(|| format!("{stdout}\n{stderr}"))?;
    Ok((stdout, stderr))
}

/// The bad sector is one of the journal's, or of the table's: each file that was written is told once, and then the disk is only read.
fn metadata(context: &Context<'_>, is_ext4: bool) -> Result<()> {
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let (disk, sector) = if is_ext4 {
        let (disk, name) = ext4::disk(context, &folder, 64, "4096", "")?;
        // The journal is inode 8.
        let block: u64 = tool("debugfs", &["-R", "bmap <8> 60", &name])?.trim().parse().context("no block")?;
        (disk, block * 8)
    } else {
        let (disk, _) = files::disk(context, &folder, 64, "32")?;
        // The first table begins behind 32 reserved sectors.
        (disk, 32 + 4)
    };
    let (stdout, stderr) = run(context, disk, sector, "errors")?;
    let expected = "a sync says that the disk failed: true\n\
        and then: one 0, two 1, quiet 0\n\
        a write: Err(ReadOnlyFilesystem)\n\
        a new file: Err(ReadOnlyFilesystem)\n\
        what is read: quiet\n";
    expect("what it saw", &stdout.as_str(), &expected)?;
    expect_part("standard error", &stderr, "from here on it is only read")
}

/// The bad sector is a file's: who writes there is told, and nobody else; the disk is used on.
fn content(context: &Context<'_>, is_ext4: bool) -> Result<()> {
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let from = ext4::folder_in(&folder, "content")?;
    let file = Path::new(&from).join("bad");
    fs::write(&file, vec![b'o'; 1 << 20]).context("cannot write")?;
    let (disk, name) = if is_ext4 {
        ext4::disk(context, &folder, 64, "4096", &from)?
    } else {
        let (disk, name) = files::disk(context, &folder, 64, "32")?;
        tool("mcopy", &["-i", &name, file.to_str().context("no text")?, "::/bad"])?;
        (disk, name)
    };
    let sector = sector_of(&disk, &[b'o'; SECTOR])? + 100;
    let (stdout, _) = run(context, disk, sector, "overwrite")?;
    let expected = "writes that failed: 1, and then: bad 0, beside 0\nwhat is read: besidenew\n";
    expect("what it saw", &stdout.as_str(), &expected)?;
    if is_ext4 {
        tool("e2fsck", &["-fn", &name])?
    } else {
        tool("fsck.vfat", &["-n", &name])?
    };
    Ok(())
}
