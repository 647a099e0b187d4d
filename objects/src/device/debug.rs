//! The host link for `debug_read` and `debug_write`: bytes in, bytes out, and waiting threads.
//!
//! A write runs in slices ([`crate::core::continuation`]), because each byte takes time to send, and a port that
//! accepts all of them at once sets no limit. Bytes of one write stay together: other writers wait. If the machine
//! accepts no more bytes, the write blocks with a copy of the rest until all are accepted. A read waits until there is
//! at least one byte.
//!
//! The host trusts the bytes on the link as those of one process. So a process can claim the link; the bytes of other
//! processes then do not go there.

use alloc::vec::Vec;

use abi::{Status, ZX_TIME_INFINITE, nr};

use crate::containers::list::List;
use crate::core::continuation::PAGE_WAIT;
use crate::core::object::Id;
use crate::core::wait::Waiters;
use crate::core::wait::Waiting;
use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::task::blocking::SerialWait;
use crate::task::blocking::Wait;
use crate::task::process::Process;
use crate::task::thread::Thread;

/// Number of bytes that one slice writes.
pub const WRITES: usize = 256;

/// Most bytes that one read returns.
const READ_MAX: usize = 4096;

#[derive(Default)]
pub(crate) struct Serial {
    readers: List<Waiters>,
    writers: List<Waiters>,
    /// The thread in the middle of a write, if it is still in that call.
    writing: Option<Id<Thread>>,
    /// The process that claimed the link.
    holder: Option<Id<Process>>,
}

impl<M: Machine> Kernel<M> {
    /// Claims the link for a process, until the process ends.
    ///
    /// # Errors
    /// `BAD_STATE`: another process has claimed it.
    pub fn serial_claim(&mut self, process: Id<Process>) -> Result<(), Status> {
        if self.serial.holder.is_some_and(|holder| holder != process && !self.process_is_dead(holder)) {
            return Err(Status::BAD_STATE);
        }
        self.serial.holder = Some(process);
        Ok(())
    }

    /// Whether a process's writes go to the link.
    pub fn serial_may_write(&self, process: Id<Process>) -> bool {
        self.serial.holder.is_none_or(|holder| holder == process)
    }

    /// One slice of `debug_write`: returns how many bytes are accepted. If not all, another thread is writing, or the
    /// machine has no room.
    pub fn serial_write_slice(&mut self, thread: Id<Thread>, data: &[u8]) -> usize {
        let own = self.serial.writing == Some(thread);
        if !own && (self.serial_is_being_written() || !self.serial.writers.is_empty()) {
            return 0;
        }
        self.serial.writing = Some(thread);
        self.machine.serial_write(data)
    }

    /// Blocks a thread's `debug_write` until the rest of its bytes is accepted.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn serial_write_rest(&mut self, thread: Id<Thread>, data: Vec<u8>) -> Result<Waiting, Status> {
        let key = thread.object().key();
        if self.serial.writing == Some(thread) {
            self.serial.writing = None;
            self.serial.writers.push_first(&mut self.objects.slab, key);
        } else {
            self.serial.writers.push(&mut self.objects.slab, key);
        }
        self.block(thread, Wait::Serial(SerialWait::Write { data, taken: 0 }), ZX_TIME_INFINITE)
    }

    /// All bytes of a thread's write are accepted, or the thread left the call.
    pub fn serial_written(&mut self, thread: Id<Thread>) {
        if self.serial.writing == Some(thread) {
            self.serial.writing = None;
            if !self.serial.writers.is_empty() {
                self.serial_ready();
            }
        }
    }

    /// Whether a thread is between two slices of a write.
    fn serial_is_being_written(&self) -> bool {
        let between =
            |thread: &Thread| matches!(&thread.wait, Wait::Continuation(call) if call.number == nr::DEBUG_WRITE);
        self.serial.writing.and_then(|writing| self.objects.get(writing).ok()).is_some_and(between)
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
        // Takes bytes only when they can be delivered.
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

    /// A thread's wait is over. If a writer is killed, the rest of its bytes is dropped.
    pub(crate) fn serial_forget(&mut self, wait: &SerialWait, thread: Id<Thread>) {
        let list = match wait {
            SerialWait::Read { .. } => &mut self.serial.readers,
            SerialWait::Write { .. } => &mut self.serial.writers,
        };
        list.remove(&mut self.objects.slab, thread.object().key());
    }

    /// The machine has input, or room, again.
    pub fn serial_ready(&mut self) {
        while !self.serial_is_being_written()
            && let Some(writer) = self.objects.after(self.serial.writers, None)
        {
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
                // The thread has checked once, before it waited, that the memory is present.
                Some(PAGE_WAIT) => self.finish_wait(thread, Status::BAD_STATE),
                Some(status) => self.finish_wait(thread, status),
                None => break,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::containers::name::Name;
    use crate::core::continuation::Progress;
    use crate::core::handle::Handle;
    use crate::fake::FakeMachine;
    use crate::machine::Registers;
    use abi::Rights;
    use std::vec;

    struct World {
        kernel: Kernel<FakeMachine>,
        threads: [Id<Thread>; 2],
    }

    impl World {
        fn new() -> World {
            let mut kernel = Kernel::new(FakeMachine::new(64)).unwrap();
            let job = kernel.root_job().unwrap();
            let (process, _) = kernel.process_create(job, Name::default()).unwrap();
            kernel.dup_handle(Handle { object: process.object(), rights: Rights::NONE });
            let threads = [(); 2].map(|()| kernel.thread_create(process, Name::default()).unwrap());
            kernel.process_begin(process, None).unwrap();
            for thread in threads {
                kernel.dup_handle(Handle { object: thread.object(), rights: Rights::NONE });
                kernel.thread_start(thread, &Registers::default()).unwrap();
            }
            World { kernel, threads }
        }

        /// One slice of a thread's write; the thread continues afterwards.
        fn slice(&mut self, thread: usize, byte: u8) -> usize {
            let thread = self.threads[thread];
            self.kernel.continuation_take(thread);
            let taken = self.kernel.serial_write_slice(thread, &[byte; 4]);
            if taken == 4 {
                let process = self.kernel.objects.get(thread).unwrap().process.object();
                let progress = Progress::new(process, Rights::NONE, 4);
                assert_eq!(self.kernel.continue_call(progress), crate::core::continuation::CALL_CONTINUES);
                self.kernel.continuation_save(thread, nr::DEBUG_WRITE, [0; 8]).unwrap();
            }
            taken
        }

        fn rest(&mut self, thread: usize, byte: u8) {
            assert!(self.kernel.serial_write_rest(self.threads[thread], vec![byte; 4]).is_ok());
        }

        fn sent(&self) -> std::string::String {
            std::string::String::from_utf8(self.kernel.machine.sent.clone()).unwrap()
        }
    }

    #[test]
    fn bytes_of_one_write_stay_together() {
        let mut world = World::new();
        world.kernel.machine.serial_room = 100;
        assert_eq!(world.slice(0, b'a'), 4);
        assert_eq!(world.slice(1, b'b'), 0);
        world.rest(1, b'b');
        world.kernel.serial_ready();
        assert_eq!(world.slice(0, b'a'), 4);
        assert_eq!(world.sent(), "aaaaaaaa");
        world.kernel.continuation_take(world.threads[0]);
        world.kernel.serial_written(world.threads[0]);
        assert_eq!(world.sent(), "aaaaaaaabbbb");
    }

    #[test]
    fn a_writer_without_room_comes_before_those_that_wait() {
        let mut world = World::new();
        world.kernel.machine.serial_room = 5;
        assert_eq!(world.slice(0, b'a'), 4);
        assert_eq!(world.slice(1, b'b'), 0);
        world.rest(1, b'b');
        assert_eq!(world.slice(0, b'a'), 1);
        world.rest(0, b'c');
        world.kernel.machine.serial_room = 100;
        world.kernel.serial_ready();
        assert_eq!(world.sent(), "aaaaaccccbbbb");
    }

    #[test]
    fn a_writer_that_is_killed_lets_others_write() {
        let mut world = World::new();
        world.kernel.machine.serial_room = 100;
        assert_eq!(world.slice(0, b'a'), 4);
        assert_eq!(world.slice(1, b'b'), 0);
        world.rest(1, b'b');
        world.kernel.thread_kill(world.threads[0]);
        assert_eq!(world.sent(), "aaaabbbb");
    }
}
