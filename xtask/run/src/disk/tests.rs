//! Tests that create, fill, read and damage images.

use std::path::PathBuf;

use super::*;
use xtask_common::threads;

/// A folder with a tree of files.
fn tree() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    for path in ["a folder with a long name/deeper", "empty"] {
        fs::create_dir_all(tree.join(path)).unwrap();
    }
    for (path, len) in [("one", 0), ("two.text", 1), ("a folder with a long name/three", 70_000), ("Vier", 4096)] {
        fs::write(tree.join(path), vec![len as u8 | 1; len]).unwrap();
    }
    fs::write(tree.join("a folder with a long name/deeper/größe"), vec![b'x'; 300_000]).unwrap();
    folder
}

fn image(folder: &Path, ext4: bool) -> PathBuf {
    let image = folder.join("disk.img");
    disk(&DiskCommand::New { image: image.clone(), size: 32 << 20, fat: !ext4 }).unwrap();
    image
}

fn copy_in(image: &Path, from: &Path, to: &str) -> Result<u8> {
    disk(&DiskCommand::Put { image: image.into(), from: from.into(), to: to.into() })
}

fn copy_out(image: &Path, from: &str, to: &Path) -> Result<u8> {
    disk(&DiskCommand::Get { image: image.into(), from: from.into(), to: to.into() })
}

/// All files of a tree by their paths in it.
fn contents(root: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let (mut found, mut open) = (Vec::new(), vec![root.to_path_buf()]);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let content = path.is_file().then(|| fs::read(&path).unwrap());
            found.push((path.strip_prefix(root).unwrap().to_path_buf(), content));
            if path.is_dir() {
                open.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn copied_files_are_read_back() {
    for ext4 in [false, true] {
        let folder = tree();
        let tree = folder.path().join("tree");
        let image = image(folder.path(), ext4);
        assert_eq!(copy_in(&image, &tree, "/").unwrap(), 0);
        // A shorter file replaces it, and another one gets a new name.
        fs::write(tree.join("Vier"), "short").unwrap();
        assert_eq!(copy_in(&image, &tree.join("Vier"), "/tree").unwrap(), 0);
        assert_eq!(copy_in(&image, &tree.join("Vier"), "tree/empty/other").unwrap(), 0);
        fs::write(tree.join("empty/other"), "short").unwrap();
        let back = folder.path().join("back");
        assert_eq!(copy_out(&image, "/tree", &back).unwrap(), 0);
        assert_eq!(contents(&back), contents(&tree));
        let mut volume = open(&image, false).unwrap();
        let names: Vec<Entry> = list(&mut *volume, &parts("tree").unwrap()).unwrap();
        let names: Vec<(&str, u64, Kind)> = names.iter().map(|e| (e.name.as_str(), e.size, e.kind)).collect();
        assert_eq!(names[0], ("Vier", 5, Kind::File));
        assert_eq!((names[1].0, names[1].2), ("a folder with a long name", Kind::Folder));
        drop(volume);
        // The host's own programs agree, if they are installed.
        assert_eq!(disk(&DiskCommand::Check { image }).unwrap(), 0);
    }
}

#[test]
fn what_cannot_be_is_said() {
    let folder = tree();
    let ext = image(folder.path(), true);
    fs::rename(&ext, folder.path().join("ext.img")).unwrap();
    let image = image(folder.path(), false);
    let again = DiskCommand::New { image: image.clone(), size: 1 << 20, fat: true };
    assert!(format!("{:#}", disk(&again).unwrap_err()).contains("exists"));
    assert!(copy_out(&image, "/nothing", &folder.path().join("x")).is_err());
    assert!(copy_in(&image, &folder.path().join("nothing"), "/").is_err());
    assert!(copy_in(&image, &folder.path().join("tree/one"), "/../one").is_err());
    let empty = folder.path().join("empty.img");
    fs::write(&empty, vec![0; 1 << 20]).unwrap();
    assert!(disk(&DiskCommand::Ls { image: empty, path: "/".into() }).is_err());
    // A file that is too large: there is an error, no part of it remains, and the image is clean.
    let large = folder.path().join("large");
    File::create(&large).unwrap().set_len(64 << 20).unwrap();
    for image in [image, folder.path().join("ext.img")] {
        assert!(copy_in(&image, &large, "/").is_err());
        assert!(copy_out(&image, "/large", &folder.path().join("x")).is_err());
        assert_eq!(disk(&DiskCommand::Check { image }).unwrap(), 0);
    }
}

/// Changes bytes of an image, as a machine could: every operation ends, and nothing is written outside of the folder.
#[test]
fn damaged_images() {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut number = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for ext4 in [false, true] {
        let folder = tree();
        let whole = image(folder.path(), ext4);
        copy_in(&whole, &folder.path().join("tree"), "/").unwrap();
        let bytes = fs::read(&whole).unwrap();
        let used: Vec<usize> =
            (0..bytes.len()).step_by(512).filter(|at| bytes[*at..*at + 512].iter().any(|b| *b != 0)).collect();
        for round in 0..30 {
            let mut bytes = bytes.clone();
            for _ in 0..1 + number(60) {
                // The first sectors describe all others.
                let sector = used[number(if round % 2 == 0 { used.len().min(40) } else { used.len() })];
                bytes[sector + number(512)] = number(256) as u8;
            }
            let damaged = folder.path().join("damaged.img");
            fs::write(&damaged, bytes).unwrap();
            let inside = folder.path().join("inside");
            let to = inside.join("to");
            fs::create_dir_all(&to).unwrap();
            let _ = threads::main(|| copy_out(&damaged, "/", &to));
            let _ = threads::main(|| copy_in(&damaged, &folder.path().join("tree/two.text"), "/"));
            assert_eq!(fs::read_dir(&inside).unwrap().count(), 1);
            fs::remove_dir_all(&inside).unwrap();
        }
    }
}
