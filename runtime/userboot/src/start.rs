//! The first instructions: set up an aligned stack, relocate the image, find the system calls.

use core::panic::PanicInfo;

use zx::{Channel, Handle};

const DT_REL: u64 = 17;
const DT_RELSZ: u64 = 18;
const DT_RELRSZ: u64 = 35;
const DT_RELR: u64 = 36;
const R_X86_64_RELATIVE: u64 = 8;

/// [`_start`](self) calls this function.
#[unsafe(no_mangle)]
unsafe extern "C" fn userboot_start(bootstrap: u32, vdso: usize, base: *mut u8, dynamic: *const [u64; 2]) -> ! {
    // SAFETY: base and dynamic section are this image's, as the assembly above ensures.
    unsafe { relocate(base, dynamic) };
    // SAFETY: the server passes the vDSO's base.
    if !unsafe { crate::vdso::bind(vdso) } {
        // No system call works, not even to write to the log. The server reports the fault.
        // SAFETY: an illegal instruction, which does not return.
        unsafe { core::arch::asm!("ud2", options(noreturn)) };
    }
    let code = match Handle::from_raw(bootstrap).map(Channel::from) {
        Some(channel) => crate::boot::run(channel),
        None => 1,
    };
    zx::process_exit(code)
}

/// Relocates: adds the image's base to each word that holds an address in the image.
///
/// # Safety
/// `base` and `dynamic` belong to an image that has not been relocated.
unsafe fn relocate(base: *mut u8, dynamic: *const [u64; 2]) {
    let (mut rel, mut rel_size, mut relr, mut relr_size) = (0, 0, 0, 0);
    // SAFETY: the section ends with a zero tag; the tables and the words they name are in this image. Reads and writes
    // are volatile, so that the compiler emits no call here and uses nothing that is not relocated yet.
    unsafe {
        let mut entry = dynamic;
        loop {
            let [tag, value] = entry.read_volatile();
            match tag {
                0 => break,
                DT_REL => rel = value,
                DT_RELSZ => rel_size = value,
                DT_RELR => relr = value,
                DT_RELRSZ => relr_size = value,
                _ => {}
            }
            entry = entry.add(1);
        }
        let add = |offset: u64| {
            let word = base.add(offset as usize).cast::<u64>();
            word.write_unaligned(word.read_unaligned().wrapping_add(base.addr() as u64));
        };
        let entries = base.add(rel as usize).cast::<[u64; 2]>();
        for index in 0..(rel_size / 16) as usize {
            let [offset, info] = entries.add(index).read_volatile();
            if info & 0xffff_ffff == R_X86_64_RELATIVE {
                add(offset);
            }
        }
        // An even word is an address; an odd word after it is a bitmap of the next 63 words.
        let entries = base.add(relr as usize).cast::<u64>();
        let mut next = 0;
        for index in 0..(relr_size / 8) as usize {
            let word = entries.add(index).read_volatile();
            if word & 1 == 0 {
                add(word);
                next = word + 8;
            } else {
                for bit in 1..64 {
                    if word >> bit & 1 != 0 {
                        add(next + (bit - 1) * 8);
                    }
                }
                next += 63 * 8;
            }
        }
    }
}

/// A bug in this program. Logging the message needs the log's handle, which only `boot` has; the fault shows the place.
#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    crate::boot::report_panic(info);
    zx::process_exit(2)
}
