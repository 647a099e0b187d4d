//! A guest that breaks every rule, by a seed: the switch stays, and two other guests notice nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use vhost_user::{PROTOCOL_FEATURES, Region as Described, Request, VERSION_1, VringAddress, VringState};
use virtqueue::Memory;
use zx::{AsHandleRef, Channel, Event, Handle, Region, Rights, Signals, Vmo};

use crate::cases::SWITCH;
use crate::frames::{Random, make};
use crate::guest::{BASE, Guest, MEMORY, OFFLOADS, QUEUE, TABLES, TX_BUFFERS, counted, counters};

/// Mutations before the other guests are looked at.
const BETWEEN: u64 = 8;

/// Numbers at which programs go wrong.
fn odd(random: &mut Random) -> u64 {
    let end = BASE + MEMORY as u64;
    let numbers = [
        0,
        1,
        2,
        3,
        4,
        7,
        11,
        12,
        13,
        14,
        16,
        255,
        256,
        257,
        1514,
        2048,
        4095,
        4096,
        65_535,
        65_550,
        65_562,
        65_563,
        BASE,
        BASE - 1,
        TABLES,
        TX_BUFFERS,
        end - 1,
        end - 12,
        end - 16,
        end,
        end + 1,
        1 << 31,
        u32::MAX.into(),
        1 << 32,
        1 << 47,
        1 << 63,
        u64::MAX - 15,
        u64::MAX - 1,
        u64::MAX,
    ];
    match random.below(3) {
        0 => random.next(),
        1 => BASE + random.below(MEMORY as u64),
        _ => numbers[random.below(numbers.len() as u64) as usize],
    }
}

/// One change of the memory, in or around the rings.
fn change_memory(guest: &Guest, random: &mut Random) {
    let place = if random.below(4) == 0 { guest.rx.place() } else { guest.tx.place() };
    let entry = random.below(QUEUE.into());
    let (at, len) = match random.below(10) {
        // Address, length, flags, next of a descriptor.
        0 | 1 => (place.descriptors + 16 * entry, 8),
        2 => (place.descriptors + 16 * entry + 8, 4),
        3 | 4 => (place.descriptors + 16 * entry + 12, 2),
        5 => (place.descriptors + 16 * entry + 14, 2),
        // The available ring: flags, index, entries, event.
        6 => (place.available + 2 * random.below(u64::from(QUEUE) + 3), 2),
        // The used ring, which is the device's.
        7 => (place.used + 2 * random.below(4 * u64::from(QUEUE) + 3), 2),
        // A table of descriptors.
        8 => (TABLES + 2 * random.below(0x4_0000), 8),
        // A frame: virtio's header, addresses, protocols.
        _ => (TX_BUFFERS + random.below(40) * 4096 + random.below(80), 4),
    };
    let mut value = odd(random);
    if len == 2 && random.below(2) == 0 {
        // Flags, or the next few numbers.
        value = random.below(9);
    }
    guest.ram.write(at, &value.to_le_bytes()[..len]).expect("own memory");
}

/// Makes some of what is in the memory available.
fn advance(guest: &Guest, random: &mut Random) {
    let place = if random.below(4) == 0 { guest.rx.place() } else { guest.tx.place() };
    let index = guest.ram.load(place.available + 2).expect("own memory");
    let step = match random.below(16) {
        0 => random.next() as u16,
        1 => QUEUE + 1,
        2 => QUEUE,
        _ => random.below(4) as u16,
    };
    guest.ram.store(place.available + 2, index.wrapping_add(step)).expect("own memory");
    let queue = random.below(2) as usize;
    for _ in 0..=random.below(3) {
        guest.kick(queue);
    }
}

fn request(random: &mut Random) -> Request {
    let index = random.below(4) as u32;
    let state = VringState { index, number: odd(random) as u32 };
    match random.below(16) {
        0 => Request::GetFeatures,
        1 => Request::SetFeatures(if random.below(2) == 0 { VERSION_1 | PROTOCOL_FEATURES } else { odd(random) }),
        2 => Request::SetOwner,
        3 => Request::ResetOwner,
        4 | 5 => {
            let region = |random: &mut Random| Described {
                guest_address: odd(random) & !0xfff,
                size: odd(random) & !0xfff,
                user_address: odd(random),
                offset: odd(random) & !0xfff,
            };
            Request::SetMemTable((0..random.below(4)).map(|_| region(random)).collect())
        }
        6 => Request::SetVringNum(state),
        7 => Request::SetVringBase(state),
        8 => Request::SetVringAddr(VringAddress {
            index,
            flags: 0,
            descriptors: odd(random),
            used: odd(random),
            available: odd(random),
            log: 0,
        }),
        9 => Request::GetVringBase(index),
        10 => Request::SetVringKick(index),
        11 => Request::SetVringCall(index, random.below(2) == 0),
        12 => Request::SetVringEnable(index, random.below(2) == 0),
        13 => Request::SetProtocolFeatures(odd(random)),
        14 => Request::GetConfig(odd(random) as u32, random.below(300) as u32, odd(random) as u32),
        _ => Request::GetQueueNum,
    }
}

fn handle(guest: &Guest, random: &mut Random) -> Handle {
    match random.below(6) {
        0 => Vmo::create(4096, 0).expect("memory").into(),
        1 => Channel::create().expect("a channel").0.into_handle(),
        2 => zx::Port::create().expect("a port").into(),
        3 => guest.vmo.duplicate_handle(Rights::SAME_RIGHTS).expect("a handle"),
        _ => Event::create().expect("an event").into(),
    }
}

/// One message, often a wrong one. Its form may be changed, too.
fn send_message(guest: &Guest, random: &mut Random) {
    let request = request(random);
    let mut bytes = request.to_bytes(random.below(2) == 0);
    if random.below(3) == 0 {
        for _ in 0..=random.below(2) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = odd(random) as u8;
        }
    }
    if random.below(8) == 0 {
        bytes.truncate(random.below(bytes.len() as u64 + 1) as usize);
    }
    let right = match &request {
        Request::SetMemTable(regions) => regions.len() as u64,
        Request::SetVringKick(_) | Request::SetVringCall(_, true) => 1,
        _ => 0,
    };
    let count = if random.below(4) == 0 { random.below(9) } else { right };
    let handles: Vec<Handle> = (0..count).map(|_| handle(guest, random)).collect();
    let _ = guest.front.channel.write_handles(&bytes, handles);
    // Answers are not for reading here, but must not fill the channel.
    let mut answer = [0; 512];
    while guest.front.channel.read(&mut answer, &mut []).is_ok() {}
}

fn is_closed(guest: &Guest) -> bool {
    let signals = guest.front.channel.signals();
    signals.is_ok_and(|signals| signals.contains(Signals::CHANNEL_PEER_CLOSED))
}

/// Changes rings of a memory while others use them, until it is told to stop.
fn race(vmo: &Vmo, seed: u64, stop: &Arc<AtomicBool>) -> thread::JoinHandle<()> {
    let vmo = vmo.duplicate(Rights::SAME_RIGHTS).expect("a handle");
    let stop = stop.clone();
    thread::spawn(move || {
        let region = Region::new(0x9_0000).expect("addresses");
        region.map(0, &vmo, 0, 0x9_0000).expect("a mapping");
        let mut random = Random(seed);
        while !stop.load(Ordering::Relaxed) {
            for _ in 0..64 {
                let at = random.below(0x8000) as usize & !1;
                let _ = region.store(at, random.below(300) as u16);
            }
            thread::sleep(std::time::Duration::from_micros(200));
        }
    })
}

/// Lets the other guests exchange a frame. The hostile one may fill the receiver's buffers before; then the frame is lost,
/// which is counted, and is sent again.
fn look(a: &mut Guest, b: &mut Guest, sequence: u64) {
    let len = 60 + (sequence % 1400) as usize;
    let frame = make(b.mac, a.mac, 1, sequence, len);
    for _ in 0..1000 {
        assert!(a.send(&frame, &[12], sequence.is_multiple_of(2)), "no room");
        a.publish_tx();
        while a.reap() == 0 {
            a.wait_queue(1, 0);
        }
        while let Some(got) = a.receive() {
            assert_ne!(got[6..12], b.mac, "a frame that nobody has sent");
        }
        let mut came = false;
        while let Some(got) = b.receive() {
            // What the hostile guest sends to it is not from `a`.
            if got[6..12] == a.mac {
                assert!(got == frame && !came, "a frame of an honest guest has changed, or came twice");
                came = true;
            }
        }
        if came {
            return;
        }
    }
    panic!("a frame was lost a thousand times");
}

/// Does this many mutations.
pub fn run(seed: u64, count: u64) {
    let mut random = Random(seed);
    let (mut a, mut b) = (Guest::new(SWITCH, "a"), Guest::new(SWITCH, "b"));
    let (mut done, mut attached, mut sequence) = (0, 0_u64, 0);
    while done < count {
        let memory = Vmo::create(MEMORY as u64, 0).expect("memory");
        let further = if random.below(2) == 0 { OFFLOADS } else { 0 };
        let mut c = Guest::offering(SWITCH, "c", memory, further);
        attached += 1;
        // Some good frames first, which later mutations change.
        for number in 0..40 {
            let to = if number % 3 == 0 { [0xff; 6] } else { b.mac };
            let frame = make(to, c.mac, 3, number, 60 + number as usize);
            assert!(c.send(&frame, &[12, 14], number % 2 == 0), "no room");
        }
        c.publish_tx();
        let stop = Arc::new(AtomicBool::new(false));
        let racer = (random.below(8) == 0).then(|| race(&c.vmo, random.next(), &stop));
        let talks = random.below(3) == 0;
        for step in 0..random.below(200) {
            if talks && random.below(4) == 0 {
                send_message(&c, &mut random);
            } else {
                for _ in 0..=random.below(4) {
                    change_memory(&c, &mut random);
                }
                advance(&c, &mut random);
            }
            done += 1;
            if step % BETWEEN == 0 {
                sequence += 1;
                look(&mut a, &mut b, sequence);
                if is_closed(&c) {
                    break;
                }
            }
        }
        if random.below(32) == 0 {
            c.vmo.op_range(abi::ZX_VMO_OP_DECOMMIT, 0, MEMORY as u64).expect("decommitted");
            c.kick(1);
        }
        stop.store(true, Ordering::Relaxed);
        if let Some(racer) = racer {
            racer.join().expect("the thread");
        }
        drop(c);
        sequence += 1;
        look(&mut a, &mut b, sequence);
    }
    for port in ["a", "b"] {
        assert_eq!(counted(SWITCH, port, "faults"), 0, "an honest guest was blamed");
    }
    let spoofed = counted(SWITCH, "c", "source");
    let all = counters(SWITCH);
    assert!(counted(SWITCH, "c", "faults") > 0, "no mutation was noticed");
    println!("{done} mutations, {attached} guests, {} faults, {spoofed} wrong sources", counted(SWITCH, "c", "faults"));
    println!("{all:?}");
}
