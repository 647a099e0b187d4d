//! Reads everything that a file system holds, for tests and power-cut checks.

use std::collections::BTreeMap;

use file_protocol::{Error, Kind, Result, entries};

use crate::system::{FileSystem, Node};

/// Maximum depth of nested directories.
const DEEPEST: usize = 64;

/// The names in a directory, sorted.
///
/// # Errors
/// Errors of the file system, or a name is not UTF-8.
pub fn names(fs: &mut impl FileSystem, directory: Node) -> Result<Vec<String>> {
    let (mut all, mut cookie) = (Vec::new(), 0);
    loop {
        let mut data = Vec::new();
        fs.entries(directory, cookie, &mut data)?;
        let before = all.len();
        for entry in entries(&data) {
            all.push(String::from_utf8(entry.name.to_vec()).map_err(|_| Error::Damaged)?);
            cookie = entry.cookie;
        }
        if all.len() == before {
            all.sort();
            return Ok(all);
        }
    }
}

/// Reads a file.
///
/// # Errors
/// Errors of the file system.
pub fn content(fs: &mut impl FileSystem, file: Node) -> Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(fs.size(file)?).map_err(|_| Error::TooLarge)?];
    let mut done = 0;
    while done < bytes.len() {
        match fs.read(file, done as u64, &mut bytes[done..])? {
            // The file is shorter than its size says.
            0 => return Err(Error::Damaged),
            read => done += read,
        }
    }
    Ok(bytes)
}

/// The content of all files by path. Directories are included with a path that ends with a slash. `lost+found` is left
/// out.
///
/// # Errors
/// Errors of the file system, or directories are nested too deep.
pub fn all(fs: &mut impl FileSystem) -> Result<BTreeMap<String, Vec<u8>>> {
    let (mut tree, root) = (BTreeMap::new(), fs.root());
    walk(fs, root, "", 0, &mut tree)?;
    Ok(tree)
}

fn walk(
    fs: &mut impl FileSystem,
    directory: Node,
    prefix: &str,
    depth: usize,
    tree: &mut BTreeMap<String, Vec<u8>>,
) -> Result<()> {
    if depth > DEEPEST {
        return Err(Error::Damaged);
    }
    for name in names(fs, directory)? {
        let (node, path) = (fs.find(directory, name.as_bytes())?, format!("{prefix}{name}"));
        if path == "lost+found" {
            continue;
        }
        if fs.kind(node)?.0 == Kind::Directory {
            walk(fs, node, &format!("{path}/"), depth + 1, tree)?;
            tree.insert(format!("{path}/"), Vec::new());
        } else {
            let found = content(fs, node)?;
            tree.insert(path, found);
        }
    }
    Ok(())
}
