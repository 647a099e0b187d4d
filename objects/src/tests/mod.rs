//! Interactions between objects: waits and their ends, messages that carry objects, and destruction.

use abi::{Rights, Signals, Status, ZX_DEFAULT_CHANNEL_RIGHTS, ZX_TIME_INFINITE};
use alloc::vec::Vec;
use proptest::prelude::*;
use std::vec;

use crate::Id;
use crate::Kernel;
use crate::containers::name::Name;
use crate::containers::slab::Key;
use crate::core::handle::{Handle, HandleValue};
use crate::core::noun::Noun;
use crate::core::object::ObjectId;
use crate::core::wait::{Observed, WaitItem, Waiting};
use crate::fake::FakeMachine;
use crate::ipc::channel::{CallBuffers, Channel, Message};
use crate::machine::{PAGE, Perm, Registers, USER_BASE};
use crate::memory::vmar::{MapRequest, Place, Vmar};
use crate::task::futex::{NewOwner, Requeue, RequeueProgress};
use crate::task::process::Process;
use crate::task::thread::Thread;

mod bounded_calls;
mod datagrams;
mod exception;
mod many_waiters;
mod model;
pub(crate) mod new_noun;
mod out_of_memory;
mod wait_marks;

const RW: Perm = Perm { read: true, write: true, execute: false };

/// A kernel with this many frames and one process, whose object has a handle; with its root VMAR and address space.
pub fn one_process(frames: usize) -> (Kernel<FakeMachine>, Id<Process>, Id<Vmar>, Key) {
    let mut kernel = Kernel::new(FakeMachine::new(frames)).unwrap();
    let job = kernel.root_job().unwrap();
    let (process, root) = kernel.process_create(job, Name::new(b"p")).unwrap();
    kernel.add_handle(process.object());
    let aspace = kernel.objects.get(process).unwrap().aspace.unwrap();
    (kernel, process, root, aspace)
}

/// A process with some threads and a page of memory at [`USER_BASE`].
struct World {
    kernel: Kernel<FakeMachine>,
    process: Id<Process>,
    aspace: Key,
    threads: Vec<Id<Thread>>,
}

impl World {
    fn new(threads: usize) -> World {
        let mut kernel = Kernel::new(FakeMachine::new(1000)).unwrap();
        let job = kernel.root_job().unwrap();
        let (process, root) = kernel.process_create(job, Name::new(b"test")).unwrap();
        let vmo = kernel.vmo_create(PAGE, false).unwrap();
        let request = MapRequest { vmo, offset: 0, len: PAGE, perm: RW, max: RW, fixed: false };
        kernel.vmar_map(root, Place::At(0), request).unwrap();
        kernel.process_begin(process, None).unwrap();
        let aspace = kernel.objects.get(process).unwrap().aspace.unwrap();
        let mut world = World { kernel, process, aspace, threads: Vec::new() };
        for n in 0..threads {
            let thread = world.kernel.thread_create(process, Name::new(&[b'a' + n as u8])).unwrap();
            world.kernel.thread_start(thread, &Registers::default()).unwrap();
            world.threads.push(thread);
        }
        world
    }

    fn give<T: Noun>(&mut self, id: Id<T>) -> HandleValue {
        self.kernel.give_new(self.process, id, Rights::all()).unwrap()
    }

    fn close(&mut self, value: HandleValue) {
        let handle = self.kernel.take(self.process, value).unwrap();
        self.kernel.close(handle);
        self.kernel.reap();
    }

    /// Waits with the `n`th thread for signals of an object; observed signals go to the `n`th word of memory.
    fn wait(&mut self, n: usize, value: HandleValue, signals: Signals, deadline: i64) -> Waiting {
        let object = self.kernel.handle(self.process, value).unwrap().object;
        let item = WaitItem { object, handle: value, signals };
        let out = Observed::One(USER_BASE + n as u64 * 4);
        self.kernel.wait(self.threads[n], &[item], deadline, out).unwrap()
    }

    fn word(&mut self, n: usize) -> u32 {
        let mut word = [0; 4];
        self.kernel.copy_in(self.aspace, USER_BASE + n as u64 * 4, &mut word).unwrap();
        u32::from_le_bytes(word)
    }

    fn set_word(&mut self, n: usize, value: u32) {
        self.kernel.copy_out(self.aspace, USER_BASE + n as u64 * 4, &value.to_le_bytes()).unwrap();
    }

    /// Results of the `n`th thread's blocked calls that have ended.
    fn woken(&self, n: usize) -> Vec<Status> {
        let machine = self.kernel.objects.get(self.threads[n]).unwrap().machine().unwrap();
        let thread = &self.kernel.machine.threads[&machine.0];
        thread.woken.iter().map(|&status| Status(status as i32)).collect()
    }

    fn pass(&mut self, time: i64) {
        self.kernel.machine.time += time;
        self.kernel.expire();
        self.kernel.reap();
    }
}

#[test]
fn a_signal_ends_a_wait_and_is_observed() {
    let mut w = World::new(2);
    let event = w.kernel.event_create().unwrap();
    let value = w.give(event);
    assert_eq!(w.wait(0, value, Signals::EVENT_SIGNALED, ZX_TIME_INFINITE), Waiting::Blocked);
    assert_eq!(w.wait(1, value, Signals::USER_0, ZX_TIME_INFINITE), Waiting::Blocked);
    w.kernel.signal(event.object(), Signals::NONE, Signals::EVENT_SIGNALED);
    assert_eq!(w.woken(0), [Status::OK]);
    assert_eq!(w.word(0), Signals::EVENT_SIGNALED.bits());
    assert!(w.woken(1).is_empty());
    // A second signal wakes no thread twice.
    w.kernel.signal(event.object(), Signals::EVENT_SIGNALED, Signals::USER_0);
    assert_eq!(w.woken(0).len(), 1);
    assert_eq!(w.woken(1), [Status::OK]);
    assert_eq!(w.kernel.census().1, 0);
}

#[test]
fn a_wait_ends_at_its_deadline_and_not_before() {
    let mut w = World::new(1);
    let event = w.kernel.event_create().unwrap();
    let value = w.give(event);
    assert_eq!(w.wait(0, value, Signals::EVENT_SIGNALED, 0), Waiting::Over(Status::TIMED_OUT));
    assert_eq!(w.wait(0, value, Signals::EVENT_SIGNALED, 100), Waiting::Blocked);
    assert!(w.kernel.machine.deadlines.contains(&100));
    w.pass(99);
    assert!(w.woken(0).is_empty());
    w.pass(1);
    assert_eq!(w.woken(0), [Status::TIMED_OUT]);
    assert_eq!(w.kernel.census().1, 0);
}

#[test]
fn closing_the_handle_cancels_the_wait_through_it_only() {
    let mut w = World::new(2);
    let event = w.kernel.event_create().unwrap();
    let first = w.give(event);
    let second = w.give(event);
    w.wait(0, first, Signals::EVENT_SIGNALED, 1000);
    w.wait(1, second, Signals::EVENT_SIGNALED, ZX_TIME_INFINITE);
    w.close(first);
    assert_eq!(w.woken(0), [Status::CANCELED]);
    assert_eq!(w.word(0), Signals::HANDLE_CLOSED.bits());
    assert!(w.woken(1).is_empty());
    w.pass(2000);
    assert_eq!(w.woken(0).len(), 1);
}

#[test]
fn a_wait_on_many_ends_once() {
    let mut w = World::new(1);
    let events: Vec<_> = (0..3).map(|_| w.kernel.event_create().unwrap()).collect();
    let items: Vec<_> = events
        .iter()
        .map(|&event| WaitItem { object: event.object(), handle: w.give(event), signals: Signals::USER_1 })
        .collect();
    let waiting = w.kernel.wait(w.threads[0], &items, ZX_TIME_INFINITE, Observed::Many(USER_BASE)).unwrap();
    assert_eq!(waiting, Waiting::Blocked);
    w.kernel.signal(events[1].object(), Signals::NONE, Signals::USER_1);
    w.kernel.signal(events[2].object(), Signals::NONE, Signals::USER_1);
    assert_eq!(w.woken(0), [Status::OK]);
    assert_eq!([w.word(2), w.word(5), w.word(8)], [0, Signals::USER_1.bits(), 0]);
    assert_eq!(w.kernel.census().1, 0);
}

#[test]
fn messages_survive_their_writer() {
    let mut w = World::new(0);
    let (a, b) = w.kernel.channel_create().unwrap();
    let (ours, theirs) = (w.give(a), w.give(b));
    let event = w.kernel.event_create().unwrap();
    let handle = w.kernel.dup_handle(Handle { object: event.object(), rights: Rights::WAIT });
    w.kernel.channel_write(a, Message { data: vec![1, 2, 3], handles: vec![handle] }).unwrap();
    w.close(ours);
    assert!(w.kernel.signals(b.object()).contains(Signals::CHANNEL_READABLE | Signals::CHANNEL_PEER_CLOSED));
    let message = w.kernel.channel_read(b).unwrap();
    assert_eq!((message.data, message.handles.len()), (vec![1, 2, 3], 1));
    assert_eq!(w.kernel.channel_read(b).err(), Some(Status::PEER_CLOSED));
    w.kernel.close(message.handles[0]);
    w.close(theirs);
    assert!(w.kernel.objects.any(event.object()).is_err());
}

#[test]
fn a_cycle_of_channels_is_refused_and_freed() {
    let mut w = World::new(0);
    let before = w.kernel.census();
    for length in [1, 2, 5] {
        // The peer of each end is sent through the next pair, and the last one through the first.
        let pairs: Vec<_> = (0..length).map(|_| w.kernel.channel_create().unwrap()).collect();
        let mut hold =
            |id: Id<Channel>| w.kernel.dup_handle(Handle { object: id.object(), rights: ZX_DEFAULT_CHANNEL_RIGHTS });
        let handles: Vec<_> = pairs.iter().map(|&(near, far)| (hold(near), hold(far))).collect();
        for (n, &(_, far)) in handles.iter().enumerate() {
            let through = pairs[(n + 1) % length].0;
            let message = Message { data: Vec::new(), handles: Vec::from([far]) };
            let expected = if n + 1 < length { Ok(()) } else { Err(Status::NOT_SUPPORTED) };
            assert_eq!(w.kernel.channel_write(through, message), expected);
        }
        handles.into_iter().for_each(|(near, _)| w.kernel.close(near));
        w.kernel.reap();
        assert_eq!(w.kernel.census(), before, "a circle of {length}");
    }
}

#[test]
fn a_long_chain_of_channels_in_channels_ends_in_constant_stack() {
    let mut w = World::new(0);
    let before = w.kernel.census();
    let rights = ZX_DEFAULT_CHANNEL_RIGHTS;
    let mut inner: Option<Handle> = None;
    for _ in 0..100_000 {
        let (a, b) = w.kernel.channel_create().unwrap();
        let (keep, drop) = (Handle { object: b.object(), rights }, Handle { object: a.object(), rights });
        let drop = w.kernel.dup_handle(drop);
        let keep = w.kernel.dup_handle(keep);
        w.kernel.channel_write(a, Message { data: Vec::new(), handles: inner.into_iter().collect() }).unwrap();
        w.kernel.close(drop);
        w.kernel.reap();
        inner = Some(keep);
    }
    w.kernel.close(inner.unwrap());
    w.kernel.reap();
    assert_eq!(w.kernel.census(), before);
}

fn buffers() -> CallBuffers {
    CallBuffers {
        bytes: USER_BASE + 64,
        num_bytes: 16,
        handles: USER_BASE + 128,
        num_handles: 2,
        etc: false,
        actual_bytes: USER_BASE,
        actual_handles: USER_BASE + 4,
    }
}

#[test]
fn a_call_gets_the_answer_with_its_number() {
    let mut w = World::new(1);
    let (a, b) = w.kernel.channel_create().unwrap();
    let (_ours, theirs) = (w.give(a), w.give(b));
    let request = Message { data: vec![0, 0, 0, 0, 9], handles: Vec::new() };
    let waiting = w.kernel.channel_call(a, w.threads[0], request, ZX_TIME_INFINITE, buffers()).unwrap();
    assert_eq!(waiting, Waiting::Blocked);
    let mut seen = w.kernel.channel_read(b).unwrap().data;
    assert_eq!(seen[4], 9);
    // Another message enters the queue, the answer goes to the caller.
    w.kernel.channel_write(b, Message { data: vec![1, 2, 3, 4], handles: Vec::new() }).unwrap();
    seen[4] = 10;
    w.kernel.channel_write(b, Message { data: seen.clone(), handles: Vec::new() }).unwrap();
    assert_eq!(w.woken(0), [Status::OK]);
    assert_eq!((w.word(0), w.word(1)), (5, 0));
    assert_eq!(w.word(17) & 0xff, 10);
    // The number is used up: a second answer is an ordinary message.
    w.kernel.channel_write(b, Message { data: seen, handles: Vec::new() }).unwrap();
    assert_eq!(w.woken(0).len(), 1);
    w.close(theirs);
    let request = Message { data: vec![0; 4], handles: Vec::new() };
    let gone = w.kernel.channel_call(a, w.threads[0], request, ZX_TIME_INFINITE, buffers());
    assert_eq!(gone, Err(Status::PEER_CLOSED));
}

#[test]
fn a_call_ends_with_the_peer_or_the_deadline() {
    let mut w = World::new(2);
    let (a, b) = w.kernel.channel_create().unwrap();
    let (_ours, theirs) = (w.give(a), w.give(b));
    for n in 0..2 {
        let request = Message { data: vec![0; 4], handles: Vec::new() };
        let deadline = if n == 0 { 50 } else { ZX_TIME_INFINITE };
        w.kernel.channel_call(a, w.threads[n], request, deadline, buffers()).unwrap();
    }
    w.pass(60);
    assert_eq!(w.woken(0), [Status::TIMED_OUT]);
    w.close(theirs);
    assert_eq!(w.woken(0).len(), 1);
    assert_eq!(w.woken(1), [Status::PEER_CLOSED]);
}

#[test]
fn futexes_wake_in_order_and_move() {
    let mut w = World::new(4);
    w.set_word(0, 7);
    let thread = w.threads[0];
    let wait = w.kernel.futex_wait(thread, USER_BASE, 8, None, ZX_TIME_INFINITE);
    assert_eq!(wait, Err(Status::BAD_STATE));
    for n in 0..4 {
        let thread = w.threads[n];
        w.kernel.futex_wait(thread, USER_BASE, 7, None, 1000).unwrap();
    }
    w.kernel.futex_wake(w.aspace, USER_BASE, 1, NewOwner::Nobody).unwrap();
    assert_eq!(w.woken(0), [Status::OK]);
    assert!(w.woken(1).is_empty());
    let to = USER_BASE + 8;
    let what = Requeue { from: USER_BASE, to, owner: None };
    w.kernel.futex_requeue(w.aspace, what, 7, RequeueProgress { wakes: 1, moves: 1 }, NewOwner::Nobody).unwrap();
    assert_eq!(w.woken(1), [Status::OK]);
    w.kernel.futex_wake(w.aspace, to, 10, NewOwner::Nobody).unwrap();
    assert_eq!(w.woken(2), [Status::OK]);
    assert!(w.woken(3).is_empty());
    w.pass(1000);
    assert_eq!(w.woken(3), [Status::TIMED_OUT]);
    assert!(w.kernel.futexes.is_empty());
}

#[test]
fn ports_queue_the_requested_packets() {
    let mut w = World::new(1);
    let port = w.kernel.port_create(false).unwrap();
    let event = w.kernel.event_create().unwrap();
    let (_port, value) = (w.give(port), w.give(event));
    let item = WaitItem { object: event.object(), handle: value, signals: Signals::USER_2 };
    w.kernel.wait_async(w.process, item, port, 42, 0).unwrap();
    assert_eq!(w.kernel.port_wait(port, w.threads[0], ZX_TIME_INFINITE, USER_BASE), Ok(None));
    w.kernel.signal(event.object(), Signals::NONE, Signals::USER_2);
    assert_eq!(w.woken(0), [Status::OK]);
    assert_eq!((w.word(0), w.word(2), w.word(5)), (42, 1, Signals::USER_2.bits()));
    // Each wait delivers only one packet.
    w.kernel.signal(event.object(), Signals::USER_2, Signals::NONE);
    w.kernel.signal(event.object(), Signals::NONE, Signals::USER_2);
    assert_eq!(w.kernel.port_wait(port, w.threads[0], 0, USER_BASE), Err(Status::TIMED_OUT));
    // A cancelled wait leaves no packet.
    w.kernel.wait_async(w.process, item, port, 43, 0).unwrap();
    assert_eq!(w.kernel.port_cancel(port, (w.process.object(), value), 43, 0), Ok(None));
    assert_eq!(w.kernel.port_cancel(port, (w.process.object(), value), 43, 0), Err(Status::NOT_FOUND));
    assert_eq!(w.kernel.port_wait(port, w.threads[0], 0, USER_BASE), Err(Status::TIMED_OUT));
}

#[test]
fn a_closed_port_takes_its_waits_along() {
    let mut w = World::new(1);
    let port = w.kernel.port_create(false).unwrap();
    let event = w.kernel.event_create().unwrap();
    let (port_value, value) = (w.give(port), w.give(event));
    for key in 0..10 {
        let item = WaitItem { object: event.object(), handle: value, signals: Signals::USER_2 };
        w.kernel.wait_async(w.process, item, port, key, 0).unwrap();
    }
    assert_eq!(w.kernel.port_wait(port, w.threads[0], ZX_TIME_INFINITE, USER_BASE), Ok(None));
    w.close(port_value);
    assert_eq!(w.woken(0), [Status::CANCELED]);
    assert_eq!(w.kernel.census().1, 0);
    assert!(w.kernel.objects.any(port.object()).is_err());
}

#[test]
fn timers_fire_once_for_each_setting() {
    let mut w = World::new(0);
    let timer = w.kernel.timer_create(0).unwrap();
    w.give(timer);
    let fired = |w: &World| w.kernel.signals(timer.object()).contains(Signals::TIMER_SIGNALED);
    w.kernel.timer_set(timer, 100, 0).unwrap();
    w.kernel.timer_set(timer, 200, 0).unwrap();
    w.pass(150);
    assert!(!fired(&w));
    w.pass(50);
    assert!(fired(&w));
    w.kernel.timer_set(timer, 300, 0).unwrap();
    assert!(!fired(&w));
    w.kernel.timer_cancel(timer).unwrap();
    w.pass(500);
    assert!(!fired(&w));
    w.kernel.timer_set(timer, 1, 0).unwrap();
    assert!(fired(&w));
}

#[test]
fn sockets_are_bounded_and_half_close() {
    let mut w = World::new(0);
    let (a, b) = w.kernel.socket_create(false).unwrap();
    let (_a, _b) = (w.give(a), w.give(b));
    let capacity = crate::ipc::socket::CAPACITY;
    let page = PAGE as usize;
    let write = |w: &mut World, end, bytes: &[u8]| {
        w.kernel.copy_out(w.aspace, USER_BASE, bytes).unwrap();
        w.kernel.socket_write(end, w.aspace, USER_BASE, bytes.len())
    };
    for _ in 0..capacity / page - 1 {
        assert_eq!(write(&mut w, a, &[5; PAGE as usize]), Ok(()));
    }
    assert_eq!(write(&mut w, a, &[5; PAGE as usize - 1]), Ok(()));
    assert_eq!(write(&mut w, a, b"xyz"), Err(Status::SHOULD_WAIT));
    assert_eq!(w.kernel.socket_way(a).map(|way| way.room), Ok(1));
    assert_eq!(write(&mut w, a, b"x"), Ok(()));
    assert_eq!(write(&mut w, a, b"z"), Err(Status::SHOULD_WAIT));
    assert!(!w.kernel.signals(a.object()).contains(Signals::SOCKET_WRITABLE));
    w.kernel.socket_set_disposition(a, Some(false), None).unwrap();
    // The destination is too small for all of them.
    assert_eq!(w.kernel.socket_read(b, w.aspace, USER_BASE, capacity, false), Err(Status::INVALID_ARGS));
    for last in (0..capacity / page).rev() {
        assert_eq!(w.kernel.socket_read(b, w.aspace, USER_BASE, page, true), Ok(page));
        assert_eq!(w.kernel.socket_read(b, w.aspace, USER_BASE, page, false), Ok(page));
        let mut out = [0; PAGE as usize];
        w.kernel.copy_in(w.aspace, USER_BASE, &mut out).unwrap();
        assert_eq!((out[0], out[page - 1]), (5, if last == 0 { b'x' } else { 5 }));
    }
    assert_eq!(w.kernel.socket_read(b, w.aspace, USER_BASE, 1, false), Err(Status::BAD_STATE));
    assert_eq!(write(&mut w, a, b"z"), Err(Status::BAD_STATE));
    assert_eq!(write(&mut w, b, b"back"), Ok(()));
    assert!(w.kernel.signals(b.object()).contains(Signals::SOCKET_PEER_WRITE_DISABLED));
}

#[test]
fn datagrams_stay_apart() {
    let mut w = World::new(0);
    let (a, b) = w.kernel.socket_create(true).unwrap();
    let (_a, _b) = (w.give(a), w.give(b));
    for text in [&b"first"[..], b"second"] {
        w.kernel.copy_out(w.aspace, USER_BASE, text).unwrap();
        w.kernel.socket_write(a, w.aspace, USER_BASE, text.len()).unwrap();
    }
    // A read of 0 bytes takes no datagram.
    assert_eq!(w.kernel.socket_read(b, w.aspace, USER_BASE, 0, false), Ok(0));
    assert_eq!(w.kernel.socket_read(b, w.aspace, USER_BASE, 3, false), Ok(3));
    assert_eq!(w.kernel.socket_read(b, w.aspace, USER_BASE, 100, true), Ok(6));
    assert_eq!(w.kernel.socket_read(b, w.aspace, USER_BASE, 100, false), Ok(6));
    let mut out = [0; 6];
    w.kernel.copy_in(w.aspace, USER_BASE, &mut out).unwrap();
    assert_eq!(&out, b"second");
}

#[test]
fn a_killed_process_ends_every_wait_and_leaves_nothing() {
    let mut w = World::new(3);
    let event = w.kernel.event_create().unwrap();
    let value = w.give(event);
    let port = w.kernel.port_create(false).unwrap();
    let port_value = w.give(port);
    assert_ne!(port_value, value);
    w.wait(0, value, Signals::EVENT_SIGNALED, 500);
    w.kernel.port_wait(port, w.threads[1], 600, USER_BASE).unwrap();
    w.kernel.futex_wait(w.threads[2], USER_BASE, 0, None, 700).unwrap();
    let keep = Handle { object: w.process.object(), rights: Rights::NONE };
    let keep = w.kernel.dup_handle(keep);
    w.kernel.process_kill(w.process, -1024);
    w.kernel.reap();
    assert!(w.kernel.machine.threads.is_empty());
    assert!(w.kernel.signals(w.process.object()).contains(Signals::PROCESS_TERMINATED));
    // The root job and the process, by its handle.
    assert_eq!(w.kernel.census(), (2, 0, 0));
    assert!(w.kernel.futexes.is_empty());
    w.pass(1000);
    w.kernel.close(keep);
    w.kernel.reap();
    assert_eq!(w.kernel.census(), (1, 0, 0));
    assert_eq!(w.kernel.machine.frames_in_use(), 0);
}

#[test]
fn the_last_thread_takes_its_process_along() {
    let mut w = World::new(2);
    let process = w.process;
    let keep = w.kernel.dup_handle(Handle { object: process.object(), rights: Rights::NONE });
    w.kernel.thread_kill(w.threads[0]);
    w.kernel.reap();
    assert!(!w.kernel.process_is_dead(process));
    w.kernel.thread_kill(w.threads[1]);
    w.kernel.reap();
    assert!(w.kernel.process_is_dead(process));
    w.kernel.close(keep);
}

#[test]
fn a_killed_job_takes_its_tree_along() {
    let mut w = World::new(1);
    let root = w.kernel.root_job().unwrap();
    let job = w.kernel.job_create(root).unwrap();
    let inner = w.kernel.job_create(job).unwrap();
    let keep: Vec<Handle> = [job.object(), inner.object()]
        .into_iter()
        .map(|object: ObjectId| w.kernel.dup_handle(Handle { object, rights: Rights::NONE }))
        .collect();
    let (process, _) = w.kernel.process_create(inner, Name::new(b"child")).unwrap();
    let child = w.kernel.dup_handle(Handle { object: process.object(), rights: Rights::NONE });
    assert!(!w.kernel.signals(job.object()).contains(Signals::JOB_NO_CHILDREN));
    w.kernel.job_kill(job, -1024);
    w.kernel.reap();
    assert!(w.kernel.process_is_dead(process));
    assert!(!w.kernel.process_is_dead(w.process));
    assert!(w.kernel.signals(inner.object()).contains(Signals::JOB_TERMINATED | Signals::JOB_NO_CHILDREN));
    assert_eq!(w.kernel.job_create(inner).err(), Some(Status::BAD_STATE));
    keep.into_iter().chain([child]).for_each(|handle| w.kernel.close(handle));
    w.kernel.reap();
    assert!(w.kernel.objects.get(root).unwrap().jobs.is_empty());
}

#[test]
fn out_of_memory_is_an_error_and_nothing_else() {
    let mut w = World::new(0);
    let root = w.kernel.objects.get(w.process).unwrap().root_vmar.unwrap();
    let aspace = w.kernel.objects.get(w.process).unwrap().aspace.unwrap();
    let vmo = w.kernel.vmo_create(2000 * PAGE, false).unwrap();
    w.give(vmo);
    let request = MapRequest { vmo, offset: 0, len: 2000 * PAGE, perm: RW, max: RW, fixed: false };
    let base = w.kernel.vmar_map(root, Place::Anywhere { align: PAGE, limit: None }, request).unwrap();
    let mut last = Ok(());
    let mut served = 0;
    for page in 0..2000 {
        last = w.kernel.page_fault(aspace, base + page * PAGE, true, false);
        if last.is_err() {
            break;
        }
        served += 1;
    }
    assert_eq!(last, Err(Status::NO_MEMORY));
    assert!(served > 900);
    // Committed pages are still there, and can be freed.
    assert_eq!(w.kernel.vmo_committed(vmo), Ok(served * PAGE));
    w.kernel.vmo_decommit(vmo, 0, 2000 * PAGE).unwrap();
    assert_eq!(w.kernel.vmo_committed(vmo), Ok(0));
    assert_eq!(w.kernel.page_fault(aspace, base, true, false), Ok(()));
}

/// An operation on futexes, or the passing of time.
#[derive(Clone, Debug)]
enum FutexOp {
    /// The thread waits on the word for at most `patience`, if it is not waiting already, and sets the owner.
    Wait { thread: usize, word: usize, owner: Option<usize>, patience: i64 },
    /// Wakes up to `count` threads that wait on the word.
    Wake { word: usize, count: u32 },
    /// Wakes some threads that wait on the word and moves others to another word, which gets an owner.
    Requeue { word: usize, to: usize, wake: u32, count: u32, owner: Option<usize> },
    /// Time passes.
    Pass(i64),
}

const WORDS: usize = 3;
const THREADS: usize = 5;

fn futex_op() -> impl Strategy<Value = FutexOp> {
    let owner = || proptest::option::of(0..THREADS);
    prop_oneof![
        3 => (0..THREADS, 0..WORDS, owner(), 1..40_i64)
            .prop_map(|(thread, word, owner, patience)| FutexOp::Wait { thread, word, owner, patience }),
        1 => (0..WORDS, 0..4_u32).prop_map(|(word, count)| FutexOp::Wake { word, count }),
        1 => (0..WORDS, 0..WORDS, 0..3_u32, 0..4_u32, owner())
            .prop_map(|(word, to, wake, count, owner)| FutexOp::Requeue { word, to, wake, count, owner }),
        1 => (0..30_i64).prop_map(FutexOp::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]
    /// Words as queues of (thread, deadline): which threads are woken, in which order, with which status.
    #[test]
    fn futexes_are_queues(ops in proptest::collection::vec(futex_op(), 1..30)) {
        let mut w = World::new(THREADS);
        let mut queues: [Vec<(usize, i64)>; WORDS] = Default::default();
        let mut results: [Vec<Status>; THREADS] = Default::default();
        let mut now = w.kernel.machine.time;
        let address = |word: usize| USER_BASE + word as u64 * 8;
        for op in ops {
            match op {
                FutexOp::Wait { thread, word, owner, patience } => {
                    if queues.iter().flatten().any(|&(waiter, _)| waiter == thread) {
                        continue;
                    }
                    // A thread that waits on a word, or begins to, cannot own it.
                    let bad = owner.is_some_and(|o| o == thread || queues[word].iter().any(|&(waiter, _)| waiter == o));
                    let owner = owner.map(|owner| w.threads[owner]);
                    let answer = w.kernel.futex_wait(w.threads[thread], address(word), 0, owner, now + patience);
                    if bad {
                        prop_assert_eq!(answer, Err(Status::INVALID_ARGS));
                    } else {
                        prop_assert_eq!(answer, Ok(Waiting::Blocked));
                        queues[word].push((thread, now + patience));
                    }
                }
                FutexOp::Wake { word, count } => {
                    w.kernel.futex_wake(w.aspace, address(word), count, NewOwner::Nobody).unwrap();
                    let count = queues[word].len().min(count as usize);
                    queues[word].drain(..count).for_each(|(waiter, _)| results[waiter].push(Status::OK));
                }
                FutexOp::Requeue { word, to, wake, count, owner } => {
                    if word == to {
                        continue;
                    }
                    let id = owner.map(|owner| w.threads[owner]);
                    let what = Requeue { from: address(word), to: address(to), owner: id };
                    let counts = RequeueProgress { wakes: wake, moves: count };
                    let answer = w.kernel.futex_requeue(w.aspace, what, 0, counts, NewOwner::Nobody);
                    let waits = |word: usize| queues[word].iter().any(|&(waiter, _)| Some(waiter) == owner);
                    if waits(word) || waits(to) {
                        prop_assert_eq!(answer, Err(Status::INVALID_ARGS));
                        continue;
                    }
                    prop_assert_eq!(answer, Ok(RequeueProgress { wakes: 0, moves: 0 }));
                    let wake = queues[word].len().min(wake as usize);
                    queues[word].drain(..wake).for_each(|(waiter, _)| results[waiter].push(Status::OK));
                    let count = queues[word].len().min(count as usize);
                    let moved: Vec<_> = queues[word].drain(..count).collect();
                    queues[to].extend(moved);
                }
                FutexOp::Pass(time) => {
                    now += time;
                    w.pass(time);
                    for queue in &mut queues {
                        queue.retain(|&(waiter, until)| {
                            if until <= now {
                                results[waiter].push(Status::TIMED_OUT);
                            }
                            until > now
                        });
                    }
                }
            }
            for (n, expected) in results.iter().enumerate() {
                prop_assert_eq!(&w.woken(n), expected);
            }
        }
    }
}
