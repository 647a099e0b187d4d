//! Checks that no path has become longer than accepted. The figures are instruction counts, exact on every computer.

use super::Test;
use xtask_bench::operations;

/// The only test.
pub fn tests() -> Vec<Test> {
    vec![Test::many("bench.guard", |context, cases| {
        context.built()?;
        operations::guard(context.paths, &context.ui, |name, result| cases.case(name, result))
    })]
}
