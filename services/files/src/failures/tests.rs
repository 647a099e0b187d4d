//! Fails one write or flush of the disk, each in turn. Every writer gets one error, and all data that a sync promised
//! can be read.

use std::cell::Cell;

use fatfs::{FatType, FormatVolumeOptions};
use file_protocol::{Error, Result};
use rsext4::MkfsOptions;

use super::Failures;
use crate::ext4::{Ext4, device::Device};
use crate::fat::Fat;
use crate::system::{FileSystem, New, Node};
use crate::test_disk::{Memory, content};

/// Bytes of one append.
const PIECE: usize = 3000;

/// An open file that is only appended to.
struct Open {
    name: String,
    node: Node,
    known: Cell<u64>,
    /// Its content, as far as all its writes succeeded.
    content: Vec<u8>,
    /// Length of the content that a sync has promised.
    promised: usize,
    /// How many errors it got about lost data.
    told: u32,
    /// It got an error, so its content is unknown.
    torn: bool,
}

/// A file system with open files, as the service keeps them.
struct Served<F> {
    fs: F,
    failures: Failures,
    open: Vec<Open>,
    /// Number of requests that failed.
    errors: u32,
}

impl<F: FileSystem> Served<F> {
    /// Makes a request on behalf of a description.
    fn request<T>(
        &mut self,
        index: usize,
        request: impl FnOnce(&mut F, &mut Failures, &Open) -> Result<T>,
    ) -> Result<T> {
        let open = &mut self.open[index];
        let told = self.failures.is_reported(open.node, &open.known);
        let done = request(&mut self.fs, &mut self.failures, open);
        self.fs.settle();
        self.failures.note(&mut self.fs);
        if let Err(error) = &done {
            if *error == Error::Damaged {
                open.told += 1;
                if told {
                    self.failures.report(open.node, &open.known);
                }
            }
            open.torn = true;
            self.errors += 1;
        }
        done
    }

    fn make(&mut self, name: &str) {
        let root = self.fs.root();
        let made = self.fs.make(root, name.as_bytes(), New::File(0o644));
        if let Ok(node) = made {
            self.fs.hold(node);
        }
        self.fs.settle();
        self.failures.note(&mut self.fs);
        let Ok(node) = made else {
            self.errors += 1;
            return;
        };
        let known = self.failures.opened(node);
        self.failures.changes(node);
        let (name, content) = (name.to_owned(), Vec::new());
        self.open.push(Open { name, node, known, content, promised: 0, told: 0, torn: false });
    }

    fn append(&mut self, index: usize, byte: u8) {
        if index >= self.open.len() {
            return;
        }
        let written = self.request(index, |fs, failures, open| {
            failures.check(open.node, &open.known)?;
            failures.changes(open.node);
            fs.write(open.node, open.content.len() as u64, &[byte; PIECE])
        });
        let open = &mut self.open[index];
        if !open.torn && written == Ok(PIECE) {
            open.content.extend([byte; PIECE]);
        }
    }

    fn sync(&mut self, index: usize) {
        if index >= self.open.len() {
            return;
        }
        let synced = self.request(index, |fs, failures, open| {
            let done = fs.sync();
            failures.check(open.node, &open.known)?;
            done
        });
        let open = &mut self.open[index];
        if synced.is_ok() && !open.torn {
            open.promised = open.content.len();
        }
    }
}

/// Runs a few operations on a disk that fails at the given access; returns whether that access was reached.
fn play<F: FileSystem>(disk: &Memory, mount: &impl Fn(&Memory) -> F, fails_in: u32, once: bool) -> bool {
    let (failures, open) = (Failures::default(), Vec::new());
    let mut served = Served { fs: mount(disk), failures, open, errors: 0 };
    for name in ["one", "two"] {
        served.make(name);
        served.append(served.open.len() - 1, b'0');
    }
    served.sync(0);
    served.sync(1);
    {
        let mut state = disk.0.borrow_mut();
        (state.fails_in, state.fails_once) = (Some(fails_in), once);
    }
    served.append(0, b'a');
    served.append(1, b'b');
    served.sync(0);
    served.append(1, b'c');
    served.make("three");
    served.append(2, b'd');
    served.append(0, b'e');
    served.sync(1);
    served.append(0, b'f');
    let reached = disk.0.borrow().fails_in.is_none_or(|left| left == 0);
    // Some descriptions may still have an error due.
    for _ in 0..3 {
        (0..3).for_each(|index| served.sync(index));
    }
    let what = format!("fails at {fails_in}{}", if once { " once" } else { "" });
    assert!(!reached || served.errors > 0, "{what}: nobody was told");
    if once {
        let told: Vec<u32> = served.open.iter().map(|open| open.told).collect();
        assert!(told.iter().all(|told| *told <= 1), "{what}: told {told:?} times");
    }
    let open = served.open;
    drop(served.fs);
    disk.0.borrow_mut().fails_in = None;
    let mut fs = mount(disk);
    for open in open {
        let Open { name, promised, .. } = &open;
        let root = fs.root();
        let node = fs.find(root, name.as_bytes());
        if *promised == 0 && node.is_err() {
            continue;
        }
        let node = node.unwrap_or_else(|error| panic!("{what}: {name} is gone: {error:?}"));
        let found = content(&mut fs, node);
        assert!(found.starts_with(&open.content[..*promised]), "{what}: {name} has lost what was synced");
    }
    reached
}

fn sweep<F: FileSystem>(empty: &Memory, mount: impl Fn(&Memory) -> F) {
    let empty = || Memory::of(empty.0.borrow().bytes.clone());
    for once in [true, false] {
        let mut acts = 0;
        while play(&empty(), &mount, acts, once) {
            acts += 1;
        }
        assert!(acts > 10, "only {acts} writes and flushes");
    }
}

fn fat16() -> Memory {
    let mut bytes = vec![0; 8 << 20];
    let options = FormatVolumeOptions::new().fat_type(FatType::Fat16).bytes_per_cluster(512);
    fatfs::format_volume(std::io::Cursor::new(&mut bytes), options).unwrap();
    Memory::of(bytes)
}

#[test]
fn a_writer_to_ext4_gets_a_lost_write_once() {
    let disk = Memory::of(vec![0; 24 << 20]);
    rsext4::format(Device::new(Box::new(disk.clone())), crate::ext4::SystemClock, MkfsOptions::default()).unwrap();
    sweep(&disk, |disk| Ext4::mount(Device::new(Box::new(disk.clone()))).unwrap());
}

#[test]
fn a_writer_to_fat_gets_a_lost_write_once() {
    sweep(&fat16(), |disk| Fat::mount(Box::new(disk.clone())).unwrap());
}

/// Each description of a file gets a failure; a later description gets it only if no other one did.
#[test]
fn each_open_description_is_notified() {
    let disk = fat16();
    let mut fs = Fat::mount(Box::new(disk.clone())).unwrap();
    let (root, mut failures) = (fs.root(), Failures::default());
    let node = fs.make(root, b"file", New::File(0)).unwrap();
    fs.hold(node);
    let (one, two) = (failures.opened(node), failures.opened(node));
    failures.changes(node);
    fs.write(node, 0, b"content").unwrap();
    failures.note(&mut fs);
    disk.0.borrow_mut().fails_in = Some(0);
    assert_eq!(fs.sync(), Err(Error::Damaged));
    failures.note(&mut fs);
    let late = failures.opened(node);
    assert_eq!(failures.check(node, &late), Err(Error::Damaged), "nobody was told before it was opened");
    for known in [&one, &two] {
        assert_eq!(failures.check(node, known), Err(Error::Damaged));
        assert_eq!(failures.check(node, known), Ok(()));
    }
    let later = failures.opened(node);
    assert_eq!(failures.check(node, &later), Ok(()));
    assert_eq!((fs.sync(), fs.write(node, 0, b"more")), (Err(Error::ReadOnly), Err(Error::ReadOnly)));
}
