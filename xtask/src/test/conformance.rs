//! The conformance programs: what the system calls promise, checked in the booted system.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::{Cases, Context, Test};
use crate::cli::Accel;
use crate::image::{Image, Mode};
use crate::link::Frame;
use crate::qemu::Machine;
use crate::session::{End, Session, Streams};

/// The whole suite in one boot.
pub fn tests() -> Vec<Test> {
    vec![Test::many("conformance", conformance)]
}

fn conformance(context: &Context<'_>, cases: &mut Cases) -> Result<()> {
    let built = context.built_with_tests()?;
    let mut image = Image::new(&built, true)?;
    image.add("config/tests", "conformance\t300000\t0\t/boot/bin/conformance\n")?;
    let bytes = image.finish(&Mode::Test, &[])?;
    let memory = 512 << 20;
    let machine =
        Machine { kernel: &built.kernel, root: &built.root, image: &bytes, memory, accel: Accel::Tcg, gdb: false };
    let session = Session {
        machine,
        timeout: Some(Duration::from_secs(330)),
        verbose: false,
        streams: Streams::Captured(Vec::new()),
        until_first_output: false,
    };
    let outcome = session.run()?;
    let mut ended = false;
    for frame in &outcome.transcript {
        let Frame::Event(event) = frame else { continue };
        let mut fields = event.trim_end().split('\t');
        let (Some("case"), Some(name), Some(result)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let detail = fields.collect::<Vec<_>>().join(" ");
        match (name.strip_prefix("conformance/"), result) {
            (Some(case), "ok") => cases.case(case, Ok(())),
            (Some(case), _) => cases.case(case, Err(detail)),
            // The result of the program as a whole adds nothing, but for its ending otherwise than it should.
            (None, "ok") => ended = true,
            (None, _) => {
                ended = true;
                if !detail.contains("returned 1") {
                    bail!("the program: {detail}");
                }
            }
        }
    }
    match outcome.end {
        End::Exit(_) if ended => Ok(()),
        end => Err(anyhow::anyhow!("{}", outcome.warnings.join("\n"))).with_context(|| format!("{end:?}")),
    }
}
