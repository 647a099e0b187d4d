//! Clients on their way to a service: how many of each program the service has not taken yet, and which channels wait
//! until it has.
//!
//! A service may be slow or hang, and a program may send requests without end. So only a limited number of clients of
//! each program are sent at a time. A channel with more requests is put aside. It continues, in turn, when the service
//! has taken one of that program's clients.

use std::collections::{HashMap, VecDeque};

use service::Program;

/// Maximum number of a program's clients on their way to a service.
pub const MOST: usize = 64;

/// The clients on their way to one run of a service.
#[derive(Debug, Default)]
pub struct InFlight {
    /// Counts for the programs of which the service has had clients.
    sent: HashMap<Program, usize>,
    /// Keys of the channels that are put aside, in order of arrival.
    parked: HashMap<Program, VecDeque<u64>>,
}

impl InFlight {
    /// Whether one more client of a program may be sent.
    pub fn has_room(&self, program: Program) -> bool {
        self.sent.get(&program).is_none_or(|sent| *sent < MOST)
    }

    /// One client was sent.
    pub fn sent(&mut self, program: Program) {
        *self.sent.entry(program).or_default() += 1;
    }

    /// Puts a channel aside until the service has taken a client of its program.
    pub fn park(&mut self, program: Program, channel: u64) {
        self.parked.entry(program).or_default().push_back(channel);
    }

    /// The service has taken one; returns a channel that may continue.
    pub fn taken(&mut self, program: Program) -> Option<u64> {
        // Clients of a program that has ended meanwhile are not counted any more.
        let sent = self.sent.get_mut(&program)?;
        *sent = sent.saturating_sub(1);
        let parked = self.parked.get_mut(&program)?;
        let channel = parked.pop_front();
        if parked.is_empty() {
            self.parked.remove(&program);
        }
        channel
    }

    /// A program has ended; returns whether the service has had clients of it.
    pub fn ended(&mut self, program: Program) -> bool {
        self.parked.remove(&program);
        self.sent.remove(&program).is_some()
    }

    /// The service has ended; returns all channels that were put aside.
    pub fn drain(&mut self) -> Vec<u64> {
        self.sent.clear();
        self.parked.drain().flat_map(|(_, channels)| channels).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Program = Program(1);
    const OTHER: Program = Program(2);

    fn full() -> InFlight {
        let mut in_flight = InFlight::default();
        while in_flight.has_room(ONE) {
            in_flight.sent(ONE);
        }
        in_flight
    }

    #[test]
    fn a_program_has_so_many_under_way_and_others_theirs() {
        let in_flight = full();
        assert!(!in_flight.has_room(ONE) && in_flight.has_room(OTHER));
        assert_eq!(in_flight.sent[&ONE], MOST);
    }

    #[test]
    fn parked_channels_continue_in_order() {
        let mut in_flight = full();
        in_flight.park(ONE, 7);
        in_flight.park(ONE, 8);
        assert_eq!(in_flight.taken(OTHER), None);
        assert_eq!(in_flight.taken(ONE), Some(7));
        assert!(in_flight.has_room(ONE));
        assert_eq!(in_flight.taken(ONE), Some(8));
        assert_eq!(in_flight.taken(ONE), None);
        assert!(in_flight.parked.is_empty());
    }

    #[test]
    fn nothing_is_kept_of_a_program_that_has_ended() {
        let mut in_flight = full();
        in_flight.park(ONE, 7);
        assert!(in_flight.ended(ONE));
        assert!(!in_flight.ended(ONE));
        // A client that the service takes late is not counted.
        assert_eq!(in_flight.taken(ONE), None);
        assert!(in_flight.sent.is_empty() && in_flight.parked.is_empty());
    }

    #[test]
    fn a_service_that_takes_more_than_was_sent_does_no_harm() {
        let mut in_flight = InFlight::default();
        in_flight.sent(ONE);
        for _ in 0..3 {
            assert_eq!(in_flight.taken(ONE), None);
        }
        assert!(in_flight.has_room(ONE));
    }

    #[test]
    fn with_the_service_all_go_on() {
        let mut in_flight = full();
        in_flight.park(ONE, 7);
        in_flight.park(OTHER, 8);
        let mut channels = in_flight.drain();
        channels.sort_unstable();
        assert_eq!(channels, [7, 8]);
        assert!(in_flight.has_room(ONE));
    }
}
