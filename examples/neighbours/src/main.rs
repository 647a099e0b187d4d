//! Two kinds of work that run side by side.
//!
//! - `steady SECONDS`: two threads pass numbers to each other and check each. Ten times a second it prints the number
//!   of rounds. It exits with 0 if all were right.
//! - `busy [ROUNDS]` uses everything that a system has, repeatedly: processes, pipes, threads, memory, files. It prints
//!   a message after each round, and runs for ever unless it gets a number of rounds.
#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u64>().ok();
    match *words {
        ["steady", seconds] if number(seconds).is_some() => steady(Duration::from_secs(number(seconds).unwrap_or(0))),
        ["busy"] => busy(u64::MAX),
        ["busy", rounds] if number(rounds).is_some() => busy(number(rounds).unwrap_or(0)),
        ["child"] => child(),
        _ => {
            eprintln!("usage: neighbours steady SECONDS | busy [ROUNDS]");
            ExitCode::from(2)
        }
    }
}

/// A number that depends only on the previous one.
fn next(number: u64) -> u64 {
    number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
}

fn steady(time: Duration) -> ExitCode {
    const INTERVAL: Duration = Duration::from_millis(100);
    let (question, questions) = mpsc::sync_channel::<u64>(1);
    let (answer, answers) = mpsc::sync_channel::<u64>(1);
    let partner = thread::spawn(move || {
        for number in questions {
            if answer.send(next(number)).is_err() {
                return;
            }
        }
    });
    let (start, mut interval) = (Instant::now(), Instant::now());
    let (mut number, mut rounds, mut all, mut wrong) = (1, 0u64, 0u64, 0u64);
    let mut longest = Duration::ZERO;
    while start.elapsed() < time {
        let before = Instant::now();
        if question.send(number).is_err() || answers.recv() != Ok(next(number)) {
            wrong += 1;
        }
        number = next(number);
        rounds += 1;
        longest = longest.max(before.elapsed());
        if interval.elapsed() >= INTERVAL {
            println!("steady: {rounds} rounds in {} ms", interval.elapsed().as_millis());
            all += rounds;
            (rounds, interval) = (0, Instant::now());
        }
    }
    drop(question);
    let ended = partner.join().is_ok();
    println!("steady: {all} rounds, {wrong} wrong; the longest took {} us", longest.as_micros());
    if wrong == 0 && ended { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn busy(rounds: u64) -> ExitCode {
    for round in 1..=rounds {
        if let Err(error) = one_round(round) {
            eprintln!("busy: round {round}: {error}");
            return ExitCode::FAILURE;
        }
        println!("busy: round {round} is done");
    }
    ExitCode::SUCCESS
}

fn one_round(round: u64) -> std::io::Result<()> {
    let text = format!("this is round {round}\n").repeat(200);
    // A process at the other end of two pipes.
    let mut command = Command::new(env::current_exe()?);
    let mut child = command.arg("child").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut to = child.stdin.take();
    let sent = text.clone();
    let writer = thread::spawn(move || to.as_mut().map(|to| to.write_all(sent.as_bytes())));
    let mut back = String::new();
    if let Some(from) = child.stdout.as_mut() {
        from.read_to_string(&mut back)?;
    }
    let _ = writer.join();
    if !child.wait()?.success() || back != text {
        return Err(std::io::Error::other("what the child gave back is something else"));
    }
    // Threads with their own memory and one file each.
    let folder = env::temp_dir();
    let workers: Vec<_> = (0..4u64)
        .map(|number| {
            let path = folder.join(format!("neighbours-{number}"));
            thread::spawn(move || -> std::io::Result<bool> {
                let bytes: Vec<u8> = (0..64u64 << 10).map(|i| next(i ^ number) as u8).collect();
                fs::write(&path, &bytes)?;
                let same = fs::read(&path)? == bytes;
                fs::remove_file(&path)?;
                Ok(same)
            })
        })
        .collect();
    for worker in workers {
        if !worker.join().map_err(|_| std::io::Error::other("a thread panicked"))?? {
            return Err(std::io::Error::other("a file holds something else"));
        }
    }
    Ok(())
}

/// Echoes its input.
fn child() -> ExitCode {
    let copied = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::stdout().lock());
    if copied.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
