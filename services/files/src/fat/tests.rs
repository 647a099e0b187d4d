//! Tests on a volume in memory. Reads return what was written. Damage does no harm.

use std::io::Cursor;

use cuts::image::Image;
use cuts::judge::{RenameGuarantee, judge};
use cuts::log::Act;
use cuts::plan::{Abilities, Model, Operation};
use cuts::replay::Replay;
use fatfs::{FatType, FormatVolumeOptions};
use file_protocol::{Error, Kind, entries};
use proptest::prelude::*;

use super::Fat;
use crate::power_cut_images::FatImages;
use crate::system::{FileSystem, New, Node};
use crate::test_disk::{self, Memory, RunResult, content, names, play, steps, verdict, write_all};

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
fn written_data_survives_a_restart() {
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
    // Renames over an existing file that is open: the open file can still be read.
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
    assert_eq!(fat.make(root, b"s", New::Socket(0o755)), Err(Error::Unsupported));
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
    // The root has room for a name, but the volume has no room for content.
    let more = fat.make(root, b"more", New::File(0)).unwrap();
    assert_eq!(fat.write(more, 0, b"3"), Err(Error::Full));
    // Saving by rename needs no room.
    fat.rename((root, b"more"), (root, b"kept")).unwrap();
    assert_eq!((content(&mut fat, kept), fat.size(more)), (vec![1; 700], Ok(0)));
    assert_eq!(fat.resize(big, len + 1000), Err(Error::Full));
    assert_eq!(content(&mut fat, kept), [1; 700]);
    assert_eq!(fat.size(big), Ok(len));
    fat.resize(big, 10).unwrap();
    file(&mut fat, root, "much", &[3; 3000]);
}

/// The root directory of FAT12 and FAT16 has a fixed number of entries. Without room for a hidden name, an open file
/// keeps its name.
#[test]
fn a_full_root_loses_nothing() {
    let disk = formatted(FatType::Fat16);
    let mut fat = mount(&disk);
    let root = fat.root();
    let held = file(&mut fat, root, "held", b"content");
    let mut count = 0;
    let error = loop {
        match fat.make(root, format!("file {count}").as_bytes(), New::File(0)) {
            Ok(_) => count += 1,
            Err(error) => break error,
        }
    };
    assert_eq!((error, count > 100), (Error::Full, true));
    assert_eq!(fat.unlink(root, b"held"), Err(Error::Full));
    assert_eq!((fat.find(root, b"held"), content(&mut fat, held)), (Ok(held), b"content".to_vec()));
    // Saving by rename needs no entry for a name.
    let new = fat.find(root, b"file 0").unwrap();
    assert_eq!(fat.rename((root, b"file 0"), (root, b"held")), Err(Error::Full));
    assert_eq!(content(&mut fat, held), b"content");
    fat.release(held);
    fat.rename((root, b"file 0"), (root, b"held")).unwrap();
    assert_eq!(fat.find(root, b"held"), Ok(new));
    fat.unlink(root, b"file 1").unwrap();
    let two = fat.find(root, b"file 2").unwrap();
    fat.hold(two);
    fat.unlink(root, b"file 2").unwrap();
    fat.release(two);
    assert_eq!(names(&mut fat, root).len(), count - 2);
    fat.sync().unwrap();
    drop(fat);
    assert_eq!(names(&mut mount(&disk), root).len(), count - 2);
}

/// Whether the flag "in use" is set.
fn in_use(disk: &Memory) -> bool {
    disk.0.borrow().bytes[0x25] & 1 != 0
}

/// A volume that was in use when the power went is checked: the effects of a power cut are repaired. If files share
/// clusters, the volume becomes read-only, and the flag stays.
#[test]
fn a_volume_in_use_is_looked_at() {
    for crossed in [false, true] {
        let disk = formatted(FatType::Fat16);
        let mut fat = mount(&disk);
        let root = fat.root();
        let nodes = ["one", "two"].map(|name| file(&mut fat, root, name, name.repeat(1000).as_bytes()));
        nodes.into_iter().for_each(|node| fat.release(node));
        fat.settle();
        assert!(!in_use(&disk));
        let layout = fat.layout.clone();
        drop(fat);
        let volume = super::volume::Volume::new(Box::new(disk.clone()));
        volume.refuel();
        let found = layout.names(&volume, layout.root_place(), 10).unwrap();
        if crossed {
            let mut two = found[1].clone();
            two.set_cluster(found[0].cluster());
            two.set_size(10);
            volume.put(two.at, &two.entry).unwrap();
        } else {
            // A lost cluster.
            layout.set_next(&volume, layout.end - 1, layout.last()).unwrap();
        }
        volume.write_back(super::volume::Plan::Grow).unwrap();
        drop(volume);
        disk.0.borrow_mut().bytes[0x25] |= 1;
        let before = disk.0.borrow().bytes.clone();
        let mut fat = mount(&disk);
        let root = fat.root();
        assert_eq!((fat.read_only, in_use(&disk)), (crossed, crossed));
        let one = fat.find(root, b"one").unwrap();
        assert_eq!(content(&mut fat, one), "one".repeat(1000).as_bytes());
        if crossed {
            assert_eq!(fat.make(root, b"more", New::File(0)), Err(Error::ReadOnly));
            fat.sync().unwrap();
            assert!(disk.0.borrow().bytes == before, "something was written");
        } else {
            let two = fat.find(root, b"two").unwrap();
            assert_eq!(content(&mut fat, two), "two".repeat(1000).as_bytes());
            fat.make(root, b"more", New::File(0)).unwrap();
        }
    }
}

/// An image that ends within a page is usable to its end.
#[test]
fn the_tail_of_an_image_can_be_used() {
    let mut bytes = vec![0; (8 << 20) + 3 * 512];
    let options = FormatVolumeOptions::new().fat_type(FatType::Fat16).bytes_per_cluster(512);
    fatfs::format_volume(Cursor::new(&mut bytes), options).unwrap();
    let disk = Memory::of(bytes);
    let mut fat = mount(&disk);
    let root = fat.root();
    let big = fat.make(root, b"big", New::File(0)).unwrap();
    fat.hold(big);
    let (free, cluster) = fat.free().unwrap();
    let piece: Vec<u8> = (0..50_000_u32).map(|at| at.to_le_bytes()[0]).collect();
    let mut len = 0;
    while let Ok(written) = fat.write(big, len, &piece) {
        len += written as u64;
    }
    assert_eq!(len, free * cluster);
    fat.release(big);
    fat.settle();
    drop(fat);
    let mut fat = mount(&disk);
    let big = fat.find(root, b"big").unwrap();
    let found = content(&mut fat, big);
    assert!(found.chunks(piece.len()).all(|part| piece.starts_with(part)));
}

/// Makes every kind of call on everything on the volume, and ignores the results.
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

    /// Corrupts bytes anywhere in the header, the tables and the first directories.
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
fn an_invalid_volume_is_refused() {
    for bytes in [vec![0; 1 << 20], vec![0xff; 1 << 20], Vec::new()] {
        assert!(Fat::mount(Box::new(Memory::of(bytes))).is_err());
    }
}

const CAN: Abilities = Abilities { links: false, moves_directories: false };

#[test]
fn synced_data_survives_a_power_cut_at_any_write() {
    let steps = steps(12);
    for (seed, kind) in [(1, FatType::Fat16), (2, FatType::Fat32)] {
        let disk = formatted(kind);
        let played = play(&disk, &mut mount(&disk), seed, steps, CAN, false);
        let mut replay = Replay::new(&FatImages, &played.trees, RenameGuarantee::Each, seed).starting_in_one_of(20);
        replay.run(&played.base, &played.acts);
        verdict(&format!("{kind:?}"), &replay, &played.acts, steps);
    }
}

/// Checks the states that power cuts leave during some operations. Nothing is synced, as long as a file is open. No
/// state may be bad.
fn cut(what: &str, before: &[Operation], operations: &[Operation]) {
    let disk = formatted(FatType::Fat16);
    let (mut fat, mut model) = (mount(&disk), Model::default());
    let mut carry_out = |fat: &mut Fat, operation: &Operation| {
        test_disk::carry_out(fat, &model, operation);
        model.apply(operation);
        model.clone()
    };
    let mut trees: Vec<Model> = before.iter().map(|operation| carry_out(&mut fat, operation)).collect();
    trees.drain(..trees.len() - 1);
    fat.sync().unwrap();
    let (base, root) = (disk.image(), fat.root());
    let open = fat.find(root, b"open").unwrap();
    fat.hold(open);
    disk.logged(true);
    trees.extend(operations.iter().map(|operation| carry_out(&mut fat, operation)));
    fat.sync().unwrap();
    fat.release(open);
    let acts = disk.logged(false);
    // Cuts and tears are random, so there are many seeds.
    for seed in 0..20 {
        let mut replay = Replay::new(&FatImages, &trees, RenameGuarantee::Each, seed);
        replay.run(&base, &acts);
        assert!(replay.counts.cuts > 1 && replay.bad == 0, "{what}: {:#?}", replay.told);
    }
}

/// Operations whose changes cross a sector boundary in directories and in the table.
#[test]
fn writes_of_two_sectors_reach_the_disk_in_order() {
    let make = |path: &str, len: usize| Operation::Make(path.to_owned(), cuts::plan::content(3, len));
    let name = |number: usize| format!("a name of its own, number {number}");
    // The entries of the last name cross a sector boundary.
    let mut names = vec![make("open", 600)];
    names.extend((1..=4).map(|number| make(&name(number), 600)));
    for open in [false, true] {
        cut("renaming over", &names, &[Operation::Rename(name(4), name(1), open)]);
        cut("removing", &names, &[Operation::Append(name(4), vec![7; 700]), Operation::Remove(name(4), open)]);
    }
    let to_it = [Operation::Append(name(3), vec![7; 700]), Operation::Rename(name(3), name(9), false)];
    cut("renaming", &names[..4], &to_it);
    // The table entry of the last cluster of one file is in one sector; those of its next cluster and of another file
    // are in the next one.
    let two = [make("open", 500), make("filler", 260 * 512), make("other", 500)];
    let more = |path: &str| Operation::Append(path.to_owned(), vec![7; 5000]);
    cut("appending to two", &two, &[more("open"), more("other")]);
    let long = [make("open", 500), make("filler", 400 * 512)];
    cut("making shorter", &long, &[Operation::Resize("filler".into(), 100 * 512)]);
    cut("making shorter", &long, &[Operation::Resize("filler".into(), 300 * 512)]);
}

/// A directory with two names. The next start removes one of them.
#[test]
fn a_directory_that_was_being_renamed_is_mended() {
    let made = [Operation::Make("open".into(), vec![1]), Operation::MakeDirectory("one/".into())];
    let inside = Operation::Make("one/file".into(), vec![5; 2000]);
    let renamed = Operation::Rename("one/".into(), "another name of more than one entry/".into(), false);
    cut("renaming a directory", &[&made[..], &[inside]].concat(), &[renamed]);
}

/// Runs operations with the old write order: all pages at once, by number.
fn old_order(seed: u64, steps: usize, marking: bool) -> RunResult {
    let disk = formatted(FatType::Fat16);
    let mut fat = mount(&disk);
    fat.volume.write_by_number();
    play(&disk, &mut fat, seed, steps, CAN, marking)
}

/// Replays a log in the old order: how many states are bad, and the judge's findings.
fn judged<'a>(trees: &'a [Model], base: &Image, acts: &[Act]) -> (Replay<'a>, Image) {
    let mut replay = Replay::new(&FatImages, trees, RenameGuarantee::Each, 1).starting_in_one_of(1000);
    let end = replay.run(base, acts);
    (replay, end)
}

/// The judge finds the data that the old order loses.
#[test]
fn the_judge_sees_the_old_order() {
    let played = old_order(1, 30, false);
    let (replay, _) = judged(&played.trees, &played.base, &played.acts);
    assert!(replay.bad > 5, "{} of {} states are bad", replay.bad, replay.states());
}

/// The file `old-order.log` is a log in QEMU's format of a few operations in the old order: first the image with one
/// write per sector and a flush, then the writes of the operations.
const OLD_ORDER: (u64, usize) = (75, 6);

/// The judge also finds it in a stored log, independent of the code that writes such logs.
#[test]
fn the_judge_sees_the_old_order_in_a_log_that_is_kept() {
    let log: &[u8] = include_bytes!("old-order.log");
    let acts = cuts::log::read(log).unwrap();
    let formatted = acts.iter().position(|act| *act == Act::Flush).unwrap();
    let mut base = Image::new(&vec![0; 8 << 20]);
    for act in &acts[..formatted] {
        if let Act::Write(at, bytes) = act {
            base.write(*at, bytes);
        }
    }
    let trees = cuts::plan::history(OLD_ORDER.0, OLD_ORDER.1 as u64, CAN);
    let (replay, end) = judged(&trees, &base, &acts[formatted..]);
    println!("the old order: {:?}, {} bad; the first: {:#?}", replay.counts, replay.bad, replay.told);
    assert!(replay.bad > 3, "{} of {} states are bad", replay.bad, replay.states());
    // The order is wrong, not the log: without a power cut the final state is right.
    let found = cuts::fat::read(&end, super::REMOVED);
    assert_eq!(found.and_then(|mut found| judge(&mut found, &trees[OLD_ORDER.1..], RenameGuarantee::Each)), Ok(()));
}

/// Rewrites `old-order.log`, which is necessary when the random operations change.
#[test]
#[ignore = "it changes the tree"]
fn the_log_of_the_old_order_is_written() {
    let played = old_order(OLD_ORDER.0, OLD_ORDER.1, true);
    let sectors = (0..played.base.size()).step_by(512).map(|at| Act::Write(at, played.base.at(at, 512)));
    let mut acts: Vec<Act> = sectors.filter(|act| matches!(act, Act::Write(_, bytes) if bytes != &[0; 512])).collect();
    acts.push(Act::Flush);
    acts.extend(played.acts);
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/fat/old-order.log");
    cuts::log::write(&acts, std::fs::File::create(file).unwrap()).unwrap();
}
