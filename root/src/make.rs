//! Creating kernel objects and mapping pages, for anything with memory and slots: the root task itself ([`Memory`]),
//! and an instance that is being built ([`Builder`]).
//!
//! [`Memory`]: crate::memory::Memory
//! [`Builder`]: crate::resource_pool::Builder

use sel4::bootinfo::INIT_CNODE;
use sel4::{
    Attributes, CPtr, Endpoint, Error as KernelError, ObjectType, Page, PageDirectory, PageTable, Pdpt, Rights, Slot,
    TableLevel, VSpace,
};

use crate::error::{Context, Error};

/// See the module's description.
pub trait ObjectMaker {
    /// Allocates an empty slot.
    fn slot(&mut self) -> Result<u64, Error>;

    /// Makes an object with its capability in a new slot.
    fn make(&mut self, object: ObjectType) -> Result<CPtr, Error>;

    /// Makes an endpoint.
    fn endpoint(&mut self) -> Result<Endpoint, Error> {
        self.make(ObjectType::Endpoint).map(Endpoint)
    }

    /// Makes a second capability to a page, which can be mapped separately.
    fn again(&mut self, page: Page) -> Result<Page, Error> {
        let slot = self.slot()?;
        own_slot(slot).copy_from(own_slot(page.cptr().0), Rights::ALL).context("copying a capability")?;
        Ok(Page::new(slot))
    }

    /// Maps a page, and creates missing paging structures.
    fn map(
        &mut self,
        page: Page,
        vspace: VSpace,
        address: u64,
        rights: Rights,
        attributes: impl Into<Attributes>,
    ) -> Result<(), Error> {
        let attributes = attributes.into();
        loop {
            let error = match page.map(vspace, address, rights, attributes) {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            self.add_table(error, vspace, address, "mapping a page")?;
        }
    }

    /// Makes the page directory for an address that has none, with missing structures above it.
    fn prepare_directory(&mut self, vspace: VSpace, address: u64) -> Result<(), Error> {
        let directory = PageDirectory(self.make(ObjectType::PageDirectory)?);
        loop {
            match directory.map(vspace, address) {
                Ok(()) => return Ok(()),
                Err(error) => self.add_table(error, vspace, address, "mapping a page directory")?,
            }
        }
    }

    /// Makes the table that an error reports as missing. The kernel reports the highest one first.
    fn add_table(&mut self, error: KernelError, vspace: VSpace, address: u64, what: &'static str) -> Result<(), Error> {
        match error.missing_table() {
            Some(TableLevel::PageTable) => PageTable(self.make(ObjectType::PageTable)?).map(vspace, address),
            Some(TableLevel::PageDirectory) => {
                PageDirectory(self.make(ObjectType::PageDirectory)?).map(vspace, address)
            }
            Some(TableLevel::Pdpt) => Pdpt(self.make(ObjectType::Pdpt)?).map(vspace, address),
            None => Err(error),
        }
        .context(what)
    }
}

/// The path to a slot of the root task.
pub fn own_slot(slot: u64) -> Slot {
    INIT_CNODE.own_slot(CPtr(slot))
}
