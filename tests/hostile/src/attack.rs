//! Attacks on services: a child that attacks, and how long an ordinary request takes meanwhile.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use conformance::check::{Failure, Outcome, ensure};

/// Longest time that one ordinary use of a service may take during an attack, in the guest's time.
pub const LONGEST: Duration = Duration::from_millis(100);
/// What a child prints when its attack has begun.
pub const BEGUN: &str = "begun";

/// The exit code of an attacking process; prints what went wrong.
pub fn ended(done: Outcome) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            println!("{failure}");
            ExitCode::FAILURE
        }
    }
}

/// This program as another process, which attacks until this value is dropped.
pub struct Attacker(Child);

impl Attacker {
    /// Starts an attack, and waits until it has begun.
    ///
    /// # Errors The attack does not begin.
    pub fn start(kind: &str) -> Result<Attacker, Failure> {
        let program = std::env::args().next().ok_or("this program does not know its name")?;
        let mut child = Command::new(program).args(["--child", kind]).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().ok_or("an attacker without a pipe")?;
        let attacker = Attacker(child);
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        ensure(line.trim_end() == BEGUN, &format!("the attacker says {line:?}"))?;
        Ok(attacker)
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Carries out an ordinary action several times. None of them may take long.
///
/// # Errors The action's error, or the action took too long.
pub fn goes_on(what: &str, times: usize, act: impl Fn() -> std::io::Result<()>) -> Outcome {
    let mut worst = Duration::ZERO;
    for _ in 0..times {
        let begin = Instant::now();
        act()?;
        worst = worst.max(begin.elapsed());
        thread::sleep(Duration::from_millis(20));
    }
    eprintln!("hold {what}: {} us at most", worst.as_micros());
    ensure(worst < LONGEST, &format!("{what} took {worst:?}"))
}
