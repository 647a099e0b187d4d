//! Invariants of all memory that must hold between calls, whatever programs do.

use alloc::collections::BTreeMap;

use alloc::vec::Vec;

use super::FakeMachine;
use crate::containers::slab::Key;
use crate::core::noun::Variant;
use crate::core::object::{Id, ObjectId};
use crate::kernel::Kernel;
use crate::machine::{Frame, PAGE};
use crate::memory::aspace::AddressSpace;
use crate::memory::vmar::{Child, Vmar};
use crate::memory::vmo::Vmo;
use crate::task::blocking::Wait;
use crate::task::process::Process;
use crate::task::thread::{Thread, ThreadState};

impl Kernel<FakeMachine> {
    /// Each frame has as many owners as there are VMOs with it, and no other frame is in use. Every mapped page is in a
    /// mapping that permits it, shows the VMO's page, and is writable only if the frame belongs to that VMO alone.
    ///
    /// # Panics
    /// If an invariant is violated.
    pub fn check_memory(&self) {
        self.check_frames();
        self.check_regions();
        self.check_mapped();
        self.check_recent();
        self.check_marks();
    }

    /// Children of VMARs are within them and never overlap, the flat index agrees, and each mapping is in its VMO's
    /// reverse map.
    fn check_regions(&self) {
        let mut mappings = 0;
        for (key, space) in self.aspaces.iter() {
            let before = mappings;
            let mut regions: Vec<_> = space.root.into_iter().collect();
            while let Some(id) = regions.pop() {
                mappings += self.check_region((key, space), id, &mut regions);
            }
            if space.root.is_some() {
                if let Some(last) = space.last {
                    assert!(last.shown, "the cached mapping counts as untouched");
                    assert_eq!(
                        self.mapping_at(key, last.base),
                        Some(&last),
                        "the cached mapping is not the one that is there"
                    );
                }
                assert_eq!(space.mapped, mappings - before, "an address space has counted its mappings wrong");
            }
        }
        let ending = self.aspaces.iter().any(|(_, space)| space.root.is_none());
        let vmos = self.objects.iter().filter_map(|object| Vmo::of(&object.body));
        let known = vmos.map(|vmo| vmo.mappings.meeting(0, u64::MAX).count() as u64 + u64::from(vmo.page_tables));
        assert!(ending || known.sum::<u64>() == mappings, "VMOs know of mappings that are not there");
    }

    /// Returns the number of a VMAR's own mappings.
    fn check_region(&self, (key, space): (Key, &AddressSpace), id: Id<Vmar>, regions: &mut Vec<Id<Vmar>>) -> u64 {
        let vmar = self.objects.get(id).expect("a VMAR in a tree is there");
        assert_eq!(vmar.aspace, Some(key), "a VMAR in a tree has an address space");
        let (mut last, mut mappings) = (vmar.base, 0);
        for child in vmar.children.all() {
            let (base, end) = (child.base(), child.end());
            assert!(last <= base && base < end && end <= vmar.end(), "{base:#x} overlaps what is before it");
            if last < base {
                assert!(space.is_all_of(id, last, base), "{last:#x} is known to be another VMAR's");
            }
            last = end;
            match child {
                Child::Vmar(sub, ..) => {
                    let vmar = self.objects.get(sub).expect("a VMAR in a tree is there");
                    assert_eq!((vmar.base, vmar.end(), vmar.parent), (base, end, Some(id)));
                    regions.push(sub);
                }
                Child::Mapping(mapping) => {
                    assert_eq!(mapping.vmar, id, "{base:#x} hangs in another VMAR");
                    assert!(space.is_all_of(id, base, end), "{base:#x} is known to be another VMAR's");
                    let vmo = self.objects.get(mapping.vmo).expect("a mapping keeps its VMO");
                    let place = (mapping.offset, mapping.len, (key, base));
                    let mut known = vmo.mappings.meeting(mapping.offset, mapping.offset + 1);
                    assert_ne!(mapping.table, known.any(|known| known == place), "{base:#x} is not known to its VMO");
                    assert!(!mapping.table || vmo.page_tables != 0, "{base:#x} does not pin the pages of its VMO");
                    mappings += 1;
                }
            }
        }
        mappings
    }

    /// Each mark that a wait has set belongs to a thread that waits so, and no other mark exists.
    pub fn check_marks(&self) {
        for (key, object) in self.objects.slab.iter() {
            let id = ObjectId(key);
            if let Some(sole_waiter) = object.sole_waiter {
                let thread = self.objects.get::<Thread>(Id::new(sole_waiter.thread)).expect("who waits alone is there");
                let waits = matches!(thread.wait, Wait::SoleWaiter { object, .. } if object == id);
                assert!(
                    waits && thread.state == ThreadState::Running,
                    "one who waits alone for {} doesn't",
                    object.koid
                );
                let marked = self
                    .objects
                    .handles(sole_waiter.process)
                    .and_then(|handles| handles.sole_waiter(sole_waiter.handle));
                assert_eq!(marked, Some(id), "the handle of a sole wait is not marked");
            }
            if let Some(thread) = Thread::of(&object.body) {
                self.check_wait(Id::new(id), thread);
            }
            let handles = Process::of(&object.body).map(|process| &process.handles);
            for (handles, (value, handle)) in handles.into_iter().flat_map(|all| all.iter().map(move |one| (all, one)))
            {
                let Some(marked) = handles.sole_waiter(value) else { continue };
                assert_eq!(marked, handle.object);
                let sole_waiter = self.objects.any(marked).ok().and_then(|object| object.sole_waiter);
                let place = sole_waiter.map(|sole_waiter| (sole_waiter.process, sole_waiter.handle));
                assert_eq!(place, Some((id, value)), "a handle is marked through which nobody waits");
            }
        }
        for (_, observer) in self.observers.iter() {
            assert!(observer.is_of(self), "an observer is nobody's");
        }
        for &thread in self.scheduler.preferred() {
            let ended = self.objects.get(thread).map_or(true, |thread| thread.machine.is_none());
            let preferred =
                self.objects.get(thread).ok().and_then(|thread| self.machine.threads.get(&thread.machine?.0));
            assert!(ended || preferred.is_some_and(|thread| thread.preferred), "one is to come first and doesn't");
        }
    }

    fn check_wait(&self, id: Id<Thread>, thread: &Thread) {
        assert!(thread.state == ThreadState::Running || !thread.is_waiting(), "a thread waits that doesn't run");
        match &thread.wait {
            Wait::SoleWaiter { object, .. } => {
                let sole_waiter = self.objects.any(*object).ok().and_then(|object| object.sole_waiter);
                assert_eq!(
                    sole_waiter.map(|sole_waiter| sole_waiter.thread),
                    Some(id.object()),
                    "an object does not know who waits for it alone"
                );
            }
            Wait::Signals { observers, .. } => {
                let of = |key: &Key| self.observers.get(*key).is_some_and(|observer| observer.is_thread(id.object()));
                assert!(observers.iter().all(of), "a thread waits for signals by observers that are not there");
            }
            Wait::Futex { key } => assert!(self.futex_has(*key, id), "a futex does not know who waits on it"),
            _ => {}
        }
    }

    fn check_frames(&self) {
        let mut owners: BTreeMap<u32, u64> = BTreeMap::new();
        for object in self.objects.iter() {
            if let Some(vmo) = Vmo::of(&object.body)
                && let Some(pages) = vmo.pages()
            {
                let frames = pages.frames(0, vmo.size / PAGE);
                frames.filter(|frame| !frame.is_device()).for_each(|frame| *owners.entry(frame.0).or_default() += 1);
                let within = pages.count(0, vmo.size / PAGE);
                assert_eq!(pages.len(), within, "VMO {} has pages beyond its end", object.koid);
            }
        }
        for frame in self.reaper_vmos().filter_map(|vmo| vmo.pages()).flat_map(|pages| pages.frames(0, u64::MAX)) {
            *owners.entry(frame.0).or_default() += 1;
        }
        for (&frame, &count) in &owners {
            assert_eq!(self.frames.owners(Frame(frame)), count, "owners of frame {frame}");
        }
        let zero = usize::from(self.frames.zero.is_some());
        assert_eq!(self.machine.frames_in_use(), owners.len() + zero, "frames that nobody has");
    }

    fn check_mapped(&self) {
        for (key, space) in self.aspaces.iter() {
            for (&address, &(frame, perm)) in &self.machine.mapped[&space.machine.0] {
                let Some(mapping) = self.mapping_at(key, address) else { panic!("{address:#x} is still mapped") };
                assert!(mapping.shown, "{address:#x} is mapped, and nobody knows");
                let page = (mapping.offset + (address - mapping.base)) / PAGE;
                let vmo = self.objects.get(mapping.vmo).expect("a mapping keeps its VMO");
                if mapping.table {
                    let mut frames = vmo.pages().into_iter().flat_map(|pages| pages.frames(0, vmo.size / PAGE));
                    assert!(frames.any(|own| own == frame), "{address:#x} shows a page of another VMO");
                    assert!(!self.frames.is_shared(frame), "{address:#x} shows a page that others have too");
                    continue;
                }
                assert!(page < vmo.size / PAGE, "{address:#x} shows a page beyond its VMO");
                assert!(mapping.perm.allows(perm), "{address:#x} allows too much");
                match self.vmo_page_if_there(mapping.vmo, page) {
                    Some((there, writable)) => {
                        assert_eq!(frame, there, "{address:#x} does not show what its VMO has");
                        assert!(writable || !perm.write, "{address:#x} lets a page be written that others have too");
                    }
                    None => {
                        assert_eq!(Some(frame), self.frames.zero, "{address:#x} shows a page that its VMO has not");
                        assert!(!perm.write, "{address:#x} lets the page of zeroes be written");
                    }
                }
            }
        }
    }

    /// Lookaside caches contain what a look-up would find.
    fn check_recent(&self) {
        for (process, value, handle, kind) in self.handle_lookaside.known() {
            let handles = self.objects.handles(process).expect("a process whose handle is remembered is there");
            assert_eq!(handles.get(value), Ok(handle), "{value:#x} is remembered as another handle");
            let object = self.objects.any(handle.object).expect("an object with a handle is there");
            assert_eq!(object.body.object_type(), kind, "{value:#x} is remembered as of another type");
        }
        for (aspace, address, frame, writable) in self.frames.lookaside.known() {
            let space = self.aspaces.get(aspace).expect("an address space that is remembered is there");
            if space.root.is_none() {
                // It has no users any more.
                continue;
            }
            let Some(mapping) = self.mapping_at(aspace, address) else {
                panic!("{address:#x} is remembered and not mapped")
            };
            assert!(mapping.perm.write || !writable, "{address:#x} is remembered to allow too much");
            assert!(mapping.perm.read, "{address:#x} is remembered and cannot be read");
            let page = (mapping.offset + (address - mapping.base)) / PAGE;
            let there = self.vmo_page_if_there(mapping.vmo, page);
            let (there, may_write) = there.unwrap_or_else(|| panic!("{address:#x} is remembered and has no page"));
            assert_eq!(frame, there, "{address:#x} is remembered as another page");
            assert!(may_write || !writable, "{address:#x} is remembered as writable, and others have it too");
        }
    }
}
