//! No path has become longer than what was accepted. The figures are counts of instructions, exact on every computer.

use super::Test;
use crate::bench::operations;

/// The one.
pub fn tests() -> Vec<Test> {
    vec![Test::many("bench.guard", |context, cases| {
        context.built()?;
        operations::guard(context.paths, &context.ui, |name, result| cases.case(name, result))
    })]
}
