//! A small test harness: tests by name, each in its own thread, reported in the format of cargo's own tests.
#![forbid(unsafe_code)]

use std::process::ExitCode;

/// A test: its name and a function that panics on failure.
pub type Test = (&'static str, fn());

/// Runs the tests whose names contain one of the arguments that are not options, or all tests.
pub fn run(tests: &[Test]) -> ExitCode {
    let filters: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let wanted = |name: &str| filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str()));
    let chosen: Vec<&Test> = tests.iter().filter(|(name, _)| wanted(name)).collect();
    println!("\nrunning {} tests", chosen.len());
    let mut failed = 0;
    for (name, test) in &chosen {
        let passed = std::thread::Builder::new().name((*name).to_owned()).spawn(*test).unwrap().join().is_ok();
        failed += usize::from(!passed);
        println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
    }
    let (word, passed) = (if failed == 0 { "ok" } else { "FAILED" }, chosen.len() - failed);
    let left_out = tests.len() - chosen.len();
    println!(
        "\ntest result: {word}. {passed} passed; {failed} failed; 0 ignored; 0 measured; {left_out} filtered out\n"
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(101) }
}
