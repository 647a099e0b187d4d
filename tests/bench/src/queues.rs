//! Queues with four thousand entries.

use zx::{Channel, MonotonicInstant, Port};

use crate::meter::Meter;

/// A port holds at most 4096.
const PORT: [usize; 4] = [10, 100, 1_000, 4_000];
/// A channel holds at most 3500.
const CHANNEL: [usize; 4] = [10, 100, 1_000, 3_000];
/// Measured operations at each depth.
const TIMES: usize = 1_000;

fn read(end: &Channel, bytes: &mut [u8]) -> zx::Result<()> {
    end.read(bytes, &mut []).map(drop).map_err(|(status, _)| status)
}

pub fn run(meter: &mut Meter) -> zx::Result<()> {
    let port = Port::create()?;
    let packet = abi::zx_port_packet_t::default();
    let take = || port.wait(MonotonicInstant::INFINITE_PAST).map(drop);
    // seL4 clears unused memory in large pieces. This uses as much as the deepest queue takes, so that none is cleared
    // in the measurement. Only the memory itself is measured before.
    let [.., most] = PORT;
    let before = meter.memory();
    (0..most).try_for_each(|_| port.queue(&packet))?;
    meter.object("packet", most, before);
    (0..most).try_for_each(|_| take())?;
    for depth in PORT {
        meter.cost("port-fill", depth, depth, || (0..depth).try_for_each(|_| port.queue(&packet)))?;
        meter.cost("port-queue-and-wait", depth, TIMES, || {
            (0..TIMES).try_for_each(|_| port.queue(&packet).and_then(|()| take()))
        })?;
        meter.cost("port-drain", depth, depth, || (0..depth).try_for_each(|_| take()))?;
    }

    let (near, far) = Channel::create()?;
    let mut bytes = [0; 64];
    let [.., most] = CHANNEL;
    let before = meter.memory();
    (0..most).try_for_each(|_| near.write(&[7; 64], []))?;
    meter.object("message", most, before);
    (0..most).try_for_each(|_| read(&far, &mut bytes))?;
    for depth in CHANNEL {
        meter.cost("channel-fill", depth, depth, || (0..depth).try_for_each(|_| near.write(&[7; 64], [])))?;
        meter.cost("channel-write-and-read", depth, TIMES, || {
            (0..TIMES).try_for_each(|_| {
                near.write(&[7; 64], [])?;
                read(&far, &mut bytes)
            })
        })?;
        meter.cost("channel-drain", depth, depth, || (0..depth).try_for_each(|_| read(&far, &mut bytes)))?;
    }
    Ok(())
}
