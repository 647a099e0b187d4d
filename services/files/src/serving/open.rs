//! Open descriptions, and requests that open them.

use std::cell::Cell;
use std::rc::Rc;

use file_protocol::{Answer, Error, Kind, Opened, Result, flags};
use service::Program;
use zx::{AsHandleRef, Handle, Rights, Stream};

use super::{Reply, ServedFileSystem, Service};
use crate::system::{New, Node};
use crate::walk::{Place, walk};

/// The owner's permission to read.
pub const READ: u32 = 0o400;
/// The owner's permission to write.
pub const WRITE: u32 = 0o200;

/// An open description.
pub struct Open {
    /// Its number, which is never reused.
    pub id: u64,
    pub tree: u64,
    pub node: Node,
    pub kind: Kind,
    /// `READ`, `WRITE`, `APPEND` of [`flags`].
    pub flags: Cell<u32>,
    /// Offset of the next read or write, if there is no stream.
    pub position: Cell<u64>,
    pub stream: Option<Stream>,
    /// The number of the node's failures that were reported to it.
    pub failures: Cell<u64>,
}

impl Open {
    pub fn opened(&self) -> Opened {
        Opened { kind: self.kind, flags: self.flags.get(), stream: self.stream.is_some() }
    }

    /// The client's duplicate of the stream.
    fn handles(&self) -> Result<Vec<Handle>> {
        let stream = self.stream.as_ref().map(|stream| stream.duplicate_handle(Rights::SAME_RIGHTS));
        Ok(stream.transpose().map_err(|_| Error::Memory)?.into_iter().collect())
    }
}

impl<F: ServedFileSystem, M: FnMut() -> Option<F>> Service<F, M> {
    /// Opens a node.
    pub(super) fn open_node(&mut self, key: u64, node: Node, wanted: u32) -> Result<Rc<Open>> {
        self.next += 1;
        let id = self.next;
        let tree = self.trees.get_mut(&key).ok_or(Error::NotFound)?;
        let (kind, _) = tree.system.kind(node)?;
        let flags = wanted & (flags::READ | flags::WRITE | flags::APPEND);
        let stream = if kind == Kind::File { tree.system.stream(node, flags)? } else { None };
        tree.system.hold(node);
        tree.open += 1;
        let failures = tree.failures.opened(node);
        let (flags, position) = (Cell::new(flags), Cell::new(0));
        Ok(Rc::new(Open { id, tree: key, node, kind, flags, position, stream, failures }))
    }

    /// `Open`, with step 4 if there is a stream. The channel, with the messages that wait in it, is the client's; it is
    /// taken only on success. Returns `None` if a large file is truncated first: one slice of that is done then.
    pub(super) fn open_path(
        &mut self,
        from: &Open,
        (path, wanted, mode): (&[u8], u32, u32),
        channel: &mut Option<Handle>,
        program: Program,
    ) -> Option<Result<Reply>> {
        self.try_open(from, (path, wanted, mode), channel, program).transpose()
    }

    fn try_open(
        &mut self,
        from: &Open,
        (path, wanted, mode): (&[u8], u32, u32),
        channel: &mut Option<Handle>,
        program: Program,
    ) -> Result<Option<Reply>> {
        let exclusive = wanted & flags::CREATE != 0 && wanted & flags::EXCLUSIVE != 0;
        let follow = !exclusive && wanted & flags::NO_FOLLOW == 0;
        let system = self.system(from)?;
        let (node, made) = match walk(system, from.node, path, follow)? {
            Place::Elsewhere { above, rest } => return Ok(Some(super::names::elsewhere(false, above, rest))),
            Place::There { .. } if exclusive => return Err(Error::Exists),
            Place::There { node, .. } => (node, false),
            Place::Missing { .. } if wanted & flags::CREATE == 0 => return Err(Error::NotFound),
            Place::Missing { slash: true, .. } => return Err(Error::IsDirectory),
            Place::Missing { directory, name, .. } => {
                super::names::check_change(system, directory)?;
                file_protocol::check_name(&name)?;
                let node = system.make(directory, &name, New::File(mode))?;
                self.changes(from, directory);
                (node, true)
            }
        };
        let system = self.system(from)?;
        let (kind, permissions) = system.kind(node)?;
        let access = wanted & (flags::READ | flags::WRITE);
        match kind {
            Kind::Directory if access & flags::WRITE != 0 || wanted & (flags::CREATE | flags::TRUNCATE) != 0 => {
                return Err(Error::IsDirectory);
            }
            Kind::Directory => {}
            _ if wanted & flags::DIRECTORY != 0 => return Err(Error::NotDirectory),
            // Only reached if the path's last link was not to be followed.
            Kind::Link => return Err(Error::Links),
            // Only `Bind` opens a socket with access flags.
            Kind::Socket if access != 0 => return Err(Error::IsSocket),
            Kind::File | Kind::Socket => {}
        }
        // A created file may be written by its creator, whatever its mode.
        let refused = |flag, bit| access & flag != 0 && permissions & bit == 0;
        if !made && (refused(flags::READ, READ) || refused(flags::WRITE, WRITE)) {
            return Err(Error::Access);
        }
        if access & flags::WRITE != 0 && system.is_read_only() {
            return Err(Error::ReadOnly);
        }
        let truncates = wanted & flags::TRUNCATE != 0 && !made && access & flags::WRITE != 0;
        if truncates && !system.resize_some(node, 0)? {
            return Ok(None);
        }
        let channel = channel.take().ok_or(Error::Invalid)?;
        let open = self.open_node(from.tree, node, wanted)?;
        if made || truncates {
            self.changes(&open, node);
        }
        let reply = self.hand_out(&open, channel, program);
        self.forget(open);
        reply.map(Some)
    }

    /// Connects a client's channel to a description.
    fn hand_out(&mut self, open: &Rc<Open>, channel: Handle, program: Program) -> Result<Reply> {
        let handles = open.handles()?;
        self.connect(channel, open, program)?;
        Ok(Reply { answer: Answer::Opened(open.opened()), data: Vec::new(), handles })
    }

    /// Step 5: answers the request that a process makes for a channel that it was given.
    pub(super) fn describe(open: &Open) -> Result<Reply> {
        Ok(Reply { answer: Answer::Opened(open.opened()), data: Vec::new(), handles: open.handles()? })
    }
}
