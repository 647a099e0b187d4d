//! Endpoints of the kernel beneath: how a program talks with native components, past the server.
//!
//! A capability to an endpoint stands in a slot of one thread ([`Slot`]), and is of use to that thread alone. What is sent is
//! a label and up to 120 words. A thread that is suspended while it calls makes the call again when it is resumed, so
//! what is asked for should bear being asked for twice.

use core::marker::PhantomData;

use abi::{
    HAFNON_ENDPOINT_CALL, HAFNON_ENDPOINT_NO_WAIT, HAFNON_ENDPOINT_RECEIVE, HAFNON_ENDPOINT_SEND,
    HAFNON_ENDPOINT_WORDS, Status, hafnon_endpoint_message_t,
};

use crate::handle::object;
use crate::{AsHandleRef, Channel, Handle, Resource, Result, Thread, check, sys};

object! {
    /// An endpoint.
    Endpoint
}

impl Endpoint {
    /// Makes an endpoint.
    ///
    /// # Errors
    /// `WRONG_TYPE`, `OUT_OF_RANGE`: the resource is another. `NO_MEMORY`.
    pub fn create(resource: &Resource) -> Result<Endpoint> {
        let mut out = 0;
        // SAFETY: `out` is one handle's place.
        check(unsafe { sys::zx_endpoint_create(resource.raw_handle(), 0, &mut out) })?;
        Ok(Endpoint(Handle::from_call(out)?))
    }

    /// Finds the endpoint that a native component offers under a name.
    ///
    /// # Errors
    /// `NOT_FOUND`: none does. `UNAVAILABLE`: it has ended and may be back soon. As [`Endpoint::create`].
    pub fn find(resource: &Resource, name: &str) -> Result<Endpoint> {
        let mut out = 0;
        // SAFETY: the name is as long as it says, and `out` is one handle's place.
        let status =
            unsafe { sys::zx_endpoint_find(resource.raw_handle(), name.as_ptr().cast(), name.len(), &mut out) };
        check(status)?;
        Ok(Endpoint(Handle::from_call(out)?))
    }

    /// Puts a capability into a slot of a thread; gives its number. `options` are `HAFNON_ENDPOINT_*`.
    ///
    /// # Errors
    /// `PEER_CLOSED`: who offers it has ended. `NO_RESOURCES`: there is no free slot. `BAD_STATE`, `OUT_OF_RANGE`,
    /// `ACCESS_DENIED`, `INVALID_ARGS`.
    pub fn mint(&self, thread: &Thread, options: u32, badge: u32) -> Result<u32> {
        let mut slot = 0;
        // SAFETY: `slot` is one number's place.
        let status =
            unsafe { sys::zx_endpoint_mint(self.raw_handle(), thread.raw_handle(), options, badge, &mut slot) };
        check(status)?;
        Ok(slot)
    }

    /// Puts one into a slot of the calling thread, whose handle this is.
    ///
    /// # Errors
    /// As [`Endpoint::mint`].
    pub fn mint_here(&self, this: &Thread, options: u32, badge: u32) -> Result<Slot> {
        let number = self.mint(this, options, badge)?;
        Ok(Slot { number, options, of_one_thread: PhantomData })
    }

    /// Hands an end of a channel to the component that offers the endpoint.
    ///
    /// # Errors
    /// `UNAVAILABLE`: it is no client of this instance now. `PEER_CLOSED`: it has ended. `NOT_SUPPORTED`: it is no component's.
    pub fn connect(&self, channel: Channel) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_endpoint_connect(self.raw_handle(), channel.into_handle().into_raw()) })
    }

    /// Empties a slot of a thread.
    ///
    /// # Errors
    /// `NOT_FOUND`: it is empty.
    pub fn delete(thread: &Thread, slot: u32) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_endpoint_delete(thread.raw_handle(), slot) })
    }
}

/// A message's words.
pub struct Words(hafnon_endpoint_message_t);

impl Words {
    /// So many are the most.
    pub const MOST: usize = HAFNON_ENDPOINT_WORDS;

    /// These, as many of them as a message can have.
    pub fn new(from: &[u64]) -> Words {
        let len = from.len().min(Self::MOST);
        let mut message = hafnon_endpoint_message_t { label: 0, badge: 0, count: len as u64, words: [0; Self::MOST] };
        message.words[..len].copy_from_slice(&from[..len]);
        Words(message)
    }

    /// They.
    pub fn as_slice(&self) -> &[u64] {
        &self.0.words[..self.0.count as usize]
    }

    /// The message with this label and these words.
    fn labelled(&mut self, label: u64) -> *mut hafnon_endpoint_message_t {
        self.0.label = label;
        &raw mut self.0
    }

    fn received(&self) -> Received {
        Received { badge: self.0.badge, label: self.0.label }
    }
}

/// A message that came in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received {
    /// The badge of the capability that it was sent through.
    pub badge: u64,
    /// Its label.
    pub label: u64,
}

/// A slot of the thread that it was made by.
pub struct Slot {
    number: u32,
    options: u32,
    of_one_thread: PhantomData<*const ()>,
}

impl Slot {
    /// The number of the slot.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Sends a request and waits for its answer, whose words take the place of the request's; gives the answer's label.
    ///
    /// # Errors
    /// `ACCESS_DENIED`: the slot is not for calls. `PEER_CLOSED`: the endpoint is gone. `INVALID_ARGS`: the label is too large.
    pub fn call(&self, label: u64, words: &mut Words) -> Result<u64> {
        self.needs(HAFNON_ENDPOINT_CALL)?;
        // SAFETY: the message is read and written where it is.
        check(unsafe { sys::zx_endpoint_call(self.number, words.labelled(label)) })?;
        Ok(words.0.label)
    }

    /// Sends a message and waits until it has been received. If the endpoint is gone, nothing happens.
    ///
    /// # Errors
    /// `ACCESS_DENIED`: the slot is not for sending. `INVALID_ARGS`: the label is too large.
    pub fn send(&self, label: u64, words: &Words) -> Result<()> {
        self.send_with(0, label, words)
    }

    /// Sends a message if somebody waits for it.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn try_send(&self, label: u64, words: &Words) -> Result<()> {
        self.send_with(HAFNON_ENDPOINT_NO_WAIT, label, words)
    }

    fn send_with(&self, options: u32, label: u64, words: &Words) -> Result<()> {
        self.needs(HAFNON_ENDPOINT_SEND | HAFNON_ENDPOINT_CALL)?;
        let mut words = Words::new(words.as_slice());
        // SAFETY: the message is read where it is.
        check(unsafe { sys::zx_endpoint_send(self.number, options, words.labelled(label)) })
    }

    /// Waits for a message.
    ///
    /// # Errors
    /// `ACCESS_DENIED`: the slot is not for receiving.
    pub fn receive(&self, words: &mut Words) -> Result<Received> {
        self.needs(HAFNON_ENDPOINT_RECEIVE)?;
        // SAFETY: there is room for a message.
        check(unsafe { sys::zx_endpoint_receive(self.number, &raw mut words.0) })?;
        Ok(words.received())
    }

    /// Answers the call that was received last, and waits for the next message, whose words take the place of the answer's.
    ///
    /// # Errors
    /// `ACCESS_DENIED`: the slot is not for receiving. `INVALID_ARGS`: the label is too large.
    pub fn answer(&self, label: u64, words: &mut Words) -> Result<Received> {
        self.needs(HAFNON_ENDPOINT_RECEIVE)?;
        // SAFETY: the message is read and written where it is.
        check(unsafe { sys::zx_endpoint_answer_receive(self.number, words.labelled(label)) })?;
        Ok(words.received())
    }

    /// Answers the call that was received last. If there is none, or the caller is gone, nothing happens.
    ///
    /// # Errors
    /// As [`Self::answer`].
    pub fn answer_only(&self, label: u64, words: &Words) -> Result<()> {
        self.needs(HAFNON_ENDPOINT_RECEIVE)?;
        let mut words = Words::new(words.as_slice());
        // SAFETY: the message is read where it is.
        check(unsafe { sys::zx_endpoint_answer(words.labelled(label)) })
    }

    /// The kernel makes a fault of what a capability is not for, so it is refused here.
    fn needs(&self, one_of: u32) -> Result<()> {
        if self.options & one_of == 0 { Err(Status::ACCESS_DENIED) } else { Ok(()) }
    }
}
