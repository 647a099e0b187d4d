//! The cost of transfers as a function of their size, here and on other systems: line charts as SVG.
//!
//! The figures for this system come from the table of operations: the sum of a write and a read of the same bytes. The
//! figures of native Zircon and of the thesis' server were measured like the rest of [`super::anchors`]. The thesis'
//! smallest message has 16 bytes.

use super::curves::{self, Line, Panel};
use super::operations::Figure;

/// The points of another system: bytes and instructions.
type Points = &'static [(u64, f64)];

/// A kind of transfer.
struct Kind {
    name: &'static str,
    /// Our points: the number of bytes, and the operations that together are one transfer.
    here: &'static [(u64, &'static [&'static str])],
    native: Points,
    thesis: Points,
}

const KINDS: [Kind; 3] = [
    Kind {
        name: "channel: a message written and read",
        here: &[
            (64, &["channel_write_64", "channel_read_64"]),
            (1024, &["channel_bulk_1024"]),
            (16384, &["channel_bulk_16384"]),
            (65536, &["channel_bulk_65536"]),
        ],
        native: &[(64, 2142.0), (1024, 4058.0), (4096, 10361.0), (65536, 135_607.0)],
        thesis: &[(16, 5188.0), (1024, 5462.0), (4096, 6413.0), (65536, 24_729.0)],
    },
    Kind {
        name: "socket: bytes of a stream written and read",
        here: &[
            (64, &["socket_write_64", "socket_read_64"]),
            (1024, &["socket_bulk_1024"]),
            (16384, &["socket_bulk_16384"]),
            (65536, &["socket_bulk_65536"]),
        ],
        native: &[(64, 1765.0), (65536, 137_361.0)],
        thesis: &[(16, 4651.0), (65536, 24_194.0)],
    },
    Kind {
        name: "memory object: bytes written to pages that are there",
        here: &[(1024, &["vmo_write_1024"]), (16384, &["vmo_write_16384"]), (65536, &["vmo_write_65536"])],
        native: &[(64, 826.0), (4096, 4858.0), (65536, 68_598.0)],
        thesis: &[(16, 2468.0), (4096, 2978.0), (65536, 11_377.0)],
    },
];

/// The drawing; points without a figure are left out.
pub fn svg(figures: &[Figure]) -> String {
    let mean = |name: &&str| figures.iter().find(|figure| figure.name == **name).map(|figure| figure.mean);
    let panels: Vec<Panel<'_>> = KINDS
        .iter()
        .map(|kind| {
            let here = kind
                .here
                .iter()
                .filter_map(|(bytes, names)| Some((*bytes, names.iter().map(mean).sum::<Option<f64>>()?)));
            Panel {
                name: kind.name,
                across: "bytes",
                lines: vec![
                    Line { name: "Hafnon".into(), points: here.collect() },
                    Line { name: "native Zircon, 2018".into(), points: kind.native.to_vec() },
                    Line { name: "thesis".into(), points: kind.thesis.to_vec() },
                ],
            }
        })
        .collect();
    let note = figures.first().map(|one| format!("instructions; {}; {}; {}", one.commit, one.kernel, one.options));
    curves::svg(&panels, &note.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::super::anchors::operations;
    use super::*;

    #[test]
    fn every_name_is_an_operation() {
        for name in KINDS.iter().flat_map(|kind| kind.here).flat_map(|(_, names)| *names) {
            assert!(operations().any(|operation| operation.name == *name), "{name}");
        }
    }

    #[test]
    fn a_transfer_is_the_sum_of_its_operations() {
        let figure = Figure::of;
        // A point needs the figures of all operations of its transfer.
        let one = svg(&[figure("channel_write_64", 800.0), figure("socket_bulk_1024", 2000.0)]);
        let both = svg(&[
            figure("channel_write_64", 800.0),
            figure("channel_read_64", 800.0),
            figure("socket_bulk_1024", 2000.0),
        ]);
        assert_eq!(both.matches("<circle").count(), one.matches("<circle").count() + 1);
    }
}
