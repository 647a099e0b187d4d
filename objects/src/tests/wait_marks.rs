//! Marks that waits set on objects, handles and queues, and every way in which the waiting thread can go away:
//! afterwards no mark is left, each handle can be closed, and everything is destroyed.

use alloc::vec::Vec;

use abi::{Rights, Signals, Status, ZX_TIME_INFINITE};

use crate::containers::name::Name;
use crate::core::handle::{Handle, HandleValue};
use crate::core::object::ObjectId;
use crate::core::wait::{Observed, WaitItem, Waiting};
use crate::fake::FakeMachine;
use crate::machine::{PAGE, Perm, Registers};
use crate::memory::vmar::{MapRequest, Place};
use crate::task::job::Job;
use crate::task::process::Process;
use crate::task::suspend_token::SuspendedTask;
use crate::task::thread::Thread;
use crate::{Id, Kernel};

const RW: Perm = Perm { read: true, write: true, execute: false };

/// The kind of process whose thread sets the mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Whose {
    /// An ordinary process.
    Alone,
    /// The prototype of shared processes.
    Prototype,
    /// A member: its handles are in the prototype's table.
    Member,
}

/// The kind of wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mark {
    /// Alone for one object: as sole waiter.
    Sole,
    /// For one object that has another waiter already.
    Second,
    /// For two objects.
    Many,
    /// By a port packet for the object.
    Packet,
    /// On a port.
    Port,
    /// On a futex.
    Futex,
    /// Until a time.
    Sleep,
}

/// What ends the wait, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Signal,
    Deadline,
    /// The handle is closed.
    Close,
    /// The handle leaves its table in a message.
    Transfer,
    /// The thread exits or is killed.
    Thread,
    /// Its process ends.
    Process,
    /// The prototype ends.
    Prototype,
    /// Its job ends.
    Job,
    /// A debugger moves it elsewhere.
    Registers,
    /// It is suspended, and its process ends.
    SuspendedProcess,
    /// It is suspended, the object is signalled, and it is resumed.
    SuspendedSignal,
    /// The object's peer is closed.
    Peer,
}

const WHOSE: [Whose; 3] = [Whose::Alone, Whose::Prototype, Whose::Member];
const MARKS: [Mark; 7] = [Mark::Sole, Mark::Second, Mark::Many, Mark::Packet, Mark::Port, Mark::Futex, Mark::Sleep];
const WAYS: [Way; 12] = [
    Way::Signal,
    Way::Deadline,
    Way::Close,
    Way::Transfer,
    Way::Thread,
    Way::Process,
    Way::Prototype,
    Way::Job,
    Way::Registers,
    Way::SuspendedProcess,
    Way::SuspendedSignal,
    Way::Peer,
];

struct World {
    kernel: Kernel<FakeMachine>,
    empty: (usize, usize, usize),
    job: Id<Job>,
    /// The process whose table holds the handles, the waiting process, and the surviving ones.
    holder: Id<Process>,
    process: Id<Process>,
    held: Vec<Handle>,
    threads: [Id<Thread>; 2],
    /// Handles to the objects of the wait, and the objects.
    handles: [HandleValue; 3],
    objects: [ObjectId; 3],
    /// The peer of the first, held from outside.
    peer: Handle,
    word: u64,
}

impl World {
    fn new(whose: Whose) -> World {
        let mut kernel = Kernel::new(FakeMachine::new(1000)).unwrap();
        let empty = kernel.census();
        let root_job = kernel.root_job().unwrap();
        let job = kernel.job_create(root_job).unwrap();
        let (holder, process, root) = match whose {
            Whose::Alone => {
                let (process, root) = kernel.process_create(job, Name::new(b"alone")).unwrap();
                (process, process, root)
            }
            Whose::Prototype => {
                let (process, root) = kernel.process_create_prototype(job, Name::new(b"first")).unwrap();
                (process, process, root)
            }
            Whose::Member => {
                let (first, root) = kernel.process_create_prototype(job, Name::new(b"first")).unwrap();
                let (member, _) = kernel.process_create_shared(first, Name::new(b"member")).unwrap();
                (first, member, root)
            }
        };
        let mut held: Vec<_> = [job.object(), holder.object(), process.object()]
            .map(|object| kernel.dup_handle(Handle { object, rights: Rights::NONE }))
            .into();
        let vmo = kernel.vmo_create(PAGE, false).unwrap();
        let request = MapRequest { vmo, offset: 0, len: PAGE, perm: RW, max: RW, fixed: false };
        let word = kernel.vmar_map(root, Place::At(0), request).unwrap();
        kernel.process_begin(holder, None).unwrap();
        let threads = [process, holder].map(|process| {
            let thread = kernel.thread_create(process, Name::new(b"t")).unwrap();
            kernel.thread_start(thread, &Registers::default()).unwrap();
            held.push(kernel.dup_handle(Handle { object: thread.object(), rights: Rights::NONE }));
            thread
        });
        let (near, far) = kernel.eventpair_create().unwrap();
        let peer = kernel.dup_handle(Handle { object: far.object(), rights: Rights::NONE });
        let other = kernel.event_create().unwrap().object();
        let port = kernel.port_create(false).unwrap().object();
        let objects = [near.object(), other, port];
        let handles = objects.map(|object| kernel.give(holder, object, Rights::all()).unwrap());
        World { kernel, empty, job, holder, process, held, threads, handles, objects, peer, word }
    }

    fn item(&self, which: usize) -> WaitItem {
        WaitItem { object: self.objects[which], handle: self.handles[which], signals: Signals::USER_0 }
    }

    /// The thread waits, until the deadline.
    fn wait(&mut self, mark: Mark, deadline: i64) {
        let [thread, other] = self.threads;
        let blocked = match mark {
            Mark::Sole => self.kernel.wait(thread, &[self.item(0)], deadline, Observed::One(self.word)),
            Mark::Second => {
                self.kernel.wait(other, &[self.item(0)], ZX_TIME_INFINITE, Observed::Nowhere).unwrap();
                self.kernel.wait(thread, &[self.item(0)], deadline, Observed::One(self.word))
            }
            Mark::Many => self.kernel.wait(thread, &[self.item(1), self.item(0)], deadline, Observed::Many(self.word)),
            Mark::Packet => {
                let (port, item) = (Id::new(self.objects[2]), self.item(0));
                assert_eq!(self.kernel.wait_async(self.holder, item, port, 7, 0), Ok(false));
                self.kernel.sleep(thread, deadline)
            }
            Mark::Port => {
                let port = Id::new(self.objects[2]);
                self.kernel.port_wait(port, thread, deadline, self.word).map(|packet| {
                    assert_eq!(packet, None);
                    Waiting::Blocked
                })
            }
            Mark::Futex => self.kernel.futex_wait(thread, self.word, 0, None, deadline),
            Mark::Sleep => self.kernel.sleep(thread, deadline),
        };
        assert_eq!(blocked, Ok(Waiting::Blocked), "{mark:?}");
    }

    fn signal(&mut self) {
        self.kernel.signal(self.objects[0], Signals::NONE, Signals::USER_0);
    }

    fn close(&mut self, which: usize) -> Result<Handle, Status> {
        self.kernel.take(self.holder, self.handles[which])
    }

    fn go(&mut self, way: Way) {
        let thread = self.threads[0];
        match way {
            Way::Signal => self.signal(),
            Way::Deadline => {
                self.kernel.machine.time = 2_000_000;
                self.kernel.expire();
            }
            Way::Close => {
                for which in [0, 2] {
                    let handle = self.close(which).unwrap();
                    self.kernel.close(handle);
                }
            }
            Way::Transfer => {
                let handle = self.close(0).unwrap();
                self.held.push(handle);
            }
            Way::Thread => self.kernel.thread_kill(thread),
            Way::Process => self.kernel.process_kill(self.process, 1),
            Way::Prototype => self.kernel.process_kill(self.holder, 1),
            Way::Job => self.kernel.job_kill(self.job, 1),
            Way::Registers => {
                let token = self.kernel.task_suspend(SuspendedTask::Thread(thread)).unwrap();
                self.held.push(self.kernel.dup_handle(Handle { object: token.object(), rights: Rights::NONE }));
                let elsewhere = Registers { rip: 0x7000, ..Registers::default() };
                self.kernel.thread_set_registers(thread, &elsewhere).unwrap();
            }
            Way::SuspendedProcess => {
                let token = self.kernel.task_suspend(SuspendedTask::Thread(thread)).unwrap();
                self.held.push(self.kernel.dup_handle(Handle { object: token.object(), rights: Rights::NONE }));
                self.kernel.process_kill(self.process, 1);
            }
            Way::SuspendedSignal => {
                let token = self.kernel.task_suspend(SuspendedTask::Thread(thread)).unwrap();
                self.signal();
                let token = self.kernel.dup_handle(Handle { object: token.object(), rights: Rights::NONE });
                self.kernel.close(token);
            }
            Way::Peer => self.kernel.close(self.peer),
        }
    }

    /// Runs the reaper until it has finished, with a limited number of slices.
    fn settle(&mut self) {
        self.kernel.machine.pace = 1000;
        self.kernel.reap();
        for _ in 0..1000 {
            if !self.kernel.reaper_slice() {
                break;
            }
        }
        assert!(!self.kernel.reaper_has_work(), "something never ends");
        self.kernel.machine.pace = 0;
        self.kernel.check_memory();
    }
}

#[test]
fn no_wait_mark_outlives_its_thread() {
    for whose in WHOSE {
        for mark in MARKS {
            for way in WAYS {
                let case = (whose, mark, way);
                std::println!("{case:?}");
                let mut world = World::new(whose);
                world.wait(mark, if way == Way::Deadline { 1_000_000 } else { ZX_TIME_INFINITE });
                world.kernel.check_memory();
                world.go(way);
                world.settle();
                // A process that still has a handle closes it now.
                for which in 0..3 {
                    if let Ok(handle) = world.close(which) {
                        world.kernel.close(handle);
                    }
                    assert_eq!(world.close(which), Err(Status::BAD_HANDLE), "{case:?}");
                }
                world.settle();
                world.kernel.job_kill(world.job, 0);
                if way != Way::Peer {
                    world.kernel.close(world.peer);
                }
                for handle in core::mem::take(&mut world.held) {
                    world.kernel.close(handle);
                }
                world.settle();
                assert_eq!(world.kernel.census(), world.empty, "{case:?}");
            }
        }
    }
}
