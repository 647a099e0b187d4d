//! Calls: the same messages that the vDSO sends for programs. What they pass is copied to where the server sees it.

use core::ffi::c_void;
use core::sync::atomic::Ordering;

use abi::{Status, nr};
use component_boot::{cspace, layout};
use sel4::{CPtr, Message, MessageInfo};
use zx::sys::zx_channel_call_args_t;

use super::{FACTS, copy};

/// Maximum number of arguments of a call.
const ARGS: usize = 8;
/// Number of arguments in registers.
const REGISTERS: usize = 4;
/// Address of the other arguments, in the page for them.
const EXTRA: u64 = layout::CALLS + 8 + 8 * REGISTERS as u64;
/// The labels of answers: the call is over; and the call is over but the thread yields first.
const DONE: u64 = 0;
const YIELD: u64 = 1;

/// Makes a call with these words, without copying anything.
pub fn enter(number: u32, words: &[u64]) -> i64 {
    let closed = i64::from(Status::PEER_CLOSED.0);
    let (first, extra) = words.split_at(words.len().min(REGISTERS));
    if !extra.is_empty() {
        let from = extra.as_ptr().expose_provenance() as u64;
        if copy::pass(EXTRA, from, size_of_val(extra)).is_err() {
            return closed;
        }
    }
    let mr = core::array::from_fn(|i| first.get(i).copied().unwrap_or(0));
    let message = Message { info: MessageInfo::new(number.into(), REGISTERS), mr };
    let reply = sel4::Endpoint(CPtr(cspace::SERVER)).call(message);
    match reply.info.label() {
        DONE => reply.mr[0] as i64,
        YIELD => {
            sel4::r#yield();
            reply.mr[0] as i64
        }
        // The kernel's own error: there is no server.
        _ => closed,
    }
}

/// A call under construction.
pub struct Call {
    words: [u64; ARGS],
    len: usize,
    /// What is copied back: destination, source, length.
    back: [(u64, u64, usize); ARGS],
    used: u64,
    wrong: Option<Status>,
}

impl Call {
    pub fn new() -> Call {
        Call { words: [0; ARGS], len: 0, back: [(0, 0, 0); ARGS], used: 0, wrong: None }
    }

    /// Adds an argument that is a value.
    pub fn value(&mut self, word: u64) {
        match self.words.get_mut(self.len) {
            Some(place) => *place = word,
            None => self.wrong = Some(Status::INVALID_ARGS),
        }
        self.len += 1;
    }

    /// Adds an argument that is the address of `len` bytes; `back` if the call writes there. Bytes that it does not
    /// write stay unchanged.
    pub fn pointer(&mut self, own: *mut u8, len: usize, back: bool) {
        if own.is_null() {
            return self.value(0);
        }
        let (at, own) = (FACTS.room.load(Ordering::Relaxed) + self.used, own.expose_provenance() as u64);
        let end = self.used.saturating_add((len as u64).saturating_add(15) & !15);
        if !FACTS.connected.load(Ordering::Relaxed) {
            self.wrong = Some(Status::PEER_CLOSED);
        } else if end > FACTS.room_len.load(Ordering::Relaxed) {
            self.wrong = Some(Status::OUT_OF_RANGE);
        } else if let Err(status) = copy::pass(at, own, len) {
            self.wrong = Some(status);
        } else {
            self.used = end;
            if let Some(place) = self.back.get_mut(self.len).filter(|_| back) {
                *place = (own, at, len);
            }
        }
        self.value(at);
    }

    /// Makes the call.
    pub fn make(self, number: u32) -> i64 {
        if let Some(status) = self.wrong {
            return status.0.into();
        }
        let result = enter(number, &self.words[..self.len.min(ARGS)]);
        for (own, at, len) in self.back.into_iter().filter(|(_, _, len)| *len != 0) {
            if let Err(status) = copy::pass(own, at, len) {
                return status.0.into();
            }
        }
        result
    }
}

/// Casts pointers of any type to byte pointers.
trait CastMutU8 {
    fn cast_mut_u8(self) -> *mut u8;
}

impl<T> CastMutU8 for *const T {
    fn cast_mut_u8(self) -> *mut u8 {
        self.cast_mut().cast()
    }
}

impl<T> CastMutU8 for *mut T {
    fn cast_mut_u8(self) -> *mut u8 {
        self.cast()
    }
}

/// `zx_channel_call`, whose structure contains four addresses.
///
/// # Safety
/// As for the vDSO's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn zx_channel_call(
    handle: u32,
    options: u32,
    deadline: i64,
    args: *const zx_channel_call_args_t,
    actual_bytes: *mut u32,
    actual_handles: *mut u32,
) -> i32 {
    // SAFETY: the caller guarantees that it can be read.
    let given = unsafe { args.read() };
    let mut call = Call::new();
    // The four addresses are first added as arguments; their words then go into the structure.
    let handles = |count: u32| (count as usize).saturating_mul(size_of::<u32>());
    call.pointer(given.wr_bytes.cast_mut_u8(), given.wr_num_bytes as usize, false);
    call.pointer(given.wr_handles.cast_mut_u8(), handles(given.wr_num_handles), false);
    call.pointer(given.rd_bytes.cast_mut_u8(), given.rd_num_bytes as usize, true);
    call.pointer(given.rd_handles.cast_mut_u8(), handles(given.rd_num_handles), true);
    let [wr_bytes, wr_handles, rd_bytes, rd_handles, ..] = call.words.map(|word| word as usize);
    let mut there = zx_channel_call_args_t {
        wr_bytes: core::ptr::without_provenance(wr_bytes),
        wr_handles: core::ptr::without_provenance(wr_handles),
        rd_bytes: core::ptr::without_provenance_mut(rd_bytes),
        rd_handles: core::ptr::without_provenance_mut(rd_handles),
        ..given
    };
    let mut outer = Call { words: [0; ARGS], len: 0, ..call };
    outer.value(handle.into());
    outer.value(options.into());
    outer.value(deadline as u64);
    // The four buffers already have their entries in the list of what is copied back.
    let back = core::mem::replace(&mut outer.back, [(0, 0, 0); ARGS]);
    outer.pointer((&raw mut there).cast(), size_of_val(&there), false);
    outer.pointer(actual_bytes.cast(), size_of::<u32>(), true);
    outer.pointer(actual_handles.cast(), size_of::<u32>(), true);
    for (place, taken) in outer.back.iter_mut().zip(back).take(REGISTERS) {
        *place = taken;
    }
    outer.make(nr::CHANNEL_CALL) as i32
}

#[unsafe(no_mangle)]
extern "C" fn zx_ticks_get() -> i64 {
    crate::counter().wrapping_add(FACTS.offset.load(Ordering::Relaxed)) as i64
}

#[unsafe(no_mangle)]
extern "C" fn zx_ticks_per_second() -> i64 {
    FACTS.per_second.load(Ordering::Relaxed) as i64
}

#[unsafe(no_mangle)]
extern "C" fn zx_clock_get_monotonic() -> i64 {
    let [numerator, denominator] = [&FACTS.numerator, &FACTS.denominator].map(|one| one.load(Ordering::Relaxed));
    (u128::from(zx_ticks_get() as u64) * u128::from(numerator) / u128::from(denominator)) as i64
}

#[unsafe(no_mangle)]
extern "C" fn zx_deadline_after(duration: i64) -> i64 {
    zx_clock_get_monotonic().saturating_add(duration)
}

#[expect(clippy::unnecessary_cast, reason = "what is made casts whatever the types are")]
mod made {
    use super::*;

    include!(concat!(env!("OUT_DIR"), "/calls.rs"));
}
