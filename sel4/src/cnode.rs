//! CNodes: the tables of capabilities, and the operations on their slots.

use crate::cap::cap;
use crate::generated::invoke;
use crate::{CPtr, Result, family};

cap! {
    /// A table of capabilities.
    CNode
}

/// What a copy of a capability may be used for. A copy never has more rights than the original.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rights {
    /// Receive from an endpoint, wait on a notification, read a page.
    pub read: bool,
    /// Send to an endpoint, signal a notification, write a page.
    pub write: bool,
    /// Send capabilities through an endpoint.
    pub grant: bool,
    /// Be replied to, that is: call. 5.0.0 has no such right and uses `grant` for it.
    pub grant_reply: bool,
}

impl Rights {
    /// All rights.
    pub const ALL: Rights = Rights { read: true, write: true, grant: true, grant_reply: true };
    /// No rights.
    pub const NONE: Rights = Rights { read: false, write: false, grant: false, grant_reply: false };
    /// Receiving, waiting, reading.
    pub const READ: Rights = Rights { read: true, ..Rights::NONE };
    /// Sending, signalling, writing.
    pub const WRITE: Rights = Rights { write: true, ..Rights::NONE };
    /// Reading and writing; for pages.
    pub const READ_WRITE: Rights = Rights { read: true, write: true, ..Rights::NONE };
    /// The rights that a call through an endpoint needs, and no others.
    pub const CALL: Rights = Rights { write: true, grant_reply: true, ..Rights::NONE };
}

/// The data of a minted capability: a badge, or a CNode's guard. Zero changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CapData(pub(crate) u64);

impl CapData {
    /// No badge and no guard.
    pub const NONE: CapData = CapData(0);

    /// A badge for an endpoint or a notification, truncated to [`crate::BADGE_BITS`].
    pub const fn badge(badge: u64) -> Self {
        Self(badge & ((1 << crate::BADGE_BITS) - 1))
    }

    /// A guard for a CNode: `bits` address bits (at most 63) that must equal `guard` (at most 18 bits on 5.0.0).
    pub const fn guard(guard: u64, bits: u8) -> Self {
        Self(family::guard(guard, bits))
    }
}

/// The path to a slot: `depth` bits of `index` are resolved from the CNode `root`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// The CNode where the look-up starts, named by its capability.
    pub root: CNode,
    /// The address, in the lowest `depth` bits.
    pub index: u64,
    /// Number of bits of the address that count.
    pub depth: u8,
}

impl CNode {
    /// A slot in this CNode or in one below it.
    #[inline]
    pub const fn slot(self, index: u64, depth: u8) -> Slot {
        Slot { root: self, index, depth }
    }

    /// The slot that the address names, if this is the root CNode of the caller's CSpace.
    #[inline]
    pub const fn own_slot(self, cptr: CPtr) -> Slot {
        Slot { root: self, index: cptr.0, depth: 64 }
    }
}

impl Slot {
    /// Copies the capability in `source` to this slot, which must be empty.
    pub fn copy_from(self, source: Slot, rights: Rights) -> Result<()> {
        let (s, d) = (source, self);
        invoke::cnode_copy(d.root, d.index, d.depth, s.root, s.index, s.depth, family::rights(rights))
    }

    /// As [`Slot::copy_from`], and sets the copy's badge or guard.
    pub fn mint_from(self, source: Slot, rights: Rights, data: CapData) -> Result<()> {
        let (s, d) = (source, self);
        invoke::cnode_mint(d.root, d.index, d.depth, s.root, s.index, s.depth, family::rights(rights), data.0)
    }

    /// Moves the capability in `source` to this slot, which must be empty.
    pub fn move_from(self, source: Slot) -> Result<()> {
        let (s, d) = (source, self);
        invoke::cnode_move(d.root, d.index, d.depth, s.root, s.index, s.depth)
    }

    /// As [`Slot::move_from`], and sets the capability's badge or guard.
    pub fn mutate_from(self, source: Slot, data: CapData) -> Result<()> {
        let (s, d) = (source, self);
        invoke::cnode_mutate(d.root, d.index, d.depth, s.root, s.index, s.depth, data.0)
    }

    /// Moves the capability in `pivot` to this slot and the one in `source` to `pivot`, and sets the badges or guards
    /// of both. This slot must be empty or be `source`.
    pub fn rotate(self, data: CapData, pivot: Slot, pivot_data: CapData, source: Slot) -> Result<()> {
        let (s, p, d) = (source, pivot, self);
        invoke::cnode_rotate(
            d.root,
            d.index,
            d.depth,
            data.0,
            p.root,
            p.index,
            p.depth,
            pivot_data.0,
            s.root,
            s.index,
            s.depth,
        )
    }

    /// Empties the slot. Deleting the last capability to an object destroys the object.
    pub fn delete(self) -> Result<()> {
        invoke::cnode_delete(self.root, self.index, self.depth)
    }

    /// Deletes all capabilities derived from the one in this slot.
    pub fn revoke(self) -> Result<()> {
        invoke::cnode_revoke(self.root, self.index, self.depth)
    }

    /// Cancels messages that wait to be sent through the badged endpoint capability in this slot.
    pub fn cancel_badged_sends(self) -> Result<()> {
        invoke::cnode_cancel_badged_sends(self.root, self.index, self.depth)
    }
}

// The layouts are checked at compile time.
const _: () = {
    assert!(CapData::badge(0xf123_4567).0 == 0x0123_4567);
    let guard = CapData::guard(5, 52).0;
    assert!(if cfg!(sel4_v5) { guard == 5 << 8 | 52 << 2 } else { guard == 5 << 6 | 52 });
};
