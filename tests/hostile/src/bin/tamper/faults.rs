//! Forged faults: messages of a thread to its own fault endpoint, like those that the kernel sends.

use conformance::check::{Case, Outcome, ensure};
use hostile::Dice;
use hostile::hand::{FAULTS, Hands, Message, Move, MoveResult, entry};
use hostile::neighbour::Neighbour;

pub fn cases() -> Vec<Case> {
    vec![
        crate::case("tamper.faults.every_label", every_label),
        crate::case("tamper.faults.of_good_memory", of_good_memory),
        crate::case("tamper.faults.killed_in_between", killed_in_between),
        crate::case("tamper.faults.stands_when_told", stands_when_told),
    ]
}

/// Every kind of fault of the kernel, and more, with any words and through any entry.
fn every_label(_: &mut Neighbour) -> Outcome {
    let mut dice = Dice::new(6);
    for label in 0..16 {
        let (hands, mut hand) = Hands::new()?;
        for length in [0, 1, 4, 5, 12, 20, 120, 127] {
            for number in [entry::CALL, entry::SEND, entry::NB_SEND] {
                let words = [(); 4].map(|()| dice.pick(&[0, 1, 3, 13, 14, 40, 0x1000, 1 << 47, 1 << 63, u64::MAX]));
                for at in 1..8 {
                    hand.store_buffer(at, dice.word())?;
                }
                let message = Message { number, slot: FAULTS, label, length, caps: dice.below(4), words };
                match hand.enter(&message)? {
                    // After the exception is handled, the thread continues, whatever address the fault claimed.
                    MoveResult::Exception(..) => {
                        hand.go_on()?;
                        if !matches!(hand.finish()?, MoveResult::Done(_)) {
                            hand.fetch()?;
                        }
                    }
                    MoveResult::Done(_) | MoveResult::Kept => {}
                    MoveResult::Ended => return Err("a forged fault ended its process, which has a handler".into()),
                }
                hand.is_well()?;
            }
        }
        hands.end()?;
    }
    Ok(())
}

/// Page faults at accessible addresses: the server serves them as if they were real.
fn of_good_memory(_: &mut Neighbour) -> Outcome {
    const PAGE_FAULT: u64 = 5;
    let (hands, mut hand) = Hands::new()?;
    let (_vmo, memory) = hands.memory(64)?;
    for page in 0..64 {
        for code in [4, 6, 7, 0x15] {
            let words = [memory, memory + page * 4096, 0, code];
            let happened = hand.enter(&Message {
                number: entry::CALL,
                slot: FAULTS,
                label: PAGE_FAULT,
                length: 4,
                caps: 0,
                words,
            })?;
            ensure(!matches!(happened, MoveResult::Ended), "a fault of good memory ended its process")?;
        }
        hand.make(Move::Load, |registers| registers.rdi = memory + page * 4096)?.done()?;
    }
    hand.is_well()?;
    hands.end()
}

/// The process is killed while the server believes in the fault.
fn killed_in_between(_: &mut Neighbour) -> Outcome {
    for label in 1..8 {
        for number in [entry::CALL, entry::SEND, entry::NB_SEND] {
            let (hands, mut hand) = Hands::new()?;
            hand.send_in(&Message { number, slot: FAULTS, label, length: 20, caps: 0, words: [3; 4] })?;
            let _ = hand.finish()?;
            hands.end()?;
        }
    }
    Ok(())
}

/// A thread that claims a fault and runs on is stopped all the same when it is suspended.
fn stands_when_told(_: &mut Neighbour) -> Outcome {
    const EXCEPTION: u64 = 3;
    let (hands, mut hand) = Hands::new()?;
    let (vmo, memory) = hands.memory(1)?;
    let count = || {
        let mut bytes = [0; 8];
        vmo.read(&mut bytes, 0).map(|()| u64::from_le_bytes(bytes))
    };
    hand.is_well()?;
    // The server takes its message for an exception; meanwhile the thread is behind the entry already.
    let words = [hands.tiny.entry as u64, 0, 0, 6];
    hand.send_in(&Message { number: entry::NB_SEND, slot: FAULTS, label: EXCEPTION, length: 5, caps: 0, words })?;
    let _ = hand.finish()?;
    hand.fetch()?;
    hand.send(Move::Count, |registers| registers.rdi = memory)?;
    let _ = hand.finish()?;
    ensure(count()? > 0, "the thread does not count")?;
    let token = hand.thread.suspend()?;
    std::thread::sleep(std::time::Duration::from_millis(20));
    let before = count()?;
    std::thread::sleep(std::time::Duration::from_millis(50));
    ensure(count()? == before, "a suspended thread goes on")?;
    drop(token);
    hands.end()
}
