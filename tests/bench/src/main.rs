//! What operations cost against the number of existing objects.
//!
//! Run it where the time-stamp counter counts instructions (`./hafnon bench scale`). Each series creates more and more
//! objects of one kind, and measures an operation at each count. It prints a line for each figure: `cost SERIES
//! OPERATION COUNT INSTRUCTIONS`, `memory OBJECT COUNT BYTES`. Arguments name the series to measure.
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
        // Before `waits`: the server would reuse the packets of `waits`, and this series measures the memory of
        // packets.
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
