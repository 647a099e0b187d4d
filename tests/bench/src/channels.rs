//! Ten thousand channels, each with a message.

use zx::Channel;

use crate::meter::Meter;

const COUNTS: [usize; 4] = [10, 100, 1_000, 10_000];
const MESSAGE: [u8; 64] = [7; 64];

pub fn run(meter: &mut Meter) -> zx::Result<()> {
    let [.., most] = COUNTS;
    let mut live: Vec<Option<(Channel, Channel)>> = Vec::new();
    live.resize_with(most, || None);
    let mut bytes = [0; MESSAGE.len()];
    // One round before the measurement, so that everything that is created only once exists.
    round(None, &mut live, COUNTS[1], &mut bytes)?;
    for count in COUNTS {
        round(Some(meter), &mut live, count, &mut bytes)?;
    }
    Ok(())
}

fn round(
    meter: Option<&Meter>,
    live: &mut [Option<(Channel, Channel)>],
    count: usize,
    bytes: &mut [u8],
) -> zx::Result<()> {
    let cost = |operation: &str, operations: &mut dyn FnMut() -> zx::Result<()>| match meter {
        Some(meter) => meter.cost(operation, count, count, operations),
        None => operations(),
    };
    let before = meter.map_or(0, Meter::memory);
    let live = &mut live[..count];
    cost("create", &mut || live.iter_mut().try_for_each(|slot| Channel::create().map(|pair| *slot = Some(pair))))?;
    let ends = || live.iter().flatten();
    cost("write", &mut || ends().try_for_each(|(near, _)| near.write(&MESSAGE, [])))?;
    if let Some(meter) = meter {
        meter.object("channel-with-message", count, before);
    }
    cost("read", &mut || {
        ends().try_for_each(|(_, far)| far.read(bytes, &mut []).map(drop).map_err(|(status, _)| status))
    })?;
    cost("close", &mut || {
        live.iter_mut().for_each(|slot| *slot = None);
        Ok(())
    })
}
