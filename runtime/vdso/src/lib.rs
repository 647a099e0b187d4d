//! libzircon.so, the vDSO: the only way from a program into the system.
//!
//! The program that creates a process maps the image into it, read-only. The image contains an entry point for each
//! system call. Most entry points are generated from the call's definition: they put the arguments where the server
//! expects them and send it a message. Some answer the call themselves, from two blobs of data that the server fills in
//! once. Others do what C cannot express, such as ending a thread whose stack is unmapped. All of it is assembly,
//! because the image has neither relocations nor writable data, and a compiler might emit either.
#![cfg_attr(target_os = "fuchsia", no_std)]

#[cfg(target_os = "fuchsia")]
mod image {
    use core::arch::global_asm;

    global_asm!(
        // These symbols come first, because the assembler takes a symbol that is not defined yet for an address.
        include_str!(concat!(env!("OUT_DIR"), "/offsets.s")),
        ".section .rodata.statuses, \"a\", @progbits",
        include_str!(concat!(env!("OUT_DIR"), "/statuses.s")),
        include_str!("arch/x86_64/macros.s"),
        include_str!(concat!(env!("OUT_DIR"), "/stubs.s")),
        include_str!("arch/x86_64/calls.s"),
        include_str!("arch/x86_64/endpoint.s"),
        include_str!("arch/x86_64/restricted.s"),
        include_str!("arch/x86_64/vproc.s"),
        ".text",
        options(raw)
    );

    /// Nothing here panics, but the compiler requires a handler.
    #[panic_handler]
    fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
        loop {
            core::hint::spin_loop();
        }
    }
}
