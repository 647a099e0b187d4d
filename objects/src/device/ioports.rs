//! I/O ports: which ones a process may use, and emulation of its accesses.
//!
//! The processor refuses port instructions (`in`, `out`, ...) in user mode whatever was granted to a process: the
//! kernel below grants ports to capabilities, not to instructions. So such an instruction faults to the server, which
//! decodes it, checks it against the process's grants, executes it, and skips it. A repeated instruction (`rep outsb`)
//! runs in bursts of at most [`BURST`] bytes; the rest faults again.

use abi::Status;

use crate::arch::{GeneralRegisters, PortAccess, PortInstruction, PortOperation, Registers};
use crate::containers::slab::Key;
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::port_grants::PORTS;
use crate::machine::{Machine, PAGE};
use crate::task::process::Process;
use crate::task::thread::Thread;

/// Maximum number of bytes that one fault moves.
pub const BURST: u64 = 512;

/// Result of handling a fault that may be a port access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortFault {
    /// It was, and is done: the thread continues.
    Done,
    /// It was, but needs memory that is not accessible: the thread has a page fault there.
    Memory {
        /// The address.
        address: u64,
        /// The access is a write.
        write: bool,
    },
    /// It was no port access, or one that the process may not make.
    NotGranted,
}

impl<M: Machine> Kernel<M> {
    /// `ioports_request` and `ioports_release`: grants or revokes `count` ports from `first` up.
    ///
    /// # Errors
    /// `INVALID_ARGS`: no such ports. `ACCESS_DENIED`: the system uses one of them itself. `NOT_SUPPORTED`: the machine
    /// has no ports, or the process is a component's, whose faults the server does not handle. `NO_MEMORY`.
    pub fn ioports_set(&mut self, process: Id<Process>, first: u16, count: u32, may: bool) -> Result<(), Status> {
        let end = u32::from(first).checked_add(count);
        if count == 0 || end.is_none_or(|end| end > PORTS) {
            return Err(Status::INVALID_ARGS);
        }
        if !self.machine.has_ports() {
            return Err(Status::NOT_SUPPORTED);
        }
        if may && !self.machine.ports_usable(first, count) {
            return Err(Status::ACCESS_DENIED);
        }
        if may {
            self.no_component(process)?;
        }
        self.objects.get_mut(process)?.ioports.set(first.into(), count, may)
    }

    /// Handles a fault of an instruction that the processor refuses in user mode.
    pub fn ioports_fault(&mut self, thread: Id<Thread>, aspace: Key) -> PortFault {
        let Ok(t) = self.objects.get(thread) else { return PortFault::NotGranted };
        let (process, Some(machine)) = (t.process, t.machine()) else { return PortFault::NotGranted };
        if self.objects.get(process).is_ok_and(|p| p.ioports.is_empty()) {
            return PortFault::NotGranted;
        }
        let mut registers = self.machine.thread_registers(machine);
        let Some(instruction) = self.ioports_decode(aspace, registers.ip()) else { return PortFault::NotGranted };
        let (port, width) = (instruction.port(&registers), instruction.width());
        if !self.objects.get(process).is_ok_and(|p| p.ioports.has(port, width)) {
            return PortFault::NotGranted;
        }
        let done = match instruction.operation() {
            PortOperation::In => {
                let value = self.machine.port_read(port, width);
                instruction.set_value(&mut registers, value);
                PortFault::Done
            }
            PortOperation::Out => {
                self.machine.port_write(port, width, instruction.value(&registers));
                PortFault::Done
            }
            PortOperation::InMemory | PortOperation::OutMemory => {
                self.ioports_string(&instruction, port, &mut registers, aspace)
            }
        };
        if done != PortFault::NotGranted {
            if done == PortFault::Done {
                instruction.finish(&mut registers);
            }
            // If a string reaches inaccessible memory, the elements before it are done.
            self.machine.thread_set_registers(machine, &registers);
        }
        done
    }

    /// The instruction at an address, if it uses a port.
    fn ioports_decode(&mut self, aspace: Key, address: u64) -> Option<PortInstruction> {
        let mut bytes = [0; PortInstruction::LONGEST];
        // The instruction may end at the end of mapped memory.
        let there = bytes.len().min((PAGE - address % PAGE) as usize);
        let (head, tail) = bytes.split_at_mut(there);
        self.copy_in(aspace, address, head).ok()?;
        let mut known = there;
        if !tail.is_empty() && self.copy_in(aspace, address.checked_add(there as u64)?, tail).is_ok() {
            known = PortInstruction::LONGEST;
        }
        PortInstruction::decode(bytes.get(..known)?)
    }

    /// Moves elements of a string between memory and a port, and updates the registers.
    fn ioports_string(
        &mut self,
        instruction: &PortInstruction,
        port: u16,
        registers: &mut Registers,
        aspace: Key,
    ) -> PortFault {
        let width = u64::from(instruction.width().bytes());
        let input = instruction.operation() == PortOperation::InMemory;
        let count = instruction.count(registers);
        for _ in 0..count.min(BURST / width) {
            let Some(address) = instruction.address(registers) else { return PortFault::NotGranted };
            if !self.ioports_memory(aspace, address, width as usize, input) {
                return PortFault::Memory { address, write: input };
            }
            let mut bytes = [0; 4];
            let Some(part) = bytes.get_mut(..width as usize) else { return PortFault::NotGranted };
            if input {
                let value = self.machine.port_read(port, instruction.width());
                part.copy_from_slice(value.to_le_bytes().get(..width as usize).unwrap_or_default());
                if self.copy_out(aspace, address, part).is_err() {
                    return PortFault::NotGranted;
                }
            } else {
                if self.copy_in(aspace, address, part).is_err() {
                    return PortFault::NotGranted;
                }
                self.machine.port_write(port, instruction.width(), u32::from_le_bytes(bytes));
            }
            instruction.advance(registers);
        }
        PortFault::Done
    }

    /// Whether memory that an instruction is about to access is accessible without a wait.
    fn ioports_memory(&mut self, aspace: Key, address: u64, len: usize, write: bool) -> bool {
        let there = if write { self.check_out(aspace, address, len) } else { self.check_in(aspace, address, len) };
        there.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use crate::containers::name::Name;
    use crate::fake::FakeMachine;
    use crate::machine::{MachineThread, Perm, PortWidth, Threads, USER_BASE};
    use crate::memory::vmar::{MapRequest, Place};

    use super::*;

    /// The direction flag.
    const DIRECTION: u64 = 1 << 10;
    const RWX: Perm = Perm { read: true, write: true, execute: true };
    /// Address of the instruction; strings are below.
    const CODE: u64 = USER_BASE + 0x800;

    struct World {
        kernel: Kernel<FakeMachine>,
        process: Id<Process>,
        thread: Id<Thread>,
        machine: MachineThread,
        aspace: Key,
    }

    impl World {
        /// A process with a page at [`USER_BASE`] and ports 0x100 to 0x107.
        fn new() -> World {
            let mut kernel = Kernel::new(FakeMachine::new(100)).unwrap();
            let job = kernel.root_job().unwrap();
            let (process, root) = kernel.process_create(job, Name::new(b"test")).unwrap();
            let vmo = kernel.vmo_create(PAGE, false).unwrap();
            let request = MapRequest { vmo, offset: 0, len: PAGE, perm: RWX, max: RWX, fixed: false };
            kernel.vmar_map(root, Place::At(0), request).unwrap();
            kernel.process_begin(process, None).unwrap();
            let thread = kernel.thread_create(process, Name::default()).unwrap();
            kernel.thread_start(thread, &Registers::default()).unwrap();
            let machine = kernel.objects.get(thread).unwrap().machine().unwrap();
            let aspace = kernel.aspace_of_thread(thread).unwrap();
            kernel.ioports_set(process, 0x100, 8, true).unwrap();
            World { kernel, process, thread, machine, aspace }
        }

        /// Executes an instruction with these registers.
        fn run(&mut self, code: &[u8], registers: Registers) -> (PortFault, Registers) {
            self.kernel.copy_out(self.aspace, CODE, code).unwrap();
            self.kernel.machine.thread_set_registers(self.machine, &Registers { rip: CODE, ..registers });
            let done = self.kernel.ioports_fault(self.thread, self.aspace);
            (done, self.kernel.machine.thread_registers(self.machine))
        }

        fn log(&mut self) -> Vec<(u16, PortWidth, u32)> {
            core::mem::take(&mut self.kernel.machine.devices.port_log)
        }
    }

    #[test]
    fn granted_port_instructions_are_executed_and_skipped() {
        let mut w = World::new();
        let registers = Registers { rax: 0xffff_ffff_1234_5678, rdx: 0xabcd_0102, ..Registers::default() };
        let (done, after) = w.run(&[0xee], registers);
        assert_eq!((done, after), (PortFault::Done, Registers { rip: CODE + 1, ..registers }));
        w.run(&[0x66, 0xef], registers);
        w.run(&[0xef], registers);
        assert_eq!(
            w.log(),
            [(0x102, PortWidth::Byte, 0x78), (0x102, PortWidth::Word, 0x5678), (0x102, PortWidth::Long, 0x1234_5678)]
        );
        w.kernel.machine.devices.ports.extend([(0x102, 0xd1), (0x103, 0xd2), (0x104, 0xd3), (0x105, 0xd4)]);
        assert_eq!(w.run(&[0xec], registers).1.rax, 0xffff_ffff_1234_56d1);
        assert_eq!(w.run(&[0x66, 0xed], registers).1.rax, 0xffff_ffff_1234_d2d1);
        assert_eq!(w.run(&[0xed], registers).1.rax, 0xd4d3_d2d1);
    }

    #[test]
    fn other_port_instructions_are_not_executed() {
        let mut w = World::new();
        for (code, rdx) in
            [(&[0xee][..], 0xff), (&[0xee], 0x108), (&[0xef], 0x105), (&[0x66, 0xef], 0x107), (&[0xf4], 0x100)]
        {
            let registers = Registers { rdx, ..Registers::default() };
            let (done, after) = w.run(code, registers);
            assert_eq!((done, after.rip), (PortFault::NotGranted, CODE));
        }
        w.kernel.ioports_set(w.process, 0x104, 4, false).unwrap();
        assert_eq!(w.run(&[0xee], Registers { rdx: 0x104, ..Registers::default() }).0, PortFault::NotGranted);
        assert_eq!(w.run(&[0xee], Registers { rdx: 0x103, ..Registers::default() }).0, PortFault::Done);
        assert_eq!(w.log().len(), 1);
    }

    #[test]
    fn ranges() {
        let mut w = World::new();
        assert_eq!(w.kernel.ioports_set(w.process, 0x100, 0, true), Err(Status::INVALID_ARGS));
        assert_eq!(w.kernel.ioports_set(w.process, 0xffff, 2, true), Err(Status::INVALID_ARGS));
        assert_eq!(w.kernel.ioports_set(w.process, 1, u32::MAX, true), Err(Status::INVALID_ARGS));
        w.kernel.machine.devices.own_ports.insert(0x3f8);
        assert_eq!(w.kernel.ioports_set(w.process, 0x3f0, 16, true), Err(Status::ACCESS_DENIED));
        w.kernel.ioports_set(w.process, 0xffff, 1, true).unwrap();
        assert_eq!(w.run(&[0xee], Registers { rdx: 0xffff, ..Registers::default() }).0, PortFault::Done);
        assert_eq!(w.run(&[0x66, 0xef], Registers { rdx: 0xffff, ..Registers::default() }).0, PortFault::NotGranted);
    }

    #[test]
    fn strings() {
        let mut w = World::new();
        w.kernel.copy_out(w.aspace, USER_BASE, b"hello, world").unwrap();
        let registers = Registers { rsi: USER_BASE, rdi: USER_BASE + 64, rcx: 5, rdx: 0x100, ..Registers::default() };
        let (done, after) = w.run(&[0xf3, 0x6e], registers);
        assert_eq!((done, after.rip, after.rsi, after.rcx), (PortFault::Done, CODE + 2, USER_BASE + 5, 0));
        let text: Vec<u8> = w.log().iter().map(|write| write.2 as u8).collect();
        assert_eq!(text, b"hello");
        // Downwards, in 16-bit words.
        let down = Registers { rflags: DIRECTION, rsi: USER_BASE + 2, rcx: 2, ..registers };
        let (_, after) = w.run(&[0xf3, 0x66, 0x6f], down);
        assert_eq!((after.rsi, after.rcx), (USER_BASE - 2, 0));
        assert_eq!(w.log()[1], (0x100, PortWidth::Word, u32::from(u16::from_le_bytes(*b"he"))));
        // To memory: some elements, none, and one without a repeat prefix.
        w.kernel.machine.devices.ports.extend([(0x100, b'x'), (0x101, b'y')]);
        let (_, after) = w.run(&[0xf3, 0x66, 0x6d], registers);
        assert_eq!((after.rdi, after.rsi), (USER_BASE + 74, USER_BASE));
        let mut text = [0; 11];
        w.kernel.copy_in(w.aspace, USER_BASE + 64, &mut text).unwrap();
        assert_eq!(&text, b"xyxyxyxyxy\0");
        let (_, after) = w.run(&[0xf3, 0x6c], Registers { rcx: 0, ..registers });
        assert_eq!((after.rip, after.rdi), (CODE + 2, USER_BASE + 64));
        let (_, after) = w.run(&[0x6c], registers);
        assert_eq!((after.rip, after.rdi, after.rcx), (CODE + 1, USER_BASE + 65, 5));
    }

    #[test]
    fn long_strings_come_in_bursts() {
        let mut w = World::new();
        let registers = Registers { rsi: USER_BASE, rcx: BURST + 3, rdx: 0x100, ..Registers::default() };
        let (done, after) = w.run(&[0xf3, 0x6e], registers);
        assert_eq!((done, after.rip, after.rcx), (PortFault::Done, CODE, 3));
        let (done, after) = w.run(&[0xf3, 0x6e], after);
        assert_eq!((done, after.rip, after.rcx), (PortFault::Done, CODE + 2, 0));
        assert_eq!(w.log().len() as u64, BURST + 3);
    }

    #[test]
    fn memory_that_is_not_there_is_the_fault_and_no_byte_of_the_port_is_lost() {
        let mut w = World::new();
        let registers = Registers { rdi: USER_BASE + PAGE - 2, rcx: 4, rdx: 0x100, ..Registers::default() };
        let (done, after) = w.run(&[0xf3, 0x6c], registers);
        assert_eq!(done, PortFault::Memory { address: USER_BASE + PAGE, write: true });
        assert_eq!((after.rip, after.rcx, after.rdi), (CODE, 2, USER_BASE + PAGE));
        // Code at the very end of memory is read as far as it is mapped.
        let last = USER_BASE + PAGE - 1;
        w.kernel.copy_out(w.aspace, last, &[0xee]).unwrap();
        w.kernel.machine.thread_set_registers(w.machine, &Registers { rip: last, ..registers });
        assert_eq!(w.kernel.ioports_fault(w.thread, w.aspace), PortFault::Done);
    }
}
