//! The switch: turns of the ports, and what is to be told to whom afterwards.

use virtqueue::{Broken, Chain};

use crate::frame::{Counters, DropReason, Frame};
use crate::guest::{Guest, GuestMemory, RX, Refusal, Room, TX};
use crate::ports::{Ports, Targets};

/// What a port may cost in one turn. A turn ends with the frame that exceeds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

    fn spend(&mut self, frames: u32, bytes: usize, descriptors: usize) {
        self.frames = self.frames.saturating_sub(frames);
        self.bytes = self.bytes.saturating_sub(bytes);
        self.descriptors = self.descriptors.saturating_sub(descriptors);
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
}

/// The switch.
#[derive(Debug)]
pub struct Switch<M> {
    ports: Ports,
    guests: Vec<Option<Guest<M>>>,
    counters: Vec<Counters>,
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
    pub fn turn(&mut self, port: usize, mut budget: Budget) -> Turn {
        let mut turn = Turn::default();
        // The guest is apart from the others meanwhile: a frame never goes back to its sender.
        let Some(mut guest) = self.guests.get_mut(port).and_then(Option::take) else { return turn };
        let outcome = self.send(port, &mut guest, &mut budget, &mut turn);
        self.guests[port] = Some(guest);
        if let Err(why) = outcome {
            turn.more = false;
            self.end(port, why);
        }
        turn
    }

    fn send(&mut self, port: usize, guest: &mut Guest<M>, budget: &mut Budget, turn: &mut Turn) -> Result<(), Broken> {
        let Guest { memory, tx: Some(tx), .. } = guest else { return Ok(()) };
        while budget.is_left() {
            // Step 1.
            if !tx.pop(memory, &mut self.chain)? {
                return Ok(());
            }
            self.tell[TX] |= 1 << port;
            turn.frames += 1;
            self.counters[port].sent += 1;
            let is_frame = self.frame.gather(memory, &self.chain)?;
            let copies = if is_frame { self.pass(port, memory)? } else { self.lose(port, DropReason::Length) };
            let bytes = self.frame.len() * copies as usize;
            budget.spend(
                copies.max(1),
                if is_frame { bytes } else { 0 },
                1 + self.chain.parts.len() + self.room.descriptors(),
            );
            // Step 6.
            tx.push(memory, self.chain.head, 0)?;
        }
        turn.more = true;
        Ok(())
    }

    fn lose(&mut self, port: usize, reason: DropReason) -> u32 {
        self.counters[port].drop(reason);
        0
    }

    /// Step 3. Returns the number of copies that were tried.
    fn pass(&mut self, port: usize, from: &M) -> Result<u32, Broken> {
        if self.frame.source() != self.ports.mac(port) {
            return Ok(self.lose(port, DropReason::Source));
        }
        match self.ports.targets(port, self.frame.destination()) {
            Targets::One(to) => {
                self.pass_to(port, from, to)?;
                Ok(1)
            }
            Targets::Many(mut ports) => {
                let mut copies = 0;
                while ports != 0 {
                    let to = ports.trailing_zeros() as usize;
                    ports &= ports - 1;
                    // A broadcast is for those that are there.
                    if self.guests.get(to).is_some_and(Option::is_some) {
                        self.pass_to(port, from, to)?;
                        copies += 1;
                    }
                }
                Ok(copies)
            }
            Targets::Unknown => Ok(self.lose(port, DropReason::Unknown)),
            Targets::Forbidden => Ok(self.lose(port, DropReason::Rule)),
        }
    }

    fn pass_to(&mut self, port: usize, from: &M, to: usize) -> Result<(), Broken> {
        let Some(receiver) = self.guests.get_mut(to).and_then(Option::as_mut) else {
            self.lose(port, DropReason::Down);
            return Ok(());
        };
        match receiver.deliver(from, &mut self.frame, &mut self.room) {
            Ok(()) => {
                self.tell[RX] |= 1 << to;
                self.counters[to].received += 1;
                self.counters[port].delivered += 1;
            }
            Err(Refusal::Drop(reason)) => drop(self.lose(port, reason)),
            Err(Refusal::SenderGone) => return Err(Broken::Memory),
            Err(Refusal::Broken(why)) => {
                self.lose(port, DropReason::Broken);
                self.end(to, why);
            }
        }
        Ok(())
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
