//! Tests with corrupted images. Errors are allowed; uncaught panics and endless calls are not.
//!
//! 500 images of each kind, each with its own seed, so that a harmful one can be reproduced. `HAFNON_IMAGES` sets the
//! number.

use std::cell::Cell;
use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fatfs::{FatType, FormatVolumeOptions};
use file_protocol::{Change, Kind, entries};
use rsext4::MkfsOptions;

use cuts::Random;

use crate::ext4::{Ext4, SystemClock, device::Device};
use crate::fat::Fat;
use crate::system::{FileSystem, New, Node};
use crate::test_disk::{Memory, write_all};

/// Maximum number of disk accesses of a call.
const MOST: u64 = 100_000;

thread_local! {
    /// The most disk accesses of a call so far.
    static ASKED: Cell<u64> = const { Cell::new(0) };
}

/// Makes every kind of call on everything in the image, and ignores the results.
struct Poke<'a, F> {
    fs: &'a mut F,
    disk: &'a Memory,
}

impl<F: FileSystem> Poke<'_, F> {
    /// Makes a call and counts its disk accesses.
    fn call<T>(&mut self, call: impl FnOnce(&mut F) -> T) -> T {
        self.disk.0.borrow_mut().asked = 0;
        let done = call(self.fs);
        self.fs.settle();
        let asked = self.disk.0.borrow().asked;
        ASKED.set(ASKED.get().max(asked));
        done
    }

    fn poke(&mut self, directory: Node, depth: u32) {
        let mut data = Vec::new();
        let _ = self.call(|fs| fs.entries(directory, 0, &mut data));
        for entry in entries(&data).take(12) {
            let Ok(node) = self.call(|fs| fs.find(directory, entry.name)) else { continue };
            self.call(|fs| fs.hold(node));
            let _ = self.call(|fs| fs.attributes(node));
            let _ = self.call(|fs| fs.target(node));
            if entry.kind == Kind::Directory && depth < 3 {
                self.poke(node, depth + 1);
            }
            let mut bytes = [0; 4000];
            let size = self.call(|fs| fs.size(node)).unwrap_or(0);
            let _ = self.call(|fs| fs.read(node, 0, &mut bytes));
            let _ = self.call(|fs| fs.read(node, size / 2, &mut bytes));
            let _ = self.call(|fs| fs.write(node, size.min(100_000), &bytes));
            let _ = self.call(|fs| fs.resize_some(node, 3));
            let _ = self.call(|fs| fs.change(node, &Change { modified: Some(0), ..Change::default() }));
            let _ = self.call(|fs| fs.rename((directory, entry.name), (directory, b"renamed")));
            let _ = self.call(|fs| fs.link(node, directory, b"linked"));
            let _ = self.call(|fs| fs.unlink(directory, b"renamed"));
            self.call(|fs| fs.release(node));
            if self.fs.has_work() {
                self.call(F::work);
            }
        }
        let _ = self.call(|fs| fs.make(directory, b"made", New::Directory(0o755)));
        let _ = self.call(|fs| fs.make(directory, b"file", New::File(0o644)));
        let _ = self.call(F::sync);
        let _ = self.call(F::information);
    }
}

/// Creates some files, directories and links.
fn fill(fs: &mut impl FileSystem) {
    let root = fs.root();
    let dir = fs.make(root, b"dir", New::Directory(0o755)).unwrap();
    let inner = fs.make(dir, b"a directory in it", New::Directory(0o755)).unwrap();
    for (index, place) in [root, dir, inner].into_iter().enumerate() {
        for name in ["a", "b", "long name of a file", "another one"] {
            let file = fs.make(place, name.as_bytes(), New::File(0o644)).unwrap();
            fs.hold(file);
            write_all(fs, file, 0, &vec![5; 3000 + 20_000 * index]);
            fs.release(file);
        }
        let _ = fs.make(place, b"link", New::Link(b"dir/a"));
    }
    fs.settle();
    fs.sync().unwrap();
}

/// Mounts corrupted images and uses those that can be mounted.
fn damaged<F: FileSystem>(
    what: &str,
    image: &[u8],
    places: &[std::ops::Range<usize>],
    mount: impl Fn(Memory) -> std::result::Result<F, String>,
) {
    let images = std::env::var("HAFNON_IMAGES").ok().and_then(|images| images.parse().ok()).unwrap_or(40);
    let mut mounted = 0;
    for seed in 0..images {
        let mut lot = Random::new(seed as u64 * 2_654_435_761 + 88_172_645_463_325_252);
        let mut bytes = image.to_vec();
        // Some images get damage in the header, others behind it.
        let place = &places[lot.below(places.len())];
        for _ in 0..=lot.below(60) {
            bytes[place.start + lot.below(place.len())] = lot.below(256) as u8;
        }
        let disk = Memory::of(bytes);
        let done = catch_unwind(AssertUnwindSafe(|| {
            disk.0.borrow_mut().asked = 0;
            let fs = mount(disk.clone());
            ASKED.set(ASKED.get().max(disk.0.borrow().asked));
            let Ok(mut fs) = fs else { return false };
            let root = fs.root();
            Poke { fs: &mut fs, disk: &disk }.poke(root, 0);
            true
        }));
        mounted += usize::from(done.unwrap_or_else(|_| panic!("{what}: the image of seed {seed} makes it panic")));
        assert!(ASKED.get() <= MOST, "{what}: with seed {seed} a call asks the disk {} times", ASKED.get());
    }
    println!("{what}: {images} images, {mounted} mounted, a call asks the disk {} times at most", ASKED.take());
    assert!(mounted > images / 10, "{what}: only {mounted} were mounted");
}

fn fat_images(kind: FatType, mib: usize) {
    let mut bytes = vec![0; mib << 20];
    let options = FormatVolumeOptions::new().fat_type(kind).bytes_per_cluster(512);
    fatfs::format_volume(Cursor::new(&mut bytes), options).unwrap();
    let disk = Memory::of(bytes);
    fill(&mut Fat::mount(Box::new(disk.clone())).unwrap());
    let bytes = disk.0.borrow().bytes.clone();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    let places = [0..64, 512..used, 512..(512 + used / 8)];
    damaged(&format!("{kind:?}"), &bytes, &places, |disk| Fat::mount(Box::new(disk)));
}

#[test]
fn fat12() {
    fat_images(FatType::Fat12, 1);
}

#[test]
fn fat16() {
    fat_images(FatType::Fat16, 3);
}

#[test]
fn fat32() {
    fat_images(FatType::Fat32, 36);
}

/// Without checksums, fewer errors are detected early.
fn ext4_images(what: &str, options: MkfsOptions) {
    let disk = Memory::of(vec![0; 12 << 20]);
    rsext4::format(Device::new(Box::new(disk.clone())), SystemClock, options).unwrap();
    fill(&mut Ext4::mount(Device::new(Box::new(disk.clone()))).unwrap());
    let bytes = disk.0.borrow().bytes.clone();
    // Superblock and descriptors; tables and directories.
    let places = [1024..4096, 4096..400_000, 1024..1_500_000];
    damaged(what, &bytes, &places, |disk| Ext4::mount(Device::new(Box::new(disk))));
}

#[test]
fn ext4() {
    ext4_images("ext4", MkfsOptions { block_size: 1024, ..MkfsOptions::default() });
}
