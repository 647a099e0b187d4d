//! Bar charts as SVG: a panel for each group of operations. Each operation's cost here is above its cost on other
//! systems. Each panel has one linear scale.

use std::fmt::Write;

use super::anchors::{GROUPS, Operation};
use super::curves::escape;
use super::operations::Figure;
use super::peers;

const WIDTH: f64 = 470.0;
/// Width for the names of the operations, and for the number after a bar.
const LEFT: f64 = 160.0;
const RIGHT: f64 = 60.0;
const TOP: f64 = 30.0;
const BAR: f64 = 9.0;
const GAP: f64 = 9.0;
/// The systems and their colours.
const WHOSE: [(&str, &str); 5] = [
    ("Hafnon", "#1b6ca8"),
    ("native Zircon, 2018", "#c8a13d"),
    ("thesis", "#b9b9b9"),
    ("Linux", "#c8553d"),
    ("goal", "#2d8a5f"),
];

/// An operation's bars, in the order of [`WHOSE`], and its goal.
struct Row<'a> {
    name: &'a str,
    values: [Option<f64>; 4],
    goal: Option<f64>,
}

impl Row<'_> {
    fn of(operation: &'static Operation, figures: &[Figure], linux: &[Figure]) -> Option<Self> {
        let ours = figures.iter().find(|figure| figure.name == operation.name)?.mean;
        let values = [Some(ours), operation.native, operation.thesis, peers::beside(linux, operation.name)];
        Some(Row { name: operation.name, values, goal: operation.goal })
    }
}

/// A drawing of all operations that have figures.
pub fn svg(figures: &[Figure], linux: &[Figure]) -> String {
    let mut panels = String::new();
    let mut heights = [60.0_f64; 2];
    for (name, operations) in GROUPS {
        let rows: Vec<Row<'_>> = operations.iter().filter_map(|operation| Row::of(operation, figures, linux)).collect();
        if rows.is_empty() {
            continue;
        }
        // The panel goes into the shorter of the two columns.
        let column = usize::from(heights[1] < heights[0]);
        let x = 10.0 + column as f64 * (WIDTH + 10.0);
        let _ = writeln!(panels, "<g transform=\"translate({x} {:.1})\">", heights[column]);
        heights[column] += panel(&mut panels, name, &rows) + 16.0;
        panels.push_str("</g>\n");
    }
    let (width, height) = (2.0 * (WIDTH + 10.0) + 10.0, heights[0].max(heights[1]) + 24.0);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height:.0}\" \
         font-family=\"sans-serif\" font-size=\"11\" fill=\"#222\">\n\
         <rect width=\"{width}\" height=\"{height:.0}\" fill=\"#fff\"/>\n\
         <text x=\"10\" y=\"22\" font-size=\"14\" font-weight=\"bold\">Guest instructions for one operation</text>\n"
    );
    for (i, (whose, colour)) in WHOSE.iter().enumerate() {
        let x = 10.0 + i as f64 * 160.0;
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"34\" width=\"{}\" height=\"12\" fill=\"{colour}\"/>\
             <text x=\"{}\" y=\"44\">{whose}</text>",
            if *whose == "goal" { 2 } else { 12 },
            x + 18.0
        );
    }
    out.push_str(&panels);
    let note = figures.first().map(|one| format!("{}; {}; {}", one.commit, one.kernel, one.options));
    let _ =
        writeln!(out, "<text x=\"10\" y=\"{:.0}\">{}</text>\n</svg>", height - 10.0, escape(&note.unwrap_or_default()));
    out
}

/// Draws a group; returns its height.
fn panel(out: &mut String, name: &str, rows: &[Row<'_>]) -> f64 {
    let _ = writeln!(out, "<text x=\"0\" y=\"16\" font-size=\"13\" font-weight=\"bold\">{}</text>", escape(name));
    let all = |row: &Row<'_>| row.values.into_iter().chain([row.goal]).flatten().fold(0.0, f64::max);
    let most = rows.iter().map(all).fold(1.0, f64::max);
    let length = |value: f64| value.max(0.0) / most * (WIDTH - LEFT - RIGHT);
    let mut y = TOP;
    for row in rows {
        let top = y;
        for (value, (_, colour)) in row.values.iter().zip(WHOSE).filter_map(|(value, whose)| Some(((*value)?, whose))) {
            let long = length(value);
            let _ = writeln!(
                out,
                "<rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{long:.1}\" height=\"{}\" fill=\"{colour}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" font-size=\"9\">{value:.0}</text>",
                BAR - 1.0,
                LEFT + long + 4.0,
                y + BAR - 2.0
            );
            y += BAR;
        }
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            (top + y) / 2.0 + 4.0,
            escape(row.name)
        );
        if let Some(goal) = row.goal {
            let (at, (_, colour)) = (LEFT + length(goal), WHOSE[4]);
            let _ = writeln!(
                out,
                "<rect x=\"{at:.1}\" y=\"{:.1}\" width=\"2\" height=\"{:.1}\" fill=\"{colour}\"/>",
                top - 2.0,
                y - top + 3.0
            );
        }
        y += GAP;
    }
    y
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_its_bars() {
        let figure = |name: &str| Figure { commit: "a<b".into(), ..Figure::of(name, 640.0) };
        let ours = [figure("null0"), figure("null0_sse"), figure("channel_create")];
        let text = svg(&ours, &[figure("linux_getppid")]);
        // Background, legend, bars (4, 1 and 3) and goals.
        assert_eq!(text.matches("<rect").count(), 1 + 5 + 8 + 2);
        assert!(text.contains(">channel_create<") && text.contains("a&lt;b") && text.trim_end().ends_with("</svg>"));
    }
}
