//! The end of the network service, which tests of programs (the example `network`) cannot cause.

use std::path::Path;

use anyhow::Result;

use super::{Context, Test, expect, expect_part};
use xtask_run::Capture;

/// All of them.
pub fn tests() -> Vec<Test> {
    vec![Test::one("network.service-dies", service_dies)]
}

fn service_dies(context: &Context<'_>) -> Result<()> {
    let capture = Capture::new(context.built()?, Path::new("network-check"));
    let (stdout, stderr) = super::drivers::output(&capture, 0)?;
    expect_part("standard output", &stdout, "as it should be")?;
    expect("how often its end was told", &stderr.matches("the service network ended (-1024)").count(), &1)
}
