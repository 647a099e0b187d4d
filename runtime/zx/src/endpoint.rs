//! Endpoints of the kernel beneath: how a program talks with native components, past the server.
//!
//! A capability to an endpoint stands in a slot of one thread ([`Slot`]), and is of use to that thread alone. What is sent is
//! a label and up to 120 words. A thread that is suspended while it calls makes the call again when it is resumed, so
//! what is asked for should bear being asked for twice.

use core::arch::asm;
use core::marker::PhantomData;

use abi::{HAFNON_ENDPOINT_ANSWERS, HAFNON_ENDPOINT_CALL, HAFNON_ENDPOINT_RECEIVE, HAFNON_ENDPOINT_SEND, Status};

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
        Ok(Slot { number: number.into(), options, of_one_thread: PhantomData })
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

/// Words of a message.
pub struct Words {
    words: [u64; Words::MOST],
    len: usize,
}

impl Words {
    /// So many are the most.
    pub const MOST: usize = 120;

    /// These, as many of them as a message can have.
    pub fn new(from: &[u64]) -> Words {
        let mut words = Words { words: [0; Self::MOST], len: from.len().min(Self::MOST) };
        words.words[..words.len].copy_from_slice(&from[..words.len]);
        words
    }

    /// They.
    pub fn as_slice(&self) -> &[u64] {
        &self.words[..self.len]
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
    number: u64,
    options: u32,
    of_one_thread: PhantomData<*const ()>,
}

/// The kernel's calls: the same numbers in all that are supported.
pub(crate) mod number {
    pub const CALL: i64 = -1;
    pub const REPLY_RECV: i64 = -2;
    pub const SEND: i64 = -3;
    pub const NB_SEND: i64 = -4;
    pub const RECV: i64 = -5;
    pub const REPLY: i64 = -6;
}

impl Slot {
    /// The number of the slot.
    pub fn number(&self) -> u32 {
        self.number as u32
    }

    /// Sends a request and waits for its answer, whose words take the place of the request's; gives the answer's label.
    ///
    /// # Errors
    /// `ACCESS_DENIED`: the slot is not for calls. `PEER_CLOSED`: the endpoint is gone.
    pub fn call(&self, label: u64, words: &mut Words) -> Result<u64> {
        self.needs(HAFNON_ENDPOINT_CALL)?;
        let received = enter(number::CALL, self.number, label, words);
        match received.label.checked_sub(HAFNON_ENDPOINT_ANSWERS.into()) {
            Some(label) => Ok(label),
            None => Err(Status::PEER_CLOSED),
        }
    }

    /// Sends a message and waits until it has been received. If the endpoint is gone, nothing happens.
    ///
    /// # Errors
    /// `ACCESS_DENIED`: the slot is not for sending.
    pub fn send(&self, label: u64, words: &Words) -> Result<()> {
        self.needs(HAFNON_ENDPOINT_SEND | HAFNON_ENDPOINT_CALL)?;
        enter(number::SEND, self.number, label, &mut Words::new(words.as_slice()));
        Ok(())
    }

    /// Sends a message if somebody waits for it.
    ///
    /// # Errors
    /// `ACCESS_DENIED`: the slot is not for sending.
    pub fn try_send(&self, label: u64, words: &Words) -> Result<()> {
        self.needs(HAFNON_ENDPOINT_SEND | HAFNON_ENDPOINT_CALL)?;
        enter(number::NB_SEND, self.number, label, &mut Words::new(words.as_slice()));
        Ok(())
    }

    /// Waits for a message.
    ///
    /// # Errors
    /// `ACCESS_DENIED`: the slot is not for receiving.
    pub fn receive(&self, words: &mut Words) -> Result<Received> {
        self.needs(HAFNON_ENDPOINT_RECEIVE)?;
        words.len = 0;
        owes_nothing();
        Ok(enter(number::RECV, self.number, 0, words))
    }

    /// Answers the call that was received last, and waits for the next message, whose words take the place of the answer's.
    ///
    /// # Errors
    /// `ACCESS_DENIED`: the slot is not for receiving.
    pub fn answer(&self, label: u64, words: &mut Words) -> Result<Received> {
        self.needs(HAFNON_ENDPOINT_RECEIVE)?;
        owes_nothing();
        Ok(enter(number::REPLY_RECV, self.number, label + u64::from(HAFNON_ENDPOINT_ANSWERS), words))
    }

    /// Answers the call that was received last. If there is none, or the caller is gone, nothing happens.
    ///
    /// # Errors
    /// `ACCESS_DENIED`: the slot is not for receiving.
    pub fn answer_only(&self, label: u64, words: &Words) -> Result<()> {
        self.needs(HAFNON_ENDPOINT_RECEIVE)?;
        let label = label + u64::from(HAFNON_ENDPOINT_ANSWERS);
        enter(number::REPLY, 0, label, &mut Words::new(words.as_slice()));
        Ok(())
    }

    /// The kernel makes a fault of what a capability is not for, so it is refused here.
    fn needs(&self, one_of: u32) -> Result<()> {
        if self.options & one_of == 0 { Err(Status::ACCESS_DENIED) } else { Ok(()) }
    }
}

/// Whoever receives loses the answer that it owes code in restricted mode, which is entered by the server then.
fn owes_nothing() {
    // SAFETY: GS lies at the thread's IPC buffer, behind whose message this word of the vDSO's is.
    unsafe {
        asm!("mov qword ptr gs:[{owed}], 0",
             owed = const abi::VDSO_RESTRICTED + core::mem::offset_of!(abi::vdso_restricted, owed), options(nostack));
    }
}

/// Words of a message that travel in registers.
const REGISTERS: usize = 4;

/// Enters the kernel with a message, and takes what comes back.
fn enter(number: i64, slot: u64, label: u64, words: &mut Words) -> Received {
    for (index, word) in words.as_slice().iter().enumerate().skip(REGISTERS) {
        // SAFETY: GS lies at the thread's IPC buffer, of which this is a word of the message.
        unsafe { asm!("mov gs:[{at}], {word}", at = in(reg) (index + 1) * 8, word = in(reg) *word, options(nostack)) };
    }
    let [m0, m1, m2, m3] = [0, 1, 2, 3].map(|i| words.words[i]);
    let (badge, info, first) = trap(number, slot, tag(label, words.len as u64), [m0, m1, m2, m3]);
    words.len = (info & 0x7f) as usize;
    words.len = words.len.min(Words::MOST);
    words.words[..REGISTERS].copy_from_slice(&first);
    for index in REGISTERS..words.len {
        // SAFETY: as above.
        unsafe {
            asm!("mov {word}, gs:[{at}]", at = in(reg) (index + 1) * 8, word = out(reg) words.words[index],
                 options(nostack, readonly));
        }
    }
    Received { badge, label: label_of(info) }
}

/// What the kernel is told, and tells, of a message beside its words.
pub(crate) fn tag(label: u64, len: u64) -> u64 {
    (label & 0xf_ffff) << 12 | len
}

/// The label in that.
pub(crate) fn label_of(info: u64) -> u64 {
    info >> 12 & 0xf_ffff
}

/// Enters the kernel with a call's number and a message, of which the words behind the first four are in the IPC buffer already;
/// gives the badge, what is told of the message that came, and its first words.
#[inline(always)]
pub(crate) fn trap(number: i64, slot: u64, mut info: u64, first: [u64; REGISTERS]) -> (u64, u64, [u64; REGISTERS]) {
    let (mut badge, [mut m0, mut m1, mut m2, mut m3]) = (slot, first);
    // SAFETY: follows the kernel's convention; all registers that change are listed. The stack pointer is kept in rbx, as
    // not every kernel keeps it: the system, too, looks for it there. rbx is the compiler's, so it gets it back.
    unsafe {
        asm!(
            "mov r14, rbx",
            "mov rbx, rsp",
            "syscall",
            "mov rsp, rbx",
            "mov rbx, r14",
            in("rdx") number,
            inlateout("rdi") badge,
            inlateout("rsi") info,
            inlateout("r10") m0,
            inlateout("r8") m1,
            inlateout("r9") m2,
            inlateout("r15") m3,
            lateout("rcx") _,
            lateout("r11") _,
            out("r14") _,
        );
    }
    (badge, info, [m0, m1, m2, m3])
}
