//! Shared processes: processes that share the upper half of their address spaces, their handles and their futexes.
//!
//! The first of them, the *prototype*, is created with `ZX_PROCESS_SHARED`; its address space is only the upper half.
//! Each further one, a *member*, also has its own lower half, its *restricted* half, which is all that its code in
//! restricted mode can access. Threads of all of them use the same handles, and a futex in the upper half is the same
//! for all.
//!
//! The shared parts belong to the prototype: its handle table ([`Process::holder`]), and an address space with its root
//! VMAR. The machine cannot share half an address space, so one address space *shows* a part of another:
//!
//! 1. An address in that part is looked up in the other address space ([`Kernel::space_of`]). A page is mapped in the
//!    machine's address space of the thread that touches it, by a separate fault.
//! 2. Pages that are unmapped from an address space, or lose permissions, do so in the machine's address spaces of all
//!    that show it ([`each_machine`]).
//! 3. Code in restricted mode runs in a third address space, which shows its process's lower half and is created when
//!    restricted state is first bound ([`Kernel::restricted_aspace`]).
//! 4. A process that ends destroys its own address spaces: first the one for restricted mode, then its lower half. The
//!    last process destroys the shared half; the prototype's object lasts until then, even if it has ended
//!    ([`Kernel::sharing_leave`]).

use abi::Status;

use crate::containers::growth::Grows;
use crate::containers::name::Name;
use crate::containers::slab::Key;
use crate::core::account::{CountKind, SPACE};
use crate::core::continuation::UNMAP_BATCH_PAGES;
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::{Machine, Perm, USER_BASE, USER_HALF, USER_TOP};
use crate::memory::aspace::{AddressSpace, SharedPart, each_machine};
use crate::memory::vmar::Vmar;
use crate::task::process::{Kind, Process, ProcessRemains, ProcessState};
use crate::task::thread::Thread;

/// Most members that a prototype can have at a time: each unmapping in the shared half is repeated for each of them.
pub const MEMBERS: usize = 256;

/// A process's role in sharing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sharing {
    /// It shares nothing.
    Alone,
    /// It is the prototype.
    Prototype {
        /// The shared half.
        half: Key,
        /// Number of processes that still share, including itself.
        sharers: usize,
    },
    /// It is a member.
    Member {
        /// Its prototype.
        prototype: Id<Process>,
        /// Its address space for restricted mode.
        restricted: Option<Key>,
    },
}

impl Sharing {
    pub(crate) fn new(kind: Kind, aspace: Key) -> Sharing {
        match kind {
            Kind::Alone | Kind::Component(..) => Sharing::Alone,
            Kind::Prototype => Sharing::Prototype { half: aspace, sharers: 0 },
            Kind::Member(prototype) => Sharing::Member { prototype, restricted: None },
        }
    }

    /// What a process that ends destroys, whatever others do (4); `aspace` was its address space.
    pub(crate) fn left(self, id: Id<Process>, aspace: Option<Key>) -> ProcessRemains {
        match self {
            Sharing::Alone => ProcessRemains { aspaces: [aspace, None], holder: Some(id), shares: false },
            Sharing::Prototype { .. } => ProcessRemains { shares: true, ..ProcessRemains::default() },
            Sharing::Member { restricted, .. } => {
                ProcessRemains { aspaces: [restricted, aspace], holder: None, shares: true }
            }
        }
    }
}

impl Process {
    /// The process whose table holds its handles; `own` is this process.
    pub fn holder(&self, own: Id<Process>) -> Id<Process> {
        match self.sharing {
            Sharing::Member { prototype, .. } => prototype,
            _ => own,
        }
    }
}

impl Thread {
    /// The process whose table holds its handles.
    pub fn holder(&self) -> Id<Process> {
        self.holder
    }
}

impl<M: Machine> Kernel<M> {
    /// `process_create` with `ZX_PROCESS_SHARED`; its root VMAR is the upper half.
    ///
    /// # Errors
    /// As [`Kernel::process_create`].
    pub fn process_create_prototype(
        &mut self,
        job: Id<crate::task::job::Job>,
        name: Name,
    ) -> Result<(Id<Process>, Id<Vmar>), Status> {
        self.process_make(job, name, Kind::Prototype)
    }

    /// `process_create_shared`: creates a process in the same job, with the root VMAR of its lower half.
    ///
    /// # Errors
    /// `INVALID_ARGS`: the other process shares nothing. `BAD_STATE`: all that shared have ended. `NO_RESOURCES`: there
    /// are [`MEMBERS`] already, or a job's quota is used up. `NO_MEMORY`.
    pub fn process_create_shared(&mut self, with: Id<Process>, name: Name) -> Result<(Id<Process>, Id<Vmar>), Status> {
        let process = self.objects.get(with)?;
        let (prototype, job) = (process.holder(with), process.job);
        self.process_make(job, name, Kind::Member(prototype))
    }

    /// What the address space of a new process shows.
    pub(crate) fn shows(&self, kind: Kind) -> Result<Option<SharedPart>, Status> {
        let Kind::Member(prototype) = kind else { return Ok(None) };
        match self.objects.get(prototype)?.sharing {
            Sharing::Prototype { sharers: 0, .. } => Err(Status::BAD_STATE),
            Sharing::Prototype { sharers, .. } if sharers > MEMBERS => Err(Status::NO_RESOURCES),
            Sharing::Prototype { half, .. } => Ok(Some(SharedPart { of: half, from: USER_HALF, end: USER_TOP })),
            _ => Err(Status::INVALID_ARGS),
        }
    }

    /// A process was created: counts it as a sharer and keeps the prototype alive.
    pub(crate) fn sharing_join(&mut self, id: Id<Process>) {
        let Ok(holder) = self.objects.get(id).map(|process| process.holder(id)) else { return };
        if holder != id {
            self.add_ref(holder.object());
        }
        if let Ok(Process { sharing: Sharing::Prototype { sharers, .. }, .. }) = self.objects.get_mut(holder) {
            *sharers += 1;
        }
    }

    /// A process that shares has ended, its threads are stopped, and its own address spaces are destroyed. Returns what
    /// to destroy next: the shared parts, if it was the last (4).
    pub(crate) fn sharing_leave(&mut self, id: Id<Process>) -> ProcessRemains {
        let holder = self.objects.get(id).map_or(id, |process| process.holder(id));
        let Ok(Process { sharing: Sharing::Prototype { half, sharers }, .. }) = self.objects.get_mut(holder) else {
            return ProcessRemains::default();
        };
        *sharers = sharers.saturating_sub(1);
        if *sharers > 0 {
            return ProcessRemains::default();
        }
        let half = *half;
        self.aspace_ends(half);
        if let Ok(account) = self.objects.get(holder).map(|process| process.account) {
            self.accounts.uncount(account, CountKind::Processes, 1);
        }
        ProcessRemains { aspaces: [Some(half), None], holder: Some(holder), shares: false }
    }

    /// A thread is about to be started. A member's first thread starts its process, too. It gets no argument handle,
    /// since it has all handles already.
    pub(crate) fn shared_begin(&mut self, id: Id<Thread>) -> Result<(), Status> {
        let id = self.objects.get(id)?.process;
        let process = self.objects.get(id)?;
        if process.state == ProcessState::Created && matches!(process.sharing, Sharing::Member { .. }) {
            self.process_begin(id, None)?;
        }
        Ok(())
    }

    /// The address space in which code of a process runs in restricted mode (3). An additional one counts as a process,
    /// because the number of address spaces is limited.
    ///
    /// # Errors
    /// `BAD_STATE`: it has ended. `NO_MEMORY`. `NO_RESOURCES`: a job's quota is used up.
    pub fn restricted_aspace(&mut self, id: Id<Process>) -> Result<Key, Status> {
        let process = self.objects.get(id)?;
        let (aspace, account) = (process.aspace.ok_or(Status::BAD_STATE)?, process.account);
        match process.sharing {
            Sharing::Member { restricted: None, .. } => {}
            Sharing::Member { restricted: Some(restricted), .. } => return Ok(restricted),
            _ => return Ok(aspace),
        }
        self.may_charge(id.object(), SPACE)?;
        self.accounts.count(account, CountKind::Processes, 1)?;
        let made = self.aspace_create(None, Some(SharedPart { of: aspace, from: USER_BASE, end: USER_HALF }));
        let key = made.inspect_err(|_| self.accounts.uncount(account, CountKind::Processes, 1))?;
        self.charge(id.object(), SPACE);
        if let Some(space) = self.aspaces.get_mut(key) {
            space.payer = Some(id.object());
        }
        if let Ok(Process { sharing: Sharing::Member { restricted, .. }, .. }) = self.objects.get_mut(id) {
            *restricted = Some(key);
        }
        Ok(key)
    }

    /// Makes an address space show a part of another one.
    pub(crate) fn space_shows(&mut self, key: Key, shows: SharedPart) -> Result<(), Status> {
        let other = self.aspaces.get_mut(shows.of).ok_or(Status::BAD_STATE)?;
        other.shown_in.room(1)?;
        other.shown_in.push(key);
        if let Some(space) = self.aspaces.get_mut(key) {
            space.shows = Some(shows);
            self.showing += 1;
        }
        Ok(())
    }

    /// Ends that; nothing is mapped in its machine's address space any more.
    pub(crate) fn space_hides(&mut self, key: Key) {
        let Some(shows) = self.aspaces.get_mut(key).and_then(|space| space.shows.take()) else { return };
        self.showing -= 1;
        if let Some(other) = self.aspaces.get_mut(shows.of) {
            other.shown_in.retain(|&shown| shown != key);
        }
    }

    /// The address space in whose tree an address is looked up (1).
    #[inline(always)]
    pub(crate) fn space_of(&self, aspace: Key, address: u64) -> Key {
        if self.showing == 0 { aspace } else { self.space_of_shown(aspace, address) }
    }

    #[inline(never)]
    fn space_of_shown(&self, aspace: Key, address: u64) -> Key {
        match self.aspaces.get(aspace) {
            Some(AddressSpace { shows: Some(shows), .. }) if (shows.from..shows.end).contains(&address) => shows.of,
            _ => aspace,
        }
    }

    /// The root VMAR above an address in an address space: that of the part that it shows.
    pub(crate) fn root_after(&self, aspace: Key, address: u64) -> Option<Id<Vmar>> {
        let shows = self.aspaces.get(aspace)?.shows.filter(|shows| address <= shows.from)?;
        self.aspaces.get(shows.of)?.root
    }

    /// The root VMARs of a process: of its own address space, and of the one that it shows.
    ///
    /// # Errors
    /// `BAD_STATE`: it has ended.
    pub fn roots(&self, id: Id<Process>) -> Result<(Id<Vmar>, Option<Id<Vmar>>), Status> {
        let aspace = self.objects.get(id)?.aspace.ok_or(Status::BAD_STATE)?;
        let root = self.aspaces.get(aspace).and_then(|space| space.root).ok_or(Status::BAD_STATE)?;
        Ok((root, self.root_after(aspace, USER_HALF)))
    }

    /// Unmaps pages in all address spaces that may map them (2).
    pub(crate) fn space_unmap(&mut self, aspace: Key, address: u64, pages: u64) {
        let Self { aspaces, machine, .. } = self;
        each_machine(aspaces, aspace, |space| machine.unmap(space, address, pages));
    }

    /// Removes permissions that are not in `within` from pages in all address spaces that may map them (2).
    pub(crate) fn space_protect(&mut self, aspace: Key, address: u64, pages: u64, within: Perm) {
        let Self { aspaces, machine, .. } = self;
        each_machine(aspaces, aspace, |space| machine.protect(space, address, pages, within));
    }

    /// How many of `pages` pages from an address up can be unmapped or changed in one slice.
    pub(crate) fn space_stretch(&self, aspace: Key, address: u64, pages: u64) -> u64 {
        let Some(space) = self.aspaces.get(aspace) else { return pages };
        let most = (UNMAP_BATCH_PAGES / (1 + space.shown_in.len() as u32)).max(1);
        let mut stretch = pages;
        each_machine(&self.aspaces, aspace, |space| {
            stretch = self.machine.stretch(space, address, stretch, most);
        });
        stretch
    }
}

#[cfg(test)]
mod tests;
