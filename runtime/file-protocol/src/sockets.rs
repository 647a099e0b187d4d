//! UNIX sockets: signals, and the header of a datagram.

use alloc::vec::Vec;

/// Limit on a socket's name in bytes: the room in C's `sockaddr_un`.
pub const SOCKET_NAME_MAX: usize = 108;
/// Limit on the connections in a listener's queue, in addition to the first.
pub const BACKLOG_MAX: u32 = 128;
/// Limit on a datagram's header in bytes.
pub const DATAGRAM_HEADER_MAX: usize = 1 + SOCKET_NAME_MAX;
/// Limit on a datagram in bytes, without its header.
pub const DATAGRAM_MAX: usize = (128 << 10) - DATAGRAM_HEADER_MAX;
/// Signal on a listener's channel: a connection waits to be accepted.
pub const INCOMING: u32 = 1 << 24;
/// Signal on a connecting client's socket: the connection has got a place in the listener's queue.
pub const CONNECTED: u32 = 1 << 24;

/// Signal on a connected socket: the other side was closed while it had unread bytes, or before it was accepted.
pub const RESET: u32 = 1 << 25;

/// Encodes a datagram: length of the sender's name, name, bytes. Returns `None` if the name or the datagram is too
/// long.
pub fn datagram(name: &[u8], bytes: &[u8]) -> Option<Vec<u8>> {
    if name.len() > SOCKET_NAME_MAX || bytes.len() > DATAGRAM_MAX {
        return None;
    }
    let mut all = Vec::with_capacity(1 + name.len() + bytes.len());
    all.push(name.len() as u8);
    all.extend_from_slice(name);
    all.extend_from_slice(bytes);
    Some(all)
}

/// Splits a datagram into the sender's name and the bytes. Returns `None` if it is invalid.
pub fn split_datagram(datagram: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = datagram.split_first()?;
    let len = usize::from(*len);
    if len > SOCKET_NAME_MAX { None } else { rest.split_at_checked(len) }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn datagrams_and_back(
            name in proptest::collection::vec(any::<u8>(), 0..SOCKET_NAME_MAX + 1),
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let all = datagram(&name, &bytes).unwrap();
            prop_assert_eq!(split_datagram(&all), Some((name.as_slice(), bytes.as_slice())));
            // A datagram cut off within its name is invalid.
            prop_assert_eq!(split_datagram(&all[..name.len()]), None);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = split_datagram(&bytes);
        }
    }

    #[test]
    fn what_is_too_long() {
        assert_eq!(datagram(&[b'n'; SOCKET_NAME_MAX + 1], b""), None);
        assert_eq!(datagram(b"", &[0; DATAGRAM_MAX + 1]), None);
        assert!(datagram(&[b'n'; SOCKET_NAME_MAX], &[0; DATAGRAM_MAX]).is_some_and(|all| all.len() == 128 << 10));
        let mut long = [b'n'; 300];
        long[0] = SOCKET_NAME_MAX as u8 + 1;
        assert_eq!(split_datagram(&long), None);
    }
}
