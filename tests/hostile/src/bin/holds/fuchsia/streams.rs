//! Streams, and the content size of their VMOs.

use abi::{ZX_STREAM_MODE_APPEND, ZX_STREAM_MODE_READ, ZX_STREAM_MODE_WRITE, ZX_VMO_RESIZABLE};
use conformance::check::{Case, Outcome, ensure};
use zx::{Stream, Vmo};

use super::{LESS, holds_shortly, mapped, memory};

fn read() -> Outcome {
    let vmo = memory(LESS, true)?;
    let stream = Stream::create(ZX_STREAM_MODE_READ, &vmo, 0)?;
    let mut bytes = vec![1; LESS as usize];
    holds_shortly("stream-read", || {
        let read = stream.readv([&mut bytes])?;
        ensure(read == LESS as usize, &format!("{read} bytes"))
    })
}

fn append() -> Outcome {
    let vmo = Vmo::create(0, ZX_VMO_RESIZABLE)?;
    let stream = Stream::create(ZX_STREAM_MODE_WRITE | ZX_STREAM_MODE_APPEND, &vmo, 0)?;
    let bytes = vec![1; LESS as usize];
    holds_shortly("stream-append", || {
        let written = stream.writev(0, [&bytes])?;
        ensure(written == LESS as usize, &format!("{written} bytes"))
    })
}

/// The gap between the content and the written bytes becomes zero.
fn write_beyond() -> Outcome {
    let vmo = memory(LESS, true)?;
    vmo.set_stream_size(0)?;
    let stream = Stream::create(ZX_STREAM_MODE_WRITE, &vmo, LESS - 1)?;
    holds_shortly("stream-write-beyond", || {
        let written = stream.writev(0, [b"x"])?;
        ensure(written == 1, &format!("{written} bytes"))
    })
}

fn larger() -> Outcome {
    let vmo = memory(LESS, true)?;
    vmo.set_stream_size(0)?;
    holds_shortly("stream-size-larger", || Ok(vmo.set_stream_size(LESS)?))
}

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("holds.stream.append", append),
        Case::new("holds.stream.read", read),
        Case::new("holds.stream.size_larger", larger),
        Case::new("holds.stream.size_smaller", || mapped("stream-size-smaller", |vmo| Ok(vmo.set_stream_size(0)?))),
        Case::new("holds.stream.write_beyond", write_beyond),
    ]
}
