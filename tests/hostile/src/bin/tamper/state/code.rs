//! Machine code of attackers, which change processor state, and of victims, whose state must not change.
//!
//! All code finds the shared pages at `r14` and its own line of them at `r13` ([`super::memory`]).

use abi::nr;
use conformance::test_process::call;

use super::memory::{DEADLINE, MASKS, PATTERN};

/// The beginning of both: `rdi` and `rsi` contain the addresses of the line and of the pages.
const BEGINS: &[u8] = &[
    0x49, 0x89, 0xfd, // mov r13, rdi
    0x49, 0x89, 0xf6, // mov r14, rsi
    0x45, 0x31, 0xe4, // xor r12d, r12d
];
const COUNTS: &[u8] = &[0x49, 0xff, 0x45, 0x00]; // inc qword ptr [r13]
const NO_HANDLE: &[u8] = &[0x45, 0x31, 0xd2]; // xor r10d, r10d
/// `ud2`
const ENDS: &[u8] = &[0x0f, 0x0b];
/// Enters the kernel to yield.
const YIELDS: &[u8] = &[
    0x48, 0x89, 0xe3, //                         mov rbx, rsp
    0x48, 0xc7, 0xc2, 0xf9, 0xff, 0xff, 0xff, // mov rdx, -7
    0x0f, 0x05, //                               syscall
    0x48, 0x89, 0xdc, //                         mov rsp, rbx
];
/// The slot in which a thread has a native component's endpoint: the first free one of a thread.
pub const SLOT: u8 = 3;
/// Calls a native component, to which the kernel switches at once: it checks its state, yields once, and checks again.
const ASKS: &[u8] = &[
    0x48, 0x89, 0xe3, //                         mov rbx, rsp
    0xbf, SLOT, 0x00, 0x00, 0x00, //             mov edi, 3
    0xbe, 0x02, 0x10, 0x00, 0x00, //             mov esi, 1 << 12 | 2: what it is asked for, and in how many words
    0x48, 0xc7, 0xc2, 0xff, 0xff, 0xff, 0xff, // mov rdx, -1
    0x41, 0xba, 0x01, 0x00, 0x00, 0x00, //       mov r10d, 1
    0x45, 0x31, 0xc0, //                         xor r8d, r8d
    0x0f, 0x05, //                               syscall
    0x48, 0x89, 0xdc, //                         mov rsp, rbx
];
/// The component's answer to that request has four words.
const LOOKS_AT_COMPONENT: &[u8] = &[0x81, 0xfe, 0x04, 0x10, 0x01, 0x00]; // cmp esi, (1 + 16) << 12 | 4
const UNTIL_DEADLINE: &[u8] = &[0x4d, 0x8b, 0x96, 0x10, 0x09, 0x00, 0x00]; // mov r10, [r14 + 0x910]
const _: () = assert!(DEADLINE == 0x910 && PATTERN == 0x800 && MASKS == 0x820);

/// How an attacker gives up the processor, so that another thread runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum YieldMethod {
    /// By the kernel's yield.
    Yields,
    /// The same after a call, which the server answers at once.
    Calls,
    /// By a call that waits: the server leaves it unanswered and receives.
    Sleeps,
    /// At the end of its time slice.
    Spins,
    /// By a call of a native component.
    Asks,
}

/// All ways without a component.
pub const WAYS: [YieldMethod; 4] = [YieldMethod::Yields, YieldMethod::Calls, YieldMethod::Sleeps, YieldMethod::Spins];

/// A change of processor state.
#[derive(Clone, Copy)]
pub struct Change<'c> {
    /// The instructions, as text.
    pub name: &'c str,
    /// Their bytes.
    pub code: &'c [u8],
    /// Some processors or kernels do not have the instruction, or refuse it.
    pub refused: bool,
}

const fn change<'c>(name: &'c str, code: &'c [u8]) -> Change<'c> {
    Change { name, code, refused: false }
}

const fn refused<'c>(name: &'c str, code: &'c [u8]) -> Change<'c> {
    Change { name, code, refused: true }
}

/// Each selector of the list on the pages in turn, in all four registers, and null selectors in the two other ways.
pub const SELECTORS: [Change<'_>; 3] = [
    change(
        "mov ds, es, fs, gs",
        &[
            0x49, 0xff, 0xc4, //                               inc r12
            0x4d, 0x3b, 0xa6, 0x00, 0x0a, 0x00, 0x00, //       cmp r12, [r14 + 0xa00]
            0x72, 0x03, //                                     jb L
            0x45, 0x31, 0xe4, //                               xor r12d, r12d
            0x4b, 0x8b, 0x84, 0xe6, 0x08, 0x0a, 0x00, 0x00, // L: mov rax, [r14 + r12 * 8 + 0xa08]
            0x8e, 0xd8, //                                     mov ds, eax
            0x8e, 0xc0, //                                     mov es, eax
            0x8e, 0xe0, //                                     mov fs, eax
            0x8e, 0xe8, //                                     mov gs, eax
        ],
    ),
    change("pop fs, gs", &[0x6a, 0x00, 0x0f, 0xa9, 0x6a, 0x00, 0x0f, 0xa1]), // push 0; pop gs; push 0; pop fs
    change(
        "lfs, lgs",
        &[
            0x41, 0x0f, 0xb4, 0x86, 0x18, 0x09, 0x00, 0x00, // lfs eax, [r14 + 0x918]
            0x41, 0x0f, 0xb5, 0x86, 0x18, 0x09, 0x00, 0x00, // lgs eax, [r14 + 0x918]
        ],
    ),
];

/// Makes that list: null selectors, and all others that `verr` and `lar` report as loadable. If the GDT is not mapped
/// in a program's address space, the first of these instructions ends the program.
pub const LISTS_SELECTORS: &[u8] = &[
    0x48, 0xc7, 0x86, 0x00, 0x0a, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // mov qword ptr [rsi + 0xa00], 0
    0x31, 0xc0, //                                                      xor eax, eax
    0x83, 0xf8, 0x04, //                                                L: cmp eax, 4
    0x72, 0x0d, //                                                      jb T
    0x0f, 0x00, 0xe0, //                                                verr ax
    0x75, 0x1e, //                                                      jnz N
    0x0f, 0x02, 0xc8, //                                                lar ecx, eax
    0xf6, 0xc5, 0x80, //                                                test ch, 0x80
    0x74, 0x16, //                                                      jz N
    0x48, 0x8b, 0x8e, 0x00, 0x0a, 0x00, 0x00, //                        T: mov rcx, [rsi + 0xa00]
    0x48, 0x89, 0x84, 0xce, 0x08, 0x0a, 0x00, 0x00, //                  mov [rsi + rcx * 8 + 0xa08], rax
    0x48, 0xff, 0x86, 0x00, 0x0a, 0x00, 0x00, //                        inc qword ptr [rsi + 0xa00]
    0xff, 0xc0, //                                                      N: inc eax
    0x3d, 0x00, 0x00, 0x01, 0x00, //                                    cmp eax, 0x10000
    0x72, 0xcf, //                                                      jb L
    0x0f, 0x0b, //                                                      ud2
];

/// `mov ss, eax` with a selector in eax.
pub fn stack_segment(selector: u8) -> Vec<u8> {
    vec![0xb8, selector, 0x00, 0x00, 0x00, 0x8e, 0xd0]
}

/// The bases of FS and GS by instructions, which the kernel must have enabled.
pub const BASES: [Change<'_>; 6] = [
    refused("wrfsbase 0", &[0x31, 0xc0, 0xf3, 0x48, 0x0f, 0xae, 0xd0]), // xor eax, eax; wrfsbase rax
    refused("wrgsbase 0", &[0x31, 0xc0, 0xf3, 0x48, 0x0f, 0xae, 0xd8]),
    refused("wrfsbase 0x1000", &[0xb8, 0x00, 0x10, 0x00, 0x00, 0xf3, 0x48, 0x0f, 0xae, 0xd0]), // mov eax, 0x1000; …
    refused("wrgsbase 0x1000", &[0xb8, 0x00, 0x10, 0x00, 0x00, 0xf3, 0x48, 0x0f, 0xae, 0xd8]),
    // mov rax, -4096; …
    refused("wrfsbase -4096", &[0x48, 0xc7, 0xc0, 0x00, 0xf0, 0xff, 0xff, 0xf3, 0x48, 0x0f, 0xae, 0xd0]),
    refused("wrgsbase -4096", &[0x48, 0xc7, 0xc0, 0x00, 0xf0, 0xff, 0xff, 0xf3, 0x48, 0x0f, 0xae, 0xd8]),
];

/// Flags that a program may set, except the trap flag (it ends the program) and nested task.
pub const FLAGS: [Change<'_>; 2] = [
    // mov eax, …; push rax; popf: carry, parity, adjust, zero, sign, direction, overflow, alignment check, identification
    change("popf", &[0xb8, 0xd7, 0x0e, 0x24, 0x00, 0x50, 0x9d]),
    change("std", &[0xfd]),
];
/// With this flag, `iret` faults in some kernels.
pub const NESTED_TASK: Change<'_> = change("popf with NT", &[0xb8, 0x02, 0x42, 0x00, 0x00, 0x50, 0x9d]);

/// The x87 unit.
pub const X87: [Change<'_>; 6] = [
    change("fninit", &[0xdb, 0xe3]),
    change("fninit, fldcw", &[0xdb, 0xe3, 0x41, 0xd9, 0xae, 0x2a, 0x08, 0x00, 0x00]), // fldcw [r14 + 0x82a]
    change(
        "an exception that waits",
        &[
            0xdb, 0xe3, //                               fninit
            0x41, 0xd9, 0xae, 0x2a, 0x08, 0x00, 0x00, // fldcw [r14 + 0x82a]
            0xd9, 0xee, //                               fldz
            0xd9, 0xe8, //                               fld1
            0xde, 0xf1, //                               fdivrp
        ],
    ),
    change("a full stack", &[0xdb, 0xe3, 0xd9, 0xe8, 0xd9, 0xe8, 0xd9, 0xe8, 0xd9, 0xe8, 0xd9, 0xe8, 0xd9, 0xe8]), // fld1…
    change("emms", &[0x0f, 0x77]),
    change("fxrstor64", &[0x49, 0x0f, 0xae, 0x8e, 0x00, 0x10, 0x00, 0x00]), // [r14 + 0x1000]
];

/// Vector registers: all, some, and some that are in their initial state without being loaded.
pub const VECTORS: [Change<'_>; 9] = [
    change("ldmxcsr", &[0x41, 0x0f, 0xae, 0x96, 0x24, 0x08, 0x00, 0x00]), // [r14 + 0x824]
    change("pcmpeqd", &[0x66, 0x0f, 0x76, 0xff, 0x66, 0x45, 0x0f, 0x76, 0xff]), // xmm7, xmm7; xmm15, xmm15
    refused("vzeroall", &[0xc5, 0xfc, 0x77]),
    refused("vzeroupper", &[0xc5, 0xf8, 0x77]),
    // mov eax, which; xor edx, edx; xrstor64 [r14 + 0x1000], where all are, or [r14 + 0x1400], where SSE's are
    refused("xrstor64", &[0xb8, 0x07, 0, 0, 0, 0x31, 0xd2, 0x49, 0x0f, 0xae, 0xae, 0x00, 0x10, 0x00, 0x00]),
    refused("xrstor64, x87", &[0xb8, 0x01, 0, 0, 0, 0x31, 0xd2, 0x49, 0x0f, 0xae, 0xae, 0x00, 0x10, 0x00, 0x00]),
    refused("xrstor64, SSE", &[0xb8, 0x02, 0, 0, 0, 0x31, 0xd2, 0x49, 0x0f, 0xae, 0xae, 0x00, 0x10, 0x00, 0x00]),
    refused("xrstor64, AVX", &[0xb8, 0x04, 0, 0, 0, 0x31, 0xd2, 0x49, 0x0f, 0xae, 0xae, 0x00, 0x10, 0x00, 0x00]),
    refused("xrstor64 of a part", &[0xb8, 0x07, 0, 0, 0, 0x31, 0xd2, 0x49, 0x0f, 0xae, 0xae, 0x00, 0x14, 0x00, 0x00]),
];

/// Extensions that no kernel here enables: protection keys, shadow stacks, user interrupts, tiles, bounds, masks and
/// more vectors, debug registers, and hints for waiting and caches.
pub const EXTENSIONS: [Change<'_>; 29] = [
    refused("wrpkru", &[0xb8, 0xff, 0xff, 0xff, 0xff, 0x31, 0xc9, 0x31, 0xd2, 0x0f, 0x01, 0xef]), // all keys denied
    refused("incsspq", &[0xb8, 0x01, 0x00, 0x00, 0x00, 0xf3, 0x48, 0x0f, 0xae, 0xe8]),
    refused("setssbsy", &[0xf3, 0x0f, 0x01, 0xe8]),
    refused("saveprevssp", &[0xf3, 0x0f, 0x01, 0xea]),
    refused("rstorssp", &[0xf3, 0x41, 0x0f, 0x01, 0x2e]), // [r14]
    refused("wrssq", &[0x49, 0x0f, 0x38, 0xf6, 0x06]),    // [r14], rax
    refused("endbr64", &[0xf3, 0x0f, 0x1e, 0xfa]),
    refused("clui", &[0xf3, 0x0f, 0x01, 0xee]),
    refused("stui", &[0xf3, 0x0f, 0x01, 0xef]),
    refused("uiret", &[0xf3, 0x0f, 0x01, 0xec]),
    refused("senduipi", &[0xf3, 0x0f, 0xc7, 0xf0]),
    refused("ldtilecfg", &[0xc4, 0xc2, 0x78, 0x49, 0x86, 0x00, 0x10, 0x00, 0x00]), // [r14 + 0x1000]
    refused("tilezero", &[0xc4, 0xe2, 0x7b, 0x49, 0xc0]),
    refused("tilerelease", &[0xc4, 0xe2, 0x78, 0x49, 0xc0]),
    refused("bndmk", &[0xf3, 0x0f, 0x1b, 0x00]),              // bnd0, [rax]
    refused("vpxord", &[0x62, 0xa1, 0x7d, 0x40, 0xef, 0xc0]), // zmm16
    refused("kxnorw", &[0xc5, 0xf4, 0x46, 0xc9]),             // k1
    refused("umonitor", &[0xf3, 0x0f, 0xae, 0xf0]),           // rax
    refused("umwait", &[0x31, 0xc0, 0x31, 0xd2, 0xf2, 0x0f, 0xae, 0xf1]),
    refused("tpause", &[0x31, 0xc0, 0x31, 0xd2, 0x66, 0x0f, 0xae, 0xf1]),
    refused("ptwrite", &[0xf3, 0x0f, 0xae, 0xe0]),
    refused("enqcmd", &[0xf2, 0x41, 0x0f, 0x38, 0xf8, 0x06]), // rax, [r14]
    refused("clac", &[0x0f, 0x01, 0xca]),
    refused("stac", &[0x0f, 0x01, 0xcb]),
    refused("hreset", &[0xf3, 0x0f, 0x3a, 0xf0, 0xc0, 0x00]),
    refused("xbegin", &[0xc7, 0xf8, 0x00, 0x00, 0x00, 0x00]),
    refused("mov dr0, rax", &[0x0f, 0x23, 0xc0]),
    refused("mov dr7, rax", &[0x0f, 0x23, 0xf8]),
    refused("mov cr8, rax", &[0x44, 0x0f, 0x22, 0xc0]),
];

/// `xgetbv` with 0: the state components that the kernel has enabled. Stores them in the line's third word.
pub const TELLS_COMPONENTS: &[u8] = &[
    0x49, 0x89, 0xfd, //       mov r13, rdi
    0x31, 0xc9, //             xor ecx, ecx
    0x0f, 0x01, 0xd0, //       xgetbv
    0x49, 0x89, 0x45, 0x10, // mov [r13 + 0x10], rax
    0x49, 0xff, 0x45, 0x00, // inc qword ptr [r13]
    0x0f, 0x0b, //             ud2
];
/// The same for `rdsspq`, which leaves a 1 unchanged if shadow stacks are off.
pub const TELLS_SHADOW_STACK: &[u8] = &[
    0x49, 0x89, 0xfd, //             mov r13, rdi
    0xb8, 0x01, 0x00, 0x00, 0x00, // mov eax, 1
    0xf3, 0x48, 0x0f, 0x1e, 0xc8, // rdsspq rax
    0x49, 0x89, 0x45, 0x10, //       mov [r13 + 0x10], rax
    0x49, 0xff, 0x45, 0x00, //       inc qword ptr [r13]
    0x0f, 0x0b, //                   ud2
];
/// The same for the base of FS, if programs have the instructions for bases.
pub const TELLS_BASE: &[u8] = &[
    0x49, 0x89, 0xfd, //             mov r13, rdi
    0xf3, 0x48, 0x0f, 0xae, 0xc0, // rdfsbase rax
    0x49, 0x89, 0x45, 0x10, //       mov [r13 + 0x10], rax
    0x49, 0xff, 0x45, 0x00, //       inc qword ptr [r13]
    0x0f, 0x0b, //                   ud2
];

/// The length of the jump with which a turn of an attacker or a victim ends.
pub const JUMP: usize = 5;

/// Adds a jump back to `from`.
fn again(mut code: Vec<u8>, from: usize) -> Vec<u8> {
    let distance = (code.len() + JUMP) as i32 - from as i32;
    code.push(0xe9);
    code.extend((-distance).to_le_bytes());
    code
}

/// An attacker that makes a change again and again.
pub fn attacker(change: &[u8], way: YieldMethod) -> Vec<u8> {
    let goes = match way {
        YieldMethod::Yields => YIELDS.to_vec(),
        YieldMethod::Calls => [NO_HANDLE, &call(nr::HANDLE_CLOSE), YIELDS].concat(),
        YieldMethod::Sleeps => [UNTIL_DEADLINE, &call(nr::NANOSLEEP)].concat(),
        YieldMethod::Spins => Vec::new(),
        YieldMethod::Asks => ASKS.to_vec(),
    };
    again([BEGINS, change, COUNTS, &goes].concat(), BEGINS.len())
}

/// An attacker that makes a change once, and ends its thread.
pub fn ends_with(change: &[u8]) -> Vec<u8> {
    [BEGINS, change, COUNTS, &call(nr::THREAD_EXIT), ENDS].concat()
}

/// The registers that a victim checks.
#[derive(Clone, Copy)]
pub struct CheckedRegisters {
    /// Those of x87 and SSE.
    pub vectors: bool,
    /// The registers of AVX.
    pub avx: bool,
    /// It enters the kernel in each turn: by a call, and to yield.
    pub enters: bool,
    /// It calls a native component in each turn.
    pub asks: bool,
}

const KEEPS: &[u8] = &[
    0x41, 0x0f, 0xae, 0x96, 0x20, 0x08, 0x00, 0x00, // ldmxcsr [r14 + 0x820]
    0x41, 0xd9, 0xae, 0x28, 0x08, 0x00, 0x00, //       fldcw [r14 + 0x828]
    0x41, 0xdd, 0x86, 0x00, 0x08, 0x00, 0x00, //       fld qword ptr [r14 + 0x800]
    0xf3, 0x41, 0x0f, 0x6f, 0xbe, 0x00, 0x08, 0x00, 0x00, // movdqu xmm7, [r14 + 0x800]
    0x66, 0x44, 0x0f, 0x6f, 0xff, //                   movdqa xmm15, xmm7
];
const KEEPS_AVX: &[u8] = &[
    0xc4, 0xc1, 0x7e, 0x6f, 0xbe, 0x00, 0x08, 0x00, 0x00, // vmovdqu ymm7, [r14 + 0x800]
    0xc5, 0x7d, 0x6f, 0xff, //                               vmovdqa ymm15, ymm7
];
const KEEPS_STACK_SEGMENT: &[u8] = &[0x41, 0x8c, 0xd4]; // mov r12d, ss

/// What a victim can find wrong, by the number that it stores.
pub const WRONG: [&str; 12] =
    ["GS", "FS", "the flags", "SS", "FCW", "FSW", "st0", "MXCSR", "xmm7", "xmm15", "ymm7", "a call's answer"];

/// Each piece checks one thing and sets the zero flag if it is right.
const LOOKS: [&[u8]; 4] = [
    &[
        0x65, 0x4c, 0x89, 0x2c, 0x25, 0xf0, 0x03, 0x00, 0x00, // mov gs:[0x3f0], r13
        0x65, 0x4c, 0x39, 0x2c, 0x25, 0xf0, 0x03, 0x00, 0x00, // cmp gs:[0x3f0], r13
    ],
    &[
        0x64, 0x48, 0x8b, 0x04, 0x25, 0x00, 0x00, 0x00, 0x00, // mov rax, fs:[0]
        0x49, 0x3b, 0x86, 0x00, 0x09, 0x00, 0x00, //             cmp rax, [r14 + 0x900]
    ],
    &[
        0x9c, //                         pushfq
        0x58, //                         pop rax
        0x25, 0x00, 0x77, 0x24, 0x00, // and eax, 0x247700
        0x3d, 0x00, 0x02, 0x00, 0x00, // cmp eax, 0x200
    ],
    &[
        0x8c, 0xd0, //       mov eax, ss
        0x44, 0x39, 0xe0, // cmp eax, r12d
    ],
];
const LOOKS_AT_VECTORS: [&[u8]; 6] = [
    &[
        0x41, 0xd9, 0x7d, 0x10, //                         fnstcw [r13 + 0x10]
        0x66, 0x41, 0x8b, 0x45, 0x10, //                   mov ax, [r13 + 0x10]
        0x66, 0x41, 0x3b, 0x86, 0x28, 0x08, 0x00, 0x00, // cmp ax, [r14 + 0x828]
    ],
    &[
        0x41, 0xdd, 0x7d, 0x10, //                   fnstsw [r13 + 0x10]
        0x66, 0x41, 0xf7, 0x45, 0x10, 0xdf, 0x80, // test word ptr [r13 + 0x10], 0x80df: all but precision
    ],
    &[
        0x41, 0xdd, 0x55, 0x18, //                   fst qword ptr [r13 + 0x18]
        0x49, 0x8b, 0x45, 0x18, //                   mov rax, [r13 + 0x18]
        0x49, 0x3b, 0x86, 0x00, 0x08, 0x00, 0x00, // cmp rax, [r14 + 0x800]
    ],
    &[
        0x41, 0x0f, 0xae, 0x5d, 0x20, //             stmxcsr [r13 + 0x20]
        0x41, 0x8b, 0x45, 0x20, //                   mov eax, [r13 + 0x20]
        0x41, 0x3b, 0x86, 0x20, 0x08, 0x00, 0x00, // cmp eax, [r14 + 0x820]
    ],
    &[
        0xf3, 0x41, 0x0f, 0x7f, 0x7d, 0x30, //       movdqu [r13 + 0x30], xmm7
        0x49, 0x8b, 0x45, 0x30, //                   mov rax, [r13 + 0x30]
        0x49, 0x3b, 0x86, 0x00, 0x08, 0x00, 0x00, // cmp rax, [r14 + 0x800]
    ],
    &[
        0xf3, 0x45, 0x0f, 0x7f, 0x7d, 0x30, //       movdqu [r13 + 0x30], xmm15
        0x49, 0x8b, 0x45, 0x38, //                   mov rax, [r13 + 0x38]
        0x49, 0x3b, 0x86, 0x08, 0x08, 0x00, 0x00, // cmp rax, [r14 + 0x808]
    ],
];
const LOOKS_AT_AVX: &[u8] = &[
    0xc4, 0xc1, 0x7e, 0x7f, 0x7d, 0x30, //       vmovdqu [r13 + 0x30], ymm7
    0x49, 0x8b, 0x45, 0x48, //                   mov rax, [r13 + 0x48]
    0x49, 0x3b, 0x86, 0x18, 0x08, 0x00, 0x00, // cmp rax, [r14 + 0x818]
];
const LOOKS_AT_ANSWER: &[u8] = &[0x45, 0x85, 0xd2]; // test r10d, r10d

/// A check, and the end of a victim that finds something wrong: it stores the number and ends.
fn look(number: usize, looks: &[u8]) -> Vec<u8> {
    let wrong = [0x74, 0x0a, 0x49, 0xc7, 0x45, 0x08, number as u8, 0, 0, 0]; // je E; mov qword ptr [r13 + 8], number
    [looks, &wrong, ENDS].concat() //                                           ud2; E:
}

/// A victim: has state of its own, and checks it again and again.
pub fn victim(has: CheckedRegisters) -> Vec<u8> {
    let mut code = [BEGINS, KEEPS_STACK_SEGMENT].concat();
    if has.vectors {
        code.extend_from_slice(KEEPS);
    }
    if has.vectors && has.avx {
        code.extend_from_slice(KEEPS_AVX);
    }
    let from = code.len();
    code.extend_from_slice(COUNTS);
    LOOKS.iter().enumerate().for_each(|(place, looks)| code.extend(look(1 + place, looks)));
    if has.vectors {
        LOOKS_AT_VECTORS.iter().enumerate().for_each(|(place, looks)| code.extend(look(5 + place, looks)));
    }
    if has.vectors && has.avx {
        code.extend(look(11, LOOKS_AT_AVX));
    }
    if has.enters {
        code.extend([NO_HANDLE, &call(nr::HANDLE_CLOSE), &look(12, LOOKS_AT_ANSWER), YIELDS].concat());
    }
    if has.asks {
        code.extend([ASKS, &look(12, LOOKS_AT_COMPONENT)].concat());
    }
    again(code, from)
}

/// The state that a new thread must have, each with a name. The numbers belong to this list, not to [`WRONG`].
pub const NEW: [(&str, &[u8]); 6] = [
    ("flags", &[0x9c, 0x58, 0x48, 0x3d, 0x02, 0x02, 0x00, 0x00]), // pushfq; pop rax; cmp rax, 0x202
    // mov rax, rbx; or rax, rbp; or rax, r8; or rax, r15; or rax, r12
    ("registers", &[0x48, 0x89, 0xd8, 0x48, 0x09, 0xe8, 0x4c, 0x09, 0xc0, 0x4c, 0x09, 0xf8, 0x4c, 0x09, 0xe0]),
    // fnstcw [r13 + 0x10]; cmp word ptr [r13 + 0x10], 0x37f
    ("FCW", &[0x41, 0xd9, 0x7d, 0x10, 0x66, 0x41, 0x81, 0x7d, 0x10, 0x7f, 0x03]),
    // stmxcsr [r13 + 0x20]; cmp dword ptr [r13 + 0x20], 0x1f80
    ("MXCSR", &[0x41, 0x0f, 0xae, 0x5d, 0x20, 0x41, 0x81, 0x7d, 0x20, 0x80, 0x1f, 0x00, 0x00]),
    (
        "xmm7",
        &[
            0xf3, 0x41, 0x0f, 0x7f, 0x7d, 0x30, // movdqu [r13 + 0x30], xmm7
            0x49, 0x8b, 0x45, 0x30, //             mov rax, [r13 + 0x30]
            0x49, 0x0b, 0x45, 0x38, //             or rax, [r13 + 0x38]
        ],
    ),
    // fnstenv [r13 + 0x10]; cmp word ptr [r13 + 0x18], 0xffff: the x87 stack is empty
    ("x87 tags", &[0x41, 0xd9, 0x75, 0x10, 0x66, 0x41, 0x83, 0x7d, 0x18, 0xff]),
];

/// Checks the state at its start, and ends its thread.
pub fn newcomer() -> Vec<u8> {
    let looks: Vec<u8> = NEW.iter().enumerate().flat_map(|(place, (_, looks))| look(1 + place, looks)).collect();
    let begins = &BEGINS[..6];
    let own = [look(7, LOOKS[0]), look(8, LOOKS_AT_NO_FS)].concat();
    [begins, &looks, &own, COUNTS, &call(nr::THREAD_EXIT), ENDS].concat()
}

/// The base of FS must be 0: then the pages are at their usual address relative to FS. The lowest page is never mapped.
const LOOKS_AT_NO_FS: &[u8] = &[
    0x64, 0x49, 0x8b, 0x06, //                   mov rax, fs:[r14]
    0x49, 0x3b, 0x06, //                         cmp rax, [r14]
];
