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
    use super::registers::mac;

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
