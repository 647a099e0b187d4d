//! Tree walk over VMARs and mappings.
//!
//! A walk is depth first, parents before children, children by address, so addresses never decrease. It stores a
//! position, not a stack, so its state has a fixed size however deep the tree is, it can stop after every step, and it
//! never recurses. While a walk is stopped, the tree may change: changes behind its position are not seen, and nodes
//! that stay are visited exactly once.

use crate::core::object::{Id, ObjectId};
use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::memory::aspace::Mapping;
use crate::memory::vmar::{Child, Vmar};

/// A walk in progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Walk {
    /// The VMAR where it started.
    top: Id<Vmar>,
    /// The VMAR to walk next: the shared half of an address space that shows another one.
    then: Option<Id<Vmar>>,
    /// The VMAR whose children are being visited; none before the first step.
    vmar: Option<Id<Vmar>>,
    /// Children from this address up are still to be visited.
    from: u64,
}

/// One step of a walk.
#[derive(Clone, Copy)]
pub enum Node<'a> {
    /// A VMAR.
    Vmar(&'a Vmar),
    /// A mapping.
    Mapping(&'a Mapping),
    /// The end of a VMAR.
    End,
}

impl Walk {
    /// Starts a walk over a VMAR and everything in it.
    pub fn new(top: Id<Vmar>) -> Self {
        Walk::stopped((top, None), [0, 0])
    }

    /// Its position, to be stored while it is stopped.
    pub fn place(&self) -> [u64; 2] {
        [self.vmar.map_or(0, |vmar| vmar.object().to_word()), self.from]
    }

    /// Resumes a walk over a VMAR, and another one above it, at a stored position.
    pub fn stopped((top, then): (Id<Vmar>, Option<Id<Vmar>>), [vmar, from]: [u64; 2]) -> Self {
        Walk { top, then, vmar: ObjectId::from_word(vmar).map(Id::new), from }
    }
}

impl<M: Machine> Kernel<M> {
    /// The next node of a walk, and its depth in VMARs below the first.
    pub fn walk_next<'a>(&'a self, walk: &mut Walk) -> Option<(usize, Node<'a>)> {
        let top = self.objects.get(walk.top).ok()?;
        let Some(at) = walk.vmar else {
            walk.vmar = Some(walk.top);
            return Some((0, Node::Vmar(top)));
        };
        let at = self.walk_at((top, walk.then), walk.from, at)?;
        let vmar = self.objects.get(at).ok()?;
        let depth = vmar.depth.saturating_sub(top.depth) as usize;
        walk.vmar = Some(at);
        match vmar.children.from(walk.from) {
            Some(Child::Mapping(mapping)) => {
                walk.from = mapping.end();
                Some((depth + 1, Node::Mapping(mapping)))
            }
            Some(&Child::Vmar(id, base, _)) => {
                walk.vmar = Some(id);
                walk.from = base;
                Some((depth + 1, Node::Vmar(self.objects.get(id).ok()?)))
            }
            None if at == walk.top => {
                let then = walk.then?;
                let vmar = self.objects.get(then).ok()?;
                (walk.vmar, walk.from) = (Some(then), vmar.base);
                Some((0, Node::Vmar(vmar)))
            }
            None if Some(at) == walk.then => None,
            None => {
                walk.from = vmar.end();
                walk.vmar = Some(vmar.parent?);
                Some((depth, Node::End))
            }
        }
    }

    /// The VMAR whose children a walk visits at an address: the stored one, or if that was destroyed, the one that is
    /// there now.
    fn walk_at(&self, (top, then): (&Vmar, Option<Id<Vmar>>), from: u64, at: Id<Vmar>) -> Option<Id<Vmar>> {
        if self.objects.get(at).is_ok_and(|vmar| vmar.aspace.is_some()) {
            return Some(at);
        }
        let then = then.and_then(|then| self.objects.get(then).ok());
        let within = [Some(top), then].into_iter().flatten().find(|vmar| (vmar.base..vmar.end()).contains(&from))?;
        self.aspaces.get(within.aspace?)?.vmar_at(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::containers::name::Name;
    use crate::fake::FakeMachine;
    use crate::machine::{PAGE, Perm, USER_BASE};
    use crate::memory::vmar::{MapRequest, Place, VmarFlags};
    use std::vec::Vec;

    const RW: Perm = Perm { read: true, write: true, execute: false };
    const ALL: VmarFlags = VmarFlags { specific: true, read: true, write: true, execute: true };

    fn nodes(kernel: &Kernel<FakeMachine>, top: Id<Vmar>) -> Vec<(usize, u64, u64, bool)> {
        let mut walk = Walk::new(top);
        let next = || {
            walk = Walk::stopped((top, None), walk.place());
            kernel.walk_next(&mut walk).map(|(depth, node)| match node {
                Node::Vmar(vmar) => Some((depth, vmar.base, vmar.len, true)),
                Node::Mapping(mapping) => Some((depth, mapping.base, mapping.len, false)),
                Node::End => None,
            })
        };
        core::iter::from_fn(next).flatten().collect()
    }

    #[test]
    fn parents_come_before_children_and_children_by_address() {
        let mut kernel = Kernel::new(FakeMachine::new(100)).unwrap();
        let job = kernel.root_job().unwrap();
        let (_, root) = kernel.process_create(job, Name::new(b"p")).unwrap();
        let vmo = kernel.vmo_create(PAGE, false).unwrap();
        kernel.add_ref(vmo.object());
        let request = MapRequest { vmo, offset: 0, len: PAGE, perm: RW, max: RW, fixed: false };
        let at = |page: u64| USER_BASE + page * PAGE;
        // Nested VMARs: at the start of the parent, at its end, empty, and one that fills its parent.
        let (a, _) = kernel.vmar_allocate(root, Place::At(0), 8 * PAGE, ALL).unwrap();
        let (b, _) = kernel.vmar_allocate(a, Place::At(0), 4 * PAGE, ALL).unwrap();
        let (c, _) = kernel.vmar_allocate(b, Place::At(0), 4 * PAGE, ALL).unwrap();
        kernel.vmar_allocate(a, Place::At(7 * PAGE), PAGE, ALL).unwrap();
        kernel.vmar_map(c, Place::At(3 * PAGE), request).unwrap();
        kernel.vmar_map(a, Place::At(5 * PAGE), request).unwrap();
        kernel.vmar_map(root, Place::At(8 * PAGE), request).unwrap();

        let of_a = [
            (0, at(0), 8 * PAGE, true),
            (1, at(0), 4 * PAGE, true),
            (2, at(0), 4 * PAGE, true),
            (3, at(3), PAGE, false),
            (1, at(5), PAGE, false),
            (1, at(7), PAGE, true),
        ];
        assert_eq!(nodes(&kernel, a), of_a);
        let all = nodes(&kernel, root);
        assert_eq!(all.len(), 8);
        assert!(
            all[1..7].iter().zip(of_a).all(|(found, (depth, base, len, kind))| *found == (depth + 1, base, len, kind))
        );
        assert_eq!(all[7], (1, at(8), PAGE, false));
        assert_eq!(kernel.objects.get(vmo).unwrap().num_mappings, 3);
        assert_eq!(kernel.objects.get(vmo).unwrap().share_count(), 1);
    }

    /// At each position of a stopped walk, the current VMAR is destroyed or something is mapped.
    #[test]
    fn changes_while_a_walk_is_stopped() {
        let mut kernel = Kernel::new(FakeMachine::new(100)).unwrap();
        let job = kernel.root_job().unwrap();
        let (_, root) = kernel.process_create(job, Name::new(b"p")).unwrap();
        let vmo = kernel.vmo_create(PAGE, false).unwrap();
        kernel.add_ref(vmo.object());
        let request = MapRequest { vmo, offset: 0, len: PAGE, perm: RW, max: RW, fixed: false };
        let at = |page: u64| USER_BASE + page * PAGE;
        let mut walk = Walk::new(root);
        let mut next = |kernel: &Kernel<FakeMachine>| {
            loop {
                match kernel.walk_next(&mut walk) {
                    Some((_, Node::End)) => {}
                    Some((depth, Node::Vmar(vmar))) => return Some((depth, vmar.base, true)),
                    Some((depth, Node::Mapping(mapping))) => return Some((depth, mapping.base, false)),
                    None => return None,
                }
            }
        };
        let (a, _) = kernel.vmar_allocate(root, Place::At(0), 8 * PAGE, ALL).unwrap();
        let (b, _) = kernel.vmar_allocate(a, Place::At(0), 4 * PAGE, ALL).unwrap();
        kernel.vmar_map(b, Place::At(0), request).unwrap();
        kernel.vmar_map(b, Place::At(2 * PAGE), request).unwrap();
        kernel.vmar_map(a, Place::At(5 * PAGE), request).unwrap();
        kernel.vmar_map(root, Place::At(9 * PAGE), request).unwrap();
        assert_eq!([next(&kernel), next(&kernel)], [Some((0, USER_BASE, true)), Some((1, at(0), true))]);
        assert_eq!([next(&kernel), next(&kernel)], [Some((2, at(0), true)), Some((3, at(0), false))]);
        // Destroys the VMAR whose children are being visited. Its replacement is visited only ahead of the walk's
        // position.
        kernel.vmar_destroy(b).unwrap();
        kernel.reap();
        kernel.vmar_map(a, Place::At(0), request).unwrap();
        kernel.vmar_map(a, Place::At(3 * PAGE), request).unwrap();
        assert_eq!([next(&kernel), next(&kernel)], [Some((2, at(3), false)), Some((2, at(5), false))]);
        kernel.vmar_destroy(a).unwrap();
        kernel.reap();
        assert_eq!([next(&kernel), next(&kernel)], [Some((1, at(9), false)), None]);
    }

    #[test]
    fn a_tree_as_deep_as_it_is_long() {
        let mut kernel = Kernel::new(FakeMachine::new(100)).unwrap();
        let job = kernel.root_job().unwrap();
        let (_, root) = kernel.process_create(job, Name::new(b"p")).unwrap();
        let mut inner = root;
        for _ in 0..5000 {
            inner = kernel.vmar_allocate(inner, Place::At(0), PAGE, ALL).unwrap().0;
        }
        let all = nodes(&kernel, root);
        assert_eq!(all.len(), 5001);
        assert_eq!(all[5000].0, 5000);
    }

    #[test]
    fn a_mapped_window_stays_and_is_counted_apart() {
        let mut kernel = Kernel::new(FakeMachine::new(100)).unwrap();
        let job = kernel.root_job().unwrap();
        let mut roots = Vec::new();
        for name in [b"a", b"b"] {
            roots.push(kernel.process_create(job, Name::new(name)).unwrap().1);
        }
        let whole = kernel.vmo_create(4 * PAGE, false).unwrap();
        kernel.add_handle(whole.object());
        let window = kernel.vmo_create_slice(whole, PAGE, PAGE).unwrap();
        kernel.add_handle(window.object());
        let request = |vmo, len| MapRequest { vmo, offset: 0, len, perm: RW, max: RW, fixed: false };
        let counts = |kernel: &Kernel<FakeMachine>, vmo: Id<crate::memory::vmo::Vmo>| {
            let vmo = kernel.objects.get(vmo).unwrap();
            (vmo.num_mappings, vmo.share_count())
        };
        let base = kernel.vmar_map(roots[0], Place::At(0), request(window, PAGE)).unwrap();
        assert_eq!((counts(&kernel, whole), counts(&kernel, window)), ((0, 1), (1, 1)));
        kernel.vmar_map(roots[1], Place::At(0), request(window, PAGE)).unwrap();
        kernel.vmar_map(roots[1], Place::At(8 * PAGE), request(whole, 2 * PAGE)).unwrap();
        assert_eq!((counts(&kernel, whole), counts(&kernel, window)), ((1, 2), (2, 2)));
        // Its handle is closed, its mappings stay.
        kernel.close(crate::core::handle::Handle { object: window.object(), rights: abi::Rights::NONE });
        kernel.reap();
        kernel.vmar_unmap(roots[1], base, PAGE, true).unwrap();
        kernel.reap();
        assert_eq!((counts(&kernel, whole), counts(&kernel, window)), ((1, 2), (1, 1)));
        assert_eq!(kernel.objects.get(whole).unwrap().children, 1);
        kernel.vmar_unmap(roots[0], base, PAGE, true).unwrap();
        kernel.reap();
        assert_eq!(counts(&kernel, whole), (1, 1));
        assert_eq!(kernel.objects.get(whole).unwrap().children, 0);
        assert!(kernel.objects.get(window).is_err());
    }
}
