//! The file systems on a disk, FAT and ext4: the host's tools accept what the system writes, and vice versa.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::ops::Range;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::boots::machine_of;
use super::volume::{Volume, folder_in, text, tool};
use super::wrong;
use super::{Cases, Context, Test, expect, expect_part};
use xtask_build::devices::Devices;
use xtask_build::{cargo, setup};
use xtask_run::Capture;
use xtask_run::args::ACCEL;
use xtask_run::session::End;

/// All of them.
pub fn tests() -> Vec<Test> {
    vec![
        Test::one("files.disk-as-on-the-host", |context| {
            as_on_the_host(context, &[(64, Volume::Fat(32)), (32, Volume::Fat(16)), (8, Volume::Fat(12))])
        }),
        Test::one("files.disk-driver-dies", |context| driver_dies(context, Volume::Fat(32))),
        Test::one("files.disk-full", |context| full(context, &[(4, Volume::Fat(12)), (40, Volume::Fat(32))])),
        Test::one("files.disk-damaged", |context| damaged(context, 6, (8, Volume::Fat(12)), [11..61, 512..60_512])),
        Test::one("files.ext4-as-on-the-host", |context| {
            as_on_the_host(context, &[(64, Volume::Ext4(4096)), (64, Volume::Ext4(1024))])
        }),
        Test::one("files.ext4-driver-dies", |context| driver_dies(context, Volume::Ext4(4096))),
        Test::one("files.ext4-full", |context| full(context, &[(16, Volume::Ext4(4096)), (16, Volume::Ext4(1024))])),
        Test::one("files.ext4-damaged", |context| {
            damaged(context, 4, (16, Volume::Ext4(1024)), [1024..1224, 2048..402_048])
        }),
        Test::one("files.ext4-read-only", read_only),
        Test::one("files.disk-holds-nobody", holds_nobody),
        Test::one("files.disk-without-file-system", without_file_system),
        Test::many("files.ends-in-order", ends_in_order),
        Test::many("files.host-disk-full", host_disk_full),
        Test::one("files.disk-tool", disk_tool),
    ]
}

/// Runs the example `files` in the system; returns its code, its output, and other messages.
pub(super) fn run(context: &Context<'_>, disk: &Path, args: &[&str]) -> Result<(End, String, String)> {
    run_with(context, Devices { disk: Some(disk.to_path_buf()), ..Devices::default() }, args)
}

/// The same on a machine with these devices.
pub(super) fn run_with(context: &Context<'_>, devices: Devices, args: &[&str]) -> Result<(End, String, String)> {
    let built = context.built()?;
    let program = context.example("files")?;
    let mut capture = Capture::new(built, &program);
    capture.args = args.iter().map(ToString::to_string).collect();
    capture.devices = devices;
    let outcome = capture.run()?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let (stdout, stderr) = (text(outcome.stdout()), text(outcome.stderr()));
    Ok((outcome.end, stdout, stderr))
}

pub(super) fn good(context: &Context<'_>, disk: &Path, args: &[&str]) -> Result<String> {
    match run(context, disk, args)? {
        (End::Exit(0), stdout, _) => Ok(stdout),
        (end, stdout, stderr) => bail!("files {args:?} ended with {end:?}\n{stdout}\n{stderr}"),
    }
}

/// Runs the example `files` on the host.
pub(super) fn here(context: &Context<'_>, args: &[&str]) -> Result<String> {
    let mut command = cargo::command(&context.paths.workspace.join("examples/files"));
    command.args(["run", "--release", "--locked", "--quiet", "--target-dir"]).arg(context.paths.out.join("examples"));
    let output = command.arg("--").args(args).output().context("cannot start cargo")?;
    if !output.status.success() {
        bail!("on the host: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A tree that the system creates equals the one that the host creates, as read by the host's tools and by the system
/// itself. The system also reads files that the host writes.
fn as_on_the_host(context: &Context<'_>, volumes: &[(u64, Volume)]) -> Result<()> {
    for (number, (mib, volume)) in volumes.iter().enumerate() {
        let folder = TempDir::new().context("cannot make a temporary folder")?;
        let (seed, tree) = (number.to_string(), folder_in(&folder, "tree")?);
        here(context, &["fill", text(&tree)?, &seed])?;
        let expected = here(context, &["sum", text(&tree)?])?;
        let disk = volume.disk(context, &folder, *mib, None)?;
        expect("the system's tree", &good(context, &disk.path, &["fill", "/disk", &seed])?.as_str(), &"filled\n")?;
        disk.check()?;
        let back = folder_in(&folder, "back")?;
        disk.get(&back)?;
        expect("what the host reads", &without_lost_and_found(&here(context, &["sum", text(&back)?])?), &expected)?;
        let long = tree.join("From the host, with a long name.txt");
        fs::write(&long, "written by the host").context("cannot write")?;
        let expected = here(context, &["sum", text(&tree)?])?;
        let disk = volume.disk(context, &folder, *mib, Some(&tree))?;
        let found = without_lost_and_found(&good(context, &disk.path, &["sum", "/disk"])?);
        expect("what the system reads of the host's", &found, &expected)?;
    }
    Ok(())
}

/// The disk's driver is killed before a tree is created and again before it is read. The file system continues and
/// connects to the next driver each time.
fn driver_dies(context: &Context<'_>, volume: Volume) -> Result<()> {
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let content = folder_in(&folder, "content")?;
    fs::copy(context.example("files")?, content.join("program")).context("cannot copy")?;
    let disk = volume.disk(context, &folder, 64, Some(&content))?;
    let script =
        "cat /disk/nothing\nkill virtio-blk\n/disk/program fill /disk 3\nkill virtio-blk\n/disk/program sum /disk\n";
    let mut capture = Capture::new(context.built()?, Path::new("sh"));
    capture.args = vec!["-c".to_owned(), script.to_owned()];
    capture.devices.disk = Some(disk.path.clone());
    let outcome = capture.run()?;
    let (stdout, stderr) = (outcome.stdout(), outcome.stderr());
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    expect_part("standard error", &stderr, "the service disk ended")?;
    let tree = folder_in(&folder, "tree")?;
    here(context, &["fill", text(&tree)?, "3"])?;
    for line in here(context, &["sum", text(&tree)?])?.lines() {
        expect_part("what the system reads", &stdout, line)?;
    }
    disk.check()
}

/// A full disk causes an error, loses nothing, and accepts writes again when there is room.
fn full(context: &Context<'_>, volumes: &[(u64, Volume)]) -> Result<()> {
    for (mib, volume) in volumes {
        let folder = TempDir::new().context("cannot make a temporary folder")?;
        let disk = volume.disk(context, &folder, *mib, None)?;
        let said = good(context, &disk.path, &["full", "/disk"])?;
        let expected = "more: Err(StorageFull)\nkept: kept, big is whole: true\nas much again: true\n";
        expect("what it saw", &said.as_str(), &expected)?;
        disk.check()?;
    }
    Ok(())
}

/// Corrupts bytes of superblock, tables, journal and directories: errors are allowed, but no crash and no endless call.
/// In the first round the bytes are in `head`, in others in `rest`.
fn damaged(
    context: &Context<'_>,
    rounds: usize,
    (mib, volume): (u64, Volume),
    [head, rest]: [Range<usize>; 2],
) -> Result<()> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut number = |range: &Range<usize>| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        range.start + (state >> 33) as usize % range.len()
    };
    for round in 0..rounds {
        let folder = TempDir::new().context("cannot make a temporary folder")?;
        let tree = folder_in(&folder, "tree")?;
        here(context, &["fill", text(&tree)?, "5"])?;
        let disk = volume.disk(context, &folder, mib, Some(&tree))?;
        let mut bytes = fs::read(&disk.path).context("cannot read")?;
        for _ in 0..number(&(1..201)) {
            let at = number(if round == 0 { &head } else { &rest });
            bytes[at] = number(&(0..256)) as u8;
        }
        fs::write(&disk.path, bytes).context("cannot write")?;
        let said = good(context, &disk.path, &["poke", "/disk"]).with_context(|| format!("round {round}"))?;
        expect("what it said", &said.as_str(), &"poked\n")?;
    }
    Ok(())
}

/// An image with recorded errors is mounted read-only.
fn read_only(context: &Context<'_>) -> Result<()> {
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let content = folder_in(&folder, "content")?;
    fs::write(content.join("kept"), "kept").context("cannot write")?;
    let disk = Volume::Ext4(4096).disk(context, &folder, 16, Some(&content))?;
    // EXT4_ERROR_FS, in the superblock's state.
    tool("debugfs", &["-w", "-R", "ssv state 2", &disk.name])?;
    let before = fs::read(&disk.path).context("cannot read")?;
    expect_part("what is there", &good(context, &disk.path, &["sum", "/disk"])?, "/kept 4 ")?;
    let (end, _, stderr) = run(context, &disk.path, &["fill", "/disk", "1"])?;
    expect("whether it could be written", &end, &End::Exit(1))?;
    expect_part("standard error", &stderr, "it has errors recorded in it")?;
    expect("whether anything was written", &(fs::read(&disk.path).context("cannot read")? == before), &true)
}

/// The output of the example `files` for a tree, without the folder that only ext4 has.
fn without_lost_and_found(sum: &str) -> String {
    sum.lines().filter(|line| *line != "/lost+found/").map(|line| format!("{line}\n")).collect()
}

/// While a file is extended by 150 MiB, truncated, and removed, other clients are served.
fn holds_nobody(context: &Context<'_>) -> Result<()> {
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let disk = Volume::Fat(32).disk(context, &folder, 300, None)?;
    let said = good(context, &disk.path, &["beside", "/disk"])?;
    let expected = "longer: others went on: true\nlength: true\nshorter: others went on: true\n\
        removed: others went on: true\nfound: Err(NotFound)\n";
    expect("what it saw", &said.as_str(), &expected)?;
    disk.check()
}

/// A disk without a file system: no files are found there, and the system says why.
fn without_file_system(context: &Context<'_>) -> Result<()> {
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let path = folder.path().join("disk.img");
    fs::write(&path, vec![0x5a; 1 << 20]).context("cannot make a disk")?;
    let (end, _, stderr) = run(context, &path, &["sum", "/disk"])?;
    expect("its end", &end, &End::Exit(1))?;
    expect_part("standard error", &stderr, "there is no FAT file system on it")
}

/// How a run is ended from outside.
#[derive(Clone, Copy)]
enum Ending {
    Signal(Signal),
    Timeout,
    ClosedOutput,
}

/// However a run ends, the disk is clean afterwards and has the program's data. The program is not notified of the end,
/// and does not sync.
fn ends_in_order(context: &Context<'_>, cases: &mut Cases) -> Result<()> {
    for (name, ending, code) in [
        ("SIGTERM", Ending::Signal(Signal::TERM), 143),
        ("SIGHUP", Ending::Signal(Signal::HUP), 129),
        ("SIGINT", Ending::Signal(Signal::INT), 137),
        ("timeout", Ending::Timeout, 124),
        ("closed output", Ending::ClosedOutput, 141),
    ] {
        let result = ended(context, ending, code);
        cases.case(name, result.map_err(|error| format!("{error:#}")));
    }
    let result = stands_still(context);
    cases.case("a machine that stands still", result.map_err(|error| format!("{error:#}")));
    Ok(())
}

/// Starts this tool with a program that holds files on a disk open; the program runs when this returns.
fn holding(context: &Context<'_>, disk: &Path, options: &[&str]) -> Result<(Child, BufReader<ChildStdout>)> {
    let program = context.example("files")?;
    let mut command = wrong::tool(context)?;
    command.arg("run").args(options).arg("--disk").arg(disk).arg(program).args(["hold", "/disk"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("cannot start this tool")?;
    let mut output = BufReader::new(child.stdout.take().context("no output")?);
    let mut line = String::new();
    output.read_line(&mut line).context("cannot read")?;
    if line != "held\n" {
        let _ = child.kill();
        let stderr = child.wait_with_output().map(|output| wrong::said(&output)).unwrap_or_default();
        bail!("the program says {line:?}\n{stderr}");
    }
    Ok((child, output))
}

fn ended(context: &Context<'_>, ending: Ending, code: i32) -> Result<()> {
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let disk = Volume::Fat(32).disk(context, &folder, 64, None)?;
    let options: &[&str] = if matches!(ending, Ending::Timeout) { &["--timeout", "40"] } else { &[] };
    let (mut child, output) = holding(context, &disk.path, options)?;
    let mut output = Some(output);
    match ending {
        Ending::Signal(signal) => send(&child, signal)?,
        Ending::Timeout => {}
        Ending::ClosedOutput => drop(output.take()),
    }
    // Its remaining output must be read.
    if let Some(mut output) = output {
        std::io::copy(&mut output, &mut std::io::sink()).context("cannot read")?;
    }
    let found = wrong::ends_within(&mut child, Duration::from_secs(120))?;
    expect("the exit code", &found, &Some(code))?;
    disk.check()?;
    let back = folder_in(&folder, "back")?;
    disk.get(&back)?;
    let bytes = fs::read(back.join("held")).context("cannot read what was written")?;
    expect("how much is there", &bytes.len(), &100_000)?;
    expect("whether it is what was written", &bytes.iter().all(|byte| *byte == b'h'), &true)
}

/// A system that does not answer has some seconds; a second signal ends it at once.
fn stands_still(context: &Context<'_>) -> Result<()> {
    const LATE: &str = "did not end within";
    for (second, late) in [(true, false), (false, true)] {
        let folder = TempDir::new().context("cannot make a temporary folder")?;
        let disk = Volume::Fat(32).disk(context, &folder, 64, None)?;
        let (mut child, mut output) = holding(context, &disk.path, &[])?;
        let machine = machine_of(child.id())?.context("there is no machine")?;
        kill_process(machine, Signal::STOP).context("cannot stop the machine")?;
        send(&child, Signal::TERM)?;
        // A different signal, because two of the same kind could be merged.
        if second {
            send(&child, Signal::HUP)?;
        }
        std::io::copy(&mut output, &mut std::io::sink()).context("cannot read")?;
        let code = wrong::ends_within(&mut child, Duration::from_secs(120))?;
        expect("whether a signal ended it", &matches!(code, Some(143 | 129)), &true)?;
        let mut stderr = String::new();
        child.stderr.take().context("no errors")?.read_to_string(&mut stderr).context("cannot read")?;
        expect("whether it says that it was late", &stderr.contains(LATE), &late)?;
    }
    Ok(())
}

fn send(child: &Child, signal: Signal) -> Result<()> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("no process")?;
    kill_process(pid, signal).context("cannot send a signal")
}

/// From scratch to a program that keeps its data, with this tool alone: `disk get` reads what the system writes to a
/// disk that `disk new` created, and the system reads what `disk put` wrote there.
fn disk_tool(context: &Context<'_>) -> Result<()> {
    for kind in [&[][..], &["--fat"]] {
        let folder = TempDir::new().context("cannot make a temporary folder")?;
        let (image, back) = (folder.path().join("disk.img"), folder.path().join("back"));
        let disk = |args: &[&str], paths: &[&Path]| -> Result<String> {
            let mut command = wrong::tool(context)?;
            let output = command.arg("disk").args(args).args(paths).output().context("cannot start this tool")?;
            expect("the exit code", &(output.status.code(), wrong::said(&output)), &(Some(0), String::new()))?;
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        disk(&[&["new"], kind].concat(), &[&image])?;
        let tree = folder_in(&folder, "tree")?;
        here(context, &["fill", text(&tree)?, "7"])?;
        let expected = here(context, &["sum", text(&tree)?])?;
        expect("the system's tree", &good(context, &image, &["fill", "/disk", "7"])?.as_str(), &"filled\n")?;
        disk(&["get"], &[&image, Path::new("/"), &back])?;
        let found = without_lost_and_found(&here(context, &["sum", text(&back)?])?);
        expect("what comes back", &found, &expected)?;
        let other = folder.path().join("other.img");
        disk(&[&["new", "--size", "24M"], kind].concat(), &[&other])?;
        for entry in fs::read_dir(&tree).context("cannot read")? {
            disk(&["put"], &[&other, &entry.context("cannot read")?.path()])?;
        }
        let found = without_lost_and_found(&good(context, &other, &["sum", "/disk"])?);
        expect("what the system reads", &found, &expected)?;
        expect_part("the list", &disk(&["ls"], &[&other])?, "folder 0 with a long name/")?;
    }
    Ok(())
}

/// If the host's disk is full, the machine and the user get an error, and nothing hangs.
fn host_disk_full(context: &Context<'_>, cases: &mut Cases) -> Result<()> {
    // A file system of six megabytes in a private mount namespace.
    const SCRIPT: &str = "mount -t tmpfs -o size=6M none \"$1\" || exit 77
        truncate -s 64M \"$1/disk.img\" && mkfs.vfat -F 32 \"$1/disk.img\" >/dev/null || exit 78
        exec \"$2\" run --timeout 300 --disk \"$1/disk.img\" \"$3\" full /disk";
    setup::for_disks(&context.ui)?;
    context.built()?;
    let program = context.example("files")?;
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let tool = wrong::tool(context)?;
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", SCRIPT, "sh"]).arg(folder.path()).arg(tool.get_program()).arg(program);
    command.env("HAFNON_ROOT", &context.paths.workspace).env(ACCEL, "tcg").stdin(Stdio::null());
    let output = command.output().context("cannot start unshare")?;
    let stderr = wrong::said(&output);
    if output.status.code() == Some(77) || stderr.contains("unshare failed") {
        cases.not_made("left out: this user may not mount anything in a name space of its own");
        return Ok(());
    }
    expect_part("standard error", &stderr, "the host's disk is full: a write to the machine's disk failed")?;
    expect("whether it had to be ended", &(output.status.code() == Some(124)), &false)?;
    cases.pass_whole();
    Ok(())
}
