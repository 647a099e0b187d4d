//! What all network cards have in common: how a session begins and ends.

use abi::Status;

use crate::broken::Broken;

/// Frames that a direction has in flight at most.
pub const MOST_FRAMES: usize = 128;

/// Frames in flight from which on a card says when it has sent them. Fewer wait for the next event.
pub const MUCH: usize = 32;

/// A network card: its registers. Its frames lie in memory of a client, which the card reads and writes directly.
/// [`Adapter`] has its rings and says when it starts and stops.
pub trait NetworkCard {
    /// One direction's ring.
    type Ring: Queue;

    /// The smallest buffer to receive, in bytes.
    const MIN_RX_BUFFER: usize;

    /// The shortest frame to send, in bytes: an Ethernet header, or what the card needs beyond that.
    const MIN_TX_BUFFER: usize;

    /// The hardware address.
    fn mac(&self) -> [u8; 6];

    /// Whether there is a link. After a later change there is an interrupt, once interrupts are on; what this call has
    /// seen raises none.
    fn online(&self) -> bool;

    /// Stops the card. Returns whether it has stopped: only then it accesses no memory any more.
    fn stop(&mut self) -> bool;

    /// Makes the rings. The card has stopped, and learns of no memory here.
    ///
    /// # Errors
    /// `NO_MEMORY`; `IO`, `NOT_SUPPORTED`: the card cannot be used.
    fn rings(&mut self) -> Result<Rings<Self::Ring>, Status>;

    /// Starts the card with these rings, which are empty. If it is `promiscuous`, it passes frames to all hardware addresses
    /// on, else those to its own and to groups.
    ///
    /// # Errors
    /// `IO`: the card does not start. It may know the rings nevertheless.
    fn start(&mut self, rings: &Rings<Self::Ring>, promiscuous: bool) -> Result<(), Status>;

    /// Tells the card of what it was given.
    fn tell(&mut self, rings: &mut Rings<Self::Ring>);

    /// Switches interrupts off.
    fn be_quiet(&mut self, rings: &Rings<Self::Ring>);

    /// Switches interrupts on: for frames that come in, and if `sends_much` for buffers that become free. Returns whether
    /// there is something for which there may be no interrupt.
    ///
    /// # Errors
    /// The card is broken.
    fn be_loud(&mut self, rings: &Rings<Self::Ring>, sends_much: bool) -> Result<bool, Broken>;
}

/// A ring of a card. A frame that the card has is named by the driver's number for it.
pub trait Queue {
    /// Whether the card takes one more frame.
    fn has_room(&self) -> bool;

    /// Number of frames that the card has.
    fn given(&self) -> usize;

    /// Gives the card a buffer for a frame, by its address for the card. Returns whether there was room.
    fn give_empty(&mut self, number: u16, address: u64, len: usize) -> bool;

    /// Gives the card a frame to send. Returns whether there was room.
    fn give_frame(&mut self, number: u16, address: u64, len: usize) -> bool;

    /// Takes a frame that came in: the number of its buffer, and its length. With length 0 there is no frame in it.
    ///
    /// # Errors
    /// The card is broken.
    fn take_received(&mut self) -> Result<Option<(u16, usize)>, Broken>;

    /// Takes a buffer whose frame was sent: its number.
    ///
    /// # Errors
    /// The card is broken.
    fn take_sent(&mut self) -> Result<Option<u16>, Broken>;
}

/// A card's rings.
#[derive(Debug)]
pub struct Rings<R> {
    /// To receive.
    pub receive: R,
    /// To send.
    pub send: R,
}

/// A client's memory of frames, which does not go away.
pub trait Frames {
    /// The address for the card of a range of bytes.
    fn address(&self, offset: usize, len: usize) -> Option<u64>;

    /// Lets the memory go. No card uses it.
    fn unpin(self);
}

/// A card and its session. Memory that the card knows is given back only after the card has stopped.
#[derive(Debug)]
pub struct Adapter<C: NetworkCard, F: Frames> {
    card: C,
    session: Option<Session<C::Ring, F>>,
}

#[derive(Debug)]
struct Session<R, F> {
    rings: Rings<R>,
    frames: F,
}

impl<C: NetworkCard, F: Frames> Adapter<C, F> {
    /// A card without a session.
    pub fn new(card: C) -> Adapter<C, F> {
        Adapter { card, session: None }
    }

    /// The hardware address.
    pub fn mac(&self) -> [u8; 6] {
        self.card.mac()
    }

    /// Whether there is a link.
    pub fn online(&self) -> bool {
        self.card.online()
    }

    /// Starts the card, as [`NetworkCard::start`]. Frames lie in `frames` until [`Adapter::close`].
    ///
    /// # Errors
    /// The card does not stop. What it may know stays pinned, and this driver can do nothing more with it. The inner error
    /// is the client's: the card does not start, and all memory is given back.
    pub fn open(&mut self, frames: F, promiscuous: bool) -> Result<Result<(), Status>, Broken> {
        if let Err(broken) = self.close() {
            // The card has never heard of them.
            frames.unpin();
            return Err(broken);
        }
        let rings = match self.card.rings() {
            Ok(rings) => rings,
            Err(status) => {
                frames.unpin();
                return Ok(Err(status));
            }
        };
        let started = self.card.start(&rings, promiscuous);
        self.session = Some(Session { rings, frames });
        if started.is_err() {
            self.close()?;
        }
        Ok(started)
    }

    /// Stops the card, and gives the memory of the frames back.
    ///
    /// # Errors
    /// The card does not stop. The memory stays pinned until a later driver has stopped the card.
    pub fn close(&mut self) -> Result<(), Broken> {
        let has_stopped = self.card.stop();
        let session = self.session.take();
        if !has_stopped {
            // The rings' memory is the card's, too.
            core::mem::forget(session);
            return Err(Broken::Running);
        }
        if let Some(session) = session {
            session.frames.unpin();
        }
        Ok(())
    }

    /// Gives the card a buffer for a frame, at `offset` in the memory of frames. Returns whether there was room.
    pub fn receive(&mut self, number: u16, offset: usize, len: usize) -> bool {
        let Some(Session { rings, frames }) = &mut self.session else { return false };
        frames.address(offset, len).is_some_and(|address| rings.receive.give_empty(number, address, len))
    }

    /// Gives the card a frame to send. Returns whether there was room.
    pub fn send(&mut self, number: u16, offset: usize, len: usize) -> bool {
        let Some(Session { rings, frames }) = &mut self.session else { return false };
        frames.address(offset, len).is_some_and(|address| rings.send.give_frame(number, address, len))
    }

    /// Whether the card takes one more buffer to receive.
    pub fn can_receive(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.rings.receive.has_room())
    }

    /// Whether the card takes one more frame to send.
    pub fn can_send(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.rings.send.has_room())
    }

    /// Number of frames that the card has to send.
    pub fn sending(&self) -> usize {
        self.session.as_ref().map_or(0, |session| session.rings.send.given())
    }

    /// Tells the card of what it was given.
    pub fn tell(&mut self) {
        if let Some(session) = &mut self.session {
            self.card.tell(&mut session.rings);
        }
    }

    /// Takes a frame that came in, as [`Queue::take_received`].
    ///
    /// # Errors
    /// The card is broken.
    pub fn received(&mut self) -> Result<Option<(u16, usize)>, Broken> {
        self.session.as_mut().map_or(Ok(None), |session| session.rings.receive.take_received())
    }

    /// Takes a buffer whose frame was sent: its number.
    ///
    /// # Errors
    /// The card is broken.
    pub fn sent(&mut self) -> Result<Option<u16>, Broken> {
        self.session.as_mut().map_or(Ok(None), |session| session.rings.send.take_sent())
    }

    /// Switches interrupts off. A card without a session sends none.
    pub fn be_quiet(&mut self) {
        if let Some(session) = &self.session {
            self.card.be_quiet(&session.rings);
        }
    }

    /// Switches interrupts on: for frames that come in, and while much is being sent for buffers that become free.
    /// Returns whether there is something for which there may be no interrupt.
    ///
    /// # Errors
    /// The card is broken.
    pub fn be_loud(&mut self) -> Result<bool, Broken> {
        let Some(session) = &self.session else { return Ok(false) };
        self.card.be_loud(&session.rings, session.rings.send.given() >= MUCH)
    }
}

impl<C: NetworkCard, F: Frames> Drop for Adapter<C, F> {
    fn drop(&mut self) {
        // After a failure nothing more can be done: the memory stays pinned.
        let _ = self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::vec;
    use std::vec::Vec;

    type Log = Rc<RefCell<Vec<&'static str>>>;

    /// A card that notes what happens, and does not do what its test says.
    #[derive(Default)]
    struct Noted {
        log: Log,
        has_rings: bool,
        starts: bool,
        /// How often it still stops.
        stops: usize,
    }

    struct Memory(Log, &'static str);

    impl Drop for Memory {
        fn drop(&mut self) {
            self.0.borrow_mut().push(self.1);
        }
    }

    impl Frames for Memory {
        fn address(&self, offset: usize, _: usize) -> Option<u64> {
            Some(offset as u64)
        }
        fn unpin(mut self) {
            self.1 = "unpin";
        }
    }

    impl Queue for Memory {
        fn has_room(&self) -> bool {
            true
        }
        fn given(&self) -> usize {
            0
        }
        fn give_empty(&mut self, _: u16, _: u64, _: usize) -> bool {
            true
        }
        fn give_frame(&mut self, _: u16, _: u64, _: usize) -> bool {
            true
        }
        fn take_received(&mut self) -> Result<Option<(u16, usize)>, Broken> {
            Ok(None)
        }
        fn take_sent(&mut self) -> Result<Option<u16>, Broken> {
            Ok(None)
        }
    }

    impl NetworkCard for Noted {
        type Ring = Memory;
        const MIN_RX_BUFFER: usize = 0;
        const MIN_TX_BUFFER: usize = 0;
        fn mac(&self) -> [u8; 6] {
            [0; 6]
        }
        fn online(&self) -> bool {
            true
        }
        fn stop(&mut self) -> bool {
            self.log.borrow_mut().push("stop");
            let stops = self.stops > 0;
            self.stops = self.stops.saturating_sub(1);
            stops
        }
        fn rings(&mut self) -> Result<Rings<Memory>, Status> {
            self.log.borrow_mut().push("rings");
            let ring = || Memory(self.log.clone(), "free");
            if self.has_rings { Ok(Rings { receive: ring(), send: ring() }) } else { Err(Status::NO_MEMORY) }
        }
        fn start(&mut self, _: &Rings<Memory>, _: bool) -> Result<(), Status> {
            self.log.borrow_mut().push("start");
            if self.starts { Ok(()) } else { Err(Status::IO) }
        }
        fn tell(&mut self, _: &mut Rings<Memory>) {}
        fn be_quiet(&mut self, _: &Rings<Memory>) {}
        fn be_loud(&mut self, _: &Rings<Memory>, _: bool) -> Result<bool, Broken> {
            Ok(false)
        }
    }

    /// Opens a session, and returns what happened until then. "lost" are pinned frames without an unpin.
    fn opened(has_rings: bool, starts: bool, stops: usize) -> (Result<Result<(), Status>, Broken>, Vec<&'static str>) {
        let log = Log::default();
        let mut adapter = Adapter::new(Noted { log: log.clone(), has_rings, starts, stops });
        let opened = adapter.open(Memory(log.clone(), "lost"), false);
        let until_then = log.borrow().clone();
        (opened, until_then)
    }

    #[test]
    fn memory_is_freed_after_the_card_has_stopped() {
        assert_eq!(opened(true, true, 1), (Ok(Ok(())), vec!["stop", "rings", "start"]));
        assert_eq!(opened(false, true, 1), (Ok(Err(Status::NO_MEMORY)), vec!["stop", "rings", "unpin"]));
        let freed = vec!["stop", "rings", "start", "stop", "unpin", "free", "free"];
        assert_eq!(opened(true, false, 2), (Ok(Err(Status::IO)), freed));
    }

    #[test]
    fn a_card_that_does_not_stop_keeps_what_it_knows() {
        // It knows nothing yet.
        assert_eq!(opened(true, true, 0), (Err(Broken::Running), vec!["stop", "unpin"]));
        assert_eq!(opened(true, false, 1), (Err(Broken::Running), vec!["stop", "rings", "start", "stop"]));
    }

    #[test]
    fn a_session_ends_with_its_memory() {
        let log = Log::default();
        let mut adapter = Adapter::new(Noted { log: log.clone(), has_rings: true, starts: true, stops: 2 });
        assert_eq!(adapter.open(Memory(log.clone(), "lost"), false), Ok(Ok(())));
        assert!(adapter.can_send() && adapter.can_receive());
        log.borrow_mut().clear();
        assert_eq!(adapter.close(), Ok(()));
        assert_eq!(*log.borrow(), ["stop", "unpin", "free", "free"]);
        assert!(!adapter.can_send() && !adapter.can_receive());
    }
}
