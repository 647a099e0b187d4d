//! Many observers of one signal, one handle, or one port: other threads do not wait until all of them are notified.

use abi::{Rights, Signals, Status, ZX_TIME_INFINITE};
use std::vec::Vec;

use crate::containers::name::Name;
use crate::containers::slab::Key;
use crate::core::handle::HandleValue;
use crate::core::noun::Noun;
use crate::core::port::Port;
use crate::core::wait::{Observed, WaitItem, Waiting};
use crate::fake::FakeMachine;
use crate::machine::{PAGE, Perm, Registers, Time, USER_BASE};
use crate::memory::vmar::{MapRequest, Place};
use crate::task::futex::{AT_ONCE, NewOwner, Requeue, RequeueProgress};
use crate::task::process::Process;
use crate::task::thread::Thread;
use crate::{Id, Kernel};

/// More than are notified at once, and more than fit in a slice on a machine whose time advances with each reading.
const MANY: usize = 3000;

struct World {
    kernel: Kernel<FakeMachine>,
    process: Id<Process>,
    port: Id<Port>,
    port_value: HandleValue,
    threads: Vec<Id<Thread>>,
}

impl World {
    fn new(threads: usize) -> World {
        let mut kernel = Kernel::new(FakeMachine::new(1000)).unwrap();
        let job = kernel.root_job().unwrap();
        let (process, _) = kernel.process_create(job, Name::new(b"test")).unwrap();
        kernel.process_begin(process, None).unwrap();
        let port = kernel.port_create(false).unwrap();
        let port_value = kernel.give_new(process, port, Rights::all()).unwrap();
        let mut world = World { kernel, process, port, port_value, threads: Vec::new() };
        for _ in 0..threads {
            let thread = world.kernel.thread_create(process, Name::new(b"thread")).unwrap();
            world.kernel.thread_start(thread, &Registers::default()).unwrap();
            world.threads.push(thread);
        }
        // Each reading of the time takes half a slice.
        world.kernel.machine.pace = 125_000;
        world
    }

    fn give<T: Noun>(&mut self, id: Id<T>) -> HandleValue {
        self.kernel.give_new(self.process, id, Rights::all()).unwrap()
    }

    fn ask(&mut self, value: HandleValue, key: impl Fn(usize) -> u64) -> WaitItem {
        let object = self.kernel.handle(self.process, value).unwrap().object;
        let item = WaitItem { object, handle: value, signals: Signals::USER_0 };
        for i in 0..MANY {
            self.kernel.wait_async(self.process, item, self.port, key(i), 0).unwrap();
        }
        item
    }

    /// Keys and observed signals of the queued packets.
    fn packets(&mut self) -> Vec<(u64, u32)> {
        let mut all = Vec::new();
        while let Ok(Some(packet)) = self.kernel.port_wait(self.port, self.threads[0], 0, USER_BASE) {
            let observed = u32::from_le_bytes(packet[20..24].try_into().unwrap());
            all.push((u64::from_le_bytes(packet[..8].try_into().unwrap()), observed));
        }
        all
    }

    /// Runs the end of an event, and then everything that is left. Returns the number of slices.
    fn carry_out(&mut self) -> usize {
        self.kernel.reap();
        let mut slices = 0;
        while self.kernel.reaper_has_visible_work() {
            self.kernel.reaper_slice();
            slices += 1;
            assert!(slices < MANY);
        }
        slices
    }

    fn close(&mut self, value: HandleValue) {
        let handle = self.kernel.take(self.process, value).unwrap();
        self.kernel.close(handle);
    }

    fn woken(&self, n: usize) -> Vec<Status> {
        let machine = self.kernel.objects.get(self.threads[n]).unwrap().machine().unwrap();
        self.kernel.machine.threads[&machine.0].woken.iter().map(|&status| Status(status as i32)).collect()
    }

    fn nothing_is_left(&self) {
        assert!(self.kernel.interests.is_empty() && self.kernel.observers.is_empty());
    }
}

#[test]
fn each_packet_has_the_signals_of_its_event() {
    let mut w = World::new(1);
    let event = w.kernel.event_create().unwrap();
    let value = w.give(event);
    w.ask(value, |i| i as u64);
    w.kernel.signal(event.object(), Signals::NONE, Signals::USER_0);
    // Later changes of the signals, and later waits, do not matter.
    w.kernel.signal(event.object(), Signals::USER_0, Signals::USER_1);
    w.ask(value, |i| (MANY + i) as u64);
    assert!(w.carry_out() > 1);
    let told = w.packets();
    assert_eq!(told.len(), MANY);
    // The newest observer comes first, in each slice.
    let newest_first = told.iter().rev().map(|&(key, _)| key).eq(0..MANY as u64);
    assert!(newest_first && told.iter().all(|&(_, observed)| observed == Signals::USER_0.bits()));
    w.kernel.signal(event.object(), Signals::NONE, Signals::USER_0);
    w.carry_out();
    assert_eq!(w.packets().len(), MANY);
    w.nothing_is_left();
}

#[test]
fn closing_a_handle_cancels_its_waits_only() {
    let mut w = World::new(1);
    let event = w.kernel.event_create().unwrap();
    let (value, other) = (w.give(event), w.give(event));
    w.ask(value, |i| i as u64);
    let item = w.ask(other, |i| i as u64);
    w.close(value);
    w.kernel.reap();
    // A handle at the same index has its own waits; its 32nd successor has the old value again.
    for _ in 0..40 {
        let next = w.give(event);
        let item = WaitItem { handle: next, ..item };
        (0..3).for_each(|_| assert_eq!(w.kernel.wait_async(w.process, item, w.port, 7, 0), Ok(false)));
        w.close(next);
        w.kernel.reap();
    }
    assert!(w.carry_out() > 1);
    assert!(w.packets().is_empty());
    w.kernel.signal(event.object(), Signals::NONE, Signals::USER_0);
    w.carry_out();
    assert_eq!(w.packets().len(), MANY);
    w.nothing_is_left();
}

#[test]
fn closing_the_last_handle_destroys_the_object() {
    let mut w = World::new(1);
    let before = w.kernel.census();
    let event = w.kernel.event_create().unwrap();
    let value = w.give(event);
    w.ask(value, |i| i as u64);
    w.close(value);
    w.carry_out();
    assert_eq!(w.kernel.census(), before);
    w.nothing_is_left();
}

#[test]
fn a_due_notification_survives_the_handle() {
    let mut w = World::new(1);
    let event = w.kernel.event_create().unwrap();
    let value = w.give(event);
    w.ask(value, |i| i as u64);
    w.kernel.signal(event.object(), Signals::NONE, Signals::USER_0);
    w.close(value);
    w.carry_out();
    assert_eq!(w.packets().len(), MANY);
    w.nothing_is_left();
}

#[test]
fn a_deadline_has_no_effect_once_the_wait_is_satisfied() {
    const THREADS: usize = 200;
    let mut w = World::new(THREADS);
    let event = w.kernel.event_create().unwrap();
    let value = w.give(event);
    let item = WaitItem { object: event.object(), handle: value, signals: Signals::USER_0 };
    let deadline = w.kernel.machine.time + 1_000_000_000;
    for n in 0..THREADS {
        let waits = w.kernel.wait(w.threads[n], &[item, item], deadline, Observed::Nowhere).unwrap();
        assert_eq!(waits, Waiting::Blocked);
    }
    w.kernel.signal(event.object(), Signals::NONE, Signals::USER_0);
    assert!(w.woken(0).is_empty() && w.woken(THREADS - 1) == [Status::OK]);
    w.kernel.machine.time = deadline;
    w.kernel.expire();
    w.carry_out();
    assert!((0..THREADS).all(|n| w.woken(n) == [Status::OK]));
    w.nothing_is_left();
}

#[test]
fn simultaneous_timers_fire_in_slices_and_delay_no_thread() {
    let mut w = World::new(2);
    let due = w.kernel.machine.time + 1_000_000_000;
    let timers: Vec<_> = (0..MANY).map(|_| w.kernel.timer_create(0).unwrap()).collect();
    timers.iter().for_each(|&timer| w.kernel.timer_set(timer, due, 0).unwrap());
    assert_eq!(w.kernel.sleep(w.threads[0], due + 1), Ok(Waiting::Blocked));
    w.kernel.machine.time = due + 1_000_000;
    let gone_off = |w: &World| {
        let signals = timers.iter().map(|timer| w.kernel.signals(timer.object()));
        signals.filter(|signals| signals.contains(Signals::TIMER_SIGNALED)).count()
    };
    w.kernel.expire();
    let first = gone_off(&w);
    assert!(first > 0 && first < MANY / 10);
    assert_eq!(w.woken(0), [Status::OK]);
    // During the pause those observers are notified, and nothing else happens.
    w.kernel.machine.pace = 0;
    let soon = w.kernel.machine.now() + 1;
    assert_eq!(w.kernel.sleep(w.threads[1], soon), Ok(Waiting::Blocked));
    w.kernel.machine.time += 1;
    w.kernel.expire();
    assert_eq!(w.woken(1), [Status::OK]);
    assert_eq!(gone_off(&w), first);
    let mut slices = 1;
    w.kernel.machine.pace = 125_000;
    while gone_off(&w) < MANY {
        let next = *w.kernel.machine.deadlines.range(w.kernel.machine.now()..).next().unwrap();
        w.kernel.machine.time = w.kernel.machine.time.max(next);
        w.kernel.expire();
        slices += 1;
        assert!(slices < MANY);
    }
    assert!(slices > 10);
}

#[test]
fn threads_are_notified_when_their_handle_closes() {
    const THREADS: usize = 200;
    let mut w = World::new(THREADS);
    let event = w.kernel.event_create().unwrap();
    let value = w.give(event);
    let item = WaitItem { object: event.object(), handle: value, signals: Signals::USER_0 };
    for n in 0..THREADS {
        w.kernel.wait(w.threads[n], &[item, item], ZX_TIME_INFINITE, Observed::Nowhere).unwrap();
    }
    w.close(value);
    w.carry_out();
    assert!((0..THREADS).all(|n| w.woken(n) == [Status::CANCELED]));
    w.nothing_is_left();
}

#[test]
fn waits_are_cancelled_in_slices() {
    let mut w = World::new(1);
    let event = w.kernel.event_create().unwrap();
    let (value, other) = (w.give(event), w.give(event));
    w.ask(value, |_| 7);
    w.ask(other, |_| 7);
    w.kernel.signal(event.object(), Signals::NONE, Signals::USER_0);
    w.carry_out();
    let mut done = 0;
    while let Some(more) = w.kernel.port_cancel(w.port, (w.process.object(), value), 7, done).unwrap() {
        assert!(more > done);
        done = more;
    }
    assert_eq!(w.kernel.port_cancel(w.port, (w.process.object(), value), 7, 0), Err(Status::NOT_FOUND));
    let mut done = 0;
    while let Some(more) = w.kernel.port_cancel_key(w.port, 7, done).unwrap() {
        done = more;
    }
    assert!(w.packets().is_empty());
    w.nothing_is_left();
}

#[test]
fn destroying_a_port_cancels_all_its_waits() {
    let mut w = World::new(1);
    let event = w.kernel.event_create().unwrap();
    let value = w.give(event);
    w.ask(value, |i| i as u64);
    w.ask(value, |_| 7);
    w.close(w.port_value);
    assert!(w.carry_out() > 1);
    assert!(w.kernel.packets.is_empty());
    w.nothing_is_left();
}

#[test]
fn so_many_sets_of_signals_of_one_object() {
    let mut w = World::new(1);
    let event = w.kernel.event_create().unwrap();
    let value = w.give(event);
    let mut ask = |bits| {
        let item = WaitItem { object: event.object(), handle: value, signals: Signals::from_bits_retain(bits) };
        w.kernel.wait_async(w.process, item, w.port, 0, 0)
    };
    assert!((1..=256).all(|n| ask(n << 8).is_ok()));
    assert_eq!(ask(257 << 8), Err(Status::NO_MEMORY));
    assert!(ask(1 << 8).is_ok());
}

#[test]
fn the_newest_waiter_is_notified_first() {
    // Waits for one signal, for another, and for both, alternately; every third is not satisfied.
    let wanted = [Signals::USER_0, Signals::USER_1, Signals::USER_2, Signals::USER_0 | Signals::USER_1];
    for (waits, cancelled) in [(4, None), (40, None), (40, Some(39)), (40, Some(17))] {
        let mut w = World::new(1);
        let event = w.kernel.event_create().unwrap();
        let value = w.give(event);
        for n in 0..waits {
            let item = WaitItem { object: event.object(), handle: value, signals: wanted[n % 4] };
            w.kernel.wait_async(w.process, item, w.port, n as u64, 0).unwrap();
        }
        if let Some(n) = cancelled {
            assert_eq!(w.kernel.port_cancel(w.port, (w.process.object(), value), n, 0), Ok(None));
        }
        w.kernel.signal(event.object(), Signals::NONE, Signals::USER_0 | Signals::USER_1);
        let told: Vec<u64> = w.packets().into_iter().map(|(key, _)| key).collect();
        let there = |n: &u64| n % 4 != 2 && Some(*n) != cancelled;
        assert_eq!(told, (0..waits as u64).rev().filter(there).collect::<Vec<_>>());
        w.kernel.signal(event.object(), Signals::NONE, Signals::USER_2);
        assert_eq!(w.packets().len(), waits / 4);
        w.nothing_is_left();
    }
}

#[test]
fn many_sets_of_signals_are_notified_in_slices() {
    // One signal satisfies all of them; those notified later are notified only once.
    let mut w = World::new(1);
    let event = w.kernel.event_create().unwrap();
    let value = w.give(event);
    for n in 0..512_u32 {
        let signals = Signals::USER_0 | Signals::from_bits_retain((n % 256) << 8);
        let item = WaitItem { object: event.object(), handle: value, signals };
        w.kernel.wait_async(w.process, item, w.port, u64::from(n), 0).unwrap();
    }
    w.kernel.signal(event.object(), Signals::NONE, Signals::USER_0);
    w.carry_out();
    let mut told: Vec<u64> = w.packets().into_iter().map(|(key, _)| key).collect();
    assert!(told.starts_with(&[511, 510, 509]));
    told.sort_unstable();
    assert_eq!(told, (0..512).collect::<Vec<_>>());
    w.nothing_is_left();
}

/// Threads that wait on a word: more than twice as many as are woken at once.
fn crowd() -> (World, Key) {
    let mut w = World::new(3 * AT_ONCE as usize);
    let process = w.kernel.objects.get(w.process).unwrap();
    let (aspace, root) = (process.aspace.unwrap(), process.root_vmar.unwrap());
    let vmo = w.kernel.vmo_create(PAGE, false).unwrap();
    let rw = Perm { read: true, write: true, execute: false };
    let request = MapRequest { vmo, offset: 0, len: PAGE, perm: rw, max: rw, fixed: false };
    w.kernel.vmar_map(root, Place::At(0), request).unwrap();
    for n in 0..w.threads.len() {
        w.wait(n);
    }
    (w, aspace)
}

impl World {
    fn wait(&mut self, n: usize) {
        assert_eq!(self.kernel.futex_wait(self.threads[n], USER_BASE, 0, None, ZX_TIME_INFINITE), Ok(Waiting::Blocked));
    }

    /// Number of woken threads.
    fn all_woken(&self) -> usize {
        (0..self.threads.len()).map(|n| self.woken(n).len()).sum()
    }
}

#[test]
fn threads_that_wait_again_are_not_woken_for_ever() {
    let (mut w, aspace) = crowd();
    let mut left = w.kernel.futex_wake(aspace, USER_BASE, u32::MAX, NewOwner::Nobody).unwrap();
    assert_eq!((left, w.all_woken()), (2 * AT_ONCE, AT_ONCE as usize));
    let mut slices = 1;
    while left != 0 {
        // Woken threads wait again at once.
        (0..AT_ONCE as usize).for_each(|n| {
            if slices == 1 {
                w.wait(n)
            }
        });
        left = w.kernel.futex_wake_more(aspace, USER_BASE, left).unwrap();
        slices += 1;
    }
    assert_eq!((slices, w.all_woken()), (3, 3 * AT_ONCE as usize));
    assert_eq!(w.kernel.futex_wake(aspace, USER_BASE, AT_ONCE, NewOwner::Nobody), Ok(0));
    assert!(w.kernel.futexes.is_empty());
}

#[test]
fn many_are_woken_and_moved_in_their_order() {
    let (mut w, aspace) = crowd();
    let (all, at_once) = (w.threads.len(), AT_ONCE as usize);
    let to = USER_BASE + 8;
    let owner = w.kernel.thread_create(w.process, Name::new(b"owner")).unwrap();
    w.kernel.thread_start(owner, &Registers::default()).unwrap();
    let what = Requeue { from: USER_BASE, to, owner: Some(owner) };
    let counts = RequeueProgress { wakes: AT_ONCE + 1, moves: u32::MAX };
    let mut left = w.kernel.futex_requeue(aspace, what, 0, counts, NewOwner::Nobody).unwrap();
    assert_eq!(left, RequeueProgress { wakes: 1, moves: 2 * AT_ONCE - 1 });
    assert_eq!(w.all_woken(), at_once);
    while left != (RequeueProgress { wakes: 0, moves: 0 }) {
        left = w.kernel.futex_requeue_more(aspace, what, left).unwrap();
    }
    assert_eq!(w.all_woken(), at_once + 1);
    assert_eq!(w.kernel.futex_get_owner(aspace, to), Ok(w.kernel.koid(owner.object())));
    // There, too, the longest waiting threads come first.
    assert_eq!(w.kernel.futex_wake(aspace, to, 1, NewOwner::Nobody), Ok(0));
    assert_eq!(w.woken(at_once + 1), [Status::OK]);
    let mut left = w.kernel.futex_wake(aspace, to, u32::MAX, NewOwner::Nobody).unwrap();
    while left != 0 {
        left = w.kernel.futex_wake_more(aspace, to, left).unwrap();
    }
    assert_eq!(w.all_woken(), all);
    assert!(w.kernel.futexes.is_empty());
}
