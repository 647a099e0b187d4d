//! Events of a virtual processor: upcalls to its owner's code, and going back to what they interrupt
//! (`docs/virtual-processors.md`, "Upcalls").
//!
//! All of this is for the owner's thread alone. It works on the page that thread and system share, by loads and stores
//! between which an upcall may come at any instruction; so nothing here makes a reference to what stands there.

use core::arch::x86_64::__cpuid;
use core::arch::{asm, naked_asm};
use core::mem::offset_of;
use core::slice;
use core::sync::atomic::{AtomicBool, Ordering, compiler_fence};

use abi::{
    HAFNON_VPROC_BIND, HAFNON_VPROC_EVENTS_OFFSET, HAFNON_VPROC_UNBIND, hafnon_vproc_events_t, hafnon_vproc_state_t,
};

use super::{VirtualProcessor, Vproc};
use crate::endpoint::{number, trap};
use crate::{AsHandleRef, Port, Result, check, sys};

/// What an upcall calls: with what was given beside it. What it interrupted is in [`Events::saved`], and goes on when it returns.
pub type Handler = extern "C" fn(*mut ());

/// The events of a virtual processor, for the thread that owns it; good as long as the [`VirtualProcessor`] is.
#[derive(Clone, Copy)]
pub struct Events {
    words: *mut hafnon_vproc_events_t,
    slot: u64,
}

/// What an upcall leaves alone of what it interrupts, and whoever is called then may use: the vector registers, and the thread's place
/// for the arguments of calls.
#[repr(C, align(64))]
pub struct Vectors {
    /// x87 and SSE, as FXSAVE writes them.
    lower: [u8; 512],
    /// The upper halves of AVX.
    upper: [u128; 16],
    /// The words of the thread's IPC buffer in which a call's arguments behind the fourth are: it may be about to make one.
    arguments: [u64; 4],
}

impl Vectors {
    /// Those of a program that has not used them.
    pub const INITIAL: Vectors = {
        let mut area = [0; 512];
        // The control words of x87 and SSE.
        (area[0], area[1]) = (0x7f, 0x03);
        (area[24], area[25]) = (0x80, 0x1f);
        Vectors { lower: area, upper: [0; 16], arguments: [0; 4] }
    };
}

/// Where in the IPC buffer, at which GS lies, the fifth argument of a call is.
const ARGUMENTS: usize = 8 + 8 * 4;
/// What a program may use below its stack pointer without moving it.
const RED_ZONE: usize = 128;
/// What [`resume`] puts below that: the flags and the instruction.
const FRAME: usize = 16;

impl VirtualProcessor<'_> {
    /// Its events.
    pub fn events(&self) -> Events {
        let words = self.page.wrapping_byte_add(HAFNON_VPROC_EVENTS_OFFSET as usize).cast();
        Events { words, slot: self.slot }
    }
}

impl Vproc {
    /// Makes events of a port's packets.
    ///
    /// # Errors
    /// `ALREADY_BOUND`: it is. `BAD_STATE`: the owner has ended.
    pub fn bind(&self, port: &Port) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_vproc_bind(self.raw_handle(), port.raw_handle(), HAFNON_VPROC_BIND) })
    }

    /// Undoes that.
    ///
    /// # Errors
    /// `NOT_FOUND`: it is not bound to this one.
    pub fn unbind(&self, port: &Port) -> Result<()> {
        // SAFETY: no memory involved.
        check(unsafe { sys::zx_vproc_bind(self.raw_handle(), port.raw_handle(), HAFNON_VPROC_UNBIND) })
    }
}

macro_rules! load {
    ($events:expr, $field:ident) => {{
        compiler_fence(Ordering::SeqCst);
        // SAFETY: the page is mapped, and the field a number in it.
        let value = unsafe { (&raw const (*$events.words).$field).read_volatile() };
        compiler_fence(Ordering::SeqCst);
        value
    }};
}

macro_rules! store {
    ($events:expr, $field:ident, $value:expr) => {{
        compiler_fence(Ordering::SeqCst);
        // SAFETY: as for `load`.
        unsafe { (&raw mut (*$events.words).$field).write_volatile($value) };
        compiler_fence(Ordering::SeqCst);
    }};
}

impl Events {
    /// No upcalls from here on: events stay pending.
    #[inline(always)]
    pub fn disable(self) {
        store!(self, enabled, 0);
    }

    /// Upcalls from here on. Says whether an event is pending, which the caller takes itself then: [`Self::disable`],
    /// [`Self::take`].
    #[inline(always)]
    #[must_use]
    pub fn enable(self) -> bool {
        store!(self, enabled, 1);
        load!(self, pending) != 0
    }

    /// Whether events are told by upcalls.
    #[inline(always)]
    pub fn are_enabled(self) -> bool {
        load!(self, enabled) != 0
    }

    /// Whether an event is pending.
    #[inline(always)]
    pub fn is_pending(self) -> bool {
        load!(self, pending) != 0
    }

    /// Takes the event that is pending, if there is one: it is for whoever takes it to look for what has happened. Says whether there was.
    #[inline(always)]
    pub fn take(self) -> bool {
        let was: u64;
        compiler_fence(Ordering::SeqCst);
        // SAFETY: the page is mapped. One instruction, so an event comes before or after; nobody else's processor is there.
        unsafe {
            asm!("xchg [{at}], {was}", at = in(reg) &raw mut (*self.words).pending, was = inout(reg) 0_u64 => was,
                options(nostack, preserves_flags));
        }
        compiler_fence(Ordering::SeqCst);
        was != 0
    }

    /// Waits, with events disabled, until one is pending. A right to answer the code that has stopped last is given up: it goes on
    /// by [`VirtualProcessor::enter`].
    pub fn wait(self) {
        while !self.is_pending() {
            trap(number::RECV, self.slot, 0, [0; 4]);
        }
    }

    /// Where the last upcall found the owner.
    pub fn interrupted(self) -> u64 {
        load!(self, interrupted)
    }

    /// What the last upcall interrupted; good while events are disabled.
    pub fn saved(self) -> *mut hafnon_vproc_state_t {
        // SAFETY: a place in the page.
        unsafe { &raw mut (*self.words).saved }
    }

    /// Where the vector registers of what an upcall interrupts are kept.
    pub fn set_vectors(self, vectors: *mut Vectors) {
        store!(self, vectors, vectors as u64);
    }

    /// Where upcalls go: a stack, and what is called on it. To be called with events disabled, which they are at first. Gives what an
    /// upcall's stack pointer is.
    ///
    /// # Safety
    /// As long as events are enabled, nobody else uses the stack, the handler may be called with the context, and
    /// [`Self::set_vectors`] was given a place for what is interrupted.
    pub unsafe fn set_handler(self, stack: &mut [u128], handler: Handler, context: *mut ()) -> u64 {
        let top = stack.as_mut_ptr_range().end.cast::<u64>();
        // SAFETY: at the end of the stack, which has more room than for these words.
        let top = unsafe {
            let top = top.sub(4);
            slice::from_raw_parts_mut(top, 4).copy_from_slice(&[
                self.words as u64,
                handler as usize as u64,
                context as u64,
                0,
            ]);
            top
        };
        HAS_UPPER.store(has_upper(), Ordering::Relaxed);
        let (from, to) = resume_range();
        store!(self, entry_sp, top as u64);
        store!(self, entry_ip, entry as *const () as u64);
        store!(self, resume_from, from);
        store!(self, resume_to, to);
        top as u64
    }

    /// Leaves whatever this is for what [`Self::saved`] says, with the vector registers of [`Self::set_vectors`], and
    /// enables events.
    ///
    /// # Safety
    /// Events are disabled, and what is left is never gone on with. Both are as an upcall has left them, or as something that
    /// can go on.
    pub unsafe fn leave(self) -> ! {
        // SAFETY: the same.
        unsafe { leave(self.words) }
    }
}

/// Whether there are upper halves: a kernel may have been built without AVX. Set before the first upcall.
static HAS_UPPER: AtomicBool = AtomicBool::new(false);

/// Whether the processor has AVX and the kernel lets it be used.
fn has_upper() -> bool {
    const OSXSAVE_AND_AVX: u32 = 1 << 27 | 1 << 28;
    const SSE_AND_AVX: u32 = 1 << 1 | 1 << 2;
    let lower: u32;
    if __cpuid(1).ecx & OSXSAVE_AND_AVX != OSXSAVE_AND_AVX {
        return false;
    }
    // SAFETY: reads a register that programs may read where OSXSAVE is set.
    unsafe { asm!("xgetbv", in("ecx") 0, out("eax") lower, out("edx") _, options(nomem, nostack, preserves_flags)) };
    lower & SSE_AND_AVX == SSE_AND_AVX
}

/// Instructions for the upper half of each vector register, at an address in `rcx`. Not XSAVE and XRSTOR, which would be one for all: QEMU's do
/// not look whether the registers are another thread's, which seL4 13 leaves there until somebody uses them.
macro_rules! upper {
    (keep) => {
        upper!("vextractf128 [rcx + 512 + 16 * ", "], ymm", ", 1\n")
    };
    (load) => {
        upper!("vinsertf128 ymm", ", ymm", ", [rcx + 512 + 16 * ", "], 1\n")
    };
    ($($part:literal),*) => {
        concat!(upper!(@ 0 $($part)*), upper!(@ 1 $($part)*), upper!(@ 2 $($part)*), upper!(@ 3 $($part)*),
            upper!(@ 4 $($part)*), upper!(@ 5 $($part)*), upper!(@ 6 $($part)*), upper!(@ 7 $($part)*),
            upper!(@ 8 $($part)*), upper!(@ 9 $($part)*), upper!(@ 10 $($part)*), upper!(@ 11 $($part)*),
            upper!(@ 12 $($part)*), upper!(@ 13 $($part)*), upper!(@ 14 $($part)*), upper!(@ 15 $($part)*))
    };
    (@ $n:literal $first:literal $second:literal $third:literal) => {
        concat!($first, $n, $second, $n, $third)
    };
    (@ $n:literal $first:literal $second:literal $third:literal $last:literal) => {
        concat!($first, $n, $second, $n, $third, $n, $last)
    };
}

/// Where an upcall comes to: the stack pointer is where [`Events::set_handler`] has put four words, and all other registers are still those of
/// what it has interrupted.
#[unsafe(naked)]
unsafe extern "C" fn entry() -> ! {
    naked_asm!(
        "mov rbx, [rsp]",
        "mov rcx, [rbx + {vectors}]",
        "fxsave64 [rcx]",
        "cmp byte ptr [rip + {has_upper}], 0",
        "je 2f",
        upper!(keep),
        "2:",
        "mov rax, gs:[{words}]",
        "mov [rcx + {arguments}], rax",
        "mov rax, gs:[{words} + 8]",
        "mov [rcx + {arguments} + 8], rax",
        "mov rax, gs:[{words} + 16]",
        "mov [rcx + {arguments} + 16], rax",
        "mov rax, gs:[{words} + 24]",
        "mov [rcx + {arguments} + 24], rax",
        "mov rdi, [rsp + 16]",
        "call [rsp + 8]",
        "mov rdi, rbx",
        "jmp {leave}",
        vectors = const offset_of!(hafnon_vproc_events_t, vectors),
        has_upper = sym HAS_UPPER,
        words = const ARGUMENTS,
        arguments = const offset_of!(Vectors, arguments),
        leave = sym leave,
    )
}

/// See [`Events::leave`].
#[unsafe(naked)]
unsafe extern "C" fn leave(_events: *mut hafnon_vproc_events_t) -> ! {
    naked_asm!(
        "mov rcx, [rdi + {vectors}]",
        "fxrstor64 [rcx]",
        "cmp byte ptr [rip + {has_upper}], 0",
        "je 2f",
        upper!(load),
        "2:",
        "mov rax, [rcx + {arguments}]",
        "mov gs:[{words}], rax",
        "mov rax, [rcx + {arguments} + 8]",
        "mov gs:[{words} + 8], rax",
        "mov rax, [rcx + {arguments} + 16]",
        "mov gs:[{words} + 16], rax",
        "mov rax, [rcx + {arguments} + 24]",
        "mov gs:[{words} + 24], rax",
        "jmp {resume}",
        vectors = const offset_of!(hafnon_vproc_events_t, vectors),
        has_upper = sym HAS_UPPER,
        words = const ARGUMENTS,
        arguments = const offset_of!(Vectors, arguments),
        resume = sym resume,
    )
}

macro_rules! saved {
    ($register:ident) => {
        offset_of!(hafnon_vproc_events_t, saved) + offset_of!(hafnon_vproc_state_t, $register)
    };
}

/// Resumes the state in the save area, and enables events at once with that; the steps are those of "Resume at user level" in the docs.
#[unsafe(naked)]
unsafe extern "C" fn resume(_events: *mut hafnon_vproc_events_t) -> ! {
    naked_asm!(
        // 1. Flags and instruction, below what the code uses of its stack.
        "mov rax, [rdi + {rsp}]",
        "mov rcx, [rdi + {flags}]",
        "mov rdx, [rdi + {ip}]",
        "mov [rax - {below}], rcx",
        "mov [rax - {below} + 8], rdx",
        // 2. All registers but one.
        "mov rax, [rdi + {rax}]",
        "mov rbx, [rdi + {rbx}]",
        "mov rcx, [rdi + {rcx}]",
        "mov rdx, [rdi + {rdx}]",
        "mov rsi, [rdi + {rsi}]",
        "mov rbp, [rdi + {rbp}]",
        "mov r8, [rdi + {r8}]",
        "mov r9, [rdi + {r9}]",
        "mov r10, [rdi + {r10}]",
        "mov r11, [rdi + {r11}]",
        "mov r12, [rdi + {r12}]",
        "mov r13, [rdi + {r13}]",
        "mov r14, [rdi + {r14}]",
        "mov r15, [rdi + {r15}]",
        "mov rsp, [rdi + {rsp}]",
        "lea rsp, [rsp - {below}]",
        // 3. Events are enabled. From the next instruction on an upcall leaves the save area as it is.
        "mov qword ptr [rdi + {enabled}], 1",
        ".globl hafnon_vproc_resume_from",
        ".hidden hafnon_vproc_resume_from",
        "hafnon_vproc_resume_from:",
        "cmp qword ptr [rdi + {pending}], 0",
        "jne 2f",
        // 4. The last register, the flags, and the jump.
        "mov rdi, [rdi + {rdi}]",
        "popfq",
        "ret {red_zone}",
        // 3A. An event is pending: what an upcall would do.
        "2:",
        "mov qword ptr [rdi + {enabled}], 0",
        "mov rsp, [rdi + {entry_sp}]",
        "jmp [rdi + {entry_ip}]",
        ".globl hafnon_vproc_resume_to",
        ".hidden hafnon_vproc_resume_to",
        "hafnon_vproc_resume_to:",
        below = const RED_ZONE + FRAME,
        red_zone = const RED_ZONE,
        enabled = const offset_of!(hafnon_vproc_events_t, enabled),
        pending = const offset_of!(hafnon_vproc_events_t, pending),
        entry_ip = const offset_of!(hafnon_vproc_events_t, entry_ip),
        entry_sp = const offset_of!(hafnon_vproc_events_t, entry_sp),
        rax = const saved!(rax), rbx = const saved!(rbx), rcx = const saved!(rcx), rdx = const saved!(rdx),
        rsi = const saved!(rsi), rdi = const saved!(rdi), rbp = const saved!(rbp), rsp = const saved!(rsp),
        r8 = const saved!(r8), r9 = const saved!(r9), r10 = const saved!(r10), r11 = const saved!(r11),
        r12 = const saved!(r12), r13 = const saved!(r13), r14 = const saved!(r14), r15 = const saved!(r15),
        ip = const saved!(ip), flags = const saved!(flags),
    )
}

/// Where in [`resume`] events are enabled and the state is not resumed yet.
fn resume_range() -> (u64, u64) {
    unsafe extern "C" {
        static hafnon_vproc_resume_from: u8;
        static hafnon_vproc_resume_to: u8;
    }
    // Only their addresses count.
    ((&raw const hafnon_vproc_resume_from).addr() as u64, (&raw const hafnon_vproc_resume_to).addr() as u64)
}
