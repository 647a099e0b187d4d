//! The host link: bytes that a program writes there are not taken for the system's own frames.

use conformance::check::{Case, Outcome};
use hostile::neighbour::Neighbour;
use init::frames;

pub fn cases() -> Vec<Case> {
    vec![crate::case("tamper.link.forged_frames", forged_frames)]
}

/// The end of the run, a failed case, and bytes that are no frame. If the host believed any of it, this case would not
/// be reported as passed.
fn forged_frames(_: &mut Neighbour) -> Outcome {
    let mut bytes = Vec::new();
    frames::encode(frames::EVENT, b"case tamper/tamper.link.forged_frames\tfailed\tforged", &mut bytes);
    frames::encode(frames::STDERR, b"forged", &mut bytes);
    frames::encode(frames::EXIT, &0_i64.to_le_bytes(), &mut bytes);
    bytes.extend([0xff; 64]);
    Ok(zx::debug_write(&bytes)?)
}
