//! Signals and charges of datagrams, which change with few of them only.

use super::*;
use crate::ipc::socket::CAPACITY;

/// After each datagram that is written or read, both ends have the signals that their queues demand.
#[test]
fn signals_follow_each_datagram() {
    let room = 3 * PAGE as usize + 5;
    for (write_threshold, read_threshold) in [(0, 0), (room, 0), (CAPACITY, 0), (0, 2 * PAGE as usize), (room, 1)] {
        let mut w = World::new(0);
        let (a, b) = w.kernel.socket_create(true).unwrap();
        let (_a, _b) = (w.give(a), w.give(b));
        w.kernel.socket_set_threshold(a, false, write_threshold).unwrap();
        w.kernel.socket_set_threshold(b, true, read_threshold).unwrap();
        let check = |w: &World, held: usize, any: bool| {
            let [of_a, of_b] = [a, b].map(|end| w.kernel.signals(end.object()));
            let free = CAPACITY - held;
            assert_eq!(of_a.contains(Signals::SOCKET_WRITABLE), free > 0, "{held}");
            let fits = write_threshold > 0 && free >= write_threshold;
            assert_eq!(of_a.contains(Signals::SOCKET_WRITE_THRESHOLD), fits, "{held}");
            assert_eq!(of_b.contains(Signals::SOCKET_READABLE), any, "{held}");
            let enough = read_threshold > 0 && held >= read_threshold;
            assert_eq!(of_b.contains(Signals::SOCKET_READ_THRESHOLD), enough, "{held}");
        };
        check(&w, 0, false);
        // One without bytes is a datagram, too.
        w.kernel.socket_write(a, w.aspace, USER_BASE, 0).unwrap();
        check(&w, 0, true);
        w.kernel.socket_read(b, w.aspace, USER_BASE, 1, false).unwrap();
        check(&w, 0, false);
        let lens = (0..CAPACITY / PAGE as usize).map(|at| PAGE as usize - usize::from(at % 3 == 1));
        let mut lens: Vec<usize> = lens.collect();
        lens.push(CAPACITY - lens.iter().sum::<usize>());
        let mut held = 0;
        for len in &lens {
            w.kernel.socket_write(a, w.aspace, USER_BASE, *len).unwrap();
            held += len;
            check(&w, held, true);
        }
        assert_eq!(held, CAPACITY);
        for (at, len) in lens.iter().enumerate() {
            assert_eq!(w.kernel.socket_read(b, w.aspace, USER_BASE, PAGE as usize, false), Ok(*len));
            held -= len;
            check(&w, held, at + 1 < lens.len());
        }
    }
}

/// What a burst changes is few: the charge grows in steps, and what is left after it is small.
#[test]
fn a_burst_changes_the_charge_a_few_times() {
    let mut w = World::new(0);
    let (a, b) = w.kernel.socket_create(true).unwrap();
    let (_a, _b) = (w.give(a), w.give(b));
    let job = w.kernel.root_job().unwrap();
    let used = |w: &World| w.kernel.job_memory(job).unwrap().0;
    let before = used(&w);
    let burst = |w: &mut World| {
        let (mut changes, mut last) = (0, used(w));
        let mut look = |w: &World| {
            let now = used(w);
            changes += u32::from(now != last);
            last = now;
        };
        for _ in 0..32 {
            w.kernel.socket_write(a, w.aspace, USER_BASE, 1500).unwrap();
            look(w);
        }
        assert!(used(w) - before >= 32 * 1500);
        for _ in 0..32 {
            w.kernel.socket_read(b, w.aspace, USER_BASE, 1500, false).unwrap();
            look(w);
        }
        changes
    };
    burst(&mut w);
    // The bytes are counted now.
    let changes = burst(&mut w);
    assert!(changes <= 16, "64 calls changed it {changes} times");
    assert!(used(&w) - before <= 16 << 10, "{} bytes are charged for nothing", used(&w) - before);
}
