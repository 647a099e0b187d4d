//! CNodes: the tables that hold capabilities, and the operations on their slots.

use crate::cap::cap;
use crate::generated::invoke;
use crate::{CPtr, Result, family};

cap! {
    /// A table of capabilities.
    CNode
}

/// What a copy of a capability may be used for. Rights are only ever taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rights {
    /// Receive from an endpoint, wait on a notification, read a page.
    pub read: bool,
    /// Send to an endpoint, signal a notification, write a page.
    pub write: bool,
    /// Send capabilities through an endpoint.
    pub grant: bool,
    /// Be replied to, that is: call. 5.0.0 has no such right and takes `grant` for it.
    pub grant_reply: bool,
}

impl Rights {
    /// Everything.
    pub const ALL: Rights = Rights { read: true, write: true, grant: true, grant_reply: true };
    /// Nothing.
    pub const NONE: Rights = Rights { read: false, write: false, grant: false, grant_reply: false };
    /// Receiving, waiting, reading.
    pub const READ: Rights = Rights { read: true, ..Rights::NONE };
    /// Sending, signalling, writing.
    pub const WRITE: Rights = Rights { write: true, ..Rights::NONE };
    /// Both; for pages.
    pub const READ_WRITE: Rights = Rights { read: true, write: true, ..Rights::NONE };
    /// What it takes to call through an endpoint, and no more.
    pub const CALL: Rights = Rights { write: true, grant_reply: true, ..Rights::NONE };
}

/// What a minted capability is marked with: a badge, or a CNode's guard. Zero changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CapData(pub(crate) u64);

impl CapData {
    /// No mark.
    pub const NONE: CapData = CapData(0);

    /// A badge for an endpoint or a notification, cut to [`crate::BADGE_BITS`].
    pub const fn badge(badge: u64) -> Self {
        Self(badge & ((1 << crate::BADGE_BITS) - 1))
    }

    /// A guard for a CNode: `bits` address bits (at most 63) that must equal `guard` (at most 18 bits on 5.0.0).
    pub const fn guard(guard: u64, bits: u8) -> Self {
        Self(family::guard(guard, bits))
    }
}

/// A place for a capability: `depth` bits of `index` resolved from the CNode `root`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// Where resolving starts; a capability to it is needed.
    pub root: CNode,
    /// The address, in the lowest `depth` bits.
    pub index: u64,
    /// How many bits of it count.
    pub depth: u8,
}

impl CNode {
    /// A slot in this CNode or in one below it.
    #[inline]
    pub const fn slot(self, index: u64, depth: u8) -> Slot {
        Slot { root: self, index, depth }
    }

    /// The slot that the address names, if this is the root CNode of one's own CSpace.
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

    /// As [`Slot::copy_from`], and marks the copy.
    pub fn mint_from(self, source: Slot, rights: Rights, data: CapData) -> Result<()> {
        let (s, d) = (source, self);
        invoke::cnode_mint(d.root, d.index, d.depth, s.root, s.index, s.depth, family::rights(rights), data.0)
    }

    /// Moves the capability in `source` to this slot, which must be empty.
    pub fn move_from(self, source: Slot) -> Result<()> {
        let (s, d) = (source, self);
        invoke::cnode_move(d.root, d.index, d.depth, s.root, s.index, s.depth)
    }

    /// As [`Slot::move_from`], and marks the capability.
    pub fn mutate_from(self, source: Slot, data: CapData) -> Result<()> {
        let (s, d) = (source, self);
        invoke::cnode_mutate(d.root, d.index, d.depth, s.root, s.index, s.depth, data.0)
    }

    /// Moves the capability in `pivot` to this slot and the one in `source` to `pivot`, marking both. This slot must be
    /// empty or be `source`.
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

    /// Empties the slot. The last capability to an object takes the object with it.
    pub fn delete(self) -> Result<()> {
        invoke::cnode_delete(self.root, self.index, self.depth)
    }

    /// Deletes all that was derived from the capability in this slot.
    pub fn revoke(self) -> Result<()> {
        invoke::cnode_revoke(self.root, self.index, self.depth)
    }

    /// Takes back messages that wait to be sent through the badged endpoint capability in this slot.
    pub fn cancel_badged_sends(self) -> Result<()> {
        invoke::cnode_cancel_badged_sends(self.root, self.index, self.depth)
    }
}

// The layouts, checked whenever the crate is built.
const _: () = {
    assert!(CapData::badge(0xf123_4567).0 == 0x0123_4567);
    let guard = CapData::guard(5, 52).0;
    assert!(if cfg!(sel4_v5) { guard == 5 << 8 | 52 << 2 } else { guard == 5 << 6 | 52 });
};
