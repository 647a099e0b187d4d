//! Messages: a word that describes them, and up to four words in registers.

use crate::error::{Error, Result};
use crate::{CPtr, ipc, sys};

/// The description of a message: its label, the number of its words, and of its capabilities.
///
/// All supported kernels have the same layout except for the width of the label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct MessageInfo(pub(crate) u64);

impl MessageInfo {
    /// A message of `length` words (at most 120) without capabilities. Labels are truncated to [`crate::LABEL_BITS`].
    #[inline]
    pub const fn new(label: u64, length: usize) -> Self {
        Self::with_caps(label, length, 0)
    }

    /// A message with capabilities, at most 3.
    #[inline]
    pub const fn with_caps(label: u64, length: usize, caps: usize) -> Self {
        Self((label & ((1 << crate::LABEL_BITS) - 1)) << 12 | (caps as u64 & 3) << 7 | length as u64 & 0x7f)
    }

    /// The label. Sender and receiver agree on its meaning. A sender can put anything there that fits its kernel's
    /// field.
    #[inline]
    pub const fn label(self) -> u64 {
        self.0 >> 12
    }

    /// The number of words. The kernel limits it to 120.
    #[inline]
    pub const fn length(self) -> usize {
        (self.0 & 0x7f) as usize
    }

    /// On arrival: the number of capabilities in the message, transferred or replaced by badges.
    #[inline]
    pub const fn extra_caps(self) -> usize {
        (self.0 >> 7 & 3) as usize
    }

    /// On arrival: which of the capabilities were replaced by badges, one bit each.
    #[inline]
    pub const fn caps_unwrapped(self) -> u64 {
        self.0 >> 9 & 7
    }

    /// The word as it is in the register.
    #[inline]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// Decodes the word.
    #[inline]
    pub const fn from_word(word: u64) -> Self {
        Self(word)
    }
}

// The layout is checked at compile time.
const _: () = {
    let info = MessageInfo::with_caps(0xf_ffff, 120, 3);
    assert!(info.0 == 0xffff_f1f8);
    assert!(info.label() == 0xf_ffff && info.length() == 120 && info.extra_caps() == 3 && info.caps_unwrapped() == 0);
    assert!(MessageInfo::new(1 << crate::LABEL_BITS, 0).0 == 0);
};

/// A message of at most four words, which never touches the IPC buffer; words from the fifth on are in [`ipc`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Message {
    /// Its description.
    pub info: MessageInfo,
    /// Its first words. Those beyond the length are undefined.
    pub mr: [u64; 4],
}

impl Message {
    /// A message of one word.
    #[inline]
    pub const fn one(label: u64, word: u64) -> Self {
        Self { info: MessageInfo::new(label, 1), mr: [word, 0, 0, 0] }
    }

    /// A message of all four words.
    #[inline]
    pub const fn four(label: u64, mr: [u64; 4]) -> Self {
        Self { info: MessageInfo::new(label, 4), mr }
    }

    /// A message without words.
    #[inline]
    pub const fn empty(label: u64) -> Self {
        Self { info: MessageInfo::new(label, 0), mr: [0; 4] }
    }
}

/// A received message, or a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// The badge of the capability that it was sent through. For a signal: the badges of all signals since the last
    /// wait, combined by OR.
    pub badge: u64,
    /// Its description. Undefined for a signal.
    pub info: MessageInfo,
    /// Its first words. Those beyond the length are undefined.
    pub mr: [u64; 4],
}

impl Received {
    /// The message without the badge.
    #[inline]
    pub const fn message(self) -> Message {
        Message { info: self.info, mr: self.mr }
    }
}

/// An invocation of a kernel object under construction. For the generated code.
pub(crate) struct Invocation {
    dest: CPtr,
    message: Message,
}

impl Invocation {
    #[inline]
    pub(crate) fn new(dest: CPtr, label: u64, length: usize, caps: usize) -> Self {
        Self { dest, message: Message { info: MessageInfo::with_caps(label, length, caps), mr: [0; 4] } }
    }

    #[inline]
    pub(crate) fn word<const INDEX: usize>(&mut self, value: u64) {
        match self.message.mr.get_mut(INDEX) {
            Some(register) => *register = value,
            None => ipc::put_message_word::<INDEX>(value),
        }
    }

    #[inline]
    pub(crate) fn cap<const INDEX: usize>(&mut self, cap: CPtr) {
        ipc::put_cap::<INDEX>(cap);
    }

    /// Makes the call; returns the reply's first words.
    #[inline]
    pub(crate) fn run(self) -> Result<[u64; 4]> {
        let reply = sys::call(self.dest, self.message);
        match reply.info.label() {
            0 => Ok(reply.mr),
            label => Err(Error::decode(label, &reply.mr)),
        }
    }
}
