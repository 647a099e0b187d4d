//! The entry of a root task.

/// Defines `_start` for a root task: it sets up a stack of `$stack` bytes (a multiple of 16) and calls
/// `$main: fn(sel4::BootInfo) -> !`.
///
/// The kernel starts a root task without a stack, with the address of the boot information in rdi.
#[macro_export]
macro_rules! entry {
    ($main:path, stack = $stack:expr) => {
        const _: () = {
            #[repr(C, align(16))]
            struct Stack(::core::cell::UnsafeCell<[u8; $stack]>);
            // SAFETY: only the one thread that starts here uses it.
            unsafe impl ::core::marker::Sync for Stack {}
            static STACK: Stack = Stack(::core::cell::UnsafeCell::new([0; $stack]));
            const _: () = assert!($stack % 16 == 0, "the stack's size must be a multiple of 16");

            extern "C" fn start(info: *const u8) -> ! {
                let main: fn($crate::BootInfo) -> ! = $main;
                // SAFETY: the kernel passed this address, and this runs once, on the only thread, before anything else.
                unsafe {
                    let info = $crate::BootInfo::new(info);
                    $crate::ipc::init(info.ipc_buffer());
                    main(info)
                }
            }

            // SAFETY: the ELF header names this symbol as the entry point, and no other symbol has this name.
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            extern "C" fn _start() -> ! {
                ::core::arch::naked_asm!(
                    "lea rsp, [rip + {stack} + {size}]",
                    "xor ebp, ebp",
                    "call {start}",
                    "ud2",
                    stack = sym STACK,
                    size = const $stack,
                    start = sym start,
                )
            }
        };
    };
}
