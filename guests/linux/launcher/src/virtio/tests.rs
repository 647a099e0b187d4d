//! A block device over memory, as a driver sees it.

use std::io::{Error, ErrorKind};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, PoisonError};

use super::block::{Backing, Block};
use super::queue::tests::{BUFFERS, Driver};
use super::*;

const NEXT: u16 = 1;
const WRITE: u16 = 2;
const BYTES: usize = 64 << 10;

/// What a test sees of the content.
#[derive(Default)]
struct Seen {
    bytes: Vec<u8>,
    flushed: usize,
}

struct Content {
    seen: Arc<Mutex<Seen>>,
    read_only: bool,
    fails: bool,
    block: u32,
}

impl Content {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fails(&self) -> std::io::Result<()> {
        if self.fails { Err(Error::from(ErrorKind::StorageFull)) } else { Ok(()) }
    }
}

impl Backing for Content {
    fn block(&self) -> u32 {
        self.block
    }

    fn size(&self) -> u64 {
        self.seen().bytes.len() as u64
    }

    fn read_only(&self) -> bool {
        self.read_only
    }

    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> std::io::Result<()> {
        self.fails()?;
        bytes.copy_from_slice(&self.seen().bytes[offset as usize..][..bytes.len()]);
        Ok(())
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        self.fails()?;
        assert!(!self.read_only, "a device that cannot be written is written");
        self.seen().bytes[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.fails()?;
        self.seen().flushed += 1;
        Ok(())
    }
}

/// A started device, its driver, and what happens.
struct Machine {
    virtio: Virtio,
    driver: Driver,
    seen: Arc<Mutex<Seen>>,
    told: Arc<AtomicUsize>,
    answers: usize,
}

impl Machine {
    fn new(change: impl FnOnce(&mut Content)) -> Machine {
        let bytes = (0..BYTES).map(|n| (n / 512) as u8).collect();
        let seen = Arc::new(Mutex::new(Seen { bytes, flushed: 0 }));
        let mut content = Content { seen: seen.clone(), read_only: false, fails: false, block: 512 };
        change(&mut content);
        let told = Arc::new(AtomicUsize::new(0));
        let tell = Box::new({
            let told = told.clone();
            move || {
                told.fetch_add(1, Ordering::SeqCst);
            }
        });
        let virtio = Virtio::new(vec![Box::new(Block::new(content))], tell);
        let mut driver = Driver::new();
        assert!(virtio.queue_start(0, 0, Some(driver.queue())));
        virtio.set_status(0, DRIVER_OK | 3);
        Machine { virtio, driver, seen, told, answers: 0 }
    }

    /// Makes a request with `len` bytes of data at [`BUFFERS`] + 512, in two parts; returns the answer's byte, and how
    /// many bytes were written.
    fn request(&mut self, kind: u32, sector: u64, len: u32) -> (u8, u32) {
        let at = BUFFERS as usize;
        self.driver.bytes[at..at + 4].copy_from_slice(&kind.to_le_bytes());
        self.driver.bytes[at + 8..at + 16].copy_from_slice(&sector.to_le_bytes());
        self.driver.bytes[at + 16] = 0xee;
        let direction = if kind == 0 { WRITE } else { 0 };
        self.driver.descriptor(0, 0, BUFFERS, 16, NEXT, 1);
        self.driver.descriptor(0, 1, BUFFERS + 512, len / 3, NEXT | direction, 2);
        self.driver.descriptor(0, 2, BUFFERS + 512 + u64::from(len / 3), len - len / 3, NEXT | direction, 3);
        self.driver.descriptor(0, 3, BUFFERS + 16, 1, WRITE, 0);
        self.driver.offer(0);
        assert!(self.virtio.step(0, &self.driver.memory()));
        let (_, written, _) = self.driver.answer(self.answers);
        self.answers += 1;
        assert!(!self.virtio.step(0, &self.driver.memory()), "there was one request");
        (self.driver.bytes[at + 16], written)
    }

    fn data(&mut self, len: usize) -> &mut [u8] {
        &mut self.driver.bytes[BUFFERS as usize + 512..][..len]
    }
}

#[test]
fn sectors_are_read_and_written() {
    let mut machine = Machine::new(|_| {});
    assert_eq!(machine.request(0, 3, 1024), (0, 1025));
    assert!(machine.data(512).iter().all(|byte| *byte == 3));
    assert!(machine.data(1024)[512..].iter().all(|byte| *byte == 4));
    machine.data(1024).fill(0xaa);
    assert_eq!(machine.request(1, 126, 1024), (0, 1));
    let seen = machine.seen.lock().expect("no panic");
    assert!(seen.bytes[126 * 512..].iter().all(|byte| *byte == 0xaa));
    assert!(seen.bytes[125 * 512..126 * 512].iter().all(|byte| *byte == 125));
}

#[test]
fn nothing_beyond_the_end_is_reached() {
    let mut machine = Machine::new(|_| {});
    for (kind, sector, len) in
        [(0, 127, 1024), (1, 127, 1024), (0, 128, 512), (1, u64::MAX, 512), (0, u64::MAX / 512, 512)]
    {
        assert_eq!(machine.request(kind, sector, len), (1, 1), "{kind} {sector} {len}");
    }
    assert_eq!(machine.request(1, 0, 700), (1, 1), "a part of a sector");
    assert_eq!(machine.seen.lock().expect("no panic").bytes[..1024], [vec![0; 512], vec![1; 512]].concat());
}

#[test]
fn larger_blocks_are_whole() {
    let mut machine = Machine::new(|content| content.block = 4096);
    assert_eq!(machine.request(0, 8, 4096), (0, 4097));
    assert_eq!(machine.request(0, 1, 4096), (1, 1));
    assert_eq!(machine.request(1, 8, 512), (1, 1));
}

#[test]
fn a_read_only_device_is_not_written() {
    let mut machine = Machine::new(|content| content.read_only = true);
    assert_ne!(machine.virtio.features(0) & 1 << 5, 0);
    assert_eq!(machine.request(1, 0, 512), (1, 1));
    assert_eq!(machine.request(0, 1, 512), (0, 513));
}

#[test]
fn errors_are_answers() {
    let mut machine = Machine::new(|content| content.fails = true);
    for kind in [0, 1, 4] {
        assert_eq!(machine.request(kind, 0, 512).0, 1, "{kind}");
    }
    assert_eq!(machine.request(11, 0, 512).0, 2, "discard is not offered");
}

#[test]
fn a_flush_reaches_the_content() {
    let mut machine = Machine::new(|_| {});
    assert_eq!(machine.request(4, 0, 0), (0, 1));
    assert_eq!(machine.seen.lock().expect("no panic").flushed, 1);
}

#[test]
fn interrupts_are_told_once_until_they_are_taken() {
    let mut machine = Machine::new(|_| {});
    machine.request(0, 0, 512);
    machine.request(0, 0, 512);
    assert_eq!(machine.told.load(Ordering::SeqCst), 1);
    assert_eq!((machine.virtio.interrupts(), machine.virtio.interrupts()), (1, 0));
    // The driver wants none.
    machine.driver.bytes[0x100] = 1;
    machine.request(0, 0, 512);
    assert_eq!((machine.virtio.interrupts(), machine.told.load(Ordering::SeqCst)), (0, 1));
}

#[test]
fn a_ring_that_makes_no_sense_stops_its_device_until_it_is_reset() {
    let mut machine = Machine::new(|_| {});
    machine.driver.offer(9);
    assert!(!machine.virtio.step(0, &machine.driver.memory()));
    assert_ne!(machine.virtio.status(0) & NEEDS_RESET, 0);
    machine.virtio.set_status(0, 0);
    assert!(!machine.virtio.step(0, &machine.driver.memory()), "there is no queue");
    machine.driver = Driver::new();
    assert!(machine.virtio.queue_start(0, 0, Some(machine.driver.queue())));
    machine.virtio.set_status(0, DRIVER_OK);
    assert_eq!(machine.request(0, 1, 512), (0, 513));
}

#[test]
fn requests_without_header_or_answer_stop_the_device() {
    for (readable, writable) in [(15, 1), (16, 0), (0, 1)] {
        let mut machine = Machine::new(|_| {});
        machine.driver.descriptor(0, 0, BUFFERS, readable, NEXT, 1);
        machine.driver.descriptor(0, 1, BUFFERS + 16, writable, WRITE, 0);
        machine.driver.offer(0);
        assert!(!machine.virtio.step(0, &machine.driver.memory()));
        assert_ne!(machine.virtio.status(0) & NEEDS_RESET, 0, "{readable} {writable}");
    }
}

#[test]
fn what_is_not_there_is_not_had() {
    let mut machine = Machine::new(|_| {});
    let virtio = &machine.virtio;
    assert_eq!((virtio.count(), virtio.id(1), virtio.features(7), virtio.status(9)), (1, 0, 0, 0));
    assert_eq!((virtio.queue_size(0, 0), virtio.queue_size(0, 1), virtio.queue_size(1, 0)), (128, 0, 0));
    assert!(virtio.accept(0, VERSION_1) && !virtio.accept(0, 1 << 40 | VERSION_1) && !virtio.accept(0, 0));
    let bytes = |device, offset: u32| [0, 1, 2, 3].map(|n| virtio.config(device, offset.wrapping_add(n)));
    assert_eq!((bytes(0, 0), bytes(0, 20), bytes(0, 24)), ([128, 0, 0, 0], [0, 2, 0, 0], [0; 4]));
    assert_eq!((bytes(0, u32::MAX - 3), bytes(5, 0)), ([0; 4], [0; 4]));
    let queue = machine.driver.queue();
    assert!(!machine.virtio.queue_start(0, 1, Some(queue.clone())) && !machine.virtio.queue_start(1, 0, Some(queue)));
    assert!(!machine.virtio.queue_start(0, 0, None));
    machine.virtio.kick(3);
    machine.virtio.set_status(3, 4);
}
