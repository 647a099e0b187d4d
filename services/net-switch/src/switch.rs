//! The switch: turns of the ports, and what is to be told to whom afterwards.

use virtqueue::{Broken, Chain};

use crate::frame::{Counters, DropReason, Frame};
use crate::guest::{Guest, GuestMemory, Queues, RX, Refusal, Room, TX, Wrong};
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
    pub why: Wrong,
}

/// What is to be told to the other side of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice<'a> {
    /// There is something new in its virtqueue.
    Call,
    /// It gets the descriptors with these numbers.
    Numbers(&'a [u16]),
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
    /// It was copied, or dropped.
    Done,
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
    /// For each port whose next frame has waited for buffers: how many of its segments were delivered before.
    waited: Vec<Option<u32>>,
    /// A bit for each port that has no link.
    down: u64,
    chain: Chain,
    frame: Frame,
    segment: Frame,
    room: Room,
    /// What the frame under way has cost.
    cost: Budget,
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
            waited: vec![None; count],
            down: 0,
            chain: Chain::default(),
            frame: Frame::new(),
            segment: Frame::new(),
            room: Room::default(),
            cost: Budget::default(),
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
            // A session may begin with numbers for the other side.
            if matches!(guest.queues, Queues::Session(_)) {
                self.tell.iter_mut().for_each(|mask| *mask |= 1 << port);
            }
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
        self.restart(port);
    }

    /// The next frame of a port is another one than before.
    pub fn restart(&mut self, port: usize) {
        if let Some(waited) = self.waited.get_mut(port) {
            *waited = None;
        }
    }

    /// A port has a link, or has none: frames for it are dropped.
    pub fn set_link(&mut self, port: usize, online: bool) {
        self.down &= !(1 << port);
        self.down |= u64::from(!online) << port;
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
    pub fn end(&mut self, port: usize, why: impl Into<Wrong>) {
        self.detach(port);
        self.endings.push(Ending { port, why: why.into() });
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
    ) -> Result<(), Wrong> {
        let Guest { memory, queues, offers, .. } = guest;
        let header = queues.header();
        while budget.without(*spent).is_left() {
            // Step 1.
            if !queues.pop(TX, memory, &mut self.chain)? {
                return Ok(());
            }
            let refused = self.frame.gather(memory, (&self.chain, header), offers)?;
            self.cost = Budget { frames: 0, bytes: 0, descriptors: self.chain.descriptors.into() };
            let passed = match refused {
                None => self.pass(port, memory)?,
                Some(reason) => self.lose(port, reason),
            };
            let Budget { frames, bytes, descriptors } = self.cost;
            spent.spend(frames.max(1), bytes, descriptors);
            if let Passed::Waits(to) = passed {
                queues.put_back(TX, 1);
                turn.waits_for = Some(to);
                return Ok(());
            }
            self.waited[port] = None;
            self.tell[TX] |= 1 << port;
            turn.frames += 1;
            self.counters[port].sent += 1;
            // Step 6.
            queues.push(TX, memory, self.chain.head, 0)?;
        }
        turn.more = true;
        Ok(())
    }

    fn lose(&mut self, port: usize, reason: DropReason) -> Passed {
        self.counters[port].drop(reason);
        Passed::Done
    }

    /// Step 3.
    fn pass(&mut self, port: usize, from: &M) -> Result<Passed, Wrong> {
        if !self.ports.may_send_as(port, self.frame.source()) {
            return Ok(self.lose(port, DropReason::Source));
        }
        match self.ports.targets(port, self.frame.destination()) {
            Targets::One(to) => self.pass_to(port, from, to, true),
            Targets::Many(mut ports) => {
                while ports != 0 {
                    let to = ports.trailing_zeros() as usize;
                    ports &= ports - 1;
                    // A broadcast is for those that are there.
                    if self.guests.get(to).is_some_and(Option::is_some) {
                        self.pass_to(port, from, to, false)?;
                    }
                }
                Ok(Passed::Done)
            }
            Targets::Unknown => Ok(self.lose(port, DropReason::Unknown)),
            Targets::Forbidden => Ok(self.lose(port, DropReason::Rule)),
        }
    }

    /// Steps 4 to 6 for one receiver.
    fn pass_to(&mut self, port: usize, from: &M, to: usize, may_wait: bool) -> Result<Passed, Wrong> {
        let receiver = self.guests.get_mut(to).and_then(Option::as_mut).filter(|_| self.down & 1 << to == 0);
        let Some(receiver) = receiver else {
            return Ok(self.lose(port, DropReason::Down));
        };
        if !self.frame.is_for(&receiver.offers) {
            return self.pass_segments(port, from, to, may_wait);
        }
        let outcome = receiver.deliver(from, &mut self.frame, &mut self.room);
        self.cost.spend(1, self.frame.len(), self.room.descriptors());
        self.passed((port, to), may_wait.then_some(0), outcome).map(|passed| passed.unwrap_or(Passed::Done))
    }

    /// The same for each of its segments.
    #[inline(never)]
    fn pass_segments(&mut self, port: usize, from: &M, to: usize, may_wait: bool) -> Result<Passed, Wrong> {
        let Some(cuts) = self.frame.cuts() else { return Ok(self.lose(port, DropReason::Offload)) };
        let first = if may_wait { self.waited[port].unwrap_or(0) } else { 0 };
        for index in first..cuts.count {
            let Some(receiver) = self.guests.get_mut(to).and_then(Option::as_mut) else { break };
            self.frame.segment(&cuts, index, &mut self.segment);
            let outcome = receiver.deliver(from, &mut self.segment, &mut self.room);
            self.cost.spend(1, self.segment.len(), self.room.descriptors());
            // The segments behind one that is lost would be lost as well.
            if let Some(passed) = self.passed((port, to), may_wait.then_some(index), outcome)? {
                return Ok(passed);
            }
        }
        Ok(Passed::Done)
    }

    /// What comes of a delivery, of the segment with this number if it may wait. `None`: it was one.
    #[inline]
    fn passed(
        &mut self,
        (port, to): (usize, usize),
        may_wait: Option<u32>,
        outcome: Result<(), Refusal>,
    ) -> Result<Option<Passed>, Wrong> {
        match outcome {
            Ok(()) => {
                self.tell[RX] |= 1 << to;
                self.counters[to].received += 1;
                self.counters[port].delivered += 1;
                self.got[to] = (self.got[to] + 1).min(PATIENCE);
                Ok(None)
            }
            Err(Refusal::Drop(reason)) => match may_wait.filter(|_| reason == DropReason::NoBuffer) {
                // A frame that has waited waits again only if some more of it was delivered: others may give its receiver's
                // buffers away each time.
                Some(index) if self.got[to] >= PATIENCE && self.waited[port].is_none_or(|before| index > before) => {
                    self.got[to] = 0;
                    self.waited[port] = Some(index);
                    Ok(Some(Passed::Waits(to)))
                }
                _ => Ok(Some(self.lose(port, reason))),
            },
            Err(Refusal::SenderGone) => Err(Broken::Memory.into()),
            Err(Refusal::Broken(why)) => {
                self.lose(port, DropReason::Broken);
                self.end(to, why);
                Ok(Some(Passed::Done))
            }
        }
    }

    /// Tells the other sides of what went back to them: calls `notify` with the port and queue of each that is to be
    /// notified.
    pub fn tell(&mut self, mut notify: impl FnMut(usize, usize, Notice<'_>)) {
        for queue in [RX, TX] {
            let mut ports = std::mem::take(&mut self.tell[queue]);
            while ports != 0 {
                let port = ports.trailing_zeros() as usize;
                ports &= ports - 1;
                let Some(Guest { memory, queues, .. }) = self.guests.get_mut(port).and_then(Option::as_mut) else {
                    continue;
                };
                if let Queues::Session(session) = queues {
                    session.take_done(queue, |numbers| notify(port, queue, Notice::Numbers(numbers)));
                    continue;
                }
                let Some(ring) = queues.ring(queue) else { continue };
                match ring.publish(memory) {
                    Ok(true) => notify(port, queue, Notice::Call),
                    Ok(false) => {}
                    Err(why) => self.end(port, why),
                }
            }
        }
    }
}
