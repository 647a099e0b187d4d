//! Address spaces of the fake machine.

use alloc::collections::BTreeMap;

use super::{FakeMachine, ask};
use crate::containers::failure_injection::MemoryRequest;
use crate::containers::growth::OutOfMemory;
use crate::machine::{AddressSpaces, Aspace, Cache, Frame, LARGE_PAGE, LARGE_PAGES, Memory, PAGE, PAGE_SIZE, Perm};

impl AddressSpaces for FakeMachine {
    fn aspace_create(&mut self) -> Result<Aspace, OutOfMemory> {
        ask(MemoryRequest::Unit)?;
        self.aspaces += 1;
        self.mapped.insert(self.aspaces, BTreeMap::new());
        Ok(Aspace(self.aspaces))
    }

    fn aspace_destroy(&mut self, aspace: Aspace) {
        assert!(self.mapped.remove(&aspace.0).is_some(), "address space destroyed twice");
        assert!(self.threads.values().all(|thread| thread.aspace != aspace.0), "a thread lives in the address space");
        self.caches.retain(|&(space, _), _| space != aspace.0);
    }

    fn map(&mut self, aspace: Aspace, address: u64, frame: Frame, perm: Perm, cache: Cache) -> Result<(), OutOfMemory> {
        ask(MemoryRequest::Slot)?;
        assert_eq!(address % PAGE, 0);
        assert!(!frame.is_device() || !perm.write || self.devices.writable(frame), "device page mapped for writing");
        let known = self.mapped[&aspace.0].get(&address) == Some(&(frame, perm));
        let large = address / LARGE_PAGE * LARGE_PAGE;
        if self.frame_is_large(frame) && !(known && self.large_mapped.contains(&(aspace.0, large))) {
            self.split(frame.0 - frame.0 % LARGE_PAGES as u32);
        }
        if self.large_mapped.contains(&(aspace.0, large)) && !known {
            self.unmap(aspace, large, LARGE_PAGES);
        }
        match cache {
            Cache::Cached => self.caches.remove(&(aspace.0, address)),
            other => self.caches.insert((aspace.0, address), other),
        };
        self.mapped.get_mut(&aspace.0).expect("address space in use").insert(address, (frame, perm));
        Ok(())
    }

    fn stretch(&self, aspace: Aspace, address: u64, pages: u64, most: u32) -> u64 {
        let all = self.mapped[&aspace.0].range(address..).nth(most.max(1) as usize - 1);
        all.map_or(pages, |(at, _)| ((at - address) / PAGE + 1).min(pages))
    }

    fn knows_written(&self) -> bool {
        true
    }

    /// A page with a non-zero byte counts as written.
    fn written(&mut self, aspace: Aspace, address: u64, pages: u32) -> u64 {
        let mapped = |at: u64| self.mapped.get(&aspace.0).and_then(|pages| pages.get(&at)).map(|(frame, _)| *frame);
        let holds = |frame| {
            let mut page = [0; PAGE_SIZE];
            self.frame_read(frame, 0, &mut page);
            page != [0; PAGE_SIZE]
        };
        let bits = (0..u64::from(pages)).filter(|i| mapped(address + i * PAGE).is_some_and(holds));
        bits.fold(0, |written, i| written | 1 << i)
    }

    fn frame_is_large(&self, frame: Frame) -> bool {
        self.large.contains(&(frame.0 - frame.0 % LARGE_PAGES as u32))
    }

    fn map_large(
        &mut self,
        aspace: Aspace,
        address: u64,
        first: Frame,
        perm: Perm,
        cache: Cache,
    ) -> Result<(), OutOfMemory> {
        assert_eq!(address % LARGE_PAGE, 0);
        assert!(self.large.contains(&first.0), "no large page");
        self.unmap(aspace, address, LARGE_PAGES);
        let space = self.mapped.get_mut(&aspace.0).expect("address space in use");
        for i in 0..LARGE_PAGES {
            space.insert(address + i * PAGE, (Frame(first.0 + i as u32), perm));
            if cache != Cache::Cached {
                self.caches.insert((aspace.0, address + i * PAGE), cache);
            }
        }
        self.large_mapped.insert((aspace.0, address));
        Ok(())
    }

    fn unmap(&mut self, aspace: Aspace, address: u64, pages: u64) {
        // Large pages are affected as a whole.
        let end = address.saturating_add(pages.saturating_mul(PAGE));
        let larges = (aspace.0, address.saturating_sub(LARGE_PAGE - PAGE))..(aspace.0, end);
        while let Some(&(space, large)) = self.large_mapped.range(larges.clone()).next() {
            self.large_mapped.remove(&(space, large));
            self.unmap(aspace, large, LARGE_PAGES);
        }
        let space = self.mapped.get_mut(&aspace.0).expect("address space in use");
        let kept = |at: u64| at < address || (at - address) / PAGE >= pages;
        space.retain(|&at, _| kept(at));
        self.caches.retain(|&(space, at), _| space != aspace.0 || kept(at));
    }

    fn protect(&mut self, aspace: Aspace, address: u64, pages: u64, within: Perm) {
        let end = address.saturating_add(pages.saturating_mul(PAGE));
        let large = |at: u64| self.large_mapped.contains(&(aspace.0, at / LARGE_PAGE * LARGE_PAGE));
        let first = if large(address) { address / LARGE_PAGE * LARGE_PAGE } else { address };
        let end = if large(end - 1) { end.next_multiple_of(LARGE_PAGE) } else { end };
        let space = self.mapped.get_mut(&aspace.0).expect("address space in use");
        for (_, (_, perm)) in space.range_mut(first..end) {
            perm.write &= within.write;
            perm.execute &= within.execute;
        }
    }
}
