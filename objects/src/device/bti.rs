//! Bus transaction initiators (BTIs) and their pinned memory.
//!
//! A *BTI* represents a device that accesses memory by itself. Memory for it is pinned, which creates a token, the
//! *PMT*. As long as the pin lasts, the pages do not move:
//!
//! 1. `bti_pin` pins the pages and creates the token.
//! 2. `pmt_unpin` says that the device no longer uses them: the pin ends, and the token with it.
//! 3. If the last handle of the token is closed without that, the device may still access the pages, for example
//!    because its driver has crashed. The token goes into the *quarantine* of its BTI, with the pin.
//! 4. `bti_release_quarantine` says that the device is quiescent: the pins in quarantine end.
//!
//! A BTI without handles stays while its quarantine holds something, and so do the pages: leaking memory that a device
//! may still write to is better than reusing it.

use alloc::boxed::Box;

use abi::{Signals, Status};

use crate::containers::list::{Link, List};
use crate::containers::name::Name;
use crate::core::debuglog::{Level, LogWriter};
use crate::core::noun::{Noun, ObjectOps, chain};
use crate::core::object::Id;
use crate::device::iommu::Iommu;
use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::memory::vmo::{Pin, Vmo};

/// A bus transaction initiator.
pub struct Bti {
    /// Its name.
    pub name: Name,
    /// Its IOMMU.
    iommu: Id<Iommu>,
    /// Its number on the bus.
    pub number: u64,
    /// Number of tokens, including those in quarantine.
    pub tokens: u64,
    /// Tokens in quarantine,
    quarantine: List<Quarantined>,
    /// and their number.
    pub quarantined: u64,
}

impl Noun for Bti {
    const TYPE: u32 = abi::ZX_OBJ_TYPE_BTI;

    fn name(&self) -> Option<Name> {
        Some(self.name)
    }
}

impl ObjectOps for Bti {
    fn rename<M: Machine>(kernel: &mut Kernel<M>, id: Id<Self>, name: Name) -> Result<(), Status> {
        kernel.objects.get_mut(id)?.name = name;
        Ok(())
    }

    #[inline(always)]
    fn last_handle_closed<M: Machine>(kernel: &mut Kernel<M>, id: Id<Self>) {
        kernel.bti_unreachable(id);
    }

    #[inline(always)]
    fn destroyed<M: Machine>(self: Box<Self>, kernel: &mut Kernel<M>, _: Id<Self>) {
        kernel.drop_ref(self.iommu.object());
    }
}

/// Pinned memory.
pub struct Pmt {
    bti: Id<Bti>,
    /// The pinned pages, until they are unpinned.
    pin: Option<Pin>,
    pub(crate) quarantine: Link,
}

impl Noun for Pmt {
    const TYPE: u32 = abi::ZX_OBJ_TYPE_PMT;
}

impl ObjectOps for Pmt {
    #[inline(always)]
    fn last_handle_closed<M: Machine>(kernel: &mut Kernel<M>, id: Id<Self>) {
        kernel.pmt_unreachable(id);
    }

    #[inline(always)]
    fn destroyed<M: Machine>(self: Box<Self>, kernel: &mut Kernel<M>, _: Id<Self>) {
        // A token that never had a handle.
        if let Some(pin) = self.pin {
            kernel.vmo_unpin(pin);
        }
        if let Ok(bti) = kernel.objects.get_mut(self.bti) {
            bti.tokens = bti.tokens.saturating_sub(1);
        }
        kernel.drop_ref(self.bti.object());
    }
}

chain! {
    /// Pinned memory in the quarantine of a bus transaction initiator.
    Quarantined = Pmt.quarantine
}

impl<M: Machine> Kernel<M> {
    /// `bti_create`.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn bti_create(&mut self, iommu: Id<Iommu>, number: u64) -> Result<Id<Bti>, Status> {
        let name = Name::default();
        let bti = Bti { name, iommu, number, tokens: 0, quarantine: List::default(), quarantined: 0 };
        let id = self.create(Signals::NONE, Box::new(bti))?;
        self.add_ref(iommu.object());
        Ok(id)
    }

    /// `bti_pin` (1): pins whole pages of a VMO, and commits them if necessary.
    ///
    /// # Errors
    /// `INVALID_ARGS`: no pages, or not whole pages. `OUT_OF_RANGE`. `NO_MEMORY`. Errors of the VMO's pager.
    pub fn bti_pin(&mut self, bti: Id<Bti>, vmo: Id<Vmo>, offset: u64, len: u64) -> Result<Id<Pmt>, Status> {
        let pin = self.vmo_pin(vmo, offset, len)?;
        let pmt = Pmt { bti, pin: None, quarantine: Link::default() };
        let id: Id<Pmt> = match self.create(Signals::NONE, Box::new(pmt)) {
            Ok(id) => id,
            Err(status) => {
                self.vmo_unpin(pin);
                return Err(status);
            }
        };
        self.objects.get_mut(id)?.pin = Some(pin);
        self.objects.get_mut(bti)?.tokens += 1;
        self.add_ref(bti.object());
        Ok(id)
    }

    /// The address at which a device accesses a page of a token.
    pub fn pmt_address(&self, id: Id<Pmt>, page: u64) -> Option<u64> {
        let pin = self.objects.get(id).ok()?.pin.as_ref()?;
        Some(self.machine.frame_address(self.vmo_pinned_frame(pin, page)?))
    }

    /// `pmt_unpin` (2), also used by (4).
    pub fn pmt_unpin(&mut self, id: Id<Pmt>) {
        if let Some(pin) = self.objects.get_mut(id).ok().and_then(|pmt| pmt.pin.take()) {
            self.vmo_unpin(pin);
        }
    }

    /// The last handle of a token is closed (3).
    pub(crate) fn pmt_unreachable(&mut self, id: Id<Pmt>) {
        let Ok(&Pmt { pin: Some(_), bti, .. }) = self.objects.get(id) else { return };
        self.objects.enlist(bti, |bti| &mut bti.quarantine, id.object());
        self.add_ref(id.object());
        if let Ok(bti) = self.objects.get_mut(bti) {
            bti.quarantined += 1;
        }
        if self.objects.any(bti.object()).is_ok_and(|bti| bti.handles == 0) {
            self.bti_unreachable(bti);
        }
    }

    /// `bti_release_quarantine` (4).
    pub fn bti_release_quarantine(&mut self, id: Id<Bti>) {
        while let Some(pmt) = self.objects.get(id).ok().and_then(|bti| self.objects.after(bti.quarantine, None)) {
            self.objects.delist(id, |bti| &mut bti.quarantine, pmt);
            if let Ok(bti) = self.objects.get_mut(id) {
                bti.quarantined = bti.quarantined.saturating_sub(1);
            }
            self.pmt_unpin(Id::new(pmt));
            self.drop_ref(pmt);
        }
    }

    /// The last handle of a BTI is closed: its quarantine can no longer be released.
    pub(crate) fn bti_unreachable(&mut self, id: Id<Bti>) {
        let Ok(bti) = self.objects.get(id) else { return };
        if bti.quarantined != 0 {
            let text = alloc::format!("bti '{}' ({:#x}): its quarantine is lost", bti.name, bti.number);
            self.log(Level::Warning, LogWriter::Kernel("bti"), text.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use abi::{Rights, ZX_DEFAULT_BTI_RIGHTS, ZX_DEFAULT_PMT_RIGHTS};

    use crate::core::handle::HandleValue;
    use crate::core::noun::Noun;
    use crate::fake::FakeMachine;
    use crate::machine::PAGE;
    use crate::task::process::Process;

    use super::*;

    struct World {
        kernel: Kernel<FakeMachine>,
        process: Id<Process>,
        bti: Id<Bti>,
        bti_handle: HandleValue,
        vmo: Id<Vmo>,
        vmo_handle: HandleValue,
    }

    impl World {
        fn new() -> World {
            let mut kernel = Kernel::new(FakeMachine::new(100)).unwrap();
            let job = kernel.root_job().unwrap();
            let (process, _) = kernel.process_create(job, Name::new(b"test")).unwrap();
            let iommu = kernel.iommu_create_stub().unwrap();
            let bti = kernel.bti_create(iommu, 7).unwrap();
            let bti_handle = kernel.give_new(process, bti, ZX_DEFAULT_BTI_RIGHTS).unwrap();
            let vmo = kernel.vmo_create(4 * PAGE, true).unwrap();
            let vmo_handle = kernel.give_new(process, vmo, Rights::all()).unwrap();
            World { kernel, process, bti, bti_handle, vmo, vmo_handle }
        }

        fn pin(&mut self, page: u64, count: u64) -> (Id<Pmt>, HandleValue) {
            let pmt = self.kernel.bti_pin(self.bti, self.vmo, page * PAGE, count * PAGE).unwrap();
            (pmt, self.kernel.give_new(self.process, pmt, ZX_DEFAULT_PMT_RIGHTS).unwrap())
        }

        fn close(&mut self, value: HandleValue) {
            let handle = self.kernel.take(self.process, value).unwrap();
            self.kernel.close(handle);
            self.kernel.reap();
        }

        /// Number of tokens, and of those in quarantine.
        fn counts(&self) -> (u64, u64) {
            let bti = self.kernel.objects.get(self.bti).unwrap();
            (bti.tokens, bti.quarantined)
        }
    }

    #[test]
    fn pinned_pages_stay_until_they_are_unpinned() {
        let mut w = World::new();
        let (pmt, handle) = w.pin(1, 2);
        let addresses: Vec<_> = (0..3).map(|page| w.kernel.pmt_address(pmt, page)).collect();
        assert!(addresses[0].is_some() && addresses[1].is_some() && addresses[0] != addresses[1]);
        assert_eq!(addresses[2], None);
        assert_eq!(w.kernel.vmo_set_size(w.vmo, 2 * PAGE), Err(Status::BAD_STATE));
        assert_eq!(w.kernel.vmo_decommit(w.vmo, PAGE, PAGE), Err(Status::BAD_STATE));
        w.kernel.pmt_unpin(pmt);
        w.close(handle);
        assert_eq!(w.counts(), (0, 0));
        w.kernel.vmo_decommit(w.vmo, PAGE, PAGE).unwrap();
        assert_eq!((Bti::TYPE, Pmt::TYPE), (abi::ZX_OBJ_TYPE_BTI, abi::ZX_OBJ_TYPE_PMT));
    }

    #[test]
    fn the_quarantine_keeps_pins_that_were_not_released() {
        let mut w = World::new();
        let handles: Vec<_> = (0..3).map(|page| w.pin(page, 2).1).collect();
        for handle in handles {
            w.close(handle);
        }
        assert_eq!(w.counts(), (3, 3));
        // The pages outlive the last handle to their VMO.
        let handle = w.vmo_handle;
        w.close(handle);
        assert_eq!(w.kernel.machine.frames_in_use(), 4);
        w.kernel.bti_release_quarantine(w.bti);
        w.kernel.reap();
        assert_eq!((w.counts(), w.kernel.machine.frames_in_use()), ((0, 0), 0));
        let handle = w.bti_handle;
        w.close(handle);
        assert!(w.kernel.objects.get(w.bti).is_err());
    }

    #[test]
    fn a_quarantine_outlives_the_handles_of_its_bti() {
        let mut w = World::new();
        let (_, handle) = w.pin(0, 1);
        let bti = w.bti_handle;
        w.close(bti);
        w.close(handle);
        let handle = w.vmo_handle;
        w.close(handle);
        assert_eq!((w.counts(), w.kernel.machine.frames_in_use()), ((1, 1), 1));
    }

    #[test]
    fn a_failed_pin_leaves_nothing() {
        let mut w = World::new();
        let pin = |w: &mut World, offset, len| w.kernel.bti_pin(w.bti, w.vmo, offset, len).err();
        assert_eq!(pin(&mut w, 0, 0), Some(Status::INVALID_ARGS));
        assert_eq!(pin(&mut w, 0, 5 * PAGE), Some(Status::OUT_OF_RANGE));
        w.kernel.machine.limit = 2;
        assert_eq!(pin(&mut w, 0, 4 * PAGE), Some(Status::NO_MEMORY));
        assert_eq!(w.counts(), (0, 0));
        w.kernel.vmo_decommit(w.vmo, 0, 4 * PAGE).unwrap();
        // A token without handles.
        let pmt = w.kernel.bti_pin(w.bti, w.vmo, 0, PAGE).unwrap();
        w.kernel.reaper_enqueue(pmt.object());
        w.kernel.reap();
        assert_eq!(w.counts(), (0, 0));
        w.kernel.vmo_decommit(w.vmo, 0, PAGE).unwrap();
    }
}
