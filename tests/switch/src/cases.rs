//! What a switch must do for guests that keep the rules, and what it must refuse.

use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use vhost_user::{
    BACKEND_REQ, NO_HANDLE, PROTOCOL_FEATURES, REPLY_ACK, Region as Described, Request, VERSION_1, VringState,
};
use zx::{AsHandleRef, Channel, Event, Handle, MonotonicInstant, Rights, Signals, Status, Vmo};

use crate::frames::{Random, TELLING, make, read};
use crate::guest::{BASE, Front, Guest, MEMORY, NET_HEADER, OFFLOADS, counted};

/// The service.
pub const SWITCH: &str = "switch";
const BROADCAST: [u8; 6] = [0xff; 6];

/// Random parts of a frame.
pub fn parts(random: &mut Random, len: usize) -> Vec<usize> {
    let count = random.below(8);
    (0..count).map(|_| random.below(len as u64 / 2 + 2) as usize + 1).collect()
}

/// A random length: often a usual one, sometimes any.
pub fn length(random: &mut Random) -> usize {
    match random.below(8) {
        0 => 14 + random.below(65_550 - 13) as usize,
        1 => 14 + random.below(30) as usize,
        2..=4 => 1514,
        _ => 14 + random.below(1501) as usize,
    }
}

/// Frames of many lengths in both directions, in order and unchanged; and a broadcast.
pub fn function() {
    let (mut a, mut b) = (Guest::new(SWITCH, "a"), Guest::new(SWITCH, "b"));
    let mut random = Random(7);
    let lens = [14, 15, 60, 127, 128, 129, 140, 1513, 1514, 1518, 4096, 9014, 65_549, 65_550];
    for sequence in 0..1000 {
        let len = lens.get(sequence as usize).copied().unwrap_or_else(|| length(&mut random));
        let (from, to) = if u64::is_multiple_of(sequence, 2) { (&mut a, &mut b) } else { (&mut b, &mut a) };
        let frame = make(to.mac, from.mac, 1, sequence, len);
        let lens = parts(&mut random, len);
        assert!(from.send(&frame, &lens, random.below(2) == 0), "no room");
        from.publish_tx();
        let got = to.wait();
        assert!(got == frame, "frame {sequence} of {len} bytes came as {} bytes", got.len());
        assert_eq!(read(&got), (len >= TELLING).then_some((1, sequence)));
        from.reap();
    }
    // A burst, longer than a turn of the switch.
    for sequence in 0..200 {
        assert!(a.send(&make(b.mac, a.mac, 1, sequence, 1514), &[], false), "no room");
    }
    a.publish_tx();
    for sequence in 0..200 {
        assert_eq!(read(&b.wait()), Some((1, sequence)));
    }
    let mut c = Guest::new(SWITCH, "c");
    let frame = make(BROADCAST, a.mac, 1, 5000, 60);
    a.send(&frame, &[], false);
    a.publish_tx();
    assert!(b.wait() == frame && c.wait() == frame, "a broadcast");
    assert!(a.receive().is_none(), "a broadcast came back");
    println!("1201 frames came as they were sent");
}

/// A frame of TCP over IPv4 with this many bytes of data, and with the sum of the pseudo header in place of its own.
pub fn segment(to: [u8; 6], from: [u8; 6], data: usize) -> Vec<u8> {
    let mut frame = [&to[..], &from, &[8, 0]].concat();
    let len = (40 + data) as u16;
    frame.extend([0x45, 0]);
    frame.extend(len.to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0, 80, 0, 90, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0]);
    // 10.0.0.1, 10.0.0.2, TCP, and the length of header and data.
    let pseudo = 0x0a00 + 1 + 0x0a00 + 2 + 6 + 20 + data as u32;
    frame.extend((((pseudo & 0xffff) + (pseudo >> 16)) as u16).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend((0..data).map(|at| (at * 13) as u8));
    frame
}

/// Whether the sum of a segment is right.
fn is_summed(frame: &[u8]) -> bool {
    let data = frame.len() - 54;
    let mut sum = 0x0a00 + 1 + 0x0a00 + 2 + 6 + 20 + data as u64;
    for pair in frame[34..].chunks(2) {
        sum += u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum == 0xffff
}

/// Large segments go to a guest that takes them, and incomplete sums are completed for one that does not.
pub fn offload() {
    let memory = || Vmo::create(MEMORY as u64, 0).expect("memory");
    let mut a = Guest::offering(SWITCH, "a", memory(), OFFLOADS);
    let mut b = Guest::offering(SWITCH, "b", memory(), OFFLOADS);
    let mut c = Guest::new(SWITCH, "c");
    // Flags, kind, bytes of the headers, of a segment, where the sum begins, where it goes; the number of buffers.
    let large = [1, 1, 54, 0, 0xa8, 5, 34, 0, 16, 0, 0, 0];
    let partial = [1, 0, 0, 0, 0, 0, 34, 0, 16, 0, 0, 0];
    for data in [2896, 30_000, 65_495] {
        let frame = segment(b.mac, a.mac, data);
        assert!(a.send_with(large, &frame, &[100, 3000], true), "no room");
        a.publish_tx();
        let got = b.wait_raw();
        assert_eq!(got[..10], large[..10], "the header of a large segment");
        assert!(got[NET_HEADER..] == frame, "a large segment");
        a.reap();
    }
    let frame = segment(b.mac, a.mac, 1001);
    assert!(!is_summed(&frame));
    assert!(a.send_with(partial, &frame, &[], false), "no room");
    a.publish_tx();
    let got = b.wait_raw();
    assert!(got[..10] == partial[..10] && got[NET_HEADER..] == frame, "an incomplete sum");
    for data in [0, 1, 74, 75, 1000, 1460] {
        let frame = segment(c.mac, a.mac, data);
        assert!(a.send_with(partial, &frame, &[60], false), "no room");
        a.publish_tx();
        let got = c.wait_raw();
        assert_eq!(got[..10], [0; 10], "a header for a guest without offloads");
        let got = &got[NET_HEADER..];
        assert!(is_summed(got), "the sum with {data} bytes");
        assert!(got[..50] == frame[..50] && got[52..] == frame[52..], "the rest with {data} bytes");
    }
    // To all: each as it needs it.
    let frame = segment(BROADCAST, a.mac, 500);
    assert!(a.send_with(partial, &frame, &[], false), "no room");
    a.publish_tx();
    assert!(is_summed(&c.wait()), "a broadcast");
    assert!(b.wait() == frame, "a broadcast");
    // A large segment for a guest that does not take it is cut.
    for data in [3000, 60_000] {
        let frame = segment(c.mac, a.mac, data);
        assert!(a.send_with(large, &frame, &[54, 700], true), "no room");
        a.publish_tx();
        let mut got = Vec::new();
        while got.len() < data {
            let part = c.wait();
            assert!(is_summed(&part), "the sum of a segment");
            assert_eq!(part.len() - 54, (data - got.len()).min(1448));
            got.extend_from_slice(&part[54..]);
        }
        assert!(got == frame[54..], "segments");
        a.reap();
    }
    // What is dropped: headers that lie.
    let sent = counted(SWITCH, "a", "sent");
    let lies = [
        (segment(b.mac, a.mac, 3000), [1, 1, 54, 0, 0, 0, 34, 0, 16, 0, 0, 0]),
        (segment(b.mac, a.mac, 300), [1, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0]),
    ];
    for (frame, header) in &lies {
        assert!(a.send_with(*header, frame, &[], false), "no room");
        a.publish_tx();
    }
    until("a", "sent", sent + 2);
    assert_eq!(counted(SWITCH, "a", "offload"), 2, "frames that were dropped");
    println!("16 frames and segments");
}

/// Waits until a port's number has this value.
pub fn until(port: &str, what: &str, value: u64) {
    while counted(SWITCH, port, what) != value {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Source addresses and rules: what is not allowed is dropped and counted, and goes nowhere.
pub fn rules() {
    let [mut a, mut b, mut c, mut d] = ["a", "b", "c", "d"].map(|port| Guest::new(SWITCH, port));
    let macs = [a.mac, b.mac, c.mac, d.mac];
    assert!((1..4).all(|at| !macs[..at].contains(&macs[at])), "two ports have one address");
    let mut sent = [0; 4];
    let mut one = |guest: &mut Guest, port: usize, (to, from): ([u8; 6], [u8; 6]), reason: &str| {
        let name = ["a", "b", "c", "d"][port];
        let before = counted(SWITCH, name, reason);
        assert!(guest.send(&make(to, from, 9, 9, 60), &[], false), "no room");
        guest.publish_tx();
        sent[port] += 1;
        until(name, "sent", sent[port]);
        assert_eq!(counted(SWITCH, name, reason), before + 1, "{name} {to:?} {from:?} {reason}");
        guest.reap();
    };
    // The source must be the port's.
    one(&mut a, 0, (macs[1], macs[1]), "source");
    one(&mut a, 0, (macs[1], macs[2]), "source");
    one(&mut a, 0, (BROADCAST, [0; 6]), "source");
    one(&mut a, 0, (macs[1], BROADCAST), "source");
    // Nobody has that address; and no frame goes back.
    one(&mut a, 0, ([2, 9, 9, 9, 9, 9], macs[0]), "unknown");
    one(&mut a, 0, (macs[0], macs[0]), "unknown");
    // d and a may send to each other, and d to nobody else, nor anybody else to d.
    one(&mut d, 3, (macs[1], macs[3]), "rule");
    one(&mut d, 3, (macs[2], macs[3]), "rule");
    one(&mut b, 1, (macs[3], macs[1]), "rule");
    one(&mut d, 3, (macs[0], macs[3]), "delivered");
    assert_eq!(read(&a.wait()), Some((9, 9)));
    one(&mut a, 0, (macs[3], macs[0]), "delivered");
    assert_eq!(read(&d.wait()), Some((9, 9)));
    // A broadcast goes where the sender may send.
    assert!(d.send(&make(BROADCAST, macs[3], 9, 10, 60), &[], false), "no room");
    d.publish_tx();
    assert_eq!(read(&a.wait()), Some((9, 10)));
    for guest in [&mut a, &mut b, &mut c, &mut d] {
        assert!(guest.receive().is_none(), "a frame went where it may not");
    }
    // A port has one guest.
    let second = Front::new(SWITCH, "a");
    assert_eq!(second.ask(&Request::GetFeatures, Vec::new()), Err(Status::PEER_CLOSED));
    let other = Front::new(SWITCH, "not-mine");
    assert_eq!(other.ask(&Request::GetFeatures, Vec::new()), Err(Status::PEER_CLOSED));
    let other = Front::new(SWITCH, "nothing");
    assert_eq!(other.ask(&Request::GetFeatures, Vec::new()), Err(Status::PEER_CLOSED));
    println!("11 frames, one destination each or none");
}

/// The channel closes, perhaps after an answer.
pub fn closes(front: &Front) {
    let signals = front.channel.wait_one(Signals::CHANNEL_PEER_CLOSED, MonotonicInstant::INFINITE);
    assert!(signals.is_ok_and(|signals| signals.contains(Signals::CHANNEL_PEER_CLOSED)));
}

/// A connection that has negotiated.
fn negotiated(port: &str) -> Front {
    let front = Front::new(SWITCH, port);
    front.tell(&Request::SetProtocolFeatures(REPLY_ACK | BACKEND_REQ), Vec::new()).expect("a connection");
    front.must(&Request::SetFeatures(VERSION_1 | PROTOCOL_FEATURES), Vec::new());
    front
}

/// Sends a request with these handles, and expects that the connection ends.
fn refused(what: &str, request: &Request, handles: Vec<Handle>) {
    let front = negotiated("b");
    let answer = front.ask(request, handles);
    let told = answer == Ok(vec![1, 0, 0, 0, 0, 0, 0, 0]) || answer == Err(Status::PEER_CLOSED);
    assert!(told, "{what}: {answer:?}");
    closes(&front);
}

/// Objects of other types, VMOs that are no ordinary ones, and too few rights.
pub fn refusals() {
    let region = |size: u64| Described { guest_address: BASE, size, user_address: BASE, offset: 0 };
    let table = Request::SetMemTable(vec![region(0x1_0000)]);
    let vmo = |size: u64, options: u32| Vmo::create(size, options).expect("memory");
    let event = || Event::create().expect("an event").into_handle();
    let whole = || vmo(0x1_0000, 0);
    refused("an event as memory", &table, vec![event()]);
    refused("a resizable VMO", &table, vec![vmo(0x1_0000, abi::ZX_VMO_RESIZABLE).into()]);
    refused("a discardable VMO", &table, vec![vmo(0x1_0000, abi::ZX_VMO_DISCARDABLE).into()]);
    refused("a VMO that is too small", &table, vec![vmo(0xf000, 0).into()]);
    for options in [abi::ZX_VMO_CHILD_SNAPSHOT, abi::ZX_VMO_CHILD_SLICE, abi::ZX_VMO_CHILD_REFERENCE] {
        let parent = whole();
        let size = if options == abi::ZX_VMO_CHILD_REFERENCE { 0 } else { 0x1_0000 };
        let child = parent.create_child(options, 0, size).expect("a child");
        refused("a child", &table, vec![child.into()]);
    }
    for missing in [Rights::READ, Rights::WRITE, Rights::MAP] {
        let all = Rights::from_bits_retain(abi::ZX_DEFAULT_VMO_RIGHTS.bits());
        let less = whole().replace(all - missing).expect("fewer rights");
        refused("a VMO with too few rights", &table, vec![less.into()]);
    }
    refused("no handle", &table, Vec::new());
    refused("two handles", &table, vec![whole().into(), whole().into()]);
    refused(
        "more memory than a port may have",
        &Request::SetMemTable(vec![region(8 << 30)]),
        vec![vmo(8 << 30, 0).into()],
    );
    let far = Described { guest_address: 1 << 60, ..region(0x1000) };
    refused(
        "regions far apart",
        &Request::SetMemTable(vec![region(0x1000), far]),
        vec![whole().into(), whole().into()],
    );
    let kick = Request::SetVringKick(1);
    refused("a VMO as a kick", &kick, vec![whole().into()]);
    refused("a port as a kick", &kick, vec![zx::Port::create().expect("a port").into()]);
    for missing in [Rights::WAIT, Rights::SIGNAL] {
        let all = Rights::from_bits_retain(abi::ZX_DEFAULT_EVENT_RIGHTS.bits());
        let less = Event::from(event()).replace(all - missing).expect("fewer rights");
        refused("a kick with too few rights", &kick, vec![less.into()]);
    }
    refused(
        "a call that cannot be signalled",
        &Request::SetVringCall(0, true),
        vec![Event::from(event()).replace(Rights::WAIT | Rights::TRANSFER).expect("fewer rights").into()],
    );
    let request = Request::SetBackendReqFd;
    refused("an event as a channel", &request, vec![event()]);
    let channels = || Channel::create().expect("a channel");
    let all = Rights::READ | Rights::WRITE | Rights::WAIT | Rights::TRANSFER;
    for missing in [Rights::READ, Rights::WRITE, Rights::WAIT] {
        let (_ours, theirs) = channels();
        let less = theirs.replace(all - missing).expect("fewer rights");
        refused("a channel with too few rights", &request, vec![less.into()]);
    }
    // The switch would hold both ends, which then never close.
    let (front, other) = (negotiated("b"), negotiated("a"));
    front.channel.write_handles(&request.to_bytes(true), [other.channel.into_handle()]).expect("a message");
    closes(&front);
    // It keeps a channel until the connection ends.
    let (ours, theirs) = channels();
    let front = negotiated("b");
    front.must(&request, vec![theirs.into()]);
    drop(front);
    ours.wait_one(Signals::CHANNEL_PEER_CLOSED, MonotonicInstant::INFINITE).expect("its end");
    refused("an unknown queue", &Request::SetVringNum(VringState { index: 2, number: 16 }), Vec::new());
    // A message that is none.
    let front = negotiated("b");
    front.channel.write(&[1, 2, 3], []).expect("a message");
    closes(&front);
    let front = negotiated("b");
    let mut bytes = Request::SetVringKick(1).to_bytes(false);
    bytes[12..20].copy_from_slice(&(1 | NO_HANDLE).to_le_bytes());
    front.channel.write(&bytes, []).expect("a message");
    closes(&front);
    // After all that, the port is free, and works.
    let (mut a, mut b) = (Guest::new(SWITCH, "a"), Guest::new(SWITCH, "b"));
    let frame = make(a.mac, b.mac, 2, 3, 300);
    b.send(&frame, &[], false);
    b.publish_tx();
    assert!(a.wait() == frame, "a frame");
    println!("{} refusals", counted(SWITCH, "b", "faults"));
}

/// A process that is a guest at a port, and sends until it is killed. Its frames tell which of these processes it is.
pub fn guest(port: &str, life: u8) {
    let mut guest = Guest::new(SWITCH, port);
    let to = [2, 0, 0, 0, 1, 1];
    for sequence in 0.. {
        while !guest.send(&make(to, guest.mac, life, sequence, 1514), &[], false) {
            guest.publish_tx();
            guest.wait_queue(1, 0);
            guest.reap();
        }
        if u64::is_multiple_of(sequence, 16) {
            guest.publish_tx();
        }
    }
}

/// Guests are killed while they send; another one takes the port, and what it sends comes. What was on its way is whole,
/// and in order: nothing of an earlier guest comes after the next one's first frame.
pub fn kill(times: u8) {
    let mut a = Guest::new(SWITCH, "a");
    assert_eq!(a.mac, [2, 0, 0, 0, 1, 1], "the address that `guest` sends to");
    let start = |life: u8| -> Child {
        let mut command = Command::new("/boot/bin/switch-check");
        command.args(["guest", "c", &life.to_string()]).spawn().expect("a process")
    };
    let mut last = None;
    for life in 1..=times {
        let mut child = start(life);
        let mut come = 0;
        while come < 50 + u32::from(life) * 37 {
            let next = read(&a.wait());
            assert!(next.is_some() && last < next, "{next:?} after {last:?}");
            come += u32::from(next.is_some_and(|(source, _)| source == life));
            last = next;
        }
        child.kill().expect("killed");
        child.wait().expect("ended");
    }
    println!("a guest was killed {times} times");
}

/// Frames of all lengths over three ports, in random chains, while the guest at the fourth comes and goes.
pub fn soak(seed: u64, count: u64) {
    let mut random = Random(seed);
    let mut guests = ["a", "b", "c"].map(|port| Guest::new(SWITCH, port));
    let macs: Vec<[u8; 6]> = guests.iter().map(|guest| guest.mac).collect();
    // The last sequence that came, by receiver and sender.
    let mut last = [[0_u64; 3]; 3];
    let mut received = 0_u64;
    let mut fourth: Option<Guest> = None;
    let mut sequence = 0;
    let mut short = 0_u64;
    let before: Vec<u64> = ["a", "b", "c"].iter().map(|port| counted(SWITCH, port, "delivered")).collect();
    while sequence < count {
        for from in 0..3 {
            for _ in 0..=random.below(12) {
                sequence += 1;
                let to = (from + 1 + random.below(2) as usize) % 3;
                let len = length(&mut random);
                let frame = make(macs[to], macs[from], from as u8, sequence, len);
                let lens = parts(&mut random, len);
                let indirect = random.below(2) == 0;
                if !guests[from].send(&frame, &lens, indirect) {
                    sequence -= 1;
                    break;
                }
            }
            guests[from].publish_tx();
        }
        // All have been taken before the next ones are made, whose bytes are at the same places.
        for guest in &mut guests {
            while guest.tx.room() < 256 {
                if guest.reap() == 0 {
                    guest.wait_queue(1, 0);
                }
            }
        }
        for to in 0..3 {
            while let Some(frame) = guests[to].receive() {
                received += 1;
                let Some((from, sequence)) = read(&frame) else {
                    short += 1;
                    continue;
                };
                assert_eq!(frame[..6], macs[to], "a frame for another port");
                let last = &mut last[to][usize::from(from)];
                assert!(*last < sequence, "frame {sequence} from {from} to {to} came after {last}");
                *last = sequence;
            }
        }
        match (random.below(50), &fourth) {
            (0, None) => fourth = Some(Guest::new(SWITCH, "d")),
            (1, Some(_)) => fourth = None,
            _ => {}
        }
    }
    let after: Vec<u64> = ["a", "b", "c"].iter().map(|port| counted(SWITCH, port, "delivered")).collect();
    let delivered: u64 = after.iter().zip(&before).map(|(after, before)| after - before).sum();
    assert_eq!(received, delivered, "frames that were delivered");
    let dropped: u64 = ["no-buffer", "too-long", "down"]
        .iter()
        .flat_map(|reason| ["a", "b", "c"].map(|port| counted(SWITCH, port, reason)))
        .sum();
    assert_eq!(received + dropped, sequence, "frames that were counted");
    println!("{sequence} frames, {received} received ({short} short ones), {dropped} dropped for want of buffers");
}
