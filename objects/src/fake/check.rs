//! What must hold between calls of all memory together, whatever programs have done.

use alloc::collections::BTreeMap;

use super::FakeMachine;
use crate::kernel::Kernel;
use crate::machine::{Frame, PAGE};
use crate::object::Body;

impl Kernel<FakeMachine> {
    /// Every frame that a VMO has is owned as often as VMOs have it, and no other frame is in use. Every page that is
    /// mapped lies in a mapping that allows it, shows what the VMO has there, and can be written only if it is the VMO's
    /// alone.
    ///
    /// # Panics
    /// If it is not so.
    pub fn check_memory(&self) {
        self.check_frames();
        self.check_mapped();
        self.check_recent();
    }

    fn check_frames(&self) {
        let mut owners: BTreeMap<u32, u64> = BTreeMap::new();
        for object in self.objects.iter() {
            if let Body::Vmo(vmo) = &object.body
                && let Some(pages) = vmo.pages()
            {
                let frames = pages.frames(0, vmo.size / PAGE);
                frames.filter(|frame| !frame.is_device()).for_each(|frame| *owners.entry(frame.0).or_default() += 1);
                let within = pages.count(0, vmo.size / PAGE);
                assert_eq!(pages.len(), within, "VMO {} has pages beyond its end", object.koid);
            }
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

    /// What is remembered of handles and addresses is what a look would find.
    fn check_recent(&self) {
        for (process, value, handle, kind) in self.recent_handles.known() {
            let process = self.objects.get(process).expect("a process whose handle is remembered is there");
            assert_eq!(process.handles.get(value), Ok(handle), "{value:#x} is remembered as another handle");
            let object = self.objects.any(handle.object).expect("an object with a handle is there");
            assert_eq!(object.body.object_type(), kind, "{value:#x} is remembered as of another type");
        }
        for (aspace, address, frame, writable) in self.frames.recent.known() {
            self.aspaces.get(aspace).expect("an address space that is remembered is there");
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
