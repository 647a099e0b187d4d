//! A tree of processes: each starts two children down to the given depth, and adds up the numbers that they send
//! through pipes.
#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

fn main() -> ExitCode {
    let mut arguments = std::env::args();
    let program = arguments.next().unwrap_or_else(|| "/boot/bin/family".to_owned());
    let result = match (arguments.next().as_deref(), arguments.next()) {
        // A child reads its depth from standard input.
        (Some("--child"), None) => child(&program),
        (depth, None) => parent(&program, depth.unwrap_or("2")),
        _ => Err("usage: family [DEPTH]".to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("family: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn parent(program: &str, depth: &str) -> Result<(), String> {
    let depth: u32 = depth.parse().ok().filter(|depth| *depth <= 4).ok_or("the depth is a number up to 4")?;
    let start = Instant::now();
    let descendants = descendants(program, depth)?;
    let expected = (1 << (depth + 1)) - 2;
    println!(
        "{descendants} descendants in {depth} generations started, answered and ended in {} ms",
        start.elapsed().as_millis()
    );
    if descendants == expected { Ok(()) } else { Err(format!("there should be {expected}")) }
}

fn child(program: &str) -> Result<(), String> {
    let mut depth = String::new();
    std::io::stdin().read_to_string(&mut depth).map_err(|error| format!("standard input: {error}"))?;
    let depth = depth.trim().parse().map_err(|_| format!("{depth:?} is no depth"))?;
    println!("{}", 1 + descendants(program, depth)?);
    Ok(())
}

/// Starts two children whose trees are one level less deep; returns the number of descendants.
fn descendants(program: &str, depth: u32) -> Result<u32, String> {
    if depth == 0 {
        return Ok(0);
    }
    let start = || {
        let mut command = Command::new(program);
        command.arg("--child").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("no child: {error}"))?;
        let mut input = child.stdin.take().ok_or("no pipe")?;
        writeln!(input, "{}", depth - 1).map_err(|error| format!("pipe to a child: {error}"))?;
        Ok::<_, String>(child)
    };
    let children = [start()?, start()?];
    let mut sum = 0;
    for mut child in children {
        let mut text = String::new();
        let mut output = child.stdout.take().ok_or("no pipe")?;
        output.read_to_string(&mut text).map_err(|error| format!("pipe from a child: {error}"))?;
        let status = child.wait().map_err(|error| format!("waiting for a child: {error}"))?;
        if !status.success() {
            return Err(format!("a child ended with {status}"));
        }
        sum += text.trim().parse::<u32>().map_err(|_| format!("a child answered {text:?}"))?;
    }
    Ok(sum)
}
