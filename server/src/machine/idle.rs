//! The idle pool: ended threads and address spaces that are kept for reuse.
//!
//! A thread consists of two kernel objects, the capabilities to and in them, and a mapped page. An address space
//! consists of a root with an ASID, and paging structures. Processes and threads are created and destroyed often, so
//! the server keeps a few of both *idle* instead of destroying them: up to [`IDLE_THREADS`] threads in each address
//! space, for its next threads; up to [`IDLE_SPACES`] emptied address spaces with one idle thread each, for the next
//! processes; and some paging structures that belong to no address space. An idle thread is in the state of a new one
//! ([`Threads::make_idle`](super::thread::Threads::make_idle)). Before it goes to another process, its buffer is
//! zeroed.
//!
//! The server frees all of it when memory is short ([`Sel4::with_all`]), and does not count it as in use.

use objects::containers::growth::{Grows, OutOfMemory};
use objects::machine::{
    Aspace, KEPT, KEPT_END, MachineThread, MachineUsage, Memory as _, PAGE_SIZE, ThreadKey, USER_TOP,
};

use super::aspace::Space;
use super::memory::thread_objects::THREAD_UNITS;
use super::{Program, Sel4};

/// Maximum number of idle threads per address space.
pub const IDLE_THREADS: usize = 2;
/// Maximum number of idle address spaces.
pub const IDLE_SPACES: usize = 4;
/// Units of paging structures in an idle address space: its root, and the tables above the buffers if it has a thread.
const SPACE_UNITS: u64 = 1;
const BUFFER_UNITS: u64 = 3;

impl Sel4 {
    /// Runs `make`. If it fails for lack of memory and there is something idle, frees that and runs `make` again.
    #[inline]
    pub(super) fn with_all<T>(&mut self, make: impl Fn(&mut Self) -> Result<T, OutOfMemory>) -> Result<T, OutOfMemory> {
        match make(self) {
            Err(OutOfMemory) if self.give_up_idle() => make(self),
            made => made,
        }
    }

    /// Destroys everything idle. Returns whether there was anything.
    #[cold]
    fn give_up_idle(&mut self) -> bool {
        let spaces = core::mem::take(&mut self.idle_programs);
        let mut some = false;
        for number in spaces.into_iter().flatten() {
            self.space_destroy(number);
            some = true;
        }
        for number in 0..self.programs.len() {
            let idle = self.programs[number]
                .as_mut()
                .map_or([None; IDLE_THREADS], |program| core::mem::take(&mut program.idle));
            for thread in idle.into_iter().flatten() {
                self.thread_destroy_made(thread);
                some = true;
            }
        }
        self.tables.give_up_spares(&mut self.memory) || some
    }

    fn thread_destroy_made(&mut self, thread: MachineThread) {
        if let Some(gone) = self.threads.destroy(&mut self.memory, thread) {
            self.buffer_end(Aspace(gone.aspace), gone.buffer);
        }
    }

    /// Destroys an address space with everything in it.
    fn space_destroy(&mut self, number: u32) {
        let idle =
            self.program(Aspace(number)).map_or([None; IDLE_THREADS], |program| core::mem::take(&mut program.idle));
        idle.into_iter().flatten().for_each(|thread| self.thread_destroy_made(thread));
        if let Some(program) = self.programs.get_mut(number as usize).and_then(Option::take) {
            program.space.destroy(&mut self.memory, &mut self.tables);
            self.free_programs.push(number);
            program.component.into_iter().for_each(|parts| self.component_end(parts));
        }
    }

    /// Takes an idle address space for a new process, and zeroes its threads' buffers.
    pub(super) fn space_reuse(&mut self) -> Option<Aspace> {
        let number = self.idle_programs.iter_mut().find_map(Option::take)?;
        for thread in self.programs[number as usize].as_ref()?.idle.into_iter().flatten() {
            if let Some(frame) = self.threads.buffer(thread) {
                self.frame_zero(frame, 0, PAGE_SIZE);
            }
        }
        Some(Aspace(number))
    }

    pub(super) fn space_make(&mut self) -> Result<Aspace, OutOfMemory> {
        self.programs_room()?;
        let space = Space::new(&mut self.memory, &mut self.tables)?;
        Ok(self.program_add(Program::new(space, None)))
    }

    /// Makes room for one more program.
    pub(super) fn programs_room(&mut self) -> Result<(), OutOfMemory> {
        if self.free_programs.is_empty() {
            self.programs.room(1)?;
            self.free_programs.room(self.programs.len() + 1)?;
        }
        Ok(())
    }

    /// Adds a program, for which there is room.
    pub(super) fn program_add(&mut self, program: Program) -> Aspace {
        if let Some(number) = self.free_programs.pop() {
            self.programs[number as usize] = Some(program);
            return Aspace(number);
        }
        self.programs.push(Some(program));
        Aspace(self.programs.len() as u32 - 1)
    }

    pub(super) fn thread_make(&mut self, aspace: Aspace, key: ThreadKey) -> Result<MachineThread, OutOfMemory> {
        if let Some(parts) = self.program(aspace).and_then(|program| program.component) {
            return self.component_thread(parts, aspace, key);
        }
        let buffer = self.buffer_make(aspace)?;
        let vspace = self.program(aspace).map_or(0, |program| program.space.vspace);
        let thread = self.threads.create(&mut self.memory, vspace, aspace.0, buffer, key);
        thread.inspect_err(|_| self.buffer_end(aspace, buffer))
    }

    /// Takes an idle thread of the address space for a new thread.
    pub(super) fn thread_reuse(&mut self, aspace: Aspace, key: ThreadKey) -> Option<MachineThread> {
        let thread = self.program(aspace)?.idle.iter_mut().find_map(Option::take)?;
        self.threads.reuse(thread, key);
        Some(thread)
    }

    /// A thread has ended: makes it idle, or destroys it.
    pub(super) fn thread_end(&mut self, thread: MachineThread) {
        let Some(aspace) = self.threads.aspace(thread) else { return };
        let place = self.program(Aspace(aspace)).and_then(|program| program.idle.iter().position(Option::is_none));
        match place {
            Some(place) if self.threads.make_idle(thread) => {
                if let Some(program) = self.program(Aspace(aspace)) {
                    program.idle[place] = Some(thread);
                }
            }
            _ => self.thread_destroy_made(thread),
        }
    }

    /// A process has ended: makes its address space idle, or destroys it.
    pub(super) fn space_end(&mut self, aspace: Aspace) {
        let unfit = self.program(aspace).is_some_and(|program| program.unfit);
        let Some(place) = self.idle_programs.iter().position(Option::is_none).filter(|_| !unfit) else {
            return self.space_destroy(aspace.0);
        };
        if let Some(program) = self.programs.get_mut(aspace.0 as usize).and_then(Option::as_mut) {
            let further = program.idle.iter_mut().filter(|idle| idle.is_some()).nth(1).and_then(Option::take);
            for (start, end) in [(0, KEPT), (KEPT_END, USER_TOP)] {
                program.space.unmap(&mut self.memory, &mut self.tables, start, end);
            }
            self.idle_programs[place] = Some(aspace.0);
            further.into_iter().for_each(|thread| self.thread_destroy_made(thread));
        }
    }

    /// The resources in use, without the idle pool.
    pub(super) fn held_by_others(&self) -> MachineUsage {
        let mut usage = self.memory.usage();
        let idle = self.threads.idle();
        // A thread's buffer is a page, and one of the thread's capabilities is in a loose slot.
        (usage.frames, usage.slots) = (usage.frames - idle, usage.slots - idle);
        usage.units -= idle * THREAD_UNITS;
        usage.units -= self.tables.spares();
        for number in self.idle_programs.into_iter().flatten() {
            let has_thread =
                self.programs[number as usize].as_ref().is_some_and(|p| p.idle.iter().any(Option::is_some));
            usage.units -= SPACE_UNITS + if has_thread { BUFFER_UNITS } else { 0 };
        }
        usage
    }
}
