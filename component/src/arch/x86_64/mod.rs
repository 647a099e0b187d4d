//! 64-bit x86 processors.

#[cfg(feature = "client")]
pub mod copy;

/// Defines the entry point of the program, which calls `$start` on an empty stack.
#[doc(hidden)]
#[macro_export]
macro_rules! entry {
    ($start:path) => {
        // SAFETY: the linker takes this name as the entry point, and no other symbol has it.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        extern "C" fn _start() -> ! {
            ::core::arch::naked_asm!("xor ebp, ebp", "call {start}", "ud2", start = sym $start)
        }
    };
}

/// Ends the component: the root task reports it.
pub fn die() -> ! {
    // SAFETY: the instruction is undefined on purpose; nothing after it runs.
    unsafe { core::arch::asm!("ud2", options(noreturn, nostack)) }
}

/// The processor's time-stamp counter, which counts [`Own::megahertz`](crate::Own::megahertz) times per microsecond.
pub fn counter() -> u64 {
    // SAFETY: the instruction only reads a counter, and the kernel allows it in user mode.
    unsafe { core::arch::x86_64::_rdtsc() }
}
