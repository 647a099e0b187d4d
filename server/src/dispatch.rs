//! From a call's number to its function: generated from the definitions in `abi/syscalls`.

use abi::Status;
use objects::machine::Machine;

use crate::cx::{Cx, IntoAnswer};
use crate::{Answer, syscalls, user};

/// Makes the call with this number; `a` are its first four words.
#[allow(clippy::too_many_lines, clippy::cast_lossless, clippy::unnecessary_cast)]
pub fn dispatch<M: Machine>(cx: &mut Cx<'_, M>, number: u32, a: [u64; 4]) -> Answer {
    include!(concat!(env!("OUT_DIR"), "/dispatch.rs"))
}
