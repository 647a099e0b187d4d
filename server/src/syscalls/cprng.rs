//! Random numbers.

use abi::{Status, ZX_CPRNG_ADD_ENTROPY_MAX_LEN};
use objects::machine::Machine;

use crate::cx::Cx;
use crate::user::{In, Out};

/// Fills a buffer with bytes that nobody can foresee.
pub fn cprng_draw<M: Machine>(cx: &mut Cx<'_, M>, out: Out<u8>, len: usize) -> Result<(), Status> {
    let mut bytes = [0; 256];
    let mut done = 0;
    while done < len {
        let part = bytes.get_mut(..(len - done).min(256)).unwrap_or_default();
        cx.kernel.machine.random(part);
        let at = Out::new(out.0.wrapping_add(done as u64));
        cx.write_bytes(at, part)?;
        done += part.len();
    }
    Ok(())
}

/// Adds to what the generator draws from.
pub fn cprng_add_entropy<M: Machine>(cx: &mut Cx<'_, M>, data: In<u8>, len: usize) -> Result<(), Status> {
    if len > ZX_CPRNG_ADD_ENTROPY_MAX_LEN {
        return Err(Status::INVALID_ARGS);
    }
    let bytes = cx.read_bytes(data, len)?;
    cx.kernel.machine.add_entropy(&bytes);
    Ok(())
}
