//! Random operations, and a model of a file tree that they change.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::Random;

/// Paths from the root, and contents; paths of directories end with a slash.
pub type Tree = BTreeMap<String, Vec<u8>>;

/// The file in the root whose content is the [mark](crate::log::mark). It is no part of the tree.
pub const MARK: &str = "mark";
/// Most files, most directories, and the most bytes of a file that still grows.
const FILES: usize = 24;
const DIRECTORIES: usize = 8;
const LONG: usize = 60_000;
/// Consecutive operations that are synced in the same way.
const PORTION: u64 = 12;

/// Abilities that only some file systems have.
#[derive(Clone, Copy, Debug)]
pub struct Abilities {
    /// A file can have more than one name.
    pub links: bool,
    /// A directory can move to another directory.
    pub moves_directories: bool,
}

impl Abilities {
    /// The abilities of `ext4` and `fat`.
    pub fn of(kind: &str) -> Option<Abilities> {
        let ext4 = kind == "ext4";
        (ext4 || kind == "fat").then_some(Abilities { links: ext4, moves_directories: ext4 })
    }
}

/// How an operation is synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// At once, with no open file.
    Closed,
    /// At once, while a file is open.
    Open,
    /// Together with others, while a file is open.
    Seldom,
}

/// An operation on a tree. Paths are from the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Create a file.
    Make(String, Vec<u8>),
    /// Create a directory.
    MakeDirectory(String),
    /// Give a file a second name.
    Link(String, String),
    /// Append content.
    Append(String, Vec<u8>),
    /// Overwrite content inside the file.
    Overwrite(String, usize, Vec<u8>),
    /// Change the length.
    Resize(String, usize),
    /// Rename. The target may exist; the flag says whether the target is open meanwhile.
    Rename(String, String, bool),
    /// Remove a file; the flag says whether it is open meanwhile.
    Remove(String, bool),
    /// Remove an empty directory.
    RemoveDirectory(String),
}

/// A file or directory, independent of its names.
pub type Object = u64;

/// The expected tree. Clones share content.
#[derive(Clone, Debug, Default)]
pub struct Model {
    names: BTreeMap<String, Object>,
    contents: BTreeMap<Object, Rc<Vec<u8>>>,
    next: Object,
}

/// Bytes that differ between neighbouring sectors and are never zero.
pub fn content(first: u8, len: usize) -> Vec<u8> {
    (0..len).map(|at| first.wrapping_add((at / 512) as u8) | 1).collect()
}

fn drawn(lot: &mut Random) -> Vec<u8> {
    let len = lot.below(3).pow(2) * 4000 + lot.below(4000);
    content(lot.below(256) as u8, len)
}

/// How operation `index` is synced, and whether a sync follows it. The ways alternate every `PORTION` operations.
pub fn way(seed: u64, index: u64) -> (SyncMode, bool) {
    let last = index % PORTION == PORTION - 1;
    match index / PORTION % 3 {
        0 => (SyncMode::Closed, true),
        1 => (SyncMode::Open, true),
        _ => (SyncMode::Seldom, last || Random::new(seed.wrapping_add(index)).below(6) == 0),
    }
}

/// The directory of a path, with its slash, and the name in it.
pub fn split(path: &str) -> (&str, &str) {
    let whole = path.trim_end_matches('/');
    whole.rfind('/').map_or(("", whole), |at| (&whole[..=at], &whole[at + 1..]))
}

impl Model {
    /// All names, with their objects and contents.
    pub fn names(&self) -> impl Iterator<Item = (&String, Object, &Rc<Vec<u8>>)> {
        self.names.iter().filter_map(|(path, object)| Some((path, *object, self.contents.get(object)?)))
    }

    /// The object of a name.
    pub fn object(&self, path: &str) -> Option<Object> {
        self.names.get(path).copied()
    }

    /// The content of a file; a directory's is empty.
    pub fn content(&self, object: Object) -> Option<&Rc<Vec<u8>>> {
        self.contents.get(&object)
    }

    /// The tree as a reader would find it.
    pub fn tree(&self) -> Tree {
        self.names().map(|(path, _, content)| (path.clone(), content.to_vec())).collect()
    }

    /// Whether a reader has found exactly this tree.
    pub fn is(&self, found: &Tree) -> bool {
        let should = self.names().map(|(path, _, content)| (path, content.as_ref()));
        found.len() == self.names.len() && found.iter().eq(should)
    }

    /// Draws a random operation.
    pub fn draw(&self, lot: &mut Random, can: Abilities) -> Operation {
        let (directories, files): (Vec<&String>, Vec<&String>) =
            self.names.keys().partition(|path| path.ends_with('/'));
        let folder = |lot: &mut Random| match lot.below(directories.len() + 1) {
            0 => String::new(),
            some => directories[some - 1].clone(),
        };
        let fresh = |lot: &mut Random, end: &str| loop {
            let number = lot.below(10_000);
            let name = if number.is_multiple_of(3) {
                format!("F{number}")
            } else {
                format!("a name of its own, number {number}")
            };
            let path = format!("{}{name}", folder(lot));
            // A file and a directory cannot have the same name.
            if !self.names.contains_key(&path) && !self.names.contains_key(&format!("{path}/")) {
                return format!("{path}{end}");
            }
        };
        let make = |lot: &mut Random| Operation::Make(fresh(lot, ""), drawn(lot));
        if files.is_empty() {
            return make(lot);
        }
        let old = files[lot.below(files.len())].clone();
        let len = self.names.get(&old).and_then(|object| self.contents.get(object)).map_or(0, |content| content.len());
        match lot.below(17) {
            0 | 1 if directories.len() < DIRECTORIES => {
                let path = fresh(lot, "/");
                if path.matches('/').count() > 3 { make(lot) } else { Operation::MakeDirectory(path) }
            }
            2 | 3 => Operation::Rename(old, fresh(lot, ""), false),
            kind @ 4..=6 => Operation::Rename(old, files[lot.below(files.len())].clone(), kind == 4),
            kind @ 7..=8 => Operation::Remove(old, kind == 7),
            9 => Operation::Resize(old, lot.below(2 * len + 1)),
            10 => Operation::Resize(old, len + lot.below(9000)),
            11 | 12 if len < LONG => Operation::Append(old, drawn(lot)),
            13 => {
                let (at, mut other) = (lot.below(len + 1), drawn(lot));
                other.truncate(len - at);
                Operation::Overwrite(old, at, other)
            }
            14 if can.links => Operation::Link(old, fresh(lot, "")),
            15 if !directories.is_empty() => {
                let path = directories[lot.below(directories.len())].clone();
                let to = if can.moves_directories { fresh(lot, "/") } else { format!("{}moved/", split(&path).0) };
                let taken = self.names.contains_key(&to) || self.names.contains_key(to.trim_end_matches('/'));
                if taken || to.starts_with(&path) {
                    Operation::Remove(old, false)
                } else {
                    Operation::Rename(path, to, false)
                }
            }
            16 if let Some(empty) = directories.iter().find(|path| self.is_empty(path)) => {
                Operation::RemoveDirectory(String::clone(empty))
            }
            _ if files.len() >= FILES => Operation::Remove(old, false),
            _ => make(lot),
        }
    }

    fn is_empty(&self, directory: &str) -> bool {
        !self.names.keys().any(|path| path.len() > directory.len() && path.starts_with(directory))
    }

    fn add(&mut self, path: &str, content: Vec<u8>) {
        self.names.insert(path.to_owned(), self.next);
        self.contents.insert(self.next, Rc::new(content));
        self.next += 1;
    }

    fn change(&mut self, path: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let content = self.names.get(path).and_then(|object| self.contents.get_mut(object));
        change(Rc::make_mut(content.expect("an operation is on what is there")));
    }

    fn lose(&mut self, object: Object) {
        if !self.names.values().any(|other| *other == object) {
            self.contents.remove(&object);
        }
    }

    /// Applies an operation to the tree.
    ///
    /// # Panics The operation names an object that does not exist.
    pub fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Make(path, content) => self.add(path, content.clone()),
            Operation::MakeDirectory(path) => self.add(path, Vec::new()),
            Operation::Link(from, to) => {
                let object = self.names[from];
                self.names.insert(to.clone(), object);
            }
            Operation::Append(path, more) => self.change(path, |content| content.extend(more)),
            Operation::Overwrite(path, at, other) => {
                self.change(path, |content| content[*at..*at + other.len()].copy_from_slice(other));
            }
            Operation::Resize(path, size) => self.change(path, |content| content.resize(*size, 0)),
            Operation::Rename(from, to, _) if from.ends_with('/') => {
                let all = std::mem::take(&mut self.names);
                let renamed = |path: String| match path.strip_prefix(from) {
                    Some(rest) => format!("{to}{rest}"),
                    None => path,
                };
                self.names = all.into_iter().map(|(path, object)| (renamed(path), object)).collect();
            }
            Operation::Rename(from, to, _) => {
                // Renaming one name of a file to another of its names does nothing.
                if self.names[from] == *self.names.get(to).unwrap_or(&Object::MAX) {
                    return;
                }
                let object = self.names.remove(from).expect("an operation is on what is there");
                if let Some(over) = self.names.insert(to.clone(), object) {
                    self.lose(over);
                }
            }
            Operation::Remove(path, _) | Operation::RemoveDirectory(path) => {
                let object = self.names.remove(path).expect("an operation is on what is there");
                self.lose(object);
            }
        }
    }
}

/// The trees before each of `count` operations, and after the last.
pub fn history(seed: u64, count: u64, can: Abilities) -> Vec<Model> {
    let (mut lot, mut model, mut all) = (Random::new(seed), Model::default(), Vec::new());
    for _ in 0..count {
        all.push(model.clone());
        let operation = model.draw(&mut lot, can);
        model.apply(&operation);
    }
    all.push(model);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kinds_are_drawn_and_none_without_end() {
        let can = Abilities { links: true, moves_directories: true };
        let (mut lot, mut model, mut kinds) = (Random::new(3), Model::default(), BTreeMap::new());
        for _ in 0..3000 {
            let operation = model.draw(&mut lot, can);
            let name = format!("{operation:?}");
            *kinds.entry(name.split('(').next().unwrap().to_owned()).or_insert(0) += 1;
            model.apply(&operation);
        }
        assert!(kinds.len() == 9 && kinds.values().all(|count| *count > 20), "{kinds:?}");
        let bytes: usize = model.tree().values().map(Vec::len).sum();
        assert!(bytes < 3 << 20, "{bytes} bytes at the end");
        let ways: Vec<(SyncMode, bool)> = (0..1000).map(|index| way(1, index)).collect();
        for way in [SyncMode::Closed, SyncMode::Open, SyncMode::Seldom] {
            assert!(ways.iter().filter(|found| found.0 == way).count() > 100, "{way:?}");
        }
    }
}
