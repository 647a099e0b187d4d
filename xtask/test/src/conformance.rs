//! The conformance programs; each of their cases counts.

use std::collections::BTreeSet;

use anyhow::{Result, bail};

use super::{Context, Test};
use xtask_conformance::table::Table;
use xtask_conformance::{CaseReport, Record, missing_features};

/// All cases, or those with these prefixes; and a check of the table of Zircon's names.
pub fn tests(prefixes: &[String]) -> Vec<Test> {
    let prefixes = prefixes.to_vec();
    vec![
        Test::many("conformance", move |context, cases| {
            let built = context.built_with_tests()?;
            for feature in missing_features::here()?.iter().filter(|feature| !feature.cases.is_empty()) {
                println!("left out {} cases: {}", feature.cases.len(), feature.why);
            }
            Record::run(context.paths, built, &prefixes, |news| match news {
                CaseReport::Case(case, detail) => cases.case(case, (*detail).clone().map_or(Ok(()), Err)),
                CaseReport::Broken(group, why) => cases.case(group, Err((*why).to_string())),
            })
            .map(drop)
        }),
        Test::one("check.core-tests", core_tests),
    ]
}

/// Each name occurs once, every case that is named exists, few are excused.
fn core_tests(context: &Context<'_>) -> Result<()> {
    let cases = xtask_conformance::list(context.built_with_tests()?)?;
    let cases: BTreeSet<&str> = cases.iter().map(String::as_str).collect();
    let problems = Table::read(context.paths)?.problems(&cases);
    if problems.is_empty() { Ok(()) } else { bail!("{}", problems.join("\n")) }
}
