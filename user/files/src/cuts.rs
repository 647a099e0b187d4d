//! What tests of file systems on disks share: a disk in memory that logs what is written to it, operations by lot, and a judge of
//! what is found after the power went at any of the writes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Result;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use file_protocol::{Kind, entries};

use crate::blocks::Blocks;
use crate::system::{FileSystem, New, Node};

/// What a disk was asked.
#[derive(Clone)]
pub enum Act {
    Write(u64, Vec<u8>),
    Flush,
}

/// A disk's bytes, and what is done to it.
#[derive(Default)]
pub struct State {
    pub bytes: Vec<u8>,
    log: Vec<Act>,
    logged: bool,
    pub read_only: bool,
    /// So many writes and flushes from now on one fails.
    pub fails_in: Option<u32>,
}

/// A disk whose bytes outlive the mount, and whose writes and flushes can be logged.
#[derive(Clone, Default)]
pub struct Memory(pub Rc<RefCell<State>>);

impl Memory {
    pub fn of(bytes: Vec<u8>) -> Memory {
        Memory(Rc::new(RefCell::new(State { bytes, ..State::default() })))
    }

    /// The log so far; from here on there is one, or none.
    pub fn logged(&self, logged: bool) -> Vec<Act> {
        let mut state = self.0.borrow_mut();
        state.logged = logged;
        std::mem::take(&mut state.log)
    }

    fn act(&self, act: impl FnOnce() -> Act) -> Result<()> {
        let mut state = self.0.borrow_mut();
        match &mut state.fails_in {
            Some(0) => return Err(std::io::ErrorKind::Other.into()),
            Some(left) => *left -= 1,
            None => {}
        }
        if state.logged {
            state.log.push(act());
        }
        Ok(())
    }
}

impl Blocks for Memory {
    fn size(&self) -> u64 {
        self.0.borrow().bytes.len() as u64
    }
    fn read_only(&self) -> bool {
        self.0.borrow().read_only
    }
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        bytes.copy_from_slice(&self.0.borrow().bytes[offset as usize..][..bytes.len()]);
        Ok(())
    }
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.act(|| Act::Write(offset, bytes.to_vec()))?;
        self.0.borrow_mut().bytes[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
    fn flush(&mut self) -> Result<()> {
        self.act(|| Act::Flush)
    }
}

/// A generator of numbers that are the same in each run.
pub struct Lot(pub u64);

impl Lot {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    pub fn below(&mut self, most: usize) -> usize {
        (self.next() % most as u64) as usize
    }
    fn content(&mut self) -> Vec<u8> {
        let (len, byte) = (self.below(3).pow(2) * 9000 + self.below(9000), self.next() as u8 | 1);
        vec![byte; len]
    }
}

/// Names from the root, and content; directories end with a slash.
pub type Tree = BTreeMap<String, Vec<u8>>;

fn split(path: &str) -> (&str, &str) {
    let path = path.trim_end_matches('/');
    path.rfind('/').map_or(("", path), |at| (&path[..at], &path[at + 1..]))
}

fn find(fs: &mut impl FileSystem, path: &str) -> Node {
    let root = fs.root();
    path.split('/').filter(|part| !part.is_empty()).fold(root, |at, part| fs.find(at, part.as_bytes()).unwrap())
}

/// The names in a directory, sorted.
pub fn names(fs: &mut impl FileSystem, directory: Node) -> Vec<String> {
    let (mut all, mut cookie) = (Vec::new(), 0);
    loop {
        let mut data = Vec::new();
        fs.entries(directory, cookie, &mut data).unwrap();
        let before = all.len();
        for entry in entries(&data) {
            all.push(String::from_utf8(entry.name.to_vec()).unwrap());
            cookie = entry.cookie;
        }
        if all.len() == before {
            all.retain(|name| name != "lost+found");
            all.sort();
            return all;
        }
    }
}

/// Writes content, all of it.
pub fn write_all(fs: &mut impl FileSystem, node: Node, mut offset: u64, content: &[u8]) {
    for piece in content.chunks(60 << 10) {
        assert_eq!(fs.write(node, offset, piece), Ok(piece.len()));
        offset += piece.len() as u64;
    }
}

/// Reads content, all of it.
pub fn content(fs: &mut impl FileSystem, node: Node) -> Vec<u8> {
    let mut bytes = vec![0; fs.size(node).unwrap() as usize];
    let mut done = 0;
    while done < bytes.len() {
        let read = fs.read(node, done as u64, &mut bytes[done..]).unwrap();
        assert!(read > 0, "a file is shorter than it says");
        done += read;
    }
    bytes
}

/// All that can be found from a directory on.
pub fn walk(fs: &mut impl FileSystem, directory: Node, prefix: &str, tree: &mut Tree) {
    for name in names(fs, directory) {
        let (node, path) = (fs.find(directory, name.as_bytes()).unwrap(), format!("{prefix}{name}"));
        if fs.kind(node).unwrap().0 == Kind::Directory {
            walk(fs, node, &format!("{path}/"), tree);
            tree.insert(format!("{path}/"), Vec::new());
        } else {
            let found = content(fs, node);
            tree.insert(path, found);
        }
    }
}

/// What an operation may leave half done.
#[derive(Default)]
pub struct Between {
    /// A file whose content it changes.
    content: Option<String>,
    /// The old name of one that it renames: it may be there beside the new one.
    old: Option<String>,
}

/// One operation, without a sync.
pub fn step(fs: &mut impl FileSystem, tree: &mut Tree, lot: &mut Lot) -> Between {
    let files: Vec<String> = tree.keys().filter(|path| !path.ends_with('/')).cloned().collect();
    let mut dirs: Vec<String> = tree.keys().filter(|path| path.ends_with('/')).cloned().collect();
    dirs.push(String::new());
    let dir = dirs[lot.below(dirs.len())].clone();
    let fresh = format!("{dir}a name of its own, number {}", lot.below(10_000));
    let (parent, name) = split(&fresh);
    let parent = find(fs, parent);
    let of_content = |path: String| Between { content: Some(path), old: None };
    if tree.contains_key(&fresh) || tree.contains_key(&format!("{fresh}/")) {
        return Between::default();
    }
    let old = (!files.is_empty()).then(|| files[lot.below(files.len())].clone());
    match (lot.below(10), old) {
        (0, _) if dir.matches('/').count() < 3 => {
            fs.make(parent, name.as_bytes(), New::Directory(0o755)).unwrap();
            tree.insert(format!("{fresh}/"), Vec::new());
            Between::default()
        }
        (kind @ 1..=2, Some(old)) => {
            // To a name that is free, or one that is not.
            let to = if kind == 1 { fresh.clone() } else { files[lot.below(files.len())].clone() };
            let (from_dir, to_dir) = (find(fs, split(&old).0), find(fs, split(&to).0));
            fs.rename((from_dir, split(&old).1.as_bytes()), (to_dir, split(&to).1.as_bytes())).unwrap();
            let content = tree.remove(&old).unwrap();
            tree.insert(to, content);
            Between { content: None, old: Some(old) }
        }
        (3, Some(old)) => {
            let from_dir = find(fs, split(&old).0);
            fs.unlink(from_dir, split(&old).1.as_bytes()).unwrap();
            tree.remove(&old);
            Between::default()
        }
        (4, Some(old)) => {
            let (node, size) = (find(fs, &old), lot.below(2 * tree[&old].len() + 1));
            fs.resize(node, size as u64).unwrap();
            tree.get_mut(&old).unwrap().resize(size, 0);
            of_content(old)
        }
        (5, Some(old)) => {
            let (node, more) = (find(fs, &old), lot.content());
            write_all(fs, node, tree[&old].len() as u64, &more);
            tree.get_mut(&old).unwrap().extend(more);
            of_content(old)
        }
        (6, Some(old)) => {
            let (node, len) = (find(fs, &old), tree[&old].len());
            let (at, mut other) = (lot.below(len + 1), lot.content());
            other.truncate(len - at);
            write_all(fs, node, at as u64, &other);
            tree.get_mut(&old).unwrap()[at..at + other.len()].copy_from_slice(&other);
            of_content(old)
        }
        (7, Some(old)) => {
            // Open while another file gets its name.
            let (node, over) = (find(fs, &old), files[lot.below(files.len())].clone());
            fs.hold(node);
            if over != old {
                let (from_dir, to_dir) = (find(fs, split(&over).0), find(fs, split(&old).0));
                fs.rename((from_dir, split(&over).1.as_bytes()), (to_dir, split(&old).1.as_bytes())).unwrap();
                let content = tree.remove(&over).unwrap();
                tree.insert(old, content);
            }
            fs.release(node);
            Between { content: None, old: Some(over) }
        }
        _ => {
            let bytes = lot.content();
            let node = fs.make(parent, name.as_bytes(), New::File(0o644)).unwrap();
            write_all(fs, node, 0, &bytes);
            tree.insert(fresh.clone(), bytes);
            of_content(fresh)
        }
    }
}

/// What may be found after a cut: all of `after`; all of `before`; `after` and the old name of what was renamed; or of the file whose
/// content was being changed each byte as before, as after, or zero where one of them has none.
fn judge(found: &Tree, before: &Tree, after: &Tree, between: &Between) -> std::result::Result<(), String> {
    if found == before || found == after {
        return Ok(());
    }
    let without = |tree: &Tree, path: &String| {
        let mut tree = tree.clone();
        tree.remove(path);
        tree
    };
    if let Some(old) = &between.old
        && found.get(old) == before.get(old)
        && without(found, old) == *after
    {
        return Ok(());
    }
    let Some(path) = &between.content else {
        let differ = |one: &Tree, other: &Tree| {
            one.keys().filter(|path| one.get(*path) != other.get(*path)).cloned().collect::<Vec<_>>()
        };
        return Err(format!("neither before nor after: {:?}, {:?}", differ(found, after), differ(after, found)));
    };
    if without(found, path) != without(before, path) {
        return Err("a file that nobody touched is another".to_owned());
    }
    let none = Vec::new();
    let (old, new) = (before.get(path).unwrap_or(&none), after.get(path).unwrap_or(&none));
    let Some(got) = found.get(path) else {
        return if before.contains_key(path) { Err(format!("{path} is gone")) } else { Ok(()) };
    };
    if got.len() < old.len().min(new.len()) || got.len() > old.len().max(new.len()) {
        return Err(format!("{path} has {} bytes, of {} or {}", got.len(), old.len(), new.len()));
    }
    let right = |(at, byte): (usize, &u8)| {
        let (old, new) = (old.get(at), new.get(at));
        old == Some(byte) || new == Some(byte) || *byte == 0 && (old.is_none() || new.is_none())
    };
    let wrong = got.iter().enumerate().position(|place| !right(place));
    wrong.map_or(Ok(()), |at| Err(format!("{path} has a byte of somebody else's at {at}")))
}

/// What reads the tree out of an image.
pub type Reader = dyn Fn(Vec<u8>) -> std::result::Result<Tree, String>;

/// The states that cuts left, and the bad ones.
pub struct Cuts<'a> {
    pub states: usize,
    pub bad: Vec<String>,
    pub reader: &'a Reader,
}

impl Cuts<'_> {
    fn look(&mut self, bytes: &[u8], what: &str, before: &Tree, after: &Tree, between: &Between) {
        self.states += 1;
        let found = catch_unwind(AssertUnwindSafe(|| (self.reader)(bytes.to_vec())));
        let judged = match found {
            Ok(found) => found.and_then(|found| judge(&found, before, after, between)),
            Err(_) => Err("it cannot be walked".to_owned()),
        };
        if let Err(why) = judged {
            self.bad.push(format!("{what}: {why}"));
        }
    }

    /// Each state that a cut in these acts can leave: after each write, with the last write torn, and with any of what was written since
    /// the last flush. At the end all that was flushed must be there.
    fn replay(
        &mut self,
        base: &[u8],
        acts: &[Act],
        lot: &mut Lot,
        what: &str,
        (before, after, between): (&Tree, &Tree, &Between),
    ) {
        let (mut image, mut flushed, mut since) = (base.to_vec(), base.to_vec(), Vec::new());
        let put = |image: &mut [u8], at: u64, bytes: &[u8]| {
            image[at as usize..][..bytes.len()].copy_from_slice(bytes);
        };
        for (index, act) in acts.iter().enumerate() {
            match act {
                Act::Write(at, bytes) => {
                    if bytes.len() > 512 {
                        let mut torn = image.clone();
                        let sectors = 1 + lot.below(bytes.len() / 512 - 1);
                        put(&mut torn, *at, &bytes[..sectors * 512]);
                        self.look(&torn, &format!("{what}, write {index} torn"), before, after, between);
                    }
                    put(&mut image, *at, bytes);
                    since.push((*at, bytes));
                    self.look(&image, &format!("{what}, after write {index}"), before, after, between);
                }
                Act::Flush => {
                    flushed.clone_from(&image);
                    since.clear();
                }
            }
            if since.len() > 1 {
                let mut some = flushed.clone();
                for (at, bytes) in &since {
                    if lot.below(2) == 0 {
                        put(&mut some, *at, bytes);
                    }
                }
                self.look(&some, &format!("{what}, some of the writes before {index}"), before, after, between);
            }
        }
        self.look(&flushed, &format!("{what}, all that was flushed"), after, after, &Between::default());
    }

    /// Operations by lot with a sync after each; the power goes at each write of each and of its sync.
    pub fn run(&mut self, disk: &Memory, fs: &mut impl FileSystem, seed: u64, steps: usize) {
        let (mut lot, mut tree) = (Lot(seed * 7919 + 13), Tree::new());
        for _ in 0..20 {
            step(fs, &mut tree, &mut lot);
        }
        fs.sync().unwrap();
        for index in 0..steps {
            let (before, base) = (tree.clone(), disk.0.borrow().bytes.clone());
            disk.logged(true);
            let between = step(fs, &mut tree, &mut lot);
            fs.settle();
            fs.sync().unwrap();
            let acts = disk.logged(false);
            self.replay(&base, &acts, &mut lot, &format!("step {index}"), (&before, &tree, &between));
        }
    }
}

/// How many operations are cut: `HAFNON_CUTS`, or few.
pub fn steps(few: usize) -> usize {
    std::env::var("HAFNON_CUTS").ok().and_then(|steps| steps.parse().ok()).unwrap_or(few)
}

/// Says what was found; nothing may be bad.
pub fn verdict(what: &str, cuts: &Cuts<'_>, steps: usize) {
    let (states, bad) = (cuts.states, &cuts.bad);
    println!("{what}: {steps} operations, {states} states, {} bad", bad.len());
    assert!(bad.is_empty(), "{} of {states} states are bad: {:#?}", bad.len(), &bad[..bad.len().min(12)]);
    assert!(states > 3 * steps, "only {states} states");
}
