//! The host link: what a program writes there is not taken for the word of the system.

use conformance::check::{Case, Outcome};
use hostile::neighbour::Neighbour;
use init::frames;

pub fn cases() -> Vec<Case> {
    vec![crate::case("tamper.link.forged_frames", forged_frames)]
}

/// The end of the run, a failed case, and what no frame is. If the host believed any of it, this would not be seen as passed.
fn forged_frames(_: &mut Neighbour) -> Outcome {
    let mut bytes = Vec::new();
    frames::encode(frames::EVENT, b"case tamper/tamper.link.forged_frames\tfailed\tforged", &mut bytes);
    frames::encode(frames::STDERR, b"forged", &mut bytes);
    frames::encode(frames::EXIT, &0_i64.to_le_bytes(), &mut bytes);
    bytes.extend([0xff; 64]);
    Ok(zx::debug_write(&bytes)?)
}
