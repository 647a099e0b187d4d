//! Counts primes with eight `std` threads: a segmented sieve of Eratosthenes.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

const THREADS: usize = 8;
const DEFAULT_LIMIT: u64 = 2_000_000;
/// The number of primes below the default limit, from tables.
const EXPECTED: u64 = 148_933;
const SEGMENT: u64 = 1 << 16;

fn main() -> ExitCode {
    let limit = match std::env::args().nth(1).map(|limit| limit.parse::<u64>()) {
        None => DEFAULT_LIMIT,
        Some(Ok(limit)) if limit <= 1_000_000_000 => limit,
        Some(_) => {
            eprintln!("primes: the limit is a number up to 1000000000");
            return ExitCode::from(2);
        }
    };
    let start = Instant::now();
    let count = count(limit);
    println!("{THREADS} threads found {count} primes below {limit} in {} ms", start.elapsed().as_millis());
    if limit == DEFAULT_LIMIT && count != EXPECTED {
        eprintln!("primes: there should be {EXPECTED}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// The number of primes below `limit`. The threads take segments from a common counter.
fn count(limit: u64) -> u64 {
    let small = small_primes(limit.isqrt() + 1);
    let (next, total) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let first = next.fetch_add(1, Ordering::Relaxed) * SEGMENT;
                    if first >= limit {
                        return;
                    }
                    let found = count_segment(first, limit.min(first + SEGMENT), &small);
                    total.fetch_add(found, Ordering::Relaxed);
                }
            });
        }
    });
    total.into_inner()
}

fn small_primes(limit: u64) -> Vec<u64> {
    let mut composite = vec![false; limit as usize + 1];
    let mut primes = Vec::new();
    for number in 2..=limit {
        if !composite[number as usize] {
            primes.push(number);
            (number * number..=limit).step_by(number as usize).for_each(|multiple| composite[multiple as usize] = true);
        }
    }
    primes
}

fn count_segment(first: u64, end: u64, small: &[u64]) -> u64 {
    let mut composite = vec![false; (end - first) as usize];
    for &prime in small.iter().take_while(|prime| *prime * *prime < end) {
        let start = (prime * prime).max(first.next_multiple_of(prime));
        (start..end).step_by(prime as usize).for_each(|multiple| composite[(multiple - first) as usize] = true);
    }
    let numbers = (first..end).zip(&composite);
    numbers.filter(|(number, composite)| *number >= 2 && !**composite).count() as u64
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn known_counts() {
        for (limit, primes) in
            [(0, 0), (2, 0), (3, 1), (10, 4), (100, 25), (65_537, 6542), (65_538, 6543), (1_000_000, 78_498)]
        {
            assert_eq!(count(limit), primes, "below {limit}");
        }
    }
}
