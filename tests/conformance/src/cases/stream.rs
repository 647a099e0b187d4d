//! Streams: a position in a VMO.

use abi::{
    Rights, Status, ZX_STREAM_APPEND, ZX_STREAM_MODE_APPEND, ZX_STREAM_MODE_READ, ZX_STREAM_MODE_WRITE,
    ZX_VMO_RESIZABLE, zx_iovec_t,
};
use zx::{AsHandleRef, Info, Stream, Vmar, Vmo};

use super::{cases, raw, without};
use crate::check::{Outcome, ensure, equal, fails, gives};

cases! {
    "stream.create.modes" => create_modes,
    "stream.create.rights_of_the_vmo" => create_rights_of_the_vmo,
    "stream.create.rights_given" => create_rights_given,
    "stream.create.keeps_the_vmo" => create_keeps_the_vmo,
    "stream.info.fields" => info_fields,
    "stream.seek.from_each_origin" => seek_from_each_origin,
    "stream.seek.out_of_bounds" => seek_out_of_bounds,
    "stream.seek.rights" => seek_rights,
    "stream.seek.no_result_pointer" => seek_no_result_pointer,
    "stream.read.moves" => read_moves,
    "stream.read.several_buffers" => read_several_buffers,
    "stream.read.ends_with_the_content" => read_ends_with_the_content,
    "stream.read.at" => read_at,
    "stream.read.vectors_are_copied" => read_vectors_are_copied,
    "stream.read.bad_vectors" => read_bad_vectors,
    "stream.read.bad_buffers" => read_bad_buffers,
    "stream.read.untouched_is_zero" => read_untouched_is_zero,
    "stream.read.into_itself" => read_into_itself,
    "stream.read.rights" => read_rights,
    "stream.write.moves" => write_moves,
    "stream.write.several_buffers" => write_several_buffers,
    "stream.write.at" => write_at,
    "stream.write.bad_vectors" => write_bad_vectors,
    "stream.write.bad_buffers" => write_bad_buffers,
    "stream.write.rights" => write_rights,
    "stream.write.nothing" => write_nothing,
    "stream.write.extends_content" => write_extends_content,
    "stream.write.extends_vmo" => write_extends_vmo,
    "stream.write.stops_at_the_end" => write_stops_at_the_end,
    "stream.write.too_far" => write_too_far,
    "stream.write.gap_is_zero" => write_gap_is_zero,
    "stream.write.gap_of_a_large_vmo" => write_gap_of_a_large_vmo,
    "stream.write.resize_needs_the_right" => write_resize_needs_the_right,
    "stream.write.all_or_nothing" => write_all_or_nothing,
    "stream.append.mode" => append_mode,
    "stream.append.option" => append_option,
    "stream.append.property" => append_property,
    "stream.content.is_shared" => content_is_shared,
    "stream.long.both_ways" => long_both_ways,
}

const READ: u32 = ZX_STREAM_MODE_READ;
const WRITE: u32 = ZX_STREAM_MODE_WRITE;
const PAGE: u64 = 4096;
/// An address at which no program has memory.
const NOWHERE: usize = 0x1000;

/// A VMO with `text` as its whole content.
fn with_text(text: &[u8]) -> zx::Result<Vmo> {
    let vmo = Vmo::create(text.len() as u64, 0)?;
    vmo.write(text, 0)?;
    Ok(vmo)
}

fn alphabet() -> zx::Result<(Vmo, Stream)> {
    let vmo = with_text(b"abcdefghijklmnopqrstuvwxyz")?;
    let stream = Stream::create(READ | WRITE, &vmo, 0)?;
    Ok((vmo, stream))
}

fn text(stream: &Stream, len: usize) -> zx::Result<String> {
    let mut bytes = vec![0; len];
    let len = stream.read(&mut bytes)?;
    bytes.truncate(len);
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn bytes_of(vmo: &Vmo, offset: u64, len: usize) -> zx::Result<Vec<u8>> {
    let mut bytes = vec![0xaa; len];
    vmo.read(&mut bytes, offset)?;
    Ok(bytes)
}

fn position(stream: &Stream) -> zx::Result<u64> {
    stream.seek(abi::ZX_STREAM_SEEK_ORIGIN_CURRENT, 0)
}

fn create_modes() -> Outcome {
    let vmo = Vmo::create(PAGE, 0)?;
    let mut out = 0_u32;
    for bad in [8, 1 << 31, u32::MAX] {
        gives(raw!(zx_stream_create, bad, vmo.raw_handle(), 0, &raw mut out), Status::INVALID_ARGS)?;
    }
    // A null handle, and a handle to another type of object.
    gives(raw!(zx_stream_create, READ, 0, 0, &raw mut out), Status::BAD_HANDLE)?;
    let event = zx::Event::create()?;
    gives(raw!(zx_stream_create, READ, event.raw_handle(), 0, &raw mut out), Status::WRONG_TYPE)?;
    equal(out, 0)?;
    for mode in 0..8 {
        equal(Stream::create(mode, &vmo, 5)?.info()?.options, mode)?;
    }
    Ok(())
}

fn create_rights_of_the_vmo() -> Outcome {
    let vmo = Vmo::create(PAGE, 0)?;
    let blind = Vmo::from(without(&vmo, Rights::READ)?);
    let mute = Vmo::from(without(&vmo, Rights::WRITE)?);
    fails(Stream::create(READ, &blind, 0), Status::ACCESS_DENIED)?;
    fails(Stream::create(READ | WRITE, &blind, 0), Status::ACCESS_DENIED)?;
    fails(Stream::create(WRITE, &mute, 0), Status::ACCESS_DENIED)?;
    fails(Stream::create(WRITE | ZX_STREAM_MODE_APPEND, &mute, 0), Status::ACCESS_DENIED)?;
    Stream::create(WRITE, &blind, 0)?;
    Stream::create(READ, &mute, 0)?;
    Ok(())
}

fn create_rights_given() -> Outcome {
    let vmo = Vmo::create(PAGE, 0)?;
    for (mode, more) in [(0, Rights::NONE), (READ, Rights::READ), (WRITE, Rights::WRITE), (3, Rights::IO)] {
        let basic = Stream::create(mode, &vmo, 0)?.basic_info()?;
        equal(basic.type_, abi::ZX_OBJ_TYPE_STREAM)?;
        equal(Rights::from_bits_retain(basic.rights), abi::ZX_DEFAULT_STREAM_RIGHTS | more)?;
    }
    Ok(())
}

fn create_keeps_the_vmo() -> Outcome {
    let (vmo, stream) = alphabet()?;
    drop(vmo);
    equal(text(&stream, 3)?, "abc".to_owned())
}

fn info_fields() -> Outcome {
    let (vmo, _) = alphabet()?;
    let stream = Stream::create(READ | ZX_STREAM_MODE_APPEND, &vmo, 100)?;
    let info = stream.info()?;
    equal((info.options, info.seek, info.content_size), (READ | ZX_STREAM_MODE_APPEND, 100, 26))
}

fn seek_from_each_origin() -> Outcome {
    let (_vmo, stream) = alphabet()?;
    equal(stream.seek(0, 9)?, 9)?;
    equal(stream.info()?.seek, 9)?;
    equal(text(&stream, 2)?, "jk".to_owned())?;
    equal(stream.seek(1, -4)?, 7)?;
    equal(text(&stream, 1)?, "h".to_owned())?;
    equal(stream.seek(2, -3)?, 23)?;
    equal(text(&stream, 9)?, "xyz".to_owned())?;
    // A read beyond the end returns nothing and is not an error.
    equal(stream.seek(2, 1000)?, 1026)?;
    equal(text(&stream, 9)?, String::new())?;
    equal(stream.seek(0, i64::MAX)?, i64::MAX as u64)?;
    equal(stream.seek(1, i64::MAX)?, i64::MAX as u64 * 2)
}

fn seek_out_of_bounds() -> Outcome {
    let (vmo, stream) = alphabet()?;
    stream.seek(0, 5)?;
    fails(stream.seek(0, -1), Status::INVALID_ARGS)?;
    fails(stream.seek(0, i64::MIN), Status::INVALID_ARGS)?;
    fails(stream.seek(1, -6), Status::INVALID_ARGS)?;
    fails(stream.seek(2, -27), Status::INVALID_ARGS)?;
    for whence in [3, u32::MAX] {
        fails(stream.seek(whence, 0), Status::INVALID_ARGS)?;
    }
    equal(position(&stream)?, 5)?;
    let far = Stream::create(READ, &vmo, u64::MAX)?;
    fails(far.seek(1, 1), Status::INVALID_ARGS)?;
    equal(far.seek(1, -1)?, u64::MAX - 1)
}

fn seek_rights() -> Outcome {
    let (_vmo, stream) = alphabet()?;
    Stream::from(without(&stream, Rights::READ)?).seek(0, 1)?;
    Stream::from(without(&stream, Rights::WRITE)?).seek(0, 2)?;
    fails(Stream::from(without(&stream, Rights::IO)?).seek(0, 3), Status::ACCESS_DENIED)?;
    equal(position(&stream)?, 2)
}

fn seek_no_result_pointer() -> Outcome {
    let (_vmo, stream) = alphabet()?;
    gives(raw!(zx_stream_seek, stream.raw_handle(), 0, 7, 0), Status::OK)?;
    equal(position(&stream)?, 7)?;
    gives(raw!(zx_stream_seek, stream.raw_handle(), 0, 9, NOWHERE), Status::INVALID_ARGS)?;
    equal(position(&stream)?, 7)
}

fn read_moves() -> Outcome {
    let (_vmo, stream) = alphabet()?;
    equal(text(&stream, 7)?, "abcdefg".to_owned())?;
    equal(text(&stream, 0)?, String::new())?;
    equal(text(&stream, 4)?, "hijk".to_owned())?;
    equal(position(&stream)?, 11)
}

fn read_several_buffers() -> Outcome {
    let (_vmo, stream) = alphabet()?;
    let (mut one, mut none, mut two) = ([0; 3], [], [0; 5]);
    equal(stream.readv([&mut one, &mut none, &mut two])?, 8)?;
    equal((&one, &two), (b"abc", b"defgh"))?;
    // The last buffers are not changed when no more bytes are left.
    stream.seek(0, 24)?;
    equal(stream.readv([&mut one, &mut two])?, 2)?;
    equal((&one, &two), (b"yzc", b"defgh"))
}

fn read_ends_with_the_content() -> Outcome {
    let (vmo, stream) = alphabet()?;
    equal(text(&stream, 100)?.len(), 26)?;
    equal(text(&stream, 100)?.len(), 0)?;
    equal(position(&stream)?, 26)?;
    // The VMO has more bytes, which are not part of the stream.
    vmo.write(b"more", 26)?;
    equal(text(&stream, 100)?, String::new())?;
    vmo.set_stream_size(28)?;
    equal(text(&stream, 100)?.len(), 2)?;
    vmo.set_stream_size(3)?;
    equal(text(&stream, 100)?, String::new())?;
    equal(position(&stream)?, 28)
}

fn read_at() -> Outcome {
    let (_vmo, stream) = alphabet()?;
    let (mut one, mut two) = ([0; 2], [0; 2]);
    equal(stream.readv_at(10, [&mut one, &mut two])?, 4)?;
    equal((&one, &two), (b"kl", b"mn"))?;
    equal(stream.readv_at(25, [&mut one, &mut two])?, 1)?;
    equal(&one, b"zl")?;
    equal(stream.readv_at(26, [&mut one])?, 0)?;
    equal(stream.readv_at(u64::MAX, [&mut one])?, 0)?;
    equal(position(&stream)?, 0)
}

fn read_vectors_are_copied() -> Outcome {
    // The read overwrites the vectors themselves.
    let vmo = with_text(&[0xff; 64])?;
    let stream = Stream::create(READ, &vmo, 0)?;
    let mut last = [0_u8; 8];
    let mut vectors = [zx_iovec_t { buffer: 0, capacity: 0 }; 3];
    let own = vectors.as_mut_ptr() as usize;
    vectors[0] = zx_iovec_t { buffer: own, capacity: 16 };
    vectors[1] = zx_iovec_t { buffer: own + 16, capacity: 32 };
    vectors[2] = zx_iovec_t { buffer: last.as_mut_ptr() as usize, capacity: last.len() };
    let mut actual = 0_usize;
    let status = raw!(zx_stream_readv, stream.raw_handle(), 0, vectors.as_mut_ptr(), 3, &raw mut actual);
    gives(status, Status::OK)?;
    equal(actual, 56)?;
    // The array has changed without the compiler's knowledge.
    let seen = std::hint::black_box(vectors);
    ensure(seen.iter().all(|vector| (vector.buffer, vector.capacity) == (usize::MAX, usize::MAX)), "not all was read")?;
    equal(std::hint::black_box(last), [0xff; 8])
}

fn read_bad_vectors() -> Outcome {
    let (_vmo, stream) = alphabet()?;
    let mut bytes = [0_u8; 4];
    let mut actual = 77_usize;
    let handle = stream.raw_handle();
    let one = zx_iovec_t { buffer: bytes.as_mut_ptr() as usize, capacity: 4 };
    let huge = [one, zx_iovec_t { buffer: bytes.as_mut_ptr() as usize, capacity: usize::MAX }];
    let out = &raw mut actual;
    for options in [1, 2, u32::MAX] {
        gives(raw!(zx_stream_readv, handle, options, &raw const one, 1, out), Status::INVALID_ARGS)?;
        gives(raw!(zx_stream_readv_at, handle, options, 0, &raw const one, 1, out), Status::INVALID_ARGS)?;
    }
    for (vectors, count) in
        [(0, 1), (0, 0), (NOWHERE, 1), (huge.as_ptr() as usize, 2), (huge.as_ptr() as usize, 1_usize << 60)]
    {
        gives(raw!(zx_stream_readv, handle, 0, vectors, count, out), Status::INVALID_ARGS)?;
        gives(raw!(zx_stream_readv_at, handle, 0, 0, vectors, count, out), Status::INVALID_ARGS)?;
    }
    // If the number of bytes cannot be returned, nothing counts as read.
    gives(raw!(zx_stream_readv, handle, 0, &raw const one, 1, NOWHERE), Status::INVALID_ARGS)?;
    equal((actual, position(&stream)?), (77, 0))?;
    gives(raw!(zx_stream_readv, handle, 0, &raw const one, 1, 0), Status::OK)?;
    equal(position(&stream)?, 4)
}

fn read_bad_buffers() -> Outcome {
    let (_vmo, stream) = alphabet()?;
    let mut bytes = [0_u8; 4];
    let mut actual = 0_usize;
    let good = zx_iovec_t { buffer: bytes.as_mut_ptr() as usize, capacity: 4 };
    for bad in [0, NOWHERE, read_bad_buffers as fn() -> Outcome as usize] {
        let bad = zx_iovec_t { buffer: bad, capacity: 4 };
        let vectors = [bad, good];
        let status = raw!(zx_stream_readv, stream.raw_handle(), 0, vectors.as_ptr(), 2, &raw mut actual);
        gives(status, Status::NOT_FOUND)?;
        equal(position(&stream)?, 0)?;
        // The bytes before the error count.
        let vectors = [good, bad];
        let status = raw!(zx_stream_readv, stream.raw_handle(), 0, vectors.as_ptr(), 2, &raw mut actual);
        gives(status, Status::OK)?;
        equal((actual, position(&stream)?), (4, 4))?;
        stream.seek(0, 0)?;
    }
    // If there is nothing to read, the buffers are not checked.
    stream.seek(0, 26)?;
    let bad = zx_iovec_t { buffer: NOWHERE, capacity: 4 };
    gives(raw!(zx_stream_readv, stream.raw_handle(), 0, &raw const bad, 1, &raw mut actual), Status::OK)?;
    equal(actual, 0)
}

fn read_untouched_is_zero() -> Outcome {
    let vmo = Vmo::create(3 * PAGE, 0)?;
    let stream = Stream::create(READ, &vmo, PAGE - 10)?;
    let mut bytes = vec![0x77; 5000];
    equal(stream.read(&mut bytes)?, 5000)?;
    ensure(bytes.iter().all(|byte| *byte == 0), "untouched memory is not zero")?;
    equal(vmo.info()?.committed_bytes, 0)
}

fn read_into_itself() -> Outcome {
    // The buffer is a mapping of the memory that is read, some bytes further on.
    let vmo = Vmo::create(2 * PAGE, 0)?;
    let pattern: Vec<u8> = (0..PAGE as usize + 200).map(|index| (index * 7 + index / 256) as u8).collect();
    vmo.write(&pattern, 0)?;
    let read_write = abi::ZX_VM_PERM_READ | abi::ZX_VM_PERM_WRITE;
    let root: &Vmar = &zx::startup::vmar_root_self();
    let map = root.map_here(read_write, &vmo, 0, 2 * PAGE as usize)?;
    let stream = Stream::create(READ, &vmo, 0)?;
    let vector = zx_iovec_t { buffer: map.address() + 100, capacity: 1000 };
    gives(raw!(zx_stream_readv, stream.raw_handle(), 0, &raw const vector, 1, 0), Status::OK)?;
    ensure(bytes_of(&vmo, 100, 1000)? == pattern[..1000], "the bytes moved are not those that were there")
}

fn read_rights() -> Outcome {
    let (_vmo, stream) = alphabet()?;
    let blind = Stream::from(without(&stream, Rights::READ)?);
    fails(blind.read(&mut [0; 4]), Status::ACCESS_DENIED)?;
    fails(blind.readv_at(0, [&mut [0; 4]]), Status::ACCESS_DENIED)?;
    equal(position(&stream)?, 0)
}

fn write_moves() -> Outcome {
    let (vmo, stream) = alphabet()?;
    equal(stream.write(b"12345")?, 5)?;
    equal(stream.write(b"67")?, 2)?;
    equal(position(&stream)?, 7)?;
    equal(bytes_of(&vmo, 0, 10)?, b"1234567hij".to_vec())
}

fn write_several_buffers() -> Outcome {
    let (vmo, stream) = alphabet()?;
    stream.seek(0, 2)?;
    equal(stream.writev(0, [b"12", b"", b"345"])?, 5)?;
    equal(bytes_of(&vmo, 0, 9)?, b"ab12345hi".to_vec())?;
    equal(position(&stream)?, 7)
}

fn write_at() -> Outcome {
    let (vmo, stream) = alphabet()?;
    equal(stream.writev_at(4, [b"12", b"3"])?, 3)?;
    equal(bytes_of(&vmo, 0, 9)?, b"abcd123hi".to_vec())?;
    equal((position(&stream)?, vmo.get_stream_size()?), (0, 26))
}

fn write_bad_vectors() -> Outcome {
    let (vmo, stream) = alphabet()?;
    let handle = stream.raw_handle();
    let mut actual = 77_usize;
    let out = &raw mut actual;
    let one = zx_iovec_t { buffer: b"1234".as_ptr() as usize, capacity: 4 };
    let huge = [one, zx_iovec_t { buffer: one.buffer, capacity: usize::MAX }];
    gives(raw!(zx_stream_writev, handle, 2, &raw const one, 1, out), Status::INVALID_ARGS)?;
    for options in [1, 2, u32::MAX] {
        gives(raw!(zx_stream_writev_at, handle, options, 0, &raw const one, 1, out), Status::INVALID_ARGS)?;
    }
    for (vectors, count) in
        [(0, 1), (0, 0), (NOWHERE, 1), (huge.as_ptr() as usize, 2), (huge.as_ptr() as usize, 1_usize << 60)]
    {
        gives(raw!(zx_stream_writev, handle, 0, vectors, count, out), Status::INVALID_ARGS)?;
        gives(raw!(zx_stream_writev_at, handle, 0, 0, vectors, count, out), Status::INVALID_ARGS)?;
    }
    gives(raw!(zx_stream_writev, handle, 0, &raw const one, 1, NOWHERE), Status::INVALID_ARGS)?;
    equal((actual, position(&stream)?), (77, 0))?;
    equal(bytes_of(&vmo, 0, 4)?, b"abcd".to_vec())?;
    gives(raw!(zx_stream_writev, handle, 0, &raw const one, 1, 0), Status::OK)?;
    equal(bytes_of(&vmo, 0, 5)?, b"1234e".to_vec())
}

fn write_bad_buffers() -> Outcome {
    let (vmo, stream) = alphabet()?;
    let mut actual = 0_usize;
    let good = zx_iovec_t { buffer: b"1234".as_ptr() as usize, capacity: 4 };
    for bad in [0, NOWHERE] {
        let bad = zx_iovec_t { buffer: bad, capacity: 4 };
        let vectors = [bad, good];
        let status = raw!(zx_stream_writev, stream.raw_handle(), 0, vectors.as_ptr(), 2, &raw mut actual);
        gives(status, Status::NOT_FOUND)?;
        equal((position(&stream)?, bytes_of(&vmo, 4, 4)?), (0, b"efgh".to_vec()))?;
        let vectors = [good, bad];
        let status = raw!(zx_stream_writev, stream.raw_handle(), 0, vectors.as_ptr(), 2, &raw mut actual);
        gives(status, Status::OK)?;
        equal((actual, position(&stream)?), (4, 4))?;
        equal(bytes_of(&vmo, 0, 6)?, b"1234ef".to_vec())?;
        stream.seek(0, 0)?;
    }
    Ok(())
}

fn write_rights() -> Outcome {
    let (vmo, stream) = alphabet()?;
    let mute = Stream::from(without(&stream, Rights::WRITE)?);
    fails(mute.write(b"1"), Status::ACCESS_DENIED)?;
    fails(mute.writev_at(0, [b"1"]), Status::ACCESS_DENIED)?;
    equal(bytes_of(&vmo, 0, 1)?, b"a".to_vec())
}

fn write_nothing() -> Outcome {
    let (vmo, stream) = alphabet()?;
    stream.seek(0, 100)?;
    equal(stream.write(b"")?, 0)?;
    equal(stream.writev(0, [])?, 0)?;
    equal((vmo.get_stream_size()?, position(&stream)?), (26, 100))
}

fn write_extends_content() -> Outcome {
    let vmo = Vmo::create(PAGE, 0)?;
    vmo.set_stream_size(10)?;
    let stream = Stream::create(READ | WRITE, &vmo, 8)?;
    equal(stream.write(b"1234")?, 4)?;
    equal((vmo.get_stream_size()?, vmo.get_size()?), (12, PAGE))?;
    stream.writev_at(20, [b"5", b"6"])?;
    equal((vmo.get_stream_size()?, stream.info()?.content_size), (22, 22))?;
    // A write inside the content does not change the size.
    stream.writev_at(0, [b"7"])?;
    equal(vmo.get_stream_size()?, 22)?;
    equal(stream.seek(2, 0)?, 22)
}

fn write_extends_vmo() -> Outcome {
    let vmo = Vmo::create(10, ZX_VMO_RESIZABLE)?;
    let stream = Stream::create(READ | WRITE, &vmo, 0)?;
    equal(stream.writev_at(PAGE - 2, [b"12", b"34"])?, 4)?;
    equal((vmo.get_stream_size()?, vmo.get_size()?), (PAGE + 2, 2 * PAGE))?;
    equal(stream.writev_at(10 * PAGE, [b"5"])?, 1)?;
    equal((vmo.get_stream_size()?, vmo.get_size()?), (10 * PAGE + 1, 11 * PAGE))?;
    equal(bytes_of(&vmo, PAGE - 3, 6)?, b"\x001234\0".to_vec())?;
    equal(bytes_of(&vmo, 10 * PAGE, 2)?, b"5\0".to_vec())?;
    // The same from size 0.
    let empty = Vmo::create(0, ZX_VMO_RESIZABLE)?;
    equal(Stream::create(WRITE, &empty, 0)?.write(b"first")?, 5)?;
    equal((empty.get_stream_size()?, empty.get_size()?), (5, PAGE))
}

fn write_stops_at_the_end() -> Outcome {
    let vmo = Vmo::create(PAGE, 0)?;
    let stream = Stream::create(READ | WRITE, &vmo, PAGE - 3)?;
    equal(stream.writev(0, [b"12", b"34", b"5"])?, 3)?;
    equal(bytes_of(&vmo, PAGE - 3, 3)?, b"123".to_vec())?;
    equal(position(&stream)?, PAGE)?;
    fails(stream.write(b"6"), Status::NO_SPACE)?;
    fails(stream.writev_at(PAGE + 5, [b"6"]), Status::NO_SPACE)?;
    equal((vmo.get_size()?, vmo.get_stream_size()?), (PAGE, PAGE))
}

fn write_too_far() -> Outcome {
    let vmo = Vmo::create(PAGE, ZX_VMO_RESIZABLE)?;
    let stream = Stream::create(READ | WRITE, &vmo, 0)?;
    for offset in [u64::MAX, u64::MAX - 1, u64::MAX - PAGE] {
        fails(stream.writev_at(offset, [b"12"]), Status::FILE_BIG)?;
    }
    // A length near the largest number is refused at any position.
    let endless = zx_iovec_t { buffer: b"12".as_ptr() as usize, capacity: usize::MAX };
    let mut actual = 77_usize;
    for from in [4, 5414] {
        stream.seek(0, from)?;
        let status = raw!(zx_stream_writev, stream.raw_handle(), 0, &raw const endless, 1, &raw mut actual);
        gives(status, Status::FILE_BIG)?;
        let status = raw!(zx_stream_writev_at, stream.raw_handle(), 0, from, &raw const endless, 1, &raw mut actual);
        gives(status, Status::FILE_BIG)?;
        equal((position(&stream)?, std::hint::black_box(actual)), (from as u64, 77))?;
    }
    equal((vmo.get_size()?, vmo.get_stream_size()?), (PAGE, PAGE))
}

fn write_gap_is_zero() -> Outcome {
    let vmo = Vmo::create(3 * PAGE, ZX_VMO_RESIZABLE)?;
    vmo.write(&[0x55; 3 * PAGE as usize], 0)?;
    vmo.set_stream_size(10)?;
    // Setting the size does not zero the bytes; the write does, from the old end to its own start.
    vmo.write(&[0x55; 3 * PAGE as usize - 10], 10)?;
    let stream = Stream::create(READ | WRITE, &vmo, 2 * PAGE + 50)?;
    stream.write(b"here")?;
    let bytes = bytes_of(&vmo, 0, 3 * PAGE as usize)?;
    let (gap, at) = (10..2 * PAGE as usize + 50, 2 * PAGE as usize + 50);
    ensure(bytes[..10].iter().all(|byte| *byte == 0x55), "content before the gap has changed")?;
    ensure(bytes[gap].iter().all(|byte| *byte == 0), "the gap is not zero")?;
    equal(&bytes[at..at + 4], &b"here"[..])?;
    ensure(bytes[at + 4..].iter().all(|byte| *byte == 0x55), "what lies behind has changed")?;
    // Reading through the stream shows the same, also where the VMO had to grow.
    stream.writev_at(9 * PAGE, [b"x"])?;
    let mut all = vec![1; 9 * PAGE as usize + 1];
    equal(stream.readv_at(0, [&mut all])?, 9 * PAGE as usize + 1)?;
    ensure(all[at + 4..9 * PAGE as usize].iter().all(|byte| *byte == 0), "the second gap is not zero")
}

fn write_gap_of_a_large_vmo() -> Outcome {
    // A gap takes no memory.
    let vmo = Vmo::create(0, abi::ZX_VMO_UNBOUNDED)?;
    let stream = Stream::create(READ | WRITE, &vmo, 1 << 50)?;
    equal(stream.write(b"far")?, 3)?;
    equal(vmo.get_stream_size()?, (1 << 50) + 3)?;
    equal(vmo.info()?.committed_bytes, PAGE)?;
    equal(stream.seek(2, -3)?, 1 << 50)?;
    equal(text(&stream, 10)?, "far".to_owned())
}

fn write_resize_needs_the_right() -> Outcome {
    let vmo = Vmo::create(PAGE, ZX_VMO_RESIZABLE)?;
    let fixed = Vmo::from(without(&vmo, Rights::RESIZE)?);
    let stream = Stream::create(WRITE, &fixed, PAGE)?;
    fails(stream.write(b"1"), Status::NO_SPACE)?;
    equal(vmo.get_size()?, PAGE)
}

fn write_all_or_nothing() -> Outcome {
    // A write that would extend the VMO but fails to read its bytes changes nothing.
    let vmo = Vmo::create(PAGE, ZX_VMO_RESIZABLE)?;
    vmo.set_stream_size(5)?;
    let stream = Stream::create(WRITE, &vmo, 0)?;
    let bad = zx_iovec_t { buffer: NOWHERE, capacity: 2 * PAGE as usize };
    gives(raw!(zx_stream_writev, stream.raw_handle(), 0, &raw const bad, 1, 0), Status::NOT_FOUND)?;
    equal((vmo.get_size()?, vmo.get_stream_size()?, position(&stream)?), (PAGE, 5, 0))
}

fn append_mode() -> Outcome {
    let vmo = Vmo::create(PAGE, 0)?;
    vmo.set_stream_size(0)?;
    let stream = Stream::create(READ | WRITE | ZX_STREAM_MODE_APPEND, &vmo, 7)?;
    equal(stream.write(b"one ")?, 4)?;
    equal(position(&stream)?, 4)?;
    stream.seek(0, 1)?;
    equal(stream.writev(0, [b"two ", b"three"])?, 9)?;
    equal((position(&stream)?, vmo.get_stream_size()?), (13, 13))?;
    // A write with an offset does not append.
    stream.writev_at(0, [b"O"])?;
    equal((position(&stream)?, vmo.get_stream_size()?), (13, 13))?;
    // Reads begin at the position, as usual.
    stream.seek(0, 0)?;
    equal(text(&stream, 100)?, "One two three".to_owned())
}

fn append_option() -> Outcome {
    let (vmo, stream) = alphabet()?;
    stream.seek(0, 3)?;
    equal(stream.writev(ZX_STREAM_APPEND, [b"123"])?, 3)?;
    equal((position(&stream)?, vmo.get_stream_size()?), (29, 29))?;
    stream.seek(0, 3)?;
    equal(stream.writev(0, [b"-"])?, 1)?;
    equal(bytes_of(&vmo, 0, 5)?, b"abc-e".to_vec())?;
    equal(bytes_of(&vmo, 25, 5)?, b"z123\0".to_vec())?;
    // Bytes that do not fit are cut off; afterwards nothing fits.
    let long = vec![b'x'; PAGE as usize];
    equal(stream.writev(ZX_STREAM_APPEND, [&long])?, PAGE as usize - 29)?;
    equal((position(&stream)?, vmo.get_stream_size()?), (PAGE, PAGE))?;
    fails(stream.writev(ZX_STREAM_APPEND, [b"y"]), Status::NO_SPACE)?;
    equal(bytes_of(&vmo, PAGE - 2, 2)?, b"xx".to_vec())?;
    // A length that overflows when it is added to the current size.
    let endless = zx_iovec_t { buffer: long.as_ptr() as usize, capacity: usize::MAX };
    let raw = stream.raw_handle();
    gives(raw!(zx_stream_writev, raw, ZX_STREAM_APPEND, &raw const endless, 1, 0), Status::OUT_OF_RANGE)?;
    equal((position(&stream)?, vmo.get_stream_size()?), (PAGE, PAGE))
}

fn append_property() -> Outcome {
    let (vmo, stream) = alphabet()?;
    let mut mode = [7];
    stream.get_property(abi::ZX_PROP_STREAM_MODE_APPEND, &mut mode)?;
    equal(mode, [0])?;
    stream.set_property(abi::ZX_PROP_STREAM_MODE_APPEND, &[1])?;
    stream.get_property(abi::ZX_PROP_STREAM_MODE_APPEND, &mut mode)?;
    equal((mode, stream.info()?.options), ([1], READ | WRITE | ZX_STREAM_MODE_APPEND))?;
    stream.write(b"!")?;
    equal(vmo.get_stream_size()?, 27)?;
    stream.set_property(abi::ZX_PROP_STREAM_MODE_APPEND, &[0])?;
    stream.seek(0, 0)?;
    stream.write(b"A")?;
    equal((vmo.get_stream_size()?, bytes_of(&vmo, 0, 2)?), (27, b"Ab".to_vec()))?;
    let fixed = Stream::from(without(&stream, Rights::SET_PROPERTY)?);
    fails(fixed.set_property(abi::ZX_PROP_STREAM_MODE_APPEND, &[1]), Status::ACCESS_DENIED)?;
    let hidden = Stream::from(without(&stream, Rights::GET_PROPERTY)?);
    fails(hidden.get_property(abi::ZX_PROP_STREAM_MODE_APPEND, &mut mode), Status::ACCESS_DENIED)
}

fn content_is_shared() -> Outcome {
    // Two streams over one VMO have separate positions and the same content.
    let (vmo, one) = alphabet()?;
    let two = Stream::create(READ | WRITE | ZX_STREAM_MODE_APPEND, &vmo, 0)?;
    text(&one, 26)?;
    two.write(b"new")?;
    equal(text(&one, 9)?, "new".to_owned())?;
    one.write(b"er")?;
    equal(two.seek(2, 0)?, 31)?;
    equal(text(&two, 9)?, String::new())?;
    // A duplicated handle refers to the same stream.
    let same = Stream::from(one.duplicate_handle(Rights::SAME_RIGHTS)?);
    same.seek(0, 3)?;
    equal(text(&one, 2)?, "de".to_owned())
}

fn long_both_ways() -> Outcome {
    // Lengths and positions that never coincide with pages.
    let vmo = Vmo::create(0, ZX_VMO_RESIZABLE)?;
    let stream = Stream::create(READ | WRITE, &vmo, 0)?;
    let data: Vec<u8> = (0..300_000_u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let (first, rest) = data.split_at(12_345);
    let (second, third) = rest.split_at(1);
    equal(stream.writev(0, [first, second, third])?, data.len())?;
    let (mut a, mut b, mut c) = (vec![0; 100_001], vec![0; 4096], vec![0; 300_000]);
    equal(stream.readv_at(7, [&mut a, &mut b, &mut c])?, data.len() - 7)?;
    let back = [a, b, c].concat();
    ensure(back[..data.len() - 7] == data[7..], "the bytes came back different")?;
    ensure(back[data.len() - 7..].iter().all(|byte| *byte == 0), "more was written than was told")
}
