//! Memory of devices.

use super::Frame;
use crate::containers::growth::OutOfMemory;
use abi::Status;

/// Why a device's memory or interrupt is not available. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceError {
    /// It does not exist, or this system may not give it out: the system itself or another instance uses it.
    Denied,
    /// It is in use already.
    Taken,
    /// The machine already watches as many as it can.
    NoneLeft,
    /// There is not enough memory for it.
    OutOfMemory,
}

impl From<DeviceError> for Status {
    fn from(error: DeviceError) -> Status {
        match error {
            DeviceError::Denied => Status::ACCESS_DENIED,
            DeviceError::Taken => Status::ALREADY_EXISTS,
            DeviceError::NoneLeft => Status::NO_RESOURCES,
            DeviceError::OutOfMemory => Status::NO_MEMORY,
        }
    }
}

impl From<OutOfMemory> for DeviceError {
    fn from(_: OutOfMemory) -> Self {
        DeviceError::OutOfMemory
    }
}

/// A page of device memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceFrame {
    /// Its number.
    pub frame: Frame,
    /// It may be mapped for writing.
    pub writable: bool,
}

/// Memory of devices that this system may give to programs.
pub trait Devices {
    /// The page of device memory at a page-aligned physical address. The same address always has the same frame number.
    /// It need not be returned. `Denied` also if the address is ordinary memory.
    fn device_frame(&mut self, address: u64) -> Result<DeviceFrame, DeviceError>;
    /// Whether [`Self::device_frame`] would succeed for all `pages` pages from an address up, and if so, whether all
    /// of them are writable. Allocates nothing; cheap for any number of pages.
    fn device_range(&self, address: u64, pages: u64) -> Result<bool, DeviceError>;
    /// Reads four bytes of a device's page at a multiple of four; none on failure. Slow; meant for device accesses that
    /// the server makes on a program's behalf.
    fn device_read(&mut self, frame: Frame, offset: usize) -> Option<u32>;
    /// Writes four bytes likewise; says whether it succeeded.
    fn device_write(&mut self, frame: Frame, offset: usize, value: u32) -> bool;
}
