//! Virtual processors: `./hafnon test vproc`.

use anyhow::bail;

use super::{Test, hostile};
use crate::conformance::{self, News};

/// Their conformance cases, and the program of `user/vproc`.
pub fn tests() -> Vec<Test> {
    vec![
        Test::many("vproc.cases", |context, cases| {
            let mut broken = None;
            conformance::run(context.built_with_tests()?, &["vproc.".into()], |news| match news {
                News::Case(case, detail) => cases.case(case, detail.clone().map_or(Ok(()), Err)),
                News::Broken(_, why) => broken = Some(why.to_string()),
            })?;
            broken.map_or(Ok(()), |why| bail!(why))
        }),
        Test::many("vproc.events", |context, cases| {
            hostile::program(context, cases, "vproc", &["events."], None).map(drop)
        }),
    ]
}
