//! The walk through common features. Each stop computes something whose result is known and returns it as a line, or an
//! error message.

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

const THREADS: u64 = 8;

type Outcome = Result<String, String>;

/// Runs all stops, prints a line for each, and fails if one of them failed.
pub fn run(arguments: &[String]) -> ExitCode {
    println!("hello, world");
    let stops: [(&str, &dyn Fn() -> Outcome); 8] = [
        ("arguments", &|| Ok(format!("{arguments:?}"))),
        ("environment", &environment),
        ("threads", &threads),
        ("mutex", &mutex),
        ("condvar", &condvar),
        ("hash map", &hash_map),
        ("sleep", &sleep),
        ("memory", &memory),
    ];
    let mut failed = false;
    for (name, stop) in stops {
        match stop() {
            Ok(text) => println!("{name}: {text}"),
            Err(text) => {
                println!("{name}: FAILED: {text}");
                failed = true;
            }
        }
    }
    if failed {
        return ExitCode::FAILURE;
    }
    println!("goodbye");
    ExitCode::SUCCESS
}

fn expect<T: PartialEq + std::fmt::Display>(what: &str, found: T, expected: T) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{what} is {found}, expected {expected}")) }
}

/// The variables differ between systems, so only one that was set for this purpose is shown.
fn environment() -> Outcome {
    let greeting = std::env::var("HELLO").unwrap_or_else(|_| "not set".to_owned());
    Ok(format!("HELLO is {greeting}"))
}

/// Eight threads each send a hundred numbers over one mpsc channel.
fn threads() -> Outcome {
    let (sender, receiver) = mpsc::channel();
    let workers: Vec<_> = (0..THREADS)
        .map(|worker| {
            let sender = sender.clone();
            thread::spawn(move || {
                for number in 0..100 {
                    sender.send(worker * 100 + number).expect("the receiver lives until all have sent");
                }
            })
        })
        .collect();
    drop(sender);
    let (mut count, mut sum) = (0, 0);
    for number in receiver {
        count += 1;
        sum += number;
    }
    for worker in workers {
        worker.join().map_err(|_| "a worker panicked".to_owned())?;
    }
    let all = THREADS * 100;
    expect("the count", count, all)?;
    expect("the sum", sum, all * (all - 1) / 2)?;
    Ok(format!("{THREADS} threads sent {count} numbers over a channel, their sum is {sum}"))
}

/// Eight threads compete for one lock.
fn mutex() -> Outcome {
    const ROUNDS: u64 = 5_000;
    let total = Mutex::new(0);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    let mut total = total.lock().expect("nobody panics with the lock");
                    *total += 1;
                    if round % 500 == 0 {
                        // Holding the lock while other threads run makes sure that they have to wait for it.
                        thread::yield_now();
                    }
                }
            });
        }
    });
    let total = total.into_inner().map_err(|_| "poisoned".to_owned())?;
    expect("the total", total, THREADS * ROUNDS)?;
    Ok(format!("{THREADS} threads added up to {total}"))
}

/// A token is passed around a ring of threads, each of which waits for its turn.
fn condvar() -> Outcome {
    const TURNS: u64 = 400;
    let ring = Arc::new((Mutex::new(0), Condvar::new()));
    let workers: Vec<_> = (0..THREADS)
        .map(|me| {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                let (turn, changed) = &*ring;
                let mut taken = 0;
                loop {
                    let mut turn = changed
                        .wait_while(turn.lock().expect("not poisoned"), |turn| *turn < TURNS && *turn % THREADS != me)
                        .expect("not poisoned");
                    if *turn >= TURNS {
                        return taken;
                    }
                    *turn += 1;
                    taken += 1;
                    changed.notify_all();
                }
            })
        })
        .collect();
    for worker in workers {
        let taken: u64 = worker.join().map_err(|_| "a worker panicked".to_owned())?;
        expect("the turns of a thread", taken, TURNS / THREADS)?;
    }
    Ok(format!("{THREADS} threads took {} turns each", TURNS / THREADS))
}

/// The default hasher takes its keys from the system's random numbers.
fn hash_map() -> Outcome {
    let mut squares = HashMap::new();
    for number in 0..10_000_u64 {
        squares.insert(format!("number {number}"), number * number);
    }
    squares.retain(|_, square| *square % 2 == 0);
    expect("the number of even squares", squares.len(), 5_000)?;
    let found = squares.get("number 1234").copied().ok_or("1234 is not there")?;
    Ok(format!("{} entries, 1234 squared is {found}", squares.len()))
}

/// A sleep never ends early. It ends at most 30 ms late, unless the host leaves the machine standing meanwhile: that must
/// not happen each time.
fn sleep() -> Outcome {
    let mut slept = Duration::ZERO;
    for _ in 0..20 {
        let start = Instant::now();
        thread::sleep(Duration::from_millis(50));
        slept = start.elapsed();
        match slept.as_millis() {
            0..50 => break,
            50..80 => return Ok("50 ms took 50 to 80 ms".to_owned()),
            _ => {}
        }
    }
    Err(format!("50 ms of sleep took {slept:?}"))
}

/// 64 MiB, zeroed by the system; each page is touched and read again.
fn memory() -> Outcome {
    const SIZE: usize = 64 << 20;
    const PAGE: usize = 4096;
    let mut block = vec![0_u8; SIZE];
    for (index, page) in block.chunks_exact_mut(PAGE).enumerate() {
        if page[0] != 0 || page[PAGE - 1] != 0 {
            return Err(format!("page {index} is not zeroed"));
        }
        page[index % PAGE] = index as u8;
    }
    let wrong = block.chunks_exact(PAGE).enumerate().filter(|(index, page)| page[index % PAGE] != *index as u8).count();
    expect("the number of wrong pages", wrong, 0)?;
    Ok(format!("{} MiB, {} pages written and read", SIZE >> 20, SIZE / PAGE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stop_succeeds() {
        for stop in [environment, threads, mutex, condvar, hash_map, memory] {
            stop().unwrap();
        }
    }

    #[test]
    fn sleep_is_not_short() {
        let start = Instant::now();
        thread::sleep(Duration::from_millis(20));
        assert!(start.elapsed() >= Duration::from_millis(20));
    }

    #[test]
    fn a_wrong_result_is_reported() {
        assert_eq!(expect("it", 1, 2).unwrap_err(), "it is 1, expected 2");
    }
}
