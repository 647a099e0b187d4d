//! Ports of the TCP/IP service and of the card.

use netdevice::{DATA_LENGTH_AT, DESCRIPTOR, Descriptor, FRAME_ETHERNET, Fault, INBOUND_FLAGS_AT};
use virtqueue::{Memory, Plain};

use super::{BROADCAST, Driver, Shared, dropped, frame, mac};
use crate::frame::DropReason;
use crate::guest::{Guest, Queues, RX, TX, Wrong};
use crate::offload::Offers;
use crate::ports::{Mac, Ports};
use crate::session::{BUFFER, DESCRIPTORS, FRAMES, LONGEST, Session};
use crate::switch::{Budget, Notice, Switch};
use description::switch::{Port, PortKind};

const GUEST: usize = 0;
const SERVICE: usize = 1;
const CARD: usize = 2;
/// Descriptors of a session; the first half receives.
const COUNT: u16 = 16;
/// An address beyond the card.
const OUTSIDE: Mac = [0x52, 0x55, 10, 0, 2, 2];
const SHORTEST: usize = 60;

fn ports() -> Ports {
    let port = |name: &str, kind, at: u8| Port {
        name: name.to_string(),
        kind,
        mac: if kind == PortKind::Card { [0; 6] } else { mac(at) },
        sends_to: None,
    };
    let ports = [
        port("guest", PortKind::Guest, 0),
        port("service", PortKind::Service, 1),
        port("card", PortKind::Card, 2),
        port("other", PortKind::Guest, 3),
    ];
    description::switch::check(&ports).unwrap();
    Ports::new(&ports)
}

/// The other side of a session: the client of a service's port, or the driver of the card.
struct Other {
    port: usize,
    memory: Shared,
    /// Numbers that the switch has given it, by queue.
    got: [Vec<u16>; 2],
}

impl Other {
    fn new(switch: &mut Switch<Shared>, port: usize) -> Other {
        let memory = Shared(std::rc::Rc::new(Plain::new(FRAMES as usize + usize::from(COUNT) * BUFFER)));
        Session::describe(&memory, COUNT).unwrap();
        let session = match port {
            SERVICE => Session::device(COUNT, usize::from(COUNT) * BUFFER),
            _ => Session::client(COUNT / 2, COUNT, SHORTEST),
        };
        let queues = Queues::Session(session);
        switch.attach(port, Guest { memory: memory.clone(), queues, merges: false, offers: Offers::default() });
        Other { port, memory, got: Default::default() }
    }

    fn word(&self, number: u16, at: usize) -> u32 {
        let mut bytes = [0; 4];
        self.memory.read(DESCRIPTORS + (usize::from(number) * DESCRIPTOR + at) as u64, &mut bytes).unwrap();
        u32::from_le_bytes(bytes)
    }

    fn describe(&self, number: u16, descriptor: &Descriptor) {
        let at = DESCRIPTORS + (usize::from(number) * DESCRIPTOR) as u64;
        self.memory.write(at, &descriptor.to_bytes()).unwrap();
    }

    /// Puts a frame in the buffer of a number, and says how long it is.
    fn fill(&self, number: u16, bytes: &[u8], len: usize) {
        self.memory.write(FRAMES + (usize::from(number) * BUFFER) as u64, bytes).unwrap();
        let offset = (usize::from(number) * BUFFER) as u64;
        let descriptor =
            Descriptor { frame_type: FRAME_ETHERNET, offset, data_length: len as u32, ..Descriptor::default() };
        self.describe(number, &descriptor);
    }

    fn feed(&self, switch: &mut Switch<Shared>, queue: usize, numbers: &[u16]) -> Result<(), Fault> {
        match &mut switch.guest(self.port).unwrap().queues {
            Queues::Session(session) => session.feed(queue, numbers.iter().copied()),
            Queues::Rings(_) => unreachable!(),
        }
    }

    fn frame(&self, number: u16) -> Vec<u8> {
        let mut bytes = vec![0; self.word(number, DATA_LENGTH_AT) as usize];
        self.memory.read(FRAMES + (usize::from(number) * BUFFER) as u64, &mut bytes).unwrap();
        bytes
    }
}

/// A turn of a port; what is told goes to the others.
fn turn(switch: &mut Switch<Shared>, port: usize, others: &mut [&mut Other]) {
    while switch.turn(port, Budget::of(64)).more {}
    switch.tell(|port, queue, notice| {
        if let (Notice::Numbers(numbers), Some(other)) = (notice, others.iter_mut().find(|other| other.port == port)) {
            other.got[queue].extend(numbers);
        }
    });
}

#[test]
fn between_a_guest_and_the_service() {
    let mut switch = Switch::new(ports());
    let mut guest = Driver::new(&mut switch, GUEST, true);
    let mut service = Other::new(&mut switch, SERVICE);
    guest.refill(&[2048; 20]);
    service.feed(&mut switch, RX, &[0, 1, 2]).unwrap();
    for len in [14, 60, LONGEST] {
        guest.send(&frame(mac(1), mac(0), len), &[20]);
        turn(&mut switch, GUEST, &mut [&mut service]);
    }
    assert_eq!((service.got[RX].as_slice(), guest.sent()), ([0, 1, 2].as_slice(), 3));
    for (number, len) in [(0, 14), (1, 60), (2, LONGEST)] {
        assert_eq!(service.frame(number), frame(mac(1), mac(0), len));
        assert_eq!(service.word(number, INBOUND_FLAGS_AT), 0);
    }
    // Too long for it; and then it has no buffers.
    service.got[RX].clear();
    service.fill(0, &[], BUFFER);
    service.feed(&mut switch, RX, &[0]).unwrap();
    for len in [LONGEST + 1, 100, 101] {
        guest.send(&frame(mac(1), mac(0), len), &[]);
        turn(&mut switch, GUEST, &mut [&mut service]);
    }
    assert_eq!((service.got[RX].as_slice(), service.frame(0)), ([0].as_slice(), frame(mac(1), mac(0), 100)));
    assert_eq!(dropped(&switch, GUEST, DropReason::TooLong), 1);
    assert_eq!(dropped(&switch, GUEST, DropReason::NoBuffer), 1);
    // The other way, with a source address that is not its own in between.
    service.fill(8, &frame(mac(0), mac(1), 300), 300);
    service.fill(9, &frame(mac(0), mac(3), 301), 301);
    service.fill(10, &frame(BROADCAST, mac(1), LONGEST), LONGEST);
    service.feed(&mut switch, TX, &[8, 9, 10]).unwrap();
    turn(&mut switch, SERVICE, &mut [&mut service]);
    assert_eq!(service.got[TX], [8, 9, 10]);
    assert_eq!(guest.receive().unwrap(), frame(mac(0), mac(1), 300));
    assert_eq!(guest.receive().unwrap(), frame(BROADCAST, mac(1), LONGEST));
    assert!(guest.receive().is_none());
    assert_eq!(dropped(&switch, SERVICE, DropReason::Source), 1);
}

#[test]
fn out_to_the_card_and_in() {
    let mut switch = Switch::new(ports());
    let mut guest = Driver::new(&mut switch, GUEST, true);
    let (mut service, mut card) = (Other::new(&mut switch, SERVICE), Other::new(&mut switch, CARD));
    guest.refill(&[2048; 20]);
    service.feed(&mut switch, RX, &[0, 1, 2]).unwrap();
    // At first the driver gets the buffers that it fills.
    turn(&mut switch, CARD, &mut [&mut card]);
    assert_eq!(card.got[TX], (0..COUNT / 2).collect::<Vec<u16>>());
    // What was in the buffer before does not go out behind a short frame.
    card.memory.write(FRAMES + 8 * BUFFER as u64, &[0xaa; BUFFER]).unwrap();
    for len in [14, 61] {
        guest.send(&frame(OUTSIDE, mac(0), len), &[]);
        turn(&mut switch, GUEST, &mut [&mut card]);
    }
    assert_eq!(card.got[RX], [8, 9]);
    assert_eq!(card.frame(8), [frame(OUTSIDE, mac(0), 14), vec![0; SHORTEST - 14]].concat());
    assert_eq!(card.frame(9), frame(OUTSIDE, mac(0), 61));
    // A frame that is too long for the card's network does not reach its driver.
    for len in [LONGEST + 1, BUFFER] {
        guest.send(&frame(OUTSIDE, mac(0), len), &[]);
        turn(&mut switch, GUEST, &mut [&mut card]);
    }
    assert_eq!((card.got[RX].len(), dropped(&switch, GUEST, DropReason::TooLong)), (2, 2));
    // A broadcast reaches all, and the numbers that are free again are used again.
    card.feed(&mut switch, RX, &[8, 9]).unwrap();
    card.got[RX].clear();
    for _ in 0..2 * COUNT {
        guest.send(&frame(BROADCAST, mac(0), 100), &[]);
        turn(&mut switch, GUEST, &mut [&mut card, &mut service]);
        let numbers = std::mem::take(&mut card.got[RX]);
        assert_eq!(numbers.len(), 1);
        card.feed(&mut switch, RX, &numbers).unwrap();
    }
    assert_eq!(service.got[RX], [0, 1, 2]);
    // In: for the guest; in a port's name; for nobody here; of no length; and longer than its buffer.
    let frames = [
        (frame(mac(0), OUTSIDE, 200), 200),
        (frame(mac(0), mac(1), 200), 200),
        (frame(mac(9), OUTSIDE, 200), 200),
        (frame(mac(0), OUTSIDE, 200), 0),
        (frame(mac(0), OUTSIDE, 200), usize::MAX),
        (frame(mac(0), OUTSIDE, 201), 201),
    ];
    for (number, (bytes, len)) in (0..).zip(&frames) {
        card.fill(number, bytes, *len);
    }
    card.got[TX].clear();
    card.feed(&mut switch, TX, &[0, 1, 2, 3, 4, 5]).unwrap();
    turn(&mut switch, CARD, &mut [&mut card]);
    assert_eq!(card.got[TX], [0, 1, 2, 3, 4, 5]);
    assert_eq!(card.word(4, DATA_LENGTH_AT), BUFFER as u32);
    assert_eq!(guest.receive().unwrap(), frames[0].0);
    assert_eq!(guest.receive().unwrap(), frames[5].0);
    assert!(guest.receive().is_none());
    for (reason, count) in [(DropReason::Source, 1), (DropReason::Unknown, 1), (DropReason::Length, 2)] {
        assert_eq!(dropped(&switch, CARD, reason), count, "{reason:?}");
    }
}

/// A client that breaks a rule loses its session; others go on.
#[test]
fn faults() {
    let descriptor = |offset: u64, len: u32| Descriptor {
        frame_type: FRAME_ETHERNET,
        offset,
        data_length: len,
        ..Descriptor::default()
    };
    let whole = u64::from(COUNT) * BUFFER as u64;
    let cases = [
        (descriptor(0, 13), Fault::Length),
        (descriptor(0, 1515), Fault::Length),
        (descriptor(whole, 60), Fault::Place),
        (descriptor(u64::MAX, 60), Fault::Place),
        (descriptor(4000, 200), Fault::Place),
        (Descriptor { frame_type: 2, ..descriptor(0, 60) }, Fault::Unknown),
        (Descriptor { chain_length: 1, ..descriptor(0, 60) }, Fault::Unknown),
    ];
    for (wrong, fault) in cases {
        let mut switch = Switch::new(ports());
        let mut guest = Driver::new(&mut switch, GUEST, true);
        let mut service = Other::new(&mut switch, SERVICE);
        service.describe(3, &wrong);
        service.feed(&mut switch, TX, &[3]).unwrap();
        turn(&mut switch, SERVICE, &mut [&mut service]);
        let endings = switch.endings();
        assert_eq!((endings.len(), endings[0].port, endings[0].why), (1, SERVICE, Wrong::Session(fault)), "{wrong:?}");
        guest.send(&frame(mac(1), mac(0), 60), &[]);
        turn(&mut switch, GUEST, &mut []);
        assert_eq!((dropped(&switch, GUEST, DropReason::Down), guest.sent()), (1, 1));
    }
    // A buffer that is too small is the client's fault, not the sender's.
    let mut switch = Switch::new(ports());
    let mut guest = Driver::new(&mut switch, GUEST, true);
    let mut service = Other::new(&mut switch, SERVICE);
    service.describe(0, &descriptor(0, 100));
    service.feed(&mut switch, RX, &[0]).unwrap();
    guest.send(&frame(mac(1), mac(0), 60), &[]);
    turn(&mut switch, GUEST, &mut [&mut service]);
    assert_eq!(switch.endings()[0].why, Wrong::Session(Fault::Length));
    assert!(switch.guest(GUEST).is_some());
    // Numbers that it has no right to.
    for numbers in [&[COUNT][..], &[1, 1], &[u16::MAX]] {
        let service = Other::new(&mut switch, SERVICE);
        assert_eq!(service.feed(&mut switch, TX, numbers), Err(Fault::Number));
    }
    let service = Other::new(&mut switch, SERVICE);
    service.feed(&mut switch, RX, &[1]).unwrap();
    assert_eq!(service.feed(&mut switch, TX, &[1]), Err(Fault::Number));
}

/// A frame that waits for buffers of the service comes as it was, and before the next.
#[test]
fn a_frame_waits() {
    let mut switch = Switch::new(ports());
    let mut guest = Driver::new(&mut switch, GUEST, true);
    let mut service = Other::new(&mut switch, SERVICE);
    for (next, len) in (0..40_u16).zip(60..) {
        guest.send(&frame(mac(1), mac(0), len), &[]);
        service.feed(&mut switch, RX, &[next % 4]).unwrap();
        turn(&mut switch, GUEST, &mut [&mut service]);
        assert_eq!(service.got[RX].pop(), Some(next % 4));
        service.fill(next % 4, &[], BUFFER);
    }
    guest.send(&frame(mac(1), mac(0), 500), &[]);
    guest.send(&frame(mac(1), mac(0), 501), &[]);
    assert_eq!(switch.turn(GUEST, Budget::of(64)).waits_for, Some(SERVICE));
    service.feed(&mut switch, RX, &[0, 1]).unwrap();
    turn(&mut switch, GUEST, &mut [&mut service]);
    assert_eq!(service.got[RX], [0, 1]);
    assert_eq!((service.frame(0).len(), service.frame(1).len()), (500, 501));
}
