//! What the switch costs: instructions for a frame of 1,514 bytes from guest to guest.
//!
//! `measure MODE…` prints for each mode `figure switch_MODE instructions MEAN MIN MAX SAMPLES`, and the calls to the kernel
//! for each frame. The service `switch-MODE` runs in that mode. The machine counts instructions as time, so a figure is
//! what the machine did between a guest's last access to its queue and the next guest's first one: switch, kernel, server.
//! What the two guests themselves did is left out.

use std::time::{Duration, Instant};

use virtqueue::{Buffer, Memory};

use crate::frames::make;
use crate::guest::{BUFFER, Guest, NET_HEADER, TX_BUFFERS, counted};

/// Frames that are sent at a time.
const BURST: u64 = 128;
const LENGTH: usize = 1514;
const SAMPLES: u32 = 8;

/// Sends a burst, and waits until all of it has come. Returns the time without that of the guests.
fn burst(a: &mut Guest, b: &mut Guest) -> Duration {
    let start = Instant::now();
    for number in 0..BURST {
        let buffer =
            Buffer { at: TX_BUFFERS + number * u64::from(BUFFER), len: (NET_HEADER + LENGTH) as u32, write: false };
        a.tx.add(&a.ram, &[buffer], None).expect("own memory").expect("room");
    }
    let wanted = a.tx.publish(&a.ram).expect("own memory");
    let mut of_guests = start.elapsed();
    if wanted {
        a.kick(1);
    }
    let mut come = 0;
    while come < BURST {
        b.wait_queue(0, (BURST - come - 1) as u16);
        let drains = Instant::now();
        while let Some((head, _)) = b.rx.take(&b.ram).expect("own memory") {
            let at = b.place_of(head.expect("its own buffer"));
            b.refill(at);
            come += 1;
        }
        b.publish_rx();
        of_guests += drains.elapsed();
    }
    let reaps = Instant::now();
    let mut reaped = a.reap() as u64;
    of_guests += reaps.elapsed();
    while reaped < BURST {
        a.wait_queue(1, (BURST - reaped - 1) as u16);
        let reaps = Instant::now();
        reaped += a.reap() as u64;
        of_guests += reaps.elapsed();
    }
    start.elapsed().saturating_sub(of_guests)
}

/// Measures a mode.
fn measure(mode: &str) {
    let service = format!("switch-{mode}");
    let (mut a, mut b) = (Guest::new(&service, "a"), Guest::new(&service, "b"));
    let frame = make(b.mac, a.mac, 1, 1, LENGTH);
    for number in 0..BURST {
        let at = TX_BUFFERS + number * u64::from(BUFFER);
        a.ram.write(at, &[0; NET_HEADER]).expect("own memory");
        a.ram.write(at + NET_HEADER as u64, &frame).expect("own memory");
    }
    for _ in 0..2 {
        burst(&mut a, &mut b);
    }
    let bursts = if mode == "remap" { 2 } else { 8 };
    let calls = counted(&service, "a", "calls");
    let (mut sum, mut min, mut max) = (0.0_f64, f64::INFINITY, 0.0_f64);
    for _ in 0..SAMPLES {
        let time: Duration = (0..bursts).map(|_| burst(&mut a, &mut b)).sum();
        let each = time.as_nanos() as f64 / (bursts * BURST) as f64;
        (sum, min, max) = (sum + each, min.min(each), max.max(each));
    }
    let frames = u64::from(SAMPLES) * bursts * BURST;
    let calls = (counted(&service, "a", "calls") - calls) as f64 / frames as f64;
    let name = mode.replace('-', "_");
    println!("figure switch_{name} instructions {:.2} {min:.0} {max:.0} {SAMPLES}", sum / f64::from(SAMPLES));
    println!("calls switch_{name} {calls:.4}");
    assert_eq!(counted(&service, "a", "no-buffer"), 0, "frames were lost");
}

/// Measures these modes.
pub fn run(modes: &[String]) {
    for mode in modes {
        measure(mode);
    }
}
