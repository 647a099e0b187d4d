//! A wire between two QEMUs. It loses, repeats, swaps and changes frames, the same ones in each run.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;

use anyhow::{Context as _, Result};

/// How many frames of 1,000 get each fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// It is lost.
    pub lost: u64,
    /// It comes twice.
    pub twice: u64,
    /// The next one overtakes it.
    pub early: u64,
    /// A changed copy comes first.
    pub changed: u64,
}

/// With this many changed copies, each frame comes with several, of all lengths.
pub const NONSENSE: u64 = 1000;

/// Bytes of a frame at most, by the length before it.
const LONGEST: usize = 70_000;

/// The type of ARP's frames.
const ARP: [u8; 2] = [8, 6];

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// Listens at two sockets. A thread for each direction passes the frames on until one of the sides ends.
pub fn start(near: &Path, far: &Path, faults: Faults) -> Result<()> {
    let listen = |path: &Path| UnixListener::bind(path).context("cannot listen at a socket");
    let (near, far) = (listen(near)?, listen(far)?);
    thread::spawn(move || -> std::io::Result<()> {
        let ((near, _), (far, _)) = (near.accept()?, far.accept()?);
        let (near_again, far_again) = (near.try_clone()?, far.try_clone()?);
        thread::spawn(move || pass(near, far, faults, Random(1)));
        // Nonsense is for the machine only.
        pass(far_again, near_again, faults, Random(2))
    });
    Ok(())
}

fn pass(mut from: UnixStream, mut to: UnixStream, faults: Faults, mut random: Random) -> std::io::Result<()> {
    let to_machine = random.0 == 2;
    let mut late: Option<Vec<u8>> = None;
    loop {
        let mut len = [0; 4];
        from.read_exact(&mut len)?;
        let mut frame = vec![0; (u32::from_be_bytes(len) as usize).min(LONGEST)];
        from.read_exact(&mut frame)?;
        if to_machine && faults.changed > 0 {
            let copies = if faults.changed == NONSENSE { 8 } else { usize::from(random.next() % 1000 < faults.changed) };
            for _ in 0..copies {
                put(&mut to, &changed(&frame, &mut random))?;
            }
        }
        let mut fate = random.next() % 1000;
        let mut is = |share: u64| {
            let hit = fate < share;
            fate = fate.wrapping_sub(share);
            hit
        };
        if is(faults.lost) {
            continue;
        }
        if is(faults.twice) {
            put(&mut to, &frame)?;
        } else if is(faults.early) && late.is_none() {
            late = Some(frame);
            continue;
        }
        put(&mut to, &frame)?;
        if let Some(late) = late.take() {
            put(&mut to, &late)?;
        }
    }
}

fn put(to: &mut UnixStream, frame: &[u8]) -> std::io::Result<()> {
    to.write_all(&(frame.len() as u32).to_be_bytes())?;
    to.write_all(frame)
}

/// A frame like this one: some bytes are others, or its length is.
fn changed(frame: &[u8], random: &mut Random) -> Vec<u8> {
    let mut other = frame.to_vec();
    // ARP has no checksum: nobody can know that another hardware address is none.
    let kinds = if frame.get(12..14) == Some(&ARP) { 2 } else { 4 };
    match random.next() % kinds {
        // QEMU passes nothing on behind a frame of no bytes.
        0 => other.truncate(1 + random.below(frame.len())),
        1 => {
            let len = random.below(4000);
            other.extend((0..len).map(|_| random.next() as u8));
        }
        2 => {
            // What says how long something is, and of which kind, is at the beginning.
            let at = 12 + random.below(60);
            if let Some(byte) = other.get_mut(at) {
                *byte = random.next() as u8;
            }
        }
        _ => {
            // Not more than one: the sums of TCP and UDP do not see many changes of two.
            let at = random.below(other.len());
            if let Some(byte) = other.get_mut(at) {
                *byte = random.next() as u8;
            }
        }
    }
    other
}
