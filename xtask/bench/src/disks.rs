//! `bench disk`: how long file operations take. One program does the same work on each file system, measured by the
//! wall clock: a machine that counts instructions skips time while it waits for a device, so its figures would be those
//! of timers. Compare the figures only within one run on a quiet host. The host's own file system has a cache below and
//! no virtual machine in between.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::json;
use tempfile::TempDir;

use super::commit;
use xtask_build::{BuildOptions, Built, cargo, setup};
use xtask_common::paths::Paths;
use xtask_common::ui::Ui;
use xtask_run::args::DiskCommand;
use xtask_run::session::End;
use xtask_run::{Capture, disk, example};

/// By the name of the work: the number of bytes or operations, and nanoseconds.
type Figures = BTreeMap<String, (u64, u64)>;

/// The kinds of work, and the unit of each figure.
const WORK: [(&str, &str); 8] = [
    ("read", "a KiB"),
    ("write", "a KiB"),
    ("read-anywhere", "4 KiB"),
    ("write-anywhere", "4 KiB"),
    ("create", "a file"),
    ("remove", "a file"),
    ("append-and-sync", "one"),
    ("save-by-renaming", "one"),
];
/// The file systems in the drawing.
const DRAWN: [(&str, &str); 4] =
    [("device", "#b9b9b9"), ("ext4", "#1b6ca8"), ("FAT", "#c8a13d"), ("memory", "#2d8a5f")];

/// Measures, prints the table, and fails if ext4 reads less than half as fast as the device.
///
/// # Errors
/// Something does not build or run.
pub fn measure(paths: &Paths, json: Option<&Path>, svg: Option<&Path>) -> Result<()> {
    let ui = Ui::new(false);
    setup::for_booting(&ui)?;
    let built = xtask_build::build(paths, &ui, BuildOptions { shell: true, ..BuildOptions::default() })?;
    let program = example(paths, &ui, "files")?;
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let image = |name: &str, fat: bool| -> Result<PathBuf> {
        let image = folder.path().join(name);
        disk::disk(&DiskCommand::New { image: image.clone(), size: 64 << 20, fat })?;
        Ok(image)
    };
    let mut all = BTreeMap::new();
    let ext4 = image("ext4.img", false)?;
    all.insert("device", run(&built, Path::new("disk"), &["speed"], Some(ext4.clone()))?);
    all.insert("ext4", run(&built, &program, &["speed", "/disk"], Some(ext4))?);
    all.insert("FAT", run(&built, &program, &["speed", "/disk"], Some(image("fat.img", true)?))?);
    all.insert("memory", run(&built, &program, &["speed", "/tmp"], None)?);
    all.insert("host", on_the_host(paths, folder.path())?);
    print(&all);
    if let Some(file) = json {
        let figures: BTreeMap<_, BTreeMap<_, _>> = all
            .iter()
            .map(|(whose, figures)| (whose, figures.iter().map(|(name, figure)| (name, each(name, *figure))).collect()))
            .collect();
        let text = serde_json::to_string_pretty(&json!({ "commit": commit(paths), "figures": figures }))?;
        fs::write(file, text + "\n").with_context(|| format!("cannot write {}", file.display()))?;
    }
    if let Some(file) = svg {
        fs::write(file, draw(&all)).with_context(|| format!("cannot write {}", file.display()))?;
    }
    let share = read_share(&all).context("nothing was read")?;
    println!("reading from ext4 is {:.0} % as fast as the device", share * 100.0);
    if share < 0.5 { bail!("that is less than half") } else { Ok(()) }
}

fn parse(text: &str) -> Figures {
    let figure = |line: &str| {
        let mut words = line.strip_prefix("figure ")?.split(' ');
        let name = words.next()?.to_owned();
        Some((name, (words.next()?.parse().ok()?, words.next()?.parse().ok()?)))
    };
    text.lines().filter_map(figure).collect()
}

fn run(built: &Built, program: &Path, args: &[&str], image: Option<PathBuf>) -> Result<Figures> {
    let mut capture = Capture::new(built, program);
    capture.args = args.iter().map(ToString::to_string).collect();
    capture.devices.disk = image;
    let outcome = capture.run()?;
    if outcome.end != End::Exit(0) {
        bail!("{args:?} ended with {:?}: {}", outcome.end, String::from_utf8_lossy(&outcome.stderr()));
    }
    Ok(parse(&String::from_utf8_lossy(&outcome.stdout())))
}

fn on_the_host(paths: &Paths, folder: &Path) -> Result<Figures> {
    let place = folder.join("host");
    fs::create_dir(&place).context("cannot make a folder")?;
    let mut command: Command = cargo::command(&paths.workspace.join("examples/files"));
    command.args(["run", "--release", "--locked", "--quiet", "--target-dir"]).arg(paths.out.join("examples"));
    let output = command.args(["--", "speed"]).arg(place).output().context("cannot start cargo")?;
    if !output.status.success() {
        bail!("on the host: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(parse(&String::from_utf8_lossy(&output.stdout)))
}

/// The cost of one unit: of a KiB for the large transfers.
fn each(name: &str, (count, nanos): (u64, u64)) -> f64 {
    let count = if matches!(name, "read" | "write") { count / 1024 } else { count };
    nanos as f64 / count.max(1) as f64
}

fn read_share(all: &BTreeMap<&str, Figures>) -> Option<f64> {
    let of = |whose: &str| all.get(whose)?.get("read").map(|figure| each("read", *figure));
    Some(of("device")? / of("ext4")?)
}

fn print(all: &BTreeMap<&str, Figures>) {
    println!("microseconds by the clock:");
    println!("{:>28} {:>10} {:>10} {:>10} {:>10} {:>10}", "", "device", "ext4", "FAT", "memory", "host");
    for (work, of) in WORK {
        let mut line = format!("{:>28}", format!("{work}, {of}"));
        for whose in ["device", "ext4", "FAT", "memory", "host"] {
            let figure = all.get(whose).and_then(|figures| figures.get(work));
            let text = figure.map_or_else(|| "-".to_owned(), |figure| format!("{:.1}", each(work, *figure) / 1000.0));
            let _ = write!(line, " {text:>10}");
        }
        println!("{line}");
    }
}

/// Bars, with a separate scale for each kind of work.
fn draw(all: &BTreeMap<&str, Figures>) -> String {
    const LEFT: f64 = 170.0;
    const WIDTH: f64 = 420.0;
    const BAR: f64 = 10.0;
    let (mut bars, mut y) = (String::new(), 50.0);
    for (work, of) in WORK {
        let values: Vec<(f64, &str)> = DRAWN
            .iter()
            .filter_map(|(whose, colour)| Some((each(work, *all.get(whose)?.get(work)?), *colour)))
            .collect();
        let most = values.iter().fold(1.0, |most: f64, (value, _)| most.max(*value));
        let _ = writeln!(bars, "<text x=\"10\" y=\"{:.0}\">{work}, {of}</text>", y + 12.0);
        for (value, colour) in values {
            let width = value / most * WIDTH;
            let _ = writeln!(
                bars,
                "<rect x=\"{LEFT}\" y=\"{y:.0}\" width=\"{width:.1}\" height=\"{BAR}\" fill=\"{colour}\"/>\
                 <text x=\"{:.1}\" y=\"{:.0}\" font-size=\"9\">{:.1}</text>",
                LEFT + width + 4.0,
                y + 9.0,
                value / 1000.0
            );
            y += BAR + 2.0;
        }
        y += 10.0;
    }
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 680 {:.0}\" font-family=\"sans-serif\" font-size=\"11\" \
         fill=\"#222\">\n<rect width=\"680\" height=\"{:.0}\" fill=\"#fff\"/>\n\
         <text x=\"10\" y=\"20\" font-size=\"14\" font-weight=\"bold\">Work on files, in microseconds</text>\n",
        y + 10.0,
        y + 10.0
    );
    for (index, (whose, colour)) in DRAWN.iter().enumerate() {
        let x = LEFT + index as f64 * 110.0;
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"30\" width=\"12\" height=\"10\" fill=\"{colour}\"/><text x=\"{}\" y=\"39\">{whose}</text>",
            x + 16.0
        );
    }
    out + &bars + "</svg>\n"
}
