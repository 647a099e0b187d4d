//! Parents and children.
//!
//! A VMO reports its number of children and signals when it has none. A window keeps its parent alive, so a parent of
//! windows cannot be destroyed before them. A clone does not: when its parent is destroyed, it becomes a child of the
//! grandparent, or has no parent if there is none.

use abi::Signals;

use super::{AbsentPages, Vmo};
use crate::core::object::Id;
use crate::kernel::Kernel;
use crate::machine::Machine;

impl<M: Machine> Kernel<M> {
    /// The koid of a VMO's parent; 0 if it has none.
    pub fn vmo_parent_koid(&self, id: Id<Vmo>) -> u64 {
        let parent = self.objects.get(id).ok().and_then(|vmo| vmo.parent);
        parent.map_or(0, |parent| self.koid(parent.object()))
    }

    /// Makes a VMO without a parent a child of another one. The child starts with the parent's name.
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

    /// Removes a VMO that is being destroyed from its family. Inlined as [`Kernel::vmo_end`].
    #[inline(always)]
    pub(crate) fn vmo_leave(&mut self, id: Id<Vmo>) {
        let Ok(vmo) = self.objects.get(id) else { return };
        let (parent, window) = (vmo.parent, vmo.is_window());
        if let AbsentPages::Other { vmo: other, .. } = vmo.absent_pages {
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
