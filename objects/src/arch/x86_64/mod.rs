//! The 64-bit x86 processors.

mod call_stack_pointer;
mod debug_registers;
mod exception;
pub mod layout;
mod port_instruction;
mod registers;
mod user_registers;
mod vector_registers;

#[cfg(test)]
pub(crate) use call_stack_pointer::ENTERS;
pub use debug_registers::DebugRegisters;
pub use registers::Registers;
pub use user_registers::UserRegisters;
pub use vector_registers::FpuRegisters;

/// This architecture.
pub struct X86_64;
