//! As `interleaved_calls.rs`, but for waiting threads, lists of them, and destruction: calls that wake, move, cancel, list, close
//! and kill in slices, with other calls between any two slices.

use std::collections::BTreeSet;

use abi::{
    Rights, Signals, ZX_INFO_HANDLE_TABLE, ZX_INFO_JOB_PROCESSES, ZX_INFO_PROCESS_THREADS, ZX_TIME_INFINITE, nr,
};
use objects::containers::name::Name;
use objects::core::handle::Handle;
use objects::core::object::ObjectId;
use objects::fake::FakeMachine;
use objects::ipc::channel::Message;
use objects::machine::{PAGE, Perm, Registers, ThreadKey, USER_BASE};
use objects::memory::vmar::{MapRequest, Place};
use objects::task::job::Job;
use objects::task::process::Process;
use objects::task::thread::Thread;
use objects::{Id, Kernel};
use server::{Answer, Server};

/// Threads that wait in each way; more than are notified at once.
const CROWD: usize = 100;
/// Handles in a channel, and waits at a port.
const MANY: usize = 60;
/// A call with more slices is assumed never to end.
const MOST: usize = 2000;
/// Addresses of the futexes' words, and of the calls' results.
const WORD: u64 = USER_BASE;
const OTHER: u64 = USER_BASE + 64;
const OUT: u64 = USER_BASE + 512;

type Words = (u32, [u64; 8]);
type Step = fn(&mut World) -> Words;
type Event = fn(&mut World);

/// A process with two threads that make calls, and three groups of waiting threads: for a signal, at a futex, and
/// through a handle.
struct World {
    server: Server<FakeMachine>,
    job: Id<Job>,
    held: Vec<Handle>,
    process: Id<Process>,
    threads: [Id<Thread>; 2],
    crowd: Vec<Id<Thread>>,
    /// Handles: the event for which the first group waits, another handle to it through which the third group waits, a
    /// channel's ends, a port, the second process, its job.
    event: u64,
    through: u64,
    ends: [u64; 2],
    port: u64,
    second: u64,
    of_job: u64,
    array: Vec<u64>,
    empty: (usize, usize, usize),
}

impl World {
    fn new() -> World {
        let mut kernel = Kernel::new(FakeMachine::new(4000)).unwrap();
        let root_job = kernel.root_job().unwrap();
        kernel.reap();
        let empty = kernel.census();
        let job = kernel.job_create(root_job).unwrap();
        let mut held = vec![kernel.dup_handle(Handle { object: job.object(), rights: Rights::NONE })];
        let (process, root) = kernel.process_create(job, Name::new(b"test")).unwrap();
        let (second, _) = kernel.process_create(job, Name::new(b"second")).unwrap();
        for object in [process.object(), second.object()] {
            held.push(kernel.dup_handle(Handle { object, rights: Rights::NONE }));
        }
        let perm = Perm { read: true, write: true, execute: false };
        let words = kernel.vmo_create(4 * PAGE, false).unwrap();
        let request = MapRequest { vmo: words, offset: 0, len: 4 * PAGE, perm, max: perm, fixed: false };
        kernel.vmar_map(root, Place::At(0), request).unwrap();
        for process in [process, second] {
            kernel.process_begin(process, None).unwrap();
        }
        let start = |kernel: &mut Kernel<FakeMachine>, held: &mut Vec<Handle>, process| {
            let thread = kernel.thread_create(process, Name::new(b"t")).unwrap();
            held.push(kernel.dup_handle(Handle { object: thread.object(), rights: Rights::NONE }));
            kernel.thread_start(thread, &Registers::default()).unwrap();
            thread
        };
        let threads = [start(&mut kernel, &mut held, process), start(&mut kernel, &mut held, process)];
        // The third group waits in the second process and is alone there.
        let crowd: Vec<_> = (0..3 * CROWD)
            .map(|number| start(&mut kernel, &mut held, if number < 2 * CROWD { process } else { second }))
            .collect();
        let give = |kernel: &mut Kernel<FakeMachine>, object: ObjectId| -> u64 {
            kernel.give(process, object, Rights::all()).unwrap().into()
        };
        let event = kernel.event_create().unwrap();
        let (of_event, through) = (give(&mut kernel, event.object()), give(&mut kernel, event.object()));
        let in_second: u64 = kernel.give(second, event.object(), Rights::all()).unwrap().into();
        let (near, far) = kernel.channel_create().unwrap();
        let mut message = Message { data: Vec::new(), handles: Vec::new() };
        for _ in 0..MANY {
            let (sent, kept) = kernel.eventpair_create().unwrap();
            message.handles.push(kernel.dup_handle(Handle { object: sent.object(), rights: Rights::NONE }));
            give(&mut kernel, kept.object());
        }
        let ends = [near.object(), far.object()].map(|end| give(&mut kernel, end));
        kernel.channel_write(near, message).unwrap();
        let port = kernel.port_create(false).unwrap();
        let of_port = give(&mut kernel, port.object());
        let array: Vec<_> = (0..MANY)
            .map(|_| {
                let event = kernel.event_create().unwrap();
                give(&mut kernel, event.object())
            })
            .collect();
        let (of_second, of_job) = (give(&mut kernel, second.object()), give(&mut kernel, job.object()));
        let aspace = kernel.objects.get(process).unwrap().aspace.unwrap();
        let bytes: Vec<u8> = array.iter().flat_map(|&value| (value as u32).to_le_bytes()).collect();
        kernel.copy_out(aspace, USER_BASE + PAGE, &bytes).unwrap();
        let mut world = World {
            server: Server { kernel },
            job,
            held,
            process,
            threads,
            crowd,
            event: of_event,
            through,
            ends,
            port: of_port,
            second: of_second,
            of_job,
            array,
            empty,
        };
        let signal = u64::from(Signals::USER_0.bits());
        let forever = ZX_TIME_INFINITE as u64;
        for number in 0..CROWD {
            let wait = [world.through, signal, forever, 0, 0, 0, 0, 0];
            assert_eq!(world.call(world.crowd[number], (nr::OBJECT_WAIT_ONE, wait)), Answer::Blocked);
            let futex = [WORD, 0, 0, forever, 0, 0, 0, 0];
            assert_eq!(world.call(world.crowd[CROWD + number], (nr::FUTEX_WAIT, futex)), Answer::Blocked);
            let other = [in_second, signal, forever, 0, 0, 0, 0, 0];
            assert_eq!(world.call(world.crowd[2 * CROWD + number], (nr::OBJECT_WAIT_ONE, other)), Answer::Blocked);
            let bound = [world.event, world.port, 7, signal, 0, 0, 0, 0];
            assert_eq!(world.call(world.threads[0], (nr::OBJECT_WAIT_ASYNC, bound)), Answer::Done(0));
        }
        world.server.kernel.machine.pace = 200_000;
        world
    }

    fn call(&mut self, thread: Id<Thread>, (number, words): Words) -> Answer {
        let key = ThreadKey(thread.object().index());
        let Ok(Some(machine)) = self.server.kernel.objects.get(thread).map(Thread::machine) else {
            return Answer::Nothing;
        };
        let [a, b, c, d, extra @ ..] = words;
        self.server.kernel.machine.threads.get_mut(&machine.0).unwrap().extra = extra;
        let answer = self.server.call(key, number, &[a, b, c, d]);
        self.server.settle_call(key, number, answer).0
    }

    fn whole(&mut self, thread: usize, words: Words) -> (Answer, usize) {
        for slices in 1..MOST {
            match self.call(self.threads[thread], words) {
                Answer::Blocked => {}
                over => return (over, slices),
            }
        }
        panic!("a call never ends");
    }

    /// The state of each thread in the crowd: its wait, and the result of its last wait; or that it is gone.
    fn look(&self) -> Vec<(u32, i64)> {
        let kernel = &self.server.kernel;
        let one = |&thread: &Id<Thread>| {
            let Ok(found) = kernel.objects.get(thread) else { return (0, 0) };
            let woken = found.machine().and_then(|machine| kernel.machine.threads[&machine.0].woken.last().copied());
            (found.info_state(), woken.unwrap_or(1))
        };
        self.crowd.iter().map(one).collect()
    }

    /// No thread was notified twice: each one in the crowd waited once.
    fn check(&self) {
        self.server.kernel.check_memory();
        for &thread in &self.crowd {
            let machine = self.server.kernel.objects.get(thread).ok().and_then(|thread| thread.machine());
            let woken = machine.map_or(0, |machine| self.server.kernel.machine.threads[&machine.0].woken.len());
            assert!(woken <= 1, "one is told {woken} times");
        }
    }

    fn end(mut self) {
        let kernel = &mut self.server.kernel;
        kernel.machine.pace = 0;
        kernel.job_kill(self.job, 0);
        self.held.drain(..).for_each(|handle| kernel.close(handle));
        kernel.reap();
        while kernel.reaper_slice() {}
        kernel.check_memory();
        assert_eq!(kernel.census(), self.empty);
    }
}

fn info(handle: u64, topic: u32) -> Words {
    (nr::OBJECT_GET_INFO, [handle, topic.into(), USER_BASE + 2 * PAGE, 2 * PAGE, OUT, OUT + 8, 0, 0])
}

/// The long calls.
const LONG: &[(&str, Step)] = &[
    ("signal", |w| (nr::OBJECT_SIGNAL, [w.event, 0, Signals::USER_0.bits().into(), 0, 0, 0, 0, 0])),
    ("close what they wait through", |w| (nr::HANDLE_CLOSE, [w.through, 0, 0, 0, 0, 0, 0, 0])),
    ("wake", |_| (nr::FUTEX_WAKE, [WORD, CROWD as u64 - 10, 0, 0, 0, 0, 0, 0])),
    ("requeue", |_| (nr::FUTEX_REQUEUE, [WORD, 5, 0, OTHER, CROWD as u64, 0, 0, 0])),
    ("cancel by key", |w| (nr::PORT_CANCEL_KEY, [w.port, 0, 7, 0, 0, 0, 0, 0])),
    ("cancel", |w| (nr::PORT_CANCEL, [w.port, w.event, 7, 0, 0, 0, 0, 0])),
    ("close the port", |w| (nr::HANDLE_CLOSE, [w.port, 0, 0, 0, 0, 0, 0, 0])),
    ("close a full channel", |w| (nr::HANDLE_CLOSE, [w.ends[1], 0, 0, 0, 0, 0, 0, 0])),
    ("close many", |_| (nr::HANDLE_CLOSE_MANY, [USER_BASE + PAGE, MANY as u64, 0, 0, 0, 0, 0, 0])),
    ("kill the second process", |w| (nr::TASK_KILL, [w.second, 0, 0, 0, 0, 0, 0, 0])),
    ("list threads", |w| info(w.second, ZX_INFO_PROCESS_THREADS)),
    ("list processes", |w| info(w.of_job, ZX_INFO_JOB_PROCESSES)),
    ("list handles", |w| info(w.second, ZX_INFO_HANDLE_TABLE)),
];

/// The other thread makes a call.
fn once(world: &mut World, words: Words) {
    world.whole(1, words);
}

/// Other events.
const EVENTS: &[(&str, Event)] = &[
    ("wake one", |w| once(w, (nr::FUTEX_WAKE, [WORD, 1, 0, 0, 0, 0, 0, 0]))),
    ("wake one of the other", |w| once(w, (nr::FUTEX_WAKE, [OTHER, 1, 0, 0, 0, 0, 0, 0]))),
    ("move them back", |w| once(w, (nr::FUTEX_REQUEUE, [OTHER, 0, 0, WORD, 50, 0, 0, 0]))),
    ("end some of each", |w| {
        for number in [3, CROWD - 1, CROWD + 3, 2 * CROWD - 1, 2 * CROWD + 3, 3 * CROWD - 1] {
            w.server.kernel.thread_kill(w.crowd[number]);
        }
        w.server.settle();
    }),
    ("send some elsewhere", |w| {
        for number in [5, CROWD + 5, 2 * CROWD + 5] {
            let kernel = &mut w.server.kernel;
            let Ok(token) = kernel.task_suspend(objects::task::suspend_token::SuspendedTask::Thread(w.crowd[number]))
            else {
                continue;
            };
            let handle = kernel.dup_handle(Handle { object: token.object(), rights: Rights::NONE });
            let elsewhere = Registers { rip: 0x7000, ..Registers::default() };
            let _ = kernel.thread_set_registers(w.crowd[number], &elsewhere);
            kernel.close(handle);
        }
        w.server.settle();
    }),
    ("close the event", |w| once(w, (nr::HANDLE_CLOSE, [w.event, 0, 0, 0, 0, 0, 0, 0]))),
    ("close the other end", |w| once(w, (nr::HANDLE_CLOSE, [w.ends[0], 0, 0, 0, 0, 0, 0, 0]))),
    ("close some of many", |w| {
        for number in [0, MANY / 2, MANY - 1] {
            w.whole(1, (nr::HANDLE_CLOSE, [w.array[number], 0, 0, 0, 0, 0, 0, 0]));
        }
    }),
    ("end the thread that calls", |w| {
        w.server.kernel.thread_kill(w.threads[0]);
        w.server.settle();
    }),
    ("end all", |w| {
        w.server.kernel.process_kill(w.process, 0);
        w.server.settle();
    }),
];

#[test]
fn each_waiter_is_notified_once_by_one_notifier() {
    let (mut tried, mut sliced) = (0, 0);
    for &(name, long) in LONG {
        let slices = {
            let mut world = World::new();
            let words = long(&mut world);
            let slices = world.whole(0, words).1;
            world.check();
            world.end();
            slices
        };
        sliced += usize::from(slices > 1);
        type Happens = Box<dyn Fn(&mut World)>;
        let others = LONG.iter().map(|&(name, step)| {
            let event: Happens = Box::new(move |world: &mut World| {
                let words = step(world);
                world.whole(1, words);
            });
            (name, event)
        });
        let events = EVENTS.iter().map(|&(name, event)| (name, Box::new(event) as Happens)).chain(others);
        for (other, event) in events {
            let order = |first: bool, reversed: bool| {
                let mut world = World::new();
                let words = long(&mut world);
                if first && !reversed {
                    world.whole(0, words);
                }
                event(&mut world);
                if first && reversed {
                    world.whole(0, words);
                }
                let seen = world.look();
                world.end();
                seen
            };
            if slices < 2 {
                continue;
            }
            let serial = [order(true, false), order(true, true), order(false, false)];
            for at in 1..slices.min(8) {
                tried += 1;
                let mut world = World::new();
                let words = long(&mut world);
                for _ in 0..at {
                    assert_eq!(world.call(world.threads[0], words), Answer::Blocked, "{name}");
                }
                event(&mut world);
                world.check();
                let (result, _) = world.whole(0, words);
                world.check();
                let (seen, over) = (world.look(), result == Answer::Done(0));
                for (number, how) in seen.iter().enumerate() {
                    // Which thread is notified first depends on the order of the waits; each gets a result that some
                    // thread of its group gets in a reference world.
                    let alike = number / CROWD * CROWD..(number / CROWD + 1) * CROWD;
                    let allowed = serial.iter().take(if over { 2 } else { 3 });
                    let allowed: BTreeSet<_> = allowed.flat_map(|world| world[alike.clone()].iter()).collect();
                    assert!(
                        allowed.contains(how),
                        "{name}, with {other} after slice {at}: {number} is {how:?}, not one of {allowed:?}"
                    );
                }
                world.end();
            }
        }
    }
    assert!(sliced > 6, "{sliced} calls are made in slices");
    println!("{tried} pairs");
}
