//! C functions with a variable argument list, in stable Rust.
//!
//! Such a function cannot be *defined* in Rust. What the caller does is fixed by the System V ABI, though: the arguments
//! stand in the registers and on the stack, and a `va_list` is a small structure that says how far into them one has
//! read. So each entry is a few instructions that store the argument registers where a `va_list` expects them, build the
//! `va_list`, and call an ordinary Rust function with the fixed arguments and a pointer to it.

use crate::fmt::Arguments;

/// The System V x86-64 `va_list`.
#[repr(C)]
pub struct VaList {
    /// Bytes of `registers` consumed by integers; 48 = none left.
    gp_offset: u32,
    /// Bytes of `registers` consumed by floats; 176 = none left.
    fp_offset: u32,
    overflow: *const u8,
    registers: *const u8,
}

impl VaList {
    fn take_from_stack(&mut self, size: usize, align: usize) -> *const u8 {
        let at = self.overflow.align_offset(align);
        // SAFETY: the caller's format says that such an argument was passed, so it stands there.
        unsafe {
            let argument = self.overflow.add(at);
            self.overflow = argument.add(size);
            argument
        }
    }
}

impl Arguments for VaList {
    fn int(&mut self) -> u64 {
        // SAFETY: as the format promises, an integer argument was passed here.
        unsafe {
            if self.gp_offset < 48 {
                let value = self.registers.add(self.gp_offset as usize).cast::<u64>().read();
                self.gp_offset += 8;
                value
            } else {
                self.take_from_stack(8, 8).cast::<u64>().read()
            }
        }
    }

    fn double(&mut self) -> f64 {
        // SAFETY: as the format promises, a floating argument was passed here.
        unsafe {
            if self.fp_offset < 176 {
                let value = self.registers.add(self.fp_offset as usize).cast::<f64>().read();
                self.fp_offset += 16;
                value
            } else {
                self.take_from_stack(8, 8).cast::<f64>().read()
            }
        }
    }

    fn long_double(&mut self) -> [u8; 10] {
        // SAFETY: as the format promises, a `long double` was passed; those always go over the stack.
        unsafe { self.take_from_stack(16, 16).cast::<[u8; 10]>().read() }
    }
}

/// Defines the C function `$name`, whose `$fixed` fixed arguments (all integers or pointers) precede `...`, as a
/// trampoline to the Rust function `$target`, which takes a `*mut VaList` as one argument more, in register `$register`.
#[macro_export]
macro_rules! variadic {
    ($(#[$doc:meta])* $name:ident($fixed:literal, $register:literal) => $target:path) => {
        $(#[$doc])*
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                // 24 bytes of va_list at rsp, registers at rsp + 32 (176 bytes), 16-byte aligned.
                "sub rsp, 216",
                "mov [rsp + 32], rdi",
                "mov [rsp + 40], rsi",
                "mov [rsp + 48], rdx",
                "mov [rsp + 56], rcx",
                "mov [rsp + 64], r8",
                "mov [rsp + 72], r9",
                // al = an upper bound of the vector registers used.
                "test al, al",
                "je 2f",
                "movaps [rsp + 80], xmm0",
                "movaps [rsp + 96], xmm1",
                "movaps [rsp + 112], xmm2",
                "movaps [rsp + 128], xmm3",
                "movaps [rsp + 144], xmm4",
                "movaps [rsp + 160], xmm5",
                "movaps [rsp + 176], xmm6",
                "movaps [rsp + 192], xmm7",
                "2: mov dword ptr [rsp], {gp}",
                "mov dword ptr [rsp + 4], 48",
                "lea rax, [rsp + 224]",
                "mov [rsp + 8], rax",
                "lea rax, [rsp + 32]",
                "mov [rsp + 16], rax",
                concat!("mov ", $register, ", rsp"),
                "call {target}",
                "add rsp, 216",
                "ret",
                gp = const $fixed * 8,
                target = sym $target,
            )
        }
    };
}
