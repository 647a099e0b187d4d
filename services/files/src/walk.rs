//! Resolves a path, link by link (step 3 of the protocol).

use file_protocol::{Error, Kind, LINKS_MAX, NAME_MAX, PATH_MAX, Result};

use crate::system::{FileSystem, Node};

/// The owner's permission to search a directory.
pub const SEARCH: u32 = 0o100;

/// The result of a walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// An existing node.
    There {
        /// The node.
        node: Node,
        /// The directory and the name by which it was found; `None` for a path that ends with `.` or `..`, or is empty.
        entry: Option<(Node, Vec<u8>)>,
    },
    /// A name that does not exist, in an existing directory.
    Missing {
        /// The directory.
        directory: Node,
        /// The name.
        name: Vec<u8>,
        /// A slash follows the name, as for a directory.
        slash: bool,
    },
    /// Outside of the tree.
    Elsewhere {
        /// The rest starts at the parent of the tree's root; otherwise the rest is absolute.
        above: bool,
        /// The rest of the path.
        rest: Vec<u8>,
    },
}

/// Resolves `path` from the directory `start`. A symbolic link at its end is followed if `follow` says so or a slash
/// follows it.
///
/// # Errors
/// `NotFound`, `NotDirectory`, `Access`, `TooLong`, `Links`.
pub fn walk(system: &mut impl FileSystem, start: Node, path: &[u8], follow: bool) -> Result<Place> {
    if path.len() >= PATH_MAX {
        return Err(Error::TooLong);
    }
    if path.first() == Some(&b'/') || path.contains(&0) {
        return Err(Error::Invalid);
    }
    let (mut at, mut entry) = (start, None);
    // The rest of the path begins at `begin`. Nothing is copied per component, of which there may be two thousand in
    // each of forty links.
    let (mut path, mut begin) = (path.to_vec(), 0);
    let mut links = 0;
    loop {
        let slashes = |from: usize| path[from..].iter().take_while(|byte| **byte == b'/').count();
        begin += slashes(begin);
        if begin == path.len() {
            return Ok(Place::There { node: at, entry });
        }
        let end = path[begin..].iter().position(|byte| *byte == b'/').map_or(path.len(), |len| begin + len);
        let next = end + slashes(end);
        let (last, slash) = (next == path.len(), next == path.len() && next > end);
        let part = &path[begin..end];
        match system.kind(at)? {
            (Kind::Directory, mode) if mode & SEARCH == 0 => return Err(Error::Access),
            (Kind::Directory, _) => {}
            _ => return Err(Error::NotDirectory),
        }
        match part {
            b"." => entry = None,
            b".." if at == system.root() => {
                return Ok(Place::Elsewhere { above: true, rest: path.split_off(path.len().min(end + 1)) });
            }
            b".." => (at, entry) = (system.above(at)?, None),
            name if name.len() > NAME_MAX => return Err(Error::TooLong),
            name => match system.find(at, name) {
                Err(Error::NotFound) if last => {
                    return Ok(Place::Missing { directory: at, name: name.to_vec(), slash });
                }
                Err(error) => return Err(error),
                Ok(node) => match system.kind(node)?.0 {
                    Kind::Link if !last || slash || follow => {
                        links += 1;
                        if links > LINKS_MAX {
                            return Err(Error::Links);
                        }
                        let mut target = system.target(node)?;
                        target.extend_from_slice(&path[end..]);
                        if target.len() >= PATH_MAX {
                            return Err(Error::TooLong);
                        }
                        if target.first() == Some(&b'/') {
                            return Ok(Place::Elsewhere { above: false, rest: target });
                        }
                        (path, begin) = (target, 0);
                        continue;
                    }
                    kind if slash && kind != Kind::Directory => return Err(Error::NotDirectory),
                    _ => (entry, at) = (Some((at, name.to_vec())), node),
                },
            },
        }
        begin = end;
    }
}

/// The same for a call that creates or removes the last name of a path: a symbolic link with that name is not followed,
/// even if a slash follows it.
///
/// # Errors
/// As [`walk`].
pub fn walk_to_name(system: &mut impl FileSystem, start: Node, path: &[u8]) -> Result<Place> {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(path.len(), |last| last + 1);
    Ok(match walk(system, start, &path[..end], false)? {
        Place::Missing { directory, name, slash } => {
            Place::Missing { directory, name, slash: slash || end < path.len() }
        }
        place => place,
    })
}

/// The path of a directory from the root of its tree, without a leading slash.
///
/// # Errors
/// `NotFound`: the directory has been removed. `TooLong`.
pub fn path_of(system: &mut impl FileSystem, directory: Node) -> Result<Vec<u8>> {
    let mut parts = Vec::new();
    let (mut at, mut len) = (directory, 0);
    while at != system.root() {
        let name = system.name(at)?;
        len += name.len() + 1;
        if len >= PATH_MAX {
            return Err(Error::TooLong);
        }
        parts.push(name);
        at = system.above(at)?;
    }
    parts.reverse();
    Ok(parts.join(&b'/'))
}

/// Whether `directory` is `above` or is below it.
///
/// # Errors
/// `NotFound`: the directory has been removed.
pub fn is_below(system: &mut impl FileSystem, directory: Node, above: Node) -> Result<bool> {
    let mut at = directory;
    // A damaged tree may have a cycle.
    for _ in 0..PATH_MAX {
        if at == above {
            return Ok(true);
        }
        if at == system.root() {
            return Ok(false);
        }
        at = system.above(at)?;
    }
    Err(Error::Damaged)
}
