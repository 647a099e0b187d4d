//! FIFOs: four elements of eight bytes at each end.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use abi::{Signals, Status};
use proptest::prelude::*;

use super::{Kind, World};
use crate::core::object::Id;

const SIZE: usize = 8;
const COUNT: usize = 4;

#[derive(Default)]
pub(super) struct Model {
    /// Unread elements at this end.
    inbox: VecDeque<u8>,
}

impl Model {
    pub(super) fn signals(&self, peer: Option<&Kind>) -> Signals {
        let mut signals = Signals::NONE;
        signals.set(Signals::FIFO_READABLE, !self.inbox.is_empty());
        signals.set(Signals::FIFO_WRITABLE, matches!(peer, Some(Kind::Fifo(peer)) if peer.inbox.len() < COUNT));
        signals
    }
}

impl World {
    pub(super) fn fifo(&mut self, number: usize, what: u8, amount: usize) -> Result<(), TestCaseError> {
        let (id, peer) = (Id::new(self.things[&number].object), self.things[&number].peer);
        let count = 1 + amount % 5;
        prop_assert_eq!(self.kernel.fifo_room(id, 9, 1), Err(Status::OUT_OF_RANGE));
        if what.is_multiple_of(2) {
            let peer = peer.and_then(|peer| self.things.get_mut(&peer));
            let inbox = match peer.map(|peer| &mut peer.kind) {
                Some(Kind::Fifo(model)) => Some(&mut model.inbox),
                _ => None,
            };
            let expected = match &inbox {
                None => Err(Status::PEER_CLOSED),
                Some(inbox) if inbox.len() == COUNT => Err(Status::SHOULD_WAIT),
                Some(inbox) => Ok(count.min(COUNT - inbox.len())),
            };
            let found = self.kernel.fifo_room(id, SIZE as u64, count as u64);
            prop_assert_eq!(found.map(|(_, room)| room), expected);
            if let (Ok((peer, room)), Some(inbox)) = (found, inbox) {
                let values: Vec<u8> = (0..room).map(|i| what.wrapping_add(i as u8)).collect();
                inbox.extend(&values);
                let bytes: Vec<u8> = values.iter().flat_map(|value| [*value; SIZE]).collect();
                let (aspace, from) = self.user_bytes(&bytes);
                prop_assert_eq!(self.kernel.fifo_write((id, peer), aspace, from, bytes.len()), Ok(()));
            }
        } else {
            let Some(Kind::Fifo(model)) = self.things.get_mut(&number).map(|thing| &mut thing.kind) else {
                return Ok(());
            };
            let expected = match model.inbox.len() {
                0 if peer.is_none() => Err(Status::PEER_CLOSED),
                0 => Err(Status::SHOULD_WAIT),
                filled => Ok(filled.min(count)),
            };
            let available = self.kernel.fifo_available(id, SIZE as u64, count as u64);
            prop_assert_eq!(available, expected);
            if let Ok(available) = available {
                let (aspace, to) = self.user_bytes(&[]);
                prop_assert_eq!(self.kernel.fifo_read(id, aspace, to, available * SIZE), Ok(()));
                let bytes = self.bytes_read(available * SIZE);
                let Some(Kind::Fifo(model)) = self.things.get_mut(&number).map(|thing| &mut thing.kind) else {
                    return Ok(());
                };
                for element in bytes.chunks(SIZE) {
                    let value = model.inbox.pop_front();
                    prop_assert!(element.iter().all(|byte| Some(*byte) == value));
                }
            }
        }
        Ok(())
    }
}
