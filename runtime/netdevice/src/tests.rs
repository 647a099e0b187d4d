//! Whatever a client writes: the device stays inside the VMO and knows what it has.

use std::vec::Vec;

use proptest::prelude::*;

use crate::{ANSWER, DESCRIPTOR, Descriptor, FRAME_ETHERNET, Fault, Info, Owned, REQUEST, Request};
use crate::{decode_answer, encode_answer};

fn good() -> Descriptor {
    Descriptor { frame_type: FRAME_ETHERNET, offset: 2048, data_length: 1514, ..Descriptor::default() }
}

#[test]
fn a_good_descriptor_and_what_is_wrong_with_others() {
    let check = |change: fn(&mut Descriptor)| {
        let mut descriptor = good();
        change(&mut descriptor);
        descriptor.buffer(8192, 14, 1514).map(|buffer| (buffer.offset, buffer.len))
    };
    assert_eq!(check(|_| {}), Ok((2048, 1514)));
    assert_eq!(check(|d| d.head_length = 12), Ok((2060, 1514)));
    assert_eq!(check(|d| d.offset = 8192 - 1514), Ok((8192 - 1514, 1514)));
    assert_eq!(check(|d| d.frame_type = 0), Err(Fault::Unknown));
    assert_eq!(check(|d| d.chain_length = 1), Err(Fault::Unknown));
    assert_eq!(check(|d| d.info_type = 1), Err(Fault::Unknown));
    assert_eq!(check(|d| d.vmo_id = 1), Err(Fault::Unknown));
    assert_eq!(check(|d| d.data_length = 13), Err(Fault::Length));
    assert_eq!(check(|d| d.data_length = 1515), Err(Fault::Length));
    assert_eq!(check(|d| d.data_length = u32::MAX), Err(Fault::Length));
    assert_eq!(check(|d| d.offset = 3000), Err(Fault::Place));
    assert_eq!(check(|d| d.offset = 8192 - 1513), Err(Fault::Place));
    assert_eq!(check(|d| d.offset = u64::MAX), Err(Fault::Place));
    assert_eq!(check(|d| (d.offset, d.head_length) = (u64::MAX - 3, 9)), Err(Fault::Place));
}

#[test]
fn the_layout_is_fuchsias() {
    let descriptor = Descriptor {
        frame_type: 1,
        chain_length: 2,
        nxt: 0x0403,
        info_type: 0x0807_0605,
        port_id: [9, 10],
        vmo_id: 11,
        client_opaque: [13, 14, 15, 16],
        offset: 0x1817_1615_1413_1211,
        head_length: 0x1a19,
        tail_length: 0x1c1b,
        data_length: 0x201f_1e1d,
        inbound_flags: 0x2423_2221,
        return_flags: 0x2827_2625,
    };
    let bytes: Vec<u8> = (1..=DESCRIPTOR as u8).map(|at| if at == 12 { 0 } else { at }).collect();
    assert_eq!(descriptor.to_bytes().as_slice(), bytes);
}

proptest! {
    /// A buffer lies inside the VMO, in one page, and has a length that was asked for.
    #[test]
    fn no_buffer_leaves_the_vmo(
        bytes in prop::array::uniform32(any::<u8>()), more in any::<u64>(), offset in 0_u64..20_000, len in 0_u32..3000,
        is_near: bool, pages in 0_usize..5, least in 0_usize..100, most in 0_usize..3000,
    ) {
        let mut all = [0; DESCRIPTOR];
        all[..32].copy_from_slice(&bytes);
        all[32..].copy_from_slice(&more.to_le_bytes());
        let mut descriptor = Descriptor::from_bytes(&all);
        if is_near {
            descriptor = Descriptor { head_length: descriptor.head_length % 64, offset, data_length: len, ..good() };
        }
        if let Ok(buffer) = descriptor.buffer(pages * 4096, least, most) {
            prop_assert!(buffer.len >= least && buffer.len <= most && buffer.len > 0);
            prop_assert!(buffer.offset + buffer.len <= pages * 4096);
            prop_assert_eq!(buffer.offset / 4096, (buffer.offset + buffer.len - 1) / 4096);
        }
    }

    #[test]
    fn descriptors_come_back(bytes in prop::array::uniform32(any::<u8>()), more in any::<u64>()) {
        let mut all = [0; DESCRIPTOR];
        all[..32].copy_from_slice(&bytes);
        all[32..].copy_from_slice(&more.to_le_bytes());
        all[11] = 0;
        prop_assert_eq!(Descriptor::from_bytes(&all).to_bytes(), all);
    }

    /// The books are right after any moves of both sides.
    #[test]
    fn a_descriptor_has_one_owner(moves in prop::collection::vec((any::<bool>(), 0_u16..12), 0..200)) {
        let mut owned = Owned::new(8);
        let mut model = [false; 8];
        for (takes, number) in moves {
            let known = model.get(usize::from(number)).copied();
            let allowed = known == Some(!takes);
            let done = if takes { owned.take(number) } else { owned.give(number) };
            prop_assert_eq!(done, if allowed { Ok(()) } else { Err(Fault::Number) });
            if allowed {
                model[usize::from(number)] = takes;
            }
            prop_assert_eq!(owned.len(), model.iter().filter(|has| **has).count());
        }
    }

    #[test]
    fn messages_come_back(transaction: u32, status: i32, mac: [u8; 6], online: bool, depths: [u16; 2], sizes: [u32; 4]) {
        let open = Request::Open { descriptor_count: depths[0] % 1024 + 1, promiscuous: depths[1] % 2 == 1 };
        for request in [Request::Info, open, Request::WatchStatus] {
            prop_assert_eq!(Request::from_bytes(&request.to_bytes(transaction)), Some((transaction, request)));
        }
        let info = Info {
            mac, online, rx_depth: depths[0], tx_depth: depths[1], max_frame_length: sizes[0],
            min_rx_buffer_length: sizes[1], min_tx_buffer_length: sizes[2], max_vmo_length: sizes[3],
        };
        prop_assert_eq!(decode_answer(&encode_answer(transaction, status, &info)), Some((status, info)));
    }

    #[test]
    fn any_message_is_read(bytes in prop::collection::vec(any::<u8>(), 0..ANSWER + 2)) {
        if let Some((transaction, request)) = Request::from_bytes(&bytes) {
            prop_assert_eq!(&request.to_bytes(transaction)[..], &bytes[..]);
            prop_assert_eq!(bytes.len(), REQUEST);
        }
        let _ = decode_answer(&bytes);
    }
}
