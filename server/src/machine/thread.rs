//! Threads of programs.
//!
//! A thread is two kernel objects ([`ThreadObjects`]): TCB, and a CNode of sixteen slots, which is all that the thread
//! has of the kernel:
//!
//! | slot | capability |
//! |---|---|
//! | 1 | the server's endpoint, for calls; the badge is the machine's number of the thread |
//! | 2 | the same endpoint, for faults; the badge has [`FAULT`] set as well |
//! | 3 to 15 | endpoints that somebody put there ([`super::endpoints`]) |
//!
//! A page above what programs can map is its IPC buffer; the server sees it through the window. A call goes so:
//!
//! 1. The thread puts arguments 5 to 8 into its buffer, if there are any, and calls slot 1 with the call's number as
//!    the label and arguments 1 to 4 in registers.
//! 2. The server answers. Label [`DONE`]: the result is in register 0, and the call is over. Label [`YIELD`]: the
//!    same, after the thread has let others of its priority run.
//! 3. Or the call has to wait: the server does not answer, and receives the next call. The thread waits where it is.
//! 4. Whatever ends the wait answers by the thread's TCB ([`Threads::wake`]). The last such answer of an event is given in the
//!    kernel's entry that ends the event, but before anything else is done with a thread.
//! 5. A thread that is suspended while it waits makes its call again when it is resumed (5A), which the server takes no
//!    notice of, because it knows that the thread waits. If the wait ends before the thread is resumed, the answer is kept
//!    until then (5B). If it ends after that, but before the thread has come to make the call again, the kernel sees to it that the
//!    call is not made (5C). A call that is made in portions is not answered either: its thread is sent to make it again
//!    (5D), and the server knows how far it came.
//!
//! No reply capability is kept: a thread that was not answered (it waits, it faulted, or has ended) stays where it is until
//! it is answered, resumed or destroyed.
//!
//! Making and destroying all this takes the kernel some twenty thousand instructions. So a thread that ends is made as new
//! and laid *idle* instead, in its address space, whose next thread it becomes: it keeps its capabilities, and with them
//! its number, which the badges of its endpoints are. Whose thread it is at the time stands in a table.

use alloc::vec::Vec;
use core::ptr;

use objects::containers::growth::{Grows, OutOfMemory};
use objects::machine::user_registers::UserRegisters;
use objects::machine::{FpuRegisters, Frame, MachineThread, PAGE, Priority, Registers, ThreadKey};

use sel4::Message;

use super::components::{NO_MEMORY, Parts};
use super::fpu;
use super::memory::Memory;
use super::memory::thread_objects::ThreadObjects;
use super::sys;

/// Badge bit of a thread's fault capability. Keys are below it.
pub const FAULT: u64 = 1 << 26;
/// Badge bit of the server's own notification.
pub const NOTIFICATION: u64 = 1 << 27;

/// Reply label: the result is in register 0.
pub const DONE: u64 = 0;
/// Reply label: as [`DONE`], but the thread first lets others run.
pub const YIELD: u64 = 1;

/// Words of the IPC buffer before the message.
const TAG_WORDS: u64 = 1;
/// Message word of the fifth argument.
const EXTRA_WORD: u64 = 4;

const CALL_SLOT: u64 = 1;
const FAULT_SLOT: u64 = 2;
/// See [`sys::THREAD_BITS`].
const CNODE_BITS: u8 = sys::THREAD_BITS;

/// Bytes of a `syscall` instruction.
const SYSCALL_LENGTH: u64 = 2;

/// A thread's place in its address space: where its buffer is.
#[derive(Clone, Copy)]
pub struct Buffer {
    /// The page.
    pub frame: Frame,
    /// Its address in the thread's address space.
    pub address: u64,
    /// The capability that maps it there.
    pub mapping: u64,
}

/// One thread.
pub struct Thread {
    /// What it is made of; a component's thread is not made here.
    made_of: Option<ThreadObjects>,
    /// A component's thread that has been told nothing yet.
    untold: bool,
    tcb: u64,
    cnode: u64,
    /// It was suspended and not resumed.
    suspended: bool,
    /// The result of its call, which ended while it was suspended (5B).
    result: Option<i64>,
    priority: Priority,
    /// It comes before all others of its priority.
    preferred: bool,
    /// Endpoints were put into its slots: it may have received, and hold a right to answer, so it is never used again. The same
    /// holds for a component's.
    native: bool,
    /// See [`Buffer`].
    pub buffer: Buffer,
    /// The address space's number.
    pub aspace: u32,
}

impl Thread {
    fn new(made_of: Option<ThreadObjects>, (tcb, cnode): (u64, u64), buffer: Buffer, aspace: u32) -> Thread {
        Thread {
            made_of,
            untold: false,
            tcb,
            cnode,
            suspended: false,
            result: None,
            priority: Priority::DEFAULT,
            preferred: false,
            native: false,
            buffer,
            aspace,
        }
    }

    fn prioritise(&mut self, priority: Priority, preferred: bool) {
        if self.made_of.is_some() && (priority, preferred) != (self.priority, self.preferred) {
            (self.priority, self.preferred) = (priority, preferred);
            sys::set_priority(self.tcb, priority, preferred);
        }
    }

    /// The registers as they go to the kernel, with the base of GS at the buffer, where calls look for it; on some kernels it is nobody
    /// else's.
    fn with_gs(&self, registers: &Registers) -> UserRegisters {
        let gs_base = if sel4::KERNEL_KEEPS_GS { 0 } else { self.buffer.address };
        UserRegisters::new(Registers { gs_base, ..*registers })
    }
}

/// Nobody's thread.
const NOBODY: ThreadKey = ThreadKey(u32::MAX);

/// All threads.
#[derive(Default)]
pub struct Threads {
    list: Vec<Option<Thread>>,
    /// Whose thread each one is; those that are idle are [`NOBODY`]'s.
    keys: Vec<ThreadKey>,
    free: Vec<u32>,
    /// Threads that are idle.
    idle: u64,
    /// Whose call is being handled.
    caller: Option<ThreadKey>,
    /// A TCB, and the result that it is yet to be told (4).
    late: Option<(u64, i64)>,
}

impl Threads {
    /// A thread that does not run yet. On an error the buffer stays the caller's.
    pub fn create(
        &mut self,
        memory: &mut Memory,
        vspace: u64,
        aspace: u32,
        buffer: Buffer,
        key: ThreadKey,
    ) -> Result<MachineThread, OutOfMemory> {
        let number = self.number()?;
        let made = make(memory, vspace, aspace, buffer, number);
        self.add(number, made, key)
    }

    /// A component's thread, which waits to be started. On an error the buffer stays the caller's.
    pub fn adopt(
        &mut self,
        parts: Parts,
        aspace: u32,
        buffer: Buffer,
        key: ThreadKey,
    ) -> Result<MachineThread, OutOfMemory> {
        let number = self.number()?;
        let joined = sys::join(parts.cnode, number.into()).map_err(|_| OutOfMemory);
        let mut thread = Thread::new(None, (parts.tcb, parts.cnode), buffer, aspace);
        (thread.native, thread.untold) = (true, true);
        self.add(number, joined.map(|()| thread), key)
    }

    /// A number for a new thread.
    fn number(&mut self) -> Result<u32, OutOfMemory> {
        if let Some(number) = self.free.pop() {
            return Ok(number);
        }
        self.list.room(1)?;
        self.keys.room(1)?;
        self.free.room(self.list.len() + 1 - self.free.len())?;
        self.list.push(None);
        self.keys.push(NOBODY);
        Ok(self.list.len() as u32 - 1)
    }

    /// Adds a thread, if it could be made.
    fn add(
        &mut self,
        number: u32,
        made: Result<Thread, OutOfMemory>,
        key: ThreadKey,
    ) -> Result<MachineThread, OutOfMemory> {
        match made {
            Ok(thread) => {
                self.list[number as usize] = Some(thread);
                self.keys[number as usize] = key;
                Ok(MachineThread(number))
            }
            Err(error) => {
                self.free.push(number);
                Err(error)
            }
        }
    }

    /// Ends a thread; its buffer goes back to the caller.
    pub fn destroy(&mut self, memory: &mut Memory, thread: MachineThread) -> Option<Thread> {
        self.answer_late();
        let gone = self.list.get_mut(thread.0 as usize)?.take()?;
        if core::mem::replace(&mut self.keys[thread.0 as usize], NOBODY) == NOBODY {
            self.idle -= 1;
        }
        self.free.push(thread.0);
        match gone.made_of {
            Some(objects) => memory.thread_objects_free(objects),
            None => {
                if gone.untold {
                    sys::answer(gone.tcb, done(NO_MEMORY));
                }
                sys::leave(gone.tcb, gone.cnode);
            }
        }
        Some(gone)
    }

    /// Ends a thread but keeps what it is made of, as new, for [`Threads::reuse`]. If that cannot be, it is as it was.
    pub fn lay_idle(&mut self, number: MachineThread) -> bool {
        self.answer_late();
        let Some(thread) = self.list.get_mut(number.0 as usize).and_then(Option::as_mut) else { return false };
        if thread.native || !sys::reset(thread.tcb) {
            return false;
        }
        (thread.suspended, thread.result) = (false, None);
        thread.prioritise(Priority::DEFAULT, false);
        self.keys[number.0 as usize] = NOBODY;
        self.idle += 1;
        true
    }

    /// An idle thread is somebody's from now on.
    pub fn reuse(&mut self, thread: MachineThread, key: ThreadKey) {
        self.keys[thread.0 as usize] = key;
        self.idle -= 1;
    }

    /// The number of a thread's address space.
    pub fn aspace(&self, thread: MachineThread) -> Option<u32> {
        self.get(thread).map(|thread| thread.aspace)
    }

    /// The page of a thread's buffer.
    pub fn buffer(&self, thread: MachineThread) -> Option<Frame> {
        self.get(thread).map(|thread| thread.buffer.frame)
    }

    /// Threads that are idle.
    pub fn idle(&self) -> u64 {
        self.idle
    }

    /// Whose thread it is that a badge names; nobody's has no key that is anybody's.
    #[inline(always)]
    pub fn key_of(&self, badge: u64) -> ThreadKey {
        self.keys.get((badge & (FAULT - 1)) as usize).copied().unwrap_or(NOBODY)
    }

    #[inline]
    fn get(&self, thread: MachineThread) -> Option<&Thread> {
        self.list.get(thread.0 as usize)?.as_ref()
    }

    #[inline]
    fn get_mut(&mut self, thread: MachineThread) -> Option<&mut Thread> {
        self.list.get_mut(thread.0 as usize)?.as_mut()
    }

    /// Sets all registers of a thread that has not run, and lets it run. A component's runs already: it is told one of them.
    pub fn start(&mut self, thread: MachineThread, registers: &Registers) {
        let Some(thread) = self.get_mut(thread) else { return };
        if core::mem::take(&mut thread.untold) {
            sys::answer(thread.tcb, done(registers.rdi as i64));
        } else {
            sys::write_registers(thread.tcb, true, &thread.with_gs(registers));
        }
    }

    /// Stops a thread where it is.
    pub fn suspend(&mut self, thread: MachineThread) {
        self.answer_late();
        if let Some(thread) = self.get_mut(thread) {
            thread.suspended = true;
            sys::suspend(thread.tcb);
        }
    }

    /// Has a thread that is in its call make it once more (5D); one that is suspended does when it is resumed.
    pub fn again(&mut self, thread: MachineThread) {
        if let Some(thread) = self.get(thread).filter(|thread| !thread.suspended) {
            sys::resume(thread.tcb);
        }
    }

    /// Lets a stopped thread go on: where its call is over, behind it (5B), otherwise it makes the call again (5A); a fault is
    /// tried again.
    pub fn resume(&mut self, thread: MachineThread) {
        if let Some(thread) = self.get_mut(thread) {
            thread.suspended = false;
            match thread.result.take() {
                Some(result) => sys::answer(thread.tcb, done(result)),
                None => sys::resume(thread.tcb),
            }
        }
    }

    /// The CNode of a thread into one of whose slots something will be put.
    pub fn cnode_for(&mut self, thread: MachineThread, slot: u8) -> Option<u64> {
        let thread = self.get_mut(thread).filter(|_| (FAULT_SLOT + 1..1 << CNODE_BITS).contains(&slot.into()))?;
        thread.native = true;
        Some(thread.cnode)
    }

    /// The TCB of a thread that is never used again when it ends, because something was put into its slots.
    pub fn tcb_of_native(&self, thread: MachineThread) -> Option<u64> {
        self.get(thread).filter(|thread| thread.native).map(|thread| thread.tcb)
    }

    /// Empties a slot of a thread. If the thread is in a call through it, it makes the call again, which fails then. A call to
    /// this server that it waits in it makes again as well, which is taken no notice of (5A).
    pub fn empty_slot(&mut self, number: MachineThread, slot: u8) {
        self.answer_late();
        let own = self.calls(number);
        let Some(cnode) = self.cnode_for(number, slot) else { return };
        sys::delete_of(cnode, slot.into());
        if let Some(thread) = self.get(number).filter(|thread| !own && !thread.suspended) {
            sys::suspend(thread.tcb);
            sys::resume(thread.tcb);
        }
    }

    /// A thread's registers. Of a thread that waits in a call, or whose fault was not answered, the
    /// instruction is the one that will be repeated; of the one whose call is being handled, the one after it, as the
    /// kernel would otherwise make the call again when the registers are written back.
    pub fn registers(&self, thread: MachineThread) -> Registers {
        let key = self.keys.get(thread.0 as usize).copied();
        let Some(thread) = self.get(thread) else { return Registers::default() };
        let mut registers = sys::read_registers(thread.tcb).unwrap_or_default();
        if self.caller.is_some() && self.caller == key {
            registers.rip = registers.rip.wrapping_add(SYSCALL_LENGTH);
        }
        if !sel4::KERNEL_KEEPS_GS {
            registers.gs_base = 0;
        }
        registers
    }

    /// Sets a stopped thread's registers. If it goes on elsewhere, how its call ended is of no interest any more.
    pub fn set_registers(&mut self, thread: MachineThread, registers: &Registers) {
        self.answer_late();
        let elsewhere = self.registers(thread).rip != registers.rip;
        if let Some(thread) = self.get_mut(thread) {
            if elsewhere {
                thread.result = None;
            }
            sys::write_registers(thread.tcb, false, &thread.with_gs(registers));
        }
    }

    /// A stopped thread's x87 and vector registers, if the kernel gives them.
    pub fn fpu(&self, thread: MachineThread) -> Option<FpuRegisters> {
        sys::read_fpu(self.get(thread)?.tcb).map(|words| fpu::decode(&words))
    }

    /// Nanoseconds for which a thread has run, to the kernel's tick.
    pub fn runtime(&self, thread: MachineThread) -> Option<i64> {
        sys::runtime(self.get(thread)?.tcb)
    }

    /// Sets them.
    pub fn set_fpu(&mut self, thread: MachineThread, registers: &FpuRegisters) {
        if let Some(thread) = self.get(thread) {
            sys::write_fpu(thread.tcb, &fpu::encode(registers));
        }
    }

    /// Sets the priority.
    pub fn set_priority(&mut self, thread: MachineThread, priority: Priority) {
        if let Some(thread) = self.get_mut(thread) {
            thread.prioritise(priority, thread.preferred);
        }
    }

    /// Puts a thread before all others of its priority, or back among them.
    pub fn prefer(&mut self, thread: MachineThread, preferred: bool) {
        if let Some(thread) = self.get_mut(thread) {
            thread.prioritise(thread.priority, preferred);
        }
    }

    /// Sets the FS base. The kernel takes registers only together, and continues at the address it is told.
    pub fn set_fs_base(&mut self, thread: MachineThread, base: u64) {
        self.answer_late();
        let mut registers = self.registers(thread);
        registers.fs_base = base;
        if let Some(thread) = self.get(thread) {
            sys::write_registers(thread.tcb, false, &thread.with_gs(&registers));
        }
    }

    /// Says whose call is being handled.
    #[inline]
    pub fn set_caller(&mut self, caller: Option<ThreadKey>) {
        self.caller = caller;
    }

    /// Whether it is a thread's call that is being handled.
    pub fn calls(&self, thread: MachineThread) -> bool {
        self.caller.is_some() && self.keys.get(thread.0 as usize).copied() == self.caller
    }

    /// Stops a thread that is in no call that was received and not answered. A message that it is yet to send, or waits for at
    /// an endpoint, is withdrawn, so the instruction is the one that sends or waits.
    pub fn interrupt(&mut self, thread: MachineThread) -> Registers {
        self.answer_late();
        let Some(thread) = self.get(thread) else { return Registers::default() };
        let registers = sys::stop_and_read(thread.tcb).unwrap_or_default();
        Registers { gs_base: if sel4::KERNEL_KEEPS_GS { registers.gs_base } else { 0 }, ..registers }
    }

    /// Lets a thread that was stopped so go on with these registers.
    pub fn divert(&mut self, thread: MachineThread, registers: &Registers) {
        if let Some(thread) = self.get(thread) {
            sys::write_registers(thread.tcb, true, &thread.with_gs(registers));
        }
    }

    /// Steps 4 and 5B of the module's description.
    pub fn wake(&mut self, thread: MachineThread, result: i64) {
        let Some(thread) = self.get_mut(thread) else { return };
        if thread.suspended {
            thread.result = Some(result);
            return;
        }
        let late = (thread.tcb, result);
        self.answer_late();
        self.late = Some(late);
    }

    /// Gives the answer that is yet to be given.
    #[inline]
    fn answer_late(&mut self) {
        if let Some((tcb, result)) = self.late.take() {
            sys::answer(tcb, done(result));
        }
    }

    /// The TCB and the answer that are for the entry that ends the event.
    #[inline]
    pub fn take_late(&mut self) -> Option<(u64, Message)> {
        self.late.take().map(|(tcb, result)| (tcb, done(result)))
    }

    /// A word of the page of a thread's buffer.
    pub fn word(&self, thread: MachineThread, offset: usize) -> u64 {
        self.get(thread).map_or(0, |thread| {
            // SAFETY: as in `read_word`; the offset lies in the page.
            unsafe { ptr::read_volatile(ptr::with_exposed_provenance(in_page(thread.buffer.frame, offset))) }
        })
    }

    /// Sets one.
    pub fn set_word(&mut self, thread: MachineThread, offset: usize, value: u64) {
        if let Some(thread) = self.get(thread) {
            let word = ptr::with_exposed_provenance_mut(in_page(thread.buffer.frame, offset));
            // SAFETY: the word lies in a page that the window shows, and that nobody here has borrowed.
            unsafe { ptr::write_volatile(word, value) };
        }
    }

    /// Arguments 5 to 8 of the thread's call.
    #[inline]
    pub fn extra_args(&self, thread: MachineThread) -> [u64; 4] {
        let Some(thread) = self.get(thread) else { return [0; 4] };
        let word = |i| read_word(thread.buffer.frame, EXTRA_WORD + i);
        [word(0), word(1), word(2), word(3)]
    }
}

fn make(memory: &mut Memory, vspace: u64, aspace: u32, buffer: Buffer, number: u32) -> Result<Thread, OutOfMemory> {
    let objects = memory.thread_objects()?;
    let thread = Thread::new(Some(objects), (objects.tcb, objects.cnode), buffer, aspace);
    match fill(&thread, vspace, number) {
        Ok(()) => Ok(thread),
        Err(_) => {
            memory.thread_objects_free(objects);
            Err(OutOfMemory)
        }
    }
}

/// Gives a new thread its capabilities, its address space and its priority.
fn fill(thread: &Thread, vspace: u64, number: u32) -> Result<(), sys::Error> {
    let badge = u64::from(number);
    sys::mint_endpoint(thread.cnode, CALL_SLOT, CNODE_BITS, badge)?;
    sys::mint_endpoint(thread.cnode, FAULT_SLOT, CNODE_BITS, badge | FAULT)?;
    sys::tcb_configure(
        thread.tcb,
        sys::Threadspace {
            fault_endpoint: FAULT_SLOT,
            cnode: thread.cnode,
            cnode_bits: CNODE_BITS,
            vspace,
            buffer_address: thread.buffer.address,
            buffer: thread.buffer.mapping,
        },
    )
}

/// The answer to a call that is over.
#[inline]
pub fn done(result: i64) -> Message {
    Message::one(DONE, result as u64)
}

/// Where a word of a page is; one that does not lie in the page is the first.
fn in_page(frame: Frame, offset: usize) -> usize {
    debug_assert!(offset as u64 <= PAGE - 8 && offset.is_multiple_of(8));
    Memory::address(frame) as usize + if offset as u64 <= PAGE - 8 { offset } else { 0 }
}

fn word(frame: Frame, word: u64) -> usize {
    in_page(frame, ((TAG_WORDS + word) * 8) as usize)
}

fn read_word(frame: Frame, n: u64) -> u64 {
    // SAFETY: the word lies in a page that the window shows; that the program may write it at any time is why the
    // access is volatile.
    unsafe { ptr::read_volatile(ptr::with_exposed_provenance(word(frame, n))) }
}
