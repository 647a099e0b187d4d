//! Memory that runs out at any point.
//!
//! A scenario runs once per request for memory, and each time another request fails: the first, then the second, and so
//! on. A failing call must return `NO_MEMORY` and have changed nothing; repeated, it must succeed, and at the end
//! everything must be as if no request had failed. Best-effort work may be left out silently. When everything is
//! closed, nothing is left.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use abi::{Rights, Status, ZX_STREAM_MODE_READ, ZX_STREAM_MODE_WRITE};

use crate::containers::failure_injection::{Plan, arm, made, plan};
use crate::containers::name::Name;
use crate::containers::slab::Key;
use crate::core::handle::Handle;
use crate::core::object::ObjectId;
use crate::fake::FakeMachine;
use crate::ipc::iob::{Discipline, RegionSpec, Source};
use crate::ipc::stream::{StreamOffset, UserBuffer};
use crate::machine::{PAGE, Perm, Registers, USER_BASE};
use crate::memory::vmar::{MapRequest, Place, RangeOp, Vmar, VmarFlags};
use crate::memory::vmo::{CloneKind, Vmo};
use crate::task::process::Process;
use crate::{Id, Kernel};

const R: Perm = Perm { read: true, write: false, execute: false };
const RW: Perm = Perm { read: true, write: true, execute: false };
const ALL: VmarFlags = VmarFlags { specific: true, read: true, write: true, execute: true };
/// Number of pages of a VMO that are compared.
const LOOK: u64 = 140;

/// What a failing call may have changed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keeps {
    /// Nothing.
    All,
    /// Pages may have been committed; the visible content is unchanged.
    Content,
    /// A part may be done.
    Shape,
}

struct World {
    kernel: Kernel<FakeMachine>,
    vmos: Vec<Id<Vmo>>,
    spaces: Vec<Key>,
    held: Vec<Handle>,
    processes: Vec<Id<Process>>,
    empty: (usize, usize, usize),
    frames: usize,
}

impl World {
    fn new() -> World {
        let mut kernel = Kernel::new(FakeMachine::new(2000)).unwrap();
        // The page of zeroes is allocated once and stays.
        let Kernel { frames, machine, .. } = &mut kernel;
        frames.zero(machine).unwrap();
        let (empty, frames) = (kernel.census(), kernel.machine.frames_in_use());
        World { kernel, vmos: vec![], spaces: vec![], held: vec![], processes: vec![], empty, frames }
    }

    /// The state visible to programs, as text.
    fn look(&mut self, keeps: Keeps) -> Vec<String> {
        let armed = arm(false);
        let mut seen = vec![format!("{:?}", self.kernel.census())];
        if keeps == Keeps::All {
            seen.push(format!("{} frames", self.kernel.machine.frames_in_use()));
        }
        for (n, &id) in self.vmos.iter().enumerate() {
            let Ok(vmo) = self.kernel.objects.get(id) else {
                seen.push(format!("vmo {n} is gone"));
                continue;
            };
            let parent = vmo.parent.and_then(|parent| self.vmos.iter().position(|&vmo| vmo == parent));
            let (children, mappings, shares) = (vmo.children, vmo.num_mappings, vmo.share_count());
            let size = self.kernel.vmo_size(id).unwrap();
            let content = self.kernel.vmo_content_size(id).unwrap();
            seen.push(format!("vmo {n}: {size:#x} {content:#x} {parent:?} {children} {mappings} {shares}"));
            if keeps == Keeps::Shape {
                continue;
            }
            for page in 0..(size / PAGE).min(LOOK) {
                let mut bytes = [0; 8];
                let read = self.kernel.vmo_read(id, page * PAGE + 16, &mut bytes);
                let value = u64::from_le_bytes(bytes);
                if read.is_err() || value != 0 {
                    seen.push(format!("vmo {n} page {page}: {read:?} {value:#x}"));
                }
            }
        }
        for (n, &space) in self.spaces.iter().enumerate() {
            for mapping in self.kernel.mappings(space) {
                let vmo = self.vmos.iter().position(|&vmo| vmo == mapping.named);
                let (base, len, offset) = (mapping.base, mapping.len, mapping.named_offset);
                seen.push(format!("space {n}: {base:#x} {len:#x} {vmo:?} {offset:#x} {:?}", mapping.perm));
            }
        }
        self.kernel.check_memory();
        arm(armed);
        seen
    }

    /// Repeats a call until it succeeds; each failure must preserve what `keeps` says.
    fn step<T>(&mut self, name: &str, keeps: Keeps, mut call: impl FnMut(&mut Self) -> Result<T, Status>) -> T {
        let before = self.look(keeps);
        loop {
            let refused = made().refused;
            let result = call(self);
            self.kernel.reap();
            match result {
                Ok(value) => return value,
                Err(Status::NO_MEMORY) if made().refused > refused => {
                    let after = self.look(keeps);
                    assert_eq!(after, before, "{name} failed and changed something");
                }
                Err(status) => panic!("{name}: {status:?}"),
            }
        }
    }

    fn hold(&mut self, object: ObjectId) {
        self.kernel.add_handle(object);
        self.held.push(Handle { object, rights: Rights::NONE });
    }

    fn vmo(&mut self, name: &str, make: impl FnMut(&mut Self) -> Result<Id<Vmo>, Status>) -> Id<Vmo> {
        let id = self.step(name, Keeps::All, make);
        self.hold(id.object());
        self.vmos.push(id);
        self.look(Keeps::All);
        id
    }

    fn close(&mut self, object: ObjectId) {
        let at = self.held.iter().position(|handle| handle.object == object).unwrap();
        let handle = self.held.remove(at);
        self.kernel.close(handle);
        self.kernel.reap();
        self.look(Keeps::All);
    }

    fn write(&mut self, vmo: Id<Vmo>, page: u64, value: u64) {
        self.step("vmo_write", Keeps::All, |w| w.kernel.vmo_write(vmo, page * PAGE + 16, &value.to_le_bytes()));
    }

    fn process(&mut self) -> (Id<Process>, Id<Vmar>, Key) {
        let job = self.kernel.root_job().unwrap();
        let (process, root) =
            self.step("process_create", Keeps::All, |w| w.kernel.process_create(job, Name::new(b"starved")));
        self.hold(process.object());
        self.hold(root.object());
        self.processes.push(process);
        let space = self.kernel.objects.get(process).unwrap().aspace.unwrap();
        self.spaces.push(space);
        (process, root, space)
    }

    fn map(&mut self, vmar: Id<Vmar>, place: u64, vmo: Id<Vmo>, offset: u64, pages: u64) -> u64 {
        let request = MapRequest { vmo, offset: offset * PAGE, len: pages * PAGE, perm: RW, max: RW, fixed: false };
        self.step("vmar_map", Keeps::All, |w| w.kernel.vmar_map(vmar, Place::Over(place * PAGE), request))
    }

    fn touch(&mut self, space: Key, page: u64, write: bool) {
        let address = USER_BASE + page * PAGE + 16;
        self.step("page_fault", Keeps::Content, |w| w.kernel.page_fault(space, address, write, false));
    }

    /// Stores a word as a thread would: faults, and writes to the frame that is then mapped.
    fn store(&mut self, space: Key, page: u64, value: u64) {
        self.touch(space, page, true);
        let machine = self.kernel.aspace(space).unwrap().machine;
        let (frame, perm) = self.kernel.machine.mapped[&machine.0][&(USER_BASE + page * PAGE)];
        assert!(perm.write);
        use crate::machine::Memory;
        self.kernel.machine.frame_write(frame, 16, &value.to_le_bytes());
    }

    fn end(mut self) {
        for process in core::mem::take(&mut self.processes) {
            self.kernel.process_kill(process, 0);
            self.kernel.reap();
        }
        for handle in core::mem::take(&mut self.held) {
            self.kernel.close(handle);
            self.kernel.reap();
        }
        assert_eq!(self.kernel.census(), self.empty, "objects, observers, address spaces");
        assert_eq!(self.kernel.machine.frames_in_use(), self.frames, "frames");
    }
}

/// Runs a scenario with each request for memory failing in turn, and with several in a row.
fn starve(scenario: impl Fn(&mut World)) {
    let play = |refuse: Range<u64>| {
        let mut world = World::new();
        plan(Plan { want: None, first: refuse.start, count: refuse.end - refuse.start, on: false });
        arm(true);
        scenario(&mut world);
        arm(false);
        let seen = world.look(Keeps::Content);
        world.end();
        (seen, made())
    };
    let (expected, all) = play(0..0);
    assert!(all.made > 0);
    for in_a_row in [1, 3] {
        for first in 0.. {
            let (seen, came) = play(first..first + in_a_row);
            if came.refused == 0 {
                assert!(first >= all.made);
                break;
            }
            assert_eq!(seen, expected, "another end when request {first} is refused");
        }
    }
}

#[test]
fn clones() {
    starve(|w| {
        let parent = w.vmo("vmo_create", |w| w.kernel.vmo_create(130 * PAGE, true));
        for page in [0, 1, 5, 63, 64, 129] {
            w.write(parent, page, page + 1);
        }
        let clone = |from: Id<Vmo>, offset: u64, pages: u64| {
            move |w: &mut World| w.kernel.vmo_create_clone(from, CloneKind::Snapshot, offset * PAGE, pages * PAGE, true)
        };
        let first = w.vmo("clone", clone(parent, 0, 130));
        w.write(parent, 0, 100);
        w.write(first, 1, 200);
        let second = w.vmo("clone at an odd place", clone(first, 1, 100));
        w.write(second, 0, 300);
        w.write(first, 63, 400);
        let third = w.vmo("clone beyond the end", clone(second, 60, 20));
        w.step("vmo_zero", Keeps::Shape, |w| w.kernel.vmo_zero(second, 8, 70 * PAGE));
        w.step("vmo_commit", Keeps::Content, |w| w.kernel.vmo_commit(first, 0, 66 * PAGE));
        w.step("vmo_set_size", Keeps::All, |w| w.kernel.vmo_set_size(parent, 64 * PAGE));
        w.step("vmo_set_size", Keeps::All, |w| w.kernel.vmo_set_size(parent, 130 * PAGE));
        w.close(first.object());
        w.write(third, 2, 500);
        w.step("vmo_set_content_size", Keeps::Shape, |w| w.kernel.vmo_set_content_size(third, 5));
        w.step("vmo_set_content_size", Keeps::Shape, |w| w.kernel.vmo_set_content_size(third, 3 * PAGE + 5));
        w.close(parent.object());
        w.write(second, 129 - 60, 600);
    });
}

/// The pages that a clone shares with one run of its parent's table are in two runs of its own, and there is memory for
/// the first.
#[test]
fn clones_across_runs() {
    starve(|w| {
        let parent = w.vmo("vmo_create", |w| w.kernel.vmo_create(200 * PAGE, false));
        for page in [10, 64, 65, 120, 127, 128, 190] {
            w.write(parent, page, page + 1);
        }
        for (offset, pages) in [(1, 199), (32, 168), (63, 137), (65, 100)] {
            let copy = w.vmo("clone", |w| {
                w.kernel.vmo_create_clone(parent, CloneKind::Snapshot, offset * PAGE, pages * PAGE, false)
            });
            w.write(copy, 127 - offset, offset);
        }
        let other = w.vmo("vmo_create", |w| w.kernel.vmo_create(200 * PAGE, false));
        w.step("transfer", Keeps::All, |w| w.kernel.vmo_transfer((other, 30 * PAGE), 160 * PAGE, (parent, 3 * PAGE)));
    });
}

#[test]
fn windows() {
    starve(|w| {
        let whole = w.vmo("vmo_create", |w| w.kernel.vmo_create(20 * PAGE, false));
        let slice = w.vmo("slice", |w| w.kernel.vmo_create_slice(whole, 4 * PAGE, 8 * PAGE));
        let inner = w.vmo("slice", |w| w.kernel.vmo_create_slice(slice, PAGE, 2 * PAGE));
        let other = w.vmo("reference", |w| w.kernel.vmo_create_reference(whole, false));
        w.write(inner, 1, 1);
        w.write(other, 19, 2);
        let clone =
            w.vmo("clone of a slice", |w| w.kernel.vmo_create_clone(slice, CloneKind::Modified, PAGE, 4 * PAGE, false));
        w.close(whole.object());
        w.close(slice.object());
        w.write(inner, 1, 3);
        w.write(clone, 1, 4);
        w.step("vmo_zero", Keeps::Shape, |w| w.kernel.vmo_zero(other, PAGE / 2, 18 * PAGE));
    });
}

#[test]
fn mappings() {
    starve(|w| {
        let (_, root, space) = w.process();
        let (_, other_root, other_space) = w.process();
        let vmo = w.vmo("vmo_create", |w| w.kernel.vmo_create(40 * PAGE, true));
        w.map(root, 0, vmo, 0, 40);
        w.map(other_root, 8, vmo, 8, 16);
        w.touch(space, 3, false);
        w.store(space, 3, 1);
        w.store(space, 4, 2);
        w.store(other_space, 9, 3);
        w.touch(space, 9, false);
        let clone = w.vmo("clone", |w| w.kernel.vmo_create_clone(vmo, CloneKind::Snapshot, 0, 40 * PAGE, false));
        w.map(root, 64, clone, 0, 40);
        w.touch(space, 64 + 4, false);
        w.store(space, 4, 10);
        w.store(space, 64 + 3, 11);
        w.store(other_space, 9, 12);
        let at = |page: u64| USER_BASE + page * PAGE;
        w.step("protect", Keeps::All, |w| w.kernel.vmar_protect(root, at(2), 3 * PAGE, R, true));
        w.step("protect", Keeps::All, |w| w.kernel.vmar_protect(root, at(3), PAGE, RW, true));
        w.store(space, 3, 13);
        w.step("protect", Keeps::All, |w| w.kernel.vmar_protect(root, at(2), 3 * PAGE, RW, true));
        w.step("unmap", Keeps::All, |w| w.kernel.vmar_unmap(root, at(5), 2 * PAGE, true));
        w.step("unmap", Keeps::All, |w| w.kernel.vmar_unmap(root, at(30), 40 * PAGE, true));
        let (inner, _) =
            w.step("allocate", Keeps::All, |w| w.kernel.vmar_allocate(root, Place::At(200 * PAGE), 20 * PAGE, ALL));
        w.hold(inner.object());
        w.map(inner, 2, clone, 1, 8);
        w.map(inner, 4, vmo, 1, 2);
        w.step("map_range", Keeps::Content, |w| {
            w.kernel.vmar_prefault(root, at(0));
            w.kernel.vmar_op_range(root, RangeOp::MapRange, at(0), 5 * PAGE, true)
        });
        w.step("commit", Keeps::Content, |w| w.kernel.vmar_op_range(inner, RangeOp::Commit, at(202), 8 * PAGE, false));
        w.step("zero", Keeps::Shape, |w| w.kernel.vmar_op_range(inner, RangeOp::Zero, at(203), 3 * PAGE, false));
        w.store(space, 205, 14);
        w.step("set_size", Keeps::All, |w| w.kernel.vmo_set_size(vmo, 3 * PAGE));
        w.step("destroy", Keeps::All, |w| w.kernel.vmar_destroy(inner));
    });
}

#[test]
fn pages_that_move_or_stay() {
    starve(|w| {
        let (_, root, space) = w.process();
        let from = w.vmo("vmo_create", |w| w.kernel.vmo_create(140 * PAGE, false));
        let to = w.vmo("vmo_create", |w| w.kernel.vmo_create(140 * PAGE, false));
        for page in [0, 3, 64, 65, 130] {
            w.write(from, page, page + 1);
        }
        w.write(to, 4, 7);
        w.map(root, 0, from, 0, 140);
        w.map(root, 200, to, 0, 140);
        w.touch(space, 3, false);
        w.touch(space, 203, false);
        w.vmo("clone", |w| w.kernel.vmo_create_clone(from, CloneKind::Snapshot, 0, 70 * PAGE, false));
        w.step("transfer", Keeps::All, |w| w.kernel.vmo_transfer((to, PAGE), 131 * PAGE, (from, 0)));
        w.step("transfer back", Keeps::All, |w| w.kernel.vmo_transfer((from, 9 * PAGE), 60 * PAGE, (to, PAGE)));
        w.step("transfer within", Keeps::All, |w| w.kernel.vmo_transfer((to, 70 * PAGE), 66 * PAGE, (to, 64 * PAGE)));
        w.store(space, 9, 20);
        w.store(space, 203, 21);
        let pin = w.step("pin", Keeps::Content, |w| w.kernel.vmo_pin(to, 62 * PAGE, 10 * PAGE));
        assert_eq!(w.kernel.vmo_decommit(to, 0, 63 * PAGE), Err(Status::BAD_STATE));
        w.step("zero what is pinned", Keeps::Shape, |w| w.kernel.vmo_zero(to, 0, 80 * PAGE));
        w.kernel.vmo_unpin(pin);
        let whole = w.vmo("contiguous", |w| w.kernel.vmo_create_contiguous(9 * PAGE, 14));
        w.write(whole, 3, 30);
        w.map(root, 400, whole, 0, 9);
        w.store(space, 402, 31);
        let discardable = w.vmo("discardable", |w| {
            let id = w.kernel.vmo_create(5 * PAGE, false)?;
            w.kernel.vmo_make_discardable(id)?;
            Ok(id)
        });
        w.step("lock", Keeps::All, |w| w.kernel.vmo_lock(discardable, 0, 5 * PAGE));
        w.map(root, 500, discardable, 0, 5);
        w.store(space, 501, 40);
        w.touch(space, 503, false);
        w.step("unlock", Keeps::All, |w| w.kernel.vmo_unlock(discardable, 0, 5 * PAGE));
        assert_eq!(w.kernel.vmo_reclaim_discardable(1), 1);
        w.step("lock", Keeps::All, |w| w.kernel.vmo_lock(discardable, 0, 5 * PAGE));
        w.store(space, 502, 41);
    });
}

#[test]
fn streams_and_buffers() {
    starve(|w| {
        let (process, root, space) = w.process();
        let memory = w.vmo("vmo_create", |w| w.kernel.vmo_create(20 * PAGE, false));
        w.map(root, 0, memory, 0, 20);
        w.store(space, 1, 0x1111);
        w.store(space, 2, 0x2222);
        let file = w.vmo("vmo_create", |w| w.kernel.vmo_create(0, true));
        let mode = ZX_STREAM_MODE_READ | ZX_STREAM_MODE_WRITE;
        let stream = w.step("stream_create", Keeps::All, |w| w.kernel.stream_create(file, mode, 0, true));
        w.hold(stream.object());
        let part = |page: u64, len: u64| UserBuffer { address: USER_BASE + page * PAGE, len };
        let parts = [part(1, PAGE), part(2, PAGE), part(7, 100)];
        // A write that made progress has succeeded, so a failing one must have failed before it did anything.
        for (offset, n) in [(0, 0), (PAGE, 0), (2 * PAGE, 1), (30 * PAGE + 8, 1), (31 * PAGE, 2)] {
            // A short write has succeeded, too; the rest is written next.
            let (mut done, part) = (0, parts[n]);
            while done < part.len {
                let rest = [UserBuffer { address: part.address + done, len: part.len - done }];
                done += w.step("stream_write", Keeps::Content, |w| {
                    w.kernel.stream_write_all(stream, StreamOffset::At(offset + done), space, &rest)
                });
            }
        }
        w.step("stream_read", Keeps::Shape, |w| {
            w.kernel.stream_read_all(stream, StreamOffset::At(0), space, &[part(9, 50)])
        });
        let spec = |source, discipline| RegionSpec { source, access: 0x3f, discipline };
        let shared = w.step("region", Keeps::All, |w| w.kernel.iob_create_shared_region(process, 3 * PAGE));
        w.hold(shared.object());
        let specs = [
            spec(Source::Private(3 * PAGE), Discipline::None),
            spec(Source::Private(2 * PAGE), Discipline::IdAllocator),
            spec(Source::Private(PAGE), Discipline::IdAllocator),
        ];
        let (one, two) = w.step("iob_create", Keeps::All, |w| w.kernel.iob_create(process, &specs));
        w.hold(one.object());
        w.hold(two.object());
        w.step("iob_allocate_id", Keeps::Content, |w| w.kernel.iob_allocate_id(one, 1, space, part(1, 60)));
        w.step("vmar_map_iob", Keeps::Content, |w| {
            let (window, len, perm) = w.kernel.iob_window(process, one, 0)?;
            let request = MapRequest { vmo: window, offset: 0, len, perm, max: perm, fixed: false };
            let mapped = w.kernel.vmar_map(root, Place::Over(100 * PAGE), request);
            w.kernel.iob_window_made(window);
            mapped
        });
        w.store(space, 101, 50);
        w.close(one.object());
        w.touch(space, 100, false);
    });
}

#[test]
fn processes() {
    starve(|w| {
        let (process, root, space) = w.process();
        let vmo = w.vmo("vmo_create", |w| w.kernel.vmo_create(4 * PAGE, false));
        w.map(root, 0, vmo, 0, 4);
        w.step("process_begin", Keeps::All, |w| w.kernel.process_begin(process, None));
        for _ in 0..2 {
            let thread = w.step("thread_create", Keeps::All, |w| w.kernel.thread_create(process, Name::default()));
            w.hold(thread.object());
            w.step("thread_start", Keeps::All, |w| w.kernel.thread_start(thread, &Registers::default()));
        }
        w.step("copy_out", Keeps::Shape, |w| w.kernel.copy_out(space, USER_BASE + 20, &[1; 3 * PAGE as usize]));
        let mut bytes = [0; 2 * PAGE as usize];
        w.step("copy_in", Keeps::All, |w| w.kernel.copy_in(space, USER_BASE + PAGE, &mut bytes));
        w.process();
    });
}

#[test]
fn pagers() {
    starve(|w| {
        let (_, root, space) = w.process();
        let port = w.step("port_create", Keeps::All, |w| w.kernel.port_create(false));
        w.hold(port.object());
        let pager = w.step("pager_create", Keeps::All, |w| w.kernel.pager_create());
        w.hold(pager.object());
        let paged = w.vmo("pager_create_vmo", |w| w.kernel.pager_create_vmo(pager, (port, 1), 90 * PAGE, true, false));
        let aux = w.vmo("vmo_create", |w| w.kernel.vmo_create(90 * PAGE, false));
        for page in [0, 1, 63, 64, 70, 89] {
            w.write(aux, page, page + 1);
        }
        // Some of the supplied pages are shared.
        w.vmo("clone", |w| w.kernel.vmo_create_clone(aux, CloneKind::Snapshot, 0, 65 * PAGE, false));
        w.step("pager_supply_pages", Keeps::Shape, |w| {
            w.kernel.pager_supply_pages(pager, paged, (0, 80 * PAGE), (aux, 0))
        });
        w.map(root, 0, paged, 0, 90);
        w.touch(space, 1, false);
        w.touch(space, 2, false);
        let clone = w.vmo("clone of it", |w| {
            w.kernel.vmo_create_clone(paged, CloneKind::AtLeastOnWrite, PAGE, 70 * PAGE, false)
        });
        w.map(root, 100, clone, 0, 70);
        w.touch(space, 100, false);
        w.touch(space, 101, false);
        w.store(space, 100, 20);
        w.store(space, 1, 21);
        w.store(space, 2, 22);
        w.touch(space, 101, false);
        w.step("zero of the clone", Keeps::Shape, |w| w.kernel.vmo_zero(clone, 60 * PAGE, 5 * PAGE + 20));
        let again = w.vmo("clone of the clone", |w| {
            w.kernel.vmo_create_clone(clone, CloneKind::Modified, 59 * PAGE, 11 * PAGE, false)
        });
        w.write(again, 4, 30);
        w.step("zero", Keeps::Shape, |w| w.kernel.vmo_zero(paged, 69 * PAGE + 5, 2 * PAGE));
        w.step("commit", Keeps::Content, |w| w.kernel.vmo_commit(again, 0, 9 * PAGE));
        w.step("set_size", Keeps::All, |w| w.kernel.vmo_set_size(paged, 60 * PAGE));
        w.step("set_size", Keeps::All, |w| w.kernel.vmo_set_size(paged, 90 * PAGE));
        w.close(pager.object());
        w.store(space, 100, 40);
    });
}

/// A call that frees memory is allowed when there is none for the kernel's own records; it must not allocate any
/// either.
#[test]
fn nothing_is_taken_apart_into_more_when_there_is_no_memory() {
    let mut w = World::new();
    let (_, root, _) = w.process();
    let vmo = w.vmo("vmo_create", |w| w.kernel.vmo_create(40 * PAGE, false));
    w.map(root, 0, vmo, 0, 40);
    w.kernel.machine.full = true;
    let at = |page: u64| USER_BASE + page * PAGE;
    assert_eq!(w.kernel.vmar_unmap(root, at(3), PAGE, true), Err(Status::NO_MEMORY));
    w.kernel.vmar_unmap(root, at(0), PAGE, true).unwrap();
    w.kernel.vmar_unmap(root, at(39), PAGE, true).unwrap();
    w.kernel.vmar_unmap(root, at(0), 40 * PAGE, true).unwrap();
    w.kernel.machine.full = false;
    w.end();
}
