//! The components of rump kernels by name: a table of docs/rump.md.

use std::fmt::Write as _;

use xtask_build::rump::components;

/// The table.
pub fn part() -> String {
    let mut text = String::from("| name | library | what | brings |\n|---|---|---|---|\n");
    for (name, component) in components::all() {
        let needs = component.needs.join(", ");
        let _ = writeln!(text, "| `{name}` | `lib{}.a` | {} | {needs} |", component.library, component.what);
    }
    text
}
