//! The machine beneath the objects, on seL4. Each file implements the roles ([`objects::machine`]) that belong to it.
//!
//! | part | content |
//! |---|---|
//! | [`arch`] | what is the processor's: registers, instructions, ports |
//! | [`chunks`] | memory in pieces of 2 MiB |
//! | [`memory`] | pages and kernel objects from chunks, capability slots, the window |
//! | [`idle`] | pool of ended address spaces and threads for reuse |
//! | [`heap`] | the allocator for the objects' own data |
//! | [`programs`] | address spaces of programs, with the pages that the machine keeps in them |
//! | [`aspace`] | their mappings and paging structures |
//! | [`thread`] | threads of programs, and the protocol between them and the server |
//! | [`clock`] | time |
//! | [`devices`] | device memory and I/O ports for programs |
//! | [`endpoints`] | seL4 endpoints for programs |
//! | [`runners`] | threads that run the code of virtual processors |
//! | [`components`] | native components as clients |
//! | [`interrupts`] | interrupts for programs |
//! | [`serial`] | console, host link, date, power |
//! | [`random`] | random numbers |
//! | [`bootfile`] | the boot file, from the root task |
//! | [`log`] | lines on the console |
//! | [`record`] | the last calls, for the report when the server dies |
//! | [`run`] | the start, and the event loop |
//! | [`sys`] | the kernel's operations as used here |
//! | [`single`] | the cell for global state |
//!
//! Three things keep the fast path short. The server sees every page of every program through its window, so it finds a
//! program's memory by an addition. The capabilities that each call uses are in the first level of the capability
//! space. And a call that only touches objects does not involve the machine: the event loop calls the library at once.

pub mod arch;
pub mod aspace;
pub mod bootfile;
pub mod chunks;
pub mod clock;
mod components;
pub mod devices;
pub mod endpoints;
pub mod heap;
mod idle;
pub mod interrupts;
pub mod log;
pub mod memory;
mod programs;
pub mod random;
mod record;
pub mod run;
pub mod runners;
pub mod serial;
pub mod single;
pub mod sys;
pub mod thread;

use alloc::vec::Vec;

use objects::containers::growth::OutOfMemory;
use objects::machine::{Irq, IrqKey, ThreadKey};
use server_boot::BootInfo;
use server_boot::cspace::{IRQ_LINK, IRQ_TIMER, root_slot};

use aspace::Tables;
use clock::Clock;
use devices::Devices;
use endpoints::Endpoints;
use idle::IDLE_SPACES;
use interrupts::Interrupts;
use memory::Memory;
use programs::Program;
use random::Random;
use runners::Runners;
use serial::Link;
use thread::Threads;

/// Notification bit: the alarm fired.
pub const SIGNAL_TIMER: u64 = 1;
/// Notification bit: the host link has bytes, or room.
pub const SIGNAL_LINK: u64 = 2;
/// Notification bit: the root task has events.
pub const SIGNAL_COMPONENTS: u64 = server_boot::COMPONENT_EVENTS_BADGE & !thread::NOTIFICATION;

/// The machine.
pub struct Sel4 {
    memory: Memory,
    tables: Tables,
    programs: Vec<Option<Program>>,
    free_programs: Vec<u32>,
    /// Idle address spaces: those of ended processes, with nothing in them but idle threads.
    idle_programs: [Option<u32>; IDLE_SPACES],
    threads: Threads,
    endpoints: Endpoints,
    runners: Runners,
    clock: Clock,
    random: Random,
    link: Link,
    devices: Devices,
    interrupts: Interrupts,
    flags: u64,
}

impl Sel4 {
    /// Takes over what the root task prepared. The heap must be initialised.
    pub fn new(boot: &BootInfo) -> Result<Self, OutOfMemory> {
        let mut memory = Memory::new(boot.chunks, boot.root_bits as u8)?;
        let devices = Devices::new(boot, &mut memory)?;
        let mut machine = Sel4 {
            memory,
            tables: Tables::default(),
            programs: Vec::new(),
            free_programs: Vec::new(),
            idle_programs: [None; IDLE_SPACES],
            threads: Threads::default(),
            endpoints: Endpoints::default(),
            runners: Runners::default(),
            clock: Clock::new(boot),
            random: Random::new(),
            link: Link::new(),
            devices,
            interrupts: Interrupts::new(boot)?,
            flags: boot.flags,
        };
        machine.listen(root_slot(IRQ_TIMER), SIGNAL_TIMER)?;
        if boot.link != 0 {
            machine.listen(root_slot(IRQ_LINK), SIGNAL_LINK)?;
            machine.link.open(boot.link as u16);
        }
        let slot = machine.memory.slot_alloc()?;
        sys::mint_notification(slot, server_boot::COMPONENT_EVENTS_BADGE).map_err(|_| OutOfMemory)?;
        machine.interrupts.own_notification(SIGNAL_COMPONENTS, slot);
        if let Some(seconds) = serial::date() {
            machine.clock.set_date(seconds);
        }
        Ok(machine)
    }

    fn listen(&mut self, irq: u64, signal: u64) -> Result<(), OutOfMemory> {
        let slot = self.memory.slot_alloc()?;
        let listening = sys::mint_notification(slot, thread::NOTIFICATION | signal);
        listening.and_then(|()| sys::irq_listen(irq, slot)).map_err(|_| OutOfMemory)?;
        self.interrupts.own_notification(signal, slot);
        Ok(())
    }

    /// Programs' interrupts in a badge.
    pub fn interrupts_of_badge(badge: u64) -> impl Iterator<Item = Irq> {
        Interrupts::of_badge(badge)
    }

    /// A program's interrupt arrived: returns its key, if it is still watched.
    pub fn interrupt_came(&self, irq: Irq) -> Option<IrqKey> {
        self.interrupts.came(irq)
    }

    /// Handles the alarm's interrupt.
    pub fn timer_fired(&mut self) {
        self.clock.fired();
        sys::irq_ack(root_slot(IRQ_TIMER));
    }

    /// Handles the host link's interrupt.
    pub fn link_interrupt(&mut self) {
        // The acknowledgement comes first: the line is edge-triggered, so bytes that arrive while the port is served
        // must raise a new interrupt.
        sys::irq_ack(root_slot(IRQ_LINK));
        self.link.interrupt();
    }

    /// Sets the thread whose call is being handled.
    #[inline]
    pub fn set_caller(&mut self, caller: Option<ThreadKey>) {
        self.threads.set_caller(caller);
    }

    /// The answer that the last kernel entry of the event delivers: the TCB, and the message.
    #[inline]
    pub fn take_late(&mut self) -> Option<(u64, sel4::Message)> {
        self.threads.take_late()
    }

    /// The thread that a badge identifies.
    #[inline(always)]
    pub fn thread_of(&self, badge: u64) -> ThreadKey {
        self.threads.key_of(badge)
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }
}
