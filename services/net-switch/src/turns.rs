//! The turns of the ports, and what they wait for between them.

use description::switch::PortKind;
use net_switch::{Budget, Notice, Queues, RX, TX};
use zx::{AsHandleRef, Duration, MonotonicInstant, Signals};

use crate::peer::Peer;
use crate::service::Service;

/// How long a frame waits for buffers of a receiver that has taken others.
const WAIT: Duration = Duration::from_millis(2);
/// Buffers of a session below which the switch looks for more before a round: those of a turn.
const FEW: usize = 64;

impl Service {
    /// A turn for each port that may have frames to send.
    pub fn round(&mut self) {
        if self.active != 0 {
            self.take_buffers();
        }
        let mut ports = self.active;
        while ports != 0 {
            let port = ports.trailing_zeros() as usize;
            ports &= ports - 1;
            let turn = self.switch.turn(port, Budget::of(self.mode.batch));
            let goes_on = match turn.waits_for {
                Some(receiver) => self.waits(port, receiver),
                None => turn.more || self.rests(port),
            };
            if !goes_on {
                self.active &= !(1 << port);
            }
        }
        let (peers, calls, mut gone) = (&mut self.peers, &mut self.calls, 0_u64);
        self.switch.tell(|port, queue, notice| {
            let Some(peer) = &mut peers[port] else { return };
            *calls += 1;
            match (peer, notice) {
                (Peer::Guest(connection), _) => connection.call(queue),
                (peer, Notice::Numbers(numbers)) => {
                    if peer.fifos().is_some_and(|fifos| fifos[queue].write(numbers).is_err()) {
                        gone |= 1 << port;
                    }
                }
                (_, Notice::Call) => {}
            }
        });
        for port in (0..self.peers.len()).filter(|port| gone & 1 << port != 0) {
            self.detach(port);
        }
        for ending in self.switch.endings() {
            self.fault(ending.port, &format!("it broke a rule ({:?})", ending.why));
        }
    }

    /// Takes the buffers that sessions have given meanwhile, if they have few others.
    fn take_buffers(&mut self) {
        for port in 0..self.peers.len() {
            let guest = self.switch.guest(port);
            if guest.is_some_and(|guest| matches!(&guest.queues, Queues::Session(session) if session.left(RX) < FEW)) {
                self.take_numbers(port, RX);
            }
        }
    }

    /// Takes numbers of a session's FIFO, if some have come; else a packet says when some do. Returns whether there are some.
    fn take_numbers(&mut self, port: usize, queue: usize) -> bool {
        let (Some(peer), Some(guest)) = (&mut self.peers[port], self.switch.guest(port)) else { return false };
        let (Some(fifos), Queues::Session(session)) = (peer.fifos(), &mut guest.queues) else { return false };
        self.calls += 1;
        match fifos[queue].read(&self.port) {
            Ok(numbers) => match session.feed(queue, numbers) {
                Ok(()) => session.left(queue) > 0,
                Err(fault) => {
                    self.switch.end(port, fault);
                    false
                }
            },
            Err(_) => {
                self.detach(port);
                false
            }
        }
    }

    /// A port may have frames to send. If its next one waits, it waits on.
    pub fn activate(&mut self, port: usize) {
        if self.waiting[port].is_none() {
            self.active |= 1 << port;
        }
    }

    /// A port has no frames to send. Waits for its kick; returns whether it has frames nevertheless.
    fn rests(&mut self, port: usize) -> bool {
        let connection = match &mut self.peers[port] {
            Some(Peer::Guest(connection)) => connection,
            Some(_) => return self.take_numbers(port, TX),
            None => return false,
        };
        let Some(kick) = connection.kick().filter(|_| connection.sends()) else { return false };
        // The kick is cleared before the last look: one that comes later is seen.
        self.calls += u64::from(connection.fired) + u64::from(!connection.armed);
        if connection.fired && kick.signal(Signals::EVENT_SIGNALED, Signals::NONE).is_err() {
            return false;
        }
        if !connection.armed {
            let key = connection.key_of_kick(port, TX);
            if kick.wait_async(&self.port, key, Signals::EVENT_SIGNALED, 0).is_err() {
                return false;
            }
        }
        (connection.fired, connection.armed) = (false, true);
        let Some(guest) = self.switch.guest(port) else { return false };
        let Some(ring) = guest.queues.ring(TX) else { return false };
        match ring.be_loud(&guest.memory) {
            Ok(more) => more,
            Err(why) => {
                self.switch.end(port, why);
                false
            }
        }
    }

    /// A port's next frame waits for buffers of another port. Returns whether there are some already.
    fn waits(&mut self, port: usize, receiver: usize) -> bool {
        let there = match &self.peers[receiver] {
            Some(Peer::Guest(_)) => self.asks_for_buffers(receiver),
            Some(_) => self.take_numbers(receiver, RX),
            None => true,
        };
        // The card's frames are for all: nobody of them waits for one that lags. Its next turn drops the frame.
        if !there && self.switch.ports().kind(port) == PortKind::Card {
            return true;
        }
        if !there {
            self.waiting[port] = Some((receiver, MonotonicInstant::after(WAIT)));
        }
        there
    }

    /// Has a guest's driver say when there are buffers. Returns whether there are some, or never will be.
    fn asks_for_buffers(&mut self, receiver: usize) -> bool {
        let (Some(Peer::Guest(connection)), Some(guest)) = (&mut self.peers[receiver], self.switch.guest(receiver))
        else {
            return true;
        };
        let Some(kick) = connection.refill_kick() else { return true };
        self.calls += 2;
        let _ = kick.signal(Signals::EVENT_SIGNALED, Signals::NONE);
        if !connection.awaits_buffers {
            let key = connection.key_of_kick(receiver, RX);
            if kick.wait_async(&self.port, key, Signals::EVENT_SIGNALED, 0).is_err() {
                return true;
            }
            connection.awaits_buffers = true;
        }
        let Some(rx) = guest.queues.ring(RX) else { return true };
        // If its memory has gone, the next frame finds that out.
        rx.be_loud(&guest.memory).unwrap_or(true)
    }

    /// A port has said that it has buffers again.
    pub fn has_buffers(&mut self, port: usize) {
        if let Some(guest) = self.switch.guest(port)
            && let Some(rx) = guest.queues.ring(RX)
        {
            // If its memory has gone, the next frame finds that out.
            let _ = rx.be_quiet(&guest.memory);
        }
        self.refilled(port);
    }

    /// When the first port has waited long enough.
    pub fn waits_until(&self) -> MonotonicInstant {
        self.waiting.iter().flatten().map(|(_, until)| *until).min().unwrap_or(MonotonicInstant::INFINITE)
    }

    /// Ports that have waited long enough go on: their frames are dropped if there are still no buffers.
    pub fn stop_waiting(&mut self) {
        let deadline = self.waits_until();
        if deadline == MonotonicInstant::INFINITE {
            return;
        }
        let now = MonotonicInstant::now();
        for (port, waiting) in self.waiting.iter_mut().enumerate() {
            if waiting.is_some_and(|(_, until)| until <= now) {
                *waiting = None;
                self.active |= 1 << port;
            }
        }
    }
}
