//! One hostile program: starts clients, two at a time, until the requested number of requests is made.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use conformance::check::{Failure, Outcome};
use hostile::Dice;

use crate::shapes::ALL;

/// Clients at a time.
const CLIENTS: usize = 2;
/// Requests of each.
const REQUESTS: u64 = 3000;
/// How long it makes no requests, so that others can count what is in use.
const PAUSE: Duration = Duration::from_secs(4);

/// Results of the requests.
struct Counts {
    /// For each service: requests made, answered, and successful.
    asked: Vec<[u64; 3]>,
    clients: u64,
    /// Clients that did not reach their end.
    lost: u64,
    /// Hash over everything that they read (FNV-1a).
    digest: u64,
}

impl Counts {
    fn made(&self) -> u64 {
        // A client that ends early does not report how many requests it made.
        self.asked.iter().map(|count| count[0]).sum::<u64>() + self.lost * REQUESTS / 2
    }

    /// Reads a client's report until its end.
    fn hear(&mut self, mut client: Child) -> Outcome {
        let output = client.stdout.take().ok_or("a client without its output")?;
        let mut has_ended = false;
        for line in BufReader::new(output).lines() {
            let line = line?;
            match line.split_whitespace().collect::<Vec<_>>().as_slice() {
                ["asked", name, counts @ ..] => {
                    if let Some(place) = ALL.iter().position(|service| format!("{service:?}") == *name) {
                        for (sum, count) in self.asked[place].iter_mut().zip(counts) {
                            *sum += number(count, 10)?;
                        }
                    }
                }
                ["digest", digest] => {
                    has_ended = true;
                    let digest = number(digest, 16)?;
                    self.digest = (self.digest ^ digest).wrapping_mul(0x100_0000_01b3);
                }
                ["kill"] => {
                    // It may have ended already.
                    let _ = client.kill();
                }
                _ => return Err(format!("a client says: {line}").into()),
            }
        }
        client.wait()?;
        self.clients += 1;
        self.lost += u64::from(!has_ended);
        Ok(())
    }

    fn tell(&self) {
        for (service, [made, answered, succeeded]) in ALL.iter().zip(&self.asked) {
            println!("asked {service:?} {made} {answered} {succeeded}");
        }
        println!("clients {} {} {:016x}", self.clients, self.lost, self.digest);
    }
}

/// Parses a number that another program wrote.
fn number(text: &str, radix: u32) -> Result<u64, Failure> {
    u64::from_str_radix(text, radix).map_err(|error| format!("{text}: {error}").into())
}

/// Runs clients until `requests` requests are made. Reports the progress after each pair.
pub fn drive(requests: u64, seed: u64) -> ExitCode {
    let whole = || -> Outcome {
        let program = std::env::args().next().ok_or("this program does not know its name")?;
        let start = |seed: u64| -> Result<Child, Failure> {
            let mut command = Command::new(&program);
            command.args(["--attack", &REQUESTS.to_string(), &seed.to_string()]);
            Ok(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?)
        };
        let mut dice = Dice::new(seed);
        let mut counts = Counts { asked: vec![[0; 3]; ALL.len()], clients: 0, lost: 0, digest: 0xcbf2_9ce4_8422_2325 };
        while counts.made() < requests {
            let clients = (0..CLIENTS).map(|_| start(dice.word())).collect::<Result<Vec<_>, _>>()?;
            for client in clients {
                counts.hear(client)?;
            }
            println!("round");
        }
        counts.tell();
        Ok(())
    };
    match whole() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            println!("failed: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Makes no requests for a while.
pub fn pause() -> ExitCode {
    println!("pause");
    thread::sleep(PAUSE);
    ExitCode::SUCCESS
}
