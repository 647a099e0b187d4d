//! What the service knows about a TCP socket (`TCP_INFO`).

/// Bytes of an encoded state.
pub(crate) const INFORMATION: usize = 64;

/// State of a TCP socket, by Linux' numbers.
pub mod tcp_state {
    /// Open.
    pub const ESTABLISHED: u8 = 1;
    /// It has asked for a connection.
    pub const SYN_SENT: u8 = 2;
    /// A peer has asked for the connection.
    pub const SYN_RECEIVED: u8 = 3;
    /// This side has closed.
    pub const FIN_WAIT_1: u8 = 4;
    /// The peer knows that.
    pub const FIN_WAIT_2: u8 = 5;
    /// Both sides have closed, and late segments may come.
    pub const TIME_WAIT: u8 = 6;
    /// No connection.
    pub const CLOSED: u8 = 7;
    /// The peer has closed.
    pub const CLOSE_WAIT: u8 = 8;
    /// Both sides have closed, the peer first, and it does not know yet.
    pub const LAST_ACK: u8 = 9;
    /// It waits for connections.
    pub const LISTEN: u8 = 10;
    /// Both sides have closed at the same time.
    pub const CLOSING: u8 = 11;
}

/// What the service knows about a TCP socket. A connection without packets has a state and no more: the rest is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Information {
    /// Its [state](tcp_state).
    pub state: u8,
    /// Number of timeouts since the last acknowledgement.
    pub timeouts: u8,
    /// The window scales, the peer's and ours.
    pub scales: Option<(u8, u8)>,
    /// The peer takes selective acknowledgements.
    pub selective: bool,
    /// Time until the next retransmission in microseconds.
    pub retransmission_timeout: u32,
    /// Largest segment that is sent.
    pub send_segment: u32,
    /// Largest segment that the peer was asked to send.
    pub receive_segment: u32,
    /// Bytes that were sent and not acknowledged.
    pub in_flight: u32,
    /// Smoothed round-trip time in microseconds. 0: it was not measured yet.
    pub round_trip: u32,
    /// Its variance.
    pub round_trip_variance: u32,
    /// Congestion window in bytes.
    pub congestion_window: u32,
    /// Number of retransmissions.
    pub retransmissions: u32,
    /// Bytes that the send buffer holds, sent or not.
    pub unacknowledged: u32,
    /// The peer's window in bytes.
    pub peer_window: u32,
    /// Bytes of the receive buffer.
    pub receive_space: u32,
    /// Size of the longest IP packet in bytes.
    pub mtu: u32,
}

impl Information {
    fn words(&self) -> [u32; 12] {
        [
            self.retransmission_timeout,
            self.send_segment,
            self.receive_segment,
            self.in_flight,
            self.round_trip,
            self.round_trip_variance,
            self.congestion_window,
            self.retransmissions,
            self.unacknowledged,
            self.peer_window,
            self.receive_space,
            self.mtu,
        ]
    }

    /// Encodes it.
    pub(crate) fn to_bytes(self) -> [u8; INFORMATION] {
        let mut bytes = [0; INFORMATION];
        let (peer, ours) = self.scales.unwrap_or_default();
        bytes[..6].copy_from_slice(&[
            self.state,
            self.timeouts,
            self.scales.is_some().into(),
            peer,
            ours,
            self.selective.into(),
        ]);
        for (place, word) in bytes[8..].chunks_exact_mut(4).zip(self.words()) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Decodes it.
    pub(crate) fn from_bytes(bytes: &[u8; INFORMATION]) -> Information {
        let word = |index: usize| {
            let at = 8 + 4 * index;
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        Information {
            state: bytes[0],
            timeouts: bytes[1],
            scales: (bytes[2] != 0).then_some((bytes[3], bytes[4])),
            selective: bytes[5] != 0,
            retransmission_timeout: word(0),
            send_segment: word(1),
            receive_segment: word(2),
            in_flight: word(3),
            round_trip: word(4),
            round_trip_variance: word(5),
            congestion_window: word(6),
            retransmissions: word(7),
            unacknowledged: word(8),
            peer_window: word(9),
            receive_space: word(10),
            mtu: word(11),
        }
    }
}
