//! The file system in memory: directories, links and names. File content is a [`Content`].
//!
//! Names, links and directories live in this process and count against a [`Budget`], which all trees of the process
//! share. Each is charged to the program that created it, until it is removed.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::collections::hash_map::{self, HashMap};
use std::ops::Bound;
use std::rc::Rc;

use file_protocol::{Attributes, Change, Entry, Error, Information, Kind, Result, push_entry};
use service::{Ledger, Program};

use crate::now;
use crate::system::{FileSystem, New, Node};

const ROOT: Node = 1;
/// Cost of a node in the budget without its names, in bytes: more than its actual memory.
const NODE_COST: u64 = 512;
/// Cost of a name without its bytes, which are stored twice.
const NAME_COST: u64 = 256;
/// Maximum number of names of a file.
const MOST_LINKS: u64 = 65_000;
/// All permission bits.
const PERMISSIONS: u32 = 0o7777;
const BLOCK: u32 = 4096;

/// The content of a file.
pub trait Content {
    /// Size in bytes.
    fn size(&self) -> u64;
    /// Memory that it takes in bytes.
    fn stored(&self) -> u64;
    /// Changes the size.
    ///
    /// # Errors
    /// `TooLarge`, `Full`.
    fn resize(&self, size: u64) -> Result<()>;
    /// Reads; returns 0 at the end.
    ///
    /// # Errors
    /// `Memory`.
    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<usize>;
    /// Writes.
    ///
    /// # Errors
    /// `Full`, `TooLarge`.
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<usize>;
}

/// The source of contents.
pub trait Source {
    /// The type of content.
    type Content: Content;
    /// Creates an empty content.
    ///
    /// # Errors
    /// `Full`.
    fn create(&mut self) -> Result<Self::Content>;
    /// The limit of all contents in bytes, and how much is used.
    fn usage(&mut self) -> (u64, u64);
}

/// The limit of memory for the names of all trees.
#[derive(Debug)]
pub struct Budget {
    most: u64,
    ledger: RefCell<Ledger>,
    nodes: Cell<u64>,
}

impl Budget {
    /// Creates a budget of `most` bytes, of which one program may use `of_program`.
    pub fn new(most: u64, of_program: u64) -> Rc<Budget> {
        Rc::new(Budget { most, ledger: RefCell::new(Ledger::new(most, of_program)), nodes: Cell::new(0) })
    }

    fn take(&self, program: Program, cost: u64) -> Result<()> {
        if self.ledger.borrow_mut().take(program, cost) { Ok(()) } else { Err(Error::Full) }
    }

    fn give(&self, program: Program, cost: u64) {
        self.ledger.borrow_mut().give(program, cost);
    }
}

/// The node of a name.
#[derive(Clone, Copy)]
struct Named {
    node: Node,
    /// Its number in the directory's order.
    number: u64,
    /// The program that it is charged to.
    payer: Program,
}

struct Directory {
    names: BTreeMap<Vec<u8>, Named>,
    /// Names by number, which is the order of listing. A number is never reused, so a reader that resumes after a
    /// number misses nothing and sees nothing twice.
    order: BTreeMap<u64, Vec<u8>>,
    next: u64,
    /// The parent directory and the name there; `None` once it is removed.
    above: Option<(Node, Vec<u8>)>,
}

enum Body<C> {
    File(C),
    Directory(Directory),
    Link(Vec<u8>),
    Socket,
}

impl<C> Body<C> {
    fn kind(&self) -> Kind {
        match self {
            Body::File(_) => Kind::File,
            Body::Directory(_) => Kind::Directory,
            Body::Link(_) => Kind::Link,
            Body::Socket => Kind::Socket,
        }
    }
}

struct Inode<C> {
    body: Body<C>,
    /// The program that it is charged to.
    payer: Program,
    mode: u32,
    links: u64,
    holders: u64,
    accessed: i64,
    modified: i64,
    changed: i64,
}

/// A tree.
pub struct Tree<S: Source> {
    nodes: HashMap<Node, Inode<S::Content>>,
    next: Node,
    source: S,
    budget: Rc<Budget>,
    /// The program that new nodes and names are charged to.
    payer: Program,
    /// The remaining nodes of a tree that has ended, and the one that is being freed.
    ending: hash_map::IntoIter<Node, Inode<S::Content>>,
    last: Option<(Node, Inode<S::Content>)>,
}

fn name_cost(name: &[u8]) -> u64 {
    NAME_COST + 2 * name.len() as u64
}

/// The cost of a node in the budget, without its names.
fn node_cost<C>(body: &Body<C>) -> u64 {
    NODE_COST + if let Body::Link(target) = body { target.len() as u64 } else { 0 }
}

impl<S: Source> Tree<S> {
    /// A tree with only a root, which every program may use.
    pub fn new(source: S, budget: Rc<Budget>) -> Tree<S> {
        let root = Directory { names: BTreeMap::new(), order: BTreeMap::new(), next: 1, above: None };
        let (nodes, ending, payer) = (HashMap::new(), HashMap::new().into_iter(), Program::INIT);
        let mut tree = Tree { nodes, next: ROOT, source, budget, payer, ending, last: None };
        tree.add(Body::Directory(root), 0o777, 2);
        tree
    }

    fn add(&mut self, body: Body<S::Content>, mode: u32, links: u64) -> Node {
        let node = self.next;
        self.next += 1;
        let time = now();
        let mode = mode & PERMISSIONS;
        let payer = self.payer;
        let inode = Inode { body, payer, mode, links, holders: 0, accessed: time, modified: time, changed: time };
        self.nodes.insert(node, inode);
        self.budget.nodes.set(self.budget.nodes.get() + 1);
        node
    }

    fn get(&self, node: Node) -> Result<&Inode<S::Content>> {
        self.nodes.get(&node).ok_or(Error::NotFound)
    }

    fn get_mut(&mut self, node: Node) -> Result<&mut Inode<S::Content>> {
        self.nodes.get_mut(&node).ok_or(Error::NotFound)
    }

    fn directory(&self, node: Node) -> Result<&Directory> {
        match &self.get(node)?.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(Error::NotDirectory),
        }
    }

    fn directory_mut(&mut self, node: Node) -> Result<&mut Directory> {
        match &mut self.get_mut(node)?.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(Error::NotDirectory),
        }
    }

    /// The content of a file.
    ///
    /// # Errors
    /// `IsDirectory`; `Invalid` for a link or a socket.
    pub fn content(&self, file: Node) -> Result<&S::Content> {
        match &self.get(file)?.body {
            Body::File(content) => Ok(content),
            Body::Directory(_) => Err(Error::IsDirectory),
            Body::Link(_) | Body::Socket => Err(Error::Invalid),
        }
    }

    /// Adds a name to an existing directory.
    fn enter(&mut self, directory: Node, name: &[u8], node: Node) -> Result<()> {
        // Nothing can be created in a removed directory.
        if directory != ROOT && self.directory(directory)?.above.is_none() {
            return Err(Error::NotFound);
        }
        let payer = self.payer;
        self.budget.take(payer, name_cost(name))?;
        let place = self.directory_mut(directory)?;
        let number = place.next;
        place.next += 1;
        place.names.insert(name.to_vec(), Named { node, number, payer });
        place.order.insert(number, name.to_vec());
        self.touch(directory, true);
        Ok(())
    }

    /// Removes a name from a directory.
    fn remove(&mut self, directory: Node, name: &[u8]) -> Result<Node> {
        let place = self.directory_mut(directory)?;
        let Named { node, number, payer } = place.names.remove(name).ok_or(Error::NotFound)?;
        place.order.remove(&number);
        self.budget.give(payer, name_cost(name));
        self.touch(directory, true);
        Ok(node)
    }

    fn touch(&mut self, node: Node, content: bool) {
        if let Some(inode) = self.nodes.get_mut(&node) {
            inode.changed = now();
            if content {
                inode.modified = inode.changed;
            }
        }
    }

    /// A node has lost a name.
    fn lost_name(&mut self, node: Node) {
        let Some(inode) = self.nodes.get_mut(&node) else { return };
        inode.links = inode.links.saturating_sub(1);
        inode.changed = now();
        let mut above = None;
        if let Body::Directory(directory) = &mut inode.body {
            inode.links = 0;
            above = directory.above.take().map(|(above, _)| above);
        }
        if let Some(above) = above.and_then(|above| self.nodes.get_mut(&above)) {
            above.links = above.links.saturating_sub(1);
        }
        self.reap(node);
    }

    /// Frees a node that has neither names nor holders.
    fn reap(&mut self, node: Node) {
        let Some(inode) = self.nodes.get(&node) else { return };
        if inode.links > 0 || inode.holders > 0 || node == ROOT {
            return;
        }
        if let Some(inode) = self.nodes.remove(&node) {
            self.gone(&inode, true);
        }
    }

    /// Returns the cost of a freed node. The root is charged to no program.
    fn gone(&self, inode: &Inode<S::Content>, paid: bool) {
        if paid {
            self.budget.give(inode.payer, node_cost(&inode.body));
        }
        self.budget.nodes.set(self.budget.nodes.get().saturating_sub(1));
    }
}

impl<S: Source> Drop for Tree<S> {
    fn drop(&mut self) {
        self.end(usize::MAX);
    }
}

impl<S: Source> FileSystem for Tree<S> {
    fn root(&self) -> Node {
        ROOT
    }

    fn kind(&mut self, node: Node) -> Result<(Kind, u32)> {
        let inode = self.get(node)?;
        Ok((inode.body.kind(), inode.mode))
    }

    fn attributes(&mut self, node: Node) -> Result<Attributes> {
        let (kind, mode) = self.kind(node)?;
        let inode = self.get(node)?;
        let (size, stored) = match &inode.body {
            Body::File(content) => (content.size(), content.stored()),
            Body::Directory(_) => (u64::from(BLOCK), 0),
            Body::Link(target) => (target.len() as u64, 0),
            Body::Socket => (0, 0),
        };
        let (links, accessed, modified, changed) = (inode.links, inode.accessed, inode.modified, inode.changed);
        Ok(Attributes { kind, mode, size, stored, links, node, tree: 0, accessed, modified, changed })
    }

    fn change(&mut self, node: Node, change: &Change) -> Result<()> {
        let inode = self.get_mut(node)?;
        inode.mode = change.mode.map_or(inode.mode, |mode| mode & PERMISSIONS);
        inode.accessed = change.accessed.unwrap_or(inode.accessed);
        inode.modified = change.modified.unwrap_or(inode.modified);
        inode.changed = now();
        Ok(())
    }

    fn find(&mut self, directory: Node, name: &[u8]) -> Result<Node> {
        self.directory(directory)?.names.get(name).map(|named| named.node).ok_or(Error::NotFound)
    }

    fn above(&mut self, directory: Node) -> Result<Node> {
        match &self.directory(directory)?.above {
            Some((above, _)) => Ok(*above),
            None if directory == ROOT => Ok(ROOT),
            None => Err(Error::NotFound),
        }
    }

    fn name(&mut self, directory: Node) -> Result<Vec<u8>> {
        let above = self.directory(directory)?.above.as_ref();
        above.map(|(_, name)| name.clone()).ok_or(Error::NotFound)
    }

    fn make(&mut self, directory: Node, name: &[u8], new: New<'_>) -> Result<Node> {
        let cost = NODE_COST + if let New::Link(target) = new { target.len() as u64 } else { 0 };
        self.budget.take(self.payer, cost)?;
        let made = match new {
            New::File(mode) => self.source.create().map(|content| (Body::File(content), mode, 1)),
            New::Link(target) => Ok((Body::Link(target.to_vec()), 0o777, 1)),
            New::Socket(mode) => Ok((Body::Socket, mode, 1)),
            New::Directory(mode) => {
                let above = Some((directory, name.to_vec()));
                let empty = Directory { names: BTreeMap::new(), order: BTreeMap::new(), next: 1, above };
                Ok((Body::Directory(empty), mode, 2))
            }
        };
        let (body, mode, links) = made.inspect_err(|_| self.budget.give(self.payer, cost))?;
        let node = self.add(body, mode, links);
        if let Err(error) = self.enter(directory, name, node) {
            self.get_mut(node)?.links = 0;
            self.reap(node);
            return Err(error);
        }
        if let New::Directory(_) = new {
            self.get_mut(directory)?.links += 1;
        }
        Ok(node)
    }

    fn target(&mut self, link: Node) -> Result<Vec<u8>> {
        match &self.get(link)?.body {
            Body::Link(target) => Ok(target.clone()),
            _ => Err(Error::Invalid),
        }
    }

    fn link(&mut self, node: Node, directory: Node, name: &[u8]) -> Result<()> {
        match self.get(node)?.links {
            // Its last name was removed meanwhile.
            0 => return Err(Error::NotFound),
            MOST_LINKS.. => return Err(Error::TooManyLinks),
            _ => {}
        }
        self.enter(directory, name, node)?;
        self.get_mut(node)?.links += 1;
        self.touch(node, false);
        Ok(())
    }

    fn unlink(&mut self, directory: Node, name: &[u8]) -> Result<()> {
        let node = self.find(directory, name)?;
        if let Body::Directory(inside) = &self.get(node)?.body
            && !inside.names.is_empty()
        {
            return Err(Error::NotEmpty);
        }
        self.remove(directory, name)?;
        self.lost_name(node);
        Ok(())
    }

    fn rename(&mut self, from: (Node, &[u8]), to: (Node, &[u8])) -> Result<()> {
        let node = self.find(from.0, from.1)?;
        let old = self.find(to.0, to.1).ok();
        if old == Some(node) {
            return Ok(());
        }
        if let Some(old) = old
            && let Body::Directory(inside) = &self.get(old)?.body
            && !inside.names.is_empty()
        {
            return Err(Error::NotEmpty);
        }
        match old {
            // The name exists, and so does its entry: nothing can fail.
            Some(old) => {
                if let Some(named) = self.directory_mut(to.0)?.names.get_mut(to.1) {
                    named.node = node;
                }
                self.lost_name(old);
                self.touch(to.0, true);
            }
            None => self.enter(to.0, to.1, node)?,
        }
        self.remove(from.0, from.1)?;
        self.touch(node, false);
        if let Body::Directory(moved) = &mut self.get_mut(node)?.body {
            moved.above = Some((to.0, to.1.to_vec()));
            self.get_mut(from.0)?.links -= 1;
            self.get_mut(to.0)?.links += 1;
        }
        Ok(())
    }

    fn entries(&mut self, directory: Node, cookie: u64, data: &mut Vec<u8>) -> Result<()> {
        let place = self.directory(directory)?;
        for (number, name) in place.order.range((Bound::Excluded(cookie), Bound::Unbounded)) {
            let Some(Named { node, .. }) = place.names.get(name) else { continue };
            let kind = self.get(*node)?.body.kind();
            if !push_entry(data, &Entry { name, kind, node: *node, cookie: *number }) {
                break;
            }
        }
        Ok(())
    }

    fn size(&mut self, file: Node) -> Result<u64> {
        Ok(self.content(file)?.size())
    }

    fn read(&mut self, file: Node, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        self.content(file)?.read(offset, bytes)
    }

    fn write(&mut self, file: Node, offset: u64, bytes: &[u8]) -> Result<usize> {
        let written = self.content(file)?.write(offset, bytes)?;
        self.touch(file, true);
        Ok(written)
    }

    fn resize_some(&mut self, file: Node, size: u64) -> Result<bool> {
        self.content(file)?.resize(size)?;
        self.touch(file, true);
        Ok(true)
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    fn information(&mut self) -> Information {
        let (bytes, used_bytes) = self.source.usage();
        let nodes = self.budget.most / (NODE_COST + NAME_COST);
        let used_nodes =
            (self.budget.ledger.borrow().total() / (NODE_COST + NAME_COST)).max(self.budget.nodes.get()).min(nodes);
        Information { bytes, used_bytes, nodes, used_nodes, block: BLOCK, read_only: false, tree: 0 }
    }

    fn hold(&mut self, node: Node) {
        if let Some(inode) = self.nodes.get_mut(&node) {
            inode.holders += 1;
        }
    }

    fn release(&mut self, node: Node) {
        if let Some(inode) = self.nodes.get_mut(&node) {
            inode.holders = inode.holders.saturating_sub(1);
        }
        self.reap(node);
    }

    fn charge(&mut self, program: Program) {
        self.payer = program;
    }

    fn end(&mut self, parts: usize) -> bool {
        if !self.nodes.is_empty() {
            self.ending = std::mem::take(&mut self.nodes).into_iter();
        }
        for _ in 0..parts {
            let Some((_, inode)) = &mut self.last else {
                self.last = self.ending.next();
                if self.last.is_none() {
                    return true;
                }
                continue;
            };
            if let Body::Directory(directory) = &mut inode.body
                && let Some((name, named)) = directory.names.pop_first()
            {
                directory.order.remove(&named.number);
                self.budget.give(named.payer, name_cost(&name));
            } else if let Some((node, inode)) = self.last.take() {
                // The root was charged to no program.
                self.gone(&inode, node != ROOT);
            }
        }
        self.last.is_none() && self.ending.len() == 0
    }
}

#[cfg(test)]
mod tests;
