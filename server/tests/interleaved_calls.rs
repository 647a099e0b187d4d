//! Long calls with another call between two of their slices: each long call, with each other call between any two of
//! its slices, on a small world.
//!
//! A long call changes each single thing (a cell of 64 pages of a VMAR, a VMO's size, a waiting thread) at one moment
//! between its beginning and its end. So whatever comes in between, each thing must be afterwards as if one call had
//! been made whole and then the other, in either order. If the long call ended with an error, or with its thread, it
//! may also be as if that call had not been made; sizes, which change gradually, may have any value in between. The
//! reference worlds are made by the same calls, none of them between the slices of another, so they contain no slices.
//! After each pair the test checks all memory, VMARs and bookkeeping ([`Kernel::check_memory`]), and checks that
//! nothing is left when everything has ended.

use abi::{
    Rights, ZX_PROP_VMO_CONTENT_SIZE, ZX_VM_ALLOW_FAULTS, ZX_VM_CAN_MAP_READ, ZX_VM_CAN_MAP_SPECIFIC,
    ZX_VM_CAN_MAP_WRITE, ZX_VM_FAULT_BEYOND_STREAM_SIZE, ZX_VM_MAP_RANGE, ZX_VM_PERM_READ, ZX_VM_PERM_WRITE,
    ZX_VM_SPECIFIC, ZX_VM_SPECIFIC_OVERWRITE, ZX_VMAR_OP_COMMIT, ZX_VMAR_OP_DECOMMIT, ZX_VMAR_OP_MAP_RANGE,
    ZX_VMAR_OP_ZERO, ZX_VMO_CHILD_REFERENCE, ZX_VMO_CHILD_SLICE, ZX_VMO_CHILD_SNAPSHOT, ZX_VMO_OP_COMMIT,
    ZX_VMO_OP_DECOMMIT, ZX_VMO_OP_ZERO, nr,
};
use objects::containers::name::Name;
use objects::core::handle::Handle;
use objects::fake::FakeMachine;
use objects::machine::{PAGE, Perm, Registers, ThreadKey, USER_BASE};
use objects::memory::tree_walk::{Node, Walk};
use objects::memory::vmar::{MapRequest, Place, Vmar, VmarFlags};
use objects::memory::vmo::Vmo;
use objects::task::job::Job;
use objects::task::process::Process;
use objects::task::thread::Thread;
use objects::{Id, Kernel};
use server::{Answer, Server};

/// Bytes of a cell; number of cells of the VMAR and of each VMO; bytes of all cells.
const CELL: u64 = 64 * PAGE;
const CELLS: u64 = 32;
const ALL: u64 = CELLS * CELL;
/// The first cells of the VMAR, which contain no child VMAR; cells of a caller's buffer.
const PLAIN: u64 = 20;
const BUFFER: u64 = 8;
/// The first cell of the child VMAR, and its number of cells.
const SUB: u64 = 20;
const SUB_CELLS: u64 = 4;
/// Offset of the mappings behind the child VMAR.
const LAST: u64 = (SUB + SUB_CELLS) * CELL;
/// A call with more slices is assumed never to end.
const MOST: usize = 2000;
const RW: Perm = Perm { read: true, write: true, execute: false };
const ANY: VmarFlags = VmarFlags { specific: true, read: true, write: true, execute: false };
const PERMS: u32 = ZX_VM_PERM_READ | ZX_VM_PERM_WRITE;

/// The VMOs: one that is mapped in the VMAR, two others, one that a pager supplies, and the caller's buffer.
#[derive(Clone, Copy)]
enum Which {
    Mapped,
    Other,
    New,
    Paged,
    Buffer,
}

/// See the module's description.
struct World {
    server: Server<FakeMachine>,
    job: Id<Job>,
    held: Vec<Handle>,
    process: Id<Process>,
    threads: [Id<Thread>; 2],
    region: Id<Vmar>,
    /// First address of the VMAR, and of the buffer.
    base: u64,
    buffer: u64,
    vmos: [Id<Vmo>; 5],
    /// Handles to the VMOs, the VMAR, its child VMAR, a stream over the first VMO, the pager, and the process.
    of_vmos: [u64; 5],
    of_region: u64,
    of_sub: u64,
    of_stream: u64,
    of_pager: u64,
    of_process: u64,
    empty: ((usize, usize, usize), usize),
}

impl World {
    fn new() -> World {
        let mut kernel = Kernel::new(FakeMachine::new(40_000)).unwrap();
        let job = kernel.root_job().unwrap();
        kernel.reap();
        let empty = (kernel.census(), kernel.machine.frames_in_use());
        let (process, root) = kernel.process_create(job, Name::new(b"test")).unwrap();
        let held = vec![kernel.dup_handle(Handle { object: process.object(), rights: Rights::NONE })];
        let map = |kernel: &mut Kernel<FakeMachine>, vmar, vmo, at, offset, len| {
            let request = MapRequest { vmo, offset, len, perm: RW, max: RW, fixed: false };
            kernel.vmar_map(vmar, Place::At(at), request).unwrap()
        };
        let words = kernel.vmo_create(PAGE, false).unwrap();
        map(&mut kernel, root, words, 0, 0, PAGE);
        let port = kernel.port_create(false).unwrap();
        let pager = kernel.pager_create().unwrap();
        let plain = |kernel: &mut Kernel<FakeMachine>, resizable| kernel.vmo_create(ALL, resizable).unwrap();
        let vmos = [
            plain(&mut kernel, true),
            plain(&mut kernel, false),
            plain(&mut kernel, false),
            kernel.pager_create_vmo(pager, (port, 1), ALL, false, false).unwrap(),
            kernel.vmo_create(BUFFER * CELL, false).unwrap(),
        ];
        let of_vmos = vmos.map(|vmo| kernel.give(process, vmo.object(), Rights::all()).unwrap().into());
        let buffer = map(&mut kernel, root, vmos[Which::Buffer as usize], 4 * ALL, 0, BUFFER * CELL);
        let (region, base) = kernel.vmar_allocate(root, Place::At(ALL), ALL, ANY).unwrap();
        let (sub, _) = kernel.vmar_allocate(region, Place::At(SUB * CELL), SUB_CELLS * CELL, ANY).unwrap();
        let (inner, _) = kernel.vmar_allocate(sub, Place::At(0), CELL, ANY).unwrap();
        kernel.vmar_allocate(inner, Place::At(0), CELL / 2, ANY).unwrap();
        let shown = vmos[Which::Mapped as usize];
        for cell in 0..PLAIN {
            map(&mut kernel, region, shown, cell * CELL, cell * CELL, CELL);
        }
        map(&mut kernel, sub, shown, CELL, (SUB + 1) * CELL, 2 * CELL);
        let after = (SUB + SUB_CELLS) * CELL;
        map(&mut kernel, region, shown, after, after, ALL - after);
        kernel.process_begin(process, None).unwrap();
        let threads = [b"a", b"b"].map(|name| kernel.thread_create(process, Name::new(name)).unwrap());
        threads.iter().for_each(|&thread| kernel.thread_start(thread, &Registers::default()).unwrap());
        let stream =
            kernel.stream_create(shown, abi::ZX_STREAM_MODE_READ | abi::ZX_STREAM_MODE_WRITE, 0, true).unwrap();
        let [of_region, of_sub, of_stream, of_pager, of_process] =
            [region.object(), sub.object(), stream.object(), pager.object(), process.object()]
                .map(|object| kernel.give(process, object, Rights::all()).unwrap().into());
        // Each cell contains a mark of its own. The machine has mapped the mapped cells of the first VMO, too.
        for (which, first) in [(Which::Mapped, 1), (Which::Other, 41), (Which::New, 81), (Which::Buffer, 121)] {
            let cells = if matches!(which, Which::Buffer) { BUFFER } else { CELLS };
            for cell in 0..cells {
                kernel.vmo_write(vmos[which as usize], cell * CELL, &[first + cell as u8]).unwrap();
            }
        }
        let aspace = kernel.objects.get(process).unwrap().aspace.unwrap();
        for cell in (0..CELLS).filter(|cell| cell / SUB_CELLS != SUB / SUB_CELLS) {
            kernel.page_fault(aspace, base + cell * CELL, true, false).unwrap();
        }
        let server = Server { kernel };
        World {
            server,
            job,
            held,
            process,
            threads,
            region,
            base,
            buffer,
            vmos,
            of_vmos,
            of_region,
            of_sub,
            of_stream,
            of_pager,
            of_process,
            empty,
        }
    }

    fn of(&self, which: Which) -> u64 {
        self.of_vmos[which as usize]
    }

    /// A thread makes a call, or repeats it.
    fn call(&mut self, thread: usize, (number, words): Words) -> Answer {
        let key = ThreadKey(self.threads[thread].object().index());
        let Ok(Some(machine)) = self.server.kernel.objects.get(self.threads[thread]).map(Thread::machine) else {
            return Answer::Nothing;
        };
        let [a, b, c, d, extra @ ..] = words;
        self.server.kernel.machine.threads.get_mut(&machine.0).unwrap().extra = extra;
        let answer = self.server.call(key, number, &[a, b, c, d]);
        self.server.settle_call(key, number, answer).0
    }

    /// Makes a call until it is over: its result, and its number of slices.
    fn whole(&mut self, thread: usize, words: Words) -> (Answer, usize) {
        for slices in 1..MOST {
            match self.call(thread, words) {
                Answer::Blocked => {}
                over => return (over, slices),
            }
        }
        panic!("a call never ends");
    }

    /// The observable state: each thing, and its value.
    fn look(&mut self) -> Vec<(&'static str, u64, i64)> {
        let mut all = Vec::new();
        let kernel = &mut self.server.kernel;
        let relative = |address: u64| ((address - self.base) / PAGE) as i64;
        let Ok(Some(aspace)) = kernel.objects.get(self.process).map(|process| process.aspace) else { return all };
        let mut regions = vec![-1; CELLS as usize];
        if kernel.objects.get(self.region).is_ok_and(|region| region.aspace.is_some()) {
            let mut walk = Walk::new(self.region);
            while let Some((_, node)) = kernel.walk_next(&mut walk) {
                if let Node::Vmar(vmar) = node {
                    let cells = (vmar.base - self.base) / CELL..(vmar.base + vmar.len - self.base).div_ceil(CELL);
                    cells.for_each(|cell| regions[cell as usize] = relative(vmar.base));
                }
            }
        }
        for cell in 0..CELLS {
            let mapping = kernel.mapping_at(aspace, self.base + cell * CELL).map_or(0, |mapping| {
                let vmo = self.vmos.iter().position(|&vmo| vmo == mapping.vmo).map_or(9, |vmo| vmo as i64);
                let offset = (mapping.offset + (self.base + cell * CELL - mapping.base)) / PAGE;
                1 + vmo + 10 * i64::from(mapping.perm.write) + 100 * offset as i64
            });
            all.extend([("mapping", cell, mapping), ("region", cell, regions[cell as usize])]);
        }
        for (which, vmo) in self.vmos.into_iter().enumerate() {
            let which = which as u64;
            let Ok(size) = kernel.vmo_size(vmo) else {
                all.push(("VMO", which, 0));
                continue;
            };
            all.push(("size", which, size as i64));
            all.push(("content", which, kernel.vmo_content_size(vmo).map_or(-1, |size| size as i64)));
            for cell in 0..size / CELL {
                let mut mark = [0];
                let mark = match which == Which::Paged as u64 {
                    true => i64::from(kernel.vmo_memory_of(vmo, cell * 64..cell * 64 + 1).committed != 0),
                    false => kernel.vmo_read(vmo, cell * CELL, &mut mark).map_or(-1, |()| mark[0].into()),
                };
                all.push(("cell", which * 100 + cell, mark));
            }
        }
        all
    }

    /// Ends everything and checks that nothing is left.
    fn end(mut self) {
        let kernel = &mut self.server.kernel;
        kernel.machine.pace = 0;
        kernel.check_memory();
        kernel.job_kill(self.job, 0);
        self.held.drain(..).for_each(|handle| kernel.close(handle));
        kernel.reap();
        while kernel.reaper_slice() {}
        let frames = kernel.machine.frames_in_use() - kernel.frames_kept();
        assert_eq!((kernel.census(), frames), self.empty);
        kernel.check_memory();
    }
}

/// A call: its number and its words.
type Words = (u32, [u64; 8]);

/// The words of a call; they depend on the cell if the call concerns one.
type Call = fn(&World, u64) -> Words;

/// An event between two slices; returns the results of its calls.
type Event = fn(&mut World, u64) -> Vec<Answer>;

/// A list of calls with names.
macro_rules! calls {
    ($($name:literal: $number:ident = |$world:ident, $cell:ident| [$($word:expr),* $(,)?];)*) => {
        &[$(($name, |$world: &World, $cell: u64| {
            let _ = ($world, $cell);
            let mut words = [0_u64; 8];
            for (place, word) in words.iter_mut().zip([$($word as u64),*]) {
                *place = word;
            }
            (nr::$number, words)
        })),*]
    };
}

const OUT: u64 = USER_BASE;
const VECTORS: u64 = USER_BASE + 256;

/// The long calls. Those that concern a cell begin there.
const LONG: &[(&str, Call)] = calls! {
    "unmap all": VMAR_UNMAP = |w, c| [w.of_region, w.base, ALL];
    "unmap without regions": VMAR_UNMAP = |w, c| [w.of_region, w.base, PLAIN * CELL];
    "destroy": VMAR_DESTROY = |w, c| [w.of_region];
    "protect": VMAR_PROTECT = |w, c| [w.of_region, ZX_VM_PERM_READ, w.base, PLAIN * CELL];
    "map over": VMAR_MAP =
        |w, c| [w.of_region, PERMS | ZX_VM_SPECIFIC_OVERWRITE, 0, w.of(Which::New), 0, PLAIN * CELL, OUT];
    "map over to the content's end": VMAR_MAP = |w, c| [
        w.of_region,
        PERMS | ZX_VM_SPECIFIC_OVERWRITE | ZX_VM_ALLOW_FAULTS | ZX_VM_FAULT_BEYOND_STREAM_SIZE,
        0, w.of(Which::New), 0, PLAIN * CELL, OUT,
    ];
    "map in advance": VMAR_MAP =
        |w, c| [w.of_region, PERMS | ZX_VM_MAP_RANGE | ZX_VM_SPECIFIC, (SUB + 3) * CELL, w.of(Which::Other), 0, CELL, OUT];
    "commit what is mapped": VMAR_OP_RANGE = |w, c| [w.of_region, ZX_VMAR_OP_COMMIT, w.base, PLAIN * CELL];
    "decommit what is mapped": VMAR_OP_RANGE = |w, c| [w.of_region, ZX_VMAR_OP_DECOMMIT, w.base, PLAIN * CELL];
    "zero what is mapped": VMAR_OP_RANGE = |w, c| [w.of_region, ZX_VMAR_OP_ZERO, w.base, PLAIN * CELL];
    "map what there is": VMAR_OP_RANGE = |w, c| [w.of_region, ZX_VMAR_OP_MAP_RANGE, w.base, PLAIN * CELL];
    "commit": VMO_OP_RANGE = |w, c| [w.of(Which::Mapped), ZX_VMO_OP_COMMIT, 0, 6 * CELL];
    "decommit": VMO_OP_RANGE = |w, c| [w.of(Which::Mapped), ZX_VMO_OP_DECOMMIT, 0, ALL];
    "zero": VMO_OP_RANGE = |w, c| [w.of(Which::Mapped), ZX_VMO_OP_ZERO, 0, ALL];
    "make smaller": VMO_SET_SIZE = |w, c| [w.of(Which::Mapped), 2 * CELL];
    "cut off content": VMO_SET_STREAM_SIZE = |w, c| [w.of(Which::Mapped), 2 * CELL];
    "cut off content by its property": OBJECT_SET_PROPERTY =
        |w, c| [w.of(Which::Mapped), ZX_PROP_VMO_CONTENT_SIZE, USER_BASE + 208, 8];
    "read": VMO_READ = |w, c| [w.of(Which::Mapped), w.buffer, 0, BUFFER * CELL];
    "write": VMO_WRITE = |w, c| [w.of(Which::Mapped), w.buffer, 0, BUFFER * CELL];
    "read to what is mapped": VMO_READ = |w, c| [w.of(Which::Other), w.base, 0, BUFFER * CELL];
    "transfer": VMO_TRANSFER_DATA = |w, c| [w.of(Which::New), 0, 0, ALL, w.of(Which::Other), 0];
    "transfer within": VMO_TRANSFER_DATA =
        |w, c| [w.of(Which::Other), 0, CELL, ALL - CELL, w.of(Which::Other), 0];
    "supply": PAGER_SUPPLY_PAGES = |w, c| [w.of_pager, w.of(Which::Paged), 0, ALL, w.of(Which::Other), 0];
    "clone": VMO_CREATE_CHILD = |w, c| [w.of(Which::Mapped), ZX_VMO_CHILD_SNAPSHOT, 0, ALL, OUT];
    "read memory": PROCESS_READ_MEMORY = |w, c| [w.of_process, w.base + LAST, w.buffer, CELL * 4, OUT];
    "write memory": PROCESS_WRITE_MEMORY = |w, c| [w.of_process, w.base + LAST, w.buffer, CELL * 4, OUT];
    "stream write": STREAM_WRITEV = |w, c| [w.of_stream, 0, VECTORS, 1, OUT];
    "stream read": STREAM_READV = |w, c| [w.of_stream, 0, VECTORS, 1, OUT];
};

/// Calls that take one slice, at a cell.
const SHORT: &[(&str, Call)] = calls! {
    "unmap a cell": VMAR_UNMAP = |w, c| [w.of_region, w.base + c * CELL, CELL];
    "unmap half of a cell": VMAR_UNMAP = |w, c| [w.of_region, w.base + c * CELL, CELL / 2];
    "map a cell": VMAR_MAP = |w, c| [w.of_region, PERMS | ZX_VM_SPECIFIC, c * CELL, w.of(Which::Other), c * CELL, CELL, OUT];
    "map over a cell": VMAR_MAP =
        |w, c| [w.of_region, PERMS | ZX_VM_SPECIFIC_OVERWRITE, c * CELL, w.of(Which::Other), c * CELL, CELL, OUT];
    "protect a cell": VMAR_PROTECT = |w, c| [w.of_region, ZX_VM_PERM_READ, w.base + c * CELL, CELL];
    "destroy the region within": VMAR_DESTROY = |w, c| [w.of_sub];
    "write to a cell": VMO_WRITE = |w, c| [w.of(Which::Mapped), USER_BASE + 200, c * CELL, 1];
    "write to a cell of another": VMO_WRITE = |w, c| [w.of(Which::Other), USER_BASE + 200, c * CELL, 1];
    "zero a cell": VMO_OP_RANGE = |w, c| [w.of(Which::Mapped), ZX_VMO_OP_ZERO, c * CELL, CELL];
    "decommit a cell": VMO_OP_RANGE = |w, c| [w.of(Which::Other), ZX_VMO_OP_DECOMMIT, c * CELL, CELL];
    "transfer a cell": VMO_TRANSFER_DATA =
        |w, c| [w.of(Which::Mapped), 0, c * CELL, CELL, w.of(Which::Other), (CELLS - 1 - c) * CELL];
    "transfer a cell away": VMO_TRANSFER_DATA =
        |w, c| [w.of(Which::New), 0, c * CELL, CELL, w.of(Which::Mapped), c * CELL];
    "make smaller to a cell": VMO_SET_SIZE = |w, c| [w.of(Which::Mapped), c * CELL];
    "make larger": VMO_SET_SIZE = |w, c| [w.of(Which::Mapped), 2 * ALL];
    "content to a cell": VMO_SET_STREAM_SIZE = |w, c| [w.of(Which::Mapped), c * CELL];
    "clone a cell": VMO_CREATE_CHILD = |w, c| [w.of(Which::Mapped), ZX_VMO_CHILD_SNAPSHOT, c * CELL, CELL, OUT];
    "clone a cell of another": VMO_CREATE_CHILD = |w, c| [w.of(Which::Other), ZX_VMO_CHILD_SNAPSHOT, c * CELL, CELL, OUT];
    "refer": VMO_CREATE_CHILD = |w, c| [w.of(Which::Mapped), ZX_VMO_CHILD_REFERENCE, 0, 0, OUT];
    "slice": VMO_CREATE_CHILD = |w, c| [w.of(Which::Other), ZX_VMO_CHILD_SLICE, c * CELL, CELL, OUT];
    "detach": PAGER_DETACH_VMO = |w, c| [w.of_pager, w.of(Which::Paged)];
    "close the region": HANDLE_CLOSE = |w, c| [w.of_region];
    "close what is mapped": HANDLE_CLOSE = |w, c| [w.of(Which::Mapped)];
    "close the new one": HANDLE_CLOSE = |w, c| [w.of(Which::New)];
    "close the other": HANDLE_CLOSE = |w, c| [w.of(Which::Other)];
    "close the paged": HANDLE_CLOSE = |w, c| [w.of(Which::Paged)];
    "close the pager": HANDLE_CLOSE = |w, c| [w.of_pager];
    "close the stream": HANDLE_CLOSE = |w, c| [w.of_stream];
    "unmap the buffer": VMAR_UNMAP = |w, c| [w.of_region, w.buffer, CELL];
};

/// Events that are several calls, or none.
const OTHERS: &[(&str, Event)] = &[
    ("put a region where a cell ends", |w, c| {
        // It begins in the middle of the cell and ends in the middle of the next.
        let (at, len) = (c * CELL + CELL / 2, CELL);
        let unmap = (nr::VMAR_UNMAP, [w.of_region, w.base + at, len, 0, 0, 0, 0, 0]);
        let can = ZX_VM_SPECIFIC | ZX_VM_CAN_MAP_READ | ZX_VM_CAN_MAP_WRITE | ZX_VM_CAN_MAP_SPECIFIC;
        let region = (nr::VMAR_ALLOCATE, [w.of_region, can.into(), at, len, OUT, OUT + 8, 0, 0]);
        [unmap, region].map(|words| w.whole(1, words).0).into()
    }),
    ("put a long mapping where a cell ends", |w, c| {
        let (at, len) = (c * CELL + CELL / 2, 2 * CELL);
        let unmap = (nr::VMAR_UNMAP, [w.of_region, w.base + at, len, 0, 0, 0, 0, 0]);
        let map = [w.of_region, (PERMS | ZX_VM_SPECIFIC).into(), at, w.of(Which::Other), 0, len, OUT, 0];
        [unmap, (nr::VMAR_MAP, map)].map(|words| w.whole(1, words).0).into()
    }),
    ("touch a cell", |w, c| {
        let aspace = w.server.kernel.objects.get(w.process).unwrap().aspace.unwrap();
        let _ = w.server.kernel.page_fault(aspace, w.base + c * CELL + PAGE, true, false);
        let _ = w.server.kernel.page_fault(aspace, w.base + c * CELL, false, false);
        Vec::new()
    }),
    ("end its thread", |w, _| {
        w.server.kernel.thread_kill(w.threads[0]);
        w.server.settle();
        Vec::new()
    }),
];

/// Any of these events.
type Happens = Box<dyn Fn(&mut World, u64) -> Vec<Answer>>;

/// All events.
fn events() -> impl Iterator<Item = (&'static str, Happens)> {
    let one = |&(name, call): &(&'static str, Call)| {
        let event = move |world: &mut World, cell: u64| vec![world.whole(1, call(world, cell)).0];
        (name, Box::new(event) as Happens)
    };
    let other = |&(name, event): &(&'static str, Event)| (name, Box::new(event) as Happens);
    SHORT.iter().map(one).chain(LONG.iter().map(one)).chain(OTHERS.iter().map(other))
}

/// A world for calls in slices: the clock advances each time it is read.
fn prepared() -> World {
    let mut world = World::new();
    let vectors = [world.buffer, BUFFER * CELL].map(u64::to_le_bytes).concat();
    let aspace = world.server.kernel.objects.get(world.process).unwrap().aspace.unwrap();
    world.server.kernel.copy_out(aspace, VECTORS, &vectors).unwrap();
    world.server.kernel.copy_out(aspace, USER_BASE + 200, &[231]).unwrap();
    world.server.kernel.copy_out(aspace, USER_BASE + 208, &(2 * CELL).to_le_bytes()).unwrap();
    world.server.kernel.machine.pace = 300_000;
    world
}

/// One of this many pairs is tried.
fn every() -> usize {
    std::env::var("HAFNON_BETWEEN").ok().and_then(|every| every.parse().ok()).unwrap_or(40)
}

const PLACES: [u64; 4] = [0, 3, 11, 21];

#[test]
fn each_thing_is_as_if_one_call_had_been_made_after_the_other() {
    let (mut tried, mut count) = (0, 0_usize);
    for &(name, long) in LONG {
        let slices = {
            let mut world = prepared();
            let words = long(&world, 0);
            let slices = world.whole(0, words).1;
            world.end();
            slices
        };
        assert!(slices > 1 || name == "map in advance", "{name} is made at once");
        for (other, event) in events() {
            for place in PLACES {
                let order = |first: bool, second: bool, reversed: bool| {
                    let mut world = prepared();
                    let words = long(&world, 0);
                    if first && !reversed {
                        world.whole(0, words);
                    }
                    if second {
                        event(&mut world, place);
                    }
                    if first && reversed {
                        world.whole(0, words);
                    }
                    let seen = world.look();
                    world.end();
                    seen
                };
                let mut serial: Option<[Vec<_>; 3]> = None;
                for at in 1..slices {
                    count += 1;
                    if !count.is_multiple_of(every()) {
                        continue;
                    }
                    let serial = serial.get_or_insert_with(|| {
                        [order(true, true, false), order(true, true, true), order(false, true, false)]
                    });
                    tried += 1;
                    let mut world = prepared();
                    let words = long(&world, 0);
                    for _ in 0..at {
                        assert_eq!(world.call(0, words), Answer::Blocked, "{name}");
                    }
                    event(&mut world, place);
                    world.server.kernel.check_memory();
                    let (result, _) = world.whole(0, words);
                    let seen = world.look();
                    // Streams return how much they have transferred, which may be less than requested.
                    let all = result == Answer::Done(0) && !name.starts_with("stream");
                    let allowed = if all { &serial[..2] } else { &serial[..] };
                    // Data that two calls move between cells may be moved twice; data that is moved within a VMO is
                    // nowhere for a while.
                    let moves = |name: &str| name.contains("transfer") || name == "supply";
                    // A call that reads into the buffer changes what another call writes from it.
                    let both = [name, other];
                    let buffer =
                        both.iter().any(|name| name.contains("read")) && both.iter().any(|name| name.contains("write"));
                    let mixed = both.contains(&"transfer within") || moves(name) && moves(other) || buffer;
                    let what = |&&(what, ..): &&(&str, u64, i64)| what != "cell" || !mixed;
                    let seen: Vec<_> = seen.iter().filter(what).copied().collect();
                    check(&seen, allowed, &format!("{name}, with {other} at {place} after slice {at}: {result:?}"));
                    world.end();
                }
            }
        }
    }
    println!("{tried} of {count} pairs");
}

/// Checks that each thing is as in one of the allowed worlds.
fn check(seen: &[(&str, u64, i64)], allowed: &[Vec<(&'static str, u64, i64)>], case: &str) {
    for &(what, which, how) in seen {
        let mut others = Vec::new();
        for world in allowed {
            others.extend(world.iter().filter(|&&(name, number, _)| (name, number) == (what, which)).map(|of| of.2));
        }
        // A size changes gradually; a call that did not finish leaves it at an intermediate value.
        let on_the_way = allowed.len() > 2 && matches!(what, "size" | "content");
        let between = others.iter().min() <= Some(&how) && Some(&how) <= others.iter().max();
        // A VMAR inside one that is being destroyed may be gone already.
        let within = allowed.len() > 2 && what == "region" && how == 0 && others.contains(&-1);
        assert!(
            others.contains(&how) || on_the_way && between || within,
            "{case}: {what} {which} is {how}, not one of {others:?}"
        );
    }
}

/// Small pseudo-random numbers, reproducible by the seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % n
    }
}

/// Between any two slices of a call other threads make any calls, or end. All invariants hold, and every call ends.
#[test]
fn anything_between_any_two_slices() {
    let seeds = std::env::var("HAFNON_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(300);
    let events: Vec<_> = events().collect();
    for seed in 1..=seeds {
        let mut dice = Dice(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
        let mut world = prepared();
        for _ in 0..6 {
            let (name, long) = LONG[dice.below(LONG.len())];
            let words = long(&world, 0);
            let mut slices = 0;
            while world.call(0, words) == Answer::Blocked {
                slices += 1;
                assert!(slices < MOST, "{name} never ends, seed {seed}");
                // From then on nothing else happens until the call ends.
                if slices < 40 && dice.below(3) == 0 {
                    let (_, event) = &events[dice.below(events.len() - 1)];
                    event(&mut world, dice.below(CELLS as usize - 2) as u64);
                    world.server.kernel.check_memory();
                }
            }
        }
        world.end();
    }
}
