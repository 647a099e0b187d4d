//! Events of a virtual processor, and the upcalls that report them to its owner (`docs/virtual-processors.md`).
//!
//! 1. An event is a kick, or a packet in a bound port. It is marked as pending in the page. If events are disabled
//!    there, the doorbell interrupts the owner's receive, and that is all. Otherwise an upcall is due.
//! 2. If the owner is in no system call and not held, the upcall happens at once. If the owner is making the current
//!    call, it happens when the result is known ([`Kernel::upcall_at_return`]). If the owner is blocked in a call or
//!    stopped, it happens when the owner becomes ready again. [`Kernel::turn_thread_ready`] detects that without an
//!    extra check: a thread for which an upcall is due counts as noted in no turn.
//! 3. The upcall: the owner is stopped, its registers go to the page's save area, events are disabled, and the owner
//!    continues at the entry vector. If it is resuming a state at user level, between enabling events and the jump, the
//!    save area holds that state and stays unchanged.
//!
//! The server reads and writes the page while the owner does not run, because the server has priority over all
//! programs. The content of the page is the owner's responsibility: an owner that changes it harms only itself.

use abi::{HAFNON_VPROC_EVENTS_OFFSET, Status, hafnon_vproc_events_t};
use core::mem::offset_of;
use zerocopy::{FromZeros, IntoBytes};

use super::Vproc;
use crate::arch::{Architecture, GeneralRegisters, Native};
use crate::core::object::Id;
use crate::core::object::WOKEN;
use crate::core::port::Port;
use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::memory::vmo::Vmo;
use crate::task::thread::{Thread, ThreadState};

macro_rules! place {
    ($field:ident) => {
        HAFNON_VPROC_EVENTS_OFFSET + offset_of!(hafnon_vproc_events_t, $field) as u64
    };
}

impl<M: Machine> Kernel<M> {
    /// Step 1, also `vproc_kick`.
    ///
    /// # Errors
    /// `BAD_STATE`: its owner has ended. `NO_MEMORY`: the page cannot be committed again; the doorbell is rung anyway.
    pub fn vproc_event(&mut self, id: Id<Vproc>) -> Result<(), Status> {
        let vproc = self.objects.get(id)?;
        if vproc.stopped {
            return Err(Status::BAD_STATE);
        }
        let (page, doorbell, owner) = (vproc.page, vproc.doorbell, vproc.owner);
        let noted = self.vmo_write(page, place!(pending), 1u64.as_bytes());
        if noted.is_ok() && self.vproc_events(page).enabled == 1 {
            self.objects.get_mut(id)?.due = true;
            self.vproc_owner_ready(owner);
        } else {
            self.machine.doorbell_ring(doorbell);
        }
        noted
    }

    /// `vproc_bind`: packets of a port become events.
    ///
    /// # Errors
    /// `BAD_STATE`: its owner has ended. `ALREADY_BOUND`: the port is bound.
    pub fn vproc_bind(&mut self, id: Id<Vproc>, port: Id<Port>) -> Result<(), Status> {
        if self.objects.get(id)?.stopped {
            return Err(Status::BAD_STATE);
        }
        let bound: Option<Id<Vproc>> = self.objects.get(port)?.vproc.map(Id::new);
        if bound.is_some_and(|other| self.objects.get(other).is_ok_and(|other| !other.stopped)) {
            return Err(Status::ALREADY_BOUND);
        }
        self.objects.get_mut(port)?.vproc = Some(id.object());
        self.port_notify_vproc(port);
        Ok(())
    }

    /// Undoes [`Kernel::vproc_bind`].
    ///
    /// # Errors
    /// `NOT_FOUND`: the port is not bound to this virtual processor.
    pub fn vproc_unbind(&mut self, id: Id<Vproc>, port: Id<Port>) -> Result<(), Status> {
        let port = self.objects.get_mut(port)?;
        if port.vproc != Some(id.object()) {
            return Err(Status::NOT_FOUND);
        }
        port.vproc = None;
        Ok(())
    }

    /// Step 2: makes the upcall that is due for a thread, if any, or arranges another check.
    pub(crate) fn vproc_owner_ready(&mut self, owner: Id<Thread>) {
        let Ok(thread) = self.objects.get_mut(owner) else { return };
        let Some(id) = thread.vproc.map(Id::new) else { return };
        let (ready, machine) = (thread.is_ready() && !thread.is_waiting(), thread.machine());
        if !ready && thread.state == ThreadState::Running {
            // Noted in no turn.
            thread.noted = 0;
        }
        let (true, Some(machine)) = (ready, machine) else { return };
        if self.machine.thread_calls(machine) {
            self.upcall_request(owner);
        } else if self.vproc_is_due(id) {
            self.vproc_upcall(id, owner);
        }
    }

    /// Requests a check for a due upcall at the end of a thread's call.
    pub(crate) fn upcall_request(&mut self, owner: Id<Thread>) {
        if self.objects.get(owner).is_ok_and(|thread| thread.vproc.is_some()) {
            self.unsettled |= WOKEN;
            self.upcall = true;
        }
    }

    /// Whether [`Kernel::upcall_at_return`] must be called.
    #[inline]
    pub fn upcall_is_requested(&mut self) -> bool {
        core::mem::take(&mut self.upcall)
    }

    /// Step 2, when the result of a thread's call is known, or is known to come later. Says whether an upcall was made:
    /// the thread then has the result already.
    pub fn upcall_at_return(&mut self, key: u32, result: Option<i64>) -> bool {
        let Some(owner) = self.thread_at(key) else { return false };
        let Ok(thread) = self.objects.get_mut(owner) else { return false };
        let (Some(id), Some(machine)) = (thread.vproc.map(Id::new), thread.machine()) else { return false };
        let (Some(result), false) = (result, thread.is_waiting()) else {
            thread.noted = 0;
            return false;
        };
        if !self.vproc_is_due(id) {
            return false;
        }
        self.machine.thread_wake(machine, result);
        self.vproc_upcall(id, owner);
        true
    }

    /// Whether an upcall is due and possible: the owner may have taken the event meanwhile, or disabled events.
    fn vproc_is_due(&mut self, id: Id<Vproc>) -> bool {
        let Ok(vproc) = self.objects.get_mut(id) else { return false };
        let due = core::mem::take(&mut vproc.due) && !vproc.stopped;
        let (page, doorbell) = (vproc.page, vproc.doorbell);
        if !due {
            return false;
        }
        let events = self.vproc_events(page);
        let can = events.enabled == 1 && Native::is_user_address(events.entry_ip);
        if events.pending != 0 && !can {
            self.machine.doorbell_ring(doorbell);
        }
        events.pending != 0 && can
    }

    /// Step 3 for an owner that is neither stopped nor blocked in a call.
    fn vproc_upcall(&mut self, id: Id<Vproc>, owner: Id<Thread>) {
        let Ok(vproc) = self.objects.get(id) else { return };
        let (page, doorbell) = (vproc.page, vproc.doorbell);
        let Some(machine) = self.objects.get(owner).ok().and_then(Thread::machine) else { return };
        let found = self.machine.thread_interrupt(machine);
        let found = self.with_stack_pointer(owner, found);
        let events = self.vproc_events(page);
        let resumes = (events.resume_from..events.resume_to).contains(&found.ip());
        let mut told = self.vmo_write(page, place!(enabled), 0u64.as_bytes());
        told = told.and_then(|()| self.vmo_write(page, place!(interrupted), found.ip().as_bytes()));
        if !resumes {
            told = told.and_then(|()| self.vmo_write(page, place!(saved), found.to_vproc().as_bytes()));
        }
        let entry = found.upcall(events.entry_ip, events.entry_sp);
        if told.is_err() {
            self.machine.doorbell_ring(doorbell);
        }
        self.machine.thread_divert(machine, if told.is_ok() { &entry } else { &found });
    }

    /// The event words of a page; zeroes if it has none.
    fn vproc_events(&mut self, page: Id<Vmo>) -> hafnon_vproc_events_t {
        let mut events = hafnon_vproc_events_t::new_zeroed();
        match self.vmo_read(page, HAFNON_VPROC_EVENTS_OFFSET, events.as_mut_bytes()) {
            Ok(()) => events,
            Err(_) => hafnon_vproc_events_t::new_zeroed(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::containers::name::Name;
    use crate::fake::FakeMachine;
    use crate::machine::Registers;
    use crate::task::blocking::Wait;

    const ENTRY: u64 = 0x4000_0000;
    const STACK: u64 = 0x5000_0000;

    struct World {
        kernel: Kernel<FakeMachine>,
        owner: Id<Thread>,
        vproc: Id<Vproc>,
        page: Id<Vmo>,
    }

    /// An owner that runs at address 77, with events enabled or not.
    fn world(enabled: u64) -> World {
        let mut kernel = Kernel::new(FakeMachine::new(64)).unwrap();
        let job = kernel.root_job().unwrap();
        let (process, _) = kernel.process_create(job, Name::new(b"p")).unwrap();
        let owner = kernel.thread_create(process, Name::new(b"t")).unwrap();
        kernel.process_begin(process, None).unwrap();
        kernel.thread_start(owner, &Registers { rip: 77, rbx: 5, rflags: 0x302, ..Registers::default() }).unwrap();
        let (vproc, page) = kernel.vproc_create(owner, false).unwrap();
        let mut world = World { kernel, owner, vproc, page };
        world.write(place!(entry_ip), ENTRY);
        world.write(place!(entry_sp), STACK);
        world.write(place!(enabled), enabled);
        world
    }

    impl World {
        fn write(&mut self, at: u64, word: u64) {
            self.kernel.vmo_write(self.page, at, word.as_bytes()).unwrap();
        }

        fn events(&mut self) -> hafnon_vproc_events_t {
            self.kernel.vproc_events(self.page)
        }

        fn event(&mut self) {
            self.kernel.vproc_event(self.vproc).unwrap();
        }

        /// The owner's instruction pointer, and how often the doorbell was rung.
        fn at(&mut self) -> (u64, u32) {
            let machine = self.kernel.objects.get(self.owner).unwrap().machine().unwrap();
            let rings = self.kernel.machine.doorbells.values().sum();
            (self.kernel.machine.threads[&machine.0].registers.rip, rings)
        }
    }

    #[test]
    fn an_owner_that_runs_is_interrupted_once() {
        let mut world = world(1);
        world.event();
        assert_eq!(world.at(), (ENTRY, 0));
        let events = world.events();
        assert_eq!((events.enabled, events.pending, events.interrupted), (0, 1, 77));
        assert_eq!((events.saved.ip, events.saved.rbx, events.saved.flags), (77, 5, 0x302));
        // A second event stays pending.
        world.event();
        assert_eq!((world.at(), world.events().saved), ((ENTRY, 1), events.saved));
    }

    #[test]
    fn code_that_resumes_a_state_keeps_the_save_area() {
        for (from, to, kept) in [(77, 78, true), (70, 77, false), (78, 90, false), (77, 77, false)] {
            let mut world = world(1);
            world.write(place!(resume_from), from);
            world.write(place!(resume_to), to);
            world.event();
            assert_eq!(world.at(), (ENTRY, 0));
            assert_eq!(world.events().saved.ip == 0, kept, "{from} to {to}");
        }
    }

    #[test]
    fn without_events_or_an_entry_the_bell_is_rung() {
        let mut disabled = world(0);
        disabled.event();
        assert_eq!((disabled.at(), disabled.events().pending), ((77, 1), 1));
        let mut nowhere = world(1);
        nowhere.write(place!(entry_ip), 1 << 47);
        nowhere.event();
        assert_eq!((nowhere.at(), nowhere.events().enabled), ((77, 1), 1));
    }

    #[test]
    fn a_call_is_not_torn_apart() {
        let mut world = world(1);
        world.kernel.block(world.owner, Wait::Sleep, 1_000_000).unwrap();
        world.event();
        assert_eq!(world.at(), (77, 0));
        world.kernel.finish_wait(world.owner, Status::TIMED_OUT);
        assert_eq!(world.at(), (ENTRY, 0));
        // Another thread of the process has taken the event meanwhile, or events were disabled.
        for (pending, enabled, rings) in [(0, 1, 0), (1, 0, 1)] {
            let mut world = self::world(1);
            world.kernel.block(world.owner, Wait::Sleep, 1_000_000).unwrap();
            world.event();
            world.write(place!(pending), pending);
            world.write(place!(enabled), enabled);
            world.kernel.finish_wait(world.owner, Status::TIMED_OUT);
            assert_eq!(world.at(), (77, rings));
        }
    }

    #[test]
    fn an_own_call_is_answered_first() {
        let mut world = world(1);
        let machine = world.kernel.objects.get(world.owner).unwrap().machine();
        world.kernel.machine.caller = machine;
        world.event();
        assert_eq!(world.at(), (77, 0));
        assert!(world.kernel.is_unsettled() && world.kernel.upcall_is_requested());
        let key = world.owner.object().index();
        assert!(world.kernel.upcall_at_return(key, Some(-3)));
        assert_eq!(world.at(), (ENTRY, 0));
        assert_eq!(world.kernel.machine.threads[&machine.unwrap().0].woken, [-3]);
        assert!(!world.kernel.upcall_at_return(key, Some(0)));
    }

    #[test]
    fn packets_of_a_bound_port_are_events() {
        let mut world = world(0);
        let port = world.kernel.port_create(false).unwrap();
        world.kernel.vproc_bind(world.vproc, port).unwrap();
        assert_eq!(world.kernel.vproc_bind(world.vproc, port), Err(Status::ALREADY_BOUND));
        assert_eq!(world.events().pending, 0);
        world.kernel.port_queue(port, [0; crate::core::port::PACKET_SIZE]).unwrap();
        assert_eq!((world.events().pending, world.at()), (1, (77, 1)));
        world.kernel.vproc_unbind(world.vproc, port).unwrap();
        assert_eq!(world.kernel.vproc_unbind(world.vproc, port), Err(Status::NOT_FOUND));
        world.write(place!(pending), 0);
        world.kernel.port_queue(port, [0; crate::core::port::PACKET_SIZE]).unwrap();
        assert_eq!(world.events().pending, 0);
        // A packet that is in the port already is reported.
        world.kernel.vproc_bind(world.vproc, port).unwrap();
        assert_eq!(world.events().pending, 1);
        world.kernel.thread_kill(world.owner);
        world.kernel.port_queue(port, [0; crate::core::port::PACKET_SIZE]).unwrap();
        assert_eq!(world.kernel.objects.get(port).unwrap().vproc, None);
    }
}
