//! Requests for names, attributes and locks; and the dispatch of all requests.

use std::rc::Rc;

use file_protocol::{Answer, Change, Error, Kind, Lock, PATH_MAX, Request, Result, check_name};
use service::Program;
use zx::Handle;

use super::long::{Long, Opening};
use super::open::{Open, READ, WRITE};
use super::{Reply, ServedFileSystem, Service};
use crate::locks::{LockRequest, RangeRequest};
use crate::system::{FileSystem, New, Node};
use crate::walk::{Place, SEARCH, is_below, path_of, walk, walk_to_name};

/// Step 3: the path leads out of the tree.
pub fn elsewhere(second: bool, above: bool, rest: Vec<u8>) -> Reply {
    Reply { answer: Answer::Elsewhere { second, above }, data: rest, handles: Vec::new() }
}

/// Checks that names in a directory may be changed.
pub fn check_change(system: &mut impl FileSystem, directory: Node) -> Result<()> {
    match system.kind(directory)? {
        (Kind::Directory, _) if system.is_read_only() => Err(Error::ReadOnly),
        (Kind::Directory, mode) if mode & (WRITE | SEARCH) != WRITE | SEARCH => Err(Error::Access),
        (Kind::Directory, _) => Ok(()),
        _ => Err(Error::NotDirectory),
    }
}

/// Whether this mode allows everything in a directory.
fn keeps_open(mode: u32) -> bool {
    const ALL: u32 = READ | WRITE | SEARCH;
    mode & ALL == ALL
}

/// Takes the place out of a walk's result, or answers that the path leads elsewhere.
macro_rules! place {
    ($walk:expr, $second:expr) => {
        match $walk? {
            Place::Elsewhere { above, rest } => {
                return Ok(crate::serving::names::elsewhere($second, above, rest));
            }
            place => place,
        }
    };
}
pub(super) use place;

impl<F: ServedFileSystem, M: FnMut() -> Option<F>> Service<F, M> {
    /// Carries out a request. Returns `None` if it waits for a lock or continues as a long request.
    pub(super) fn request(
        &mut self,
        key: u64,
        transaction: u32,
        open: &Rc<Open>,
        request: Request<'_>,
        data: &[u8],
        handle: Option<Handle>,
    ) -> Option<Result<Reply>> {
        let program = self.connections.get(&key)?.program;
        match request {
            Request::Lock { lock, wait } => self.lock((key, transaction), open, LockRequest::Whole(lock), wait),
            Request::LockRange { owner, lock, wait, start, end } => {
                let wanted = RangeRequest { program, owner, lock, start, end };
                self.lock((key, transaction), open, LockRequest::Range(wanted), wait)
            }
            Request::Fill { folder } => self.fill((key, transaction), open, folder, handle),
            Request::Open { path, flags, mode } => {
                let mut channel = handle;
                let came = self.open_path(open, (path, flags, mode), &mut channel, program);
                if came.is_none() {
                    let path = path.to_vec();
                    self.begin_long(key, Long::Open(Opening { transaction, path, flags, mode, channel }));
                }
                came
            }
            Request::Resize { size } => self.resize((key, transaction), open, size),
            Request::Buffer => Some(self.set_buffer(key, handle)),
            Request::Fetch { offset, len } => Some(self.fetch(key, open, offset, len)),
            Request::Sync => self.sync((key, transaction), open),
            Request::Write | Request::WriteAt { .. } => {
                let at = if let Request::WriteAt { offset } = request { Some(offset) } else { None };
                match self.write_behind((key, transaction), open, at, data) {
                    Some(begun) => begun,
                    None => Some(self.write(open, at, data)),
                }
            }
            Request::Bind { path, mode } => Some(self.bind(open, (path, mode), handle, program)),
            Request::Listen { backlog, name } => Some(self.listen(key, open, backlog, name)),
            Request::Receive { name } => Some(self.receive(key, open, handle, name)),
            Request::Connect { path, name, wait } => {
                Some(self.connect_socket(open, (path, name, wait), handle, program))
            }
            Request::Accept => Some(self.accept(key, open)),
            Request::Reach { path } => Some(self.reach(open, path)),
            request => Some(self.carry_out(program, open, request, handle)),
        }
    }

    fn carry_out(
        &mut self,
        program: Program,
        open: &Rc<Open>,
        request: Request<'_>,
        handle: Option<Handle>,
    ) -> Result<Reply> {
        match request {
            Request::Clone => {
                self.connect(handle.ok_or(Error::Invalid)?, open, program)?;
                Ok(Reply::new(Answer::Done))
            }
            Request::Describe => Self::describe(open),
            Request::Attributes { path, follow } => self.attributes(open, path, follow),
            Request::SetAttributes { path, follow, change } => self.set_attributes(open, path, follow, &change),
            Request::Read { len } => self.read(open, None, len),
            Request::ReadAt { offset, len } => self.read(open, Some(offset), len),
            Request::Seek { whence, offset } => self.seek(open, whence, offset),
            Request::Touched { at } => self.touched(open, at),
            Request::SetAppend { append } => Ok(Self::set_append(open, append)),
            Request::Memory { write } => self.memory(open, write),
            Request::Entries { cookie } => {
                let mut data = Vec::new();
                self.system(open)?.entries(open.node, cookie, &mut data)?;
                Ok(Reply::data(data))
            }
            Request::MakeDirectory { path, mode } => self.make(open, path, New::Directory(mode)),
            Request::MakeLink { path, target } => match target.len() {
                0 => Err(Error::NotFound),
                PATH_MAX.. => Err(Error::TooLong),
                _ if target.contains(&0) => Err(Error::Invalid),
                _ => self.make(open, path, New::Link(target)),
            },
            Request::Unlink { path, directory } => self.unlink(open, path, directory),
            Request::Rename { from, to } => self.rename(open, from, to),
            Request::Link { from, to, follow } => self.link(open, from, to, follow),
            Request::ReadLink { path } => {
                let system = self.system(open)?;
                match place!(walk(system, open.node, path, false), false) {
                    Place::There { node, .. } => system.target(node).map(Reply::data),
                    _ => Err(Error::NotFound),
                }
            }
            Request::Resolve { path } => self.resolve(open, path),
            Request::Information => {
                let tree = self.trees.get_mut(&open.tree).ok_or(Error::NotFound)?;
                let mut information = tree.system.information();
                information.tree = tree.number;
                Ok(Reply::new(Answer::Information(information)))
            }
            Request::TestRange { owner, lock, start, end } => {
                let wanted = RangeRequest { program, owner, lock, start, end };
                let held = self.locks.hinders((open.tree, open.node), &wanted);
                let (owner, lock, start, end) = held.unwrap_or((0, Lock::Free, start, end));
                Ok(Reply::new(Answer::Held { owner, lock, start, end }))
            }
            // Handled before.
            Request::Lock { .. }
            | Request::LockRange { .. }
            | Request::Fill { .. }
            | Request::Open { .. }
            | Request::Resize { .. }
            | Request::Write
            | Request::WriteAt { .. }
            | Request::Buffer
            | Request::Fetch { .. }
            | Request::Sync
            | Request::Bind { .. }
            | Request::Listen { .. }
            | Request::Receive { .. }
            | Request::Connect { .. }
            | Request::Accept
            | Request::Reach { .. } => Err(Error::Invalid),
        }
    }

    fn attributes(&mut self, open: &Open, path: &[u8], follow: bool) -> Result<Reply> {
        let system = self.system(open)?;
        let Place::There { node, .. } = place!(walk(system, open.node, path, follow), false) else {
            return Err(Error::NotFound);
        };
        let tree = self.trees.get_mut(&open.tree).ok_or(Error::NotFound)?;
        let mut attributes = tree.system.attributes(node)?;
        attributes.tree = tree.number;
        Ok(Reply::new(Answer::Attributes(attributes)))
    }

    fn set_attributes(&mut self, open: &Open, path: &[u8], follow: bool, change: &Change) -> Result<Reply> {
        let system = self.system(open)?;
        let Place::There { node, .. } = place!(walk(system, open.node, path, follow), false) else {
            return Err(Error::NotFound);
        };
        if system.kind(node)?.0 == Kind::Link && change.mode.is_some() {
            return Err(Error::Unsupported);
        }
        // A program cannot close the common tree to others.
        let closes = node == system.root() && change.mode.is_some_and(|mode| !keeps_open(mode));
        if closes && self.trees.get(&open.tree).is_some_and(|tree| tree.stays) {
            return Err(Error::NotPermitted);
        }
        self.system(open)?.change(node, change)?;
        self.changes(open, node);
        Ok(Reply::new(Answer::Done))
    }

    fn make(&mut self, open: &Open, path: &[u8], new: New<'_>) -> Result<Reply> {
        let system = self.system(open)?;
        let place = place!(walk_to_name(system, open.node, path), false);
        self.make_at(open, place, new)?;
        Ok(Reply::new(Answer::Done))
    }

    /// Creates something under a free name. Returns its directory, its name and its node.
    pub(super) fn make_at(&mut self, open: &Open, place: Place, new: New<'_>) -> Result<(Node, Vec<u8>, Node)> {
        let (directory, name) = match place {
            Place::Missing { slash: true, .. } if !matches!(new, New::Directory(_)) => return Err(Error::NotFound),
            Place::Missing { directory, name, .. } => (directory, name),
            _ => return Err(Error::Exists),
        };
        let system = self.system(open)?;
        check_name(&name)?;
        check_change(system, directory)?;
        let node = system.make(directory, &name, new)?;
        self.changes(open, directory);
        Ok((directory, name, node))
    }

    fn unlink(&mut self, open: &Open, path: &[u8], directory: bool) -> Result<Reply> {
        let system = self.system(open)?;
        // A slash may follow a directory's name, but not a file's.
        let place =
            if directory { walk_to_name(system, open.node, path) } else { walk(system, open.node, path, false) };
        match place!(place, false) {
            Place::There { node, entry: Some((place, name)) } => {
                match (system.kind(node)?.0, directory) {
                    (Kind::Directory, false) => return Err(Error::IsDirectory),
                    (Kind::File | Kind::Link | Kind::Socket, true) => return Err(Error::NotDirectory),
                    _ => {}
                }
                check_change(system, place)?;
                system.unlink(place, &name)?;
                self.changes(open, place);
                self.changes(open, node);
                Ok(Reply::new(Answer::Done))
            }
            // The root itself, or a path that ends with `.` or `..`.
            Place::There { .. } if directory => Err(Error::Invalid),
            Place::There { .. } => Err(Error::IsDirectory),
            _ => Err(Error::NotFound),
        }
    }

    fn rename(&mut self, open: &Open, from: &[u8], to: &[u8]) -> Result<Reply> {
        let system = self.system(open)?;
        let (node, from) = match place!(walk(system, open.node, from, false), false) {
            Place::There { node, entry: Some(entry) } => (node, entry),
            Place::There { .. } => return Err(Error::Busy),
            // Errors of both directories come before errors of the names in them.
            _ => return walk(system, open.node, to, false).and(Err(Error::NotFound)),
        };
        let is_directory = system.kind(node)?.0 == Kind::Directory;
        let (to, old) = match place!(walk(system, open.node, to, false), true) {
            Place::There { node, entry: Some(entry) } => (entry, Some(node)),
            Place::There { .. } => return Err(Error::Busy),
            Place::Missing { slash: true, .. } if !is_directory => return Err(Error::NotDirectory),
            Place::Missing { directory, name, .. } => ((directory, name), None),
            Place::Elsewhere { .. } => return Err(Error::NotFound),
        };
        check_name(&to.1)?;
        check_change(system, from.0)?;
        check_change(system, to.0)?;
        if is_directory && is_below(system, to.0, node)? {
            return Err(Error::Invalid);
        }
        if let Some(old) = old {
            // If it is an ancestor of the file, it is not empty: the path to the file goes through it.
            if old != node && system.kind(old)?.0 == Kind::Directory && is_below(system, from.0, old)? {
                return Err(Error::NotEmpty);
            }
            match (is_directory, system.kind(old)?.0 == Kind::Directory) {
                (true, false) => return Err(Error::NotDirectory),
                (false, true) => return Err(Error::IsDirectory),
                _ => {}
            }
        }
        system.rename((from.0, &from.1), (to.0, &to.1))?;
        [from.0, to.0, node].into_iter().for_each(|node| self.changes(open, node));
        Ok(Reply::new(Answer::Done))
    }

    fn link(&mut self, open: &Open, from: &[u8], to: &[u8], follow: bool) -> Result<Reply> {
        let system = self.system(open)?;
        let Place::There { node, .. } = place!(walk(system, open.node, from, follow), false) else {
            return Err(Error::NotFound);
        };
        let (directory, name) = match place!(walk_to_name(system, open.node, to), true) {
            Place::Missing { slash: true, .. } => return Err(Error::NotFound),
            Place::Missing { directory, name, .. } => (directory, name),
            _ => return Err(Error::Exists),
        };
        if system.kind(node)?.0 == Kind::Directory {
            return Err(Error::NotPermitted);
        }
        check_name(&name)?;
        check_change(system, directory)?;
        system.link(node, directory, &name)?;
        [node, directory].into_iter().for_each(|node| self.changes(open, node));
        Ok(Reply::new(Answer::Done))
    }

    /// The path of the node that a path names, without symbolic links.
    fn resolve(&mut self, open: &Open, path: &[u8]) -> Result<Reply> {
        let system = self.system(open)?;
        let Place::There { node, entry } = place!(walk(system, open.node, path, true), false) else {
            return Err(Error::NotFound);
        };
        let path = match entry {
            Some((directory, name)) if system.kind(node)?.0 != Kind::Directory => {
                let mut path = path_of(system, directory)?;
                if !path.is_empty() {
                    path.push(b'/');
                }
                path.extend_from_slice(&name);
                path
            }
            _ => path_of(system, node)?,
        };
        Ok(Reply::data(path))
    }
}
