//! Linux with an image of the host's as its root.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;

use super::{ended, run, text};
use crate::args::TestArgs;
use crate::volume::{Disk, Volume};
use crate::{Context, Test, expect, expect_part, wrong};
use xtask_run::linux::{self, Root};

/// All of them.
pub fn tests(args: &TestArgs) -> Vec<Test> {
    let mut all = vec![
        Test::one("linux.root", root),
        Test::one("linux.root-read-only", read_only),
        Test::one("linux.root-is-synced", synced),
        Test::one("linux.root-wrong", wrong_root),
        Test::one("linux.wrong-program", wrong_program),
    ];
    if args.all || args.filter.as_deref().is_some_and(|filter| filter.starts_with("linux")) {
        all.push(Test::one("linux.disk-load", load));
    }
    all
}

/// A disk whose file system has busybox in it, a file, and these folders.
fn busybox_disk(context: &Context<'_>, folder: &TempDir, mib: u64, folders: &[&str]) -> Result<Disk> {
    let linux = linux::made(context.paths, &context.ui)?;
    let content = folder.path().join("content");
    fs::create_dir_all(content.join("bin")).context("cannot make a folder")?;
    fs::copy(&linux.busybox, content.join("bin/busybox")).context("cannot copy busybox")?;
    for name in ["sh", "cat", "cmp", "dd", "head", "ls", "mkdir", "poweroff", "seq", "sha1sum", "sleep", "sync"] {
        symlink("busybox", content.join("bin").join(name)).context("cannot make a link")?;
    }
    for name in folders {
        fs::create_dir(content.join(name)).context("cannot make a folder")?;
    }
    fs::write(content.join("given"), "of the host\n").context("cannot write a file")?;
    Volume::Ext4(4096).disk(context, folder, mib, Some(&content))
}

fn as_root(disk: &Disk, read_only: bool) -> Option<Root> {
    Some(Root { image: disk.path.clone(), read_only })
}

/// A file of the image.
fn file(disk: &Disk, name: &str) -> Result<Vec<u8>> {
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    disk.get(folder.path())?;
    fs::read(folder.path().join(name)).with_context(|| format!("cannot read {name} of the image"))
}

/// Mends the image without questions, as a distribution does when it starts.
fn mend(disk: &Disk) -> Result<()> {
    let output = Command::new("e2fsck").args(["-fp", &disk.name]).stdin(Stdio::null()).output();
    let output = output.context("cannot start e2fsck")?;
    match output.status.code() {
        Some(0 | 1) => Ok(()),
        code => bail!("e2fsck ended with {code:?}:\n{}", text(&output.stdout)),
    }
}

/// The image is the root, what is written there stays, and an orderly end leaves it clean, whatever still runs.
fn root(context: &Context<'_>) -> Result<()> {
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let disk = busybox_disk(context, &folder, 64, &[])?;
    let files = TempDir::new().context("cannot make a temporary folder")?;
    fs::write(files.path().join("shown"), "at /host\n").context("cannot write a file")?;
    let script = "cat /given /host/shown; echo changed >/changed; mkdir -p /a/b; echo x >/a/b/file; ls -d /dev/null /proc/1\n\
                  (exec 3>/held; while :; do sleep 1; echo y >&3; done) & sleep 1; exit 7";
    let done = run(context, &["sh", "-c", script], |guest| {
        guest.root = as_root(&disk, false);
        guest.files = Some(files.path().into());
    })?;
    ended(&done, 7)?;
    expect("the output", &text(&done.output), &"of the host\nat /host\n/dev/null\n/proc/1\n".into())?;
    expect("messages", &done.errors, &String::new())?;
    disk.check()?;
    expect("a file", &file(&disk, "changed")?, &b"changed\n".to_vec())?;
    // The second start sees what the first has written.
    let done = run(context, &["cat", "/changed", "/a/b/file"], |guest| guest.root = as_root(&disk, false))?;
    ended(&done, 0)?;
    expect("the output", &text(&done.output), &"changed\nx\n".into())?;
    disk.check()
}

/// A device that is not to be written is not written.
fn read_only(context: &Context<'_>) -> Result<()> {
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let disk = busybox_disk(context, &folder, 64, &["proc", "sys", "dev", "run"])?;
    let before = fs::read(&disk.path).context("cannot read the image")?;
    let script = "cat /given; echo no >/new || echo refused; dd if=/dev/zero of=/dev/vda bs=4096 count=1 2>/dev/null || echo refused";
    let done = run(context, &["sh", "-c", script], |guest| guest.root = as_root(&disk, true))?;
    ended(&done, 0)?;
    expect("the output", &text(&done.output), &"of the host\nrefused\nrefused\n".into())?;
    expect("the image is as it was", &(fs::read(&disk.path).context("cannot read the image")? == before), &true)
}

/// What was synced is there after a sudden end, and the file system can be mended without questions.
fn synced(context: &Context<'_>) -> Result<()> {
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let disk = busybox_disk(context, &folder, 64, &[])?;
    let script = "seq 20000 >/kept; sync; seq 30000 >/kept-or-not; poweroff -f; sleep 60";
    let done = run(context, &["sh", "-c", script], |guest| guest.root = as_root(&disk, false))?;
    ended(&done, 0)?;
    mend(&disk)?;
    let expected: String = (1..=20000).map(|n| format!("{n}\n")).collect();
    expect("the file", &(file(&disk, "kept")? == expected.into_bytes()), &true)
}

/// What is no root is named, and the code is over 0.
fn wrong_root(context: &Context<'_>) -> Result<()> {
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let image = folder.path().join("image");
    let name = image.to_string_lossy().into_owned();
    let says = |code: i32, part: &str| wrong::says(context, &["linux", "--root", &name, "--", "true"], code, part);
    says(125, "it cannot be opened")?;
    fs::write(&image, [1; 700]).context("cannot write")?;
    says(125, "whole blocks")?;
    fs::write(&image, vec![1; 1 << 20]).context("cannot write")?;
    let root = || Some(Root { image: image.clone(), read_only: false });
    let done = run(context, &["true"], |guest| guest.root = root())?;
    ended(&done, 1)?;
    expect_part("the message", &done.errors, "linux: the root /dev/vda has no ext4 file system that can be mounted")?;
    // A file system without the command.
    let empty = Volume::Ext4(4096).disk(context, &folder, 16, None)?;
    let done = run(context, &["no-such-program"], |guest| guest.root = as_root(&empty, false))?;
    ended(&done, 127)?;
    expect_part("the message", &done.errors, "no-such-program")?;
    empty.check()
}

/// A program for another processor does not run: busybox' shell takes it for a script, as on any Linux, and fails.
fn wrong_program(context: &Context<'_>) -> Result<()> {
    let linux = linux::made(context.paths, &context.ui)?;
    let mut program = fs::read(&linux.busybox).context("cannot read busybox")?;
    // The header's number of AArch64.
    program[18] = 183;
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let file = folder.path().join("alien");
    fs::write(&file, program).context("cannot write")?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).context("cannot change a file")?;
    let done = run(context, &["/host/alien"], |guest| guest.files = Some(folder.path().into()))?;
    ended(&done, 2)?;
    expect_part("the message", &done.errors, "/host/alien: line")
}

/// Files larger than Linux' memory are read as they were written, while others work; Linux goes on while it waits.
fn load(context: &Context<'_>) -> Result<()> {
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let disk = busybox_disk(context, &folder, 256, &[])?;
    let script = "cd /; for n in 1 2 3; do (head -c 50000000 /dev/urandom >file$n; sha1sum <file$n >sum$n; sync) & done\n\
                  (while :; do :; done) & busy=$!\n\
                  (i=0; while [ $i -lt 20 ]; do sleep 0.1; i=$((i + 1)); done; echo slept) & slept=$!\n\
                  wait $slept; kill $busy; wait\n\
                  echo 3 >/proc/sys/vm/drop_caches\n\
                  for n in 1 2 3; do sha1sum <file$n | cmp - sum$n && echo same; done";
    let done = run(context, &["sh", "-c", script], |guest| guest.root = as_root(&disk, false))?;
    ended(&done, 0)?;
    expect("the output", &text(&done.output), &"slept\nsame\nsame\nsame\n".into())?;
    disk.check()
}
