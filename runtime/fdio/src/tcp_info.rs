//! C's `struct tcp_info`, as far as the network service knows its fields. All others are 0.

use network_protocol::Information;

/// Bytes of the structure.
pub const SIZE: usize = 232;

/// Bits of `tcpi_options`.
const SELECTIVE: u8 = 2;
const SCALES: u8 = 4;

/// The number of segments that these bytes take.
fn segments(bytes: u32, segment: u32) -> u32 {
    if segment == 0 { 0 } else { bytes.div_ceil(segment) }
}

/// The structure's bytes.
pub fn to_c(info: &Information) -> [u8; SIZE] {
    let mut bytes = [0; SIZE];
    let (peer, ours) = info.scales.unwrap_or_default();
    bytes[0] = info.state;
    bytes[2] = info.timeouts;
    bytes[4] = info.timeouts;
    bytes[5] = if info.selective { SELECTIVE } else { 0 } | if info.scales.is_some() { SCALES } else { 0 };
    bytes[6] = peer & 15 | ours << 4;
    let unsent = info.unacknowledged.saturating_sub(info.in_flight);
    for (at, value) in [
        (8, info.retransmission_timeout),
        (16, info.send_segment),
        (20, info.receive_segment),
        (24, segments(info.in_flight, info.send_segment)),
        (60, info.mtu),
        (68, info.round_trip),
        (72, info.round_trip_variance),
        (80, segments(info.congestion_window, info.send_segment)),
        (84, info.receive_segment),
        (96, info.receive_space),
        (100, info.retransmissions),
        (144, unsent),
        (228, info.peer_window),
    ] {
        bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_c_has_them() {
        let info = Information {
            state: 1,
            timeouts: 3,
            scales: Some((7, 1)),
            selective: true,
            send_segment: 1000,
            in_flight: 1500,
            unacknowledged: 4000,
            round_trip: 77,
            congestion_window: 10_001,
            retransmissions: 9,
            peer_window: 0x1234_5678,
            ..Information::default()
        };
        let bytes = to_c(&info);
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        assert_eq!(bytes[..7], [1, 0, 3, 0, 3, 6, 0x17]);
        let found = [word(16), word(24), word(68), word(80), word(100), word(144), word(228)];
        assert_eq!(found, [1000, 2, 77, 11, 9, 2500, 0x1234_5678]);
        // A connection without packets has no segments.
        assert_eq!(to_c(&Information { state: 1, in_flight: 5, ..Information::default() })[24..28], [0; 4]);
    }
}
