//! Event pairs: two ends, each of which can signal the other and is signalled when it is closed.

use alloc::boxed::Box;

use abi::{Signals, Status};

use crate::core::noun::{Noun, ObjectOps, Peer, peered};
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::Machine;

/// One end of an event pair.
pub struct EventPair {
    pub(crate) peer: Option<Id<EventPair>>,
    /// The peer's koid, also after the peer is closed.
    pub peer_koid: u64,
}

impl Noun for EventPair {
    const TYPE: u32 = abi::ZX_OBJ_TYPE_EVENTPAIR;
    const USER_SIGNALS: Signals = Signals::USER_ALL.union(Signals::SIGNALED);

    fn peer(&self) -> Option<Peer> {
        Peer::new(self.peer, self.peer_koid)
    }
}

impl ObjectOps for EventPair {
    #[inline(always)]
    fn last_handle_closed<M: Machine>(kernel: &mut Kernel<M>, id: Id<Self>) {
        let Some(peer) = kernel.part_pair(id) else { return };
        kernel.signal(peer.object(), Signals::NONE, Signals::PEER_CLOSED);
    }
}

peered!(EventPair);

impl<M: Machine> Kernel<M> {
    /// `eventpair_create`.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn eventpair_create(&mut self) -> Result<(Id<EventPair>, Id<EventPair>), Status> {
        let end = || Box::new(EventPair { peer: None, peer_koid: 0 });
        self.create_pair(Signals::NONE, [end(), end()])
    }
}
