//! Accounts: how much memory each job uses, and its limit.
//!
//! Every job has an account, below its parent's. An object is charged to the account of the job whose process got its
//! first handle; a process, thread or job to the account of the job that it is in. The charge lasts as long as the
//! object, and covers the object itself and what it holds (a VMO's pages, a channel end's messages). A charge counts in
//! all accounts above; if any of them would exceed its limit, nothing is charged, and the operation fails with
//! `NO_MEMORY`. So a job cannot exceed its limit by creating more jobs, by having others touch its memory, or by
//! sending its objects away; and objects that it receives cost it nothing.
//!
//! A page counts for each VMO that has it: a clone is charged from the start for all pages that it may come to own, so
//! that a write to it never fails because of the limit.
//!
//! Handle tables, page tables, mappings, packets and waits are charged to the object that has them: a process, a VMO or
//! a port ([`queue_charge`]).
//!
//! Accounts have their own lifetime, because objects may outlive their job: an account is destroyed when it has no
//! users, and then returns its part to the account above.
//!
//! To avoid changing the accounts of all levels for objects that are created and destroyed all the time, an account may
//! have *credit*: bytes that the accounts above count as charged already, but that it has not charged to any object.
//!
//! 1. An account without enough credit draws [`BATCH`] bytes more than it needs, if all accounts above have room for
//!    that.
//! 2. Charges are taken from its credit, and discharges return to it.
//! 3. Excess credit, and all credit when the account is destroyed, returns to the accounts above.
//! 4. When there seems to be no room, and when a limit is set, all credit is returned ([`Accounts::settle`]) and the
//!    check is repeated without any: so limits are exact.
//! 5. Reported usage leaves out the credit of the accounts below ([`Accounts::used`]).
//!
//! Few accounts have credit at a time ([`HOLDERS`]), so steps 4 and 5 are fast.

use abi::Status;

use crate::containers::slab::{Key, Slab};
use crate::core::noun::Noun;
use crate::core::object::{Id, Object, ObjectId};
use crate::kernel::Kernel;
use crate::machine::{Machine, PAGE};

#[cfg(test)]
mod charge_paths;
mod counts;
mod queue_charge;
#[cfg(test)]
mod tests;

pub(crate) use counts::KINDS;
pub use counts::{Count, CountKind};
pub(crate) use queue_charge::{QueueCharge, SPARE, STEP};

/// No limit.
pub const UNLIMITED: u64 = u64::MAX;

/// Bytes of credit that an account draws at a time.
const BATCH: u64 = 16 * PAGE;
/// Room in bytes below a limit that allows speculative allocations.
const AMPLE_ROOM: u64 = 256 * PAGE;
/// Maximum number of accounts with credit.
const HOLDERS: usize = 8;

/// See the module's description.
pub(crate) struct Account {
    above: Option<Key>,
    /// Bytes charged to it, and charges and credit of the accounts below it.
    used: u64,
    /// Its quota.
    pub(crate) limit: u64,
    /// Bytes that the accounts above count for it beyond `used`.
    credit: u64,
    /// Number of users: its job, objects charged to it, and accounts below it.
    users: u64,
    /// Usage and quota of each [`CountKind`] resource.
    pub(crate) counts: [Count; KINDS],
    /// Ticks of kernel time for it and the accounts below it.
    pub(crate) work: u64,
}

impl Account {
    /// Step 2 for a charge, if there is enough credit.
    #[inline(always)]
    fn take(&mut self, bytes: u64) -> bool {
        let possible = self.can_take(bytes);
        if possible {
            self.used = self.used.saturating_add(bytes);
            self.credit -= bytes;
        }
        possible
    }

    #[inline(always)]
    fn can_take(&self, bytes: u64) -> bool {
        bytes <= self.credit && self.used.saturating_add(bytes) <= self.limit
    }

    /// Step 2 for a discharge, if the account has credit and does not get too much.
    #[inline(always)]
    fn give(&mut self, bytes: u64) -> bool {
        let credit = self.credit.saturating_add(bytes);
        let possible = self.credit > 0 && credit <= 2 * BATCH;
        if possible {
            self.used = self.used.saturating_sub(bytes);
            self.credit = credit;
        }
        possible
    }
}

/// All accounts.
#[derive(Default)]
pub(crate) struct Accounts {
    pub(crate) slab: Slab<Account>,
    /// Accounts that may have credit.
    holders: [Option<Key>; HOLDERS],
    /// Index of the holder that is replaced next.
    next: usize,
}

impl Accounts {
    pub(crate) fn new_below(&mut self, above: Option<Key>) -> Result<Key, Status> {
        let counts = [Count::NONE; KINDS];
        let account = Account { above, used: 0, limit: UNLIMITED, credit: 0, users: 1, counts, work: 0 };
        let key = self.slab.insert(account).map_err(|_| Status::NO_MEMORY)?;
        if let Some(above) = above.and_then(|above| self.slab.get_mut(above)) {
            above.users += 1;
        }
        Ok(key)
    }

    /// Removes a user of an account; destroys it with the last one, and possibly those above. The walk is bounded by
    /// the maximum height of the job tree.
    fn leave(&mut self, account: Key) {
        let mut next = Some(account);
        while let Some(key) = next.take() {
            let Some(account) = self.slab.get_mut(key) else { return };
            account.users = account.users.saturating_sub(1);
            if account.users == 0 {
                self.return_credit(key);
                next = self.slab.remove(key).and_then(|account| account.above);
            }
        }
    }

    /// Charges ticks of kernel time to an account and those above it.
    fn add_kernel_time(&mut self, first: Key, ticks: u64) {
        let mut next = Some(first);
        while let Some(account) = next.and_then(|key| self.slab.get_mut(key)) {
            account.work = account.work.saturating_add(ticks);
            next = account.above;
        }
    }

    /// An account and all accounts above it.
    fn upwards(&self, first: Option<Key>) -> impl Iterator<Item = &Account> {
        let account = |key: Option<Key>| key.and_then(|key| self.slab.get(key));
        core::iter::successors(account(first), move |below| account(below.above))
    }

    /// Changes the usage of an account and all accounts above it.
    fn change(&mut self, first: Option<Key>, change: impl Fn(u64) -> u64) {
        let mut next = first;
        while let Some(account) = next.and_then(|key| self.slab.get_mut(key)) {
            account.used = change(account.used);
            next = account.above;
        }
    }

    /// Step 3: returns an account's credit.
    fn return_credit(&mut self, key: Key) {
        let Some(account) = self.slab.get_mut(key) else { return };
        let (credit, above) = (core::mem::take(&mut account.credit), account.above);
        if credit > 0 {
            self.change(above, |used| used.saturating_sub(credit));
        }
    }

    /// Step 4: returns all credit.
    pub(crate) fn settle(&mut self) {
        for place in 0..HOLDERS {
            if let Some(holder) = self.holders.get_mut(place).and_then(Option::take) {
                self.return_credit(holder);
            }
        }
    }

    /// Registers an account as a holder of credit; another one may lose its credit.
    fn hold(&mut self, key: Key) {
        if self.holders.contains(&Some(key)) {
            return;
        }
        let place = self.next;
        self.next = (place + 1) % HOLDERS;
        if let Some(other) = self.holders.get_mut(place).and_then(|holder| holder.replace(key)) {
            self.return_credit(other);
        }
    }

    /// Step 5: bytes charged to an account and the accounts below it.
    pub(crate) fn used(&self, key: Key) -> Option<u64> {
        let account = self.slab.get(key)?;
        let credit = self.holders.iter().flatten().filter_map(|&holder| {
            let holder = self.slab.get(holder)?;
            self.is_below(holder, key).then_some(holder.credit)
        });
        Some(account.used.saturating_sub(credit.sum()))
    }

    fn is_below(&self, account: &Account, above: Key) -> bool {
        account.above == Some(above) || self.upwards(account.above).any(|next| next.above == Some(above))
    }

    /// Whether `bytes` more can be charged to an account.
    #[inline]
    fn has_room(&mut self, key: Key, bytes: u64) -> bool {
        // Usage may be above the limit already.
        bytes == 0 || self.slab.get(key).is_some_and(|account| account.can_take(bytes)) || self.reclaim_room(key, bytes)
    }

    /// Steps 1 and 4 for a later charge.
    #[inline(never)]
    fn reclaim_room(&mut self, key: Key, bytes: u64) -> bool {
        self.return_credit(key);
        if !self.has_room_with_credit(key, bytes) {
            self.settle();
            return self.has_room_with_credit(key, bytes);
        }
        if bytes <= BATCH && self.take_from_all(key, 0, bytes + BATCH) {
            self.hold(key);
        }
        true
    }

    /// The same, counting all credit as charged.
    fn has_room_with_credit(&self, key: Key, bytes: u64) -> bool {
        self.upwards(Some(key)).all(|account| account.used.saturating_add(bytes) <= account.limit)
    }

    /// Reduces an object's charge.
    #[inline]
    pub fn lower_charge(&mut self, object: &mut Object, bytes: u64) {
        if let Some(account) = object.charge.account {
            let bytes = bytes.min(object.charge.bytes);
            object.charge.bytes -= bytes;
            self.give(account, bytes);
        }
    }

    /// Charges `objects` new objects with a total of `bytes` to an account, if it and those above have room.
    #[inline(always)]
    fn enter(&mut self, key: Key, objects: u64, bytes: u64) -> Result<(), Status> {
        let bytes = bytes.saturating_mul(objects);
        if let Some(account) = self.slab.get_mut(key)
            && account.take(bytes)
        {
            account.users += objects;
            return Ok(());
        }
        self.enter_slow(key, objects, bytes)
    }

    #[inline(never)]
    fn enter_slow(&mut self, key: Key, objects: u64, bytes: u64) -> Result<(), Status> {
        self.take_more(key, bytes)?;
        if let Some(account) = self.slab.get_mut(key) {
            account.users += objects;
        }
        Ok(())
    }

    /// Discharges a destroyed object.
    #[inline(always)]
    fn quit(&mut self, key: Key, bytes: u64) {
        if let Some(account) = self.slab.get_mut(key)
            && account.users > 1
            && account.give(bytes)
        {
            account.users -= 1;
            return;
        }
        self.quit_slow(key, bytes);
    }

    #[inline(never)]
    fn quit_slow(&mut self, key: Key, bytes: u64) {
        self.give(key, bytes);
        self.leave(key);
    }

    /// Steps 1 and 4 for a charge.
    #[inline(never)]
    fn take_more(&mut self, key: Key, bytes: u64) -> Result<(), Status> {
        self.return_credit(key);
        if bytes <= BATCH && self.take_from_all(key, bytes, BATCH) {
            self.hold(key);
            return Ok(());
        }
        if self.take_from_all(key, bytes, 0) {
            return Ok(());
        }
        self.settle();
        if self.take_from_all(key, bytes, 0) { Ok(()) } else { Err(Status::NO_MEMORY) }
    }

    /// Charges an account and those above, with additional credit, if all have room.
    fn take_from_all(&mut self, key: Key, bytes: u64, credit: u64) -> bool {
        let Some(account) = self.slab.get(key) else { return true };
        let (above, total) = (account.above, bytes.saturating_add(credit));
        let room = account.used.saturating_add(bytes) <= account.limit
            && self.upwards(above).all(|account| account.used.saturating_add(total) <= account.limit);
        if room && let Some(account) = self.slab.get_mut(key) {
            account.used += bytes;
            account.credit += credit;
            self.change(above, |used| used + total);
        }
        room
    }

    /// Charges an account; the caller has checked the room.
    #[inline]
    fn add(&mut self, key: Key, bytes: u64) {
        if !self.slab.get_mut(key).is_some_and(|account| account.take(bytes)) {
            self.change(Some(key), |used| used.saturating_add(bytes));
        }
    }

    /// Discharges an account.
    #[inline]
    fn give(&mut self, key: Key, bytes: u64) {
        if !self.slab.get_mut(key).is_some_and(|account| account.give(bytes)) {
            self.change(Some(key), |used| used.saturating_sub(bytes));
        }
    }
}

/// Bytes that an empty address space takes: its top-level page tables.
pub(crate) const SPACE: u64 = 4 * PAGE;

/// The charge of an object.
#[derive(Clone, Copy, Default)]
pub(crate) struct Charge {
    account: Option<Key>,
    bytes: u64,
}

/// A noun with an account, to which objects created in it are charged.
pub trait AccountOwner: Noun {
    /// Its account.
    fn account(&self) -> Key;
}

/// Bytes that an object of a type takes by itself, including the machine's part.
const fn own_bytes<T: Noun>() -> u64 {
    size_of::<Object>() as u64 + T::BYTES
}

impl<M: Machine> Kernel<M> {
    /// Removes a user of an account.
    pub(crate) fn account_leave(&mut self, account: Key) {
        self.accounts.leave(account);
    }

    /// Whether the account that pays for an object, and those above it, are well below their limits.
    pub(crate) fn has_ample_room(&self, id: ObjectId) -> bool {
        let Ok(object) = self.objects.any(id) else { return false };
        self.accounts
            .upwards(object.charge.account)
            .all(|account| account.limit.saturating_sub(account.used) >= AMPLE_ROOM)
    }

    /// Checks that an object can be charged for `bytes` more.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub(crate) fn may_charge(&mut self, id: ObjectId, bytes: u64) -> Result<(), Status> {
        match self.objects.any(id)?.charge.account {
            Some(account) if !self.accounts.has_room(account, bytes) => Err(Status::NO_MEMORY),
            _ => Ok(()),
        }
    }

    /// Charges an object, if it has an account; the caller has checked the room.
    #[inline]
    pub(crate) fn charge(&mut self, id: ObjectId, bytes: u64) {
        let Ok(object) = self.objects.any_mut(id) else { return };
        if let Some(account) = object.charge.account {
            object.charge.bytes += bytes;
            self.accounts.add(account, bytes);
        }
    }

    /// Discharges an object.
    #[inline]
    pub(crate) fn discharge(&mut self, id: ObjectId, bytes: u64) {
        if let Ok(object) = self.objects.any_mut(id) {
            self.accounts.lower_charge(object, bytes);
        }
    }

    /// Charges a new object to the account of another object, like [`Kernel::charge_new`].
    ///
    /// # Errors
    /// `NO_MEMORY`: the limit of a job.
    pub(crate) fn charge_to<P: AccountOwner, T: Noun>(&mut self, payer: Id<P>, id: Id<T>) -> Result<(), Status> {
        let account = self.objects.get(payer)?.account();
        self.charge_new(account, id).map(|_| ())
    }

    /// Charges a new object, with what it already holds, to an account; a task to its own.
    ///
    /// # Errors
    /// `NO_MEMORY`: the job's limit.
    #[inline(always)]
    pub(crate) fn charge_new<T: Noun>(&mut self, account: Key, id: Id<T>) -> Result<&mut Object, Status> {
        let account = T::paying_account(self, id, account)?;
        let object = self.objects.any_mut(id.object())?;
        if object.charge.account.is_none() {
            let held = T::of(&object.body).map_or(0, T::held_bytes);
            let bytes = own_bytes::<T>() + held;
            self.accounts.enter(account, 1, bytes)?;
            object.charge = Charge { account: Some(account), bytes };
        }
        Ok(object)
    }

    /// Charges two new objects, which hold nothing yet, to an account, and gives each a handle count of 1.
    ///
    /// # Errors
    /// `NO_MEMORY`: the job's limit.
    #[inline(always)]
    pub(crate) fn charge_pair<T: Noun>(&mut self, account: Key, pair: [Id<T>; 2]) -> Result<(), Status> {
        let bytes = own_bytes::<T>();
        self.accounts.enter(account, pair.len() as u64, bytes)?;
        for id in pair {
            let object = self.objects.any_mut(id.object())?;
            object.charge = Charge { account: Some(account), bytes };
            object.handles += 1;
        }
        Ok(())
    }

    /// Charges the ticks since the last check to an account, if it still exists.
    #[inline]
    pub(crate) fn kernel_time_charge(&mut self, account: Key) {
        let ticks = self.machine.own_ticks();
        if ticks != self.ticks_counted && self.accounts.slab.get(account).is_some() {
            self.accounts.add_kernel_time(account, ticks.wrapping_sub(self.ticks_counted));
            self.ticks_counted = ticks;
        }
    }

    /// Accounts kernel time for destroying a charged object.
    #[inline]
    pub(crate) fn kernel_time_charge_destroy(&mut self, charge: Charge) {
        if let Some(account) = charge.account {
            self.kernel_time_charge(account);
        }
    }

    /// Ends the charge of a destroyed object.
    #[inline(always)]
    pub(crate) fn charge_end(&mut self, charge: Charge) {
        if let Some(account) = charge.account {
            self.accounts.quit(account, charge.bytes);
        }
    }
}
