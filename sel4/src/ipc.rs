//! The IPC buffer of the running thread: the words of a message from the fifth on, and capabilities in messages.
//!
//! One variable per program holds the buffer's address; [`init`] sets it. (5.0.0 also sets the GS base to the buffer,
//! but not for threads without bases: see [`NO_BASES`](crate::NO_BASES).)
//! All access goes through a few functions of this module, so no reference to the buffer ever exists.

use crate::{CPtr, Slot};

/// Maximum number of words of a message.
pub const MESSAGE_WORDS: usize = 120;
/// Bytes of the buffer, which is also its alignment.
pub const SIZE: usize = 1024;

const MESSAGE: usize = 1;
/// The word that is free for the program, except that [`ticks`] uses it.
const TICKS: usize = MESSAGE + MESSAGE_WORDS;
const CAPS: usize = TICKS + 1;
const CAPS_COUNT: usize = 3;
const RECEIVE: usize = CAPS + CAPS_COUNT;
const WORDS: usize = RECEIVE + 3;

/// The byte offset of a message word from the buffer's start. For a server that reads another thread's buffer through a
/// window.
pub const fn message_word_offset(index: usize) -> usize {
    assert!(index < MESSAGE_WORDS);
    (MESSAGE + index) * 8
}

/// Sets the buffer of this program's thread. Must be called before anything else in this crate.
///
/// # Safety
/// `buffer` must be the running thread's IPC buffer and stay mapped. Other threads of the program must use no more of
/// this crate than messages of up to four words.
pub unsafe fn init(buffer: *mut u64) {
    backing::init(buffer);
}

/// Word `index` of the message. It contains what was received or written there last.
///
/// # Panics
/// If `index` is not below [`MESSAGE_WORDS`].
#[inline]
pub fn message_word(index: usize) -> u64 {
    assert!(index < MESSAGE_WORDS);
    read(MESSAGE + index)
}

/// Sets word `index` of the message that is sent next. The first four words travel in registers and are not taken from
/// here.
///
/// # Panics
/// If `index` is not below [`MESSAGE_WORDS`].
#[inline]
pub fn set_message_word(index: usize, value: u64) {
    assert!(index < MESSAGE_WORDS);
    write(MESSAGE + index, value);
}

/// Sets capability `index` (0 to 2) of the message that is sent next.
///
/// # Panics
/// If `index` is not below 3.
#[inline]
pub fn set_cap(index: usize, cap: CPtr) {
    assert!(index < CAPS_COUNT);
    write(CAPS + index, cap.0);
}

/// The badge that replaced capability `index` (0 to 2) of the received message, if its bit in
/// [`crate::MessageInfo::caps_unwrapped`] is set.
///
/// # Panics
/// If `index` is not below 3.
#[inline]
pub fn cap_badge(index: usize) -> u64 {
    assert!(index < CAPS_COUNT);
    read(CAPS + index)
}

/// Sets the slot for a received capability, or none. Without a slot, received capabilities are dropped.
pub fn set_receive_slot(slot: Option<Slot>) {
    let (root, index, depth) = slot.map_or((0, 0, 0), |slot| (slot.root.cptr().0, slot.index, slot.depth.into()));
    write(RECEIVE, root);
    write(RECEIVE + 1, index);
    write(RECEIVE + 2, depth);
}

/// Number of ticks of the kernel's timer that have found this thread running, if a notification is bound to it and the
/// kernel reports them ([`TELLS_TICKS`](crate::TELLS_TICKS)).
#[inline(always)]
pub fn ticks() -> u64 {
    read(TICKS)
}

/// As [`set_message_word`], with a constant index.
#[inline(always)]
pub(crate) fn put_message_word<const INDEX: usize>(value: u64) {
    const { assert!(INDEX < MESSAGE_WORDS) };
    backing::write_at::<MESSAGE, INDEX>(value);
}

/// As [`set_cap`], with a constant index.
#[inline(always)]
pub(crate) fn put_cap<const INDEX: usize>(cap: CPtr) {
    const { assert!(INDEX < CAPS_COUNT) };
    backing::write_at::<CAPS, INDEX>(cap.0);
}

#[inline]
fn read(word: usize) -> u64 {
    debug_assert!(word < WORDS);
    backing::read(word)
}

#[inline]
fn write(word: usize, value: u64) {
    debug_assert!(word < WORDS);
    backing::write(word, value);
}

mod backing {
    use core::ptr::null_mut;
    use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

    static BUFFER: AtomicPtr<u64> = AtomicPtr::new(null_mut());

    pub fn init(buffer: *mut u64) {
        BUFFER.store(buffer, Relaxed);
    }

    #[inline(always)]
    pub fn read(word: usize) -> u64 {
        // SAFETY: `init`'s caller promised a mapped buffer, and `word` lies within it.
        unsafe { BUFFER.load(Relaxed).add(word).read_volatile() }
    }

    #[inline(always)]
    pub fn write(word: usize, value: u64) {
        // SAFETY: as above.
        unsafe { BUFFER.load(Relaxed).add(word).write_volatile(value) };
    }

    #[inline(always)]
    pub fn write_at<const BASE: usize, const INDEX: usize>(value: u64) {
        write(BASE + INDEX, value);
    }
}
