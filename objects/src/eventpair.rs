//! Event pairs: two ends, each of which can signal the other and learns when it is gone.

use alloc::boxed::Box;

use abi::{Signals, Status};

use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::object::{Body, Id};

/// One end of an event pair.
pub struct EventPair {
    pub(crate) peer: Option<Id<EventPair>>,
    /// The other end's number, also when it is gone.
    pub peer_koid: u64,
}

impl<M: Machine> Kernel<M> {
    /// `eventpair_create`.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn eventpair_create(&mut self) -> Result<(Id<EventPair>, Id<EventPair>), Status> {
        let end = || Body::EventPair(Box::new(EventPair { peer: None, peer_koid: 0 }));
        let a: Id<EventPair> = self.create(Signals::NONE, end())?;
        let b = self.create(Signals::NONE, end()).inspect_err(|_| self.doom(a.object()))?;
        for (one, other) in [(a, b), (b, a)] {
            let koid = self.koid(other.object());
            let end = self.objects.get_mut(one)?;
            end.peer = Some(other);
            end.peer_koid = koid;
        }
        Ok((a, b))
    }

    pub(crate) fn eventpair_unreachable(&mut self, end: Id<EventPair>) {
        let Some(peer) = self.objects.get_mut(end).ok().and_then(|e| e.peer.take()) else { return };
        if let Ok(other) = self.objects.get_mut(peer) {
            other.peer = None;
        }
        self.signal(peer.object(), Signals::NONE, Signals::PEER_CLOSED);
    }
}
