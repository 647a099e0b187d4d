//! Restricted mode: a thread runs other code, with separate registers, until that code makes a system call, faults, or
//! the thread is kicked (`docs/virtual-processors.md`, "Restricted mode").
//!
//! 1. A thread that *binds* state gets a one-page VMO for the registers, which the machine also maps for the vDSO, a
//!    runner in its process's own address space, and an endpoint at which it receives the runner's messages. The runner
//!    uses the thread's vector registers: both modes share them.
//! 2. *Enter*: the first time, and after step 4, the server copies the registers from the page to the runner. After a
//!    system call the vDSO passes them in its reply, without the server.
//! 3. The vDSO receives. It handles a system call without the server.
//! 4. For all other messages it calls the server: if the thread would not have noticed the page fault, the server
//!    handles it and the runner continues; otherwise the server stops the runner and writes its registers and the
//!    reason to the page ([`Kernel::restricted_stop`]).
//! 5. A *kick* sets a flag that the vDSO checks, and interrupts its receive. A thread without bound state keeps the
//!    kick until it binds some.
//! 6. A suspended thread also holds its runner, if that runs. If the runner runs, or is about to send a message, the
//!    thread is in restricted mode, and its registers are the runner's.
//!
//! The vDSO's data for this is behind the thread's IPC buffer ([`abi::vdso_restricted`]). A program that changes it
//! harms only itself: the server checks everything that affects more than the thread.

use alloc::boxed::Box;
use core::mem::offset_of;

use abi::{
    Status, VDSO_RESTRICTED, ZX_EXCP_HW_BREAKPOINT, vdso_restricted, zx_exception_report_t, zx_restricted_exception_t,
    zx_restricted_state_t,
};
use zerocopy::{FromZeros, IntoBytes};

use crate::arch::{Breakpoints, DebugRegisters, GeneralRegisters, Registers};
use crate::containers::growth::OutOfMemory;
use crate::containers::slab::Key;
use crate::core::account::CountKind;
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::{EndpointUse, Machine, MachineDoorbell, MachineRunner, MachineThread, PAGE, RunnerState};
use crate::memory::vmo::{Pin, Vmo};
use crate::task::endpoint::Endpoint;
use crate::task::thread::Thread;

/// State of a thread that has bound restricted state.
pub(crate) struct Restricted {
    machine: MachineThread,
    /// The account of the thread's job.
    account: Key,
    endpoint: Id<Endpoint>,
    doorbell: MachineDoorbell,
    runner: MachineRunner,
    page: Page,
    /// The runner is stopped because the thread is held (6).
    held: bool,
    /// The thread is held in restricted mode.
    shows: bool,
}

/// The page with a thread's state.
struct Page {
    vmo: Id<Vmo>,
    pin: Pin,
    /// The address at which the machine maps it for the vDSO.
    address: u64,
}

macro_rules! word {
    ($field:ident) => {
        VDSO_RESTRICTED + offset_of!(vdso_restricted, $field)
    };
}

impl<M: Machine> Kernel<M> {
    /// `restricted_bind_state` with an empty VMO of one page (1); replaces the state bound before.
    ///
    /// # Errors
    /// `NOT_SUPPORTED`: the machine cannot, or the thread is a component's. `ALREADY_BOUND`: it has a virtual
    /// processor. `NO_RESOURCES`: it has no free slot, or its job's quota of threads is used up. `NO_MEMORY`.
    pub fn restricted_bind(&mut self, id: Id<Thread>, vmo: Id<Vmo>) -> Result<(), Status> {
        self.no_component_thread(id)?;
        let thread = self.objects.get(id)?;
        if thread.vproc.is_some() {
            return Err(Status::ALREADY_BOUND);
        }
        let machine = thread.machine.filter(|_| self.machine.runs_foreign()).ok_or(Status::NOT_SUPPORTED)?;
        let page = self.restricted_page(machine, vmo)?;
        let address = page.address;
        if let Some(restricted) = &mut self.objects.get_mut(id)?.restricted {
            let old = core::mem::replace(&mut restricted.page, page);
            self.restricted_page_end(machine, old);
        } else {
            self.restricted_begin(id, machine, page)?;
        }
        self.machine.thread_set_word(machine, word!(state), address);
        Ok(())
    }

    fn restricted_page(&mut self, machine: MachineThread, vmo: Id<Vmo>) -> Result<Page, Status> {
        let pin = self.vmo_pin(vmo, 0, PAGE)?;
        let frame = self.vmo_pinned_frame(&pin, 0);
        let shown = frame
            .ok_or(OutOfMemory)
            .and_then(|frame| self.retry_with_reaper(|kernel| kernel.machine.thread_map_page(machine, frame)));
        match shown {
            Ok(address) => Ok(Page { vmo, pin, address }),
            Err(OutOfMemory) => {
                self.vmo_unpin(pin);
                Err(Status::NO_MEMORY)
            }
        }
    }

    fn restricted_page_end(&mut self, machine: MachineThread, page: Page) {
        self.machine.thread_unmap_page(machine, page.address);
        self.vmo_unpin(page.pin);
    }

    /// Sets up the parts other than the page. On an error the page is unmapped.
    fn restricted_begin(&mut self, id: Id<Thread>, machine: MachineThread, page: Page) -> Result<(), Status> {
        let made = self.restricted_parts(id, machine);
        let (account, endpoint, slot, doorbell, runner) = match made {
            Ok(parts) => parts,
            Err(status) => {
                self.restricted_page_end(machine, page);
                return Err(status);
            }
        };
        let thread = self.objects.get_mut(id)?;
        if thread.debugged
            && let Some(registers) = self.machine.thread_debug(machine)
        {
            self.machine.runner_set_debug(runner, &registers);
        }
        let kicked = core::mem::take(&mut thread.kicked);
        thread.restricted = Some(Box::new(Restricted {
            machine,
            account,
            endpoint,
            doorbell,
            runner,
            page,
            held: false,
            shows: false,
        }));
        for (word, value) in [(word!(slot), slot.into()), (word!(owed), 0), (word!(kicked), u64::from(kicked))] {
            self.machine.thread_set_word(machine, word, value);
        }
        Ok(())
    }

    #[allow(clippy::type_complexity, reason = "taken apart where it is called")]
    fn restricted_parts(
        &mut self,
        id: Id<Thread>,
        machine: MachineThread,
    ) -> Result<(Key, Id<Endpoint>, u8, MachineDoorbell, MachineRunner), Status> {
        let thread = self.objects.get(id)?;
        let (process, priority) = (thread.process, thread.priority);
        let aspace = self.restricted_aspace(process)?;
        let aspace = self.aspaces.get(aspace).ok_or(Status::BAD_STATE)?.machine;
        let account = self.objects.get(process)?.account;
        self.accounts.count(account, CountKind::Threads, 1)?;
        let made = self.endpoint_create().and_then(|endpoint| {
            self.add_ref(endpoint.object());
            let receive = EndpointUse { call: false, send: false, receive: true };
            let parts = self.endpoint_mint(endpoint, id, 0, receive).and_then(|slot| {
                let of = self.objects.get(endpoint)?.of_machine();
                let made = self.retry_with_reaper(|kernel| {
                    let doorbell = kernel.machine.doorbell_create(machine)?;
                    let runner = kernel.machine.runner_create(aspace, of, priority);
                    let runner = runner.inspect_err(|_| kernel.machine.doorbell_destroy(doorbell))?;
                    kernel.machine.runner_shares(runner, machine);
                    Ok((doorbell, runner))
                });
                made.map(|(doorbell, runner)| (slot, doorbell, runner)).map_err(|OutOfMemory| Status::NO_MEMORY)
            });
            parts.map(|(slot, doorbell, runner)| (account, endpoint, slot, doorbell, runner)).inspect_err(|_| {
                self.endpoint_unreachable(endpoint);
                self.drop_ref(endpoint.object());
            })
        });
        made.inspect_err(|_| self.accounts.uncount(account, CountKind::Threads, 1))
    }

    /// `restricted_unbind_state`; no effect if none is bound.
    pub fn restricted_unbind(&mut self, id: Id<Thread>) {
        let Ok(thread) = self.objects.get_mut(id) else { return };
        let Some(restricted) = thread.restricted.take() else { return };
        let Restricted { machine, account, endpoint, doorbell, runner, page, .. } = *restricted;
        // It may have been kicked since it was last in restricted mode.
        thread.kicked = self.machine.thread_word(machine, word!(kicked)) != 0;
        for word in [word!(state), word!(owed)] {
            self.machine.thread_set_word(machine, word, 0);
        }
        let runtime = self.machine.runner_runtime(runner).unwrap_or(0);
        self.thread_ran(id, runtime);
        self.machine.runner_destroy(runner);
        self.accounts.uncount(account, CountKind::Threads, 1);
        self.endpoint_unreachable(endpoint);
        self.drop_ref(endpoint.object());
        self.machine.doorbell_destroy(doorbell);
        self.restricted_page_end(machine, page);
    }

    /// `restricted_enter` through the server (2). Says whether the thread now runs the other code; it does not if it
    /// was kicked.
    ///
    /// # Errors
    /// `BAD_STATE`: no state is bound, or the state is invalid.
    pub fn restricted_enter(&mut self, id: Id<Thread>) -> Result<bool, Status> {
        let restricted = self.objects.get(id)?.restricted.as_ref().ok_or(Status::BAD_STATE)?;
        let (machine, runner, vmo) = (restricted.machine, restricted.runner, restricted.page.vmo);
        let mut state = zx_restricted_state_t::new_zeroed();
        self.vmo_read(vmo, 0, state.as_mut_bytes())?;
        let registers = Registers::of_restricted(&state).ok_or(Status::BAD_STATE)?;
        if self.machine.thread_word(machine, word!(kicked)) != 0 {
            self.machine.thread_set_word(machine, word!(kicked), 0);
            return Ok(false);
        }
        // The runner no longer waits for a reply.
        self.restricted_keep(machine, &registers);
        self.machine.thread_set_word(machine, word!(owed), 0);
        self.machine.runner_enter(runner, &registers);
        Ok(true)
    }

    fn restricted_keep(&mut self, machine: MachineThread, registers: &Registers) {
        for (word, value) in registers.kept() {
            self.machine.thread_set_word(machine, word, value);
        }
    }

    /// The registers of a runner.
    fn restricted_registers(&mut self, machine: MachineThread, runner: MachineRunner) -> Registers {
        let found = self.machine.runner_registers(runner);
        found.with_kept(|word| self.machine.thread_word(machine, word))
    }

    /// The thread leaves restricted mode other than by a system call: stops the runner, and writes its registers and
    /// the reason to the page (4).
    ///
    /// # Errors
    /// `BAD_STATE`: no state is bound.
    pub fn restricted_stop(&mut self, id: Id<Thread>, report: Option<&zx_exception_report_t>) -> Result<(), Status> {
        let restricted = self.objects.get(id)?.restricted.as_ref().ok_or(Status::BAD_STATE)?;
        let (machine, runner, vmo) = (restricted.machine, restricted.runner, restricted.page.vmo);
        self.machine.runner_stop(runner);
        let registers = self.restricted_registers(machine, runner);
        self.machine.thread_set_word(machine, word!(owed), 0);
        // The runner hit the breakpoint on behalf of the thread, so the thread's status must tell it.
        if report.is_some_and(|report| report.header.type_ == ZX_EXCP_HW_BREAKPOINT)
            && let (Some(of_runner), Some(of_thread)) =
                (self.machine.runner_debug(runner), self.machine.thread_debug(machine))
        {
            self.machine.thread_set_debug(machine, &of_thread.with_status_of(&of_runner));
        }
        self.vmo_write(vmo, 0, registers.to_restricted().as_bytes())?;
        match report {
            Some(report) => {
                self.vmo_write(vmo, offset_of!(zx_restricted_exception_t, exception) as u64, report.as_bytes())
            }
            None => Ok(()),
        }
    }

    /// Whether a thread has state bound.
    pub fn restricted_is_bound(&self, id: Id<Thread>) -> bool {
        self.objects.get(id).is_ok_and(|thread| thread.restricted.is_some())
    }

    /// `restricted_kick` (5).
    ///
    /// # Errors
    /// `BAD_STATE`: the thread has ended or is ending.
    pub fn restricted_kick(&mut self, id: Id<Thread>) -> Result<(), Status> {
        let thread = self.objects.get_mut(id)?;
        if thread.has_ended() || thread.end_reported {
            return Err(Status::BAD_STATE);
        }
        match &thread.restricted {
            None => thread.kicked = true,
            Some(restricted) => {
                let (machine, doorbell) = (restricted.machine, restricted.doorbell);
                self.machine.thread_set_word(machine, word!(kicked), 1);
                self.machine.doorbell_ring(doorbell);
            }
        }
        Ok(())
    }

    /// A thread was stopped: holds its runner (6).
    pub(crate) fn restricted_hold(&mut self, id: Id<Thread>) {
        let Ok(Thread { restricted: Some(restricted), .. }) = self.objects.get_mut(id) else { return };
        let runs = self.machine.runner_hold(restricted.runner);
        (restricted.held, restricted.shows) = (runs == RunnerState::Running, runs != RunnerState::Idle);
    }

    /// A thread is resumed. If it was kicked, it learns that before its runner runs.
    pub(crate) fn restricted_release(&mut self, id: Id<Thread>) {
        let Ok(Thread { restricted: Some(restricted), .. }) = self.objects.get_mut(id) else { return };
        restricted.shows = false;
        if core::mem::take(&mut restricted.held) && self.machine.thread_word(restricted.machine, word!(kicked)) == 0 {
            self.machine.runner_release(restricted.runner);
        }
    }

    /// The registers of a thread held in restricted mode.
    pub(crate) fn restricted_shown(&mut self, id: Id<Thread>) -> Option<Registers> {
        let restricted = self.objects.get(id).ok()?.restricted.as_ref().filter(|restricted| restricted.shows)?;
        let (machine, runner) = (restricted.machine, restricted.runner);
        Some(self.restricted_registers(machine, runner))
    }

    /// Sets the registers of a thread held in restricted mode. A message that the runner was about to send is dropped.
    pub(crate) fn restricted_show(&mut self, id: Id<Thread>, registers: &Registers) {
        let Ok(Thread { restricted: Some(restricted), .. }) = self.objects.get_mut(id) else { return };
        let (machine, runner) = (restricted.machine, restricted.runner);
        restricted.held = true;
        self.machine.runner_set_registers(runner, registers);
        self.restricted_keep(machine, registers);
    }

    /// The debug registers of the runner of a thread that is held in restricted mode.
    pub(crate) fn restricted_debug_shown(&mut self, id: Id<Thread>) -> Option<DebugRegisters> {
        let restricted = self.objects.get(id).ok()?.restricted.as_ref().filter(|restricted| restricted.shows)?;
        self.machine.runner_debug(restricted.runner)
    }

    /// Gives the runner the breakpoints that a stopped thread was given, so that they also apply in restricted mode.
    pub(crate) fn restricted_set_debug(&mut self, id: Id<Thread>, registers: &DebugRegisters) {
        let Ok(Thread { restricted: Some(restricted), .. }) = self.objects.get(id) else { return };
        if let Some(before) = self.machine.runner_debug(restricted.runner) {
            self.machine.runner_set_debug(restricted.runner, &registers.with_status_of(&before));
        }
    }

    /// Run time of a thread's runner in nanoseconds; it counts for the thread.
    pub(crate) fn restricted_runtime(&mut self, id: Id<Thread>) -> i64 {
        let Ok(Thread { restricted: Some(restricted), .. }) = self.objects.get(id) else { return 0 };
        self.machine.runner_runtime(restricted.runner).unwrap_or(0)
    }

    /// Gives the runner the thread's new priority.
    pub(crate) fn restricted_priority(&mut self, id: Id<Thread>) {
        let Ok(Thread { restricted: Some(restricted), priority, .. }) = self.objects.get(id) else { return };
        self.machine.runner_set_priority(restricted.runner, *priority);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The flags that code may set.
    const FLAGS: u64 = abi::HAFNON_RESTRICTED_FLAGS;
    use crate::containers::name::Name;
    use crate::core::handle::Handle;
    use crate::fake::{FakeMachine, RUNNER_RAN};

    struct World {
        kernel: Kernel<FakeMachine>,
        thread: Id<Thread>,
        vmo: Id<Vmo>,
    }

    fn world() -> World {
        let mut kernel = Kernel::new(FakeMachine::new(64)).unwrap();
        let job = kernel.root_job().unwrap();
        let (process, _) = kernel.process_create(job, Name::new(b"p")).unwrap();
        let thread = kernel.thread_create(process, Name::new(b"t")).unwrap();
        kernel.process_begin(process, None).unwrap();
        kernel.thread_start(thread, &Registers { rip: 77, ..Registers::default() }).unwrap();
        kernel.dup_handle(Handle { object: thread.object(), rights: abi::Rights::NONE });
        let mut world = World { kernel, thread, vmo: Id::new(thread.object()) };
        world.bind().unwrap();
        world
    }

    impl World {
        fn bind(&mut self) -> Result<(), Status> {
            self.vmo = self.kernel.vmo_create(PAGE, false)?;
            let handle = self.kernel.dup_handle(Handle { object: self.vmo.object(), rights: abi::Rights::NONE });
            let bound = self.kernel.restricted_bind(self.thread, self.vmo);
            self.kernel.close(handle);
            bound
        }

        fn enter(&mut self, state: zx_restricted_state_t) -> Result<bool, Status> {
            self.kernel.vmo_write(self.vmo, 0, state.as_bytes()).unwrap();
            self.kernel.restricted_enter(self.thread)
        }

        /// Number of runners, and of those that run.
        fn runners(&self) -> (usize, usize) {
            let all = &self.kernel.machine.runners;
            (all.len(), all.values().filter(|runs| **runs).count())
        }
    }

    #[test]
    fn a_bound_state_ends_with_the_thread_or_before() {
        let mut world = world();
        assert_eq!(world.kernel.vproc_create(world.thread, false).err(), Some(Status::ALREADY_BOUND));
        world.bind().unwrap();
        assert_eq!(world.runners(), (1, 0));
        assert_eq!(world.enter(zx_restricted_state_t::default()), Ok(true));
        assert_eq!(world.runners(), (1, 1));
        assert_eq!(world.kernel.thread_runtime(world.thread), Ok(RUNNER_RAN));
        for _ in 0..2 {
            world.kernel.restricted_unbind(world.thread);
            world.kernel.reap();
            // The thread keeps the run time.
            assert_eq!(world.kernel.thread_runtime(world.thread), Ok(RUNNER_RAN));
            assert_eq!(world.runners(), (0, 0));
            assert!(world.kernel.machine.doorbells.is_empty() && world.kernel.machine.endpoints.own.is_empty());
        }
        assert_eq!(world.kernel.restricted_enter(world.thread), Err(Status::BAD_STATE));
        let (vproc, _) = world.kernel.vproc_create(world.thread, false).unwrap();
        assert_eq!(world.bind(), Err(Status::ALREADY_BOUND));
        world.kernel.vproc_unreachable(vproc);
        world.bind().unwrap();
        world.enter(zx_restricted_state_t::default()).unwrap();
        assert_eq!(world.kernel.thread_runtime(world.thread), Ok(2 * RUNNER_RAN));
        world.kernel.thread_kill(world.thread);
        world.kernel.reap();
        assert_eq!(world.kernel.thread_runtime(world.thread), Ok(2 * RUNNER_RAN));
        assert_eq!(world.runners(), (0, 0));
        assert!(world.kernel.machine.doorbells.is_empty() && world.kernel.machine.endpoints.own.is_empty());
        assert!(world.kernel.machine.endpoints.minted.is_empty());
    }

    #[test]
    fn states_that_cannot_be() {
        let mut world = world();
        let good = zx_restricted_state_t { flags: FLAGS, fs_base: u64::MAX, gs_base: 1 << 46, ..Default::default() };
        assert_eq!(world.enter(good), Ok(true));
        for bad in [
            zx_restricted_state_t { ip: 1 << 47, ..good },
            zx_restricted_state_t { flags: FLAGS | 1 << 9, ..good },
            zx_restricted_state_t { flags: 2, ..good },
            zx_restricted_state_t { fs_base: 1 << 47, ..good },
            zx_restricted_state_t { gs_base: 1 << 63, ..good },
        ] {
            assert_eq!(world.enter(bad), Err(Status::BAD_STATE));
        }
    }

    #[test]
    fn a_kick_is_reported_once() {
        let mut world = world();
        let state = zx_restricted_state_t::default();
        world.kernel.restricted_kick(world.thread).unwrap();
        world.kernel.restricted_kick(world.thread).unwrap();
        // The kick stays while no state is bound.
        world.kernel.restricted_unbind(world.thread);
        world.bind().unwrap();
        assert_eq!(world.enter(state), Ok(false));
        assert_eq!(world.enter(state), Ok(true));
        world.kernel.restricted_kick(world.thread).unwrap();
        assert_eq!(world.kernel.machine.doorbells.values().collect::<alloc::vec::Vec<_>>(), [&1]);
        world.kernel.thread_kill(world.thread);
        assert_eq!(world.kernel.restricted_kick(world.thread), Err(Status::BAD_STATE));
    }

    #[test]
    fn a_held_thread_holds_its_runner() {
        let mut world = world();
        world.enter(zx_restricted_state_t { ip: 5, gs_base: 9, ..Default::default() }).unwrap();
        world.kernel.objects.get_mut(world.thread).unwrap().suspends = 1;
        world.kernel.thread_settle(world.thread);
        assert_eq!(world.runners(), (1, 0));
        assert_eq!(world.kernel.thread_registers(world.thread).unwrap().gs_base, 9);
        let registers = Registers { rip: 6, gs_base: 10, ..Registers::default() };
        world.kernel.thread_set_registers(world.thread, &registers).unwrap();
        assert_eq!(world.kernel.thread_registers(world.thread).unwrap().gs_base, 10);
        world.kernel.objects.get_mut(world.thread).unwrap().suspends = 0;
        world.kernel.thread_settle(world.thread);
        assert_eq!(world.runners(), (1, 1));
        // A kick takes precedence.
        world.kernel.objects.get_mut(world.thread).unwrap().suspends = 1;
        world.kernel.thread_settle(world.thread);
        world.kernel.restricted_kick(world.thread).unwrap();
        world.kernel.objects.get_mut(world.thread).unwrap().suspends = 0;
        world.kernel.thread_settle(world.thread);
        assert_eq!(world.runners(), (1, 0));
    }

    #[test]
    fn breakpoints_are_those_of_both_modes() {
        let mut world = world();
        world.bind().unwrap();
        let wanted = DebugRegisters { addresses: [0x1000, 0, 0, 0], status: u64::MAX, control: 1 | 1 << 13 };
        assert_eq!(world.kernel.thread_set_debug(world.thread, &wanted), Err(Status::BAD_STATE));
        world.kernel.objects.get_mut(world.thread).unwrap().suspends = 1;
        world.kernel.thread_settle(world.thread);
        for invalid in [
            DebugRegisters { addresses: [0, 0, 0, crate::machine::USER_TOP], ..wanted },
            DebugRegisters { control: 1 | 2 << 16, ..wanted },
            DebugRegisters { control: 1 | 1 << 18, ..wanted },
            DebugRegisters { addresses: [0x1001, 0, 0, 0], control: 2 | 0b0101 << 16, ..wanted },
        ] {
            assert_eq!(world.kernel.thread_set_debug(world.thread, &invalid), Err(Status::INVALID_ARGS));
        }
        let of_runners =
            |world: &World| world.kernel.machine.runner_debug.values().copied().collect::<alloc::vec::Vec<_>>();
        assert!(of_runners(&world).is_empty());
        world.kernel.thread_set_debug(world.thread, &wanted).unwrap();
        let found = world.kernel.thread_debug(world.thread).unwrap();
        assert_eq!((found.addresses, found.status, found.control), (wanted.addresses, 0xffff_0ff0, 0x701));
        assert_eq!(of_runners(&world), [DebugRegisters { status: 0, ..found }]);
        // The runner of the next bound state gets them too, and gets none after they were removed.
        for (control, count) in [(1, 1), (0, 0)] {
            world.kernel.thread_set_debug(world.thread, &DebugRegisters { control, ..wanted }).unwrap();
            world.kernel.restricted_unbind(world.thread);
            world.bind().unwrap();
            assert_eq!(of_runners(&world).len(), count);
        }
    }
}
