//! Registers.

use super::USER_TOP;

/// Whether an address is a valid instruction pointer or FS base for a thread.
pub const fn canonical(address: u64) -> bool {
    address >> 47 == 0
}

/// The general registers of a thread, named as in `zx_thread_state_general_regs_t`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)]
pub struct Registers {
    pub rax: u64,
    pub rbx: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    pub rbp: u64,
    pub rsp: u64,
    pub r8: u64,
    pub r9: u64,
    pub r10: u64,
    pub r11: u64,
    pub r12: u64,
    pub r13: u64,
    pub r14: u64,
    pub r15: u64,
    pub rip: u64,
    pub rflags: u64,
    pub fs_base: u64,
    /// 0 where the kernel below reserves GS.
    pub gs_base: u64,
}

/// Builds a struct of general registers from another one: copies the fields that have the same names in all such
/// structs, and sets the remaining fields as given.
#[macro_export]
macro_rules! general_registers {
    ($from:expr => $to:ident { $($rest:tt)* }) => {
        $to {
            rax: $from.rax,
            rbx: $from.rbx,
            rcx: $from.rcx,
            rdx: $from.rdx,
            rsi: $from.rsi,
            rdi: $from.rdi,
            rbp: $from.rbp,
            rsp: $from.rsp,
            r8: $from.r8,
            r9: $from.r9,
            r10: $from.r10,
            r11: $from.r11,
            r12: $from.r12,
            r13: $from.r13,
            r14: $from.r14,
            r15: $from.r15,
            fs_base: $from.fs_base,
            gs_base: $from.gs_base,
            $($rest)*
        }
    };
}

/// The x87 and vector registers of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FpuRegisters {
    /// x87: control word.
    pub fcw: u16,
    /// x87: status word.
    pub fsw: u16,
    /// x87: abridged tag word: one bit per register, set if it is in use.
    pub ftw: u8,
    /// x87: last opcode.
    pub fop: u16,
    /// x87: last instruction.
    pub fip: u64,
    /// x87: last operand.
    pub fdp: u64,
    /// x87: the register stack, 80 bits each.
    pub st: [[u64; 2]; 8],
    /// MXCSR, control and status of the vector unit.
    pub mxcsr: u32,
    /// Mask of the bits that [`FpuRegisters::mxcsr`] may have set.
    pub mxcsr_mask: u32,
    /// The vector registers, 256 bits each.
    pub ymm: [[u64; 4]; 16],
}

impl FpuRegisters {
    /// The state at a thread's start.
    pub const INITIAL: FpuRegisters = FpuRegisters {
        fcw: 0x37f,
        fsw: 0,
        ftw: 0,
        fop: 0,
        fip: 0,
        fdp: 0,
        st: [[0; 2]; 8],
        mxcsr: 0x1f80,
        mxcsr_mask: 0xffff,
        ymm: [[0; 4]; 16],
    };
}

/// The debug registers of a thread: up to four breakpoints, each on execution or on data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DebugRegisters {
    /// DR0 to DR3: the addresses.
    pub addresses: [u64; 4],
    /// DR6: a bit for each breakpoint that the last debug exception was for, and bit 14 for a single step.
    pub status: u64,
    /// DR7: which breakpoints are enabled, for which accesses, and for how many bytes.
    pub control: u64,
}

impl DebugRegisters {
    /// The bits of DR6 that are always set.
    pub const STATUS_FIXED: u64 = 0xffff_0ff0;
    /// The bits of DR7 that are always set here: the reserved one, and two that ask for exact breakpoints.
    pub const CONTROL_FIXED: u64 = 0x700;
    /// The bits of DR7 that a program sets: enabling, accesses, lengths.
    pub const CONTROL_SET: u64 = 0xffff_00ff;

    /// The bits of DR7 that enable breakpoints.
    pub const ENABLED: u64 = 0xff;

    /// Whether a program may have these breakpoints. All addresses must be user addresses. An enabled breakpoint must
    /// be for execution with a length of one byte, or for data that is aligned to its length.
    pub fn valid(&self) -> bool {
        self.addresses.iter().enumerate().all(|(n, &address)| {
            let enabled = self.control >> (2 * n) & 3 != 0;
            let length = match self.control >> (18 + 4 * n) & 3 {
                0 => 1,
                1 => 2,
                2 => 8,
                _ => 4,
            };
            let possible = match self.control >> (16 + 4 * n) & 3 {
                0 => length == 1,
                // I/O ports.
                2 => false,
                _ => address.is_multiple_of(length),
            };
            address < USER_TOP && (possible || !enabled)
        })
    }
}
