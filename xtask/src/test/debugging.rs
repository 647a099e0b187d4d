//! What a person sees who looks for a mistake: backtraces with names.

use anyhow::Result;

use super::{Context, Test, expect, expect_part, wrong};

/// All of them.
pub fn tests() -> Vec<Test> {
    vec![
        Test::one("backtrace.panic", panic),
        Test::one("backtrace.crash", crash),
        Test::one("backtrace.built-in-program", built_in),
        Test::one("backtrace.wild-call", wild_call),
        Test::one("backtrace.raw", raw),
    ]
}

/// Runs `hello` as a user does; gives what it wrote to standard error.
fn stderr(context: &Context<'_>, options: &[&str], args: &[&str], code: i32) -> Result<String> {
    let mut command = wrong::tool(context)?;
    command.arg("run").args(options).args(["--env", "RUST_BACKTRACE=1"]).arg(context.hello()?).args(args);
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    expect(&format!("the exit code, of\n{text}"), &output.status.code(), &Some(code))?;
    Ok(text)
}

/// The function of every frame's first line, and all lines `at`.
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

/// A program of the image, where it lies without debug information, as a child process.
fn built_in(context: &Context<'_>) -> Result<()> {
    context.built()?;
    let output = wrong::tool(context)?.args(["run", "crash"]).output()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    expect_part("standard error", &text, "crash::here::main\n             at ")?;
    expect_part("standard error", &text, "user/demos/src/bin/crash.rs:")
}

/// A call to where nothing is: the frames above it are still found.
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
