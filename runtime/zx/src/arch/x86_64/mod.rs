//! The 64-bit x86 processors.

mod copy;
#[cfg(feature = "probe")]
mod counter;
#[cfg(feature = "probe")]
mod fx_registers;
mod ioports;
mod restricted;
#[cfg(feature = "std")]
pub mod tolerant;
#[cfg(all(feature = "probe", feature = "std"))]
pub mod upcalls;

pub use copy::{BLOCK, copy_blocks};
#[cfg(feature = "probe")]
pub use counter::counter;
#[cfg(feature = "probe")]
pub use fx_registers::FxRegisters;
pub use ioports::IoPorts;
pub use restricted::enter;

/// What the processor said about an exception, from the words of a report.
pub fn exception_data([vector, err_code, cr2]: [u64; 3]) -> abi::zx_x86_64_exc_data_t {
    abi::zx_x86_64_exc_data_t { vector, err_code, cr2 }
}
