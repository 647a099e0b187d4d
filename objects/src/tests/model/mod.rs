//! Random sequences of operations on many objects at once, against a model that is written for readability.
//!
//! A [`World`] is a process with threads that can block, a port, and *things*: objects of several nouns, each with one
//! handle. Each noun's file implements the noun's own operations with plain collections, and says which signals a thing
//! has ([`Thing::signals`]). The common operations are here: creation and closing, messages that carry things, user
//! signals, waits of threads with deadlines, waits of the port, the passing of time, the end of a thread or of the
//! whole process. After each operation results, signals, woken threads with their statuses, and packets are compared.
//! At the end everything is closed, and no objects, waits, frames or address spaces may be left.

mod channel;
mod counter;
mod fifo;
mod socket;
mod timer;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use std::vec;

use abi::{Rights, Signals, Status, ZX_TIME_INFINITE, ZX_WAIT_ASYNC_EDGE};
use proptest::prelude::*;

use crate::Kernel;
use crate::containers::name::Name;
use crate::containers::slab::Key;
use crate::core::handle::{Handle, HandleValue};
use crate::core::object::{Id, ObjectId};
use crate::core::port::Port;
use crate::core::wait::{Observed, WaitItem, Waiting};
use crate::fake::FakeMachine;
use crate::machine::{PAGE, Perm, Registers, USER_BASE};
use crate::memory::vmar::{MapRequest, Place};
use crate::task::process::Process;
use crate::task::thread::Thread;

/// Number of threads that wait.
const THREADS: usize = 4;
/// Maximum number of things.
const THINGS: usize = 8;
/// Number of sequences in one test run; the environment variable `HAFNON_SEQUENCES` overrides it.
const SEQUENCES: u32 = 100_000;

/// The noun-specific state.
enum Kind {
    Event,
    EventPair,
    Counter(i64),
    Timer(timer::Model),
    Channel(channel::Model),
    Socket(socket::Model),
    Fifo(fifo::Model),
}

/// An object with one handle.
struct Thing {
    object: ObjectId,
    /// The location of its handle.
    place: Home,
    /// The peer's number; none if it is closed or the noun has no peers.
    peer: Option<usize>,
    paired: bool,
    user: Signals,
    kind: Kind,
}

/// The location of a thing's handle.
#[derive(Clone, Copy, PartialEq)]
enum Home {
    /// In the process's table.
    Table(HandleValue),
    /// In a message to the thing with this number.
    Message(usize),
}

impl Thing {
    /// The signals that it must have.
    fn signals(&self, things: &BTreeMap<usize, Thing>) -> Signals {
        let peer = self.peer.and_then(|peer| things.get(&peer));
        let own = match &self.kind {
            Kind::Event => Signals::NONE,
            Kind::EventPair => Signals::NONE,
            Kind::Counter(value) => counter::signals(*value),
            Kind::Timer(model) => model.signals(),
            Kind::Channel(model) => model.signals(peer.is_some()),
            Kind::Socket(model) => model.signals(peer.map(|peer| &peer.kind)),
            Kind::Fifo(model) => model.signals(peer.map(|peer| &peer.kind)),
        };
        // The signal for that is the same bit for all nouns.
        let closed = if self.paired && peer.is_none() { Signals::PEER_CLOSED } else { Signals::NONE };
        own | closed | self.user
    }
}

/// A thread's wait: things and signals, and its deadline.
struct Blocked {
    items: Vec<(usize, Signals)>,
    deadline: i64,
}

/// A wait of the port.
struct Asked {
    thing: usize,
    key: u64,
    signals: Signals,
}

struct World {
    kernel: Kernel<FakeMachine>,
    start: (usize, usize, usize),
    process: Id<Process>,
    threads: Vec<Id<Thread>>,
    port: Id<Port>,
    // The model's state.
    things: BTreeMap<usize, Thing>,
    next: usize,
    blocked: Vec<Option<Blocked>>,
    dead: Vec<bool>,
    /// Statuses with which each thread was woken.
    woken: Vec<Vec<Status>>,
    asked: Vec<Asked>,
    /// Packets grouped by the operation that queued them: the order within a group is not specified.
    queued: VecDeque<BTreeMap<u64, Signals>>,
    next_key: u64,
}

#[derive(Clone, Debug)]
enum Op {
    Create(u8),
    Close(usize),
    Signal(usize, u8, u8),
    Act(usize, u8, usize),
    Carry(usize, usize),
    Wait(usize, Vec<(usize, u8)>, Option<i64>),
    Async(usize, u8, bool),
    Cancel(usize),
    Packet,
    Pass(i64),
    KillThread(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let thing = 0..THINGS;
    prop_oneof![
        5 => (0..8u8).prop_map(Op::Create),
        2 => thing.clone().prop_map(Op::Close),
        3 => (thing.clone(), any::<u8>(), any::<u8>()).prop_map(|(t, c, s)| Op::Signal(t, c, s)),
        12 => (thing.clone(), any::<u8>(), 0..400usize).prop_map(|(t, what, n)| Op::Act(t, what, n)),
        2 => (thing.clone(), thing.clone()).prop_map(|(t, into)| Op::Carry(t, into)),
        5 => (0..THREADS, proptest::collection::vec((thing.clone(), any::<u8>()), 1..4), proptest::option::of(0..20i64))
            .prop_map(|(thread, items, deadline)| Op::Wait(thread, items, deadline)),
        3 => (thing.clone(), any::<u8>(), any::<bool>()).prop_map(|(t, signals, edge)| Op::Async(t, signals, edge)),
        1 => thing.prop_map(Op::Cancel),
        2 => Just(Op::Packet),
        2 => (1..12i64).prop_map(Op::Pass),
        1 => (0..THREADS * 4).prop_map(Op::KillThread),
    ]
}

/// Some of the signals that any thing may have.
fn mask(bits: u8) -> Signals {
    let all = [
        Signals::USER_0,
        Signals::USER_1,
        Signals::CHANNEL_READABLE,
        Signals::CHANNEL_WRITABLE,
        Signals::PEER_CLOSED,
        Signals::EVENT_SIGNALED,
        Signals::COUNTER_POSITIVE,
        Signals::COUNTER_NON_POSITIVE,
    ];
    let chosen = all.into_iter().enumerate().filter(|(i, _)| bits >> i & 1 != 0);
    chosen.fold(Signals::NONE, |mask, (_, signal)| mask | signal)
}

/// Address and maximum length of operations' data: behind the memory to which threads' waits write.
const BYTES: (u64, usize) = (USER_BASE + PAGE / 2, PAGE as usize / 2);

impl World {
    fn aspace(&self) -> Key {
        self.kernel.objects.get(self.process).unwrap().aspace.unwrap()
    }

    /// Writes bytes to the process's memory; returns their address.
    fn user_bytes(&mut self, bytes: &[u8]) -> (Key, u64) {
        assert!(bytes.len() <= BYTES.1);
        let aspace = self.aspace();
        self.kernel.copy_out(aspace, BYTES.0, bytes).unwrap();
        (aspace, BYTES.0)
    }

    /// The bytes that an operation has written there.
    fn bytes_read(&mut self, len: usize) -> Vec<u8> {
        let (aspace, mut bytes) = (self.aspace(), vec![0; len]);
        self.kernel.copy_in(aspace, BYTES.0, &mut bytes).unwrap();
        bytes
    }

    fn new() -> World {
        let mut kernel = Kernel::new(FakeMachine::new(64)).unwrap();
        let start = kernel.census();
        let job = kernel.root_job().unwrap();
        let (process, root) = kernel.process_create(job, Name::default()).unwrap();
        let vmo = kernel.vmo_create(PAGE, false).unwrap();
        let perm = Perm { read: true, write: true, execute: false };
        let request = MapRequest { vmo, offset: 0, len: PAGE, perm, max: perm, fixed: false };
        kernel.vmar_map(root, Place::At(0), request).unwrap();
        kernel.process_begin(process, None).unwrap();
        let mut threads = Vec::new();
        // One more, so that the process lives on when all waiting threads were killed.
        for _ in 0..=THREADS {
            let thread = kernel.thread_create(process, Name::default()).unwrap();
            kernel.thread_start(thread, &Registers::default()).unwrap();
            // Keeps the thread object alive after its end.
            kernel.give(process, thread.object(), Rights::NONE).unwrap();
            threads.push(thread);
        }
        let port = kernel.port_create(false).unwrap();
        kernel.give(process, port.object(), Rights::all()).unwrap();
        World {
            kernel,
            start,
            process,
            threads,
            port,
            things: BTreeMap::new(),
            next: 0,
            blocked: (0..THREADS).map(|_| None).collect(),
            dead: vec![false; THREADS],
            woken: vec![Vec::new(); THREADS],
            asked: Vec::new(),
            queued: VecDeque::new(),
            next_key: 0,
        }
    }

    fn add(&mut self, object: ObjectId, peer: Option<usize>, kind: Kind) {
        let value = self.kernel.give(self.process, object, Rights::all()).unwrap();
        let (place, user) = (Home::Table(value), Signals::NONE);
        self.things.insert(self.next, Thing { object, place, peer, paired: peer.is_some(), user, kind });
        self.next += 1;
    }

    fn add_pair(&mut self, objects: [ObjectId; 2], kind: impl Fn() -> Kind) {
        let first = self.next;
        self.add(objects[0], Some(first + 1), kind());
        self.add(objects[1], Some(first), kind());
    }

    fn create(&mut self, which: u8) {
        if self.things.len() + 2 > THINGS {
            return;
        }
        let k = &mut self.kernel;
        match which {
            0 => {
                let event = k.event_create().unwrap();
                self.add(event.object(), None, Kind::Event);
            }
            1 => {
                let (a, b) = k.eventpair_create().unwrap();
                self.add_pair([a.object(), b.object()], || Kind::EventPair);
            }
            2 => {
                let counter = k.counter_create().unwrap();
                self.add(counter.object(), None, Kind::Counter(0));
            }
            3 => {
                let timer = k.timer_create(0).unwrap();
                self.add(timer.object(), None, Kind::Timer(timer::Model::default()));
            }
            4 => {
                let (a, b) = k.fifo_create(4, 8).unwrap();
                self.add_pair([a.object(), b.object()], || Kind::Fifo(fifo::Model::default()));
            }
            5 => {
                let (a, b) = k.socket_create(false).unwrap();
                self.add_pair([a.object(), b.object()], || Kind::Socket(socket::Model::default()));
            }
            _ => {
                let (a, b) = k.channel_create().unwrap();
                self.add_pair([a.object(), b.object()], || Kind::Channel(channel::Model::default()));
            }
        }
    }

    /// The `n`th thing with a handle in the process.
    fn pick(&self, n: usize) -> Option<(usize, HandleValue)> {
        let mut held = self.things.iter().filter_map(|(&number, thing)| match thing.place {
            Home::Table(value) => Some((number, value)),
            Home::Message(_) => None,
        });
        let count = held.clone().count();
        held.nth(n % count.max(1))
    }

    /// The handle of a thing leaves the table: waits through it end.
    fn handle_goes(&mut self, number: usize) {
        self.asked.retain(|asked| asked.thing != number);
        for thread in 0..THREADS {
            if self.blocked[thread].as_ref().is_some_and(|b| b.items.iter().any(|item| item.0 == number)) {
                self.wakes(thread, Status::CANCELED);
            }
        }
    }

    fn wakes(&mut self, thread: usize, status: Status) {
        self.blocked[thread] = None;
        self.woken[thread].push(status);
    }

    /// A thing is destroyed, with everything in it.
    fn thing_ends(&mut self, number: usize) {
        let mut ending = vec![number];
        while let Some(number) = ending.pop() {
            let Some(thing) = self.things.remove(&number) else { continue };
            if let Kind::Channel(model) = &thing.kind {
                ending.extend(model.carried());
            }
            if let Some(peer) = thing.peer.and_then(|peer| self.things.get_mut(&peer)) {
                peer.peer = None;
            }
        }
    }

    /// Applies the current signals: waits end, packets arrive.
    fn settle(&mut self, before: &BTreeMap<usize, Signals>) {
        let now: BTreeMap<usize, Signals> =
            self.things.iter().map(|(&number, thing)| (number, thing.signals(&self.things))).collect();
        for thread in 0..THREADS {
            let is_set = |&(thing, signals): &(usize, Signals)| now.get(&thing).is_some_and(|s| s.intersects(signals));
            if self.blocked[thread].as_ref().is_some_and(|b| b.items.iter().any(is_set)) {
                self.wakes(thread, Status::OK);
            }
        }
        let mut packets = BTreeMap::new();
        self.asked.retain(|asked| {
            let Some(now) = now.get(&asked.thing) else { return false };
            let was = before.get(&asked.thing).copied().unwrap_or(Signals::NONE);
            let fires = asked.signals.intersects(Signals::from_bits_retain(now.bits() & !was.bits()));
            if fires {
                packets.insert(asked.key, *now);
            }
            !fires
        });
        if !packets.is_empty() {
            self.queued.push_back(packets);
        }
    }

    fn snapshot(&self) -> BTreeMap<usize, Signals> {
        self.things.iter().map(|(&number, thing)| (number, thing.signals(&self.things))).collect()
    }

    fn step(&mut self, op: &Op) -> Result<(), TestCaseError> {
        let mut before = self.snapshot();
        match *op {
            Op::Create(which) => self.create(which),
            Op::Close(n) => {
                let Some((number, value)) = self.pick(n) else { return Ok(()) };
                let handle = self.kernel.take(self.process, value).unwrap();
                prop_assert!(self.kernel.handle(self.process, value).is_err());
                self.kernel.close(handle);
                self.handle_goes(number);
                self.thing_ends(number);
            }
            Op::Signal(n, clear, set) => {
                let Some((number, _)) = self.pick(n) else { return Ok(()) };
                let user = Signals::USER_0 | Signals::USER_1;
                let (clear, set) = (mask(clear) & user, mask(set) & user);
                let Some(thing) = self.things.get_mut(&number) else { return Ok(()) };
                thing.user = Signals::from_bits_retain(thing.user.bits() & !clear.bits()) | set;
                self.kernel.signal(thing.object, clear, set);
            }
            Op::Act(n, what, amount) => {
                let Some((number, _)) = self.pick(n) else { return Ok(()) };
                self.act(number, what, amount)?;
                // Setting a timer clears its signal first, even if it fires at once.
                if let (Kind::Timer(_), Some(signals)) = (&self.things[&number].kind, before.get_mut(&number)) {
                    signals.set(Signals::TIMER_SIGNALED, false);
                }
            }
            Op::Carry(n, into) => {
                let (Some((number, value)), Some((into, _))) = (self.pick(n), self.pick(into)) else { return Ok(()) };
                self.carry(number, value, into)?;
            }
            Op::Wait(thread, ref items, deadline) => self.wait(thread, items, deadline)?,
            Op::Async(n, signals, edge) => {
                let Some((number, handle)) = self.pick(n) else { return Ok(()) };
                let (object, signals, key) = (self.things[&number].object, mask(signals), self.next_key);
                self.next_key += 1;
                let item = WaitItem { object, handle, signals };
                let options = if edge { ZX_WAIT_ASYNC_EDGE } else { 0 };
                prop_assert_eq!(self.kernel.wait_async(self.process, item, self.port, key, options), Ok(false));
                match before[&number].intersects(signals) && !edge {
                    true => self.queued.push_back([(key, before[&number])].into()),
                    false => self.asked.push(Asked { thing: number, key, signals }),
                }
            }
            Op::Cancel(n) => {
                // Of a wait that is still active, through its thing's handle.
                let Some(asked) = (!self.asked.is_empty()).then(|| self.asked.remove(n % self.asked.len())) else {
                    return Ok(());
                };
                let Home::Table(value) = self.things[&asked.thing].place else { return Ok(()) };
                prop_assert_eq!(
                    self.kernel.port_cancel(self.port, (self.process.object(), value), asked.key, 0),
                    Ok(None)
                );
                let again = self.kernel.port_cancel(self.port, (self.process.object(), value), asked.key, 0);
                prop_assert_eq!(again, Err(Status::NOT_FOUND));
            }
            Op::Packet => {
                let spare = self.threads[THREADS];
                let got = self.kernel.port_wait(self.port, spare, 0, USER_BASE);
                match self.queued.front_mut() {
                    None => prop_assert_eq!(got, Err(Status::TIMED_OUT)),
                    Some(batch) => {
                        let bytes = got.unwrap().expect("a packet");
                        let key = u64::from_le_bytes(*bytes.first_chunk().unwrap());
                        let observed = u32::from_le_bytes(*bytes[20..].first_chunk().unwrap());
                        prop_assert_eq!(batch.remove(&key).map(|signals| signals.bits()), Some(observed));
                        if batch.is_empty() {
                            self.queued.pop_front();
                        }
                    }
                }
            }
            Op::Pass(time) => {
                for _ in 0..time {
                    self.tick();
                }
                return Ok(());
            }
            Op::KillThread(thread) => {
                let Some(dead) = self.dead.get_mut(thread) else { return Ok(()) };
                *dead = true;
                self.blocked[thread] = None;
                self.kernel.thread_kill(self.threads[thread]);
            }
        }
        self.kernel.reap();
        self.settle(&before);
        Ok(())
    }

    /// A time step. Timers are due at even times and waits at odd ones, so their order never matters.
    fn tick(&mut self) {
        let before = self.snapshot();
        self.kernel.machine.time += 1;
        let now = self.kernel.machine.time;
        self.kernel.expire();
        self.kernel.reap();
        for thing in self.things.values_mut() {
            if let Kind::Timer(model) = &mut thing.kind {
                model.pass(now);
            }
        }
        self.settle(&before);
        for thread in 0..THREADS {
            if self.blocked[thread].as_ref().is_some_and(|b| b.deadline <= now) {
                self.wakes(thread, Status::TIMED_OUT);
            }
        }
    }

    fn wait(&mut self, thread: usize, items: &[(usize, u8)], deadline: Option<i64>) -> Result<(), TestCaseError> {
        if self.dead[thread] || self.blocked[thread].is_some() {
            return Ok(());
        }
        let now = self.kernel.machine.time;
        let deadline = deadline.map_or(ZX_TIME_INFINITE, |after| (now + after) | 1);
        let picked: Vec<_> = items
            .iter()
            .filter_map(|&(n, signals)| self.pick(n).map(|(number, handle)| (number, handle, mask(signals))))
            .collect();
        if picked.is_empty() {
            return Ok(());
        }
        let wanted: Vec<_> = picked
            .iter()
            .map(|&(number, handle, signals)| WaitItem { object: self.things[&number].object, handle, signals })
            .collect();
        let set = picked.iter().any(|(number, _, s)| self.things[number].signals(&self.things).intersects(*s));
        let out = Observed::Many(USER_BASE + 64 * thread as u64);
        let waiting = self.kernel.wait(self.threads[thread], &wanted, deadline, out).unwrap();
        let expected = match (set, deadline <= now) {
            (true, _) => Waiting::Over(Status::OK),
            (false, true) => Waiting::Over(Status::TIMED_OUT),
            (false, false) => Waiting::Blocked,
        };
        prop_assert_eq!(waiting, expected);
        if waiting == Waiting::Blocked {
            let items = picked.iter().map(|&(number, _, signals)| (number, signals)).collect();
            self.blocked[thread] = Some(Blocked { items, deadline });
        }
        Ok(())
    }

    /// Compares everything that is visible.
    fn check(&self) -> Result<(), TestCaseError> {
        for (number, thing) in &self.things {
            let (are, must) = (self.kernel.signals(thing.object), thing.signals(&self.things));
            prop_assert_eq!(are, must, "thing {}", number);
            if let Home::Table(value) = thing.place {
                prop_assert_eq!(self.kernel.handle(self.process, value).map(|h| h.object), Ok(thing.object));
            }
        }
        for (thread, expected) in self.woken.iter().enumerate().filter(|(thread, _)| !self.dead[*thread]) {
            let machine = self.kernel.objects.get(self.threads[thread]).unwrap().machine().unwrap();
            let woken: Vec<_> =
                self.kernel.machine.threads[&machine.0].woken.iter().map(|&s| Status(s as i32)).collect();
            prop_assert_eq!(&woken, expected, "thread {}", thread);
            prop_assert_eq!(
                self.kernel.objects.get(self.threads[thread]).unwrap().is_waiting(),
                self.blocked[thread].is_some()
            );
        }
        let waits: usize = self.blocked.iter().flatten().map(|b| b.items.len()).sum();
        prop_assert_eq!(self.kernel.census().1, waits + self.asked.len());
        prop_assert_eq!(self.kernel.interests.is_empty(), self.kernel.observers.is_empty());
        Ok(())
    }

    /// Ends the process and checks that nothing is left.
    fn end(mut self) -> Result<(), TestCaseError> {
        self.kernel.process_kill(self.process, 0);
        self.kernel.reap();
        prop_assert_eq!(self.kernel.census(), self.start);
        prop_assert!(self.kernel.packets.is_empty() && self.kernel.interests.is_empty());
        prop_assert_eq!(self.kernel.machine.frames_in_use(), 0);
        prop_assert!(self.kernel.machine.mapped.is_empty() && self.kernel.machine.threads.is_empty());
        Ok(())
    }

    fn copy_of(&self, number: usize) -> Handle {
        Handle { object: self.things[&number].object, rights: Rights::all() }
    }
}

fn sequences() -> u32 {
    std::env::var("HAFNON_SEQUENCES").ok().and_then(|count| count.parse().ok()).unwrap_or(SEQUENCES)
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 4000, ..ProptestConfig::with_cases(sequences()) })]
    #[test]
    fn objects_behave_as_their_models(ops in proptest::collection::vec(op(), 1..40)) {
        let mut world = World::new();
        for op in &ops {
            world.step(op)?;
            world.check()?;
        }
        world.end()?;
    }
}
