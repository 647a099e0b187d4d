//! Virtual processors: `./hafnon test vproc`.

use anyhow::bail;

use super::{Test, hostile};
use crate::conformance::{self, News};

/// The program of `user/vproc`, and their conformance cases, which a run of everything has among all others.
pub fn tests(everything: bool) -> Vec<Test> {
    let mut tests = vec![events()];
    if !everything {
        tests.insert(0, cases());
    }
    tests
}

fn cases() -> Test {
    Test::many("vproc.cases", |context, cases| {
        let mut broken = None;
        conformance::run(context.built_with_tests()?, &["vproc.".into()], |news| match news {
            News::Case(case, detail) => cases.case(case, detail.clone().map_or(Ok(()), Err)),
            News::Broken(_, why) => broken = Some(why.to_string()),
        })?;
        broken.map_or(Ok(()), |why| bail!(why))
    })
}

fn events() -> Test {
    Test::many("vproc.events", |context, cases| hostile::program(context, cases, "vproc", &["events."], None).map(drop))
}
