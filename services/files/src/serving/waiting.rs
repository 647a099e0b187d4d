//! Requests that wait for locks.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use file_protocol::{Answer, Error, Result};
use service::{Ledger, Program};

use super::open::Open;
use super::{Reply, ServedFileSystem, Service, Step};
use crate::locks::{File, FreedLocks, LockRequest};

/// Maximum number of waiting lock requests, in total and per program.
const MOST: u64 = 4096;
const OF_PROGRAM: u64 = 1024;

/// A lock request that waits.
struct Waiter {
    id: u64,
    connection: u64,
    transaction: u32,
    program: Program,
    open: Rc<Open>,
    asked: LockRequest,
    /// A step for it is queued.
    turn: bool,
}

/// All waiting lock requests.
pub(super) struct Waiting {
    files: HashMap<File, VecDeque<Waiter>>,
    ledger: Ledger,
    last: u64,
}

impl Default for Waiting {
    fn default() -> Waiting {
        Waiting { files: HashMap::new(), ledger: Ledger::new(MOST, OF_PROGRAM), last: 0 }
    }
}

impl Waiting {
    /// Removes the requests of a connection to this file.
    pub(super) fn remove(&mut self, file: File, connection: u64) {
        let Some(waiters) = self.files.get_mut(&file) else { return };
        waiters.retain(|waiter| {
            let stays = waiter.connection != connection;
            if !stays {
                self.ledger.give(waiter.program, 1);
            }
            stays
        });
        if waiters.is_empty() {
            self.files.remove(&file);
        }
    }

    /// Removes one request.
    fn take(&mut self, file: File, id: u64) -> Option<Waiter> {
        let waiters = self.files.get_mut(&file)?;
        let at = waiters.iter().position(|waiter| waiter.id == id)?;
        let waiter = waiters.remove(at)?;
        if waiters.is_empty() {
            self.files.remove(&file);
        }
        self.ledger.give(waiter.program, 1);
        Some(waiter)
    }
}

impl<F: ServedFileSystem, M: FnMut() -> Option<F>> Service<F, M> {
    /// A lock request. Returns `None` if it waits.
    pub(super) fn lock(
        &mut self,
        (connection, transaction): (u64, u32),
        open: &Rc<Open>,
        asked: LockRequest,
        wait: bool,
    ) -> Option<Result<Reply>> {
        let file = (open.tree, open.node);
        let (done, freed) = self.locks.ask(file, open.id, &asked);
        self.wake(file, freed);
        let program = self.connections.get(&connection)?.program;
        if done == Err(Error::Locked) && wait && self.waiting.ledger.take(program, 1) {
            self.waiting.last += 1;
            let id = self.waiting.last;
            let waiter = Waiter { id, connection, transaction, program, open: open.clone(), asked, turn: false };
            self.waiting.files.entry(file).or_default().push_back(waiter);
            return None;
        }
        Some(done.map(|()| Reply::new(Answer::Done)))
    }

    /// Queues steps for the requests that wait for what has become free, in their order.
    pub(super) fn wake(&mut self, file: File, freed: FreedLocks) {
        if freed == FreedLocks::default() {
            return;
        }
        for waiter in self.waiting.files.get_mut(&file).into_iter().flatten() {
            if freed.concerns(&waiter.asked) && !std::mem::replace(&mut waiter.turn, true) {
                self.fair_queue.push(waiter.program, Step::Lock(file, waiter.id));
            }
        }
    }

    /// Tries a waiting request again.
    pub(super) fn lock_again(&mut self, file: File, id: u64) {
        let waiters = self.waiting.files.get_mut(&file);
        let Some(waiter) = waiters.and_then(|all| all.iter_mut().find(|waiter| waiter.id == id)) else { return };
        waiter.turn = false;
        let (done, freed) = self.locks.ask(file, waiter.open.id, &waiter.asked);
        if done == Err(Error::Locked) {
            return;
        }
        let Some(waiter) = self.waiting.take(file, id) else { return };
        self.wake(file, freed);
        let done = done.map(|()| Reply::new(Answer::Done));
        let answered = self.answer(waiter.connection, waiter.transaction, done);
        self.forget(waiter.open);
        if answered.is_err() {
            self.disconnect(waiter.connection);
        }
    }
}
