//! Checks of our code with third-party tools on the host: libFuzzer, Miri, cargo-deny.

use anyhow::bail;

use super::Test;
use crate::host::{deny, fuzz, miri};
use xtask_build::setup;

/// Time for each target of libFuzzer in seconds.
const SECONDS: u32 = 10;

/// All of them.
pub fn tests() -> Vec<Test> {
    vec![
        Test::many("fuzz.host", |context, cases| {
            for target in fuzz::TARGETS {
                cases.case(target, fuzz::run(context.paths, &context.ui, target, SECONDS)?.map(drop));
            }
            Ok(())
        }),
        Test::many("check.miri", |context, cases| {
            if let Err(error) = setup::for_miri(&context.ui, miri::NIGHTLY) {
                // The system does not need a nightly toolchain, and it is not available everywhere.
                cases.not_made(&format!("not run: {error:#}"));
            } else {
                miri::soon(context.paths, &context.ui)?;
                cases.case("objects", Ok(()));
            }
            Ok(())
        }),
        Test::one("check.deny", |context| deny::licences(context.paths, &context.ui)),
        Test::many("check.advisories", |context, cases| {
            match deny::advisories(context.paths, &context.ui) {
                Ok(true) => cases.case("known holes", Ok(())),
                // Nothing was checked, so nothing has passed.
                Ok(false) => cases.not_made("not checked: the list of known holes cannot be reached from here"),
                Err(error) => bail!(error),
            }
            Ok(())
        }),
    ]
}
