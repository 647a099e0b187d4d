//! Reads samples that a native component writes into shared memory.
//!
//! `watch COUNT` reads that many samples. If the component ends and is restarted, it continues; it prints how often
//! that happened. `watch COUNT for ever` repeats this for ever.

#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use zx::{AsHandleRef, Channel, Endpoint, Event, MonotonicInstant, Resource, Rights, Signals, Status, Vmo};

/// Size of the ring, and of a sample, in bytes.
const RING: u64 = 4096;
const SAMPLE: u64 = 16;
/// Number of samples that are requested at once.
const BATCH: u64 = 50;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let count = arguments.next().and_then(|count| count.parse().ok());
    let for_ever = arguments.next().is_some();
    let (Some(count), Some(resource)) = (count, zx::startup::take(0xf0, 2).map(Resource::from)) else {
        eprintln!("usage: watch COUNT [for ever], as a program that the description names");
        return ExitCode::FAILURE;
    };
    loop {
        let (mut seen, mut connections, mut wrong) = (0, 0, 0);
        while seen < count {
            match watch(&resource, count, &mut seen, &mut wrong) {
                Ok(()) => connections += 1,
                Err(Status::PEER_CLOSED) => connections += 1,
                // The component is being rebuilt, or has not connected yet.
                Err(Status::UNAVAILABLE) => std::thread::sleep(Duration::from_millis(1)),
                Err(status) => {
                    eprintln!("watch: {status}");
                    return ExitCode::FAILURE;
                }
            }
        }
        println!("{seen} samples, {wrong} wrong; {connections} connections");
        if !for_ever {
            return if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        }
    }
}

/// Reads until there are that many, or the component ends.
fn watch(resource: &Resource, count: u64, seen: &mut u64, wrong: &mut u64) -> zx::Result<()> {
    let (ring, event) = (Vmo::create(RING, 0)?, Event::create()?);
    let (channel, theirs) = Channel::create()?;
    Endpoint::find(resource, "samples")?.connect(theirs)?;
    let shared = [ring.duplicate_handle(Rights::SAME_RIGHTS)?, event.duplicate_handle(Rights::SAME_RIGHTS)?];
    channel.write(&[], shared)?;
    let mut read = 0;
    while *seen < count {
        channel.write(&BATCH.to_le_bytes(), [])?;
        let mut bytes = [0; 8];
        channel.read_wait(&mut bytes, &mut [], MonotonicInstant::INFINITE)?;
        event.wait_one(Signals::USER_0, MonotonicInstant::INFINITE)?;
        event.signal(Signals::USER_0, Signals::NONE)?;
        let written = u64::from_le_bytes(bytes);
        while read < written {
            let mut sample = [0; SAMPLE as usize];
            ring.read(&mut sample, read % (RING / SAMPLE) * SAMPLE)?;
            let (words, _) = sample.as_chunks();
            if words.first().map(|w| u64::from_le_bytes(*w)) != Some(read)
                || words.get(1).map(|w| u64::from_le_bytes(*w)) != Some(measure(read))
            {
                *wrong += 1;
            }
            read += 1;
            *seen += 1;
        }
    }
    Ok(())
}

/// The value that the component writes as a measurement.
fn measure(number: u64) -> u64 {
    (number ^ number >> 7).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
