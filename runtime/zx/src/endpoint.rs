//! Endpoints of seL4, through which programs talk with native components without the server.
//!
//! A capability to an endpoint is in a slot of one thread ([`Slot`]), and only that thread can use it. A message is a
//! label and up to 120 words. A thread that is suspended while it waits for an answer makes its call again when it is
//! resumed. So the receiver may get a request twice, and requests should be idempotent.

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
    /// `WRONG_TYPE`, `OUT_OF_RANGE`: the resource does not allow it. `NO_MEMORY`.
    pub fn create(resource: &Resource) -> Result<Endpoint> {
        let mut out = 0;
        // SAFETY: `out` has room for one handle.
        check(unsafe { sys::zx_endpoint_create(resource.raw_handle(), 0, &mut out) })?;
        Ok(Endpoint(Handle::from_call(out)?))
    }

    /// Finds the endpoint that a native component offers under a name.
    ///
    /// # Errors
    /// `NOT_FOUND`: no component offers this name. `UNAVAILABLE`: the component has ended and may be restarted soon.
    /// And those of [`Endpoint::create`].
    pub fn find(resource: &Resource, name: &str) -> Result<Endpoint> {
        let mut out = 0;
        // SAFETY: the name is valid for its length; `out` has room for one handle.
        let status =
            unsafe { sys::zx_endpoint_find(resource.raw_handle(), name.as_ptr().cast(), name.len(), &mut out) };
        check(status)?;
        Ok(Endpoint(Handle::from_call(out)?))
    }

    /// Puts a capability to the endpoint into a free slot of a thread; returns the slot's number. `options` are
    /// `HAFNON_ENDPOINT_*`.
    ///
    /// # Errors
    /// `PEER_CLOSED`: the component that offers it has ended. `NO_RESOURCES`: there is no free slot. `BAD_STATE`,
    /// `OUT_OF_RANGE`, `ACCESS_DENIED`, `INVALID_ARGS`.
    pub fn mint(&self, thread: &Thread, options: u32, badge: u32) -> Result<u32> {
        let mut slot = 0;
        // SAFETY: `slot` has room for one number.
        let status =
            unsafe { sys::zx_endpoint_mint(self.raw_handle(), thread.raw_handle(), options, badge, &mut slot) };
        check(status)?;
        Ok(slot)
    }

    /// Puts a capability into a slot of the calling thread; `this` is that thread's handle.
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
    /// `UNAVAILABLE`: the component is not a client of this instance now. `PEER_CLOSED`: it has ended. `NOT_SUPPORTED`:
    /// no component offers the endpoint.
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

/// The words of a message.
pub struct Words(hafnon_endpoint_message_t);

impl Words {
    /// Maximum number of words.
    pub const MOST: usize = HAFNON_ENDPOINT_WORDS;

    /// Copies these words; words beyond [`Words::MOST`] are left out.
    pub fn new(from: &[u64]) -> Words {
        let len = from.len().min(Self::MOST);
        let mut message = hafnon_endpoint_message_t { label: 0, badge: 0, count: len as u64, words: [0; Self::MOST] };
        message.words[..len].copy_from_slice(&from[..len]);
        Words(message)
    }

    /// The words.
    pub fn as_slice(&self) -> &[u64] {
        &self.0.words[..self.0.count as usize]
    }

    /// Sets the label; returns the address of the message for a call.
    fn labelled(&mut self, label: u64) -> *mut hafnon_endpoint_message_t {
        self.0.label = label;
        &raw mut self.0
    }

    fn received(&self) -> Received {
        Received { badge: self.0.badge, label: self.0.label }
    }
}

/// A received message, without its words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received {
    /// The badge of the capability through which it was sent.
    pub badge: u64,
    /// Its label.
    pub label: u64,
}

/// A slot of the thread that made this value, with a capability in it.
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

    /// Sends a request and waits for its answer. The answer's words replace the request's. Returns the answer's label.
    ///
    /// # Errors
    /// `ACCESS_DENIED`: the slot is not for calls. `PEER_CLOSED`: the endpoint no longer exists. `INVALID_ARGS`: the
    /// label is too large.
    pub fn call(&self, label: u64, words: &mut Words) -> Result<u64> {
        self.needs(HAFNON_ENDPOINT_CALL)?;
        // SAFETY: the message is valid for reads and writes.
        check(unsafe { sys::zx_endpoint_call(self.number, words.labelled(label)) })?;
        Ok(words.0.label)
    }

    /// Sends a message and waits until a thread receives it. If the endpoint no longer exists, the message is lost.
    ///
    /// # Errors
    /// `ACCESS_DENIED`: the slot is not for sending. `INVALID_ARGS`: the label is too large.
    pub fn send(&self, label: u64, words: &Words) -> Result<()> {
        self.send_with(0, label, words)
    }

    /// Sends a message if a receiver waits for it; otherwise the message is lost.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn try_send(&self, label: u64, words: &Words) -> Result<()> {
        self.send_with(HAFNON_ENDPOINT_NO_WAIT, label, words)
    }

    fn send_with(&self, options: u32, label: u64, words: &Words) -> Result<()> {
        self.needs(HAFNON_ENDPOINT_SEND | HAFNON_ENDPOINT_CALL)?;
        let mut words = Words::new(words.as_slice());
        // SAFETY: the message is valid for reads.
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

    /// Answers the call that was received last, and waits for the next message. Its words replace the answer's.
    ///
    /// # Errors
    /// `ACCESS_DENIED`: the slot is not for receiving. `INVALID_ARGS`: the label is too large.
    pub fn answer(&self, label: u64, words: &mut Words) -> Result<Received> {
        self.needs(HAFNON_ENDPOINT_RECEIVE)?;
        // SAFETY: the message is valid for reads and writes.
        check(unsafe { sys::zx_endpoint_answer_receive(self.number, words.labelled(label)) })?;
        Ok(words.received())
    }

    /// Answers the call that was received last. It has no effect if there is no such call or the caller has ended.
    ///
    /// # Errors
    /// As [`Self::answer`].
    pub fn answer_only(&self, label: u64, words: &Words) -> Result<()> {
        self.needs(HAFNON_ENDPOINT_RECEIVE)?;
        let mut words = Words::new(words.as_slice());
        // SAFETY: the message is valid for reads.
        check(unsafe { sys::zx_endpoint_answer(words.labelled(label)) })
    }

    /// Checks what the capability was minted for: with any other operation, the thread would fault in seL4.
    fn needs(&self, one_of: u32) -> Result<()> {
        if self.options & one_of == 0 { Err(Status::ACCESS_DENIED) } else { Ok(()) }
    }
}
