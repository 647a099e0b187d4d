//! A wire between two QEMUs. It loses, repeats, swaps and changes frames, the same ones in each run.

use std::collections::HashMap;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result};

use super::frames;
use xtask_common::threads::Watcher;
use xtask_run::wire::{End, next};

/// How many frames of 1,000 get each fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// It is lost.
    pub lost: u64,
    /// It comes twice.
    pub twice: u64,
    /// The next one overtakes it.
    pub early: u64,
    /// A changed copy comes first.
    pub changed: u64,
    /// Connection requests in the name of others that come before each frame to the machine.
    pub requests: usize,
    /// The same over IPv6, and as many questions of neighbours.
    pub requests_v6: usize,
    /// Questions for names are answered here, and not by QEMU: [`frames::answers`] says how.
    pub names: bool,
    /// A member of each multicast group answers in it: [`frames::answer_in_group`] says what.
    pub groups: bool,
}

/// With this many changed copies, each frame comes with several, of all lengths.
pub const NONSENSE: u64 = 1000;

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

/// Listens at two sockets: `near` is the machine's. A thread for each direction passes the frames on until one of the
/// sides ends.
pub fn start(near: &Path, far: &Path, faults: Faults) -> Result<()> {
    let listen = |path: &Path| UnixListener::bind(path).context("cannot listen at a socket");
    let (near, far) = (listen(near)?, listen(far)?);
    Watcher::none().start("wire", move || -> Result<()> {
        let ((near, _), (far, _)) = (near.accept()?, far.accept()?);
        let to_near = End::new(near.try_clone()?);
        let to_far = End::new(far.try_clone()?);
        let back = to_near.clone();
        Watcher::none().start("wire", move || from_machine(near, &to_far, &back, faults))?;
        Ok(to_machine(far, &to_near, faults)?)
    })?;
    Ok(())
}

/// What a switch knows: who is at its ports, and behind which port a hardware address is.
#[derive(Default)]
struct Table {
    ends: Vec<Option<End>>,
    known: HashMap<[u8; 6], usize>,
}

/// A switch. Each of its ports is a socket, at which one machine can be after the other. A frame goes to the port of its
/// receiver, or to all others if that is not known: QEMU's user network takes every frame for one that it is to pass on.
pub fn switch(ports: &[&Path]) -> Result<()> {
    let table = Arc::new(Mutex::new(Table { ends: vec![None; ports.len()], known: HashMap::new() }));
    for (port, path) in ports.iter().enumerate() {
        let listener = UnixListener::bind(path).context("cannot listen at a socket")?;
        let table = table.clone();
        Watcher::none().start("switch", move || -> Result<()> {
            loop {
                let (mut socket, _) = listener.accept()?;
                let end = End::new(socket.try_clone()?);
                lock(&table).ends[port] = Some(end);
                while let Ok(frame) = next(&mut socket) {
                    // Without the lock: a machine may take a frame only when its own was taken.
                    let ends = receivers(&mut lock(&table), port, &frame);
                    // Whoever has gone loses what is for it.
                    ends.iter().for_each(|end| drop(end.put(&frame)));
                }
                let mut table = lock(&table);
                table.ends[port] = None;
                table.known.retain(|_, behind| *behind != port);
            }
        })?;
    }
    Ok(())
}

fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where a frame goes that came from this port.
fn receivers(table: &mut Table, from: usize, frame: &[u8]) -> Vec<End> {
    let (Some(to), Some(sender)) = (frame.first_chunk::<6>(), frame.get(6..).and_then(<[u8]>::first_chunk::<6>)) else {
        return Vec::new();
    };
    table.known.insert(*sender, from);
    let only = table.known.get(to).copied();
    let is_for = |port: usize| port != from && only.is_none_or(|only| only == port);
    let ends = table.ends.iter().enumerate().filter(|(port, _)| is_for(*port));
    ends.filter_map(|(_, end)| end.clone()).collect()
}

fn from_machine(mut from: UnixStream, to: &End, back: &End, faults: Faults) -> std::io::Result<()> {
    let (mut random, mut late) = (Random(1), None);
    loop {
        let frame = next(&mut from)?;
        if faults.names && frames::is_question(&frame) {
            frames::answers(&frame).iter().try_for_each(|answer| back.put(answer))?;
            continue;
        }
        if faults.names && frames::is_to_name_server(&frame) {
            let says = frames::name_server_says(&frame).unwrap_or_default();
            says.iter().try_for_each(|answer| back.put(answer))?;
            continue;
        }
        if faults.groups
            && let Some(answer) = frames::answer_in_group(&frame)
        {
            back.put(&answer)?;
        }
        // Nobody is there to answer.
        if faults.requests + faults.requests_v6 > 0 && frames::is_for_nobody(&frame) {
            continue;
        }
        pass(frame, to, faults, &mut random, &mut late)?;
    }
}

/// Nonsense is for the machine only.
fn to_machine(mut from: UnixStream, to: &End, faults: Faults) -> std::io::Result<()> {
    let (mut random, mut late) = (Random(2), None);
    loop {
        let frame = next(&mut from)?;
        let copies = match faults.changed {
            NONSENSE => 8,
            share => usize::from(random.next() % 1000 < share),
        };
        for _ in 0..copies {
            to.put(&changed(&frame, &mut random))?;
        }
        for _ in 0..faults.requests {
            let sender = random.next();
            if let Some(request) = frames::request(&frame, sender) {
                to.put(&request)?;
            }
        }
        for _ in 0..faults.requests_v6 {
            let sender = random.next();
            if let Some(requests) = frames::requests_v6(&frame, sender) {
                requests.iter().try_for_each(|request| to.put(request))?;
            }
        }
        pass(frame, to, faults, &mut random, &mut late)?;
    }
}

fn pass(
    frame: Vec<u8>,
    to: &End,
    faults: Faults,
    random: &mut Random,
    late: &mut Option<Vec<u8>>,
) -> std::io::Result<()> {
    let mut fate = random.next() % 1000;
    let mut is = |share: u64| {
        let hit = fate < share;
        fate = fate.wrapping_sub(share);
        hit
    };
    if is(faults.lost) {
        return Ok(());
    }
    if is(faults.twice) {
        to.put(&frame)?;
    } else if is(faults.early) && late.is_none() {
        *late = Some(frame);
        return Ok(());
    }
    to.put(&frame)?;
    late.take().map_or(Ok(()), |late| to.put(&late))
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
