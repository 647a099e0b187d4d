//! Boots the system with the example `hello` and with the built-in programs, and checks the output.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context as _, Result, bail};

use rustix::process::{Pid, Signal, kill_process};

use super::{Context, Test, expect, expect_part, wrong};
use xtask_build::devices::Devices;
use xtask_build::image::{Image, Mode};
use xtask_build::setup::QEMU;
use xtask_run::args::Accel;
use xtask_run::link::Frame;
use xtask_run::qemu::Machine;
use xtask_run::session::{End, Outcome, Session, Streams};
use xtask_run::{Capture, PATIENCE};

/// The code of a process that died of an exception (`ZX_TASK_RETCODE_EXCEPTION_KILL`).
const EXCEPTION_KILLED: i64 = -1028;

/// All of them.
pub fn tests() -> Vec<Test> {
    let mut tests = vec![
        Test::one("boot.hello", hello),
        Test::one("boot.exit-code-7", |context| ends(context, &["exit", "7"], 7).map(drop)),
        Test::one("boot.panic", panic),
        Test::one("boot.panic-in-a-thread", panic_in_a_thread),
        Test::one("boot.much-output", much_output),
        Test::one("boot.input", input),
        Test::one("boot.several-programs", several_programs),
        Test::one("boot.tour", tour),
        Test::one("boot.stopped-now-and-then", stopped),
    ];
    let kinds = [
        ("abort", "abort", ""),
        ("null", "null-dereference", "0x"),
        ("stack-overflow", "stack-overflow", "0x"),
        ("illegal", "illegal-instruction", "0x"),
    ];
    tests.extend(kinds.map(|(command, name, part)| {
        Test::one(format!("boot.{name}"), move |context| {
            let outcome = ends(context, &[command], EXCEPTION_KILLED)?;
            let report = outcome.warnings.join("\n");
            expect_part("the report", &report, "hello")?;
            expect_part("the report", &report, part)
        })
    }));
    tests
}

fn capture<'a>(context: &'a Context<'_>, args: &[&str]) -> Result<Capture<'a>> {
    let mut capture = Capture::new(context.built()?, context.hello()?);
    capture.args = args.iter().map(ToString::to_string).collect();
    Ok(capture)
}

/// Runs `hello` with these arguments; it must end with `code`.
fn ends(context: &Context<'_>, args: &[&str], code: i64) -> Result<Outcome> {
    ended(capture(context, args)?.run()?, code)
}

fn ended(outcome: Outcome, code: i64) -> Result<Outcome> {
    if outcome.end != End::Exit(code) {
        bail!(
            "it ended with {:?}, expected Exit({code})\nstdout: {}\nstderr: {}\n{}",
            outcome.end,
            String::from_utf8_lossy(&outcome.stdout()),
            String::from_utf8_lossy(&outcome.stderr()),
            outcome.warnings.join("\n")
        );
    }
    Ok(outcome)
}

fn hello(context: &Context<'_>) -> Result<()> {
    let mut capture = capture(context, &["a", "b", "c"])?;
    capture.variables = vec![("HELLO".into(), "there".into())];
    let outcome = ended(capture.run()?, 0)?;
    let stdout = String::from_utf8_lossy(&outcome.stdout()).into_owned();
    for line in ["hello, world\n", "arguments: [\"a\", \"b\", \"c\"]\n", "environment: HELLO is there\n", "goodbye\n"] {
        expect_part("standard output", &stdout, line)?;
    }
    expect("standard error", &String::from_utf8_lossy(&outcome.stderr()).as_ref(), &"")?;
    expect("the system's warnings", &outcome.warnings, &Vec::new())
}

fn panic(context: &Context<'_>) -> Result<()> {
    let outcome = ends(context, &["panic"], 101)?;
    let stderr = String::from_utf8_lossy(&outcome.stderr()).into_owned();
    expect_part("standard error", &stderr, "panicked at")?;
    expect_part("standard error", &stderr, "hello panics because it was asked to")
}

fn panic_in_a_thread(context: &Context<'_>) -> Result<()> {
    let outcome = ends(context, &["thread-panic"], 0)?;
    let stdout = String::from_utf8_lossy(&outcome.stdout()).into_owned();
    expect_part("standard output", &stdout, "the thread's values are dropped while it unwinds")?;
    expect_part("standard output", &stdout, "caught by join: this thread panics because it was asked to")
}

fn much_output(context: &Context<'_>) -> Result<()> {
    const SIZE: usize = 1 << 20;
    let outcome = ends(context, &["big-output", &SIZE.to_string()], 0)?;
    expect("the number of bytes", &outcome.stdout().len(), &SIZE)
}

fn input(context: &Context<'_>) -> Result<()> {
    let mut capture = capture(context, &["stdin-echo"])?;
    // More than the buffers on the way hold, so that the sender must wait.
    capture.input = (0..200_000u32).flat_map(|n| n.to_le_bytes()).take(300_000).collect();
    let outcome = ended(capture.run()?, 0)?;
    let stdout = outcome.stdout();
    expect("the number of bytes", &stdout.len(), &capture.input.len())?;
    if stdout == capture.input { Ok(()) } else { bail!("the bytes that came back are not those that were sent") }
}

/// One boot, several programs: the end of one does not affect the next.
fn several_programs(context: &Context<'_>) -> Result<()> {
    let built = context.built()?;
    let mut image = Image::new(built, false, &Devices::default())?;
    let hello = std::fs::read(context.hello()?).context("cannot read hello")?;
    image.add("run/hello", hello)?;
    let list = [
        ("null", "-1028", "null"),
        ("code", "7", "exit\t7"),
        ("illegal", "-1028", "illegal"),
        ("overflow", "-1028", "stack-overflow"),
        ("panic", "101", "panic"),
        ("walk", "0", ""),
    ];
    let line = |(name, code, args): &(&str, &str, &str)| format!("{name}\t60000\t{code}\t/boot/run/hello\t{args}\n");
    image.add("config/tests", list.iter().map(line).collect::<String>())?;
    let bytes = image.finish(&Mode::Test, &[])?;
    let (memory, accel) = (512 << 20, Accel::Tcg);
    let machine = Machine {
        kernel: &built.kernel,
        root: &built.root,
        image: &bytes,
        memory,
        accel,
        gdb: None,
        devices: Devices::default(),
        linux: None,
    };
    let streams = Streams::Captured(Vec::new());
    let timeout = Some(PATIENCE);
    let outcome =
        Session { machine, timeout, quiet: None, verbose: false, streams, until_first_output: false }.run()?;
    let events: Vec<&str> = outcome
        .transcript
        .iter()
        .filter_map(|f| if let Frame::Event(text) = f { Some(text.as_str()) } else { None })
        .collect();
    for (name, ..) in list {
        let ok = format!("case\t{name}\tok");
        if !events.iter().any(|event| event.starts_with(&ok)) {
            bail!("{name} did not end as it should ({:?}):\n{}", outcome.end, events.join("\n"));
        }
    }
    ended(outcome, 0).map(drop)
}

fn tour(context: &Context<'_>) -> Result<()> {
    let built = context.built()?;
    let bytes = Image::new(built, false, &Devices::default())?.finish(&Mode::Tour { shell: false }, &[])?;
    let (memory, accel) = (512 << 20, Accel::Tcg);
    let machine = Machine {
        kernel: &built.kernel,
        root: &built.root,
        image: &bytes,
        memory,
        accel,
        gdb: None,
        devices: Devices::default(),
        linux: None,
    };
    let streams = Streams::Captured(Vec::new());
    let timeout = Some(PATIENCE);
    let outcome =
        Session { machine, timeout, quiet: None, verbose: false, streams, until_first_output: false }.run()?;
    let outcome = ended(outcome, 0)?;
    let stdout = String::from_utf8_lossy(&outcome.stdout()).into_owned();
    expect("whether the tour says something", &(stdout.lines().count() > 10), &true)
}

/// Time is measured correctly although the host is busy while the system starts. If not, one boot in two shows it.
fn stopped(context: &Context<'_>) -> Result<()> {
    let built = context.built_with_tests()?;
    let program =
        built.test_programs.iter().find(|(name, _)| name == "conformance").context("no conformance program")?;
    for _ in 0..4 {
        let mut command = wrong::tool(context)?;
        command.arg("run").arg(&program.1).arg("runtime.thread.in_time").stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot start this tool")?;
        let stops = stop_machine(&mut child)?;
        let output = child.wait_with_output().context("cannot wait")?;
        let said = [output.stdout, output.stderr].concat();
        expect_part("what it said", &String::from_utf8_lossy(&said), "1 ok, 0 failed")?;
        expect("whether the machine was stopped while it started", &(stops > ENOUGH_STOPS), &true)?;
    }
    Ok(())
}

/// How many stops show something.
const ENOUGH_STOPS: u32 = 5;

/// Stops the tool's machine repeatedly in its first second, for most of the time; returns how often.
fn stop_machine(tool: &mut Child) -> Result<u32> {
    let (mut machine, mut stops) = (None, 0);
    while tool.try_wait().context("cannot wait")?.is_none() {
        let Some((pid, start)) = machine else {
            machine = machine_of(tool.id())?.map(|pid| (pid, Instant::now()));
            thread::sleep(Duration::from_millis(1));
            continue;
        };
        // On a busy host, few stops may fit into that second.
        let enough = start.elapsed() > Duration::from_secs(1) && stops > ENOUGH_STOPS;
        if enough || kill_process(pid, Signal::STOP).is_err() {
            break;
        }
        thread::sleep(Duration::from_millis(18));
        // It may have ended.
        let _ = kill_process(pid, Signal::CONT);
        thread::sleep(Duration::from_millis(4));
        stops += 1;
    }
    Ok(stops)
}

/// The process of the machine that a tool has started, if any.
///
/// # Errors
/// The processes cannot be listed.
pub fn machine_of(tool: u32) -> Result<Option<Pid>> {
    for entry in fs::read_dir("/proc").context("cannot read /proc")?.flatten() {
        // The fields: number, name in parentheses, state, parent. The process may have ended.
        let Ok(text) = fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some((name, rest)) = text.rsplit_once(") ") else { continue };
        let parent = rest.split(' ').nth(1).and_then(|parent| parent.parse().ok());
        // Linux stores at most 15 characters of a name.
        let is_machine = name.split_once('(').is_some_and(|(_, name)| name.len() > 8 && QEMU.starts_with(name));
        if parent == Some(tool) && is_machine {
            let pid = entry.file_name().to_string_lossy().parse().ok().and_then(Pid::from_raw);
            return Ok(pid);
        }
    }
    Ok(None)
}
