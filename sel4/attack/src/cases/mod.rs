//! The cases. Each is named after a mistake that existed once.

mod addresses;
mod bases;
mod breakpoints;
mod buffers;
mod execute;
mod registers;
mod spaces;
mod vectors;

use crate::world::{Found, World};

/// A case.
pub struct Case {
    /// Its name, behind `kernel.`.
    pub name: &'static str,
    /// Its function.
    pub run: fn(&mut World) -> Found,
}

/// All of them.
pub const ALL: &[Case] = &[
    Case { name: "alias", run: addresses::alias },
    Case { name: "window", run: addresses::window },
    Case { name: "top", run: addresses::top },
    Case { name: "buffer", run: buffers::buffer },
    Case { name: "tick", run: buffers::tick },
    Case { name: "stale", run: spaces::stale },
    Case { name: "replaced", run: spaces::replaced },
    Case { name: "remap", run: spaces::remap },
    Case { name: "overmap", run: spaces::overmap },
    Case { name: "pool", run: spaces::pool },
    Case { name: "tables", run: spaces::tables },
    Case { name: "copies", run: spaces::copies },
    Case { name: "execute", run: execute::execute },
    Case { name: "fpu", run: vectors::fpu },
    Case { name: "twice", run: registers::twice },
    Case { name: "rip", run: registers::rip },
    Case { name: "base", run: registers::base },
    Case { name: "selectors", run: bases::selectors },
    Case { name: "breakpoints", run: breakpoints::breakpoints },
    Case { name: "breakpoint_values", run: breakpoints::breakpoint_values },
    Case { name: "stack_segment", run: breakpoints::stack_segment },
];
