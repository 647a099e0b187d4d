//! Shared code of the tests of disk file systems: a disk in memory that logs its writes, and random operations on a
//! mounted file system, whose log is [replayed](cuts::replay).

use std::cell::RefCell;
use std::io::Result;
use std::rc::Rc;

use cuts::Random;
use cuts::image::Image;
use cuts::log::Act;
use cuts::plan::{Abilities, MARK, Model, Operation, split};
use cuts::replay::Replay;

use crate::blocks::Blocks;
use crate::contents;
use crate::system::{FileSystem, New, Node};

/// A disk's bytes, its log, and its failures.
#[derive(Default)]
pub struct State {
    pub bytes: Vec<u8>,
    log: Vec<Act>,
    logged: bool,
    pub read_only: bool,
    /// The write or flush with this number from now on fails.
    pub fails_in: Option<u32>,
    /// After the failure, later accesses succeed.
    pub fails_once: bool,
    /// Number of reads, writes and flushes so far.
    pub asked: u64,
}

/// A disk that outlives the mount and can log its writes and flushes.
#[derive(Clone, Default)]
pub struct Memory(pub Rc<RefCell<State>>);

impl Memory {
    pub fn of(bytes: Vec<u8>) -> Memory {
        Memory(Rc::new(RefCell::new(State { bytes, ..State::default() })))
    }

    /// Returns the log so far; starts a new log or stops logging.
    pub fn logged(&self, logged: bool) -> Vec<Act> {
        let mut state = self.0.borrow_mut();
        state.logged = logged;
        std::mem::take(&mut state.log)
    }

    pub fn image(&self) -> Image {
        Image::new(&self.0.borrow().bytes)
    }

    fn act(&self, act: impl FnOnce() -> Act) -> Result<()> {
        let mut state = self.0.borrow_mut();
        state.asked += 1;
        match &mut state.fails_in {
            Some(0) => {
                if state.fails_once {
                    state.fails_in = None;
                }
                return Err(std::io::ErrorKind::Other.into());
            }
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
        let mut state = self.0.borrow_mut();
        state.asked += 1;
        bytes.copy_from_slice(&state.bytes[offset as usize..][..bytes.len()]);
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

fn find(fs: &mut impl FileSystem, path: &str) -> Node {
    let root = fs.root();
    path.split('/').filter(|part| !part.is_empty()).fold(root, |at, part| fs.find(at, part.as_bytes()).unwrap())
}

/// The names in a directory, sorted.
pub fn names(fs: &mut impl FileSystem, directory: Node) -> Vec<String> {
    let mut names = contents::names(fs, directory).unwrap();
    names.retain(|name| name != "lost+found");
    names
}

/// Writes all of a content.
pub fn write_all(fs: &mut impl FileSystem, node: Node, mut offset: u64, content: &[u8]) {
    for piece in content.chunks(60 << 10) {
        assert_eq!(fs.write(node, offset, piece), Ok(piece.len()));
        offset += piece.len() as u64;
    }
}

/// Reads all of a content.
pub fn content(fs: &mut impl FileSystem, node: Node) -> Vec<u8> {
    contents::content(fs, node).unwrap()
}

pub fn carry_out(fs: &mut impl FileSystem, model: &Model, operation: &Operation) {
    let place = |fs: &mut _, path| {
        let (folder, name) = split(path);
        (find(fs, folder), name.as_bytes().to_vec())
    };
    let len = |path: &str| model.object(path).and_then(|object| model.content(object)).map_or(0, |bytes| bytes.len());
    match operation {
        Operation::Make(path, bytes) => {
            let (folder, name) = place(fs, path);
            let node = fs.make(folder, &name, New::File(0o644)).unwrap();
            fs.hold(node);
            write_all(fs, node, 0, bytes);
            fs.release(node);
        }
        Operation::MakeDirectory(path) => {
            let (folder, name) = place(fs, path);
            fs.make(folder, &name, New::Directory(0o755)).unwrap();
        }
        Operation::Link(from, to) => {
            let (node, (folder, name)) = (find(fs, from), place(fs, to));
            fs.link(node, folder, &name).unwrap();
        }
        Operation::Append(path, bytes) => {
            let node = find(fs, path);
            write_all(fs, node, len(path) as u64, bytes);
        }
        Operation::Overwrite(path, at, bytes) => {
            let node = find(fs, path);
            write_all(fs, node, *at as u64, bytes);
        }
        Operation::Resize(path, size) => {
            let node = find(fs, path);
            fs.resize(node, *size as u64).unwrap();
        }
        // Two names of one file: there is nothing to do, and the file service does not call the file system either.
        Operation::Rename(from, to, _) if model.object(from) == model.object(to) => {}
        Operation::Rename(from, to, open) => {
            let held = open.then(|| find(fs, to));
            held.into_iter().for_each(|node| fs.hold(node));
            let (from, to) = (place(fs, from), place(fs, to));
            fs.rename((from.0, &from.1), (to.0, &to.1)).unwrap();
            held.into_iter().for_each(|node| fs.release(node));
        }
        Operation::Remove(path, open) => {
            let held = open.then(|| find(fs, path));
            held.into_iter().for_each(|node| fs.hold(node));
            let (folder, name) = place(fs, path);
            fs.unlink(folder, &name).unwrap();
            held.into_iter().for_each(|node| fs.release(node));
        }
        Operation::RemoveDirectory(path) => {
            let (folder, name) = place(fs, path);
            fs.unlink(folder, &name).unwrap();
        }
    }
    fs.settle();
}

/// The result of a run: the image before, the log since, and the trees.
pub struct RunResult {
    pub base: Image,
    pub acts: Vec<Act>,
    pub trees: Vec<Model>,
}

/// Runs random operations, each followed by a sync and a mark. With `marking`, the mark is a file on the disk.
pub fn play(
    disk: &Memory,
    fs: &mut impl FileSystem,
    seed: u64,
    steps: usize,
    can: Abilities,
    marking: bool,
) -> RunResult {
    let (mut lot, mut model) = (Random::new(seed), Model::default());
    let root = fs.root();
    if marking {
        let node = fs.make(root, MARK.as_bytes(), New::File(0o644)).unwrap();
        write_all(fs, node, 0, &cuts::log::mark(0));
        fs.settle();
        fs.sync().unwrap();
    }
    let base = disk.image();
    disk.logged(true);
    let mut trees = vec![model.clone()];
    for number in 1..=steps {
        let operation = model.draw(&mut lot, can);
        carry_out(fs, &model, &operation);
        fs.sync().unwrap();
        model.apply(&operation);
        trees.push(model.clone());
        if marking {
            let node = find(fs, MARK);
            write_all(fs, node, 0, &cuts::log::mark(number as u64));
            fs.settle();
            fs.sync().unwrap();
        } else {
            disk.0.borrow_mut().log.push(Act::Mark(number as u64));
        }
    }
    RunResult { base, acts: disk.logged(false), trees }
}

/// Number of operations that are replayed with power cuts: `HAFNON_CUTS`, or `few`.
pub fn steps(few: usize) -> usize {
    std::env::var("HAFNON_CUTS").ok().and_then(|steps| steps.parse().ok()).unwrap_or(few)
}

/// Prints the result, and fails if any state is bad. There is a cut after each write, and one within each write that is
/// longer than a sector, the unit that the disk writes atomically.
pub fn verdict(what: &str, replay: &Replay<'_>, acts: &[Act], steps: usize) {
    let (counts, bad) = (replay.counts, replay.bad);
    println!("{what}: {steps} operations, {counts:?}, {bad} bad");
    assert!(bad == 0, "{bad} of {} states are bad: {:#?}", replay.states(), replay.told);
    let writes = |least: usize| acts.iter().filter(|act| matches!(act, Act::Write(_, b) if b.len() >= least)).count();
    assert!(counts.cuts == writes(0) && counts.torn >= writes(2 * 512) && counts.torn > 0, "only {counts:?}");
    assert!(counts.cuts > 2 * steps && replay.states() > 3 * steps, "only {counts:?}");
}
