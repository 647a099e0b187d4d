//! Operations that take two: threads of one process, or two processes.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use zx::spawn::Spawn;
use zx::{AsHandleRef, Channel, EventPair, Handle, MonotonicInstant, Port, Signals};

use super::sampler::Suite;
use super::{call, check, place};

const TIMES: usize = 1_000;
const SPAWNS: usize = 20;
/// The path of this program.
const PROGRAM: &str = "/boot/run/operations";
const FOREVER: i64 = MonotonicInstant::INFINITE.0;
const READABLE: u64 = Signals::CHANNEL_READABLE.bits() as u64;
const CLOSED: u64 = Signals::CHANNEL_PEER_CLOSED.bits() as u64;
const SIGNAL: u64 = Signals::USER_0.bits() as u64;
/// The largest message.
const ROOM: usize = 1024;
/// The value that ends a ping-pong.
const END: u32 = u32::MAX;

pub fn run(suite: &mut Suite) -> zx::Result<()> {
    processes(suite)?;
    spawns(suite)?;
    futexes(suite)?;
    ports(suite)?;
    eventpairs(suite)
}

/// Starts this program as a second process that does `what` with the other end of a channel.
fn start_partner(what: &str) -> zx::Result<(Channel, zx::Process)> {
    let (near, far) = Channel::create()?;
    let mut spawn = Spawn::file(PROGRAM);
    spawn.arg("operations").arg("--partner").arg(what).handle(abi::PA_USER0, far.into_handle());
    let process = spawn.start().map_err(|(status, text)| {
        eprintln!("operations: the second process: {text}");
        status
    })?;
    Ok((near, process))
}

/// The second process: returns every message until the other end is closed, or reports when its `main` began.
pub fn partner(what: &str, began: u64) -> zx::Result<()> {
    let channel = zx::startup::take(abi::PA_USER0, 0).ok_or(zx::Status::NOT_FOUND)?;
    match what {
        "echo" => echo(channel.into_raw()),
        "began" => Channel::from(channel).write(&began.to_le_bytes(), []),
        _ => Err(zx::Status::INVALID_ARGS),
    }
}

fn echo(channel: u32) -> zx::Result<()> {
    let bytes = &mut [0_u8; ROOM];
    let (mut actual, mut seen) = (0_u32, 0_u32);
    loop {
        check(call!(zx_object_wait_one, channel, READABLE | CLOSED, FOREVER, place(&mut seen)))?;
        if seen & READABLE as u32 == 0 {
            return Ok(());
        }
        check(call!(zx_channel_read, channel, 0, place(bytes), 0, ROOM, 0, place(&mut actual), 0))?;
        check(call!(zx_channel_write, channel, 0, place(bytes), actual, 0, 0))?;
    }
}

/// A Rust program that is linked dynamically with the usual libraries: from the call that starts it to the end of that
/// call, to the first instruction of its `main`, and to its end.
fn spawns(suite: &mut Suite) -> zx::Result<()> {
    suite.measure(["spawn_call", "spawn_to_main", "spawn_to_end"], SPAWNS, |[call, main, end]| {
        let start = zx::probe::counter();
        let (channel, process) = call.time(|| start_partner("began"))?;
        process.wait_one(Signals::TASK_TERMINATED, MonotonicInstant::INFINITE)?;
        end.add((zx::probe::counter() - start) as i64);
        let mut began = [0; 8];
        channel.read(&mut began, &mut []).map_err(|(status, _)| status)?;
        main.add((u64::from_le_bytes(began) - start) as i64);
        Ok(())
    })
}

fn processes(suite: &mut Suite) -> zx::Result<()> {
    if !suite.wants(&["echo_process_4", "echo_process_1024", "channel_call_process_4"]) {
        return Ok(());
    }
    let (channel, process) = start_partner("echo")?;
    let near = channel.raw_handle();
    let (bytes, back) = (&mut [0_u8; ROOM], &mut [0_u8; ROOM]);
    let (mut actual, mut seen) = (0_u32, 0_u32);
    let mut echo = |suite: &mut Suite, name, len: usize| {
        suite.measure([name], TIMES, |[round]| {
            let results = round.time(|| {
                [
                    call!(zx_channel_write, near, 0, place(bytes), len, 0, 0),
                    call!(zx_object_wait_one, near, READABLE | CLOSED, FOREVER, place(&mut seen)),
                    call!(zx_channel_read, near, 0, place(back), 0, ROOM, 0, place(&mut actual), 0),
                ]
            });
            results.into_iter().try_for_each(check)
        })
    };
    echo(suite, "echo_process_4", 4)?;
    echo(suite, "echo_process_1024", 1024)?;
    let mut args = zx::sys::zx_channel_call_args_t {
        wr_bytes: bytes.as_ptr().cast(),
        wr_handles: std::ptr::null(),
        rd_bytes: back.as_mut_ptr().cast(),
        rd_handles: std::ptr::null_mut(),
        wr_num_bytes: 4,
        wr_num_handles: 0,
        rd_num_bytes: ROOM as u32,
        rd_num_handles: 0,
    };
    bytes.as_ptr().expose_provenance();
    back.as_mut_ptr().expose_provenance();
    let mut handles = 0_u32;
    suite.measure(["channel_call_process_4"], TIMES, |[round]| {
        let (actual, handles) = (place(&mut actual), place(&mut handles));
        check(round.time(|| call!(zx_channel_call, near, 0, FOREVER, place(&mut args), actual, handles)))
    })?;
    drop(channel);
    process.wait_one(Signals::TASK_TERMINATED, MonotonicInstant::INFINITE).map(drop)
}

/// Runs `answer` in a second thread while `measure` runs in this one.
fn with_thread(
    answer: impl FnOnce() -> zx::Result<()> + Send,
    measure: impl FnOnce() -> zx::Result<()>,
) -> zx::Result<()> {
    thread::scope(|scope| {
        let other = scope.spawn(answer);
        let measured = measure();
        measured.and(other.join().unwrap_or(Err(zx::Status::INTERNAL)))
    })
}

/// Two words: each thread sets the other's word, wakes the other, and waits until its own word changes.
fn futexes(suite: &mut Suite) -> zx::Result<()> {
    if !suite.wants(&["futex_pingpong"]) {
        return Ok(());
    }
    let (here, there) = (AtomicU32::new(0), AtomicU32::new(0));
    /// Waits until the word has changed.
    #[inline(always)]
    fn wait(word: &AtomicU32, old: u32) -> u32 {
        loop {
            let _ = call!(zx_futex_wait, word.as_ptr().expose_provenance(), old, 0, FOREVER);
            let new = word.load(Ordering::Acquire);
            if new != old {
                return new;
            }
        }
    }
    #[inline(always)]
    fn wake(word: &AtomicU32, new: u32) -> u64 {
        word.store(new, Ordering::Release);
        call!(zx_futex_wake, word.as_ptr().expose_provenance(), 1)
    }
    let answer = || {
        let mut turn = 0;
        loop {
            turn = wait(&there, turn);
            check(wake(&here, turn))?;
            if turn == END {
                return Ok(());
            }
        }
    };
    with_thread(answer, || {
        let mut turn = 0;
        let measured = suite.measure(["futex_pingpong"], TIMES, |[round]| {
            let woke = round.time(|| {
                let woke = wake(&there, turn + 1);
                wait(&here, turn);
                woke
            });
            turn += 1;
            check(woke)
        });
        measured.and(check(wake(&there, END)))
    })
}

fn ports(suite: &mut Suite) -> zx::Result<()> {
    if !suite.wants(&["port_pingpong"]) {
        return Ok(());
    }
    let (here, there) = (Port::create()?, Port::create()?);
    let (here, there) = (here.raw_handle(), there.raw_handle());
    let answer = move || {
        let mut packet = abi::zx_port_packet_t::default();
        loop {
            check(call!(zx_port_wait, there, FOREVER, place(&mut packet)))?;
            check(call!(zx_port_queue, here, place(&mut packet)))?;
            if packet.key == u64::from(END) {
                return Ok(());
            }
        }
    };
    with_thread(answer, || {
        let (mut packet, mut back) = (abi::zx_port_packet_t::default(), abi::zx_port_packet_t::default());
        let measured = suite.measure(["port_pingpong"], TIMES, |[round]| {
            let results = round.time(|| {
                [call!(zx_port_queue, there, place(&mut packet)), call!(zx_port_wait, here, FOREVER, place(&mut back))]
            });
            results.into_iter().try_for_each(check)
        });
        packet.key = END.into();
        measured.and(check(call!(zx_port_queue, there, place(&mut packet))))
    })
}

/// Each side signals the peer, waits for a signal on its own end, and clears it.
fn eventpairs(suite: &mut Suite) -> zx::Result<()> {
    if !suite.wants(&["eventpair_pingpong", "wait_deadline_extra"]) {
        return Ok(());
    }
    let (here, there) = EventPair::create()?;
    let there = there.into_handle().into_raw();
    let answer = move || {
        let mut seen = 0_u32;
        loop {
            check(call!(zx_object_wait_one, there, SIGNAL | CLOSED, FOREVER, place(&mut seen)))?;
            check(call!(zx_object_signal, there, SIGNAL, 0))?;
            if seen & CLOSED as u32 != 0 {
                drop(Handle::from_raw(there));
                return Ok(());
            }
            check(call!(zx_object_signal_peer, there, 0, SIGNAL))?;
        }
    };
    let end = here.raw_handle();
    with_thread(answer, || {
        let mut seen = 0_u32;
        let mut round = |deadline: i64| {
            [
                call!(zx_object_signal_peer, end, 0, SIGNAL),
                call!(zx_object_wait_one, end, SIGNAL, deadline, place(&mut seen)),
                call!(zx_object_signal, end, SIGNAL, 0),
            ]
        };
        suite.measure(["eventpair_pingpong"], TIMES, |[sample]| {
            sample.time(|| round(FOREVER)).into_iter().try_for_each(check)
        })?;
        // The same alternately without a deadline and with one that does not expire; the figure is what the second
        // costs more.
        let (mut without, mut with) = (suite.samples(), suite.samples());
        suite.measure(["wait_deadline_extra"], TIMES, |[extra]| {
            let deadline = MonotonicInstant::after(zx::Duration::from_seconds(10)).0;
            without.time(|| round(FOREVER)).into_iter().try_for_each(check)?;
            with.time(|| round(deadline)).into_iter().try_for_each(check)?;
            extra.add(with.last() - without.last());
            Ok(())
        })?;
        drop(here);
        Ok(())
    })
}
