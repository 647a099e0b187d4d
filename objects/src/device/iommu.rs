//! IOMMUs: what stands between a device and memory.
//!
//! There is one kind so far, the *stub*, that lets every device reach all memory. It takes the place of the hardware
//! where there is none, or where it is not used.

use alloc::boxed::Box;

use abi::{Signals, Status};

use crate::core::noun::Noun;
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::kernel::nouns::Body;
use crate::machine::{Machine, PAGE};

/// An IOMMU of the kind that does nothing.
pub struct Iommu;

impl Noun for Iommu {
    const TYPE: u32 = abi::ZX_OBJ_TYPE_IOMMU;
}

impl Iommu {
    /// Bytes of memory that are in one piece for a device whenever they are in one page.
    pub const CONTIGUITY: u64 = PAGE;
    /// Bytes that a device can address.
    pub const REACH: u64 = u64::MAX;
}

impl<M: Machine> Kernel<M> {
    /// `iommu_create` of a stub.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn iommu_create_stub(&mut self) -> Result<Id<Iommu>, Status> {
        self.create(Signals::NONE, Body::Iommu(Box::new(Iommu)))
    }
}
