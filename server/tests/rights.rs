//! A lost right is not regained: whatever is made from a handle that lacks a right (handles, and objects that show the
//! same memory or task) lacks it too, by any way and by any two ways one after the other. The rows are those of the
//! table in docs/security.md ("Rights").

use abi::{
    Rights, Status, ZX_HANDLE_OP_DUPLICATE, ZX_HANDLE_OP_MOVE, ZX_LOG_FLAG_READABLE, ZX_PROP_VMO_CONTENT_SIZE,
    ZX_RIGHT_SAME_RIGHTS, ZX_STREAM_MODE_READ, ZX_STREAM_MODE_WRITE, ZX_VM_CAN_MAP_EXECUTE, ZX_VM_CAN_MAP_READ,
    ZX_VM_CAN_MAP_WRITE, ZX_VM_PERM_EXECUTE, ZX_VM_PERM_READ, ZX_VM_PERM_WRITE, ZX_VMO_CHILD_NO_WRITE,
    ZX_VMO_CHILD_REFERENCE, ZX_VMO_CHILD_RESIZABLE, ZX_VMO_CHILD_SLICE, ZX_VMO_CHILD_SNAPSHOT,
    ZX_VMO_CHILD_SNAPSHOT_AT_LEAST_ON_WRITE, ZX_VMO_CHILD_SNAPSHOT_MODIFIED, ZX_VMO_OP_ZERO, nr,
    zx_handle_disposition_t, zx_iovec_t,
};
use objects::containers::name::Name;
use objects::fake::FakeMachine;
use objects::machine::{PAGE, Perm, Registers, ThreadKey, USER_BASE};
use objects::memory::vmar::{MapRequest, Place};
use objects::memory::vmo::Vmo;
use objects::task::process::Process;
use objects::task::thread::Thread;
use objects::{Id, Kernel, ObjectId};
use server::{Answer, Server};
use zerocopy::IntoBytes;

/// Addresses for returned handles, for structures, and for bytes.
const OUT: u64 = USER_BASE;
const STRUCT: u64 = USER_BASE + 256;
const BYTES: u64 = USER_BASE + 512;
const SIZE: u64 = 4 * PAGE;
/// Rights that a copy or a window adds: it has a name and a content size of its own.
const OWN: Rights = Rights::GET_PROPERTY.union(Rights::SET_PROPERTY);
/// All rights that a handle to a VMO can have.
const ALL: Rights = Rights::BASIC
    .union(Rights::READ)
    .union(Rights::WRITE)
    .union(Rights::EXECUTE)
    .union(Rights::MAP)
    .union(OWN)
    .union(Rights::SIGNAL)
    .union(Rights::RESIZE);

struct World {
    server: Server<FakeMachine>,
    process: Id<Process>,
    thread: Id<Thread>,
    vmo: Id<Vmo>,
    /// A handle to the root VMAR.
    root: u64,
}

/// A way to make a handle from another.
#[derive(Clone, Copy, Debug)]
enum Way {
    Duplicate,
    Replace,
    /// In a message, duplicated or moved.
    Message(u32),
    Child(u32),
}

/// The ways of the table: the rights that the result may have beyond the handle's, and whether it shows other memory.
const WAYS: [(Way, Rights, bool); 14] = [
    (Way::Duplicate, Rights::NONE, false),
    (Way::Replace, Rights::NONE, false),
    (Way::Message(ZX_HANDLE_OP_DUPLICATE), Rights::NONE, false),
    (Way::Message(ZX_HANDLE_OP_MOVE), Rights::NONE, false),
    (Way::Child(ZX_VMO_CHILD_SLICE), OWN, false),
    (Way::Child(ZX_VMO_CHILD_SLICE | ZX_VMO_CHILD_NO_WRITE), OWN, false),
    (Way::Child(ZX_VMO_CHILD_REFERENCE), OWN, false),
    (Way::Child(ZX_VMO_CHILD_REFERENCE | ZX_VMO_CHILD_NO_WRITE), OWN, false),
    (Way::Child(ZX_VMO_CHILD_REFERENCE | ZX_VMO_CHILD_RESIZABLE), OWN, false),
    (Way::Child(ZX_VMO_CHILD_SNAPSHOT), OWN.union(Rights::WRITE), true),
    (Way::Child(ZX_VMO_CHILD_SNAPSHOT | ZX_VMO_CHILD_RESIZABLE), OWN.union(Rights::WRITE).union(Rights::RESIZE), true),
    (Way::Child(ZX_VMO_CHILD_SNAPSHOT | ZX_VMO_CHILD_NO_WRITE), OWN, true),
    (Way::Child(ZX_VMO_CHILD_SNAPSHOT_AT_LEAST_ON_WRITE), OWN.union(Rights::WRITE), true),
    (Way::Child(ZX_VMO_CHILD_SNAPSHOT_MODIFIED), OWN.union(Rights::WRITE), true),
];

impl World {
    fn new() -> World {
        let mut kernel = Kernel::new(FakeMachine::new(500)).unwrap();
        let job = kernel.root_job().unwrap();
        let (process, root) = kernel.process_create(job, Name::new(b"rights")).unwrap();
        kernel.give(process, process.object(), Rights::all()).unwrap();
        let perm = Perm { read: true, write: true, execute: false };
        let words = kernel.vmo_create(PAGE, false).unwrap();
        let request = MapRequest { vmo: words, offset: 0, len: PAGE, perm, max: perm, fixed: false };
        kernel.vmar_map(root, Place::At(0), request).unwrap();
        let thread = kernel.thread_create(process, Name::new(b"t")).unwrap();
        kernel.process_begin(process, None).unwrap();
        kernel.thread_start(thread, &Registers::default()).unwrap();
        let vmo = kernel.vmo_create(SIZE, true).unwrap();
        kernel.give(process, vmo.object(), Rights::all()).unwrap();
        kernel.vmo_write(vmo, 0, &[1; 16]).unwrap();
        kernel.vmo_write(vmo, SIZE - 16, &[1; 16]).unwrap();
        let root = kernel.give(process, root.object(), Rights::all()).unwrap().into();
        World { server: Server { kernel }, process, thread, vmo, root }
    }

    fn call(&mut self, number: u32, words: &[u64]) -> Status {
        let mut all = [0; 8];
        all[..words.len()].copy_from_slice(words);
        let [a, b, c, d, extra @ ..] = all;
        let key = ThreadKey(self.thread.object().index());
        let machine = self.server.kernel.objects.get(self.thread).unwrap().machine().unwrap();
        self.server.kernel.machine.threads.get_mut(&machine.0).unwrap().extra = extra;
        let answer = self.server.call(key, number, &[a, b, c, d]);
        match self.server.settle_call(key, number, answer).0 {
            Answer::Done(result) => Status(result as i32),
            other => panic!("{other:?}"),
        }
    }

    fn store(&mut self, at: u64, bytes: &[u8]) {
        let aspace = self.server.kernel.objects.get(self.process).unwrap().aspace.unwrap();
        self.server.kernel.copy_out(aspace, at, bytes).unwrap();
    }

    fn told(&mut self, at: u64) -> u64 {
        let (aspace, mut bytes) = (self.server.kernel.objects.get(self.process).unwrap().aspace.unwrap(), [0; 8]);
        self.server.kernel.copy_in(aspace, at, &mut bytes).unwrap();
        u64::from_le_bytes(bytes)
    }

    fn handle(&mut self, object: ObjectId, rights: Rights) -> u64 {
        self.server.kernel.give(self.process, object, rights).unwrap().into()
    }

    fn rights(&self, handle: u64) -> Rights {
        self.server.kernel.handle(self.process, handle as u32).unwrap().rights
    }

    /// Makes a handle from another in a way, with all rights that this gives, or with the requested ones.
    fn make(&mut self, way: Way, handle: u64, asked: Option<Rights>) -> Result<u64, Status> {
        let rights = asked.map_or(ZX_RIGHT_SAME_RIGHTS, |asked| asked.bits());
        let status = match way {
            Way::Duplicate => self.call(nr::HANDLE_DUPLICATE, &[handle, rights.into(), OUT]),
            Way::Replace => self.call(nr::HANDLE_REPLACE, &[handle, rights.into(), OUT]),
            Way::Child(options) => {
                let size = if options & ZX_VMO_CHILD_REFERENCE != 0 { 0 } else { PAGE };
                self.call(nr::VMO_CREATE_CHILD, &[handle, options.into(), 0, size, OUT])
            }
            Way::Message(operation) => {
                assert_eq!(self.call(nr::CHANNEL_CREATE, &[0, OUT, OUT + 8]), Status::OK);
                let ends = [self.told(OUT) as u32, self.told(OUT + 8) as u32].map(u64::from);
                let item = zx_handle_disposition_t { operation, handle: handle as u32, rights, ..Default::default() };
                self.store(STRUCT, item.as_bytes());
                match self.call(nr::CHANNEL_WRITE_ETC, &[ends[0], 0, BYTES, 1, STRUCT, 1]) {
                    Status::OK => self.call(nr::CHANNEL_READ, &[ends[1], 0, BYTES, OUT, 8, 1, OUT + 16, OUT + 24]),
                    status => status,
                }
            }
        };
        if status == Status::OK { Ok(self.told(OUT) & u64::from(u32::MAX)) } else { Err(status) }
    }

    /// Tries everything that a program may do with a handle to read or change the object; returns the rights that it
    /// exercised.
    fn try_all(&mut self, handle: u64) -> Rights {
        let mut could = Rights::NONE;
        let mut note = |status: Status, right: Rights| could.set(right, could.contains(right) || status == Status::OK);
        self.store(BYTES, &[9; 16]);
        note(self.call(nr::VMO_READ, &[handle, BYTES + 64, 0, 16]), Rights::READ);
        note(self.call(nr::VMO_WRITE, &[handle, BYTES, 0, 16]), Rights::WRITE);
        note(self.call(nr::VMO_OP_RANGE, &[handle, ZX_VMO_OP_ZERO.into(), 0, PAGE, 0, 0]), Rights::WRITE);
        self.store(STRUCT, 5_u64.as_bytes());
        let property = [handle, ZX_PROP_VMO_CONTENT_SIZE.into(), STRUCT, 8];
        note(self.call(nr::OBJECT_SET_PROPERTY, &property), Rights::WRITE);
        let root = self.root;
        let perms = [
            (ZX_VM_PERM_READ, Rights::MAP),
            (ZX_VM_PERM_READ | ZX_VM_PERM_WRITE, Rights::WRITE),
            (ZX_VM_PERM_READ | ZX_VM_PERM_EXECUTE, Rights::EXECUTE),
        ];
        for (perm, right) in perms {
            note(self.call(nr::VMAR_MAP, &[root, perm.into(), 0, handle, 0, PAGE, OUT]), right);
        }
        // A handle that can only be mapped readable gives no more by changing the mapping.
        if self.call(nr::VMAR_MAP, &[root, ZX_VM_PERM_READ.into(), 0, handle, 0, PAGE, OUT]) == Status::OK {
            let at = self.told(OUT);
            for (perm, right) in &perms[1..] {
                note(self.call(nr::VMAR_PROTECT, &[root, (*perm).into(), at, PAGE]), *right);
            }
        }
        for (mode, right) in [(ZX_STREAM_MODE_READ, Rights::READ), (ZX_STREAM_MODE_WRITE, Rights::WRITE)] {
            note(self.call(nr::STREAM_CREATE, &[mode.into(), handle, 3 * SIZE, OUT]), right);
        }
        if self.call(nr::STREAM_CREATE, &[ZX_STREAM_MODE_WRITE.into(), handle, 3 * SIZE, OUT]) == Status::OK {
            let stream = self.told(OUT) & u64::from(u32::MAX);
            let vector = zx_iovec_t { buffer: BYTES as usize, capacity: 16 };
            self.store(STRUCT, vector.as_bytes());
            note(self.call(nr::STREAM_WRITEV, &[stream, 0, STRUCT, 1, OUT]), Rights::RESIZE);
        }
        note(self.call(nr::VMO_SET_SIZE, &[handle, 2 * SIZE]), Rights::RESIZE);
        note(self.call(nr::VMO_SET_SIZE, &[handle, 0]), Rights::RESIZE);
        could
    }

    /// Whether the original is unchanged: its bytes, and its size.
    fn kept(&mut self) -> (bool, bool) {
        let (size, content) = (self.server.kernel.vmo_size(self.vmo), self.server.kernel.vmo_content_size(self.vmo));
        let mut bytes = [[0; 16]; 2];
        let kernel = &mut self.server.kernel;
        let [first, last] = &mut bytes;
        let read = kernel.vmo_read(self.vmo, 0, first).and_then(|()| kernel.vmo_read(self.vmo, SIZE - 16, last));
        (read.is_ok() && bytes == [[1; 16]; 2] && content == Ok(SIZE), size == Ok(SIZE))
    }
}

fn each_right(all: Rights) -> impl Iterator<Item = Rights> {
    (0..32).map(|bit| Rights::from_bits_retain(1 << bit)).filter(move |&right| all.contains(right))
}

#[test]
fn derived_handles_to_memory_have_no_more_rights() {
    for missing in each_right(ALL) {
        for (first, adds, copies) in WAYS {
            for (second, more, copies_again) in WAYS {
                let case = format!("without {missing:?}: {first:?}, {second:?}");
                let mut world = World::new();
                let mut held = ALL.difference(missing);
                let mut handle = world.handle(world.vmo.object(), held);
                let (mut other_memory, mut added) = (false, Rights::NONE);
                for (way, adds, copies) in [(first, adds, copies), (second, more, copies_again)] {
                    if !matches!(way, Way::Child(_)) {
                        // Requesting more rights fails, and may cost the caller its handle.
                        let spare = world.handle(world.vmo.object(), held);
                        let asked = Some(held | missing);
                        assert!(held.contains(missing) || world.make(way, spare, asked).is_err(), "{case}");
                    }
                    let Ok(made) = world.make(way, handle, None) else { break };
                    other_memory |= copies;
                    (held, added) = (held | adds, added | adds);
                    let rights = world.rights(made);
                    assert!(held.contains(rights), "{case}: has {rights:?}");
                    assert!(added.contains(missing) || other_memory || !rights.contains(missing), "{case}");
                    (handle, held) = (made, rights);
                }
                let could = world.try_all(handle);
                let (bytes, size) = world.kept();
                if missing == Rights::WRITE || other_memory {
                    assert!(bytes, "{case}: its bytes have changed");
                }
                if missing == Rights::RESIZE || missing == Rights::WRITE || other_memory {
                    assert!(size, "{case}: its size has changed");
                }
                for right in [Rights::READ, Rights::WRITE, Rights::EXECUTE, Rights::MAP, Rights::RESIZE] {
                    assert!(held.contains(right) || !could.contains(right), "{case}: could do what {right:?} is for");
                }
                world.server.kernel.check_memory();
            }
        }
    }
}

#[test]
fn a_child_of_a_task_is_had_with_no_more_rights_than_the_task() {
    let all = abi::ZX_DEFAULT_JOB_RIGHTS | abi::ZX_DEFAULT_PROCESS_RIGHTS;
    for missing in each_right(all) {
        let mut world = World::new();
        let kernel = &mut world.server.kernel;
        let (job, koid) = (kernel.root_job().unwrap(), kernel.koid(world.process.object()));
        let held = all.difference(missing);
        let of_job = world.handle(job.object(), held);
        let mut get = |rights: u32| world.call(nr::OBJECT_GET_CHILD, &[of_job, koid, rights.into(), OUT]);
        if missing == Rights::ENUMERATE {
            assert_eq!(get(ZX_RIGHT_SAME_RIGHTS), Status::ACCESS_DENIED);
            continue;
        }
        assert_eq!(get((held | missing).bits()), Status::ACCESS_DENIED, "{missing:?}");
        assert_eq!(get(ZX_RIGHT_SAME_RIGHTS), Status::OK);
        let child = world.told(OUT) & u64::from(u32::MAX);
        assert_eq!(world.rights(child), held);
        // And a thread of that process.
        let koid = world.server.kernel.koid(world.thread.object());
        assert_eq!(
            world.call(nr::OBJECT_GET_CHILD, &[child, koid, (held | missing).bits().into(), OUT]),
            Status::ACCESS_DENIED
        );
        assert_eq!(world.call(nr::OBJECT_GET_CHILD, &[child, koid, ZX_RIGHT_SAME_RIGHTS.into(), OUT]), Status::OK);
        let thread = world.told(OUT) & u64::from(u32::MAX);
        assert_eq!(world.rights(thread), held);
    }
}

#[test]
fn a_region_within_a_region_allows_no_more_than_the_handle_to_that() {
    let can = [
        (Rights::READ, ZX_VM_CAN_MAP_READ, ZX_VM_PERM_READ),
        (Rights::WRITE, ZX_VM_CAN_MAP_WRITE, ZX_VM_PERM_READ | ZX_VM_PERM_WRITE),
        (Rights::EXECUTE, ZX_VM_CAN_MAP_EXECUTE, ZX_VM_PERM_READ | ZX_VM_PERM_EXECUTE),
    ];
    for (missing, option, perm) in can {
        let mut world = World::new();
        let root = world.server.kernel.objects.get(world.process).unwrap().root_vmar.unwrap();
        let rights = abi::ZX_DEFAULT_VMAR_RIGHTS | Rights::READ | Rights::WRITE | Rights::EXECUTE;
        let region = world.handle(root.object(), rights.difference(missing));
        let vmo = world.handle(world.vmo.object(), ALL);
        assert_eq!(
            world.call(nr::VMAR_ALLOCATE, &[region, option.into(), 0, 4 * PAGE, OUT, OUT + 8]),
            Status::ACCESS_DENIED
        );
        assert_eq!(world.call(nr::VMAR_MAP, &[region, perm.into(), 0, vmo, 0, PAGE, OUT]), Status::ACCESS_DENIED);
        let others = can.iter().filter(|(right, ..)| *right != missing).fold(0, |all, (_, option, _)| all | option);
        assert_eq!(world.call(nr::VMAR_ALLOCATE, &[region, others.into(), 0, 4 * PAGE, OUT, OUT + 8]), Status::OK);
        let child = world.told(OUT) & u64::from(u32::MAX);
        assert!(!world.rights(child).contains(missing));
        assert_eq!(world.call(nr::VMAR_MAP, &[child, perm.into(), 0, vmo, 0, PAGE, OUT]), Status::ACCESS_DENIED);
        assert_eq!(
            world.call(nr::VMAR_ALLOCATE, &[child, option.into(), 0, PAGE, OUT, OUT + 8]),
            Status::ACCESS_DENIED
        );
    }
}

#[test]
fn reading_the_log_takes_a_resource() {
    let mut world = World::new();
    let readable = u64::from(ZX_LOG_FLAG_READABLE);
    assert_eq!(world.call(nr::DEBUGLOG_CREATE, &[0, readable, OUT]), Status::BAD_HANDLE);
    let vmo = world.handle(world.vmo.object(), ALL);
    assert_eq!(world.call(nr::DEBUGLOG_CREATE, &[vmo, readable, OUT]), Status::WRONG_TYPE);
    // Without the resource a program gets a log that it can only write, and cannot derive one that it can read.
    assert_eq!(world.call(nr::DEBUGLOG_CREATE, &[0, 0, OUT]), Status::OK);
    let log = world.told(OUT) & u64::from(u32::MAX);
    assert!(!world.rights(log).contains(Rights::READ));
    for way in [Way::Duplicate, Way::Message(ZX_HANDLE_OP_DUPLICATE)] {
        let rights = world.rights(log) | Rights::READ;
        assert!(world.make(way, log, Some(rights)).is_err());
        let other = world.make(way, log, None).unwrap();
        assert_eq!(world.call(nr::DEBUGLOG_READ, &[other, 0, BYTES, 256]), Status::ACCESS_DENIED);
    }
}
