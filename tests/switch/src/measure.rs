//! What the switch costs: instructions for a frame of 1,514 bytes from guest to guest.
//!
//! `measure MODE…` prints for each mode `figure switch_MODE instructions MEAN MIN MAX SAMPLES`, and the calls to the kernel
//! for each frame. The service `switch-MODE` runs in that mode. The machine counts instructions as time, so a figure is
//! what the machine did between a guest's last access to its queue and the next guest's first one: switch, kernel, server.
//! What the two guests themselves did is left out. In the mode `offload` the frames are large segments, of which each
//! stands for the frames that it would be cut into.

use std::time::{Duration, Instant};

use virtqueue::{Buffer, Memory};
use zx::Vmo;

use crate::cases::segment;
use crate::frames::make;
use crate::guest::{BUFFER, Guest, MEMORY, NET_HEADER, OFFLOADS, TX_BUFFERS, counted};

/// Bytes of a frame, and of TCP's data in it.
const LENGTH: usize = 1514;
const DATA: usize = 1460;
const SAMPLES: u32 = 8;

/// What a burst is.
struct Load {
    /// What is sent.
    header: [u8; NET_HEADER],
    frame: Vec<u8>,
    /// How often.
    count: u64,
    /// How many frames of [`LENGTH`] each stands for.
    each: u64,
}

impl Load {
    fn of(mode: &str, a: &Guest, b: &Guest) -> Load {
        if mode == "offload" {
            let header = [1, 1, 54, 0, 0xb4, 5, 34, 0, 16, 0, 0, 0];
            return Load { header, frame: segment(b.mac, a.mac, 44 * DATA), count: 7, each: 44 };
        }
        Load { header: [0; NET_HEADER], frame: make(b.mac, a.mac, 1, 1, LENGTH), count: 128, each: 1 }
    }

    fn len(&self) -> u64 {
        (NET_HEADER + self.frame.len()) as u64
    }

    /// Where the frame with this number is.
    fn at(&self, number: u64) -> u64 {
        TX_BUFFERS + number * self.len().next_multiple_of(BUFFER.into())
    }

    /// Buffers of the receiver that the burst fills.
    fn buffers(&self) -> u64 {
        self.count * self.len().div_ceil(BUFFER.into())
    }
}

/// Sends a burst, and waits until all of it has come. Returns the time without that of the guests.
fn burst(a: &mut Guest, b: &mut Guest, load: &Load) -> Duration {
    let start = Instant::now();
    for number in 0..load.count {
        let buffer = Buffer { at: load.at(number), len: load.len() as u32, write: false };
        a.tx.add(&a.ram, &[buffer], None).expect("own memory").expect("room");
    }
    let wanted = a.tx.publish(&a.ram).expect("own memory");
    let mut of_guests = start.elapsed();
    if wanted {
        a.kick(1);
    }
    let mut left = load.buffers();
    while left > 0 {
        b.wait_queue(0, (left - 1) as u16);
        let drains = Instant::now();
        while let Some((head, _)) = b.rx.take(&b.ram).expect("own memory") {
            let at = b.place_of(head.expect("its own buffer"));
            b.refill(at);
            left -= 1;
        }
        b.publish_rx();
        of_guests += drains.elapsed();
    }
    let mut left = load.count;
    loop {
        let reaps = Instant::now();
        left -= a.reap() as u64;
        of_guests += reaps.elapsed();
        if left == 0 {
            break;
        }
        a.wait_queue(1, (left - 1) as u16);
    }
    start.elapsed().saturating_sub(of_guests)
}

/// Measures a mode.
fn measure(mode: &str) {
    let service = format!("switch-{mode}");
    let guest = |port: &str| {
        let memory = Vmo::create(MEMORY as u64, 0).expect("memory");
        Guest::offering(&service, port, memory, if mode == "offload" { OFFLOADS } else { 0 })
    };
    let (mut a, mut b) = (guest("a"), guest("b"));
    let load = Load::of(mode, &a, &b);
    for number in 0..load.count {
        a.ram.write(load.at(number), &load.header).expect("own memory");
        a.ram.write(load.at(number) + NET_HEADER as u64, &load.frame).expect("own memory");
    }
    for _ in 0..4 {
        burst(&mut a, &mut b, &load);
    }
    let bursts = if mode == "remap" { 2 } else { 8 };
    let calls = counted(&service, "a", "calls");
    let (mut sum, mut min, mut max) = (0.0_f64, f64::INFINITY, 0.0_f64);
    for _ in 0..SAMPLES {
        let time: Duration = (0..bursts).map(|_| burst(&mut a, &mut b, &load)).sum();
        let each = time.as_nanos() as f64 / (bursts * load.count * load.each) as f64;
        (sum, min, max) = (sum + each, min.min(each), max.max(each));
    }
    let frames = u64::from(SAMPLES) * bursts * load.count * load.each;
    let calls = (counted(&service, "a", "calls") - calls) as f64 / frames as f64;
    let name = mode.replace('-', "_");
    println!("figure switch_{name} instructions {:.2} {min:.0} {max:.0} {SAMPLES}", sum / f64::from(SAMPLES));
    println!("calls switch_{name} {calls:.4}");
    for reason in ["no-buffer", "too-long", "offload"] {
        assert_eq!(counted(&service, "a", reason), 0, "frames were lost: {reason}");
    }
}

/// Measures these modes.
pub fn run(modes: &[String]) {
    for mode in modes {
        measure(mode);
    }
}
