//! Debugging aids: backtraces with names, traces of system calls, gdb.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;

use super::{Context, Test, expect, expect_part, wrong};
use xtask_build::setup;
use xtask_common::fetch;

/// All of them.
pub fn tests() -> Vec<Test> {
    vec![
        Test::one("backtrace.panic", panic),
        Test::one("backtrace.crash", crash),
        Test::one("backtrace.built-in-program", built_in),
        Test::one("backtrace.wild-call", wild_call),
        Test::one("backtrace.raw", raw),
        Test::one("trace.calls", trace_calls),
        Test::one("trace.children", trace_children),
        Test::one("trace.filter", trace_filter),
        Test::one("trace.wrong-filter", trace_wrong_filter),
        Test::one("trace.perfetto-file", trace_file),
        Test::one("gdb.break-in-a-program", gdb_break),
    ]
}

/// Runs `hello` as a user does; returns its standard error.
fn stderr(context: &Context<'_>, options: &[&str], args: &[&str], code: i32) -> Result<String> {
    let mut command = wrong::tool(context)?;
    command.arg("run").args(options).args(["--env", "RUST_BACKTRACE=1"]).arg(context.hello()?).args(args);
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    expect(&format!("the exit code, of\n{text}"), &output.status.code(), &Some(code))?;
    Ok(text)
}

/// The function in every frame's first line.
fn names(text: &str) -> Vec<&str> {
    let behind_number = |line: &'_ str| line.split_once(": ").is_some_and(|(n, _)| n.trim().parse::<u32>().is_ok());
    text.lines().filter(|line| behind_number(line)).filter_map(|line| Some(line.split_once(": ")?.1)).collect()
}

fn panic(context: &Context<'_>) -> Result<()> {
    let text = stderr(context, &[], &["panic"], 101)?;
    let names = names(&text);
    expect("a frame of hello's main", &names.contains(&"hello::main"), &true)?;
    expect("a frame of core", &names.contains(&"core::panicking::panic_fmt"), &true)?;
    expect_part("the backtrace", &text, "             at ")?;
    expect_part("the backtrace", &text, "hello/src/main.rs:")?;
    expect("whether markup is left", &text.contains("{{{"), &false)
}

fn crash(context: &Context<'_>) -> Result<()> {
    let text = stderr(context, &[], &["null"], 134)?;
    let report = text.split_once("page fault (read) at 0x0").map_or("", |(_, rest)| rest);
    expect_part("the report", report, "stack backtrace:\n   0: ")?;
    expect_part("the report", report, "hello::endings::null\n             at ")?;
    expect_part("the report", report, "hello/src/endings.rs:")?;
    expect_part("the report", report, "__rust_begin_short_backtrace")
}

/// A program of the image, which has no debug information there, as a child process.
fn built_in(context: &Context<'_>) -> Result<()> {
    context.built()?;
    let output = wrong::tool(context)?.args(["run", "crash"]).output()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    expect_part("standard error", &text, "crash::here::main\n             at ")?;
    expect_part("standard error", &text, "programs/demos/src/bin/crash.rs:")
}

/// A call to an unmapped address: the frames above it are still found.
fn wild_call(context: &Context<'_>) -> Result<()> {
    let text = stderr(context, &[], &["wild-call"], 134)?;
    let report = text.split_once("page fault (execute) at 0x1000").map_or("", |(_, rest)| rest);
    expect_part("the report", report, "   0: 0x1000\n")?;
    expect_part("the report", report, "hello::endings::wild_call\n             at ")
}

fn raw(context: &Context<'_>) -> Result<()> {
    let text = stderr(context, &["--raw-backtraces"], &["panic"], 101)?;
    expect_part("the backtrace", &text, "{{{reset:begin}}}\n{{{module:0x0:")?;
    expect_part("the backtrace", &text, "{{{bt:0:0x")?;
    let text = stderr(context, &["--raw-backtraces"], &["null"], 134)?;
    expect("whether there are names", &text.contains("stack backtrace:"), &false)
}

/// Runs a program with options as a user does; it must end with `code`. Returns standard output and error.
fn run(context: &Context<'_>, options: &[&str], program: &[&str], code: i32) -> Result<(String, String)> {
    context.built()?;
    let output = wrong::tool(context)?.arg("run").args(options).args(program).output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    expect(&format!("the exit code, of\n{}", text(&output.stderr)), &output.status.code(), &Some(code))?;
    Ok((text(&output.stdout), wrong::said(&output)))
}

fn hello_path(context: &Context<'_>) -> Result<String> {
    Ok(context.hello()?.display().to_string())
}

fn trace_calls(context: &Context<'_>) -> Result<()> {
    let hello = hello_path(context)?;
    let (stdout, trace) = run(context, &["--trace"], &[&hello, "a", "b"], 0)?;
    // The program's own output is unchanged.
    expect_part("standard output", &stdout, "arguments: [\"a\", \"b\"]\n")?;
    expect("whether the trace is on standard output", &stdout.contains("zx_"), &false)?;
    for part in [
        "[hello ",
        " zx_vmar_map(handle: 0x",
        "options: ZX_VM_PERM_READ|ZX_VM_PERM_WRITE",
        "(vmo ",
        "property: ZX_PROP_NAME",
        "rights: ZX_RIGHT_SAME_RIGHTS",
        "deadline: ZX_TIME_INFINITE",
        "buffer: \"hello, world\\n",
        " = ZX_OK <",
        " µs>\n",
        "zx_futex_wait(",
        " <unfinished ...>\n",
        "<... zx_futex_wait resumed>) = ZX_OK <",
        "zx_process_exit(retcode: 0) = ?\n",
        "+++ ended with 0 +++\n",
    ] {
        expect_part("the trace", &trace, part)?;
    }
    expect("whether calls of init are in it", &trace.contains("[init "), &false)?;
    expect("whether records were lost", &trace.contains("lost"), &false)
}

/// Children of a traced program are traced.
fn trace_children(context: &Context<'_>) -> Result<()> {
    let (_, trace) = run(context, &["--trace=process,task"], &["crash"], 0)?;
    expect("children that were made", &(trace.matches("zx_process_create(").count() >= 5), &true)?;
    expect_part("the trace", &trace, "+++ ended with -1028 +++")?;
    expect_part("the trace", &trace, "zx_process_exit(retcode: 101) = ?")
}

fn trace_filter(context: &Context<'_>) -> Result<()> {
    let folder = TempDir::new()?;
    let file = folder.path().join("calls");
    let options = ["--trace=channel,zx_vmo_create", "--trace-output", &file.display().to_string()];
    let (_, stderr) = run(context, &options, &[&hello_path(context)?, "exit", "7"], 7)?;
    expect("standard error", &stderr.as_str(), &"")?;
    let trace = fs::read_to_string(&file)?;
    expect_part("the trace", &trace, " zx_channel_read(")?;
    expect_part("the trace", &trace, " zx_vmo_create(")?;
    let others = trace.lines().filter(|line| line.contains("] zx_"));
    let others: Vec<&str> =
        others.filter(|line| !line.contains("zx_channel_") && !line.contains("zx_vmo_create(")).collect();
    expect("other calls", &others, &Vec::new())
}

fn trace_wrong_filter(context: &Context<'_>) -> Result<()> {
    let (_, stderr) = run(context, &["--trace=chanel"], &["primes"], 125)?;
    expect_part("standard error", &stderr, "--trace=chanel: there is no such call or noun; nouns are bti, ")
}

/// A third-party parser of the format reads the file: the package `fxt` from Python's registry.
fn trace_file(context: &Context<'_>) -> Result<()> {
    const JUDGE: &str = r#"
import sys
from fxt.models import InstantEventRecord
from fxt.reader import parse_records
from fxt.transform import transform_records_to_spans
with open(sys.argv[1], "rb") as file:
    result = parse_records(file)
assert not result.had_unexpected_eof, result.eof_error
[provider] = result.records_by_provider.values()
for process in transform_records_to_spans(provider.records).values():
    for thread in process.threads.values():
        for span in thread.spans:
            assert not span.children, f"{span.name} holds other calls"
            assert span.duration_ns >= 0, span.name
            print(process.name, thread.name, span.name, span.args.get("result"), sep="|")
for record in provider.records:
    if isinstance(record, InstantEventRecord):
        print(record.name, record.args)
"#;
    let (folder, judges) = (TempDir::new()?, judges(context)?);
    let file = folder.path().join("calls.fxt");
    run(context, &["--trace-file", &file.display().to_string()], &[&hello_path(context)?], 0)?;
    let judge = Command::new("python3").env("PYTHONPATH", judges).args(["-c", JUDGE]).arg(&file).output()?;
    let said = String::from_utf8_lossy(&judge.stdout).into_owned();
    if !judge.status.success() {
        bail!("the reader refuses the file: {}", String::from_utf8_lossy(&judge.stderr));
    }
    for line in [
        "hello|initial-thread|zx_vmar_map|ZX_OK\n",
        "hello|pthread|zx_futex_wait|ZX_OK\n",
        "hello|initial-thread|zx_process_exit|None\n",
        "process ended {'return_code': 0}\n",
    ] {
        expect_part("what the reader reads", &said, line)?;
    }
    Ok(())
}

/// gdb stops in a program's function by name, knows its caller, and lets it continue to its end.
fn gdb_break(context: &Context<'_>) -> Result<()> {
    setup::for_gdb(&context.ui)?;
    let hello = hello_path(context)?;
    // A free port.
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut machine = wrong::tool(context)?;
    machine.args(["run", &format!("--gdb={port}"), "--timeout", "120", &hello, "exit", "7"]);
    let mut machine = machine.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let script = context.paths.out.join("gdb/hafnon.py");
    let start = Instant::now();
    let written =
        || fs::read_to_string(script.with_file_name("config.json")).is_ok_and(|c| c.contains(&format!(":{port},")));
    // gdb itself waits only some seconds for the port.
    while !written() {
        if machine.try_wait()?.is_some() || start.elapsed() > Duration::from_secs(60) {
            let _ = machine.kill();
            bail!("the machine does not wait: {}", String::from_utf8_lossy(&machine.wait_with_output()?.stderr));
        }
        thread::sleep(Duration::from_millis(50));
    }
    let commands = [
        "hafnon break hello hello::endings::exit",
        "hafnon continue",
        "backtrace",
        "hafnon ps",
        "hafnon symbols init",
        "delete",
        "hafnon continue",
    ];
    let mut gdb = Command::new("gdb");
    gdb.args(["-batch", "-nx", "-x"]).arg(&script).args(commands.iter().flat_map(|command| ["-ex", command]));
    let gdb = gdb.stdin(Stdio::null()).output().context("cannot start gdb")?;
    let ended = machine.wait_with_output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = format!("{}\n{}", text(&gdb.stdout), text(&gdb.stderr));
    expect(&format!("the exit code; gdb said\n{said}"), &ended.status.code(), &Some(7))?;
    for part in [
        "hello::endings::exit (",
        "src/endings.rs:",
        "in hello::main () at ",
        "zlibc::start::",
        " hello                ",
        " init                 ",
        "init (",
    ] {
        expect_part("gdb", &said, part)?;
    }
    Ok(())
}

/// Packages that check our output, in a folder for Python.
fn judges(context: &Context<'_>) -> Result<PathBuf> {
    let folder = context.paths.out.join("judges");
    if !folder.join("fxt/reader.py").is_file() {
        let mut pip = fetch::pip("install");
        pip.args(["--upgrade", "--target"]).arg(&folder).arg("fxt==0.3.0");
        fetch::patiently(&mut pip, "the package fxt")?;
    }
    Ok(folder)
}
