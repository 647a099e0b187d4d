//! Whatever a front end writes: no message panics, and no queue runs that is not inside of its memory.

use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use crate::*;

const FEATURES: u64 = VERSION_1 | EVENT_IDX | PROTOCOL_FEATURES | net::MAC;

fn session() -> Session {
    Session::new(Settings {
        features: FEATURES,
        required: VERSION_1,
        protocol_features: REPLY_ACK | CONFIG | MQ | BACKEND_REQ,
        queues: 2,
        most_descriptors: 256,
        config: vec![1, 2, 3, 4, 5, 6, 1, 0],
    })
}

const REGION: Region = Region { guest_address: 0x1000, size: 0x10_0000, user_address: 0x7000_0000, offset: 0x2000 };

fn address(index: u32) -> VringAddress {
    let start = REGION.user_address + u64::from(index) * 0x8000;
    VringAddress {
        index,
        descriptors: start,
        available: start + 0x1000,
        used: start + 0x2000,
        ..VringAddress::default()
    }
}

/// What virtio_uml of Linux sends, in its order.
fn set_up() -> Vec<Request> {
    let mut requests = vec![
        Request::SetOwner,
        Request::GetFeatures,
        Request::GetProtocolFeatures,
        Request::SetProtocolFeatures(REPLY_ACK | CONFIG | BACKEND_REQ),
        Request::SetBackendReqFd,
        Request::GetConfig(0, 8, 0),
        Request::SetFeatures(FEATURES),
        Request::SetMemTable(vec![REGION]),
    ];
    for index in 0..2 {
        requests.extend([
            Request::SetVringCall(index, true),
            Request::SetVringNum(VringState { index, number: 256 }),
            Request::SetVringBase(VringState { index, number: 0 }),
            Request::SetVringAddr(address(index)),
        ]);
    }
    for index in 0..2 {
        requests.extend([Request::SetVringKick(index), Request::SetVringEnable(index, true)]);
    }
    requests
}

fn ready() -> Session {
    let mut session = session();
    for request in set_up() {
        session.take(request).unwrap();
    }
    session
}

#[test]
fn what_linux_sends_is_taken() {
    let mut session = session();
    for request in set_up() {
        assert!(session.running(1).is_none());
        session.take(request.clone()).unwrap_or_else(|fault| panic!("{request:?}: {fault:?}"));
    }
    let (queue, located) = session.running(1).unwrap();
    assert_eq!((queue.size, queue.base), (256, 0));
    assert_eq!(located.descriptors, 0x1000 + 0x8000);
    // The reset of a device: both queues are disabled, then it is set up anew.
    for index in [1, 0] {
        assert_eq!(session.take(Request::SetVringEnable(index, false)), Ok(Step::Disable(index as usize)));
    }
    for request in set_up().into_iter().skip(1) {
        session.take(request).unwrap();
    }
    assert!(session.running(0).is_some());
}

#[test]
fn answers() {
    let mut session = session();
    let reply = |session: &mut Session, request| match session.take(request) {
        Ok(Step::Reply(bytes)) => bytes,
        other => panic!("{other:?}"),
    };
    let features = reply(&mut session, Request::GetFeatures);
    assert_eq!(features[..12], [1, 0, 0, 0, 5, 0, 0, 0, 8, 0, 0, 0]);
    assert_eq!(features[12..], FEATURES.to_le_bytes());
    let config = reply(&mut session, Request::GetConfig(4, 6, 0));
    assert_eq!(config[..12], [24, 0, 0, 0, 5, 0, 0, 0, 18, 0, 0, 0]);
    assert_eq!(config[12..], [4, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 5, 6, 1, 0, 0, 0]);
    assert_eq!(session.take(Request::GetQueueNum), Err(Fault::Feature));
    assert_eq!(session.take(Request::SetBackendReqFd), Err(Fault::Feature));
    session.take(Request::SetProtocolFeatures(MQ)).unwrap();
    assert_eq!(reply(&mut session, Request::GetQueueNum)[12..], 1_u64.to_le_bytes());
}

#[test]
fn a_queue_that_runs_does_not_change() {
    let changes = [
        Request::SetVringNum(VringState { index: 0, number: 128 }),
        Request::SetVringBase(VringState { index: 0, number: 1 }),
        Request::SetVringAddr(address(0)),
        Request::SetVringKick(0),
        Request::SetMemTable(vec![REGION]),
        Request::SetFeatures(FEATURES),
    ];
    for change in changes {
        assert_eq!(ready().take(change), Err(Fault::State));
    }
    let mut session = ready();
    assert_eq!(session.take(Request::GetVringBase(0)), Ok(Step::Stop(0)));
    assert!(session.running(0).is_none() && session.running(1).is_some());
    assert_eq!(session.stopped_at(0, 7)[12..], [0, 0, 0, 0, 7, 0, 0, 0]);
    session.take(Request::SetVringKick(0)).unwrap();
    assert!(session.running(0).is_none());
    session.take(Request::SetVringEnable(0, true)).unwrap();
    assert_eq!(session.running(0).unwrap().0.base, 7);
}

#[test]
fn what_is_refused() {
    let refused = |request| ready().take(request).unwrap_err();
    assert_eq!(refused(Request::SetOwner), Fault::State);
    assert_eq!(refused(Request::SetConfig), Fault::Feature);
    assert_eq!(refused(Request::SetVringNum(VringState { index: 2, number: 1 })), Fault::Range);
    assert_eq!(refused(Request::SetVringEnable(7, true)), Fault::Range);
    assert_eq!(refused(Request::SetProtocolFeatures(1 << 6)), Fault::Feature);
    let stopped = |request| {
        let mut session = ready();
        session.take(Request::SetVringEnable(0, false)).unwrap();
        session.take(Request::SetVringEnable(1, false)).unwrap();
        session.take(request)
    };
    for number in [0, 3, 512, 0x1_0100, u32::MAX] {
        assert_eq!(stopped(Request::SetVringNum(VringState { index: 0, number })), Err(Fault::Range));
    }
    let changed = |change: fn(&mut VringAddress)| {
        let mut address = address(0);
        change(&mut address);
        stopped(Request::SetVringAddr(address))
    };
    assert_eq!(changed(|_| {}), Ok(Step::Nothing));
    assert_eq!(changed(|address| address.flags = 1), Err(Fault::Feature));
    assert_eq!(changed(|address| address.used += 2), Err(Fault::Range));
    assert_eq!(changed(|address| address.descriptors += 8), Err(Fault::Range));
    assert_eq!(changed(|address| address.available += 1), Err(Fault::Range));
    assert_eq!(changed(|address| address.used = u64::MAX - 3), Err(Fault::Range));
    assert_eq!(changed(|address| address.descriptors = REGION.user_address - 16), Err(Fault::Range));
    // The last ring that fits, and the first that does not.
    assert_eq!(changed(|address| address.used = REGION.user_address + REGION.size - 2056), Ok(Step::Nothing));
    assert_eq!(changed(|address| address.used = REGION.user_address + REGION.size - 2052), Err(Fault::Range));
    assert_eq!(stopped(Request::SetFeatures(EVENT_IDX)), Err(Fault::Feature));
    assert_eq!(stopped(Request::SetFeatures(FEATURES | 1 << 50)), Err(Fault::Feature));
    assert_eq!(stopped(Request::SetFeatures(PROTOCOL_FEATURES)), Ok(Step::Nothing));
}

#[test]
fn forms() {
    let good = Request::SetMemTable(vec![REGION]).to_bytes(true);
    assert_eq!(good.len(), HEADER + 40);
    assert!(Request::parse(&good, 1).is_ok());
    assert_eq!(Request::parse(&good, 0), Err(Fault::Handles));
    assert_eq!(Request::parse(&good, 2), Err(Fault::Handles));
    assert_eq!(Request::parse(&good[..good.len() - 1], 1), Err(Fault::Size));
    // Linux' message always has room for two.
    let with_room = |count: usize, rest: usize| {
        let mut bytes = Request::SetMemTable(vec![REGION; count]).to_bytes(true);
        bytes.resize(bytes.len() + rest, 0xff);
        let size = (bytes.len() - HEADER) as u32;
        bytes[8..12].copy_from_slice(&size.to_le_bytes());
        Request::parse(&bytes, count)
    };
    assert_eq!(with_room(1, 32), Ok(Request::SetMemTable(vec![REGION])));
    assert_eq!(with_room(1, 7 * 32), Ok(Request::SetMemTable(vec![REGION])));
    assert_eq!(with_room(1, 8 * 32), Err(Fault::Size));
    assert_eq!(with_room(1, 31), Err(Fault::Size));
    let two = |change: fn(&mut Region)| {
        let mut other = Region { guest_address: 0x20_0000, ..REGION };
        change(&mut other);
        Request::parse(&Request::SetMemTable(vec![REGION, other]).to_bytes(false), 2)
    };
    assert!(two(|_| {}).is_ok());
    assert_eq!(two(|region| region.guest_address = 0x10_0000), Err(Fault::Range));
    assert_eq!(two(|region| region.size = 0), Err(Fault::Range));
    assert_eq!(two(|region| region.size = 0x1001), Err(Fault::Range));
    assert_eq!(two(|region| region.guest_address = u64::MAX - 0xfff), Err(Fault::Range));
    assert_eq!(two(|region| region.offset = !0xfff), Err(Fault::Range));
    let nine: Vec<Region> = (0..9).map(|at| Region { guest_address: at << 32, ..REGION }).collect();
    assert_eq!(Request::parse(&Request::SetMemTable(nine).to_bytes(false), 9), Err(Fault::Range));
    let flags = |flags: u32| {
        let mut bytes = Request::GetFeatures.to_bytes(false);
        bytes[4..8].copy_from_slice(&flags.to_le_bytes());
        Request::parse(&bytes, 0)
    };
    assert_eq!(flags(VERSION), Ok(Request::GetFeatures));
    for wrong in [0, 2, VERSION | REPLY, VERSION | 1 << 4] {
        assert_eq!(flags(wrong), Err(Fault::Unknown));
    }
    let kick = |number: u64| {
        let mut bytes = Request::SetVringKick(1).to_bytes(false);
        bytes[12..20].copy_from_slice(&number.to_le_bytes());
        (Request::parse(&bytes, 1), Request::parse(&bytes, 0))
    };
    assert_eq!(kick(1), (Ok(Request::SetVringKick(1)), Err(Fault::Handles)));
    assert_eq!(kick(NO_HANDLE), (Err(Fault::Feature), Err(Fault::Feature)));
    assert_eq!(kick(0x200).1, Err(Fault::Range));
    let call = Request::SetVringCall(1, false).to_bytes(false);
    assert_eq!(Request::parse(&call, 0), Ok(Request::SetVringCall(1, false)));
}

fn any_address() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), (0..0x11_0000_u64).prop_map(|offset| REGION.user_address - 0x8000 + offset / 16 * 16),]
}

fn any_request() -> impl Strategy<Value = Request> {
    let index = 0..3_u32;
    let number = prop_oneof![0..300_u32, (0..16_u32).prop_map(|bit| 1 << bit), any::<u32>()];
    let state = (index.clone(), number).prop_map(|(index, number)| VringState { index, number });
    prop_oneof![
        Just(Request::GetFeatures),
        prop_oneof![Just(FEATURES), any::<u64>(), Just(VERSION_1)].prop_map(Request::SetFeatures),
        Just(Request::SetOwner),
        Just(Request::ResetOwner),
        Just(Request::SetMemTable(vec![REGION])),
        Just(Request::SetMemTable(vec![Region { size: 0x1000, ..REGION }])),
        state.clone().prop_map(Request::SetVringNum),
        state.prop_map(Request::SetVringBase),
        (index.clone(), any_address(), any_address(), any_address()).prop_map(
            |(index, descriptors, available, used)| {
                Request::SetVringAddr(VringAddress { index, descriptors, available, used, ..VringAddress::default() })
            }
        ),
        index.clone().prop_map(|index| Request::SetVringAddr(address(index))),
        index.clone().prop_map(Request::GetVringBase),
        index.clone().prop_map(Request::SetVringKick),
        (index.clone(), any::<bool>()).prop_map(|(index, has)| Request::SetVringCall(index, has)),
        (index, any::<bool>()).prop_map(|(index, enabled)| Request::SetVringEnable(index, enabled)),
        prop_oneof![Just(REPLY_ACK | BACKEND_REQ), any::<u64>()].prop_map(Request::SetProtocolFeatures),
        Just(Request::SetBackendReqFd),
        (any::<u32>(), 0..300_u32, any::<u32>())
            .prop_map(|(offset, size, flags)| Request::GetConfig(offset, size, flags)),
    ]
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..LONGEST + 8),
        kind in 0_u32..30,
        handles in 0_usize..10,
    ) {
        let _ = Request::parse(&bytes, handles);
        let header = Header { request: kind, flags: VERSION, size: bytes.len() as u32 };
        let _ = Request::parse(&[&header.to_bytes(), bytes.as_slice()].concat(), handles);
    }

    #[test]
    fn written_data_is_read(request in any_request(), need_reply: bool) {
        let bytes = request.to_bytes(need_reply);
        prop_assert_eq!(Request::kind(&bytes).unwrap(), (request.message_kind(), need_reply));
        let handles = (0..10).find(|handles| Request::parse(&bytes, *handles) != Err(Fault::Handles)).unwrap();
        match Request::parse(&bytes, handles) {
            Ok(read) => prop_assert_eq!(read, request),
            Err(fault) => prop_assert!(matches!(fault, Fault::Range), "{fault:?}"),
        }
    }

    /// After any sequence of messages, of which those with a fault are skipped: a queue that runs lies in memory with
    /// all its parts, and has features and a size that were offered.
    #[test]
    fn what_runs_is_in_memory(start: bool, requests in proptest::collection::vec(any_request(), 0..40)) {
        let mut session = if start { ready() } else { session() };
        for request in requests {
            let before = session.clone();
            let runs: Vec<_> = (0..2).map(|index| session.running(index)).collect();
            let changes_memory = matches!(request, Request::SetMemTable(_));
            match session.take(request) {
                Err(_) => session = before,
                Ok(_) => prop_assert!(!changes_memory || runs.iter().all(Option::is_none)),
            }
            for index in 0..3 {
                let Some((queue, located)) = session.running(index) else { continue };
                let features = session.features().unwrap();
                prop_assert!(features & VERSION_1 != 0 && features & !FEATURES == 0);
                prop_assert!(queue.size.is_power_of_two() && queue.size <= 256);
                let size = u64::from(queue.size);
                let lens = [(located.descriptors, 16 * size), (located.available, 6 + 2 * size), (located.used, 6 + 8 * size)];
                for (at, len) in lens {
                    let inside = session.regions().iter().any(|region| region.guest_address <= at && at + len <= region.end());
                    prop_assert!(inside);
                }
            }
        }
    }
}
