//! Sockets: streams and datagrams of bytes.

use std::sync::Arc;
use std::thread;

use abi::{Rights, Status};
use zx::{AsHandleRef, Info, Signals, Socket};

use super::{cases, late, raw};
use crate::check::{Outcome, ensure, equal, fails, gives};

cases! {
    "socket.create.options" => create_options,
    "socket.create.related" => create_related,
    "socket.write.then_read" => write_then_read,
    "socket.write.both_ways" => write_both_ways,
    "socket.write.until_full" => write_until_full,
    "socket.write.peer_closed" => write_peer_closed,
    "socket.write.rights" => write_rights,
    "socket.read.empty" => read_empty,
    "socket.read.in_pieces" => read_in_pieces,
    "socket.read.peek" => read_peek,
    "socket.read.what_is_left" => read_what_is_left,
    "socket.datagram.boundaries" => datagram_boundaries,
    "socket.datagram.cut" => datagram_cut,
    "socket.set_disposition.write_disabled" => write_disabled,
    "socket.set_disposition.peer_drains" => peer_drains,
    "socket.set_disposition.bad" => disposition_bad,
    "socket.signals.change" => signals_change,
    "socket.threads.megabytes" => threads_megabytes,
}

fn read(socket: &Socket, room: usize) -> zx::Result<Vec<u8>> {
    let mut bytes = vec![0; room];
    let length = socket.read(&mut bytes)?;
    bytes.truncate(length);
    Ok(bytes)
}

fn create_options() -> Outcome {
    let mut out = [0_u32; 2];
    let [a, b] = &mut out;
    gives(raw!(zx_socket_create, 0x8000_0000_u32, &raw mut *a, &raw mut *b), Status::INVALID_ARGS)
}

fn create_related() -> Outcome {
    let (a, b) = Socket::create(0)?;
    equal(a.basic_info()?.related_koid, b.koid()?)?;
    equal(a.signals()?, Signals::WRITABLE)
}

fn write_then_read() -> Outcome {
    let (a, b) = Socket::create(0)?;
    for length in [1_usize, 100, 4096, 10_000] {
        let bytes: Vec<u8> = (0..length).map(|index| (index * 3 + length) as u8).collect();
        equal(a.write(&bytes)?, length)?;
        ensure(read(&b, 65536)? == bytes, &format!("{length} bytes came out changed"))?;
    }
    Ok(())
}

fn write_both_ways() -> Outcome {
    let (a, b) = Socket::create(0)?;
    a.write(b"to b")?;
    b.write(b"to a")?;
    equal(read(&a, 9)?, b"to a".to_vec())?;
    equal(read(&b, 9)?, b"to b".to_vec())
}

fn write_until_full() -> Outcome {
    let (a, b) = Socket::create(0)?;
    let piece = vec![7; 1 << 16];
    let mut total = 0;
    let end = loop {
        match a.write(&piece) {
            Ok(0) => return Err("a write of nothing succeeded".into()),
            Ok(length) => total += length,
            Err(status) => break status,
        }
        ensure(total < 64 << 20, "it is never full")?;
    };
    equal(end, Status::SHOULD_WAIT)?;
    ensure(!a.signals()?.contains(Signals::WRITABLE), "it is full and writable")?;
    let mut read_total = 0;
    while let Ok(bytes) = read(&b, 1 << 16) {
        read_total += bytes.len();
    }
    equal(read_total, total)?;
    ensure(a.signals()?.contains(Signals::WRITABLE), "it is empty and not writable")
}

fn write_peer_closed() -> Outcome {
    let (a, b) = Socket::create(0)?;
    drop(b);
    fails(a.write(b"x"), Status::PEER_CLOSED)?;
    ensure(a.signals()?.contains(Signals::PEER_CLOSED), "the peer's end is not told")
}

fn write_rights() -> Outcome {
    let a = Socket::create(0)?.0.replace(Rights::READ)?;
    fails(a.write(b"x"), Status::ACCESS_DENIED)
}

fn read_empty() -> Outcome {
    let (a, _b) = Socket::create(0)?;
    fails(read(&a, 8), Status::SHOULD_WAIT)
}

fn read_in_pieces() -> Outcome {
    let (a, b) = Socket::create(0)?;
    a.write(b"abc")?;
    a.write(b"defgh")?;
    // A stream has no boundaries.
    equal(read(&b, 5)?, b"abcde".to_vec())?;
    equal(read(&b, 5)?, b"fgh".to_vec())
}

fn read_peek() -> Outcome {
    let (a, b) = Socket::create(0)?;
    a.write(b"look")?;
    let mut bytes = [0; 2];
    equal(b.read_with(abi::ZX_SOCKET_PEEK, &mut bytes)?, 2)?;
    equal(&bytes, b"lo")?;
    equal(read(&b, 8)?, b"look".to_vec())
}

fn read_what_is_left() -> Outcome {
    let (a, b) = Socket::create(0)?;
    a.write(b"last")?;
    drop(a);
    equal(b.signals()?, Signals::READABLE | Signals::PEER_CLOSED)?;
    equal(read(&b, 8)?, b"last".to_vec())?;
    fails(read(&b, 8), Status::PEER_CLOSED)
}

fn datagram_boundaries() -> Outcome {
    let (a, b) = Socket::create(abi::ZX_SOCKET_DATAGRAM)?;
    a.write(b"one")?;
    a.write(b"three")?;
    equal(read(&b, 64)?, b"one".to_vec())?;
    equal(read(&b, 64)?, b"three".to_vec())?;
    fails(read(&b, 64), Status::SHOULD_WAIT)
}

fn datagram_cut() -> Outcome {
    let (a, b) = Socket::create(abi::ZX_SOCKET_DATAGRAM)?;
    a.write(b"long one")?;
    a.write(b"next")?;
    equal(read(&b, 4)?, b"long".to_vec())?;
    // The rest of a datagram that did not fit is gone.
    equal(read(&b, 64)?, b"next".to_vec())
}

fn write_disabled() -> Outcome {
    let (a, b) = Socket::create(0)?;
    a.set_disposition(abi::ZX_SOCKET_DISPOSITION_WRITE_DISABLED, 0)?;
    fails(a.write(b"x"), Status::BAD_STATE)?;
    ensure(a.signals()?.contains(Signals::SOCKET_WRITE_DISABLED), "this end is not told")?;
    ensure(b.signals()?.contains(Signals::SOCKET_PEER_WRITE_DISABLED), "the peer is not told")?;
    b.write(b"still open")?;
    equal(read(&a, 64)?, b"still open".to_vec())
}

fn peer_drains() -> Outcome {
    let (a, b) = Socket::create(0)?;
    a.write(b"rest")?;
    b.set_disposition(0, abi::ZX_SOCKET_DISPOSITION_WRITE_DISABLED)?;
    fails(a.write(b"x"), Status::BAD_STATE)?;
    equal(read(&b, 64)?, b"rest".to_vec())?;
    fails(read(&b, 64), Status::BAD_STATE)
}

fn disposition_bad() -> Outcome {
    let (a, _b) = Socket::create(0)?;
    fails(a.set_disposition(0x80, 0), Status::INVALID_ARGS)?;
    fails(a.set_disposition(0, 0x80), Status::INVALID_ARGS)
}

fn signals_change() -> Outcome {
    let (a, b) = Socket::create(0)?;
    a.write(b"xy")?;
    equal(b.signals()?, Signals::READABLE | Signals::WRITABLE)?;
    read(&b, 1)?;
    equal(b.signals()?, Signals::READABLE | Signals::WRITABLE)?;
    read(&b, 1)?;
    equal(b.signals()?, Signals::WRITABLE)
}

fn threads_megabytes() -> Outcome {
    const TOTAL: usize = 4 << 20;
    let (a, b) = Socket::create(0)?;
    let a = Arc::new(a);
    let writer = thread::spawn(move || {
        let bytes: Vec<u8> = (0..TOTAL).map(|index| (index / 251) as u8).collect();
        let mut sent = 0;
        while sent < TOTAL {
            match a.write(&bytes[sent..]) {
                Ok(length) => sent += length,
                Err(Status::SHOULD_WAIT) => drop(a.wait_one(Signals::WRITABLE | Signals::PEER_CLOSED, late())?),
                Err(status) => return Err(status),
            }
        }
        Ok(())
    });
    let mut received = Vec::new();
    loop {
        match read(&b, 30_000) {
            Ok(bytes) => received.extend(bytes),
            Err(Status::SHOULD_WAIT) => drop(b.wait_one(Signals::READABLE | Signals::PEER_CLOSED, late())?),
            Err(Status::PEER_CLOSED) => break,
            Err(status) => return Err(status.into()),
        }
    }
    writer.join().map_err(|_| "the writer panicked")??;
    equal(received.len(), TOTAL)?;
    ensure(received.iter().enumerate().all(|(index, byte)| *byte == (index / 251) as u8), "bytes came out changed")
}
