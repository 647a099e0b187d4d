//! What a thread does next: calls, and attacks without calls.

use crate::attacker::{Attacker, BATCH, Function, PARTNER, PreparedCall};
use crate::code::{BASES, DATA_SELECTORS, FLAGS, FLOATS, Piece, SCRIBBLE, SELECTORS, VECTORS};
use crate::counts::Counts;
use crate::grammar::Drawer;
use crate::recipes::{ANSWERED, ASKED, Recipe};
use hostile::Dice;

/// One in this many attackers tries to exhaust something.
pub const GREEDY: u64 = 6;
/// Most handles that an attacker keeps.
const HANDLES: usize = 200;

/// A batch for a worker.
pub fn draw(dice: &mut Dice, counts: &Counts, attacker: &Attacker<'_>, which: usize) -> Vec<PreparedCall> {
    let view = &attacker.view;
    let places = |n: usize| attacker.places(which, n);
    let mut batch = Vec::with_capacity(BATCH);
    if which == PARTNER && !dice.one_in(4) {
        let has_channel = [ANSWERED, ASKED].into_iter().all(|slot| attacker.has(PARTNER, slot));
        Recipe::partner(dice, view, counts, &places, &mut batch, has_channel);
        return batch;
    }
    // The number of its handles must stay bounded, except for attackers that exhaust something.
    let mut to_close = if attacker.greed.is_some() { 0 } else { view.handles.len().saturating_sub(HANDLES) };
    while batch.len() < BATCH {
        if dice.one_in(12) {
            batch.push(disturb(dice, view.arena.0));
            continue;
        }
        if to_close > 0 && dice.one_in(2) {
            to_close -= 1;
            batch.extend(close(dice, counts, attacker));
            continue;
        }
        let greed = attacker.greed.filter(|_| !dice.one_in(4));
        let call = greed.unwrap_or_else(|| counts.draw(dice));
        let entry = &counts.table[call];
        let wants = greed.is_some() || if entry.is_rare() { !dice.one_in(4) } else { dice.one_in(8) };
        if wants && Recipe::lay(dice, view, counts, &places, &mut batch, entry.info) {
            continue;
        }
        let drawn = Drawer::new(dice, view, places(batch.len())).draw(entry.info, &entry.known);
        let function = Function::Call(entry.function);
        batch.push(PreparedCall { call: Some(call), function, words: drawn.words, room: drawn.room });
    }
    batch
}

/// Closes a random handle.
fn close(dice: &mut Dice, counts: &Counts, attacker: &Attacker<'_>) -> Option<PreparedCall> {
    let call = counts.find("handle_close")?;
    let held = dice.pick(&attacker.view.handles);
    if attacker.view.is_gift(held.value) {
        return None;
    }
    let words = [held.value.into(), 0, 0, 0, 0, 0, 0, 0];
    Some(PreparedCall {
        call: Some(call),
        function: Function::Call(counts.table[call].function),
        words,
        room: Vec::new(),
    })
}

/// What a thread can do to others without a call: it overwrites its own memory, arguments of calls in progress among
/// it, or changes processor state.
fn disturb(dice: &mut Dice, arena: u64) -> PreparedCall {
    let base = |dice: &mut Dice| dice.pick(&[0, 1, arena, 1 << 46, (1 << 47) - 1, 1 << 47, u64::MAX, u64::MAX << 47]);
    let (piece, words): (Piece, [u64; 4]) = match dice.below(14) {
        0 => (FLAGS, [dice.word() & 0x24_4dd5 | dice.below(2) << 9, 0, 0, 0]),
        1 => (VECTORS, [dice.word() & 0x1_ffff, dice.word(), dice.word(), 0]),
        2 => (FLOATS, [dice.word() & 0xffff, 0, 0, 0]),
        3 => (DATA_SELECTORS, [selector(dice), selector(dice), 0, 0]),
        4 => (SELECTORS, [selector(dice), selector(dice), 0, 0]),
        5 => (BASES, [base(dice), base(dice), 0, 0]),
        _ => (SCRIBBLE, [arena, 1 + dice.below(64), dice.word(), dice.pick(&[0xff8, 0xfff8, 0x1fff8])]),
    };
    let [a, b, c, d] = words;
    PreparedCall { call: None, function: Function::Own(piece), words: [a, b, c, d, 0, 0, 0, 0], room: Vec::new() }
}

/// A selector: null, one of user privilege, one of the kernel's privilege, or any.
fn selector(dice: &mut Dice) -> u64 {
    match dice.below(4) {
        0 => dice.below(4),
        1 => dice.below(16) << 3 | 3,
        2 => dice.below(16) << 3,
        _ => dice.below(1 << 16),
    }
}
