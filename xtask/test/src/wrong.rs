//! Wrong inputs, and the command line as scripts use it: this tool is started as a process, and must end with the right
//! code, with a clear message and in bounded time.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{Cases, Context, Test, expect, expect_part};
use xtask_common::files::copy_folder;
use xtask_common::paths::own_file;
use xtask_common::programs::find_program;
use xtask_common::{lock, threads};
use xtask_run::args::ACCEL;

/// All of them.
pub fn tests() -> Vec<Test> {
    let refused = |name: &'static str, change: fn(&mut Vec<u8>), part: &'static str| {
        Test::one(format!("wrong.{name}"), move |context| {
            let folder = TempDir::new().context("cannot make a temporary folder")?;
            let file = folder.path().join("program");
            let mut bytes = fs::read(context.hello()?).context("cannot read hello")?;
            change(&mut bytes);
            fs::write(&file, bytes).context("cannot write")?;
            says(context, &["run", &file.to_string_lossy()], 126, part)
        })
    };
    vec![
        refused("truncated-program", |bytes| bytes.truncate(bytes.len() / 2), "truncated"),
        refused("truncated-in-the-header", |bytes| bytes.truncate(40), "truncated"),
        refused("empty-file", Vec::clear, "empty"),
        refused("no-elf", |bytes| bytes[1] = b'e', "not an ELF file"),
        refused("aarch64-program", |bytes| bytes[18] = 183, "aarch64"),
        refused("missing-shared-library", |bytes| rename(bytes, b"libfdio.so\0", b"libnone.so\0"), "libnone.so"),
        refused("program-larger-than-memory", |bytes| enlarge(bytes, 4 << 30), "--mem"),
        Test::one("wrong.linux-program", |context| {
            let tool = own_file()?;
            says(context, &["run", &tool.to_string_lossy()], 126, "a Linux program")
        }),
        Test::one("wrong.missing-file", |context| says(context, &["run", "no/such/file"], 127, "no such file")),
        Test::one("wrong.unknown-program", |context| {
            // Reported before anything is built: here nothing could be built.
            let mut command = tool(context)?;
            let output = command.args(["run", "nothing-of-this-name"]).env("SEL4_PREFIX", "/nowhere").output();
            let output = output.context("cannot start this tool")?;
            let stderr = said(&output);
            for part in ["built in are", "primes", "sha256sum", " sh,"] {
                expect_part("standard error", &stderr, part)?;
            }
            expect("the exit code", &output.status.code(), &Some(127))
        }),
        Test::one("wrong.image-larger-than-memory", |context| says(context, &["run", "--mem", "32M"], 125, "give it")),
        Test::one("wrong.unknown-option", |context| says(context, &["run", "--no-such-option"], 2, "--no-such-option")),
        Test::one("wrong.size", |context| says(context, &["run", "--mem", "12Q"], 2, "no unit")),
        Test::one("wrong.no-qemu", no_qemu),
        Test::one("wrong.endless-program", |context| {
            let hello = context.hello()?.to_string_lossy().into_owned();
            says(context, &["run", "--timeout", "4", &hello, "loop"], 124, "did not end within 4 s")
        }),
        Test::one("wrong.kernel-prefix", kernel_prefix),
        Test::one("front-door.exit-code-and-streams", streams),
        Test::one("front-door.closed-output", closed_output),
        Test::one("front-door.interrupt", interrupt),
        Test::one("front-door.cargo-run", cargo_run),
        Test::many("front-door.failing-thread", failing_thread),
        Test::one("front-door.forged-words", forged_words),
        Test::one("front-door.home-unset", |context| {
            let script = context.paths.workspace.join("hafnon");
            let output = Command::new(script).arg("--version").env_remove("HOME").output();
            let output = output.context("cannot start the script")?;
            expect("the exit code", &(output.status.code(), said(&output)), &(Some(0), String::new()))
        }),
        Test::one("front-door.no-room-to-build", |context| {
            // A folder in the place of a file cannot be overwritten, not even by the super-user.
            let says = "cannot be written, and this builds everything there";
            script_elsewhere(context, |folder| fs::write(folder.join("target"), ""), says)
        }),
        Test::one("front-door.lock-file", |context| {
            // A tree whose packages do not match its lock file: it has none.
            let prepare = |folder: &Path| {
                let manifest = "[package]\nname = \"xtask\"\nedition = \"2024\"\n[workspace]\n";
                fs::create_dir(folder.join("src"))?;
                fs::write(folder.join("Cargo.toml"), manifest)?;
                fs::write(folder.join("src/main.rs"), "fn main() {}\n")
            };
            script_elsewhere(context, prepare, "--locked")
        }),
    ]
}

/// A command for this tool, as a user starts it.
///
/// # Errors
/// Its file does not exist.
pub fn tool(context: &Context<'_>) -> Result<Command> {
    let mut command = Command::new(own_file()?);
    command.env("HAFNON_ROOT", &context.paths.workspace).env(ACCEL, "tcg").stdin(Stdio::null());
    Ok(command)
}

/// The standard error of the tool and its program, without the line that another test's build may cause.
pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).replace(&format!("hafnon: {}\n", lock::WAITING), "")
}

/// The tool must end soon, with this code, and print this on standard error.
pub fn says(context: &Context<'_>, args: &[&str], code: i32, part: &str) -> Result<()> {
    context.built()?;
    let start = Instant::now();
    let output = tool(context)?.args(args).output().context("cannot start this tool")?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    expect_part("standard error", &stderr, part)?;
    expect("the exit code", &output.status.code(), &Some(code))?;
    // It may have to wait for another test's build.
    if start.elapsed() > Duration::from_secs(300) {
        bail!("it took {:?}", start.elapsed());
    }
    Ok(())
}

/// Replaces a name by another one of the same length.
fn rename(bytes: &mut [u8], from: &[u8], to: &[u8]) {
    while let Some(at) = bytes.windows(from.len()).position(|window| window == from) {
        bytes[at..at + to.len()].copy_from_slice(to);
    }
}

/// Makes the last loaded segment take this much more memory.
fn enlarge(bytes: &mut [u8], by: u64) {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
    let (table, count) = (word(32) as usize, usize::from(bytes[56]));
    let last = (0..count).map(|n| table + n * 56).rfind(|&at| bytes[at] == 1);
    if let Some(at) = last {
        let size = word(at + 40) + by;
        bytes[at + 40..at + 48].copy_from_slice(&size.to_le_bytes());
    }
}

fn no_qemu(context: &Context<'_>) -> Result<()> {
    context.built()?;
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    for name in ["cargo", "rustc", "gcc", "objcopy", "python3"] {
        if let Some(program) = find_program(name) {
            symlink(program, folder.path().join(name)).context("cannot make a link")?;
        }
    }
    let output = tool(context)?.arg("run").env("PATH", folder.path()).output().context("cannot start this tool")?;
    expect_part("standard error", &String::from_utf8_lossy(&output.stderr), "qemu-system-x86_64")?;
    expect("the exit code", &output.status.code(), &Some(125))
}

/// A prefix with a kernel that the system cannot run on is refused before anything is built or booted.
fn kernel_prefix(context: &Context<'_>) -> Result<()> {
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let refused = |prefix: &Path, part: &str| {
        let output = tool(context)?.args(["run", "primes"]).env("SEL4_PREFIX", prefix).output();
        let output = output.context("cannot start this tool")?;
        expect_part("standard error", &String::from_utf8_lossy(&output.stderr), part)?;
        expect("the exit code", &output.status.code(), &Some(125))
    };
    refused(&folder.path().join("nowhere"), "cmake --install")?;
    let prefix = folder.path().join("prefix");
    copy_folder(&context.paths.workspace.join("sel4/fixtures/prefix-16"), &prefix)?;
    refused(&prefix, "bin/kernel.elf")?;
    fs::create_dir(prefix.join("bin")).context("cannot make a folder")?;
    fs::write(prefix.join("bin/kernel.elf"), "no kernel").context("cannot write")?;
    refused(&prefix, "no 64-bit ELF file")?;
    // This tool is an ELF file, but not a bootable kernel.
    fs::copy(own_file()?, prefix.join("bin/kernel.elf")).context("cannot copy this tool")?;
    refused(&prefix, "no multiboot header")?;
    let config = prefix.join("libsel4/include/kernel/gen_config.h");
    let text = fs::read_to_string(&config).context("cannot read the configuration")?;
    for (from, to, part) in [
        ("/* disabled: CONFIG_SUPPORT_PCID */", "#define CONFIG_SUPPORT_PCID 1", "-DKernelSupportPCID=OFF"),
        ("/* disabled: CONFIG_KERNEL_MCS */", "#define CONFIG_KERNEL_MCS 1", "-DKernelIsMCS=OFF"),
        ("/* disabled: CONFIG_VTX */", "#define CONFIG_VTX 1", "-DKernelVTX=OFF"),
        (
            "#define CONFIG_MAX_NUM_BOOTINFO_UNTYPED_CAPS  230",
            "#define CONFIG_MAX_NUM_BOOTINFO_UNTYPED_CAPS  50",
            "-DKernelMaxNumBootinfoUntypedCaps=230",
        ),
        ("#define CONFIG_ARCH_X86_64 1", "#define CONFIG_ARCH_AARCH64 1", "-DKernelSel4Arch=x86_64"),
    ] {
        let changed = text.replace(from, to);
        expect("the fixture has the line that is changed", &(changed != text), &true)?;
        fs::write(&config, changed).context("cannot write the configuration")?;
        refused(&prefix, part)?;
    }
    Ok(())
}

fn streams(context: &Context<'_>) -> Result<()> {
    let hello = context.hello()?;
    let mut child = tool(context)?
        .arg("run")
        .arg(hello)
        .arg("stdin-echo")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start this tool")?;
    child.stdin.take().context("no input")?.write_all(b"one\ntwo").context("cannot write")?;
    let output = child.wait_with_output().context("cannot wait")?;
    expect("standard output", &String::from_utf8_lossy(&output.stdout).as_ref(), &"one\ntwo")?;
    expect("standard error", &said(&output).as_str(), &"7 bytes\n")?;
    let output = tool(context)?.arg("run").arg(hello).args(["exit", "7"]).output().context("cannot start this tool")?;
    expect("standard output", &output.stdout.len(), &0)?;
    expect("the exit code", &output.status.code(), &Some(7))
}

/// A reader that closes the pipe after the first line must not leave a machine running.
fn closed_output(context: &Context<'_>) -> Result<()> {
    let mut child = tool(context)?
        .arg("run")
        .arg(context.hello()?)
        .args(["big-output", "50000000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start this tool")?;
    let mut first = [0; 16];
    child.stdout.take().context("no output")?.read_exact(&mut first).context("cannot read")?;
    ends_within(&mut child, Duration::from_secs(60)).map(drop)
}

/// Ctrl-C ends a program that has begun to run; the machine turns off.
fn interrupt(context: &Context<'_>) -> Result<()> {
    let mut child = tool(context)?
        .arg("run")
        .arg(context.hello()?)
        .arg("loop")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start this tool")?;
    let mut first = [0; 1];
    child.stdout.as_mut().context("no output")?.read_exact(&mut first).context("cannot read")?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("no process")?;
    kill_process(pid, Signal::INT).context("cannot interrupt the tool")?;
    let code = ends_within(&mut child, Duration::from_secs(60))?;
    expect("the exit code", &code, &Some(137))
}

/// The exit code, if it ends within this time.
///
/// # Errors
/// It is still running.
pub fn ends_within(child: &mut std::process::Child, time: Duration) -> Result<Option<i32>> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().context("cannot wait")? {
            return Ok(status.code());
        }
        if start.elapsed() > time {
            let _ = child.kill();
            let _ = child.wait();
            bail!("it still ran after {time:?}");
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// A failed thread of the tool ends the run, whichever thread it is, with a message and in bounded time.
fn failing_thread(context: &Context<'_>, cases: &mut Cases) -> Result<()> {
    let hello = context.hello()?;
    for name in ["link", "console", "port", "signals", "input"] {
        let mut command = tool(context)?;
        command.arg("run").arg(hello).arg("loop").env(threads::TRIAL, name);
        let mut child =
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().context("cannot start this tool")?;
        let result = ends_within(&mut child, Duration::from_secs(300)).and_then(|code| {
            let mut stderr = String::new();
            child.stderr.take().context("no errors")?.read_to_string(&mut stderr).context("cannot read")?;
            expect_part("standard error", &stderr, &threads::Failed(name).to_string())?;
            expect("the exit code", &code, &Some(125))
        });
        cases.case(name, result.map_err(|error| format!("{error:#}")));
    }
    Ok(())
}

/// A program gives itself and its child names that contain newlines and escape sequences, writes to the log and lets
/// the child crash. Standard error must contain only lines that name their source, without active control characters.
fn forged_words(context: &Context<'_>) -> Result<()> {
    let programs = &context.built_with_tests()?.test_programs;
    let program = programs.iter().find(|(name, _)| name == "conformance").context("no conformance program")?;
    let mut command = tool(context)?;
    command.args(["run", "-v"]).arg(&program.1).args(["debuglog.write.author_recorded", "debuglog.report.names"]);
    let output = command.output().context("cannot start this tool")?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    expect("what acts", &stderr.chars().find(|c| c.is_control() && !"\t\n".contains(*c)), &None)?;
    expect_part("standard error", &stderr, "> a\\n[1.0] E init: by whom")?;
    expect_part("standard error", &stderr, "E exception: process 'forged\\n\\u{1b}[2J[1.0] E init' (")?;
    expect("a line that is nobody's", &stderr.lines().find(|line| line.starts_with("[1.0]")), &None)
}

/// Runs the script in a separate folder that `prepare` has modified: it must end with 125, and print this.
fn script_elsewhere(context: &Context<'_>, prepare: impl Fn(&Path) -> std::io::Result<()>, says: &str) -> Result<()> {
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let script = folder.path().join("hafnon");
    fs::copy(context.paths.workspace.join("hafnon"), &script).context("cannot copy the script")?;
    prepare(folder.path()).context("cannot prepare the folder")?;
    let output = Command::new("sh").arg(script).arg("--version").output().context("cannot start the script")?;
    expect_part("standard error", &String::from_utf8_lossy(&output.stderr), says)?;
    expect("the exit code", &output.status.code(), &Some(125))
}

fn cargo_run(context: &Context<'_>) -> Result<()> {
    context.built()?;
    let folder: &Path = &context.paths.workspace.join("examples/hello");
    let target = context.paths.out.join("examples");
    let mut command = tool(context)?;
    command.args(["cargo", "run", "--release", "--quiet", "--target-dir"]).arg(target).args(["--", "exit", "7"]);
    let output = command.current_dir(folder).output().context("cannot start this tool")?;
    if output.status.code() != Some(7) {
        bail!("it ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
