//! The crash report: process, thread, fault and backtrace of an unhandled exception, on the console, before the process
//! ends.
//!
//! All data that it reads from the program is untrusted: ELF images are read with the checks of any other memory, frame
//! pointers are followed only upwards, and each list has a maximum length.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use abi::{
    Status, ZX_EXCP_FATAL_PAGE_FAULT, ZX_EXCP_HW_BREAKPOINT, ZX_EXCP_POLICY_CODE_BAD_SYSCALL, ZX_EXCP_POLICY_ERROR,
    ZX_EXCP_SW_BREAKPOINT, ZX_EXCP_UNALIGNED_ACCESS, ZX_EXCP_UNDEFINED_INSTRUCTION, zx_exception_report_t,
};

use crate::arch::{Architecture, GeneralRegisters, Native, Registers};
use crate::containers::name::Name;
use crate::containers::slab::Key;
use crate::core::debuglog::{Level, LogWriter};
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::task::thread::Thread;

/// Maximum number of return addresses.
const FRAMES: usize = 24;
/// Maximum number of images named.
const MODULES: usize = 32;
/// Maximum number of mappings searched for images.
const MAPPINGS: usize = 1024;
/// Maximum number of an image's program headers, and of its notes, that are read.
const HEADERS: u16 = 32;

/// Description of an exception for humans.
fn describe(report: &zx_exception_report_t) -> &'static str {
    let arch = &report.context.arch;
    match report.header.type_ {
        ZX_EXCP_FATAL_PAGE_FAULT => Native::page_fault_name(arch),
        ZX_EXCP_POLICY_ERROR if report.context.synth_code == ZX_EXCP_POLICY_CODE_BAD_SYSCALL => "foreign system call",
        ZX_EXCP_POLICY_ERROR => "policy error",
        ZX_EXCP_SW_BREAKPOINT => "software breakpoint",
        ZX_EXCP_HW_BREAKPOINT => "hardware breakpoint",
        ZX_EXCP_UNDEFINED_INSTRUCTION => "undefined instruction",
        ZX_EXCP_UNALIGNED_ACCESS => "alignment fault",
        _ => Native::exception_name(arch),
    }
}

impl<M: Machine> Kernel<M> {
    /// Writes the report of a thread's exception.
    pub(crate) fn report_exception(&mut self, thread: Id<Thread>, report: &zx_exception_report_t) {
        let Ok(t) = self.objects.get(thread) else { return };
        let (process, thread_name, Some(machine)) = (t.process, t.name, t.machine()) else { return };
        let Ok(name) = self.objects.get(process).map(|p| p.name) else { return };
        let Ok(aspace) = self.aspace_of_thread(thread) else { return };
        let registers = self.machine.thread_registers(machine);
        let who = [(name, self.koid(process.object())), (thread_name, self.koid(thread.object()))];
        self.report_head(who, report, &registers);
        self.report_registers(&registers);
        self.report_modules(aspace);
        self.report_backtrace(aspace, &registers);
        self.report_line(Level::Info, "end");
    }

    fn report_line(&mut self, level: Level, text: &str) {
        self.log(level, LogWriter::Kernel("exception"), text.as_bytes());
    }

    fn report_head(
        &mut self,
        [(process, pid), (thread, tid)]: [(Name, u64); 2],
        report: &zx_exception_report_t,
        registers: &Registers,
    ) {
        let mut line = String::new();
        let (kind, context) = (describe(report), &report.context);
        let is_page_fault = report.header.type_ == ZX_EXCP_FATAL_PAGE_FAULT;
        let at = if is_page_fault { Native::page_fault_address(&context.arch) } else { registers.ip() };
        // Formatting into a String cannot fail.
        let _ = write!(line, "process '{process}' ({pid}), thread '{thread}' ({tid}): {kind} at 0x{at:x}");
        if is_page_fault {
            let why = Status(context.synth_code as i32);
            line.push_str(match why {
                Status::NOT_FOUND => ", nothing is mapped there",
                Status::ACCESS_DENIED => ", not allowed there",
                Status::OUT_OF_RANGE => ", beyond the end of what is mapped",
                Status::NO_MEMORY => ", out of memory",
                _ => "",
            });
            // Stacks grow down into their guard page.
            if at != 0 && at.abs_diff(registers.sp()) < 64 * 1024 && why == Status::NOT_FOUND {
                line.push_str(" (stack overflow)");
            }
        } else if report.header.type_ == ZX_EXCP_POLICY_ERROR {
            let _ = write!(line, ", code {} ({:#x})", context.synth_code, context.synth_data);
        }
        line.push_str("; the process is ended");
        self.report_line(Level::Error, &line);
    }

    fn report_registers(&mut self, r: &Registers) {
        let mut line = String::new();
        let _ = r.describe(&mut line);
        self.report_line(Level::Info, &line);
    }

    /// Appends the name of the mapping at an address, and the offset in it.
    fn place(&self, aspace: Key, address: u64, out: &mut String) {
        let Some(mapping) = self.mapping_at(aspace, address) else { return };
        let offset = mapping.named_offset.wrapping_add(address - mapping.base);
        let Ok(named) = self.objects.get(mapping.named) else { return };
        let _ = write!(out, " ({}+0x{offset:x})", named.name);
    }

    /// Prints the thread's instruction pointer, then the return addresses along the frame pointers. They are untrusted:
    /// each must be above the last, and an unmapped one ends the list.
    fn report_backtrace(&mut self, aspace: Key, registers: &Registers) {
        self.report_frame(aspace, 0, registers.ip());
        let mut frame = registers.frame_pointer();
        // After a call through a bad pointer, the return address is on top of the stack, and this function has no
        // frame.
        let mut n = 1;
        if self.aspace(aspace).is_some()
            && self.mapping_at(aspace, registers.ip()).is_none()
            && let Some([address]) = self.peek::<1>(aspace, registers.sp())
        {
            self.report_frame(aspace, n, address);
            n += 1;
        }
        while n <= FRAMES && frame != 0 && frame.is_multiple_of(8) {
            let Some([next, address]) = self.peek::<2>(aspace, frame) else { break };
            self.report_frame(aspace, n, address);
            if next <= frame {
                break;
            }
            (frame, n) = (next, n + 1);
        }
    }

    fn report_frame(&mut self, aspace: Key, n: usize, address: u64) {
        let mut line = String::new();
        let _ = write!(line, "#{n:<2} {address:#x}");
        self.place(aspace, address, &mut line);
        self.report_line(Level::Info, &line);
    }

    fn report_modules(&mut self, aspace: Key) {
        let mut modules = Vec::new();
        self.modules(aspace, |line| modules.push(String::from(line)));
        for line in modules {
            self.report_line(Level::Info, &line);
        }
    }

    /// Lists the mapped ELF images, lowest first: base address and build id.
    pub fn modules(&mut self, aspace: Key, mut tell: impl FnMut(&str)) {
        let mut line = String::new();
        let mut shown = 0;
        let mut from = 0;
        for _ in 0..MAPPINGS {
            let Some(&mapping) = self.mapping_from(aspace, from) else { break };
            from = mapping.end();
            let Some([magic]) = self.peek::<1>(aspace, mapping.base) else { continue };
            if mapping.named_offset != 0 || !magic.to_le_bytes().starts_with(b"\x7fELF") {
                continue;
            }
            let Ok(name) = self.objects.get(mapping.named).map(|named| named.name) else { continue };
            line.clear();
            let _ = write!(line, "module 0x{:x} {name}", mapping.base);
            self.build_id(aspace, mapping.base, &mut line);
            tell(&line);
            shown += 1;
            if shown == MODULES {
                break;
            }
        }
    }

    /// Appends the build id of the image at `base`, if it has one: a note in its first page or a later one.
    fn build_id(&mut self, aspace: Key, base: u64, out: &mut String) -> Option<()> {
        const PT_NOTE: u32 = 4;
        const GNU_BUILD_ID: u32 = 3;
        // From the image's header: the offset of the program headers, and after two shorter fields their number.
        let [headers, _, _, count] = self.peek::<4>(aspace, base.checked_add(32)?)?;
        for n in 0..(count as u16).min(HEADERS) {
            let header = base.checked_add(headers)?.checked_add(u64::from(n) * 56)?;
            let [kind, _, address, _, _, length] = self.peek::<6>(aspace, header)?;
            if kind as u32 != PT_NOTE {
                continue;
            }
            let (mut note, end) = (base.checked_add(address)?, base.checked_add(address)?.checked_add(length)?);
            for _ in 0..HEADERS {
                if note >= end {
                    break;
                }
                let [lengths, kind_and_name] = self.peek::<2>(aspace, note)?;
                let (name, text) = (lengths as u32, (lengths >> 32) as u32);
                let (kind, owner) = (kind_and_name as u32, (kind_and_name >> 32) as u32);
                let start = note.checked_add(12)?.checked_add(u64::from(name.checked_next_multiple_of(4)?))?;
                if kind == GNU_BUILD_ID && name == 4 && owner.to_le_bytes() == *b"GNU\0" {
                    let mut id = [0; 20];
                    let id = id.get_mut(..text as usize)?;
                    self.copy_in(aspace, start, id).ok()?;
                    out.push(' ');
                    for byte in id {
                        let _ = write!(out, "{byte:02x}");
                    }
                    return Some(());
                }
                note = start.checked_add(u64::from(text.checked_next_multiple_of(4)?))?;
            }
        }
        None
    }

    /// Reads some words of a program's memory, if they are mapped.
    fn peek<const N: usize>(&mut self, aspace: Key, address: u64) -> Option<[u64; N]> {
        let mut words = [0; N];
        for (n, word) in words.iter_mut().enumerate() {
            let mut bytes = [0; 8];
            self.copy_in(aspace, address.checked_add(n as u64 * 8)?, &mut bytes).ok()?;
            *word = u64::from_le_bytes(bytes);
        }
        Some(words)
    }
}
