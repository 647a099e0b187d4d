//! The 64-bit x86 processors.

#[cfg(feature = "probe")]
mod counter;
mod ioports;
mod restricted;
#[cfg(all(feature = "probe", feature = "std"))]
pub mod upcalls;

#[cfg(feature = "probe")]
pub use counter::counter;
pub use ioports::IoPorts;
pub use restricted::enter;
#[cfg(feature = "probe")]
pub use restricted::{FxRegisters, enter_with};

/// What the processor said about an exception, from the words of a report.
pub fn exception_data([vector, err_code, cr2]: [u64; 3]) -> abi::zx_x86_64_exc_data_t {
    abi::zx_x86_64_exc_data_t { vector, err_code, cr2 }
}
