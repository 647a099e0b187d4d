//! A volume in memory: what is written is read, what is damaged does no harm.

use std::io::Cursor;

use fatfs::{FatType, FormatVolumeOptions};
use file_protocol::{Error, Kind, entries};
use proptest::prelude::*;

use super::Fat;
use crate::cuts::{Cuts, Memory, Tree, content, names, steps, verdict, write_all};
use crate::system::{FileSystem, New, Node};

fn formatted(kind: FatType) -> Memory {
    let size = match kind {
        FatType::Fat12 => 1 << 20,
        FatType::Fat16 => 8 << 20,
        FatType::Fat32 => 36 << 20,
    };
    let mut bytes = vec![0; size];
    let options = FormatVolumeOptions::new().fat_type(kind).bytes_per_cluster(512);
    fatfs::format_volume(Cursor::new(&mut bytes), options).unwrap();
    Memory::of(bytes)
}

fn mount(disk: &Memory) -> Fat {
    Fat::mount(Box::new(disk.clone())).unwrap()
}

fn file(fat: &mut Fat, directory: Node, name: &str, content: &[u8]) -> Node {
    let node = fat.make(directory, name.as_bytes(), New::File(0)).unwrap();
    fat.hold(node);
    write_all(fat, node, 0, content);
    node
}

#[test]
fn what_is_written_is_there_after_the_next_start() {
    for kind in [FatType::Fat12, FatType::Fat16, FatType::Fat32] {
        let disk = formatted(kind);
        let mut fat = mount(&disk);
        let root = fat.root();
        let dir = fat.make(root, "A directory".as_bytes(), New::Directory(0)).unwrap();
        let node = file(&mut fat, dir, "Übergroß.txt", &[7; 5000]);
        assert_eq!(fat.find(dir, "übergrOSS.txt".as_bytes()), Err(Error::NotFound));
        assert_eq!(fat.find(dir, "ÜBERGROß.txt".as_bytes()), Ok(node));
        fat.resize(node, 100).unwrap();
        fat.write(node, 3000, b"end").unwrap();
        fat.release(node);
        fat.settle();
        drop(fat);
        let mut fat = mount(&disk);
        let dir = fat.find(root, b"a DIRECTORY").unwrap();
        let node = fat.find(dir, "Übergroß.txt".as_bytes()).unwrap();
        let mut expected = vec![7; 100];
        expected.resize(3000, 0);
        expected.extend_from_slice(b"end");
        assert_eq!(content(&mut fat, node), expected);
        assert_eq!(fat.kind(dir).unwrap().0, Kind::Directory);
        assert_eq!(fat.unlink(root, b"A directory"), Err(Error::NotEmpty));
    }
}

#[test]
fn names_come_and_go() {
    let disk = formatted(FatType::Fat16);
    let mut fat = mount(&disk);
    let root = fat.root();
    let one = file(&mut fat, root, "one", b"1");
    let two = file(&mut fat, root, "two", b"2");
    // Onto what is there and open: that goes on being read.
    fat.rename((root, b"one"), (root, b"two")).unwrap();
    assert_eq!(names(&mut fat, root), ["two"]);
    assert_eq!((content(&mut fat, one), content(&mut fat, two)), (b"1".to_vec(), b"2".to_vec()));
    fat.write(two, 1, b"3").unwrap();
    assert_eq!(content(&mut fat, two), b"23");
    let (_, used) = (fat.release(two), fat.information().used_bytes);
    fat.unlink(root, b"two").unwrap();
    assert_eq!(names(&mut fat, root), [""; 0]);
    fat.release(one);
    fat.settle();
    assert!(fat.information().used_bytes < used);
    assert_eq!(fat.make(root, b"a:b", New::File(0)), Err(Error::Invalid));
    assert_eq!(fat.make(root, b"l", New::Link(b"x")), Err(Error::Unsupported));
}

#[test]
fn a_full_volume_works_again() {
    let disk = formatted(FatType::Fat12);
    let mut fat = mount(&disk);
    let root = fat.root();
    let kept = file(&mut fat, root, "kept", &[1; 700]);
    let big = fat.make(root, b"big", New::File(0)).unwrap();
    fat.hold(big);
    let mut len = 0;
    let error = loop {
        match fat.write(big, len, &[2; 3000]) {
            Ok(written) => len += written as u64,
            Err(error) => break error,
        }
    };
    assert_eq!(error, Error::Full);
    // The root has room for a name, and nothing has room for content.
    let more = fat.make(root, b"more", New::File(0)).unwrap();
    assert_eq!(fat.write(more, 0, b"3"), Err(Error::Full));
    // A save by renaming takes no room.
    fat.rename((root, b"more"), (root, b"kept")).unwrap();
    assert_eq!((content(&mut fat, kept), fat.size(more)), (vec![1; 700], Ok(0)));
    assert_eq!(fat.resize(big, len + 1000), Err(Error::Full));
    assert_eq!(content(&mut fat, kept), [1; 700]);
    assert_eq!(fat.size(big), Ok(len));
    fat.resize(big, 10).unwrap();
    file(&mut fat, root, "much", &[3; 3000]);
}

/// Does everything to all that is there, whatever the answers.
fn poke(fat: &mut Fat, directory: Node, depth: u32) {
    let mut data = Vec::new();
    let _ = fat.entries(directory, 0, &mut data);
    for entry in entries(&data).take(20) {
        let Ok(node) = fat.find(directory, entry.name) else { continue };
        fat.hold(node);
        let _ = fat.attributes(node);
        if entry.kind == Kind::Directory && depth < 3 {
            poke(fat, node, depth + 1);
        }
        let mut bytes = [0; 4000];
        let _ = fat.read(node, 0, &mut bytes);
        let _ = fat.write(node, 100, &bytes);
        let _ = fat.resize(node, 3);
        let _ = fat.rename((directory, entry.name), (directory, b"renamed"));
        let _ = fat.unlink(directory, b"renamed");
        fat.release(node);
        fat.settle();
    }
    let _ = fat.make(directory, b"made", New::Directory(0));
    fat.settle();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Bytes anywhere in the header, the tables and the first directories are others.
    #[test]
    fn damage_does_no_harm(
        kind in 0usize..2,
        damage in proptest::collection::vec((0usize..40_000, any::<u8>()), 1..40),
    ) {
        let disk = formatted([FatType::Fat12, FatType::Fat16][kind]);
        let mut fat = mount(&disk);
        let root = fat.root();
        let dir = fat.make(root, b"dir", New::Directory(0)).unwrap();
        for name in ["a", "b", "long name of a file"] {
            for place in [root, dir] {
                let node = file(&mut fat, place, name, &[5; 3000]);
                fat.release(node);
            }
        }
        fat.settle();
        drop(fat);
        for (at, byte) in damage {
            disk.0.borrow_mut().bytes[at] = byte;
        }
        if let Ok(mut fat) = Fat::mount(Box::new(disk.clone())) {
            poke(&mut fat, root, 0);
        }
    }
}

#[test]
fn what_is_no_volume_is_refused() {
    for bytes in [vec![0; 1 << 20], vec![0xff; 1 << 20], Vec::new()] {
        assert!(Fat::mount(Box::new(Memory::of(bytes))).is_err());
    }
}

/// A reader of its own, which knows nothing of what is tested: the names and contents that the bytes of a volume hold.
mod reader {
    use std::collections::HashSet;

    use super::Tree;

    struct Volume {
        bytes: Vec<u8>,
        wide: bool,
        table: usize,
        root: (usize, usize),
        data: usize,
        cluster: usize,
        clusters: usize,
    }

    impl Volume {
        fn word(&self, at: usize) -> usize {
            usize::from(self.bytes[at]) | usize::from(self.bytes[at + 1]) << 8
        }

        fn long(&self, at: usize) -> usize {
            self.word(at) | self.word(at + 2) << 16
        }

        /// The bytes of a chain.
        fn chain(&self, first: usize) -> Result<Vec<u8>, String> {
            let (mut bytes, mut at, mut seen) = (Vec::new(), first, HashSet::new());
            let last = if self.wide { 0x0fff_fff8 } else { 0xfff8 };
            while at < last {
                if at < 2 || at >= self.clusters + 2 || !seen.insert(at) {
                    return Err(format!("a chain goes to {at}"));
                }
                let place = self.data + (at - 2) * self.cluster;
                bytes.extend(&self.bytes[place..place + self.cluster]);
                at = if self.wide {
                    self.long(self.table + 4 * at) & 0x0fff_ffff
                } else {
                    self.word(self.table + 2 * at)
                };
            }
            Ok(bytes)
        }

        fn directory(&self, entries: &[u8], prefix: &str, tree: &mut Tree) -> Result<(), String> {
            let mut long: Vec<u16> = Vec::new();
            for entry in entries.chunks(32) {
                let word = |at: usize| usize::from(entry[at]) | usize::from(entry[at + 1]) << 8;
                match (entry[0], entry[11]) {
                    (0, _) => return Ok(()),
                    (0xe5, _) => long.clear(),
                    (_, 0x0f) => {
                        let part: Vec<u16> =
                            [1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30].map(|at| word(at) as u16).into();
                        long = [part, std::mem::take(&mut long)].concat();
                    }
                    (b'.', _) => {}
                    (_, attributes) if attributes & 8 != 0 => {}
                    (_, attributes) => {
                        let units: Vec<u16> = long.drain(..).take_while(|unit| *unit != 0 && *unit != 0xffff).collect();
                        if units.is_empty() {
                            return Err("a file has lost its long name".to_owned());
                        }
                        let name = String::from_utf16_lossy(&units);
                        if name.starts_with(super::super::REMOVED) {
                            continue;
                        }
                        let first = word(20) << 16 | word(26);
                        let bytes = if first == 0 { Vec::new() } else { self.chain(first)? };
                        if attributes & 0x10 != 0 {
                            let path = format!("{prefix}{name}/");
                            self.directory(&bytes, &path, tree)?;
                            tree.insert(path, Vec::new());
                        } else {
                            let size = word(28) | word(30) << 16;
                            let content = bytes.get(..size).ok_or("a file is longer than its clusters")?;
                            tree.insert(format!("{prefix}{name}"), content.to_vec());
                        }
                    }
                }
            }
            Ok(())
        }
    }

    pub fn read(bytes: Vec<u8>) -> Result<Tree, String> {
        let mut volume = Volume { bytes, wide: false, table: 0, root: (0, 0), data: 0, cluster: 0, clusters: 0 };
        let sector = volume.word(11);
        volume.wide = volume.word(22) == 0;
        let table = if volume.wide { volume.long(36) } else { volume.word(22) } * sector;
        let total = if volume.word(19) == 0 { volume.long(32) } else { volume.word(19) } * sector;
        volume.table = volume.word(14) * sector;
        let root = volume.table + usize::from(volume.bytes[16]) * table;
        volume.root = (root, root + volume.word(17) * 32);
        volume.data = volume.root.1;
        volume.cluster = usize::from(volume.bytes[13]) * sector;
        volume.clusters = (total - volume.data) / volume.cluster;
        let mut tree = Tree::new();
        let root = if volume.wide {
            volume.chain(volume.long(44))?
        } else {
            volume.bytes[volume.root.0..volume.root.1].to_vec()
        };
        volume.directory(&root, "", &mut tree)?;
        Ok(tree)
    }
}

/// The tree of an image after the next start, which looks at it and mends it; and what stands in its bytes is no less.
fn read(image: Vec<u8>) -> Result<Tree, String> {
    let raw = reader::read(image.clone())?;
    let disk = Memory::of(image);
    let fat = Fat::mount(Box::new(disk.clone()))?;
    if fat.read_only {
        return Err("it is only read after the cut".to_owned());
    }
    drop(fat);
    let mended = disk.0.borrow().bytes.clone();
    let after = reader::read(mended.clone())?;
    if after != raw {
        return Err("looking at it changed what is there".to_owned());
    }
    // A second look finds nothing any more.
    let volume = super::volume::Volume::new(Box::new(Memory::of(mended)));
    volume.refuel();
    let layout = super::layout::Layout::read(&volume).map_err(|error| error.to_string())?;
    let report = super::check::look(&volume, &layout).map_err(|error| error.to_string())?;
    if !report.lost.is_empty() || !report.long.is_empty() || !report.wrong.is_empty() {
        return Err(format!("after the mending there is still {report:?}"));
    }
    Ok(raw)
}

#[test]
fn what_was_synced_stays_at_whichever_write_the_power_goes() {
    let steps = steps(4);
    for (seed, kind) in [(1, FatType::Fat16), (2, FatType::Fat32)] {
        let disk = formatted(kind);
        let mut cuts = Cuts { states: 0, bad: Vec::new(), reader: &read };
        cuts.run(&disk, &mut mount(&disk), seed, steps);
        verdict(&format!("{kind:?}"), &cuts, steps);
    }
}

/// The order of before: pages by their number, in one go. The judge must find what it loses.
#[test]
fn the_judge_sees_the_old_order() {
    let disk = formatted(FatType::Fat16);
    let mut cuts = Cuts { states: 0, bad: Vec::new(), reader: &|image| reader::read(image) };
    let mut fat = mount(&disk);
    fat.volume.write_by_number();
    cuts.run(&disk, &mut fat, 1, 30);
    assert!(cuts.bad.len() > 5, "{} of {} states are bad", cuts.bad.len(), cuts.states);
}
