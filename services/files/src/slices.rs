//! Tests that long operations run in slices: no step makes more than a fixed number of disk accesses, however large the
//! file is.

use std::io::Cursor;

use fatfs::{FatType, FormatVolumeOptions};
use file_protocol::Error;
use rsext4::MkfsOptions;

use crate::ext4::{Ext4, SystemClock, device::Device};
use crate::fat::Fat;
use crate::system::{FileSystem, New, Node};
use crate::test_disk::{Memory, write_all};

/// Size of the large file, more than any slice handles.
const LARGE: u64 = 100 << 20;
/// Maximum number of disk accesses of a step: reads, writes and flushes.
const MOST: u64 = 6000;

fn ext4() -> (Memory, Ext4) {
    let disk = Memory::of(vec![0; 160 << 20]);
    rsext4::format(Device::new(Box::new(disk.clone())), SystemClock, MkfsOptions::default()).unwrap();
    let fs = Ext4::mount(Device::new(Box::new(disk.clone()))).unwrap();
    (disk, fs)
}

fn fat() -> (Memory, Fat) {
    let mut bytes = vec![0; 160 << 20];
    let options = FormatVolumeOptions::new().fat_type(FatType::Fat32).bytes_per_cluster(2048);
    fatfs::format_volume(Cursor::new(&mut bytes), options).unwrap();
    let disk = Memory::of(bytes);
    let fs = Fat::mount(Box::new(disk.clone())).unwrap();
    (disk, fs)
}

/// Runs a step and checks its number of disk accesses.
fn step<T>(disk: &Memory, what: &str, step: impl FnOnce() -> T) -> T {
    disk.0.borrow_mut().asked = 0;
    let done = step();
    let asked = disk.0.borrow().asked;
    assert!(asked <= MOST, "{what} asks the disk {asked} times in a step");
    done
}

/// Changes the size of a file in steps; returns their number.
fn resize(disk: &Memory, fs: &mut impl FileSystem, file: Node, size: u64) -> usize {
    let mut steps = 1;
    while !step(disk, "set_len", || fs.resize_some(file, size)).unwrap() {
        steps += 1;
    }
    assert_eq!(fs.size(file), Ok(size));
    steps
}

fn play(disk: &Memory, fs: &mut impl FileSystem) {
    let root = fs.root();
    let file = fs.make(root, b"large", New::File(0o644)).unwrap();
    fs.hold(file);
    if fs.fills_holes() {
        assert!(resize(disk, fs, file, LARGE) > 10);
    } else {
        for at in (0..LARGE).step_by(1 << 20) {
            write_all(fs, file, at, &[7; 1 << 20]);
        }
    }
    fs.sync().unwrap();
    let used = fs.information().used_bytes;
    assert!(resize(disk, fs, file, LARGE / 2) > 1);
    assert!(fs.information().used_bytes < used - LARGE / 3);
    // Removed while it is open, then closed.
    fs.unlink(root, b"large").unwrap();
    step(disk, "close", || fs.release(file));
    assert!(fs.has_work(), "a large file is removed at once");
    assert_eq!(fs.find(root, b"large"), Err(Error::NotFound));
    let mut steps = 0;
    while fs.has_work() {
        step(disk, "what was put off", || fs.work());
        steps += 1;
    }
    assert!(steps > 1);
    fs.settle();
    fs.sync().unwrap();
    assert!(fs.information().used_bytes < used - LARGE + (1 << 20));
    // Removed, or replaced by a rename, while it is not open.
    for replaced in [false, true] {
        let file = fs.make(root, b"large", New::File(0o644)).unwrap();
        fs.hold(file);
        if fs.fills_holes() {
            resize(disk, fs, file, LARGE / 2);
        } else {
            for at in (0..LARGE / 2).step_by(1 << 20) {
                write_all(fs, file, at, &[7; 1 << 20]);
            }
        }
        fs.release(file);
        fs.settle();
        if replaced {
            fs.make(root, b"small", New::File(0o644)).unwrap();
            step(disk, "rename", || fs.rename((root, b"small"), (root, b"large"))).unwrap();
        } else {
            step(disk, "remove", || fs.unlink(root, b"large")).unwrap();
        }
        assert!(fs.has_work(), "a large file is removed at once");
        // A sync while no file is open finishes everything.
        fs.settle();
        while fs.has_work() {
            step(disk, "what was put off", || fs.work());
        }
        fs.sync().unwrap();
        assert!(fs.information().used_bytes < used - LARGE + (1 << 20));
    }
}

#[test]
fn ext4_without_open_files() {
    let (disk, mut fs) = ext4();
    play(&disk, &mut fs);
    drop(fs);
    let mut fs = Ext4::mount(Device::new(Box::new(disk))).unwrap();
    let root = fs.root();
    let large = fs.find(root, b"large").unwrap();
    assert_eq!(fs.size(large), Ok(0));
}

#[test]
fn fat_without_open_files() {
    let (disk, mut fs) = fat();
    play(&disk, &mut fs);
    drop(fs);
    let mut fs = Fat::mount(Box::new(disk)).unwrap();
    let root = fs.root();
    let large = fs.find(root, b"large").unwrap();
    assert_eq!(fs.size(large), Ok(0));
}

/// A directory whose chain of clusters has a cycle soon causes an error.
#[test]
fn a_directory_that_leads_in_circles_ends() {
    let (disk, mut fs) = fat();
    let root = fs.root();
    let dir = fs.make(root, b"dir", New::Directory(0)).unwrap();
    for index in 0..100 {
        fs.make(dir, format!("a name that takes some room {index}").as_bytes(), New::File(0)).unwrap();
    }
    fs.sync().unwrap();
    fs.bite_tail(dir);
    drop(fs);
    let mut fs = Fat::mount(Box::new(disk.clone())).unwrap();
    let dir = fs.find(root, b"dir").unwrap();
    let (mut cookie, mut told) = (0, 0);
    for _ in 0..200 {
        let mut data = Vec::new();
        let fuel = fs.fuel_for(|fs| fs.entries(dir, cookie, &mut data));
        assert!(fuel.1 <= 300_000, "a list takes {} pieces", fuel.1);
        if fuel.0.is_err() {
            break;
        }
        let Some(last) = file_protocol::entries(&data).last() else { break };
        cookie = last.cookie;
        told += 1;
    }
    assert!(told < 200, "the list has no end");
    let (found, fuel) = fs.fuel_for(|fs| fs.find(dir, b"not there"));
    assert_eq!(found, Err(Error::Damaged));
    assert!(fuel <= 300_000, "a name takes {fuel} pieces");
}
