//! Messages survive encoding and decoding; damaged ones are rejected without a panic.
use processargs::ldsvc::{self, Request, Response};
use processargs::{BuildError, Builder, Error, HandleInfo, MAX_BYTES, MAX_HANDLES, Message, PA_FD, PA_PROC_SELF};
use proptest::prelude::*;
use sha2::{Digest, Sha256};

fn sample() -> Vec<u8> {
    let mut builder = Builder::new();
    builder.handle(HandleInfo::new(PA_PROC_SELF)).handle(HandleInfo::with_arg(PA_FD, 2));
    builder.arg(b"/boot/bin/hello").arg(b"").arg(b"c").env(b"A=1").name(b"/svc");
    builder.build().unwrap()
}

#[test]
fn the_bytes_are_those_of_the_format() {
    let bytes = sample();
    let words: Vec<u32> = bytes[..44].chunks(4).map(|w| u32::from_le_bytes(w.try_into().unwrap())).collect();
    assert_eq!(words, [0x4150585d, 0x1000, 36, 44, 3, 63, 1, 67, 1, 0x01, 0x0002_0030]);
    assert_eq!(bytes[44..], *b"/boot/bin/hello\0\0c\0A=1\0/svc\0");
}

#[test]
fn built_messages_are_parsed() {
    let bytes = sample();
    let message = Message::parse(&bytes, 2).unwrap();
    assert_eq!(message.args().collect::<Vec<_>>(), [&b"/boot/bin/hello"[..], b"", b"c"]);
    assert_eq!(message.environ().collect::<Vec<_>>(), [b"A=1"]);
    assert_eq!(message.names().len(), 1);
    assert_eq!(message.find(HandleInfo::with_arg(PA_FD, 2)), Some(1));
    assert_eq!(message.find(HandleInfo::with_arg(PA_FD, 1)), None);
}

#[test]
fn each_fault_has_its_name() {
    let bytes = sample();
    let with = |at: usize, value: u32| {
        let mut bytes = bytes.clone();
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        Message::parse(&bytes, 2).map(|_| ()).unwrap_err()
    };
    assert_eq!(Message::parse(&bytes[..35], 2).unwrap_err(), Error::Truncated);
    assert_eq!(with(0, 1), Error::BadProtocol);
    assert_eq!(with(4, 0x2000), Error::BadVersion);
    assert_eq!(with(8, u32::MAX), Error::BadHandles);
    assert_eq!(with(12, u32::MAX), Error::BadStrings);
    assert_eq!(with(16, u32::MAX), Error::BadStrings);
    assert_eq!(Message::parse(&bytes, 65).unwrap_err(), Error::TooManyHandles);
    assert_eq!(Message::parse(&bytes, 60).unwrap_err(), Error::BadHandles);
    assert_eq!(Message::parse(&bytes[..bytes.len() - 1], 2).unwrap_err(), Error::BadStrings);
}

#[test]
fn the_builder_knows_the_limits() {
    assert_eq!(Builder::new().arg(b"a\0b").build(), Err(BuildError::NulInString));
    assert_eq!(Builder::new().env(&vec![b'x'; MAX_BYTES]).build(), Err(BuildError::TooLong));
    let mut builder = Builder::new();
    for arg in 0..=MAX_HANDLES as u16 {
        builder.handle(HandleInfo::with_arg(PA_FD, arg));
    }
    assert_eq!(builder.build(), Err(BuildError::TooManyHandles));
}

#[test]
fn ordinals_are_made_from_names() {
    let ordinal = |method: &str| {
        let hash = Sha256::digest(format!("fuchsia.ldsvc/Loader.{method}"));
        u64::from_le_bytes(hash[..8].try_into().unwrap()) & !(1 << 63)
    };
    assert_eq!(ordinal("Done"), ldsvc::DONE);
    assert_eq!(ordinal("LoadObject"), ldsvc::LOAD_OBJECT);
    assert_eq!(ordinal("Config"), ldsvc::CONFIG);
    assert_eq!(ordinal("Clone"), ldsvc::CLONE);
}

#[test]
fn loader_requests_have_the_wire_format() {
    let mut out = [0xff; ldsvc::MAX_MESSAGE];
    let len = Request::LoadObject("libc.so").encode(5, &mut out).unwrap();
    assert_eq!(len, 40);
    assert_eq!(out[..16], [5, 0, 0, 0, 2, 0, 0, 1, 0x53, 0x28, 0xdf, 0xd6, 0x51, 0xa1, 0xc5, 0x48]);
    assert_eq!(out[16..24], 7u64.to_le_bytes());
    assert_eq!(out[24..32], [0xff; 8]);
    assert_eq!(out[32..40], *b"libc.so\0");
    assert!(Request::decode(&out[..len], 1).is_err());
    assert_eq!(Request::decode(&out[..len], 0), Ok((5, Request::LoadObject("libc.so"))));
    assert!(Request::LoadObject(&"x".repeat(1025)).encode(0, &mut out).is_err());
    assert!(Request::Done.encode(0, &mut [0; 15]).is_err());
}

proptest! {
    #[test]
    fn any_message_comes_back(
        args in prop::collection::vec(prop::collection::vec(1u8..=255, 0..20), 0..20),
        env in prop::collection::vec(prop::collection::vec(1u8..=255, 0..20), 0..20),
        infos in prop::collection::vec((any::<u8>(), any::<u16>()), 0..64),
    ) {
        let mut builder = Builder::new();
        for arg in &args { builder.arg(arg); }
        for env in &env { builder.env(env); }
        for (kind, arg) in &infos { builder.handle(HandleInfo::with_arg(*kind, *arg)); }
        let bytes = builder.build().unwrap();
        let message = Message::parse(&bytes, infos.len()).unwrap();
        prop_assert!(message.args().eq(args.iter().map(Vec::as_slice)));
        prop_assert!(message.environ().eq(env.iter().map(Vec::as_slice)));
        prop_assert!(message.handles().map(|i| (i.kind, i.arg)).eq(infos));
    }

    #[test]
    fn damaged_messages_never_panic(
        damage in prop::collection::vec((0..73usize, any::<u8>()), 1..10), cut in 0..80usize, handles in 0..70usize,
    ) {
        let mut bytes = sample();
        for (at, value) in damage {
            if let Some(byte) = bytes.get_mut(at) { *byte = value }
        }
        bytes.truncate(cut);
        if let Ok(message) = Message::parse(&bytes, handles) {
            prop_assert_eq!(message.args().count(), message.args().len());
            let _ = message.environ().count() + message.names().count() + message.handles().count();
        }
    }

    #[test]
    fn loader_messages_come_back(name in ".{0,300}", transaction in any::<u32>(), status in any::<i32>(), object in any::<bool>()) {
        let mut out = [0; ldsvc::MAX_MESSAGE];
        for request in [Request::Done, Request::LoadObject(&name), Request::Config(&name), Request::Clone] {
            let len = request.encode(transaction, &mut out).unwrap();
            let handles = usize::from(request == Request::Clone);
            prop_assert_eq!(Request::decode(&out[..len], handles), Ok((transaction, request)));
        }
        let response = Response { ordinal: ldsvc::LOAD_OBJECT, status, has_object: object };
        let len = response.encode(transaction, &mut out).unwrap();
        prop_assert_eq!(Response::decode(&out[..len], usize::from(object)), Ok((transaction, response)));
    }

    #[test]
    fn damaged_loader_messages_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..80), method in 0..5usize) {
        if let (Some(ordinal), true) = ([ldsvc::DONE, ldsvc::LOAD_OBJECT, ldsvc::CONFIG, ldsvc::CLONE].get(method), bytes.len() >= 16) {
            bytes[4] = 2;
            bytes[7] = 1;
            bytes[8..16].copy_from_slice(&ordinal.to_le_bytes());
        }
        let _ = (Request::decode(&bytes, 0), Request::decode(&bytes, 1), Response::decode(&bytes, 0));
    }
}
