//! Channels, sockets, FIFOs and ports, used by one thread: no thread waits.

use zx::{AsHandleRef, Channel, Event, Fifo, MonotonicInstant, Port, Signals, Socket};

use super::sampler::Suite;
use super::{call, check, place};

const TIMES: usize = 1_000;

pub fn run(suite: &mut Suite) -> zx::Result<()> {
    channels(suite)?;
    sockets(suite)?;
    fifos(suite)?;
    ports(suite)
}

fn channels(suite: &mut Suite) -> zx::Result<()> {
    let (mut one, mut two) = (0_u32, 0_u32);
    suite.measure(["channel_create", "channel_close"], TIMES, |[create, close]| {
        check(create.time(|| call!(zx_channel_create, 0, place(&mut one), place(&mut two))))?;
        let (first, second) = close.time(|| (call!(zx_handle_close, one), call!(zx_handle_close, two)));
        check(first)?;
        check(second)
    })?;
    let (near, far) = Channel::create()?;
    let (near, far) = (near.raw_handle(), far.raw_handle());
    let (from, to) = (&mut [7_u8; 64], &mut [0_u8; 64]);
    let mut actual = 0_u32;
    suite.measure(["channel_write_64", "channel_read_64"], TIMES, |[write, read]| {
        check(write.time(|| call!(zx_channel_write, near, 0, place(from), 64, 0, 0)))?;
        check(read.time(|| call!(zx_channel_read, far, 0, place(to), 0, 64, 0, place(&mut actual), 0)))
    })?;
    let mut carried = Event::create()?.into_handle().into_raw();
    let mut handles = 0_u32;
    suite.measure(["channel_handle"], TIMES, |[both]| {
        let (wrote, read) = both.time(|| {
            let wrote = call!(zx_channel_write, near, 0, place(from), 64, place(&mut carried), 1);
            let (actual, handles) = (place(&mut actual), place(&mut handles));
            (wrote, call!(zx_channel_read, far, 0, place(to), place(&mut carried), 64, 1, actual, handles))
        });
        check(wrote)?;
        check(read)
    })?;
    check(call!(zx_handle_close, carried))
}

fn sockets(suite: &mut Suite) -> zx::Result<()> {
    let (near, far) = Socket::create(0)?;
    let (near, far) = (near.raw_handle(), far.raw_handle());
    let (from, to) = (&mut [7_u8; 64], &mut [0_u8; 64]);
    let mut actual = 0_usize;
    suite.measure(["socket_write_64", "socket_read_64"], TIMES, |[write, read]| {
        check(write.time(|| call!(zx_socket_write, near, 0, place(from), 64, place(&mut actual))))?;
        check(read.time(|| call!(zx_socket_read, far, 0, place(to), 64, place(&mut actual))))
    })
}

fn fifos(suite: &mut Suite) -> zx::Result<()> {
    let (near, far) = Fifo::create(8, 8)?;
    let (near, far) = (near.raw_handle(), far.raw_handle());
    let (mut element, mut actual) = (7_u64, 0_usize);
    suite.measure(["fifo_write", "fifo_read"], TIMES, |[write, read]| {
        check(write.time(|| call!(zx_fifo_write, near, 8, place(&mut element), 1, place(&mut actual))))?;
        check(read.time(|| call!(zx_fifo_read, far, 8, place(&mut element), 1, place(&mut actual))))
    })
}

fn ports(suite: &mut Suite) -> zx::Result<()> {
    let port = Port::create()?;
    let handle = port.raw_handle();
    let forever = MonotonicInstant::INFINITE.0;
    let mut packet = abi::zx_port_packet_t::default();
    suite.measure(["port_queue", "port_wait"], TIMES, |[queue, wait]| {
        check(queue.time(|| call!(zx_port_queue, handle, place(&mut packet))))?;
        check(wait.time(|| call!(zx_port_wait, handle, forever, place(&mut packet))))
    })?;
    let event = Event::create()?;
    event.signal(Signals::NONE, Signals::USER_0)?;
    suite.measure(["wait_async_ready", "port_wait_signal"], TIMES, |[register, wait]| {
        let signal = Signals::USER_0.bits();
        check(register.time(|| call!(zx_object_wait_async, event.raw_handle(), handle, 1, signal, 0)))?;
        check(wait.time(|| call!(zx_port_wait, handle, forever, place(&mut packet))))
    })
}
