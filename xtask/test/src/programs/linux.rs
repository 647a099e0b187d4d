//! Linux as a program (`guests/linux`): the host's Linux runs the same work.
//!
//! What takes long runs only when it is named (`./hafnon test linux`) or with `--all`.

mod debian;
mod disk;
mod kunit;
mod net;
mod selftests;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, bail};

use super::{InSystem, compare, text};
use crate::args::TestArgs;
use crate::wrong::{said, tool};
use crate::{Cases, Context, Test, expect, expect_part};
use xtask_bench::guest;
use xtask_build::devices::Devices;
use xtask_common::words::tail;
use xtask_run::PATIENCE;
use xtask_run::args::Accel;
use xtask_run::linux::{self, Guest, InTheShell, Linux};
use xtask_run::session::End;

/// Our programs, in `guests/linux/tests`.
const PROGRAMS: [&str; 3] = ["vectors", "hostile", "timer"];

/// All of them.
pub fn tests(args: &TestArgs) -> Vec<Test> {
    let all = vec![
        Test::one("linux.exit-code", exit_code),
        Test::one("linux.input", input),
        Test::one("linux.files", files),
        Test::one("linux.in-the-shell", in_the_shell),
        Test::one("linux.by-name", by_name),
        Test::one("linux.killed", killed),
        Test::one("linux.preempted", preempted),
        Test::one("linux.timers", timers),
        Test::one("linux.storm", storm),
        Test::one("linux.panics", panics),
        Test::one("linux.ends-busy", ends_busy),
        Test::one("linux.hostile", hostile),
        Test::many("linux.costs", costs),
        Test::many("linux.busybox", |context, cases| same(context, cases, "linux-busybox.sh")),
        Test::many("linux.programs", |context, cases| same(context, cases, "linux-programs.sh")),
    ];
    all.into_iter()
        .chain(disk::tests(args))
        .chain(net::tests())
        .chain(kunit::tests(args))
        .chain(selftests::tests(args))
        .chain(debian::tests(args))
        .collect()
}

/// Runs a command on Linux.
fn run(context: &Context<'_>, command: &[&str], change: impl FnOnce(&mut Guest)) -> Result<InSystem> {
    let linux = linux::made(context.paths, &context.ui)?;
    let mut guest = Guest::new(command);
    guest.timeout = Some(PATIENCE);
    change(&mut guest);
    capture(context, &linux, &guest)
}

fn capture(context: &Context<'_>, linux: &Linux, guest: &Guest) -> Result<InSystem> {
    let outcome = guest.capture(context.paths, context.built()?, linux)?;
    let errors = format!("{}\n{}", text(&outcome.stderr()), outcome.warnings.join("\n"));
    Ok(InSystem { end: outcome.end.clone(), output: outcome.stdout(), errors: tail(errors.trim_end(), 80) })
}

/// Fails with all that was said if it has not ended with this code.
fn ended(done: &InSystem, code: i64) -> Result<()> {
    if done.end == End::Exit(code) {
        return Ok(());
    }
    bail!("it ended with {:?}, expected {code}:\n{}\n{}", done.end, text(&done.output), done.errors)
}

fn exit_code(context: &Context<'_>) -> Result<()> {
    let done = run(context, &["sh", "-c", "uname -s; echo \"$0\" 'two  words'; exit 5", "it's"], |_| {})?;
    ended(&done, 5)?;
    expect("the output", &text(&done.output), &"Linux\nit's two  words\n".into())?;
    expect("messages", &done.errors, &String::new())
}

fn input(context: &Context<'_>) -> Result<()> {
    let lines: String = (0..2000).map(|n| format!("line {n} of the input\n")).collect();
    let done = run(context, &["sh", "-c", "sort -rn -k 2 | cut -d ' ' -f 2"], |guest| guest.input = lines.into())?;
    let expected: String = (0..2000).rev().map(|n| format!("{n}\n")).collect();
    ended(&done, 0)?;
    expect("the output", &text(&done.output), &expected)
}

/// A folder of the host's: files, folders, links and permissions.
fn files(context: &Context<'_>) -> Result<()> {
    let folder = tempfile::tempdir().context("cannot make a folder")?;
    let (script, inner) = (folder.path().join("script"), folder.path().join("a/b"));
    fs::create_dir_all(&inner).context("cannot make a folder")?;
    fs::write(inner.join("text"), "of the host\n").context("cannot write a file")?;
    fs::write(&script, "#!/bin/sh\ncat /host/link\nexit 6\n").context("cannot write a file")?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).context("cannot change a file")?;
    std::os::unix::fs::symlink("a/b/text", folder.path().join("link")).context("cannot make a link")?;
    let done = run(context, &["/host/script"], |guest| guest.files = Some(folder.path().into()))?;
    ended(&done, 6)?;
    expect("the output", &text(&done.output), &"of the host\n".into())
}

/// Linux as a program of the system's own shell: two of them side by side, with pipes and exit codes; one is killed, and
/// the other goes on. What the shell starts may not use the system's disk.
fn in_the_shell(context: &Context<'_>) -> Result<()> {
    let script = "linux -- sh -c 'uname -s; read word; echo $word; exit 5' <words | tr a-z A-Z\n\
                  linux -- sh -c 'exit 5'; echo code $?\n\
                  linux --memory 64 <words; echo code $?\n\
                  linux --memory 64 -- sh -c 'sleep 1; echo slow' >/tmp/slow & slow=$!\n\
                  linux --memory 64 -- sh -c 'while :; do :; done' & busy=$!\n\
                  linux -- echo quick; kill $busy; wait $slow; cat /tmp/slow\n\
                  linux --memory 0; echo code $?; linux --kernel /boot/bin/sh; echo code $?\n\
                  linux --disk disk -- true; echo code $?";
    let linux = linux::made(context.paths, &context.ui)?;
    let folder = tempfile::tempdir().context("cannot make a folder")?;
    fs::write(folder.path().join("words"), "echo hello; exit 7\n").context("cannot write a file")?;
    let disk = tempfile::NamedTempFile::new().context("cannot make a disk")?;
    disk.as_file().set_len(1 << 20).context("cannot make a disk")?;
    let devices = Devices { disk: Some(disk.path().into()), raw: true, ..Devices::default() };
    let shell = InTheShell { devices, ..InTheShell::new(script, folder.path()) };
    let done = shell.capture(context.paths, context.built_with_shell()?, &linux)?;
    let errors = format!("{}\n{}", text(&done.stderr()), done.warnings.join("\n"));
    let output = text(&done.stdout());
    let expected = "LINUX\nECHO HELLO; EXIT 7\ncode 5\nhello\ncode 7\nquick\nslow\ncode 2\ncode 1\ncode 1\n";
    if output != expected || done.end != End::Exit(0) {
        bail!("the output is\n{output}\n{errors}");
    }
    expect_part("standard error", &errors, "this program may not use it")
}

/// Linux is killed while it starts and while it works: nothing is left of it, and the next one works.
fn killed(context: &Context<'_>) -> Result<()> {
    let script = "kills() { for after in 0.1 0.3 0.5 0.8 1.1 1.6; do\n\
                  linux --memory 64 -- sh -c 'while :; do head -c 99999 /dev/zero | sha1sum & wait; done' >/tmp/out & sleep $after\n\
                  kill $!; wait $!; done; linux -- echo works; sleep 1; top -n 1 >/tmp/top\n\
                  while read line; do case $line in *' root') echo $line; break ;; esac; done </tmp/top; }\n\
                  kills; kills";
    let linux = linux::made(context.paths, &context.ui)?;
    let folder = tempfile::tempdir().context("cannot make a folder")?;
    let shell = InTheShell::new(script, folder.path());
    let done = shell.capture(context.paths, context.built_with_shell()?, &linux)?;
    let output = text(&done.stdout());
    let lines: Vec<&str> = output.lines().collect();
    let ["works", first, "works", second] = lines[..] else {
        bail!("the output is\n{output}\n{}", text(&done.stderr()))
    };
    // `9.5 MiB / - PROCESSES THREADS JOBS HANDLES …`
    let used = |line: &str| -> Option<(f64, Vec<u64>)> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let counts = words.get(4..8)?.iter().map(|word| word.parse().ok()).collect::<Option<_>>()?;
        Some((words.first()?.parse().ok().filter(|_| words[1] == "MiB")?, counts))
    };
    match (used(first), used(second)) {
        (Some((before, counts)), Some((after, others))) if counts == others && after < before + 1.0 => Ok(()),
        _ => bail!("something is left:\n{output}"),
    }
}

/// `run --linux` with the name of Linux' launcher as the program.
fn by_name(context: &Context<'_>) -> Result<()> {
    context.built()?;
    linux::made(context.paths, &context.ui)?;
    let args = ["run", "--linux", "linux", "--", "sh", "-c", "uname -s; exit 7"];
    let output = tool(context)?.args(args).output().context("cannot start this tool")?;
    expect("the output", &text(&output.stdout), &"Linux\n".into())?;
    expect("the exit code and errors", &(output.status.code(), said(&output)), &(Some(7), String::new()))
}

/// Programs that never make a system call do not keep others from running.
fn preempted(context: &Context<'_>) -> Result<()> {
    let script = "for i in 1 2 3; do (while :; do :; done) & done; \
                  i=0; while [ $i -lt 20 ]; do sleep 0.1; i=$((i + 1)); done; echo slept; kill $(jobs -p); wait; exit 3";
    let done = run(context, &["sh", "-c", script], |_| {})?;
    ended(&done, 3)?;
    expect("the output", &text(&done.output), &"slept\n".into())
}

/// The output of a script that ends with 0 on a machine whose clock counts instructions, with our programs.
fn counted(context: &Context<'_>, script: &str) -> Result<String> {
    let programs = programs(context)?;
    let done = run(context, &["sh", "-c", script], |guest| {
        guest.accel = Accel::Counting;
        guest.programs = programs;
    })?;
    ended(&done, 0)?;
    Ok(text(&done.output))
}

/// A timer is never late by more than a tick, 10 ms, whatever keeps the processor busy: a system call of 100 ms, a loop,
/// page faults. The guest's clock counts instructions, so the host's load changes nothing.
fn timers(context: &Context<'_>) -> Result<()> {
    let script = "for load in kernel user fault; do timer 1 $load || exit 9; done; timer 0 sleep\n\
                  [ $(cat /sys/module/upcall/parameters/interrupted) -gt 10 ] && echo interrupted\n\
                  [ $(cat /sys/module/upcall/parameters/preempted) -gt 10 ] && echo preempted";
    let output = counted(context, script)?;
    let lines: Vec<&str> = output.lines().collect();
    let [loads @ .., slept, "interrupted", "preempted"] = &lines[..] else { bail!("the output is\n{output}") };
    let numbers = |line: &str| -> Vec<u64> { line.split(' ').filter_map(|word| word.parse().ok()).collect() };
    for line in loads {
        if !matches!(numbers(line)[..], [times, late] if times >= 100 && late < 10_000) {
            bail!("timers are late: {output}");
        }
    }
    expect("measurements", &loads.len(), &3)?;
    if !matches!(numbers(slept)[..], [micros] if (1_000_000..=1_020_000).contains(&micros)) {
        bail!("a second is not one: {slept}");
    }
    Ok(())
}

/// Interrupts after at most some thousand instructions, each of which asks for the next task: what runs in Linux, and Linux itself,
/// computes what it computes without them.
fn storm(context: &Context<'_>) -> Result<()> {
    let script = "cd /sys/module; before=$(cat upcall/parameters/interrupted); echo 10000 > interrupt/parameters/storm\n\
                  for n in 1 2 3; do (i=0; while [ $i -lt 20 ]; do i=$((i + 1)); done; echo $n $i) & done; wait\n\
                  dd if=/dev/zero bs=16k count=1 2>/dev/null | sha1sum; seq 30 | sort -r | tail -n 1; hostile 5 2 | head -n 1\n\
                  echo 0 > interrupt/parameters/storm\n\
                  [ $(cat upcall/parameters/interrupted) -gt $((before + 300)) ] && echo interrupted\n\
                  [ $(cat upcall/parameters/preempted) -gt 100 ] && echo preempted; exit 0";
    let output = counted(context, script)?;
    // The loops end in any order.
    let mut lines: Vec<&str> = output.lines().collect();
    lines.get_mut(..3).into_iter().for_each(<[_]>::sort_unstable);
    let sum = "897256b6709e1a4da9daba92b6bde39ccfccd8c1  -";
    let hostile = "2 ended, some by a signal: yes";
    expect("the output", &lines, &vec!["1 20", "2 20", "3 20", sum, "1", hostile, "interrupted", "preempted"])
}

/// Linux ends with the command's code although other programs are ready to run all the time, and are asked for at every
/// interrupt.
fn ends_busy(context: &Context<'_>) -> Result<()> {
    let script = "i=0; while [ $i -lt 8 ]; do (while :; do :; done) & i=$((i + 1)); done\n\
                  echo 12000 > /sys/module/interrupt/parameters/storm; exit 5";
    let done = run(context, &["sh", "-c", script], |guest| guest.accel = Accel::Counting)?;
    ended(&done, 5)?;
    expect("messages", &done.errors, &String::new())
}

/// Kernel panics and too little memory end with 1 and a reason.
fn panics(context: &Context<'_>) -> Result<()> {
    let full = "echo 1 > /proc/sys/vm/panic_on_oom; tail /dev/zero; exit 0";
    let full = run(context, &["sh", "-c", full], |_| {})?;
    ended(&full, 1)?;
    expect_part("the message", &full.errors, "Kernel panic - not syncing: Out of memory")?;
    let small = run(context, &["true"], |guest| guest.memory = 8 << 20)?;
    ended(&small, 1)?;
    expect_part("the message", &small.errors, "Too few physical memory")?;
    let none = run(context, &["true"], |guest| guest.append = vec!["rdinit=/nothing".into()])?;
    ended(&none, 1)?;
    expect_part("the message", &none.errors, "Kernel panic")
}

/// Random code with random registers, as a user without rights: Linux' own rules hold, and nothing is left.
fn hostile(context: &Context<'_>) -> Result<()> {
    // Linux' own threads, the children of the second, come and go. One process counts: of two that are joined by a pipe,
    // the second is there or not when the first looks.
    let script = "count() { n=0; for s in /proc/[0-9]*/status; do { while read key value rest; do \
                  case $key-$value in PPid:-0|PPid:-2) ;; PPid:-*) n=$((n+1));; esac; done < $s; } 2>/dev/null; done; echo $n; }\n\
                  before=$(count)\n\
                  for seed in 1 2 23; do hostile $seed 200 || exit 9; vectors > /tmp/seen || exit 8; grep -v ': 0 wrong' /tmp/seen; done\n\
                  after=$(count); [ $before = $after ] && echo nothing is left";
    let programs = programs(context)?;
    let done = run(context, &["sh", "-c", script], |guest| guest.programs = programs)?;
    let one = "200 ended, some by a signal: yes\nframe: changed\nnoise: 100 ended\nfresh: 1f80 37f\n";
    ended(&done, 0)?;
    expect("the output", &text(&done.output), &format!("{one}{one}{one}nothing is left\n"))
}

/// What operations cost, in instructions, is within the limits of `bench linux`.
fn costs(context: &Context<'_>, cases: &mut Cases) -> Result<()> {
    let figures = guest::typical(context.paths, context.built()?, &linux::made(context.paths, &context.ui)?)?;
    for (name, limit) in guest::LIMITS {
        let figure = figures.iter().find(|figure| figure.name == name);
        let figure = figure.with_context(|| format!("nothing measured {name}"))?.mean;
        let told = || format!("it takes {figure:.0} instructions, and may take {limit:.0}");
        cases.case(name, (figure <= limit).then_some(()).ok_or_else(told));
    }
    Ok(())
}

/// A script of `xtask/test/programs`, on the host's Linux and on ours, in the same shell, busybox'.
fn same(context: &Context<'_>, cases: &mut Cases, script: &str) -> Result<()> {
    let linux = linux::made(context.paths, &context.ui)?;
    let file = context.paths.workspace.join("xtask/test/programs").join(script);
    let script = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let programs = programs(context)?;
    let folder = tempfile::tempdir().context("cannot make a folder")?;
    let here = on_host(&linux.busybox, &programs, folder.path(), &script)?;
    let there = run(context, &["sh", "-c", &format!("export TMP=/tmp LC_ALL=C TZ=UTC0\n{script}\nexit 0")], |guest| {
        guest.memory = 256 << 20;
        guest.programs = programs;
    })?;
    compare(&here, &there, cases)
}

fn on_host(busybox: &Path, programs: &[(String, PathBuf)], folder: &Path, script: &str) -> Result<Vec<u8>> {
    let (bin, tmp) = (folder.join("bin"), folder.join("tmp"));
    fs::create_dir_all(&bin).and_then(|()| fs::create_dir_all(&tmp)).context("cannot make a folder")?;
    let installed =
        Command::new(busybox).args(["--install", "-s"]).arg(&bin).status().context("cannot start busybox")?;
    if !installed.success() {
        bail!("busybox cannot install itself: {installed}");
    }
    for (name, file) in programs {
        fs::copy(file, bin.join(name)).with_context(|| format!("cannot copy {name}"))?;
    }
    let mut command = Command::new(busybox);
    command.args(["sh", "-c", script]).env_clear().current_dir(&tmp).stdin(Stdio::null());
    command.env("PATH", &bin).env("TMP", &tmp).env("HOME", &tmp).env("LC_ALL", "C").env("TZ", "UTC0");
    Ok(command.output().context("cannot start busybox")?.stdout)
}

/// Compiles our programs without shared libraries.
fn programs(context: &Context<'_>) -> Result<Vec<(String, PathBuf)>> {
    static MAKING: Mutex<()> = Mutex::new(());
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = context.paths.out.join("linux/tests");
    fs::create_dir_all(&folder).context("cannot make a folder")?;
    let program = |name: &str| {
        let source = context.paths.workspace.join("guests/linux/tests").join(name).with_extension("c");
        let program = folder.join(name);
        let mut gcc = Command::new("gcc");
        let output = gcc.args(["-O1", "-static", "-pthread", "-o"]).arg(&program).arg(&source).output();
        let output = output.context("cannot start gcc")?;
        if !output.status.success() {
            bail!("{} does not compile:\n{}", source.display(), tail(&text(&output.stderr), 20));
        }
        Ok((name.to_owned(), program))
    };
    PROGRAMS.into_iter().map(program).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field of a table, and the number of its arguments if it is a function.
    type Field = (String, Option<usize>);

    fn body<'a>(text: &'a str, begin: &str) -> &'a str {
        let rest = text.split_once(begin).expect("a table").1;
        rest.split_once("\n}").expect("its end").0
    }

    fn count(arguments: &str) -> usize {
        if matches!(arguments, "" | "void") { 0 } else { arguments.split(',').count() }
    }

    /// `u32 (*id)(u32 device);`, `u32 vproc, physmem;`
    fn of_c(text: &str, name: &str) -> Vec<Field> {
        let lines = body(text, &format!("\nstruct {name} {{")).lines().map(str::trim);
        let fields = lines.filter(|line| line.ends_with(';'));
        let function = |line: &str| {
            let (name, rest) = line.split_once("(*")?.1.split_once(")(")?;
            Some(vec![(name.to_owned(), Some(count(rest.split_once(')')?.0)))])
        };
        let plain = |line: &str| {
            let names = line.trim_end_matches(';').split(',');
            names.filter_map(|part| Some((part.split([' ', '*']).next_back()?.to_owned(), None))).collect()
        };
        fields.flat_map(|line| function(line).unwrap_or_else(|| plain(line))).collect()
    }

    /// `id: extern "C" fn(u32) -> u32,`, `vproc: Raw,`
    fn of_rust(text: &str, name: &str) -> Vec<Field> {
        let fields = body(text, &format!("struct {name} {{")).lines().filter_map(|line| line.trim().split_once(": "));
        let arguments = |kind: &str| Some(count(kind.split_once("fn(")?.1.split_once(')')?.0));
        fields.map(|(name, kind)| (name.to_owned(), arguments(kind))).collect()
    }

    #[test]
    fn linux_and_its_launcher_have_the_same_tables() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests/linux");
        let read = |file: &str| fs::read_to_string(folder.join(file)).expect(file);
        for name in ["table", "vhost", "virtio"] {
            let c = read(&format!("overlay/arch/um/os-Linux/{name}.h"));
            let rust = read(&format!("launcher/src/fuchsia/{name}.rs"));
            let (c, rust) = match name {
                "table" => (of_c(&c, "table"), of_rust(&rust, "Table")),
                "vhost" => (of_c(&c, "vhost_table"), of_rust(&rust, "VhostTable")),
                _ => (of_c(&c, "virtio_table"), of_rust(&rust, "VirtioTable")),
            };
            assert_eq!(c, rust);
            assert!(c.len() > 8 && c.iter().any(|(_, arguments)| arguments.is_some_and(|count| count > 1)));
        }
    }
}
