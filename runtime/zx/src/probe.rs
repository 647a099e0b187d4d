//! Calls and accesses that no correct program makes, for programs that test what the system does then.
//!
//! A system must answer every argument, and contain every access. To test that, a program has to pass addresses where
//! nothing lies and handles that it does not have; the typed methods of this crate exclude exactly that. Like the
//! address-space calls (see the head of the crate) these are not marked `unsafe`, although what they can do to the
//! calling process is unlimited: they are for use by tests, and a feature of their own (`probe`).
//!
//! Benchmarks are here for another reason: what they measure has to be the call and nothing else, with the arguments as
//! its caller's compiler would pass them ([`call_with`]), between two looks at the processor's counter ([`counter`]).

#[cfg(feature = "std")]
pub mod upcalls;

/// A call of the vDSO, taken by its address (`zx::sys::zx_… as *const () as usize`), with arguments as they are. Missing
/// arguments are zero. Gives the result register.
///
/// # Panics
/// With more than 8 arguments: no call has more.
pub fn call(function: usize, arguments: &[u64]) -> u64 {
    let mut all = [0; 8];
    all[..arguments.len()].copy_from_slice(arguments);
    let [a, b, c, d, e, f, g, h] = all;
    // SAFETY: not checked, as the head of the module says. All calls follow the C convention and take up to 8 integers
    // or pointers; what one of fewer arguments finds in the places of the others it ignores.
    let function = unsafe {
        core::mem::transmute::<*const (), extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64) -> u64>(
            core::ptr::with_exposed_provenance(function),
        )
    };
    function(a, b, c, d, e, f, g, h)
}

/// As [`call`], with these arguments and no others: it costs what it costs a program that makes the call.
///
/// # Panics
/// With more than 8 arguments.
#[inline(always)]
pub fn call_with<const N: usize>(function: usize, arguments: [u64; N]) -> u64 {
    /// The call with the arguments in these places.
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

/// The processor's time-stamp counter. Nothing is moved from one side of it to the other.
#[inline(always)]
pub fn counter() -> u64 {
    let (low, high): (u64, u64);
    // SAFETY: reads a counter into two registers.
    unsafe { core::arch::asm!("rdtsc", out("rax") low, out("rdx") high, options(nostack)) };
    high << 32 | low
}

/// Reads a byte at an address, whatever is there.
pub fn read(address: usize) -> u8 {
    // SAFETY: not checked, as the head of the module says: an address where nothing is ends the process, which is what
    // the caller wants to see.
    unsafe { core::ptr::with_exposed_provenance::<u8>(address).read_volatile() }
}

/// Writes a byte to an address, whatever is there.
pub fn write(address: usize, value: u8) {
    // SAFETY: as in `read`.
    unsafe { core::ptr::with_exposed_provenance_mut::<u8>(address).write_volatile(value) }
}

/// Makes an exception; whoever handles it goes on behind the instruction, which has two bytes.
pub fn undefined_instruction() {
    // SAFETY: touches nothing.
    unsafe { core::arch::asm!("ud2", options(nostack)) };
}

/// Instructions of one turn of [`count_down`].
pub const COUNT_DOWN_INSTRUCTIONS: u64 = 2;

/// A loop whose instructions are known, to find out how fast a counter runs.
pub fn count_down(turns: u64) {
    // SAFETY: touches nothing but its register and the flags.
    unsafe {
        core::arch::asm!("2: dec {0}", "jnz 2b", inout(reg) turns.max(1) => _, options(nomem, nostack));
    }
}
