//! Tests on an image in memory. Reads return what was written. Synced data survives a power cut at any write. Damage
//! does no harm.

use cuts::judge::RenameGuarantee;
use cuts::log::Act;
use cuts::plan::Abilities;
use cuts::replay::Replay;
use file_protocol::{Change, Error, Kind};
use rsext4::MkfsOptions;

use super::device::Device;
use super::superblock::is_whole;
use super::{Ext4, SystemClock};
use crate::power_cut_images::Ext4Images;
use crate::system::{FileSystem, New, Node};
use crate::test_disk::{Memory, content, names, play, steps, verdict, write_all};

fn formatted(mib: usize) -> Memory {
    formatted_by(mib, MkfsOptions::default())
}

fn formatted_by(mib: usize, options: MkfsOptions) -> Memory {
    let disk = Memory::of(vec![0; mib << 20]);
    rsext4::format(Device::new(Box::new(disk.clone())), SystemClock, options).unwrap();
    disk
}

fn mount(disk: &Memory) -> Ext4 {
    Ext4::mount(Device::new(Box::new(disk.clone()))).unwrap()
}

fn file(fs: &mut Ext4, directory: Node, name: &str, content: &[u8]) -> Node {
    let node = fs.make(directory, name.as_bytes(), New::File(0o644)).unwrap();
    fs.hold(node);
    write_all(fs, node, 0, content);
    node
}

#[test]
fn written_data_survives_a_restart() {
    let disk = formatted(24);
    let mut fs = mount(&disk);
    let root = fs.root();
    let dir = fs.make(root, b"A directory", New::Directory(0o755)).unwrap();
    let node = file(&mut fs, dir, "Übergroß.txt", &[7; 5000]);
    assert_eq!(fs.find(dir, "übergroß.txt".as_bytes()), Err(Error::NotFound));
    fs.resize(node, 100).unwrap();
    fs.write(node, 3000, b"end").unwrap();
    fs.link(node, root, b"second").unwrap();
    let short = fs.make(root, b"short", New::Link(b"A directory")).unwrap();
    let long = fs.make(root, b"long", New::Link(&[b'x'; 1000])).unwrap();
    fs.change(node, &Change { mode: Some(0o600), accessed: Some(5_000_000_001), modified: Some(-7_000_000_002) })
        .unwrap();
    fs.release(node);
    fs.sync().unwrap();
    drop(fs);
    let mut fs = mount(&disk);
    let dir = fs.find(root, b"A directory").unwrap();
    assert_eq!((fs.above(dir), fs.name(dir)), (Ok(root), Ok(b"A directory".to_vec())));
    let node = fs.find(dir, "Übergroß.txt".as_bytes()).unwrap();
    let mut expected = vec![7; 100];
    expected.resize(3000, 0);
    expected.extend_from_slice(b"end");
    let told = fs.attributes(node).unwrap();
    assert_eq!((told.kind, told.mode, told.links), (Kind::File, 0o600, 2));
    assert_eq!((told.accessed, told.modified), (5_000_000_001, -7_000_000_002));
    assert_eq!(content(&mut fs, node), expected);
    assert_eq!(fs.find(root, b"second"), Ok(node));
    assert_eq!((fs.target(short), fs.target(long)), (Ok(b"A directory".to_vec()), Ok(vec![b'x'; 1000])));
    assert_eq!(names(&mut fs, root), ["A directory", "long", "second", "short"]);
    assert_eq!(fs.unlink(root, b"A directory"), Err(Error::NotEmpty));
    let far = Change { modified: Some(i64::MIN), ..Change::default() };
    assert_eq!(fs.change(node, &far), Err(Error::Invalid));
}

/// A socket's name is a node like others, and persists.
#[test]
fn names_of_sockets() {
    let disk = formatted(24);
    let mut fs = mount(&disk);
    let root = fs.root();
    let before = fs.information().used_nodes;
    let socket = fs.make(root, b"socket", New::Socket(0o755)).unwrap();
    fs.hold(socket);
    fs.link(socket, root, b"second").unwrap();
    fs.rename((root, b"socket"), (root, b"renamed")).unwrap();
    fs.release(socket);
    fs.settle();
    fs.sync().unwrap();
    assert!(!needs_recovery(&disk));
    drop(fs);
    let mut fs = mount(&disk);
    let told = fs.attributes(socket).unwrap();
    assert_eq!((told.kind, told.mode, told.links, told.size), (Kind::Socket, 0o755, 2, 0));
    let mut data = Vec::new();
    fs.entries(root, 0, &mut data).unwrap();
    let kinds = file_protocol::entries(&data).filter(|entry| entry.node == socket).map(|entry| entry.kind);
    assert_eq!(kinds.collect::<Vec<_>>(), [Kind::Socket, Kind::Socket]);
    // The last name is removed while the socket is bound.
    fs.hold(socket);
    fs.unlink(root, b"renamed").unwrap();
    fs.unlink(root, b"second").unwrap();
    assert_eq!(fs.attributes(socket).unwrap().links, 0);
    fs.release(socket);
    fs.settle();
    assert_eq!(fs.information().used_nodes, before);
}

/// Whether the image says that its journal must be replayed.
fn needs_recovery(disk: &Memory) -> bool {
    disk.0.borrow().bytes[1024 + 96] & 4 != 0
}

#[test]
fn an_image_is_clean_when_all_was_synced_and_nothing_is_open() {
    let disk = formatted(24);
    let mut fs = mount(&disk);
    let root = fs.root();
    fs.hold(root);
    let node = file(&mut fs, root, "file", &[1; 5000]);
    fs.sync().unwrap();
    assert!(needs_recovery(&disk), "with a file open it stays mounted");
    fs.release(node);
    fs.settle();
    fs.sync().unwrap();
    assert!(!needs_recovery(&disk));
    // Reading changes nothing.
    assert_eq!(names(&mut fs, root), ["file"]);
    fs.hold(node);
    fs.release(node);
    fs.sync().unwrap();
    assert!(!needs_recovery(&disk));
}

/// The journal fills up again and again, with syncs and without, and the image is clean in the end.
#[test]
fn the_journal_wraps() {
    for block_size in [4096, 1024] {
        let disk = formatted_by(24, MkfsOptions { block_size, ..MkfsOptions::default() });
        let mut fs = mount(&disk);
        let root = fs.root();
        let node = file(&mut fs, root, "open", b"");
        for index in 0..3000_u64 {
            let name = format!("file {}", index % 40);
            if fs.find(root, name.as_bytes()).is_ok() {
                fs.unlink(root, name.as_bytes()).unwrap();
            }
            let made = fs.make(root, name.as_bytes(), New::File(0o644)).unwrap();
            write_all(&mut fs, made, 0, &[index as u8; 3000]);
            write_all(&mut fs, node, index % 50 * 5000, &index.to_le_bytes());
            if index % 3 != 0 {
                fs.sync().unwrap();
            }
        }
        fs.release(node);
        fs.sync().unwrap();
        assert!(!needs_recovery(&disk));
        let mut fs = mount(&disk);
        assert_eq!(names(&mut fs, root).len(), 41);
    }
}

#[test]
fn an_open_file_outlives_its_name() {
    let disk = formatted(24);
    let mut fs = mount(&disk);
    let root = fs.root();
    let (one, two) = (file(&mut fs, root, "one", b"1"), file(&mut fs, root, "two", b"2"));
    let used = fs.information().used_bytes;
    fs.rename((root, b"one"), (root, b"two")).unwrap();
    assert_eq!(names(&mut fs, root), ["two"]);
    assert_eq!((content(&mut fs, one), content(&mut fs, two)), (b"1".to_vec(), b"2".to_vec()));
    fs.write(two, 1, b"3").unwrap();
    assert_eq!(content(&mut fs, two), b"23");
    fs.release(two);
    fs.settle();
    assert!(fs.information().used_bytes < used, "what nobody has is not freed");
    let dir = fs.make(root, b"dir", New::Directory(0o755)).unwrap();
    fs.hold(dir);
    fs.unlink(root, b"dir").unwrap();
    assert_eq!(fs.make(dir, b"lost", New::File(0o644)), Err(Error::NotFound));
    assert_eq!((fs.above(dir), names(&mut fs, dir)), (Err(Error::NotFound), Vec::new()));
    fs.release(dir);
    fs.unlink(root, b"two").unwrap();
    fs.release(one);
    fs.sync().unwrap();
    let mut fs = mount(&disk);
    assert_eq!(names(&mut fs, root), [""; 0]);
}

#[test]
fn a_full_image_works_again() {
    let disk = formatted(24);
    let mut fs = mount(&disk);
    let root = fs.root();
    let kept = file(&mut fs, root, "kept", &[1; 70_000]);
    let big = file(&mut fs, root, "big", b"");
    let (mut len, piece) = (0, [2; 60 << 10]);
    let error = loop {
        match fs.write(big, len, &piece) {
            Ok(written) => len += written as u64,
            Err(error) => break error,
        }
    };
    assert_eq!(error, Error::Full);
    // Saving by rename keeps the old content, whatever step of the new file fails.
    let new = file(&mut fs, root, "new", b"");
    assert_eq!(fs.write(new, 0, &[3; 9000]), Err(Error::Full));
    fs.rename((root, b"new"), (root, b"kept")).unwrap();
    assert_eq!(content(&mut fs, kept), [1; 70_000]);
    fs.release(kept);
    fs.resize(big, 10).unwrap();
    assert_eq!(fs.write(new, 0, &[3; 9000]), Ok(9000));
    fs.release(big);
    fs.release(new);
    fs.sync().unwrap();
    let mut fs = mount(&disk);
    let kept = fs.find(root, b"kept").unwrap();
    assert_eq!(content(&mut fs, kept), [3; 9000]);
}

#[test]
fn a_disk_that_is_only_read_is_not_changed() {
    let disk = formatted(24);
    let mut fs = mount(&disk);
    let root = fs.root();
    let node = file(&mut fs, root, "file", &[1; 5000]);
    fs.release(node);
    fs.sync().unwrap();
    let before = disk.0.borrow().bytes.clone();
    disk.0.borrow_mut().read_only = true;
    let mut fs = mount(&disk);
    assert_eq!(content(&mut fs, node), [1; 5000]);
    assert_eq!(fs.write(node, 0, b"2"), Err(Error::ReadOnly));
    assert_eq!(fs.make(root, b"more", New::File(0o644)), Err(Error::ReadOnly));
    fs.sync().unwrap();
    assert!(disk.0.borrow().bytes == before);
}

#[test]
fn ten_thousand_names() {
    let disk = formatted(192);
    let mut fs = mount(&disk);
    let root = fs.root();
    let dir = fs.make(root, b"many", New::Directory(0o755)).unwrap();
    for index in 0..10_000 {
        fs.make(dir, format!("file {index}").as_bytes(), New::File(0o644)).unwrap();
    }
    let all = names(&mut fs, dir);
    assert_eq!(all.len(), 10_000);
    for name in &all {
        fs.unlink(dir, name.as_bytes()).unwrap();
    }
    fs.unlink(root, b"many").unwrap();
    fs.sync().unwrap();
}

#[test]
fn a_disk_that_fails_is_an_error() {
    let disk = formatted(24);
    let mut fs = mount(&disk);
    let root = fs.root();
    let node = file(&mut fs, root, "file", &[1; 5000]);
    fs.sync().unwrap();
    disk.0.borrow_mut().fails_in = Some(0);
    let written = fs.write(node, 0, &[2; 5000]).map(drop).and_then(|()| fs.sync());
    assert!(written.is_err(), "nothing can be written, and that is no error");
}

/// Whether this is a journal's superblock, and if so, whether it says that the journal has content.
fn in_journal(bytes: &[u8]) -> Option<bool> {
    bytes.starts_with(&[0xc0, 0x3b, 0x39, 0x98, 0, 0, 0, 4]).then(|| bytes[28..32] != [0; 4])
}

/// Whenever the journal has content, the superblock says that the journal is needed. Otherwise `e2fsck -p` does not
/// repair an image after a power cut.
#[test]
fn a_journal_with_something_in_it_is_needed() {
    let disk = formatted(24);
    disk.logged(true);
    for name in ["one", "two"] {
        let mut fs = mount(&disk);
        let root = fs.root();
        let node = file(&mut fs, root, name, &[1; 5000]);
        fs.sync().unwrap();
        fs.write(node, 0, &[2; 5000]).unwrap();
        fs.release(node);
        fs.settle();
        fs.sync().unwrap();
        assert!(!needs_recovery(&disk));
    }
    let (mut needed, mut filled, mut fills) = (false, false, 0);
    let mut since = Vec::new();
    for (index, act) in disk.logged(false).iter().enumerate() {
        // Each state of both between two flushes.
        let mut states = vec![(needed, filled)];
        match act {
            Act::Write(at, bytes) if *at == 1024 => needed = bytes[96] & 4 != 0,
            Act::Write(_, bytes) => filled = in_journal(bytes).unwrap_or(filled),
            Act::Flush => since.clear(),
            Act::Mark(_) => {}
        }
        fills += usize::from(filled && !states[0].1);
        states.push((needed, filled));
        since.extend(states);
        let mixed = |one: &(bool, bool)| since.iter().any(|other| other.1 && !one.0);
        assert!(
            !since.iter().any(mixed),
            "at {index} the journal is filled, and the superblock says that it is not needed"
        );
    }
    assert!(fills > 1, "the journal was filled {fills} times");
}

/// A disk writes only one sector atomically: the superblock is right after each.
#[test]
fn the_superblock_is_whole_after_each_sector() {
    for block_size in [1024, 4096] {
        let disk = formatted_by(24, MkfsOptions { block_size, ..MkfsOptions::default() });
        let mut superblock = disk.0.borrow().bytes[1024..2048].to_vec();
        assert!(is_whole(&superblock));
        disk.logged(true);
        for name in ["one", "two"] {
            let mut fs = mount(&disk);
            let root = fs.root();
            let node = file(&mut fs, root, name, &[1; 5000]);
            fs.sync().unwrap();
            fs.release(node);
            fs.settle();
            fs.sync().unwrap();
        }
        let mut writes = 0;
        for act in disk.logged(false) {
            let Act::Write(at, bytes) = act else { continue };
            for (at, sector) in (at..).step_by(512).zip(bytes.chunks(512)).filter(|(at, _)| [1024, 1536].contains(at)) {
                superblock[at as usize - 1024..][..512].copy_from_slice(sector);
                assert!(is_whole(&superblock), "not behind write {writes} of it, of its sector {}", at / 512 - 2);
                writes += 1;
            }
        }
        assert!(writes > 3, "it was written {writes} times");
    }
}

/// With no open file a sync unmounts, so the cuts also hit the writes of unmounting and mounting.
#[test]
fn synced_data_survives_a_power_cut_at_any_write() {
    let steps = steps(12);
    for (seed, block_size) in [(1, 4096), (2, 1024)] {
        let disk = formatted_by(24, MkfsOptions { block_size, ..MkfsOptions::default() });
        let can = Abilities { links: true, moves_directories: true };
        let played = play(&disk, &mut mount(&disk), seed, steps, can, false);
        let mut replay = Replay::new(&Ext4Images, &played.trees, RenameGuarantee::Whole, seed).starting_in_one_of(20);
        replay.run(&played.base, &played.acts);
        verdict(&format!("ext4 with blocks of {block_size}"), &replay, &played.acts, steps);
    }
}

/// Truncates and removes files that have so many extents that their maps have two levels of index blocks.
#[test]
fn a_file_in_many_pieces_is_cut() {
    let disk = formatted_by(24, MkfsOptions { block_size: 1024, ..MkfsOptions::default() });
    let mut fs = mount(&disk);
    let root = fs.root();
    let (one, two) = (file(&mut fs, root, "one", b""), file(&mut fs, root, "two", b""));
    for index in 0..800 {
        fs.write(one, index * 1024, &[1; 1024]).unwrap();
        fs.write(two, index * 1024, &[2; 1024]).unwrap();
    }
    fs.sync().unwrap();
    let used = fs.information().used_bytes;
    fs.resize(one, 5000).unwrap();
    fs.resize(two, 0).unwrap();
    assert_eq!(content(&mut fs, one), [1; 5000]);
    fs.release(one);
    fs.release(two);
    fs.sync().unwrap();
    assert!(fs.information().used_bytes + 1_500_000 < used);
    let mut fs = mount(&disk);
    assert_eq!((fs.size(one), fs.size(two)), (Ok(5000), Ok(0)));
}

#[test]
fn zz_measure() {
    let disk = Memory::of(vec![0; 700 << 20]);
    rsext4::format(Device::new(Box::new(disk.clone())), SystemClock, MkfsOptions::default()).unwrap();
    let mut fs = mount(&disk);
    let root = fs.root();
    // fragmented: writes alternate between two files
    let (a, b) = (file(&mut fs, root, "a", b""), file(&mut fs, root, "b", b""));
    let piece = vec![7; 60 << 10];
    for i in 0..4000_u64 {
        fs.write(a, i * piece.len() as u64, &piece).unwrap_or_else(|e| panic!("{i} {e:?} {:?}", fs.information()));
        fs.write(b, i * piece.len() as u64, &piece).unwrap();
    }
    fs.sync().unwrap();
    let t = std::time::Instant::now();
    fs.resize(a, 0).unwrap();
    println!("truncate {:?}", t.elapsed());
    let t = std::time::Instant::now();
    fs.sync().unwrap();
    println!("sync {:?}", t.elapsed());
    fs.unlink(root, b"b").unwrap();
    let t = std::time::Instant::now();
    fs.release(b);
    println!("reap {:?}", t.elapsed());
    let t = std::time::Instant::now();
    fs.sync().unwrap();
    println!("sync {:?}", t.elapsed());
}

/// A sequential read does not ask the disk for each piece.
#[test]
fn a_file_is_read_ahead() {
    const LEN: usize = 1 << 20;
    let disk = formatted(24);
    let mut fs = mount(&disk);
    let root = fs.root();
    let mut written: Vec<u8> = (0..LEN).map(|at| (at / 7) as u8).collect();
    let node = file(&mut fs, root, "file", &written);
    fs.release(node);
    fs.sync().unwrap();
    drop(fs);
    let mut fs = mount(&disk);
    let node = fs.find(root, b"file").unwrap();
    fs.hold(node);
    for size in [4096, 32 << 10] {
        disk.0.borrow_mut().asked = 0;
        let mut bytes = vec![0; LEN];
        for (at, piece) in bytes.chunks_exact_mut(size).enumerate() {
            assert_eq!(fs.read(node, (at * size) as u64, piece), Ok(size));
        }
        assert!(bytes == written);
        let asked = disk.0.borrow().asked;
        assert!(asked < (LEN / size / 3) as u64, "pieces of {size}: the disk is asked {asked} times");
        // Read-ahead data is not used after it was overwritten.
        let at = LEN - 2 * size;
        assert_eq!(fs.read(node, (at - size) as u64, &mut bytes[..size]), Ok(size));
        assert_eq!(fs.read(node, at as u64, &mut bytes[..size]), Ok(size));
        written[at + size..].fill(9);
        write_all(&mut fs, node, (at + size) as u64, &written[at + size..]);
        assert_eq!(fs.read(node, (at + size) as u64, &mut bytes[..size]), Ok(size));
        assert!(bytes[..size] == written[at + size..]);
    }
}
