//! What the processor says about exceptions.

use abi::{
    ZX_EXCP_FATAL_PAGE_FAULT, ZX_EXCP_GENERAL, ZX_EXCP_HW_BREAKPOINT, ZX_EXCP_SW_BREAKPOINT, ZX_EXCP_UNALIGNED_ACCESS,
    ZX_EXCP_UNDEFINED_INSTRUCTION, zx_x86_64_exc_data_t,
};

use super::port_instruction::Instruction;
use super::registers::canonical;
use super::user_registers::can_be_base;
use super::{DebugRegisters, FpuRegisters, Registers, UserRegisters, X86_64};
use crate::arch::{Architecture, PageFaultAccess};

/// The vector for general protection, which the use of I/O ports raises, among others.
const GENERAL_PROTECTION: u64 = 13;
/// Bits of a page fault's code: the page is mapped, but does not allow the access.
const PROTECTION: u64 = 1 << 0;
/// The access was a store.
const WRITE: u64 = 1 << 1;
/// The access came from user mode.
const USER: u64 = 1 << 2;
/// The access was an instruction fetch.
const FETCH: u64 = 1 << 4;

impl Architecture for X86_64 {
    type Registers = Registers;
    type FpuRegisters = FpuRegisters;
    type DebugRegisters = DebugRegisters;
    type UserRegisters = UserRegisters;
    type PortInstruction = Instruction;
    const PAGE_FAULT: u64 = 14;

    fn is_user_address(address: u64) -> bool {
        canonical(address)
    }

    fn can_be_pointer(base: u64) -> bool {
        can_be_base(base)
    }

    fn exception_kind(vector: u64) -> u32 {
        match vector {
            1 => ZX_EXCP_HW_BREAKPOINT,
            3 => ZX_EXCP_SW_BREAKPOINT,
            6 => ZX_EXCP_UNDEFINED_INSTRUCTION,
            Self::PAGE_FAULT => ZX_EXCP_FATAL_PAGE_FAULT,
            17 => ZX_EXCP_UNALIGNED_ACCESS,
            _ => ZX_EXCP_GENERAL,
        }
    }

    fn exception_data(vector: u64, code: u64) -> zx_x86_64_exc_data_t {
        zx_x86_64_exc_data_t { vector, err_code: code, ..Default::default() }
    }

    fn page_fault_data(address: u64, mapped: bool, write: bool, execute: bool) -> zx_x86_64_exc_data_t {
        let bits = [(mapped, PROTECTION), (write, WRITE), (true, USER), (execute, FETCH)];
        let err_code = bits.iter().filter(|(set, _)| *set).map(|(_, bit)| bit).sum();
        zx_x86_64_exc_data_t { vector: Self::PAGE_FAULT, err_code, cr2: address }
    }

    fn page_fault_access(code: u64) -> PageFaultAccess {
        PageFaultAccess { user: code & USER != 0, write: code & WRITE != 0, execute: code & FETCH != 0 }
    }

    fn page_fault_address(data: &zx_x86_64_exc_data_t) -> u64 {
        data.cr2
    }

    fn page_fault_name(data: &zx_x86_64_exc_data_t) -> &'static str {
        match Self::page_fault_access(data.err_code) {
            PageFaultAccess { execute: true, .. } => "page fault (execute)",
            PageFaultAccess { write: true, .. } => "page fault (write)",
            _ => "page fault (read)",
        }
    }

    fn exception_name(data: &zx_x86_64_exc_data_t) -> &'static str {
        match data.vector {
            0 => "divide error",
            4 => "overflow",
            8 => "double fault",
            12 => "stack fault",
            13 => "general protection fault",
            16 => "floating-point error",
            19 => "vector floating-point error",
            _ => "processor exception",
        }
    }

    fn can_be_port_access(vector: u64, code: u64) -> bool {
        (vector, code) == (GENERAL_PROTECTION, 0)
    }
}
