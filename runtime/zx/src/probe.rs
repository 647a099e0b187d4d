//! Calls and accesses that no correct program makes, for programs that test what the system does then.
//!
//! A system must answer every argument, and contain every access. To test that, a program has to pass addresses where
//! nothing lies and handles that it does not have; the typed methods of this crate exclude exactly that. Like the
//! address-space calls (see the head of the crate) these are not marked `unsafe`, although what they can do to the
//! calling process is unlimited: they are for use by tests, and a feature of their own (`probe`).

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

/// Instructions of one turn of [`count_down`].
pub const COUNT_DOWN_INSTRUCTIONS: u64 = 2;

/// A loop whose instructions are known, to find out how fast a counter runs.
pub fn count_down(turns: u64) {
    // SAFETY: touches nothing but its register and the flags.
    unsafe {
        core::arch::asm!("2: dec {0}", "jnz 2b", inout(reg) turns.max(1) => _, options(nomem, nostack));
    }
}
