//! What operations cost against the number of objects there are.
//!
//! To be run where the time-stamp counter counts instructions (`./hafnon bench scale`). Each series makes more and more
//! objects of one kind, and measures what an operation costs when there are so many. A line for each figure goes to
//! standard output: `cost SERIES OPERATION COUNT INSTRUCTIONS`, `memory OBJECT COUNT BYTES`. The series to be measured
//! are named as arguments.
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
mod channels;
#[cfg(target_os = "fuchsia")]
mod domains;
#[cfg(target_os = "fuchsia")]
mod handles;
#[cfg(target_os = "fuchsia")]
mod mappings;
#[cfg(target_os = "fuchsia")]
mod memory;
#[cfg(target_os = "fuchsia")]
mod meter;
#[cfg(target_os = "fuchsia")]
mod processes;
#[cfg(target_os = "fuchsia")]
mod queues;
#[cfg(target_os = "fuchsia")]
mod threads;
#[cfg(target_os = "fuchsia")]
mod waits;

#[cfg(target_os = "fuchsia")]
fn main() -> zx::Result<()> {
    type Series = (&'static str, fn(&mut meter::Meter) -> zx::Result<()>);
    let all: [Series; 12] = [
        // Before the waits, whose packets would serve again here: what packets take is measured, too.
        ("queues", queues::run),
        ("handles", handles::run),
        ("waits", waits::run),
        ("channels", channels::run),
        ("mappings", mappings::run),
        ("threads", threads::run),
        ("processes", processes::run),
        ("domains", domains::run),
        ("commit", memory::commit),
        ("copies", memory::copies),
        ("faults", memory::faults),
        ("transfer", memory::transfer),
    ];
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let mut meter = meter::Meter::new();
    for (name, run) in all {
        if wanted.iter().any(|wanted| wanted == name) {
            meter.series = name;
            run(&mut meter)?;
        }
    }
    Ok(())
}

#[cfg(not(target_os = "fuchsia"))]
fn main() {
    eprintln!("scale: runs in the system only; see ./hafnon bench scale");
}
