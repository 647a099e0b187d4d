//! Native components as clients: their threads call this server like those of programs.
//!
//! 1. The root task says that a component waits, and gives capabilities to its thread, address space and capability space, all
//!    three copies. A table of the server's own stands for the address space's root, which is not looked at: tables are made and
//!    mapped below it as for any other, and nothing of the component's own lies in that range.
//! 2. Its thread gets the server's endpoint, badged as any thread's, a page for arguments, and its answer.
//! 3. When the process has ended, the endpoint is taken from the thread, which then notices, wherever it is; pages and tables are
//!    taken out of its address space; and the three capabilities go.
//! 4. When the component ends, the root task takes away what it was made of, the copies too. What step 3 then does to it fails,
//!    and what was mapped is nowhere any more. When the server ends, it is the other way round: what it has mapped is its
//!    own, and the kernel takes it out of the component's address space.

use component_boot::layout;
use objects::containers::growth::OutOfMemory;
use objects::machine::{Aspace, COMPONENT_BASE, KEPT, MachineThread, ThreadKey};
use server_boot::service;

use super::aspace::Space;
use super::memory::Memory;
use super::thread::done;
use super::{Program, Sel4, sys};

const _: () = assert!(COMPONENT_BASE == layout::WINDOW && KEPT == layout::CALLS);

/// Where the capabilities of a component stand (1).
#[derive(Clone, Copy)]
pub struct Parts {
    /// Its thread's.
    pub tcb: u64,
    vspace: u64,
    /// Its capability space's.
    pub cnode: u64,
    /// Its thread is one of the server's, which tells it what there is to be told.
    adopted: bool,
}

impl Parts {
    fn new(memory: &mut Memory) -> Result<Parts, OutOfMemory> {
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
        Ok(Parts { tcb, vspace, cnode, adopted: false })
    }

    fn free(self, memory: &mut Memory) {
        for slot in [self.tcb, self.vspace, self.cnode] {
            sys::delete(slot);
            memory.slot_free(slot);
        }
    }
}

impl Sel4 {
    /// Step 1. On an error the component has been told.
    pub(super) fn take_component(&mut self, component: u8) -> Result<(Aspace, [u8; 32]), OutOfMemory> {
        let Ok(parts) = Parts::new(&mut self.memory) else {
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

    fn space_of(&mut self, parts: Parts) -> Result<Aspace, OutOfMemory> {
        self.programs_room()?;
        let space = Space::of_component(&mut self.memory, &mut self.tables, parts.vspace)?;
        Ok(self.program_add(Program::new(space, Some(parts))))
    }

    /// Step 2.
    pub(super) fn component_thread(
        &mut self,
        parts: Parts,
        aspace: Aspace,
        key: ThreadKey,
    ) -> Result<MachineThread, OutOfMemory> {
        let buffer = self.buffer_make(aspace)?;
        match self.threads.adopt(parts, aspace.0, buffer, key) {
            Ok(thread) => {
                if let Some(program) = self.program(aspace) {
                    program.component = Some(Parts { adopted: true, ..parts });
                }
                Ok(thread)
            }
            Err(error) => {
                self.buffer_end(aspace, buffer);
                Err(error)
            }
        }
    }

    /// Steps 3 and 4, the last of them.
    pub(super) fn component_end(&mut self, parts: Parts) {
        if !parts.adopted {
            sys::answer(parts.tcb, done(NO_MEMORY));
        }
        parts.free(&mut self.memory);
    }
}

/// What a component is told that cannot become a client.
pub const NO_MEMORY: i64 = abi::Status::NO_MEMORY.0 as i64;
