//! Sockets: streams and datagrams of bytes.

use std::sync::Arc;
use std::thread;

use abi::{Rights, Status};
use zx::{AsHandleRef, Info, Mapping, Signals, Socket, Vmar, Vmo};

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
    "socket.write.short" => write_short,
    "socket.write.null_buffer" => write_null_buffer,
    "socket.write.bad_buffer" => write_bad_buffer,
    "socket.write.options" => write_options,
    "socket.write.nothing" => write_nothing,
    "socket.read.empty" => read_empty,
    "socket.read.in_pieces" => read_in_pieces,
    "socket.read.peek" => read_peek,
    "socket.read.peek_empty" => read_peek_empty,
    "socket.read.what_is_left" => read_what_is_left,
    "socket.read.nothing" => read_nothing,
    "socket.read.null_buffer" => read_null_buffer,
    "socket.read.bad_buffer" => read_bad_buffer,
    "socket.read.options" => read_options,
    "socket.read.rights" => read_rights,
    "socket.datagram.boundaries" => datagram_boundaries,
    "socket.datagram.cut" => datagram_cut,
    "socket.datagram.no_short_write" => datagram_no_short_write,
    "socket.datagram.too_large" => datagram_too_large,
    "socket.datagram.empty" => datagram_empty,
    "socket.datagram.peek" => datagram_peek,
    "socket.datagram.peek_empty" => datagram_peek_empty,
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
    ensure(a.koid()? != 0 && b.koid()? != 0 && a.koid()? != b.koid()?, "an end has no koid of its own")?;
    equal((a.basic_info()?.related_koid, b.basic_info()?.related_koid), (b.koid()?, a.koid()?))?;
    equal((a.signals()?, b.signals()?), (Signals::WRITABLE, Signals::WRITABLE))
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
    // A stream keeps no boundaries between writes.
    equal(read(&b, 5)?, b"abcde".to_vec())?;
    equal(read(&b, 5)?, b"fgh".to_vec())
}

fn read_peek() -> Outcome {
    let (a, b) = Socket::create(0)?;
    a.write(b"look")?;
    let mut bytes = [0; 2];
    equal(b.read_with(abi::ZX_SOCKET_PEEK, &mut bytes)?, 2)?;
    equal(&bytes, b"lo")?;
    // The bytes of two writes are read as one, and a peek leaves all of them there.
    a.write(b"ing")?;
    let mut bytes = [0; 16];
    equal(b.read_with(abi::ZX_SOCKET_PEEK, &mut bytes)?, 7)?;
    equal(&bytes[..7], b"looking")?;
    equal((a.signals()?, b.signals()?), (Signals::WRITABLE, Signals::WRITABLE | Signals::READABLE))?;
    equal(b.info()?.rx_buf_available, 7)?;
    equal(read(&b, 8)?, b"looking".to_vec())?;
    equal(b.signals()?, Signals::WRITABLE)
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
    // A datagram that is longer than a page.
    let long: Vec<u8> = (0..5000).map(|index| (index * 7 + index / 256) as u8).collect();
    equal(a.write(&long)?, 5000)?;
    let ready = || -> zx::Result<usize> { Ok(b.info()?.rx_buf_available) };
    equal(ready()?, 3)?;
    equal(read(&b, 64)?, b"one".to_vec())?;
    equal(ready()?, 5)?;
    equal(read(&b, 64)?, b"three".to_vec())?;
    equal(ready()?, 5000)?;
    ensure(read(&b, 5000)? == long, "a long datagram came out changed")?;
    equal(ready()?, 0)?;
    fails(read(&b, 64), Status::SHOULD_WAIT)
}

fn datagram_cut() -> Outcome {
    let (a, b) = Socket::create(abi::ZX_SOCKET_DATAGRAM)?;
    a.write(b"long one")?;
    a.write(b"next")?;
    equal(read(&b, 4)?, b"long".to_vec())?;
    // The rest of a datagram that did not fit into the buffer is lost.
    equal(read(&b, 64)?, b"next".to_vec())
}

fn write_short() -> Outcome {
    let (a, b) = Socket::create(0)?;
    let room = a.info()?.tx_buf_max;
    let bytes: Vec<u8> = (0..room + 5000).map(|index| (index % 241) as u8).collect();
    equal(a.write(&bytes)?, room)?;
    fails(a.write(&bytes), Status::SHOULD_WAIT)?;
    // There is room for a part, so a part is written.
    let mut got = read(&b, 300)?;
    equal(a.write(&bytes[room..])?, 300)?;
    while let Ok(more) = read(&b, 100_000) {
        got.extend(more);
    }
    ensure(got == bytes[..room + 300], "the bytes came out changed")
}

const BAD: [u64; 5] = [0x1000, 0x7fff_ffff_f000, 0x8000_0000_0000, 0xffff_8000_0000_0000, u64::MAX];

fn write_null_buffer() -> Outcome {
    for option in [0, abi::ZX_SOCKET_DATAGRAM] {
        let (a, b) = Socket::create(option)?;
        gives(raw!(zx_socket_write, a.raw_handle(), 0, 0, 1, 0), Status::INVALID_ARGS)?;
        fails(read(&b, 1), Status::SHOULD_WAIT)?;
    }
    Ok(())
}

/// A mapping with these permissions; without permission the server can neither write nor read it for a program.
fn closed_memory(root: &Vmar, permission: u32) -> zx::Result<Mapping<'_>> {
    root.map_here(permission, &Vmo::create(4096, 0)?, 0, 4096)
}

fn write_bad_buffer() -> Outcome {
    let root = zx::startup::vmar_root_self();
    let unreadable = closed_memory(&root, 0)?;
    for option in [0, abi::ZX_SOCKET_DATAGRAM] {
        let (a, b) = Socket::create(option)?;
        for bad in BAD.into_iter().chain([unreadable.address() as u64]) {
            gives(raw!(zx_socket_write, a.raw_handle(), 0, bad, 4, 0), Status::INVALID_ARGS)?;
            gives(raw!(zx_socket_write, a.raw_handle(), 0, b"four".as_ptr(), 4, bad), Status::INVALID_ARGS)?;
        }
        fails(read(&b, 1), Status::SHOULD_WAIT)?;
    }
    Ok(())
}

fn write_options() -> Outcome {
    let (a, b) = Socket::create(0)?;
    for options in [1_u32, abi::ZX_SOCKET_PEEK, 0x8000_0000] {
        gives(raw!(zx_socket_write, a.raw_handle(), options, b"x".as_ptr(), 1, 0), Status::INVALID_ARGS)?;
    }
    fails(read(&b, 1), Status::SHOULD_WAIT)
}

fn write_nothing() -> Outcome {
    let (a, b) = Socket::create(0)?;
    equal(a.write(b"")?, 0)?;
    gives(raw!(zx_socket_write, a.raw_handle(), 0, 0, 0, 0), Status::OK)?;
    fails(read(&b, 1), Status::SHOULD_WAIT)?;
    equal(b.signals()?, Signals::WRITABLE)
}

fn read_peek_empty() -> Outcome {
    let (a, b) = Socket::create(0)?;
    let mut bytes = [0; 2];
    fails(b.read_with(abi::ZX_SOCKET_PEEK, &mut bytes), Status::SHOULD_WAIT)?;
    drop(a);
    fails(b.read_with(abi::ZX_SOCKET_PEEK, &mut bytes), Status::PEER_CLOSED)
}

fn read_nothing() -> Outcome {
    let (a, b) = Socket::create(0)?;
    fails(read(&b, 0), Status::SHOULD_WAIT)?;
    a.write(b"data")?;
    equal(read(&b, 0)?, Vec::new())?;
    gives(raw!(zx_socket_read, b.raw_handle(), 0, 0, 0, 0), Status::OK)?;
    equal(read(&b, 9)?, b"data".to_vec())
}

fn read_null_buffer() -> Outcome {
    let (a, b) = Socket::create(0)?;
    a.write(b"stay")?;
    gives(raw!(zx_socket_read, b.raw_handle(), 0, 0, 1, 0), Status::INVALID_ARGS)?;
    equal(read(&b, 9)?, b"stay".to_vec())
}

fn read_bad_buffer() -> Outcome {
    let root = zx::startup::vmar_root_self();
    let closed = [closed_memory(&root, 0)?, closed_memory(&root, abi::ZX_VM_PERM_READ)?];
    for option in [0, abi::ZX_SOCKET_DATAGRAM] {
        let (a, b) = Socket::create(option)?;
        a.write(b"stay")?;
        let mut bytes = [0_u8; 4];
        for bad in BAD.into_iter().chain(closed.iter().map(|mapping| mapping.address() as u64)) {
            for peek in [0, abi::ZX_SOCKET_PEEK] {
                let mut actual = 99_usize;
                let status = raw!(zx_socket_read, b.raw_handle(), peek, bad, 4, &raw mut actual);
                gives(status, Status::INVALID_ARGS)?;
                equal(std::hint::black_box(actual), 99)?;
                let status = raw!(zx_socket_read, b.raw_handle(), peek, bytes.as_mut_ptr(), 4, bad);
                gives(status, Status::INVALID_ARGS)?;
            }
        }
        equal(read(&b, 9)?, b"stay".to_vec())?;
    }
    Ok(())
}

fn read_options() -> Outcome {
    let (a, b) = Socket::create(0)?;
    a.write(b"x")?;
    for options in [1, 2, 4, 0x10, 0x8000_0000] {
        fails(b.read_with(options, &mut [0]), Status::INVALID_ARGS)?;
    }
    equal(read(&b, 9)?, b"x".to_vec())
}

fn read_rights() -> Outcome {
    let (a, b) = Socket::create(0)?;
    a.write(b"x")?;
    fails(read(&b.replace(Rights::WRITE)?, 1), Status::ACCESS_DENIED)
}

fn datagram_no_short_write() -> Outcome {
    let (a, b) = Socket::create(abi::ZX_SOCKET_DATAGRAM)?;
    let room = a.info()?.tx_buf_max;
    let most = vec![1; room - 10];
    equal(a.write(&most)?, room - 10)?;
    fails(a.write(&[2; 11]), Status::SHOULD_WAIT)?;
    equal(a.write(&[3; 10])?, 10)?;
    fails(a.write(&[4]), Status::SHOULD_WAIT)?;
    ensure(!a.signals()?.contains(Signals::WRITABLE), "it is full and writable")?;
    equal(read(&b, room)?.len(), room - 10)?;
    equal(read(&b, room)?, vec![3; 10])?;
    fails(read(&b, room), Status::SHOULD_WAIT)
}

fn datagram_too_large() -> Outcome {
    let (a, b) = Socket::create(abi::ZX_SOCKET_DATAGRAM)?;
    let room = a.info()?.tx_buf_max;
    fails(a.write(&vec![1; room + 1]), Status::OUT_OF_RANGE)?;
    // The count of written bytes stays untouched, because nothing was written.
    let (huge, mut written) = (vec![1_u8; 2 * room], 77_usize);
    let status = raw!(zx_socket_write, a.raw_handle(), 0, huge.as_ptr(), huge.len(), &raw mut written);
    gives(status, Status::OUT_OF_RANGE)?;
    equal(std::hint::black_box(written), 77)?;
    fails(read(&b, 1), Status::SHOULD_WAIT)?;
    equal(a.write(&vec![1; room])?, room)?;
    // A datagram that can never fit gets another error than one that does not fit now.
    fails(a.write(&vec![1; room + 1]), Status::OUT_OF_RANGE)?;
    equal(read(&b, room)?.len(), room)
}

fn datagram_empty() -> Outcome {
    let (a, b) = Socket::create(abi::ZX_SOCKET_DATAGRAM)?;
    fails(a.write(b""), Status::INVALID_ARGS)?;
    fails(read(&b, 0), Status::SHOULD_WAIT)?;
    a.write(b"cut")?;
    a.write(b"next")?;
    // A read of 0 bytes consumes nothing, however often it is made; any other read consumes the whole datagram.
    for _ in 0..3 {
        equal(read(&b, 0)?, Vec::new())?;
        gives(raw!(zx_socket_read, b.raw_handle(), 0, 0, 0, 0), Status::OK)?;
        equal((b.info()?.rx_buf_available, b.info()?.rx_buf_size), (3, 7))?;
    }
    equal(b.signals()?, Signals::READABLE | Signals::WRITABLE)?;
    equal(read(&b, 1)?, b"c".to_vec())?;
    equal(read(&b, 9)?, b"next".to_vec())
}

fn datagram_peek() -> Outcome {
    let (a, b) = Socket::create(abi::ZX_SOCKET_DATAGRAM)?;
    a.write(b"first")?;
    a.write(b"second")?;
    let mut bytes = [0; 16];
    equal(b.read_with(abi::ZX_SOCKET_PEEK, &mut bytes)?, 5)?;
    equal(&bytes[..5], b"first")?;
    // A peek with a small buffer does not cut the datagram.
    equal(b.read_with(abi::ZX_SOCKET_PEEK, &mut bytes[..2])?, 2)?;
    equal(b.read_with(abi::ZX_SOCKET_PEEK, &mut bytes)?, 5)?;
    equal(&bytes[..5], b"first")?;
    equal(read(&b, 16)?, b"first".to_vec())?;
    equal(b.read_with(abi::ZX_SOCKET_PEEK, &mut bytes)?, 6)?;
    equal(&bytes[..6], b"second")?;
    equal(read(&b, 16)?, b"second".to_vec())
}

fn datagram_peek_empty() -> Outcome {
    let (_a, b) = Socket::create(abi::ZX_SOCKET_DATAGRAM)?;
    fails(b.read_with(abi::ZX_SOCKET_PEEK, &mut [0; 2]), Status::SHOULD_WAIT)
}

fn signals_change() -> Outcome {
    let (a, b) = Socket::create(0)?;
    equal((a.signals()?, b.signals()?), (Signals::WRITABLE, Signals::WRITABLE))?;
    a.write(&[6; 8192])?;
    equal((a.signals()?, b.signals()?), (Signals::WRITABLE, Signals::READABLE | Signals::WRITABLE))?;
    equal(read(&b, 1 << 17)?.len(), 8192)?;
    equal((a.signals()?, b.signals()?), (Signals::WRITABLE, Signals::WRITABLE))?;
    a.write(b"xy")?;
    equal(b.signals()?, Signals::READABLE | Signals::WRITABLE)?;
    read(&b, 1)?;
    equal(b.signals()?, Signals::READABLE | Signals::WRITABLE)?;
    read(&b, 1)?;
    equal(b.signals()?, Signals::WRITABLE)?;
    // Programs can set user signals, but not these.
    fails(a.signal_peer(Signals::WRITABLE, Signals::NONE), Status::INVALID_ARGS)?;
    a.signal_peer(Signals::NONE, Signals::USER_1)?;
    equal((a.signals()?, b.signals()?), (Signals::WRITABLE, Signals::WRITABLE | Signals::USER_1))?;
    drop(b);
    equal(a.signals()?, Signals::PEER_CLOSED)
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
