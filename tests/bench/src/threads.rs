//! Two thousand threads in one process: threads of Rust's `std`, with all that it does for them.

use std::thread::{self, JoinHandle};

use zx::{AsHandleRef, EventPair, MonotonicInstant, Signals};

use crate::meter::Meter;

const COUNTS: [usize; 4] = [10, 100, 500, 2_000];
const STACK: usize = 32 << 10;
const GO: Signals = Signals::USER_0;
const END: Signals = Signals::USER_1;

type Worker = (EventPair, JoinHandle<zx::Result<()>>);

/// Answers each signal with one until the end signal comes.
fn work(end: &EventPair) -> zx::Result<()> {
    loop {
        let signals = end.wait_one(GO.union(END), MonotonicInstant::INFINITE)?;
        if signals.intersects(END) {
            return Ok(());
        }
        end.signal(GO, Signals::NONE)?;
        end.signal_peer(Signals::NONE, GO)?;
    }
}

fn start() -> zx::Result<Worker> {
    let (ours, theirs) = EventPair::create()?;
    let thread = thread::Builder::new().stack_size(STACK).spawn(move || work(&theirs));
    Ok((ours, thread.map_err(|_| zx::Status::NO_RESOURCES)?))
}

fn ping(ours: &EventPair) -> zx::Result<()> {
    ours.signal_peer(Signals::NONE, GO)?;
    ours.wait_one(GO, MonotonicInstant::INFINITE)?;
    ours.signal(GO, Signals::NONE)
}

fn end((ours, thread): Worker) -> zx::Result<()> {
    ours.signal_peer(Signals::NONE, END)?;
    thread.join().unwrap_or(Err(zx::Status::INTERNAL))
}

pub fn run(meter: &mut Meter) -> zx::Result<()> {
    // seL4 clears unused memory in large pieces. This round uses all memory that the measurement needs, so that none is
    // cleared there.
    let [.., most] = COUNTS;
    let warm: Vec<Worker> = (0..most).map(|_| start()).collect::<Result<_, _>>()?;
    warm.iter().try_for_each(|worker| ping(&worker.0))?;
    warm.into_iter().try_for_each(end)?;
    for count in COUNTS {
        let mut all: Vec<Worker> = Vec::with_capacity(count);
        let before = meter.memory();
        meter.cost("start", count, count, || (0..count).try_for_each(|_| start().map(|worker| all.push(worker))))?;
        // The first round lets every thread reach its wait.
        all.iter().try_for_each(|worker| ping(&worker.0))?;
        meter.object("thread-with-stack", count, before);
        meter.cost("signal-round", count, count, || all.iter().try_for_each(|worker| ping(&worker.0)))?;
        meter.cost("end-and-join", count, count, || all.into_iter().try_for_each(end))?;
    }
    Ok(())
}
