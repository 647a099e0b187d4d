//! `bench switch`: what a frame from guest to guest costs, in instructions, in each of the switch's modes, in one boot.
//!
//! The modes are the steps by which DornerWorks made virtio-net between guests on seL4 fast: they are drawn beside the
//! throughput that was published for those. The program [`PROGRAM`] (tests/switch) is both guests.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use description::services::Service;
use description::switch::{Port, PortKind};
use xtask_build::cargo::{self, Build};
use xtask_build::system::{DeviceNeed, ServiceEntry};
use xtask_build::{BuildOptions, program_flags, setup};
use xtask_common::paths::Paths;
use xtask_common::ui::Ui;
use xtask_run::Capture;
use xtask_run::args::Accel;
use xtask_run::session::End;

use super::network::KERNEL;
use super::operations::Figure;
use super::{commit, operations, peers};

/// The measuring program.
const PROGRAM: &str = "switch-check";
/// Memory of the machine in bytes.
const MEMORY: u64 = 512 << 20;
/// Width of the longest bar.
const WIDTH: f64 = 40.0;

/// The modes: the name, what it is, and the throughput that was published for that step, in Mb/s.
const MODES: [(&str, &str, Option<f64>); 7] = [
    ("remap", "pages are mapped and unmapped at each access", Some(48.1)),
    ("call", "memory is read and written by system calls", None),
    ("mapped", "mapped once", Some(380.0)),
    ("copy", "mapped once, and a fast copy", Some(521.0)),
    ("batch", "batches of 64 frames", Some(1470.0)),
    ("event-idx", "batches, and notifications only where they are wanted", None),
    ("offload", "the same, with segments of 64 KiB, each for 44 frames", None),
];

/// The switch in a mode.
fn service(mode: &str) -> Service {
    let port = |(name, last)| {
        let (name, kind) = (String::from(name), PortKind::Guest);
        Port { name, kind, mac: [2, 0, 0, 0, 1, last], sends_to: None }
    };
    let ports = [("a", 1), ("b", 2)].map(port);
    let mut arguments: Vec<String> = ports.iter().map(Port::to_argument).collect();
    arguments.push(format!("mode={mode}"));
    Service {
        name: format!("switch-{mode}"),
        program: "net-switch".into(),
        arguments,
        public: true,
        ..Service::default()
    }
}

/// Measures; prints the figures and bars.
///
/// # Errors
/// Something does not build or boot, or the program fails.
pub fn measure(paths: &Paths, json: Option<&Path>) -> Result<()> {
    let ui = Ui::new(false);
    setup::for_booting(&ui)?;
    let mut built = xtask_build::build(paths, &ui, BuildOptions::default())?;
    let entry = |(mode, ..): &(&str, &str, Option<f64>)| ServiceEntry {
        needs: vec![DeviceNeed::Switch],
        service: service(mode),
    };
    built.services.extend(MODES.iter().map(entry));
    let args = format!("--release --locked --target {} -p switch-tests", cargo::PROGRAM_TARGET);
    let made = Build::new("building the benchmark", &args)
        .env("CARGO_ENCODED_RUSTFLAGS", program_flags(paths))
        .run(paths, &ui)?;
    let program = cargo::program(&made, PROGRAM)?.to_path_buf();
    let mut capture = Capture::new(&built, Path::new(PROGRAM));
    capture.programs = vec![(PROGRAM.into(), program)];
    capture.accel = Accel::Counting;
    capture.memory = MEMORY;
    capture.devices.switch = true;
    capture.timeout = Duration::from_secs(1800);
    capture.args = ["measure"].into_iter().chain(MODES.iter().map(|(mode, ..)| *mode)).map(str::to_owned).collect();
    let step = ui.step("measuring");
    let outcome = capture.run()?;
    drop(step);
    let (stdout, stderr) = (outcome.stdout(), outcome.stderr());
    let (text, errors) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    if outcome.end != End::Exit(0) {
        bail!("the benchmark ended with {:?}:\n{text}{errors}", outcome.end);
    }
    let options = format!("QEMU TCG, one processor without ERMS, {} MiB, -icount shift=0,sleep=off", MEMORY >> 20);
    let figures = peers::figures(&text, &(commit(paths), KERNEL.into(), options))?;
    print!("{}", table(&figures, &text));
    json.map_or(Ok(()), |file| operations::write(file, &figures))
}

/// The figures with the calls to the kernel, and bars: how much faster each step is than the first one, here and as it was
/// published.
fn table(figures: &[Figure], text: &str) -> String {
    let name = |mode: &str| format!("switch_{}", mode.replace('-', "_"));
    let of = |mode: &str| figures.iter().find(|figure| figure.name == name(mode)).map(|figure| figure.mean);
    let calls = |mode: &str| {
        let prefix = format!("calls {} ", name(mode));
        text.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap_or("-").to_owned()
    };
    let mut out = String::from("instructions for a frame of 1,514 bytes, without those of the guests\n");
    out.push_str(&format!("{:<18} {:>12} {:>9} {:>9}  {}\n", "operation", "mean", "times", "calls", "what it is"));
    let first = of(MODES[0].0);
    let times = |mode: &str| Some(first? / of(mode)?);
    for (mode, what, _) in MODES {
        let (Some(mean), Some(times)) = (of(mode), times(mode)) else { continue };
        out.push_str(&format!("{:<18} {mean:>12.0} {times:>9.1} {:>9}  {what}\n", name(mode), calls(mode)));
    }
    out.push_str("\ntimes faster than the first step: here (#), and as published in Mb/s (=)\n");
    let longest = MODES.iter().filter_map(|(mode, ..)| times(mode)).fold(1.0, f64::max);
    let bar = |times: f64, sign: &str| sign.repeat(((times.ln() / longest.ln() * WIDTH).round() as usize).max(1));
    for (mode, _, published) in MODES {
        let Some(times) = times(mode) else { continue };
        out.push_str(&format!("{:<10} {} {times:.1}\n", mode, bar(times, "#")));
        if let Some(rate) = published {
            let times = rate / MODES[0].2.unwrap_or(rate);
            out.push_str(&format!("{:<10} {} {times:.1} ({rate} Mb/s)\n", "", bar(times, "=")));
        }
    }
    out.push_str("(bars by the logarithm)\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_bars() {
        let figures = [Figure::of("switch_remap", 100_000.0), Figure::of("switch_event_idx", 500.0)];
        let text = table(&figures, "calls switch_event_idx 0.0312\n");
        assert!(text.contains("switch_event_idx            500     200.0    0.0312  batches"), "{text}");
        assert!(text.contains(&format!("event-idx  {} 200.0\n", "#".repeat(40))), "{text}");
        assert!(text.contains("= 1.0 (48.1 Mb/s)"), "{text}");
        assert!(!text.contains("switch_call"), "{text}");
    }
}
