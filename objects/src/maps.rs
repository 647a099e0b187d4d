//! Walking the tree of VMARs and mappings.
//!
//! A walk is depth first, parents before children, children by address: so addresses never fall. It keeps a place, not
//! a stack, and so needs the same few bytes however deep the tree is, can stop after every node, and never recurses.
//! While a walk is stopped, the tree must not change.

use crate::aspace::Mapping;
use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::object::Id;
use crate::vmar::{Child, Vmar};

/// A walk that is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Walk {
    /// Where it began.
    top: Id<Vmar>,
    /// The VMAR whose children are visited; none before the first step.
    vmar: Option<Id<Vmar>>,
    /// Children from this address on are still to come.
    from: u64,
    depth: usize,
}

/// What a step of a walk comes upon.
#[derive(Clone, Copy)]
pub enum Node<'a> {
    /// A VMAR.
    Vmar(&'a Vmar),
    /// A mapping.
    Mapping(&'a Mapping),
}

impl Walk {
    /// A walk over a VMAR and all within it.
    pub fn new(top: Id<Vmar>) -> Self {
        Walk { top, vmar: None, from: 0, depth: 0 }
    }
}

impl<M: Machine> Kernel<M> {
    /// The next node of a walk, and how many VMARs it is below the first.
    pub fn walk_next<'a>(&'a self, walk: &mut Walk) -> Option<(usize, Node<'a>)> {
        let Some(mut at) = walk.vmar else {
            walk.vmar = Some(walk.top);
            return Some((0, Node::Vmar(self.objects.get(walk.top).ok()?)));
        };
        loop {
            let vmar = self.objects.get(at).ok()?;
            if let Some(child) = vmar.children.from(walk.from) {
                return Some(match child {
                    Child::Mapping(mapping) => {
                        walk.from = mapping.end();
                        (walk.depth + 1, Node::Mapping(mapping))
                    }
                    &Child::Vmar(id, base, _) => {
                        walk.vmar = Some(id);
                        walk.from = base;
                        walk.depth += 1;
                        (walk.depth, Node::Vmar(self.objects.get(id).ok()?))
                    }
                });
            }
            if at == walk.top {
                return None;
            }
            walk.from = vmar.base.saturating_add(vmar.len);
            walk.depth -= 1;
            at = vmar.parent?;
            walk.vmar = Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeMachine;
    use crate::machine::{PAGE, Perm, USER_BASE};
    use crate::name::Name;
    use crate::vmar::{MapRequest, Place, VmarFlags};
    use std::vec::Vec;

    const RW: Perm = Perm { read: true, write: true, execute: false };
    const ALL: VmarFlags = VmarFlags { specific: true, read: true, write: true, execute: true };

    fn nodes(kernel: &Kernel<FakeMachine>, top: Id<Vmar>) -> Vec<(usize, u64, u64, bool)> {
        let mut walk = Walk::new(top);
        let next = || {
            kernel.walk_next(&mut walk).map(|(depth, node)| match node {
                Node::Vmar(vmar) => (depth, vmar.base, vmar.len, true),
                Node::Mapping(mapping) => (depth, mapping.base, mapping.len, false),
            })
        };
        core::iter::from_fn(next).collect()
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
        // At the start of its parent, at its end, empty, and one that fills its parent.
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
        let counts = |kernel: &Kernel<FakeMachine>, vmo: Id<crate::vmo::Vmo>| {
            let vmo = kernel.objects.get(vmo).unwrap();
            (vmo.num_mappings, vmo.share_count())
        };
        let base = kernel.vmar_map(roots[0], Place::At(0), request(window, PAGE)).unwrap();
        assert_eq!((counts(&kernel, whole), counts(&kernel, window)), ((0, 1), (1, 1)));
        kernel.vmar_map(roots[1], Place::At(0), request(window, PAGE)).unwrap();
        kernel.vmar_map(roots[1], Place::At(8 * PAGE), request(whole, 2 * PAGE)).unwrap();
        assert_eq!((counts(&kernel, whole), counts(&kernel, window)), ((1, 2), (2, 2)));
        // Its handle is gone, its mappings are not.
        kernel.close(crate::handle::Handle { object: window.object(), rights: abi::Rights::NONE });
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
