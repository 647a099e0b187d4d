//! A listener's backlog: a queue of the requested length, and a waiting line of connections that wait for a place in
//! the queue.

use std::collections::{BTreeMap, VecDeque};

use file_protocol::BACKLOG_MAX;
use service::Program;

/// A waiting connection.
#[derive(Debug, PartialEq, Eq)]
pub struct Waiting<S> {
    /// The listener's end of the connection.
    pub socket: S,
    /// The name of the socket that connects.
    pub name: Vec<u8>,
    /// The program that connects.
    pub program: Program,
}

/// All connections that wait for one listener.
#[derive(Debug)]
pub struct Backlog<S> {
    room: usize,
    queue: VecDeque<Waiting<S>>,
    /// By ascending numbers: the first has waited longest.
    line: BTreeMap<u64, Waiting<S>>,
}

impl<S> Backlog<S> {
    /// An empty backlog. The queue has room for `backlog` connections beside the first.
    pub fn new(backlog: u32) -> Backlog<S> {
        let mut new = Backlog { room: 0, queue: VecDeque::new(), line: BTreeMap::new() };
        new.set(backlog);
        new
    }

    /// Changes the length of the queue. Connections in it stay.
    pub fn set(&mut self, backlog: u32) {
        self.room = backlog.min(BACKLOG_MAX) as usize + 1;
    }

    /// Whether a new connection has to wait in line.
    pub fn is_full(&self) -> bool {
        self.queue.len() >= self.room || !self.line.is_empty()
    }

    /// Adds a connection to the queue, which is not full.
    pub fn push(&mut self, waiting: Waiting<S>) {
        self.queue.push_back(waiting);
    }

    /// Adds a connection to the line, with a number greater than all others there.
    pub fn stand(&mut self, number: u64, waiting: Waiting<S>) {
        self.line.insert(number, waiting);
    }

    /// Removes the oldest connection of the queue.
    pub fn take(&mut self) -> Option<Waiting<S>> {
        self.queue.pop_front()
    }

    /// Moves the oldest connection of the line into the queue, if there is room; returns its number and its socket.
    pub fn advance(&mut self) -> Option<(u64, &S)> {
        if self.queue.len() >= self.room {
            return None;
        }
        let (number, waiting) = self.line.pop_first()?;
        self.queue.push_back(waiting);
        self.queue.back().map(|waiting| (number, &waiting.socket))
    }

    /// Removes a connection from the line.
    pub fn leave(&mut self, number: u64) -> Option<Waiting<S>> {
        self.line.remove(&number)
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Removes a connection from the queue or, if that is empty, from the line; then it has a number.
    pub fn drain(&mut self) -> Option<(Option<u64>, Waiting<S>)> {
        match self.queue.pop_front() {
            Some(waiting) => Some((None, waiting)),
            None => self.line.pop_first().map(|(number, waiting)| (Some(number), waiting)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(socket: u32) -> Waiting<u32> {
        Waiting { socket, name: Vec::new(), program: Program(u64::from(socket)) }
    }

    /// Adds a connection as the service does: to the line if it must wait, numbered by the socket's own number.
    fn come(backlog: &mut Backlog<u32>, socket: u32) -> bool {
        let full = backlog.is_full();
        if full {
            backlog.stand(socket.into(), one(socket))
        } else {
            backlog.push(one(socket))
        }
        full
    }

    fn taken(backlog: &mut Backlog<u32>) -> Option<u32> {
        let taken = backlog.take().map(|waiting| waiting.socket);
        while backlog.advance().is_some() {}
        taken
    }

    #[test]
    fn all_are_taken_in_the_order_in_which_they_came() {
        let mut backlog = Backlog::new(2);
        let stood: Vec<bool> = (0..6).map(|socket| come(&mut backlog, socket)).collect();
        assert_eq!(stood, [false, false, false, true, true, true]);
        assert!(backlog.advance().is_none());
        let order: Vec<u32> = std::iter::from_fn(|| taken(&mut backlog)).collect();
        assert_eq!(order, [0, 1, 2, 3, 4, 5]);
        assert!(backlog.is_empty() && !backlog.is_full());
    }

    #[test]
    fn connections_in_the_line_keep_their_order() {
        let mut backlog = Backlog::new(0);
        come(&mut backlog, 0);
        assert!(come(&mut backlog, 1));
        assert_eq!(backlog.take().map(|waiting| waiting.socket), Some(0));
        // The queue has room, but a connection in the line comes first.
        assert!(come(&mut backlog, 2));
        assert_eq!(backlog.advance().map(|(number, socket)| (number, *socket)), Some((1, 1)));
        assert!(backlog.advance().is_none());
        assert_eq!([taken(&mut backlog), taken(&mut backlog), taken(&mut backlog)], [Some(1), Some(2), None]);
    }

    #[test]
    fn who_gives_up_is_out_of_the_line_alone() {
        let mut backlog = Backlog::new(0);
        (0..3).for_each(|socket| _ = come(&mut backlog, socket));
        assert_eq!(backlog.leave(1), Some(one(1)));
        assert_eq!((backlog.leave(1), backlog.leave(0)), (None, None));
        assert_eq!([taken(&mut backlog), taken(&mut backlog), taken(&mut backlog)], [Some(0), Some(2), None]);
    }

    #[test]
    fn the_length_is_bounded_and_can_change() {
        let mut backlog = Backlog::new(u32::MAX);
        let most = (0..1000).take_while(|socket| !come(&mut backlog, *socket)).count();
        assert_eq!(most, BACKLOG_MAX as usize + 1);
        backlog.set(0);
        assert_eq!(taken(&mut backlog), Some(0));
        assert!(backlog.is_full());
        let mut left = 0;
        let mut stood = Vec::new();
        while let Some((number, _)) = backlog.drain() {
            left += 1;
            stood.extend(number);
        }
        assert_eq!((left, stood), (most, vec![most as u64]));
    }
}
