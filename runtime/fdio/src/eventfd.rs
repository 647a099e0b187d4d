//! `eventfd`: a counter in this process, and a Zircon event whose signals reflect the counter, so that threads can
//! wait.

use alloc::sync::Arc;
use core::ffi::{c_int, c_uint};

use abi::Signals;
use sync::Lock;
use zx::{AsHandleRef, Event, MonotonicInstant};

use crate::c::{self, EAGAIN, EINVAL, O_CLOEXEC, O_NONBLOCK, O_RDWR, Result};
use crate::description::Description;
use crate::object::Object;
use crate::table;

const EFD_SEMAPHORE: c_int = 1;
const EFD_CLOEXEC: c_int = 0x8_0000;
/// Limit of the counter; the counter is always below it.
const LIMIT: u64 = u64::MAX;

/// Asserted while the counter is not zero.
pub const READABLE: Signals = Signals::USER_0;
/// Asserted while the counter has room for at least 1.
pub const WRITABLE: Signals = Signals::USER_1;
/// One of the two is asserted, and each write asserts the other one.
pub const WRITTEN: Signals = Signals::USER_2.union(Signals::USER_3);

struct Counter {
    value: u64,
    /// Which of [`WRITTEN`] the next write asserts.
    second: bool,
}

/// A counter of `eventfd`.
pub struct EventFd {
    value: Lock<Counter>,
    event: Event,
    /// `EFD_SEMAPHORE`: a read takes 1 from the counter instead of its whole value.
    semaphore: bool,
}

impl EventFd {
    /// The event to wait on for [`READABLE`] and [`WRITABLE`].
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// Sets the event's signals to match the counter. The caller holds the counter's lock.
    fn tell(&self, counter: &Counter) -> Result<()> {
        let mut set = if counter.second { Signals::USER_2 } else { Signals::USER_3 };
        set.set(READABLE, counter.value > 0);
        set.set(WRITABLE, counter.value < LIMIT - 1);
        Ok(self.event.signal((READABLE | WRITABLE | WRITTEN) & !set, set)?)
    }

    /// Takes the counter's value (or 1, in semaphore mode) as 8 bytes; blocks while the counter is zero.
    ///
    /// # Errors
    /// `EINVAL`: the buffer is shorter. `EAGAIN`: the counter is zero and `wait` is false.
    pub fn read(&self, bytes: &mut [u8], wait: bool) -> Result<usize> {
        let out = bytes.first_chunk_mut::<8>().ok_or(EINVAL)?;
        loop {
            let mut counter = self.value.lock();
            if counter.value > 0 {
                let taken = if self.semaphore { 1 } else { counter.value };
                counter.value -= taken;
                self.tell(&counter)?;
                *out = taken.to_ne_bytes();
                return Ok(8);
            }
            drop(counter);
            self.wait_for(READABLE, wait)?;
        }
    }

    /// Adds an 8-byte number to the counter; blocks until there is room.
    ///
    /// # Errors
    /// `EINVAL`: fewer bytes, or the highest number. `EAGAIN`: there is no room and `wait` is false.
    pub fn write(&self, bytes: &[u8], wait: bool) -> Result<usize> {
        let add = u64::from_ne_bytes(*bytes.first_chunk::<8>().ok_or(EINVAL)?);
        if add == LIMIT {
            return Err(EINVAL);
        }
        loop {
            let mut counter = self.value.lock();
            match counter.value.checked_add(add) {
                Some(sum) if sum < LIMIT => {
                    counter.value = sum;
                    counter.second ^= true;
                    self.tell(&counter)?;
                    return Ok(8);
                }
                // `WRITABLE` says only that 1 fits. Clear it, and wait until a read lowers the counter.
                _ => self.event.signal(WRITABLE, Signals::NONE)?,
            }
            drop(counter);
            self.wait_for(WRITABLE, wait)?;
        }
    }

    fn wait_for(&self, signals: Signals, wait: bool) -> Result<()> {
        if !wait {
            return Err(EAGAIN);
        }
        c::wait_one(&self.event, signals, MonotonicInstant::INFINITE)?;
        Ok(())
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn eventfd(initial: c_uint, flags: c_int) -> c_int {
    c::int((|| {
        if flags & !(EFD_SEMAPHORE | EFD_CLOEXEC | O_CLOEXEC | O_NONBLOCK) != 0 {
            return Err(EINVAL);
        }
        let first = Counter { value: initial.into(), second: false };
        let counter =
            EventFd { value: Lock::new(first), event: Event::create()?, semaphore: flags & EFD_SEMAPHORE != 0 };
        counter.tell(&counter.value.lock())?;
        let open = Description::new(Object::EventFd(counter), O_RDWR | flags & O_NONBLOCK);
        table::add(Arc::new(open), 0, flags & (EFD_CLOEXEC | O_CLOEXEC) != 0)
    })())
}
