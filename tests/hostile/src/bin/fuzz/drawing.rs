//! What a thread does next: calls, and what attacks without any.

use crate::attacker::{Attacker, BATCH, Function, Laid, PARTNER};
use crate::code::{BASES, DATA_SELECTORS, FLAGS, FLOATS, Piece, SCRIBBLE, SELECTORS, VECTORS};
use crate::counts::Counts;
use crate::grammar::Drawer;
use crate::recipes::{ANSWERED, ASKED, Recipe};
use hostile::Dice;

/// One in so many attackers tries to use something up.
pub const GREEDY: u64 = 6;
/// By which calls: each makes something of which there is an end.
pub const GREEDS: &[&str] = &[
    "bti_pin",
    "channel_create",
    "channel_write_etc",
    "counter_create",
    "debuglog_create",
    "endpoint_mint",
    "event_create",
    "fifo_create",
    "handle_duplicate",
    "interrupt_create",
    "iob_create",
    "iob_create_shared_region",
    "job_create",
    "msi_allocate",
    "object_wait_async",
    "pager_create_vmo",
    "pager_supply_pages",
    "port_queue",
    "process_create",
    "process_create_shared",
    "process_start",
    "resource_create",
    "socket_write",
    "stream_create",
    "task_create_exception_channel",
    "thread_create",
    "thread_start",
    "timer_set",
    "vmar_allocate",
    "vmar_map",
    "vmar_map_clock",
    "vmar_map_iob",
    "vmo_create",
    "vmo_create_child",
    "vmo_create_contiguous",
    "vmo_op_range",
    "vproc_start",
    "vproc_map",
];
/// How many handles an attacker may keep.
const HANDLES: usize = 200;

/// A batch for a worker.
pub fn draw(dice: &mut Dice, counts: &Counts, attacker: &Attacker<'_>, which: usize) -> Vec<Laid> {
    let view = &attacker.view;
    let places = |n: usize| attacker.places(which, n);
    let mut batch = Vec::with_capacity(BATCH);
    if which == PARTNER && !dice.one_in(4) {
        let has_channel = [ANSWERED, ASKED].into_iter().all(|slot| attacker.has(PARTNER, slot));
        Recipe::partner(dice, view, counts, &places, &mut batch, has_channel);
        return batch;
    }
    // What it holds is not to grow without end, but for those who want just that.
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
        batch.push(Laid { call: Some(call), function, words: drawn.words, room: drawn.room });
    }
    batch
}

/// Closes any of its handles.
fn close(dice: &mut Dice, counts: &Counts, attacker: &Attacker<'_>) -> Option<Laid> {
    let call = counts.find("handle_close")?;
    let held = dice.pick(&attacker.view.handles);
    if attacker.view.is_gift(held.value) {
        return None;
    }
    let words = [held.value.into(), 0, 0, 0, 0, 0, 0, 0];
    Some(Laid { call: Some(call), function: Function::Call(counts.table[call].function), words, room: Vec::new() })
}

/// What a thread can do to others without a call: it writes over its own memory, arguments of calls that are under way among
/// it, or changes what the processor keeps for it.
fn disturb(dice: &mut Dice, arena: u64) -> Laid {
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
    Laid { call: None, function: Function::Own(piece), words: [a, b, c, d, 0, 0, 0, 0], room: Vec::new() }
}

/// A selector: nothing, one of those that the kernel has for programs, one of its own, or any.
fn selector(dice: &mut Dice) -> u64 {
    match dice.below(4) {
        0 => dice.below(4),
        1 => dice.below(16) << 3 | 3,
        2 => dice.below(16) << 3,
        _ => dice.below(1 << 16),
    }
}
