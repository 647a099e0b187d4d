//! Events and event pairs.

use abi::{Rights, Status};
use zx::{AsHandleRef, Event, EventPair, Info, Signals};

use super::{cases, raw, without};
use crate::check::{Outcome, ensure, equal, fails, gives};

cases! {
    "event.create.not_signaled" => create_not_signaled,
    "event.create.options" => create_options,
    "event.signal.signaled" => signal_signaled,
    "eventpair.create.options" => pair_create_options,
    "eventpair.create.related" => pair_create_related,
    "eventpair.create.rights" => pair_create_rights,
    "eventpair.create.handles" => pair_create_handles,
    "eventpair.signal.and_clear" => pair_signal_and_clear,
    "eventpair.signal_peer.then_close" => pair_signal_peer_then_close,
    "eventpair.close.signals_peer" => pair_close_signals_peer,
    "eventpair.signal_peer.signaled" => pair_signal_peer_signaled,
    "eventpair.signal_peer.both_ways" => pair_signal_peer_both_ways,
    "eventpair.signal_peer.rights" => pair_signal_peer_rights,
    "eventpair.close.last_handle_counts" => pair_last_handle_counts,
}

fn create_not_signaled() -> Outcome {
    equal(Event::create()?.signals()?, Signals::NONE)
}

fn create_options() -> Outcome {
    let mut out = 0_u32;
    gives(raw!(zx_event_create, 1, &raw mut out), Status::INVALID_ARGS)?;
    equal(out, 0)
}

fn signal_signaled() -> Outcome {
    let event = Event::create()?;
    event.signal(Signals::NONE, Signals::EVENT_SIGNALED)?;
    equal(event.signals()?, Signals::EVENT_SIGNALED)?;
    event.signal(Signals::EVENT_SIGNALED, Signals::NONE)?;
    equal(event.signals()?, Signals::NONE)
}

fn pair_create_options() -> Outcome {
    let mut out = [0_u32; 2];
    let [a, b] = &mut out;
    gives(raw!(zx_eventpair_create, 1, &raw mut *a, &raw mut *b), Status::NOT_SUPPORTED)?;
    equal(out, [0, 0])
}

fn pair_create_related() -> Outcome {
    let (a, b) = EventPair::create()?;
    equal((a.basic_info()?.related_koid, b.basic_info()?.related_koid), (b.koid()?, a.koid()?))?;
    ensure(a.koid()? != 0 && b.koid()? != 0, "an end has no number")?;
    equal(a.signals()?, Signals::NONE)?;
    equal(b.signals()?, Signals::NONE)
}

fn pair_close_signals_peer() -> Outcome {
    let (a, b) = EventPair::create()?;
    drop(a);
    ensure(b.signals()?.contains(Signals::PEER_CLOSED), "the peer is not told")?;
    fails(b.signal_peer(Signals::NONE, Signals::USER_0), Status::PEER_CLOSED)?;
    // The end's own signals still work.
    b.signal(Signals::NONE, Signals::USER_0).map_err(Into::into)
}

fn pair_signal_peer_signaled() -> Outcome {
    let (a, b) = EventPair::create()?;
    a.signal_peer(Signals::NONE, Signals::SIGNALED)?;
    equal(b.signals()?, Signals::SIGNALED)?;
    equal(a.signals()?, Signals::NONE)
}

fn pair_signal_peer_both_ways() -> Outcome {
    let (a, b) = EventPair::create()?;
    a.signal_peer(Signals::NONE, Signals::USER_0)?;
    equal((a.signals()?, b.signals()?), (Signals::NONE, Signals::USER_0))?;
    b.signal_peer(Signals::NONE, Signals::USER_1 | Signals::USER_2)?;
    equal((a.signals()?, b.signals()?), (Signals::USER_1 | Signals::USER_2, Signals::USER_0))?;
    // One call clears a signal and sets others.
    a.signal_peer(Signals::USER_0, Signals::USER_3 | Signals::USER_4)?;
    equal((a.signals()?, b.signals()?), (Signals::USER_1 | Signals::USER_2, Signals::USER_3 | Signals::USER_4))
}

fn pair_signal_peer_rights() -> Outcome {
    let (a, _b) = EventPair::create()?;
    let mute = EventPair::from(without(&a, Rights::SIGNAL_PEER)?);
    fails(mute.signal_peer(Signals::NONE, Signals::USER_0), Status::ACCESS_DENIED)
}

fn pair_last_handle_counts() -> Outcome {
    let (a, b) = EventPair::create()?;
    let twin = a.duplicate(Rights::SAME_RIGHTS)?;
    drop(a);
    equal(b.signals()?, Signals::NONE)?;
    drop(twin);
    equal(b.signals()?, Signals::PEER_CLOSED)
}

fn pair_create_rights() -> Outcome {
    let (a, b) = EventPair::create()?;
    for end in [&a, &b] {
        equal(Rights::from_bits_retain(end.basic_info()?.rights), abi::ZX_DEFAULT_EVENTPAIR_RIGHTS)?;
        equal(end.basic_info()?.type_, abi::ZX_OBJ_TYPE_EVENTPAIR)?;
    }
    Ok(())
}

fn pair_create_handles() -> Outcome {
    let (a, b) = EventPair::create()?;
    ensure(a.raw_handle() != 0 && b.raw_handle() != 0 && a.raw_handle() != b.raw_handle(), "odd values")?;
    a.check_valid()?;
    b.check_valid().map_err(Into::into)
}

fn pair_signal_and_clear() -> Outcome {
    let (a, b) = EventPair::create()?;
    for signal in [Signals::USER_0, Signals::USER_7, Signals::SIGNALED] {
        a.signal(Signals::NONE, signal)?;
        equal((a.signals()?, b.signals()?), (signal, Signals::NONE))?;
        a.signal(signal, Signals::NONE)?;
        equal((a.signals()?, b.signals()?), (Signals::NONE, Signals::NONE))?;
    }
    Ok(())
}

fn pair_signal_peer_then_close() -> Outcome {
    let (a, b) = EventPair::create()?;
    a.signal_peer(Signals::NONE, Signals::USER_3 | Signals::USER_4)?;
    drop(a);
    // The signals stay set together with `PEER_CLOSED`.
    equal(b.signals()?, Signals::USER_3 | Signals::USER_4 | Signals::PEER_CLOSED)
}
