//! Fifos and counters.

use abi::Status;
use zx::{AsHandleRef, Counter, Fifo, Signals};

use super::cases;
use crate::check::{Outcome, ensure, equal, fails};

cases! {
    "fifo.create.sizes" => create_sizes,
    "fifo.write.then_read" => write_then_read,
    "fifo.write.until_full" => write_until_full,
    "fifo.write.wrong_size" => write_wrong_size,
    "fifo.write.peer_closed" => write_peer_closed,
    "fifo.read.empty" => read_empty,
    "fifo.read.what_is_left" => read_what_is_left,
    "counter.add.and_read" => counter_add_and_read,
    "counter.add.overflow" => counter_add_overflow,
    "counter.signals.sign" => counter_signals_sign,
}

fn create_sizes() -> Outcome {
    fails(Fifo::create(0, 8), Status::OUT_OF_RANGE)?;
    fails(Fifo::create(8, 0), Status::OUT_OF_RANGE)?;
    fails(Fifo::create(1024, 8), Status::OUT_OF_RANGE)?;
    Fifo::create(512, 8)?;
    Ok(())
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
    equal(counter.read()?, i64::MAX)
}

fn counter_signals_sign() -> Outcome {
    let counter = Counter::create()?;
    ensure(counter.signals()?.contains(Signals::COUNTER_NON_POSITIVE), "zero is positive")?;
    counter.add(1)?;
    let signals = counter.signals()?;
    ensure(signals.contains(Signals::COUNTER_POSITIVE), "one is not positive")?;
    ensure(!signals.contains(Signals::COUNTER_NON_POSITIVE), "one is both")
}
