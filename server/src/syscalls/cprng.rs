//! Random numbers.

use abi::{Status, ZX_CPRNG_ADD_ENTROPY_MAX_LEN};
use objects::machine::Machine;

use crate::cx::Cx;
use crate::user::{In, Out};

/// Maximum number of bytes per call; the vDSO draws more in pieces.
const MAX_DRAW: usize = 256;

/// Fills a buffer with random bytes.
pub fn cprng_draw<M: Machine>(cx: &mut Cx<'_, M>, out: Out<u8>, len: usize) -> Result<(), Status> {
    let mut bytes = [0; MAX_DRAW];
    let part = bytes.get_mut(..len).ok_or(Status::INVALID_ARGS)?;
    cx.kernel.machine.random(part);
    cx.write_bytes(out, part)
}

/// Mixes entropy into the generator.
pub fn cprng_add_entropy<M: Machine>(cx: &mut Cx<'_, M>, data: In<u8>, len: usize) -> Result<(), Status> {
    if len > ZX_CPRNG_ADD_ENTROPY_MAX_LEN {
        return Err(Status::INVALID_ARGS);
    }
    let bytes = cx.read_bytes(data, len)?;
    cx.kernel.machine.add_entropy(&bytes);
    Ok(())
}
