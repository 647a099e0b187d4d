//! The host link as `debug_read` and `debug_write` see it: bytes in, bytes out, and threads that wait for either.
//!
//! A write that the machine cannot take whole waits, with its data copied, until all is taken; writers queue up. A
//! read waits until there is at least one byte.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use abi::{Status, ZX_TIME_INFINITE};

use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::object::Id;
use crate::thread::{Thread, Wait};
use crate::wait::Waiting;

/// The most that one read returns.
const READ_MAX: usize = 4096;

/// What a thread waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SerialWait {
    /// Bytes, for `len` of which there is room at `out`; their number goes to `actual`.
    Read { out: u64, len: u64, actual: u64 },
    /// All of its bytes to be taken.
    Write,
}

#[derive(Default)]
pub(crate) struct Serial {
    readers: VecDeque<Id<Thread>>,
    writers: VecDeque<(Id<Thread>, Vec<u8>, usize)>,
}

impl<M: Machine> Kernel<M> {
    /// `debug_write`.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn serial_write(&mut self, thread: Id<Thread>, data: Vec<u8>) -> Result<Waiting, Status> {
        let taken = if self.serial.writers.is_empty() { self.machine.serial_write(&data) } else { 0 };
        if taken >= data.len() {
            return Ok(Waiting::Over(Status::OK));
        }
        self.serial.writers.try_reserve(1).map_err(|_| Status::NO_MEMORY)?;
        self.serial.writers.push_back((thread, data, taken));
        self.block(thread, Wait::Serial(SerialWait::Write), ZX_TIME_INFINITE)
    }

    /// `debug_read`: up to `len` bytes to `out`, their number to `actual`.
    ///
    /// # Errors
    /// `INVALID_ARGS`: not writable. `NO_MEMORY`.
    pub fn serial_read(&mut self, thread: Id<Thread>, out: u64, len: u64, actual: u64) -> Result<Waiting, Status> {
        if self.serial.readers.is_empty()
            && let Some(status) = self.serial_deliver(thread, out, len, actual)
        {
            return Ok(Waiting::Over(status));
        }
        self.serial.readers.try_reserve(1).map_err(|_| Status::NO_MEMORY)?;
        self.serial.readers.push_back(thread);
        self.block(thread, Wait::Serial(SerialWait::Read { out, len, actual }), ZX_TIME_INFINITE)
    }

    fn serial_deliver(&mut self, thread: Id<Thread>, out: u64, len: u64, actual: u64) -> Option<Status> {
        let aspace = self.aspace_of_thread(thread).ok()?;
        let mut buffer = [0; READ_MAX];
        let room = buffer.get_mut(..len.min(READ_MAX as u64) as usize)?;
        // Bytes are taken only when they can be delivered.
        if let Err(status) = self.check_out(aspace, out, room.len()).and_then(|()| self.check_out(aspace, actual, 8)) {
            return Some(status);
        }
        let got = self.machine.serial_read(room);
        if got == 0 && !room.is_empty() {
            return None;
        }
        let bytes = room.get(..got)?;
        let written =
            self.copy_out(aspace, out, bytes).and_then(|()| self.copy_out(aspace, actual, &(got as u64).to_le_bytes()));
        Some(written.err().unwrap_or(Status::OK))
    }

    pub(crate) fn serial_forget(&mut self, thread: Id<Thread>) {
        self.serial.readers.retain(|&t| t != thread);
        // A writer that was killed in the midst of its bytes leaves the rest unsaid.
        self.serial.writers.retain(|(t, _, _)| *t != thread);
    }

    /// The machine has bytes, or room, again.
    pub fn serial_ready(&mut self) {
        while let Some(mut writer) = self.serial.writers.pop_front() {
            writer.2 += self.machine.serial_write(writer.1.get(writer.2..).unwrap_or_default());
            if writer.2 < writer.1.len() {
                self.serial.writers.push_front(writer);
                break;
            }
            self.finish_wait(writer.0, Status::OK);
        }
        while let Some(&thread) = self.serial.readers.front() {
            let wait = match self.objects.get(thread).map(|t| &t.wait) {
                Ok(Wait::Serial(wait @ SerialWait::Read { .. })) => *wait,
                _ => {
                    self.serial.readers.pop_front();
                    continue;
                }
            };
            let SerialWait::Read { out, len, actual } = wait else { break };
            match self.serial_deliver(thread, out, len, actual) {
                Some(status) => self.finish_wait(thread, status),
                None => break,
            }
        }
    }
}
