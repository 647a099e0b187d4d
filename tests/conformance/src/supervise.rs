//! The supervisor and its workers.
//!
//! A worker prints `start NUMBER` before a case and `done NUMBER ok` or `done NUMBER failed DETAIL` after it. A case
//! whose result does not arrive in time has failed; the supervisor then kills the worker and starts another one with
//! the next case.

use std::io::{self, BufRead, BufReader, Write};
use std::panic::{self, AssertUnwindSafe};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};

use crate::census::{Census, Counter, Tasks};
use crate::check::Case;
use crate::options::Options;

/// Runs the cases from number `from` on and reports each on standard output.
pub fn work(cases: &[Case], from: usize) -> ExitCode {
    for (number, case) in cases.iter().enumerate().skip(from) {
        say(&format!("start {number}"));
        let result = panic::catch_unwind(AssertUnwindSafe(|| (case.run)()));
        let text = match result {
            Ok(Ok(())) => "ok".to_owned(),
            Ok(Err(failure)) => format!("failed {failure}"),
            Err(payload) => format!("failed panicked: {}", panic_text(payload.as_ref())),
        };
        say(&format!("done {number} {text}"));
    }
    // Threads that a failed case left behind must not delay the exit.
    std::process::exit(0)
}

fn panic_text(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("(no text)").replace('\n', " ")
}

fn say(line: &str) {
    let mut output = io::stdout().lock();
    // If the line cannot be written, the supervisor notices that nothing arrives.
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
}

/// Runs all cases in workers, prints one line for each, and the summary.
pub fn run(cases: &[Case], options: &Options) -> ExitCode {
    let counter = if options.leaks { Counter::new() } else { None };
    if counter.is_some() {
        // The first worker makes this process and the system allocate some memory permanently. An empty run does that
        // before the first census.
        grow_heap();
        let _ = run_worker(&[], cases.len(), options, &mut |_| {});
    }
    let before = counter.as_ref().and_then(Counter::take);
    let (mut run, mut failed) = match run_all(cases, options, &mut |line| say(line)) {
        Ok(result) => result,
        Err(error) => {
            eprintln!("conformance: no worker: {error}");
            return ExitCode::FAILURE;
        }
    };
    if options.leaks {
        let group = cases.first().and_then(|case| case.name.split('.').next()).unwrap_or_default();
        run += 1;
        let result = match (counter, before) {
            (Some(counter), Some(before)) => returned(&counter, before, cases, options),
            _ => Err("the kernel does not tell its counts".to_owned()),
        };
        match result {
            Ok(()) => say(&format!("case leak.{group} ok")),
            Err(what) => {
                say(&format!("case leak.{group} failed {what}"));
                failed += 1;
            }
        }
    }
    say(&format!("summary {} ok, {failed} failed", run - failed));
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Gives this process more heap than it needs for its workers. The heap keeps the pages that it has touched: without this,
/// another order of allocations in a later run would take a page or two more, which would look like a leak of the cases.
fn grow_heap() {
    let blocks: Vec<Vec<u8>> = (0..64).map(|_| vec![1; 1024]).collect();
    std::hint::black_box(blocks);
}

/// Checks that everything that the cases used was returned. This process and its ancestors use a little more when they
/// do something for the first time. So if something is left, the cases run a second time, and must pass again and leave
/// nothing.
fn returned(counter: &Counter, before: Census, cases: &[Case], options: &Options) -> std::result::Result<(), String> {
    if counter.returned(&before).is_ok() {
        return Ok(());
    }
    let before = counter.take().ok_or("the kernel does not tell its counts")?;
    let mut failed = String::new();
    let mut say = |line: &str| {
        if line.split(' ').nth(2) == Some("failed") {
            failed = format!("{failed}; {line}");
        }
    };
    run_all(cases, options, &mut say).map_err(|error| error.to_string())?;
    if !failed.is_empty() {
        return Err(format!("run again{failed}"));
    }
    counter.returned(&before)
}

/// Runs all cases; returns how many ran and how many failed.
fn run_all(cases: &[Case], options: &Options, say: &mut dyn FnMut(&str)) -> io::Result<(usize, usize)> {
    let (mut failed, mut next) = (0, 0);
    while next < cases.len() && !(options.stop && failed > 0) {
        let run = run_worker(cases, next, options, say)?;
        failed += run.failed;
        next = run.next;
    }
    Ok((next, failed))
}

/// Runs cases in one worker, and kills the tasks that they have left running.
fn run_worker(cases: &[Case], next: usize, options: &Options, say: &mut dyn FnMut(&str)) -> io::Result<Run> {
    let tasks = Tasks::now();
    let mut worker = Worker::start(next, options)?;
    let run = worker.follow(cases, next, options, say);
    tasks.end_others();
    worker.end(options);
    Ok(run)
}

struct Worker {
    process: Child,
    lines: Receiver<String>,
    reader: JoinHandle<()>,
}

/// The result of one worker.
struct Run {
    failed: usize,
    /// The first case without a result.
    next: usize,
}

impl Worker {
    fn start(from: usize, options: &Options) -> io::Result<Self> {
        let program = std::env::args().next().unwrap_or_else(|| "/boot/bin/conformance".to_owned());
        let mut command = Command::new(program);
        command.arg("--work").arg(from.to_string()).args(options.choice());
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = process.stdout.take().ok_or_else(|| io::Error::other("no pipe"))?;
        let (sender, lines) = mpsc::channel();
        let reader = thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(std::result::Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self { process, lines, reader })
    }

    /// Prints results until the worker ends or a result is overdue.
    fn follow(&mut self, cases: &[Case], from: usize, options: &Options, say: &mut dyn FnMut(&str)) -> Run {
        let mut run = Run { failed: 0, next: from };
        while let Some(case) = cases.get(run.next) {
            let result = self.result(run.next, options);
            run.next += 1;
            match result {
                Result::Failed(detail) if options.stop => {
                    say(&format!("case {} failed {detail}", case.name));
                    run.failed += 1;
                    break;
                }
                Result::Ok => say(&format!("case {} ok", case.name)),
                Result::Failed(detail) => {
                    say(&format!("case {} failed {detail}", case.name));
                    run.failed += 1;
                }
                Result::Gone(detail) => {
                    say(&format!("case {} failed {detail}", case.name));
                    run.failed += 1;
                    break;
                }
            }
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
        run
    }

    /// Waits for the reader thread's end. If the reader still lived, the next worker's reader would need a stack of its
    /// own and libc would keep the memory of both; on a busy system that would look like a leak of the cases. If some
    /// process still holds the pipe after a case's time limit, the reader is abandoned; that is a leak.
    fn end(self, options: &Options) {
        loop {
            match self.lines.recv_timeout(options.timeout) {
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => return,
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let _ = self.reader.join();
    }

    /// Waits for the result of a case.
    fn result(&mut self, number: usize, options: &Options) -> Result {
        let done = format!("done {number} ");
        loop {
            match self.lines.recv_timeout(options.timeout) {
                Ok(line) => match line.strip_prefix(&done) {
                    Some("ok") => return Result::Ok,
                    Some(text) => return Result::Failed(text.strip_prefix("failed ").unwrap_or(text).to_owned()),
                    // The start of the case, or a line that the case printed itself.
                    None => {}
                },
                Err(RecvTimeoutError::Timeout) => {
                    return Result::Gone(format!("timed out after {} ms", options.timeout.as_millis()));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let end = self.process.wait().map(|status| status.to_string());
                    return Result::Gone(format!(
                        "took the process down ({})",
                        end.unwrap_or_else(|error| error.to_string())
                    ));
                }
            }
        }
    }
}

/// The result of a case.
enum Result {
    Ok,
    Failed(String),
    /// The worker cannot continue.
    Gone(String),
}
