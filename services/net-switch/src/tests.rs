//! The switch over plain memory, with drivers that keep the rules and some that do not.

mod cuts;
mod sessions;

use description::switch::{Port, PortKind};
use proptest::prelude::*;
use virtqueue::{Buffer, Direction, DriverRing, Gone, Memory, Plain, Ring};

use crate::frame::{DropReason, HEADER, LONGEST_FRAME};
use crate::guest::{Guest, GuestMemory, Queues, Side};
use crate::offload::Offers;
use crate::ports::{Mac, Ports};
use crate::switch::{Budget, Switch};

/// Memory that a driver shares with the switch.
#[derive(Clone)]
struct Shared(std::rc::Rc<Plain>);

impl Memory for Shared {
    fn holds(&self, at: u64, len: u64) -> bool {
        self.0.holds(at, len)
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Gone> {
        self.0.read(at, into)
    }

    fn write(&self, at: u64, from: &[u8]) -> Result<(), Gone> {
        self.0.write(at, from)
    }

    fn load(&self, at: u64) -> Result<u16, Gone> {
        self.0.load(at)
    }

    fn store(&self, at: u64, value: u16) -> Result<(), Gone> {
        self.0.store(at, value)
    }
}

impl GuestMemory for Shared {
    fn copy_to(&self, at: u64, to: &Self, to_at: u64, len: usize) -> Result<(), Side> {
        let mut bytes = vec![0; len];
        self.read(at, &mut bytes).map_err(|Gone| Side::Sender)?;
        to.write(to_at, &bytes).map_err(|Gone| Side::Receiver)
    }
}

const MEMORY: usize = 512 << 10;
const SIZE: u16 = 64;
/// Where a driver has its receive buffers, and its frames to send.
const RECEIVE: u64 = 0x1_0000;
const SEND: u64 = 0x5_0000;

/// A guest's driver.
struct Driver {
    memory: Shared,
    rx: DriverRing,
    tx: DriverRing,
    /// For each of its chains that the device has: where its buffer is, and the buffer's length.
    buffers: Vec<Option<(u64, u32)>>,
    next: u64,
}

impl Driver {
    fn new(switch: &mut Switch<Shared>, port: usize, merges: bool) -> Driver {
        let memory = Shared(std::rc::Rc::new(Plain::new(MEMORY)));
        let (rx, tx) = (DriverRing::new(0, SIZE, true), DriverRing::new(0x4000, SIZE, true));
        let ring = |driver: &DriverRing, direction| Some(Ring::new(driver.place(), direction, 0, true, true));
        let (rx_ring, tx_ring) = (ring(&rx, Direction::Write), ring(&tx, Direction::Read));
        switch.attach(
            port,
            Guest {
                memory: memory.clone(),
                queues: Queues::Rings([rx_ring, tx_ring]),
                merges,
                offers: Offers::default(),
            },
        );
        Driver { memory, rx, tx, buffers: vec![None; SIZE.into()], next: 0 }
    }

    /// Gives the device buffers of these lengths.
    fn refill(&mut self, lens: &[u32]) {
        for len in lens {
            let at = RECEIVE + self.next % 0x3_0000;
            self.next += u64::from(*len).next_multiple_of(64);
            let head = self.rx.add(&self.memory, &[Buffer { at, len: *len, write: true }], None).unwrap();
            self.buffers[usize::from(head.expect("there is room"))] = Some((at, *len));
        }
        self.rx.publish(&self.memory).unwrap();
    }

    /// Sends a frame in parts of these lengths; the last one takes the rest.
    fn send(&mut self, frame: &[u8], lens: &[usize]) {
        self.send_behind([0xee; HEADER], frame, lens);
    }

    /// The same, behind this header of virtio's.
    fn send_behind(&mut self, header: [u8; HEADER], frame: &[u8], lens: &[usize]) {
        let bytes = [&header, frame].concat();
        let (mut rest, mut at, mut buffers) = (bytes.as_slice(), SEND, Vec::new());
        for len in lens.iter().copied().chain([usize::MAX]) {
            let (part, behind) = rest.split_at(len.min(rest.len()));
            self.memory.write(at, part).unwrap();
            buffers.push(Buffer { at, len: part.len() as u32, write: false });
            (rest, at) = (behind, at + part.len() as u64 + 3);
        }
        self.tx.add(&self.memory, &buffers, None).unwrap().expect("there is room");
        self.tx.publish(&self.memory).unwrap();
    }

    /// The next frame that came, without its header.
    fn receive(&mut self) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut count = 1;
        while count > 0 {
            let (head, written) = self.rx.take(&self.memory).unwrap()?;
            let (at, len) = self.buffers[usize::from(head.unwrap())].take().unwrap();
            assert!(written <= len);
            let mut part = vec![0; written as usize];
            self.memory.read(at, &mut part).unwrap();
            if bytes.is_empty() {
                assert_eq!(part[..10], [0; 10]);
                count = u16::from_le_bytes([part[10], part[11]]);
            }
            bytes.extend(part);
            count -= 1;
        }
        Some(bytes.split_off(HEADER))
    }

    fn sent(&mut self) -> usize {
        std::iter::from_fn(|| self.tx.take(&self.memory).unwrap()).count()
    }
}

fn mac(port: u8) -> Mac {
    [2, 0, 0, 0, 0, port]
}

fn frame(to: Mac, from: Mac, len: usize) -> Vec<u8> {
    let mut frame = [to, from].concat();
    frame.extend((frame.len()..len).map(|at| (at * 7 + len) as u8));
    frame.truncate(len);
    frame
}

/// Three ports; the third may send to the first only, and the first to nobody but the second.
fn ports() -> Ports {
    let port = |name: &str, at: u8, to: Option<&[&str]>| Port {
        name: name.to_string(),
        kind: PortKind::Guest,
        mac: mac(at),
        sends_to: to.map(|to| to.iter().map(ToString::to_string).collect()),
    };
    let ports = [port("a", 0, Some(&["b"])), port("b", 1, None), port("c", 2, Some(&["a"]))];
    description::switch::check(&ports).unwrap();
    Ports::new(&ports)
}

const BROADCAST: Mac = [0xff; 6];

fn turn(switch: &mut Switch<Shared>, port: usize) -> Vec<(usize, usize)> {
    while switch.turn(port, Budget::of(64)).more {}
    let mut told = Vec::new();
    switch.tell(|port, queue, _| told.push((port, queue)));
    told
}

fn dropped(switch: &Switch<Shared>, port: usize, reason: DropReason) -> u64 {
    switch.counters(port).dropped[reason as usize]
}

#[test]
fn a_frame_goes_to_its_destination() {
    let mut switch = Switch::new(ports());
    let mut drivers: Vec<Driver> = (0..3).map(|port| Driver::new(&mut switch, port, true)).collect();
    drivers.iter_mut().for_each(|driver| driver.refill(&[2048; 8]));
    let sent = frame(mac(1), mac(0), 1514);
    drivers[0].send(&sent, &[]);
    assert_eq!(turn(&mut switch, 0), [(1, 0), (0, 1)]);
    assert_eq!(drivers[1].receive().as_ref(), Some(&sent));
    assert_eq!((drivers[0].sent(), drivers[2].receive()), (1, None));
    // To all: those that are there and that the sender reaches.
    let sent = frame(BROADCAST, mac(1), 60);
    drivers[1].send(&sent, &[HEADER, 14]);
    turn(&mut switch, 1);
    assert_eq!((drivers[0].receive(), drivers[2].receive()), (Some(sent.clone()), Some(sent)));
    assert_eq!(drivers[1].receive(), None);
    let counters = switch.counters(1);
    assert_eq!((counters.sent, counters.delivered, counters.received), (1, 2, 1));
    assert_eq!(counters.dropped, [0; DropReason::COUNT]);
}

#[test]
fn rules_and_addresses() {
    let mut switch = Switch::new(ports());
    let mut drivers: Vec<Driver> = (0..3).map(|port| Driver::new(&mut switch, port, true)).collect();
    drivers.iter_mut().for_each(|driver| driver.refill(&[2048; 8]));
    let tries = [
        (0, mac(2), mac(0), DropReason::Rule),
        (2, mac(1), mac(2), DropReason::Rule),
        (0, mac(1), mac(1), DropReason::Source),
        (0, mac(1), mac(2), DropReason::Source),
        (0, BROADCAST, [0; 6], DropReason::Source),
        (0, mac(9), mac(0), DropReason::Unknown),
        (0, mac(0), mac(0), DropReason::Unknown),
    ];
    for (port, to, from, reason) in tries {
        let before = dropped(&switch, port, reason);
        drivers[port].send(&frame(to, from, 60), &[]);
        turn(&mut switch, port);
        assert_eq!(dropped(&switch, port, reason), before + 1, "{to:?} {from:?}");
        assert_eq!(drivers[port].sent(), 1);
    }
    // A broadcast, too, goes only where the rules allow.
    drivers[0].send(&frame(BROADCAST, mac(0), 60), &[]);
    turn(&mut switch, 0);
    assert!(drivers[1].receive().is_some() && drivers[2].receive().is_none());
    assert!(drivers.iter_mut().all(|driver| driver.receive().is_none()));
}

#[test]
fn lengths() {
    let mut switch = Switch::new(ports());
    let (mut a, mut b) = (Driver::new(&mut switch, 0, true), Driver::new(&mut switch, 1, true));
    for len in [0, 1, 13, LONGEST_FRAME + 1] {
        a.send(&frame(mac(1), mac(0), len), &[]);
        turn(&mut switch, 0);
    }
    assert_eq!((dropped(&switch, 0, DropReason::Length), a.sent()), (4, 4));
    for len in [14, 15, 127, 128, 129, 1514, LONGEST_FRAME] {
        b.refill(&[2048; 33]);
        let sent = frame(mac(1), mac(0), len);
        a.send(&sent, &[1; 14]);
        turn(&mut switch, 0);
        assert_eq!((b.receive(), a.sent()), (Some(sent), 1), "{len}");
        // The rest of the buffers.
        let mut driver = Driver::new(&mut switch, 1, true);
        std::mem::swap(&mut b, &mut driver);
    }
}

#[test]
fn a_receiver_without_room() {
    for merges in [false, true] {
        let mut switch = Switch::new(ports());
        let (mut a, mut b) = (Driver::new(&mut switch, 0, true), Driver::new(&mut switch, 1, merges));
        let sent = frame(mac(1), mac(0), 1514);
        a.send(&sent, &[]);
        turn(&mut switch, 0);
        assert_eq!(dropped(&switch, 0, DropReason::NoBuffer), 1);
        b.refill(&[1525]);
        a.send(&sent, &[]);
        turn(&mut switch, 0);
        let reason = if merges { DropReason::NoBuffer } else { DropReason::TooLong };
        assert_eq!(dropped(&switch, 0, reason), 1 + u64::from(merges));
        // The buffers are still there: one byte more makes them enough, for one that merges.
        b.refill(&[1]);
        a.send(&sent, &[]);
        turn(&mut switch, 0);
        assert_eq!(b.receive(), merges.then_some(sent));
        assert_eq!((a.sent(), switch.endings()), (3, vec![]));
    }
}

#[test]
fn a_sender_waits_for_a_receiver_that_goes_on() {
    let mut switch = Switch::new(ports());
    let (mut a, mut b) = (Driver::new(&mut switch, 0, true), Driver::new(&mut switch, 1, true));
    b.refill(&[100; 40]);
    let send = |a: &mut Driver| a.send(&frame(mac(1), mac(0), 60), &[]);
    (0..42).for_each(|_| send(&mut a));
    let turn = switch.turn(0, Budget::of(64));
    assert_eq!((turn.frames, turn.more, turn.waits_for), (40, false, Some(1)));
    // It waits once: then frames are dropped until the receiver has got some.
    let turn = switch.turn(0, Budget::of(1));
    assert_eq!((turn.frames, turn.waits_for, dropped(&switch, 0, DropReason::NoBuffer)), (1, None, 1));
    // The last one was not lost meanwhile.
    switch.tell(|_, _, _| {});
    assert_eq!((std::iter::from_fn(|| b.receive()).count(), a.sent()), (40, 41));
    b.refill(&[100]);
    assert_eq!(switch.turn(0, Budget::of(64)).frames, 1);
    switch.tell(|_, _, _| {});
    assert_eq!((b.receive(), switch.counters(0).sent), (Some(frame(mac(1), mac(0), 60)), 42));
}

/// Others give a receiver's buffers away each time: a frame that has waited is dropped then, and does not hold up its port.
#[test]
fn a_frame_waits_once() {
    let mut switch = Switch::new(ports());
    let [mut a, mut b, mut c] = [0, 1, 2].map(|port| Driver::new(&mut switch, port, true));
    let fill = |switch: &mut Switch<Shared>, a: &mut Driver, b: &mut Driver, count: usize| {
        a.refill(&vec![100; count]);
        (0..count).for_each(|_| b.send(&frame(mac(0), mac(1), 60), &[]));
        turn(switch, 1);
        assert_eq!((std::iter::from_fn(|| a.receive()).count(), b.sent()), (count, count));
    };
    fill(&mut switch, &mut a, &mut b, 32);
    c.send(&frame(mac(0), mac(2), 60), &[]);
    assert_eq!(switch.turn(2, Budget::of(64)).waits_for, Some(0));
    fill(&mut switch, &mut a, &mut b, 32);
    let turn = switch.turn(2, Budget::of(64));
    assert_eq!((turn.waits_for, turn.frames, dropped(&switch, 2, DropReason::NoBuffer)), (None, 1, 1));
}

/// Descriptors of no length are read, so they count: against the limit of a frame, and against the turn of its sender.
#[test]
fn empty_descriptors_count() {
    let mut switch = Switch::new(ports());
    let [mut a, mut b] = [0, 1].map(|port| Driver::new(&mut switch, port, true));
    // Chains of 16 descriptors, all but one of them empty.
    let empty = Buffer { at: RECEIVE, len: 0, write: true };
    for _ in 0..4 {
        let chain = [&[empty; 15][..], &[Buffer { len: 10, ..empty }]].concat();
        a.rx.add(&a.memory, &chain, None).unwrap().expect("there is room");
    }
    a.rx.publish(&a.memory).unwrap();
    b.send(&frame(mac(0), mac(1), 60), &[]);
    b.send(&frame(mac(0), mac(1), 60), &[]);
    let budget = Budget { descriptors: 60, ..Budget::of(64) };
    // One frame reads four chains of its receiver's, which is as much as the turn may cost.
    assert_eq!(switch.turn(1, budget).frames, 1);
    assert_eq!(dropped(&switch, 1, DropReason::NoBuffer), 1);
}

#[test]
fn a_port_without_a_link() {
    let mut switch = Switch::new(ports());
    let [mut a, mut b] = [0, 1].map(|port| Driver::new(&mut switch, port, true));
    a.refill(&[2048; 4]);
    for (online, down) in [(false, 1), (true, 1)] {
        switch.set_link(0, online);
        b.send(&frame(mac(0), mac(1), 60), &[]);
        turn(&mut switch, 1);
        assert_eq!((dropped(&switch, 1, DropReason::Down), a.receive().is_some()), (down, online));
    }
}

#[test]
fn a_port_that_is_down() {
    let mut switch = Switch::new(ports());
    let mut a = Driver::new(&mut switch, 0, true);
    a.send(&frame(mac(1), mac(0), 60), &[]);
    turn(&mut switch, 0);
    a.send(&frame(BROADCAST, mac(0), 60), &[]);
    turn(&mut switch, 0);
    assert_eq!((dropped(&switch, 0, DropReason::Down), a.sent()), (1, 2));
}

#[test]
fn a_broken_guest_ends_alone() {
    let mut switch = Switch::new(ports());
    let mut drivers: Vec<Driver> = (0..3).map(|port| Driver::new(&mut switch, port, true)).collect();
    drivers[0].refill(&[2048; 8]);
    drivers[1].refill(&[2048; 8]);
    // The third one's queue is full of loops, and the second one's receive queue is for the other direction.
    drivers[2].send(&frame(mac(0), mac(2), 60), &[]);
    let place = drivers[2].tx.place();
    drivers[2].memory.write(place.descriptors + 12, &[1, 0, 0, 0]).unwrap();
    turn(&mut switch, 2);
    assert_eq!(switch.endings().iter().map(|ending| ending.port).collect::<Vec<_>>(), [2]);
    let place = drivers[1].rx.place();
    for number in 0..u64::from(SIZE) {
        drivers[1].memory.write(place.descriptors + 16 * number + 12, &[0, 0]).unwrap();
    }
    drivers[0].send(&frame(mac(1), mac(0), 60), &[]);
    turn(&mut switch, 0);
    assert_eq!(switch.endings().iter().map(|ending| ending.port).collect::<Vec<_>>(), [1]);
    assert_eq!((dropped(&switch, 0, DropReason::Broken), drivers[0].sent()), (1, 1));
    let mut b = Driver::new(&mut switch, 1, true);
    b.refill(&[2048]);
    drivers[0].send(&frame(mac(1), mac(0), 60), &[]);
    turn(&mut switch, 0);
    assert!(b.receive().is_some());
}

#[test]
fn a_turn_has_an_end() {
    let mut switch = Switch::new(ports());
    let (mut a, mut b) = (Driver::new(&mut switch, 0, true), Driver::new(&mut switch, 1, true));
    b.refill(&[2048; 40]);
    for _ in 0..40 {
        a.send(&frame(mac(1), mac(0), 60), &[]);
    }
    let turn = switch.turn(0, Budget::of(32));
    assert_eq!((turn.frames, turn.more), (32, true));
    let turn = switch.turn(0, Budget::of(32));
    assert_eq!((turn.frames, turn.more), (8, false));
}

/// What a turn has spent too much, the next one has less.
#[test]
fn later_turns_pay_for_copies() {
    let mut switch = Switch::new(ports());
    let [mut a, mut b, mut c] = [0, 1, 2].map(|port| Driver::new(&mut switch, port, true));
    a.refill(&[2048; 40]);
    c.refill(&[2048; 40]);
    for _ in 0..8 {
        b.send(&frame([0xff; 6], mac(1), 60), &[]);
    }
    // Each frame costs two.
    let frames: Vec<u32> = (0..6).map(|_| switch.turn(1, Budget::of(3)).frames).collect();
    assert_eq!(frames, [2, 1, 2, 1, 2, 0]);
    // A turn that is spent says that there may be more.
    b.send(&frame([0xff; 6], mac(1), 60), &[]);
    b.send(&frame([0xff; 6], mac(1), 60), &[]);
    let turns: Vec<(u32, bool)> =
        (0..4).map(|_| switch.turn(1, Budget::of(1))).map(|turn| (turn.frames, turn.more)).collect();
    assert_eq!(turns, [(1, true), (0, true), (1, true), (0, true)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Frames of all lengths, in all kinds of parts, to buffers of all sizes: each is delivered as it was, in order, or
    /// counted.
    #[test]
    fn frames_are_whole_and_in_order(
        merges: bool,
        steps in proptest::collection::vec(
            (14..3000_usize, proptest::collection::vec(1..700_usize, 0..6), proptest::collection::vec(12..2100_u32, 0..4)),
            1..30,
        ),
    ) {
        let mut switch = Switch::new(ports());
        let (mut a, mut b) = (Driver::new(&mut switch, 0, true), Driver::new(&mut switch, 1, merges));
        let (mut all, mut got) = (Vec::new(), Vec::new());
        for (len, parts, buffers) in steps {
            let lens = if b.rx.room() < buffers.len() { &[][..] } else { &buffers };
            b.refill(lens);
            let sent = frame(mac(1), mac(0), len);
            a.send(&sent, &parts);
            all.push(sent);
            turn(&mut switch, 0);
            a.sent();
            while let Some(frame) = b.receive() {
                got.push(frame);
            }
        }
        let counters = switch.counters(0);
        prop_assert_eq!(counters.sent as usize, all.len());
        prop_assert_eq!(counters.delivered as usize, got.len());
        prop_assert_eq!(counters.delivered + counters.dropped.iter().sum::<u64>(), counters.sent);
        let mut rest = all.iter();
        prop_assert!(got.iter().all(|frame| rest.any(|sent| sent == frame)));
        prop_assert!(switch.endings().is_empty());
    }

    /// Whatever a guest writes to its memory: the switch neither panics nor works without end, and the other guests
    /// stay.
    #[test]
    fn random_memory(
        seed: u64,
        turns in proptest::collection::vec(0..2_usize, 1..20),
    ) {
        let mut switch = Switch::new(ports());
        let mut drivers: Vec<Driver> = (0..2).map(|port| Driver::new(&mut switch, port, true)).collect();
        let mut state = seed | 1;
        let bytes: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let byte = (state >> 56) as u8;
            // Small numbers are often flags or descriptors.
            if state >> 40 & 3 == 0 { byte } else { byte & 3 }
        })
        .take(0x4000 + 0x800)
        .collect();
        drivers[0].memory.write(0, &bytes).unwrap();
        drivers[1].refill(&[2048; 40]);
        for port in turns {
            if port == 1 {
                drivers[1].send(&frame(mac(0), mac(1), 60), &[]);
            }
            let turn = switch.turn(port, Budget::of(64));
            prop_assert!(turn.frames <= 64);
            switch.tell(|_, _, _| {});
            drivers[1].sent();
        }
        prop_assert!(switch.endings().iter().all(|ending| ending.port == 0));
    }
}
