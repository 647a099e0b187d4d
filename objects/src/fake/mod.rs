//! The fake machine: plain memory, for tests on the host. It counts its resources and records what it did.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::Cell;

use crate::containers::failure_injection::{MemoryRequest, should_fail};
use crate::containers::growth::OutOfMemory;
use crate::machine::{
    AddressSpaces, Aspace, Cache, DebugRegisters, FpuRegisters, Frame, LARGE_PAGES, MachineThread, PAGE_SIZE, Perm,
    Power, Priority, Registers,
};

mod address_spaces;
mod check;
mod devices;
mod endpoints;
mod memory;
mod platform;
mod threads;
mod virtual_processors;

pub use devices::{FakeDevices, FakeIrq};
pub use endpoints::FakeEndpoints;

/// The physical address of frame 0. It is high, so that no test confuses addresses and numbers, and highly aligned.
const MEMORY: u64 = 1 << 40;

/// State and history of a thread of the fake machine.
#[derive(Default, Debug)]
pub struct FakeThread {
    /// Its address space.
    aspace: u32,
    /// The number in its events.
    pub key: u32,
    /// It was started.
    pub started: bool,
    /// It is stopped, or was given registers and never resumed since.
    pub stopped: bool,
    /// Results of its blocked calls that ended, in order.
    pub woken: Vec<i64>,
    /// Its priority.
    pub priority: Priority,
    /// It is preferred to others of its priority.
    pub preferred: bool,
    /// Its registers.
    pub registers: Registers,
    /// Its run time in nanoseconds.
    pub runtime: i64,
    /// Its x87 and vector registers, once they were set.
    pub fpu: Option<FpuRegisters>,
    /// Its debug registers.
    pub debug: DebugRegisters,
    /// Arguments 5 to 8 of its next call.
    pub extra: [u64; 4],
    /// How often it was made to repeat its call.
    pub again: u32,
}

/// Applies the failure injection plan to a request.
fn ask(want: MemoryRequest) -> Result<(), OutOfMemory> {
    if should_fail(want) { Err(OutOfMemory) } else { Ok(()) }
}

/// Run time of each runner, in nanoseconds.
pub const RUNNER_RAN: i64 = 1_000;

/// See the module's description.
#[derive(Default)]
pub struct FakeMachine {
    frames: Vec<Option<Box<[u8; PAGE_SIZE]>>>,
    free: Vec<u32>,
    /// Maximum number of frames allocated at the same time.
    pub limit: usize,
    /// There is no heap memory.
    pub full: bool,
    /// Even so, there is enough for calls that keep nothing.
    pub rest: bool,
    /// Mapped pages, by address space and address.
    pub mapped: BTreeMap<u32, BTreeMap<u64, (Frame, Perm)>>,
    /// Those with other caching than ordinary memory, by address space and address.
    pub caches: BTreeMap<(u32, u64), Cache>,
    /// Endpoints of the kernel below.
    pub endpoints: FakeEndpoints,
    /// Runners, and whether they run.
    pub runners: BTreeMap<u32, bool>,
    /// With which runner a thread shares its vector registers.
    pub shares: BTreeMap<u32, u32>,
    /// The debug registers of runners that were given any.
    pub runner_debug: BTreeMap<u32, DebugRegisters>,
    next_runner: u32,
    /// Doorbells, and how often each was rung.
    pub doorbells: BTreeMap<u32, u32>,
    next_doorbell: u32,
    /// It has none of the optional roles, and does not know its idle time.
    pub is_bare: bool,
    /// The opposite of [`Threads::keeps_stack_pointer`](crate::machine::Threads::keeps_stack_pointer).
    pub loses_stack_pointer: bool,
    /// Pages mapped for a thread's vDSO, by thread and address.
    pub shown: BTreeMap<(u32, u64), Frame>,
    words: BTreeMap<(u32, usize), u64>,
    /// The thread whose call is being handled.
    pub caller: Option<MachineThread>,
    /// Device memory, interrupts, I/O ports.
    pub devices: FakeDevices,
    /// The first frames of large pages.
    pub large: BTreeSet<u32>,
    /// How often a large page was split.
    pub splits: usize,
    /// Mappings of large pages, by address space and address.
    large_mapped: BTreeSet<(u32, u64)>,
    aspaces: u32,
    /// Threads, by number.
    pub threads: BTreeMap<u32, FakeThread>,
    next_thread: u32,
    /// The time.
    pub time: i64,
    /// How much the time advances with each reading.
    pub pace: i64,
    /// Ticks during which the kernel worked.
    pub own_ticks: u64,
    /// Nanoseconds without a ready thread.
    pub idle_time: i64,
    looked: Cell<i64>,
    /// Requested deadlines.
    pub deadlines: BTreeSet<i64>,
    seed: u64,
    /// Console output.
    pub console: String,
    /// Host link output.
    pub sent: Vec<u8>,
    /// Host link input that was not read yet.
    pub received: VecDeque<u8>,
    /// Number of bytes that the host link accepts before it is full.
    pub serial_room: usize,
    /// How the machine was stopped.
    pub power: Option<Power>,
}

impl FakeMachine {
    /// A machine with `limit` frames.
    pub fn new(limit: usize) -> Self {
        FakeMachine { limit, serial_room: usize::MAX, seed: 1, ..FakeMachine::default() }
    }

    /// Number of allocated frames.
    pub fn frames_in_use(&self) -> usize {
        self.frames.len() - self.free.len()
    }
}

impl FakeMachine {
    /// Splits a large page and removes its mappings.
    fn split(&mut self, first: u32) {
        self.large.remove(&first);
        self.splits += 1;
        let shows = |(space, at): &(u32, u64)| self.mapped[space].get(at).is_some_and(|(frame, _)| frame.0 == first);
        let gone: Vec<_> = self.large_mapped.iter().copied().filter(shows).collect();
        gone.into_iter().for_each(|(space, at)| self.unmap(Aspace(space), at, LARGE_PAGES));
    }
}
