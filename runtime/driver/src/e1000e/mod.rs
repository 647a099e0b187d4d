//! Intel's network card 82574L, which QEMU calls `e1000e`.
//!
//! Its frames lie in memory of a client, which the card reads and writes directly. The rings lie in memory of this process
//! ([`ring`]). The card takes no frame that is longer than a buffer, as long packets are not switched on.

// On the host only tests use them.
#[cfg_attr(not(target_os = "fuchsia"), allow(dead_code))]
mod registers;
#[cfg_attr(not(target_os = "fuchsia"), allow(dead_code))]
mod ring;

#[cfg(target_os = "fuchsia")]
mod card;

#[cfg(target_os = "fuchsia")]
pub use card::Card;

#[cfg(test)]
mod tests {
    use super::registers::{NOTHING, mac, wait};

    /// What a wait for bit 3 says of a register with these values, the last one for ever, and how many pauses it made.
    fn waited(values: &[u32], on: bool) -> (bool, usize) {
        let (mut reads, mut pauses) = (0, 0);
        let read = || {
            reads += 1;
            values[values.len().min(reads) - 1]
        };
        (wait(read, 8, on, || pauses += 1), pauses)
    }

    #[test]
    fn a_wait_ends() {
        assert_eq!(waited(&[5, 8], false), (true, 0));
        assert_eq!(waited(&[13, 8, 0], false), (true, 2));
        assert_eq!(waited(&[0, 8], true), (true, 1));
        // The bit never changes.
        assert_eq!(waited(&[8], false), (false, 100));
        assert_eq!(waited(&[0], true), (false, 100));
        // The card is not there, or goes while it is waited for. Its bits are all on.
        assert_eq!(waited(&[NOTHING], true), (false, 0));
        assert_eq!(waited(&[8, NOTHING], false), (false, 1));
    }

    #[test]
    fn only_a_card_s_own_address_is_one() {
        let address = [0x52, 0x54, 0, 0x12, 0x34, 0x56];
        assert_eq!(mac(0x1200_5452, 0x8000_5634), Some(address));
        // Not valid, a group's, none.
        assert_eq!(mac(0x1200_5452, 0x5634), None);
        assert_eq!(mac(0x1200_5453, 0x8000_5634), None);
        assert_eq!(mac(0, 0x8000_0000), None);
        // A card that does not answer.
        assert_eq!(mac(u32::MAX, u32::MAX), None);
    }
}
