//! Curves as SVG: a panel for each series, with a line for each operation; both axes are logarithmic.

use std::fmt::Write;

use super::scale::{Cost, Report};

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 300.0;
/// Room for the axes' numbers, and for the names of the lines.
const LEFT: f64 = 60.0;
const TOP: f64 = 34.0;
const RIGHT: f64 = 150.0;
const BOTTOM: f64 = 40.0;
const COLOURS: [&str; 8] = ["#1b6ca8", "#c8553d", "#2d8a5f", "#8a4fa0", "#b8860b", "#4a5568", "#d1478c", "#00868b"];

/// A drawing of all curves of a report.
pub fn svg(report: &Report) -> String {
    let mut series: Vec<&str> = Vec::new();
    for cost in &report.costs {
        if !series.contains(&cost.series.as_str()) {
            series.push(&cost.series);
        }
    }
    let (columns, rows) = (2, series.len().div_ceil(2));
    let (width, height) = (columns as f64 * (WIDTH + 10.0) + 10.0, rows as f64 * (HEIGHT + 10.0) + 40.0);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"11\" fill=\"#222\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    for (place, name) in series.iter().enumerate() {
        let x = 10.0 + (place % columns) as f64 * (WIDTH + 10.0);
        let y = 10.0 + (place / columns) as f64 * (HEIGHT + 10.0);
        let costs: Vec<&Cost> = report.costs.iter().filter(|cost| cost.series == *name).collect();
        let _ = writeln!(out, "<g transform=\"translate({x} {y})\">");
        panel(&mut out, name, &costs);
        out.push_str("</g>\n");
    }
    let note = format!("{}; {}; {}; {}", report.unit, report.commit, report.kernel, report.options);
    let _ = writeln!(out, "<text x=\"10\" y=\"{}\">{}</text>\n</svg>", height - 14.0, escape(&note));
    out
}

/// An axis from `low` to `high` over `length`.
struct Axis {
    low: f64,
    high: f64,
    length: f64,
}

impl Axis {
    /// One that holds all values, from a power of ten to a power of ten.
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

fn panel(out: &mut String, name: &str, costs: &[&Cost]) {
    let points = || costs.iter().flat_map(|cost| &cost.points);
    let across = Axis::of(points().map(|point| point.0 as f64), WIDTH - LEFT - RIGHT);
    let up = Axis::of(points().map(|point| point.1), HEIGHT - TOP - BOTTOM);
    let x = |count: f64| LEFT + across.at(count);
    let y = |cost: f64| HEIGHT - BOTTOM - up.at(cost);
    let _ = writeln!(out, "<text x=\"{LEFT}\" y=\"18\" font-size=\"14\" font-weight=\"bold\">{}</text>", escape(name));
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
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">how many there are</text>",
        (LEFT + right) / 2.0,
        HEIGHT - 8.0
    );
    for (i, (cost, colour)) in costs.iter().zip(COLOURS.iter().cycle()).enumerate() {
        let line: Vec<String> =
            cost.points.iter().map(|(count, cost)| format!("{:.1},{:.1}", x(*count as f64), y(*cost))).collect();
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\"/>",
            line.join(" ")
        );
        for place in &line {
            let Some((x, y)) = place.split_once(',') else { continue };
            let _ = writeln!(out, "<circle cx=\"{x}\" cy=\"{y}\" r=\"2.6\" fill=\"{colour}\"/>");
        }
        let name = escape(&format!("{} ({:.2})", cost.operation, cost.ratio()));
        let at = TOP + 12.0 + i as f64 * 16.0;
        let _ = writeln!(out, "<text x=\"{}\" y=\"{at}\" fill=\"{colour}\">{name}</text>", right + 8.0);
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
        let text = svg(&report);
        assert_eq!(text.matches("<polyline").count(), 3);
        assert_eq!(text.matches("<circle").count(), 9);
        assert!(text.contains("c (1.10)") && text.contains("a&lt;b") && text.trim_end().ends_with("</svg>"));
    }
}
