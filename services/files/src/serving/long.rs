//! Long requests, which run in slices. Other requests come in between. The connection's next request waits for the end.

use file_protocol::{Answer, Error, Kind, Result, flags};
use service::Program;
use zx::Handle;

use super::fill::Fill;
use super::open::Open;
use super::{Reply, ServedFileSystem, Service, Step};
use crate::system::FileSystem;

/// A long request.
pub(super) enum Long {
    Fill(Fill),
    Resize(Resize),
    Open(Opening),
    Sync(Syncing),
}

/// A sync that waits for postponed work.
pub(super) struct Syncing {
    transaction: u32,
    /// Number of turns that it leaves to other steps, as long as there are any.
    gives: usize,
}

/// An open that truncates a large file to nothing first.
pub(super) struct Opening {
    pub transaction: u32,
    pub path: Vec<u8>,
    pub flags: u32,
    pub mode: u32,
    pub channel: Option<Handle>,
}

/// A change of a file's size.
pub(super) struct Resize {
    transaction: u32,
    before: u64,
    size: u64,
    /// Content to write at the new end, and whether the position moves.
    content: Option<(Vec<u8>, bool)>,
    /// The reason for undoing the change.
    failed: Option<Error>,
}

impl Resize {
    /// Runs one slice; returns the result at the end.
    fn go_on(&mut self, system: &mut impl FileSystem, open: &Open) -> Option<Result<Answer>> {
        if let Some(error) = self.failed {
            return (system.resize_some(open.node, self.before) != Ok(false)).then_some(Err(error));
        }
        match system.resize_some(open.node, self.size) {
            Ok(false) => None,
            Ok(true) => Some(self.end(system, open)),
            Err(error) if self.size > self.before => {
                self.failed = Some(error);
                None
            }
            Err(error) => Some(Err(error)),
        }
    }

    fn end(&self, system: &mut impl FileSystem, open: &Open) -> Result<Answer> {
        let Some((bytes, moves)) = &self.content else { return Ok(Answer::Done) };
        let written = system.write(open.node, self.size, bytes)? as u64;
        if *moves {
            open.position.set(self.size + written);
        }
        Ok(Answer::Count(written))
    }
}

impl Long {
    fn transaction(&self) -> u32 {
        match self {
            Long::Fill(fill) => fill.transaction,
            Long::Resize(resize) => resize.transaction,
            Long::Open(opening) => opening.transaction,
            Long::Sync(sync) => sync.transaction,
        }
    }

    /// No client waits for it any more; returns whether it continues, to undo its changes.
    pub(super) fn stop(&mut self) -> bool {
        match self {
            Long::Fill(fill) => {
                fill.stop();
                true
            }
            Long::Resize(resize) if resize.size > resize.before => {
                resize.failed.get_or_insert(Error::Invalid);
                true
            }
            _ => false,
        }
    }
}

impl<F: ServedFileSystem, M: FnMut() -> Option<F>> Service<F, M> {
    pub(super) fn begin_long(&mut self, key: u64, long: Long) {
        if let Some(connection) = self.connections.get_mut(&key) {
            connection.long = Some(long);
            self.fair_queue.push_long(connection.program, Step::Long(key));
        }
    }

    /// `Resize`. Returns `None` if one slice was not enough and the answer follows later.
    pub(super) fn resize(&mut self, (key, transaction): (u64, u32), open: &Open, size: u64) -> Option<Result<Reply>> {
        if open.kind != Kind::File || open.flags.get() & flags::WRITE == 0 {
            return Some(Err(Error::Invalid));
        }
        self.resize_long((key, transaction), open, size, None)
    }

    /// `Write` beyond the end: the same, if the gap must be filled with zeros. `None`: no gap must be filled.
    pub(super) fn write_behind(
        &mut self,
        (key, transaction): (u64, u32),
        open: &Open,
        at: Option<u64>,
        data: &[u8],
    ) -> Option<Option<Result<Reply>>> {
        if open.kind != Kind::File || open.flags.get() & flags::WRITE == 0 || data.is_empty() {
            return None;
        }
        let system = self.system(open).ok().filter(|system| system.fills_holes())?;
        let append = at.is_none() && open.flags.get() & flags::APPEND != 0;
        let (offset, size) = (at.unwrap_or(open.position.get()), system.size(open.node).ok()?);
        if append || offset <= size {
            return None;
        }
        if let Err(error) = self.check_failures(open) {
            return Some(Some(Err(error)));
        }
        Some(self.resize_long((key, transaction), open, offset, Some((data.to_vec(), at.is_none()))))
    }

    fn resize_long(
        &mut self,
        (key, transaction): (u64, u32),
        open: &Open,
        size: u64,
        content: Option<(Vec<u8>, bool)>,
    ) -> Option<Result<Reply>> {
        self.changes(open, open.node);
        let begun = self.system(open).and_then(|system| {
            let before = system.size(open.node)?;
            let resize = Resize { transaction, before, size, content, failed: None };
            let came = if system.resize_some(open.node, size)? { Some(resize.end(system, open)?) } else { None };
            Ok((resize, came))
        });
        match begun {
            Ok((_, Some(answer))) => Some(Ok(Reply::new(answer))),
            Ok((resize, None)) => {
                self.begin_long(key, Long::Resize(resize));
                None
            }
            Err(error) => Some(Err(error)),
        }
    }

    /// `Sync`. On a directory it syncs everything and waits for postponed work. `init` makes this request when the
    /// system ends: then it also waits for all steps that are queued now, such as closing the descriptions of ended
    /// programs.
    pub(super) fn sync(&mut self, (key, transaction): (u64, u32), open: &Open) -> Option<Result<Reply>> {
        let is_init = self.connections.get(&key).is_some_and(|connection| connection.program == Program::INIT);
        // Each of these steps gets its turn before this program has had that many turns.
        let gives = if is_init { self.fair_queue.len() } else { 0 };
        let put_off = self.system(open).is_ok_and(|system| system.has_work());
        if open.kind == Kind::Directory && (put_off || gives > 0) {
            self.begin_long(key, Long::Sync(Syncing { transaction, gives }));
            return None;
        }
        Some(self.sync_now(open))
    }

    /// Runs one slice of a long request. At its end the connection is read again.
    pub(super) fn go_on(&mut self, key: u64) {
        let Some(connection) = self.connections.get_mut(&key) else { return };
        let Some(mut long) = connection.long.take() else { return };
        let (open, program) = (connection.open.clone(), connection.program);
        let tree = self.trees.get_mut(&open.tree);
        let told = tree.is_some_and(|tree| {
            tree.system.charge(program);
            tree.failures.is_reported(open.node, &open.failures)
        });
        let came = self.run_slice(&mut long, &open, program);
        if let Some(tree) = self.trees.get_mut(&open.tree) {
            tree.settle();
            if told && matches!(came, Some(Err(Error::Damaged))) {
                tree.failures.report(open.node, &open.failures);
            }
        }
        self.forget(open);
        let Some(came) = came else {
            if let Some(connection) = self.connections.get_mut(&key) {
                connection.long = Some(long);
                self.fair_queue.push_long(program, Step::Long(key));
            }
            return;
        };
        let Some(connection) = self.connections.get(&key) else { return };
        // Before the answer (step 6).
        let watched = connection.closing || self.watch(&connection.end, key).is_ok();
        let answered = self.answer(key, long.transaction(), came);
        if connection.closing || !watched || answered.is_err() {
            self.disconnect(key);
        }
    }

    /// Runs one slice; returns the result at the end.
    fn run_slice(&mut self, long: &mut Long, open: &Open, program: Program) -> Option<Result<Reply>> {
        let came = match long {
            Long::Open(Opening { path, flags, mode, channel, .. }) => {
                return self.open_path(open, (path, *flags, *mode), channel, program);
            }
            Long::Sync(sync) => return self.sync_slice(sync, open),
            Long::Fill(fill) => match self.system(open) {
                Ok(system) => fill.go_on(system, open.node).map(|came| came.map(|()| Answer::Done)),
                Err(error) => Some(Err(error)),
            },
            Long::Resize(resize) => match self.system(open) {
                Ok(system) => resize.go_on(system, open),
                Err(error) => Some(Err(error)),
            },
        };
        came.map(|came| came.map(Reply::new))
    }

    fn sync_slice(&mut self, sync: &mut Syncing, open: &Open) -> Option<Result<Reply>> {
        if sync.gives > 0 && !self.fair_queue.is_empty() {
            sync.gives -= 1;
            return None;
        }
        match self.system(open) {
            Ok(system) if system.has_work() => {
                system.work();
                None
            }
            Ok(_) => Some(self.sync_now(open)),
            Err(error) => Some(Err(error)),
        }
    }

    /// Queues a step for a tree's postponed work.
    pub(super) fn schedule(&mut self, key: u64) {
        if let Some(tree) = self.trees.get_mut(&key)
            && tree.system.has_work()
            && !std::mem::replace(&mut tree.works, true)
        {
            self.fair_queue.push_long(tree.program, Step::Work(key));
        }
    }

    /// Runs that step.
    pub(super) fn work(&mut self, key: u64) {
        if let Some(tree) = self.trees.get_mut(&key) {
            tree.system.work();
            tree.settle();
            tree.works = false;
        }
        self.schedule(key);
    }
}
