//! Maps a call's number to its function. The table is generated from the definitions in `abi/syscalls`.

use abi::Status;
use objects::machine::Machine;

use crate::cx::{Cx, IntoAnswer};
use crate::{Answer, syscalls, user};

/// A function that makes a call from its first four words.
type Call<M> = fn(&mut Cx<'_, M>, &[u64; 4]) -> Answer;

/// Makes the call with this number. `args` are its first four words.
///
/// Each call is a separate function in a table, so its stack frame is only as large as that call needs.
#[inline]
#[allow(clippy::too_many_lines, clippy::cast_lossless, clippy::unnecessary_cast)]
pub fn dispatch<M: Machine>(cx: &mut Cx<'_, M>, number: u32, args: &[u64; 4]) -> Answer {
    let call: Call<M> = include!(concat!(env!("OUT_DIR"), "/dispatch.rs"));
    call(cx, args)
}
