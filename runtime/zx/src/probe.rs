//! Calls and accesses that no correct program makes, for tests of the system's reaction.
//!
//! The kernel must answer calls with any arguments, and contain any access. To test that, a program must pass addresses
//! where nothing is mapped and handles that it does not have; the typed methods of this crate exclude exactly that.
//! Like the calls on address spaces (see the crate's documentation), the functions here are not marked `unsafe`,
//! although they can do anything to the calling process: they are for tests, and behind their own feature (`probe`).
//!
//! The module also serves benchmarks. They must measure the call and nothing else, with the arguments as the compiler
//! would pass them ([`call_with`]), between two reads of the processor's counter ([`counter`]).

pub use crate::arch::counter;
#[cfg(feature = "std")]
pub use crate::arch::upcalls;

/// Makes a call of the vDSO, given by its address (`zx::sys::zx_… as *const () as usize`), with arguments as they are.
/// Missing arguments are zero. Returns the result register.
///
/// # Panics
/// If there are more than 8 arguments: no call has more.
pub fn call(function: usize, arguments: &[u64]) -> u64 {
    let mut all = [0; 8];
    all[..arguments.len()].copy_from_slice(arguments);
    let [a, b, c, d, e, f, g, h] = all;
    // SAFETY: not checked, as the module's documentation says. All calls follow the C convention and take up to 8
    // integers or pointers; a call with fewer arguments ignores the others' registers and stack slots.
    let function = unsafe {
        core::mem::transmute::<*const (), extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64) -> u64>(
            core::ptr::with_exposed_provenance(function),
        )
    };
    function(a, b, c, d, e, f, g, h)
}

/// Like [`call`], with exactly these arguments, so that it costs what it costs an ordinary program.
///
/// # Panics
/// If there are more than 8 arguments.
#[inline(always)]
pub fn call_with<const N: usize>(function: usize, arguments: [u64; N]) -> u64 {
    /// The call with these arguments.
    macro_rules! exactly {
        ($($place:literal)*) => {{
            // SAFETY: as in `call`.
            let function = unsafe {
                core::mem::transmute::<*const (), extern "C" fn($(exactly!(@ $place)),*) -> u64>(
                    core::ptr::with_exposed_provenance(function),
                )
            };
            function($(arguments[$place]),*)
        }};
        (@ $place:literal) => { u64 };
    }
    match N {
        0 => exactly!(),
        1 => exactly!(0),
        2 => exactly!(0 1),
        3 => exactly!(0 1 2),
        4 => exactly!(0 1 2 3),
        5 => exactly!(0 1 2 3 4),
        6 => exactly!(0 1 2 3 4 5),
        7 => exactly!(0 1 2 3 4 5 6),
        8 => exactly!(0 1 2 3 4 5 6 7),
        _ => panic!("no call has more than 8 arguments"),
    }
}

/// Reads a byte at an address, whatever is mapped there.
pub fn read(address: usize) -> u8 {
    // SAFETY: not checked, as the module's documentation says: if nothing is mapped there, the process ends, which is
    // what the caller wants to test.
    unsafe { core::ptr::with_exposed_provenance::<u8>(address).read_volatile() }
}

/// Writes a byte to an address, whatever is mapped there.
pub fn write(address: usize, value: u8) {
    // SAFETY: as in `read`.
    unsafe { core::ptr::with_exposed_provenance_mut::<u8>(address).write_volatile(value) }
}

/// Raises an exception; to resume, a handler must skip the instruction, which has two bytes.
pub fn undefined_instruction() {
    // SAFETY: accesses nothing.
    unsafe { core::arch::asm!("ud2", options(nostack)) };
}

/// Instructions per iteration of [`count_down`].
pub const COUNT_DOWN_INSTRUCTIONS: u64 = 2;

/// A loop with a known number of instructions, to measure the rate of a counter.
pub fn count_down(turns: u64) {
    // SAFETY: changes only its register and the flags.
    unsafe {
        core::arch::asm!("2: dec {0}", "jnz 2b", inout(reg) turns.max(1) => _, options(nomem, nostack));
    }
}
