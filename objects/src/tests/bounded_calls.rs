//! Unbounded work: sizes, ranges and chains chosen by a program must not determine how long a call takes, or how deep
//! it recurses. None of these tests measures time; a bug would make them run forever or overflow the stack.

use alloc::vec;
use alloc::vec::Vec;

use abi::{Rights, Status, ZX_STREAM_MODE_READ, ZX_STREAM_MODE_WRITE};

use crate::containers::name::Name;
use crate::core::handle::Handle;
use crate::core::port::Port;
use crate::fake::FakeMachine;
use crate::ipc::stream::{StreamOffset, UserBuffer};
use crate::machine::{PAGE, Perm, USER_BASE};
use crate::memory::vmar::{MapRequest, Place, RangeOp, VmarFlags};
use crate::memory::vmo::{CloneKind, MAX_SIZE, Vmo};
use crate::{Id, Kernel};

const RW: Perm = Perm { read: true, write: true, execute: false };
/// Length of chains.
const DEEP: usize = 10_000;
const HUGE: u64 = 1 << 60;

struct World {
    kernel: Kernel<FakeMachine>,
    empty: (usize, usize, usize),
}

impl World {
    fn new() -> World {
        let kernel = Kernel::new(FakeMachine::new(100_000)).unwrap();
        let empty = kernel.census();
        World { kernel, empty }
    }

    fn hold(&mut self, vmo: Id<Vmo>) -> Handle {
        self.kernel.add_handle(vmo.object());
        Handle { object: vmo.object(), rights: Rights::NONE }
    }

    /// Children of children, each created from the previous one.
    fn chain(&mut self, size: u64, next: impl Fn(&mut Self, Id<Vmo>) -> Id<Vmo>) -> (Vec<Id<Vmo>>, Vec<Handle>) {
        let first = self.kernel.vmo_create(size, false).unwrap();
        let (mut vmos, mut handles) = (vec![first], vec![self.hold(first)]);
        for _ in 0..DEEP {
            let vmo = next(self, *vmos.last().unwrap());
            vmos.push(vmo);
            handles.push(self.hold(vmo));
        }
        (vmos, handles)
    }

    fn close(&mut self, handles: impl IntoIterator<Item = Handle>) {
        for handle in handles {
            self.kernel.close(handle);
            self.kernel.reap();
        }
    }

    fn word(&mut self, vmo: Id<Vmo>) -> u8 {
        let mut byte = [0];
        self.kernel.vmo_read(vmo, 5, &mut byte).unwrap();
        byte[0]
    }

    fn end(self) {
        assert_eq!(self.kernel.census(), self.empty);
        self.kernel.check_memory();
    }
}

#[test]
fn slices_of_slices() {
    let mut w = World::new();
    let (vmos, mut handles) = w.chain(8 * PAGE, |w, vmo| w.kernel.vmo_create_slice(vmo, 0, 8 * PAGE).unwrap());
    let last = *vmos.last().unwrap();
    w.kernel.vmo_write(vmos[0], 5, &[7]).unwrap();
    assert_eq!(w.word(last), 7);
    let held = handles.pop().unwrap();
    w.close(handles);
    assert_eq!(w.word(last), 7);
    // All are destroyed at once.
    w.close([held]);
    w.end();
}

#[test]
fn references_of_references() {
    let mut w = World::new();
    let (vmos, handles) = w.chain(PAGE, |w, vmo| w.kernel.vmo_create_reference(vmo, false).unwrap());
    w.kernel.vmo_write(*vmos.last().unwrap(), 5, &[7]).unwrap();
    assert_eq!(w.word(vmos[0]), 7);
    w.close(handles);
    w.end();
}

#[test]
fn clones_of_clones() {
    for backwards in [false, true] {
        let mut w = World::new();
        let (vmos, mut handles) = w.chain(2 * PAGE, |w, vmo| {
            w.kernel.vmo_write(vmo, 5, &[1]).unwrap();
            w.kernel.vmo_create_clone(vmo, CloneKind::Snapshot, 0, 2 * PAGE, false).unwrap()
        });
        let last = *vmos.last().unwrap();
        assert_eq!(w.word(last), 1);
        if backwards {
            handles.reverse();
        }
        let kept = handles.split_off(DEEP);
        w.close(handles);
        w.close(kept);
        w.end();
    }
}

#[test]
fn many_children_are_given_to_one_parent_after_the_other() {
    let mut w = World::new();
    let grand = w.kernel.vmo_create(PAGE, false).unwrap();
    let clone = |w: &mut World, of| w.kernel.vmo_create_clone(of, CloneKind::Snapshot, 0, PAGE, false).unwrap();
    let (mut line, mut at) = (vec![w.hold(grand)], grand);
    for _ in 0..20 {
        at = clone(&mut w, at);
        line.push(w.hold(at));
    }
    let mut children = Vec::new();
    for _ in 0..DEEP {
        let child = clone(&mut w, at);
        children.push(w.hold(child));
    }
    while line.len() > 1 {
        let handle = line.pop();
        w.close(handle);
    }
    assert_eq!(w.kernel.objects.get(grand).unwrap().children, DEEP as u64);
    w.close(line);
    w.close(children);
    w.end();
}

#[test]
fn sizes_without_end() {
    let mut w = World::new();
    let vmo = w.kernel.vmo_create(HUGE, true).unwrap();
    let held = w.hold(vmo);
    for page in [0, 1 << 20, (HUGE / PAGE) - 1] {
        w.kernel.vmo_write(vmo, page * PAGE, &[1]).unwrap();
    }
    let k = &mut w.kernel;
    assert_eq!(k.vmo_commit(vmo, 0, HUGE), Err(Status::NO_MEMORY));
    assert_eq!(k.vmo_pin(vmo, 0, HUGE).err(), Some(Status::NO_MEMORY));
    assert_eq!(k.vmo_commit(vmo, 1, u64::MAX), Err(Status::OUT_OF_RANGE));
    let clone = k.vmo_create_clone(vmo, CloneKind::Snapshot, PAGE, HUGE, true).unwrap();
    let to = k.vmo_create(MAX_SIZE, false).unwrap();
    k.vmo_transfer((to, PAGE), HUGE - PAGE, (clone, 0)).unwrap();
    k.vmo_transfer((to, 0), HUGE, (to, 7 * PAGE)).unwrap();
    k.vmo_zero(clone, 1, HUGE - 2).unwrap();
    k.vmo_zero(to, 1, MAX_SIZE - 2).unwrap();
    k.vmo_decommit(to, 0, MAX_SIZE).unwrap();
    k.vmo_set_content_size(to, 0).unwrap();
    k.vmo_set_content_size(to, MAX_SIZE).unwrap();
    k.vmo_set_size(vmo, 0).unwrap();
    k.vmo_set_size(vmo, HUGE).unwrap();
    assert!(k.vmo_create_contiguous(HUGE, 12).is_err());
    for id in [clone, to] {
        k.reaper_enqueue(id.object());
    }
    w.close([held]);
    w.end();
}

#[test]
fn mappings_without_end() {
    let mut w = World::new();
    let job = w.kernel.root_job().unwrap();
    let (process, root) = w.kernel.process_create(job, Name::new(b"endless")).unwrap();
    let held = Handle { object: process.object(), rights: Rights::NONE };
    w.kernel.add_handle(process.object());
    let k = &mut w.kernel;
    let vmo = k.vmo_create(HUGE, true).unwrap();
    let len = 1 << 46;
    let request = MapRequest { vmo, offset: 0, len, perm: RW, max: RW, fixed: false };
    let base = k.vmar_map(root, Place::At(0), request).unwrap();
    let space = k.objects.get(process).unwrap().aspace.unwrap();
    k.page_fault(space, base + len - 1, true, false).unwrap();
    k.page_fault(space, base + len / 2, false, false).unwrap();
    k.vmar_prefault(root, base);
    for op in
        [RangeOp::MapRange, RangeOp::Zero, RangeOp::Decommit, RangeOp::AlwaysNeed, RangeOp::DontNeed, RangeOp::Prefetch]
    {
        k.vmar_op_range(root, op, base, len, true).unwrap();
    }
    assert_eq!(k.vmar_op_range(root, RangeOp::Commit, base, len, true), Err(Status::NO_MEMORY));
    k.vmar_protect(root, base, len, Perm { write: false, ..RW }, true).unwrap();
    k.vmar_protect(root, base, len, RW, true).unwrap();
    // This ends when all memory is used up.
    assert_eq!(k.check_out(space, USER_BASE, usize::MAX), Err(Status::NO_MEMORY));
    k.vmo_decommit(vmo, 0, HUGE).unwrap();
    // Streams: endless zeroes are written to a file that grows, and a file is read into the same memory again and
    // again.
    let file = k.vmo_create(0, true).unwrap();
    let stream = k.stream_create(file, ZX_STREAM_MODE_READ | ZX_STREAM_MODE_WRITE, 0, true).unwrap();
    let total = 100_000 * PAGE;
    let done = k.stream_write_all(stream, StreamOffset::Position, space, &[UserBuffer { address: base, len }]);
    assert!(done.is_ok_and(|done| done < total), "{done:?}");
    // It has used up all memory.
    k.vmo_set_size(file, 0).unwrap();
    k.vmo_set_size(file, HUGE).unwrap();
    let into = [UserBuffer { address: base, len: 1 << 20 }; 4096];
    let done = k.stream_read_all(stream, StreamOffset::At(0), space, &into);
    assert!(done.is_ok_and(|done| done <= total), "{done:?}");
    k.reaper_enqueue(stream.object());
    k.vmo_set_size(vmo, PAGE).unwrap();
    k.vmar_unmap(root, base, len, true).unwrap();
    k.process_kill(process, 0);
    k.reap();
    w.close([held]);
    w.end();
}

/// Nested regions are destroyed in slices, however short the outermost one is.
#[test]
fn regions_in_regions() {
    for destroy in [false, true] {
        let mut w = World::new();
        let job = w.kernel.root_job().unwrap();
        let (process, root) = w.kernel.process_create(job, Name::new(b"deep")).unwrap();
        let held = Handle { object: process.object(), rights: Rights::NONE };
        w.kernel.add_handle(process.object());
        let flags = VmarFlags { specific: true, read: true, write: true, execute: false };
        let (outermost, base) = w.kernel.vmar_allocate(root, Place::At(PAGE), PAGE, flags).unwrap();
        let mut innermost = outermost;
        for _ in 0..DEEP {
            innermost = w.kernel.vmar_allocate(innermost, Place::At(0), PAGE, flags).unwrap().0;
        }
        w.kernel.machine.pace = 200_000;
        let (mut done, mut slices) = (0, 1);
        let part = |w: &mut World, done| match destroy {
            true => w.kernel.vmar_destroy_slice(outermost, done),
            false => w.kernel.vmar_unmap_slice(root, (base, PAGE), true, done),
        };
        while let Some(next) = part(&mut w, done).unwrap() {
            (done, slices) = (next, slices + 1);
        }
        assert!(slices > DEEP / 200, "{slices} slices");
        w.kernel.machine.pace = 0;
        w.kernel.process_kill(process, 0);
        w.kernel.reap();
        w.close([held]);
        while w.kernel.reaper_slice() {}
        w.end();
    }
}

#[test]
fn a_pager_with_very_many_records() {
    let mut w = World::new();
    let k = &mut w.kernel;
    let port: Id<Port> = k.port_create(false).unwrap();
    let pager = k.pager_create().unwrap();
    let handles = [port.object(), pager.object()].map(|object| {
        k.add_handle(object);
        Handle { object, rights: Rights::NONE }
    });
    let vmo = k.pager_create_vmo(pager, (port, 1), HUGE, true, false).unwrap();
    let held = w.hold(vmo);
    let k = &mut w.kernel;
    let aux = k.vmo_create(HUGE, false).unwrap();
    let clone = k.vmo_create_clone(vmo, CloneKind::AtLeastOnWrite, 0, HUGE, false).unwrap();
    k.vmo_zero(clone, PAGE, HUGE / 2).unwrap();
    let mut byte = [1];
    k.vmo_read(clone, HUGE / 4, &mut byte).unwrap();
    assert_eq!(byte, [0]);
    assert_eq!(k.pager_supply_pages(pager, vmo, (PAGE, HUGE / 2), (aux, PAGE)), Err(Status::NO_MEMORY));
    k.vmo_zero(vmo, PAGE, HUGE / 2).unwrap();
    k.vmo_set_size(vmo, PAGE).unwrap();
    for id in [clone, aux] {
        k.reaper_enqueue(id.object());
    }
    w.close([held]);
    w.close(handles);
    w.end();
}
