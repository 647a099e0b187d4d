//! Random trees of VMOs against a model that copies eagerly.
//!
//! In the model every VMO with its own pages holds its complete content: a clone is copied immediately. The content
//! consists of cells of 512 bytes, so that operations end in the middle of pages; each byte of a cell holds the cell's
//! value. Windows are a target and an offset. The model also tracks parents and children.
//!
//! After each operation every page that the machine maps must show what the model says, and may be writable only if it
//! belongs to that VMO alone. From time to time, and at the end, every byte of every VMO is compared, the owners of
//! every frame are counted, and the memory that the VMOs report must add up to the frames in use.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use std::vec;

use abi::{Rights, Signals, Status};
use proptest::prelude::*;

use super::{CloneKind, FRACTION, Pin, Vmo};
use crate::Kernel;
use crate::containers::name::Name;
use crate::containers::slab::Key;
use crate::core::handle::Handle;
use crate::core::noun::Variant;
use crate::core::object::Id;
use crate::fake::FakeMachine;
use crate::machine::{Frame, PAGE, PAGE_SIZE, Perm};
use crate::memory::vmar::{MapRequest, Place, Vmar};

/// Number of trees in one test run; the environment variable `HAFNON_TREES` overrides it.
const TREES: u32 = 20_000;
/// Bytes of a cell.
const CELL: u64 = 512;
const CELLS: u64 = PAGE / CELL;
/// Pages of the largest VMO.
const PAGES: u64 = 6;
const RW: Perm = Perm { read: true, write: true, execute: false };

#[derive(Clone, Debug)]
enum Op {
    Create { pages: u64, resizable: bool },
    Clone { of: usize, kind: CloneKind, page: u64, pages: u64, resizable: bool },
    Slice { of: usize, page: u64, pages: u64 },
    Reference { of: usize, resizable: bool },
    Close { of: usize },
    Write { of: usize, cell: u64, cells: u64, value: u8 },
    Zero { of: usize, cell: u64, cells: u64 },
    Commit { of: usize, page: u64, pages: u64 },
    Decommit { of: usize, page: u64, pages: u64 },
    Resize { of: usize, pages: u64 },
    Transfer { of: usize, page: u64, pages: u64, from: usize, from_page: u64 },
    Pin { of: usize, page: u64, pages: u64 },
    Unpin { which: usize },
    Map { of: usize, page: u64, pages: u64, space: usize, write: bool },
    Unmap { which: usize },
    Load { which: usize, page: u64 },
    Store { which: usize, cell: u64, value: u8 },
}

fn op() -> impl Strategy<Value = Op> {
    let of = 0..8usize;
    let (page, pages) = (0..PAGES, 0..=PAGES);
    let (cell, cells) = (0..PAGES * CELLS, 0..3 * CELLS);
    let kind = prop_oneof![Just(CloneKind::Snapshot), Just(CloneKind::AtLeastOnWrite), Just(CloneKind::Modified)];
    prop_oneof![
        2 => (pages.clone(), any::<bool>()).prop_map(|(pages, resizable)| Op::Create { pages, resizable }),
        4 => (of.clone(), kind, page.clone(), pages.clone(), any::<bool>())
            .prop_map(|(of, kind, page, pages, resizable)| Op::Clone { of, kind, page: page / 2, pages, resizable }),
        1 => (of.clone(), page.clone(), pages.clone()).prop_map(|(of, page, pages)| Op::Slice { of, page, pages }),
        1 => (of.clone(), any::<bool>()).prop_map(|(of, resizable)| Op::Reference { of, resizable }),
        2 => of.clone().prop_map(|of| Op::Close { of }),
        6 => (of.clone(), cell.clone(), cells.clone(), 1..255u8)
            .prop_map(|(of, cell, cells, value)| Op::Write { of, cell, cells, value }),
        3 => (of.clone(), cell.clone(), cells).prop_map(|(of, cell, cells)| Op::Zero { of, cell, cells }),
        1 => (of.clone(), page.clone(), pages.clone()).prop_map(|(of, page, pages)| Op::Commit { of, page, pages }),
        2 => (of.clone(), page.clone(), pages.clone()).prop_map(|(of, page, pages)| Op::Decommit { of, page, pages }),
        2 => (of.clone(), pages.clone()).prop_map(|(of, pages)| Op::Resize { of, pages }),
        1 => (of.clone(), page.clone(), pages.clone(), of.clone(), page.clone())
            .prop_map(|(of, page, pages, from, from_page)| Op::Transfer { of, page, pages, from, from_page }),
        1 => (of.clone(), page.clone(), pages.clone()).prop_map(|(of, page, pages)| Op::Pin { of, page, pages }),
        1 => of.clone().prop_map(|which| Op::Unpin { which }),
        2 => (of.clone(), page.clone(), 1..=PAGES, 0..2usize, any::<bool>())
            .prop_map(|(of, page, pages, space, write)| Op::Map { of, page, pages, space, write }),
        1 => of.clone().prop_map(|which| Op::Unmap { which }),
        4 => (of.clone(), page).prop_map(|(which, page)| Op::Load { which, page }),
        4 => (of, cell, 1..255u8).prop_map(|(which, cell, value)| Op::Store { which, cell, value }),
    ]
}

/// The model's state of a VMO.
struct Node {
    id: Id<Vmo>,
    /// A handle refers to it.
    open: bool,
    parent: Option<usize>,
    resizable: bool,
    clone: bool,
    /// The content, or for a window its target, first page, and number of pages; a reference shows all of its target.
    body: Body,
    pins: Vec<(u64, u64)>,
}

enum Body {
    Cells(Vec<u8>),
    Slice(usize, u64, u64),
    Reference(usize),
}

struct Mapped {
    node: usize,
    page: u64,
    pages: u64,
    space: usize,
    base: u64,
    write: bool,
}

struct World {
    kernel: Kernel<FakeMachine>,
    spaces: [(Key, Id<Vmar>); 2],
    nodes: BTreeMap<usize, Node>,
    next: usize,
    mapped: Vec<Mapped>,
    pins: Vec<(usize, (u64, u64), Pin)>,
}

impl World {
    fn new() -> World {
        let mut kernel = Kernel::new(FakeMachine::new(10_000)).unwrap();
        let job = kernel.root_job().unwrap();
        let spaces = [b"a", b"b"].map(|name| {
            let (process, root) = kernel.process_create(job, Name::new(name)).unwrap();
            kernel.add_handle(process.object());
            (kernel.objects.get(process).unwrap().aspace.unwrap(), root)
        });
        World { kernel, spaces, nodes: BTreeMap::new(), next: 0, mapped: Vec::new(), pins: Vec::new() }
    }

    /// One of the VMOs that have a handle.
    fn pick(&self, n: usize) -> Option<usize> {
        let open: Vec<usize> = self.nodes.iter().filter(|(_, node)| node.open).map(|(&n, _)| n).collect();
        (!open.is_empty()).then(|| open[n % open.len()])
    }

    /// The VMO whose content this one shows, and the first page.
    fn target(&self, n: usize) -> (usize, u64) {
        match self.nodes[&n].body {
            Body::Cells(_) => (n, 0),
            Body::Slice(target, page, _) => (target, page),
            Body::Reference(target) => (target, 0),
        }
    }

    fn pages(&self, n: usize) -> u64 {
        match &self.nodes[&n].body {
            Body::Cells(cells) => cells.len() as u64 / CELLS,
            &Body::Slice(_, _, pages) => pages,
            &Body::Reference(target) => self.pages(target),
        }
    }

    fn cells(&mut self, n: usize) -> &mut Vec<u8> {
        let (target, _) = self.target(n);
        match &mut self.nodes.get_mut(&target).unwrap().body {
            Body::Cells(cells) => cells,
            _ => unreachable!(),
        }
    }

    fn content(&self, n: usize) -> &[u8] {
        let (target, page) = self.target(n);
        match &self.nodes[&target].body {
            Body::Cells(cells) => &cells[(page * CELLS) as usize..][..(self.pages(n) * CELLS) as usize],
            _ => unreachable!(),
        }
    }

    fn pinned(&self, n: usize, pages: core::ops::Range<u64>) -> bool {
        self.nodes[&n].pins.iter().any(|&(page, count)| page < pages.end && page + count > pages.start)
    }

    fn add(&mut self, id: Id<Vmo>, parent: Option<usize>, resizable: bool, clone: bool, body: Body) {
        self.kernel.add_handle(id.object());
        self.nodes.insert(self.next, Node { id, open: true, parent, resizable, clone, body, pins: Vec::new() });
        self.next += 1;
    }

    /// Removes VMOs that nothing keeps alive from the model.
    fn bury(&mut self) {
        loop {
            let kept = |n: usize, node: &Node| {
                let shows = |m: &Mapped| m.node == n || self.target(m.node).0 == n;
                let window = |child: &Node| child.parent == Some(n) && !matches!(child.body, Body::Cells(_));
                node.open || !node.pins.is_empty() || self.mapped.iter().any(shows) || self.nodes.values().any(window)
            };
            let Some(n) = self.nodes.iter().find(|(n, node)| !kept(**n, node)).map(|(&n, _)| n) else { return };
            let node = self.nodes.remove(&n).unwrap();
            for child in self.nodes.values_mut().filter(|child| child.parent == Some(n)) {
                child.parent = node.parent;
            }
        }
    }

    fn step(&mut self, op: Op) -> Result<(), TestCaseError> {
        match op {
            Op::Create { pages, resizable } => {
                let id = self.kernel.vmo_create(pages * PAGE - (pages > 0) as u64 * 7, resizable).unwrap();
                self.add(id, None, resizable, false, Body::Cells(vec![0; (pages * CELLS) as usize]));
            }
            Op::Clone { of, kind, page, pages, resizable } => {
                let Some(of) = self.pick(of) else { return Ok(()) };
                let result =
                    self.kernel.vmo_create_clone(self.nodes[&of].id, kind, page * PAGE, pages * PAGE, resizable);
                if self.pinned(self.target(of).0, 0..u64::MAX) {
                    prop_assert_eq!(result, Err(Status::BAD_STATE));
                    return Ok(());
                }
                let old = self.content(of);
                let mut cells = old.get((page * CELLS) as usize..).unwrap_or_default().to_vec();
                cells.resize((pages * CELLS) as usize, 0);
                self.add(result.unwrap(), Some(of), resizable, true, Body::Cells(cells));
            }
            Op::Slice { of, page, pages } => {
                let Some(of) = self.pick(of) else { return Ok(()) };
                let result = self.kernel.vmo_create_slice(self.nodes[&of].id, page * PAGE, pages * PAGE);
                let (target, from) = self.target(of);
                if page + pages > self.pages(of) {
                    prop_assert_eq!(result, Err(Status::INVALID_ARGS));
                } else if self.nodes[&target].resizable {
                    prop_assert_eq!(result, Err(Status::NOT_SUPPORTED));
                } else {
                    self.add(result.unwrap(), Some(of), false, false, Body::Slice(target, from + page, pages));
                }
            }
            Op::Reference { of, resizable } => {
                let Some(of) = self.pick(of) else { return Ok(()) };
                let result = self.kernel.vmo_create_reference(self.nodes[&of].id, resizable);
                if matches!(self.nodes[&of].body, Body::Slice(..)) || resizable && !self.nodes[&of].resizable {
                    prop_assert_eq!(result, Err(Status::NOT_SUPPORTED));
                } else {
                    let (target, _) = self.target(of);
                    self.add(result.unwrap(), Some(of), resizable, false, Body::Reference(target));
                }
            }
            Op::Close { of } => {
                let Some(of) = self.pick(of) else { return Ok(()) };
                let node = self.nodes.get_mut(&of).unwrap();
                node.open = false;
                self.kernel.close(Handle { object: node.id.object(), rights: Rights::NONE });
            }
            Op::Write { of, cell, cells, value } => {
                let Some(of) = self.pick(of) else { return Ok(()) };
                let data = vec![value; (cells * CELL) as usize];
                let result = self.kernel.vmo_write(self.nodes[&of].id, cell * CELL, &data);
                self.set(of, cell, cells, value, result)?;
            }
            Op::Zero { of, cell, cells } => {
                let Some(of) = self.pick(of) else { return Ok(()) };
                let result = self.kernel.vmo_zero(self.nodes[&of].id, cell * CELL, cells * CELL);
                self.set(of, cell, cells, 0, result)?;
            }
            Op::Commit { of, page, pages } => {
                let Some(of) = self.pick(of) else { return Ok(()) };
                let id = self.nodes[&of].id;
                let result = self.kernel.vmo_commit(id, page * PAGE, pages * PAGE);
                prop_assert_eq!(result.is_ok(), page + pages <= self.pages(of));
                if result.is_ok() {
                    let (target, from) = self.target(of);
                    let id = self.nodes[&target].id;
                    prop_assert_eq!(
                        self.kernel.vmo_memory_of(id, from + page..from + page + pages).private,
                        pages * PAGE
                    );
                }
            }
            Op::Decommit { of, page, pages } => {
                let Some(of) = self.pick(of) else { return Ok(()) };
                let result = self.kernel.vmo_decommit(self.nodes[&of].id, page * PAGE, pages * PAGE);
                let (target, from) = self.target(of);
                let node = &self.nodes[&target];
                let cloned = self.nodes.values().any(|child| child.clone && child.parent == Some(target));
                if cloned || node.clone && node.parent.is_some() {
                    prop_assert_eq!(result, Err(Status::NOT_SUPPORTED));
                } else if page + pages > self.pages(of) {
                    prop_assert_eq!(result, Err(Status::OUT_OF_RANGE));
                } else if self.pinned(target, from + page..from + page + pages) {
                    prop_assert_eq!(result, Err(Status::BAD_STATE));
                } else {
                    prop_assert_eq!(self.kernel.vmo_memory_of(node.id, from + page..from + page + pages).committed, 0);
                    self.set(of, page * CELLS, pages * CELLS, 0, result)?;
                }
            }
            Op::Resize { of, pages } => {
                let Some(of) = self.pick(of) else { return Ok(()) };
                let result = self.kernel.vmo_set_size(self.nodes[&of].id, pages * PAGE);
                if !self.nodes[&of].resizable {
                    prop_assert_eq!(result, Err(Status::UNAVAILABLE));
                } else if self.pinned(self.target(of).0, pages..u64::MAX) {
                    prop_assert_eq!(result, Err(Status::BAD_STATE));
                } else {
                    prop_assert_eq!(result, Ok(()));
                    self.cells(of).resize((pages * CELLS) as usize, 0);
                }
            }
            Op::Transfer { of, page, pages, from, from_page } => {
                let (Some(of), Some(from)) = (self.pick(of), self.pick(from)) else { return Ok(()) };
                let to = (self.nodes[&of].id, page * PAGE);
                let source = (self.nodes[&from].id, from_page * PAGE);
                let result = self.kernel.vmo_transfer(to, pages * PAGE, source);
                let fits = |n, page| page + pages <= self.pages(n);
                let pinned = |n: usize, page: u64| {
                    let (target, from) = self.target(n);
                    self.pinned(target, from + page..from + page + pages)
                };
                if !fits(of, page) || !pinned(of, page) && !fits(from, from_page) {
                    prop_assert_eq!(result, Err(Status::OUT_OF_RANGE));
                } else if pinned(of, page) || pinned(from, from_page) {
                    prop_assert_eq!(result, Err(Status::BAD_STATE));
                } else {
                    prop_assert_eq!(result, Ok(()));
                    let len = (pages * CELLS) as usize;
                    let moved = self.content(from)[(from_page * CELLS) as usize..][..len].to_vec();
                    self.set(from, from_page * CELLS, pages * CELLS, 0, Ok(()))?;
                    let at = ((self.target(of).1 + page) * CELLS) as usize;
                    self.cells(of)[at..][..len].copy_from_slice(&moved);
                }
            }
            Op::Pin { of, page, pages } => {
                let Some(of) = self.pick(of) else { return Ok(()) };
                let result = self.kernel.vmo_pin(self.nodes[&of].id, page * PAGE, pages * PAGE);
                if pages == 0 {
                    prop_assert_eq!(result, Err(Status::INVALID_ARGS));
                } else if page + pages > self.pages(of) {
                    prop_assert_eq!(result, Err(Status::OUT_OF_RANGE));
                } else {
                    let (target, from) = self.target(of);
                    self.nodes.get_mut(&target).unwrap().pins.push((from + page, pages));
                    self.pins.push((target, (from + page, pages), result.unwrap()));
                }
            }
            Op::Unpin { which } => {
                if !self.pins.is_empty() {
                    let (target, range, pin) = self.pins.swap_remove(which % self.pins.len());
                    self.kernel.vmo_unpin(pin);
                    let pins = &mut self.nodes.get_mut(&target).unwrap().pins;
                    let at = pins.iter().position(|pin| *pin == range).unwrap();
                    pins.swap_remove(at);
                }
            }
            Op::Map { of, page, pages, space, write } => {
                let Some(of) = self.pick(of) else { return Ok(()) };
                let (_, root) = self.spaces[space];
                let perm = Perm { write, ..RW };
                let (vmo, offset, len) = (self.nodes[&of].id, page * PAGE, pages * PAGE);
                let request = MapRequest { vmo, offset, len, perm, max: perm, fixed: false };
                let place = Place::Anywhere { align: PAGE, limit: None };
                if let Ok(base) = self.kernel.vmar_map(root, place, request) {
                    self.mapped.push(Mapped { node: of, page, pages, space, base, write });
                }
            }
            Op::Unmap { which } => {
                if !self.mapped.is_empty() {
                    let m = self.mapped.swap_remove(which % self.mapped.len());
                    let (_, root) = self.spaces[m.space];
                    self.kernel.vmar_unmap(root, m.base, m.pages * PAGE, true).unwrap();
                }
            }
            Op::Load { which, page } => {
                if !self.mapped.is_empty() {
                    let m = &self.mapped[which % self.mapped.len()];
                    let at = m.base + page % m.pages * PAGE;
                    let result = self.kernel.page_fault(self.spaces[m.space].0, at, false, false);
                    let there = m.page + page % m.pages < self.shown(m);
                    prop_assert_eq!(result, if there { Ok(()) } else { Err(Status::OUT_OF_RANGE) });
                }
            }
            Op::Store { which, cell, value } => {
                if !self.mapped.is_empty() {
                    let m = &self.mapped[which % self.mapped.len()];
                    let cell = cell % (m.pages * CELLS);
                    let (node, page, at) = (m.node, m.page + cell / CELLS, m.base + cell * CELL);
                    let there = page < self.shown(m);
                    let (space, write) = (m.space, m.write);
                    let stored = self.store(space, at, value);
                    prop_assert_eq!(stored, there && write);
                    if stored {
                        let at = (self.target(node).1 * CELLS + m_cell(page, cell)) as usize;
                        self.cells(node)[at] = value;
                    }
                }
            }
        }
        Ok(())
    }

    /// Number of pages that a mapping shows, counted from the VMO's start: a slice is mapped only up to its end, but
    /// the mapping is of its target.
    fn shown(&self, m: &Mapped) -> u64 {
        let (target, page) = self.target(m.node);
        self.pages(target) - page
    }

    /// A program stores a cell by the processor's rules: a page that is mapped writable is written directly.
    fn store(&mut self, space: usize, address: u64, value: u8) -> bool {
        let (key, _) = self.spaces[space];
        let machine = self.kernel.aspaces.get(key).unwrap().machine;
        for _ in 0..2 {
            let page = self.kernel.machine.mapped[&machine.0].get(&(address / PAGE * PAGE)).copied();
            if let Some((frame, Perm { write: true, .. })) = page {
                use crate::machine::Memory;
                self.kernel.machine.frame_write(frame, (address % PAGE) as usize, &[value; CELL as usize]);
                return true;
            }
            if self.kernel.page_fault(key, address, true, false).is_err() {
                return false;
            }
        }
        panic!("a store was allowed and still faults");
    }

    /// The result of an operation that sets cells.
    fn set(
        &mut self,
        n: usize,
        cell: u64,
        cells: u64,
        value: u8,
        result: Result<(), Status>,
    ) -> Result<(), TestCaseError> {
        let fits = cell + cells <= self.pages(n) * CELLS;
        prop_assert_eq!(result, if fits { Ok(()) } else { Err(Status::OUT_OF_RANGE) });
        if fits {
            let at = (self.target(n).1 * CELLS + cell) as usize;
            self.cells(n)[at..at + cells as usize].fill(value);
        }
        Ok(())
    }

    fn page_bytes(cells: &[u8]) -> [u8; PAGE_SIZE] {
        let mut bytes = [0; PAGE_SIZE];
        for (part, &cell) in bytes.chunks_mut(CELL as usize).zip(cells) {
            part.fill(cell);
        }
        bytes
    }

    /// Checks what programs see without a call or fault.
    fn check_mapped(&self) -> Result<(), TestCaseError> {
        use crate::machine::Memory;
        for m in &self.mapped {
            let machine = self.kernel.aspaces.get(self.spaces[m.space].0).unwrap().machine;
            let (target, from) = self.target(m.node);
            let content = self.content(target);
            for (&address, &(frame, perm)) in
                self.kernel.machine.mapped[&machine.0].range(m.base..m.base + m.pages * PAGE)
            {
                let page = from + m.page + (address - m.base) / PAGE;
                let expected = content.get((page * CELLS) as usize..);
                prop_assert!(expected.is_some_and(|cells| !cells.is_empty()), "mapped beyond the end");
                let mut bytes = [0; PAGE_SIZE];
                self.kernel.machine.frame_read(frame, 0, &mut bytes);
                prop_assert!(bytes == Self::page_bytes(&expected.unwrap()[..CELLS as usize]), "mapped page {}", page);
                let own = self.kernel.vmo_page_if_there(self.nodes[&target].id, page);
                prop_assert!(own.is_none_or(|(own, _)| own == frame), "another frame is mapped");
                prop_assert!(!perm.write || own == Some((frame, true)), "a shared page may be written");
                prop_assert!(!perm.write || m.write);
            }
        }
        Ok(())
    }

    fn check_all(&mut self) -> Result<(), TestCaseError> {
        let all: Vec<usize> = self.nodes.keys().copied().collect();
        prop_assert_eq!(self.kernel.objects.iter().filter(|o| Vmo::is(&o.body)).count(), all.len());
        let mut owners: BTreeMap<Frame, u64> = BTreeMap::new();
        let mut scaled = 0;
        for n in all {
            let id = self.nodes[&n].id;
            prop_assert_eq!(self.kernel.vmo_size(id), Ok(self.pages(n) * PAGE));
            let mut bytes = vec![1; (self.pages(n) * PAGE) as usize];
            prop_assert_eq!(self.kernel.vmo_read(id, 0, &mut bytes), Ok(()));
            for (page, cells) in bytes.chunks(PAGE_SIZE).zip(self.content(n).chunks(CELLS as usize)) {
                prop_assert!(page == Self::page_bytes(cells), "content of {}", n);
            }
            // Parents and children.
            let children = self.nodes.values().filter(|child| child.parent == Some(n)).count() as u64;
            prop_assert_eq!(self.kernel.objects.get(id).unwrap().children, children);
            let none = self.kernel.signals(id.object()).contains(Signals::VMO_ZERO_CHILDREN);
            prop_assert_eq!(none, children == 0);
            let parent = self.nodes[&n].parent.map_or(0, |parent| self.kernel.koid(self.nodes[&parent].id.object()));
            prop_assert_eq!(self.kernel.vmo_parent_koid(id), parent);
            // Memory.
            let vmo = self.kernel.objects.get(id).unwrap();
            for frame in vmo.pages().into_iter().flat_map(|pages| pages.frames(0, u64::MAX)) {
                *owners.entry(frame).or_default() += 1;
            }
            scaled += self.kernel.vmo_memory(id).unwrap().scaled;
        }
        for (&frame, &count) in &owners {
            prop_assert_eq!(self.kernel.frames.owners(frame), count);
        }
        let zero = usize::from(self.kernel.frames.zero.is_some());
        prop_assert_eq!(self.kernel.machine.frames_in_use(), owners.len() + zero);
        // Each owner's part of a page is rounded down, by less than 2^-63 bytes.
        let truth = (owners.len() as u128 * u128::from(PAGE)) << FRACTION;
        prop_assert!(scaled <= truth && truth - scaled < 1000);
        Ok(())
    }

    fn end(mut self) -> Result<(), TestCaseError> {
        for (_, _, pin) in core::mem::take(&mut self.pins) {
            self.kernel.vmo_unpin(pin);
        }
        for m in core::mem::take(&mut self.mapped) {
            self.kernel.vmar_unmap(self.spaces[m.space].1, m.base, m.pages * PAGE, true).unwrap();
        }
        for node in self.nodes.values().filter(|node| node.open) {
            self.kernel.close(Handle { object: node.id.object(), rights: Rights::NONE });
        }
        self.kernel.reap();
        prop_assert_eq!(self.kernel.machine.frames_in_use(), usize::from(self.kernel.frames.zero.is_some()));
        // The root job, and two processes with a VMAR each.
        prop_assert_eq!(self.kernel.census().0, 5);
        prop_assert!(self.kernel.machine.mapped.values().all(BTreeMap::is_empty));
        Ok(())
    }
}

/// The cell of the VMO for a cell of a mapping, whose page is `page` of the VMO.
fn m_cell(page: u64, cell: u64) -> u64 {
    page * CELLS + cell % CELLS
}

fn trees() -> u32 {
    std::env::var("HAFNON_TREES").ok().and_then(|count| count.parse().ok()).unwrap_or(TREES)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: trees(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn trees_are_as_if_everything_had_been_copied(ops in proptest::collection::vec(op(), 1..64)) {
        grow(ops)?;
    }
}

/// Executes the operations that build a tree.
fn grow(ops: Vec<Op>) -> Result<(), TestCaseError> {
    let mut world = World::new();
    for resizable in [false, true] {
        world.step(Op::Create { pages: PAGES, resizable })?;
    }
    for (i, op) in ops.into_iter().enumerate() {
        world.step(op)?;
        world.kernel.reap();
        world.bury();
        world.check_mapped()?;
        if i % 16 == 15 {
            world.check_all()?;
        }
    }
    world.check_all()?;
    world.end()
}

/// A page that was made ahead, discarded, and then touched: the server took it for an unwanted page and it faulted
/// twice.
#[test]
fn what_was_made_ahead_and_thrown_away_is_made_once() {
    let map = Op::Map { of: 0, page: 2, pages: 4, space: 0, write: true };
    let store = |cell| Op::Store { which: 0, cell, value: 1 };
    grow(vec![map, store(0), store(CELLS), Op::Zero { of: 0, cell: 4 * CELLS, cells: CELLS }, store(2 * CELLS)])
        .unwrap();
}
