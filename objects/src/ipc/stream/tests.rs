//! Streams against a vector of bytes, and in slices.

use super::*;
use crate::containers::name::Name;
use crate::core::continuation::SLICE_COPY_BYTES;
use crate::fake::FakeMachine;
use crate::machine::{Perm, USER_BASE};
use crate::memory::vmar::{MapRequest, Place};
use abi::{ZX_STREAM_MODE_READ, ZX_STREAM_MODE_WRITE};
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

const PAGES: u64 = 4;

/// An operation of a program, in bytes up to some pages.
#[derive(Clone, Debug)]
enum Op {
    Read(Option<u64>, Vec<u64>),
    Write(Option<u64>, bool, Vec<u64>, u8),
    Seek(u32, i64),
    Content(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let place = || 0..5 * PAGE;
    let lens = || proptest::collection::vec(0..PAGE + 100, 0..4);
    prop_oneof![
        (proptest::option::of(place()), lens()).prop_map(|(at, lens)| Op::Read(at, lens)),
        (proptest::option::of(place()), any::<bool>(), lens(), any::<u8>())
            .prop_map(|(at, end, lens, fill)| Op::Write(at, end, lens, fill)),
        (0u32..3, -9000i64..9000).prop_map(|(whence, offset)| Op::Seek(whence, offset)),
        place().prop_map(Op::Content),
    ]
}

proptest! {
    /// Against a vector of bytes as the content, and a position.
    #[test]
    fn behaves_as_a_file(resizable: bool, ops in proptest::collection::vec(op(), 1..40)) {
        let mut kernel = Kernel::new(FakeMachine::new(1000)).unwrap();
        let job = kernel.root_job().unwrap();
        let (process, root) = kernel.process_create(job, Name::default()).unwrap();
        let buffer = kernel.vmo_create(PAGES * PAGE, false).unwrap();
        let rw = Perm { read: true, write: true, execute: false };
        let request = MapRequest { vmo: buffer, offset: 0, len: PAGES * PAGE, perm: rw, max: rw, fixed: false };
        kernel.vmar_map(root, Place::At(0), request).unwrap();
        let aspace = kernel.objects.get(process).unwrap().aspace.unwrap();
        let vmo = kernel.vmo_create(2 * PAGE, resizable).unwrap();
        let both = ZX_STREAM_MODE_READ | ZX_STREAM_MODE_WRITE;
        let stream = kernel.stream_create(vmo, both, 0, true).unwrap();
        let (mut content, mut position) = (vec![0u8; 2 * PAGE as usize], 0u64);
        let parts = |lens: &[u64]| {
            let mut address = USER_BASE;
            let part = |&len: &u64| {
                address += len;
                UserBuffer { address: address - len, len }
            };
            lens.iter().map(part).collect::<Vec<_>>()
        };
        for op in ops {
            match op {
                Op::Read(at, lens) => {
                    let total: u64 = lens.iter().sum();
                    let place = at.map_or(StreamOffset::Position, StreamOffset::At);
                    let from = at.unwrap_or(position);
                    let expected = total.min((content.len() as u64).saturating_sub(from));
                    prop_assert_eq!(kernel.stream_read_all(stream, place, aspace, &parts(&lens)), Ok(expected));
                    let mut seen = vec![0; expected as usize];
                    kernel.copy_in(aspace, USER_BASE, &mut seen).unwrap();
                    let from = (from as usize).min(content.len());
                    prop_assert_eq!(&seen, &content[from..from + expected as usize]);
                    if at.is_none() {
                        position += expected;
                    }
                }
                Op::Write(at, end, lens, fill) => {
                    let total: u64 = lens.iter().sum();
                    let data: Vec<u8> = (0..total).map(|i| fill.wrapping_add(i as u8)).collect();
                    kernel.copy_out(aspace, USER_BASE, &data).unwrap();
                    let place = match at {
                        Some(at) => StreamOffset::At(at),
                        None if end => StreamOffset::End,
                        None => StreamOffset::Position,
                    };
                    let from = match place {
                        StreamOffset::At(at) => at,
                        StreamOffset::End => content.len() as u64,
                        StreamOffset::Position => position,
                    };
                    let size = kernel.objects.get(vmo).unwrap().size;
                    let fits = if resizable { total } else { total.min(size.saturating_sub(from)) };
                    let wrote = kernel.stream_write_all(stream, place, aspace, &parts(&lens));
                    if fits == 0 && total > 0 {
                        prop_assert_eq!(wrote, Err(Status::NO_SPACE));
                        continue;
                    }
                    prop_assert_eq!(wrote, Ok(fits));
                    let (from, fits) = (from as usize, fits as usize);
                    if fits > 0 {
                        content.resize(content.len().max(from + fits), 0);
                        content[from..from + fits].copy_from_slice(&data[..fits]);
                    }
                    if at.is_none() {
                        position = (from + fits) as u64;
                    }
                }
                Op::Seek(whence, offset) => {
                    let base = [0, position, content.len() as u64][whence as usize];
                    let expected = base.checked_add_signed(offset).ok_or(Status::INVALID_ARGS);
                    let target = kernel.stream_target(stream, whence, offset);
                    prop_assert_eq!(target, expected);
                    if let Ok(target) = target {
                        kernel.stream_seek(stream, target).unwrap();
                        position = target;
                    }
                }
                Op::Content(size) => {
                    if kernel.vmo_set_content_size(vmo, size).is_ok() {
                        content.resize(size as usize, 0);
                    }
                }
            }
            let (s, v) = (kernel.objects.get(stream).unwrap(), kernel.objects.get(vmo).unwrap());
            prop_assert_eq!((s.seek, v.content_size), (position, content.len() as u64));
            prop_assert!(v.content_size <= v.size);
        }
        kernel.reaper_enqueue(stream.object());
        kernel.reap();
        prop_assert!(kernel.objects.get(vmo).is_err(), "the stream let go of its VMO");
    }
}

/// A length that takes three slices.
const LONG: u64 = 2 * SLICE_COPY_BYTES + 5000;

/// A process with memory in which each word is its own offset, a second buffer for reads, and streams over a file.
struct Files {
    kernel: Kernel<FakeMachine>,
    space: Key,
    file: Id<Vmo>,
    streams: [Id<Stream>; 2],
}

const INTO: u64 = USER_BASE + 4 * SLICE_COPY_BYTES;

impl Files {
    fn new(resizable: bool, size: u64) -> Files {
        let mut kernel = Kernel::new(FakeMachine::new(4000)).unwrap();
        let job = kernel.root_job().unwrap();
        let (process, root) = kernel.process_create(job, Name::default()).unwrap();
        let buffer = kernel.vmo_create(8 * SLICE_COPY_BYTES, false).unwrap();
        let rw = Perm { read: true, write: true, execute: false };
        let request = MapRequest { vmo: buffer, offset: 0, len: 8 * SLICE_COPY_BYTES, perm: rw, max: rw, fixed: false };
        kernel.vmar_map(root, Place::At(0), request).unwrap();
        let space = kernel.objects.get(process).unwrap().aspace.unwrap();
        let words: Vec<u8> = (0..4 * SLICE_COPY_BYTES / 8).flat_map(|word| (word * 8).to_le_bytes()).collect();
        kernel.copy_out(space, USER_BASE, &words).unwrap();
        let file = kernel.vmo_create(size, resizable).unwrap();
        let both = ZX_STREAM_MODE_READ | ZX_STREAM_MODE_WRITE;
        let streams = [(); 2].map(|()| kernel.stream_create(file, both, 0, true).unwrap());
        Files { kernel, space, file, streams }
    }

    fn write(&mut self, stream: usize, at: StreamOffset, from: u64, len: u64, run: Option<Run>) -> TransferStep {
        let parts = [UserBuffer { address: USER_BASE + from, len }];
        self.kernel.stream_write(self.streams[stream], at, self.space, &parts, run).unwrap()
    }

    fn read(&mut self, stream: usize, len: u64, run: Option<Run>) -> TransferStep {
        let parts = [UserBuffer { address: INTO, len }];
        self.kernel.stream_read(self.streams[stream], StreamOffset::Position, self.space, &parts, run).unwrap()
    }

    /// Runs all remaining slices.
    fn rest(&mut self, carried: TransferStep, mut slice: impl FnMut(&mut Files, Option<Run>) -> TransferStep) -> u64 {
        match carried {
            TransferStep::Over(done) => done,
            TransferStep::GoesOn(run) => {
                let next = slice(self, Some(run));
                self.rest(next, slice)
            }
            TransferStep::Begins => {
                let next = slice(self, None);
                self.rest(next, slice)
            }
        }
    }

    /// The words of the file from `at` up, as offsets in the memory from which they were written.
    fn words(&mut self, at: u64, count: u64) -> Vec<u64> {
        let mut bytes = vec![0; count as usize * 8];
        self.kernel.vmo_read(self.file, at, &mut bytes).unwrap();
        bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
    }

    fn position(&self, stream: usize) -> u64 {
        self.kernel.objects.get(self.streams[stream]).unwrap().seek
    }

    fn content(&self) -> u64 {
        self.kernel.vmo_content_size(self.file).unwrap()
    }
}

fn goes_on(carried: TransferStep) -> Option<Run> {
    match carried {
        TransferStep::GoesOn(run) => Some(run),
        other => panic!("{other:?}"),
    }
}

#[test]
fn two_that_append_do_not_write_over_each_other() {
    let mut files = Files::new(true, 0);
    let first = files.write(0, StreamOffset::End, 0, LONG, None);
    goes_on(first);
    let second = files.write(1, StreamOffset::End, 8, LONG, None);
    goes_on(second);
    assert_eq!(files.rest(first, |files, run| files.write(0, StreamOffset::End, 0, LONG, run)), LONG);
    assert_eq!(files.rest(second, |files, run| files.write(1, StreamOffset::End, 8, LONG, run)), LONG);
    assert_eq!((files.content(), files.position(0), files.position(1)), (2 * LONG, LONG, 2 * LONG));
    let expected: Vec<u64> = (0..LONG / 8).map(|word| word * 8).collect();
    assert_eq!(files.words(0, LONG / 8), expected);
    let expected: Vec<u64> = (0..LONG / 8).map(|word| word * 8 + 8).collect();
    assert_eq!(files.words(LONG, LONG / 8), expected);
}

#[test]
fn two_that_read_at_the_position_read_each_byte_once() {
    let mut files = Files::new(false, 8 * SLICE_COPY_BYTES);
    let written = files.write(1, StreamOffset::Position, 0, 4 * SLICE_COPY_BYTES, None);
    files.rest(written, |files, run| files.write(1, StreamOffset::Position, 0, 4 * SLICE_COPY_BYTES, run));
    files.kernel.vmo_set_content_size(files.file, LONG + 100).unwrap();
    let first = files.read(0, LONG, None);
    goes_on(first);
    assert_eq!(files.read(0, LONG, None), TransferStep::Over(100));
    assert_eq!(files.rest(first, |files, run| files.read(0, LONG, run)), LONG);
    assert_eq!(files.position(0), LONG + 100);
}

#[test]
fn pages_cut_off_meanwhile_are_not_written_again() {
    for at in [StreamOffset::Position, StreamOffset::End] {
        let mut files = Files::new(true, 0);
        let first = goes_on(files.write(0, at, 0, LONG, None));
        files.kernel.vmo_set_content_size(files.file, 16).unwrap();
        assert_eq!(files.write(0, at, 0, LONG, first), TransferStep::Over(SLICE_COPY_BYTES));
        assert_eq!((files.content(), files.position(0)), (16, SLICE_COPY_BYTES));
        let first = goes_on(files.write(0, StreamOffset::At(0), 0, LONG, None));
        files.kernel.vmo_set_size(files.file, 0).unwrap();
        assert_eq!(files.write(0, StreamOffset::At(0), 0, LONG, first), TransferStep::Over(SLICE_COPY_BYTES));
        assert_eq!((files.content(), files.position(0)), (0, SLICE_COPY_BYTES));
    }
}

#[test]
fn a_read_ends_where_the_content_ends_by_then() {
    let mut files = Files::new(false, 8 * SLICE_COPY_BYTES);
    let first = goes_on(files.read(0, LONG, None));
    assert_eq!(files.position(0), LONG);
    files.kernel.vmo_set_content_size(files.file, SLICE_COPY_BYTES + 7).unwrap();
    assert_eq!(files.read(0, LONG, first), TransferStep::Over(SLICE_COPY_BYTES + 7));
    assert_eq!(files.position(0), SLICE_COPY_BYTES + 7);
}

#[test]
fn a_buffer_that_ends_in_a_later_slice() {
    let mut files = Files::new(true, 0);
    let from = 8 * SLICE_COPY_BYTES - (SLICE_COPY_BYTES + PAGE);
    let written = files.write(0, StreamOffset::End, from, LONG, None);
    goes_on(written);
    assert_eq!(files.content(), LONG);
    assert_eq!(
        files.rest(written, |files, run| files.write(0, StreamOffset::End, from, LONG, run)),
        SLICE_COPY_BYTES + PAGE
    );
    assert_eq!((files.content(), files.position(0)), (SLICE_COPY_BYTES + PAGE, SLICE_COPY_BYTES + PAGE));
}

#[test]
fn nothing_is_kept_of_one_whose_buffer_is_none() {
    let mut files = Files::new(true, 2 * PAGE);
    let parts = [UserBuffer { address: 0, len: LONG }];
    let wrote = files.kernel.stream_write(files.streams[0], StreamOffset::End, files.space, &parts, None);
    assert_eq!(wrote, Err(Status::NOT_FOUND));
    let size = files.kernel.vmo_size(files.file).unwrap();
    assert_eq!((size, files.content(), files.position(0)), (2 * PAGE, 2 * PAGE, 0));
}

#[test]
fn content_grows_by_zeroes_in_slices_during_which_others_write() {
    let mut files = Files::new(false, 16 * SLICE_COPY_BYTES);
    for at in [0, 6 * SLICE_COPY_BYTES, 15 * SLICE_COPY_BYTES] {
        assert_eq!(files.write(0, StreamOffset::At(at), 8, PAGE, None), TransferStep::Over(PAGE));
    }
    files.kernel.vmo_set_content_size(files.file, 0).unwrap();
    assert_eq!(files.kernel.vmo_set_content_size_slice(files.file, 16 * SLICE_COPY_BYTES), Ok(true));
    let zeroed = files.content();
    assert_eq!(files.words(0, 1), [0]);
    assert_eq!(files.words(6 * SLICE_COPY_BYTES, 1), [8], "it is not its turn");
    assert_eq!(files.write(1, StreamOffset::At(zeroed), 16, 16, None), TransferStep::Over(16));
    files.kernel.vmo_set_content_size(files.file, 16 * SLICE_COPY_BYTES).unwrap();
    assert_eq!(files.words(zeroed, 3), [16, 24, 0]);
    assert_eq!(files.words(6 * SLICE_COPY_BYTES, 1), [0]);
    assert_eq!(files.words(15 * SLICE_COPY_BYTES, 1), [0]);
}

#[test]
fn the_gap_before_a_write_is_zeroed_in_slices() {
    let mut files = Files::new(false, 16 * SLICE_COPY_BYTES);
    assert_eq!(files.write(0, StreamOffset::At(6 * SLICE_COPY_BYTES), 8, PAGE, None), TransferStep::Over(PAGE));
    files.kernel.vmo_set_content_size(files.file, 0).unwrap();
    let begun = files.write(0, StreamOffset::At(15 * SLICE_COPY_BYTES), 24, 16, None);
    assert_eq!(begun, TransferStep::Begins);
    assert_eq!(
        files.rest(begun, |files, run| files.write(0, StreamOffset::At(15 * SLICE_COPY_BYTES), 24, 16, run)),
        16
    );
    assert_eq!((files.words(6 * SLICE_COPY_BYTES, 1), files.words(15 * SLICE_COPY_BYTES, 2)), (vec![0], vec![24, 32]));
    assert_eq!(files.content(), 15 * SLICE_COPY_BYTES + 16);
}

/// A write longer than its readable part, into a file that is large enough already.
#[test]
fn pages_are_made_for_bytes_that_are_there_only() {
    for len in [SLICE_COPY_BYTES / 2, 1 << 40] {
        let mut files = Files::new(true, 16 * SLICE_COPY_BYTES);
        let size = files.kernel.vmo_size(files.file).unwrap();
        let at = size - len.min(8 * SLICE_COPY_BYTES);
        let parts = [UserBuffer { address: USER_BASE, len: 16 }, UserBuffer { address: 0, len }];
        let wrote = files.kernel.stream_write_all(files.streams[0], StreamOffset::At(at), files.space, &parts);
        assert_eq!(wrote, Ok(16));
        let pages = files.kernel.objects.get(files.file).unwrap().pages().unwrap().len();
        assert!(pages <= SLICE_COPY_BYTES / PAGE, "{pages} pages were made");
    }
}
