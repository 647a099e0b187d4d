//! Drivers: ordinary programs with devices that QEMU emulates.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::{Context, Test, expect, expect_part};
use xtask_build::devices::Devices;
use xtask_build::image::{Image, Mode};
use xtask_run::args::Accel;
use xtask_run::qemu::Machine;
use xtask_run::session::{End, Outcome, Session, Streams};
use xtask_run::{Capture, PATIENCE};

/// The size of the disks in bytes.
const DISK: usize = 64 << 20;

/// All of them.
pub fn tests() -> Vec<Test> {
    vec![
        Test::one("drivers.console", console),
        Test::one("drivers.console-much-output", console_much_output),
        Test::one("drivers.console-driver-dies", console_driver_dies),
        Test::one("drivers.clock", clock),
        Test::one("drivers.clock-reconnect", clock_reconnect),
        Test::one("drivers.own-resources-only", own_resources_only),
        Test::one("drivers.disk-read", disk_read),
        Test::one("drivers.disk-write", |context| disk_write(context, 0)),
        Test::one("drivers.disk-driver-dies-while-writing", |context| disk_write(context, 5)),
        Test::one("drivers.no-disk", no_disk),
    ]
}

/// Boots a shell at the terminal and has a dialogue with it. Returns everything that the terminal showed.
pub fn dialogue(
    context: &Context<'_>,
    lines: Vec<(&'static str, &'static str)>,
    code: i64,
) -> Result<(String, Outcome)> {
    let built = context.built_with_shell()?;
    let devices = Devices { terminal: true, ..Devices::default() };
    let bytes = Image::new(built, false, &devices)?.finish(&Mode::Shell, &[])?;
    let (memory, accel) = (512 << 20, Accel::Tcg);
    let machine = Machine {
        kernel: &built.kernel,
        root: &built.root,
        image: &bytes,
        memory,
        accel,
        gdb: None,
        devices,
        linux: None,
    };
    let timeout = Some(PATIENCE);
    let streams = Streams::Dialogue(lines);
    let session = Session { machine, timeout, quiet: None, verbose: false, streams, until_first_output: false };
    let outcome = session.run()?;
    let shown = String::from_utf8_lossy(&outcome.terminal).into_owned();
    if outcome.end != End::Exit(code) {
        let stderr = String::from_utf8_lossy(&outcome.stderr()).into_owned();
        bail!("it ended with {:?}, expected Exit({code}); the terminal showed:\n{shown}\n{stderr}", outcome.end);
    }
    Ok((shown, outcome))
}

pub const PROMPT: &str = "hafnon$ ";

/// Typing, editing, history, Ctrl-C; the exit code comes over the link.
fn console(context: &Context<'_>) -> Result<()> {
    let lines = vec![
        (PROMPT, "echo onf\x7fe\r"),
        // Two lines up in the history, then a character inserted before the last one.
        (PROMPT, "echo two\r"),
        (PROMPT, "\x1b[A\x1b[A\x1b[DX\r"),
        (PROMPT, "sh -c 'date 100'\r"),
        ("interrupt 1 at", "\x03"),
        (PROMPT, "exit 7\r"),
    ];
    let (shown, outcome) = dialogue(context, lines, 7)?;
    for line in ["\r\none\r\n", "\r\ntwo\r\n", "\r\nonXe\r\n", "^C\r\n"] {
        expect_part("the terminal", &shown, line)?;
    }
    expect("standard output over the link", &String::from_utf8_lossy(&outcome.stdout()).as_ref(), &"")?;
    expect("the system's warnings", &outcome.warnings, &Vec::new())
}

/// More data than all buffers on the way hold, in both directions.
fn console_much_output(context: &Context<'_>) -> Result<()> {
    let lines = vec![(PROMPT, "cat /boot/lib/libfdio.so\r"), (PROMPT, "exit 0\r")];
    let (shown, _) = dialogue(context, lines, 0)?;
    let built = context.built_with_shell()?;
    let file = built.libraries.iter().find(|(path, _)| path == "lib/libfdio.so").context("there is no libfdio.so")?;
    let bytes = fs::read(&file.1).context("cannot read libfdio.so")?;
    // Lossy conversion changes bytes, but not the number of newlines.
    let newlines = bytes.iter().filter(|byte| **byte == b'\n').count();
    let came = shown.bytes().filter(|byte| *byte == b'\n').count();
    if came < newlines { bail!("{came} lines came of {newlines}") } else { Ok(()) }
}

/// A console driver that dies takes the shell with it; both are started again.
fn console_driver_dies(context: &Context<'_>) -> Result<()> {
    let lines = vec![
        (PROMPT, "echo before\r"),
        ("before\r\n", "kill serial\r"),
        ("Type a program's name", "echo after\r"),
        ("after\r\n", "exit 3\r"),
    ];
    let (_, outcome) = dialogue(context, lines, 3)?;
    expect_part("standard error", &String::from_utf8_lossy(&outcome.stderr()), "the service console ended")
}

fn capture<'a>(context: &'a Context<'_>, program: &'a str, args: &[&str], disk: Option<&Path>) -> Result<Capture<'a>> {
    let mut capture = Capture::new(context.built_with_shell()?, Path::new(program));
    capture.args = args.iter().map(ToString::to_string).collect();
    capture.devices.disk = disk.map(Path::to_path_buf);
    Ok(capture)
}

/// Runs to the end; returns the output.
pub fn output(capture: &Capture<'_>, code: i64) -> Result<(String, String)> {
    let outcome = capture.run()?;
    let stdout = String::from_utf8_lossy(&outcome.stdout()).into_owned();
    let stderr = String::from_utf8_lossy(&outcome.stderr()).into_owned();
    if outcome.end != End::Exit(code) {
        let warnings = outcome.warnings.join("\n");
        bail!("it ended with {:?}, expected Exit({code})\n{stdout}\n{stderr}\n{warnings}", outcome.end);
    }
    Ok((stdout, stderr))
}

/// The clock shows the host's time, and interrupts at each second.
fn clock(context: &Context<'_>) -> Result<()> {
    // An interrupt that a busy host delays comes close to the next one.
    for _ in 0..5 {
        if seconds_apart(context)? {
            return Ok(());
        }
    }
    bail!("interrupts came too close to each other five times")
}

/// Prints three seconds of the clock; returns whether each interrupt came long after the one before it.
fn seconds_apart(context: &Context<'_>) -> Result<bool> {
    let (stdout, _) = output(&capture(context, "date", &["3"], None)?, 0)?;
    let lines: Vec<&str> = stdout.lines().collect();
    expect("the number of lines", &lines.len(), &3)?;
    let times = lines.iter().zip(1..).map(|(line, number)| {
        let (_, at) = line.split_once(&format!("interrupt {number} at "))?;
        at.trim_end_matches(" ms").parse::<u64>().ok()
    });
    let times: Vec<u64> = times.collect::<Option<_>>().with_context(|| format!("not three interrupts:\n{stdout}"))?;
    // None comes twice in a second.
    let shown = |line: &str| line.split_once(", interrupt").map(|(time, _)| time.to_owned());
    if lines.windows(2).any(|pair| shown(pair[0]) >= shown(pair[1])) {
        bail!("two interrupts came in one second:\n{stdout}");
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the host's time is before 1970")?.as_secs();
    // The machine's clock was set from the host's at its start, so its time is within the last minutes.
    let fits = (0..300).any(|ago| lines[2].starts_with(&date(now - ago)));
    if !fits {
        bail!("it is not that late: {}", lines[2]);
    }
    Ok(times.windows(2).all(|pair| pair[1] >= pair[0] + 500))
}

/// At the limit of a program's connections, a closed one makes room for the next.
fn clock_reconnect(context: &Context<'_>) -> Result<()> {
    let mut capture = Capture::new(context.built_with_tests()?, Path::new("reconnect"));
    capture.tests = true;
    let (stdout, _) = output(&capture, 0)?;
    expect("standard output", &stdout.as_str(), &"5000 connections followed closed ones\n")
}

/// Formats a time since 1970 as `YEAR-MONTH-DAY HOUR:MINUTE:SECOND`.
fn date(seconds: u64) -> String {
    let (mut days, mut year) = (seconds / 86_400, 1970);
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    let time = seconds % 86_400;
    format!("{year}-{:02}-{:02} {:02}:{:02}:{:02}", month + 1, days + 1, time / 3600, time / 60 % 60, time % 60)
}

/// The handles of the drivers: resources according to the description, objects created from them, and none of the
/// system's.
fn own_resources_only(context: &Context<'_>) -> Result<()> {
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let (path, _) = disk(&folder)?;
    // The disk has no file system, which its driver ignores.
    let script = "date\nls /disk\nhandles rtc\necho --\nhandles pci\necho --\nhandles virtio-blk";
    let (stdout, _) = output(&capture(context, "sh", &["-c", script], Some(&path))?, 0)?;
    let count = |part: &str, kind: &str| -> usize {
        let line = part.lines().find_map(|line| line.trim().strip_suffix(kind)?.trim().parse().ok());
        line.unwrap_or(0)
    };
    let parts: Vec<&str> = stdout.split("--\n").collect();
    let [rtc, pci, disk] = parts.as_slice() else { bail!("not three drivers:\n{stdout}") };
    for (name, part, resources, interrupts, btis) in
        [("rtc", rtc, 2, 1, 0), ("pci", pci, 5, 0, 1), ("virtio-blk", disk, 0, 1, 1)]
    {
        let held = [("resource", resources), ("interrupt", interrupts), ("bti", btis), ("process", 1), ("job", 0)];
        for (kind, most) in held {
            let found = count(part, kind);
            // A program that uses ports, or gives a device access to memory, holds a temporary duplicate.
            let duplicate = usize::from(most > 0 && matches!(kind, "resource" | "bti"));
            if !(most..=most + duplicate).contains(&found) {
                bail!("{name} holds {found} of {kind}, expected {most}:\n{stdout}");
            }
        }
    }
    Ok(())
}

/// A disk with varied bytes.
fn disk(folder: &TempDir) -> Result<(std::path::PathBuf, Vec<u8>)> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(DISK);
    while bytes.len() < DISK {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes.extend_from_slice(&(state ^ state >> 29).to_le_bytes());
    }
    let path = folder.path().join("disk, with a comma.img");
    fs::write(&path, &bytes).context("cannot make a disk")?;
    Ok((path, bytes))
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn disk_read(context: &Context<'_>) -> Result<()> {
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let (path, bytes) = disk(&folder)?;
    let (stdout, _) = output(&capture(context, "disk", &["sum"], Some(&path))?, 0)?;
    expect_part("standard output", &stdout, &format!("read {DISK} bytes"))?;
    expect_part("standard output", &stdout, &format!("sha256 {}", sha256(&bytes)))
}

/// Writes the whole disk while its driver is killed this many times; then the host checks its content.
fn disk_write(context: &Context<'_>, kills: usize) -> Result<()> {
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let (path, before) = disk(&folder)?;
    let kills_text = kills.to_string();
    let (stdout, stderr) = output(&capture(context, "disk", &["fill", "7", &kills_text], Some(&path))?, 0)?;
    let after = fs::read(&path).context("cannot read the disk")?;
    expect("the disk's size", &after.len(), &DISK)?;
    let same = before.chunks(4096).zip(after.chunks(4096)).filter(|(one, two)| one == two).count();
    expect("pages that were not written", &same, &0)?;
    expect_part("standard output", &stdout, &format!("sha256 {}", sha256(&after)))?;
    expect("how often the driver's end was told", &stderr.matches("the service disk ended (-1024)").count(), &kills)?;
    // Several kills may fall between two requests; the client sees them as one.
    let again = stdout.lines().find_map(|line| line.strip_prefix("connected again ")?.strip_suffix(" times"));
    let again: usize = again.and_then(|count| count.parse().ok()).context("it does not say how often it connected")?;
    if (again == 0) != (kills == 0) || again > kills {
        bail!("the driver was ended {kills} times, and connected to again {again} times");
    }
    Ok(())
}

fn no_disk(context: &Context<'_>) -> Result<()> {
    let (_, stderr) = output(&capture(context, "disk", &[], None)?, 1)?;
    expect_part("standard error", &stderr, "this machine has no disk")
}
