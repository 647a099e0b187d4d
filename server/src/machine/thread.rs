//! Threads of programs.
//!
//! A thread consists of two kernel objects ([`ThreadObjects`]): a TCB, and a CNode of sixteen slots, which holds all
//! capabilities of the thread:
//!
//! | slot | capability |
//! |---|---|
//! | 1 | the server's endpoint, for calls; the badge is the machine's number of the thread |
//! | 2 | the same endpoint, for faults; the badge has [`FAULT`] set as well |
//! | 3 to 15 | endpoints that programs put there ([`super::endpoints`]) |
//!
//! Its IPC buffer is a page above the range that programs can map; the server sees it through the window. A call works
//! so:
//!
//! 1. The thread puts arguments 5 to 8 into its buffer, if there are any, and calls slot 1 with the call's number as
//!    the label and arguments 1 to 4 in registers.
//! 2. The server answers. Label [`DONE`]: the call is over, and its result is in register 0. Label [`YIELD`]: the same,
//!    but the thread first yields to others of its priority.
//! 3. Or the call has to wait: the server does not answer, and receives the next call. The thread stays blocked in its
//!    call.
//! 4. The event that ends the wait answers through the thread's TCB ([`Threads::wake`]). The kernel entry that ends the
//!    event delivers the last such answer, but the server delivers it earlier if it operates on any thread before that.
//! 5. A thread that is suspended while it waits makes its call again when it is resumed (5A). The server ignores that,
//!    because it knows that the thread waits. If the wait ends before the thread is resumed, the server keeps the
//!    answer until then (5B). If it ends after that, but before the thread has made the call again, the kernel makes
//!    sure that the call is not made (5C). A long call that runs in slices is not answered either: the server makes its
//!    thread repeat it (5D), and keeps its progress.
//!
//! The server keeps no reply capability: a thread that was not answered (it waits, it faulted, or has ended) stays
//! blocked until it is answered, resumed or destroyed.
//!
//! Making and destroying all this takes the kernel some twenty thousand instructions. So an ended thread is reset and
//! kept *idle* in its address space, for that address space's next thread. It keeps its capabilities, and with them its
//! number, which is the badge of its endpoints. A table maps that number to the current owner's key.

use alloc::vec::Vec;
use core::ptr;

use objects::arch::{DebugRegisters, FpuRegisters, GeneralRegisters, Registers, UserRegisters};
use objects::containers::growth::{Grows, OutOfMemory};
use objects::machine::{Aspace, Frame, MachineThread, PAGE, Priority, ThreadKey};

use sel4::Message;

use super::Sel4;
use super::arch::{answered, fpu, of_program, seen_by_program};
use super::components::{ComponentSlots, NO_MEMORY};
use super::memory::Memory;
use super::memory::thread_objects::ThreadObjects;
use super::sys;

/// Badge bit of a thread's fault capability. Thread numbers are below it.
pub const FAULT: u64 = 1 << 26;
/// Badge bit of the server's own notification.
pub const NOTIFICATION: u64 = 1 << 27;

/// Reply label: the result is in register 0.
pub const DONE: u64 = 0;
/// Reply label: as [`DONE`], but the thread first yields.
pub const YIELD: u64 = 1;

/// Words of the IPC buffer before the message.
const TAG_WORDS: u64 = 1;
/// Message word of the fifth argument.
const EXTRA_WORD: u64 = 4;

const CALL_SLOT: u64 = 1;
const FAULT_SLOT: u64 = 2;
/// See [`sys::THREAD_BITS`].
const CNODE_BITS: u8 = sys::THREAD_BITS;

/// A thread's IPC buffer.
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
    /// Its kernel objects. None for a component's thread, which the server did not make.
    made_of: Option<ThreadObjects>,
    /// A component's thread that has not been answered yet.
    unanswered: bool,
    tcb: u64,
    cnode: u64,
    /// It is suspended.
    suspended: bool,
    /// The result of its call, if that ended while the thread was suspended (5B).
    result: Option<i64>,
    priority: Priority,
    /// It runs before all other threads of its priority.
    preferred: bool,
    /// Endpoints were put into its slots, so it may have received and hold a reply right; it is never reused. The same
    /// holds for a component's thread.
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
            unanswered: false,
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

    /// The registers for the kernel.
    fn of_program(&self, registers: &Registers) -> UserRegisters {
        of_program(registers, self.buffer.address)
    }
}

/// The key of an idle thread.
const NOBODY: ThreadKey = ThreadKey(u32::MAX);

/// All threads.
#[derive(Default)]
pub struct Threads {
    list: Vec<Option<Thread>>,
    /// The key of each thread; [`NOBODY`] for idle ones.
    keys: Vec<ThreadKey>,
    free: Vec<u32>,
    /// Number of idle threads.
    idle: u64,
    /// The thread whose call is being handled.
    caller: Option<ThreadKey>,
    /// A TCB, and the result that has not been delivered yet (4).
    late: Option<(u64, i64)>,
}

impl Threads {
    /// Creates a thread that does not run yet. On an error the caller keeps the buffer.
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

    /// Takes over a component's thread, which waits to be started. On an error the caller keeps the buffer.
    pub fn adopt(
        &mut self,
        parts: ComponentSlots,
        aspace: u32,
        buffer: Buffer,
        key: ThreadKey,
    ) -> Result<MachineThread, OutOfMemory> {
        let number = self.number()?;
        let joined = sys::join(parts.cnode, number.into()).map_err(|_| OutOfMemory);
        let mut thread = Thread::new(None, (parts.tcb, parts.cnode), buffer, aspace);
        (thread.native, thread.unanswered) = (true, true);
        self.add(number, joined.map(|()| thread), key)
    }

    /// Allocates a number for a new thread.
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

    /// Destroys a thread. The caller gets its buffer back.
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
                if gone.unanswered {
                    sys::answer(gone.tcb, done(NO_MEMORY));
                }
                sys::leave(gone.tcb, gone.cnode);
            }
        }
        Some(gone)
    }

    /// Ends a thread but keeps its kernel objects, reset, for [`Threads::reuse`]. Returns false, without any change, if
    /// that is impossible.
    pub fn make_idle(&mut self, number: MachineThread) -> bool {
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

    /// Assigns an idle thread to a new owner.
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

    /// Number of idle threads.
    pub fn idle(&self) -> u64 {
        self.idle
    }

    /// The key of the thread that a badge identifies; [`NOBODY`] if there is none.
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

    /// Sets all registers of a thread that has not run, and lets it run. A component's thread runs already: it is
    /// answered with the first argument.
    pub fn start(&mut self, thread: MachineThread, registers: &Registers) {
        let Some(thread) = self.get_mut(thread) else { return };
        if core::mem::take(&mut thread.unanswered) {
            sys::answer(thread.tcb, done(registers.first_argument() as i64));
        } else {
            sys::write_registers(thread.tcb, true, &thread.of_program(registers));
        }
    }

    /// Stops a thread.
    pub fn suspend(&mut self, thread: MachineThread) {
        self.answer_late();
        if let Some(thread) = self.get_mut(thread) {
            thread.suspended = true;
            sys::suspend(thread.tcb);
        }
    }

    /// Makes a thread repeat the call that it is in (5D). A suspended thread repeats it when it is resumed.
    pub fn restart_call(&mut self, thread: MachineThread) {
        if let Some(thread) = self.get(thread).filter(|thread| !thread.suspended) {
            sys::resume(thread.tcb);
        }
    }

    /// Resumes a stopped thread. If its call is over, it continues after the call (5B); otherwise it makes the call
    /// again (5A). A faulting instruction is repeated.
    pub fn resume(&mut self, thread: MachineThread) {
        if let Some(thread) = self.get_mut(thread) {
            thread.suspended = false;
            match thread.result.take() {
                Some(result) => sys::answer(thread.tcb, done(result)),
                None => sys::resume(thread.tcb),
            }
        }
    }

    /// The CNode of a thread, for putting something into one of its slots.
    pub fn cnode_for(&mut self, thread: MachineThread, slot: u8) -> Option<u64> {
        let thread = self.get_mut(thread).filter(|_| (FAULT_SLOT + 1..1 << CNODE_BITS).contains(&slot.into()))?;
        thread.native = true;
        Some(thread.cnode)
    }

    /// The TCB of a thread that is never reused, because something was put into its slots.
    pub fn tcb_of_native(&self, thread: MachineThread) -> Option<u64> {
        self.get(thread).filter(|thread| thread.native).map(|thread| thread.tcb)
    }

    /// Empties a slot of a thread. If the thread is in a call through that slot, it makes the call again, which then
    /// fails. If it waits in a call to this server, it makes that again as well, which the server ignores (5A).
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

    /// A thread's registers. For a thread that waits in a call, or whose fault was not answered, the instruction pointer
    /// is at the instruction that will be repeated. For a thread whose call has ended while it was suspended (5B), they
    /// are those behind the call.
    pub fn registers(&self, thread: MachineThread) -> Registers {
        let mut registers = self.kept_registers(thread);
        if let Some(result) = self.get(thread).and_then(|thread| thread.result) {
            registers.skip_call();
            answered(&mut registers, &done(result));
        }
        registers
    }

    /// A thread's registers as the kernel keeps them. For the thread whose call is being handled, the instruction pointer
    /// is at the instruction after it; otherwise the kernel would make the call again when the registers are written
    /// back.
    fn kept_registers(&self, thread: MachineThread) -> Registers {
        let key = self.keys.get(thread.0 as usize).copied();
        let Some(thread) = self.get(thread) else { return Registers::default() };
        let mut registers = sys::read_registers(thread.tcb).unwrap_or_default();
        if self.caller.is_some() && self.caller == key {
            registers.skip_call();
        }
        seen_by_program(registers)
    }

    /// Sets a stopped thread's registers. If it will not repeat its call, that call's result is dropped: what a thread
    /// continues with behind it is in its registers.
    pub fn set_registers(&mut self, thread: MachineThread, registers: &Registers) {
        self.answer_late();
        let elsewhere = self.kept_registers(thread).ip() != registers.ip();
        if let Some(thread) = self.get_mut(thread) {
            if elsewhere {
                thread.result = None;
            }
            sys::write_registers(thread.tcb, false, &thread.of_program(registers));
        }
    }

    /// A stopped thread's vector registers, if the kernel provides them.
    pub fn fpu(&self, thread: MachineThread) -> Option<FpuRegisters> {
        sys::read_fpu(self.get(thread)?.tcb).map(|words| fpu::decode(&words))
    }

    /// A stopped thread's debug registers, if the kernel provides them.
    pub fn debug(&self, thread: MachineThread) -> Option<DebugRegisters> {
        sys::read_debug(self.get(thread)?.tcb)
    }

    /// Sets a stopped thread's debug registers.
    pub fn set_debug(&mut self, thread: MachineThread, registers: &DebugRegisters) {
        if let Some(thread) = self.get(thread) {
            sys::write_debug(thread.tcb, registers);
        }
    }

    /// Nanoseconds for which a thread has run, in units of the kernel's tick.
    pub fn runtime(&self, thread: MachineThread) -> Option<i64> {
        sys::runtime(self.get(thread)?.tcb)
    }

    /// Sets a stopped thread's vector registers.
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

    /// Lets a thread run before all others of its priority, or ends that.
    pub fn prefer(&mut self, thread: MachineThread, preferred: bool) {
        if let Some(thread) = self.get_mut(thread) {
            thread.prioritise(thread.priority, preferred);
        }
    }

    /// Sets the thread pointer. The kernel sets registers only together, and the thread continues at the given address.
    pub fn set_pointer(&mut self, thread: MachineThread, base: u64) {
        self.answer_late();
        let mut registers = self.kept_registers(thread);
        registers.set_thread_pointer(base);
        if let Some(thread) = self.get(thread) {
            sys::write_registers(thread.tcb, false, &thread.of_program(&registers));
        }
    }

    /// Sets the thread whose call is being handled.
    #[inline]
    pub fn set_caller(&mut self, caller: Option<ThreadKey>) {
        self.caller = caller;
    }

    /// Whether this thread's call is being handled.
    pub fn calls(&self, thread: MachineThread) -> bool {
        self.caller.is_some() && self.keys.get(thread.0 as usize).copied() == self.caller
    }

    /// Stops a thread that is in no call that was received and not answered. A message that it waits to send, or waits
    /// for at an endpoint, is withdrawn, so the instruction pointer is at the one that sends or waits.
    pub fn interrupt(&mut self, thread: MachineThread) -> Registers {
        self.answer_late();
        let Some(thread) = self.get(thread) else { return Registers::default() };
        seen_by_program(sys::stop_and_read(thread.tcb).unwrap_or_default())
    }

    /// Resumes such a thread with these registers.
    pub fn divert(&mut self, thread: MachineThread, registers: &Registers) {
        if let Some(thread) = self.get(thread) {
            sys::write_registers(thread.tcb, true, &thread.of_program(registers));
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

    /// Delivers the answer that has not been delivered yet.
    #[inline]
    fn answer_late(&mut self) {
        if let Some((tcb, result)) = self.late.take() {
            sys::answer(tcb, done(result));
        }
    }

    /// The TCB and the answer for the kernel entry that ends the event.
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
            // SAFETY: the word lies in a page that the window shows, and the server holds no reference to it.
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

/// Address of a word of a page. An offset outside of the page gives the first word.
fn in_page(frame: Frame, offset: usize) -> usize {
    debug_assert!(offset as u64 <= PAGE - 8 && offset.is_multiple_of(8));
    Memory::address(frame) as usize + if offset as u64 <= PAGE - 8 { offset } else { 0 }
}

fn word(frame: Frame, word: u64) -> usize {
    in_page(frame, ((TAG_WORDS + word) * 8) as usize)
}

fn read_word(frame: Frame, n: u64) -> u64 {
    // SAFETY: the word lies in a page that the window shows; the program may write it at any time, so the access is
    // volatile.
    unsafe { ptr::read_volatile(ptr::with_exposed_provenance(word(frame, n))) }
}

impl objects::machine::Threads for Sel4 {
    fn thread_create(&mut self, aspace: Aspace, key: ThreadKey, _name: &str) -> Result<MachineThread, OutOfMemory> {
        match self.thread_reuse(aspace, key) {
            Some(thread) => Ok(thread),
            None => self.with_all(|machine| machine.thread_make(aspace, key)),
        }
    }

    fn thread_start(&mut self, thread: MachineThread, registers: &Registers) {
        self.threads.start(thread, registers);
    }

    fn thread_destroy(&mut self, thread: MachineThread) {
        self.thread_end(thread);
    }

    fn thread_suspend(&mut self, thread: MachineThread) {
        self.threads.suspend(thread);
    }

    fn thread_restart_call(&mut self, thread: MachineThread) {
        self.threads.restart_call(thread);
    }

    fn thread_resume(&mut self, thread: MachineThread) {
        self.threads.resume(thread);
    }

    fn thread_registers(&mut self, thread: MachineThread) -> Registers {
        self.threads.registers(thread)
    }

    fn thread_set_registers(&mut self, thread: MachineThread, registers: &Registers) {
        self.threads.set_registers(thread, registers);
    }

    fn thread_fpu(&mut self, thread: MachineThread) -> Option<FpuRegisters> {
        self.threads.fpu(thread)
    }

    fn thread_set_fpu(&mut self, thread: MachineThread, registers: &FpuRegisters) {
        self.threads.set_fpu(thread, registers);
    }

    fn thread_debug(&mut self, thread: MachineThread) -> Option<DebugRegisters> {
        self.threads.debug(thread)
    }

    fn thread_set_debug(&mut self, thread: MachineThread, registers: &DebugRegisters) {
        self.threads.set_debug(thread, registers);
    }

    fn has_debug(&self) -> bool {
        sel4::HAS_DEBUG_REGISTERS
    }

    fn thread_runtime(&mut self, thread: MachineThread) -> Option<i64> {
        self.threads.runtime(thread)
    }

    #[inline(always)]
    fn own_ticks(&self) -> u64 {
        sel4::ipc::ticks()
    }

    fn own_tick(&self) -> Option<u64> {
        sel4::TELLS_TICKS.then_some(sel4::config::TIMER_TICK_MS * 1_000_000)
    }

    fn can_step(&self) -> bool {
        sel4::KEEPS_TRAP_FLAG
    }

    #[inline]
    fn keeps_stack_pointer(&self) -> bool {
        sel4::KEEPS_STACK_POINTER
    }

    fn thread_set_priority(&mut self, thread: MachineThread, priority: Priority) {
        self.threads.set_priority(thread, priority);
    }

    fn thread_prefer(&mut self, thread: MachineThread, preferred: bool) {
        self.threads.prefer(thread, preferred);
    }

    fn thread_set_pointer(&mut self, thread: MachineThread, base: u64) {
        self.threads.set_pointer(thread, base);
    }

    fn thread_wake(&mut self, thread: MachineThread, result: i64) {
        self.threads.wake(thread, result);
    }

    #[inline]
    fn thread_extra_args(&self, thread: MachineThread) -> [u64; 4] {
        self.threads.extra_args(thread)
    }
}
