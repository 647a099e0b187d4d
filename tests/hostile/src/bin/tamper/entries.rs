//! Kernel entries: every number, every slot, every label, and messages that no call of the interface sends.

use abi::{ZX_EXCP_POLICY_ERROR, nr};
use conformance::check::{Case, Failure, Outcome, ensure, equal};
use hostile::Dice;
use hostile::hand::{CALLS, FAULTS, Hand, Hands, Message, Move, MoveResult, entry};
use hostile::neighbour::Neighbour;
use zx::Status;

pub fn cases() -> Vec<Case> {
    vec![
        crate::case("tamper.kernel.unknown_numbers", unknown_numbers),
        crate::case("tamper.kernel.receives_nothing", receives_nothing),
        crate::case("tamper.kernel.empty_slots", empty_slots),
        crate::case("tamper.kernel.yields", yields),
        crate::case("tamper.calls.odd_labels", odd_labels),
        crate::case("tamper.calls.every_label_every_entry", every_label_every_entry),
        crate::case("tamper.calls.with_capabilities", with_capabilities),
        crate::case("tamper.calls.without_waiting", without_waiting),
        crate::case("tamper.calls.while_it_waits", while_it_waits),
        crate::case("tamper.calls.flood", flood),
    ]
}

/// Capability addresses that are empty in every thread.
const EMPTY: [u64; 14] =
    [0, 3, 4, 5, 15, 16, 64, 1 << 10, 1 << 20, 1 << 31, 1 << 32, 1 << 63, u64::MAX, 0xffff_8000_0000_0000];

/// The kernel's answer to the invocation of an empty slot.
const INVALID_CAPABILITY: u64 = 2;

/// An entry that the system must refuse by an exception: there is no such call.
fn is_refused(happened: MoveResult) -> bool {
    matches!(happened, MoveResult::Exception(ZX_EXCP_POLICY_ERROR, _))
}

/// After an exception the thread continues behind the entry, and stops at the next instruction.
fn goes_on(hand: &mut Hand) -> Outcome {
    hand.go_on()?;
    hand.finish()?.done().map(drop)
}

/// The numbers include the kernel's debugging calls, which the release kernel does not have.
fn unknown_numbers(_: &mut Neighbour) -> Outcome {
    let (hands, mut hand) = Hands::new()?;
    let odd = [200, -200_i64 as u64, 1 << 31, 0x7fff_ffff, 1 << 32, u64::MAX >> 1, 1 << 63, 0xffff_ffff_0000_0000];
    for number in (-90..20).map(|n: i64| n as u64).chain(odd) {
        if entry::ALL.contains(&number) {
            continue;
        }
        for slot in [0, CALLS] {
            let happened = hand.enter(&Message { number, ..Message::call(0, [0; 4]).to(slot) })?;
            // These include the kernel's calls that first answer another thread (patch `late-answer`): a thread without
            // a capability to a thread only receives, and has no right to that.
            ensure(is_refused(happened), &format!("entry {:#x} of slot {slot}: {happened:?}", number))?;
            goes_on(&mut hand)?;
        }
    }
    hand.is_well()?;
    hands.end()
}

fn receives_nothing(neighbour: &mut Neighbour) -> Outcome {
    let (hands, mut hand) = Hands::new()?;
    for (round, empty) in EMPTY.into_iter().enumerate() {
        for number in [entry::RECV, entry::NB_RECV, entry::REPLY_RECV, entry::RECV - 64, entry::REPLY_RECV - 64] {
            for slot in [CALLS, FAULTS, empty] {
                // Other threads make calls meanwhile.
                let happened = hand.enter(&Message { number, ..Message::call(0, [7; 4]).to(slot) })?;
                match happened {
                    MoveResult::Done(r) if number == entry::NB_RECV => equal((r.rdi, r.r8, r.r9, r.r15), (0, 7, 7, 7))?,
                    happened => {
                        ensure(is_refused(happened), &format!("{number:#x} of slot {slot}: {happened:?}"))?;
                        goes_on(&mut hand)?;
                    }
                }
            }
        }
        if round % 4 == 0 {
            neighbour.goes_on()?;
        }
    }
    for _ in 0..20 {
        hand.enter(&Message { number: entry::REPLY, ..Message::call(0, [1; 4]) })?.done()?;
    }
    hand.is_well()?;
    hands.end()
}

/// Every label of the kernel's invocations, and more, on empty slots.
fn empty_slots(_: &mut Neighbour) -> Outcome {
    let (hands, mut hand) = Hands::new()?;
    for slot in EMPTY {
        for label in (0..60).step_by(if slot < 4 { 1 } else { 10 }).chain([(1 << 20) - 1]) {
            for number in [entry::CALL, entry::SEND, entry::NB_SEND] {
                let message = Message { number, slot, label, length: 8, caps: 3, words: [1, 2, 3, 4] };
                match hand.enter(&message)? {
                    // The kernel answers only entries that wait for a reply: it reports the empty slot.
                    MoveResult::Done(_) if number != entry::CALL => {}
                    MoveResult::Done(registers) => equal(registers.rsi >> 12, INVALID_CAPABILITY)?,
                    happened => {
                        ensure(is_refused(happened), &format!("{message:?}: {happened:?}"))?;
                        goes_on(&mut hand)?;
                    }
                }
            }
        }
    }
    hand.is_well()?;
    hands.end()
}

fn yields(_: &mut Neighbour) -> Outcome {
    let (hands, mut hand) = Hands::new()?;
    for slot in 0..50 {
        hand.enter(&Message { number: entry::YIELD, ..Message::call(0, [slot; 4]).to(slot) })?.done()?;
    }
    hands.end()
}

/// Numbers that no call has, with every length and number of capabilities that a message can claim.
fn odd_labels(_: &mut Neighbour) -> Outcome {
    let (hands, mut hand) = Hands::new()?;
    let last = u64::from(abi::SYSCALLS.iter().map(|call| call.nr).max().unwrap_or_default());
    let labels = (last + 1..last + 60).chain((8..32).map(|bit| 1 << bit)).chain([u64::from(u32::MAX), (1 << 52) - 1]);
    let mut dice = Dice::new(1);
    for label in labels {
        let length = dice.below(128);
        let message = Message { label, length, caps: dice.below(4), ..Message::call(0, [label; 4]) };
        let registers = hand.enter(&message)?.done()?;
        equal(Status(registers.r10 as i32), Status::BAD_SYSCALL)?;
        equal(registers.rsi >> 12, 0)?;
    }
    hand.is_well()?;
    hands.end()
}

/// Calls by number through every kind of entry, with invalid arguments. What they do to their own process does not
/// matter.
fn every_label_every_entry(_: &mut Neighbour) -> Outcome {
    let (mut hands, mut hand) = Hands::new()?;
    let mut dice = Dice::new(2);
    for call in abi::SYSCALLS {
        for number in [entry::CALL, entry::SEND, entry::NB_SEND] {
            let words = [(); 4].map(|()| dice.pick(&[0, 1, 8, 0x1000, 1 << 47, u64::MAX]));
            let message = Message { number, length: dice.below(128), ..Message::call(call.nr, words) };
            let happened = hand.enter(&message)?;
            if !matches!(happened, MoveResult::Done(_)) || hand.is_well().is_err() {
                hands.end()?;
                (hands, hand) = Hands::new()?;
            }
        }
    }
    hands.end()
}

/// The buffer's words for a message's capabilities, and for the slot that would receive some.
const CAPS: u64 = 122;
const RECEIVE: u64 = 125;

fn with_capabilities(_: &mut Neighbour) -> Outcome {
    let (hands, mut hand) = Hands::new()?;
    for (caps, receive) in
        [([CALLS, FAULTS, CALLS], 3), ([FAULTS; 3], 0), ([0, 3, u64::MAX], u64::MAX), ([CALLS; 3], 1)]
    {
        for (place, cap) in caps.into_iter().enumerate() {
            hand.store_buffer(CAPS + place as u64, cap)?;
        }
        for place in 0..3 {
            hand.store_buffer(RECEIVE + place, receive)?;
        }
        for count in 0..4 {
            for (slot, number) in [(CALLS, entry::CALL), (CALLS, entry::SEND), (CALLS, entry::NB_SEND)] {
                let message = Message { caps: count, number, slot, ..Message::call(nr::HANDLE_CLOSE, [0; 4]) };
                hand.enter(&message)?;
            }
        }
    }
    hand.is_well()?;
    hands.end()
}

/// Calls that are sent without waiting for the answer: the server carries them out, and no thread receives the answer.
fn without_waiting(_: &mut Neighbour) -> Outcome {
    let (hands, mut hand) = Hands::new()?;
    let (vmo, memory) = hands.memory(1)?;
    let handle = |at: u64| -> Result<u32, Failure> {
        let mut bytes = [0; 4];
        vmo.read(&mut bytes, at)?;
        Ok(u32::from_le_bytes(bytes))
    };
    for number in [entry::SEND, entry::NB_SEND] {
        for n in 0..50 {
            let call = Message::call(nr::EVENT_CREATE, [0, memory, 0, 0]);
            hand.enter(&Message { number, ..call })?.done()?;
            let event = handle(0)?;
            ensure(event != 0, &format!("event {n} was not made"))?;
            equal(hand.call(nr::HANDLE_CLOSE, [event.into(), 0, 0, 0])?, Status::OK)?;
        }
    }
    // A wait whose thread does not wait: the answer reaches a thread that is elsewhere.
    for _ in 0..20 {
        let soon = zx::MonotonicInstant::after(zx::Duration::from_micros(300)).0 as u64;
        hand.enter(&Message { number: entry::SEND, ..Message::call(nr::NANOSLEEP, [soon, 0, 0, 0]) })?;
        hand.make(Move::Spin, |registers| registers.rcx = 400_000)?;
    }
    hands.end()
}

/// A thread for which the server has a pending call makes calls, sends, faults and is killed.
fn while_it_waits(_: &mut Neighbour) -> Outcome {
    for next in [
        Message::call(nr::HANDLE_CLOSE, [0; 4]),
        Message { number: entry::SEND, ..Message::call(nr::HANDLE_CLOSE, [0; 4]) },
        Message { number: entry::CALL, slot: FAULTS, label: 5, length: 4, caps: 0, words: [0; 4] },
        Message { number: entry::NB_SEND, slot: FAULTS, label: 3, length: 20, caps: 0, words: [0; 4] },
        Message::call(nr::THREAD_EXIT, [0; 4]),
        Message::call(nr::PROCESS_EXIT, [0; 4]),
    ] {
        let (hands, mut hand) = Hands::new()?;
        let forever = Message::call(nr::NANOSLEEP, [i64::MAX as u64, 0, 0, 0]);
        // It receives the answer to the call only if it waits for it.
        hand.enter(&Message { number: entry::SEND, ..forever })?;
        hand.enter(&next)?;
        hands.end()?;
    }
    Ok(())
}

/// Endless messages that no receiver has requested.
fn flood(neighbour: &mut Neighbour) -> Outcome {
    let (hands, mut hand) = Hands::new()?;
    let before = neighbour.done()?;
    let mut dice = Dice::new(3);
    for _ in 0..500 {
        let number = dice.pick(&[entry::SEND, entry::NB_SEND]);
        hand.enter(&Message { number, ..Message::call(u32::MAX, [0; 4]) })?.done()?;
    }
    ensure(neighbour.done()?.since(before)[0] > 0, "the neighbour did nothing meanwhile")?;
    hand.is_well()?;
    hands.end()
}
