//! Generated files: the drawings, and the tables of docs/performance.md, made from the figures in the tree.

use std::fmt::Write;

use anyhow::Result;

use super::anchors::GROUPS;
use super::operations::{self, Figure, accepted};
use super::{bars, builds, curves, network, peers, scale, sizes, steps};
use xtask_common::page::Page;
use xtask_common::paths::Paths;

const PAGE: &str = "docs/performance.md";
/// Bulk transfers by the wall clock: the output of `./hafnon bench --clock --json FILE`.
const CLOCK: &str = "docs/measurements/clock.json";
/// The output of `./hafnon bench scale --json FILE`.
const SCALE: &str = "docs/measurements/scale.json";
/// The output of `./hafnon bench build --json FILE`.
const BUILDS: &str = "docs/measurements/build.json";

/// The page of the network, and the outputs of `./hafnon bench network --peers --json FILE`, without and with `--steps`.
const NETWORK_PAGE: &str = "docs/network.md";
const NETWORK: &str = "docs/measurements/network.json";
const STEPS: &str = "docs/measurements/network-steps.json";

/// Every generated file, by name.
///
/// # Errors
/// Figures cannot be read, or the page does not say where its tables belong.
pub fn pages(paths: &Paths) -> Result<Vec<(&'static str, String)>> {
    let figures = accepted(paths)?;
    let mut page = Page::read(paths, PAGE)?;
    let linux = operations::read(paths, peers::ACCEPTED)?;
    page.set("operations", &table(&figures, &linux))?;
    page.set("linux", &linux_table(&linux))?;
    page.set("cycles", &cycles(&figures))?;
    page.set("clock", &operations::clock_table(&operations::read(paths, CLOCK)?))?;
    page.set("memory", &memory(&scale::read(&paths.workspace.join(SCALE))?))?;
    // Wall-clock times are measured on an idle computer, not with every change.
    let file = paths.workspace.join(BUILDS);
    let times = if file.is_file() { builds::table(&builds::read(&file)?) } else { "Not measured yet.\n".into() };
    page.set("builds", &times)?;
    let mut of_network = Page::read(paths, NETWORK_PAGE)?;
    let load = steps::read(&paths.workspace.join(STEPS))?;
    of_network.set("network", &network::table(&operations::read(paths, NETWORK)?))?;
    of_network.set("network-steps", &steps::table(&load))?;
    let drawn = |name: &str| Ok::<_, anyhow::Error>(curves::of_report(&scale::read(&paths.workspace.join(name))?));
    Ok(vec![
        page.finish(),
        of_network.finish(),
        ("docs/measurements/network.svg", steps::drawing(&load)),
        ("docs/measurements/operations.svg", bars::svg(&figures, &linux)),
        ("docs/measurements/sizes.svg", sizes::svg(&figures)),
        ("docs/measurements/scale.svg", drawn(SCALE)?),
        ("docs/measurements/memory.svg", drawn("docs/measurements/memory.json")?),
    ])
}

/// The table of all operations.
fn table(figures: &[Figure], linux: &[Figure]) -> String {
    let mut out = String::new();
    if let Some(first) = figures.first() {
        let _ = writeln!(out, "Measured at {}; {}; {}.\n", first.commit, first.kernel, first.options);
    }
    out.push_str("| operation | mean | least | most | native | thesis | Linux | goal | |\n");
    out.push_str("|---|--:|--:|--:|--:|--:|--:|--:|---|\n");
    for (group, operations) in GROUPS {
        let _ = writeln!(out, "| **{group}** | | | | | | | | |");
        for operation in *operations {
            let Some(figure) = figures.iter().find(|figure| figure.name == operation.name) else { continue };
            let other = |value: Option<f64>| value.map_or("-".to_string(), |value| format!("{value:.0}"));
            let reached = operation.goal.is_none_or(|goal| figure.mean <= goal);
            let _ = writeln!(
                out,
                "| `{}` | {}{:.0}{} | {:.0} | {:.0} | {} | {} | {} | {} | {} |",
                figure.name,
                if reached { "" } else { "**" },
                figure.mean,
                if reached { "" } else { "**" },
                figure.min,
                figure.max,
                other(operation.native),
                other(operation.thesis),
                other(peers::beside(linux, operation.name)),
                other(operation.goal),
                operation.what
            );
        }
    }
    out
}

/// The figures of Linux, and the operations that they are compared with.
fn linux_table(linux: &[Figure]) -> String {
    let mut out = String::new();
    if let Some(first) = linux.first() {
        let _ = writeln!(out, "Measured with {}; {}.\n", first.kernel, first.options);
    }
    out.push_str("| on Linux | mean | least | most | beside | what is done |\n|---|--:|--:|--:|---|---|\n");
    for figure in linux {
        let peer = peers::PEERS.iter().find(|(_, name, _)| *name == figure.name);
        let (ours, work) = peer.map_or((String::new(), ""), |(ours, _, work)| (format!("`{ours}`"), *work));
        let Figure { name, mean, min, max, .. } = figure;
        let _ = writeln!(out, "| `{name}` | {mean:.0} | {min:.0} | {max:.0} | {ours} | {work} |");
    }
    out
}

/// The cycles that calls would take on the thesis' computer, by seL4's own figures: see the page.
fn cycles(figures: &[Figure]) -> String {
    const CALL_AND_REPLY: f64 = 718.0 + 576.0;
    let raw = figures.iter().find(|figure| figure.name == "sel4_call_process").map_or(0.0, |figure| figure.mean);
    let mut out =
        String::from("| call | instructions | of them over the bare round trip | cycles, about |\n|---|--:|--:|--:|\n");
    for name in ["null0", "handle_duplicate", "event_create", "object_signal", "wait_one_ready", "channel_write_64"] {
        let Some(figure) = figures.iter().find(|figure| figure.name == name) else { continue };
        let beside = (figure.mean - raw).max(0.0);
        let _ = writeln!(out, "| `{name}` | {:.0} | {beside:.0} | {:.0} |", figure.mean, CALL_AND_REPLY + beside);
    }
    out
}

/// The server's memory for each kind of object.
fn memory(report: &scale::Report) -> String {
    let mut out = String::from("| object | bytes | of so many |\n|---|--:|--:|\n");
    for memory in &report.memory {
        let _ = writeln!(out, "| {} | {} | {} |", memory.object, memory.bytes, memory.count);
    }
    out
}
