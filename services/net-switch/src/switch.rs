//! The switch: turns of the ports, and what is to be told to whom afterwards.

use virtqueue::{Broken, Chain};

use crate::frame::{Counters, DropReason, Frame};
use crate::guest::{Guest, GuestMemory, RX, Refusal, Room, TX};
use crate::ports::{Ports, Targets};

/// What a port may cost in one turn. A turn ends with the frame that exceeds it, and the next turns are shorter by that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// Frames, and copies of them.
    pub frames: u32,
    /// Bytes that are copied.
    pub bytes: usize,
    /// Descriptors.
    pub descriptors: usize,
}

impl Budget {
    /// That of a turn with this many frames.
    pub const fn of(frames: u32) -> Budget {
        Budget { frames, bytes: 256 << 10, descriptors: 1024 }
    }

    /// What is left when this was spent.
    fn without(self, spent: Budget) -> Budget {
        Budget {
            frames: self.frames.saturating_sub(spent.frames),
            bytes: self.bytes.saturating_sub(spent.bytes),
            descriptors: self.descriptors.saturating_sub(spent.descriptors),
        }
    }

    fn spend(&mut self, frames: u32, bytes: usize, descriptors: usize) {
        self.frames = self.frames.saturating_add(frames);
        self.bytes = self.bytes.saturating_add(bytes);
        self.descriptors = self.descriptors.saturating_add(descriptors);
    }

    fn is_left(&self) -> bool {
        self.frames > 0 && self.bytes > 0 && self.descriptors > 0
    }
}

/// A port whose guest is not believed any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// The port.
    pub port: usize,
    /// What is wrong with it.
    pub why: Broken,
}

/// What came of a turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// The port may have more frames.
    pub more: bool,
    /// Frames that were taken.
    pub frames: u32,
    /// The port's next frame waits for buffers of this port.
    pub waits_for: Option<usize>,
}

/// Frames that a port must have got since a sender last waited for its buffers, before one waits again. So a receiver
/// that gives its buffers one by one holds nobody up for long.
const PATIENCE: u32 = 32;

/// What came of a frame.
enum Passed {
    /// It was copied so often, or dropped.
    Copies(u32),
    /// It waits for buffers of this port.
    Waits(usize),
}

/// The switch.
#[derive(Debug)]
pub struct Switch<M> {
    ports: Ports,
    guests: Vec<Option<Guest<M>>>,
    counters: Vec<Counters>,
    /// For each port, the frames that it has got since a sender waited for it, up to [`PATIENCE`].
    got: Vec<u32>,
    /// For each port, what it has spent beyond its turns.
    debts: Vec<Budget>,
    /// A bit for each port whose receiving driver, or whose sending driver, is to be told of something.
    tell: [u64; 2],
    endings: Vec<Ending>,
    chain: Chain,
    frame: Frame,
    room: Room,
}

impl<M: GuestMemory> Switch<M> {
    /// A switch whose ports have no guests.
    pub fn new(ports: Ports) -> Switch<M> {
        let count = ports.len();
        Switch {
            ports,
            guests: (0..count).map(|_| None).collect(),
            counters: vec![Counters::default(); count],
            got: vec![0; count],
            debts: vec![Budget::default(); count],
            tell: [0; 2],
            endings: Vec::new(),
            chain: Chain::default(),
            frame: Frame::new(),
            room: Room::default(),
        }
    }

    /// The ports.
    pub fn ports(&self) -> &Ports {
        &self.ports
    }

    /// What was counted at a port.
    pub fn counters(&self, port: usize) -> Counters {
        self.counters.get(port).copied().unwrap_or_default()
    }

    /// Puts a guest at a port. The one before is dropped, and with it its memory.
    pub fn attach(&mut self, port: usize, guest: Guest<M>) {
        if let Some(place) = self.guests.get_mut(port) {
            *place = Some(guest);
        }
    }

    /// Takes a port's guest away: nothing of it is accessed any more.
    pub fn detach(&mut self, port: usize) {
        if let Some(place) = self.guests.get_mut(port) {
            *place = None;
        }
        self.tell.iter_mut().for_each(|mask| *mask &= !(1 << port));
        if let Some(got) = self.got.get_mut(port) {
            *got = 0;
        }
    }

    /// A port's guest.
    pub fn guest(&mut self, port: usize) -> Option<&mut Guest<M>> {
        self.guests.get_mut(port)?.as_mut()
    }

    /// Ports whose guests were found to break a rule; they have been taken away.
    pub fn endings(&mut self) -> Vec<Ending> {
        std::mem::take(&mut self.endings)
    }

    /// Takes a guest away that was found to break a rule.
    pub fn end(&mut self, port: usize, why: Broken) {
        self.detach(port);
        self.endings.push(Ending { port, why });
    }

    /// Takes frames that a port's guest sends, as many as the budget has room for.
    pub fn turn(&mut self, port: usize, budget: Budget) -> Turn {
        let mut turn = Turn::default();
        // The guest is apart from the others meanwhile: a frame never goes back to its sender.
        let Some(mut guest) = self.guests.get_mut(port).and_then(Option::take) else { return turn };
        // What earlier turns have spent too much is a part of this one's, and what this one does is a part of the next one's.
        let mut spent = self.debts[port];
        let outcome = self.send(port, &mut guest, (budget, &mut spent), &mut turn);
        self.debts[port] = spent.without(budget);
        self.guests[port] = Some(guest);
        if let Err(why) = outcome {
            turn.more = false;
            self.end(port, why);
        }
        turn
    }

    fn send(
        &mut self,
        port: usize,
        guest: &mut Guest<M>,
        (budget, spent): (Budget, &mut Budget),
        turn: &mut Turn,
    ) -> Result<(), Broken> {
        let Guest { memory, tx: Some(tx), offers, .. } = guest else { return Ok(()) };
        while budget.without(*spent).is_left() {
            // Step 1.
            if !tx.pop(memory, &mut self.chain)? {
                return Ok(());
            }
            let refused = self.frame.gather(memory, &self.chain, offers)?;
            let passed = match refused {
                None => self.pass(port, memory)?,
                Some(reason) => self.lose(port, reason),
            };
            let copies = match passed {
                Passed::Copies(copies) => copies,
                Passed::Waits(to) => {
                    tx.put_back(1);
                    turn.waits_for = Some(to);
                    return Ok(());
                }
            };
            self.tell[TX] |= 1 << port;
            turn.frames += 1;
            self.counters[port].sent += 1;
            let bytes = if refused.is_none() { self.frame.len() * copies as usize } else { 0 };
            spent.spend(copies.max(1), bytes, 1 + self.chain.parts.len() + self.room.descriptors());
            // Step 6.
            tx.push(memory, self.chain.head, 0)?;
        }
        turn.more = true;
        Ok(())
    }

    fn lose(&mut self, port: usize, reason: DropReason) -> Passed {
        self.counters[port].drop(reason);
        Passed::Copies(0)
    }

    /// Step 3.
    fn pass(&mut self, port: usize, from: &M) -> Result<Passed, Broken> {
        if self.frame.source() != self.ports.mac(port) {
            return Ok(self.lose(port, DropReason::Source));
        }
        match self.ports.targets(port, self.frame.destination()) {
            Targets::One(to) => {
                let may_wait = self.got.get(to).is_some_and(|got| *got >= PATIENCE);
                self.pass_to(port, from, to, may_wait)
            }
            Targets::Many(mut ports) => {
                let mut copies = 0;
                while ports != 0 {
                    let to = ports.trailing_zeros() as usize;
                    ports &= ports - 1;
                    // A broadcast is for those that are there.
                    if self.guests.get(to).is_some_and(Option::is_some) {
                        self.pass_to(port, from, to, false)?;
                        copies += 1;
                    }
                }
                Ok(Passed::Copies(copies))
            }
            Targets::Unknown => Ok(self.lose(port, DropReason::Unknown)),
            Targets::Forbidden => Ok(self.lose(port, DropReason::Rule)),
        }
    }

    fn pass_to(&mut self, port: usize, from: &M, to: usize, may_wait: bool) -> Result<Passed, Broken> {
        let Some(receiver) = self.guests.get_mut(to).and_then(Option::as_mut) else {
            return Ok(self.lose(port, DropReason::Down));
        };
        match receiver.deliver(from, &mut self.frame, &mut self.room) {
            Ok(()) => {
                self.tell[RX] |= 1 << to;
                self.counters[to].received += 1;
                self.counters[port].delivered += 1;
                self.got[to] = (self.got[to] + 1).min(PATIENCE);
            }
            Err(Refusal::Drop(DropReason::NoBuffer)) if may_wait => {
                self.got[to] = 0;
                return Ok(Passed::Waits(to));
            }
            Err(Refusal::Drop(reason)) => drop(self.lose(port, reason)),
            Err(Refusal::SenderGone) => return Err(Broken::Memory),
            Err(Refusal::Broken(why)) => {
                self.lose(port, DropReason::Broken);
                self.end(to, why);
            }
        }
        Ok(Passed::Copies(1))
    }

    /// Tells the drivers of what went back to them. Calls `notify` with the port and queue of each that wants to be
    /// notified.
    pub fn tell(&mut self, mut notify: impl FnMut(usize, usize)) {
        for queue in [RX, TX] {
            let mut ports = std::mem::take(&mut self.tell[queue]);
            while ports != 0 {
                let port = ports.trailing_zeros() as usize;
                ports &= ports - 1;
                let Some(Guest { memory, rx, tx, .. }) = self.guests.get_mut(port).and_then(Option::as_mut) else {
                    continue;
                };
                let Some(ring) = (if queue == RX { rx } else { tx }) else { continue };
                match ring.publish(memory) {
                    Ok(true) => notify(port, queue),
                    Ok(false) => {}
                    Err(why) => self.end(port, why),
                }
            }
        }
    }
}
