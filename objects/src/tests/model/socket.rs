//! Stream sockets: bytes at each end, and which ends may write.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use abi::{Signals, Status};
use proptest::prelude::*;

use super::{Kind, World};
use crate::core::object::Id;

pub(super) struct Model {
    /// Unread bytes at this end.
    inbox: VecDeque<u8>,
    can_write: bool,
    can_receive: bool,
    /// Writing was enabled after the peer was closed.
    alone: bool,
    read_threshold: usize,
}

impl Default for Model {
    fn default() -> Self {
        Model { inbox: VecDeque::new(), can_write: true, can_receive: true, alone: false, read_threshold: 0 }
    }
}

impl Model {
    pub(super) fn signals(&self, peer: Option<&Kind>) -> Signals {
        let mut signals = Signals::NONE;
        let len = self.inbox.len();
        signals.set(Signals::SOCKET_READABLE, len > 0);
        signals.set(Signals::SOCKET_READ_THRESHOLD, self.read_threshold > 0 && len >= self.read_threshold);
        signals.set(Signals::SOCKET_PEER_WRITE_DISABLED, !self.can_receive);
        // Tests never write enough to fill the peer.
        signals.set(Signals::SOCKET_WRITABLE, self.can_write && (peer.is_some() || self.alone));
        signals.set(Signals::SOCKET_WRITE_DISABLED, !self.can_write);
        signals
    }
}

impl World {
    fn socket_model(&mut self, number: Option<usize>) -> Option<&mut Model> {
        match &mut self.things.get_mut(&number?)?.kind {
            Kind::Socket(model) => Some(model),
            _ => None,
        }
    }

    pub(super) fn socket(&mut self, number: usize, what: u8, amount: usize) -> Result<(), TestCaseError> {
        let (id, peer) = (Id::new(self.things[&number].object), self.things[&number].peer);
        let (own, others) = (Some(number), peer);
        match what % 8 {
            0..3 => {
                let can_write = self.socket_model(own).is_some_and(|model| model.can_write);
                let expected = match others {
                    None => Err(Status::PEER_CLOSED),
                    Some(_) if !can_write => Err(Status::BAD_STATE),
                    Some(_) => Ok(()),
                };
                let bytes: Vec<u8> = (0..amount).map(|i| what.wrapping_mul(31).wrapping_add(i as u8)).collect();
                let (aspace, from) = self.user_bytes(&bytes);
                prop_assert_eq!(self.kernel.socket_write(id, aspace, from, amount), expected);
                if let (Ok(_), Some(model)) = (expected, self.socket_model(others)) {
                    model.inbox.extend(bytes);
                }
            }
            3..6 => {
                let Some(model) = self.socket_model(own) else { return Ok(()) };
                let expected = match model.inbox.len() {
                    0 if peer.is_none() => Err(Status::PEER_CLOSED),
                    0 if !model.can_receive => Err(Status::BAD_STATE),
                    0 => Err(Status::SHOULD_WAIT),
                    len => Ok(len.min(amount)),
                };
                let peek = what % 8 == 5;
                let start: Vec<u8> = model.inbox.iter().copied().take(amount).collect();
                if !peek {
                    model.inbox.drain(..start.len());
                }
                let (aspace, to) = self.user_bytes(&[]);
                let read = self.kernel.socket_read(id, aspace, to, amount, peek);
                prop_assert_eq!(read, expected);
                prop_assert_eq!(self.bytes_read(read.unwrap_or(0)), start);
            }
            6 => {
                let threshold = amount % 64;
                prop_assert_eq!(self.kernel.socket_set_threshold(id, true, threshold), Ok(()));
                if let Some(model) = self.socket_model(own) {
                    model.read_threshold = threshold;
                }
            }
            _ => {
                let allow = amount.is_multiple_of(2);
                let can_write = self.socket_model(own).is_some_and(|model| model.can_write);
                let unread = self.socket_model(others).is_some_and(|model| !model.inbox.is_empty());
                let expected = if allow && !can_write && unread { Err(Status::BAD_STATE) } else { Ok(()) };
                prop_assert_eq!(self.kernel.socket_set_disposition(id, Some(allow), None), expected);
                if expected.is_ok() {
                    if let Some(model) = self.socket_model(own) {
                        model.can_write = allow;
                        model.alone = others.is_none();
                    }
                    if let Some(model) = self.socket_model(others) {
                        model.can_receive = allow;
                    }
                }
            }
        }
        Ok(())
    }
}
