//! As many live handles, each to an object of its own, as a process can have, minus those that are measured.

use zx::{AsHandleRef, Event, Handle, Rights, Signals};

use crate::meter::{Meter, Places};

const COUNTS: [usize; 5] = [100, 1_000, 10_000, 100_000, 260_000];
/// Measured operations at each count.
const TIMES: usize = 1_000;

pub fn run(meter: &mut Meter) -> zx::Result<()> {
    let [.., most] = COUNTS;
    // Allocates the list's own pages before the measurement.
    let mut live: Vec<Option<Event>> = Vec::new();
    live.resize_with(most, || None);
    let mut more: Vec<Option<Handle>> = Vec::new();
    more.resize_with(TIMES, || None);
    for slot in live.iter_mut().take(TIMES) {
        *slot = Some(Event::create()?);
    }
    live.iter_mut().take(TIMES).for_each(|slot| *slot = None);

    let mut places = Places::new();
    let before = meter.memory();
    let mut have = 0;
    for count in COUNTS {
        meter.cost("create", count, count - have, || {
            live[have..count].iter_mut().try_for_each(|slot| Event::create().map(|event| *slot = Some(event)))
        })?;
        have = count;
        let mut some = || live[places.next(count)].as_ref().ok_or(zx::Status::INTERNAL);
        meter.cost("use", count, TIMES, || {
            (0..TIMES).try_for_each(|_| some()?.signal(Signals::NONE, Signals::USER_0))
        })?;
        meter.cost("duplicate", count, TIMES, || {
            more.iter_mut()
                .try_for_each(|slot| some()?.duplicate_handle(Rights::SAME_RIGHTS).map(|new| *slot = Some(new)))
        })?;
        meter.cost("close", count, TIMES, || {
            more.iter_mut().for_each(|slot| *slot = None);
            Ok(())
        })?;
    }
    meter.object("event-with-handle", most, before);
    meter.cost("close-all", most, most, || {
        live.iter_mut().for_each(|slot| *slot = None);
        Ok(())
    })
}
