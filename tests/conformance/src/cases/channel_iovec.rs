//! `ZX_CHANNEL_WRITE_USE_IOVEC`: messages whose bytes come from several buffers.

use abi::{Status, zx_channel_iovec_t};
use zx::{AsHandleRef, Channel, Event, HandleRef};

use super::{cases, raw};
use crate::check::{Outcome, ensure, equal, fails, gives};

cases! {
    "channel.iovec.parts_joined" => parts_joined,
    "channel.iovec.empty_parts" => empty_parts,
    "channel.iovec.most_parts" => most_parts,
    "channel.iovec.largest" => largest,
    "channel.iovec.too_large" => too_large,
    "channel.iovec.reserved" => reserved,
    "channel.iovec.bad_part" => bad_part,
    "channel.iovec.consumes_on_error" => consumes_on_error,
    "channel.iovec.call" => call,
}

fn read(channel: &Channel) -> zx::Result<Vec<u8>> {
    let mut bytes = vec![0; 65536];
    let size = channel.read(&mut bytes, &mut []).map_err(|(status, _)| status)?;
    bytes.truncate(size.bytes);
    Ok(bytes)
}

fn nothing_came(channel: &Channel) -> Outcome {
    fails(read(channel), Status::SHOULD_WAIT)
}

const IOVEC: u32 = abi::ZX_CHANNEL_WRITE_USE_IOVEC;

fn part(bytes: &[u8]) -> zx_channel_iovec_t {
    zx_channel_iovec_t { buffer: bytes.as_ptr() as usize, capacity: bytes.len() as u32, reserved: 0 }
}

fn write_parts(channel: &Channel, parts: &[zx_channel_iovec_t]) -> Status {
    raw!(zx_channel_write, channel.raw_handle(), IOVEC, parts.as_ptr(), parts.len(), 0, 0)
}

fn parts_joined() -> Outcome {
    let (a, b) = Channel::create()?;
    let text = b"odd places in a text";
    gives(write_parts(&a, &[part(&text[4..11]), part(&text[..4]), part(&text[11..])]), Status::OK)?;
    equal(read(&b)?, b"places odd in a text".to_vec())
}

fn empty_parts() -> Outcome {
    let (a, b) = Channel::create()?;
    gives(write_parts(&a, &[]), Status::OK)?;
    equal(read(&b)?, Vec::new())?;
    // The server does not check the address of a part of length 0.
    let nothing = zx_channel_iovec_t { buffer: 0, capacity: 0, reserved: 0 };
    gives(write_parts(&a, &[nothing, part(b"x"), nothing]), Status::OK)?;
    equal(read(&b)?, b"x".to_vec())
}

fn most_parts() -> Outcome {
    let (a, b) = Channel::create()?;
    let bytes: Vec<u8> = (0..8192_u32).map(|index| index as u8).collect();
    let mut parts: Vec<_> = bytes.chunks(1).map(part).collect();
    gives(write_parts(&a, &parts), Status::OK)?;
    ensure(read(&b)? == bytes, "it came out changed")?;
    parts.push(part(b""));
    gives(write_parts(&a, &parts), Status::OUT_OF_RANGE)?;
    nothing_came(&b)
}

fn largest() -> Outcome {
    let (a, b) = Channel::create()?;
    let bytes: Vec<u8> = (0..65536_u32).map(|index| (index / 7) as u8).collect();
    let parts: Vec<_> = bytes.chunks(5000).map(part).collect();
    gives(write_parts(&a, &parts), Status::OK)?;
    ensure(read(&b)? == bytes, "it came out changed")
}

fn too_large() -> Outcome {
    let (a, b) = Channel::create()?;
    let bytes = vec![0; 65536];
    gives(write_parts(&a, &[part(&bytes), part(b"x")]), Status::OUT_OF_RANGE)?;
    // Sizes whose sum would overflow.
    let huge = zx_channel_iovec_t { buffer: bytes.as_ptr() as usize, capacity: u32::MAX, reserved: 0 };
    gives(write_parts(&a, &[part(b"abcd"), huge, huge]), Status::OUT_OF_RANGE)?;
    nothing_came(&b)
}

fn reserved() -> Outcome {
    let (a, b) = Channel::create()?;
    let odd = zx_channel_iovec_t { reserved: 1, ..part(b"x") };
    gives(write_parts(&a, &[part(b"x"), odd]), Status::INVALID_ARGS)?;
    nothing_came(&b)
}

fn bad_part() -> Outcome {
    let (a, b) = Channel::create()?;
    for buffer in [0, 0x1000, 0xffff_8000_0000_0000_usize, usize::MAX] {
        let bad = zx_channel_iovec_t { buffer, capacity: 1, reserved: 0 };
        gives(write_parts(&a, &[part(b"good"), bad]), Status::INVALID_ARGS)?;
    }
    gives(raw!(zx_channel_write, a.raw_handle(), IOVEC, 0, 1, 0, 0), Status::INVALID_ARGS)?;
    nothing_came(&b)
}

fn consumes_on_error() -> Outcome {
    let (a, b) = Channel::create()?;
    let handles = [Event::create()?.into_handle().into_raw()];
    let bad = [zx_channel_iovec_t { buffer: 0, capacity: 1, reserved: 0 }];
    let status = raw!(zx_channel_write, a.raw_handle(), IOVEC, bad.as_ptr(), 1, handles.as_ptr(), 1);
    gives(status, Status::INVALID_ARGS)?;
    fails(HandleRef::from_raw(handles[0]).check_valid(), Status::BAD_HANDLE)?;
    nothing_came(&b)
}

fn call() -> Outcome {
    // The transaction number replaces the first four bytes, whichever parts they come from.
    let (a, b) = Channel::create()?;
    let parts = [part(b"ab"), part(b"cdef")];
    let mut actual = [0_u32; 2];
    let [bytes, handles] = &mut actual;
    let mut reply = [0_u8; 8];
    let args = abi::zx_channel_call_args_t {
        wr_bytes: parts.as_ptr() as usize,
        wr_num_bytes: 2,
        rd_bytes: reply.as_mut_ptr() as usize,
        rd_num_bytes: 8,
        ..Default::default()
    };
    let status = raw!(zx_channel_call, a.raw_handle(), IOVEC, 0, &raw const args, &raw mut *bytes, &raw mut *handles);
    gives(status, Status::TIMED_OUT)?;
    let message = read(&b)?;
    equal((&message[4..], message[3] >> 7), (&b"ef"[..], 1))
}
