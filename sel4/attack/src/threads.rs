//! Threads of the tests, and their messages and faults.

use core::cell::UnsafeCell;

use sel4::bootinfo::{INIT_CNODE, INIT_TCB};
use sel4::{CapData, Endpoint, Fault, Message, ObjectType, Page, SchedParams, Tcb, TcbConfig, UserContext, VSpace};

use crate::world::{World, own};

/// Priority of the root task while it waits for other threads.
pub const LOW: u8 = 50;
/// Default priority of a test's threads.
pub const MIDDLE: u8 = 100;
/// Priority of threads that run before the others.
pub const HIGH: u8 = 200;

const STACK: usize = 8192;
const STACKS: usize = 4;

#[repr(C, align(16))]
struct Stacks(UnsafeCell<[[u8; STACK]; STACKS]>);
// SAFETY: each stack is used by the one thread that was made with it.
unsafe impl Sync for Stacks {}
static STACKS_OF_THREADS: Stacks = Stacks(UnsafeCell::new([[0; STACK]; STACKS]));

/// The label of a thread's message with a word.
const WORD: u64 = 0x77;

/// The parameters of a thread.
#[derive(Clone, Copy)]
pub struct Plan {
    /// Its address space.
    pub space: VSpace,
    /// Its function.
    pub run: extern "C" fn(u64) -> !,
    /// The function's argument. It also selects the stack.
    pub number: usize,
    /// Its priority.
    pub priority: u8,
    /// Its IPC buffer.
    pub buffer: Option<(u64, Page)>,
    /// The bases of FS and GS.
    pub bases: (u64, u64),
}

impl Plan {
    /// A thread of ordinary priority, without an IPC buffer.
    pub fn new(space: VSpace, run: extern "C" fn(u64) -> !, number: usize) -> Plan {
        Plan { space, run, number, priority: MIDDLE, buffer: None, bases: (0, 0) }
    }

    /// The registers that it starts with.
    pub fn registers(&self) -> UserContext {
        let stacks = STACKS_OF_THREADS.0.get().addr() as u64;
        UserContext {
            rip: self.run as *const () as u64,
            // The stack pointer as after a call instruction.
            rsp: stacks + ((self.number + 1) * STACK) as u64 - 8,
            rflags: 0x202,
            rdi: self.number as u64,
            fs_base: self.bases.0,
            gs_base: self.bases.1,
            ..UserContext::default()
        }
    }

    /// Makes it. It does not run yet.
    pub fn make(self, world: &mut World) -> Tcb {
        let tcb = Tcb(world.make(ObjectType::Tcb));
        // Its number is the badge of its faults.
        let faults = world.slot();
        own(faults)
            .mint_from(own(world.news.cptr()), sel4::Rights::ALL, CapData::badge(self.number as u64 + 1))
            .expect("a fault endpoint");
        tcb.configure(&TcbConfig {
            fault_endpoint: faults,
            cspace: INIT_CNODE,
            cspace_data: CapData::NONE,
            vspace: self.space,
            ipc_buffer: self.buffer,
            sched: Some(SchedParams { authority: INIT_TCB, max_controlled: 0, priority: self.priority }),
        })
        .expect("a thread");
        tcb.write_registers(&self.registers(), false).expect("a thread's registers");
        tcb
    }
}

/// A message or a fault of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// A thread sent a word.
    Word(u64),
    /// The thread with this number faulted.
    Fault(usize, Fault),
}

/// Waits for a message or a fault.
pub fn hear(world: &World) -> News {
    let received = world.news.recv();
    if received.info.label() == WORD {
        return News::Word(received.mr[0]);
    }
    News::Fault((received.badge as usize).wrapping_sub(1), Fault::decode(&received))
}

/// Sends a word when a thread has finished, and then blocks forever.
pub fn done(news: Endpoint, word: u64) -> ! {
    loop {
        // The root task never replies.
        news.call(Message::one(WORD, word));
    }
}

/// Lets the threads of a test run for a while: those with priorities above [`LOW`] until they block or end, others in
/// turn.
pub fn let_run(turns: u32) {
    let _ = INIT_TCB.set_priority(INIT_TCB, LOW);
    for _ in 0..turns {
        sel4::r#yield();
    }
    let _ = INIT_TCB.set_priority(INIT_TCB, 255);
}
