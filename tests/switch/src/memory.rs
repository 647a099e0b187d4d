//! Guests whose memory goes away, or is more than the switch can have mapped.

use vhost_user::{Region as Described, Request};
use virtqueue::{Buffer, DriverRing, Memory};
use zx::{AsHandleRef, Rights, Vmo};

use crate::cases::{SWITCH, closes, until};
use crate::frames::{make, read};
use crate::guest::{BASE, Guest, MEMORY, NET_HEADER, TX_BUFFERS, counted};

/// An address between the regions of [`with_regions`].
const HOLE: u64 = BASE + (32 << 20);
/// Pages that [`pages`] has the switch read, and how much memory they are in.
const PAGES: u64 = 100_000;
const LARGE: u64 = 448 << 20;
const PAGE: u64 = 4096;

/// A guest at a port with new queues, that has these regions, each with its VMO. The first one is the guest's own.
fn with_regions(port: &str, regions: Vec<Described>, others: &[&Vmo], vmo: Vmo) -> Guest {
    let mut guest = Guest::with(SWITCH, port, vmo);
    for queue in 0..2 {
        guest.front.must(&Request::SetVringEnable(queue, false), Vec::new());
    }
    let handle = |vmo: &Vmo| vmo.duplicate_handle(Rights::SAME_RIGHTS).expect("a handle");
    let handles = [&guest.vmo].into_iter().chain(others.iter().copied()).map(handle).collect();
    guest.front.must(&Request::SetMemTable(regions), handles);
    guest.vmo.op_range(abi::ZX_VMO_OP_ZERO, 0, 0x1_0000).expect("zeroes");
    let ring = |at: u64| DriverRing::new(at, 256, true);
    (guest.rx, guest.tx) = (ring(BASE), ring(BASE + 0x4000));
    guest.set_queues();
    guest
}

/// A region at this address, from the beginning of its VMO.
fn region(guest_address: u64, size: u64) -> Described {
    Described { guest_address, size, user_address: guest_address, offset: 0 }
}

fn vmo(size: u64) -> Vmo {
    Vmo::create(size, 0).expect("memory")
}

/// A guest takes its memory away in different ways while the switch uses it: the switch stays, and so do the others.
pub fn gone() {
    let mut a = Guest::new(SWITCH, "a");
    // Its own memory's pages are given back: the rings are zero then, and its index leaps.
    let mut b = Guest::new(SWITCH, "b");
    for sequence in 0..20 {
        assert!(b.send(&make(a.mac, b.mac, 3, sequence, 1514), &[], false), "no room");
    }
    b.publish_tx();
    assert_eq!(read(&a.wait()), Some((3, 0)));
    b.vmo.op_range(abi::ZX_VMO_OP_DECOMMIT, 0, MEMORY as u64).expect("decommitted");
    b.kick(1);
    drop(b);
    // Memory with a hole: a second region far behind the first. A frame is in what is between them.
    let other = vmo(PAGE);
    let with_hole = || {
        with_regions(
            "c",
            vec![region(BASE, MEMORY as u64), region(BASE + (64 << 20), PAGE)],
            &[&other],
            vmo(MEMORY as u64),
        )
    };
    let mut c = with_hole();
    let hole = Buffer { at: HOLE, len: 100, write: false };
    c.tx.add(&c.ram, &[hole], None).expect("own memory");
    let faults = counted(SWITCH, "c", "faults");
    c.publish_tx();
    closes(&c.front);
    until("c", "faults", faults + 1);
    drop(c);
    // The end of a frame is in the hole, and its beginning is not: the receiver gets nothing, and its buffer is not lost.
    let mut c = with_hole();
    let frame = make(a.mac, c.mac, 3, 77, 1514);
    c.ram.write(TX_BUFFERS, &[&[0; NET_HEADER], &frame[..]].concat()).expect("own memory");
    let begins = Buffer { at: TX_BUFFERS, len: 200, write: false };
    c.tx.add(&c.ram, &[begins, Buffer { len: 1326, ..hole }], None).expect("own memory");
    c.publish_tx();
    closes(&c.front);
    drop(c);
    // The end of a receiver's buffer is in the hole: the receiver is at fault, and the sender is not.
    let mut c = with_hole();
    let faults = counted(SWITCH, "c", "faults");
    let begins = Buffer { at: TX_BUFFERS, len: 200, write: true };
    c.rx.add(&c.ram, &[begins, Buffer { len: 2000, write: true, ..hole }], None).expect("own memory");
    c.publish_rx();
    assert!(a.send(&make(c.mac, a.mac, 3, 78, 1514), &[], false), "no room");
    a.publish_tx();
    closes(&c.front);
    until("c", "faults", faults + 1);
    drop(c);
    // The others go on. What came of the first guest's frames is whole.
    let mut b = Guest::new(SWITCH, "b");
    let frame = make(a.mac, b.mac, 3, 1000, 1514);
    b.send(&frame, &[], false);
    b.publish_tx();
    loop {
        match read(&a.wait()) {
            Some((3, 1000)) => break,
            Some((3, sequence)) => assert!((1..20).contains(&sequence), "frame {sequence}"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(counted(SWITCH, "a", "faults"), 0, "an honest guest was blamed");
    println!("memory went four times");
}

/// A guest sends what is in ever other pages of a memory that it has not paid for: the switch, whose job has a limit, needs
/// no more memory for that, and the guests are not detached.
pub fn pages() {
    let (mut a, mut b) = (Guest::new(SWITCH, "a"), Guest::new(SWITCH, "b"));
    let mut c = with_regions("c", vec![region(BASE, LARGE)], &[], vmo(LARGE));
    for page in 0..PAGES {
        // Pages of zeroes: the source address is wrong.
        let at = BASE + MEMORY as u64 + page * PAGE;
        let buffer = Buffer { at, len: 100, write: false };
        while c.tx.add(&c.ram, &[buffer], None).expect("own memory").is_none() {
            c.publish_tx();
            c.wait_queue(1, 0);
            c.reap();
        }
    }
    c.publish_tx();
    until("c", "source", PAGES);
    let frame = make(b.mac, a.mac, 4, 1, 1514);
    assert!(a.send(&frame, &[], false), "no room");
    a.publish_tx();
    assert!(b.wait() == frame, "a frame");
    for port in ["a", "b", "c"] {
        assert_eq!(counted(SWITCH, port, "faults"), 0, "guest {port}");
    }
    println!("{PAGES} pages");
}
