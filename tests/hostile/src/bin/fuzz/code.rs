//! The attacker's own machine code: the loop that makes calls, and what a thread does between two of them.

/// r12 is the call's record, r13 the end of the batch.
const LOOP: &[u8] = &[
    0x0f, 0x0b, // ud2
    0x4d, 0x39, 0xec, // next: cmp r12, r13
    0x73, 0x3e, // jae done
    0x49, 0x8b, 0x7c, 0x24, 0x08, // mov rdi, [r12 + 8]
    0x49, 0x8b, 0x74, 0x24, 0x10, // mov rsi, [r12 + 16]
    0x49, 0x8b, 0x54, 0x24, 0x18, // mov rdx, [r12 + 24]
    0x49, 0x8b, 0x4c, 0x24, 0x20, // mov rcx, [r12 + 32]
    0x4d, 0x8b, 0x44, 0x24, 0x28, // mov r8, [r12 + 40]
    0x4d, 0x8b, 0x4c, 0x24, 0x30, // mov r9, [r12 + 48]
    0x41, 0xff, 0x74, 0x24, 0x40, // push [r12 + 64]
    0x41, 0xff, 0x74, 0x24, 0x38, // push [r12 + 56]
    0x41, 0xff, 0x14, 0x24, // call [r12]
    0x48, 0x83, 0xc4, 0x10, // add rsp, 16
    0x49, 0x89, 0x44, 0x24, 0x48, // made: mov [r12 + 72], rax
    0x49, 0x81, 0xc4, 0x80, 0x00, 0x00, 0x00, // add r12, 128
    0xeb, 0xbd, // jmp next
    0x0f, 0x0b, // done: ud2
];
/// Offset at which a thread makes the next call.
pub const NEXT: u64 = 2;
/// Offset at which it stops after all calls.
pub const DONE: u64 = LOOP.len() as u64 - 2;
/// Offset at which the result is stored.
const MADE: u64 = 55;

/// Writes rsi words to memory at rdi, at offsets within the mask rcx, starting from the number rdx.
pub const SCRIBBLE: Piece = Piece(0);
/// Copies four bytes from rdi to rsi.
pub const COPY_4: Piece = Piece(1);
/// Copies eight bytes from rdi to rsi.
pub const COPY_8: Piece = Piece(2);
/// Loads rsi bytes, from rdi on, at a distance of rdx.
pub const LOAD: Piece = Piece(3);
/// Adds one to each of these bytes.
pub const STORE: Piece = Piece(4);
/// Loads the selectors edi and esi into FS and GS.
pub const SELECTORS: Piece = Piece(5);
/// Loads the selectors edi and esi into DS and ES.
pub const DATA_SELECTORS: Piece = Piece(6);
/// Sets the bases of FS and GS to rdi and rsi by instructions.
pub const BASES: Piece = Piece(7);
/// Sets the flags to rdi.
pub const FLAGS: Piece = Piece(8);
/// Sets MXCSR to edi, and two vector registers to rsi and rdx.
pub const VECTORS: Piece = Piece(9);
/// Sets the x87's control word to di.
pub const FLOATS: Piece = Piece(10);
/// Code for restricted mode: makes one system call after another.
pub const RESTRICTED: Piece = Piece(11);
/// The end of restricted mode, with the record of the call that began it in rdi: completes that call.
pub const BACK: Piece = Piece(12);

const PIECES: [&[u8]; 13] = [
    &[
        0x48, 0x89, 0xd0, // mov rax, rdx
        0x48, 0x69, 0xc0, 0x6d, 0x4e, 0xc6, 0x41, // again: imul rax, rax, 0x41c64e6d
        0x48, 0x05, 0x39, 0x30, 0x00, 0x00, // add rax, 0x3039
        0x49, 0x89, 0xc2, // mov r10, rax
        0x49, 0xc1, 0xea, 0x20, // shr r10, 32
        0x49, 0x21, 0xca, // and r10, rcx
        0x4a, 0x89, 0x04, 0x17, // mov [rdi + r10], rax
        0x48, 0xff, 0xce, // dec rsi
        0x75, 0xe0, // jnz again
        0xc3, // ret
    ],
    &[0x8b, 0x07, 0x89, 0x06, 0xc3],             // mov eax, [rdi]; mov [rsi], eax; ret
    &[0x48, 0x8b, 0x07, 0x48, 0x89, 0x06, 0xc3], // mov rax, [rdi]; mov [rsi], rax; ret
    &[
        0x8a, 0x07, // again: mov al, [rdi]
        0x48, 0x01, 0xd7, // add rdi, rdx
        0x48, 0xff, 0xce, // dec rsi
        0x75, 0xf6, // jnz again
        0xc3, // ret
    ],
    &[
        0xfe, 0x07, // again: inc byte [rdi]
        0x48, 0x01, 0xd7, // add rdi, rdx
        0x48, 0xff, 0xce, // dec rsi
        0x75, 0xf6, // jnz again
        0xc3, // ret
    ],
    &[0x8e, 0xe7, 0x8e, 0xee, 0xc3], // mov fs, edi; mov gs, esi; ret
    &[0x8e, 0xdf, 0x8e, 0xc6, 0xc3], // mov ds, edi; mov es, esi; ret
    &[0xf3, 0x48, 0x0f, 0xae, 0xd7, 0xf3, 0x48, 0x0f, 0xae, 0xde, 0xc3], // wrfsbase rdi; wrgsbase rsi; ret
    &[0x57, 0x9d, 0xc3],             // push rdi; popf; ret
    &[
        0x57, // push rdi
        0x0f, 0xae, 0x14, 0x24, // ldmxcsr [rsp]
        0x66, 0x48, 0x0f, 0x6e, 0xc6, // movq xmm0, rsi
        0x66, 0x4c, 0x0f, 0x6e, 0xfa, // movq xmm15, rdx
        0x5f, // pop rdi
        0xc3, // ret
    ],
    &[
        0xdb, 0xe3, // fninit
        0xd9, 0xe8, // fld1
        0x57, // push rdi
        0xd9, 0x2c, 0x24, // fldcw [rsp]
        0x5f, // pop rdi
        0xc3, // ret
    ],
    &[0x0f, 0x05, 0xeb, 0xfc], // again: syscall; jmp again
    &[
        0x49, 0x89, 0xfc, // mov r12, rdi
        0x4c, 0x8b, 0x6f, 0x50, // mov r13, [rdi + 80]
        0x48, 0x8b, 0x67, 0x58, // mov rsp, [rdi + 88]
        0x31, 0xc0, // xor eax, eax
        0xe9, 0x61, 0xff, 0xff, 0xff, // jmp made
    ],
];

const _: () = assert!(BACK.place() + PIECES[12].len() as u64 - 0x9f == MADE);

/// A piece of code that returns like a function.
#[derive(Clone, Copy)]
pub struct Piece(usize);

impl Piece {
    /// Its offset in the code.
    pub const fn place(self) -> u64 {
        let (mut at, mut n) = (LOOP.len(), 0);
        while n < self.0 {
            at += PIECES[n].len();
            n += 1;
        }
        at as u64
    }
}

/// All code.
pub fn all() -> Vec<u8> {
    LOOP.iter().chain(PIECES.concat().iter()).copied().collect()
}
