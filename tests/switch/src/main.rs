//! Guests of the switch, for tests and measurements: `switch-check CASE [ARGUMENT…]`.
//!
//! It needs the ports `a` to `d` of the service `switch`; `d` may send to nobody but `a`, and nobody but `a` to `d`. Each case
//! prints what it did, and `ok` as its last line, or panics.
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
mod cases;
#[cfg(target_os = "fuchsia")]
mod frames;
#[cfg(target_os = "fuchsia")]
mod guest;
#[cfg(target_os = "fuchsia")]
mod hostile;
#[cfg(target_os = "fuchsia")]
mod measure;
#[cfg(target_os = "fuchsia")]
mod memory;
#[cfg(target_os = "fuchsia")]
mod outside;

#[cfg(target_os = "fuchsia")]
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).and_then(|word| word.parse().ok());
    match arguments.first().map(String::as_str) {
        Some("function") => cases::function(),
        Some("offload") => cases::offload(),
        Some("rules") => cases::rules(),
        Some("refusals") => cases::refusals(),
        Some("memory") => memory::gone(),
        Some("pages") => memory::pages(),
        Some("outside") => outside::outside(),
        Some("kill") => cases::kill(number(1).unwrap_or(5) as u8),
        Some("guest") => cases::guest(arguments.get(1).map_or("c", String::as_str), number(2).unwrap_or(1) as u8),
        Some("soak") => cases::soak(number(1).unwrap_or(1), number(2).unwrap_or(10_000)),
        Some("hostile") => hostile::run(number(1).unwrap_or(1), number(2).unwrap_or(10_000)),
        Some("measure") => measure::run(&arguments[1..]),
        other => panic!("{other:?} is no case"),
    }
    println!("ok");
}

#[cfg(not(target_os = "fuchsia"))]
fn main() {
    eprintln!("switch-check: this program runs on Hafnon");
    std::process::exit(2);
}
