//! Threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::{self, Builder};
use std::time::{Duration, Instant};

use crate::roles::{output, text};

pub fn spawning() {
    let handle = thread::spawn(|| 6 * 7);
    assert_ne!(handle.thread().id(), thread::current().id());
    assert_eq!(handle.join().unwrap(), 42);
    let mut numbers = vec![1, 2, 3];
    let sum = thread::scope(|scope| {
        let sum = scope.spawn(|| numbers.iter().sum::<i32>());
        sum.join().unwrap()
    });
    numbers.push(sum);
    assert_eq!(numbers, [1, 2, 3, 6]);
}

pub fn names() {
    let long = "a name that is longer than any kernel wants to keep for a thread";
    for name in ["worker", "ü", long] {
        let thread = Builder::new().name(name.into()).spawn(|| thread::current().name().map(str::to_owned)).unwrap();
        assert_eq!(thread.join().unwrap().as_deref(), Some(name));
    }
    assert_eq!(thread::spawn(|| thread::current().name().is_none()).join().ok(), Some(true));
}

/// Uses about `pages` pages of stack.
fn dig(pages: usize) -> u64 {
    let space = std::hint::black_box([pages as u8; 4096]);
    if pages == 0 { 0 } else { u64::from(space[pages % 4096]) + dig(pages - 1) }
}

pub fn stack_sizes() {
    for size in [0, 1, 4095, 4097, 65537] {
        let thread = Builder::new().stack_size(size).spawn(|| 1).unwrap();
        assert_eq!(thread.join().unwrap(), 1);
    }
    let deep = Builder::new().stack_size(64 << 20).spawn(|| dig(3000)).unwrap();
    assert!(deep.join().unwrap() > 0);
    // More than any address space has.
    assert!(Builder::new().stack_size(1 << 60).spawn(|| ()).is_err());
    assert!(Builder::new().stack_size(1 << 47).spawn(|| ()).is_err());
}

pub fn thousand() {
    let (count, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(Barrier::new(1001)));
    let threads: Vec<_> = (0..1000)
        .map(|number| {
            let (count, gate) = (count.clone(), gate.clone());
            let body = move || {
                count.fetch_add(number, Ordering::Relaxed);
                gate.wait();
            };
            Builder::new().stack_size(64 << 10).spawn(body).unwrap()
        })
        .collect();
    gate.wait();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(count.load(Ordering::Relaxed), 499_500);
}

pub fn parking() {
    let parked = thread::spawn(|| {
        let start = Instant::now();
        thread::park();
        start.elapsed()
    });
    thread::sleep(Duration::from_millis(20));
    parked.thread().unpark();
    assert!(parked.join().unwrap() < Duration::from_secs(60));
    // The token is already set.
    thread::current().unpark();
    thread::park();
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(30) {
        thread::park_timeout(Duration::from_millis(30));
    }
}

pub fn sleeping() {
    for time in [0, 1, 5, 50] {
        let (time, start) = (Duration::from_millis(time), Instant::now());
        thread::sleep(time);
        thread::yield_now();
        assert!((time..time + Duration::from_secs(20)).contains(&start.elapsed()));
    }
    let start = Instant::now();
    let sleepers: Vec<_> = (0..20).map(|_| thread::spawn(|| thread::sleep(Duration::from_millis(500)))).collect();
    sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
    assert!(start.elapsed() < Duration::from_secs(9), "sleepers wait for each other");
}

pub fn parallelism() {
    let expected = thread::available_parallelism().unwrap().get();
    assert!(expected >= 1);
}

/// A destructor may use a thread-local value for the first time; the main thread's values are destroyed, too.
pub fn destructors() {
    let output = output("main destructors");
    assert!(output.status.success());
    let said = text(&output.stdout);
    assert!(said.contains("again ") && said.contains("first "), "{said}");
}
