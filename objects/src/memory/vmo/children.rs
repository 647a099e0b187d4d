//! Parents and children.
//!
//! A VMO tells how many children it has and signals when it has none. A window keeps its parent, so a parent of windows
//! cannot end before them. A clone does not: when its parent ends, it becomes the child of that one's parent, and of
//! nobody if there is none.

use abi::Signals;

use super::{Beneath, Vmo};
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::Machine;

impl<M: Machine> Kernel<M> {
    /// The number of the VMO that a VMO is a child of; 0 if it is none's.
    pub fn vmo_parent_koid(&self, id: Id<Vmo>) -> u64 {
        let parent = self.objects.get(id).ok().and_then(|vmo| vmo.parent);
        parent.map_or(0, |parent| self.koid(parent.object()))
    }

    /// Makes a VMO that has no parent the child of another, with its name to begin with.
    pub(crate) fn vmo_adopt(&mut self, parent: Id<Vmo>, child: Id<Vmo>) {
        let name = self.objects.get(parent).map(|parent| parent.name).unwrap_or_default();
        if let Ok(child) = self.objects.get_mut(child) {
            child.name = name;
        }
        self.vmo_join(parent, child);
        if self.objects.get(parent).is_ok_and(|parent| parent.children == 1) {
            self.signal(parent.object(), Signals::VMO_ZERO_CHILDREN, Signals::NONE);
        }
    }

    fn vmo_join(&mut self, parent: Id<Vmo>, child: Id<Vmo>) {
        let Ok(vmo) = self.objects.get_mut(child) else { return };
        vmo.parent = Some(parent);
        let window = vmo.is_window();
        if let Ok(parent) = self.objects.get_mut(parent) {
            parent.children += 1;
            parent.clones += u64::from(!window);
        }
        self.objects.enlist(parent, |parent| &mut parent.kids, child.object());
    }

    /// A VMO is at its end: its place in the family is given up.
    pub(crate) fn vmo_leave(&mut self, id: Id<Vmo>) {
        let Ok(vmo) = self.objects.get(id) else { return };
        let (parent, window) = (vmo.parent, vmo.is_window());
        if let Beneath::Other { vmo: other, .. } = vmo.beneath {
            self.objects.delist(other, |other| &mut other.readers, id.object());
        }
        if let Some(parent) = parent {
            self.objects.delist(parent, |parent| &mut parent.kids, id.object());
            if let Ok(parent) = self.objects.get_mut(parent) {
                parent.children = parent.children.saturating_sub(1);
                parent.clones = parent.clones.saturating_sub(u64::from(!window));
            }
        }
        self.vmo_unlisted(id);
        while let Some(child) = self.objects.get(id).ok().and_then(|vmo| vmo.kids.first()) {
            let child = Id::new(crate::ObjectId(child));
            self.objects.delist(id, |vmo| &mut vmo.kids, child.object());
            match parent {
                Some(parent) => self.vmo_join(parent, child),
                None => {
                    if let Ok(child) = self.objects.get_mut(child) {
                        child.parent = None;
                    }
                }
            }
        }
        if let Some(parent) = parent
            && self.objects.get(parent).is_ok_and(|parent| parent.children == 0)
        {
            self.signal(parent.object(), Signals::NONE, Signals::VMO_ZERO_CHILDREN);
        }
    }
}
