//! Does ordinary work while others attack: starts a process, writes and reads a file, connects a socket, reads the
//! clock.
//!
//! Its input comes from the programs beside it, and ends when those have ended. The first of them is this program again
//! with the argument `pause`: while that one waits, this program records what is in use in the system. Then the
//! attackers follow. An attacker before the pause lets services allocate what they keep for good, as heaps do not
//! shrink. This program works until the attackers have ended, and [`AFTERWARDS`] rounds more; everything must work as
//! always, and no more may be in use than before. It copies its input to its output.
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
mod fuchsia {
    use std::io::{self, Read, Write};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::process::{Command, ExitCode};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;
    use std::{fs, thread};

    use conformance::check::Failure;
    use drivers::clock::{self, Time};
    use hostile::usage::{self, Usage};
    use zx::MonotonicInstant;

    /// Rounds after the other programs have ended.
    const AFTERWARDS: u64 = 3;
    /// How long a service may take for ordinary requests. The host may be busy; a service that does not serve takes for
    /// ever.
    const PATIENCE: Duration = Duration::from_secs(60);
    /// The argument of a program that waits until the use of the system has been recorded, the word it prints, and the
    /// file that ends its wait.
    const PAUSE: &str = "pause";
    const NOTED: &str = "/tmp/ordinary-noted";

    type Outcome = Result<(), String>;

    fn process() -> Outcome {
        let program = std::env::args().next().unwrap_or_default();
        match Command::new(program).args(["child", "of", "ordinary"]).status() {
            Ok(status) if status.code() == Some(7) => Ok(()),
            other => Err(format!("a process: {other:?}")),
        }
    }

    fn file(round: u64) -> Outcome {
        let path = format!("/tmp/ordinary-{}", round % 3);
        let bytes = round.to_le_bytes().repeat(1000);
        fs::write(&path, &bytes).map_err(|error| format!("writing a file: {error}"))?;
        match fs::read(&path) {
            Ok(read) if read == bytes => Ok(()),
            Ok(_) => Err("a file holds something else".into()),
            Err(error) => Err(format!("reading a file: {error}")),
        }
    }

    fn socket() -> Outcome {
        let step = |what: &'static str| move |error: std::io::Error| format!("{what}: {error}");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(step("a listener"))?;
        let address = listener.local_addr().map_err(step("its address"))?;
        let mut client = TcpStream::connect(address).map_err(step("connecting"))?;
        let (mut server, _) = listener.accept().map_err(step("accepting"))?;
        client.write_all(b"ping").map_err(step("sending"))?;
        let mut four = [0; 4];
        server.read_exact(&mut four).map_err(step("receiving"))?;
        if &four == b"ping" { Ok(()) } else { Err("other bytes than were sent".into()) }
    }

    fn clock() -> Outcome {
        let step = |what: &'static str| move |status: zx::Status| format!("{what}: {status}");
        let clock = zx::startup::connect("clock").map_err(step("the clock"))?;
        clock.write(&[clock::NOW], []).map_err(step("asking the clock"))?;
        let mut bytes = [0; 64];
        let deadline = MonotonicInstant::after(PATIENCE.into());
        let size = clock.read_wait(&mut bytes, &mut [], deadline).map_err(step("the clock's answer"))?;
        Time::from_bytes(&bytes[..size.bytes]).map(drop).ok_or_else(|| "the clock tells no time".into())
    }

    fn round(number: u64) -> Outcome {
        process()?;
        file(number)?;
        socket()?;
        clock()
    }

    /// Reports that it is there, and waits.
    fn pause() -> ExitCode {
        println!("{PAUSE}");
        while fs::metadata(NOTED).is_err() {
            thread::sleep(Duration::from_millis(10));
        }
        ExitCode::SUCCESS
    }

    /// Works until the input has ended, and some rounds more; returns the number of rounds.
    fn work() -> Result<u64, Failure> {
        static OVER: AtomicBool = AtomicBool::new(false);
        let root = usage::root()?;
        // Programs before the pause are not judged: services have then allocated what they keep.
        for line in io::stdin().lines() {
            let line = line?;
            if line == PAUSE {
                break;
            }
            println!("{line}");
        }
        // Rounds that let services allocate what they keep when they do something for the first time.
        (0..3).try_for_each(round)?;
        let before = Usage::now(&root)?;
        fs::write(NOTED, b"")?;
        thread::spawn(move || {
            for line in io::stdin().lines().map_while(Result::ok) {
                println!("{line}");
            }
            OVER.store(true, Ordering::Release);
        });
        let (mut rounds, mut after) = (0, 0);
        while after < AFTERWARDS {
            let over = OVER.load(Ordering::Acquire);
            let when = if over { "afterwards" } else { "beside the other" };
            round(rounds).map_err(|why| format!("round {rounds}, {when}: {why}"))?;
            rounds += 1;
            after += u64::from(over);
        }
        before.comes_back(&root)?;
        Ok(rounds - after)
    }

    pub fn main() -> ExitCode {
        match std::env::args().nth(1).as_deref() {
            None => {}
            Some(PAUSE) => return pause(),
            Some(_) => return ExitCode::from(7),
        }
        match work() {
            Ok(rounds) => {
                println!("ordinary: {rounds} rounds beside the other, {AFTERWARDS} afterwards, and all has come back");
                ExitCode::SUCCESS
            }
            Err(failure) => {
                println!("ordinary: {failure}");
                ExitCode::FAILURE
            }
        }
    }
}

#[cfg(target_os = "fuchsia")]
fn main() -> std::process::ExitCode {
    fuchsia::main()
}

#[cfg(not(target_os = "fuchsia"))]
fn main() {
    eprintln!("ordinary: this program works on Hafnon");
}
