//! Native components as clients: their threads call this server like those of programs.
//!
//! 1. The root task reports that a component waits, and gives copies of three capabilities: to its thread, its address
//!    space and its capability space. A table of the server represents the root of the address space, and its contents
//!    are never looked at: the server creates and maps tables below it as for any other, and the component maps nothing
//!    in that range.
//! 2. The component's thread gets the server's endpoint with a badge like any other thread, a page for arguments, and
//!    its answer.
//! 3. When the process has ended, the server deletes the endpoint in the thread's slot, which interrupts the thread
//!    wherever it waits. The server then unmaps its pages and tables from the component's address space, and deletes
//!    the three capabilities.
//! 4. When the component ends, the root task revokes what the component was made of, including the copies. The
//!    operations of step 3 then fail, and all mappings are gone. When the server ends first, the mapped pages belong to
//!    the server, and the kernel unmaps them from the component's address space.

use component_boot::layout;
use objects::containers::growth::OutOfMemory;
use objects::machine::{Aspace, COMPONENT_BASE, KEPT, MachineThread, ThreadKey};
use server_boot::service;

use super::aspace::Space;
use super::memory::Memory;
use super::thread::done;
use super::{Program, Sel4, sys};

const _: () = assert!(COMPONENT_BASE == layout::WINDOW && KEPT == layout::CALLS);

/// Slots of a component's capabilities (step 1).
#[derive(Clone, Copy)]
pub struct ComponentSlots {
    /// Its thread.
    pub tcb: u64,
    vspace: u64,
    /// Its capability space.
    pub cnode: u64,
    /// The thread is in the server's list of threads, so [`Threads`](super::thread::Threads) answers it.
    adopted: bool,
}

impl ComponentSlots {
    fn new(memory: &mut Memory) -> Result<ComponentSlots, OutOfMemory> {
        let mut slots = [0; 3];
        for i in 0..slots.len() {
            match memory.slot_alloc() {
                Ok(slot) => slots[i] = slot,
                Err(error) => {
                    slots[..i].iter().for_each(|slot| memory.slot_free(*slot));
                    return Err(error);
                }
            }
        }
        let [tcb, vspace, cnode] = slots;
        Ok(ComponentSlots { tcb, vspace, cnode, adopted: false })
    }

    fn free(self, memory: &mut Memory) {
        for slot in [self.tcb, self.vspace, self.cnode] {
            sys::delete(slot);
            memory.slot_free(slot);
        }
    }
}

impl Sel4 {
    /// Step 1. On an error the component has been notified.
    pub(super) fn take_component(&mut self, component: u8) -> Result<(Aspace, [u8; 32]), OutOfMemory> {
        let Ok(parts) = ComponentSlots::new(&mut self.memory) else {
            self.refuse_component(component);
            return Err(OutOfMemory);
        };
        let slots = [component.into(), parts.tcb, parts.vspace, parts.cnode];
        let (status, words) = sys::talk_to_root(service::CLIENT, slots);
        let made = if status == service::OK { self.space_of(parts) } else { Err(OutOfMemory) };
        match made {
            Ok(aspace) => {
                let mut name = [0; 32];
                for (to, word) in name.as_chunks_mut().0.iter_mut().zip(words) {
                    *to = word.to_le_bytes();
                }
                Ok((aspace, name))
            }
            Err(error) => {
                if status == service::OK {
                    self.component_end(parts);
                } else {
                    parts.free(&mut self.memory);
                }
                Err(error)
            }
        }
    }

    pub(super) fn refuse_component(&mut self, component: u8) {
        sys::talk_to_root(service::CLIENT, [component.into(), 0, 0, 0]);
    }

    fn space_of(&mut self, parts: ComponentSlots) -> Result<Aspace, OutOfMemory> {
        self.programs_room()?;
        let space = Space::of_component(&mut self.memory, &mut self.tables, parts.vspace)?;
        Ok(self.program_add(Program::new(space, Some(parts))))
    }

    /// Step 2.
    pub(super) fn component_thread(
        &mut self,
        parts: ComponentSlots,
        aspace: Aspace,
        key: ThreadKey,
    ) -> Result<MachineThread, OutOfMemory> {
        let buffer = self.buffer_make(aspace)?;
        match self.threads.adopt(parts, aspace.0, buffer, key) {
            Ok(thread) => {
                if let Some(program) = self.program(aspace) {
                    program.component = Some(ComponentSlots { adopted: true, ..parts });
                }
                Ok(thread)
            }
            Err(error) => {
                self.buffer_end(aspace, buffer);
                Err(error)
            }
        }
    }

    /// The end of steps 3 and 4.
    pub(super) fn component_end(&mut self, parts: ComponentSlots) {
        if !parts.adopted {
            sys::answer(parts.tcb, done(NO_MEMORY));
        }
        parts.free(&mut self.memory);
    }
}

/// The answer to a component that cannot become a client.
pub const NO_MEMORY: i64 = abi::Status::NO_MEMORY.0 as i64;

impl objects::machine::NativeComponents for Sel4 {
    fn component_take(&mut self, component: u8) -> Result<(Aspace, [u8; 32]), OutOfMemory> {
        self.take_component(component)
    }

    fn component_refuse(&mut self, component: u8) {
        self.refuse_component(component);
    }
}
