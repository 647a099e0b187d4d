//! Queue charges: what objects hold for their readers, that is, messages in channels and bytes in sockets.
//!
//! The creator of the object pays, because no reader can be forced to read: with memory, and with its job's counts. To
//! avoid changing accounts for small amounts, charges change in steps, and an object keeps some spare. For counts the
//! spare is larger than for memory, so that a large message that comes and goes changes no count.

use abi::Status;

use super::{Accounts, Charge, CountKind};
use crate::containers::slab::Key;
use crate::core::object::ObjectId;
use crate::kernel::Kernel;
use crate::machine::Machine;

/// Minimum step in bytes by which a queue charge grows. A charge may be up to [`SPARE`] too high before some of it is
/// returned, so a few messages that come and go change no account.
pub(crate) const STEP: u64 = 1024;
/// Spare of a charge in bytes; see [`STEP`].
pub(crate) const SPARE: u64 = 4 * STEP;
/// Step of the count of message slots.
pub(crate) const PLACES: u64 = 32;
/// Spare of the count of bytes: the largest message.
const COUNT_SPARE: u64 = abi::ZX_CHANNEL_MAX_MSG_BYTES as u64 + STEP;

/// Counts of an object that holds data for its reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct QueueCharge {
    /// Bytes counted.
    bytes: u64,
    /// Message slots counted.
    pub places: u64,
}

impl QueueCharge {
    /// Whether the counts cover `bytes` in `messages` messages.
    #[inline(always)]
    pub(crate) fn is_enough(&self, bytes: u64, messages: u64) -> bool {
        bytes <= self.bytes && messages <= self.places
    }

    /// Bytes that are counted beyond these.
    pub(crate) fn beyond(&self, bytes: u64) -> u64 {
        self.bytes.saturating_sub(bytes)
    }

    /// Whether the counts are much higher than needed for `bytes` in `messages` messages.
    #[inline(always)]
    pub(crate) fn is_too_much(&self, bytes: u64, messages: u64) -> bool {
        self.bytes > bytes + COUNT_SPARE || self.places > messages + PLACES
    }

    fn counts(self) -> [(CountKind, u64); 2] {
        [(CountKind::QueuedBytes, self.bytes), (CountKind::Messages, self.places)]
    }
}

impl<M: Machine> Kernel<M> {
    /// Charges an object for at least `missing` bytes, or a whole step. Returns the amount.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub(crate) fn charge_queue(&mut self, id: ObjectId, missing: u64) -> Result<u64, Status> {
        self.charge_queue_by(id, missing, STEP)
    }

    /// The same with steps of this size.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub(crate) fn charge_queue_by(&mut self, id: ObjectId, missing: u64, step: u64) -> Result<u64, Status> {
        // Where a step exceeds the limit, the exact amount may fit.
        let step = missing.max(step);
        let more = if self.may_charge(id, step).is_ok() { step } else { missing };
        self.may_charge(id, more)?;
        self.charge(id, more);
        Ok(more)
    }

    /// Raises an object's counts, if they do not cover `bytes` in `messages` messages.
    ///
    /// # Errors
    /// `NO_RESOURCES`: the job's quota.
    #[cold]
    pub(crate) fn count_queue(
        &mut self,
        id: ObjectId,
        held: QueueCharge,
        bytes: u64,
        messages: u64,
    ) -> Result<QueueCharge, Status> {
        let missing = [bytes.saturating_sub(held.bytes), messages.saturating_sub(held.places)];
        let Some(account) = self.objects.any(id)?.charge.account else { return Ok(held) };
        let step = |missing: u64, step: u64| if missing > 0 { missing.max(step) } else { 0 };
        let steps = [step(missing[0], STEP), step(missing[1], PLACES)];
        // Where a step exceeds the quota, the exact amount may fit.
        let more = match self.accounts.count_both(account, steps) {
            Ok(()) => steps,
            Err(_) => self.accounts.count_both(account, missing).map(|()| missing)?,
        };
        Ok(QueueCharge { bytes: held.bytes + more[0], places: held.places + more[1] })
    }

    /// Lowers an object's counts, if they are too high for `bytes` in `messages` messages.
    #[cold]
    pub(crate) fn uncount_queue(&mut self, id: ObjectId, held: QueueCharge, bytes: u64, messages: u64) -> QueueCharge {
        let less = QueueCharge {
            bytes: if held.bytes > bytes + COUNT_SPARE { held.bytes - bytes - STEP } else { 0 },
            places: held.places.saturating_sub(messages + PLACES),
        };
        if let Ok(object) = self.objects.any(id) {
            self.uncount_whole_queue(object.charge, less);
        }
        QueueCharge { bytes: held.bytes - less.bytes, places: held.places - less.places }
    }

    /// Uncounts everything of an object that is destroyed.
    #[inline]
    pub(crate) fn uncount_whole_queue(&mut self, charge: Charge, held: QueueCharge) {
        if let Some(account) = charge.account {
            for (what, less) in held.counts().into_iter().filter(|(_, less)| *less > 0) {
                self.accounts.uncount(account, what, less);
            }
        }
    }
}

impl Accounts {
    /// Counts bytes and message slots, or neither.
    fn count_both(&mut self, account: Key, [bytes, places]: [u64; 2]) -> Result<(), Status> {
        if bytes > 0 {
            self.count(account, CountKind::QueuedBytes, bytes)?;
        }
        if places > 0 {
            let counted = self.count(account, CountKind::Messages, places);
            return counted.inspect_err(|_| self.uncount(account, CountKind::QueuedBytes, bytes));
        }
        Ok(())
    }
}
