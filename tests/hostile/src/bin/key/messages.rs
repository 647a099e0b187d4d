//! The store's endpoint: every message that can be sent to it, and what is visible after its answers.

use abi::{HAFNON_ENDPOINT_CALL, HAFNON_ENDPOINT_RECEIVE, HAFNON_ENDPOINT_SEND, HAFNON_ENDPOINT_SLOTS_END, Status};
use conformance::check::{Case, Outcome, ensure, equal, fails};
use hostile::Dice;
use hostile::hand::{Hand, Hands, Message, Move, MoveResult, entry};

use crate::needle::Needle;
use crate::store::{PANIC, SIGN, Store};

pub fn cases() -> Vec<Case> {
    vec![
        crate::case("key.messages.every_length", every_length),
        crate::case("key.messages.odd", odd),
        crate::case("key.messages.receiving", receiving),
        crate::case("key.messages.slots", slots),
    ]
}

/// Words in an IPC buffer, and in the page that contains it.
const WORDS: u64 = 128;
const WORDS_OF_PAGE: u64 = 512;
/// Address of the buffer of a process's first thread.
const BUFFER: u64 = 0x7ff0_0000_0000;

/// A thread with a slot for the store.
fn hand(store: &Store, options: u32) -> Result<(Hands, Hand, u64), conformance::check::Failure> {
    let (hands, hand) = Hands::new()?;
    let slot = store.endpoint.mint(&hand.thread, options, 3)?;
    Ok((hands, hand, slot.into()))
}

/// Checks the words that arrived in registers.
fn registers(needle: &Needle, happened: MoveResult) -> Outcome {
    let MoveResult::Done(r) = happened else { return Err(format!("a message ended in {happened:?}").into()) };
    let words = [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9, r.r15, r.rax, r.rbx, r.rcx, r.r11, r.r12, r.r13, r.r14];
    let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
    needle.is_absent(&bytes, || "registers after an answer".into())
}

/// Checks the IPC buffer.
fn buffer(needle: &Needle, hand: &mut Hand) -> Outcome {
    let mut bytes = Vec::new();
    for word in 0..WORDS {
        bytes.extend(hand.load_buffer(word)?.to_le_bytes());
    }
    needle.is_absent(&bytes, || "an IPC buffer".into())
}

/// Checks the buffer's whole page.
fn whole_page(needle: &Needle, hand: &mut Hand) -> Outcome {
    let mut bytes = Vec::new();
    for word in 0..WORDS_OF_PAGE {
        let load = hand.make(Move::Load, |r| r.rdi = BUFFER + word * 8)?;
        bytes.extend(load.done()?.rax.to_le_bytes());
    }
    needle.is_absent(&bytes, || "the page of an IPC buffer".into())
}

/// Requests to sign with every length that a message can claim, and every claimed length of the text.
fn every_length(store: &Store, needle: &Needle) -> Outcome {
    let (hands, mut hand, slot) = hand(store, HAFNON_ENDPOINT_CALL)?;
    for length in 0..WORDS {
        for text in
            [0, 1, length * 8, (length * 8).saturating_sub(8), (length * 8).saturating_sub(15), 960, 1 << 32, u64::MAX]
        {
            let message = Message { label: SIGN, length, ..Message::call(0, [text, 1, 2, 3]).to(slot) };
            registers(needle, hand.enter(&message)?)?;
        }
        if length % 16 == 15 {
            buffer(needle, &mut hand)?;
        }
    }
    whole_page(needle, &mut hand)?;
    hand.is_well()?;
    hands.end()
}

/// Labels, lengths and capabilities of any kind, with and without waiting for an answer.
fn odd(store: &Store, needle: &Needle) -> Outcome {
    let (hands, mut hand, slot) = hand(store, HAFNON_ENDPOINT_CALL | HAFNON_ENDPOINT_SEND)?;
    let mut dice = Dice::new(9);
    let labels = (0..24).chain((5..52).map(|bit| 1 << bit)).chain([(1 << 20) - 1, u64::from(u32::MAX), (1 << 52) - 1]);
    for label in labels.filter(|label| *label != PANIC) {
        for number in [entry::CALL, entry::SEND, entry::NB_SEND] {
            let words = [(); 4].map(|()| dice.pick(&[0, 1, 8, 0x1000, 1 << 47, u64::MAX]));
            let message = Message { number, slot, label, length: dice.below(WORDS), caps: dice.below(4), words };
            registers(needle, hand.enter(&message)?)?;
        }
        if dice.one_in(8) {
            buffer(needle, &mut hand)?;
        }
    }
    whole_page(needle, &mut hand)?;
    hand.is_well()?;
    hands.end()
}

/// Receiving instead of the store: no other thread gets its messages, and no other thread can answer for it.
fn receiving(store: &Store, needle: &Needle) -> Outcome {
    let (hands, mut hand, slot) = hand(store, HAFNON_ENDPOINT_CALL | HAFNON_ENDPOINT_SEND)?;
    for options in [HAFNON_ENDPOINT_RECEIVE, HAFNON_ENDPOINT_RECEIVE | HAFNON_ENDPOINT_CALL] {
        fails(store.endpoint.mint(&hand.thread, options, 1), Status::ACCESS_DENIED)?;
    }
    for number in [entry::RECV, entry::NB_RECV, entry::REPLY_RECV, entry::REPLY] {
        let message = Message { number, ..Message::call(0, [SIGN; 4]).to(slot) };
        match hand.enter(&message)? {
            done @ MoveResult::Done(_) => registers(needle, done)?,
            MoveResult::Exception(..) => {
                hand.go_on()?;
                hand.finish()?.done()?;
            }
            other => return Err(format!("receiving from the store: {other:?}").into()),
        }
    }
    hand.is_well()?;
    hands.end()
}

/// All slots of a thread that can hold the endpoint: each leads to the store, and none to anything else of it.
fn slots(store: &Store, needle: &Needle) -> Outcome {
    let (hands, mut hand, first) = hand(store, HAFNON_ENDPOINT_CALL)?;
    let end = u64::from(HAFNON_ENDPOINT_SLOTS_END);
    for badge in first as u32 + 1..HAFNON_ENDPOINT_SLOTS_END {
        equal(store.endpoint.mint(&hand.thread, HAFNON_ENDPOINT_CALL, badge)?, badge)?;
    }
    fails(store.endpoint.mint(&hand.thread, HAFNON_ENDPOINT_CALL, end as u32), Status::NO_RESOURCES)?;
    for badge in [abi::HAFNON_ENDPOINT_BADGES, u32::MAX] {
        fails(store.endpoint.mint(&hand.thread, HAFNON_ENDPOINT_CALL, badge), Status::OUT_OF_RANGE)?;
    }
    let mut answered = 0;
    // The labels include the kernel's own invocations: reading registers, mapping, copying capabilities.
    for slot in first..end {
        for label in (0..60).filter(|label| *label != PANIC) {
            let message = Message { label, length: 2, caps: 3, ..Message::call(0, [8, 1, 2, 3]).to(slot) };
            let happened = hand.enter(&message)?;
            answered += u64::from(
                matches!(happened, MoveResult::Done(r) if label == SIGN && r.rsi >> 12 == SIGN + u64::from(abi::HAFNON_ENDPOINT_ANSWERS)),
            );
            registers(needle, happened)?;
        }
    }
    equal(answered, end - first)?;
    ensure(hand.is_well().is_ok(), "the thread is not well")?;
    hands.end()
}
