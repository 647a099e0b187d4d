//! Channels: messages at each end, some of which carry a thing.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use std::vec;

use abi::{Signals, Status};
use proptest::prelude::*;

use super::{Home, Kind, World};
use crate::core::handle::HandleValue;
use crate::core::object::Id;
use crate::ipc::channel::Message;

#[derive(Default)]
pub(super) struct Model {
    /// Unread messages at this end: bytes, and the thing in the message.
    inbox: VecDeque<(Vec<u8>, Option<usize>)>,
}

impl Model {
    pub(super) fn signals(&self, peer: bool) -> Signals {
        let mut signals = Signals::NONE;
        signals.set(Signals::CHANNEL_READABLE, !self.inbox.is_empty());
        signals.set(Signals::CHANNEL_WRITABLE, peer);
        signals
    }

    /// Things in messages.
    pub(super) fn carried(&self) -> impl Iterator<Item = usize> + '_ {
        self.inbox.iter().filter_map(|message| message.1)
    }
}

impl World {
    fn channel_model(&mut self, number: Option<usize>) -> Option<&mut Model> {
        match &mut self.things.get_mut(&number?)?.kind {
            Kind::Channel(model) => Some(model),
            _ => None,
        }
    }

    pub(super) fn channel(&mut self, number: usize, what: u8, amount: usize) -> Result<(), TestCaseError> {
        let (id, peer) = (Id::new(self.things[&number].object), self.things[&number].peer);
        if what.is_multiple_of(2) {
            let data = vec![what; amount];
            let sent = self.kernel.channel_write(id, Message { data: data.clone(), handles: Vec::new() });
            match self.channel_model(peer) {
                None => prop_assert_eq!(sent, Err(Status::PEER_CLOSED)),
                Some(model) => {
                    prop_assert_eq!(sent, Ok(()));
                    model.inbox.push_back((data, None));
                }
            }
            return Ok(());
        }
        let first = self.channel_model(Some(number)).and_then(|model| model.inbox.pop_front());
        let read = self.kernel.channel_read(id);
        let Some((data, carried)) = first else {
            let expected = if peer.is_some() { Status::SHOULD_WAIT } else { Status::PEER_CLOSED };
            prop_assert_eq!(read.err(), Some(expected));
            return Ok(());
        };
        let message = read.expect("a message");
        prop_assert_eq!(&message.data, &data);
        let objects: Vec<_> = message.handles.iter().map(|handle| handle.object).collect();
        let expected: Vec<_> = carried.iter().map(|number| self.things[number].object).collect();
        prop_assert_eq!(objects, expected);
        for (handle, number) in message.handles.into_iter().zip(carried) {
            let value = self.kernel.put(self.process, handle).unwrap();
            self.things.get_mut(&number).expect("it is carried").place = Home::Table(value);
        }
        Ok(())
    }

    /// Sends a thing in a message of a channel.
    pub(super) fn carry(&mut self, number: usize, value: HandleValue, into: usize) -> Result<(), TestCaseError> {
        let Some(Kind::Channel(_)) = self.things.get(&into).map(|thing| &thing.kind) else { return Ok(()) };
        let peer = self.things[&into].peer;
        // A channel whose end could be read only through itself would be lost with its content.
        if number == into || self.reaches(number, peer) {
            return Ok(());
        }
        let handle = self.kernel.take(self.process, value).unwrap();
        prop_assert_eq!(handle, self.copy_of(number));
        self.handle_goes(number);
        let message = Message { data: Vec::new(), handles: vec![handle] };
        let sent = self.kernel.channel_write(Id::new(self.things[&into].object), message);
        match peer {
            None => {
                prop_assert_eq!(sent, Err(Status::PEER_CLOSED));
                self.thing_ends(number);
            }
            Some(to) => {
                prop_assert_eq!(sent, Ok(()));
                self.things.get_mut(&number).expect("it is there").place = Home::Message(to);
                if let Some(model) = self.channel_model(peer) {
                    model.inbox.push_back((Vec::new(), Some(number)));
                }
            }
        }
        Ok(())
    }

    /// Whether an end is `thing`, or is inside messages to it at any depth.
    fn reaches(&self, thing: usize, end: Option<usize>) -> bool {
        let outer = |&at: &usize| match self.things.get(&at)?.place {
            Home::Message(to) => Some(to),
            Home::Table(_) => None,
        };
        core::iter::successors(end, outer).any(|at| at == thing)
    }
}

impl World {
    /// An operation specific to a thing's noun.
    pub(super) fn act(&mut self, number: usize, what: u8, amount: usize) -> Result<(), TestCaseError> {
        match self.things[&number].kind {
            Kind::Event | Kind::EventPair => Ok(()),
            Kind::Counter(_) => self.counter(number, what, amount),
            Kind::Timer(_) => self.timer(number, what, amount),
            Kind::Fifo(_) => self.fifo(number, what, amount),
            Kind::Socket(_) => self.socket(number, what, amount),
            Kind::Channel(_) => self.channel(number, what, amount),
        }
    }
}
