//! What objects hold for their readers: messages in channels, bytes in sockets.
//!
//! Whoever made the object pays for it, as nobody can be made to read: with memory, and with what its job's account counts of it. What
//! comes and goes in small numbers changes no account: it goes by steps, and an object keeps something to spare. Of what is
//! counted that is more than of memory, so that a large message that comes and goes changes no count.

use abi::Status;

use super::{Accounts, Charge, Counted};
use crate::containers::slab::Key;
use crate::core::object::ObjectId;
use crate::kernel::Kernel;
use crate::machine::Machine;

/// Bytes by which the charge for what an object holds for its reader grows at least, and [`SPARE`] which it may be too high
/// before some of it is given back: so a message, or a few, that come and go change no account.
pub(crate) const STEP: u64 = 1024;
/// See [`STEP`].
pub(crate) const SPARE: u64 = 4 * STEP;
/// The same of what is counted: places for messages.
pub(crate) const PLACES: u64 = 32;
/// Bytes that may be counted too much before some are given back: the largest message.
const KEPT: u64 = abi::ZX_CHANNEL_MAX_MSG_BYTES as u64 + STEP;

/// What counts for an object that holds something for its reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Held {
    /// Bytes.
    bytes: u64,
    /// Places for messages.
    pub places: u64,
}

impl Held {
    /// Whether so many bytes in so many messages are counted.
    #[inline(always)]
    pub(crate) fn is_enough(&self, bytes: u64, messages: u64) -> bool {
        bytes <= self.bytes && messages <= self.places
    }

    /// Whether much more is counted than so many bytes in so many messages.
    #[inline(always)]
    pub(crate) fn is_too_much(&self, bytes: u64, messages: u64) -> bool {
        self.bytes > bytes + KEPT || self.places > messages + PLACES
    }

    fn counts(self) -> [(Counted, u64); 2] {
        [(Counted::QueuedBytes, self.bytes), (Counted::Messages, self.places)]
    }
}

impl<M: Machine> Kernel<M> {
    /// Charges an object for what it holds for its reader: so much, or a step more. Says how much.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub(crate) fn charge_held(&mut self, id: ObjectId, missing: u64) -> Result<u64, Status> {
        // Where there is no room for a step there may be for what is needed.
        let step = missing.max(STEP);
        let more = if self.may_charge(id, step).is_ok() { step } else { missing };
        self.may_charge(id, more)?;
        self.charge(id, more);
        Ok(more)
    }

    /// Counts what an object is to hold, so many bytes in so many messages, where `held` is not enough.
    ///
    /// # Errors
    /// `NO_RESOURCES`: its job may not have so much.
    #[cold]
    pub(crate) fn count_held(&mut self, id: ObjectId, held: Held, bytes: u64, messages: u64) -> Result<Held, Status> {
        let missing = [bytes.saturating_sub(held.bytes), messages.saturating_sub(held.places)];
        let Some(account) = self.objects.any(id)?.charge.account else { return Ok(held) };
        let step = |missing: u64, step: u64| if missing > 0 { missing.max(step) } else { 0 };
        let steps = [step(missing[0], STEP), step(missing[1], PLACES)];
        // Where there is no room for a step there may be for what is needed.
        let more = match self.accounts.count_both(account, steps) {
            Ok(()) => steps,
            Err(_) => self.accounts.count_both(account, missing).map(|()| missing)?,
        };
        Ok(Held { bytes: held.bytes + more[0], places: held.places + more[1] })
    }

    /// Counts less for an object that holds so many bytes in so many messages, where `held` is too much.
    #[cold]
    pub(crate) fn uncount_held(&mut self, id: ObjectId, held: Held, bytes: u64, messages: u64) -> Held {
        let less = Held {
            bytes: if held.bytes > bytes + KEPT { held.bytes - bytes - STEP } else { 0 },
            places: held.places.saturating_sub(messages + PLACES),
        };
        if let Ok(object) = self.objects.any(id) {
            self.held_ends(object.charge, less);
        }
        Held { bytes: held.bytes - less.bytes, places: held.places - less.places }
    }

    /// An object ends for which so much is counted.
    #[inline]
    pub(crate) fn held_ends(&mut self, charge: Charge, held: Held) {
        if let Some(account) = charge.account {
            for (what, less) in held.counts().into_iter().filter(|(_, less)| *less > 0) {
                self.accounts.uncount(account, what, less);
            }
        }
    }
}

impl Accounts {
    /// So many bytes and messages more, or neither.
    fn count_both(&mut self, account: Key, [bytes, places]: [u64; 2]) -> Result<(), Status> {
        if bytes > 0 {
            self.count(account, Counted::QueuedBytes, bytes)?;
        }
        if places > 0 {
            let counted = self.count(account, Counted::Messages, places);
            return counted.inspect_err(|_| self.uncount(account, Counted::QueuedBytes, bytes));
        }
        Ok(())
    }
}
