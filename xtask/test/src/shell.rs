//! The shell in the booted system: the scripts that its own tests run on the host, and tests that need the system.

use std::path::Path;

use anyhow::{Result, bail};
use sha2::{Digest, Sha256};

use super::drivers::{PROMPT, dialogue};
use super::{Context, Test, expect, expect_part};
use xtask_run::Capture;
use xtask_run::session::End;

/// All of them.
pub fn tests() -> Vec<Test> {
    vec![
        Test::one("shell.words", |context| {
            script(
                context,
                &[include_str!("../../../programs/shell/tests/scripts/words.sh")],
                include_str!("../../../programs/shell/tests/scripts/words.out"),
                0,
            )
        }),
        Test::one("shell.flow", |context| {
            script(
                context,
                &[include_str!("../../../programs/shell/tests/scripts/flow.sh")],
                include_str!("../../../programs/shell/tests/scripts/flow.out"),
                7,
            )
        }),
        Test::one("shell.pipes", |context| {
            let setup = "mkdir /tmp/work\n";
            let text = [setup, include_str!("../../../programs/shell/tests/scripts/pipes.sh")].concat();
            let expected = include_str!("../../../programs/shell/tests/scripts/pipes.out");
            script(context, &[&text, "sh", "/tmp/work"], expected, 0)
        }),
        Test::one("shell.much-data", much_data),
        Test::one("shell.full-file-system", full_file_system),
        Test::one("shell.neighbours", neighbours),
        Test::one("shell.service-dies", service_dies),
        Test::one("shell.top", top),
        Test::one("shell.interactive", interactive),
    ]
}

/// `top` shows the idle share of the processor: none while something computes, however slow the host is. A shell that
/// this shell starts may not know it.
fn top(context: &Context<'_>) -> Result<()> {
    let commands = "while :; do :; done & top -n 2 -d 1; kill %1; echo; sh -c 'top -n 1'; echo end";
    let (stdout, stderr) = run(context, &[commands], 0)?;
    let shares: Vec<&str> =
        stdout.lines().filter_map(|line| line.split_once("processor: ")?.1.strip_suffix(" % idle")).collect();
    let looks = stdout.matches("KERNEL  JOB").count();
    match shares.as_slice() {
        [first, "0.0"] if looks == 3 && first.parse().is_ok_and(|share| (0.0..=100.0).contains(&share)) => Ok(()),
        _ => bail!("the idle shares are {shares:?} at {looks} looks\n{stdout}\n{stderr}"),
    }
}

/// Runs commands in a separate machine; returns their output.
fn run(context: &Context<'_>, arguments: &[&str], code: i64) -> Result<(String, String)> {
    let mut capture = Capture::new(context.built_with_shell()?, Path::new("sh"));
    capture.args = ["-c"].iter().chain(arguments).map(ToString::to_string).collect();
    let outcome = capture.run()?;
    let stdout = String::from_utf8_lossy(&outcome.stdout()).into_owned();
    let stderr = String::from_utf8_lossy(&outcome.stderr()).into_owned();
    if outcome.end != End::Exit(code) {
        bail!("it ended with {:?}, expected Exit({code})\n{stdout}\n{stderr}", outcome.end);
    }
    Ok((stdout, stderr))
}

fn script(context: &Context<'_>, arguments: &[&str], expected: &str, code: i64) -> Result<()> {
    let (stdout, stderr) = run(context, arguments, code)?;
    if stdout == expected {
        return Ok(());
    }
    let different = stdout.lines().zip(expected.lines()).find(|(one, two)| one != two);
    bail!("it did not print what it must; first: {different:?}\nprinted:\n{stdout}\n{stderr}")
}

/// Megabytes through pipes, and a reader that ends before its writer.
fn much_data(context: &Context<'_>) -> Result<()> {
    let text = "yes 0123456789abcde | head -c 8000000 | cat | sha256sum\n\
                yes | head -n 1\n\
                seq 100000000 | head -n 2 | tail -n 1\n\
                x=$(yes 0123456789abcde | head -c 1000000); echo ${#x}\n";
    let (stdout, _) = run(context, &[text], 0)?;
    let data: Vec<u8> = b"0123456789abcde\n".iter().copied().cycle().take(8_000_000).collect();
    let hash: String = Sha256::digest(&data).iter().map(|byte| format!("{byte:02x}")).collect();
    expect("what was printed", &stdout.as_str(), &format!("{hash}  -\ny\n2\n999999\n").as_str())
}

/// More data than there is room for: an error in time, and room again after a removal.
fn full_file_system(context: &Context<'_>) -> Result<()> {
    let text = "yes 0123456789abcdef0123456789abcdef > /tmp/full; echo $?\n\
                [ -s /tmp/full ] && rm /tmp/full && echo again > /tmp/small && cat /tmp/small\n";
    let (stdout, stderr) = run(context, &[text], 0)?;
    expect("what was printed", &stdout.as_str(), &"1\nagain\n")?;
    expect_part("standard error", &stderr, "yes:")
}

/// A program can reach itself and its children through its job.
fn neighbours(context: &Context<'_>) -> Result<()> {
    // The outer shell may inspect all tasks; the inner one is a program like any other.
    let text = "sleep 1000 &\n\
                see() { ps | while read -r koid rest; do case $rest in *' '$1) echo $2;; esac; done; }\n\
                see init 'outer sees init'\n\
                sh -c 'ps | while read -r koid rest; do case $rest in *\" init\"|*\" sleep\") echo inner sees it;; esac; done\n\
                       kill init || echo refused; kill sleep || echo refused; handles userboot || echo refused'\n\
                jobs | tr -s ' ' | cut -d ' ' -f 3\n\
                kill %1; wait %1; echo $?\n";
    let (stdout, stderr) = run(context, &[text], 0)?;
    expect("what was printed", &stdout.as_str(), &"outer sees init\nrefused\nrefused\nrefused\nrunning\n130\n")?;
    expect_part("standard error", &stderr, "there is no such process")
}

/// A file service's process is killed: it is restarted on the next access.
fn service_dies(context: &Context<'_>) -> Result<()> {
    let text = "echo one > /tmp/one; cat /tmp/one\n\
                kill memory-files; sleep 0.5\n\
                echo two > /tmp/two; cat /tmp/two\n";
    let (stdout, stderr) = run(context, &[text], 0)?;
    expect("what was printed", &stdout.as_str(), &"one\ntwo\n")?;
    expect_part("standard error", &stderr, "ended (-1024)")
}

/// A user at a terminal: a command over two lines, Ctrl-C for a pipeline, jobs.
fn interactive(context: &Context<'_>) -> Result<()> {
    let lines = vec![
        (PROMPT, "sleep 1000 &\r"),
        (PROMPT, "echo ready; sleep 1000 | cat\r"),
        ("ready\r\n", "\x03"),
        (PROMPT, "echo status $?\r"),
        (PROMPT, "echo begun; while true; do :; done\r"),
        ("begun\r\n", "\x03"),
        (PROMPT, "jobs\r"),
        (PROMPT, "for i in 1 2; do\r"),
        ("> ", "echo line $i; done\r"),
        (PROMPT, "kill %1; wait; echo 'a quote\r"),
        ("> ", "ends'\r"),
        (PROMPT, "nosuchprogram\r"),
        (PROMPT, "exit $?\r"),
    ];
    let (shown, _) = dialogue(context, lines, 127)?;
    for part in
        ["\r\nstatus 130\r\n", "running", "\r\nline 1\r\nline 2\r\n", "\r\na quote\r\nends\r\n", "no such program"]
    {
        expect_part("the terminal", &shown, part)?;
    }
    Ok(())
}
