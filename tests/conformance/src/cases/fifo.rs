//! FIFOs and counters.

use abi::{Rights, Status};
use zx::{AsHandleRef, Counter, Fifo, Info, Signals};

use super::{cases, raw, without};
use crate::check::{Outcome, ensure, equal, fails, gives};

cases! {
    "fifo.create.sizes" => create_sizes,
    "fifo.create.options" => create_options,
    "fifo.create.related" => create_related,
    "fifo.write.then_read" => write_then_read,
    "fifo.write.partial" => write_partial,
    "fifo.write.bad_buffer" => write_bad_buffer,
    "fifo.write.rights" => write_rights,
    "fifo.write.order" => write_order,
    "fifo.write.until_full" => write_until_full,
    "fifo.write.wrong_size" => write_wrong_size,
    "fifo.write.peer_closed" => write_peer_closed,
    "fifo.read.empty" => read_empty,
    "fifo.read.what_is_left" => read_what_is_left,
    "fifo.read.one_by_one" => read_one_by_one,
    "fifo.read.wrong_size" => read_wrong_size,
    "fifo.read.bad_buffer" => read_bad_buffer,
    "fifo.read.rights" => read_rights,
    "fifo.signals.change" => signals_change,
    "fifo.close.signals_peer" => close_signals_peer,
    "counter.add.and_read" => counter_add_and_read,
    "counter.add.overflow" => counter_add_overflow,
    "counter.create.options" => counter_create_options,
    "counter.rights.each" => counter_rights,
    "counter.signals.sign" => counter_signals_sign,
}

fn create_sizes() -> Outcome {
    fails(Fifo::create(0, 8), Status::OUT_OF_RANGE)?;
    fails(Fifo::create(8, 0), Status::OUT_OF_RANGE)?;
    fails(Fifo::create(1024, 8), Status::OUT_OF_RANGE)?;
    // A product that wraps around to 0.
    fails(Fifo::create(1 << 32, 1 << 32), Status::OUT_OF_RANGE)?;
    fails(Fifo::create(usize::MAX, 1), Status::OUT_OF_RANGE)?;
    fails(Fifo::create(128, 33), Status::OUT_OF_RANGE)?;
    fails(Fifo::create(0, 0), Status::OUT_OF_RANGE)?;
    // The server checks the sizes before the options.
    let mut out = [0_u32; 2];
    let [a, b] = &mut out;
    gives(raw!(zx_fifo_create, 0, 0, 1, &raw mut *a, &raw mut *b), Status::OUT_OF_RANGE)?;
    equal(out, [0; 2])?;
    for (count, size) in [(512, 8), (1, 4096), (4096, 1), (3, 5), (35, 32)] {
        Fifo::create(count, size)?;
    }
    Ok(())
}

fn create_options() -> Outcome {
    let mut out = [0_u32; 2];
    let [a, b] = &mut out;
    gives(raw!(zx_fifo_create, 8, 8, 1, &raw mut *a, &raw mut *b), Status::INVALID_ARGS)?;
    equal(out, [0; 2])
}

fn create_related() -> Outcome {
    let (a, b) = Fifo::create(8, 8)?;
    equal((a.basic_info()?.related_koid, b.basic_info()?.related_koid), (b.koid()?, a.koid()?))?;
    equal((a.signals()?, b.signals()?), (Signals::WRITABLE, Signals::WRITABLE))
}

fn write_then_read() -> Outcome {
    let (a, b) = Fifo::create(8, 4)?;
    equal(a.write(4, b"one1two2")?, 2)?;
    let mut bytes = [0; 32];
    equal(b.read(4, &mut bytes)?, 2)?;
    equal(&bytes[..8], b"one1two2")
}

fn write_until_full() -> Outcome {
    let (a, b) = Fifo::create(4, 4)?;
    equal(a.write(4, &[1; 24])?, 4)?;
    fails(a.write(4, &[1; 4]), Status::SHOULD_WAIT)?;
    ensure(!a.signals()?.contains(Signals::WRITABLE), "it is full and writable")?;
    b.read(4, &mut [0; 4])?;
    ensure(a.signals()?.contains(Signals::WRITABLE), "there is room and it is not writable")
}

fn write_wrong_size() -> Outcome {
    let (a, _b) = Fifo::create(4, 4)?;
    fails(a.write(8, &[1; 8]), Status::OUT_OF_RANGE)
}

fn write_peer_closed() -> Outcome {
    let (a, b) = Fifo::create(4, 4)?;
    drop(b);
    fails(a.write(4, &[1; 4]), Status::PEER_CLOSED)
}

fn write_partial() -> Outcome {
    let (a, b) = Fifo::create(4, 2)?;
    equal(a.write(2, b"aabbcc")?, 3)?;
    // There is room for one element of three.
    equal(a.write(2, b"ddeeff")?, 1)?;
    let mut bytes = [0; 16];
    equal(b.read(2, &mut bytes)?, 4)?;
    equal(&bytes[..8], b"aabbccdd")
}

const BAD: [u64; 4] = [0, 0x1000, 0x8000_0000_0000, u64::MAX];

fn write_bad_buffer() -> Outcome {
    let (a, b) = Fifo::create(8, 4)?;
    for bad in BAD {
        gives(raw!(zx_fifo_write, a.raw_handle(), 4, bad, 1, 0), Status::INVALID_ARGS)?;
        if bad != 0 {
            gives(raw!(zx_fifo_write, a.raw_handle(), 4, b"four".as_ptr(), 1, bad), Status::INVALID_ARGS)?;
        }
    }
    fails(b.read(4, &mut [0; 4]), Status::SHOULD_WAIT)
}

fn write_rights() -> Outcome {
    let (a, _b) = Fifo::create(8, 4)?;
    fails(Fifo::from(without(&a, Rights::WRITE)?).write(4, b"four"), Status::ACCESS_DENIED)
}

fn write_order() -> Outcome {
    // Many rounds through the ring, with steps that do not divide its size.
    let (a, b) = Fifo::create(16, 4)?;
    let (mut sent, mut received) = (0_u32, 0_u32);
    for turn in 0..2000 {
        let elements: Vec<u8> = (sent..sent + turn % 7 + 1).flat_map(u32::to_le_bytes).collect();
        sent += match a.write(4, &elements) {
            Ok(count) => count as u32,
            Err(Status::SHOULD_WAIT) => 0,
            Err(status) => return Err(status.into()),
        };
        let mut bytes = vec![0; 4 * (turn as usize % 5 + 1)];
        let count = match b.read(4, &mut bytes) {
            Ok(count) => count,
            Err(Status::SHOULD_WAIT) => 0,
            Err(status) => return Err(status.into()),
        };
        for element in bytes.chunks(4).take(count) {
            equal(element, &received.to_le_bytes()[..])?;
            received += 1;
        }
    }
    ensure(received > 2000, "hardly anything came through")
}

fn read_empty() -> Outcome {
    let (a, _b) = Fifo::create(4, 4)?;
    fails(a.read(4, &mut [0; 4]), Status::SHOULD_WAIT)
}

fn read_what_is_left() -> Outcome {
    let (a, b) = Fifo::create(4, 4)?;
    a.write(4, b"last")?;
    drop(a);
    let mut bytes = [0; 4];
    equal(b.read(4, &mut bytes)?, 1)?;
    equal(&bytes, b"last")?;
    fails(b.read(4, &mut bytes), Status::PEER_CLOSED)
}

fn read_one_by_one() -> Outcome {
    let (a, b) = Fifo::create(8, 1)?;
    equal(a.write(1, b"abcdefgh")?, 8)?;
    for expected in b"abcdefgh" {
        let mut byte = [0];
        equal(b.read(1, &mut byte)?, 1)?;
        equal(byte[0], *expected)?;
    }
    fails(b.read(1, &mut [0]), Status::SHOULD_WAIT)
}

fn read_wrong_size() -> Outcome {
    let (a, b) = Fifo::create(8, 4)?;
    a.write(4, b"four")?;
    let mut bytes = [0_u8; 64];
    for (size, count) in [(8, 1), (3, 1), (0, 1), (4, 0), (usize::MAX, 2)] {
        let status = raw!(zx_fifo_read, b.raw_handle(), size, bytes.as_mut_ptr(), count, 0);
        gives(status, Status::OUT_OF_RANGE)?;
        let status = raw!(zx_fifo_write, a.raw_handle(), size, bytes.as_mut_ptr(), count, 0);
        gives(status, Status::OUT_OF_RANGE)?;
    }
    // The count is the largest possible number, far more than there is.
    let mut actual = 0_usize;
    gives(raw!(zx_fifo_read, b.raw_handle(), 4, bytes.as_mut_ptr(), usize::MAX, &raw mut actual), Status::OK)?;
    equal((actual, &bytes[..4]), (1, &b"four"[..]))
}

fn read_bad_buffer() -> Outcome {
    let (a, b) = Fifo::create(8, 4)?;
    a.write(4, b"stay")?;
    let mut bytes = [0_u8; 4];
    for bad in BAD {
        gives(raw!(zx_fifo_read, b.raw_handle(), 4, bad, 1, 0), Status::INVALID_ARGS)?;
        if bad != 0 {
            gives(raw!(zx_fifo_read, b.raw_handle(), 4, bytes.as_mut_ptr(), 1, bad), Status::INVALID_ARGS)?;
        }
    }
    equal(b.read(4, &mut bytes)?, 1)?;
    equal(&bytes, b"stay")
}

fn read_rights() -> Outcome {
    let (a, b) = Fifo::create(8, 4)?;
    a.write(4, b"four")?;
    fails(Fifo::from(without(&b, Rights::READ)?).read(4, &mut [0; 4]), Status::ACCESS_DENIED)
}

fn signals_change() -> Outcome {
    let (a, b) = Fifo::create(2, 4)?;
    a.write(4, b"1   ")?;
    equal((a.signals()?, b.signals()?), (Signals::WRITABLE, Signals::WRITABLE | Signals::READABLE))?;
    a.write(4, b"2   ")?;
    equal((a.signals()?, b.signals()?), (Signals::NONE, Signals::WRITABLE | Signals::READABLE))?;
    b.read(4, &mut [0; 4])?;
    equal((a.signals()?, b.signals()?), (Signals::WRITABLE, Signals::WRITABLE | Signals::READABLE))?;
    b.read(4, &mut [0; 4])?;
    equal((a.signals()?, b.signals()?), (Signals::WRITABLE, Signals::WRITABLE))
}

fn close_signals_peer() -> Outcome {
    let (a, b) = Fifo::create(2, 4)?;
    drop(b);
    equal(a.signals()?, Signals::PEER_CLOSED)?;
    fails(a.read(4, &mut [0; 4]), Status::PEER_CLOSED)?;
    let (a, b) = Fifo::create(2, 4)?;
    b.write(4, b"left")?;
    drop(b);
    equal(a.signals()?, Signals::PEER_CLOSED | Signals::READABLE)?;
    a.read(4, &mut [0; 4])?;
    equal(a.signals()?, Signals::PEER_CLOSED)?;
    fails(a.read(4, &mut [0; 4]), Status::PEER_CLOSED)?;
    fails(a.signal_peer(Signals::NONE, Signals::USER_0), Status::PEER_CLOSED)
}

fn counter_add_and_read() -> Outcome {
    let counter = Counter::create()?;
    equal(counter.read()?, 0)?;
    counter.add(5)?;
    counter.add(-7)?;
    equal(counter.read()?, -2)?;
    counter.write(i64::MAX)?;
    equal(counter.read()?, i64::MAX)
}

fn counter_add_overflow() -> Outcome {
    let counter = Counter::create()?;
    counter.write(i64::MAX)?;
    fails(counter.add(1), Status::OUT_OF_RANGE)?;
    equal(counter.read()?, i64::MAX)?;
    counter.write(i64::MIN)?;
    fails(counter.add(-1), Status::OUT_OF_RANGE)?;
    equal(counter.read()?, i64::MIN)
}

fn counter_signals_sign() -> Outcome {
    let counter = Counter::create()?;
    ensure(counter.signals()?.contains(Signals::COUNTER_NON_POSITIVE), "zero is positive")?;
    counter.add(1)?;
    let signals = counter.signals()?;
    ensure(signals.contains(Signals::COUNTER_POSITIVE), "one is not positive")?;
    ensure(!signals.contains(Signals::COUNTER_NON_POSITIVE), "one is both")
}

fn counter_create_options() -> Outcome {
    let mut out = 0_u32;
    gives(raw!(zx_counter_create, 1, &raw mut out), Status::INVALID_ARGS)?;
    equal(out, 0)
}

fn counter_rights() -> Outcome {
    let counter = Counter::create()?;
    let blind = Counter::from(without(&counter, Rights::READ)?);
    let mute = Counter::from(without(&counter, Rights::WRITE)?);
    fails(blind.read(), Status::ACCESS_DENIED)?;
    fails(mute.write(1), Status::ACCESS_DENIED)?;
    fails(blind.add(1), Status::ACCESS_DENIED)?;
    fails(mute.add(1), Status::ACCESS_DENIED)?;
    blind.write(-3)?;
    equal(mute.read()?, -3)
}
