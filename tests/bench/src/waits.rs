//! As many asynchronous waits as a port can have.

use zx::{AsHandleRef, Event, MonotonicInstant, Port, Signals};

use crate::meter::{Meter, Places};

const COUNTS: [usize; 4] = [100, 1_000, 10_000, 50_000];

pub fn run(meter: &mut Meter) -> zx::Result<()> {
    let (event, port) = (Event::create()?, Port::create()?);
    let register = |key: usize| event.wait_async(&port, key as u64, Signals::USER_0, 0);
    let cancel = |key: usize| port.cancel(&event, key as u64);
    (0..COUNTS[0]).try_for_each(register)?;
    (0..COUNTS[0]).try_for_each(cancel)?;
    for count in COUNTS {
        let before = meter.memory();
        meter.cost("register", count, count, || (0..count).try_for_each(register))?;
        meter.object("wait-async", count, before);
        // A hundred of them, in random order, end and are registered again.
        let mut places = Places::new();
        let mut some: Vec<usize> = (0..100).map(|_| places.next(count)).collect();
        some.sort_unstable();
        some.dedup();
        meter.cost("cancel", count, some.len(), || some.iter().copied().try_for_each(cancel))?;
        some.iter().copied().try_for_each(register)?;
        meter.cost("fire", count, count, || event.signal(Signals::NONE, Signals::USER_0))?;
        meter.cost("dequeue", count, count, || {
            (0..count).try_for_each(|_| port.wait(MonotonicInstant::INFINITE_PAST).map(drop))
        })?;
        event.signal(Signals::USER_0, Signals::NONE)?;
    }
    // Waits for other signals add nothing to the cost of a signal.
    let mut have = 0;
    for count in COUNTS {
        (have..count).try_for_each(register)?;
        have = count;
        meter.cost("signal-of-no-concern", count, 100, || {
            (0..100).try_for_each(|_| {
                event.signal(Signals::NONE, Signals::USER_1)?;
                event.signal(Signals::USER_1, Signals::NONE)
            })
        })?;
    }
    Ok(())
}
