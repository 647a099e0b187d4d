//! The state of a socket's ends: dispositions, thresholds, sizes.

use abi::{Rights, Status};
use zx::{AsHandleRef, Signals, Socket};

use super::{cases, raw, without};
use crate::check::{Outcome, ensure, equal, fails, gives};

cases! {
    "socket.set_disposition.write_disabled" => write_disabled,
    "socket.set_disposition.own_write_disabled" => own_write_disabled,
    "socket.set_disposition.peer_drains" => peer_drains,
    "socket.set_disposition.own_reads_go_on" => own_reads_go_on,
    "socket.set_disposition.peer_write_disabled" => peer_write_disabled,
    "socket.set_disposition.both" => disposition_both,
    "socket.set_disposition.enabled_again" => enabled_again,
    "socket.set_disposition.enabled_with_data" => enabled_with_data,
    "socket.set_disposition.wakes_reader" => wakes_reader,
    "socket.set_disposition.bad" => disposition_bad,
    "socket.set_disposition.rights" => disposition_rights,
    "socket.set_disposition.peer_closed" => disposition_peer_closed,
    "socket.threshold.property" => threshold_property,
    "socket.threshold.signals" => threshold_signals,
    "socket.threshold.cleared" => threshold_cleared,
    "socket.threshold.bounds" => threshold_bounds,
    "socket.threshold.peer_closed" => threshold_peer_closed,
    "socket.info.stream" => info_stream,
    "socket.info.datagram" => info_datagram,
    "socket.info.peer_closed" => info_peer_closed,
    "socket.signal_peer.peer_closed" => signal_peer_closed,
}

const OFF: u32 = abi::ZX_SOCKET_DISPOSITION_WRITE_DISABLED;
const ON: u32 = abi::ZX_SOCKET_DISPOSITION_WRITE_ENABLED;
const RX: u32 = abi::ZX_PROP_SOCKET_RX_THRESHOLD;
const TX: u32 = abi::ZX_PROP_SOCKET_TX_THRESHOLD;

fn read(socket: &Socket, room: usize) -> zx::Result<Vec<u8>> {
    let mut bytes = vec![0; room];
    let length = socket.read(&mut bytes)?;
    bytes.truncate(length);
    Ok(bytes)
}

fn has(socket: &Socket, signals: Signals) -> zx::Result<bool> {
    Ok(socket.signals()?.contains(signals))
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

/// The same, but the end that has written disables its own writes.
fn own_write_disabled() -> Outcome {
    let (a, b) = Socket::create(0)?;
    b.write(b"rest")?;
    b.set_disposition(OFF, 0)?;
    one_way_is_closed(&a, &b)
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

fn own_reads_go_on() -> Outcome {
    // An end that may not write any more still reads, and the other end still writes.
    let (a, b) = Socket::create(0)?;
    b.write(b"before")?;
    a.set_disposition(OFF, 0)?;
    b.write(b" after")?;
    equal(read(&a, 64)?, b"before after".to_vec())?;
    fails(read(&a, 64), Status::SHOULD_WAIT)?;
    fails(read(&b, 64), Status::BAD_STATE)
}

fn peer_write_disabled() -> Outcome {
    let (a, b) = Socket::create(0)?;
    b.write(b"rest")?;
    a.set_disposition(0, OFF)?;
    one_way_is_closed(&a, &b)
}

/// `b` has written its last bytes and may not write any more; the other direction is open.
fn one_way_is_closed(a: &Socket, b: &Socket) -> Outcome {
    let told = Signals::WRITABLE | Signals::SOCKET_PEER_WRITE_DISABLED;
    equal((a.signals()?, b.signals()?), (told | Signals::READABLE, Signals::SOCKET_WRITE_DISABLED))?;
    a.write(b"on")?;
    equal(b.signals()?, Signals::READABLE | Signals::SOCKET_WRITE_DISABLED)?;
    fails(b.write(b"x"), Status::BAD_STATE)?;
    equal((a.info()?.rx_buf_available, b.info()?.rx_buf_available), (4, 2))?;
    equal(read(a, 64)?, b"rest".to_vec())?;
    fails(read(a, 64), Status::BAD_STATE)?;
    equal(a.signals()?, told)?;
    equal(read(b, 64)?, b"on".to_vec())?;
    fails(read(b, 64), Status::SHOULD_WAIT)
}

fn disposition_both() -> Outcome {
    let (a, b) = Socket::create(0)?;
    a.set_disposition(OFF, OFF)?;
    for end in [&a, &b] {
        equal(end.signals()?, Signals::SOCKET_WRITE_DISABLED | Signals::SOCKET_PEER_WRITE_DISABLED)?;
        fails(end.write(b"x"), Status::BAD_STATE)?;
        fails(read(end, 1), Status::BAD_STATE)?;
    }
    drop(b);
    fails(a.write(b"x"), Status::PEER_CLOSED)?;
    fails(read(&a, 1), Status::PEER_CLOSED)
}

fn enabled_again() -> Outcome {
    let (a, b) = Socket::create(0)?;
    a.set_disposition(OFF, 0)?;
    a.set_disposition(ON, 0)?;
    equal((a.signals()?, b.signals()?), (Signals::WRITABLE, Signals::WRITABLE))?;
    a.write(b"again")?;
    equal(read(&b, 9)?, b"again".to_vec())?;
    fails(read(&b, 9), Status::SHOULD_WAIT)
}

fn enabled_with_data() -> Outcome {
    let (a, b) = Socket::create(0)?;
    a.write(b"data")?;
    a.set_disposition(OFF, 0)?;
    // Nothing changes, not even the part of the call about the other end.
    fails(a.set_disposition(ON, OFF), Status::BAD_STATE)?;
    fails(b.set_disposition(OFF, ON), Status::BAD_STATE)?;
    fails(a.write(b"x"), Status::BAD_STATE)?;
    b.write(b"open")?;
    equal(read(&b, 9)?, b"data".to_vec())?;
    a.set_disposition(ON, 0)?;
    a.write(b"x").map(drop).map_err(Into::into)
}

fn wakes_reader() -> Outcome {
    let (a, b) = Socket::create(0)?;
    let reader = std::thread::spawn(move || {
        b.wait_one(Signals::READABLE | Signals::PEER_CLOSED | Signals::SOCKET_PEER_WRITE_DISABLED, super::late())
    });
    std::thread::sleep(std::time::Duration::from_millis(20));
    a.set_disposition(OFF, 0)?;
    let seen = reader.join().map_err(|_| "the reader panicked")??;
    ensure(seen.contains(Signals::SOCKET_PEER_WRITE_DISABLED), "the reader is not told")
}

fn disposition_rights() -> Outcome {
    let (a, _b) = Socket::create(0)?;
    let mute = Socket::from(without(&a, Rights::MANAGE_SOCKET)?);
    fails(mute.set_disposition(OFF, 0), Status::ACCESS_DENIED)?;
    equal(a.signals()?, Signals::WRITABLE)
}

fn disposition_peer_closed() -> Outcome {
    let (a, b) = Socket::create(0)?;
    b.write(b"left")?;
    b.set_disposition(OFF, 0)?;
    drop(b);
    // Only this end's disposition can still be changed.
    a.set_disposition(0, 0)?;
    fails(a.set_disposition(0, ON), Status::BAD_STATE)?;
    a.set_disposition(OFF, OFF)?;
    let closed = Signals::PEER_CLOSED | Signals::SOCKET_PEER_WRITE_DISABLED | Signals::READABLE;
    equal(a.signals()?, closed | Signals::SOCKET_WRITE_DISABLED)?;
    a.set_disposition(ON, 0)?;
    equal(a.signals()?, closed | Signals::WRITABLE)?;
    fails(a.write(b"more"), Status::PEER_CLOSED)
}

fn property(socket: &Socket, property: u32) -> Result<u64, Status> {
    let mut word = 0_u64;
    match raw!(zx_object_get_property, socket.raw_handle(), property, &raw mut word, 8) {
        Status::OK => Ok(word),
        status => Err(status),
    }
}

fn set(socket: &Socket, property: u32, word: u64) -> Status {
    raw!(zx_object_set_property, socket.raw_handle(), property, &raw const word, 8)
}

fn threshold_property() -> Outcome {
    let (a, b) = Socket::create(0)?;
    for (end, kind, word) in [(&a, RX, 1000), (&a, TX, 2000), (&b, RX, 3000)] {
        equal(property(end, kind)?, 0)?;
        gives(set(end, kind, word), Status::OK)?;
    }
    equal((property(&a, RX)?, property(&a, TX)?), (1000, 2000))?;
    equal((property(&b, RX)?, property(&b, TX)?), (3000, 0))?;
    let status = raw!(zx_object_set_property, a.raw_handle(), RX, &raw const *b"1234567", 7);
    gives(status, Status::BUFFER_TOO_SMALL)?;
    equal(property(&a, RX)?, 1000)
}

fn threshold_signals() -> Outcome {
    const READ: Signals = Signals::SOCKET_READ_THRESHOLD;
    const WRITE: Signals = Signals::SOCKET_WRITE_THRESHOLD;
    let (a, b) = Socket::create(0)?;
    let room = a.info()?.tx_buf_max;
    gives(set(&b, RX, 100), Status::OK)?;
    gives(set(&a, TX, room as u64 - 50), Status::OK)?;
    // The thresholds belong to the end, not to the handle.
    let (a_twin, b_twin) = (
        Socket::from(a.duplicate_handle(Rights::SAME_RIGHTS)?),
        Socket::from(b.duplicate_handle(Rights::SAME_RIGHTS)?),
    );
    equal((property(&b_twin, RX)?, property(&a_twin, TX)?), (100, room as u64 - 50))?;
    let same = || -> Outcome { equal((a_twin.signals()?, b_twin.signals()?), (a.signals()?, b.signals()?)) };
    same()?;
    ensure(!has(&b, READ)? && has(&a, WRITE)?, "an empty socket")?;
    a.write(&[0; 50])?;
    ensure(!has(&b, READ)? && has(&a, WRITE)?, "at the writer's threshold")?;
    a.write(&[0; 1])?;
    ensure(!has(&b, READ)? && !has(&a, WRITE)?, "below the writer's threshold")?;
    a.write(&[0; 49])?;
    ensure(has(&b, READ)? && !has(&a, WRITE)?, "at the reader's threshold")?;
    same()?;
    // When the thresholds are raised and lowered again, the server compares them with the current number of bytes each
    // time.
    gives(set(&b_twin, RX, 150), Status::OK)?;
    gives(set(&a_twin, TX, room as u64 - 100), Status::OK)?;
    ensure(!has(&b, READ)? && has(&a, WRITE)?, "the thresholds have changed")?;
    same()?;
    gives(set(&b, RX, 100), Status::OK)?;
    gives(set(&a, TX, room as u64 - 50), Status::OK)?;
    ensure(has(&b, READ)? && !has(&a, WRITE)?, "the thresholds are what they were")?;
    b.read_with(abi::ZX_SOCKET_PEEK, &mut [0; 64])?;
    ensure(has(&b, READ)?, "looking takes nothing")?;
    read(&b, 1)?;
    ensure(!has(&b, READ)? && has(&b, Signals::READABLE)?, "below the reader's threshold")?;
    read(&b, 60)?;
    ensure(has(&a, WRITE)?, "there is room again")?;
    // The other direction is not affected.
    ensure(!has(&a, READ)? && !has(&b, WRITE)?, "the other direction")
}

fn threshold_cleared() -> Outcome {
    let (a, b) = Socket::create(0)?;
    a.write(&[0; 10])?;
    // Setting a threshold compares it with the current number of bytes.
    gives(set(&b, RX, 10), Status::OK)?;
    gives(set(&a, TX, 10), Status::OK)?;
    ensure(has(&b, Signals::SOCKET_READ_THRESHOLD)? && has(&a, Signals::SOCKET_WRITE_THRESHOLD)?, "not set")?;
    gives(set(&b, RX, 0), Status::OK)?;
    gives(set(&a, TX, 0), Status::OK)?;
    equal((a.signals()?, b.signals()?), (Signals::WRITABLE, Signals::WRITABLE | Signals::READABLE))
}

fn threshold_bounds() -> Outcome {
    let (a, _b) = Socket::create(0)?;
    let room = a.info()?.tx_buf_max as u64;
    for kind in [RX, TX] {
        gives(set(&a, kind, room), Status::OK)?;
        for word in [room + 1, u64::MAX] {
            gives(set(&a, kind, word), Status::INVALID_ARGS)?;
        }
        equal(property(&a, kind)?, room)?;
    }
    let vmo = zx::Vmo::create(4096, 0)?;
    let word = 1_u64;
    gives(raw!(zx_object_set_property, vmo.raw_handle(), RX, &raw const word, 8), Status::WRONG_TYPE)
}

fn threshold_peer_closed() -> Outcome {
    let (a, b) = Socket::create(0)?;
    gives(set(&a, TX, 10), Status::OK)?;
    b.write(b"ten bytes.")?;
    drop(b);
    ensure(!has(&a, Signals::SOCKET_WRITE_THRESHOLD)?, "there is nobody to write to")?;
    gives(set(&a, TX, 20), Status::PEER_CLOSED)?;
    // The remaining bytes can still be read and waited for.
    gives(set(&a, RX, 10), Status::OK)?;
    ensure(has(&a, Signals::SOCKET_READ_THRESHOLD)?, "ten bytes are there")?;
    read(&a, 1)?;
    ensure(!has(&a, Signals::SOCKET_READ_THRESHOLD)?, "nine bytes are there")
}

fn info_stream() -> Outcome {
    let (a, b) = Socket::create(0)?;
    a.write(b"five!")?;
    a.write(b"six!!!")?;
    let (sent, received) = (a.info()?, b.info()?);
    equal((sent.options, sent.tx_buf_size, sent.rx_buf_size, sent.rx_buf_available), (0, 11, 0, 0))?;
    equal((received.rx_buf_size, received.rx_buf_available, received.tx_buf_size), (11, 11, 0))?;
    ensure(sent.tx_buf_max == received.rx_buf_max && sent.tx_buf_max > 65536, "the capacity")?;
    read(&b, 4)?;
    equal((b.info()?.rx_buf_available, a.info()?.tx_buf_size), (7, 7))
}

fn info_datagram() -> Outcome {
    let (a, b) = Socket::create(abi::ZX_SOCKET_DATAGRAM)?;
    a.write(b"five!")?;
    a.write(b"six!!!")?;
    let info = b.info()?;
    // One read can return at most the first datagram.
    equal((info.options, info.rx_buf_size, info.rx_buf_available), (abi::ZX_SOCKET_DATAGRAM, 11, 5))?;
    read(&b, 4)?;
    equal((b.info()?.rx_buf_size, b.info()?.rx_buf_available, a.info()?.tx_buf_size), (6, 6, 6))
}

fn info_peer_closed() -> Outcome {
    let (a, b) = Socket::create(0)?;
    a.write(b"left")?;
    drop(a);
    let info = b.info()?;
    equal((info.rx_buf_available, info.tx_buf_size, info.tx_buf_max), (4, 0, 0))
}

fn signal_peer_closed() -> Outcome {
    let (a, b) = Socket::create(0)?;
    a.signal_peer(Signals::NONE, Signals::USER_3)?;
    ensure(has(&b, Signals::USER_3)?, "the peer has not the signal")?;
    drop(b);
    fails(a.signal_peer(Signals::NONE, Signals::USER_3), Status::PEER_CLOSED)
}
