//! The host link as `debug_read` and `debug_write` see it: bytes in, bytes out, and threads that wait for either.
//!
//! A write that the machine cannot take whole waits, with its data copied, until all is taken; writers queue up. A
//! read waits until there is at least one byte.
//!
//! The host takes what comes over the link for the word of one process. So one can claim it, and the bytes of others then do
//! not go there.

use alloc::vec::Vec;

use abi::{Status, ZX_TIME_INFINITE};

use crate::kernel::Kernel;
use crate::list::List;
use crate::machine::Machine;
use crate::object::{Id, Waiters};
use crate::process::Process;
use crate::thread::{Thread, Wait};
use crate::vmo::PAGE_WAIT;
use crate::wait::Waiting;

/// The most that one read returns.
const READ_MAX: usize = 4096;

/// What a thread waits for.
pub(crate) enum SerialWait {
    /// Bytes, for `len` of which there is room at `out`; their number goes to `actual`.
    Read { out: u64, len: u64, actual: u64 },
    /// All bytes to be taken; the first `taken` are.
    Write { data: Vec<u8>, taken: usize },
}

#[derive(Default)]
pub(crate) struct Serial {
    readers: List<Waiters>,
    writers: List<Waiters>,
    /// The only process whose bytes go out.
    holder: Option<Id<Process>>,
}

impl<M: Machine> Kernel<M> {
    /// From now on the link is a process's alone, until it ends.
    ///
    /// # Errors
    /// `BAD_STATE`: it is another's.
    pub fn serial_claim(&mut self, process: Id<Process>) -> Result<(), Status> {
        if self.serial.holder.is_some_and(|holder| holder != process && !self.process_is_dead(holder)) {
            return Err(Status::BAD_STATE);
        }
        self.serial.holder = Some(process);
        Ok(())
    }

    /// Whether what a process writes goes to the link.
    pub fn serial_may_write(&self, process: Id<Process>) -> bool {
        self.serial.holder.is_none_or(|holder| holder == process)
    }

    /// `debug_write`.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn serial_write(&mut self, thread: Id<Thread>, data: Vec<u8>) -> Result<Waiting, Status> {
        let taken = if self.serial.writers.is_empty() { self.machine.serial_write(&data) } else { 0 };
        if taken >= data.len() {
            return Ok(Waiting::Over(Status::OK));
        }
        self.serial.writers.push(&mut self.objects.slab, thread.object().key());
        self.block(thread, Wait::Serial(SerialWait::Write { data, taken }), ZX_TIME_INFINITE)
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
        self.serial.readers.push(&mut self.objects.slab, thread.object().key());
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

    /// A thread's wait is over. A writer that was killed in the midst of its bytes leaves the rest unsaid.
    pub(crate) fn serial_forget(&mut self, wait: &SerialWait, thread: Id<Thread>) {
        let list = match wait {
            SerialWait::Read { .. } => &mut self.serial.readers,
            SerialWait::Write { .. } => &mut self.serial.writers,
        };
        list.remove(&mut self.objects.slab, thread.object().key());
    }

    /// The machine has bytes, or room, again.
    pub fn serial_ready(&mut self) {
        while let Some(writer) = self.objects.after(self.serial.writers, None) {
            let thread = Id::<Thread>::new(writer);
            let Ok(Wait::Serial(SerialWait::Write { data, taken })) = self.objects.get_mut(thread).map(|t| &mut t.wait)
            else {
                self.serial.writers.remove(&mut self.objects.slab, writer.key());
                continue;
            };
            *taken += self.machine.serial_write(data.get(*taken..).unwrap_or_default());
            if *taken < data.len() {
                break;
            }
            self.finish_wait(thread, Status::OK);
        }
        while let Some(reader) = self.objects.after(self.serial.readers, None) {
            let thread = Id::<Thread>::new(reader);
            let Ok(&Wait::Serial(SerialWait::Read { out, len, actual })) = self.objects.get(thread).map(|t| &t.wait)
            else {
                self.serial.readers.remove(&mut self.objects.slab, reader.key());
                continue;
            };
            match self.serial_deliver(thread, out, len, actual) {
                // Who waited has seen to it once that the memory is there.
                Some(PAGE_WAIT) => self.finish_wait(thread, Status::BAD_STATE),
                Some(status) => self.finish_wait(thread, status),
                None => break,
            }
        }
    }
}
