//! Address spaces of programs, with what the machine keeps in them: IPC buffers, and pages that the vDSO uses.

use alloc::vec::Vec;

use objects::containers::growth::{Grows, OutOfMemory};
use objects::machine::{AddressSpaces, Aspace, Cache, Frame, KEPT, KEPT_END, MachineThread, PAGE, Perm, USER_TOP};

use super::Sel4;
use super::aspace::Space;
use super::components::ComponentSlots;
use super::idle::IDLE_THREADS;
use super::thread::Buffer;

/// Maximum number of the server's own pages in an address space: IPC buffers, and pages that the vDSO uses. They are
/// mapped from [`KEPT`] on.
const KEPT_PAGES: u32 = ((KEPT_END - KEPT) / PAGE) as u32;

/// The parts of a range below and above the server's own pages. The second part is mostly empty.
#[inline]
fn parts(address: u64, pages: u64) -> [(u64, u64); 2] {
    let end = address.saturating_add(pages.saturating_mul(PAGE));
    if end <= KEPT { [(address, end), (0, 0)] } else { [(address, KEPT), (address.max(KEPT_END), end.min(USER_TOP))] }
}

/// One address space, with what the machine keeps in it.
pub(super) struct Program {
    pub(super) space: Space,
    /// Freed places for the server's own pages, and the next place that was never used.
    pub(super) free_places: Vec<u32>,
    pub(super) next_place: u32,
    /// Idle threads, at most [`IDLE_THREADS`].
    pub(super) idle: [Option<MachineThread>; IDLE_THREADS],
    /// The capabilities of a component, if it is one.
    pub(super) component: Option<ComponentSlots>,
    /// It cannot be reused for another process.
    pub(super) unfit: bool,
}

impl Program {
    pub(super) fn new(space: Space, component: Option<ComponentSlots>) -> Program {
        Program {
            space,
            free_places: Vec::new(),
            next_place: 0,
            idle: [None; IDLE_THREADS],
            unfit: component.is_some(),
            component,
        }
    }
}

impl Sel4 {
    pub(super) fn program(&mut self, aspace: Aspace) -> Option<&mut Program> {
        self.programs.get_mut(aspace.0 as usize)?.as_mut()
    }

    /// Maps a new IPC buffer into an address space.
    pub(super) fn buffer_make(&mut self, aspace: Aspace) -> Result<Buffer, OutOfMemory> {
        let frame = self.memory.frame_alloc()?;
        let mapped = self.hidden_map(aspace, frame).inspect_err(|_| self.memory.frame_free(frame));
        mapped.map(|(address, mapping)| Buffer { frame, address, mapping })
    }

    /// Maps a page of the server's own; returns the address, and the capability that maps it.
    pub(super) fn hidden_map(&mut self, aspace: Aspace, frame: Frame) -> Result<(u64, u64), OutOfMemory> {
        let place = {
            let program = self.program(aspace).ok_or(OutOfMemory)?;
            // Makes sure that a freed place finds room in the list.
            let reserve = program.next_place as usize + 1 - program.free_places.len();
            program.free_places.room(reserve)?;
            match program.free_places.pop() {
                Some(place) => place,
                None if program.next_place == KEPT_PAGES => return Err(OutOfMemory),
                None => {
                    program.next_place += 1;
                    program.next_place - 1
                }
            }
        };
        let address = KEPT + u64::from(place) * PAGE;
        let perm = Perm { read: true, write: true, execute: false };
        let (memory, tables) = (&mut self.memory, &mut self.tables);
        let program = self.programs[aspace.0 as usize].as_ref().ok_or(OutOfMemory)?;
        let mapped = program.space.map(memory, tables, address, frame, perm, Cache::Cached);
        let mapping = mapped.and_then(|()| program.space.mapping(tables, address).ok_or(OutOfMemory));
        if mapping.is_err()
            && let Some(program) = self.program(aspace)
        {
            program.free_places.push(place);
        }
        mapping.map(|mapping| (address, mapping))
    }

    pub(super) fn hidden_unmap(&mut self, aspace: Aspace, address: u64) {
        if let Some(program) = &mut self.programs[aspace.0 as usize] {
            program.space.unmap(&mut self.memory, &mut self.tables, address, address + PAGE);
            program.free_places.push(((address - KEPT) / PAGE) as u32);
        }
    }

    pub(super) fn buffer_end(&mut self, aspace: Aspace, buffer: Buffer) {
        self.hidden_unmap(aspace, buffer.address);
        self.memory.frame_free(buffer.frame);
    }
}

impl AddressSpaces for Sel4 {
    fn aspace_create(&mut self) -> Result<Aspace, OutOfMemory> {
        match self.space_reuse() {
            Some(aspace) => Ok(aspace),
            None => self.with_all(Self::space_make),
        }
    }

    fn aspace_destroy(&mut self, aspace: Aspace) {
        self.space_end(aspace);
    }

    fn aspace_bytes(&self, aspace: Aspace) -> u64 {
        let program = self.programs.get(aspace.0 as usize).and_then(Option::as_ref);
        program.map_or(0, |program| program.space.bytes(&self.memory))
    }

    fn map(&mut self, aspace: Aspace, address: u64, frame: Frame, perm: Perm, cache: Cache) -> Result<(), OutOfMemory> {
        self.with_all(|machine| {
            let program = machine.programs.get(aspace.0 as usize).and_then(Option::as_ref).ok_or(OutOfMemory)?;
            program.space.map(&mut machine.memory, &mut machine.tables, address, frame, perm, cache)
        })
    }

    fn stretch(&self, aspace: Aspace, address: u64, pages: u64, most: u32) -> u64 {
        let Some((start, end)) = parts(address, pages).into_iter().find(|(start, end)| start < end) else {
            return pages;
        };
        let program = self.programs.get(aspace.0 as usize).and_then(Option::as_ref);
        let stop = program.map_or(end, |program| program.space.stretch(&self.tables, start, end, most));
        (stop.saturating_sub(address) / PAGE).max(1)
    }

    fn unmap_some(&mut self, aspace: Aspace, address: u64, pages: u64, most: u32) -> u64 {
        let Self { programs, memory, tables, .. } = self;
        let Some(program) = programs.get(aspace.0 as usize).and_then(Option::as_ref) else { return pages };
        for (start, end) in parts(address, pages).into_iter().filter(|(start, end)| start < end) {
            let stop = program.space.unmap_some(memory, tables, start, end, most);
            if stop < end {
                return (stop.saturating_sub(address) / PAGE).max(1);
            }
        }
        pages
    }

    fn map_run(
        &mut self,
        aspace: Aspace,
        address: u64,
        frames: &[Frame],
        perm: Perm,
        cache: Cache,
    ) -> Result<(), OutOfMemory> {
        let program = self.programs.get(aspace.0 as usize).and_then(Option::as_ref).ok_or(OutOfMemory)?;
        program.space.map_run(&mut self.memory, &mut self.tables, address, frames, perm, cache)
    }

    fn knows_written(&self) -> bool {
        sel4::KNOWS_WRITTEN
    }

    fn written(&mut self, aspace: Aspace, address: u64, pages: u32) -> u64 {
        let program = self.programs.get(aspace.0 as usize).and_then(Option::as_ref);
        program.map_or(0, |program| program.space.written(&self.memory, &self.tables, address, pages.min(64)))
    }

    fn frame_is_large(&self, frame: Frame) -> bool {
        self.memory.is_large(frame)
    }

    fn map_large(
        &mut self,
        aspace: Aspace,
        address: u64,
        first: Frame,
        perm: Perm,
        cache: Cache,
    ) -> Result<(), OutOfMemory> {
        let program = self.programs.get(aspace.0 as usize).and_then(Option::as_ref).ok_or(OutOfMemory)?;
        program.space.map_large(&mut self.memory, &mut self.tables, address, first, perm, cache)
    }

    fn unmap(&mut self, aspace: Aspace, address: u64, pages: u64) {
        if let Some(program) = self.programs.get(aspace.0 as usize).and_then(Option::as_ref) {
            for (start, end) in parts(address, pages).into_iter().filter(|(start, end)| start < end) {
                program.space.unmap(&mut self.memory, &mut self.tables, start, end);
            }
        }
    }

    fn protect(&mut self, aspace: Aspace, address: u64, pages: u64, within: Perm) {
        if let Some(program) = self.programs.get(aspace.0 as usize).and_then(Option::as_ref) {
            for (start, end) in parts(address, pages).into_iter().filter(|(start, end)| start < end) {
                program.space.protect(&mut self.memory, &mut self.tables, (start, end), within);
            }
        }
    }
}
