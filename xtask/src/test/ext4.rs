//! ext4 on a disk: what the system writes, the host's tools find in order, and the other way round.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use tempfile::TempDir;

use super::files::{good, here, run, tool};
use super::{Context, Test, expect, expect_part};
use crate::run::Capture;
use crate::session::End;
use crate::setup;

/// All of them.
pub fn tests() -> Vec<Test> {
    vec![
        Test::one("files.ext4-as-on-the-host", as_on_the_host),
        Test::one("files.ext4-driver-dies", driver_dies),
        Test::one("files.ext4-full", full),
        Test::one("files.ext4-damaged", damaged),
        Test::one("files.ext4-read-only", read_only),
    ]
}

/// A disk with blocks of so many bytes, and what lies in `content`.
pub(super) fn disk(
    context: &Context<'_>,
    folder: &TempDir,
    mib: u64,
    block: &str,
    content: &str,
) -> Result<(PathBuf, String)> {
    setup::for_disks(&context.ui)?;
    let path = folder.path().join("disk.img");
    fs::File::create(&path).and_then(|file| file.set_len(mib << 20)).context("cannot make a disk")?;
    let name = path.to_str().context("a temporary folder's name is no text")?.to_owned();
    let from: &[&str] = if content.is_empty() { &[] } else { &["-d", content] };
    tool("mke2fs", &[&["-q", "-F", "-t", "ext4", "-b", block][..], from, &[&name]].concat())?;
    Ok((path, name))
}

/// A new folder in another; its name.
pub(super) fn folder_in(folder: &TempDir, name: &str) -> Result<String> {
    let path = folder.path().join(name);
    fs::create_dir(&path).context("cannot make a folder")?;
    Ok(path.to_str().context("no text")?.to_owned())
}

/// What the example `files` says of a tree, but for the folder that only ext4 has.
pub(super) fn without_lost_and_found(sum: &str) -> String {
    sum.lines().filter(|line| *line != "/lost+found/").map(|line| format!("{line}\n")).collect()
}

/// A tree that the system makes is the one that the host makes, for the host's tools and for the system itself; and what the host puts
/// there, the system reads. Afterwards the disk needs no journal.
fn as_on_the_host(context: &Context<'_>) -> Result<()> {
    for (block, seed) in [("4096", "4"), ("1024", "1")] {
        let folder = TempDir::new().context("cannot make a temporary folder")?;
        let (path, name) = disk(context, &folder, 64, block, "")?;
        let tree = folder_in(&folder, "tree")?;
        here(context, &["fill", &tree, seed])?;
        let expected = here(context, &["sum", &tree])?;
        expect("the system's tree", &good(context, &path, &["fill", "/disk", seed])?.as_str(), &"filled\n")?;
        tool("e2fsck", &["-fn", &name])?;
        let back = folder_in(&folder, "back")?;
        tool("debugfs", &["-R", &format!("rdump / {back}"), &name])?;
        expect("what the host reads", &without_lost_and_found(&here(context, &["sum", &back])?), &expected)?;
        let (path, _) = disk(context, &folder, 64, block, &tree)?;
        let found = without_lost_and_found(&good(context, &path, &["sum", "/disk"])?);
        expect("what the system reads of the host's", &found, &expected)?;
    }
    Ok(())
}

/// The disk's driver is killed before a tree is made and again before it is read, under a file system that goes on.
fn driver_dies(context: &Context<'_>) -> Result<()> {
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let program = context.example("files")?;
    let content = folder_in(&folder, "content")?;
    fs::copy(&program, Path::new(&content).join("program")).context("cannot copy")?;
    let (path, name) = disk(context, &folder, 64, "4096", &content)?;
    let script =
        "cat /disk/nothing\nkill virtio-blk\n/disk/program fill /disk 3\nkill virtio-blk\n/disk/program sum /disk\n";
    let mut capture = Capture::new(context.built()?, Path::new("sh"));
    capture.args = vec!["-c".to_owned(), script.to_owned()];
    capture.devices.disk = Some(path);
    let outcome = capture.run()?;
    let (stdout, stderr) = (outcome.stdout(), outcome.stderr());
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    expect_part("standard error", &stderr, "the service disk ended")?;
    let tree = folder_in(&folder, "tree")?;
    here(context, &["fill", &tree, "3"])?;
    for line in here(context, &["sum", &tree])?.lines() {
        expect_part("what the system reads", &stdout, line)?;
    }
    tool("e2fsck", &["-fn", &name]).map(drop)
}

/// A full disk says so, loses nothing, and takes more when there is room again.
fn full(context: &Context<'_>) -> Result<()> {
    for block in ["4096", "1024"] {
        let folder = TempDir::new().context("cannot make a temporary folder")?;
        let (path, name) = disk(context, &folder, 16, block, "")?;
        let said = good(context, &path, &["full", "/disk"])?;
        let expected = "more: Err(StorageFull)\nkept: kept, big is whole: true\nas much again: true\n";
        expect("what it saw", &said.as_str(), &expected)?;
        tool("e2fsck", &["-fn", &name])?;
    }
    Ok(())
}

/// Bytes of superblock, tables, journal and directories are others: errors, perhaps, but an end, and nothing that falls.
fn damaged(context: &Context<'_>) -> Result<()> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut number = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % below) as usize
    };
    for round in 0..4 {
        let folder = TempDir::new().context("cannot make a temporary folder")?;
        let tree = folder_in(&folder, "tree")?;
        here(context, &["fill", &tree, "5"])?;
        let (path, _) = disk(context, &folder, 16, "1024", &tree)?;
        let mut bytes = fs::read(&path).context("cannot read")?;
        for _ in 0..1 + number(200) {
            // In one round the superblock, in others what lies behind it.
            let at = if round == 0 { 1024 + number(200) } else { 2048 + number(400_000) };
            bytes[at] = number(256) as u8;
        }
        fs::write(&path, bytes).context("cannot write")?;
        let said = good(context, &path, &["poke", "/disk"]).with_context(|| format!("round {round}"))?;
        expect("what it said", &said.as_str(), &"poked\n")?;
    }
    Ok(())
}

/// An image with errors recorded in it is read, and not written.
fn read_only(context: &Context<'_>) -> Result<()> {
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let content = folder_in(&folder, "content")?;
    fs::write(Path::new(&content).join("kept"), "kept").context("cannot write")?;
    let (path, name) = disk(context, &folder, 16, "4096", &content)?;
    // EXT4_ERROR_FS, in the superblock's state.
    tool("debugfs", &["-w", "-R", "ssv state 2", &name])?;
    let before = fs::read(&path).context("cannot read")?;
    expect_part("what is there", &good(context, &path, &["sum", "/disk"])?, "/kept 4 ")?;
    let (end, _, stderr) = run(context, &path, &["fill", "/disk", "1"])?;
    expect("whether it could be written", &end, &End::Exit(1))?;
    expect_part("standard error", &stderr, "it has errors recorded in it")?;
    expect("whether anything was written", &(fs::read(&path).context("cannot read")? == before), &true)
}
