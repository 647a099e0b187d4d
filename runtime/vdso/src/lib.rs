//! libzircon.so, the vDSO: the only way from a program into the system.
//!
//! The image is mapped into every process, read-only, by whoever makes the process. It holds an entry point for each
//! system call. Most are made from the call's definition: they put the arguments where the server finds them and send
//! it a message. The others are answered right here, from two blobs of data that the server fills in once, or do
//! something that C cannot say, such as ending a thread whose stack is gone. All of it is assembly: an image without
//! relocations and without data has no use for a language that may want either.
#![cfg_attr(target_os = "fuchsia", no_std)]

#[cfg(target_os = "fuchsia")]
mod image {
    use core::arch::global_asm;

    global_asm!(
        // Symbols come before their use: the assembler takes an unknown one for an address.
        include_str!(concat!(env!("OUT_DIR"), "/offsets.s")),
        ".section .rodata.statuses, \"a\", @progbits",
        include_str!(concat!(env!("OUT_DIR"), "/statuses.s")),
        include_str!("macros.s"),
        include_str!(concat!(env!("OUT_DIR"), "/stubs.s")),
        include_str!("calls.s"),
        include_str!("endpoint.s"),
        include_str!("restricted.s"),
        include_str!("vproc.s"),
        ".text",
        options(raw)
    );

    /// Nothing here panics; the compiler wants to know what if.
    #[panic_handler]
    fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
        loop {
            core::hint::spin_loop();
        }
    }
}
