//! `bench switch --linux`: how much a bulk transfer over TCP from a Linux to another costs, in instructions of the whole
//! machine, in each mode of the switch. Each mode is a boot: the two are programs of the system's shell.
//!
//! An instruction takes a nanosecond, and the sender reads the time before and after, so idle time counts. Both sides are the
//! program `bulk` (tests/bench/linux), which reads and writes 64 KiB at once.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use xtask_build::devices::Devices;
use xtask_build::{BuildOptions, Built, build, setup};
use xtask_common::paths::Paths;
use xtask_common::ui::Ui;
use xtask_run::args::Accel;
use xtask_run::linux::{self, InTheShell, Linux};
use xtask_run::session::End;

use super::network::KERNEL;
use super::operations::{self, Figure};
use super::{commit, peers};

/// The modes.
const MODES: [&str; 7] = ["remap", "call", "mapped", "copy", "batch", "event-idx", "offload"];
/// How many MiB are sent, and how often.
const MIB: u32 = 16;
const TIMES: u32 = 3;

/// The program.
const PROGRAM: &str = "bulk";

/// What receives.
const RECEIVER: &str = "ip addr add 10.0.0.1/24 dev eth0; ip link set eth0 up; bulk receive 5000\n";

/// What sends, and says how many nanoseconds it took.
fn sender() -> String {
    format!(
        "ip addr add 10.0.0.2/24 dev eth0; ip link set eth0 up\n\
         until ping -c 1 -W 1 10.0.0.1 >/dev/null; do :; done\n\
         for time in $(seq {TIMES}); do sleep 1; bulk send 10.0.0.1 5000 {MIB} || exit 9; done\n"
    )
}

/// Measures; prints the figures.
///
/// # Errors
/// Linux cannot be built or booted, or the transfer fails.
pub fn measure(paths: &Paths, json: Option<&Path>) -> Result<()> {
    let ui = Ui::new(false);
    setup::for_booting(&ui)?;
    let linux = linux::made(paths, &ui)?;
    let built = build(paths, &ui, BuildOptions { shell: true, ..BuildOptions::default() })?;
    let program = paths.out.join("peers").join(PROGRAM);
    peers::gcc(paths, &program, &["-static"], &["bulk.c"])?;
    let mut step = ui.step("measuring two Linuxes");
    let options = "QEMU TCG, one processor without ERMS, 1024 MiB, -icount shift=0,sleep=off".to_owned();
    let common = (commit(paths), KERNEL.to_owned(), options);
    let mut figures = Vec::new();
    for mode in MODES {
        step.activity(mode);
        let text = transfer(paths, &built, (&linux, &program), mode).with_context(|| format!("mode {mode}"))?;
        figures.push(figure(mode, &text, &common)?);
    }
    drop(step);
    println!("instructions of the machine for a MiB over TCP from a Linux to another, idle time included");
    println!("{:<24} {:>12} {:>7}  range", "operation", "mean", "times");
    let first = figures.first().map_or(0.0, |figure| figure.mean);
    for Figure { name, mean, min, max, .. } in &figures {
        println!("{name:<24} {mean:>12.0} {:>7.1}  {min:.0} to {max:.0}", first / mean);
    }
    json.map_or(Ok(()), |file| operations::write(file, &figures))
}

/// Boots the two with the switch in a mode; returns what the sender says.
fn transfer(paths: &Paths, built: &Built, (linux, program): (&Linux, &Path), mode: &str) -> Result<String> {
    let mut built = built.clone();
    let entry = built.services.iter_mut().find(|entry| entry.service.name == "switch").context("there is no switch")?;
    entry.service.arguments.push(format!("mode={mode}"));
    let folder = tempfile::tempdir().context("cannot make a folder")?;
    let write = |name: &str, content: &str| fs::write(folder.path().join(name), content).context("cannot write a file");
    write("receiver", RECEIVER)?;
    write("sender", &sender())?;
    let script = "linux --memory 64 --net switch/linux-1 <receiver & receiver=$!\n\
                  linux --memory 64 --net switch/linux-2 <sender; code=$?; kill $receiver; exit $code";
    let devices = Devices { switch: true, ..Devices::default() };
    let programs = vec![(PROGRAM.into(), program.to_path_buf())];
    let shell = InTheShell { devices, programs, accel: Accel::Counting, ..InTheShell::new(script, folder.path()) };
    let done = shell.capture(paths, &built, linux)?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    if done.end != End::Exit(0) {
        bail!("it ended with {:?}:\n{}\n{}", done.end, text(done.stdout()), text(done.stderr()));
    }
    Ok(text(done.stdout()))
}

/// The figure in what a sender says.
fn figure(mode: &str, text: &str, (commit, kernel, options): &(String, String, String)) -> Result<Figure> {
    let each = |line: &str| line.strip_prefix("took ")?.parse::<f64>().ok().map(|took| took / f64::from(MIB));
    let took: Vec<f64> = text.lines().filter_map(each).collect();
    if took.len() != TIMES as usize {
        bail!("the sender said:\n{text}");
    }
    Ok(Figure {
        name: format!("switch_linux_{}", mode.replace('-', "_")),
        unit: "instructions a MiB".into(),
        mean: took.iter().sum::<f64>() / f64::from(TIMES),
        min: took.iter().copied().fold(f64::INFINITY, f64::min),
        max: took.iter().copied().fold(0.0, f64::max),
        samples: TIMES.into(),
        commit: commit.clone(),
        kernel: kernel.clone(),
        options: options.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_sender_says() {
        let common = ("c".to_owned(), "k".to_owned(), "o".to_owned());
        let of = |text: &str| figure("event-idx", text, &common);
        let each = |nanoseconds: f64| nanoseconds / f64::from(MIB);
        let Figure { name, mean, min, max, .. } = of("took 640\ntook 1280\ntook 1920\n").unwrap();
        assert_eq!(
            (name.as_str(), mean, min, max),
            ("switch_linux_event_idx", each(1280.0), each(640.0), each(1920.0))
        );
        assert!(of("took 32\ntook 64\n").is_err() && of("took 1\ntook\ntook x\n").is_err());
    }
}
