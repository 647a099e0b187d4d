//! IOMMUs, which control the memory accesses of devices.
//!
//! So far there is only the *stub*, which lets every device access all memory. It stands in for missing or unused
//! hardware.

use alloc::boxed::Box;

use abi::{Signals, Status};

use crate::core::noun::{Noun, ObjectOps};
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::{Machine, PAGE};

/// A stub IOMMU.
pub struct Iommu;

impl Noun for Iommu {
    const TYPE: u32 = abi::ZX_OBJ_TYPE_IOMMU;
}

impl ObjectOps for Iommu {}

impl Iommu {
    /// Memory within one block of this size is always contiguous for a device.
    pub const CONTIGUITY: u64 = PAGE;
    /// Size of a device's address space in bytes.
    pub const REACH: u64 = u64::MAX;
}

impl<M: Machine> Kernel<M> {
    /// `iommu_create` of a stub.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn iommu_create_stub(&mut self) -> Result<Id<Iommu>, Status> {
        self.create(Signals::NONE, Box::new(Iommu))
    }
}
