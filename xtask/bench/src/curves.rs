//! Line charts as SVG: panels of lines with two logarithmic axes.

use std::fmt::Write;

use super::scale::Report;

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 300.0;
/// Space for the numbers of the axes, and for the names of the lines.
const LEFT: f64 = 60.0;
const TOP: f64 = 34.0;
const RIGHT: f64 = 150.0;
const BOTTOM: f64 = 40.0;
const COLOURS: [&str; 8] = ["#1b6ca8", "#c8553d", "#2d8a5f", "#8a4fa0", "#b8860b", "#4a5568", "#d1478c", "#00868b"];

/// A panel.
pub struct Panel<'a> {
    /// Its title.
    pub name: &'a str,
    /// The meaning of the horizontal axis.
    pub across: &'a str,
    /// Its lines.
    pub lines: Vec<Line>,
}

/// A line: its name, and its points from left to right.
pub struct Line {
    /// Its label.
    pub name: String,
    /// Position and cost.
    pub points: Vec<(u64, f64)>,
}

/// A drawing of all curves of a report: a panel for each series, with a line for each operation.
pub fn of_report(report: &Report) -> String {
    let mut panels: Vec<Panel<'_>> = Vec::new();
    for cost in &report.costs {
        let line = Line { name: format!("{} ({:.2})", cost.operation, cost.ratio()), points: cost.points.clone() };
        match panels.iter_mut().find(|panel| panel.name == cost.series) {
            Some(panel) => panel.lines.push(line),
            None => panels.push(Panel { name: &cost.series, across: "how many there are", lines: vec![line] }),
        }
    }
    svg(&panels, &format!("{}; {}; {}; {}", report.unit, report.commit, report.kernel, report.options))
}

/// A drawing of these panels, with a note below.
pub fn svg(panels: &[Panel<'_>], note: &str) -> String {
    let (columns, rows) = (2, panels.len().div_ceil(2));
    let (width, height) = (columns as f64 * (WIDTH + 10.0) + 10.0, rows as f64 * (HEIGHT + 10.0) + 40.0);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"11\" fill=\"#222\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    for (place, panel) in panels.iter().enumerate() {
        let x = 10.0 + (place % columns) as f64 * (WIDTH + 10.0);
        let y = 10.0 + (place / columns) as f64 * (HEIGHT + 10.0);
        let _ = writeln!(out, "<g transform=\"translate({x} {y})\">");
        draw(&mut out, panel);
        out.push_str("</g>\n");
    }
    let _ = writeln!(out, "<text x=\"10\" y=\"{}\">{}</text>\n</svg>", height - 14.0, escape(note));
    out
}

/// An axis from `low` to `high` over `length`.
struct Axis {
    low: f64,
    high: f64,
    length: f64,
}

impl Axis {
    /// An axis that contains all values, between two powers of ten.
    fn of(values: impl Iterator<Item = f64>, length: f64) -> Axis {
        let (low, high) = values
            .filter(|value| *value > 0.0)
            .map(f64::log10)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        let (low, high) = if low <= high { (low.floor(), high.ceil()) } else { (0.0, 1.0) };
        Axis { low, high: high.max(low + 1.0), length }
    }

    fn at(&self, value: f64) -> f64 {
        (value.max(f64::MIN_POSITIVE).log10() - self.low) / (self.high - self.low) * self.length
    }

    fn marks(&self) -> impl Iterator<Item = f64> + use<> {
        (self.low as i32..=self.high as i32).map(|power| 10f64.powi(power))
    }
}

fn draw(out: &mut String, panel: &Panel<'_>) {
    let points = || panel.lines.iter().flat_map(|line| &line.points);
    let across = Axis::of(points().map(|point| point.0 as f64), WIDTH - LEFT - RIGHT);
    let up = Axis::of(points().map(|point| point.1), HEIGHT - TOP - BOTTOM);
    let x = |count: f64| LEFT + across.at(count);
    let y = |cost: f64| HEIGHT - BOTTOM - up.at(cost);
    let _ = writeln!(
        out,
        "<text x=\"{LEFT}\" y=\"18\" font-size=\"14\" font-weight=\"bold\">{}</text>",
        escape(panel.name)
    );
    let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    for mark in up.marks() {
        let at = y(mark);
        let _ = writeln!(
            out,
            "<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"#ddd\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            at + 4.0,
            short(mark)
        );
    }
    for mark in across.marks() {
        let at = x(mark);
        let _ = writeln!(
            out,
            "<path d=\"M{at:.1} {bottom}V{TOP}\" stroke=\"#eee\"/>\
             <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 16.0,
            short(mark)
        );
    }
    let _ = writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
        (LEFT + right) / 2.0,
        HEIGHT - 8.0,
        escape(panel.across)
    );
    for (i, (line, colour)) in panel.lines.iter().zip(COLOURS.iter().cycle()).enumerate() {
        let places: Vec<(f64, f64)> = line.points.iter().map(|(count, cost)| (x(*count as f64), y(*cost))).collect();
        let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\"/>",
            path.join(" ")
        );
        for (x, y) in places {
            let _ = writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.6\" fill=\"{colour}\"/>");
        }
        let at = TOP + 12.0 + i as f64 * 16.0;
        let _ = writeln!(out, "<text x=\"{}\" y=\"{at}\" fill=\"{colour}\">{}</text>", right + 8.0, escape(&line.name));
    }
}

fn short(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{}M", v / 1e6),
        v if v >= 1e3 => format!("{}k", v / 1e3),
        v => format!("{v}"),
    }
}

pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::scale::Cost;
    use super::*;

    #[test]
    fn every_curve_is_drawn_and_named() {
        let cost = |series: &str, operation: &str| Cost {
            series: series.into(),
            operation: operation.into(),
            points: vec![(10, 500.0), (100, 600.0), (1000, 550.0)],
        };
        let report = Report {
            benchmark: "scale".into(),
            unit: "instructions".into(),
            commit: "a<b".into(),
            kernel: "5.0.0".into(),
            options: String::new(),
            ticks_per_instruction: 1.0,
            costs: vec![cost("one", "a"), cost("one", "b"), cost("two", "c")],
            memory: Vec::new(),
        };
        let text = of_report(&report);
        assert_eq!(text.matches("<polyline").count(), 3);
        assert_eq!(text.matches("<circle").count(), 9);
        assert!(text.contains("c (1.10)") && text.contains("a&lt;b") && text.trim_end().ends_with("</svg>"));
    }
}
