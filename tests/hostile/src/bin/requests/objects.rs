//! Objects of every kind, to be sent instead of the expected ones.

use abi::Rights;
use hostile::Dice;
use zx::{
    AsHandleRef, Channel, Clock, Counter, Event, EventPair, Fifo, Handle, Iob, IobDiscipline, Pager, Port, Result,
    Socket, Stream, Timer, Vmo,
};

/// Access rights of an IOBuffer's region: both ends may map it.
const ACCESS: u32 = 0x33;
/// Bytes in a VMO that is larger than the machine's memory.
const LARGE: u64 = 1 << 40;

/// An object to send; `kept` gets what the sender keeps of it.
pub fn any(dice: &mut Dice, kept: &mut Vec<Handle>) -> Result<Handle> {
    let all = Rights::SAME_RIGHTS;
    Ok(match dice.below(24) {
        0 => Event::create()?.into(),
        1 => ends(kept, EventPair::create()?),
        2 => ends(kept, Fifo::create(8, 8)?),
        3 => ends(kept, Socket::create(0)?),
        4 => ends(kept, Socket::create(abi::ZX_SOCKET_DATAGRAM)?),
        5 => Port::create()?.into(),
        6 => Timer::create(0)?.into(),
        7 => Counter::create()?.into(),
        8 => Clock::create(abi::ZX_CLOCK_OPT_MAPPABLE)?.into(),
        9 => ends(kept, Iob::create(&[Iob::private_region(ACCESS, 4096, IobDiscipline::None)])?),
        10 => Stream::create(3, &Vmo::create(4096, 0)?, 0)?.into(),
        11 => zx::startup::process_self().duplicate_handle(all)?,
        12 => zx::startup::thread_self().duplicate_handle(all)?,
        13 => zx::startup::vmar_root_self().duplicate_handle(all)?,
        14..18 => memory(dice, kept)?,
        // Both ends of a channel, one now and one later; or one whose peer is closed.
        18 => {
            let (here, there) = Channel::create()?;
            kept.push(here.into());
            there.into()
        }
        19 => Channel::create()?.0.into(),
        20 => {
            let (here, there) = Channel::create()?;
            here.write_handles(b"filled before it was sent", [Handle::from(Event::create()?)])?;
            kept.push(here.into());
            there.into()
        }
        // An object that others gave or were to get, with all rights or hardly any.
        _ if !kept.is_empty() => {
            let place = dice.below(kept.len() as u64) as usize;
            let rights = if dice.one_in(2) { all } else { Rights::TRANSFER };
            match kept[place].duplicate_handle(rights) {
                Ok(twin) => twin,
                Err(_) => kept.swap_remove(place),
            }
        }
        _ => Event::create()?.into(),
    })
}

/// One end to send; keeps the other.
fn ends<T: Into<Handle>>(kept: &mut Vec<Handle>, (one, other): (T, T)) -> Handle {
    kept.push(one.into());
    other.into()
}

/// Memory of every kind.
fn memory(dice: &mut Dice, kept: &mut Vec<Handle>) -> Result<Handle> {
    let size = dice.pick(&[0, 1, 4096, 8192, 1 << 20, LARGE]);
    let plain = |options| Vmo::create(size, options);
    Ok(match dice.below(8) {
        0 => {
            // A reader waits for pages that no pager supplies.
            let (pager, port) = (Pager::create()?, Port::create()?);
            let vmo = pager.create_vmo(0, &port, 1, size)?;
            kept.extend([Handle::from(pager), port.into()]);
            vmo.into()
        }
        1 => {
            // The same behind a clone, a slice, or a clone of one of them.
            const COPY: u32 = abi::ZX_VMO_CHILD_SNAPSHOT_AT_LEAST_ON_WRITE;
            let (pager, port) = (Pager::create()?, Port::create()?);
            let vmo = pager.create_vmo(0, &port, 1, 8192)?;
            let mut child = vmo.create_child(dice.pick(&[COPY, abi::ZX_VMO_CHILD_SLICE]), 0, 8192)?;
            if dice.one_in(2) {
                child = child.create_child(COPY, 0, 8192)?;
            }
            kept.extend([Handle::from(pager), port.into(), vmo.into()]);
            child.into()
        }
        2 => plain(abi::ZX_VMO_RESIZABLE)?.into(),
        3 => plain(abi::ZX_VMO_DISCARDABLE)?.into(),
        4 => plain(0)?.duplicate_handle(Rights::TRANSFER)?,
        5 => plain(0)?.duplicate_handle(Rights::TRANSFER | Rights::WRITE)?,
        6 => {
            let vmo = Vmo::create(1 << 20, abi::ZX_VMO_RESIZABLE)?;
            vmo.write(&dice.word().to_le_bytes(), 0)?;
            // It shrinks while a service reads it.
            kept.push(vmo.duplicate_handle(Rights::SAME_RIGHTS)?);
            vmo.into()
        }
        _ => plain(0)?.into(),
    })
}
