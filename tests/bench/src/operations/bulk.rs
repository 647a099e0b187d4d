//! Many bytes at once: through a channel, through a socket, and to and from a VMO, compared with a plain copy.

use std::hint::black_box;

use zx::{AsHandleRef, Channel, Socket, Vmo};

use super::sampler::Suite;
use super::{call, check, place};

/// How often `len` bytes are moved.
const fn times(len: usize) -> usize {
    if len == MOST { 50 } else { 400 }
}
/// The most bytes that go through a channel or a socket at once.
const PIECE: usize = 64 << 10;
const MOST: usize = 1 << 20;
/// Distance in bytes between the source and the target of a copy.
const APART: u64 = 21 * 4096;

/// An operation's name by size.
type Named = (&'static str, usize);
/// Names for each of the sizes.
macro_rules! sizes {
    ($name:literal) => {
        [
            (concat!($name, "_1024"), 1 << 10),
            (concat!($name, "_16384"), 16 << 10),
            (concat!($name, "_65536"), 64 << 10),
            (concat!($name, "_1048576"), MOST),
        ]
    };
}

pub fn run(suite: &mut Suite) -> zx::Result<()> {
    let (from, to) = (&mut vec![1_u8; MOST], &mut vec![2_u8; MOST]);
    sizes!("copy").into_iter().try_for_each(|(name, len): Named| {
        suite.measure([name], times(len), |[copy]| {
            copy.time(|| black_box(&mut to[..len]).copy_from_slice(black_box(&from[..len])));
            Ok(())
        })
    })?;
    let (near, far) = Channel::create()?;
    let (near, far) = (near.raw_handle(), far.raw_handle());
    let (from, to) = (place(from.as_mut_slice()), place(to.as_mut_slice()));
    sizes!("channel_bulk").into_iter().try_for_each(|(name, len): Named| {
        let mut actual = 0_u32;
        suite.measure([name], times(len), |[both]| {
            let piece = len.min(PIECE) as u64;
            both.time(|| {
                (0..len as u64).step_by(PIECE).try_for_each(|at| {
                    check(call!(zx_channel_write, near, 0, from + at, piece, 0, 0))?;
                    check(call!(zx_channel_read, far, 0, to + at, 0, piece, 0, place(&mut actual), 0))
                })
            })
        })
    })?;
    let (near, far) = Socket::create(0)?;
    let (near, far) = (near.raw_handle(), far.raw_handle());
    sizes!("socket_bulk").into_iter().try_for_each(|(name, len): Named| {
        let mut actual = 0_usize;
        suite.measure([name], times(len), |[both]| {
            let piece = len.min(PIECE) as u64;
            both.time(|| {
                (0..len as u64).step_by(PIECE).try_for_each(|at| {
                    check(call!(zx_socket_write, near, 0, from + at, piece, place(&mut actual)))?;
                    check(call!(zx_socket_read, far, 0, to + at, piece, place(&mut actual)))
                })
            })
        })
    })?;
    // Pages whose distance is a power of two share one entry in QEMU's TLB, and each word of a copy between them would
    // miss it twice: that takes seven times as long, and no real processor does it. So the source and the target have
    // another distance.
    let apart = Vmo::create(APART, 0)?;
    apart.op_range(abi::ZX_VMO_OP_COMMIT, 0, APART)?;
    let vmo = Vmo::create(MOST as u64, 0)?;
    let vmo = vmo.raw_handle();
    sizes!("vmo_write").into_iter().try_for_each(|(name, len): Named| {
        suite.measure([name], times(len), |[write]| check(write.time(|| call!(zx_vmo_write, vmo, from, 0, len))))
    })?;
    sizes!("vmo_read").into_iter().try_for_each(|(name, len): Named| {
        suite.measure([name], times(len), |[read]| check(read.time(|| call!(zx_vmo_read, vmo, to, 0, len))))
    })
}
