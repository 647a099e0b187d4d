//! The x87 and vector registers.

use abi::{zx_thread_state_fp_regs_t, zx_thread_state_vector_regs_t};

use crate::arch::VectorRegisters;

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

impl VectorRegisters for FpuRegisters {
    const INITIAL: FpuRegisters = FpuRegisters {
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

    fn can_replace(&self, found: &Self) -> bool {
        self.mxcsr & !found.mxcsr_mask == 0
    }

    fn floating(&self) -> zx_thread_state_fp_regs_t {
        zx_thread_state_fp_regs_t {
            fcw: self.fcw,
            fsw: self.fsw,
            ftw: self.ftw,
            fop: self.fop,
            fip: self.fip,
            fdp: self.fdp,
            st: self.st,
            ..Default::default()
        }
    }

    fn set_floating(&mut self, new: &zx_thread_state_fp_regs_t) {
        (self.fcw, self.fsw, self.ftw, self.fop) = (new.fcw, new.fsw, new.ftw, new.fop);
        (self.fip, self.fdp, self.st) = (new.fip, new.fdp, new.st);
    }

    fn vector(&self) -> zx_thread_state_vector_regs_t {
        let mut state = zx_thread_state_vector_regs_t { mxcsr: self.mxcsr, ..Default::default() };
        for (zmm, ymm) in state.zmm.iter_mut().zip(&self.ymm) {
            zmm[..4].copy_from_slice(ymm);
        }
        state
    }

    fn set_vector(&mut self, new: &zx_thread_state_vector_regs_t) {
        self.mxcsr = new.mxcsr;
        for (ymm, zmm) in self.ymm.iter_mut().zip(&new.zmm) {
            ymm.copy_from_slice(&zmm[..4]);
        }
    }
}
