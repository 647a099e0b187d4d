//! Floods of clients that services must withstand, in the booted system: `./hafnon test hostile.services`.
//!
//! The program `flood` of `tests/hostile` attacks one service after the other in the way that the test is named after.
//! A separate program, `ordinary`, does its work at the same time. No service and not `init` may end, and the ordinary
//! work must continue.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;

use super::{Context, Test, drivers, expect_part};
use xtask_run::Capture;
use xtask_run::args::Accel;

/// The ways of `flood`, the services, and the number of repetitions.
const WAYS: [(&str, &[&str], u64); 9] = [
    // Services that programs may not connect to are attacked as well.
    ("drop", &["clock", "network", "tmp", "/tmp", "file-memory", "console", "nobody"], 6000),
    ("keep", &["clock", "network", "tmp", "/tmp"], 3000),
    ("unread", &["clock", "network", "tmp", "loader"], 8000),
    ("clones", &["network", "tmp", "loader"], 3000),
    ("events", &["clock", "network", "tmp", "/tmp", "loader"], 1500),
    ("pairs", &["clock", "network", "tmp", "/tmp", "loader"], 1500),
    ("objects", &["clock", "network", "tmp", "/tmp", "loader"], 1500),
    ("garbage", &["clock", "network", "tmp", "loader"], 1000),
    ("output", &["clock", "network", "tmp"], 1),
];

/// All of them.
pub fn tests() -> Vec<Test> {
    let test = |(way, services, count): (&'static str, &'static [&'static str], u64)| {
        Test::one(format!("hostile.services.{way}"), move |context| run(context, way, services, count).map(drop))
    };
    let further = [
        Test::one("hostile.services.libraries", libraries),
        Test::one("hostile.services.raw-disk", raw_disk),
        Test::one("hostile.services.hung", hung),
    ];
    WAYS.into_iter().map(test).chain(further).collect()
}

/// The loader service gives all programs the same objects: a program hoards only its own handles.
fn libraries(context: &Context<'_>) -> Result<()> {
    let said = run(context, "libraries", &["loader"], 30_000)?;
    expect_part("standard output", &said, "flood libraries loader 30000: 30000 handles to 1 objects")
}

/// Only the file system can access the disk's blocks.
fn raw_disk(context: &Context<'_>) -> Result<()> {
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let path = folder.path().join("disk.img");
    fs::write(&path, vec![0; 4 << 20]).context("cannot make a disk")?;
    let mut capture = beside(context, "keep", &["disk"], 20)?;
    capture.devices.disk = Some(path);
    let (stdout, _) = drivers::output(&capture, 0)?;
    expect_part("standard output", &stdout, "flood keep disk 20: 0 of 20 kept")
}

/// A service that hangs is killed, and the next client is served.
fn hung(context: &Context<'_>) -> Result<()> {
    let mut capture = Capture::new(context.built_with_tests()?, Path::new("hung"));
    (capture.tests, capture.accel) = (true, Accel::Counting);
    capture.args = vec!["hang".to_owned()];
    let (_, stderr) = drivers::output(&capture, 0)?;
    expect_part("standard error", &stderr, "the service hung gives no sign of life any more")?;
    expect_part("standard error", &stderr, "the service hung ended (-1024)")
}

/// Runs `ordinary`, and beside it `flood` with one service after the other.
fn beside<'a>(context: &'a Context<'_>, way: &str, services: &[&str], count: u64) -> Result<Capture<'a>> {
    let mut capture = Capture::new(context.built_with_tests()?, Path::new("ordinary"));
    capture.tests = true;
    let flood = |service: &&str| ["flood", way, service, &count.to_string()].map(str::to_owned).to_vec();
    let pause = ["ordinary", "pause"].map(str::to_owned).to_vec();
    capture.beside = [pause].into_iter().chain(services.iter().map(flood)).collect();
    Ok(capture)
}

/// Returns the output.
fn run(context: &Context<'_>, way: &str, services: &[&str], count: u64) -> Result<String> {
    let capture = beside(context, way, services, count)?;
    let (stdout, stderr) = drivers::output(&capture, 0)?;
    for service in services {
        expect_part("standard output", &stdout, &format!("flood {way} {service} {count}: "))?;
    }
    // Each end of a service, and each failed start, is reported there.
    if let Some(line) = stderr.lines().find(|line| line.starts_with("init: ")) {
        bail!("{line}\n{stdout}");
    }
    Ok(stdout)
}
