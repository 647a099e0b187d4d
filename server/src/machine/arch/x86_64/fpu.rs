//! The x87 and vector registers in the kernel's format, which is the standard format of XSAVE.
//!
//! | bytes | content |
//! |---|---|
//! | 0 to 31 | x87 control, status, tag, opcode, instruction, operand; MXCSR and its mask |
//! | 32 to 159 | st0 to st7, 16 bytes each |
//! | 160 to 415 | the lower halves of ymm0 to ymm15 |
//! | 512 | the components that are present: x87, SSE, AVX; the others have their initial state |
//! | 576 to 831 | the upper halves of ymm0 to ymm15 |

use objects::arch::{FpuRegisters, VectorRegisters};
use sel4::FPU_WORDS;

const ST: usize = 32 / 8;
const XMM: usize = 160 / 8;
const COMPONENTS: usize = 512 / 8;
const YMM_UPPER: usize = 576 / 8;

const X87: u64 = 1;
const SSE: u64 = 1 << 1;
const AVX: u64 = 1 << 2;

/// Bits of MXCSR that every processor has, used if the processor's mask is 0.
const MXCSR_MASK: u32 = 0xffbf;
/// Bits of the second word of an x87 register.
const ST_HIGH: u64 = 0xffff;

/// Reads the registers from the kernel's words.
pub fn decode(words: &[u64; FPU_WORDS]) -> FpuRegisters {
    let mut registers = FpuRegisters::INITIAL;
    let components = words[COMPONENTS];
    if components & X87 != 0 {
        registers.fcw = words[0] as u16;
        registers.fsw = (words[0] >> 16) as u16;
        registers.ftw = (words[0] >> 32) as u8;
        registers.fop = (words[0] >> 48) as u16;
        registers.fip = words[1];
        registers.fdp = words[2];
        for (i, st) in registers.st.iter_mut().enumerate() {
            *st = [words[ST + 2 * i], words[ST + 2 * i + 1] & ST_HIGH];
        }
    }
    registers.mxcsr_mask = match (words[3] >> 32) as u32 {
        0 => MXCSR_MASK,
        mask => mask,
    };
    if components & (SSE | AVX) != 0 {
        registers.mxcsr = words[3] as u32;
    }
    for (i, ymm) in registers.ymm.iter_mut().enumerate() {
        if components & SSE != 0 {
            ymm[..2].copy_from_slice(&words[XMM + 2 * i..XMM + 2 * i + 2]);
        }
        if components & AVX != 0 {
            ymm[2..].copy_from_slice(&words[YMM_UPPER + 2 * i..YMM_UPPER + 2 * i + 2]);
        }
    }
    registers
}

/// The kernel's words for registers, with all components present.
pub fn encode(registers: &FpuRegisters) -> [u64; FPU_WORDS] {
    let mut words = [0; FPU_WORDS];
    words[0] = u64::from(registers.fcw)
        | u64::from(registers.fsw) << 16
        | u64::from(registers.ftw) << 32
        | u64::from(registers.fop) << 48;
    words[1] = registers.fip;
    words[2] = registers.fdp;
    words[3] = u64::from(registers.mxcsr) | u64::from(registers.mxcsr_mask) << 32;
    for (i, st) in registers.st.iter().enumerate() {
        words[ST + 2 * i] = st[0];
        words[ST + 2 * i + 1] = st[1] & ST_HIGH;
    }
    for (i, ymm) in registers.ymm.iter().enumerate() {
        words[XMM + 2 * i..XMM + 2 * i + 2].copy_from_slice(&ymm[..2]);
        words[YMM_UPPER + 2 * i..YMM_UPPER + 2 * i + 2].copy_from_slice(&ymm[2..]);
    }
    words[COMPONENTS] = X87 | SSE | AVX;
    words
}
